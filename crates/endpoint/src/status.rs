//! What a running agent tells of itself on its own machine: one small file, which `convoke agent status` reads.

use serde::{Deserialize, Serialize};

use crate::state::{StateDir, StateError, read, write_whole};
use crate::telemetry::VERSION;

/// How the agent stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Its process.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// Its id.
    pub id: String,
    /// Its hub.
    pub hub: String,
    /// What it does now.
    pub state: Phase,
    /// Since when, in RFC 3339.
    pub since: String,
    /// Why the last attempt or the last tunnel failed; gone once a tunnel stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Whether it runs as a service.
    pub service: bool,
}

/// What an agent does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Tries to reach its hub.
    Connecting,
    /// The hub has let it in.
    Connected,
    /// Waits before it tries again.
    Waiting,
    /// Is gone.
    Stopped,
}

impl Phase {
    /// The name used on every surface.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Connected => "connected",
            Self::Waiting => "waiting",
            Self::Stopped => "stopped",
        }
    }
}

impl Status {
    /// What the state directory says. Nothing when no agent has ever told, or when what it told is torn.
    pub fn read(state: &StateDir) -> Result<Option<Self>, StateError> {
        match read(&state.status_file()) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
            Err(StateError::Io { why, .. }) if why.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(why) => Err(why),
        }
    }

    /// Tells it. A full disk is no reason to stop: what is shown is then old, and the lock still says who runs.
    pub(crate) fn write(&self, state: &StateDir) {
        let told = serde_json::to_vec(self).map(|bytes| write_whole(&state.status_file(), &bytes));
        if let Ok(Err(why)) = told {
            tracing::debug!(%why, "cannot write the status");
        }
    }
}

/// Who tells how it stands.
#[derive(Clone, Debug)]
pub(crate) struct Teller {
    pub(crate) state: StateDir,
    pub(crate) id: String,
    pub(crate) hub: String,
    pub(crate) service: bool,
}

impl Teller {
    /// Tells what it does now, and why the last attempt failed.
    pub(crate) fn tell(&self, phase: Phase, problem: Option<String>) {
        // While it tries, what went wrong before is still what a person wants to know.
        let problem = problem.or_else(|| {
            let before = Status::read(&self.state).ok().flatten()?;
            before.problem.filter(|_| phase == Phase::Connecting)
        });
        let status = Status {
            pid: std::process::id(),
            version: VERSION.to_owned(),
            id: self.id.clone(),
            hub: self.hub.clone(),
            state: phase,
            since: now(),
            problem,
            service: self.service,
        };
        status.write(&self.state);
    }
}

/// Now, to the second.
pub(crate) fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
