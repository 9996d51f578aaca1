//! The fleet's health, and snapshots.

use convoke_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use utoipa::{IntoParams, ToSchema};

use crate::words;

/// The health of the fleet: status per section, no payloads.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Fleet {
    /// The worst of all agents.
    #[schema(value_type = words::Health)]
    pub overall: String,
    /// By id.
    pub agents: Vec<FleetAgent>,
    /// Pass as `after` for the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// One agent of the fleet.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct FleetAgent {
    /// Its id.
    pub agent_id: String,
    /// Whether it is online.
    pub online: bool,
    /// The worst of its sections.
    #[schema(value_type = words::Health)]
    pub overall: String,
    /// Status per section.
    pub sections: BTreeMap<String, String>,
}

/// A query for the fleet.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct FleetQuery {
    /// Only entries after this id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Most agents to return; all by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// One agent's latest telemetry with the hub's verdict.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Snapshot {
    /// The agent's id.
    pub agent_id: String,
    /// When the agent says it collected it.
    pub collected_at: String,
    /// When the hub received it.
    pub received_at: String,
    /// The worst of the sections.
    #[schema(value_type = words::Health)]
    pub overall: String,
    /// Status and summary per section, as the hub judged.
    #[schema(value_type = Object)]
    pub health: Box<RawValue>,
    /// The sections as the agent sent them.
    #[schema(value_type = Object)]
    pub snapshot: Box<RawValue>,
}

/// A query for a snapshot.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct SnapshotQuery {
    /// Only this section.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section: Option<String>,
}

/// Past snapshots, newest first, without payloads.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct History {
    /// The snapshots.
    pub snapshots: Vec<HistoryEntry>,
    /// Pass as `before` for the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// How one section of an agent was over time.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SectionHistory {
    /// For how many seconds a sample stands.
    pub step_s: u64,
    /// From the oldest on; none for a time without a snapshot.
    pub samples: Vec<SectionSample>,
    /// There were too many snapshots to look at: the older ones are missing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// A section at one time.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SectionSample {
    /// When the hub received it.
    #[schema(value_type = words::Time)]
    pub at: Timestamp,
    /// The worst that it was in this step.
    #[schema(value_type = words::Health)]
    pub status: String,
    /// What the agent sent of it last in this step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub payload: Option<Box<RawValue>>,
}

/// A query for a section's history.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct SectionHistoryQuery {
    /// Which section; it must be named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section: Option<String>,
    /// How many hours back (1 to 720, which is 30 days; 24 by default).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hours: Option<u32>,
}

/// How the fleet's health was over time.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct FleetHistory {
    /// From the oldest on.
    pub buckets: Vec<FleetBucket>,
    /// There were too many changes to look at: the later agents are missing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// An hour or a day. Each agent that was known then counts once, with the worst that it was.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct FleetBucket {
    /// When it begins.
    #[schema(value_type = words::Time)]
    pub at: Timestamp,
    /// Agents that were `ok` all the time.
    pub ok: u32,
    /// Agents that were `warn` at the worst.
    pub warn: u32,
    /// Agents that were `crit`.
    pub crit: u32,
}

/// A query for the fleet's history.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct FleetHistoryQuery {
    /// How many days back (1 to 90; 30 by default).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub days: Option<u32>,
    /// `day` (by default) or `hour`, in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bucket: Option<String>,
    /// Only this agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}

/// The fleet as it was at a moment.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct FleetAt {
    /// The moment.
    #[schema(value_type = words::Time)]
    pub at: Timestamp,
    /// The worst of all agents.
    #[schema(value_type = words::Health)]
    pub overall: String,
    /// The agents of now that were known then, by id.
    pub agents: Vec<FleetThen>,
}

/// One agent as it was.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct FleetThen {
    /// Its id.
    pub agent_id: String,
    /// Since when it had been so.
    #[schema(value_type = words::Time)]
    pub since: Timestamp,
    /// The worst of its sections.
    #[schema(value_type = words::Health)]
    pub overall: String,
    /// Status per section.
    pub sections: BTreeMap<String, String>,
}

/// A query for the fleet as it was.
#[derive(Clone, Debug, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct FleetAtQuery {
    /// When (RFC 3339).
    pub time: String,
}

/// One past snapshot.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct HistoryEntry {
    /// When the agent says it collected it.
    pub collected_at: String,
    /// When the hub received it.
    pub received_at: String,
    /// The worst of the sections.
    #[schema(value_type = words::Health)]
    pub overall: String,
    /// Status and summary per section; of the one that was asked for, if any.
    #[schema(value_type = Object)]
    pub health: Box<RawValue>,
    /// What the agent sent of the section that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub payload: Option<Box<RawValue>>,
}

/// A query for past snapshots.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct HistoryQuery {
    /// Received before this time, or `next` of the previous page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// One section, with what the agent sent of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section: Option<String>,
    /// Most entries to return (1 to 1000; 100 by default).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}
