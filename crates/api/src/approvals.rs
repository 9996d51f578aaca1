//! Approvals.

use convoke_core::id::{ApprovalId, CallId};
use convoke_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use crate::words;

/// One approval, with the call it is about.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ApprovalView {
    /// Its id.
    #[schema(value_type = String)]
    pub id: ApprovalId,
    /// The call that waits.
    #[schema(value_type = String)]
    pub call_id: CallId,
    /// The state.
    #[schema(value_type = words::ApprovalState)]
    pub state: String,
    /// The caller.
    pub caller: String,
    /// The door.
    #[schema(value_type = words::Door)]
    pub door: String,
    /// The target of the call.
    pub target: String,
    /// The tool.
    pub tool: String,
    /// The arguments, only while it is open: exact for those who may approve and for the caller, for others without
    /// secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub args: Option<Box<RawValue>>,
    /// The keyed digest of the exact arguments.
    pub args_digest: String,
    /// The person whose the caller is, where it has an owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Only a second person's yes counts: not the owner's.
    #[serde(default)]
    pub second_person: bool,
    /// When it was requested.
    #[schema(value_type = words::Time)]
    pub created_at: Timestamp,
    /// When it expires.
    #[schema(value_type = words::Time)]
    pub expires_at: Timestamp,
}

/// One approval with what was decided before.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ApprovalDetail {
    /// The approval.
    pub approval: ApprovalView,
    /// The arguments as the journal will keep them: to compare them with those of last time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub args_kept: Option<Box<RawValue>>,
    /// How many calls of this caller, tool and target a person approved.
    pub approved: u32,
    /// How many of them a person denied.
    pub denied: u32,
    /// The numbers are of the latest records only: there are more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
    /// The last such call that went out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<LastTime>,
}

/// The last call of the same caller, tool and target.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct LastTime {
    /// The call.
    #[schema(value_type = String)]
    pub call_id: CallId,
    /// When it ended.
    #[schema(value_type = words::Time)]
    pub at: String,
    /// `ok` or the error code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// Its arguments as the journal kept them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub args: Option<Box<RawValue>>,
    /// Its exact arguments were the same.
    pub same_args: bool,
}

/// A page of approvals.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ApprovalList {
    /// Newest first.
    pub approvals: Vec<ApprovalView>,
    /// Pass as `after` for the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub next: Option<ApprovalId>,
}

/// A query for approvals.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ApprovalQuery {
    /// `pending` (by default), `approved`, `denied`, `expired`, `used` or `all`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<words::ApprovalFilter>, inline)]
    pub state: Option<String>,
    /// Only approvals older than this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<String>)]
    pub after: Option<ApprovalId>,
    /// Most entries to return (1 to 1000; 100 by default).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// A person's decision.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Decide {
    /// Whether to approve the call.
    pub approve: bool,
    /// The reason, for the journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The result of a decision.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Decided {
    /// The approval.
    #[schema(value_type = String)]
    pub id: ApprovalId,
    /// `approved` or `denied`.
    #[schema(value_type = words::ApprovalState)]
    pub state: String,
    /// The call: it runs now, or is done.
    #[schema(value_type = String)]
    pub call_id: CallId,
}
