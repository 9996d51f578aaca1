//! Agents: the list, one of them, enrolment, trust.

use convoke_core::peer::{Liveness, Trust};
use convoke_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use crate::calls::CallReply;
use crate::words;

/// One agent.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Agent {
    /// Its id.
    pub id: String,
    /// The name it enrolled with, where that is not its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The protocol.
    #[schema(value_type = words::Protocol)]
    pub protocol: String,
    /// Whether it is online.
    pub online: bool,
    /// `unpaired`, `pending`, `trusted`, `revoked`.
    #[schema(value_type = words::Trust)]
    pub trust: Trust,
    /// `online`, `unstable`, `offline`.
    #[schema(value_type = words::Liveness)]
    pub liveness: Liveness,
    /// The worst of its sections.
    #[schema(value_type = words::Health)]
    pub health: String,
    /// The facts that it reported when it last connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub meta: Option<Box<RawValue>>,
    /// The protocol version it last connected with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol_version: Option<String>,
    /// `false` while remote control is switched off at the endpoint; absent when the agent does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote_control: Option<bool>,
    /// How the present link authenticated: `signature`, or `token` (the legacy path).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<String>,
    /// Tags.
    pub tags: Vec<String>,
    /// When its last frame arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<words::Time>)]
    pub last_seen: Option<Timestamp>,
    /// Since when it has been online.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<words::Time>)]
    pub connected_at: Option<Timestamp>,
    /// Since when it has been offline, if this hub saw it disconnect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<words::Time>)]
    pub offline_since: Option<Timestamp>,
    /// When its key was bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<words::Time>)]
    pub enrolled_at: Option<Timestamp>,
    /// SHA-256 of its public key, for comparing by eye.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_fingerprint: Option<String>,
    /// Other agents that are the same machine: tunnels of other protocols.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tunnels: Vec<Tunnel>,
}

/// A second tunnel of a machine.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Tunnel {
    /// Its id.
    pub id: String,
    /// The name it enrolled with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether it is online.
    pub online: bool,
    /// `proven` by the machine's key, or joined by an `admin`.
    pub how: String,
}

/// Which agent is a machine's second tunnel.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentJoin {
    /// A Sonde agent, by its id or a name that only one has.
    pub tunnel: String,
}

/// A page of agents.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AgentList {
    /// The agents, by id.
    pub agents: Vec<Agent>,
    /// Pass as `after` for the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A query for agents.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct AgentQuery {
    /// Only agents that fit a query, as in `tag:lab AND NOT os:windows`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// Only agents of this protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<words::Protocol>, inline)]
    pub protocol: Option<String>,
    /// Only agents with this tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Only online agents (true), or only offline ones (false).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub online: Option<bool>,
    /// Only entries after this id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Most entries to return (1 to 1000; 100 by default).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// How one agent is asked for.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct OneAgentQuery {
    /// Whether the unique beginning of an id or a name is enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<bool>,
}

/// A one-time enrolment token, shown once.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct EnrolToken {
    /// The agent's id.
    pub agent_id: String,
    /// The token.
    pub token: String,
    /// When it expires.
    #[schema(value_type = words::Time)]
    pub expires_at: Timestamp,
    /// The hub's public key, which the agent pins.
    pub hub_public_key: String,
    /// A hint on what the token cannot do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl std::fmt::Debug for EnrolToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EnrolToken").field("agent_id", &self.agent_id).finish_non_exhaustive()
    }
}

/// An agent's enrolment.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct EnrolRequest {
    /// Standard base64 of 32 bytes.
    pub public_key: String,
    /// The token, unless it is sent as `Authorization: Bearer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

impl std::fmt::Debug for EnrolRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EnrolRequest").field("public_key", &self.public_key).finish_non_exhaustive()
    }
}

/// The key is bound.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Enrolled {
    /// Always true.
    pub ok: bool,
    /// The agent's id.
    pub agent_id: String,
}

/// A change of an agent.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentPatch {
    /// Its new tags, which replace all others: at most 32, each 1 to 64 letters, digits, `.`, `_`, `:` or `-`.
    pub tags: Vec<String>,
}

/// The result of offering an update.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct UpdateReply {
    /// Whether the agent accepted it.
    pub ok: bool,
    /// The version offered.
    pub version: String,
    /// The hash of the binary offered.
    pub sha256: String,
    /// The call's id.
    #[serde(flatten)]
    #[schema(value_type = CallReply)]
    pub call: serde_json::Map<String, serde_json::Value>,
}
