//! The one shape of errors.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What every refusal and failure of `/api` looks like.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    /// The error.
    pub error: ErrorDetail,
}

/// What was wrong, where, and what to do.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ErrorDetail {
    /// A stable word for programs.
    pub code: String,
    /// A sentence for people.
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The request, as the hub's log names it.
    pub request_id: String,
}
