//! Runs of runbooks.

use convoke_core::id::RunId;
use convoke_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use crate::words;

/// A query for runs.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct RunQuery {
    /// Only on this agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Only of this runbook, by its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runbook: Option<String>,
    /// Only those before this run: a run's id, or `next` of the previous page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Most runs to return (1 to 1000; 100 by default).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// Runs of runbooks. The latest five of each on each agent are kept.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct RunList {
    /// Newest first.
    pub runs: Vec<RunView>,
    /// Pass as `after` for the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// One run of a runbook on an agent.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct RunView {
    /// Its id.
    #[schema(value_type = String)]
    pub id: RunId,
    /// Where.
    pub agent: String,
    /// Which runbook.
    pub runbook: String,
    /// Who asked for it; absent where nobody has that id any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// When it ended.
    #[schema(value_type = words::Time)]
    pub at: Timestamp,
    /// The worst of what it found.
    #[schema(value_type = words::Health)]
    pub status: String,
    /// What it found that needs a look, in one line each.
    pub titles: Vec<String>,
    /// In a sentence.
    pub summary: String,
}

/// One run with what it gave.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct RunShown {
    /// The run.
    pub run: RunView,
    /// What `POST /api/v1/diagnose` answered then. Absent for who may not read all that was read for it: viewers, and
    /// tokens for some tools only, unless they asked for it themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub result: Option<Box<RawValue>>,
    /// The run of the same runbook there before this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub before: Option<RunId>,
}
