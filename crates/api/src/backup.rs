//! A backup of the hub.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::people::Secret;

/// What goes into a backup.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BackupRequest {
    /// Includes the data key, sealed under this passphrase (at least 8 characters). Without it the key must be kept
    /// elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub passphrase: Option<Secret>,
}
