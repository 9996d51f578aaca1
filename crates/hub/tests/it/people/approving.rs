//! Whose yes counts.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use convoke_core::door::Door;
use convoke_gate::calls::{self, Ask, Placed};
use convoke_gate::operators::Caller;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Browser, PASSWORD, add_user, signed_in, step_down};
use crate::support::{Reply, TestHub};

/// An assistant's call that waits: `tool` on `pc`, through the door for assistants.
pub async fn asked(hub: &TestHub, token: &str, tool: &str) -> String {
    let tokens = hub.hub().operators.list();
    let token = tokens.into_iter().find(|t| t.name == token).expect("a token");
    let ask = Ask {
        caller: Caller::with_token(Arc::clone(&token), Door::Mcp, IpAddr::V4(Ipv4Addr::LOCALHOST)),
        agent: hub.hub().agents.find("pc").expect("enrolled"),
        tool: tool.into(),
        args: RawValue::from_string(if tool == "shell_exec" { r#"{"command":"uptime"}"# } else { "{}" }.into())
            .expect("JSON"),
        timeout: None,
        idempotency_key: None,
        requested_by: None,
    };
    let Ok(Placed::Pending { approval, .. }) = calls::place(hub.hub(), ask).await else { panic!("it must wait") };
    format!("/api/approvals/{approval}")
}

fn told(reply: &Reply) -> (u16, &str) {
    (reply.status, reply.body["error"]["code"].as_str().unwrap_or_default())
}

async fn yes(browser: &mut Browser<'_>, path: &str) -> Reply {
    browser.post(path, json!({ "approve": true })).await
}

/// A user with an assistant and a token of their own.
pub async fn anna<'a>(hub: &'a TestHub) -> (Browser<'a>, String) {
    let mut anna = signed_in(hub, "anna", "admin", json!({ "approve": true })).await;
    let claude = json!({ "name": "claude", "role": "operator", "scopes": { "doors": ["mcp"] } });
    assert_eq!(anna.post("/api/tokens", claude).await.status, 200);
    let script = json!({ "name": "script", "role": "admin", "scopes": { "approve": true } });
    let script = anna.post("/api/tokens", script).await.body["token"].as_str().expect("a token").to_owned();
    (anna, script)
}

#[tokio::test]
async fn a_person_alone_approves_what_their_assistant_asks_for() {
    let hub = TestHub::start().await;
    let _pc = hub.agent("pc").await.echo();
    let (mut anna, script) = anna(&hub).await;
    step_down(&hub, "anna");
    for tool in ["shell_exec", "screen_capture"] {
        let path = asked(&hub, "claude", tool).await;
        let shown = anna.get("/api/approvals").await.body["approvals"][0].clone();
        assert_eq!((&shown["owner"], &shown["second_person"]), (&json!("anna"), &json!(false)));
        assert_eq!(told(&yes(&mut anna, &path).await), (403, "step_up"), "{tool}");
        let token = hub.post_as(&script, &path, json!({ "approve": true })).await;
        assert_eq!(told(&token), (403, "own_call"), "a token of hers is not her: {tool}");
        assert_eq!(anna.post("/api/session/step-up", json!({ "password": PASSWORD })).await.status, 200);
        let approved = yes(&mut anna, &path).await;
        assert_eq!((approved.status, &approved.body["state"]), (200, &json!("approved")), "{tool}");
        step_down(&hub, "anna");
    }
    let path = asked(&hub, "claude", "shell_exec").await;
    let no = anna.post(&path, json!({ "approve": false, "reason": "not now" })).await;
    assert_eq!(told(&no), (200, ""), "a no needs no password");
    let decided = hub.journal("kind=approval").await;
    let by: Vec<_> = decided.iter().filter(|r| r["decision"] == "confirmed").map(|r| &r["who"]).collect();
    assert_eq!(by, ["anna", "anna"]);
}

#[tokio::test]
async fn a_team_demands_a_second_person() {
    let hub = TestHub::start().await;
    let _pc = hub.agent("pc").await.echo();
    let (mut anna, _) = anna(&hub).await;
    let mut bert = signed_in(&hub, "bert", "viewer", json!({ "approve": true })).await;
    let rule = json!({ "id": "two", "effects": ["manage"], "second_person": true });
    assert_eq!(hub.post("/api/policy/confirm", rule).await.status, 200);
    let path = asked(&hub, "claude", "shell_exec").await;
    assert_eq!(told(&yes(&mut anna, &path).await), (403, "own_call"));
    step_down(&hub, "bert");
    assert_eq!(told(&yes(&mut bert, &path).await), (403, "step_up"), "it is a `manage` call");
    assert_eq!(bert.post("/api/session/step-up", json!({ "password": PASSWORD })).await.status, 200);
    assert_eq!(told(&yes(&mut bert, &path).await), (200, ""));
    step_down(&hub, "bert");
    let look = asked(&hub, "claude", "screen_capture").await;
    assert_eq!(told(&yes(&mut bert, &look).await), (200, ""), "an `interact` call needs none of somebody else");
}

#[tokio::test]
async fn what_a_person_asks_for_directly_or_with_a_script_needs_somebody_else() {
    let hub = TestHub::start().await;
    let _pc = hub.agent("pc").await.echo();
    let (mut anna, script) = anna(&hub).await;
    let rule = json!({ "id": "all", "effects": ["manage"] });
    assert_eq!(hub.post("/api/policy/confirm", rule).await.status, 200);
    let call = json!({ "tool": "shell_exec", "args": { "command": "uptime" } });
    let direct = anna.post("/api/agents/pc/call", call.clone()).await;
    assert_eq!((direct.status, &direct.body["approval"]["note"]), (202, &Value::Null), "{direct:?}");
    let with_script = hub.post_as(&script, "/api/agents/pc/call", call.clone()).await;
    assert_eq!(with_script.status, 202, "{with_script:?}");
    for waiting in [&direct, &with_script] {
        let path = format!("/api/approvals/{}", waiting.body["approval"]["id"].as_str().expect("an id"));
        assert_eq!(told(&yes(&mut anna, &path).await), (403, "own_call"));
        assert_eq!(hub.post(&path, json!({ "approve": true })).await.status, 200, "the operator is somebody else");
    }
    // Without the operator nobody is left, and that is said.
    let operator = hub.hub().operators.list().into_iter().find(|t| t.name == "operator").expect("there");
    hub.hub().operators.revoke(operator.id);
    let in_vain = anna.post("/api/agents/pc/call", call.clone()).await;
    let note = in_vain.body["approval"]["note"].as_str().expect("a note");
    assert!(note.starts_with("nobody can approve this call"), "{note}");
}

#[tokio::test]
async fn a_call_that_nobody_else_could_approve_says_so_only_then() {
    let hub = TestHub::start().await;
    let _pc = hub.agent("pc").await.echo();
    let (mut anna, _) = anna(&hub).await;
    let operator = hub.hub().operators.list().into_iter().find(|t| t.name == "operator").expect("there");
    add_user(&hub, "bert", "viewer", json!({ "approve": true, "agents": ["lab-*"] })).await;
    hub.hub().operators.revoke(operator.id);
    let rule = |second| json!({ "id": "r", "effects": ["manage"], "second_person": second });
    let note = async |anna: &mut Browser<'_>, second: bool| {
        assert_eq!(anna.post("/api/policy/confirm", rule(second)).await.status, 200);
        let path = asked(&hub, "claude", "shell_exec").await;
        let id: convoke_core::id::ApprovalId = path.rsplit('/').next().expect("an id").parse().expect("an id");
        let (_, row) = hub.hub().store.approval(id).await.expect("reads").expect("there");
        hub.hub().calls.find(row.id).expect("waits").is_in_vain()
    };
    assert!(!note(&mut anna, false).await, "anna can");
    assert!(note(&mut anna, true).await, "bert is not within reach of it");
}

#[tokio::test]
async fn an_assistant_is_paused_and_goes_on() {
    let hub = TestHub::start().await;
    let _pc = hub.agent("pc").await.echo();
    let (mut anna, _) = anna(&hub).await;
    let listed = anna.get("/api/tokens").await.body["tokens"].clone();
    let path_of = |name: &str| {
        let found = listed.as_array().expect("a list").iter().find(|t| t["name"] == name).expect("listed");
        format!("/api/tokens/{}", found["id"].as_str().expect("an id"))
    };
    let pause = async |anna: &mut Browser<'_>, name: &str, paused: bool| {
        told(&anna.ask("PATCH", &path_of(name), Some(json!({ "paused": paused }))).await).0
    };
    let tokens = hub.hub().operators.list();
    let claude = tokens.iter().find(|t| t.name == "claude").expect("there");
    assert_eq!(pause(&mut anna, "script", true).await, 409, "it is no assistant's");
    assert_eq!(pause(&mut anna, "claude", true).await, 200);
    assert!(!claude.is_active(convoke_gate::clock::now()));
    let state = anna.get("/api/tokens").await.body;
    let state =
        state["tokens"].as_array().expect("a list").iter().find(|t| t["name"] == "claude").expect("there").clone();
    assert_eq!(state["state"], "paused");
    assert_eq!(pause(&mut anna, "claude", false).await, 200);
    asked(&hub, "claude", "shell_exec").await;
    let whats: Vec<_> = hub.journal("kind=token").await.iter().map(|r| r["detail"]["what"].clone()).collect();
    assert!(whats.ends_with(&[json!("paused"), json!("let go on")]), "{whats:?}");
}
