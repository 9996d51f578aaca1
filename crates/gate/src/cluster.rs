//! What makes this hub one of several: its lease, the links that it and others hold, and the changes that others make.
//!
//! The database says what is true: who lives, which link stands for a peer, and what changed, in numbers without a gap
//! ([`follow`]). The bus carries calls to the hub that holds a link ([`forward`]) and is told nothing in the clear.

mod calls;
pub mod follow;
pub mod forward;
pub mod held;
pub mod parcels;
mod ready;
pub mod upkeep;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use convoke_bus::{Bus, BusError, Envelope, Subject};
use convoke_core::call::code;
use convoke_core::id::HubId;
use convoke_core::lease::Lease;
use convoke_store::{Announced, Membership, Store, StoreError};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::hub::Hub;
use crate::link::Failure;

pub use calls::tell as tell_call;
pub(crate) use calls::{look as look_at_calls, run as follow_calls};
pub use held::{Coming, Held, Holder};

/// This hub among several.
pub struct Cluster {
    bus: Arc<dyn Bus>,
    envelope: Envelope,
    length: Duration,
    /// Until when it may take and send, in nanoseconds of [`clock::boot`].
    acts_until: AtomicU64,
    announced: Announced,
    /// What waits for other hubs to fetch it.
    pub parcels: parcels::Parcels,
    /// Fetches what waits at others.
    http: reqwest::Client,
    /// The last change that is in force here.
    in_force: AtomicU64,
    /// The turn of who puts changes in force, and when the last one began that has put all in force.
    pub(crate) caught_up: tokio::sync::Mutex<Option<Instant>>,
    /// Changes may have come.
    pub(crate) changed: Arc<Notify>,
    /// What is in force here should be known.
    pub(crate) tell: Notify,
    /// Another has taken this hub's place: it is started anew.
    pub fenced: CancellationToken,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("bus", &self.bus).field("announced", &self.announced).finish_non_exhaustive()
    }
}

/// What [`Cluster::new`] needs.
#[derive(Debug)]
pub struct ClusterInit {
    /// Its place in the database.
    pub of: Membership,
    /// How it reaches the others.
    pub bus: Arc<dyn Bus>,
    /// Fetches from the others what is too large for the bus.
    pub http: reqwest::Client,
    /// How the others reach it.
    pub announced: Announced,
    /// When it asked for its place, by [`clock::boot`].
    pub asked_at: Duration,
}

/// What stands between this hub and the others.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The bus.
    #[error(transparent)]
    Bus(#[from] BusError),
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The lease is not renewed.
    #[error("this hub cannot renew its lease in the database (hub.lease_s) and takes nothing until it can")]
    NoLease,
}

impl Cluster {
    /// This hub, which has its place in the database.
    pub fn new(store: &dyn Store, init: ClusterInit) -> Self {
        let ClusterInit { of, bus, http, announced, asked_at } = init;
        let cluster = Self {
            bus,
            envelope: Envelope::new(&of.key, store.hub_id(), of.epoch),
            length: of.lease,
            acts_until: AtomicU64::new(0),
            announced,
            parcels: parcels::Parcels::default(),
            http,
            in_force: AtomicU64::new(of.in_force),
            caught_up: tokio::sync::Mutex::default(),
            changed: Arc::default(),
            tell: Notify::new(),
            fenced: CancellationToken::new(),
        };
        cluster.granted(asked_at);
        cluster
    }

    /// The lease was granted, and asked for at this time.
    fn granted(&self, asked_at: Duration) {
        let until = Lease::granted(asked_at, self.length).acts_until();
        self.acts_until.fetch_max(u64::try_from(until.as_nanos()).unwrap_or(u64::MAX), Ordering::AcqRel);
    }

    /// Whether this hub may take calls and send them: its lease lives.
    pub fn may_act(&self) -> bool {
        let now = u64::try_from(clock::boot().as_nanos()).unwrap_or(u64::MAX);
        !self.fenced.is_cancelled() && now < self.acts_until.load(Ordering::Acquire)
    }

    /// Whether the bus can be reached.
    pub fn has_bus(&self) -> bool {
        self.bus.is_reachable()
    }

    /// How other hubs reach this one.
    pub const fn announced(&self) -> &Announced {
        &self.announced
    }

    /// The last change that is in force here.
    pub fn in_force(&self) -> u64 {
        self.in_force.load(Ordering::Acquire)
    }

    /// Publishes something for all hubs.
    pub(crate) async fn publish(&self, subject: &Subject, body: &[u8]) {
        let Ok(sealed) = self.envelope.seal(subject, body) else { return };
        if let Err(why) = self.bus.publish(subject, sealed).await {
            tracing::debug!(%why, "cannot publish on the bus");
        }
    }

    /// Opens what came on a subject. Nothing, and a line in the log, when it is not of this cluster or came before.
    pub(crate) fn open(&self, subject: &Subject, sealed: &[u8]) -> Option<(HubId, Bytes)> {
        match self.envelope.open(subject, sealed) {
            Ok(opened) => Some((opened.hub, opened.body)),
            Err(why) => {
                tracing::warn!(subject = subject.as_str(), %why, "dropped a message on the bus");
                None
            }
        }
    }
}

impl Hub {
    /// Whether this hub may take calls and send them: it is alone, or its lease lives.
    pub fn may_act(&self) -> bool {
        self.cluster.as_ref().is_none_or(|cluster| cluster.may_act())
    }

    /// Why it may not, for who waits for a call.
    pub fn no_lease() -> Failure {
        Failure::new(code::OFFLINE, format!("the call was not sent: {}", ClusterError::NoLease))
    }
}
