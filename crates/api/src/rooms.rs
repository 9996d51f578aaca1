//! Rooms: who may come, who is there, who may what.

use convoke_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::{object, words};

/// A room to create.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewRoom {
    /// Its name; capitals, spaces and the like become hyphens.
    pub name: String,
    /// `relay` (by default): content goes through the hub. `mesh`: directly between participants, over WebRTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
    /// Whether anybody may enter. Default: no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<bool>,
    /// Whether a host decides about guests. Default: no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lobby: Option<bool>,
    /// Keys of agents that may enter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agent_keys: Vec<NewAgentKey>,
}

/// An agent's key.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewAgentKey {
    /// The public key, a JWK: `{"kty":"EC","crv":"P-256","x","y"}`.
    #[schema(value_type = Object)]
    pub key: serde_json::Value,
    /// The holder's grant. Default: to read.
    #[serde(default, deserialize_with = "object::optional", skip_serializing_if = "Option::is_none")]
    pub caps: Option<GrantChange>,
    /// A label for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// A change of a grant. An absent list stays unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GrantChange {
    /// Of `see-screen`, `hear-audio`, `read-chat`, `read-roster`, `receive-directed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub perceive: Option<Vec<String>>,
    /// Of `send-chat`, `speak`, `act`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub act: Option<Vec<String>>,
    /// When the grant expires. Absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<words::Time>)]
    pub expires_at: Option<Timestamp>,
    /// Reset to the default; cannot be combined with other fields.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub default: bool,
}

/// A grant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GrantView {
    /// What the participant may perceive.
    pub perceive: Vec<String>,
    /// What the participant may do.
    pub act: Vec<String>,
    /// When the grant expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<words::Time>)]
    pub expires_at: Option<Timestamp>,
    /// Whether it was set; otherwise it is the default.
    pub explicit: bool,
    /// The model that sees what this agent perceives, as the agent declares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// Whether what it perceives leaves the room.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub egress: bool,
}

/// A participant of a room, present or known.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ParticipantView {
    /// The participant's id.
    pub id: String,
    /// The name.
    pub name: String,
    /// `human` or `agent`; empty if unknown.
    pub kind: String,
    /// How they entered: `key`, `invite`, `operator`, `open`.
    pub via: String,
    /// `present`, `in` (not in the roster), `waiting` or `away`.
    pub state: String,
    /// Whether they may moderate.
    pub host: bool,
    /// Whether they were kicked.
    pub kicked: bool,
    /// The grant.
    pub grant: GrantView,
}

/// An agent key that a room knows.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AgentKeyView {
    /// The key's thumbprint (RFC 7638).
    pub thumbprint: String,
    /// Its holder's id in the room.
    pub participant: String,
    /// A label for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// A line of a room's own log.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct RoomAudit {
    /// The time.
    #[schema(value_type = words::Time)]
    pub at: Timestamp,
    /// The participant.
    pub participant: String,
    /// `joined`, `left`, `blocked`, `granted`, `expired`, `admitted`, `denied`, `kicked`.
    pub kind: String,
    /// The details.
    pub detail: String,
}

/// A room.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct RoomView {
    /// Its name.
    pub name: String,
    /// `relay`.
    pub transport: String,
    /// Whether anybody may enter.
    pub open: bool,
    /// Whether a host decides about guests.
    pub lobby: bool,
    /// Whether the room is locked.
    pub locked: bool,
    /// When it was created.
    #[schema(value_type = words::Time)]
    pub created_at: Timestamp,
    /// The address for participants.
    pub relay: String,
    /// The number of participants in the roster.
    pub present: usize,
    /// Its agents' keys.
    pub agent_keys: Vec<AgentKeyView>,
    /// All known participants, present ones first; only when one room is requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub participants: Option<Vec<ParticipantView>>,
    /// The room's log since the hub started, oldest first; only when one room is requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<Vec<RoomAudit>>,
    /// The link with the room's public key and manifest; only when one room is requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// The signed list of agent keys, if there are any; only when one room is requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<String>,
    /// The host's invite: its holder may enter and moderate. Only in the answer that created the room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_invite: Option<String>,
}

/// Without secrets.
impl std::fmt::Debug for RoomView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RoomView").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What somebody who wants to enter a room has to know.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct RoomDoor {
    /// Its name.
    pub name: String,
    /// `relay` or `mesh`.
    pub transport: String,
    /// Whether anybody may enter; otherwise a credential is needed.
    pub open: bool,
}

/// A page of rooms.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct RoomList {
    /// The rooms, by name.
    pub rooms: Vec<RoomView>,
    /// Pass as `after` for the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A query for rooms.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct RoomQuery {
    /// Only entries after this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Most entries to return (1 to 1000; 100 by default).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// A participant to remove.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Kick {
    /// The participant's id.
    pub participant: String,
}

/// A decision about a waiting participant.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Admit {
    /// The participant's id.
    pub participant: String,
    /// Whether to admit them; also reverts a kick.
    pub admit: bool,
}

/// An invite to create.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewInvite {
    /// The holder's name.
    pub name: String,
    /// Whether its holder may moderate.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub host: bool,
    /// How long it is valid; a day by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_s: Option<u64>,
}

/// An invite. Whoever has it may enter.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct InviteView {
    /// Its id, by which it is revoked: the SHA-256 of its text.
    pub id: String,
    /// The invite.
    pub invite: String,
    /// When it expires.
    #[schema(value_type = words::Time)]
    pub expires_at: Timestamp,
}

impl std::fmt::Debug for InviteView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InviteView").field("expires_at", &self.expires_at).finish_non_exhaustive()
    }
}
