//! Answers of every provider, streamed over real sockets.

use std::sync::Arc;
use std::time::Duration;

use convoke_models::testkit::{Answer, Gate, Reply, ScriptedServer, Step};
use convoke_models::{
    Client, Completion, Credentials, Event, Failure, Finish, Fixed, Http, Limits, Message, Provider, ProviderKind,
    Request, RetryPolicy, SecretText,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

const KEY: &str = "canary-secret-key-0123456789";

fn client(server: &ScriptedServer, kind: ProviderKind) -> Client {
    let credentials = match kind {
        ProviderKind::Local => Credentials::None,
        ProviderKind::Codex => {
            Credentials::Account { access_token: SecretText::new(KEY), account_id: Some("acc-1".into()) }
        }
        _ => Credentials::ApiKey(SecretText::new(KEY)),
    };
    let fast = RetryPolicy { base: Duration::from_millis(1), ..RetryPolicy::default() };
    let provider = Provider::at(kind, &format!("{}/v1", server.url()));
    Client::new(Http::new(), provider, Arc::new(Fixed(credentials))).with_retry(fast)
}

fn request() -> Request {
    Request {
        model: "m-1".into(),
        instructions: "Be brief.".into(),
        messages: vec![Message::user("Hi")],
        ..Request::default()
    }
}

async fn ask(client: &Client) -> (Result<Completion, Failure>, Vec<Event>) {
    ask_for(client, &request()).await
}

async fn ask_for(client: &Client, request: &Request) -> (Result<Completion, Failure>, Vec<Event>) {
    let mut events = Vec::new();
    let mut sink = |event| events.push(event);
    let done = client.stream(request, &mut sink, &CancellationToken::new()).await;
    (done, events)
}

fn texts(events: &[Event]) -> Vec<&str> {
    events.iter().filter_map(|event| if let Event::Text(text) = event { Some(text.as_str()) } else { None }).collect()
}

fn retries(events: &[Event]) -> usize {
    events.iter().filter(|event| matches!(event, Event::Retry(_))).count()
}

#[tokio::test]
async fn every_provider_streams_text_reasoning_calls_and_usage() {
    for kind in ProviderKind::ALL {
        let server = ScriptedServer::start().await;
        let arguments = json!({ "path": "src/lib.rs", "note": "ä\"\\" });
        let reply = Reply::text("Hel")
            .and_text("lo, wörld")
            .and_reasoning("think")
            .and_reasoning("ing")
            .and_call("call_a", "read_file", &arguments)
            .and_call("call_b", "list_directory", &json!({}))
            .and_usage(100, 40, 20, 5);
        server.push(reply.answer(kind).dripping());
        let (done, events) = ask(&client(&server, kind)).await;
        let done = done.unwrap();
        assert_eq!(texts(&events), ["Hel", "lo, wörld"], "{kind}");
        assert_eq!(done.text, "Hello, wörld", "{kind}");
        assert_eq!(done.reasoning, "thinking", "{kind}");
        assert_eq!(done.finish, Finish::ToolCalls, "{kind}");
        let calls: Vec<_> = done.tool_calls.iter().map(|call| (call.id.as_str(), call.name.as_str())).collect();
        assert_eq!(calls, [("call_a", "read_file"), ("call_b", "list_directory")], "{kind}");
        assert_eq!(done.tool_calls[0].arguments, arguments.to_string(), "{kind}");
        let last: Vec<_> = events.iter().rev().take(2).map(|event| matches!(event, Event::ToolCall(_))).collect();
        assert_eq!(last, [true, true], "{kind}: calls come last");
        let usage = done.usage.unwrap();
        let counts = (usage.input, usage.cached_input, usage.output, usage.reasoning, usage.total);
        assert_eq!(counts, (100, 40, 20, 5, 120), "{kind}");
        assert_eq!((done.model.as_str(), done.attempts), ("scripted", 1), "{kind}");
    }
}

#[tokio::test]
async fn each_provider_is_asked_at_its_own_door_with_its_own_headers() {
    for (kind, path) in [
        (ProviderKind::Codex, "/v1/responses"),
        (ProviderKind::OpenAi, "/v1/responses"),
        (ProviderKind::OpenRouter, "/v1/chat/completions"),
        (ProviderKind::Local, "/v1/chat/completions"),
    ] {
        let server = ScriptedServer::start().await;
        server.push(Reply::text("ok").answer(kind));
        ask(&client(&server, kind)).await.0.unwrap();
        let asked = &server.received()[0];
        assert_eq!((asked.method.as_str(), asked.path.as_str()), ("POST", path));
        let bearer = format!("Bearer {KEY}");
        let expected = (kind != ProviderKind::Local).then_some(bearer.as_str());
        assert_eq!(asked.header("authorization"), expected, "{kind}");
        let is_codex = kind == ProviderKind::Codex;
        assert_eq!(asked.header("chatgpt-account-id"), is_codex.then_some("acc-1"), "{kind}");
        assert_eq!(asked.header("originator"), is_codex.then_some("codex_cli_rs"), "{kind}");
        assert_eq!(asked.header("accept"), Some("text/event-stream"));
        assert_eq!(asked.json()["stream"], true);
    }
}

#[tokio::test]
async fn an_answer_is_heard_while_it_is_still_coming() {
    let server = ScriptedServer::start().await;
    let (gate, kind) = (Gate::new(), ProviderKind::OpenAi);
    let events = Reply::text("first").and_text("second").events(kind);
    let first = events.iter().position(|event| event.contains("first")).unwrap() + 1;
    let send = |events: &[String]| Step::Send(events.concat().into_bytes());
    server.push(Answer::stream(vec![send(&events[..first]), Step::Wait(gate.clone()), send(&events[first..])]));
    let mut heard = Vec::new();
    let mut sink = |event: Event| {
        if event == Event::Text("first".into()) {
            // The rest is sent only now.
            gate.open();
        }
        heard.push(event);
    };
    let done = client(&server, kind).stream(&request(), &mut sink, &CancellationToken::new()).await.unwrap();
    assert_eq!(done.text, "firstsecond");
}

#[tokio::test]
async fn cancelling_closes_the_connection_and_keeps_what_was_heard() {
    for kind in ProviderKind::ALL {
        let server = ScriptedServer::start().await;
        let answer = Reply::text("so far").and_text("never").answer(kind);
        let seen = Reply::text("so far").events(kind).iter().position(|event| event.contains("so far")).unwrap() + 1;
        server.push(answer.only(seen, Step::Hang));
        let cancel = CancellationToken::new();
        let mut sink = |event| {
            if let Event::Text(_) = event {
                cancel.cancel();
            }
        };
        let failure = client(&server, kind).stream(&request(), &mut sink, &cancel).await.unwrap_err();
        assert_eq!(failure.error.code(), "cancelled");
        assert_eq!(failure.partial.text, "so far");
        server.hung_up(1).await;
    }
}

#[tokio::test]
async fn cancelling_before_the_first_byte_and_between_attempts_works_too() {
    let server = ScriptedServer::start().await;
    server.push(Answer::stream(vec![Step::Hang]));
    let cancel = CancellationToken::new();
    let client = client(&server, ProviderKind::OpenAi);
    let asking = async { client.stream(&request(), &mut |_| {}, &cancel).await };
    let cancelling = async {
        server.requests(1).await;
        cancel.cancel();
    };
    let (done, ()) = tokio::join!(asking, cancelling);
    assert_eq!(done.unwrap_err().error.code(), "cancelled");
    server.hung_up(1).await;

    server.push(Answer::rate_limited("60"));
    let cancel = CancellationToken::new();
    let mut sink = |event| {
        if let Event::Retry(_) = event {
            cancel.cancel();
        }
    };
    let failure = client.stream(&request(), &mut sink, &cancel).await.unwrap_err();
    assert_eq!((failure.error.code(), failure.attempts), ("cancelled", 1));
}

#[tokio::test]
async fn a_rate_limit_is_waited_for_and_told() {
    let server = ScriptedServer::start().await;
    server.push(Answer::rate_limited("0"));
    server.push(Answer::error(503, "server_error", "overloaded"));
    server.push(Reply::text("at last").answer(ProviderKind::OpenRouter));
    let (done, events) = ask(&client(&server, ProviderKind::OpenRouter)).await;
    let done = done.unwrap();
    assert_eq!((done.text.as_str(), done.attempts), ("at last", 3));
    let Event::Retry(first) = &events[0] else { panic!("{events:?}") };
    assert_eq!((first.attempt, first.max_attempts, first.model.as_str()), (2, 3, "m-1"));
    assert!(first.error.contains("Rate limit reached"), "{}", first.error);
    assert!(first.request_bytes > 0);
    let Event::Retry(second) = &events[1] else { panic!("{events:?}") };
    assert_eq!(second.attempt, 3);
}

#[tokio::test]
async fn a_wait_that_is_too_long_is_told_at_once() {
    let server = ScriptedServer::start().await;
    server.push(Answer::rate_limited("3600"));
    let (done, events) = ask(&client(&server, ProviderKind::OpenAi)).await;
    let words = done.unwrap_err().error.to_string();
    assert_eq!(words, "OpenAI limits the rate (HTTP 429): Rate limit reached (it asks to wait 3600 s)");
    assert_eq!(retries(&events), 0);
}

#[tokio::test]
async fn after_the_last_attempt_it_says_how_often_it_was_tried() {
    let server = ScriptedServer::start().await;
    for _ in 0..3 {
        server.push(Answer::error(500, "server_error", "boom"));
    }
    let (done, events) = ask(&client(&server, ProviderKind::OpenAi)).await;
    let failure = done.unwrap_err();
    let expected = "OpenAI request failed after 3 attempts: OpenAI failed (HTTP 500): boom";
    assert_eq!(failure.error.to_string(), expected);
    assert_eq!((failure.error.code(), failure.attempts, retries(&events)), ("server_error", 3, 2));
    assert_eq!(server.received().len(), 3);
}

#[tokio::test]
async fn what_repeating_does_not_cure_is_not_repeated() {
    for (status, code) in [(400, "rejected"), (401, "unauthorised"), (402, "quota_exceeded"), (404, "rejected")] {
        let server = ScriptedServer::start().await;
        server.push(Answer::error(status, "x", "no"));
        let (done, events) = ask(&client(&server, ProviderKind::OpenAi)).await;
        assert_eq!(done.unwrap_err().error.code(), code);
        assert_eq!((retries(&events), server.received().len()), (0, 1), "{status}");
    }
}

#[tokio::test]
async fn a_provider_that_dies_in_a_tool_call_is_asked_again_and_nothing_is_said_twice() {
    for kind in ProviderKind::ALL {
        let server = ScriptedServer::start().await;
        let reply = Reply::default().and_call("call_1", "read_file", &json!({ "path": "a" }));
        let fragments = reply.events(kind).len();
        // Every place at which it can die before the answer is complete.
        for cut in 0..fragments - 1 {
            let is_complete = reply.events(kind)[..cut].iter().any(|event| event.contains("finish_reason\":\"tool"));
            server.push(reply.answer(kind).only(cut, Step::Cut));
            if !is_complete {
                server.push(reply.answer(kind));
            }
            let (done, events) = ask(&client(&server, kind)).await;
            let done = done.unwrap();
            assert_eq!(done.tool_calls.len(), 1, "{kind}, cut at {cut}");
            let announced = events.iter().filter(|event| matches!(event, Event::ToolCall(_))).count();
            assert_eq!(announced, 1, "{kind}, cut at {cut}");
            assert_eq!(retries(&events), usize::from(!is_complete), "{kind}, cut at {cut}");
        }
    }
}

#[tokio::test]
async fn a_cut_after_the_first_word_ends_it_with_what_was_heard() {
    for kind in ProviderKind::ALL {
        let server = ScriptedServer::start().await;
        let events = Reply::text("half").and_text(" whole").events(kind);
        let seen = events.iter().position(|event| event.contains("half")).unwrap() + 1;
        server.push(Reply::text("half").and_text(" whole").answer(kind).only(seen, Step::Cut));
        let (done, events) = ask(&client(&server, kind)).await;
        let failure = done.unwrap_err();
        assert_eq!((failure.error.code(), failure.partial.text.as_str()), ("cut_off", "half"), "{kind}");
        assert_eq!((retries(&events), texts(&events)), (0, vec!["half"]), "{kind}");
    }
}

#[tokio::test]
async fn silence_ends_after_its_time() {
    let server = ScriptedServer::start().await;
    for _ in 0..3 {
        server.push(Answer::stream(vec![Step::Send(b": wait\n\n".to_vec()), Step::Hang]));
    }
    let limits = Limits { idle: Duration::from_millis(20), ..Limits::default() };
    let (done, events) = ask(&client(&server, ProviderKind::OpenAi).with_limits(limits)).await;
    assert_eq!((done.unwrap_err().error.code(), retries(&events)), ("idle", 2));
    server.hung_up(3).await;
}

#[tokio::test]
async fn signs_of_life_without_a_word_end_too() {
    let server = ScriptedServer::start().await;
    // Far more than can drip within the time.
    server.push(Answer::stream(vec![Step::Drip(": still here\n\n".repeat(1_000_000).into_bytes())]));
    let limits = Limits { quiet: Duration::from_millis(30), ..Limits::default() };
    let once = RetryPolicy { max_attempts: 1, ..RetryPolicy::default() };
    let (done, _) = ask(&client(&server, ProviderKind::OpenAi).with_limits(limits).with_retry(once)).await;
    assert_eq!(done.unwrap_err().error.code(), "idle");
}

#[tokio::test]
async fn what_is_too_large_is_refused() {
    let server = ScriptedServer::start().await;
    let limits = Limits { line_bytes: 1000, answer_bytes: 50, ..Limits::default() };
    let client = client(&server, ProviderKind::Local).with_limits(limits);
    server.push(Answer::events(&"x".repeat(2000)));
    assert_eq!(ask(&client).await.0.unwrap_err().error.to_string(), "Local sent a line of more than 1000 bytes");
    server.push(Reply::text(&"y".repeat(60)).answer(ProviderKind::Local));
    assert_eq!(ask(&client).await.0.unwrap_err().error.to_string(), "Local sent an answer of more than 50 bytes");
}

#[tokio::test]
async fn malformed_events_are_told_and_asked_for_again() {
    let server = ScriptedServer::start().await;
    server.push(Answer::events("data: {not json\n\n"));
    server.push(Reply::text("ok").answer(ProviderKind::OpenAi));
    let (done, events) = ask(&client(&server, ProviderKind::OpenAi)).await;
    assert_eq!(done.unwrap().text, "ok");
    let Event::Retry(retry) = &events[0] else { panic!("{events:?}") };
    assert!(retry.error.contains("an event is not JSON"), "{}", retry.error);
}

#[tokio::test]
async fn nobody_at_the_address_is_told_in_words() {
    let gone = {
        let server = ScriptedServer::start().await;
        server.url()
    };
    let provider = Provider::at(ProviderKind::Local, &gone);
    let fast = RetryPolicy { base: Duration::from_millis(1), ..RetryPolicy::default() };
    let client = Client::new(Http::new(), provider, Arc::new(Fixed(Credentials::None))).with_retry(fast);
    let words = ask(&client).await.0.unwrap_err().error.to_string();
    assert!(words.starts_with("Local request failed after 3 attempts: cannot reach Local: "), "{words}");
    for bad in ["localhost:11434", "ftp://x", "not a url"] {
        let provider = Provider::at(ProviderKind::Local, bad);
        let client = Client::new(Http::new(), provider, Arc::new(Fixed(Credentials::None)));
        assert_eq!(ask(&client).await.0.unwrap_err().error.code(), "bad_address", "{bad}");
    }
}

#[tokio::test]
async fn an_address_without_a_path_finds_the_usual_one_and_remembers_it() {
    let server = ScriptedServer::start().await;
    server.route("/v1/chat/completions", Reply::text("found").answer(ProviderKind::Local));
    server.route("/chat/completions", Answer::raw(404, "text/plain", "404 page not found"));
    let provider = Provider::at(ProviderKind::Local, &server.url());
    let client = Client::new(Http::new(), provider, Arc::new(Fixed(Credentials::None)));
    for _ in 0..2 {
        assert_eq!(ask(&client).await.0.unwrap().text, "found");
    }
    let paths: Vec<_> = server.received().into_iter().map(|asked| asked.path).collect();
    assert_eq!(paths, ["/chat/completions", "/v1/chat/completions", "/v1/chat/completions"]);
}

#[tokio::test]
async fn a_web_page_in_place_of_an_answer_is_told_and_not_asked_for_again() {
    for kind in ProviderKind::ALL {
        let server = ScriptedServer::start().await;
        server.push(Answer::raw(200, "text/html", "<html>Sign in to this network</html>"));
        let (done, events) = ask(&client(&server, kind)).await;
        assert!(done.unwrap_err().error.to_string().contains("check the base URL"), "{kind}");
        assert_eq!(retries(&events), 0);
    }
}

#[tokio::test]
async fn a_call_that_is_cut_by_the_limit_is_left_out_and_those_before_it_are_kept() {
    let server = ScriptedServer::start().await;
    let fragment = |index: u32, arguments: &str| {
        let call =
            json!({ "index": index, "id": format!("c{index}"), "function": { "name": "f", "arguments": arguments } });
        format!("data: {}\n\n", json!({ "choices": [{ "delta": { "tool_calls": [call] } }] }))
    };
    let end =
        format!("data: {}\n\ndata: [DONE]\n\n", json!({ "choices": [{ "delta": {}, "finish_reason": "length" }] }));
    server.push(Answer::events(&[fragment(0, "{}"), fragment(1, "{\"path\":\"ha"), end].concat()));
    let (done, _) = ask(&client(&server, ProviderKind::Local)).await;
    let done = done.unwrap();
    let ids: Vec<_> = done.tool_calls.iter().map(|call| call.id.as_str()).collect();
    assert_eq!((ids, done.finish), (vec!["c0"], Finish::Length));
}

#[tokio::test]
async fn a_refused_reasoning_summary_is_left_out() {
    let server = ScriptedServer::start().await;
    let refusal = "Your organization must be verified to generate reasoning summaries.";
    server.push(Answer::error(400, "unsupported_value", refusal));
    server.push(Reply::text("ok").answer(ProviderKind::OpenAi));
    let request = Request { effort: Some("high".into()), ..request() };
    let (done, events) = ask_for(&client(&server, ProviderKind::OpenAi), &request).await;
    assert_eq!((done.unwrap().text.as_str(), retries(&events)), ("ok", 0));
    let bodies: Vec<_> = server.received().iter().map(|asked| asked.json()["reasoning"].clone()).collect();
    assert_eq!(bodies, [json!({ "effort": "high", "summary": "auto" }), json!({ "effort": "high" })]);
}

#[tokio::test]
async fn no_error_repeats_the_key() {
    let server = ScriptedServer::start().await;
    server.push(Answer::error(400, "x", &format!("your key {KEY} is odd")));
    server.push(Answer::events(&format!("event: error\ndata: {}\n\n", json!({ "type": "error", "message": KEY }))));
    let client = client(&server, ProviderKind::OpenAi);
    for _ in 0..2 {
        let failure = ask(&client).await.0.unwrap_err();
        let shown = format!("{failure} {failure:?} {client:?}");
        assert!(!shown.contains(KEY), "{shown}");
        assert!(shown.contains("[REDACTED]"), "{shown}");
    }
}
