//! Calls.

use convoke_core::id::{ApprovalId, CallId};
use convoke_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use crate::words;

/// Call a tool of an agent.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CallRequest {
    /// The tool's name.
    pub tool: String,
    /// The tool's arguments, an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub args: Option<Box<RawValue>>,
    /// The time-out of the whole call, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<f64>,
    /// The same key from the same caller within a day returns the first call's outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

/// How a call ended, with its id.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct CallReply {
    /// Whether the call succeeded.
    pub ok: bool,
    /// The result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub result: Option<Box<RawValue>>,
    /// The error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<CallFailure>,
    /// A note on a call that succeeded: its result was too large to be kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The call's id.
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
    /// A message for people.
    pub message: String,
}

/// The call needs a person's approval.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct CallPending {
    /// The approval to decide.
    pub approval: PendingApproval,
    /// The call's id, to wait for.
    #[schema(value_type = String)]
    pub call_id: CallId,
}

/// A requested approval.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PendingApproval {
    /// Its id.
    #[schema(value_type = String)]
    pub id: ApprovalId,
    /// When it expires.
    #[schema(value_type = words::Time)]
    pub expires_at: Timestamp,
    /// That nobody can approve it as things are, where this is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The state of a call.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct CallStatus {
    /// The call's id.
    #[schema(value_type = String)]
    pub call_id: CallId,
    /// The state.
    #[schema(value_type = words::CallState)]
    pub state: String,
    /// The target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// `ok` or the error code, once it is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// The result, while the hub still has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub result: Option<Box<RawValue>>,
    /// The error, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<CallFailure>,
    /// A note on a call that succeeded: its result was too large to be kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// From dispatch to answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// The approval it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<PendingApproval>,
}

/// One call in the list: without arguments and result.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct CallSummary {
    /// The call's id.
    #[schema(value_type = String)]
    pub call_id: CallId,
    /// The state.
    #[schema(value_type = words::CallState)]
    pub state: String,
    /// The target.
    pub target: String,
    /// The tool.
    pub tool: String,
    /// Who asked, if they are still known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    /// When it was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<words::Time>)]
    pub asked_at: Option<Timestamp>,
    /// `ok` or the error code, once it is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// From dispatch to answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// The approval it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<PendingApproval>,
}

/// A page of calls: those that wait or run, and the latest that ended. Older ones are in the journal.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct CallList {
    /// Newest first.
    pub calls: Vec<CallSummary>,
    /// Pass as `after` for the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub next: Option<CallId>,
}

/// A query for calls.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct CallQuery {
    /// Only calls in this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<words::CallState>, inline)]
    pub state: Option<String>,
    /// Only calls of this agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Only calls older than this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<String>)]
    pub after: Option<CallId>,
    /// Most entries to return (1 to 1000; 100 by default).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// How long to wait for a call.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct WaitQuery {
    /// Answer when the call is done, or after this many seconds (at most 300).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_s: Option<f64>,
}
