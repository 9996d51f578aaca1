//! What runbooks gave, to be looked at later and held against the next run.

use async_trait::async_trait;
use convoke_core::health::Status;
use convoke_core::id::{PeerId, RunId, TokenId};
use convoke_core::time::Timestamp;

use crate::store::Result;

/// Runs of one runbook that stay of each agent; the oldest go.
pub const RUNS_OF_ONE: u32 = 5;
/// Runs that stay of one agent, whichever runbooks they are of.
pub const RUNS_OF_AGENT: u32 = 100;

/// One run of a runbook on an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRow {
    /// Its id.
    pub id: RunId,
    /// Where.
    pub agent: PeerId,
    /// Which runbook.
    pub runbook: String,
    /// Who asked for it.
    pub caller: TokenId,
    /// When it ended.
    pub at: Timestamp,
    /// The worst of what it found.
    pub status: Status,
    /// What it found that needs a look, in one line each.
    pub titles: Vec<String>,
    /// In a sentence.
    pub summary: String,
}

/// Which runs.
#[derive(Clone, Debug, Default)]
pub struct RunFilter {
    /// Only on this agent.
    pub agent: Option<PeerId>,
    /// Only of this runbook.
    pub runbook: Option<String>,
    /// Only since then.
    pub since: Option<Timestamp>,
    /// Only the latest of each runbook on each agent, and of those only what found something that needs a look.
    pub unwell: bool,
    /// Only those before this one.
    pub before: Option<(Timestamp, RunId)>,
    /// At most so many.
    pub limit: u32,
}

/// Runs of runbooks.
#[async_trait]
pub trait Runs: Send + Sync {
    /// Keeps a run with what each probe gave, JSON text. Older ones of the same runbook there go.
    async fn put_run(&self, run: RunRow, result: String) -> Result<()>;
    /// Runs, newest first.
    async fn runs(&self, filter: RunFilter) -> Result<Vec<RunRow>>;
    /// One run, and what each probe gave.
    async fn run(&self, id: RunId) -> Result<Option<(RunRow, String)>>;
}
