//! Sessions and tokens: whose they are, and how much they may use.

use convoke_mcp::Sessions;
use serde_json::{Value, json};

use super::client::{Mcp, OLD};
use crate::support::{PATIENCE, TOKEN, TestHub};

#[tokio::test]
async fn a_session_belongs_to_the_token_that_opened_it() {
    let hub = TestHub::start().await;
    let other = hub.token("other", "admin", json!({})).await;
    let mine = Mcp::open(&hub, TOKEN).await;
    let stolen = Mcp { token: other.clone(), session: mine.session.clone(), ..Mcp::stateless(&hub, &other) };
    assert_eq!(stolen.ask("tools/list", json!({})).await.status, 404);
    for method in [reqwest::Method::GET, reqwest::Method::DELETE] {
        let request = hub.http_client.request(method, format!("{}/mcp", hub.http)).bearer_auth(&other);
        let request = request.header("accept", "text/event-stream").header("mcp-protocol-version", OLD);
        let session = mine.session.as_deref().expect("a session");
        assert_eq!(request.header("mcp-session-id", session).send().await.expect("answers").status().as_u16(), 404);
    }
    assert!(!mine.tools().await.is_empty(), "still open");
    assert_eq!(mine.end().await.status().as_u16(), 204);
    assert_eq!(mine.end().await.status().as_u16(), 404, "it has ended");
    let unknown = Mcp { session: Some("no-such-session".into()), ..Mcp::stateless(&hub, TOKEN) };
    assert_eq!(unknown.ask("tools/list", json!({})).await.status, 404);
}

#[tokio::test]
async fn sessions_are_bounded_and_end_with_their_token() {
    let settings = [("mcp.max_sessions", "3"), ("mcp.max_sessions_per_token", "2")];
    let hub = TestHub::with(&settings).await;
    let bot = hub.token("bot", "operator", json!({})).await;
    let first = Mcp::open(&hub, TOKEN).await;
    let second = Mcp::open(&hub, TOKEN).await;
    first.tools().await;
    let third = Mcp::open(&hub, TOKEN).await;
    assert_eq!(second.ask("tools/list", json!({})).await.status, 404, "the longest unused of its token went");
    assert!(!first.tools().await.is_empty() && !third.tools().await.is_empty());
    let theirs = Mcp::open(&hub, &bot).await;
    assert_eq!(Sessions::of(hub.hub()).count(), 3);
    let full = Mcp::stateless(&hub, &bot).initialize().await;
    assert_eq!(full.status, 503, "no place for one more, and none of its own to give up: {full:?}");
    assert!(!Mcp::stateless(&hub, &bot).tools().await.is_empty(), "who needs no session is not concerned");

    let tokens = hub.get("/api/tokens").await.body;
    let id = tokens["tokens"].as_array().expect("a list").iter().find(|t| t["name"] == "bot").expect("there")["id"]
        .clone();
    let path = format!("/api/tokens/{}", id.as_str().expect("an id"));
    assert_eq!(hub.request("DELETE", &path, Some(TOKEN), None).await.status, 200);
    assert_eq!(theirs.ask("tools/list", json!({})).await.status, 401);
    assert_eq!(Sessions::of(hub.hub()).count(), 2);
}

#[tokio::test]
async fn whatever_else_it_says_who_opens_a_session_is_counted_and_owns_it() {
    let settings = [("mcp.max_sessions", "3"), ("mcp.max_sessions_per_token", "2")];
    let hub = TestHub::with(&settings).await;
    let viewer = hub.token("looks", "viewer", json!({})).await;
    let odd = [json!({ "requestId": {} }), json!({ "name": [1] }), json!({ "requestId": 1.5, "name": null })];
    let mut opened = vec![];
    for n in 0..9 {
        let mut params = json!({ "protocolVersion": OLD, "capabilities": {},
            "clientInfo": { "name": "odd", "version": "1" } });
        params.as_object_mut().expect("an object").append(&mut odd[n % 3].as_object().expect("an object").clone());
        let client = Mcp::stateless(&hub, &viewer);
        let message = json!({ "jsonrpc": "2.0", "id": n, "method": "initialize", "params": params });
        let answer = client.post(&message).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        opened.push(Mcp { session: answer.session, ..client });
        assert!(Sessions::of(hub.hub()).count() <= 2, "it has no more than it may");
    }
    let ping = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    assert_eq!(opened[8].post(&ping).await.status, 202, "the last one is its own");
    assert_eq!(opened[0].post(&ping).await.status, 404, "the first one went");
    Mcp::open(&hub, TOKEN).await;
    let bot = hub.token("bot", "operator", json!({})).await;
    let full = Mcp::stateless(&hub, &bot).initialize().await;
    assert_eq!((full.status, &full.last()["error"]["code"]), (503, &json!("busy")), "{full:?}");
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "shell_exec", "arguments": { "agent": "pc", "command": "ls" }, "requestId": {} } });
    assert_eq!(opened[8].post(&call).await.status, 403, "an odd field beside it hides no tool");
}

#[tokio::test]
async fn a_session_whose_client_was_gone_before_it_knew_is_the_tokens_all_the_same() {
    let hub = TestHub::with(&[("mcp.max_sessions", "8"), ("mcp.max_sessions_per_token", "4")]).await;
    let viewer = hub.token("looks", "viewer", json!({})).await;
    for _ in 0..40 {
        let client = Mcp::stateless(&hub, &viewer);
        let params = json!({ "protocolVersion": OLD, "capabilities": {},
            "clientInfo": { "name": "hasty", "version": "1" } });
        let message = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let asking = tokio::spawn(client.request(&message).send());
        tokio::task::yield_now().await;
        asking.abort();
    }
    for _ in 0..4 {
        Mcp::open(&hub, TOKEN).await;
    }
    assert!(Sessions::of(hub.hub()).count() <= 8);
}

#[tokio::test]
async fn a_tokens_calls_a_minute_hold_at_every_door() {
    let hub = TestHub::start().await;
    let echo = hub.agent("pc").await.echo();
    let slow = hub.token("slow", "operator", json!({ "calls_per_minute": 3 })).await;
    let client = Mcp::stateless(&hub, &slow);
    for n in 0..3 {
        let reply = client.call("net_config", json!({ "agent": "pc" })).await;
        assert_eq!(reply.structured()["state"], "done", "{n}: {reply:?}");
    }
    let reply = client.call("net_config", json!({ "agent": "pc" })).await;
    assert_eq!(reply.structured()["error"]["code"], "limited", "{reply:?}");
    let http = hub.post_as(&slow, "/api/agents/pc/call", json!({ "tool": "net_config" })).await;
    assert_eq!((http.status, http.body["error"]["code"].as_str()), (429, Some("limited")));
    let records = hub.journal("kind=refusal").await;
    let limited: Vec<_> = records.iter().filter(|r| r["outcome"] == "limited").collect();
    assert_eq!(limited.len(), 1, "one record a minute, however often it is refused");
    assert_eq!(hub.post("/api/agents/pc/call", json!({ "tool": "net_config" })).await.status, 200, "others go on");
    echo.abort();
}

#[tokio::test]
async fn what_is_refused_counts_against_the_minute_too() {
    let hub = TestHub::start().await;
    let echo = hub.agent("pc").await.echo();
    let scopes = json!({ "calls_per_minute": 4, "tools": ["net_config"], "agents": ["pc"] });
    let slow = hub.token("slow", "operator", scopes).await;
    let call = |agent: &str, body| {
        let (hub, slow, path) = (&hub, &slow, format!("/api/agents/{agent}/call"));
        async move { hub.post_as(slow, &path, body).await.status }
    };
    let kept = json!({ "tool": "net_config", "idempotency_key": "k" });
    for (body, status) in [
        (kept.clone(), 200),
        (kept, 200),
        (json!({ "tool": "fs_list" }), 403),
        // The door refuses this before the gate is asked: it does not count.
        (json!({ "tool": "" }), 400),
        (json!({ "tool": "net_config", "args": [] }), 400),
        (json!({ "tool": "net_config" }), 429),
        (json!({ "tool": "net_config" }), 429),
    ] {
        assert_eq!(call("pc", body.clone()).await, status, "{body}");
    }
    assert_eq!(call("elsewhere", json!({ "tool": "net_config" })).await, 403, "the door comes before the limit");
    echo.abort();
}

#[tokio::test]
async fn a_tokens_calls_at_once_are_bounded_and_come_back() {
    let hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    let narrow = hub.token("narrow", "operator", json!({ "concurrent_calls": 1 })).await;
    let client = Mcp::stateless(&hub, &narrow);
    let one = async {
        let request = agent.request().await;
        let second = client.call("net_config", json!({ "agent": "pc" })).await;
        assert_eq!(second.structured()["error"]["code"], "limited", "{second:?}");
        agent.answer(&request.id, json!({})).await;
    };
    let (first, ()) = tokio::join!(client.call("net_config", json!({ "agent": "pc" })), one);
    assert_eq!(first.structured()["state"], "done", "{first:?}");
    let of_the_token = |records: Vec<Value>| records.iter().filter(|r| r["who"] == "narrow").count();
    assert_eq!(of_the_token(hub.journal("agent=pc").await), 1, "the call that ran");
    assert_eq!(of_the_token(hub.journal("kind=refusal").await), 0, "the refused one leaves no record");
    let again = async {
        let request = agent.request().await;
        agent.answer(&request.id, json!({})).await;
    };
    let (third, ()) = tokio::join!(client.call("net_config", json!({ "agent": "pc" })), again);
    assert_eq!(third.structured()["state"], "done", "{third:?}");
    for bad in [json!({ "calls_per_minute": 0 }), json!({ "concurrent_calls": 0 })] {
        let body = json!({ "name": "x", "role": "viewer", "scopes": bad });
        assert_eq!(hub.post("/api/tokens", body).await.status, 400);
    }
}

#[tokio::test]
async fn many_machines_out_of_reach_are_one_refusal_in_the_record() {
    let hub = TestHub::start().await;
    hub.enrol("near").await;
    let scopes = json!({ "agents": ["near"] });
    let distant = hub.token("distant", "operator", scopes).await;
    let client = Mcp::stateless(&hub, &distant);
    let mut agents: Vec<_> = (0..499).map(|n| format!("pc-{n:03}")).collect();
    agents.push("near".into());
    let reply = client.call("call_agents", json!({ "tool": "net_config", "agents": agents })).await;
    assert_eq!(reply.structured()["counts"], json!({ "refused": 499, "failed": 1 }), "{reply:?}");
    let refusals = hub.journal("kind=refusal").await;
    assert_eq!(refusals.len(), 1);
    let one = &refusals[0];
    assert_eq!(
        (&one["who"], &one["tool"], &one["decision"]),
        (&json!("distant"), &json!("net_config"), &json!("denied"))
    );
    assert_eq!((&one["detail"]["count"], &one["detail"]["agents"][0]), (&json!(499), &json!("pc-000")));
    assert_eq!(one["detail"]["agents"].as_array().map(Vec::len), Some(32));
    // Whoever is told no learns nothing of which of them exist.
    let said = |id: &str| {
        let all = reply.structured()["outcomes"].as_array().expect("a list").clone();
        all.into_iter().find(|o| o["agent"] == id).expect("there")["error"].clone()
    };
    assert_eq!(said("pc-000"), said("pc-498"));
}

#[tokio::test]
async fn what_a_session_keeps_of_its_client_is_bounded() {
    let hub = TestHub::start().await;
    let long = "x".repeat(100_000);
    let capabilities = json!({ "experimental": { "x": { "long": long } } });
    let greedy = Mcp { capabilities, ..Mcp::stateless(&hub, TOKEN) };
    let refused = greedy.initialize().await;
    assert_eq!((refused.status, &refused.last()["error"]["code"]), (400, &json!(-32602)), "{refused:?}");
    assert_eq!(Sessions::of(hub.hub()).count(), 0);
    let client = Mcp::open(&hub, TOKEN).await;
    for uri in [format!("convoke://journal/{}5", "0".repeat(100_000)), "convoke://journal/+5".into()] {
        let refused = client.ask("resources/subscribe", json!({ "uri": uri })).await;
        assert!(refused.last()["error"].is_object(), "{refused:?}");
    }
    assert_eq!(client.ask("resources/subscribe", json!({ "uri": "convoke://journal/5" })).await.result(), &json!({}));
}

#[tokio::test]
async fn a_token_that_is_revoked_while_its_call_runs_gets_nothing_of_it() {
    let hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    for (n, plain) in [true, false].into_iter().enumerate() {
        let minted = hub.post("/api/tokens", json!({ "name": format!("bot-{n}"), "role": "operator" })).await.body;
        let text = |key: &str| minted[key].as_str().expect("a text").to_owned();
        let (token, id) = (text("token"), text("id"));
        let client = Mcp::stateless(&hub, &token);
        let mut params = json!({ "name": "net_config", "arguments": { "agent": "pc" } });
        if !plain {
            params["_meta"] = json!({ "traceparent": "x" });
        }
        let revoke = async {
            let request = agent.request().await;
            let revoked = hub.request("DELETE", &format!("/api/tokens/{id}"), Some(TOKEN), None).await;
            assert_eq!(revoked.status, 200, "{revoked:?}");
            agent.answer(&request.id, json!({ "dns": ["what nobody may hear"] })).await;
        };
        let (reply, ()) = tokio::join!(client.ask("tools/call", params), revoke);
        assert_eq!(reply.structured()["error"]["code"], "unauthorized", "{reply:?}");
        assert!(!format!("{reply:?}").contains("nobody may hear"), "{reply:?}");
    }
}

#[tokio::test]
async fn a_session_whose_token_has_lapsed_ends() {
    let hub = TestHub::start().await;
    let short = json!({ "name": "short", "role": "viewer", "expires_in_s": 1 });
    let token = hub.post("/api/tokens", short).await.body["token"].as_str().expect("a token").to_owned();
    let client = Mcp::open(&hub, &token).await;
    let listening = hub.http_client.get(format!("{}/mcp", hub.http)).bearer_auth(&token);
    let listening = listening.header("accept", "text/event-stream").header("mcp-protocol-version", OLD);
    let session = client.session.as_deref().expect("a session");
    let stream = listening.header("mcp-session-id", session).send().await.expect("listens");
    assert_eq!(stream.status(), 200);
    let end = tokio::time::timeout(PATIENCE, stream.text()).await;
    assert!(end.is_ok(), "the stream ends with the token");
    assert_eq!(Sessions::of(hub.hub()).count(), 0);
}

#[tokio::test]
async fn an_id_is_one_requests_until_it_is_answered() {
    let hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    let client = Mcp::open(&hub, TOKEN).await;
    for meta in [json!({}), json!({ "traceparent": "x" })] {
        let params = json!({ "name": "net_config", "arguments": { "agent": "pc" }, "_meta": meta });
        let others = async {
            let request = agent.request().await;
            for (method, params) in [("ping", json!({})), ("tools/list", json!({})), ("tools/call", params.clone())] {
                let repeated = client.ask(method, params).await;
                assert_eq!(repeated.messages[0]["error"]["code"], -32600, "{method}: {repeated:?}");
            }
            agent.answer(&request.id, json!({ "dns": [] })).await;
        };
        let (first, ()) = tokio::join!(client.ask("tools/call", params.clone()), others);
        assert_eq!(first.structured()["state"], "done", "{first:?}");
        assert_eq!(client.ask("ping", json!({})).await.result(), &json!({}), "it is free again");
    }
}

/// A call that waits for a person.
async fn waiting(client: &Mcp<'_>) -> serde_json::Value {
    let reply = client.call("shell_exec", json!({ "agent": "pc", "command": "ls" })).await;
    assert_eq!(reply.structured()["state"], "waiting", "{reply:?}");
    reply.structured()["call_id"].clone()
}

#[tokio::test]
async fn what_a_token_has_under_way_in_its_sessions_is_bounded_whoever_is_connected() {
    let hub = TestHub::start().await;
    hub.enrol("pc").await;
    let narrow = hub.token("narrow", "operator", json!({ "concurrent_calls": 1, "calls_per_minute": 5 })).await;
    let mut client = Mcp::open(&hub, &narrow).await;
    let call = waiting(&client).await;
    let message = |client: &Mcp<'_>, id: usize, size: usize| {
        let mut message = client.message(
            "tools/call",
            json!({ "name": "call_status", "arguments": { "call_id": call, "wait_s": 300 },
                "x": "x".repeat(size) }),
        );
        message["id"] = id.into();
        message
    };
    // The connection of each breaks as soon as it is under way.
    let mut begun = 0;
    let refused = loop {
        let reply = client.request(&message(&client, 10 + begun, 1_000_000)).send().await.expect("answers");
        if reply.headers()["content-type"] == "application/json" {
            break reply.json::<serde_json::Value>().await.expect("JSON");
        }
        begun += 1;
        assert!(begun < 40, "there is no end to it");
        if begun == 20 {
            client = Mcp::open(&hub, &narrow).await;
        }
    };
    assert_eq!((begun, &refused["id"]), (33, &json!(43)), "of all its sessions together: {refused}");
    assert_eq!((&refused["error"]["code"], &refused["error"]["data"]["code"]), (&json!(-32000), &json!("limited")));
    let reply = client.call("net_config", json!({ "agent": "pc", "x": "x".repeat(600_000) })).await;
    assert_eq!(reply.last()["error"]["code"], -32000, "whichever session: {reply:?}");
    let other = Mcp::open(&hub, TOKEN).await;
    assert_eq!(other.ask("ping", json!({ "x": "x".repeat(900_000) })).await.result(), &json!({}), "others go on");
    // To give one up is no request.
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": { "requestId": 40, "_meta": { "traceparent": "x".repeat(900_000) } } });
    assert_eq!(client.post(&cancel).await.status, 202);
    let room =
        async { while client.ask("ping", json!({ "x": "x".repeat(900_000) })).await.last()["error"].is_object() {} };
    tokio::time::timeout(PATIENCE, room).await.expect("there is room again");
}

#[tokio::test]
async fn what_is_kept_of_a_request_until_it_is_answered_is_short() {
    let hub = TestHub::start().await;
    let echo = hub.agent("pc").await.echo();
    let long = "x".repeat(257);
    for client in [Mcp::open(&hub, TOKEN).await, Mcp::stateless(&hub, TOKEN)] {
        let status = if client.session.is_some() { 200 } else { 400 };
        for (method, params) in [
            ("tools/list", json!({})),
            ("tools/call", json!({ "name": "net_config", "arguments": { "agent": "pc" } })),
            ("tools/call", json!({ "name": "list_agents", "arguments": {} })),
        ] {
            let mut message = client.message(method, params.clone());
            message["id"] = long.as_str().into();
            let refused = client.post(&message).await;
            assert_eq!((refused.status, &refused.last()["error"]["code"]), (status, &json!(-32600)), "{refused:?}");
            assert_eq!(refused.last()["id"], long.as_str(), "who asked can tell");
            message["id"] = 1.into();
            message["params"]["_meta"]["progressToken"] = long.as_str().into();
            let refused = client.post(&message).await;
            assert_eq!((refused.status, &refused.last()["error"]["code"]), (status, &json!(-32602)), "{refused:?}");
            message["id"] = long[1..].into();
            message["params"]["_meta"]["progressToken"] = long[1..].into();
            let taken = client.post(&message).await;
            assert!(taken.last()["result"].is_object(), "{taken:?}");
        }
        let refused = client.ask(&long, json!({})).await;
        assert_eq!(refused.last()["error"]["code"], -32601, "{refused:?}");
    }
    echo.abort();
}
