//! Agents by name: one rule for every door.

use serde_json::{Value, json};

use crate::sonde::enrolled;
use crate::support::{Reply, TestAgent, TestHub, key_of};

/// A connected agent whose host has this name.
async fn named(hub: &TestHub, id: &str, hostname: &str) -> TestAgent {
    hub.enrol(id).await;
    let mut agent = TestAgent::open(hub, id, key_of(id)).await;
    let called = format!(r#""hostname":"{hostname}""#);
    agent.handshake_with(r#""hostname":"TEST""#, &called).await.expect("is let in");
    agent
}

fn id(reply: &Reply) -> &Value {
    &reply.body["id"]
}

fn code(reply: &Reply) -> (u16, &str) {
    (reply.status, reply.body["error"]["code"].as_str().unwrap_or_default())
}

#[tokio::test]
async fn an_exact_id_then_a_name_that_only_one_has() {
    let hub = TestHub::start().await;
    let _laptop = named(&hub, "pc-1", "Laptop").await;
    let _tower = named(&hub, "pc-2", "tower").await;
    let _twin = named(&hub, "pc-3", "tower").await;
    // Its host has another's id as its name.
    let _liar = named(&hub, "pc-4", "pc-1").await;
    for (text, meant) in [("pc-1", "pc-1"), ("laptop", "pc-1"), ("Laptop", "pc-1"), ("pc-4", "pc-4")] {
        assert_eq!(id(&hub.get(&format!("/api/agents/{text}")).await), meant, "{text}");
    }
    let both = hub.get("/api/agents/tower").await;
    assert_eq!(code(&both), (409, "ambiguous"));
    let told = both.body["error"]["message"].as_str().expect("words");
    assert!(told.contains("pc-2") && told.contains("pc-3") && !told.contains("pc-1"), "{told}");
    assert_eq!(code(&hub.get("/api/agents/tow").await), (404, "not_found"));
    assert_eq!(code(&hub.get("/api/agents/").await).0, 404);
}

#[tokio::test]
async fn a_beginning_is_enough_only_where_it_is_asked_for() {
    let hub = TestHub::start().await;
    let _one = named(&hub, "web-1", "a").await;
    let _two = named(&hub, "db-1", "b").await;
    let _three = named(&hub, "db-2", "b").await;
    assert_eq!(id(&hub.get("/api/agents/we?prefix=true").await), "web-1");
    assert_eq!(code(&hub.get("/api/agents/db?prefix=true").await), (409, "ambiguous"));
    for (method, path) in [
        ("GET", "/api/agents/we"),
        ("GET", "/api/agents/we/snapshot"),
        ("POST", "/api/agents/we/revoke"),
        ("DELETE", "/api/agents/we"),
        ("POST", "/api/agents/we/call"),
    ] {
        let body = (method == "POST").then(|| json!({ "tool": "fs_list" }));
        let reply = hub.request(method, path, Some(crate::support::TOKEN), body).await;
        assert_eq!(code(&reply), (404, "not_found"), "{method} {path}");
    }
}

#[tokio::test]
async fn what_withdraws_takes_names_and_says_whom_it_meant() {
    let hub = TestHub::start().await;
    let mut laptop = named(&hub, "pc-1", "laptop").await;
    let _other = named(&hub, "pc-2", "tower").await;
    let (called, ()) = tokio::join!(hub.post("/api/agents/laptop/call", json!({ "tool": "net_config" })), async {
        let request = laptop.request().await;
        laptop.answer(&request.id, json!({ "interfaces": [] })).await;
    });
    assert_eq!(called.body["ok"], true, "{called:?}");
    assert_eq!(hub.journal("kind=call").await[0]["target"], "pc-1", "the record has the id");
    let revoked = hub.post("/api/agents/laptop/revoke", json!({})).await;
    assert_eq!((id(&revoked), &revoked.body["trust"]), (&json!("pc-1"), &json!("revoked")));
    assert_eq!(hub.get("/api/agents/pc-2").await.body["trust"], "trusted");
    let removed = hub.request("DELETE", "/api/agents/laptop", Some(crate::support::TOKEN), None).await;
    assert_eq!(removed.body["agent_id"], "pc-1", "{removed:?}");
    let targets: Vec<_> = hub.journal("kind=trust").await.iter().map(|r| r["target"].clone()).collect();
    assert!(targets.iter().all(|target| target == "pc-1"), "{targets:?}");
    // A token is minted for an id, and for nothing else: the name may be somebody's, the id is new.
    let minted = hub.post("/api/agents/tower/token", json!({})).await;
    assert_eq!(minted.body["agent_id"], "tower", "{minted:?}");
}

#[tokio::test]
async fn names_do_not_tell_who_is_out_of_reach() {
    let hub = TestHub::start().await;
    let _far = named(&hub, "far", "tower").await;
    let _near = named(&hub, "near-1", "tower").await;
    let token = hub.token("narrow", "operator", json!({ "agents": ["near-*"] })).await;
    let show = async |text: &str| hub.request("GET", &format!("/api/agents/{text}"), Some(&token), None).await;
    assert_eq!(id(&show("tower").await), "near-1", "the only one within reach");
    assert_eq!(code(&show("far").await), (403, "forbidden"), "an id out of reach leads to nobody else");
    assert_eq!(code(&show("nobody").await), (403, "forbidden"));
}

#[tokio::test]
async fn a_sonde_agent_goes_by_its_name_and_its_bare_id() {
    let hub = TestHub::start().await;
    let _web = enrolled(&hub, "web-1").await;
    let _kenny = named(&hub, "pc-1", "web-1").await;
    let shown = hub.get("/api/agents/web-1").await;
    let full = id(&shown).as_str().expect("an id").to_owned();
    assert!(full.starts_with("sonde:") && shown.body["name"] == "web-1", "{shown:?}");
    let bare = full.trim_start_matches("sonde:");
    assert_eq!(id(&hub.get(&format!("/api/agents/{bare}")).await), &json!(full));
}
