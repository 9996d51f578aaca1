//! Operators' messages at the gate: where policy asks for a person, nothing goes out before the yes, and then once.

use serde_json::{Value, json};

use crate::support::{TOKEN, TestHub};

async fn confirming(rule: Value) -> (TestHub, String) {
    let hub = TestHub::start().await;
    assert_eq!(hub.post("/api/policy/confirm", rule).await.status, 200);
    let asker = hub.token("asker", "operator", json!({})).await;
    (hub, asker)
}

fn all_changes() -> Value {
    json!({ "id": "all-changes", "effects": ["interact", "manage"] })
}

fn notice(to: &[&str]) -> Value {
    json!({ "rule": "notice", "content": "canary text", "to": to })
}

/// Asks, and answers the approval's path and the call's.
async fn ask(hub: &TestHub, asker: &str, message: Value) -> (String, String) {
    let reply = hub.post_as(asker, "/api/messages", message).await;
    assert_eq!(reply.status, 202, "{reply:?}");
    let text = |v: &Value| v.as_str().expect("a text").to_owned();
    let (approval, call) = (text(&reply.body["approval"]["id"]), text(&reply.body["call_id"]));
    (format!("/api/approvals/{approval}"), format!("/api/calls/{call}?wait_s=20"))
}

async fn outcome(hub: &TestHub, asker: &str, call: &str) -> Value {
    hub.request("GET", call, Some(asker), None).await.body
}

#[tokio::test]
async fn a_message_that_needs_a_person_goes_out_after_the_yes_and_once() {
    let (hub, asker) = confirming(all_changes()).await;
    let mut client = hub.live("client-a").await;
    let (approval, call) = ask(&hub, &asker, notice(&["client-a"])).await;
    client.settled().await;
    assert!(!client.heard.iter().any(|text| text.contains("canary")), "nothing goes out before the yes");
    let listed = hub.get("/api/approvals").await.body;
    let shown = &listed["approvals"][0];
    assert_eq!((&shown["target"], &shown["tool"]), (&json!("yonexus:client-a"), &json!("rule_send")));
    assert_eq!(shown["args"], notice(&["client-a"]), "whoever decides sees what is to be said");
    assert_eq!(hub.post(&approval, json!({ "approve": true })).await.status, 200);
    assert_eq!(client.text().await, "notice::canary text");
    let done = outcome(&hub, &asker, &call).await;
    assert_eq!(done["outcome"], "ok", "{done}");
    assert_eq!(done["result"], json!({ "sent": ["client-a"], "kept": [], "offline": [] }));
    assert_eq!(hub.post(&approval, json!({ "approve": true })).await.status, 409, "single-use");
    client.settled().await;
    assert_eq!(client.heard.iter().filter(|text| text.contains("canary")).count(), 1);
    let records = hub.journal("tool=rule_send&kind=call").await;
    let phases: Vec<_> = records.iter().map(|r| r["phase"].as_str().expect("a phase")).collect();
    assert_eq!(phases, ["intent", "outcome"]);
    assert!(records.iter().all(|r| r["decision"] == "confirmed" && r["who"] == "asker"), "{records:?}");
    assert!(!format!("{:?}", hub.journal("").await).contains("canary"), "the content is digested, not kept");
}

#[tokio::test]
async fn a_no_and_nobodys_answer_send_nothing() {
    let (hub, asker) = confirming(all_changes()).await;
    let mut client = hub.live("client-a").await;
    let (approval, call) = ask(&hub, &asker, notice(&["client-a"])).await;
    assert_eq!(hub.post(&approval, json!({ "approve": false })).await.status, 200);
    assert_eq!(outcome(&hub, &asker, &call).await["outcome"], "rejected");
    client.settled().await;
    assert!(!client.heard.iter().any(|text| text.contains("canary")));
}

#[tokio::test]
async fn an_approved_message_is_authorised_again() {
    let (hub, asker) = confirming(all_changes()).await;
    let mut client = hub.live("client-a").await;
    hub.allow("leaves").await;
    // One of them is removed meanwhile: nothing is kept for who may not come back.
    let mut kept = notice(&["client-a", "leaves"]);
    kept["keep_s"] = json!(600);
    let (approval, call) = ask(&hub, &asker, kept).await;
    assert_eq!(hub.delete("/api/yonexus/clients/leaves").await, 200);
    assert_eq!(hub.post(&approval, json!({ "approve": true })).await.status, 200);
    let done = outcome(&hub, &asker, &call).await;
    assert_eq!((&done["result"]["kept"], &done["result"]["offline"]), (&json!(["client-a"]), &json!(["leaves"])));
    assert_eq!(client.text().await, "notice::canary text");
    // The token is revoked meanwhile.
    let (approval, call) = ask(&hub, &asker, notice(&["client-a"])).await;
    let tokens = hub.get("/api/tokens").await.body;
    let all = tokens["tokens"].as_array().expect("a list").clone();
    let id = all.iter().find(|t| t["name"] == "asker").expect("there")["id"].clone();
    assert_eq!(hub.delete(&format!("/api/tokens/{}", id.as_str().expect("an id"))).await, 200);
    assert_eq!(hub.post(&approval, json!({ "approve": true })).await.status, 409);
    assert_eq!(outcome(&hub, TOKEN, &call).await["outcome"], "denied");
    client.settled().await;
    assert_eq!(client.heard.iter().filter(|text| text.contains("canary")).count(), 1);
}

#[tokio::test]
async fn one_recipient_that_needs_a_person_is_enough_and_whoever_decides_must_reach_them_all() {
    let rule = json!({ "id": "b", "agents": ["yonexus:client-b"] });
    let (hub, asker) = confirming(rule).await;
    let (mut a, mut b) = (hub.live("client-a").await, hub.live("client-b").await);
    assert_eq!(hub.post_as(&asker, "/api/messages", notice(&["client-a"])).await.status, 200);
    assert_eq!(a.text().await, "notice::canary text");
    let (approval, call) = ask(&hub, &asker, notice(&["client-b", "client-a", "client-b"])).await;
    let half = hub.token("half", "operator", json!({ "agents": ["yonexus:client-a"], "approve": true })).await;
    let refused = hub.post_as(&half, &approval, json!({ "approve": true })).await;
    assert_eq!(refused.status, 403, "{refused:?}");
    let whole = hub.token("whole", "operator", json!({ "agents": ["yonexus:client-*"], "approve": true })).await;
    assert_eq!(hub.post_as(&whole, &approval, json!({ "approve": true })).await.status, 200);
    assert_eq!((a.text().await, b.text().await), ("notice::canary text".into(), "notice::canary text".into()));
    assert_eq!(outcome(&hub, &asker, &call).await["result"]["sent"], json!(["client-a", "client-b"]));
}

#[tokio::test]
async fn a_message_that_waits_survives_a_restart() {
    let (mut hub, asker) = confirming(all_changes()).await;
    let secret = hub.pair("client-a").await;
    let mut kept = notice(&["client-a"]);
    kept["keep_s"] = json!(600);
    let (approval, call) = ask(&hub, &asker, kept).await;
    hub.restart(&[]).await;
    let waiting = hub.request("GET", &call.replace("wait_s=20", "wait_s=0"), Some(&asker), None).await.body;
    assert_eq!(waiting["state"], "waiting", "{waiting}");
    assert_eq!(hub.post(&approval, json!({ "approve": true })).await.status, 200);
    let done = outcome(&hub, &asker, &call).await;
    assert_eq!(done["result"]["kept"], json!(["client-a"]), "{done}");
    let mut client = hub.enter("client-a", secret).await;
    assert_eq!(client.text().await, "notice::canary text");
}

#[tokio::test]
async fn sending_counts_against_the_tokens_calls() {
    let hub = TestHub::start().await;
    hub.allow("away").await;
    let slow = hub.token("slow", "operator", json!({ "calls_per_minute": 2 })).await;
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(hub.post_as(&slow, "/api/messages", notice(&["away"])).await.status);
    }
    assert_eq!(statuses, [200, 200, 429]);
}
