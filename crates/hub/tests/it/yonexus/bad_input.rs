//! Everything malformed, early, large or too much: the frame that the contract names, and no harm to others.

use serde_json::Value;

use crate::support::TestHub;

#[tokio::test]
async fn every_malformed_form_is_told_before_and_after_authentication() {
    let hub = TestHub::start().await;
    let mut live = hub.live("client-a").await;
    hub.rule("chat", serde_json::json!({ "inbox": {} })).await;
    let mut tried = 0;
    for (_, text) in convoke_testing::fixtures("yonexus/malformed") {
        let case: Value = serde_json::from_str(&text).expect("JSON");
        let bad = case["text"].as_str().expect("a text");
        if bad.starts_with("builtin::{\"type\":\"hello_ack\"") {
            continue;
        }
        let mut stranger = hub.client("client-b").await;
        for client in [&mut stranger, &mut live] {
            client.send(bad).await;
            let error = client.next().await;
            assert_eq!(error["type"], "error", "{bad}");
            assert_eq!(error["payload"]["code"], "MALFORMED_MESSAGE", "{bad}: {error}");
            assert_eq!(error["payload"]["message"], case["error"], "{bad}");
        }
        // A good one in between: three in a row would close.
        live.send("chat::fine").await;
        live.settled().await;
        tried += 1;
    }
    assert!(tried > 20);
    let inbox = hub.get("/api/messages?rule=chat&limit=1000").await.body;
    assert_eq!(inbox["messages"].as_array().map(Vec::len), Some(tried));
}

#[tokio::test]
async fn three_malformed_frames_in_a_row_close_and_nobody_else_notices() {
    let hub = TestHub::start().await;
    let mut good = hub.live("client-a").await;
    let mut bad = hub.live("client-b").await;
    for _ in 0..3 {
        bad.send("nonsense").await;
        assert_eq!(bad.reason().await, "MALFORMED_MESSAGE");
    }
    assert_eq!(bad.closed().await, Some(4400));
    good.heartbeat().await;
    good.settled().await;
    hub.until_client("client-b", "liveness", "offline").await;
}

#[tokio::test]
async fn early_messages_wrong_versions_and_missing_keys_are_told() {
    let hub = TestHub::start().await;
    hub.allow("client-a").await;
    let mut client = hub.client("client-a").await;
    client.send("chat::too early").await;
    assert_eq!(client.reason().await, "AUTH_FAILED");
    client.heartbeat().await;
    assert_eq!(client.reason().await, "AUTH_FAILED");
    client.confirm("ABCD-EFGH-JKMN").await;
    assert_eq!(client.reason().await, "MALFORMED_MESSAGE");
    let hello = client.session.hello(super::now()).encode();
    client.send(hello.replace("\"publicKey\"", "\"x\"")).await;
    assert_eq!(client.reason().await, "MALFORMED_MESSAGE");
    client.send(hello.replace("\"protocolVersion\":\"1\"", "\"protocolVersion\":\"9\"")).await;
    assert_eq!(client.next().await["payload"]["nextAction"], "rejected");
    assert_eq!(client.reason().await, "UNSUPPORTED_PROTOCOL_VERSION");
    assert_eq!(client.closed().await, Some(4403));
}

#[tokio::test]
async fn large_frames_are_refused_and_larger_ones_close() {
    let hub = TestHub::start().await;
    let mut stranger = hub.client("client-b").await;
    stranger.send(format!("a::{}", "x".repeat(16 * 1024))).await;
    assert_eq!(stranger.reason().await, "MALFORMED_MESSAGE");
    stranger.send(format!("a::{}", "x".repeat(32 * 1024))).await;
    assert_eq!(stranger.reason().await, "MALFORMED_MESSAGE");
    assert_eq!(stranger.closed().await, Some(1009));

    hub.rule("chat", serde_json::json!({ "inbox": {} })).await;
    let mut client = hub.live("client-a").await;
    client.send(format!("chat::{}", "x".repeat(1024 * 1024))).await;
    assert_eq!(client.reason().await, "MALFORMED_MESSAGE");
    client.send(format!("chat::{}", "x".repeat(1024 * 1024 - 6))).await;
    client.settled().await;
    let inbox = hub.get("/api/messages?limit=1").await.body;
    assert_eq!(inbox["messages"][0]["content"].as_str().map(str::len), Some(1024 * 1024 - 6));
    client.send(format!("chat::{}", "x".repeat(2 * 1024 * 1024))).await;
    assert_eq!(client.reason().await, "MALFORMED_MESSAGE");
    assert_eq!(client.closed().await, Some(1009));
}

#[tokio::test]
async fn binary_messages_are_no_part_of_the_protocol() {
    use futures_util::SinkExt as _;
    let hub = TestHub::start().await;
    let mut client = hub.live("client-a").await;
    let binary = tokio_tungstenite::tungstenite::Message::Binary(b"chat::x".as_slice().into());
    client.socket.0.send(binary).await.expect("sends");
    assert_eq!(client.reason().await, "MALFORMED_MESSAGE");
}

#[tokio::test]
async fn a_flood_before_authentication_is_ended() {
    let hub = TestHub::start().await;
    let mut good = hub.live("client-a").await;
    hub.allow("client-b").await;
    let mut flood = hub.client("client-b").await;
    for _ in 0..65 {
        flood.hello().await;
    }
    let mut last = String::new();
    while let Ok(text) = flood.socket.next().await {
        last = text;
    }
    assert!(last.contains("RATE_LIMITED"), "{last}");
    good.heartbeat().await;
    good.settled().await;
}

#[tokio::test]
async fn a_flood_after_authentication_is_cut_and_told_and_others_go_on() {
    let hub = TestHub::with(&[("yonexus.frames_per_second", "10")]).await;
    hub.rule("chat", serde_json::json!({ "inbox": {} })).await;
    let mut good = hub.live("client-a").await;
    let mut flood = hub.live("client-b").await;
    flood.heard.clear();
    for n in 0..200 {
        flood.send(format!("chat::{n}")).await;
    }
    flood.settled().await;
    assert!(!flood.heard.is_empty() && flood.heard.len() <= 20, "{}", flood.heard.len());
    assert!(flood.heard.iter().all(|text| text.contains("RATE_LIMITED")));
    let metrics = hub.get("/metrics").await.body;
    assert!(metrics.as_str().expect("text").contains("yonexus_messages"));
    good.send("chat::from the other").await;
    good.settled().await;
    let inbox = hub.get("/api/messages?limit=1000").await.body;
    let messages = inbox["messages"].as_array().expect("a list");
    assert!(messages.iter().any(|m| m["sender"] == "client-a"));
    assert!(messages.len() < 100, "{}", messages.len());
}

#[tokio::test]
async fn as_many_as_there_may_be_are_proving_themselves_and_the_next_is_told_to_come_again() {
    let hub = TestHub::with(&[("yonexus.max_handshakes", "1")]).await;
    let live = hub.live("client-a").await;
    let waiting = hub.client("client-b").await;
    let url = format!("{}/yonexus", hub.http.replace("http://", "ws://"));
    let refused = tokio_tungstenite::connect_async(url).await.expect_err("busy");
    let tokio_tungstenite::tungstenite::Error::Http(reply) = refused else { panic!("{refused:?}") };
    assert_eq!(reply.status().as_u16(), 503);
    drop((live, waiting));
}
