//! The journal: appending, reading, signing.

use async_trait::async_trait;
use convoke_core::id::CallId;
use convoke_core::journal::{Checkpoint, Draft};
use convoke_core::time::Timestamp;
use serde_json::value::RawValue;

use crate::store::Result;

/// Which journal records.
#[derive(Clone, Debug, Default)]
pub struct JournalFilter {
    /// Only after this `seq`.
    pub after: Option<u64>,
    /// Only before this `seq`, the newest first.
    pub before: Option<u64>,
    /// At most so many.
    pub limit: u32,
    /// Only about this peer.
    pub agent: Option<String>,
    /// Only of this tool.
    pub tool: Option<String>,
    /// Only of this kind.
    pub kind: Option<String>,
    /// Only of this call.
    pub call_id: Option<CallId>,
}

/// A record with its place, as exact JSON text (`hub_id`, `seq`, …, `prev`, `hash`).
#[derive(Clone, Debug)]
pub struct JournalRow {
    /// Its place.
    pub seq: u64,
    /// The record.
    pub json: Box<RawValue>,
}

/// The journal.
#[async_trait]
pub trait Journal: Send + Sync {
    /// Appends a record; answers its `seq` once it is committed. An `intent` is remembered as open until an `outcome`
    /// with the same `call_id` is appended.
    async fn append(&self, record: Draft) -> Result<u64>;
    /// Records in order; newest first where the filter has `before`.
    async fn journal(&self, filter: JournalFilter) -> Result<Vec<JournalRow>>;
    /// Signs the chain's end, unless it is signed already. Also notices when a store that was failing can write again.
    async fn checkpoint(&self, now: Timestamp) -> Result<()>;
    /// Checkpoints in order, after that of record `after`.
    async fn checkpoints(&self, after: Option<u64>, limit: u32) -> Result<Vec<Checkpoint>>;
}
