//! The hub proves itself first, or nothing happens at all.

use convoke_endpoint::status::{Phase, Status};
use convoke_kenny::wire_bytes;
use ed25519_dalek::SigningKey;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio_tungstenite::tungstenite::Message;

use crate::kenny::{Endpoint, ID, Kenny, Peer, soon};

fn keys(frame: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = frame.as_object().expect("an object").keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

#[tokio::test]
async fn the_frames_have_exactly_the_contracts_keys() {
    let kenny = Kenny::start().await;
    let endpoint = Endpoint::new(&kenny.url(), &kenny.key);
    let agent = endpoint.run();
    let mut peer = kenny.let_in().await;
    assert_eq!(keys(&peer.register), ["agent_id", "client_nonce", "meta", "protocol", "type"]);
    assert_eq!(peer.register["protocol"], "0.8");
    assert_eq!(peer.register["agent_id"], ID);
    let meta = &peer.register["meta"];
    assert!(["linux", "windows", "macos"].contains(&meta["os"].as_str().expect("a text")));
    assert!(meta["hostname"].is_string() && meta["version"].is_string());
    assert_eq!(meta["remote_control"], true);
    assert!(meta["features"].as_array().expect("a list").contains(&json!("posix")), "{meta}");

    let good = peer.call("fs_list", json!({ "path": "/" })).await;
    assert_eq!(keys(&good), ["id", "ok", "result", "type"]);
    let bad = peer.call("fs_list", json!({ "path": "/no/such/place" })).await;
    assert_eq!(keys(&bad), ["error", "id", "ok", "type"]);
    assert_eq!((keys(&bad["error"]), &bad["error"]["code"]), (vec!["code", "message"], &json!("not_found")));
    peer.send(json!({ "type": "ping" })).await;
    assert_eq!(keys(&peer.next_of("pong").await), ["type"]);
    agent.stop().await;
}

#[tokio::test]
async fn an_impostor_gets_no_signature_and_is_not_served() {
    let kenny = Kenny::start().await;
    let endpoint = Endpoint::new(&kenny.url(), &kenny.key);
    let agent = endpoint.run();
    let mut peer = kenny.accept().await;
    peer.register().await;
    let first_nonce = peer.register["client_nonce"].clone();
    peer.challenge(&SigningKey::from_bytes(&[66; 32])).await;
    assert!(peer.is_closed().await, "no auth, no anything");
    // It goes on trying, with fresh bytes each time, and takes the hub when it is back.
    let mut peer = kenny.let_in().await;
    assert_ne!(peer.register["client_nonce"], first_nonce);
    assert_eq!(peer.call("fs_disk_usage", json!({})).await["ok"], true);
    agent.stop().await;
}

#[tokio::test]
async fn anything_but_a_challenge_first_ends_it() {
    let kenny = Kenny::start().await;
    let endpoint = Endpoint::new(&kenny.url(), &kenny.key);
    let agent = endpoint.run();
    let request =
        json!({ "type": "request", "id": uuid::Uuid::new_v4(), "tool": "fs_list", "args": { "path": "/" } });
    for first in [
        json!({ "type": "policy", "rules": [] }).to_string(),
        request.to_string(),
        json!({ "type": "challenge", "server_nonce": "x", "server_sig": "y" }).to_string(),
        json!({ "type": "welcome" }).to_string(),
        "not json".to_owned(),
        "[]".to_owned(),
    ] {
        let mut peer = kenny.accept().await;
        peer.register().await;
        peer.send_text(first.clone()).await;
        assert!(peer.is_closed().await, "{first}");
    }
    let mut peer = kenny.accept().await;
    peer.register().await;
    peer.send_raw(Message::binary(vec![0, 1, 2])).await;
    assert!(peer.is_closed().await, "binary");
    let mut peer = kenny.accept().await;
    peer.register().await;
    peer.send_text("x".repeat(20_000)).await;
    assert!(peer.is_closed().await, "a stranger's message is small");
    agent.stop().await;
}

#[tokio::test]
async fn a_websocket_ping_before_the_challenge_is_tolerated() {
    let kenny = Kenny::start().await;
    let endpoint = Endpoint::new(&kenny.url(), &kenny.key);
    let agent = endpoint.run();
    let mut peer = kenny.accept().await;
    peer.register().await;
    peer.send_raw(Message::Ping(vec![1].into())).await;
    peer.challenge(&kenny.key).await;
    assert_eq!(peer.next().await.expect("an auth")["type"], "auth");
    agent.stop().await;
}

#[tokio::test]
async fn a_server_that_freezes_is_left_at_each_step() {
    let kenny = Kenny::start().await;
    let endpoint = Endpoint::new(&kenny.url(), &kenny.key)
        .set("connect_timeout_s", "0.2")
        .set("challenge_timeout_s", "0.2")
        .set("heartbeat_s", "0.1");
    let agent = endpoint.run();
    // Accepts and says nothing.
    let mut frozen = kenny.connection().await;
    let mut sink = Vec::new();
    soon("the agent leaves", frozen.read_to_end(&mut sink)).await.expect("an end");
    // Upgrades and sends no challenge.
    let mut peer = kenny.accept().await;
    peer.register().await;
    assert!(peer.is_closed().await);
    // Lets it in and falls silent: pings come, nothing is answered.
    let mut peer = kenny.let_in().await;
    let mut pings = 0;
    while let Some(frame) = peer.next().await {
        pings += usize::from(frame["type"] == "ping");
    }
    assert!(pings >= 1);
    // And it comes back.
    let _peer = kenny.let_in().await;
    agent.stop().await;
}

#[tokio::test]
async fn a_server_that_closes_at_any_moment_is_tried_again() {
    let kenny = Kenny::start().await;
    let endpoint = Endpoint::new(&kenny.url(), &kenny.key);
    let agent = endpoint.run();
    drop(kenny.connection().await);
    drop(kenny.accept().await);
    let mut peer = kenny.accept().await;
    peer.register().await;
    drop(peer);
    let mut peer = kenny.accept().await;
    peer.register().await;
    peer.challenge(&kenny.key).await;
    drop(peer);
    let mut peer = kenny.let_in().await;
    let (begun, gate) = (endpoint.gate("begun"), endpoint.gate("gate"));
    peer.ask("shell_exec", json!({ "command": format!("{}; {}", begun.tell(), gate.wait()) })).await;
    begun.told().await;
    drop(peer);
    let mut peer = kenny.let_in().await;
    assert_eq!(peer.call("fs_list", json!({ "path": "/" })).await["ok"], true);
    drop(gate.open());
    let status = Status::read(&endpoint.state).expect("readable").expect("told");
    assert_eq!((status.state, status.problem), (Phase::Connected, None));
    agent.stop().await;
    let status = Status::read(&endpoint.state).expect("readable").expect("told");
    assert_eq!(status.state, Phase::Stopped);
}

/// Through the handshake to the agent's signature, which must be that key's.
async fn asked_by(kenny: &Kenny, key: &SigningKey) -> Peer {
    let mut peer = kenny.accept().await;
    peer.register().await;
    let transcript = peer.challenge(&kenny.key).await;
    let auth = peer.next().await.expect("an auth");
    let signature = wire_bytes::decode(auth["agent_sig"].as_str().expect("a signature")).expect("64 bytes");
    assert!(transcript.verify(&key.verifying_key(), &signature), "another key");
    peer
}

/// The next attempt, with that key, is refused.
async fn refuses(kenny: &Kenny, key: &SigningKey) {
    let mut peer = asked_by(kenny, key).await;
    let code = tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode::from(4401);
    let close = tokio_tungstenite::tungstenite::protocol::CloseFrame { code, reason: "".into() };
    peer.send_raw(Message::Close(Some(close))).await;
}

/// The next attempt, with that key, is not.
async fn lets_in(kenny: &Kenny, key: &SigningKey) -> Peer {
    let mut peer = asked_by(kenny, key).await;
    peer.send(json!({ "type": "policy", "rules": [] })).await;
    // The answer comes after whatever the agent does first.
    assert_eq!(peer.call("fs_list", json!({ "path": "/" })).await["ok"], true);
    peer
}

#[tokio::test]
async fn a_hub_that_says_no_is_told_as_such() {
    let kenny = Kenny::start().await;
    let endpoint = Endpoint::new(&kenny.url(), &kenny.key);
    let agent = endpoint.run();
    refuses(&kenny, &endpoint.state.key().expect("a key")).await;
    let _next = kenny.accept().await;
    let status = Status::read(&endpoint.state).expect("readable").expect("told");
    assert!(status.problem.is_some_and(|why| why.contains("not enrolled under this id")));
    agent.stop().await;
}

#[tokio::test]
async fn a_key_that_an_enrolment_left_beside_is_taken_when_the_hub_takes_it() {
    let kenny = Kenny::start().await;
    let endpoint = Endpoint::new(&kenny.url(), &kenny.key);
    let first = endpoint.state.key().expect("a key");
    let second = endpoint.state.next().new_key().expect("a key");
    let agent = endpoint.run();
    // One that the hub does not know takes nobody's place, and is not lost.
    refuses(&kenny, &first).await;
    refuses(&kenny, &second).await;
    drop(lets_in(&kenny, &first).await);
    assert_eq!(endpoint.state.key().expect("a key"), first);
    assert_eq!(endpoint.state.next().key().expect("a key"), second);
    // Now it has bound the second one.
    refuses(&kenny, &first).await;
    drop(lets_in(&kenny, &second).await);
    assert_eq!(endpoint.state.key().expect("a key"), second);
    assert!(!endpoint.state.next().has_key());
    drop(lets_in(&kenny, &second).await);
    agent.stop().await;
}
