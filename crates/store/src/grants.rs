//! Time-boxed grants: a person's yes for a while.

use async_trait::async_trait;
use convoke_core::id::{GrantId, PeerId, TokenId};
use convoke_core::journal::Draft;
use convoke_core::time::Timestamp;

use crate::store::Result;

/// One grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantRow {
    /// Its id.
    pub id: GrantId,
    /// Which assistant may.
    pub assistant: TokenId,
    /// Whose yes it is.
    pub approver: TokenId,
    /// Which tool.
    pub tool: String,
    /// On which machine.
    pub agent: PeerId,
    /// From when on.
    pub created_at: Timestamp,
    /// Until when.
    pub expires_at: Timestamp,
}

/// The grants.
#[async_trait]
pub trait Grants: Send + Sync {
    /// Those that have not lapsed, oldest first. Those that have are removed.
    async fn grants(&self, now: Timestamp) -> Result<Vec<GrantRow>>;
    /// Keeps one.
    async fn put_grant(&self, grant: GrantRow, record: Draft) -> Result<()>;
    /// Ends one. False when unknown; nothing is recorded then.
    async fn end_grant(&self, id: GrantId, record: Draft) -> Result<bool>;
}
