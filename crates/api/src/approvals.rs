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
    /// Where it stands.
    #[schema(value_type = words::ApprovalState)]
    pub state: String,
    /// Who asked.
    pub caller: String,
    /// Through which door.
    #[schema(value_type = words::Door)]
    pub door: String,
    /// Whom the call goes to.
    pub target: String,
    /// What is asked.
    pub tool: String,
    /// With what arguments; only while it is open. As they are for who may approve and for who asked, otherwise without
    /// secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub args: Option<Box<RawValue>>,
    /// The keyed digest of the exact arguments.
    pub args_digest: String,
    /// When it was asked for.
    #[schema(value_type = words::Time)]
    pub created_at: Timestamp,
    /// When it lapses.
    #[schema(value_type = words::Time)]
    pub expires_at: Timestamp,
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

/// Which approvals.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ApprovalQuery {
    /// `pending` (when absent), `approved`, `denied`, `expired`, `used` or `all`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<words::ApprovalFilter>, inline)]
    pub state: Option<String>,
    /// Only older than this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<String>)]
    pub after: Option<ApprovalId>,
    /// At most so many (1 to 1000, 100 when absent).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// A person's answer.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Decide {
    /// Yes or no.
    pub approve: bool,
    /// Why, for the journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What came of it.
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
