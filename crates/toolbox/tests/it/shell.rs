//! Commands and what they leave behind.

use std::time::Duration;

use convoke_toolbox::{Outcome, Output, Stream};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{Bench, call};

async fn run(bench: &Bench, command: &str) -> Outcome {
    bench.run("run_shell_command", json!({ "command": command })).await
}

/// Whether any process has this in its command line. A zombie has none.
fn is_running(marker: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " ")).any(|line| line.contains(marker))
}

/// A length of sleep that no other test has.
fn marker() -> String {
    let mut random = [0_u8; 8];
    let file = std::fs::File::open("/dev/urandom").unwrap();
    std::io::Read::read_exact(&mut { file }, &mut random).unwrap();
    format!("1000.{}", u64::from_le_bytes(random))
}

/// Runs a command, and cancels it when it says that it is ready.
async fn cancel_when_ready(bench: &Bench, command: &str) -> Outcome {
    let cancel = CancellationToken::new();
    let mut live = |output: Output| {
        if output.text.contains("ready") {
            cancel.cancel();
        }
    };
    let call = call("run_shell_command", &json!({ "command": command, "timeout_seconds": 600 }));
    bench.toolbox.run(&call, &mut live, &cancel).await
}

#[tokio::test]
async fn both_streams_and_the_status_come_back() {
    let bench = Bench::new();
    let done = run(&bench, "echo out; echo err >&2; exit 3").await;
    assert_eq!(done.content, "Exit status: 3\n\nSTDOUT:\nout\n\nSTDERR:\nerr");
    assert!(!done.is_error, "a command that fails is an answer");
    assert_eq!(run(&bench, "true").await.content, "Exit status: 0");
    assert_eq!(run(&bench, "kill -9 $$").await.content, "Exit status: 137 (killed by signal 9)");
    let root = std::fs::canonicalize(bench.path("")).unwrap();
    assert!(run(&bench, "pwd -P").await.content.contains(root.to_str().unwrap()));
    assert_eq!(run(&bench, "cat").await.content, "Exit status: 0", "nothing on standard input");
    assert_eq!(bench.fails("run_shell_command", json!({ "command": "  " })).await, "command is required");
    assert_eq!(bench.fails("run_shell_command", json!({})).await, "command is required");
    assert!(run(&bench, "printf '\\377ok'").await.content.ends_with("\u{fffd}ok"));
}

#[tokio::test]
async fn output_comes_live_and_in_whole_characters() {
    let bench = Bench::new();
    let mut heard = Vec::new();
    let mut live = |output: Output| heard.push((output.stream, output.text));
    // The second half of the character comes in a write of its own.
    let command = "printf '\\303'; sleep 0.05; printf '\\244'; echo; echo bad >&2";
    let call = call("run_shell_command", &json!({ "command": command }));
    bench.toolbox.run(&call, &mut live, &CancellationToken::new()).await;
    let of = |stream: Stream| {
        heard.iter().filter(|(heard, _)| *heard == stream).map(|(_, text)| text.as_str()).collect::<String>()
    };
    assert_eq!((of(Stream::Stdout).as_str(), of(Stream::Stderr).as_str()), ("ä\n", "bad\n"));
}

#[tokio::test]
async fn much_output_keeps_its_ends() {
    let bench = Bench::new();
    let done = run(&bench, "echo FIRST; seq 1 200000; echo LAST; echo oops >&2").await;
    assert!(done.content.len() < 22_000, "{}", done.content.len());
    for part in ["STDOUT:\nFIRST\n", "bytes left out", "\nLAST\n", "STDERR:\noops"] {
        assert!(done.content.contains(part), "{part}");
    }
}

#[tokio::test]
async fn a_command_that_takes_too_long_ends_with_what_it_said() {
    let bench = Bench::new();
    let marker = marker();
    let command = format!("echo begun; sleep {marker}");
    let done = bench.run("run_shell_command", json!({ "command": command, "timeout_seconds": 1 })).await;
    assert!(done.is_error && !done.cancelled);
    assert_eq!(done.content, "Error: command timed out after 1 seconds\nSTDOUT:\nbegun\n");
    assert!(!is_running(&marker));
}

#[tokio::test]
async fn a_flood_does_not_stop_the_clock() {
    let bench = Bench::new();
    let done = bench.run("run_shell_command", json!({ "command": "yes", "timeout_seconds": 1 })).await;
    assert!(done.content.starts_with("Error: command timed out after 1 seconds"));
}

#[tokio::test]
async fn cancelling_leaves_nothing_of_the_tree() {
    let bench = Bench::new();
    for wrap in [
        // As the shell does it.
        "sleep MARK & echo ready; wait",
        "sh -c 'sleep MARK & wait' & echo ready; wait",
        // Deaf to the first request.
        "trap '' TERM; sh -c 'trap \"\" TERM; echo ready; while :; do sleep MARK; done'",
        // Out of the group.
        "setsid sh -c 'echo ready; sleep MARK' & wait",
        // Out of the group, and its parent gone.
        "(setsid sh -c 'echo ready; sleep MARK' &) ; sleep MARK",
        // Out of the group, and without its environment.
        "env -i setsid --wait sh -c 'echo ready; sleep MARK'",
    ] {
        let marker = marker();
        let outcome = cancel_when_ready(&bench, &wrap.replace("MARK", &marker)).await;
        assert_eq!((outcome.content.as_str(), outcome.cancelled), ("Cancelled.", true), "{wrap}");
        assert!(!is_running(&marker), "{wrap}");
    }
}

#[tokio::test]
async fn a_dropped_call_leaves_nothing_either() {
    let bench = Bench::new();
    let fifo = bench.path("alive");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    // It opens when the command has opened its end, and ends when nothing that has inherited that is alive.
    let (opened, is_open) = tokio::sync::oneshot::channel();
    let gone = tokio::task::spawn_blocking(move || {
        let mut alive = std::fs::File::open(fifo).unwrap();
        opened.send(()).unwrap();
        std::io::copy(&mut alive, &mut std::io::sink()).unwrap()
    });
    let call = call("run_shell_command", &json!({ "command": "setsid sleep 1000 3> alive & wait" }));
    let (cancel, mut live) = (CancellationToken::new(), |_: Output| {});
    tokio::select! {
        done = bench.toolbox.run(&call, &mut live, &cancel) => panic!("{done:?}"),
        opened = is_open => opened.unwrap(),
    }
    gone.await.unwrap();
}

#[tokio::test]
async fn a_server_in_the_background_holds_nobody_up_and_is_told() {
    let bench = Bench::new();
    let marker = marker();
    let done = run(&bench, &format!("sleep {marker} & echo started $!")).await;
    assert!(done.content.starts_with("Exit status: 0\n\nSTDOUT:\nstarted "), "{}", done.content);
    assert!(done.content.contains("[Still running in the background: process "), "{}", done.content);
    assert!(is_running(&marker), "it was meant to stay");
    let pid = done.content.split("started ").nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
    let killed = run(&bench, &format!("kill {pid}")).await;
    assert_eq!(killed.content, "Exit status: 0");
}

#[tokio::test]
async fn a_cancelled_call_does_not_begin() {
    let bench = Bench::new();
    let cancel = CancellationToken::new();
    cancel.cancel();
    let call = call("run_shell_command", &json!({ "command": "touch begun" }));
    let outcome = bench.toolbox.run(&call, &mut |_: Output| {}, &cancel).await;
    assert!(outcome.cancelled && !bench.path("begun").exists());
}

#[tokio::test]
async fn hidden_variables_are_not_seen_and_odd_times_are_taken_as_none() {
    let bench = Bench::with(|settings| settings.hidden_variables = vec!["PATH_OF_SECRETS".into(), "HOME".into()]);
    assert_eq!(run(&bench, "echo \"[$HOME]\"").await.content, "Exit status: 0\n\nSTDOUT:\n[]");
    for odd in [json!(0), json!(-5), Value::Null] {
        let done = bench.run("run_shell_command", json!({ "command": "true", "timeout_seconds": odd })).await;
        assert_eq!(done.content, "Exit status: 0");
    }
    let words = bench.fails("run_shell_command", json!({ "command": "true", "timeout_seconds": "soon" })).await;
    assert_eq!(words, "timeout_seconds must be a whole number");
    assert!(Duration::from_secs(30) == convoke_toolbox::limits::SHELL_TIMEOUT);
}
