//! What waits for a person.

use convoke_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::approvals::ApprovalView;
use crate::words;

/// Everything that waits for whoever asks, and that they may decide or should look at.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Inbox {
    /// Calls that wait for a person and are theirs to decide, newest first.
    pub approvals: Vec<ApprovalView>,
    /// Clients that ask to be paired.
    pub pairings: Vec<Waiting>,
    /// People who wait in the lobby of a room.
    pub lobby: Vec<Waiting>,
    /// Agents that are not what they were when they enrolled.
    pub attestation: Vec<Waiting>,
    /// Sections of an agent's health that are not well (`detail`: `agent`, `section`, `status`, `before`), and what runbooks
    /// found within a day (`agent`, `runbook`, `status`, `titles`, `run`: its id); the worst first.
    pub findings: Vec<Waiting>,
    /// There is more than is listed here.
    pub more: bool,
}

/// One thing that waits.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Waiting {
    /// Its id: of the client, the participant, the agent.
    pub id: String,
    /// What it is about, in somebody else's words: data, not a sentence of the hub's.
    pub subject: String,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<words::Time>)]
    pub at: Option<Timestamp>,
    /// Until when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<words::Time>)]
    pub until: Option<Timestamp>,
    /// What else is known: a key's fingerprint, the room, what changed, the section and its status.
    #[schema(value_type = Object)]
    pub detail: Value,
}
