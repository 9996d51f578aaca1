//! The hub's shared state: one cheap handle that every door and every task holds.

use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use convoke_core::id::PeerId;
use convoke_core::journal::Draft;
use convoke_core::secret::SecretBytes;
use convoke_core::time::Timestamp;
use convoke_socket::drive::Clock;
use convoke_store::Store;
use ed25519_dalek::SigningKey;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::agents::Agents;
use crate::agents::budget::{Budgets, Omitted, Record};
use crate::answers::Answers;
use crate::calls::{Adapters, Deadlines, MaxWaiting, Recent};
use crate::clock;
use crate::cluster::Cluster;
use crate::events::Events;
use crate::fleet::changes::Changes;
use crate::grants::TimeBoxed;
use crate::metrics::{Gauges, Metrics};
use crate::notices::Notices;
use crate::operators::Operators;
use crate::part;
use crate::policy::Policy;
use crate::refusals::Refusals;
use crate::settings::Settings;
use crate::shares::{Share, Shares};
use crate::strangers::Strangers;

/// A handle on the hub.
#[derive(Clone, Debug)]
pub struct Hub(Arc<HubState>);

/// What all doors share.
#[derive(Debug)]
pub struct HubState {
    /// The settings in force.
    pub settings: Settings,
    /// Where things are kept.
    pub store: Arc<dyn Store>,
    /// The data directory.
    pub data: PathBuf,
    /// The hub's key, of which agents pin the public half.
    pub key: SigningKey,
    /// The agents.
    pub agents: Agents,
    /// The operators' tokens.
    pub operators: Operators,
    /// Deny rules and confirm rules.
    pub policy: Policy,
    /// The protocols, as the gate sees them.
    pub adapters: Adapters,
    /// Calls.
    pub calls: Recent,
    /// The memory that answers of machines take.
    pub answers: Answers,
    /// How long calls may take.
    pub deadlines: Deadlines,
    /// What other crates keep beside the gate.
    pub parts: part::Parts,
    /// What happens, for whoever watches.
    pub events: Arc<Events>,
    /// Time-boxed grants.
    pub grants: TimeBoxed,
    /// Where people's notices go.
    pub notices: Notices,
    /// How the fleet's health changes.
    pub health: Changes,
    /// Refusals of strangers.
    pub strangers: Strangers,
    /// Refusals of known callers.
    pub refusals: Refusals,
    /// Connections of those who have not shown yet who they are, shared out per address.
    pub unproven: Arc<Shares>,
    /// How much each kenny agent may log and push.
    pub budgets: Budgets,
    /// What makes it one of several hubs, where it is.
    pub cluster: Option<Arc<Cluster>>,
    /// Counters.
    pub metrics: Metrics,
    /// The hub stops: no new calls, no new connections.
    pub stopping: CancellationToken,
    /// Calls and what must be finished before the store closes.
    pub tasks: TaskTracker,
    /// The turn of one who makes a backup.
    pub backups: Arc<Semaphore>,
    /// Open connections.
    pub connections: AtomicUsize,
    /// Where it listens.
    pub listen: SocketAddr,
    /// Whether it serves TLS.
    pub tls: bool,
    /// What every call is held to.
    pub limits: CallLimits,
    digest_key: HmacSha256,
    started: Instant,
}

/// Settings that every call needs, looked up once.
#[derive(Clone, Copy, Debug)]
pub struct CallLimits {
    /// Calls a minute that a token may place when its scopes do not say.
    pub per_minute: u32,
    /// Calls under way that a token may have when its scopes do not say.
    pub at_once: u32,
    /// Largest body of a request.
    pub body: usize,
    /// Largest result that is kept with its call.
    pub result_kept: usize,
}

impl Deref for Hub {
    type Target = HubState;

    fn deref(&self) -> &HubState {
        &self.0
    }
}

/// What [`Hub::new`] needs besides the defaults.
#[derive(Debug)]
pub struct HubInit {
    /// The settings.
    pub settings: Settings,
    /// The store.
    pub store: Arc<dyn Store>,
    /// The data directory.
    pub data: PathBuf,
    /// The hub's key.
    pub key: SigningKey,
    /// The key of argument digests.
    pub digest_key: SecretBytes,
    /// Agents, as stored.
    pub agents: Agents,
    /// Tokens, as stored.
    pub operators: Operators,
    /// Rules, as stored.
    pub policy: Policy,
    /// The protocols that this hub speaks.
    pub adapters: Adapters,
    /// What other crates keep beside the gate.
    pub parts: part::Parts,
    /// What makes it one of several hubs, where it is.
    pub cluster: Option<Cluster>,
    /// Where it listens.
    pub listen: SocketAddr,
    /// Whether it serves TLS.
    pub tls: bool,
}

/// HMAC-SHA-256 (RFC 2104) with its key.
pub type HmacSha256 = Hmac<Sha256>;

/// Takes a key of any length.
pub fn hmac_sha256(key: &[u8]) -> HmacSha256 {
    HmacSha256::new_from_slice(key).expect("HMAC takes a key of any length")
}

impl Hub {
    /// Puts the parts together.
    pub fn new(init: HubInit) -> Self {
        let HubInit { settings, store, data, key, digest_key, agents, operators, policy, .. } = init;
        let HubInit { adapters, parts, cluster, listen, tls, .. } = init;
        let deadlines = Deadlines {
            default: settings.calls.default_timeout_s,
            grace: settings.calls.grace_s,
            max: settings.calls.max_timeout_s,
        };
        let limits = CallLimits {
            per_minute: settings.tokens.calls_per_minute,
            at_once: settings.tokens.concurrent_calls,
            body: settings.hub.max_body_bytes,
            result_kept: settings.calls.max_result_bytes_kept,
        };
        let metrics = Metrics::new(&parts);
        let (all, per_token) = (settings.events.max_streams, settings.events.max_streams_per_token);
        let events = Arc::new(Events::new(store.hub_id(), all, per_token));
        let unproven = Shares::new(settings.hub.max_connections);
        let observer = Arc::clone(&events);
        store.on_committed(Box::new(move |item| observer.committed(item)));
        Self(Arc::new(HubState {
            limits,
            metrics,
            cluster: cluster.map(Arc::new),
            adapters,
            parts,
            calls: Recent::new(
                settings.hub.max_concurrent_calls,
                MaxWaiting { all: settings.approvals.max_waiting, of_one: settings.approvals.max_waiting_per_token },
            ),
            answers: Answers::new(settings.calls.max_answer_bytes_held),
            events,
            settings,
            store,
            data,
            key,
            agents,
            operators,
            policy,
            deadlines,
            grants: TimeBoxed::default(),
            notices: Notices::default(),
            health: Changes::default(),
            strangers: Strangers::default(),
            refusals: Refusals::default(),
            unproven,
            budgets: Budgets::default(),
            stopping: CancellationToken::new(),
            tasks: TaskTracker::new(),
            backups: Arc::new(Semaphore::new(1)),
            connections: AtomicUsize::new(0),
            listen,
            tls,
            digest_key: hmac_sha256(digest_key.reveal()),
            started: clock::steady(),
        }))
    }

    /// The hub's own clock: it only goes forward, so that a wall clock set back cannot hold a dead call open.
    pub fn mono(&self) -> Duration {
        clock::steady().saturating_duration_since(self.started)
    }

    /// The clock behind [`Self::mono`].
    pub fn clock(&self) -> Clock {
        Clock::since(self.started)
    }

    /// What the wall clock would have shown when the hub's clock showed `mono`.
    pub fn wall(&self, mono: Duration) -> Timestamp {
        let ago = i64::try_from(self.mono().saturating_sub(mono).as_millis()).unwrap_or(i64::MAX);
        Timestamp::from_millis(clock::now().millis().saturating_sub(ago))
    }

    /// When the hub's clock shows `mono`.
    pub fn instant(&self, mono: Duration) -> Instant {
        self.started.checked_add(mono).unwrap_or_else(|| clock::steady() + Duration::from_secs(86_400))
    }

    /// The public key that agents pin.
    pub fn public_key(&self) -> String {
        STANDARD.encode(self.key.verifying_key().as_bytes())
    }

    /// The keyed digest of a call's exact arguments. Keyed, because a plain hash in an exported journal would let
    /// anyone test guesses of a password among the arguments.
    pub fn digest(&self, bytes: &[u8]) -> String {
        let digest = self.digest_key.clone().chain_update(bytes).finalize().into_bytes();
        format!("hmac-sha256:{}", hex::encode(digest))
    }

    /// Where agents and people reach the hub.
    pub fn base_url(&self) -> String {
        match self.settings.hub.public_url.as_deref() {
            Some(url) => url.to_owned(),
            None => format!("{}://{}", if self.tls { "https" } else { "http" }, self.listen),
        }
    }

    /// Where people open the page. A passkey needs a name and no address, so on this machine it is `localhost`.
    pub fn page_url(&self) -> String {
        let ip = self.listen.ip();
        if self.settings.hub.public_url.is_none() && (ip.is_loopback() || ip.is_unspecified()) {
            return format!("{}://localhost:{}", if self.tls { "https" } else { "http" }, self.listen.port());
        }
        self.base_url()
    }

    /// A share for the connection of somebody who has not shown yet who they are: of one address they leave as many as they
    /// take.
    pub fn share_for_stranger(&self, from: IpAddr) -> Option<Share> {
        let proven = self.connections.load(Ordering::Relaxed).saturating_sub(self.unproven.count());
        self.unproven.take_beside(from, proven)
    }

    /// Takes a record that nobody waits for; a failure is logged.
    pub async fn note(&self, record: Draft) {
        if let Err(why) = self.store.enqueue(convoke_store::Lossy::Record(record)).await {
            tracing::error!(%why, "cannot write a journal record");
        }
    }

    /// Whether the log tells one more thing of a peer, and what that line says of those that are missing. For whatever a
    /// peer can cause by itself, as often as it connects or sends something.
    pub fn tells_of(&self, peer: &PeerId) -> Option<Omitted> {
        let note = self.budgets.keep(peer, Record::LogLine, clock::now().millis());
        if note.is_none() {
            self.metrics.dropped("hub_log_lines", 1);
        }
        note
    }

    /// The part of this type. Every crate asks for its own, which is put in before the hub serves anything.
    pub fn part<T: part::Part>(&self) -> Arc<T> {
        self.parts.of().expect("a crate's part is put into the hub before its doors are opened")
    }

    /// Numbers that are read when someone asks.
    pub fn gauges(&self) -> Gauges {
        let store = self.store.stats();
        let link_queue = self.agents.list(None).iter().filter_map(|a| a.link()).map(|l| l.depth()).sum();
        Gauges {
            agents: self.agents.count(),
            links: self.agents.online(),
            calls_running: self.calls.running(),
            calls_waiting: self.calls.waiting(),
            answer_bytes_held: self.answers.held(),
            link_queue,
            store_queue: store.queued,
            store_commits: store.commits,
            store_writes: store.writes,
            store_lost: store.lost,
            store_failing: store.failing,
            journal_seq: store.journal_seq,
            connections_open: self.connections.load(Ordering::Relaxed),
            parts: self.parts.iter().flat_map(|part| part.gauges()).collect(),
        }
    }
}
