//! A yes for a while: one assistant, one tool, one machine.

use serde_json::json;

use super::approving::anna;
use super::{Browser, add_user, step_down};
use crate::support::TestHub;

/// Places a call as the assistant; whether it went out without asking.
async fn goes_out(hub: &TestHub, tool: &str, command: &str) -> bool {
    use convoke_core::door::Door;
    use convoke_gate::calls::{self, Ask, Placed};
    let token = hub.hub().operators.named("claude").expect("a token");
    let args = if command.is_empty() { json!({}) } else { json!({ "command": command }) };
    let ask = Ask {
        caller: convoke_gate::operators::Caller::with_token(token, Door::Mcp, std::net::Ipv4Addr::LOCALHOST.into()),
        agent: hub.hub().agents.find("pc").expect("enrolled"),
        tool: tool.into(),
        args: serde_json::value::to_raw_value(&args).expect("JSON"),
        timeout: None,
        idempotency_key: None,
        requested_by: None,
    };
    match calls::place(hub.hub(), ask).await.expect("placed") {
        Placed::Running(call) => {
            call.wait().await;
            true
        }
        Placed::Pending { .. } => false,
    }
}

async fn give(browser: &mut Browser<'_>, tool: &str, agent: &str, for_s: u64) -> crate::support::Reply {
    let body = json!({ "assistant": "claude", "tool": tool, "agent": agent, "for_s": for_s });
    browser.post("/api/grants", body).await
}

#[tokio::test]
async fn a_grant_stands_in_for_a_persons_yes_and_for_nothing_else() {
    let mut hub = TestHub::start().await;
    {
        let _pc = hub.agent("pc").await.echo();
        let (mut anna, script) = anna(&hub).await;
        assert!(!goes_out(&hub, "shell_exec", "uptime").await);
        let with_token = json!({ "assistant": "claude", "tool": "shell_exec", "agent": "pc", "for_s": 60 });
        let refused = hub.post_as(&script, "/api/grants", with_token).await;
        assert_eq!((refused.status, &refused.body["error"]["code"]), (403, &json!("own_call")));
        step_down(&hub, "anna");
        assert_eq!(give(&mut anna, "shell_exec", "pc", 60).await.body["error"]["code"], "step_up");
        let again = json!({ "password": super::PASSWORD });
        assert_eq!(anna.post("/api/session/step-up", again).await.status, 200);
        assert_eq!(give(&mut anna, "shell_exec", "pc", 8 * 3600 + 1).await.status, 400);
        let given = give(&mut anna, "shell_exec", "pc", 1800).await;
        assert_eq!((given.status, &given.body["approver"]), (200, &json!("anna")), "{given:?}");
        assert!(goes_out(&hub, "shell_exec", "uptime").await);
        assert!(!goes_out(&hub, "screen_capture", "").await, "another tool");
        assert!(goes_out(&hub, "shell_exec", "rm -rf /").await, "it is refused, and nobody is asked");
        let id = given.body["id"].as_str().expect("an id");
        let records = hub.journal("kind=call&tool=shell_exec").await;
        let of_grant: Vec<_> = records.iter().filter(|r| r["rule"] == format!("grant:{id}")).collect();
        assert_eq!(of_grant.len(), 2, "intent and outcome: {records:?}");
        assert!(of_grant.iter().all(|r| r["decision"] == "confirmed"), "{records:?}");
        assert!(records.iter().any(|r| r["decision"] == "blocked"), "the guard stays");
    }
    hub.restart(&[]).await;
    let _pc = hub.connect("pc", crate::support::key_of("pc")).await.echo();
    hub.until_online("pc", true).await;
    assert!(goes_out(&hub, "shell_exec", "uptime").await, "it outlives a restart");
    let listed = hub.get("/api/grants").await.body;
    let path = format!("/api/grants/{}", listed["grants"][0]["id"].as_str().expect("an id"));
    assert_eq!(hub.request("DELETE", &path, Some(crate::support::TOKEN), None).await.status, 200);
    assert!(!goes_out(&hub, "shell_exec", "uptime").await);
    let whats: Vec<_> = hub.journal("kind=policy").await.iter().map(|r| r["detail"]["what"].clone()).collect();
    assert_eq!(whats, ["grant given", "grant ended"]);
}

#[tokio::test]
async fn a_grant_ends_with_the_right_of_who_gave_it_and_a_second_person_rule_stands() {
    let hub = TestHub::start().await;
    let _pc = hub.agent("pc").await.echo();
    let (mut anna, _) = anna(&hub).await;
    add_user(&hub, "bert", "admin", json!({ "approve": true })).await;
    assert_eq!(give(&mut anna, "shell_exec", "pc", 600).await.status, 200);
    let strict = json!({ "id": "two", "effects": ["manage"], "second_person": true });
    assert_eq!(hub.post("/api/policy/confirm", strict).await.status, 200);
    assert!(!goes_out(&hub, "shell_exec", "uptime").await, "her own yes is not a second person's");
    let mut bert = Browser::new(&hub);
    bert.sign_in("bert").await;
    assert_eq!(give(&mut bert, "shell_exec", "pc", 600).await.status, 200);
    assert!(goes_out(&hub, "shell_exec", "uptime").await);
    let less = json!({ "scopes": { "approve": false } });
    assert_eq!(hub.request("PATCH", "/api/users/bert", Some(crate::support::TOKEN), Some(less)).await.status, 200);
    assert!(!goes_out(&hub, "shell_exec", "uptime").await, "at once");
    let left = hub.until("/api/grants", |list| list["grants"].as_array().is_some_and(|l| l.len() == 1)).await;
    assert_eq!(left["grants"][0]["approver"], "anna");
    let more = json!({ "scopes": { "approve": true } });
    assert_eq!(hub.request("PATCH", "/api/users/bert", Some(crate::support::TOKEN), Some(more)).await.status, 200);
    assert!(!goes_out(&hub, "shell_exec", "uptime").await, "and it does not come back");
    let claude = hub.hub().operators.named("claude").expect("there").id;
    let path = format!("/api/tokens/{claude}");
    assert_eq!(hub.request("DELETE", &path, Some(crate::support::TOKEN), None).await.status, 200);
    hub.until("/api/grants", |list| list["grants"] == json!([])).await;
}
