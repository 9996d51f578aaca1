//! Commands as people and attackers write them, with real processes.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]
#![cfg(unix)]

use std::path::Path;
use std::time::{Duration, Instant};

use convoke_machine::exec::{self, Command, ExecError, Limits, Output};
use tokio_util::sync::CancellationToken;

fn limits(timeout: Duration) -> Limits {
    Limits { timeout, cap: 64 * 1024, cancel: CancellationToken::new() }
}

fn sh(script: &str) -> Command {
    Command::new("/bin/sh").arg("-c").arg(script)
}

async fn run(script: &str) -> Output {
    exec::run(sh(script), &limits(Duration::from_secs(60))).await.unwrap()
}

/// Waits until a process is gone (a zombie is).
async fn gone(pid: &str) {
    let stat = Path::new("/proc").join(pid.trim()).join("stat");
    let lives = || std::fs::read_to_string(&stat).is_ok_and(|text| !text.contains(") Z ") && !text.contains(") X "));
    let started = Instant::now();
    while lives() {
        assert!(started.elapsed() < Duration::from_secs(20), "process {pid} lives on");
        tokio::task::yield_now().await;
    }
}

/// The text of a file, once it is there and has a line.
async fn line_of(file: &Path) -> String {
    loop {
        if let Ok(text) = std::fs::read_to_string(file)
            && text.ends_with('\n')
        {
            return text;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn output_errors_and_exit_codes_come_back() {
    let output = run("echo out; echo err >&2; exit 3").await;
    assert_eq!((output.stdout.as_str(), output.stderr.as_str(), output.exit_code), ("out\n", "err\n", 3));
    assert!(!output.truncated && !output.left_running && !output.success());
    let output = run("kill -9 $$").await;
    assert_eq!(output.exit_code, 137);
}

#[tokio::test]
async fn arguments_and_input_reach_the_program_as_they_are() {
    let command = Command::new("/bin/cat").arg("-").input("in\0put".as_bytes());
    let output = exec::run(command, &limits(Duration::from_secs(60))).await.unwrap();
    assert_eq!(output.stdout, "in\0put");
    let command = Command::new("/usr/bin/printf").args(["%s|", "$(reboot)", "; x", "--help"]).dir("/").env("A", "b");
    let output = exec::run(command, &limits(Duration::from_secs(60))).await.unwrap();
    assert_eq!(output.stdout, "$(reboot)|; x|--help|");
    // A command that does not read its input is not waited for.
    let command = sh("exit 0").input(vec![b'x'; 1 << 20]);
    assert!(exec::run(command, &limits(Duration::from_secs(60))).await.unwrap().success());
}

#[tokio::test]
async fn a_hundred_megabytes_are_drained_and_not_kept() {
    let output = run("head -c 100000000 /dev/zero | tr '\\0' x; echo done >&2").await;
    assert_eq!(output.stdout_bytes, 100_000_000);
    assert!(output.truncated && output.stdout.len() + output.stderr.len() <= 64 * 1024);
    assert_eq!(output.stderr, "done\n");
}

#[tokio::test]
async fn output_is_valid_text_whatever_is_printed() {
    let output = run("printf 'a\\377\\376b\\303'").await;
    assert_eq!(output.stdout, "a\u{fffd}\u{fffd}b\u{fffd}");
    assert_eq!(output.stdout_bytes, 5);
    assert!(!output.truncated);
}

#[tokio::test]
async fn a_process_left_behind_lives_on_and_holds_nobody_up() {
    let started = Instant::now();
    let output = run("sleep 300 & echo $!").await;
    assert!(started.elapsed() < Duration::from_secs(60));
    assert!(output.left_running && output.success());
    assert!(Path::new("/proc").join(output.stdout.trim()).exists());
    assert!(run(&format!("kill {}", output.stdout.trim())).await.success());
}

/// Starts something, waits until it has said its process numbers, ends the call in a way, and sees all of it die.
async fn all_die(script: &str, end: impl AsyncFnOnce(Command, CancellationToken, &Path)) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    let command = sh(script).env("PIDS", &file);
    end(command, CancellationToken::new(), &file).await;
    for pid in line_of(&file).await.split_whitespace() {
        gone(pid).await;
    }
}

const FORKS: &str = "sleep 300 & a=$!; (sleep 300 & echo $a $! $$ > $PIDS); wait; sleep 300";
/// Leaves the group and the session and throws away its environment, but has its parents.
const FORGETS: &str = "p=$PIDS; setsid env -i sh -c \"echo \\$\\$ > $p; exec sleep 300\"; sleep 300";
/// Leaves the group and the session, and its parent dies.
const ESCAPES: &str = "(setsid sh -c 'echo $$ > $PIDS; exec sleep 300' &) ; sleep 300";

#[tokio::test]
async fn the_deadline_kills_the_whole_tree() {
    for script in [FORKS, FORGETS, ESCAPES] {
        all_die(script, async |command, _, file| {
            // On a busy machine it may not have begun within a short time; then it gets more.
            let mut time = Duration::from_millis(500);
            while !std::fs::read_to_string(file).is_ok_and(|text| text.ends_with('\n')) {
                let error = exec::run(command.clone(), &limits(time)).await.unwrap_err();
                assert!(matches!(error, ExecError::TimedOut { .. }), "{error}");
                time *= 2;
            }
        })
        .await;
    }
}

#[tokio::test]
async fn cancelling_kills_the_whole_tree() {
    for script in [FORKS, FORGETS, ESCAPES] {
        all_die(script, async |command, cancel, file| {
            let limits = Limits { cancel: cancel.clone(), ..limits(Duration::from_secs(600)) };
            let begun = async {
                line_of(file).await;
                cancel.cancel();
            };
            let (outcome, ()) = tokio::join!(exec::run(command, &limits), begun);
            assert!(matches!(outcome, Err(ExecError::Cancelled)));
            assert!(matches!(exec::run(sh("true"), &limits).await, Err(ExecError::Cancelled)));
        })
        .await;
    }
}

#[tokio::test]
async fn dropping_the_call_kills_the_whole_tree() {
    for script in [FORKS, FORGETS, ESCAPES] {
        all_die(script, async |command, _, file| {
            let limits = limits(Duration::from_secs(600));
            tokio::select! {
                _ = exec::run(command, &limits) => panic!("it does not end by itself"),
                _ = line_of(file) => {}
            }
        })
        .await;
    }
}

#[tokio::test]
async fn what_was_printed_before_the_deadline_is_kept() {
    let mut time = Duration::from_millis(200);
    loop {
        let error = exec::run(sh("echo so far; sleep 300"), &limits(time)).await.unwrap_err();
        let ExecError::TimedOut { partial, .. } = error else { panic!("{error}") };
        if partial.stdout == "so far\n" {
            return;
        }
        // It had no time to say anything.
        assert_eq!(partial.stdout, "");
        time *= 2;
    }
}

#[tokio::test]
async fn what_cannot_be_started_is_said() {
    let limits = limits(Duration::from_secs(60));
    let error = exec::run(Command::new("/no/such/program"), &limits).await.unwrap_err();
    assert!(matches!(error, ExecError::NotFound { .. }), "{error}");
    let error = exec::run(sh("true").dir("/no/such/folder"), &limits).await.unwrap_err();
    assert!(matches!(error, ExecError::NotFound { .. }), "{error}");
    let error = exec::run(Command::new("/etc/passwd"), &limits).await.unwrap_err();
    assert!(matches!(error, ExecError::Io { .. }), "{error}");
    let error = exec::run(Command::new("a\0b"), &limits).await.unwrap_err();
    assert!(matches!(error, ExecError::Io { .. }), "{error}");
}

#[tokio::test]
async fn a_timeout_beyond_all_time_is_no_trouble() {
    let limits = Limits { timeout: Duration::MAX, ..limits(Duration::ZERO) };
    assert!(exec::run(sh("true"), &limits).await.unwrap().success());
}
