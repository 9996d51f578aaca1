//! What is sent, to the letter.

use std::sync::Arc;

use convoke_models::testkit::{Reply, ScriptedServer};
use convoke_models::{
    Client, Credentials, Fixed, Http, ImagePart, Message, Part, Provider, ProviderKind, Request, ToolCall,
    ToolDefinition,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

fn image(data: &str) -> Part {
    Part::Image(ImagePart { mime_type: "image/png".into(), data: data.into() })
}

fn conversation() -> Request {
    let call = |id: &str| ToolCall { id: id.into(), name: "read_file".into(), arguments: r#"{"path":"a"}"#.into() };
    Request {
        model: "gpt-5.5".into(),
        instructions: "Be brief.".into(),
        messages: vec![
            Message::User(vec![Part::Text("Look".into()), image("QUJD")]),
            Message::Assistant { text: "Reading.".into(), tool_calls: vec![call("c1"), call("c2")] },
            Message::ToolResult {
                call_id: "c1".into(),
                name: "read_file".into(),
                parts: vec![Part::Text("a picture".into()), image("REVG")],
            },
            Message::tool_result("c2", "read_file", "text"),
            Message::user("And?"),
            Message::assistant(""),
        ],
        tools: vec![ToolDefinition {
            name: "read_file".into(),
            description: "Reads.".into(),
            parameters: json!({ "type": "object" }),
        }],
        effort: Some("high".into()),
        max_output_tokens: Some(500),
        cache_key: Some("session-1".into()),
    }
}

async fn sent(kind: ProviderKind, request: &Request) -> Value {
    let server = ScriptedServer::start().await;
    server.push(Reply::text("ok").answer(kind));
    let provider = Provider::at(kind, &format!("{}/v1", server.url()));
    let client = Client::new(Http::new(), provider, Arc::new(Fixed(Credentials::None)));
    let done = client.stream(request, &mut |_| {}, &CancellationToken::new()).await.unwrap();
    let asked = server.received().remove(0);
    assert_eq!(done.request_bytes, asked.body.len());
    asked.json()
}

fn responses_body() -> Value {
    json!({
        "model": "gpt-5.5",
        "instructions": "Be brief.",
        "input": [
            { "type": "message", "role": "user", "content": [
                { "type": "input_text", "text": "Look" },
                { "type": "input_image", "image_url": "data:image/png;base64,QUJD" },
            ]},
            { "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": "Reading." }] },
            { "type": "function_call", "call_id": "c1", "name": "read_file", "arguments": "{\"path\":\"a\"}" },
            { "type": "function_call", "call_id": "c2", "name": "read_file", "arguments": "{\"path\":\"a\"}" },
            { "type": "function_call_output", "call_id": "c1", "output": [
                { "type": "input_text", "text": "a picture" },
                { "type": "input_image", "image_url": "data:image/png;base64,REVG" },
            ]},
            { "type": "function_call_output", "call_id": "c2", "output": "text" },
            { "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "And?" }] },
        ],
        "tools": [{ "type": "function", "name": "read_file", "description": "Reads.",
                    "parameters": { "type": "object" }, "strict": false }],
        "tool_choice": "auto",
        "parallel_tool_calls": false,
        "stream": true,
        "store": false,
        "include": [],
        "reasoning": { "effort": "high", "summary": "auto" },
        "prompt_cache_key": "session-1",
    })
}

#[tokio::test]
async fn codex_gets_its_body() {
    assert_eq!(sent(ProviderKind::Codex, &conversation()).await, responses_body());
}

#[tokio::test]
async fn openai_may_call_in_parallel_and_takes_a_cap() {
    let mut expected = responses_body();
    expected["parallel_tool_calls"] = json!(true);
    expected["max_output_tokens"] = json!(500);
    assert_eq!(sent(ProviderKind::OpenAi, &conversation()).await, expected);
    let plain = Request { model: "gpt-4o".into(), messages: vec![Message::user("hi")], ..Request::default() };
    assert_eq!(sent(ProviderKind::OpenAi, &plain).await.get("reasoning"), None, "that model takes none");
}

#[tokio::test]
async fn arguments_that_are_no_json_are_told_again_inside_an_object() {
    let call = |arguments: &str| ToolCall { id: "c".into(), name: "f".into(), arguments: arguments.into() };
    let said = Message::Assistant { text: String::new(), tool_calls: vec![call("{\"half"), call("")] };
    let request = Request { model: "m".into(), messages: vec![said], ..Request::default() };
    let wrapped = r#"{"invalid_json":"{\"half"}"#;
    let body = sent(ProviderKind::OpenAi, &request).await;
    assert_eq!((&body["input"][0]["arguments"], &body["input"][1]["arguments"]), (&json!(wrapped), &json!("{}")));
    let body = sent(ProviderKind::Local, &request).await;
    let calls = &body["messages"][0]["tool_calls"];
    assert_eq!(calls[0]["function"]["arguments"], wrapped);
    assert_eq!((&body["messages"][0]["content"], &calls[1]["function"]["arguments"]), (&json!(null), &json!("{}")));
}

#[tokio::test]
async fn chat_completions_get_pictures_of_tools_after_the_last_result() {
    let call = |id: &str| {
        json!({ "id": id, "type": "function",
                "function": { "name": "read_file", "arguments": "{\"path\":\"a\"}" } })
    };
    let picture =
        |data: &str| json!({ "type": "image_url", "image_url": { "url": format!("data:image/png;base64,{data}") } });
    let expected = json!({
        "model": "gpt-5.5",
        "messages": [
            { "role": "system", "content": "Be brief." },
            { "role": "user", "content": [{ "type": "text", "text": "Look" }, picture("QUJD")] },
            { "role": "assistant", "content": "Reading.", "tool_calls": [call("c1"), call("c2")] },
            { "role": "tool", "tool_call_id": "c1", "content": "a picture" },
            { "role": "tool", "tool_call_id": "c2", "content": "text" },
            { "role": "user", "content": [
                { "type": "text", "text": "Pictures from read_file (c1):" }, picture("REVG"),
            ]},
            { "role": "user", "content": "And?" },
        ],
        "stream": true,
        "stream_options": { "include_usage": true },
        "tools": [{ "type": "function", "function": { "name": "read_file", "description": "Reads.",
                    "parameters": { "type": "object" } } }],
        "tool_choice": "auto",
        "max_tokens": 500,
        "usage": { "include": true },
        "reasoning": { "effort": "high" },
    });
    assert_eq!(sent(ProviderKind::OpenRouter, &conversation()).await, expected);
    let local = sent(ProviderKind::Local, &conversation()).await;
    assert_eq!((&local["reasoning_effort"], local.get("usage")), (&json!("high"), None));
    assert_eq!(local["messages"], expected["messages"]);
}
