//! Rooms: who may come, who is there, who may what.

use convoke_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::{object, words};

/// A room to be made.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewRoom {
    /// Its name; capitals, spaces and the like become hyphens.
    pub name: String,
    /// `relay`: content goes through the hub. The only one there is so far; also when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
    /// Whether anybody may come in. Absent: no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<bool>,
    /// Whether a host decides about guests. Absent: no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lobby: Option<bool>,
    /// Keys of agents that may come in.
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
    /// What its holder may. Absent: what every agent may, which is to read.
    #[serde(default, deserialize_with = "object::optional", skip_serializing_if = "Option::is_none")]
    pub caps: Option<GrantChange>,
    /// Whose it is, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// What somebody may from now on. A list that is absent stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GrantChange {
    /// Of `see-screen`, `hear-audio`, `read-chat`, `read-roster`, `receive-directed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub perceive: Option<Vec<String>>,
    /// Of `send-chat`, `speak`, `act`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub act: Option<Vec<String>>,
    /// From then on nothing of it is left. Absent: it has no end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<words::Time>)]
    pub expires_at: Option<Timestamp>,
    /// Go back to the default instead; goes with nothing else.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub default: bool,
}

/// What somebody may.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GrantView {
    /// What they perceive.
    pub perceive: Vec<String>,
    /// What they may do.
    pub act: Vec<String>,
    /// From then on nothing of it is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<words::Time>)]
    pub expires_at: Option<Timestamp>,
    /// Whether somebody said so; else it is the default.
    pub explicit: bool,
    /// The model that is told what this agent perceives, as it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// What it perceives leaves the room.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub egress: bool,
}

/// Somebody in a room, or known to it.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ParticipantView {
    /// Their id.
    pub id: String,
    /// What they are called.
    pub name: String,
    /// `human` or `agent`; empty for somebody who is away and of whom nothing else is known.
    pub kind: String,
    /// How they got in: `key`, `invite`, `operator`, `open`.
    pub via: String,
    /// `present`, `in` (not in the roster), `waiting` or `away`.
    pub state: String,
    /// Whether they may moderate.
    pub host: bool,
    /// Whether they were kicked.
    pub kicked: bool,
    /// What they may.
    pub grant: GrantView,
}

/// An agent key that a room knows.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AgentKeyView {
    /// The key's name (RFC 7638).
    pub thumbprint: String,
    /// Its holder's id in the room.
    pub participant: String,
    /// Whose it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// A line of a room's own log.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct RoomAudit {
    /// When.
    #[schema(value_type = words::Time)]
    pub at: Timestamp,
    /// About whom.
    pub participant: String,
    /// `joined`, `left`, `blocked`, `granted`, `expired`, `admitted`, `denied`, `kicked`.
    pub kind: String,
    /// What.
    pub detail: String,
}

/// A room.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct RoomView {
    /// Its name.
    pub name: String,
    /// `relay`.
    pub transport: String,
    /// Whether anybody may come in.
    pub open: bool,
    /// Whether a host decides about guests.
    pub lobby: bool,
    /// Whether nobody new is let in.
    pub locked: bool,
    /// When it was made.
    #[schema(value_type = words::Time)]
    pub created_at: Timestamp,
    /// Where participants connect.
    pub relay: String,
    /// How many are in the roster.
    pub present: usize,
    /// Its agents' keys.
    pub agent_keys: Vec<AgentKeyView>,
    /// Everybody it knows, those who are there first; only where one room is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub participants: Option<Vec<ParticipantView>>,
    /// Its own log since the hub started, oldest first; only where one room is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<Vec<RoomAudit>>,
    /// The link with the room's public key and its manifest; only where one room is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// The signed list of agent keys; only where one room is asked for, and where there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<String>,
    /// An invite whose holder may moderate. Only in the answer to making the room: it lets whoever has it in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_invite: Option<String>,
}

/// Without what lets somebody in.
impl std::fmt::Debug for RoomView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RoomView").field("name", &self.name).finish_non_exhaustive()
    }
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

/// Which rooms.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct RoomQuery {
    /// Only after this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// At most so many (1 to 1000, 100 when absent).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// Somebody to remove.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Kick {
    /// Their id.
    pub participant: String,
}

/// Yes or no to somebody who waits.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Admit {
    /// Their id.
    pub participant: String,
    /// Yes: they come in, and a kick is taken back.
    pub admit: bool,
}

/// An invite to be made.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewInvite {
    /// What its holder is called.
    pub name: String,
    /// Whether its holder may moderate.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub host: bool,
    /// How long it is good for; a day when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_s: Option<u64>,
}

/// An invite. Whoever has it gets in.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct InviteView {
    /// The invite.
    pub invite: String,
    /// Until when it is good.
    #[schema(value_type = words::Time)]
    pub expires_at: Timestamp,
}

impl std::fmt::Debug for InviteView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InviteView").field("expires_at", &self.expires_at).finish_non_exhaustive()
    }
}
