//! The agent and its surroundings: one per state, updates only where they can be undone, a machine that is slow to stop.

use convoke_endpoint::logs::Forward;
use convoke_endpoint::run::{End, RunError};
use convoke_endpoint::state::StateError;
use convoke_endpoint::update::Supervision;
use serde_json::json;
use uuid::Uuid;

use crate::kenny::{Endpoint, Kenny, soon};

#[tokio::test]
async fn a_second_agent_with_the_same_state_refuses_to_run() {
    let kenny = Kenny::start().await;
    let endpoint = Endpoint::new(&kenny.url(), &kenny.key);
    let first = endpoint.run();
    let mut peer = kenny.let_in().await;
    let refused = endpoint.run().end().await.expect_err("refused");
    assert!(matches!(refused, RunError::State(StateError::Locked(_))), "{refused}");
    assert_eq!(peer.call("fs_list", json!({ "path": "/" })).await["ok"], true, "the first is untouched");
    first.stop().await;
    let again = endpoint.run();
    let _peer = kenny.let_in().await;
    again.stop().await;
}

#[tokio::test]
async fn a_plain_run_takes_no_updates() {
    let kenny = Kenny::start().await;
    let endpoint = Endpoint::new(&kenny.url(), &kenny.key);
    let agent = endpoint.run();
    let mut peer = kenny.let_in().await;
    let url = kenny.url().replace("ws://", "http://").replace("/agent/ws", "/d/binary/x");
    let args = json!({ "version": "9", "url": url, "sha256": "0".repeat(64) });
    assert_eq!(peer.call("agent_update", args).await["error"]["code"], "unsupported");
    agent.stop().await;
}

#[tokio::test]
async fn a_call_outlives_its_tunnel_and_the_next_tunnel_is_clean() {
    let kenny = Kenny::start().await;
    let endpoint = Endpoint::new(&kenny.url(), &kenny.key);
    let agent = endpoint.run();
    let mut peer = kenny.let_in().await;
    let (begun, gate, done) = (endpoint.gate("begun"), endpoint.gate("gate"), endpoint.gate("done"));
    let wait = format!("{}; {}; {}", begun.tell(), gate.wait(), done.tell());
    let lost = peer.ask("shell_exec", json!({ "command": wait, "timeout_s": 60 })).await;
    begun.told().await;
    drop(peer);
    let mut peer = kenny.let_in().await;
    let _open = gate.open();
    done.told().await;
    // Its answer goes nowhere: the new tunnel never asked.
    assert_eq!(peer.call("fs_list", json!({ "path": "/" })).await["ok"], true);
    assert!(peer.skipped.iter().all(|frame| frame["id"] != lost.as_str()));
    agent.stop().await;
}

#[tokio::test]
async fn an_update_is_restarted_into_though_its_answer_was_never_sent() {
    use sha2::Digest as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    const NEW: &str = "#!/bin/sh\necho convoke-agent ready\n";
    let kenny = Kenny::start().await;
    let endpoint =
        Endpoint::new(&kenny.url(), &kenny.key).set("max_frame_bytes", "8000000").set("output_bytes", "4000000");
    let program = endpoint.dir().join("agent");
    std::fs::write(&program, "#!/bin/sh\n").expect("written");
    let agent = endpoint.run_with(Forward::new("off"), Supervision::Service { program });
    let mut peer = kenny.let_in().await;
    // More than the sockets hold: nobody reads, so that nothing after it gets out.
    for _ in 0..5 {
        let begun = endpoint.gate(&Uuid::new_v4().to_string());
        let command = format!("head -c 3000000 /dev/zero | tr '\\0' x; {}", begun.tell());
        peer.ask("shell_exec", json!({ "command": command, "timeout_s": 60 })).await;
        begun.told().await;
    }
    let url = kenny.url().replace("ws://", "http://").replace("/agent/ws", "/d/binary/x");
    let sha256 = hex::encode(sha2::Sha256::digest(NEW));
    peer.ask("agent_update", json!({ "version": "9", "url": url, "sha256": sha256 })).await;
    let mut download = kenny.connection().await;
    let mut read = Vec::new();
    while !read.ends_with(b"\r\n\r\n") {
        assert!(download.read_buf(&mut read).await.expect("reads") > 0);
    }
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", NEW.len());
    download.write_all(format!("{head}{NEW}").as_bytes()).await.expect("writes");
    soon("the update is installed", async {
        while !endpoint.state.update_file().exists() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    // What it answers goes into the queue, and the tunnel is cut before it is out.
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    drop(peer);
    assert_eq!(agent.end().await.expect("ran"), End::Restart);
}

#[tokio::test]
async fn no_log_line_is_lost_because_many_come_at_once() {
    use tracing_subscriber::layer::SubscriberExt as _;
    const LINES: usize = 250;
    let kenny = Kenny::start().await;
    let endpoint = Endpoint::new(&kenny.url(), &kenny.key);
    let logs = Forward::new("info");
    let agent = endpoint.run_with(logs.clone(), Supervision::None);
    let mut peer = kenny.let_in().await;
    // It has confirmed by then, and what it forwards from now on is ours alone.
    peer.call("shell_exec", json!({ "command": "true" })).await;
    tracing::subscriber::with_default(tracing_subscriber::registry().with(logs.layer()), || {
        for n in 0..LINES {
            tracing::info!(n, "{}", "x".repeat(2000));
        }
    });
    for n in 0..LINES {
        assert_eq!(peer.next_of("log").await["fields"]["n"], n);
    }
    agent.stop().await;
}
