//! The confirm gate through MCP: pending at once, `call_status` waits, and a client's own prompt only where it counts.

use serde_json::{Value, json};

use super::client::{Answer, Events, Mcp};
use crate::sonde::enrolled;
use crate::support::{PATIENCE, TOKEN, TestHub};

fn shell(command: &str) -> Value {
    json!({ "agent": "pc", "command": command })
}

/// A hub where the client's own prompt counts, and a token that asks.
async fn eliciting(more: &[(&str, &str)]) -> (TestHub, String) {
    let settings: Vec<_> = [("approvals.elicitation", "true")].into_iter().chain(more.iter().copied()).collect();
    let hub = TestHub::with(&settings).await;
    let asker = hub.token("asker", "operator", json!({})).await;
    (hub, asker)
}

fn capable<'a>(hub: &'a TestHub, token: &str) -> Mcp<'a> {
    Mcp { capabilities: json!({ "elicitation": {} }), ..Mcp::stateless(hub, token) }
}

/// Asks, and is asked back: the state that came with the question.
async fn question(client: &Mcp<'_>) -> String {
    let asked = client.call("shell_exec", shell("uptime")).await;
    let result = asked.result();
    assert_eq!(result["resultType"], "input_required", "{asked:?}");
    let question = &result["inputRequests"]["approve"];
    assert_eq!(question["method"], "elicitation/create");
    let message = question["params"]["message"].as_str().expect("a message");
    assert!(message.contains("shell_exec") && message.contains("pc") && message.contains("uptime"), "{message}");
    result["requestState"].as_str().expect("a state").to_owned()
}

async fn reply(client: &Mcp<'_>, args: Value, state: &str, answer: Value) -> Answer {
    let params = json!({ "name": "shell_exec", "arguments": args, "requestState": state,
        "inputResponses": { "approve": answer } });
    client.ask("tools/call", params).await
}

fn yes() -> Value {
    json!({ "action": "accept", "content": { "approve": true } })
}

#[tokio::test]
async fn what_changes_something_waits_for_a_person_and_call_status_waits_with_it() {
    let hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    let asker = hub.token("asker", "operator", json!({ "approve": true })).await;
    let client = Mcp::stateless(&hub, &asker);
    let asked = client.call("shell_exec", shell("uptime")).await;
    assert_eq!((&asked.structured()["state"], &asked.result()["isError"]), (&json!("waiting"), &json!(false)));
    let text = |v: &Value| v.as_str().expect("a text").to_owned();
    let (approval, call) = (text(&asked.structured()["approval"]["id"]), text(&asked.structured()["call_id"]));
    assert!(asked.text().contains(&format!("convoke approvals approve {approval}")), "{}", asked.text());
    let path = format!("/api/approvals/{approval}");
    let own = hub.post_as(&asker, &path, json!({ "approve": true })).await;
    assert_eq!((own.status, own.body["error"]["code"].as_str()), (403, Some("own_call")));
    let early = client.call("call_status", json!({ "call_id": call, "wait_s": 0 })).await;
    assert_eq!(early.structured()["state"], "waiting");
    let grant = async {
        assert_eq!(hub.post(&path, json!({ "approve": true })).await.status, 200);
        let request = agent.request().await;
        assert_eq!(request.args, json!({ "command": "uptime" }));
        agent.answer(&request.id, json!({ "stdout": "up", "stderr": "", "exit_code": 0 })).await;
    };
    let (done, ()) = tokio::join!(client.call("call_status", json!({ "call_id": call })), grant);
    assert_eq!(done.structured()["state"], "done", "{done:?}");
    assert_eq!(done.structured()["result"]["stdout"], "up");
    assert_eq!(hub.post(&path, json!({ "approve": true })).await.status, 409, "replayed");
    let other = hub.token("other", "operator", json!({})).await;
    let foreign = Mcp::stateless(&hub, &other).call("call_status", json!({ "call_id": call })).await;
    assert_eq!(foreign.structured()["error"]["code"], "not_found", "another caller sees nothing");
}

#[tokio::test]
async fn a_clients_prompt_does_not_count_unless_a_setting_says_so() {
    let hub = TestHub::start().await;
    let _agent = hub.agent("pc").await;
    let client = capable(&hub, TOKEN);
    let asked = client.call("shell_exec", shell("uptime")).await;
    assert_eq!(asked.structured()["state"], "waiting");
    let forged = reply(&client, shell("uptime"), "anything", yes()).await;
    assert_eq!(forged.structured()["error"]["code"], "bad_state");
}

#[tokio::test]
async fn where_it_counts_the_clients_person_approves_once() {
    let (hub, asker) = eliciting(&[]).await;
    let mut agent = hub.agent("pc").await;
    let client = capable(&hub, &asker);
    let state = question(&client).await;
    let answer = async {
        let request = agent.request().await;
        agent.answer(&request.id, json!({ "stdout": "up", "stderr": "", "exit_code": 0 })).await;
    };
    let (done, ()) = tokio::join!(reply(&client, shell("uptime"), &state, yes()), answer);
    assert_eq!((&done.structured()["state"], &done.structured()["result"]["stdout"]), (&json!("done"), &json!("up")));
    let replayed = reply(&client, shell("uptime"), &state, yes()).await;
    assert_eq!(replayed.structured()["error"]["code"], "bad_state", "it is good once: {replayed:?}");
    assert_eq!(replayed.structured()["call_id"], done.structured()["call_id"], "and the call can be found");
    let records = hub.journal("kind=approval").await;
    let decided = records.iter().find(|r| r["decision"] == "confirmed").expect("a decision");
    assert_eq!((&decided["who"], &decided["detail"]["how"]), (&json!("asker"), &json!("elicitation")));
}

#[tokio::test]
async fn a_state_is_good_for_nothing_but_its_own_call() {
    let (hub, asker) = eliciting(&[]).await;
    let _agent = hub.agent("pc").await;
    hub.enrol("pc-2").await;
    let client = capable(&hub, &asker);
    let state = question(&client).await;
    let refused = |answer: &Answer| assert_eq!(answer.structured()["error"]["code"], "bad_state", "{answer:?}");
    // Altered by one character, at every place.
    for at in 0..state.len() {
        let mut altered = state.clone().into_bytes();
        altered[at] = if altered[at] == b'A' { b'B' } else { b'A' };
        let altered = String::from_utf8(altered).expect("still text");
        if altered != state {
            refused(&reply(&client, shell("uptime"), &altered, yes()).await);
        }
    }
    // Used for other arguments, another machine, another tool, by another caller.
    refused(&reply(&client, shell("reboot"), &state, yes()).await);
    refused(&reply(&client, json!({ "agent": "pc-2", "command": "uptime" }), &state, yes()).await);
    let params = json!({ "name": "powershell_exec", "arguments": { "agent": "pc", "script": "uptime" },
        "requestState": state, "inputResponses": { "approve": yes() } });
    refused(&client.ask("tools/call", params).await);
    let other = hub.token("other", "operator", json!({})).await;
    refused(&reply(&capable(&hub, &other), shell("uptime"), &state, yes()).await);
    let records = hub.journal("kind=refusal").await;
    assert!(records.iter().any(|r| r["who"] == "other" && r["target"] == "pc"), "each is recorded");
    // A person who closes the question has not answered it; one who says no has.
    let open = reply(&client, shell("uptime"), &state, json!({ "action": "cancel" })).await;
    assert_eq!(open.structured()["state"], "waiting", "{open:?}");
    let unsure = reply(&client, shell("uptime"), &state, json!({ "action": "accept", "content": {} })).await;
    assert_eq!(unsure.structured()["error"]["code"], "rejected", "a form without a yes is a no");
    let again = reply(&client, shell("uptime"), &state, yes()).await;
    assert_eq!(again.structured()["error"]["code"], "bad_state", "{again:?}");
    assert_eq!(again.structured()["call_id"], unsure.structured()["call_id"], "{again:?}");
}

#[tokio::test]
async fn a_state_decides_nothing_once_its_approval_has_lapsed() {
    let (hub, asker) = eliciting(&[("approvals.ttl_s", "1")]).await;
    let _agent = hub.agent("pc").await;
    let client = capable(&hub, &asker);
    let state = question(&client).await;
    hub.until("/api/approvals?state=expired", |a| a["approvals"].as_array().is_some_and(|a| a.len() == 1)).await;
    let late = reply(&client, shell("uptime"), &state, yes()).await;
    assert_eq!(late.structured()["error"]["code"], "bad_state", "{late:?}");
}

#[tokio::test]
async fn a_client_with_a_session_is_asked_within_it() {
    let (hub, asker) = eliciting(&[]).await;
    let mut agent = hub.agent("pc").await;
    let client = Mcp::open_with(&hub, &asker, json!({ "elicitation": {} })).await;
    let message = client.message("tools/call", json!({ "name": "shell_exec", "arguments": shell("uptime") }));
    let mut events = Events::of(client.request(&message)).await;
    let asked = events.next().await;
    assert_eq!(asked["method"], "elicitation/create", "{asked}");
    let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": yes() });
    assert_eq!(client.post(&answer).await.status, 202);
    let request = tokio::time::timeout(PATIENCE, agent.request()).await.expect("goes out");
    agent.answer(&request.id, json!({ "stdout": "up", "stderr": "", "exit_code": 0 })).await;
    let done = events.next().await;
    assert_eq!(done["result"]["structuredContent"]["state"], "done", "{done}");
}

/// The id of the only call that waits for a person.
async fn only_approval(hub: &TestHub) -> String {
    let waiting = |a: &Value| a["approvals"].as_array().is_some_and(|a| a.len() == 1);
    let list = hub.until("/api/approvals?state=pending", waiting).await;
    list["approvals"][0]["id"].as_str().expect("an id").to_owned()
}

#[tokio::test]
async fn a_question_names_its_call_and_so_does_the_refusal_of_an_answer_that_comes_too_late() {
    let (hub, asker) = eliciting(&[]).await;
    let mut agent = hub.agent("pc").await;
    let client = capable(&hub, &asker);
    let asked = client.call("shell_exec", shell("uptime")).await;
    let state = asked.result()["requestState"].as_str().expect("a state").to_owned();
    let named = &asked.result()["_meta"]["convoke/waiting"];
    let status = client.call("call_status", json!({ "call_id": named["call_id"], "wait_s": 0 })).await;
    assert_eq!(status.structured()["state"], "waiting", "{asked:?}");
    let approval = only_approval(&hub).await;
    assert_eq!(named["approval"]["id"], approval);
    assert_eq!(hub.post(&format!("/api/approvals/{approval}"), json!({ "approve": true })).await.status, 200);
    let request = agent.request().await;
    agent.answer(&request.id, json!({ "stdout": "up", "stderr": "", "exit_code": 0 })).await;
    for answer in [yes(), json!({ "action": "cancel" })] {
        let late = reply(&client, shell("uptime"), &state, answer).await;
        assert_eq!(late.structured()["error"]["code"], "bad_state", "{late:?}");
        assert_eq!(late.structured()["call_id"], named["call_id"], "{late:?}");
    }
    let status = client.call("call_status", json!({ "call_id": named["call_id"], "wait_s": 20 })).await;
    assert_eq!(status.structured()["result"]["stdout"], "up", "{status:?}");
}

#[tokio::test]
async fn what_is_decided_elsewhere_ends_the_question_within_a_session() {
    for (approve, state, code) in [(true, "done", Value::Null), (false, "failed", json!("rejected"))] {
        let (hub, asker) = eliciting(&[]).await;
        let mut agent = hub.agent("pc").await;
        let client = Mcp::open_with(&hub, &asker, json!({ "elicitation": {} })).await;
        let message = client.message("tools/call", json!({ "name": "shell_exec", "arguments": shell("uptime") }));
        let mut events = Events::of(client.request(&message)).await;
        assert_eq!(events.next().await["method"], "elicitation/create");
        let approval = only_approval(&hub).await;
        let decided = hub.post(&format!("/api/approvals/{approval}"), json!({ "approve": approve })).await;
        assert_eq!(decided.status, 200);
        if approve {
            let request = agent.request().await;
            agent.answer(&request.id, json!({ "stdout": "up", "stderr": "", "exit_code": 0 })).await;
        }
        let mut last = events.next().await;
        if last["method"] == "notifications/cancelled" {
            last = events.next().await;
        }
        let shown = &last["result"]["structuredContent"];
        assert_eq!((&shown["state"], &shown["error"]["code"]), (&json!(state), &code), "{last}");
    }
}

#[tokio::test]
async fn a_call_that_its_client_gave_up_while_it_was_asked_about_cannot_be_approved_any_more() {
    for (how, ends_session) in [("notifications/cancelled", false), ("DELETE", true)] {
        let (hub, asker) = eliciting(&[]).await;
        let _agent = hub.agent("pc").await;
        let client = Mcp::open_with(&hub, &asker, json!({ "elicitation": {} })).await;
        let message = client.message("tools/call", json!({ "name": "shell_exec", "arguments": shell("uptime") }));
        let mut events = Events::of(client.request(&message)).await;
        let asked = events.next().await;
        assert_eq!(asked["method"], "elicitation/create");
        let approval = only_approval(&hub).await;
        if ends_session {
            client.end().await;
        } else {
            let given_up = json!({ "jsonrpc": "2.0", "method": how, "params": { "requestId": message["id"] } });
            assert_eq!(client.post(&given_up).await.status, 202);
        }
        hub.until("/api/approvals?state=pending", |a| a["approvals"] == json!([])).await;
        let late = hub.post(&format!("/api/approvals/{approval}"), json!({ "approve": true })).await;
        assert_eq!(late.status, 409, "{how}: {}", late.body);
        let records = hub.journal("tool=shell_exec").await;
        let decided = records.iter().find(|r| r["kind"] == "approval" && r["decision"] == "rejected");
        let decided = decided.expect("how the approval ended is recorded");
        assert_eq!(decided["who"], "asker", "{decided}");
        let outcome = records.iter().find(|r| r["kind"] == "call" && r["phase"] == "outcome").expect("an outcome");
        assert_eq!(outcome["outcome"], "cancelled", "{outcome}");
    }
}

#[tokio::test]
async fn what_waits_in_a_request_that_its_client_gave_up_cannot_be_approved_any_more() {
    for how in ["notifications/cancelled", "DELETE", "close"] {
        let hub = TestHub::start().await;
        let rule = json!({ "id": "prod", "agents": ["prod"] });
        assert_eq!(hub.post("/api/policy/confirm", rule).await.status, 200);
        let asker = hub.token("asker", "operator", json!({})).await;
        let (_prod, mut slow) = (hub.agent("prod").await, hub.agent("slow").await);
        let client = if how == "close" { Mcp::stateless(&hub, &asker) } else { Mcp::open(&hub, &asker).await };
        let arguments = json!({ "tool": "net_config", "agents": ["prod", "slow"] });
        let message = client.message("tools/call", json!({ "name": "call_agents", "arguments": arguments }));
        let asked = tokio::spawn(client.request(&message).send());
        let request = slow.request().await;
        let approval = only_approval(&hub).await;
        match how {
            "DELETE" => {
                client.end().await;
                // All are over, and nobody is there to be told.
                slow.answer(&request.id, json!({})).await;
            }
            "close" => asked.abort(),
            _ => {
                let given_up = json!({ "jsonrpc": "2.0", "method": how, "params": { "requestId": message["id"] } });
                assert_eq!(client.post(&given_up).await.status, 202);
            }
        }
        hub.until("/api/approvals?state=pending", |a| a["approvals"] == json!([])).await;
        let late = hub.post(&format!("/api/approvals/{approval}"), json!({ "approve": true })).await;
        assert_eq!(late.status, 409, "{how}: {}", late.body);
        let records = hub.journal("kind=call&agent=prod").await;
        assert_eq!(records[0]["outcome"], "cancelled", "{how}: {records:?}");
    }
}

#[tokio::test]
async fn a_session_that_has_ended_asks_no_further_machine() {
    let hub = TestHub::start().await;
    let asker = hub.token("asker", "operator", json!({ "concurrent_calls": 1 })).await;
    let (mut first, mut second) = (hub.agent("a").await, hub.agent("b").await);
    let client = Mcp::open(&hub, &asker).await;
    let arguments = json!({ "tool": "net_config", "agents": ["a", "b"] });
    let message = client.message("tools/call", json!({ "name": "call_agents", "arguments": arguments }));
    let _asked = tokio::spawn(client.request(&message).send());
    let request = first.request().await;
    client.end().await;
    first.answer(&request.id, json!({})).await;
    hub.until("/api/journal?kind=call&agent=a", |j| j["records"].as_array().is_some_and(|r| !r.is_empty())).await;
    // The next that the other machine hears of is somebody else's.
    let other = async {
        let request = second.request().await;
        assert_eq!(request.tool, "fs_list");
        second.answer(&request.id, json!({})).await;
    };
    tokio::join!(hub.post("/api/agents/b/call", json!({ "tool": "fs_list", "args": { "path": "/" } })), other);
}

#[tokio::test]
async fn a_question_that_nobody_answers_ends_as_expired() {
    let (hub, asker) = eliciting(&[("approvals.ttl_s", "1")]).await;
    let _agent = hub.agent("pc").await;
    let client = Mcp::open_with(&hub, &asker, json!({ "elicitation": {} })).await;
    let message = client.message("tools/call", json!({ "name": "shell_exec", "arguments": shell("uptime") }));
    let mut events = Events::of(client.request(&message)).await;
    loop {
        let heard = events.next().await;
        if heard["result"].is_object() {
            assert_eq!(heard["result"]["structuredContent"]["error"]["code"], "expired", "{heard}");
            return;
        }
    }
}

#[tokio::test]
async fn who_asked_takes_back_what_waits() {
    let hub = TestHub::start().await;
    let _agent = hub.agent("pc").await;
    let asker = hub.token("asker", "operator", json!({})).await;
    let client = Mcp::stateless(&hub, &asker);
    let asked = client.call("shell_exec", shell("uptime")).await;
    let call = asked.structured()["call_id"].clone();
    let foreign = Mcp::stateless(&hub, &hub.token("other", "operator", json!({})).await)
        .call("call_cancel", json!({ "call_id": call }))
        .await;
    assert_eq!(foreign.structured()["error"]["code"], "not_found", "{foreign:?}");
    let taken = client.call("call_cancel", json!({ "call_id": call })).await;
    assert_eq!((&taken.structured()["cancelled"], &taken.result()["isError"]), (&call, &json!(false)), "{taken:?}");
    let status = client.call("call_status", json!({ "call_id": call })).await;
    assert_eq!(status.structured()["error"]["code"], "cancelled", "{status:?}");
    let again = client.call("call_cancel", json!({ "call_id": call })).await;
    assert_eq!(again.structured()["error"]["code"], "conflict", "{again:?}");
}

#[tokio::test]
async fn a_probe_that_needs_a_person_is_asked_about_at_the_client_too() {
    let (hub, asker) = eliciting(&[]).await;
    let mut agent = enrolled(&hub, "web-1").await;
    let args = |x: u8| json!({ "agent": "web-1", "probe": "own.restart", "params": { "x": x } });
    let client = capable(&hub, &asker);
    let asked = client.call("probe", args(1)).await;
    assert_eq!(asked.result()["resultType"], "input_required", "{asked:?}");
    let message = asked.result()["inputRequests"]["approve"]["params"]["message"].as_str().expect("a message");
    assert!(message.contains("own.restart (manage) on sonde:") && message.contains(r#"{"x":1}"#), "{message}");
    let bring = async |args: Value| {
        let params = json!({ "name": "probe", "arguments": args, "requestState": asked.result()["requestState"],
            "inputResponses": { "approve": yes() } });
        client.ask("tools/call", params).await
    };
    let other = bring(args(2)).await;
    assert_eq!(other.structured()["error"]["code"], "bad_state", "{other:?}");
    let (done, ()) = tokio::join!(bring(args(1)), async {
        let request = agent.request().await;
        assert_eq!(request["payload"]["params"], json!({ "x": 1 }));
        agent.answer(&request, json!({ "restarted": true })).await;
    });
    assert_eq!(done.structured()["result"]["data"]["restarted"], true, "{done:?}");
    let again = bring(args(1)).await;
    assert_eq!(again.structured()["error"]["code"], "bad_state", "it is good once: {again:?}");

    let client = Mcp::open_with(&hub, &asker, json!({ "elicitation": {} })).await;
    let message = client.message("tools/call", json!({ "name": "probe", "arguments": args(3) }));
    let mut events = Events::of(client.request(&message)).await;
    let asked = events.next().await;
    assert_eq!(asked["method"], "elicitation/create", "{asked}");
    let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": yes() });
    assert_eq!(client.post(&answer).await.status, 202);
    let request = tokio::time::timeout(PATIENCE, agent.request()).await.expect("goes out");
    agent.answer(&request, json!({ "restarted": true })).await;
    let done = events.next().await;
    assert_eq!(done["result"]["structuredContent"]["state"], "done", "{done}");
}
