//! The hubs that share a database: leases, links, and the numbered changes that each of them follows.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use convoke_core::id::{HubId, PeerId};
use convoke_core::journal::Draft;
use convoke_core::secret::SecretBytes;
use convoke_core::time::Timestamp;

use crate::store::Result;
use crate::{AgentRow, CallRow};

/// What makes this hub one of several.
#[derive(Clone, Debug)]
pub struct Membership {
    /// The key that the hubs of this database share.
    pub key: SecretBytes,
    /// In which of its epochs this hub is.
    pub epoch: u64,
    /// How long its lease is.
    pub lease: Duration,
    /// The number of the last change when it took its place: what it reads from now on has all of them.
    pub in_force: u64,
}

/// How other hubs reach this one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Announced {
    /// `http://host:port` or `https://host:port`.
    pub address: String,
    /// SHA-256 of its TLS certificate.
    pub pin: Option<[u8; 32]>,
}

/// A hub.
#[derive(Clone, Debug)]
pub struct HubRow {
    /// Its id, as in the journal.
    pub id: HubId,
    /// Its name.
    pub name: String,
    /// How others reach it.
    pub announced: Announced,
    /// The public half of the key that signs its chain.
    pub public_key: Option<[u8; 32]>,
    /// How often it was taken.
    pub epoch: u64,
    /// Since when it runs, or ran.
    pub since: Timestamp,
    /// Whether its lease lives.
    pub is_live: bool,
    /// Whether its lease is over, and others have yet to end what it left open.
    pub has_lapsed: bool,
    /// The last change that it has put in force.
    pub in_force: u64,
    /// The links it holds.
    pub links: u64,
}

/// A link that stands for a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerLink {
    /// Whose.
    pub peer: String,
    /// Which.
    pub epoch: u64,
    /// The hub that holds it.
    pub hub: HubId,
    /// Since when.
    pub since: Timestamp,
    /// What other hubs show of it: JSON text.
    pub facts: String,
    /// Whether that hub's lease lives.
    pub is_live: bool,
}

/// One change of what hubs keep in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeRow {
    /// Its number; numbers are in the order of commits and have no gaps.
    pub num: u64,
    /// Of what kind: the name that the table of triggers has for it.
    pub what: String,
    /// Of which.
    pub id: String,
    /// Whether this hub made it.
    pub is_own: bool,
}

/// The turn of one hub among all.
pub struct Turn(#[expect(dead_code, reason = "what it holds ends with it")] Option<Box<dyn Send>>);

impl Turn {
    /// Nobody else could have one.
    pub(crate) const fn alone() -> Self {
        Self(None)
    }

    pub(crate) fn holding(held: impl Send + 'static) -> Self {
        Self(Some(Box::new(held)))
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Turn")
    }
}

/// Called when changes may have come.
pub type OnChange = Box<dyn Fn() + Send + Sync>;

/// Hubs, their leases and links, and changes.
#[async_trait]
pub trait Hubs: Send + Sync {
    /// What makes this hub one of several; none where it has its database alone.
    fn membership(&self) -> Option<Membership>;
    /// All hubs, by name.
    async fn hubs(&self) -> Result<Vec<HubRow>>;
    /// Renews the lease, and says how this hub is reached and what it has in force. False when another has taken its place.
    async fn renew(&self, announced: Announced, in_force: u64) -> Result<bool>;
    /// Ends the lease: this hub sends nothing any more.
    async fn release(&self) -> Result<()>;
    /// Raises the epoch of a hub whose lease is over, and takes its links away. False when it lives.
    async fn fence(&self, hub: HubId) -> Result<bool>;
    /// The turn of this hub among all, for something that only one may do at a time.
    async fn turn(&self, what: &'static str) -> Result<Turn>;

    /// A number for a new link, larger than any before at any hub.
    async fn next_link(&self) -> Result<u64>;
    /// A link stands for its peer from now on. False when a newer one does.
    async fn claim_link(&self, link: PeerLink) -> Result<bool>;
    /// A link has ended.
    async fn leave_link(&self, peer: &str, epoch: u64) -> Result<()>;
    /// Changes what others show of a link.
    async fn set_link_facts(&self, peer: &str, epoch: u64, facts: String) -> Result<()>;
    /// The links that stand for these peers, or all.
    async fn links(&self, of: Option<Vec<String>>) -> Result<Vec<PeerLink>>;

    /// Changes after this number, in order; a bounded page of them.
    async fn changes(&self, after: u64) -> Result<Vec<ChangeRow>>;
    /// The number of the last change.
    async fn last_change(&self) -> Result<u64>;
    /// Forgets changes that every hub that lives has in force.
    async fn forget_changes(&self) -> Result<()>;
    /// Calls back when changes come, for as long as the store is open. Some calls may come for nothing, and some may be missing
    /// while the server is away.
    fn on_change(&self, call: OnChange) -> Result<()>;
    /// One agent.
    async fn agent(&self, id: &PeerId) -> Result<Option<AgentRow>>;
    /// The drafts of calls of another hub that were announced and never ended.
    async fn open_intents_of(&self, hub: HubId) -> Result<Vec<Draft>>;
    /// Kept calls of another hub that have not ended and wait for nobody.
    async fn stranded_calls_of(&self, hub: HubId) -> Result<Vec<CallRow>>;
}
