//! The hubs that share a database.

use convoke_core::id::HubId;
use convoke_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::words;

/// One hub.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct HubView {
    /// Its id: `hub_id` in the journal.
    #[schema(value_type = String)]
    pub id: HubId,
    /// Its name (`hub.name`).
    pub name: String,
    /// Where other hubs reach it.
    pub address: String,
    /// Whether it runs: its lease lives.
    pub live: bool,
    /// How many links it holds.
    pub links: u64,
    /// Since when it has run, or when it last started.
    #[schema(value_type = words::Time)]
    pub since: Timestamp,
    /// The Ed25519 key that signs its chain of the journal, in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_key: Option<String>,
}

/// The hubs.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct HubList {
    /// By name.
    pub hubs: Vec<HubView>,
}
