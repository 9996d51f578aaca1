//! A plain call takes a shorter way than through the SDK. Whichever way a call takes, its client cannot tell.

use serde_json::{Value, json};

use super::client::{Answer, Events, Mcp};
use crate::support::{TOKEN, TestAgent, TestHub};

/// The same request so that it takes the short way, and so that it does not: with a key that means nothing.
fn both_ways(client: &Mcp<'_>, id: &Value, params: &Value) -> [Value; 2] {
    let mut plain = client.message("tools/call", params.clone());
    plain["id"] = id.clone();
    let mut other = plain.clone();
    other["params"]["_meta"]["example/any"] = 1.into();
    [plain, other]
}

/// What an agent does with a request, if it comes to one.
enum Agent {
    NotAsked,
    Answers(Value),
    Fails(&'static str),
}

async fn ask(client: &Mcp<'_>, agent: &mut TestAgent, message: &Value, does: &Agent) -> Answer {
    let answering = async {
        match does {
            Agent::NotAsked => {}
            Agent::Answers(result) => {
                let request = agent.request().await;
                agent.answer(&request.id, result.clone()).await;
            }
            Agent::Fails(code) => {
                let request = agent.request().await;
                agent.fail(&request.id, code).await;
            }
        }
    };
    tokio::join!(client.post(message), answering).0
}

/// An answer without what is new every time.
fn masked(answer: &Answer) -> String {
    let mut last = answer.last().clone();
    let mut ids = vec![];
    if let Some(structured) = last.pointer_mut("/result/structuredContent").and_then(Value::as_object_mut) {
        let approval = structured.get("approval").cloned().unwrap_or_default();
        let ids_in = [structured.get("call_id"), approval.get("id"), approval.get("expires_at")];
        ids.extend(ids_in.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned));
        if let Some(ms) = structured.remove("duration_ms") {
            ids.push(format!(" after {ms} ms"));
        }
    }
    let text = answer.last().pointer("/result/content/1/text").and_then(Value::as_str).unwrap_or_default();
    ids.extend(text.split("<data ").nth(1).and_then(|rest| rest.split('>').next()).map(str::to_owned));
    let whole = format!("{} {:?} {last}", answer.status, answer.challenge);
    ids.iter().fold(whole, |text, id| text.replace(id, "…"))
}

#[tokio::test]
async fn both_ways_answer_the_same() {
    let hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    let viewer = hub.token("looks", "viewer", json!({})).await;
    let scoped = hub.token("scoped", "operator", json!({ "tools": ["fs_list"], "tags": ["other"] })).await;
    let listing = || Agent::Answers(json!({ "entries": [] }));
    let on_pc = json!({ "agent": "pc", "path": "/" });
    for (token, id, params, does) in [
        (TOKEN, json!(1), json!({ "name": "fs_list", "arguments": on_pc }), listing()),
        (TOKEN, json!("a\"b"), json!({ "name": "fs_list", "arguments": on_pc }), listing()),
        (
            TOKEN,
            json!(-3),
            json!({ "name": "fs_list", "arguments": on_pc }),
            Agent::Answers(json!({ "odd": "\u{200b}" })),
        ),
        (TOKEN, json!(1), json!({ "name": "fs_list", "arguments": on_pc }), Agent::Fails("not_found")),
        (TOKEN, json!(1), json!({ "name": "fs_list", "arguments": { "agent": "pc" } }), Agent::NotAsked),
        (TOKEN, json!(1), json!({ "name": "fs_list", "arguments": { "agent": 7, "path": "/" } }), Agent::NotAsked),
        (
            TOKEN,
            json!(1),
            json!({ "name": "fs_list", "arguments": { "agent": "nobody", "path": "/" } }),
            Agent::NotAsked,
        ),
        (TOKEN, json!(1), json!({ "name": "fs_list", "arguments": { "path": "/" } }), Agent::NotAsked),
        (TOKEN, json!(1), json!({ "name": "fs_list" }), Agent::NotAsked),
        (TOKEN, json!(1), json!({ "name": "fs_list", "arguments": null }), Agent::NotAsked),
        (
            TOKEN,
            json!(1),
            json!({ "name": "fs_read", "arguments": { "agent": "pc", "path": "/etc/shadow" } }),
            Agent::NotAsked,
        ),
        (
            TOKEN,
            json!(1),
            json!({ "name": "shell_exec", "arguments": { "agent": "pc", "command": "ls" } }),
            Agent::NotAsked,
        ),
        (TOKEN, json!(1), json!({ "name": "no_such_tool", "arguments": {} }), Agent::NotAsked),
        (
            &viewer,
            json!(1),
            json!({ "name": "shell_exec", "arguments": { "agent": "pc", "command": "ls" } }),
            Agent::NotAsked,
        ),
        (&scoped, json!(1), json!({ "name": "fs_list", "arguments": on_pc }), Agent::NotAsked),
        (&scoped, json!("x"), json!({ "name": "fs_read", "arguments": on_pc }), Agent::NotAsked),
    ] {
        for client in [Mcp::stateless(&hub, token), Mcp::open(&hub, token).await] {
            let [short, long] = both_ways(&client, &id, &params);
            let (short, long) =
                (ask(&client, &mut agent, &short, &does).await, ask(&client, &mut agent, &long, &does).await);
            assert_eq!(masked(&short), masked(&long), "{params}");
        }
    }
}

/// A session's call that the agent has been asked for and not answered, and its reply.
async fn begin(client: &Mcp<'_>, agent: &mut TestAgent, id: i64) -> (tokio::task::JoinHandle<Reply>, String) {
    let params = json!({ "name": "fs_list", "arguments": { "agent": "pc", "path": "/" } });
    let mut message = client.message("tools/call", params);
    message["id"] = id.into();
    let reply = tokio::spawn(client.request(&message).send());
    let request = agent.request().await;
    (reply, request.id)
}

type Reply = reqwest::Result<reqwest::Response>;

fn kind(reply: &reqwest::Response) -> &str {
    reply.headers().get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default()
}

#[tokio::test]
async fn a_sessions_call_is_answered_whole_if_it_ends_at_once_and_as_a_stream_if_not() {
    let hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    let client = Mcp::open(&hub, TOKEN).await;
    let mut calls = 1;
    let quick: Value = loop {
        let (reply, request) = begin(&client, &mut agent, 5).await;
        agent.answer(&request, json!({ "entries": [] })).await;
        let reply = reply.await.expect("no panic").expect("answers");
        calls += 1;
        if kind(&reply) == "application/json" {
            break reply.json().await.expect("JSON");
        }
        // On a machine that is busy with other things the moment may pass.
        assert!(calls < 50, "nothing ends at once");
    };

    let (reply, request) = begin(&client, &mut agent, 6).await;
    // The head comes once the moment is over, whatever the agent does.
    let mut reply = reply.await.expect("no panic").expect("answers");
    assert_eq!(kind(&reply), "text/event-stream");
    agent.answer(&request, json!({ "entries": [] })).await;
    let mut text = String::new();
    while let Some(chunk) = reply.chunk().await.expect("reads") {
        text.push_str(&String::from_utf8_lossy(&chunk));
    }
    let slow = super::client::events_of(&text).pop().expect("a reply");
    assert_eq!((&quick["id"], &slow["id"]), (&json!(5), &json!(6)));
    for reply in [&quick, &slow] {
        assert_eq!(reply["result"]["structuredContent"]["state"], "done", "{reply}");
        assert_eq!(reply["result"]["resultType"], Value::Null);
    }
    let journal = hub.get("/api/journal?limit=1000&kind=call").await;
    assert_eq!(journal.body["records"].as_array().map(Vec::len), Some(calls), "one record each: {}", journal.body);
}

#[tokio::test]
async fn a_sessions_call_can_be_given_up_before_it_is_a_stream() {
    let hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    let client = Mcp::open(&hub, TOKEN).await;
    let (reply, request) = begin(&client, &mut agent, 77).await;
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 77 } });
    assert_eq!(client.post(&cancel).await.status, 202);
    assert!(reply.await.expect("no panic").expect("answers").status().is_success());
    hub.until("/api/journal?limit=1000&kind=call", |j| {
        j["records"].as_array().is_some_and(|r| r.iter().any(|r| r["outcome"] == "cancelled"))
    })
    .await;
    agent.answer(&request, json!({ "entries": [] })).await;
    hub.until("/api/journal?limit=1000&kind=call", |j| {
        j["records"].as_array().is_some_and(|r| r.iter().any(|r| r["phase"] == "late" && r["outcome"] == "ok"))
    })
    .await;
}

#[tokio::test]
async fn a_sessions_client_whose_connection_breaks_has_not_given_up() {
    let hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    let client = Mcp::open(&hub, TOKEN).await;
    let (reply, request) = begin(&client, &mut agent, 8).await;
    let open = |page: &Value| {
        let line = page.as_str()?.lines().find_map(|line| line.strip_prefix("convoke_connections_open "))?;
        line.parse::<u64>().ok()
    };
    let with_it = open(&hub.get("/metrics").await.body).expect("a number");
    reply.abort();
    hub.until("/metrics", |page| open(page).is_some_and(|open| open < with_it)).await;
    agent.answer(&request, json!({ "entries": [] })).await;
    hub.until("/api/journal?limit=1000&kind=call", |j| {
        j["records"].as_array().is_some_and(|r| r.iter().any(|r| r["phase"] == "outcome" && r["outcome"] == "ok"))
    })
    .await;
}

#[tokio::test]
async fn a_session_that_is_ended_takes_its_calls_along() {
    let hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    // In the moment in which a call is no stream yet, and once it is one.
    for (ended, is_stream) in [(1, false), (2, true)] {
        let client = Mcp::open(&hub, TOKEN).await;
        let (mut reply, _) = begin(&client, &mut agent, 9).await;
        let listening = if is_stream { Some((&mut reply).await.expect("no panic").expect("answers")) } else { None };
        assert!(client.end().await.status().is_success());
        hub.until("/api/journal?limit=1000&kind=call", |j| {
            let records = j["records"].as_array().map(Vec::as_slice).unwrap_or_default();
            records.iter().filter(|record| record["outcome"] == "cancelled").count() == ended
        })
        .await;
        drop(listening);
    }
}

#[tokio::test]
async fn a_sessions_calls_go_to_what_it_selected_either_way() {
    let hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    let client = Mcp::open(&hub, TOKEN).await;
    let params = json!({ "name": "shell_exec", "arguments": { "command": "ls" } });
    let nothing = client.ask("tools/call", params.clone()).await;
    assert_eq!(nothing.structured()["error"]["code"], "agent_required", "{nothing:?}");
    assert_eq!(client.call("select_agent", json!({ "id": "pc" })).await.result()["isError"], false);
    for message in both_ways(&client, &json!(1), &params) {
        let waiting = ask(&client, &mut agent, &message, &Agent::NotAsked).await;
        let structured = waiting.structured();
        assert_eq!((&structured["agent"], &structured["state"]), (&json!("pc"), &json!("waiting")), "{waiting:?}");
    }
}

#[tokio::test]
async fn what_a_client_says_of_itself_may_be_anything_either_way() {
    let hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    let client = Mcp::stateless(&hub, TOKEN);
    let params = json!({ "name": "fs_list", "arguments": { "agent": "pc", "path": "/" } });
    for mut message in both_ways(&client, &json!(1), &params) {
        message["params"]["_meta"]["io.modelcontextprotocol/clientInfo"] = json!(["odd"]);
        let answer = ask(&client, &mut agent, &message, &Agent::Answers(json!({ "entries": [] }))).await;
        assert_eq!(answer.structured()["state"], "done", "{answer:?}");
    }
}

#[tokio::test]
async fn progress_is_told_the_same_way_and_only_when_there_is_some() {
    let hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    let client = Mcp::stateless(&hub, TOKEN);
    let params = json!({ "name": "fs_list", "arguments": { "agent": "pc", "path": "/" } });
    let mut told = vec![];
    for mut message in both_ways(&client, &json!(1), &params) {
        message["params"]["_meta"]["progressToken"] = "p".into();
        let quick = ask(&client, &mut agent, &message, &Agent::Answers(json!({ "entries": [] }))).await;
        assert_eq!((quick.messages.len(), &quick.structured()["state"]), (1, &json!("done")), "{quick:?}");
        let (mut events, request) = tokio::join!(Events::of(client.request(&message)), agent.request());
        let mut progress = events.next().await;
        agent.answer(&request.id, json!({ "entries": [] })).await;
        let seconds = progress["params"]["progress"].take();
        assert!(seconds.as_f64().is_some_and(|s| s >= 2.0), "{seconds}");
        let mut reply = events.next().await;
        while reply["method"] == "notifications/progress" {
            reply = events.next().await;
        }
        assert_eq!((&reply["id"], &reply["result"]["structuredContent"]["state"]), (&json!(1), &json!("done")));
        assert!(events.ended().await, "nothing follows the reply");
        told.push((events.head(), progress));
    }
    assert_eq!(told[0], told[1]);
}

#[tokio::test]
async fn a_client_that_goes_away_while_it_is_told_gives_up_the_call() {
    let hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    let client = Mcp::stateless(&hub, TOKEN);
    let params = json!({ "name": "fs_list", "arguments": { "agent": "pc", "path": "/" } });
    let mut message = client.message("tools/call", params);
    message["params"]["_meta"]["progressToken"] = 7.into();
    let (mut events, _) = tokio::join!(Events::of(client.request(&message)), agent.request());
    assert_eq!(events.next().await["params"]["progressToken"], 7);
    drop(events);
    hub.until("/api/journal?limit=1000&kind=call", |j| {
        j["records"].as_array().is_some_and(|r| r.iter().any(|r| r["outcome"] == "cancelled"))
    })
    .await;
}

#[tokio::test]
async fn a_hub_that_stops_waits_for_a_call_that_is_told_of() {
    let mut hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    let client = Mcp::stateless(&hub, TOKEN);
    let params = json!({ "name": "fs_list", "arguments": { "agent": "pc", "path": "/" } });
    let mut message = client.message("tools/call", params);
    message["params"]["_meta"]["progressToken"] = 7.into();
    let request = client.request(&message);
    let (mut events, request) = tokio::join!(Events::of(request), agent.request());
    events.next().await;
    let end = async {
        agent.answer(&request.id, json!({ "entries": [] })).await;
        loop {
            let message = events.next().await;
            if message["id"] != Value::Null {
                return message;
            }
        }
    };
    let (_, reply) = tokio::join!(hub.stop(), end);
    assert_eq!(reply["result"]["structuredContent"]["state"], "done", "{reply}");
}
