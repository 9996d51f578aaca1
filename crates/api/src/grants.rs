//! Time-boxed grants.

use convoke_core::id::GrantId;
use convoke_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::words;

/// Say yes for a while.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GrantRequest {
    /// Which assistant: the name or id of its token.
    pub assistant: String,
    /// Which tool.
    pub tool: String,
    /// On which agent.
    pub agent: String,
    /// For how many seconds (at most 28800, 8 hours).
    pub for_s: u64,
}

/// One grant.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct GrantView {
    /// Its id.
    #[schema(value_type = String)]
    pub id: GrantId,
    /// Which assistant may.
    pub assistant: String,
    /// Whose yes it is.
    pub approver: String,
    /// Which tool.
    pub tool: String,
    /// On which agent.
    pub agent: String,
    /// From when on.
    #[schema(value_type = words::Time)]
    pub created_at: Timestamp,
    /// Until when.
    #[schema(value_type = words::Time)]
    pub expires_at: Timestamp,
}

/// The grants in force.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct GrantList {
    /// Oldest first.
    pub grants: Vec<GrantView>,
}
