//! Snapshots and log lines, and what else may be lost with the last moment.

use async_trait::async_trait;
use convoke_core::id::{PeerId, TokenId};
use convoke_core::journal::Draft;
use convoke_core::peer::Liveness;
use convoke_core::time::Timestamp;
use serde_json::value::RawValue;

use crate::store::Result;

/// A telemetry snapshot.
#[derive(Clone, Debug)]
pub struct SnapshotRow {
    /// In order of arrival; 0 until it is kept.
    pub id: i64,
    /// Whose.
    pub agent: PeerId,
    /// When the agent says it collected it.
    pub collected_at: String,
    /// When it came.
    pub received_at: Timestamp,
    /// The section map, exact JSON text.
    pub body: String,
    /// Per-section health as the hub judged it, JSON text `{"section":{"status","summary",...}}`; kept beside the body
    /// so that a fleet view after a restart reads no snapshot.
    pub health: String,
}

/// Where a history goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// With what was received before this time.
    Time(Timestamp),
    /// With what came before this snapshot, whenever: several may have come in one moment.
    Snapshot(i64),
}

/// Which snapshots stand for a time: the last one of each step.
#[derive(Clone, Debug)]
pub struct SampleFilter {
    /// Whose.
    pub agent: PeerId,
    /// Which section of them.
    pub section: String,
    /// From when on.
    pub from: Timestamp,
    /// How long a step is, in milliseconds.
    pub step_ms: i64,
}

/// One section of a snapshot that stands for a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleRow {
    /// When it came.
    pub at: Timestamp,
    /// What the hub judged of it, JSON text.
    pub health: Option<String>,
    /// What the agent sent of it, exact JSON text.
    pub body: Option<String>,
}

/// A log line, from an agent or from the hub about it.
#[derive(Clone, Debug)]
pub struct LogRow {
    /// Its place, for paging; 0 before it is kept.
    pub id: i64,
    /// When, as the source says (RFC 3339 text as it came).
    pub at: String,
    /// When it came.
    pub received_at: Timestamp,
    /// Which agent.
    pub agent: Option<PeerId>,
    /// `agent` or `hub`.
    pub source: String,
    /// `error`, `warn`, `info`, `debug`, `trace`.
    pub level: String,
    /// The emitting module.
    pub target: String,
    /// The message.
    pub message: String,
    /// Structured fields, JSON object text.
    pub fields: Option<String>,
}

impl SnapshotRow {
    /// About how much of a page it takes.
    pub fn bytes(&self) -> usize {
        self.health.len() + self.body.len()
    }
}

impl LogRow {
    /// About how much of a page it takes.
    pub fn bytes(&self) -> usize {
        self.message.len() + self.target.len() + self.fields.as_ref().map_or(0, String::len)
    }
}

/// Which log lines.
#[derive(Clone, Debug, Default)]
pub struct LogFilter {
    /// Only of this agent.
    pub agent: Option<PeerId>,
    /// Only at or above this level.
    pub level: Option<String>,
    /// Only with this text in the message, whatever its case (of ASCII letters).
    pub text: Option<String>,
    /// Only after this id.
    pub after: Option<i64>,
    /// Only before this id, the newest first.
    pub before: Option<i64>,
    /// At most so many.
    pub limit: u32,
}

/// What may be lost with the last moment.
#[derive(Clone, Debug)]
pub enum Lossy {
    /// A telemetry snapshot: history, and the agent's latest.
    Snapshot(SnapshotRow),
    /// An agent's health changed.
    Health(crate::HealthRow),
    /// Log lines.
    Logs(Vec<LogRow>),
    /// An agent connected or was last heard: its meta, protocol version and the time.
    Seen {
        /// Which.
        agent: PeerId,
        /// When.
        at: Timestamp,
        /// With what meta and protocol version, on a new connection.
        hello: Option<(Box<RawValue>, Option<String>)>,
    },
    /// A Yonexus client was heard of: its liveness, and whether it proved itself.
    ClientSeen {
        /// Which.
        identifier: String,
        /// What it is now.
        liveness: Liveness,
        /// When.
        at: Timestamp,
        /// It has just proved itself.
        authenticated: bool,
    },
    /// An operator token was used.
    TokenUsed(TokenId, Timestamp),
    /// A journal record nobody waits for.
    Record(Draft),
}

/// Observes what was committed.
pub type Observer = Box<dyn Fn(Lossy) + Send + Sync>;

/// Snapshots and log lines.
#[async_trait]
pub trait Telemetry: Send + Sync {
    /// The latest snapshot.
    async fn latest_snapshot(&self, agent: &PeerId) -> Result<Option<SnapshotRow>>;
    /// Snapshots, newest first, from `before` on.
    async fn snapshots(&self, agent: &PeerId, before: Option<Before>, limit: u32) -> Result<Vec<SnapshotRow>>;
    /// The last snapshot of each step of time, oldest first; and whether there were more snapshots than are looked at, so
    /// that the older ones are missing.
    async fn samples(&self, filter: SampleFilter) -> Result<(Vec<SampleRow>, bool)>;
    /// Log lines in order of arrival.
    async fn logs(&self, filter: LogFilter) -> Result<Vec<LogRow>>;
    /// Takes what may be lost with the last moment.
    async fn enqueue(&self, item: Lossy) -> Result<()>;
    /// Sets the observer of each log line and snapshot of [`Telemetry::enqueue`], in order, once it is committed: lines have
    /// their ids then, snapshots are without their body. It is called between two commits and must be quick. The first one
    /// that is set stays.
    fn on_committed(&self, observer: Observer);
}
