//! Deny rules: validated, mirrored before forwarding, pushed to agents, never able to weaken the built-ins.

use serde_json::json;

use crate::support::{TOKEN, TestHub};

#[tokio::test]
async fn a_rule_is_pushed_to_agents_at_every_change() {
    let hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    let rule = json!({ "id": "op_block_choco", "applies_to": "powershell", "pattern": "(?i)\\bchoco\\b", "reason": "no chocolatey" });
    assert_eq!(hub.post("/api/policy/rules", rule.clone()).await.status, 200);
    assert_eq!(agent.frame().await, json!({ "type": "policy", "rules": [rule] }));
    let call = json!({ "tool": "powershell_exec", "args": { "script": "choco install x" } });
    let reply = hub.post("/api/agents/pc/call", call).await;
    assert_eq!(reply.body["error"]["code"], "blocked");
    assert!(reply.body["error"]["message"].as_str().expect("text").contains("op_block_choco"));
    let record = hub.journal("kind=call").await.pop().expect("recorded");
    assert_eq!((&record["decision"], &record["rule"]), (&json!("blocked"), &json!("op_block_choco")));
    assert_eq!(hub.request("DELETE", "/api/policy/rules/op_block_choco", Some(TOKEN), None).await.status, 200);
    assert_eq!(agent.frame().await, json!({ "type": "policy", "rules": [] }));
}

#[tokio::test]
async fn an_agent_of_0_8_is_not_sent_rules_it_cannot_read() {
    let hub = TestHub::start().await;
    let rule =
        json!({ "id": "op_no_reboot", "applies_to": "posix", "pattern": "\\breboot\\b", "reason": "not today" });
    assert_eq!(hub.post("/api/policy/rules", rule).await.status, 200);
    let key = hub.enrol("pc").await;
    let mut agent = crate::support::TestAgent::open(&hub, "pc", key).await;
    assert_eq!(agent.handshake().await, Ok(json!({ "type": "policy", "rules": [] })));
    let call = json!({ "tool": "shell_exec", "args": { "command": "reboot" } });
    assert_eq!(
        hub.post("/api/agents/pc/call", call).await.body["error"]["code"],
        "blocked",
        "the hub's mirror holds"
    );
}

#[tokio::test]
async fn an_agent_that_keeps_a_shell_policy_is_told_that_this_hub_has_none() {
    let hub = TestHub::start().await;
    for (version, shell) in [("0.17", json!(null)), ("0.18", json!({ "mode": "unrestricted", "allow": [] }))] {
        let id = format!("pc-{version}");
        let key = hub.enrol(&id).await;
        let mut agent = crate::support::TestAgent::open(&hub, &id, key).await;
        let policy = agent.handshake_as(version).await.expect("let in");
        assert_eq!((&policy["rules"], &policy["shell"]), (&json!([]), &shell), "{version}");
    }
}

#[tokio::test]
async fn bad_rules_are_refused_with_the_reason() {
    let hub = TestHub::start().await;
    let rule = |id: &str, group: &str, pattern: &str| json!({ "id": id, "applies_to": group, "pattern": pattern, "reason": "r" });
    for bad in [
        rule("x", "powershell", "("),
        rule("x", "powershell", "(?=x)"),
        rule("x", "powershell", "\\p{L}"),
        rule("x", "elsewhere", "x"),
        rule("", "powershell", "x"),
        rule("x", "powershell", &"x".repeat(2000)),
        rule("ps_format_drive", "powershell", "x"),
        json!({ "id": "x" }),
    ] {
        let reply = hub.post("/api/policy/rules", bad.clone()).await;
        assert_eq!(reply.status, 400, "{bad} → {reply:?}");
    }
    let removed = hub.request("DELETE", "/api/policy/rules/ps_format_drive", Some(TOKEN), None).await;
    assert_eq!(removed.status, 409, "built-ins cannot be removed");
    let rules = hub.get("/api/policy/rules").await.body;
    assert!(rules["builtin"].as_array().expect("a list").len() > 40);
    assert_eq!(rules["operator"], json!([]));
}

#[tokio::test]
async fn who_cannot_change_the_rules_cannot_take_an_agent_out_from_under_one() {
    let hub = TestHub::start().await;
    hub.enrol("pc").await;
    let rule = json!({ "id": "prod", "tags": ["prod*"], "effects": ["manage"] });
    assert_eq!(hub.post("/api/policy/confirm", rule).await.status, 200);
    let tag = async |token: &str, tags: &[&str]| {
        hub.request("PATCH", "/api/agents/pc", Some(token), Some(json!({ "tags": tags }))).await
    };
    assert_eq!(tag(TOKEN, &["prod-1", "lab"]).await.status, 200);
    let narrowed = hub.token("narrowed", "admin", json!({ "agents": ["pc"] })).await;
    for tags in [&["prod-2"][..], &["prod-1", "x"]] {
        assert_eq!(tag(&narrowed, tags).await.status, 200, "the rule still holds");
    }
    let refused = tag(&narrowed, &["lab"]).await;
    assert_eq!((refused.status, &refused.body["error"]["code"]), (403, &json!("forbidden")), "{refused:?}");
    let removed = hub.request("DELETE", "/api/agents/pc", Some(&narrowed), None).await;
    assert_eq!(removed.status, 403, "it could be enrolled again: {removed:?}");
    assert_eq!(hub.journal("kind=refusal&agent=pc").await.len(), 2);
    // A rule for agents that this one is none of never held for it, whatever its tags.
    for (agents, status) in [("other-*", 200), ("p*", 403)] {
        assert_eq!(tag(TOKEN, &["prod-1", "lab"]).await.status, 200);
        let rule = json!({ "id": "prod", "tags": ["prod*"], "agents": [agents] });
        assert_eq!(hub.request("DELETE", "/api/policy/confirm/prod", Some(TOKEN), None).await.status, 200);
        assert_eq!(hub.post("/api/policy/confirm", rule).await.status, 200);
        assert_eq!(tag(&narrowed, &["lab"]).await.status, status, "{agents}");
    }
    assert_eq!(tag(TOKEN, &["lab"]).await.status, 200);
    assert_eq!(hub.request("DELETE", "/api/agents/pc", Some(&narrowed), None).await.status, 200);
}
