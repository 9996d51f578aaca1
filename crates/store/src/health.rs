//! How the fleet's health changed.

use async_trait::async_trait;
use convoke_core::health::Overall;
use convoke_core::id::PeerId;
use convoke_core::time::Timestamp;

use crate::store::Result;

/// What an agent's health was from a moment on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthRow {
    /// Whose.
    pub agent: PeerId,
    /// From when on.
    pub at: Timestamp,
    /// The worst of its sections.
    pub overall: Overall,
    /// Status per section, JSON text `{"disk":"ok",…}`.
    pub sections: String,
    /// Of each section that is not well, since when and what it was before, JSON text.
    pub since: String,
}

/// The history of health.
#[async_trait]
pub trait Health: Send + Sync {
    /// What each agent's health was at `from`, and each change after that until `to`: by agent, in order. Of one agent, or
    /// of all. At most so many; the oldest are left out.
    async fn health_changes(
        &self,
        agent: Option<&PeerId>,
        from: Timestamp,
        to: Timestamp,
        limit: u32,
    ) -> Result<Vec<HealthRow>>;
}
