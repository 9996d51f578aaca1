//! What a call of a tool is answered with, in both eras, and what becomes of it when its client goes away.

use serde_json::{Value, json};

use super::client::{Answer, Events, Mcp};
use crate::support::{TOKEN, TestAgent, TestHub};

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

/// An answer without what is new every time, and without what only one era has.
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
    if let Some(result) = last["result"].as_object_mut() {
        result.remove("resultType");
    }
    let text = answer.last().pointer("/result/content/1/text").and_then(Value::as_str).unwrap_or_default();
    ids.extend(text.split("<data ").nth(1).and_then(|rest| rest.split('>').next()).map(str::to_owned));
    let whole = format!("{:?} {last}", answer.challenge);
    ids.iter().fold(whole, |text, id| text.replace(id, "…"))
}

/// What an answer says in short: the state of the call, or the code of the error.
fn gist(answer: &Answer) -> Value {
    let last = answer.last();
    let structured = &last["result"]["structuredContent"];
    match (&last["error"]["code"], &structured["error"]["code"]) {
        (Value::Null, Value::Null) => structured["state"].clone(),
        (Value::Null, code) | (code, _) => code.clone(),
    }
}

#[tokio::test]
async fn both_eras_answer_the_same() {
    let hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    let viewer = hub.token("looks", "viewer", json!({})).await;
    let scoped = hub.token("scoped", "operator", json!({ "tools": ["fs_list"], "tags": ["other"] })).await;
    let listing = || Agent::Answers(json!({ "entries": [] }));
    let odd = || Agent::Answers(json!({ "odd": "\u{200b}" }));
    let none = || Agent::NotAsked;
    let on_pc = json!({ "agent": "pc", "path": "/" });
    let shadow = json!({ "agent": "pc", "path": "/etc/shadow" });
    let shell = json!({ "agent": "pc", "command": "ls" });
    let nobody = json!({ "agent": "nobody", "path": "/" });
    for (token, id, tool, arguments, does, expect) in [
        (TOKEN, json!(1), "fs_list", on_pc.clone(), listing(), json!("done")),
        (TOKEN, json!("a\"b"), "fs_list", on_pc.clone(), listing(), json!("done")),
        (TOKEN, json!(-3), "fs_list", on_pc.clone(), odd(), json!("done")),
        (TOKEN, json!(1), "fs_list", on_pc.clone(), Agent::Fails("not_found"), json!("not_found")),
        (TOKEN, json!(1), "fs_list", json!({ "agent": "pc" }), none(), json!("bad_args")),
        (TOKEN, json!(1), "fs_list", json!({ "agent": 7, "path": "/" }), none(), json!("bad_args")),
        (TOKEN, json!(1), "fs_list", nobody, none(), json!("not_found")),
        (TOKEN, json!(1), "fs_list", json!({ "path": "/" }), none(), json!("agent_required")),
        (TOKEN, json!(1), "fs_list", Value::Null, none(), json!("bad_args")),
        (TOKEN, json!(1), "fs_read", shadow, none(), json!("blocked")),
        (TOKEN, json!(1), "shell_exec", shell.clone(), none(), json!("waiting")),
        (TOKEN, json!(1), "no_such_tool", json!({}), none(), json!(-32602)),
        (&viewer, json!(1), "shell_exec", shell, none(), json!(-32003)),
        (&scoped, json!(1), "fs_list", on_pc.clone(), none(), json!("forbidden")),
        (&scoped, json!("x"), "fs_read", on_pc, none(), json!(-32003)),
    ] {
        let params = json!({ "name": tool, "arguments": arguments });
        let mut answers = vec![];
        for client in [Mcp::stateless(&hub, token), Mcp::open(&hub, token).await] {
            let mut message = client.message("tools/call", params.clone());
            message["id"] = id.clone();
            let answer = ask(&client, &mut agent, &message, &does).await;
            assert_eq!((&answer.last()["id"], gist(&answer)), (&id, expect.clone()), "{params}: {answer:?}");
            answers.push(masked(&answer));
        }
        assert_eq!(answers[0], answers[1], "{params}");
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

#[tokio::test]
async fn a_call_is_answered_with_a_stream_in_a_session_and_in_one_piece_without() {
    let hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    for client in [Mcp::open(&hub, TOKEN).await, Mcp::stateless(&hub, TOKEN)] {
        let (reply, request) = begin(&client, &mut agent, 5).await;
        agent.answer(&request, json!({ "entries": [] })).await;
        let reply = reply.await.expect("no panic").expect("answers");
        let kind = reply.headers().get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let expected = if client.session.is_some() { "text/event-stream" } else { "application/json" };
        assert_eq!(kind, expected);
        let answer = super::client::read(reply).await;
        assert_eq!((answer.messages.len(), &answer.last()["id"]), (1, &json!(5)), "{answer:?}");
        assert_eq!(answer.structured()["state"], "done", "{answer:?}");
        let complete = if client.session.is_some() { Value::Null } else { json!("complete") };
        assert_eq!(answer.result()["resultType"], complete);
    }
    let journal = hub.get("/api/journal?limit=1000&kind=call").await;
    assert_eq!(journal.body["records"].as_array().map(Vec::len), Some(2), "one record each: {}", journal.body);
}

#[tokio::test]
async fn a_sessions_call_can_be_given_up() {
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
    let reply = reply.await.expect("no panic").expect("its stream has begun");
    let open = |page: &Value| {
        let line = page.as_str()?.lines().find_map(|line| line.strip_prefix("convoke_connections_open "))?;
        line.parse::<u64>().ok()
    };
    let with_it = open(&hub.get("/metrics").await.body).expect("a number");
    drop(reply);
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
    // Before its stream is there, and afterwards.
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
async fn a_sessions_calls_go_to_what_it_selected() {
    let hub = TestHub::start().await;
    let _agent = hub.agent("pc").await;
    let client = Mcp::open(&hub, TOKEN).await;
    let params = json!({ "name": "shell_exec", "arguments": { "command": "ls" } });
    let nothing = client.ask("tools/call", params.clone()).await;
    assert_eq!(nothing.structured()["error"]["code"], "agent_required", "{nothing:?}");
    assert_eq!(client.call("select_agent", json!({ "id": "pc" })).await.result()["isError"], false);
    let waiting = client.ask("tools/call", params).await;
    let structured = waiting.structured();
    assert_eq!((&structured["agent"], &structured["state"]), (&json!("pc"), &json!("waiting")), "{waiting:?}");
}

#[tokio::test]
async fn what_a_client_says_of_itself_may_be_anything() {
    let hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    let client = Mcp::stateless(&hub, TOKEN);
    let params = json!({ "name": "fs_list", "arguments": { "agent": "pc", "path": "/" } });
    let mut message = client.message("tools/call", params);
    message["params"]["_meta"]["io.modelcontextprotocol/clientInfo"] = json!(["odd"]);
    let answer = ask(&client, &mut agent, &message, &Agent::Answers(json!({ "entries": [] }))).await;
    assert_eq!(answer.structured()["state"], "done", "{answer:?}");
}

#[tokio::test]
async fn progress_is_told_only_when_there_is_some() {
    let hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    let client = Mcp::stateless(&hub, TOKEN);
    let params = json!({ "name": "fs_list", "arguments": { "agent": "pc", "path": "/" } });
    let mut message = client.message("tools/call", params);
    message["params"]["_meta"]["progressToken"] = "p".into();
    let quick = ask(&client, &mut agent, &message, &Agent::Answers(json!({ "entries": [] }))).await;
    assert_eq!((quick.messages.len(), &quick.structured()["state"]), (1, &json!("done")), "{quick:?}");
    let (mut events, request) = tokio::join!(Events::of(client.request(&message)), agent.request());
    let progress = events.next().await;
    agent.answer(&request.id, json!({ "entries": [] })).await;
    let seconds = &progress["params"]["progress"];
    assert!(seconds.as_f64().is_some_and(|s| s >= 2.0), "{seconds}");
    let mut reply = events.next().await;
    while reply["method"] == "notifications/progress" {
        reply = events.next().await;
    }
    assert_eq!((&reply["id"], &reply["result"]["structuredContent"]["state"]), (&json!(1), &json!("done")));
    assert!(events.ended().await, "nothing follows the reply");
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
