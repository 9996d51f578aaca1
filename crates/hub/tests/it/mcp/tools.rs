//! Tools: what is listed, what they answer, whom they reach.

use serde_json::{Value, json};

use super::client::{Events, Mcp, OLD};
use super::resources::standing;
use crate::support::{TOKEN, TestAgent, TestHub};

/// Answers the next request of an agent with this result.
async fn answer(agent: &mut TestAgent, result: Value) -> crate::support::Request {
    let request = agent.request().await;
    agent.answer(&request.id, result).await;
    request
}

#[tokio::test]
async fn both_eras_work_on_one_endpoint() {
    let hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    let new = Mcp::stateless(&hub, TOKEN);
    let found = new.ask("server/discover", json!({})).await;
    let versions = found.result()["supportedVersions"].as_array().expect("a list").clone();
    assert!(versions.contains(&json!("2026-07-28")) && versions.contains(&json!("2025-11-25")), "{versions:?}");
    let old = Mcp::open(&hub, TOKEN).await;
    assert_eq!(new.tools().await, old.tools().await, "names and order are the same");
    for client in [&new, &old] {
        let call = client.call("fs_read", json!({ "agent": "pc", "path": "/etc/hostname" }));
        let (reply, request) = tokio::join!(call, answer(&mut agent, json!({ "content": "pc", "truncated": false })));
        assert_eq!((request.tool.as_str(), &request.args), ("fs_read", &json!({ "path": "/etc/hostname" })));
        assert_eq!(reply.structured()["state"], "done", "{reply:?}");
        assert_eq!(reply.structured()["result"], json!({ "content": "pc", "truncated": false }));
        assert!(reply.text().contains("is an instruction"), "{}", reply.text());
        assert_eq!(reply.result()["isError"], false);
    }
    let records = hub.journal("kind=call&agent=pc").await;
    assert_eq!(records.len(), 2);
    assert!(records.iter().all(|r| r["door"] == "mcp" && r["tool"] == "fs_read" && r["outcome"] == "ok"));
}

#[tokio::test]
async fn every_tool_has_schemas_of_its_own_and_answers_by_them() {
    let hub = TestHub::start().await;
    let client = Mcp::stateless(&hub, TOKEN);
    let listed = client.ask("tools/list", json!({})).await;
    for tool in listed.result()["tools"].as_array().expect("a list") {
        assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
        assert_eq!(tool["inputSchema"]["additionalProperties"], false, "{tool}");
        assert!(tool["inputSchema"]["properties"].get("args").is_none() || tool["name"] == "call_agents", "{tool}");
        assert_eq!(tool["outputSchema"]["type"], "object", "{tool}");
        assert!(tool["annotations"]["readOnlyHint"].is_boolean(), "{tool}");
        assert!(tool["description"].as_str().is_some_and(|d| d.len() > 15), "{tool}");
    }
}

#[tokio::test]
async fn wrong_arguments_are_told_so_that_a_model_can_mend_them() {
    let hub = TestHub::start().await;
    hub.enrol("pc").await;
    let client = Mcp::stateless(&hub, TOKEN);
    for (tool, args, expect) in [
        ("fs_read", json!({ "agent": "pc" }), "fs_read needs path"),
        ("fs_read", json!({ "agent": "pc", "path": 1 }), "fs_read.path must be a text"),
        ("fs_read", json!({ "agent": "pc", "path": "/", "offset": 1 }), "\"offset\" is not one of them"),
        ("fs_read", json!({ "agent": 7, "path": "/" }), "`agent` must be"),
        ("fs_read", json!({ "agent": "nobody", "path": "/" }), "there is no agent `nobody`"),
        ("net_config", json!({ "agent": "pc", "timeout_s": 0 }), "`timeout_s`"),
        ("list_agents", json!({ "limit": "x" }), "invalid arguments: `limit`: "),
        ("call_agents", json!({ "tool": "nothing", "agents": ["pc"] }), "`tool` must be"),
        ("call_agents", json!({ "tool": "net_config" }), "either `agents` or `tag`"),
        ("call_status", json!({ "call_id": "x" }), "`call_id` must be"),
        ("call_cancel", json!({ "call_id": "x" }), "`call_id` must be"),
        ("call_cancel", json!({ "call": "x" }), "invalid arguments"),
    ] {
        let reply = client.call(tool, args).await;
        assert_eq!(reply.result()["isError"], true, "{tool} {reply:?}");
        assert!(reply.text().contains(expect), "{tool}: {}", reply.text());
    }
    let unknown = client.call("no_such_tool", json!({})).await;
    assert_eq!(unknown.last()["error"]["code"], -32602, "{unknown:?}");
}

#[tokio::test]
async fn the_contracts_own_tools_show_the_fleet() {
    let hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    let disk = json!({ "status": "ok", "summary": "C: 96%", "volumes": [{ "percent_used": 96 }] });
    let telemetry = json!({ "type": "telemetry", "agent_id": "pc", "collected_at": "2026-06-04T18:00:00Z",
        "snapshot": { "disk": disk } });
    agent.socket.send(telemetry.to_string()).await;
    hub.until("/api/agents/pc", |a| a["health"] == "crit").await;
    hub.until("/api/agents/pc/snapshot", |s| s["agent_id"] == "pc").await;
    let client = Mcp::open(&hub, TOKEN).await;
    let listed = client.call("list_agents", json!({})).await;
    assert_eq!(listed.structured()["agents"][0]["id"], "pc");
    assert_eq!(listed.structured()["agents"][0]["health"], "crit");
    let fleet = client.call("fleet_overview", json!({})).await;
    assert_eq!(fleet.structured()["overall"], "crit");
    let health = client.call("agent_health", json!({ "id": "pc" })).await;
    assert_eq!(health.structured()["sections"]["disk"]["status"], "crit");
    let snapshot = client.call("agent_snapshot", json!({ "id": "pc", "section": "disk" })).await;
    assert_eq!(snapshot.structured()["snapshot"]["disk"]["volumes"][0]["percent_used"], 96);
    let journal = client.call("journal_search", json!({ "agent": "pc", "kind": "auth" })).await;
    assert_eq!(journal.structured()["records"][0]["target"], "pc", "{journal:?}");
    let newest = client.call("journal_search", json!({ "newest": true, "limit": 2 })).await;
    let all = hub.journal("").await;
    let seqs = |records: &[Value]| records.iter().map(|r| r["seq"].clone()).collect::<Vec<_>>();
    let newest = newest.structured()["records"].as_array().expect("a list").clone();
    assert_eq!(seqs(&newest), seqs(&all[all.len() - 2..]));
}

#[tokio::test]
async fn two_chats_with_one_token_never_retarget_each_other() {
    let hub = TestHub::start().await;
    let mut one = hub.agent("pc-1").await;
    let mut two = hub.agent("pc-2").await;
    let a = Mcp::open(&hub, TOKEN).await;
    let b = Mcp::open(&hub, TOKEN).await;
    a.call("select_agent", json!({ "id": "pc-1" })).await;
    b.call("select_agent", json!({ "id": "pc-2" })).await;
    let (reply, request) = tokio::join!(a.call("net_config", json!({})), answer(&mut one, json!({})));
    assert_eq!((reply.structured()["agent"].as_str(), request.tool.as_str()), (Some("pc-1"), "net_config"));
    let (reply, _) = tokio::join!(b.call("net_config", json!({})), answer(&mut two, json!({})));
    assert_eq!(reply.structured()["agent"], "pc-2");
    let waiting = a.call("shell_exec", json!({ "command": "uptime" })).await;
    assert_eq!((&waiting.structured()["agent"], &waiting.structured()["state"]), (&json!("pc-1"), &json!("waiting")));

    // Without a session a selection is the token's: it serves to look, and for nothing else.
    let c = Mcp::stateless(&hub, TOKEN);
    let none = c.call("net_config", json!({})).await;
    assert_eq!(none.structured()["error"]["code"], "agent_required");
    let selected = c.call("select_agent", json!({ "id": "pc-2" })).await;
    assert_eq!(selected.structured()["holds_for"], "token");
    let (reply, _) = tokio::join!(c.call("net_config", json!({})), answer(&mut two, json!({})));
    assert_eq!(reply.structured()["agent"], "pc-2");
    for (tool, args) in [("shell_exec", json!({ "command": "uptime" })), ("screen_capture", json!({}))] {
        let refused = c.call(tool, args).await;
        assert_eq!(refused.structured()["error"]["code"], "agent_required", "{tool}");
    }
    let (reply, _) = tokio::join!(a.call("net_config", json!({})), answer(&mut one, json!({})));
    assert_eq!(reply.structured()["agent"], "pc-1", "the token's selection is not the session's");
    let other = c.call("net_config", json!({ "agent": "pc-1", "timeout_s": 1 }));
    let (reply, _) = tokio::join!(other, answer(&mut one, json!({})));
    assert_eq!(reply.structured()["agent"], "pc-1", "an argument overrides");
}

#[tokio::test]
async fn screenshots_come_back_as_images() {
    let hub = TestHub::start().await;
    let rule = hub.request("DELETE", "/api/policy/confirm/mcp-needs-a-person", Some(TOKEN), None).await;
    assert_eq!(rule.status, 200, "{rule:?}");
    let mut agent = hub.agent("pc").await;
    let client = Mcp::stateless(&hub, TOKEN);
    let png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let call = client.call("screen_capture", json!({ "agent": "pc" }));
    let (reply, _) = tokio::join!(call, answer(&mut agent, json!({ "image_b64": png, "format": "png" })));
    let content = reply.result()["content"].as_array().expect("content").clone();
    let image = content.iter().find(|c| c["type"] == "image").expect("an image");
    assert_eq!((&image["data"], &image["mimeType"]), (&json!(png), &json!("image/png")));
    assert!(!reply.text().contains(png), "and not as text, too");
    assert_eq!(reply.structured()["result"]["format"], "png");
}

#[tokio::test]
async fn many_machines_are_called_at_once_and_told_apart() {
    let hub = TestHub::start().await;
    let mut good = hub.agent("pc-1").await;
    let mut bad = hub.agent("pc-2").await;
    hub.enrol("pc-3").await;
    for id in ["pc-1", "pc-2", "pc-3"] {
        let tags = json!({ "tags": ["lab"] });
        assert_eq!(hub.request("PATCH", &format!("/api/agents/{id}"), Some(TOKEN), Some(tags)).await.status, 200);
    }
    let client = Mcp::stateless(&hub, TOKEN);
    let answers = async {
        answer(&mut good, json!({ "interfaces": [] })).await;
        let request = bad.request().await;
        bad.fail(&request.id, "exec_failed").await;
    };
    let (reply, ()) =
        tokio::join!(client.call("call_agents", json!({ "tool": "net_config", "tag": "lab" })), answers);
    let outcomes = reply.structured()["outcomes"].as_array().expect("a list").clone();
    let short: Vec<_> = outcomes
        .iter()
        .map(|o| format!("{} {} {}", o["agent"], o["state"], o["error"]["code"]).replace('"', ""))
        .collect();
    assert_eq!(short, ["pc-1 done null", "pc-2 failed exec_failed", "pc-3 failed offline"]);
    assert_eq!(reply.structured()["counts"], json!({ "done": 1, "failed": 2 }));
    let both = json!({ "tool": "shell_exec", "args": { "command": "uptime" }, "agents": ["pc-1", "pc-2", "nobody"] });
    let waiting = client.call("call_agents", both).await;
    assert_eq!(waiting.structured()["counts"], json!({ "waiting": 2, "refused": 1 }), "each needs its own approval");
}

#[tokio::test]
async fn a_machine_that_does_not_answer_holds_up_no_other() {
    let hub = TestHub::start().await;
    let ids: Vec<String> = (0..40).map(|n| format!("pc-{n:02}")).collect();
    let mut agents = Vec::new();
    for id in &ids {
        agents.push(hub.agent(id).await);
    }
    let client = Mcp::stateless(&hub, TOKEN);
    let asked = client.call("call_agents", json!({ "tool": "net_config", "agents": ids }));
    let answered = async {
        // More than are asked at a time.
        let (silent, others) = agents.split_at_mut(35);
        let mut held = Vec::new();
        for agent in silent.iter_mut() {
            held.push(agent.request().await.id);
        }
        for agent in others {
            answer(agent, json!({ "interfaces": [] })).await;
        }
        for (agent, id) in silent.iter_mut().zip(held) {
            agent.answer(&id, json!({ "interfaces": [] })).await;
        }
    };
    let (reply, ()) = tokio::join!(asked, answered);
    assert_eq!(reply.structured()["counts"], json!({ "done": 40 }), "{reply:?}");
    let outcomes = reply.structured()["outcomes"].as_array().expect("a list").clone();
    let order: Vec<_> = outcomes.iter().map(|o| o["agent"].as_str().expect("an id").to_owned()).collect();
    assert_eq!(order, ids, "and they are told in order");
}

#[tokio::test]
async fn large_arguments_are_under_way_to_few_machines_at_a_time() {
    let hub = TestHub::start().await;
    let ids: Vec<String> = (0..14).map(|n| format!("pc-{n:02}")).collect();
    let mut silent = Vec::new();
    for id in &ids {
        silent.push(hub.agent(id).await);
    }
    // Nine times as much is more than the calls of one request may take.
    let large = json!({ "sections": ["x".repeat(1_000_000)] });
    let wanted = json!({ "tool": "telemetry_collect", "agents": ids, "args": large, "timeout_s": 2.0 });
    let client = Mcp::stateless(&hub, TOKEN);
    let asked = client.call("call_agents", wanted);
    tokio::pin!(asked);
    let mut most = 0;
    let reply = loop {
        tokio::select! {
            reply = &mut asked => break reply,
            () = tokio::task::yield_now() => most = most.max(hub.hub().calls.running()),
        }
    };
    assert_eq!(reply.structured()["counts"], json!({ "failed": 14 }), "{reply:?}");
    assert_eq!(most, 8);
}

#[tokio::test]
async fn a_token_with_few_calls_at_once_has_many_machines_asked_in_turn() {
    let hub = TestHub::start().await;
    let ids: Vec<String> = (0..6).map(|n| format!("pc-{n}")).collect();
    let mut answering = Vec::new();
    for id in &ids {
        answering.push(hub.agent(id).await.echo());
    }
    let narrow = hub.token("narrow", "operator", json!({ "concurrent_calls": 2 })).await;
    let reply =
        Mcp::stateless(&hub, &narrow).call("call_agents", json!({ "tool": "net_config", "agents": ids })).await;
    assert_eq!(reply.structured()["counts"], json!({ "done": 6 }), "{reply:?}");
    answering.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn what_a_tool_does_not_take_is_refused_and_what_is_no_call_is_told_so() {
    let hub = TestHub::start().await;
    hub.enrol("pc").await;
    for client in [Mcp::stateless(&hub, TOKEN), Mcp::open(&hub, TOKEN).await] {
        for (tool, args) in [
            ("call_agents", json!({ "tool": "net_config", "agents": ["pc"], "agnt": 1 })),
            ("call_status", json!({ "call_id": "0198c0de-0000-7000-8000-000000000000", "wait": 1 })),
        ] {
            let refused = client.call(tool, args).await;
            assert_eq!(refused.structured()["error"]["code"], "bad_args", "{refused:?}");
        }
        for params in [json!({}), json!({ "name": 7 }), json!({ "name": "net_config", "arguments": "x" })] {
            let refused = client.ask("tools/call", params.clone()).await;
            assert_eq!(refused.last()["error"]["code"], -32602, "{params}: {refused:?}");
            assert_eq!(
                (refused.status, &refused.last()["id"]),
                (if client.session.is_some() { 200 } else { 400 }, &json!(1))
            );
        }
    }
}

#[tokio::test]
async fn long_calls_report_progress_and_a_cancelled_one_leaves_a_late_answer() {
    let hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    let client = Mcp::open(&hub, TOKEN).await;
    let mut message = client.message("tools/call", json!({ "name": "net_config", "arguments": { "agent": "pc" } }));
    message["params"]["_meta"]["progressToken"] = "p".into();
    message["id"] = 77.into();
    let mut events = Events::of(client.request(&message)).await;
    let request = agent.request().await;
    let progress = events.next().await;
    assert_eq!(progress["method"], "notifications/progress", "{progress}");
    assert_eq!(progress["params"]["progressToken"], "p");
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 77 } });
    assert_eq!(client.post(&cancel).await.status, 202);
    hub.until("/api/journal?limit=1000&kind=call", |j| {
        j["records"].as_array().is_some_and(|r| r.iter().any(|r| r["outcome"] == "cancelled"))
    })
    .await;
    agent.answer(&request.id, json!({ "interfaces": [] })).await;
    hub.until("/api/journal?limit=1000&kind=call", |j| {
        j["records"].as_array().is_some_and(|r| r.iter().any(|r| r["phase"] == "late" && r["outcome"] == "ok"))
    })
    .await;
}

#[tokio::test]
async fn a_client_without_a_session_cancels_by_going_away() {
    let hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    let client = Mcp::stateless(&hub, TOKEN);
    let message = client.message("tools/call", json!({ "name": "net_config", "arguments": { "agent": "pc" } }));
    let going = tokio::spawn(client.request(&message).send());
    let request = agent.request().await;
    going.abort();
    hub.until("/api/journal?limit=1000&kind=call", |j| {
        j["records"].as_array().is_some_and(|r| r.iter().any(|r| r["outcome"] == "cancelled"))
    })
    .await;
    agent.answer(&request.id, json!({})).await;
    hub.until("/api/journal?limit=1000&kind=call", |j| {
        j["records"].as_array().is_some_and(|r| r.iter().any(|r| r["phase"] == "late"))
    })
    .await;
}

/// Which tools a machine has follows from its system: a small fleet's list is short.
#[tokio::test]
async fn only_tools_that_some_machine_in_reach_has_are_listed() {
    let hub = TestHub::start().await;
    let _agent = hub.agent("pc").await;
    let client = Mcp::stateless(&hub, TOKEN);
    let listed = client.ask("tools/list", json!({})).await;
    let text = listed.result().to_string();
    assert!(!text.contains("winget_") && !text.contains("account_create"), "{text}");
    assert!(text.len() < 40 * 1024, "{} bytes", text.len());
    let names = client.tools().await;
    assert!(names.contains(&"fs_read".into()) && names.contains(&"list_agents".into()), "{names:?}");
    assert_eq!(names, client.tools().await, "the order is stable");
    let mut other = TestAgent::open(&hub, "win", hub.enrol("win").await).await;
    other.handshake_with(r#""os":"linux""#, r#""os":"windows""#).await.expect("let in");
    hub.until("/api/agents/win", |agent| agent["online"] == true).await;
    assert!(client.tools().await.contains(&"winget_list".into()));
    let lab = hub.token("lab", "operator", json!({ "agents": ["pc"] })).await;
    let theirs = Mcp::stateless(&hub, &lab).tools().await;
    assert!(!theirs.contains(&"winget_list".into()) && theirs.contains(&"fs_read".into()), "{theirs:?}");
}

/// Of a machine of ours with all that it can do.
#[tokio::test]
async fn the_list_of_one_machine_with_probes_is_short() {
    let hub = TestHub::start().await;
    let mut agent = TestAgent::open(&hub, "local", hub.enrol("local").await).await;
    let features = r#""features":["posix","shell_exec","remote_control","below","files","probes"]"#;
    agent.handshake_with(r#""features":["shell_exec"]"#, features).await.expect("let in");
    hub.until("/api/agents/local", |agent| agent["online"] == true).await;
    let client = Mcp::stateless(&hub, TOKEN);
    let names = client.tools().await;
    assert!(names.contains(&"probe".into()) && names.contains(&"shell_exec".into()), "{names:?}");
    let text = client.ask("tools/list", json!({})).await.result().to_string();
    assert!(text.len() <= 40_000, "{} bytes", text.len());
}

#[tokio::test]
async fn who_listens_hears_that_the_list_has_changed_and_only_then() {
    let hub = TestHub::start().await;
    let _agent = hub.agent("pc").await;
    let lab = hub.token("lab", "operator", json!({ "agents": ["pc"] })).await;
    let (session, theirs) = (Mcp::open(&hub, TOKEN).await, Mcp::open(&hub, &lab).await);
    let before = session.tools().await;
    theirs.tools().await;
    let mut events = Events::of(standing(&session)).await;
    let stateless = Mcp::stateless(&hub, TOKEN);
    let filter = json!({ "notifications": { "toolsListChanged": true } });
    let mut stream = Events::of(stateless.request(&stateless.message("subscriptions/listen", filter))).await;
    assert_eq!(stream.next().await["method"], "notifications/subscriptions/acknowledged");
    // One more of the same brings nothing new, and one of another system does.
    let _same = hub.agent("pc-2").await;
    let mut other = TestAgent::open(&hub, "win", hub.enrol("win").await).await;
    other.handshake_with(r#""os":"linux""#, r#""os":"windows""#).await.expect("let in");
    for events in [&mut events, &mut stream] {
        assert_eq!(events.next().await["method"], "notifications/tools/list_changed");
    }
    assert_ne!(session.tools().await, before);
    // Whose machine it is not hears nothing of it.
    let uri = "convoke://agents/pc/health";
    assert_eq!(theirs.ask("resources/subscribe", json!({ "uri": uri })).await.result(), &json!({}));
    let stream = theirs.hub.http_client.get(format!("{}/mcp", hub.http)).bearer_auth(&lab);
    let stream = stream.header("accept", "text/event-stream").header("mcp-protocol-version", OLD);
    let mut heard = Events::of(stream.header("mcp-session-id", theirs.session.as_deref().expect("open"))).await;
    hub.request("PATCH", "/api/agents/pc", Some(TOKEN), Some(json!({ "tags": ["x"] }))).await;
    assert_eq!(heard.next().await["method"], "notifications/resources/updated");
}
