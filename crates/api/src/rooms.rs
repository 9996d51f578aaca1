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
    /// How they entered: `key`, `invite`, `operator`, `issuer`, `credit`, `open`.
    pub via: String,
    /// `present`, `in` (not in the roster), `waiting` or `away`.
    pub state: String,
    /// Whether they may moderate.
    pub host: bool,
    /// Whether they were kicked.
    pub kicked: bool,
    /// `paused` (perceives nothing but who is there, and does nothing) or `silenced` (perceives only); absent if they are not held back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<String>,
    /// What the agent says that it is doing: `listening`, `thinking`, `speaking`, `working`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doing: Option<String>,
    /// Whether they are in a mesh room over the relay: the hub speaks for them, and can read what they hear and say.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bridged: bool,
    /// The grant, whether or not they are held back.
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
    /// `joined`, `left`, `blocked`, `granted`, `expired`, `admitted`, `denied`, `kicked`, `paused`, `silenced`, `resumed`, `agent`, `lapsed`.
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
    /// What of the fleet is posted into it: `findings`, `approvals`, `offline`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub posts: Vec<String>,
    /// The agent that has the floor, if one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor: Option<String>,
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
    /// Standing policies and credits; only when one room is requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admission: Option<Admission>,
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

/// A change of how a participant is treated. Exactly one field.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ParticipantChange {
    /// `paused`: they perceive nothing but who is there, and do nothing. `silenced`: they perceive, and say and do nothing. `none`: they go
    /// on, with the grant that they have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<String>,
    /// `true`: they are an agent, whatever they say of themselves. There is no way back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub agent: bool,
}

/// Who may enter besides the holders of keys and invites, and what agents pay with. It replaces what there was.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Admission {
    /// Standing policies: an agent for whom one of these issuers vouches enters without a step of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub issuers: Vec<Issuer>,
    /// If present, agents must bring a credit, and a new one before it runs out. Operators' agents need none.
    #[serde(default, deserialize_with = "object::optional", skip_serializing_if = "Option::is_none")]
    pub credits: Option<Credits>,
}

/// A standing policy. Give `jwks_uri` or `jwks`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Issuer {
    /// The issuer, as `iss` of its tokens has it.
    pub issuer: String,
    /// The https address at which it publishes its keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwks_uri: Option<String>,
    /// Its keys, as a JWK set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub jwks: Option<serde_json::Value>,
    /// For whom its tokens must be made (`aud`).
    pub audience: String,
    /// What claims must be, `sub` among them: exact, or with one `*` at the end.
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub claims: std::collections::BTreeMap<String, String>,
    /// Whether a token must be bound to the connection by its `nonce`. One that has a `nonce` is held to it in any case.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bound: bool,
    /// The grant of its agents. Default: to read.
    #[serde(default, deserialize_with = "object::optional", skip_serializing_if = "Option::is_none")]
    pub caps: Option<GrantChange>,
    /// A label for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// What agents pay with: JWTs (RS256) of these issuers, for this room. Give `jwks_uri` or `jwks`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Credits {
    /// Whose credits count.
    pub issuers: Vec<String>,
    /// The https address at which the keys are published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwks_uri: Option<String>,
    /// The keys, as a JWK set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub jwks: Option<serde_json::Value>,
    /// What the claim `k` must be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
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
    /// Whether its holder is an agent, whatever they say of themselves.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub agent: bool,
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

/// What is posted into a room from now on.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Posts {
    /// `findings`, `approvals`, `offline`; none for nothing.
    pub posts: Vec<String>,
}

/// For which room TURN servers are asked for.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct TurnQuery {
    /// The room.
    pub room: Option<String>,
}

/// TURN servers, as browsers take them.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct IceServers {
    /// The servers; none if the hub has none.
    #[serde(rename = "iceServers")]
    pub ice_servers: Vec<IceServer>,
}

/// A TURN server.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct IceServer {
    /// Its addresses, as in `turn:turn.example:3478`.
    pub urls: Vec<String>,
    /// The user.
    pub username: String,
    /// Its password.
    pub credential: String,
}

impl std::fmt::Debug for IceServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IceServer").field("urls", &self.urls).finish_non_exhaustive()
    }
}
