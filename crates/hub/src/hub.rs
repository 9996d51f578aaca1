//! The hub's shared state: one cheap handle that every door and every task holds.

use std::net::SocketAddr;
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
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::agents::Agents;
use crate::agents::budget::{Budgets, Note, Record};
use crate::answers::Answers;
use crate::calls::{Deadlines, MaxWaiting, Recent};
use crate::changes::Changes;
use crate::clock;
use crate::downloads::Downloads;
use crate::key::HubKey;
use crate::mcp::Sessions;
use crate::metrics::{Gauges, Metrics};
use crate::operators::Operators;
use crate::policy::Policy;
use crate::rooms::Rooms;
use crate::settings::Settings;
use crate::sonde::Sonde;
use crate::sonde::registry::Registry;
use crate::strangers::Strangers;
use crate::ws::Budget;
use crate::yonexus::Yonexus;

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
    pub key: HubKey,
    /// The agents.
    pub agents: Agents,
    /// The operators' tokens.
    pub operators: Operators,
    /// Deny rules and confirm rules.
    pub policy: Policy,
    /// Calls.
    pub calls: Recent,
    /// Room for what machines answer.
    pub answers: Answers,
    /// Room for large messages of peers.
    pub arrivals: Arc<Budget>,
    /// How long calls may take.
    pub deadlines: Deadlines,
    /// MCP sessions.
    pub mcp: Arc<Sessions>,
    /// What changed about agents, for whoever watches.
    pub changes: Changes,
    /// Yonexus: clients, pairings, rules.
    pub yonexus: Yonexus,
    /// Rooms.
    pub rooms: Rooms,
    /// Refusals of strangers.
    pub strangers: Strangers,
    /// How much each kenny agent may log and push.
    pub budgets: Budgets,
    /// What is particular to Sonde agents.
    pub sonde: Sonde,
    /// Short-lived download links.
    pub downloads: Downloads,
    /// Counters.
    pub metrics: Metrics,
    /// The hub stops: no new calls, no new connections.
    pub stopping: CancellationToken,
    /// Calls and what must be finished before the store closes.
    pub tasks: TaskTracker,
    /// Open connections.
    pub connections: AtomicUsize,
    /// Places for agents that are proving themselves: strangers must not crowd out those that are in.
    pub handshakes: Arc<Semaphore>,
    /// Where it listens.
    pub listen: SocketAddr,
    /// Whether it serves TLS.
    pub tls: bool,
    /// What every call is held to.
    pub limits: CallLimits,
    digest_key: Hmac,
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
pub struct Parts {
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
    /// Yonexus, as stored.
    pub yonexus: Yonexus,
    /// Rooms, as stored.
    pub rooms: Rooms,
    /// Sonde agents and tokens, as stored.
    pub sonde: Registry,
    /// Where it listens.
    pub listen: SocketAddr,
    /// Whether it serves TLS.
    pub tls: bool,
}

/// A key of HMAC-SHA-256 (RFC 2104), ready for use: both hashes have taken it in.
#[derive(Clone)]
pub(crate) struct Hmac {
    inner: Sha256,
    outer: Sha256,
}

impl std::fmt::Debug for Hmac {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hmac")
    }
}

impl Hmac {
    pub(crate) fn new(key: &[u8]) -> Self {
        let mut block = [0u8; 64];
        // A key that is longer than a block counts as its hash.
        let hashed: [u8; 32];
        let key = if key.len() > block.len() {
            hashed = Sha256::digest(key).into();
            &hashed[..]
        } else {
            key
        };
        block[..key.len()].copy_from_slice(key);
        let with = |pad: u8| Sha256::new().chain_update(block.map(|b| b ^ pad));
        Self { inner: with(0x36), outer: with(0x5c) }
    }

    pub(crate) fn of(&self, bytes: &[u8]) -> [u8; 32] {
        let inner = self.inner.clone().chain_update(bytes).finalize();
        self.outer.clone().chain_update(inner).finalize().into()
    }
}

impl Hub {
    /// Puts the parts together.
    pub fn new(parts: Parts) -> Self {
        let Parts { settings, store, data, key, digest_key, agents, operators, policy, .. } = parts;
        let Parts { yonexus, rooms, sonde, listen, tls, .. } = parts;
        let deadlines = Deadlines {
            default: settings.seconds("calls.default_timeout_s"),
            grace: settings.seconds("calls.grace_s"),
            max: settings.seconds("calls.max_timeout_s"),
        };
        let limits = CallLimits {
            per_minute: u32::try_from(settings.number("tokens.calls_per_minute")).unwrap_or(u32::MAX),
            at_once: u32::try_from(settings.number("tokens.concurrent_calls")).unwrap_or(u32::MAX),
            body: settings.size("hub.max_body_bytes"),
            result_kept: settings.size("calls.max_result_bytes_kept"),
        };
        Self(Arc::new(HubState {
            limits,
            calls: Recent::new(
                settings.size("hub.max_concurrent_calls"),
                MaxWaiting {
                    all: settings.size("approvals.max_waiting"),
                    of_one: settings.size("approvals.max_waiting_per_token"),
                },
            ),
            answers: Answers::new(settings.size("calls.max_answer_bytes_held")),
            arrivals: Budget::new(settings.size("hub.max_bytes_arriving")),
            downloads: Downloads::default(),
            mcp: Arc::new(Sessions::new(&settings)),
            changes: Changes::default(),
            sonde: Sonde::new(sonde),
            handshakes: Arc::new(Semaphore::new(settings.size("kenny.max_handshakes"))),
            settings,
            store,
            data,
            key: HubKey::new(&key),
            agents,
            operators,
            policy,
            yonexus,
            rooms,
            deadlines,
            strangers: Strangers::default(),
            budgets: Budgets::default(),
            metrics: Metrics::default(),
            stopping: CancellationToken::new(),
            tasks: TaskTracker::new(),
            connections: AtomicUsize::new(0),
            listen,
            tls,
            digest_key: Hmac::new(digest_key.reveal()),
            started: Instant::now(),
        }))
    }

    /// The hub's own clock: it only goes forward, so that a wall clock set back cannot hold a dead call open.
    pub fn mono(&self) -> Duration {
        self.started.elapsed()
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
        self.started.checked_add(mono).unwrap_or_else(|| Instant::now() + Duration::from_secs(86_400))
    }

    /// The public key that agents pin.
    pub fn public_key(&self) -> String {
        STANDARD.encode(self.key.verifying_key().as_bytes())
    }

    /// The keyed digest of a call's exact arguments. Keyed, because a plain hash in an exported journal would let
    /// anyone test guesses of a password among the arguments.
    pub fn digest(&self, bytes: &[u8]) -> String {
        let mut digits = [0; 64];
        hex::encode_to_slice(self.digest_key.of(bytes), &mut digits).expect("32 bytes are 64 hexadecimal digits");
        let digits = std::str::from_utf8(&digits).expect("hexadecimal digits are ASCII");
        ["hmac-sha256:", digits].concat()
    }

    /// Where agents and people reach the hub.
    pub fn base_url(&self) -> String {
        match self.settings.text("hub.public_url") {
            Some(url) => url.to_owned(),
            None => format!("{}://{}", if self.tls { "https" } else { "http" }, self.listen),
        }
    }

    /// Takes a record that nobody waits for; a failure is told in the log.
    pub async fn note(&self, record: Draft) {
        if let Err(why) = self.store.enqueue(convoke_store::Lossy::Record(record)).await {
            tracing::error!(%why, "a record was not taken");
        }
    }

    /// Whether the log tells one more thing of a peer, and what that line says of those that are missing. For whatever a
    /// peer can cause by itself, as often as it connects or sends something.
    pub(crate) fn tells_of(&self, peer: &PeerId) -> Option<Note> {
        let note = self.budgets.keep(peer, Record::LogLine, clock::now().millis());
        if note.is_none() {
            self.metrics.dropped("hub_log_lines", 1);
        }
        note
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
            bytes_arriving: self.arrivals.held(),
            link_queue,
            store_queue: store.queued,
            store_commits: store.commits,
            store_writes: store.writes,
            store_lost: store.lost,
            store_failing: store.failing,
            journal_seq: store.journal_seq,
            tail_records: store.tail_records,
            tail_open: store.tail_open,
            connections_open: self.connections.load(Ordering::Relaxed),
        }
    }
}
