//! What a tool or collector may ask of the machine: files below the root, programs, the time it has left.
//!
//! It runs on a thread of its own and may block there. Whoever waits for it may stop waiting: `stop` is then set,
//! which ends the commands that it runs, and which its longer loops look at.

#[cfg(target_os = "linux")]
mod root;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::Options;
use crate::exec::{self, Command, ExecError, Limits, Output};
use crate::open::Rules;
use crate::remembered::Remembered;

#[cfg(target_os = "linux")]
pub(crate) use root::{read_start, read_text};

/// Most bytes kept of a program's output.
const OUTPUT_CAP: usize = 8 * 1024 * 1024;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) options: Arc<Options>,
    pub(crate) handle: Handle,
    pub(crate) stop: CancellationToken,
    /// How long a program may take.
    pub(crate) patience: Duration,
    /// What was found before.
    pub(crate) remembered: Arc<Remembered>,
    /// What decides on the paths that the caller named.
    pub(crate) rules: Option<Arc<dyn Rules>>,
}

impl Facts {
    /// Runs any command and waits for it.
    pub(crate) fn exec(&self, command: Command) -> Result<Output, ExecError> {
        let limits = Limits { timeout: self.patience, cap: OUTPUT_CAP, cancel: self.stop.clone() };
        self.wait(exec::run(command, &limits))
    }

    /// Waits for something asynchronous.
    pub(crate) fn wait<F: Future>(&self, future: F) -> F::Output {
        self.handle.block_on(future)
    }

    /// Whether nobody waits any more.
    pub(crate) fn stopped(&self) -> bool {
        self.stop.is_cancelled()
    }
}
