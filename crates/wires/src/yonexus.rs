//! The Yonexus door: `/yonexus`. Drives [`convoke_yonexus`]'s machines over sockets, keeps what they decide, tells codes
//! to people and routes rule messages.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`clients`] | the registry: who may pair, who is there, and how trust changes |
//! | `link` | the hub's end of a connection: a bounded queue |
//! | `serve`, `handshake`, `live` | a connection, before and after its proof |
//! | [`pairing`] | what operators decide, and what the clock does |
//! | `notify`, `discord` | who is told a code |
//! | [`rules`] | the rules in force, and where a message goes |
//! | `outbox`, `webhook` | what waits for someone, until they have it |
//! | [`messages`] | reading the inbox and sending, for every door |

pub mod adapter;
pub mod clients;
mod discord;
mod events;
mod handshake;
mod link;
mod live;
pub mod messages;
mod notify;
mod outbox;
pub mod pairing;
pub mod routes;
pub mod rule_routes;
pub mod rules;
mod serve;
pub mod tools;
mod webhook;

use std::sync::{Arc, OnceLock};

use convoke_core::id::PeerId;
use convoke_store::{Store, StoreError};
use convoke_yonexus::Now;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

use crate::Wires;
use convoke_gate::agents::budget::Omitted;
use convoke_gate::clock;
use convoke_gate::operators::throttle::Throttle;
use convoke_gate::settings::Settings;
use convoke_gate::shares::Shares;

pub use clients::Clients;
pub use serve::serve;

/// Failures before a signature that an address may cause in a minute: a stranger who guesses is not listened to.
const MAX_FAILURES: u32 = 60;

/// Everything of Yonexus that the hub holds.
#[derive(Debug)]
pub struct Yonexus {
    /// The clients.
    pub clients: Clients,
    /// The rules.
    pub rules: rules::RuleBook,
    /// Bounds of the outbox, and who is being served from it.
    pub outbox: outbox::Outbox,
    /// Where pairing codes are sent.
    pub notifiers: notify::Notifiers,
    http: OnceLock<reqwest::Client>,
    /// Places for clients that are pairing or proving themselves.
    pub handshakes: Arc<Shares>,
    /// Failures per address.
    pub throttle: Throttle,
    /// Counters.
    pub metrics: Counters,
}

/// No proxy of the environment and no redirects: codes and messages go where the operator said.
fn outward() -> reqwest::Client {
    let builder = || {
        reqwest::Client::builder()
            .connect_timeout(notify::PATIENCE)
            .timeout(notify::PATIENCE)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .user_agent(concat!("convoke/", env!("CARGO_PKG_VERSION")))
    };
    builder().build().unwrap_or_else(|why| {
        // A machine without certificates can still call plain HTTP; HTTPS then fails call by call, and says so.
        tracing::warn!(%why, "found no certificate authorities on this machine");
        builder().tls_certs_only([]).build().expect("without certificates there is nothing of the system to fail on")
    })
}

/// Numbers for `/metrics`, and for tests of what must not happen twice.
#[derive(Debug, Default)]
pub struct Counters {
    /// Rule messages taken from clients.
    pub messages: Counter,
    /// Frames made of rule messages; one message to a hundred clients makes one.
    pub frames: Counter,
    /// Frames handed to connections.
    pub handed: Counter,
    /// Messages that no rule matched.
    pub unmatched: Counter,
    /// Proofs accepted.
    pub authentications: Counter,
}

impl Counters {
    /// Has them shown at `/metrics`.
    pub fn register(&self, registry: &mut Registry) {
        let Self { messages, frames, handed, unmatched, authentications } = self;
        registry.register("messages", "Rule messages accepted", messages.clone());
        registry.register("frames", "Frames created from rule messages", frames.clone());
        registry.register("handed", "Frames passed to connections", handed.clone());
        registry.register("unmatched", "Messages that no rule matched", unmatched.clone());
        registry.register("authentications", "Proofs accepted", authentications.clone());
    }
}

impl Yonexus {
    /// Starts from what is stored.
    pub async fn load(store: &dyn Store, settings: &Settings) -> Result<Self, StoreError> {
        let clients = Clients::load(store.clients().await?, &settings.yonexus.allow);
        let rules = rules::RuleBook::load(store.rules().await?);
        let outbox = outbox::Outbox::load(settings, store.outbox_totals().await?);
        Ok(Self {
            clients,
            rules,
            outbox,
            notifiers: notify::Notifiers::new(settings),
            http: OnceLock::new(),
            handshakes: Shares::new(settings.yonexus.max_handshakes),
            throttle: Throttle::new(MAX_FAILURES),
            metrics: Counters::default(),
        })
    }

    /// Calls out of the hub; made when the first one is due, since most hubs make none.
    pub fn http(&self) -> &reqwest::Client {
        self.http.get_or_init(outward)
    }
}

/// Both clocks of the hub.
pub fn now(hub: &Wires) -> Now {
    Now { wall: clock::now(), mono: hub.mono() }
}

/// Whether the log tells one more thing of a client: see [`Wires::tells_of`].
fn tells_of(hub: &Wires, identifier: &str) -> Option<Omitted> {
    hub.tells_of(&PeerId::parse(&messages::peer(identifier)).ok()?)
}

/// What is due: expired pairings, every second.
pub async fn tick(hub: &Wires) {
    pairing::expire_due(hub).await;
}

/// What is due every minute: what waited too long goes.
pub async fn tidy(hub: &Wires) {
    outbox::lapse(hub).await;
}

/// Tells those who watch here that a client came to another hub, or left it.
pub(crate) fn tell_watchers(hub: &Wires, identifier: &str, status: convoke_yonexus::reason::Status) {
    live::tell_watchers(hub, identifier, status, None);
}

/// The hub stops: closes every connection with that reason.
pub fn stop(hub: &Wires) {
    for client in hub.yonexus.clients.list(None) {
        let notice = convoke_yonexus::answer::disconnect_notice(&client.identifier, "shutdown", now(hub));
        hub.yonexus.clients.close_link(&client, vec![notice.encode()], convoke_yonexus::close::SHUTTING_DOWN);
    }
}

/// Takes up what a stop left: notifications that were not sent, calls to webhooks that wait.
pub fn resume(hub: &Wires) {
    pairing::resume(hub);
    webhook::resume(hub);
}
