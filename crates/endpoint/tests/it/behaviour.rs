//! The agent and its surroundings: one per state, updates only where they can be undone, a machine that is slow to stop.

use convoke_endpoint::run::RunError;
use convoke_endpoint::state::StateError;
use serde_json::json;

use crate::kenny::{Endpoint, Kenny};

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
