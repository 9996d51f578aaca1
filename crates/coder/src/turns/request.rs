//! A conversation as a model gets it, mended where a call was left without an answer.

use convoke_kward::transcript::{Role, Stored, mime_type, summary_of};
use convoke_models::{ImagePart, Message, Part, ToolCall};
use serde_json::Value;

use crate::sessions::load::Item;

/// What stands where an answer was lost, with a process for example.
const NO_RESULT: &str = "Error: no result was recorded for this call";

/// The messages of a request. Every call is followed by exactly one result, and every result follows its call: that is
/// what providers insist on, and a killed process or another program's file may have left something else.
pub(crate) fn messages(items: &[Item]) -> Vec<Message> {
    let mut out = Vec::with_capacity(items.len());
    let mut open: Vec<(String, String)> = Vec::new();
    for item in items {
        let message = &item.message;
        match message.role() {
            Role::System => {}
            Role::Tool => {
                let id = message.call_id().unwrap_or_default();
                let Some(at) = open.iter().position(|(open, _)| open == id) else { continue };
                let (id, name) = open.remove(at);
                out.push(Message::ToolResult { call_id: id, name, parts: parts(message) });
            }
            role => {
                close(&mut out, &mut open);
                out.extend(one(message, role, &mut open));
            }
        }
    }
    close(&mut out, &mut open);
    out
}

fn one(message: &Stored, role: Role, open: &mut Vec<(String, String)>) -> Option<Message> {
    match role {
        Role::User => Some(Message::User(parts(message))),
        Role::Assistant => {
            let call = |call: convoke_kward::transcript::Call<'_>| ToolCall {
                id: call.id.to_owned(),
                name: call.name.to_owned(),
                arguments: call.arguments.into_owned(),
            };
            let tool_calls: Vec<ToolCall> = message.calls().map(call).collect();
            let text = message.text();
            if text.is_empty() && tool_calls.is_empty() {
                return None;
            }
            *open = tool_calls.iter().map(|call| (call.id.clone(), call.name.clone())).collect();
            Some(Message::Assistant { text, tool_calls })
        }
        Role::Summary => Some(Message::assistant(summary_of(message))),
        _ => {
            let text = message.text_of("summary").map_or_else(|| message.text(), str::to_owned);
            (!text.is_empty()).then(|| Message::assistant(text))
        }
    }
}

fn close(out: &mut Vec<Message>, open: &mut Vec<(String, String)>) {
    out.extend(open.drain(..).map(|(id, name)| Message::tool_result(id, name, NO_RESULT)));
}

fn parts(message: &Stored) -> Vec<Part> {
    let mut parts = vec![Part::Text(message.text())];
    parts.extend(message.images().filter_map(|image| {
        let data = image.get("data").and_then(Value::as_str)?.to_owned();
        Some(Part::Image(ImagePart { mime_type: mime_type(image)?.to_owned(), data }))
    }));
    parts
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    fn items(messages: Value) -> Vec<Item> {
        let messages: Vec<Stored> = serde_json::from_value(messages).unwrap();
        messages.into_iter().map(|message| Item { id: String::new(), message: Arc::new(message) }).collect()
    }

    fn kinds(messages: Value) -> Vec<String> {
        let kind = |message: &Message| match message {
            Message::User(_) => "user".to_owned(),
            Message::Assistant { tool_calls, .. } => format!("assistant {}", tool_calls.len()),
            Message::ToolResult { call_id, .. } => format!("result {call_id}"),
        };
        super::messages(&items(messages)).iter().map(kind).collect()
    }

    #[test]
    fn every_call_has_its_result_and_every_result_its_call() {
        let call = |id: &str| json!({ "id": id, "type": "function", "function": { "name": "read_file", "arguments": "{}" } });
        let answer = json!({ "role": "assistant", "content": "", "tool_calls": [call("a"), call("b")] });
        let result = |id: &str| json!({ "role": "tool", "tool_call_id": id, "name": "read_file", "content": "x" });
        let said = json!({ "role": "user", "content": "x" });
        assert_eq!(
            kinds(json!([said, answer, result("b"), said, result("a"), result("z")])),
            ["user", "assistant 2", "result b", "result a", "user"]
        );
        assert_eq!(kinds(json!([answer])), ["assistant 2", "result a", "result b"]);
        assert_eq!(kinds(json!([{ "role": "assistant", "content": "" }, said])), ["user"]);
        assert_eq!(kinds(json!([{ "role": "compactionSummary", "summary": "s" }])), ["assistant 0"]);
    }
}
