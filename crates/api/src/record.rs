//! What happened: journal records, log lines and events.

use convoke_core::id::CallId;
use convoke_core::journal::Checkpoint;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use crate::words;

/// A page of the journal, in order.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct JournalPage {
    /// Records as exact JSON.
    #[schema(value_type = Vec<Object>)]
    pub records: Vec<Box<RawValue>>,
    /// Pass as `after` for the next page, or as `before` where the newest come first; absent when there is no more for now.
    /// A page with a `next` may be empty: a search looks at so many records at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// A query for records.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct JournalQuery {
    /// Only records after this `seq`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// Only records before this `seq`, newest first; `next` is then the `before` of the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<u64>,
    /// Most entries to return (1 to 1000; 100 by default).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Only records about this agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Only records of this tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Only records of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Only records of this call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<String>)]
    pub call: Option<CallId>,
    /// Only records of who has this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// Only records with this decision: `allowed`, `denied`, `blocked`, `confirmed`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<String>,
    /// Only records from this time on (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Only records up to this time (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Only records with this text somewhere, in upper or lower case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// A page of the journal's signed checkpoints, in order.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct CheckpointPage {
    /// The checkpoints, as an export has them.
    #[schema(value_type = Vec<Object>)]
    pub checkpoints: Vec<Checkpoint>,
    /// Pass as `after` for the next page; absent when there is no more for now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// A query for checkpoints.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct CheckpointQuery {
    /// Only checkpoints after this `seq`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// Most entries to return (1 to 1000; 100 by default).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// A page of log lines, in order of arrival.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct LogPage {
    /// The lines.
    pub entries: Vec<LogEntry>,
    /// Pass as `after` for the next page; absent when there is no more for now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<i64>,
}

/// One log line.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct LogEntry {
    /// The line's number: pass the last one as `after` to continue.
    pub id: i64,
    /// The time, as its source says.
    pub at: String,
    /// The agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// `agent` or `hub`.
    pub source: String,
    /// The level.
    #[schema(value_type = words::Level)]
    pub level: String,
    /// The emitting module.
    pub target: String,
    /// The message.
    pub message: String,
    /// Structured fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub fields: Option<Box<RawValue>>,
}

/// A query for log lines.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct LogQuery {
    /// Only lines of this agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Only lines of this level or above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// Only lines with this text in the message, whatever its case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Only lines after this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<i64>,
    /// Only lines before this one, newest first; `next` is then the `before` of the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<i64>,
    /// Most entries to return (1 to 1000; 100 by default).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// Which events, and from where on.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct EventQuery {
    /// The `id` of the last event that was read; without it, the stream begins now. `Last-Event-ID` goes before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Only these kinds, with commas between them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kinds: Option<String>,
}
