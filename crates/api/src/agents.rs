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
    /// What it speaks.
    #[schema(value_type = words::Protocol)]
    pub protocol: String,
    /// Whether it has a live link.
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
    /// What it said of itself when it last connected.
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
    /// The last frame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<words::Time>)]
    pub last_seen: Option<Timestamp>,
    /// Since when it has been linked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<words::Time>)]
    pub connected_at: Option<Timestamp>,
    /// Since when it has had no link, where this hub saw it go.
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

/// Which agents.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct AgentQuery {
    /// Only of this protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<words::Protocol>, inline)]
    pub protocol: Option<String>,
    /// Only with this tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Only linked ones, or only others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub online: Option<bool>,
    /// Only after this id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// At most so many (1 to 1000, 100 when absent).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// A one-time enrolment token, shown once.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct EnrolToken {
    /// For whom.
    pub agent_id: String,
    /// The token.
    pub token: String,
    /// When it lapses.
    #[schema(value_type = words::Time)]
    pub expires_at: Timestamp,
    /// The hub's public key, which the agent pins.
    pub hub_public_key: String,
    /// Why the token may not do what was hoped for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl std::fmt::Debug for EnrolToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EnrolToken").field("agent_id", &self.agent_id).finish_non_exhaustive()
    }
}

/// An agent presents its key.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct EnrolRequest {
    /// Standard base64 of 32 bytes.
    pub public_key: String,
    /// The token, where it does not come as `Authorization: Bearer`.
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
    /// Whose.
    pub agent_id: String,
}

/// What may be changed about an agent.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentPatch {
    /// All its tags from now on: at most 32, each 1 to 64 letters, digits, `.`, `_`, `:` or `-`.
    pub tags: Vec<String>,
}

/// What came of an update.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct UpdateReply {
    /// Whether the agent took it.
    pub ok: bool,
    /// The version offered.
    pub version: String,
    /// The hash of the binary offered.
    pub sha256: String,
    /// The call it was.
    #[serde(flatten)]
    #[schema(value_type = CallReply)]
    pub call: serde_json::Map<String, serde_json::Value>,
}
