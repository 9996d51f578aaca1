//! What a probe may use: programs, with a time limit and a bound on their output; parameters that have been validated.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use convoke_machine::Call;
use convoke_machine::exec::{self, Command, Limits, Output};
use convoke_machine::open::{self, Rules};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::{Config, ProbeError};

/// Most bytes of a program's output.
const OUTPUT_CAP: usize = 1024 * 1024;
/// Most bytes of lines in one result: it must fit a frame of 1 MiB with every character escaped that can be.
const LINES_BUDGET: usize = 400 * 1024;
/// Longest line.
const MAX_LINE: usize = 8 * 1024;

pub(crate) struct Context<'a> {
    pub(crate) config: &'a Config,
    timeout: Duration,
    cancel: CancellationToken,
    rules: Option<Arc<dyn Rules>>,
}

impl<'a> Context<'a> {
    pub(crate) fn new(config: &'a Config, timeout: Duration, call: &Call) -> Self {
        Self { config, timeout, cancel: call.cancel.clone(), rules: call.rules.clone() }
    }

    /// What decides on real paths.
    pub(crate) fn rules(&self) -> Option<Arc<dyn Rules>> {
        self.rules.clone()
    }

    /// Decides on what the paths of a request lead to now. Programs that are given a path open it by themselves.
    pub(crate) async fn check_named(&self, paths: Vec<String>) -> Result<(), ProbeError> {
        if paths.is_empty() {
            return Ok(());
        }
        let rules = self.rules();
        // A path on a dead network mount can block.
        let checked = tokio::task::spawn_blocking(move || {
            paths.iter().try_for_each(|path| open::check_named(Path::new(path), rules.as_deref()))
        });
        let checked = checked.await.map_err(|_| ProbeError::Failed("checking a path panicked".into()))?;
        checked.map_err(|why| ProbeError::Forbidden(why.to_string()))
    }

    /// Where a program is, if it is installed.
    pub(crate) fn program(&self, name: &str) -> Option<PathBuf> {
        find_program(self.config, name)
    }

    /// Something of this machine, by its usual path.
    pub(crate) fn file(&self, path: &str) -> PathBuf {
        self.config.root.join(path.trim_start_matches('/'))
    }

    /// Runs a program to its end, whatever it says. Its messages come in English.
    pub(crate) async fn run<A: AsRef<str>>(&self, program: &str, args: &[A]) -> Result<Output, ProbeError> {
        self.run_with(program, args, &[]).await
    }

    /// The same, with variables.
    pub(crate) async fn run_with<A: AsRef<str>>(
        &self,
        program: &str,
        args: &[A],
        env: &[(&str, &str)],
    ) -> Result<Output, ProbeError> {
        let Some(found) = self.program(program) else {
            return Err(ProbeError::Failed(format!("{program} is not installed")));
        };
        self.run_found(found, args, env).await
    }

    /// Runs the program at this very path to its end.
    pub(crate) async fn run_path<A: AsRef<str>>(&self, program: &Path, args: &[A]) -> Result<Output, ProbeError> {
        self.run_found(program.to_owned(), args, &[]).await
    }

    async fn run_found<A: AsRef<str>>(
        &self,
        found: PathBuf,
        args: &[A],
        env: &[(&str, &str)],
    ) -> Result<Output, ProbeError> {
        let mut command = Command::new(found).args(args.iter().map(AsRef::as_ref)).env("LC_ALL", "C");
        if let Ok(path) = std::env::join_paths(&self.config.path) {
            command = command.env("PATH", path);
        }
        for (name, value) in env {
            command = command.env(name, value);
        }
        let limits = Limits { timeout: self.timeout, cap: OUTPUT_CAP, cancel: self.cancel.clone() };
        Ok(exec::run(command, &limits).await?)
    }

    /// Runs a program that must succeed, and gives what it printed.
    pub(crate) async fn output<A: AsRef<str>>(&self, program: &str, args: &[A]) -> Result<String, ProbeError> {
        let output = self.run(program, args).await?;
        if output.success() {
            Ok(output.stdout)
        } else {
            Err(ProbeError::of_program(program, output.exit_code, &output.stderr, &output.stdout))
        }
    }

    /// Whether a database may be asked there.
    pub(crate) fn check_host(&self, host: &str) -> Result<(), ProbeError> {
        let is_local =
            host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
        if is_local || self.config.database_hosts.iter().any(|allowed| allowed.eq_ignore_ascii_case(host)) {
            return Ok(());
        }
        Err(ProbeError::Forbidden(format!("this agent may not query databases on {host}; its owner can allow it")))
    }
}

/// Where a program is.
pub(crate) fn find_program(config: &Config, name: &str) -> Option<PathBuf> {
    config.path.iter().map(|dir| dir.join(name)).find(|path| is_executable(path))
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(path: &Path) -> bool {
    path.is_file()
}

/// A parameter that is a text.
pub(crate) fn text<'p>(params: &'p Map<String, Value>, name: &str) -> Option<&'p str> {
    params.get(name).and_then(Value::as_str)
}

/// A parameter that must be a text: its manifest requires it or has a default.
pub(crate) fn needed<'p>(params: &'p Map<String, Value>, name: &str) -> Result<&'p str, ProbeError> {
    text(params, name).ok_or_else(|| ProbeError::Failed(format!("parameter `{name}` is missing")))
}

/// A parameter that is a whole number.
pub(crate) fn number(params: &Map<String, Value>, name: &str, default: u64) -> u64 {
    params.get(name).and_then(Value::as_f64).map_or(default, |n| n as u64)
}

/// The last so many lines of a text, as a result: bounded in bytes, and saying so when something was left out.
pub(crate) fn last_lines<'t>(lines: impl DoubleEndedIterator<Item = &'t str>, count: u64) -> (Vec<Value>, bool) {
    let mut budget = LINES_BUDGET;
    let mut cut = false;
    let mut kept: Vec<Value> = Vec::new();
    for line in lines.rev().take(usize::try_from(count).unwrap_or(usize::MAX)) {
        let short = &line[..line.floor_char_boundary(MAX_LINE)];
        cut |= short.len() < line.len();
        let Some(left) = budget.checked_sub(short.len() + 8) else {
            cut = true;
            break;
        };
        budget = left;
        kept.push(short.into());
    }
    kept.reverse();
    (kept, cut)
}
