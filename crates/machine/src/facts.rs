//! What a tool or collector may ask of the machine: files below the root, programs, the time it has left.
//!
//! It runs on a thread of its own and may block there. Whoever waits for it may stop waiting: `stop` is then set,
//! which ends the commands that it runs, and which its longer loops look at.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::Options;
use crate::exec::{self, Command, ExecError, Limits, Output};
use crate::remembered::Remembered;
use crate::text;

/// Most bytes read of a file of facts. `/proc` and `/sys` have no larger ones that matter, and a larger one of `/etc`
/// is not what it claims to be.
const FILE_CAP: usize = 4 * 1024 * 1024;

/// Most bytes kept of a program's output.
const OUTPUT_CAP: usize = 8 * 1024 * 1024;

/// Where programs are. Not `PATH`: a service's may lack the `sbin` folders, and nobody's should decide what runs here.
const FOLDERS: [&str; 6] = ["usr/local/sbin", "usr/local/bin", "usr/sbin", "usr/bin", "sbin", "bin"];

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
}

impl Facts {
    /// A path below the root.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.options.root.join(path.trim_start_matches('/'))
    }

    /// The text of a file below the root.
    pub(crate) fn read(&self, path: &str) -> io::Result<String> {
        read_text(&self.path(path), FILE_CAP)
    }

    /// The same, trimmed, where its absence means nothing.
    pub(crate) fn word(&self, path: &str) -> Option<String> {
        self.read(path).ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    /// A number in a file of its own, as `/sys` likes it.
    pub(crate) fn number(&self, path: &str) -> Option<i64> {
        self.word(path)?.parse().ok()
    }

    /// The names in a folder below the root, sorted; none if it is not there.
    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(path)).into_iter().flatten().flatten();
        let mut names: Vec<_> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_unstable();
        names
    }

    /// Whether there is something of that name.
    pub(crate) fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// Where a program is.
    pub(crate) fn program(&self, name: &str) -> Option<PathBuf> {
        FOLDERS.iter().map(|folder| self.path(folder).join(name)).find(|candidate| candidate.is_file())
    }

    /// Runs a program in the plain locale and waits for it. `None` if it is not installed.
    pub(crate) fn command(&self, name: &str, args: &[&str]) -> Option<Result<Output, ExecError>> {
        let program = self.program(name)?;
        let command = Command::new(program).args(args).env("LC_ALL", "C").env("LANG", "C");
        Some(self.exec(command))
    }

    /// What a program prints, if it is installed and succeeds.
    pub(crate) fn output(&self, name: &str, args: &[&str]) -> Option<String> {
        let output = self.command(name, args)?.ok()?;
        output.success().then_some(output.stdout)
    }

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

/// The text of a regular file, at most `cap` bytes of it. Does not hang on what is no regular file.
pub(crate) fn read_text(path: &Path, cap: usize) -> io::Result<String> {
    let bytes = crate::tools::read_start(path, cap)?;
    Ok(text::lossy(&bytes, cap))
}
