//! Rule messages: where they go.

use convoke_wires::Wires;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::fake_http::FakeHttp;
use crate::support::{PATIENCE, TestHub};

#[tokio::test]
async fn the_inbox_keeps_what_clients_send_as_they_sent_it() {
    let hub = TestHub::start().await;
    hub.rule("chat_sync", json!({ "inbox": {} })).await;
    let mut client = hub.live("client-a").await;
    client.send("chat_sync::{\"body\":\"a::b\"}\nline two").await;
    client.send("nobody_registered_this::x").await;
    client.send("chat_sync::").await;
    client.settled().await;
    let page = hub.get("/api/messages?rule=chat_sync").await.body;
    let messages = page["messages"].as_array().expect("a list");
    assert_eq!(messages.len(), 2);
    assert_eq!(messages[0]["content"], "{\"body\":\"a::b\"}\nline two");
    assert_eq!((&messages[0]["sender"], &messages[1]["content"]), (&json!("client-a"), &json!("")));
    let after = messages[0]["id"].as_i64().expect("an id");
    let rest = hub.get(&format!("/api/messages?after={after}")).await.body;
    assert_eq!(rest["messages"].as_array().map(Vec::len), Some(1));
    assert_eq!(Wires::of(hub.hub()).yonexus.metrics.unmatched.get(), 1, "counted, and no error to the sender");
    let narrow = hub.token("narrow", "viewer", json!({ "agents": ["yonexus:other"] })).await;
    let seen = hub.request("GET", "/api/messages", Some(&narrow), None).await.body;
    assert_eq!(seen["messages"].as_array().map(Vec::len), Some(0));
}

#[tokio::test]
async fn messages_reach_those_whom_a_rule_names_with_or_without_their_sender() {
    let hub = TestHub::start().await;
    hub.rule("plain", json!({ "clients": { "to": ["client-b"] } })).await;
    hub.rule("named", json!({ "clients": { "to": ["client-b"], "with_sender": true } })).await;
    hub.rule("all", json!({ "clients": {} })).await;
    let mut a = hub.live("client-a").await;
    let mut b = hub.live("client-b").await;
    let mut c = hub.live("client-c").await;
    a.send("plain::x::y").await;
    assert_eq!(b.text().await, "plain::x::y");
    a.send("named::x").await;
    assert_eq!(b.text().await, "named::client-a::x");
    a.send("all::hello").await;
    assert_eq!(b.text().await, "all::hello");
    assert_eq!(c.text().await, "all::hello");
    b.socket.0.close(None).await.expect("closes");
    hub.until_client("client-b", "liveness", "offline").await;
    a.send("plain::x").await;
    assert_eq!(a.reason().await, "CLIENT_OFFLINE");
    a.send("all::still there?").await;
    assert_eq!(c.text().await, "all::still there?");
    c.socket.0.close(None).await.expect("closes");
    hub.until_client("client-c", "liveness", "offline").await;
    a.send("all::anyone?").await;
    assert_eq!(a.reason().await, "CLIENT_OFFLINE");
}

#[tokio::test]
async fn a_message_to_a_hundred_clients_is_made_into_a_frame_once() {
    let hub = TestHub::start().await;
    hub.rule("news", json!({ "clients": {} })).await;
    let mut sender = hub.live("sender").await;
    let mut receivers = Vec::new();
    for n in 0..100 {
        receivers.push(hub.live(&format!("r{n}")).await);
    }
    sender.send("news::to all of you").await;
    for receiver in &mut receivers {
        assert_eq!(receiver.text().await, "news::to all of you");
    }
    let yonexus = Wires::of(hub.hub()).yonexus;
    let metrics = &yonexus.metrics;
    assert_eq!((metrics.frames.get(), metrics.handed.get()), (1, 100));
}

#[tokio::test]
async fn operators_send_within_their_rights_and_it_is_recorded() {
    let hub = TestHub::start().await;
    let mut client = hub.live("client-a").await;
    hub.allow("away").await;
    let body = json!({ "rule": "notice", "content": "hello", "to": ["client-a", "away"] });
    let sent = hub.post("/api/messages", body).await;
    assert_eq!(sent.status, 200, "{sent:?}");
    assert_eq!(sent.body, json!({ "sent": ["client-a"], "kept": [], "offline": ["away"] }));
    assert_eq!(client.text().await, "notice::hello");
    let record = hub.journal("tool=rule_send").await.pop().expect("one");
    assert_eq!((&record["who"], &record["outcome"]), (&json!("operator"), &json!("ok")));
    assert_eq!(record["detail"], json!({ "sent": 1, "kept": 0, "offline": 1, "id": null }));
    assert_eq!(
        record["args"],
        json!({ "rule": "notice", "to": ["away", "client-a"], "recipients": 2, "content_bytes": 5 })
    );
    assert!(!record.to_string().contains("hello"), "the content is digested, not kept");
    let nobody = hub.post("/api/messages", json!({ "rule": "notice", "content": "x", "to": ["away"] })).await;
    assert_eq!((nobody.status, nobody.body), (200, json!({ "sent": [], "kept": [], "offline": ["away"] })));
    let record = hub.journal("tool=rule_send").await.pop().expect("one");
    assert_eq!((&record["phase"], &record["outcome"]), (&json!("outcome"), &json!("offline")));

    let viewer = hub.token("viewer", "viewer", json!({})).await;
    let to_a = json!({ "rule": "notice", "content": "x", "to": ["client-a"] });
    assert_eq!(hub.post_as(&viewer, "/api/messages", to_a.clone()).await.status, 403);
    let narrow = hub.token("narrow", "operator", json!({ "agents": ["yonexus:client-b"] })).await;
    assert_eq!(hub.post_as(&narrow, "/api/messages", to_a).await.status, 403);
    for (bad, status) in [
        (json!({ "rule": "builtin", "content": "x", "to": ["client-a"] }), 400),
        (json!({ "rule": "a:b", "content": "x", "to": ["client-a"] }), 400),
        (json!({ "rule": "a", "content": "x", "to": [] }), 400),
        (json!({ "rule": "a", "content": "x", "to": ["client-a"], "keep_s": 0 }), 400),
        (json!({ "rule": "a", "content": "x", "to": ["nobody"] }), 404),
    ] {
        assert_eq!(hub.post("/api/messages", bad.clone()).await.status, status, "{bad}");
    }
}

#[tokio::test]
async fn rules_are_checked_kept_in_order_and_tried_without_sending() {
    let mut hub = TestHub::start().await;
    for (bad, word) in [
        (json!({ "rule": "builtin", "target": { "inbox": {} } }), "reserved"),
        (json!({ "rule": "", "target": { "inbox": {} } }), "1 to 128"),
        (json!({ "rule": "a:b", "target": { "inbox": {} } }), "no ':'"),
        (json!({ "rule": "a", "target": { "inbox": {}, "clients": {} } }), "expected"),
        (json!({ "rule": "a", "target": { "elsewhere": {} } }), "unknown variant"),
        (json!({ "rule": "a", "target": { "clients": { "to": [] } } }), "1 to 1000"),
        (json!({ "rule": "a", "target": { "clients": { "to": ["a b"] } } }), "letters"),
        (json!({ "rule": "a", "target": { "clients": { "keep_s": 0 } } }), "keep_s"),
        (json!({ "rule": "a", "target": { "clients": { "with_id": true } } }), "with_id"),
        (json!({ "rule": "a", "target": { "webhook": { "url": "ftp://x" } } }), "http://"),
        (json!({ "rule": "a", "target": { "webhook": { "url": "https://bob:hush@x" } } }), "must not contain a user"),
        (json!({ "rule": "a", "target": { "webhook": { "url": "https://bob@x" } } }), "must not contain a user"),
        (json!({ "rule": "a", "target": { "room": { "room": "x" } } }), "room `x` does not exist"),
    ] {
        let reply = hub.post("/api/rules", bad.clone()).await;
        assert_eq!(reply.status, 400, "{bad}");
        assert!(reply.body["error"]["message"].as_str().expect("a text").contains(word), "{bad}: {reply:?}");
    }
    hub.rule("second name", json!({ "inbox": {} })).await;
    hub.rule("a", json!({ "clients": { "to": ["client-b", "client-c", "client-b"], "with_sender": true } })).await;
    hub.rule("second name", json!({ "webhook": { "url": "http://127.0.0.1:1/x", "secret": "hush" } })).await;
    hub.restart(&[]).await;
    let rules = hub.get("/api/rules").await.body;
    let names: Vec<_> = rules["rules"].as_array().expect("a list").iter().map(|r| r["rule"].clone()).collect();
    assert_eq!(names, ["second name", "a"], "a replaced rule keeps its place");
    let everything = format!("{rules} {}", serde_json::to_string(&hub.journal("").await).expect("JSON"));
    assert!(!everything.contains("hush"), "a secret is taken and never shown");
    let test = hub.post("/api/rules/a/test", json!({ "content": "x", "from": "client-z" })).await.body;
    assert_eq!(test["message"], "a::client-z::x");
    assert_eq!(test["delivered"], "a::client-z::x");
    assert_eq!(test["offline"], json!(["client-b", "client-c"]), "each once");
    assert_eq!(hub.post("/api/rules/none/test", json!({ "content": "x" })).await.body["matched"], false);
    assert_eq!(hub.delete("/api/rules/second%20name").await, 200);
    assert_eq!(hub.delete("/api/rules/second%20name").await, 404);
}

#[tokio::test]
async fn a_programs_own_processor_sees_the_message_with_its_sender() {
    let hub = TestHub::start().await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&seen);
    let yonexus = Wires::of(hub.hub()).yonexus;
    let rules = &yonexus.rules;
    rules.register("mine", move |text| keep.lock().expect("whole").push(text.to_owned())).expect("free");
    assert!(rules.register("mine", |_| {}).is_err());
    assert!(rules.register("builtin", |_| {}).is_err());
    hub.rule("other", json!({ "inbox": {} })).await;
    let taken = hub.post("/api/rules", json!({ "rule": "mine", "target": { "inbox": {} } })).await;
    assert_eq!(taken.status, 409);
    let mut client = hub.live("client-a").await;
    client.send("mine::x::y").await;
    client.settled().await;
    assert_eq!(*seen.lock().expect("whole"), ["mine::client-a::x::y"]);
}

#[tokio::test]
async fn a_webhook_gets_signed_messages_in_order_and_is_tried_again() {
    let hub = TestHub::start().await;
    let mut server = FakeHttp::start().await;
    let target = json!({ "webhook": { "url": server.url("/hook"), "secret": "hush" } });
    hub.rule("out", target).await;
    let mut client = hub.live("client-a").await;
    client.send("out::one").await;
    client.send("out::two").await;
    let first = server.request().await;
    let body: Value = serde_json::from_str(&first.body).expect("JSON");
    assert_eq!(
        (&body["content"], &body["sender"], &body["rule"]),
        (&json!("one"), &json!("client-a"), &json!("out"))
    );
    let signature = first.header("x-convoke-signature").expect("signed");
    assert!(signature.starts_with("t=") && signature.contains(",v1="), "{signature}");
    // Refused, with a wish to be asked again at once.
    first.answer(503, &[("retry-after", "0")], "{}").await;
    let again = server.request().await;
    assert!(again.body.contains("\"one\""), "the same one again: {}", again.body);
    again.answer(200, &[], "{}").await;
    let second = server.request().await;
    assert!(second.body.contains("\"two\""));
    second.answer(204, &[], "").await;
    tokio::time::timeout(PATIENCE, async {
        while !hub.hub().store.outbox_totals().await.expect("reads").is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("and then nothing waits");
}

#[tokio::test]
async fn rules_tell_no_more_than_who_asks_may_know() {
    let hub = TestHub::start().await;
    hub.rule("hook", json!({ "webhook": { "url": "https://hooks.example:8443/T0/SECRET?token=SECRET" } })).await;
    hub.rule("all", json!({ "clients": { "to": ["client-a", "client-b"] } })).await;
    hub.live("client-a").await;
    let ask = async |token: &str, method: &str, path: &str, body: Option<Value>| {
        hub.request(method, path, Some(token), body).await.body.to_string()
    };
    let viewer = hub.token("viewer", "viewer", json!({})).await;
    let seen = ask(&viewer, "GET", "/api/rules", None).await;
    assert!(seen.contains("https://hooks.example:8443/…") && !seen.contains("SECRET"), "{seen}");
    let tested = ask(&viewer, "POST", "/api/rules/hook/test", Some(json!({ "content": "x" }))).await;
    assert!(!tested.contains("SECRET"), "{tested}");
    let recorded = hub.journal("kind=policy").await;
    assert!(!json!(recorded).to_string().contains("SECRET"), "{recorded:?}");
    let whole = hub.get("/api/rules").await.body.to_string();
    assert!(whole.contains("SECRET"), "who may change it sees where it goes: {whole}");
    let narrow = hub.token("narrow", "viewer", json!({ "agents": ["yonexus:client-b"] })).await;
    for told in [
        ask(&narrow, "GET", "/api/rules", None).await,
        ask(&narrow, "POST", "/api/rules/all/test", Some(json!({ "content": "x", "from": "c" }))).await,
    ] {
        assert!(told.contains("client-b") && !told.contains("client-a"), "{told}");
    }
}
