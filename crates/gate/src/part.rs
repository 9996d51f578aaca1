//! What crates above the gate keep beside it: a part is made before the hub, and found again by its type.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use convoke_api::inbox::Inbox;
use convoke_core::id::{PeerId, TokenId};
use convoke_store::{PeerLink, StoreError};
use prometheus_client::registry::Registry;

use crate::hub::Hub;
use crate::operators::Caller;

/// A number that is read when someone asks: its name, what it counts, its value.
pub type Gauge = (&'static str, &'static str, u64);

/// Something that another hub changed.
#[derive(Clone, Copy, Debug)]
pub struct Followed<'a> {
    /// Of what kind.
    pub what: &'a str,
    /// Which.
    pub id: &'a str,
}

/// State of a crate above the gate, and what it must hear of.
#[async_trait]
pub trait Part: Any + Debug + Send + Sync {
    /// Its counters.
    fn register(&self, registry: &mut Registry) {
        let _ = registry;
    }

    /// Its numbers, read now.
    fn gauges(&self) -> Vec<Gauge> {
        Vec::new()
    }

    /// A token is out of force.
    fn token_revoked(&self, token: TokenId) {
        let _ = token;
    }

    /// Adds what waits for this caller.
    fn waiting(&self, hub: &Hub, caller: &Caller, inbox: &mut Inbox) {
        let _ = (hub, caller, inbox);
    }

    /// An agent was removed.
    fn agent_removed(&self, agent: &PeerId) {
        let _ = agent;
    }

    /// Another hub changed something: what is in memory of it is read anew.
    async fn follow(&self, hub: &Hub, changed: Followed<'_>) -> Result<(), StoreError> {
        let _ = (hub, changed);
        Ok(())
    }

    /// Which link stands for a peer may have changed.
    async fn link_stands(&self, hub: &Hub, peer: &PeerId, link: Option<&PeerLink>) -> Result<(), StoreError> {
        let _ = (hub, peer, link);
        Ok(())
    }
}

/// All parts.
#[derive(Debug, Default)]
pub struct Parts(Vec<Arc<dyn Part>>);

impl Parts {
    /// With one more.
    #[must_use]
    pub fn with(mut self, part: Arc<dyn Part>) -> Self {
        self.0.push(part);
        self
    }

    /// The part of this type.
    pub fn of<T: Part>(&self) -> Option<Arc<T>> {
        self.0.iter().find_map(|part| {
            let part: Arc<dyn Any + Send + Sync> = Arc::clone(part) as _;
            part.downcast().ok()
        })
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Part>> {
        self.0.iter()
    }
}
