//! Several hubs on PostgreSQL and NATS, tried out: processes in network namespaces, faults that follow from a seed, and a
//! check of what callers, agents and journals have seen.
//!
//! | module | what it is |
//! | --- | --- |
//! | `parts` | the processes |
//! | `net` | namespaces, the bridge, the packets that vanish |
//! | `faults` | what goes wrong, and when |
//! | `fleet` | the agents, who write down what they are asked |
//! | `callers` | who asks, and withdraws |
//! | `history`, `check` | what all have seen, and whether it keeps the promises |
//! | `run`, `report` | one run, and what it came to |

mod callers;
mod check;
mod dice;
mod faults;
mod fleet;
mod history;
mod net;
mod parts;
mod report;
mod run;

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

pub use faults::Kind;
pub use parts::{Parts, Setup};
pub use report::Report;

use crate::roster::Roster;

/// The operator of a cluster that lives for minutes on a network of its own.
const TOKEN: &str = "cluster-operator-token-0123456789abcdef0123456789abcdef";
/// One agent in so many is there to be revoked.
const SPARE: usize = 10;

/// What a run is.
#[derive(Clone, Debug)]
pub struct Config {
    /// The program that the hubs run.
    pub program: PathBuf,
    /// What goes wrong follows from this.
    pub seed: u64,
    /// How long things go wrong.
    pub time: Duration,
    /// How many agents, beside those that are there to be revoked.
    pub agents: usize,
    /// Callers at each hub.
    pub callers: usize,
    /// The mean pause of a caller between two calls.
    pub pause: Duration,
    /// How many hubs.
    pub hubs: usize,
    /// Their lease, in seconds.
    pub lease_s: u64,
    /// What may go wrong.
    pub kinds: Vec<Kind>,
}

impl Config {
    fn roster(&self) -> Roster {
        Roster::new(format!("cluster {}", self.seed))
    }

    /// Agents that are there to be revoked.
    fn spare(&self) -> usize {
        self.agents.div_ceil(SPARE)
    }

    fn say(&self, what: &str) {
        eprintln!("{what}");
    }
}

/// Why a run could not be finished. A broken promise is no error: it is in the report.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// A file, or a program that could not be started.
    #[error("cannot {what}: {why}")]
    Io {
        /// What was tried.
        what: String,
        /// Why not.
        why: io::Error,
    },
    /// A program failed.
    #[error("`{0}` failed: {1}")]
    Program(String, String),
    /// Agents could not be enrolled.
    #[error(transparent)]
    Enrol(#[from] crate::enrol::EnrolError),
    /// A request could not be made.
    #[error(transparent)]
    Http(#[from] crate::http::HttpError),
    /// Something else than what was expected.
    #[error("{0}")]
    Odd(String),
}

impl ClusterError {
    fn io(what: &str, why: io::Error) -> Self {
        Self::Io { what: what.to_owned(), why }
    }
}

/// Why no run is possible on this machine; nothing if one is.
pub fn lacking() -> Option<&'static str> {
    net::lacking()
}

/// A program that runs in namespaces of its own: of networks, mounts, processes and shared memory. When it ends, all that
/// was started in them ends too, and nothing of them stays.
pub fn apart(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "unshare"]);
    command.args(["--net", "--mount", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc", "--"]);
    command.arg(program);
    command
}

/// Runs it. Only in namespaces that nobody else is in: see [`apart`]. The logs and data of the parts are in `dir`.
pub async fn run(config: &Config, dir: &Path) -> Result<Report, ClusterError> {
    run::run(config, dir).await
}
