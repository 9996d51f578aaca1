//! What a token has begun and what is not decided yet when it is taken out of force.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use convoke_core::door::Door;
use convoke_core::id::TokenId;
use convoke_core::journal::{Draft, Kind};
use convoke_core::time::Timestamp;
use convoke_gate::calls::{self, Ask, PlaceError};
use convoke_gate::operators::Caller;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::support::{PATIENCE, TestHub};

/// A token that is about to go.
async fn leaver(hub: &TestHub) -> (String, TokenId) {
    let minted = hub.post("/api/tokens", json!({ "name": "leaver", "role": "operator" })).await.body;
    let text = |name: &str| minted[name].as_str().expect("a text").to_owned();
    (text("token"), text("id").parse().expect("an id"))
}

/// Asks while nothing can be committed, and takes the token out of force once `is_under_way`, when whoever revokes it has
/// looked at everything there is.
async fn outrun(hub: &TestHub, path: &str, body: Value, is_under_way: impl Fn(TokenId) -> bool) {
    let (token, id) = leaver(hub).await;
    let held = hub.hold();
    let revoked = async {
        let asked = async {
            while !is_under_way(id) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, asked).await.expect("is asked");
        hub.hub().operators.revoke(id);
        drop(held);
    };
    let (reply, ()) = tokio::join!(hub.post_as(&token, path, body), revoked);
    assert_eq!(reply.status, 401, "{reply:?}");
}

#[tokio::test]
async fn a_message_whose_intent_comes_too_late_does_not_go_out() {
    let hub = TestHub::start().await;
    let mut client = hub.live("client-a").await;
    let message = json!({ "rule": "notice", "content": "canary text", "to": ["client-a"] });
    outrun(&hub, "/api/messages", message, |id| !hub.hub().calls.under_way(id).is_empty()).await;
    client.settled().await;
    assert!(!client.heard.iter().any(|text| text.contains("canary")), "{:?}", client.heard);
    let records = hub.journal("tool=rule_send&kind=call").await;
    let told: Vec<_> = records.iter().map(|r| (r["phase"].clone(), r["outcome"].clone())).collect();
    assert_eq!(told, [(json!("intent"), Value::Null), (json!("outcome"), json!("denied"))]);
}

#[tokio::test]
async fn a_message_is_not_kept_for_a_token_that_was_revoked_before_it_was() {
    let hub = TestHub::start().await;
    let mut client = hub.live("client-a").await;
    let (token, id) = leaver(&hub).await;
    // Revoked in the store, as for a message that has passed every look at the token but is not committed yet.
    let record = Draft::new(Timestamp::from_millis(1), Kind::Token);
    assert!(hub.hub().store.revoke_token(id, Timestamp::from_millis(1), record).await.expect("revokes"));
    let message = json!({ "rule": "notice", "content": "canary text", "to": ["client-a", "client-a"], "keep_s": 60 });
    let reply = hub.post_as(&token, "/api/messages", message).await;
    assert_ne!(reply.status, 200, "{reply:?}");
    client.settled().await;
    assert!(!client.heard.iter().any(|text| text.contains("canary")), "{:?}", client.heard);
    let records = hub.journal("tool=rule_send&kind=call").await;
    assert_eq!(records.last().expect("a record")["outcome"], "denied");
    let shown = hub.get("/api/yonexus/clients/client-a").await.body;
    assert_eq!(shown["waiting"], 0, "{shown}");
}

#[tokio::test]
async fn nobody_is_asked_for_a_token_that_is_gone() {
    let hub = TestHub::start().await;
    let _agent = hub.agent("pc").await;
    let rule = json!({ "id": "all-changes", "effects": ["interact", "manage"] });
    assert_eq!(hub.post("/api/policy/confirm", rule).await.status, 200);
    let call = json!({ "tool": "shell_exec", "args": { "command": "uptime" } });
    outrun(&hub, "/api/agents/pc/call", call, |_| hub.hub().calls.waiting() > 0).await;
    assert_eq!(hub.hub().calls.waiting(), 0);
    let listed = hub.get("/api/approvals?state=pending").await.body;
    assert_eq!(listed["approvals"], json!([]), "a yes would come to nothing");
    let records = hub.journal("kind=call&agent=pc").await;
    assert_eq!((records.len(), &records[0]["outcome"]), (1, &json!("denied")), "{records:?}");
}

#[tokio::test]
async fn a_token_that_is_gone_places_nothing() {
    let hub = TestHub::start().await;
    let _agent = hub.agent("pc").await;
    let rule = json!({ "id": "all-changes", "effects": ["interact", "manage"] });
    assert_eq!(hub.post("/api/policy/confirm", rule).await.status, 200);
    let (_, id) = leaver(&hub).await;
    let token = hub.hub().operators.find(id).expect("there");
    // One of many that are placed for one request, which came in time.
    hub.hub().operators.revoke(id);
    for tool in ["net_config", "shell_exec"] {
        let ask = Ask {
            caller: Caller::with_token(Arc::clone(&token), Door::Http, IpAddr::V4(Ipv4Addr::LOCALHOST)),
            agent: hub.hub().agents.find("pc").expect("there"),
            tool: tool.to_owned(),
            args: RawValue::from_string(r#"{"command":"uptime"}"#.into()).expect("JSON"),
            timeout: None,
            idempotency_key: None,
            requested_by: None,
        };
        let placed = calls::place(hub.hub(), ask).await;
        assert!(matches!(placed, Err(PlaceError::NotInForce)), "{placed:?}");
    }
    let records = hub.journal("kind=call&agent=pc").await;
    let told: Vec<_> = records.iter().map(|r| (&r["decision"], &r["outcome"])).collect();
    assert_eq!(told, [(&json!("denied"), &json!("denied")), (&json!("denied"), &json!("denied"))]);
    assert_eq!(hub.journal("kind=approval").await, Vec::<Value>::new());
}
