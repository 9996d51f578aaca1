//! Golden streams, whole and byte by byte.

use std::sync::Arc;
use std::time::Duration;

use convoke_models::testkit::{Answer, ScriptedServer};
use convoke_models::{
    Client, Completion, Credentials, Event, Failure, Finish, Fixed, Http, Message, Provider, ProviderKind, Request,
    RetryPolicy,
};
use tokio_util::sync::CancellationToken;

macro_rules! fixture {
    ($name:literal) => {
        include_str!(concat!("../../../../fixtures/models/", $name))
    };
}

/// What comes of a stream, which must be the same however its bytes arrive.
async fn play(kind: ProviderKind, stream: &str) -> (Result<Completion, Failure>, Vec<Event>) {
    let whole = run(kind, Answer::events(stream), 1).await;
    let dripped = run(kind, Answer::events(stream).dripping(), 1).await;
    assert_eq!(whole.1.len(), dripped.1.len(), "the same events however they arrive");
    whole
}

async fn run(kind: ProviderKind, answer: Answer, attempts: u32) -> (Result<Completion, Failure>, Vec<Event>) {
    let server = ScriptedServer::start().await;
    server.push(answer);
    let retry = RetryPolicy { max_attempts: attempts, base: Duration::from_millis(1), ..RetryPolicy::default() };
    let provider = Provider::at(kind, &format!("{}/v1", server.url()));
    let client = Client::new(Http::new(), provider, Arc::new(Fixed(Credentials::None))).with_retry(retry);
    let request = Request { model: "asked".into(), messages: vec![Message::user("hi")], ..Request::default() };
    let mut events = Vec::new();
    let done = client.stream(&request, &mut |event| events.push(event), &CancellationToken::new()).await;
    (done, events)
}

fn calls(done: &Completion) -> Vec<(&str, &str)> {
    done.tool_calls.iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect()
}

#[tokio::test]
async fn responses_with_two_calls_at_once() {
    let (done, events) = play(ProviderKind::OpenAi, fixture!("responses_tools.sse")).await;
    let done = done.unwrap();
    assert_eq!(done.text, "Let me look – 👀.");
    assert_eq!(done.reasoning, "**Looking** around\n\n**Deciding**");
    assert_eq!(events.iter().filter(|event| **event == Event::ReasoningBoundary).count(), 1);
    assert_eq!(calls(&done), [("read_file", r#"{"path":"a.rs"}"#), ("list_directory", r#"{"path":"src"}"#)]);
    assert_eq!(done.tool_calls[1].id, "call_B");
    assert_eq!((done.model.as_str(), done.response_id.as_deref()), ("gpt-5.5-2026-04-23", Some("resp_68a1")));
    let usage = done.usage.unwrap();
    assert_eq!((usage.input, usage.cached_input, usage.output, usage.reasoning), (1234, 1024, 99, 64));
}

#[tokio::test]
async fn an_answer_cut_by_its_limit_keeps_no_half_call() {
    let (done, _) = play(ProviderKind::Codex, fixture!("responses_incomplete.sse")).await;
    let done = done.unwrap();
    assert_eq!((done.text.as_str(), done.finish), ("Writing it down", Finish::Length));
    assert!(done.tool_calls.is_empty());
}

#[tokio::test]
async fn a_rate_limit_in_the_stream_tells_its_delay() {
    let (done, _) = play(ProviderKind::OpenAi, fixture!("responses_rate_limit.sse")).await;
    let error = done.unwrap_err().error;
    assert_eq!((error.code(), error.retry_after()), ("rate_limited", Some(Duration::from_millis(12))));
}

#[tokio::test]
async fn openrouter_with_comments_and_cost() {
    let (done, _) = play(ProviderKind::OpenRouter, fixture!("chat_openrouter.sse")).await;
    let done = done.unwrap();
    assert_eq!((done.text.as_str(), done.reasoning.as_str()), ("I will read it.", "Hm, a file."));
    assert_eq!(calls(&done), [("read_file", r#"{"path":"a.rs"}"#)]);
    assert_eq!((done.tool_calls[0].id.as_str(), done.finish), ("call_x", Finish::ToolCalls));
    let usage = done.usage.unwrap();
    assert_eq!((usage.cost, usage.cached_input, usage.reasoning), (Some(0.001_25), 128, 30));
}

#[tokio::test]
async fn openrouters_failure_in_the_stream_is_the_servers() {
    let (done, _) = play(ProviderKind::OpenRouter, fixture!("chat_openrouter_error.sse")).await;
    let error = done.unwrap_err().error;
    assert_eq!((error.code(), error.status()), ("server_error", Some(502)));
    assert!(error.to_string().contains("Provider disconnected unexpectedly"), "{error}");
}

#[tokio::test]
async fn ollamas_calls_are_told_apart_though_all_are_number_zero() {
    let (done, _) = play(ProviderKind::Local, fixture!("chat_ollama.sse")).await;
    let done = done.unwrap();
    let expected =
        [("read_file", r#"{"path":"a"}"#), ("read_file", r#"{"path":"b"}"#), ("list_directory", r#"{"path":"c"}"#)];
    assert_eq!(calls(&done), expected);
    assert_eq!(done.finish, Finish::ToolCalls, "whatever the server calls it");
    assert!(done.tool_calls[2].id.starts_with("call_"), "one was made up: {:?}", done.tool_calls[2]);
}

#[tokio::test]
async fn llamacpp_hangs_up_without_a_last_word() {
    let (done, _) = play(ProviderKind::Local, fixture!("chat_llamacpp.sse")).await;
    let done = done.unwrap();
    assert_eq!((done.text.as_str(), done.reasoning.as_str()), ("42", "Easy."));
    assert_eq!(done.usage.unwrap().total, 10);
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_understood() {
    let whole: serde_json::Value = serde_json::from_str(fixture!("chat_whole.json")).unwrap();
    let (done, events) = run(ProviderKind::Local, Answer::json(200, &whole), 1).await;
    let done = done.unwrap();
    assert_eq!((done.text.as_str(), calls(&done)), ("All at once.", vec![("read_file", "{}")]));
    assert_eq!(events.len(), 2);
    let output = serde_json::json!([
        { "type": "message", "content": [{ "type": "output_text", "text": "Whole." }] },
        { "type": "function_call", "call_id": "c1", "name": "read_file", "arguments": "" },
    ]);
    let whole =
        serde_json::json!({ "id": "r", "status": "completed", "output": output, "usage": { "input_tokens": 1 } });
    let (done, _) = run(ProviderKind::OpenAi, Answer::json(200, &whole), 1).await;
    let done = done.unwrap();
    assert_eq!((done.text.as_str(), calls(&done)), ("Whole.", vec![("read_file", "{}")]));
    let (done, _) = run(ProviderKind::Local, Answer::json(200, &serde_json::json!({})), 1).await;
    assert_eq!(done.unwrap_err().error.code(), "malformed");
}
