//! The lines of an export that are not records: its header and its checkpoints.

use serde::{Deserialize, Serialize};

use super::Checkpoint;
use super::checkpoint::{as_base64, from_base64};
use crate::id::HubId;
use crate::time::Timestamp;

/// The version of the export format.
pub const FORMAT: u32 = 1;

/// The first line of an export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportHeader {
    /// [`FORMAT`].
    pub convoke_journal: u32,
    /// The hub of the journal.
    pub hub_id: HubId,
    /// The key of the last checkpoint in the file; the hub's key when the file has none.
    #[serde(serialize_with = "as_base64", deserialize_with = "from_base64")]
    pub public_key: [u8; 32],
    /// When the file was made. For people: nothing protects it.
    pub exported_at: Timestamp,
}

impl ExportHeader {
    /// A header of the current format.
    pub const fn new(hub_id: HubId, public_key: [u8; 32], exported_at: Timestamp) -> Self {
        Self { convoke_journal: FORMAT, hub_id, public_key, exported_at }
    }

    /// The line, without its line break.
    pub fn line(&self) -> String {
        serde_json::to_string(self).expect("plain fields serialise")
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CheckpointLine {
    pub(super) checkpoint: Checkpoint,
}

/// A checkpoint as a line of an export, without its line break. It stands right after the record it covers.
pub fn checkpoint_line(checkpoint: &Checkpoint) -> String {
    serde_json::to_string(&CheckpointLine { checkpoint: checkpoint.clone() }).expect("plain fields serialise")
}
