//! Enrolment, calls, the kill switch and a snapshot.

use std::path::Path;

use serde_json::json;

use super::{Agent, PROGRAM, Stage};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn enrol_run_call_pause_resume_and_stop() {
    let stage = Stage::new(&[]).await;
    let (code, told) = stage.ask(&["run"]);
    assert_eq!(code, Some(2), "{told}");
    let (code, told) = stage.ask(&["status"]);
    assert!(code == Some(2) && told.contains("convoke-agent enroll"), "{told}");
    stage.enrol().await;
    let run = || Agent::start(stage.verb(Path::new(PROGRAM), &["run", "--set", "log_level=debug"]));
    let agent = run();
    agent.told("connected");
    let (code, told) = stage.ask(&["status", "--json"]);
    assert!(code == Some(0) && told.contains(r#""connected":true"#), "{told}");
    let answer = stage.call("shell_exec", json!({ "command": "echo hello" })).await;
    assert_eq!(answer["result"]["stdout"], "hello\n", "{answer}");

    // Another process of the same program collects.
    let answer = stage.call("telemetry_collect", json!({ "sections": ["memory", "uptime"] })).await;
    assert!(answer["result"]["memory"]["total_bytes"].is_u64(), "{answer}");
    let (_, log) = stage.ask(&["logs", "-n", "1000"]);
    assert!(log.contains("the agent is running") && !log.contains("is collected in this one"), "{log}");

    let (code, told) = stage.ask(&["pause"]);
    assert!(code == Some(0) && told.contains("`convoke-agent resume`"), "{told}");
    let answer = stage.call("shell_exec", json!({ "command": "true" })).await;
    assert_eq!(answer["error"]["code"], "disabled", "{answer}");
    assert_eq!(stage.ask(&["resume"]).0, Some(0));
    let answer = stage.call("shell_exec", json!({ "command": "echo again" })).await;
    assert_eq!(answer["result"]["stdout"], "again\n", "{answer}");

    agent.stop();
    assert_eq!(stage.ask(&["status"]).0, Some(1));
    // With the word that a service's command line has.
    let agent = Agent::start(stage.verb(Path::new(PROGRAM), &["agent", "run"]));
    agent.told("connected");
    agent.stop();
    stage.hub.stop().await.expect("stops");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_starts_it_with_words_that_it_takes() {
    let stage = Stage::new(&[]).await;
    let (code, unit) = stage.ask(&["install", "--print", "--program", "/opt/x/convoke-agent"]);
    assert_eq!(code, Some(0), "{unit}");
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=\"/opt/x/convoke-agent\" "));
    let words: Vec<&str> = line.expect("its command line").split(' ').collect();
    let state = words.iter().position(|word| *word == "--state").expect("its state");
    assert_eq!(words[..state], ["agent", "run", "--service"], "{unit}");
    stage.enrol().await;
    let agent = Agent::start(stage.verb(Path::new(PROGRAM), &words[..state]));
    agent.told("connected");
    agent.stop();
    stage.hub.stop().await.expect("stops");
}

/// What the original's installers, scripts and unit files say.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_originals_words_are_taken() {
    let stage = Stage::new(&[]).await;
    stage.enrol().await;
    let run = ["run", "--telemetry-interval-secs", "77"];
    let agent = Agent::start(stage.verb(Path::new(PROGRAM), &run));
    agent.told("connected");
    agent.stop();
    let install = ["install", "--print", "--server", "wss://hub.example/agent/ws", "--agent-id", "pc"];
    let (code, unit) = stage.ask(&[&install[..], &["--enroll-token", "x", "--server-pubkey", "y"]].concat());
    assert!(code == Some(0) && unit.contains("ExecStart="), "{unit}");
    let file = stage.dir.path().join("kenny-agent.setup.json");
    let file = file.to_str().expect("text");
    let (code, told) = stage.ask(&["setup", "--file", file]);
    assert!(code == Some(2) && told.contains(file), "{told}");
    std::fs::write(file, r#"{"server":"wss://hub.example/agent/ws"}"#).expect("writes");
    let (code, told) = stage.ask(&["setup", "--file", file]);
    assert!(code == Some(2) && told.contains("agent_id"), "{told}");
    stage.hub.stop().await.expect("stops");
}
