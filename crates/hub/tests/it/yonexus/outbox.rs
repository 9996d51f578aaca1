//! What waits for those who are away.

use serde_json::json;

use crate::support::TestHub;

#[tokio::test]
async fn messages_wait_for_a_client_that_is_away_and_come_once_it_has_read_them_no_more() {
    let mut hub = TestHub::start().await;
    hub.rule("kept", json!({ "clients": { "to": ["client-b"], "with_sender": true, "keep_s": 3600 } })).await;
    let secret = hub.pair("client-b").await;
    let mut a = hub.live("client-a").await;
    for n in 0..40 {
        a.send(format!("kept::{n}")).await;
    }
    a.settled().await;
    assert_eq!(hub.client_view("client-b").await["waiting"], 40);
    hub.restart(&[]).await;
    let mut b = hub.enter("client-b", secret.clone()).await;
    for n in 0..40 {
        assert_eq!(b.text().await, format!("kept::client-a::{n}"));
    }
    // Reading on answers the ping behind the last batch.
    b.settled().await;
    hub.until("/api/yonexus/clients/client-b", |body| body["waiting"] == 0).await;
    drop(b);
    hub.until_client("client-b", "liveness", "offline").await;
    let mut b = hub.enter("client-b", secret).await;
    b.heard.clear();
    b.settled().await;
    assert!(b.heard.is_empty(), "{:?}", b.heard);
}

#[tokio::test]
async fn what_a_client_did_not_read_comes_again_with_the_same_id() {
    let hub = TestHub::start().await;
    hub.rule("kept", json!({ "clients": { "to": ["client-b"], "with_id": true, "keep_s": 3600 } })).await;
    let secret = hub.pair("client-b").await;
    let mut a = hub.live("client-a").await;
    a.send("kept::hello").await;
    a.settled().await;
    // It authenticates and goes away without having read anything further.
    let mut b = hub.client_with("client-b", Some(secret.clone())).await;
    b.hello().await;
    b.next().await;
    b.authenticate().await;
    hub.until_client("client-b", "liveness", "online").await;
    drop(b);
    hub.until_client("client-b", "liveness", "offline").await;
    assert_eq!(hub.client_view("client-b").await["waiting"], 1);
    let mut b = hub.enter("client-b", secret).await;
    let first = b.text().await;
    let mut parts = first.splitn(3, "::");
    assert_eq!(parts.next(), Some("kept"));
    let id: i64 = parts.next().and_then(|id| id.parse().ok()).expect("an id");
    assert_eq!((parts.next(), id), (Some("hello"), 1));
    // Live ones of the same rule come the same way.
    a.send("kept::again").await;
    assert_eq!(b.text().await, "kept::2::again");
}

#[tokio::test]
async fn the_outbox_is_bounded_and_the_sender_is_told() {
    let hub = TestHub::with(&[("yonexus.outbox_max_per_client", "2"), ("yonexus.outbox_max_bytes", "2048")]).await;
    hub.rule("kept", json!({ "clients": { "to": ["client-b"], "keep_s": 3600 } })).await;
    hub.rule("large", json!({ "clients": { "to": ["client-c"], "keep_s": 3600 } })).await;
    hub.allow("client-b").await;
    hub.allow("client-c").await;
    let mut a = hub.live("client-a").await;
    for _ in 0..3 {
        a.send("kept::x").await;
    }
    let error = a.next().await;
    assert_eq!(error["payload"]["code"], "CLIENT_OFFLINE");
    assert!(error["payload"]["message"].as_str().expect("a text").contains("full"), "{error}");
    a.send(format!("large::{}", "x".repeat(3000))).await;
    assert_eq!(a.reason().await, "CLIENT_OFFLINE");
    assert_eq!(hub.client_view("client-b").await["waiting"], 2);
}

#[tokio::test]
async fn an_operator_can_send_to_who_is_away() {
    let hub = TestHub::start().await;
    let secret = hub.pair("client-a").await;
    let body = json!({ "rule": "notice", "content": "when you are back", "to": ["client-a"], "keep_s": 60 });
    let sent = hub.post("/api/messages", body).await.body;
    assert_eq!((&sent["kept"], &sent["id"]), (&json!(["client-a"]), &json!(1)));
    let mut client = hub.enter("client-a", secret).await;
    assert_eq!(client.text().await, "notice::when you are back");
}

#[tokio::test]
async fn a_removed_client_leaves_nothing_behind() {
    let hub = TestHub::start().await;
    hub.rule("kept", json!({ "clients": { "to": ["client-b"], "keep_s": 3600 } })).await;
    hub.allow("client-b").await;
    let mut a = hub.live("client-a").await;
    a.send("kept::x").await;
    a.settled().await;
    assert_eq!(hub.delete("/api/yonexus/clients/client-b").await, 200);
    assert!(hub.hub().store.outbox_totals().await.expect("reads").is_empty());
}
