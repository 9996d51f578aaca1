//! What waits for a person.

use serde_json::json;

use super::approving::{anna, asked};
use super::signed_in;
use crate::support::TestHub;

#[tokio::test]
async fn what_waits_is_in_the_inbox_of_who_may_decide() {
    let hub = TestHub::start().await;
    let _pc = hub.agent("pc").await.echo();
    let (mut anna, _) = anna(&hub).await;
    let mut bert = signed_in(&hub, "bert", "viewer", json!({ "approve": true, "agents": ["lab-*"] })).await;
    let path = asked(&hub, "claude", "shell_exec").await;
    let direct = json!({ "tool": "shell_exec", "args": { "command": "id" } });
    assert_eq!(hub.post("/api/policy/confirm", json!({ "id": "all", "effects": ["manage"] })).await.status, 200);
    assert_eq!(anna.post("/api/agents/pc/call", direct).await.status, 202);
    let hers = anna.get("/api/inbox").await.body;
    let [approval] = &hers["approvals"].as_array().expect("a list")[..] else { panic!("{hers}") };
    assert!(path.ends_with(approval["id"].as_str().expect("an id")), "her assistant's, and not her own: {hers}");
    assert_eq!(approval["args"]["command"], "uptime");
    assert_eq!(hub.get("/api/inbox").await.body["approvals"].as_array().map(Vec::len), Some(2), "somebody else's");
    assert_eq!(bert.get("/api/inbox").await.body["approvals"], json!([]), "out of reach");
    assert_eq!(anna.post(&path, json!({ "approve": false })).await.status, 200);
    let after = anna.get("/api/inbox").await.body;
    assert_eq!((&after["approvals"], &after["more"]), (&json!([]), &json!(false)));
}

#[tokio::test]
async fn pairings_lobbies_and_findings_wait_for_who_may_decide() {
    let hub = TestHub::start().await;
    let viewer = hub.token("viewer", "viewer", json!({})).await;
    let key = hub.enrol("pc").await;
    let mut agent = hub.connect("pc", key).await;
    let snapshot = json!({
        "type": "telemetry", "agent_id": "pc", "collected_at": "2026-06-04T18:00:00Z",
        "snapshot": { "disk": { "status": "crit", "summary": "full" } },
    });
    agent.socket.send(snapshot.to_string()).await;
    let _pc = agent.echo();
    let inbox = hub.until("/api/inbox", |inbox| inbox["findings"] != json!([])).await;
    let found = &inbox["findings"][0];
    assert_eq!((&found["id"], &found["detail"]["agent"]), (&json!("pc"), &json!("pc")), "{inbox}");
    let seen = hub.request("GET", "/api/inbox", Some(&viewer), None).await.body;
    assert_eq!((&seen["pairings"], &seen["lobby"]), (&json!([]), &json!([])));
    assert_ne!(seen["findings"], json!([]), "whoever may look sees what is not well");
}
