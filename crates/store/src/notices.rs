//! Where people's notices go, and which were sent.

use async_trait::async_trait;
use convoke_core::id::{ChannelId, TokenId};
use convoke_core::journal::Draft;
use convoke_core::secret::SecretBytes;
use convoke_core::time::Timestamp;

use crate::store::Result;

/// One channel of a person's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelRow {
    /// Its id.
    pub id: ChannelId,
    /// Whose.
    pub user: TokenId,
    /// `push`, `ntfy` or `webhook`.
    pub kind: String,
    /// What its user calls it.
    pub name: String,
    /// Where to, as JSON text; sealed at rest.
    pub target: SecretBytes,
    /// When it was added.
    pub created_at: Timestamp,
}

/// The channels, and what was sent.
#[async_trait]
pub trait Notices: Send + Sync {
    /// All channels, oldest first.
    async fn channels(&self) -> Result<Vec<ChannelRow>>;
    /// Keeps one.
    async fn put_channel(&self, channel: ChannelRow, record: Draft) -> Result<()>;
    /// Removes one. False when unknown; nothing is recorded then.
    async fn remove_channel(&self, id: ChannelId, record: Draft) -> Result<bool>;
    /// Notes that this is about to be sent there. False when it was noted before.
    async fn claim_notice(&self, channel: ChannelId, handle: &str, now: Timestamp) -> Result<bool>;
}
