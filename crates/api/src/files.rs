//! Files that are copied to and from machines.

use convoke_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::words;

/// A link for one copy of a file, in either direction.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct FileLink {
    /// Its id.
    pub id: String,
    /// The link, for the argument `url` of `file_get` or `file_put`. It opens nothing by itself.
    pub url: String,
    /// When it lapses, unless its call is under way.
    #[schema(value_type = words::Time)]
    pub expires_at: Timestamp,
}

/// How a copy stands.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct FileState {
    /// `waiting` until the machine has come for it, then `open`.
    pub state: String,
}

/// How long to wait for a machine.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct FileQuery {
    /// Answer when the machine has come, or after this many seconds (at most 60).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_s: Option<f64>,
}
