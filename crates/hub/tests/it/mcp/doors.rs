//! Every tool without credentials, and with a token that lacks the right: refused, and, for a known caller, recorded.
//! The list is the server's own: a tool without a case here does not compile or does not pass.

use convoke_core::effect::Effect;
use convoke_hub::tools::TOOLS;
use convoke_mcp::Need;
use serde_json::{Value, json};

use super::client::{Mcp, arguments};
use crate::support::{TOKEN, TestHub};

fn full(entry: &convoke_mcp::Entry) -> Value {
    let schema = Value::Object((*entry.tool.input_schema).clone());
    let mut args = arguments(&schema);
    if let Need::Call(_) = entry.need {
        args.insert("agent".into(), "pc".into());
    }
    if matches!(entry.need, Need::AnyOf(any) if any.scope == PROBES)
        || args.contains_key("agent") && !matches!(entry.need, Need::Call(_))
    {
        args.insert("agent".into(), "web-1".into());
    }
    if entry.name == "probe" {
        args.insert("probe".into(), "system.disk.usage".into());
    }
    if entry.name == "diagnose" {
        args.insert("category".into(), "system".into());
    }
    if entry.name == "call_agents" {
        args.insert("tool".into(), "shell_exec".into());
        args.insert("args".into(), json!({ "command": "uptime" }));
        args.insert("agents".into(), json!(["pc"]));
    }
    for key in ["id", "call_id"] {
        if args.contains_key(key) {
            args.insert(key.into(), if key == "id" { "pc".into() } else { json!(uuid()) });
        }
    }
    Value::Object(args)
}

/// The scope of tools that ask for probes.
const PROBES: &str = "tools:*.*";

fn uuid() -> &'static str {
    "0190f3a0-0000-7000-8000-000000000001"
}

#[tokio::test]
async fn every_tool_refuses_strangers_and_says_where_to_learn_more() {
    let hub = TestHub::start().await;
    hub.enrol("pc").await;
    for entry in TOOLS.iter() {
        for token in ["", "wrong"] {
            if token == "wrong" && entry.name != "list_agents" {
                // Wrong tokens are slowed down after a few; one tool shows what the others share.
                continue;
            }
            let reply = Mcp::stateless(&hub, token).call(entry.name, full(entry)).await;
            assert_eq!(reply.status, 401, "{} {reply:?}", entry.name);
            let challenge = reply.challenge.expect("a challenge");
            let metadata = format!("resource_metadata=\"{}/.well-known/oauth-protected-resource/mcp\"", hub.http);
            assert!(challenge.starts_with("Bearer") && challenge.contains(&metadata), "{challenge}");
        }
    }
    for path in ["/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"] {
        let metadata = hub.request("GET", path, None, None).await;
        assert_eq!(metadata.status, 200);
        assert_eq!(metadata.body["resource"], format!("{}/mcp", hub.http));
        assert_eq!(metadata.body["bearer_methods_supported"], json!(["header"]));
    }
}

#[tokio::test]
async fn every_tool_refuses_a_known_caller_without_the_right_and_records_it() {
    let hub = TestHub::start().await;
    hub.enrol("pc").await;
    hub.post("/api/rooms", json!({ "name": "lab" })).await;
    drop(crate::sonde::enrolled(&hub, "web-1").await);
    // The records of its coming and going come from its own task, and must not be counted among the refusals.
    hub.until("/api/v1/agents/web-1", |a| a["status"] == "offline").await;
    hub.until("/api/journal?kind=auth", |page| page["records"].as_array().is_some_and(|r| !r.is_empty())).await;
    let viewer = hub.token("viewer", "viewer", json!({})).await;
    let toolless = hub.token("toolless", "operator", json!({ "tools": [] })).await;
    let distant = hub.token("distant", "admin", json!({ "agents": ["elsewhere"] })).await;
    for entry in TOOLS.iter() {
        let args = full(entry);
        // Who lacks what, and what that looks like.
        let cases: Vec<(&str, &str, Refusal)> = match entry.need {
            Need::Call(effect) if effect > Effect::Observe => vec![
                ("viewer", &viewer, Refusal::Door(effect.name().into())),
                ("toolless", &toolless, Refusal::Door(format!("tools:{}", entry.name))),
                ("distant", &distant, Refusal::Tool),
            ],
            Need::Call(_) => vec![
                ("toolless", &toolless, Refusal::Door(format!("tools:{}", entry.name))),
                ("distant", &distant, Refusal::Tool),
            ],
            Need::Named(effect) if effect > Effect::Observe => vec![
                ("viewer", &viewer, Refusal::Door(effect.name().into())),
                ("toolless", &toolless, Refusal::Door(format!("tools:{}", entry.name))),
                ("distant", &distant, Refusal::Tool),
            ],
            Need::Named(_) if entry.name.starts_with("room_") => vec![
                ("toolless", &toolless, Refusal::Door(format!("tools:{}", entry.name))),
                ("distant", &distant, Refusal::Tool),
            ],
            Need::Named(_) => vec![
                ("toolless", &toolless, Refusal::Door(format!("tools:{}", entry.name))),
                ("distant", &distant, Refusal::Nothing),
            ],
            Need::AnyOf(any) if any.scope == "tools:*" => vec![
                ("toolless", &toolless, Refusal::Door("tools:*".into())),
                ("viewer", &viewer, Refusal::Tool),
                ("distant", &distant, Refusal::EachMachine),
            ],
            Need::AnyOf(any) => {
                assert_eq!(any.scope, PROBES, "{}: one more case is due", entry.name);
                vec![("toolless", &toolless, Refusal::Door(PROBES.into())), ("distant", &distant, Refusal::Tool)]
            }
            Need::Reach => vec![("distant", &distant, Refusal::Tool)],
            // Every token may look; it sees only what is within its reach.
            Need::View => vec![("distant", &distant, Refusal::Nothing)],
        };
        assert!(!cases.is_empty(), "{}", entry.name);
        for (who, token, expect) in cases {
            let client = Mcp::stateless(&hub, token);
            let listed = client.tools().await.contains(&entry.name.to_owned());
            let before = hub.journal("").await.len();
            let reply = client.call(entry.name, args.clone()).await;
            let what = format!("{} as {who}: {reply:?}", entry.name);
            match &expect {
                Refusal::Door(scope) => {
                    assert!(!listed, "{what}: is listed");
                    assert_eq!(reply.status, 403, "{what}");
                    assert_eq!(reply.last()["error"]["data"]["scope"], *scope, "{what}");
                    assert_eq!(reply.last()["id"], 1, "{what}");
                    let challenge = reply.challenge.as_deref().unwrap_or_default();
                    assert!(challenge.contains("insufficient_scope") && challenge.contains(scope.as_str()), "{what}");
                }
                Refusal::Tool => {
                    assert!(listed, "{what}: is not listed");
                    assert_eq!(reply.structured()["error"]["code"], "forbidden", "{what}");
                    assert_eq!(reply.result()["isError"], true, "{what}");
                }
                Refusal::EachMachine => {
                    assert_eq!(reply.structured()["outcomes"][0]["error"]["code"], "forbidden", "{what}");
                }
                Refusal::Nothing => {
                    let shown = reply.structured().to_string();
                    assert!(!shown.contains("\"pc\"") && !shown.contains("\"web-1\""), "{what}");
                    continue;
                }
            }
            let records = hub.journal("").await;
            assert_eq!(records.len(), before + 1, "{what}");
            let record = records.last().expect("one");
            assert_eq!((&record["who"], &record["decision"]), (&json!(who), &json!("denied")), "{what}");
            assert_eq!(record["door"], "mcp", "{what}");
        }
    }
}

#[derive(Debug)]
enum Refusal {
    /// 403, with this scope.
    Door(String),
    /// A refusal as the tool's result.
    Tool,
    /// Machine by machine.
    EachMachine,
    /// Nothing to see.
    Nothing,
}

#[tokio::test]
async fn foreign_pages_and_hosts_do_not_reach_the_server() {
    let hub = TestHub::start().await;
    let client = Mcp::stateless(&hub, TOKEN);
    let message = client.message("tools/list", json!({}));
    let with = async |name: &str, value: &str| {
        client.request(&message).header(name, value).send().await.expect("answers").status().as_u16()
    };
    assert_eq!(with("origin", "https://evil.example").await, 403);
    assert_eq!(with("origin", "null").await, 403);
    assert_eq!(with("origin", &hub.http).await, 200);
    assert_eq!(with("host", "evil.example").await, 421);
}

#[tokio::test]
async fn a_call_whose_parameters_do_not_fit_is_told_so() {
    let hub = TestHub::start().await;
    for client in [Mcp::stateless(&hub, TOKEN), Mcp::open(&hub, TOKEN).await] {
        for (member, value) in [
            ("inputResponses", json!("x")),
            ("inputResponses", json!([])),
            ("requestState", json!(7)),
            ("arguments", json!([])),
        ] {
            let mut params = json!({ "name": "list_agents", "arguments": {} });
            params[member] = value;
            let malformed = client.ask("tools/call", params).await;
            assert_eq!(malformed.last()["error"]["code"], -32602, "{member}: {malformed:?}");
        }
        let call = client.message("tools/call", json!({ "name": "list_agents", "arguments": {} })).to_string();
        let twice = call.replace(r#""arguments":{}"#, r#""arguments":{},"arguments":{}"#);
        assert_ne!(call, twice);
        let request = client.request(&client.message("tools/call", json!({ "name": "list_agents" })));
        let malformed = request.body(twice).send().await.expect("answers").text().await.expect("whole");
        assert!(malformed.contains("-32602") && malformed.contains("arguments"), "{malformed}");
    }
}

#[tokio::test]
async fn what_is_not_quite_right_is_told_as_the_protocol_has_it() {
    let hub = TestHub::start().await;
    for client in [Mcp::stateless(&hub, TOKEN), Mcp::open(&hub, TOKEN).await] {
        for method in ["tools/list", "prompts/list", "resources/list", "resources/templates/list"] {
            for cursor in [json!("made up!"), json!("pc"), json!(5), json!(["pc"])] {
                let forged = client.ask(method, json!({ "cursor": cursor })).await;
                let error = &forged.last()["error"];
                let said = (error["code"].as_i64(), error["message"].as_str());
                assert_eq!(said, (Some(-32602), Some("the cursor is not valid")), "{method}: {forged:?}");
            }
            assert!(client.ask(method, json!({ "cursor": null })).await.result().is_object());
        }
        let unknown = json!({ "ref": { "type": "ref/prompt", "name": "nothing" },
            "argument": { "name": "agent", "value": "" } });
        let unknown = client.ask("completion/complete", unknown).await;
        assert_eq!(unknown.last()["error"]["code"], -32602, "{unknown:?}");
    }
    for (token, told) in [("", false), ("cvk_wrong", true)] {
        let refused = Mcp::stateless(&hub, token).ask("tools/list", json!({})).await;
        let challenge = refused.challenge.expect("a challenge");
        assert_eq!((refused.status, challenge.contains("error=\"invalid_token\"")), (401, told), "{challenge}");
    }
    let client = Mcp::stateless(&hub, TOKEN);
    for (kind, status) in [
        ("application/json", 200),
        ("Application/JSON", 200),
        ("application/json; charset=utf-8", 200),
        ("application/jsonx", 415),
        ("text/plain", 415),
    ] {
        let mut request = client.request(&client.message("tools/list", json!({}))).build().expect("a request");
        request.headers_mut().insert("content-type", kind.parse().expect("a value"));
        let reply = hub.http_client.execute(request).await.expect("answers");
        assert_eq!(reply.status().as_u16(), status, "{kind}");
    }
}
