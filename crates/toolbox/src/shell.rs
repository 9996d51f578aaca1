//! `run_shell_command`.

mod capture;
mod tree;

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::arguments::Arguments;
use crate::limits::{SHELL_LIVE_BYTES, SHELL_LONGEST, SHELL_OUTPUT_BYTES, SHELL_TIMEOUT};
use crate::{Live, Outcome, Output, Stream};
use capture::Capture;

/// How long output is still waited for after the command has ended. What it wrote is in the pipe already; a process that
/// it left in the background may hold the pipe open forever.
const AFTERMATH: Duration = Duration::from_millis(200);

/// Runs a command with `sh -c` in the workspace's root, with nothing on its standard input.
pub(crate) async fn run_shell_command(
    root: &Path,
    hidden_variables: &[String],
    arguments: &Arguments,
    live: &mut dyn Live,
    cancel: &CancellationToken,
) -> Result<Outcome, String> {
    let command = arguments.text("command")?.trim();
    if command.is_empty() {
        return Err("command is required".into());
    }
    let seconds = arguments.optional_number("timeout_seconds")?.filter(|seconds| *seconds > 0);
    let timeout = seconds.map_or(SHELL_TIMEOUT, |seconds| Duration::from_secs(seconds.unsigned_abs()));
    let timeout = timeout.min(SHELL_LONGEST);
    let (mut shell, tree) = tree::start(shell(root, hidden_variables, command))
        .map_err(|why| format!("the command cannot be started: {why}"))?;
    let mut seen = Seen::new(live);
    let ended = follow(&mut shell, &mut seen, timeout, cancel).await;
    let outcome = match ended {
        Ended::Exited(status) => {
            let left = tree.release().await;
            finished(status, seen, &left)
        }
        Ended::Failed(why) => {
            tree.end(&mut shell).await;
            return Err(format!("cannot wait for the command: {why}"));
        }
        Ended::TimedOut => {
            tree.end(&mut shell).await;
            let why = format!("command timed out after {} seconds", timeout.as_secs());
            let mut outcome = Outcome::error(why);
            outcome.content.push_str(&seen.report());
            outcome
        }
        Ended::Cancelled => {
            tree.end(&mut shell).await;
            Outcome::cancelled()
        }
    };
    Ok(outcome)
}

fn shell(root: &Path, hidden_variables: &[String], command: &str) -> Command {
    let (program, flag) = if cfg!(windows) { ("cmd", "/C") } else { ("sh", "-c") };
    let mut shell = Command::new(program);
    shell.arg(flag).arg(command).current_dir(root);
    for name in hidden_variables {
        shell.env_remove(name);
    }
    shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    shell
}

/// How a command ended.
enum Ended {
    Exited(ExitStatus),
    TimedOut,
    Cancelled,
    Failed(std::io::Error),
}

/// Reads both streams until the command has ended, or must.
async fn follow(shell: &mut Child, seen: &mut Seen<'_>, timeout: Duration, cancel: &CancellationToken) -> Ended {
    let (mut stdout, mut stderr) = (shell.stdout.take(), shell.stderr.take());
    let (mut out, mut err) = (vec![0_u8; 8192], vec![0_u8; 8192]);
    let deadline = Instant::now() + timeout;
    let mut exited: Option<(ExitStatus, Instant)> = None;
    loop {
        if let Some((status, _)) = exited.filter(|_| stdout.is_none() && stderr.is_none()) {
            return Ended::Exited(status);
        }
        let until = exited.map_or(deadline, |(_, until)| until);
        // In turn: much output on one stream must delay neither the other nor the command's end.
        tokio::select! {
            () = cancel.cancelled() => return Ended::Cancelled,
            read = next(&mut stdout, &mut out) => match read {
                0 => stdout = None,
                read => seen.take(Stream::Stdout, &out[..read]),
            },
            read = next(&mut stderr, &mut err) => match read {
                0 => stderr = None,
                read => seen.take(Stream::Stderr, &err[..read]),
            },
            status = shell.wait(), if exited.is_none() => match status {
                Ok(status) => exited = Some((status, Instant::now() + AFTERMATH)),
                Err(why) => return Ended::Failed(why),
            },
            () = tokio::time::sleep_until(until) => match exited {
                Some((status, _)) => return Ended::Exited(status),
                None => return Ended::TimedOut,
            },
        }
        // Endless output must not delay the time-out.
        if exited.is_none() && Instant::now() >= deadline {
            return Ended::TimedOut;
        }
        if let Some((status, until)) = exited
            && Instant::now() >= until
        {
            return Ended::Exited(status);
        }
    }
}

/// Cancel-safe: what was not read stays in the pipe. An error counts as the end.
async fn next(pipe: &mut Option<impl AsyncRead + Unpin>, buffer: &mut [u8]) -> usize {
    match pipe {
        Some(pipe) => pipe.read(buffer).await.unwrap_or(0),
        None => std::future::pending().await,
    }
}

/// What the command has written so far.
struct Seen<'a> {
    stdout: Capture,
    stderr: Capture,
    live: &'a mut dyn Live,
    /// How much more is shown live.
    live_left: usize,
}

impl<'a> Seen<'a> {
    fn new(live: &'a mut dyn Live) -> Self {
        Self { stdout: Capture::new(), stderr: Capture::new(), live, live_left: SHELL_LIVE_BYTES }
    }

    fn take(&mut self, stream: Stream, bytes: &[u8]) {
        let capture = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        let text = capture.take(bytes);
        if text.is_empty() || self.live_left == 0 {
            return;
        }
        if text.len() <= self.live_left {
            self.live_left -= text.len();
            self.live.output(Output { stream, text });
        } else {
            self.live_left = 0;
            let text = "\n[More output is not shown live.]\n".to_owned();
            self.live.output(Output { stream, text });
        }
    }

    /// Both streams under their headings, cut to the limit.
    fn report(&self) -> String {
        // Standard error is usually short: it gets what it needs, up to half.
        let stderr_room =
            self.stderr.len().min((SHELL_OUTPUT_BYTES / 2).max(SHELL_OUTPUT_BYTES.saturating_sub(self.stdout.len())));
        let stdout_room = SHELL_OUTPUT_BYTES - stderr_room.min(SHELL_OUTPUT_BYTES);
        let mut report = String::new();
        for (heading, capture, room) in [("STDOUT", &self.stdout, stdout_room), ("STDERR", &self.stderr, stderr_room)]
        {
            if capture.len() > 0 {
                report.push_str(&format!("\n{heading}:\n{}", capture.within(room)));
                if !report.ends_with('\n') {
                    report.push('\n');
                }
            }
        }
        report
    }
}

fn finished(status: ExitStatus, seen: Seen<'_>, left: &[u32]) -> Outcome {
    let mut content = format!("Exit status: {}\n", status_words(status));
    content.push_str(&seen.report());
    if !left.is_empty() {
        let pids: Vec<_> = left.iter().map(u32::to_string).collect();
        content.push_str(&format!("\n[Still running in the background: process {}.]\n", pids.join(", ")));
    }
    Outcome::text(content.trim_end_matches('\n').to_owned())
}

fn status_words(status: ExitStatus) -> String {
    #[cfg(unix)]
    {
        use std::os::unix::process::ExitStatusExt as _;
        if let Some(signal) = status.signal() {
            return format!("{} (killed by signal {signal})", 128 + signal);
        }
    }
    status.code().map_or_else(|| "unknown".into(), |code| code.to_string())
}
