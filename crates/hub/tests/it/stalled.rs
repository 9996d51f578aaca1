//! Calls that wait at the hub, for an agent that does not read or for another call: they end in time, and what is too
//! late, or was asked by who may not any more, is not sent.

use convoke_gate::link::Command;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

use crate::sonde::{Joined, enrolled, envelope, field_register, token};
use crate::support::{Bare, PATIENCE, TOKEN, TestAgent, TestHub};

/// More than the buffers of a narrow connection hold.
const MANY: usize = 12;
const LARGE: usize = 900_000;

/// Has so much on its way to an agent that what comes now waits in the link's queue.
fn stall(hub: &TestHub, agent: &str) {
    let link = hub.hub().agents.find(agent).and_then(|agent| agent.link()).expect("is connected");
    for _ in 0..MANY {
        let noise = json!({ "type": "noise", "content": "x".repeat(LARGE) });
        link.push(Command::Send(noise.to_string())).expect("room");
    }
}

/// Reads up to the first request, and answers it.
async fn answer_the_first(agent: &mut TestAgent) -> String {
    loop {
        let frame = agent.frame().await;
        if frame["type"] == "request" {
            agent.answer(frame["id"].as_str().expect("an id"), json!({})).await;
            return frame["tool"].as_str().expect("a tool").to_owned();
        }
    }
}

/// What a call with little time comes to.
async fn hurried(hub: &TestHub, agent: &str, tool: &str) -> Value {
    let (path, call) = (format!("/api/agents/{agent}/call"), json!({ "tool": tool, "timeout_s": 0.2 }));
    let reply = tokio::time::timeout(PATIENCE, hub.post(&path, call));
    reply.await.expect("its own time bounds it").body["error"].clone()
}

#[tokio::test]
async fn a_call_to_an_agent_that_does_not_read_ends_in_time_and_is_not_sent_later() {
    let hub = TestHub::start().await;
    let key = hub.enrol("pc").await;
    let mut agent = TestAgent::on(hub.narrow_socket().await, &hub, "pc", key);
    agent.handshake().await.expect("is let in");
    stall(&hub, "pc");
    let error = hurried(&hub, "pc", "net_config").await;
    assert_eq!(error["code"], "timeout", "{error}");
    assert!(error["message"].as_str().is_some_and(|words| words.ends_with("was not sent")), "{error}");
    let next = hub.post("/api/agents/pc/call", json!({ "tool": "fs_list" }));
    let (next, tool) = tokio::join!(next, answer_the_first(&mut agent));
    assert_eq!(tool, "fs_list", "the one that was too late would have come first");
    assert_eq!(next.body["ok"], true, "{next:?}");
}

#[tokio::test]
async fn what_waits_of_a_token_that_is_revoked_or_lapses_is_not_sent() {
    for life in [None, Some(5)] {
        let hub = TestHub::start().await;
        let key = hub.enrol("pc").await;
        let mut agent = TestAgent::on(hub.narrow_socket().await, &hub, "pc", key);
        agent.handshake().await.expect("is let in");
        stall(&hub, "pc");
        // As late as can be: its life is what this waits for.
        let leaver = json!({ "name": "leaver", "role": "operator", "expires_in_s": life });
        let minted = hub.post("/api/tokens", leaver).await.body;
        let (token, id) = (minted["token"].as_str().expect("a token"), minted["id"].as_str().expect("an id"));
        let waiting = hub.post_as(token, "/api/agents/pc/call", json!({ "tool": "net_config" }));
        let link = hub.hub().agents.find("pc").and_then(|agent| agent.link()).expect("is connected");
        let end = async {
            let token = id.parse().expect("an id");
            let is_placed = async {
                while !hub.hub().calls.under_way(token).first().is_some_and(|call| link.holds(call.id)) {
                    tokio::task::yield_now().await;
                }
            };
            tokio::time::timeout(PATIENCE, is_placed).await.expect("is placed before its token lapses");
            if life.is_none() {
                let revoked = hub.request("DELETE", &format!("/api/tokens/{id}"), Some(TOKEN), None).await;
                assert_eq!(revoked.status, 200, "{revoked:?}");
            }
        };
        let (waiting, ()) = tokio::join!(waiting, end);
        assert_eq!(waiting.status, 401, "{waiting:?}");
        let records = hub.journal("kind=call&agent=pc").await;
        let last = (&records[0]["tool"], &records[0]["outcome"]);
        assert_eq!(last, (&json!("net_config"), &json!("denied")), "{records:?}");
        let next = hub.post("/api/agents/pc/call", json!({ "tool": "fs_list" }));
        let (next, tool) = tokio::join!(next, answer_the_first(&mut agent));
        assert_eq!(tool, "fs_list", "the one that waited would have come first");
        assert_eq!(next.body["ok"], true, "{next:?}");
    }
}

#[tokio::test]
async fn what_a_revoked_token_asked_and_is_held_back_is_not_sent() {
    let hub = TestHub::with(&[("sonde.cache_s", "0")]).await;
    let mut agent = enrolled(&hub, "web-1").await;
    let minted = hub.post("/api/tokens", json!({ "name": "leaver", "role": "operator" })).await.body;
    let (token, id) = (minted["token"].as_str().expect("a token"), minted["id"].as_str().expect("an id"));
    let ask = |token: &str, n: u32| {
        let body = json!({ "agent": "web-1", "probe": "system.logs.journal", "params": { "lines": n } });
        let (token, hub) = (token.to_owned(), &hub);
        async move { hub.post_as(&token, "/api/v1/probe", body).await }
    };
    let (first, request) = tokio::join!(ask(TOKEN, 1), async {
        let request = agent.request().await;
        // Of the same name: it waits until the first is answered.
        let revoked = async {
            let token = id.parse().expect("an id");
            while hub.hub().calls.under_way(token).is_empty() {
                tokio::task::yield_now().await;
            }
            hub.request("DELETE", &format!("/api/tokens/{id}"), Some(TOKEN), None).await
        };
        let (held, revoked) = tokio::join!(ask(token, 2), revoked);
        assert_eq!(revoked.status, 200, "{revoked:?}");
        assert_eq!(held.body["error"], "the caller's token is no longer valid; the call was not sent");
        agent.answer(&request, json!({})).await;
        let answered = async {
            let request = agent.request().await;
            agent.answer(&request, json!({})).await;
            request
        };
        tokio::join!(ask(TOKEN, 3), answered).1
    });
    assert_eq!(first.status, 200, "{first:?}");
    assert_eq!(request["payload"]["params"]["lines"], 3, "the one that was held back would have come first");
}

/// A Sonde agent whose machine takes little that it does not read.
async fn narrow(hub: &TestHub) -> Joined {
    let url = format!("{}/ws/agent", hub.http.replace("http://", "ws://"));
    let mut request = url.into_client_request().expect("a request");
    let bearer = format!("Bearer {}", token(hub).await).parse().expect("a header");
    request.headers_mut().insert("authorization", bearer);
    let upgraded = tokio_tungstenite::client_async(request, hub.narrow_stream().await).await;
    let mut socket = Bare(upgraded.expect("upgrades").0);
    socket.send(envelope("agent.register", None, &field_register("web-1")).to_string()).await;
    let ack: Value = serde_json::from_str(&socket.next().await.expect("an ack")).expect("JSON");
    let id = ack["payload"]["agentId"].as_str().expect("an id").to_owned();
    hub.until_online(&format!("sonde:{id}"), true).await;
    Joined { socket, id, ack }
}

#[tokio::test]
async fn what_is_held_back_for_an_agent_that_does_not_read_is_taken_back_as_well() {
    let hub = TestHub::with(&[("sonde.cache_s", "0")]).await;
    let mut agent = narrow(&hub).await;
    let id = format!("sonde:{}", agent.id);
    let link = hub.hub().agents.find(&id).and_then(|agent| agent.link()).expect("is connected");
    let minted = hub.post("/api/tokens", json!({ "name": "leaver", "role": "operator" })).await.body;
    let (token, leaver) = (minted["token"].as_str().expect("a token"), minted["id"].as_str().expect("an id"));
    let path = format!("/api/agents/{id}/call");
    let body = |n: u32| json!({ "tool": "system.logs.journal", "args": { "lines": n } });
    let first = hub.post(&path, body(1));
    let (first, ()) = tokio::join!(first, async {
        let request = agent.request().await;
        // Of the same name: it waits until the first is answered.
        let held = hub.post_as(token, &path, body(2));
        let revoked = async {
            let caller = leaver.parse().expect("an id");
            while hub.hub().calls.under_way(caller).is_empty() {
                tokio::task::yield_now().await;
            }
            // By the time that this is answered, the link's task has it.
            hub.until_online(&id, true).await;
            assert_eq!(link.depth(), 0);
            stall(&hub, &id);
            let revoked = hub.request("DELETE", &format!("/api/tokens/{leaver}"), Some(TOKEN), None).await;
            assert_eq!(revoked.status, 200, "{revoked:?}");
        };
        let both = async { tokio::join!(held, revoked).0 };
        let held = tokio::time::timeout(PATIENCE, both).await.expect("it is taken back though there is no room");
        assert_eq!(held.status, 401, "{held:?}");
        agent.answer(&request, json!({})).await;
    });
    assert_eq!(first.body["ok"], true, "{first:?}");
    let records = hub.journal(&format!("kind=call&agent={id}")).await;
    let ends: Vec<_> = records.iter().map(|r| &r["outcome"]).collect();
    assert_eq!(ends, [&json!("denied"), &json!("ok")], "{records:?}");
}

#[tokio::test]
async fn a_probe_of_an_agent_that_does_not_read_ends_in_time() {
    let hub = TestHub::with(&[("sonde.cache_s", "0")]).await;
    let agent = narrow(&hub).await;
    let id = format!("sonde:{}", agent.id);
    stall(&hub, &id);
    let error = hurried(&hub, &id, "system.disk.usage").await;
    assert_eq!(error["code"], "timeout", "{error}");
    assert!(error["message"].as_str().is_some_and(|words| words.ends_with("was not sent")), "{error}");
}

#[tokio::test]
async fn a_call_behind_much_else_goes_out_as_soon_as_that_is_read() {
    let hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    stall(&hub, "pc");
    // The agent says nothing before it has the call: only that it reads tells the hub that there is room.
    let call = hub.post("/api/agents/pc/call", json!({ "tool": "fs_list" }));
    let both = async { tokio::join!(call, answer_the_first(&mut agent)) };
    let (reply, _) = tokio::time::timeout(PATIENCE / 2, both).await.expect("long before the next heartbeat");
    assert_eq!(reply.body["ok"], true, "{reply:?}");
}
