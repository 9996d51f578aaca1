//! Runs a command so that it can neither outstay nor flood nor block whoever asked.
//!
//! * The command leads a process group (Windows: a job) of its own. At the deadline, on cancellation and when the
//!   future is dropped, the **whole tree** is killed: the group, every descendant, and on Linux also those that left
//!   the group and their parents (`setsid`, double forks), found by a mark in their environment. What escapes is a
//!   process that throws away its environment *and* its parents, or one started by another service on its behalf
//!   (`systemd-run`, `at`).
//! * Output is drained to the end but kept only up to a cap, and is always valid UTF-8.
//! * The end of the command is the end of the call. A process it leaves behind (`server &`) lives on, and cannot hold
//!   the call up by keeping the pipes open.
//! * The agent's own settings (`KENNY_*`, `CONVOKE_*`), among which are secrets, are not passed on.

mod capture;
#[cfg(target_os = "linux")]
mod marked;
mod tree;

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use capture::Capture;
use tree::Tree;

/// How long output may still trickle in after the command has ended, while something else holds its pipes open. What
/// the command itself printed is in the pipes already.
const AFTER_EXIT: Duration = Duration::from_millis(300);

/// Environment variables with these beginnings are the agent's own.
const OWN_VARIABLES: [&str; 2] = ["KENNY_", "CONVOKE_"];

/// The variable that marks every process of a run.
pub const MARK: &str = "CONVOKE_RUN";

/// What to run.
#[derive(Clone, Debug)]
pub struct Command {
    program: OsString,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    dir: Option<PathBuf>,
    input: Option<Vec<u8>>,
}

impl Command {
    /// A program, by path or by name on the path.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        Self { program: program.as_ref().to_owned(), args: Vec::new(), env: Vec::new(), dir: None, input: None }
    }

    /// Adds an argument. It reaches the program as it is; no shell sees it.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<I: IntoIterator<Item: AsRef<OsStr>>>(mut self, args: I) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Where it runs; otherwise where the agent does.
    #[must_use]
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = Some(dir.into());
        self
    }

    /// What it reads from standard input; otherwise nothing.
    #[must_use]
    pub fn input(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.input = Some(input.into());
        self
    }

    fn build(&self, mark: &str) -> tokio::process::Command {
        let mut command = tokio::process::Command::new(&self.program);
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(|name| OWN_VARIABLES.iter().any(|own| name.starts_with(own))) {
                command.env_remove(&name);
            }
        }
        command.args(&self.args).envs(self.env.iter().map(|(name, value)| (name, value))).env(MARK, mark);
        if let Some(dir) = &self.dir {
            command.current_dir(dir);
        }
        let stdin = if self.input.is_some() { Stdio::piped() } else { Stdio::null() };
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command
    }
}

/// How long, how much, and until when.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The command and everything it started is killed after this.
    pub timeout: Duration,
    /// Most bytes of text kept, of both outputs together. Standard error keeps at least a quarter of it.
    pub cap: usize,
    /// Killed when this is cancelled.
    pub cancel: CancellationToken,
}

/// What a command came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// Its exit code; 128 and the signal's number for one that died of a signal, as shells say it.
    pub exit_code: i32,
    /// Whether something was left out of either text.
    pub truncated: bool,
    /// How many bytes standard output had.
    pub stdout_bytes: u64,
    /// How many bytes standard error had.
    pub stderr_bytes: u64,
    /// Something that the command started still holds its outputs open, and lives on.
    pub left_running: bool,
}

impl Output {
    /// Whether the command said that it succeeded.
    pub fn success(&self) -> bool {
        self.exit_code == 0
    }
}

/// Why there is no output.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// There is no such program, or no such folder to run it in.
    #[error("{program}: no such program or folder")]
    NotFound {
        /// What was to run.
        program: String,
    },
    /// It could not be started or waited for.
    #[error("{program}: {source}")]
    Io {
        /// What was to run.
        program: String,
        /// What the system said.
        source: io::Error,
    },
    /// It took longer than it was given, and was killed with everything it had started.
    #[error("exceeded {}s", after.as_secs_f64())]
    TimedOut {
        /// What it was given.
        after: Duration,
        /// What it had printed until then.
        partial: Box<Output>,
    },
    /// It was cancelled, and killed with everything it had started.
    #[error("cancelled")]
    Cancelled,
}

/// Runs a command to its end. Dropping the future kills the command's whole tree, too.
pub async fn run(command: Command, limits: &Limits) -> Result<Output, ExecError> {
    if limits.cancel.is_cancelled() {
        return Err(ExecError::Cancelled);
    }
    let program = || command.program.to_string_lossy().into_owned();
    let deadline = Instant::now() + limits.timeout.min(FOREVER);
    let mark = Uuid::new_v4().to_string();
    let mut tree = Tree::spawn(command.build(&mark), mark).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => ExecError::NotFound { program: program() },
        _ => ExecError::Io { program: program(), source },
    })?;
    // Held until the end: a writer that is still at it when the command is gone ends with this future.
    let _writer = command.input.clone().zip(tree.take_stdin()).map(|(input, mut stdin)| {
        AbortOnDrop(tokio::spawn(async move {
            // A command that does not read its input is free not to.
            let _ = stdin.write_all(&input).await;
        }))
    });
    let mut capture = Capture::start(tree.take_stdout(), tree.take_stderr(), limits.cap);

    let ended = tokio::select! {
        biased;
        status = tree.wait() => Ended::Itself(status),
        () = limits.cancel.cancelled() => Ended::Cancelled,
        () = sleep_until(deadline) => Ended::TimedOut,
    };
    match ended {
        Ended::Itself(status) => {
            let status = status.map_err(|source| ExecError::Io { program: program(), source })?;
            let drained = tokio::select! {
                () = capture.drained() => true,
                () = sleep(AFTER_EXIT) => false,
            };
            let mut output = capture.finish();
            output.exit_code = tree::exit_code(status);
            output.left_running = !drained;
            Ok(output)
        }
        Ended::Cancelled => {
            tree.kill().await;
            Err(ExecError::Cancelled)
        }
        Ended::TimedOut => {
            tree.kill().await;
            Err(ExecError::TimedOut { after: limits.timeout, partial: Box::new(capture.finish()) })
        }
    }
}

/// Longer than any machine runs; keeps the sum with the present in range.
const FOREVER: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

enum Ended {
    Itself(io::Result<std::process::ExitStatus>),
    Cancelled,
    TimedOut,
}

/// A task that ends with its owner.
struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
