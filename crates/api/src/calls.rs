//! Calls.

use convoke_core::id::{ApprovalId, CallId};
use convoke_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use crate::words;

/// Ask an agent for something.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CallRequest {
    /// The tool's name.
    pub tool: String,
    /// Its arguments, an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub args: Option<Box<RawValue>>,
    /// Bounds the whole call, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<f64>,
    /// The same key from the same caller within a day returns the first call's outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

/// How a call ended, with its id.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct CallReply {
    /// Whether the agent did it.
    pub ok: bool,
    /// What it answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub result: Option<Box<RawValue>>,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<CallFailure>,
    /// What is to be known of a call that succeeded: that its result was too large to be kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The call.
    #[schema(value_type = String)]
    pub call_id: CallId,
    /// From dispatch to answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

/// Why a call did not succeed.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct CallFailure {
    /// The agent's code, or the hub's: `offline`, `timeout`, `disconnected`, `too_large`, `busy`, `blocked`, …
    pub code: String,
    /// A sentence.
    pub message: String,
}

/// A person must say yes first.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct CallPending {
    /// Whom to ask about what.
    pub approval: PendingApproval,
    /// Wait on this.
    #[schema(value_type = String)]
    pub call_id: CallId,
}

/// An approval that is asked for.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PendingApproval {
    /// Its id.
    #[schema(value_type = String)]
    pub id: ApprovalId,
    /// When it lapses.
    #[schema(value_type = words::Time)]
    pub expires_at: Timestamp,
}

/// Where a call stands.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct CallStatus {
    /// The call.
    #[schema(value_type = String)]
    pub call_id: CallId,
    /// Where it stands.
    #[schema(value_type = words::CallState)]
    pub state: String,
    /// Whom it goes to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// What is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// `ok` or the error code, once it is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// What the agent answered, while the hub still has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub result: Option<Box<RawValue>>,
    /// Why it did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<CallFailure>,
    /// What is to be known of a call that succeeded: that its result was too large to be kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// From dispatch to answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// The approval it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<PendingApproval>,
}

/// How long to wait for a call.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct WaitQuery {
    /// Answer when the call is done, or after so many seconds (at most 300).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_s: Option<f64>,
}
