//! What a running agent tells of itself on its own machine: one small file, which `convoke agent status` reads.

use serde::{Deserialize, Serialize};

use crate::state::{StateDir, StateError, read, write_whole};

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
            tracing::debug!(%why, "the status was not written");
        }
    }
}

/// Now, to the second.
pub(crate) fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
