//! The stream of events: after the commit, in order, once; nobody sees what is not theirs.

use std::collections::VecDeque;

use convoke_core::event::{Event, PolicyEvent, RuleList};
use convoke_sse::{Decoder, TooLong};
use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::support::{PATIENCE, TOKEN, TestAgent, TestHub};

/// One event as it came.
#[derive(Debug)]
struct Heard {
    id: String,
    kind: String,
    data: Value,
}

/// A reader of the stream.
struct Stream {
    response: reqwest::Response,
    decoder: Decoder,
    heard: VecDeque<Heard>,
    text: String,
}

impl Stream {
    async fn open(hub: &TestHub, token: &str, query: &str) -> Self {
        Self::come_back(hub, token, query, None).await
    }

    async fn come_back(hub: &TestHub, token: &str, query: &str, last: Option<&str>) -> Self {
        let response = ask(hub, token, query, last).await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let mut stream =
            Self { response, decoder: Decoder::new(1 << 20), heard: VecDeque::new(), text: String::new() };
        // The first piece: from here on nothing is missed.
        assert!(stream.read().await);
        stream
    }

    /// The next piece; false at the end.
    async fn read(&mut self) -> bool {
        let chunk = tokio::time::timeout(PATIENCE, self.response.chunk()).await.expect("in time");
        let Ok(Some(chunk)) = chunk else { return false };
        self.text.push_str(std::str::from_utf8(&chunk).expect("text"));
        let heard = &mut self.heard;
        let each = |message: convoke_sse::Message<'_>| {
            let data = serde_json::from_str(message.data).expect("one JSON object");
            heard.push_back(Heard { id: message.id.into(), kind: message.name.into(), data });
            Ok::<_, TooLong>(())
        };
        self.decoder.feed(&chunk, each).expect("fits");
        true
    }

    /// The next event, unless the stream ends before.
    async fn next(&mut self) -> Option<Heard> {
        loop {
            if let Some(heard) = self.heard.pop_front() {
                return Some(heard);
            }
            if !self.read().await {
                return None;
            }
        }
    }

    /// The next event of a kind.
    async fn next_of(&mut self, kind: &str) -> Heard {
        loop {
            let heard = self.next().await.expect("the stream goes on");
            if heard.kind == kind {
                return heard;
            }
        }
    }

    /// The cursor that the stream began with.
    fn began_at(&self) -> String {
        let id = self.text.lines().find_map(|line| line.strip_prefix("id: "));
        id.expect("it says where it begins").to_owned()
    }
}

async fn ask(hub: &TestHub, token: &str, query: &str, last: Option<&str>) -> reqwest::Response {
    let mut headers = HeaderMap::new();
    if let Some(last) = last {
        headers.insert("last-event-id", last.parse().expect("a header"));
    }
    let url = format!("{}/api/events{query}", hub.http);
    let request = hub.http_client.get(url).bearer_auth(token).headers(headers);
    request.header("accept", "text/event-stream").send().await.expect("the hub answers")
}

fn text<'a>(heard: &'a Heard, name: &str) -> &'a str {
    heard.data[name].as_str().unwrap_or_else(|| panic!("{name} of {heard:?}"))
}

async fn put_rule(hub: &TestHub, id: &str) {
    let rule = json!({ "id": id, "applies_to": "powershell", "pattern": id, "reason": "x" });
    let reply = hub.post("/api/policy/rules", rule).await;
    assert_eq!(reply.status, 200, "{reply:?}");
}

async fn tag(hub: &TestHub, agent: &str, tags: Value) {
    let body = json!({ "tags": tags });
    let reply = hub.request("PATCH", &format!("/api/agents/{agent}"), Some(TOKEN), Some(body)).await;
    assert_eq!(reply.status, 200, "{reply:?}");
}

async fn say(agent: &mut TestAgent, message: &str) {
    let log = json!({ "type": "log", "agent_id": agent.id, "at": "2026-06-04T18:00:01Z", "level": "warn", "target": "t",
        "message": message, "fields": { "n": 1 } });
    agent.socket.send(log.to_string()).await;
}

#[tokio::test]
async fn a_call_is_heard_as_it_runs_and_ends() {
    let hub = TestHub::start().await;
    let _agent = hub.agent("pc").await.echo();
    let mut stream = Stream::open(&hub, TOKEN, "?kinds=call").await;
    let reply =
        hub.post("/api/agents/pc/call", json!({ "tool": "fs_list", "args": { "path": "/secret-place" } })).await;
    let id = reply.body["call_id"].as_str().expect("an id").to_owned();
    let states = [stream.next_of("call").await, stream.next_of("call").await];
    for (heard, state) in states.iter().zip(["running", "done"]) {
        assert_eq!((text(heard, "call_id"), text(heard, "state")), (id.as_str(), state));
        assert_eq!((text(heard, "target"), text(heard, "tool")), ("pc", "fs_list"));
    }
    assert_eq!(text(&states[1], "outcome"), "ok");
    assert!(!stream.text.contains("secret-place"), "no arguments and no results");
}

#[tokio::test]
async fn what_is_heard_is_committed_and_in_force() {
    let hub = TestHub::start().await;
    let mut stream = Stream::open(&hub, TOKEN, "?kinds=policy").await;
    for n in 0..5 {
        put_rule(&hub, &format!("rule-{n}")).await;
        let heard = stream.next().await.expect("it goes on");
        assert_eq!(text(&heard, "rule"), format!("rule-{n}"));
        let records = hub.journal("kind=policy").await;
        assert_eq!(records.last().map(|r| r["rule"].clone()), Some(heard.data["rule"].clone()));
    }
    let held = hub.hold();
    let putting = put_rule(&hub, "held");
    tokio::pin!(putting);
    tokio::select! {
        biased;
        () = &mut putting => panic!("nothing can be committed"),
        heard = stream.next() => panic!("not committed yet: {heard:?}"),
        () = tokio::time::sleep(std::time::Duration::from_millis(50)) => {}
    }
    drop(held);
    putting.await;
    assert_eq!(text(&stream.next().await.expect("now"), "rule"), "held");
}

#[tokio::test]
async fn who_comes_back_with_its_cursor_hears_the_rest_once() {
    let hub = TestHub::start().await;
    let mut stream = Stream::open(&hub, TOKEN, "").await;
    let begin = stream.began_at();
    put_rule(&hub, "one").await;
    let one = stream.next_of("policy").await;
    drop(stream);
    put_rule(&hub, "two").await;
    let mut stream = Stream::come_back(&hub, TOKEN, "?after=of-another", Some(&one.id)).await;
    assert_eq!(text(&stream.next().await.expect("it goes on"), "rule"), "two", "the header goes before the address");
    put_rule(&hub, "three").await;
    assert_eq!(text(&stream.next().await.expect("it goes on"), "rule"), "three");
    let mut again = Stream::open(&hub, TOKEN, &format!("?after={begin}&kinds=policy,hub")).await;
    for rule in ["one", "two", "three"] {
        assert_eq!(text(&again.next().await.expect("all of it"), "rule"), rule);
    }
}

#[tokio::test]
async fn a_cursor_of_another_time_or_hub_is_told_to_read_anew() {
    let mut hub = TestHub::start().await;
    let before = Stream::open(&hub, TOKEN, "").await.began_at();
    hub.restart(&[]).await;
    let other = TestHub::start().await;
    let foreign = Stream::open(&other, TOKEN, "").await.began_at();
    for cursor in [before.as_str(), &foreign, "nonsense", "%00"] {
        let mut stream = Stream::open(&hub, TOKEN, &format!("?after={cursor}")).await;
        let first = stream.next().await.expect("a word of it");
        assert_eq!((first.kind.as_str(), &first.data), ("reset", &json!({})));
        put_rule(&hub, "then").await;
        assert_eq!(text(&stream.next().await.expect("and goes on from now"), "rule"), "then");
        let goes_on = Stream::open(&hub, TOKEN, &format!("?after={}", first.id)).await;
        assert!(goes_on.text.starts_with(": goes on"), "{}", goes_on.text);
    }
}

#[tokio::test]
async fn a_token_for_one_tag_hears_of_its_agents_and_its_calls_only() {
    let hub = TestHub::start().await;
    let mut lab = hub.agent("lab-pc").await;
    let mut hq = hub.agent("hq-pc").await;
    tag(&hub, "lab-pc", json!(["lab"])).await;
    let narrow = hub.token("narrow", "operator", json!({ "tags": ["lab"] })).await;
    let mut stream = Stream::open(&hub, &narrow, "").await;
    tag(&hub, "hq-pc", json!(["hq"])).await;
    say(&mut hq, "elsewhere").await;
    say(&mut lab, "here").await;
    let line = stream.next().await.expect("it goes on");
    assert_eq!((line.kind.as_str(), text(&line, "message"), text(&line, "agent")), ("log", "here", "lab-pc"));
    assert_eq!(line.data["fields"], json!({ "n": 1 }));
    let kept = hub.get(&format!("/api/logs?after={}", line.data["id"].as_i64().expect("an id") - 1)).await.body;
    assert_eq!(kept["entries"][0]["message"], "here", "it is where the line says");
    let _lab = lab.echo();
    let _hq = hq.echo();
    let call = json!({ "tool": "fs_list", "args": { "path": "/" } });
    for agent in ["lab-pc", "hq-pc"] {
        assert_eq!(hub.post(&format!("/api/agents/{agent}/call"), call.clone()).await.status, 200);
    }
    assert_eq!(hub.post_as(&narrow, "/api/agents/lab-pc/call", call).await.status, 200);
    for state in ["running", "done"] {
        let heard = stream.next().await.expect("it goes on");
        assert_eq!((text(&heard, "caller"), text(&heard, "state")), ("narrow", state), "only its own calls");
    }
    // Whoever saw it hears that it is gone, and nothing after that.
    tag(&hub, "lab-pc", json!([])).await;
    tag(&hub, "lab-pc", json!(["other"])).await;
    put_rule(&hub, "mark").await;
    let gone = stream.next().await.expect("it goes on");
    assert_eq!((text(&gone, "agent"), text(&gone, "change")), ("lab-pc", "tags"));
    assert_eq!(text(&stream.next().await.expect("it goes on"), "rule"), "mark");
}

#[tokio::test]
async fn approvals_are_heard_by_who_asked_and_who_may_approve() {
    let hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    let rule = json!({ "id": "all-changes", "effects": ["interact", "manage"] });
    assert_eq!(hub.post("/api/policy/confirm", rule).await.status, 200);
    let asker = hub.token("asker", "operator", json!({})).await;
    let other = hub.token("other", "operator", json!({})).await;
    let approver = hub.token("approver", "viewer", json!({ "approve": true })).await;
    let mut streams = Vec::new();
    for token in [&asker, &approver] {
        streams.push(Stream::open(&hub, token, "?kinds=approval").await);
    }
    let mut others = Stream::open(&hub, &other, "?kinds=approval,call,policy").await;
    let body = json!({ "tool": "shell_exec", "args": { "command": "echo password" } });
    let asked = hub.post_as(&asker, "/api/agents/pc/call", body).await;
    assert_eq!(asked.status, 202, "{asked:?}");
    let id = asked.body["approval"]["id"].as_str().expect("an id").to_owned();
    let decided = hub.post_as(&approver, &format!("/api/approvals/{id}"), json!({ "approve": true })).await;
    assert_eq!(decided.status, 200, "{decided:?}");
    let request = agent.request().await;
    agent.answer(&request.id, json!({})).await;
    for stream in &mut streams {
        for state in ["pending", "approved", "used"] {
            let heard = stream.next().await.expect("it goes on");
            assert_eq!((text(&heard, "id"), text(&heard, "state")), (id.as_str(), state));
            assert_eq!(heard.data["call_id"], asked.body["call_id"]);
            assert_eq!((text(&heard, "target"), text(&heard, "tool")), ("pc", "shell_exec"));
        }
        assert!(!stream.text.contains("password"));
    }
    put_rule(&hub, "mark").await;
    assert_eq!(text(&others.next().await.expect("it goes on"), "rule"), "mark", "nothing of others");
}

#[tokio::test]
async fn the_stream_of_a_revoked_or_lapsed_token_ends_at_once() {
    let hub = TestHub::start().await;
    let minted = hub.post("/api/tokens", json!({ "name": "t", "role": "viewer" })).await.body;
    let token = minted["token"].as_str().expect("a token").to_owned();
    let mut stream = Stream::open(&hub, &token, "").await;
    let path = format!("/api/tokens/{}", minted["id"].as_str().expect("an id"));
    assert_eq!(hub.request("DELETE", &path, Some(TOKEN), None).await.status, 200);
    assert!(stream.next().await.is_none());
    let short = json!({ "name": "short", "role": "viewer", "expires_in_s": 1 });
    let short = hub.post("/api/tokens", short).await.body["token"].as_str().expect("a token").to_owned();
    let mut stream = Stream::open(&hub, &short, "").await;
    assert!(stream.next().await.is_none(), "its second is over");
}

#[tokio::test]
async fn a_hub_that_stops_says_so_and_ends_the_streams() {
    let mut hub = TestHub::start().await;
    let mut stream = Stream::open(&hub, TOKEN, "?kinds=hub").await;
    hub.stop().await;
    assert_eq!(text(&stream.next().await.expect("a word"), "state"), "stopping");
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn streams_are_limited_and_kinds_are_known() {
    let hub = TestHub::with(&[("events.max_streams", "3"), ("events.max_streams_per_token", "2")]).await;
    let viewer = hub.token("viewer", "viewer", json!({})).await;
    let mut open = vec![Stream::open(&hub, TOKEN, "").await, Stream::open(&hub, TOKEN, "").await];
    let refused = hub.get("/api/events").await;
    assert_eq!((refused.status, &refused.body["error"]["code"]), (429, &json!("limited")));
    open.push(Stream::open(&hub, &viewer, "").await);
    let refused = hub.request("GET", "/api/events", Some(&viewer), None).await;
    assert_eq!((refused.status, &refused.body["error"]["code"]), (503, &json!("busy")));
    open.remove(0);
    hub.until("/api/policy/rules", |_| hub.hub().events.streams() == 2).await;
    open.push(Stream::open(&hub, TOKEN, "?kinds=agent,%20finding").await);
    let unknown = hub.get("/api/events?kinds=agent,agents").await;
    assert_eq!(unknown.status, 400);
    let message = unknown.body["error"]["message"].as_str().expect("a sentence");
    assert!(message.contains("`agents`") && message.contains("approval, pairing"), "{message}");
    assert_eq!(hub.get("/api/events?kind=agent").await.status, 400);
}

#[tokio::test]
async fn a_reader_that_is_too_slow_is_told_and_comes_back() {
    let hub = TestHub::start().await;
    let mut socket = hub.narrow_stream().await;
    let head =
        format!("GET /api/events HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {TOKEN}\r\n\r\n", hub.hub().listen);
    socket.write_all(head.as_bytes()).await.expect("sends");
    let mut first = [0; 1];
    socket.read_exact(&mut first).await.expect("an answer");
    hub.until("/api/policy/rules", |_| hub.hub().events.streams() == 1).await;
    for n in 0..120_000 {
        let rule = format!("{n} {}", "x".repeat(100));
        hub.hub().events.publish(Event::Policy(PolicyEvent { list: RuleList::Deny, rule, removed: false }));
    }
    let mut all = Vec::new();
    let mut piece = [0; 65_536];
    while !all.ends_with(b"0\r\n\r\n") {
        let read = tokio::time::timeout(PATIENCE, socket.read(&mut piece)).await.expect("in time").expect("reads");
        assert!(read > 0, "it ends as a body ends");
        all.extend_from_slice(&piece[..read]);
    }
    let all = String::from_utf8(all).expect("text");
    let (_, last) = all.rsplit_once("id: ").expect("ids");
    let (cursor, rest) = last.split_once('\n').expect("lines");
    assert!(rest.starts_with("event: reset\ndata: {}"), "{rest}");
    let mut stream = Stream::come_back(&hub, TOKEN, "", Some(cursor)).await;
    put_rule(&hub, "then").await;
    assert_eq!(text(&stream.next().await.expect("it goes on"), "rule"), "then");
}
