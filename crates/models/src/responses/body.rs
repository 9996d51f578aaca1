//! A request in the words of the Responses API.

use serde_json::{Value, json};

use crate::{Message, Part, ProviderKind, Request, ToolDefinition, facts};

/// Whether a summary of the model's reasoning is asked for. Some organisations may not have one, and are then refused
/// the whole request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Summary {
    Auto,
    Without,
}

/// The body of `POST /responses`.
pub(crate) fn body(provider: ProviderKind, request: &Request, summary: Summary) -> Value {
    let is_codex = provider == ProviderKind::Codex;
    let mut body = json!({
        "model": request.model,
        "instructions": request.instructions,
        "input": request.messages.iter().flat_map(items).collect::<Vec<_>>(),
        "tools": request.tools.iter().map(tool).collect::<Vec<_>>(),
        "tool_choice": "auto",
        // Behind a ChatGPT sign-in calls come one at a time.
        "parallel_tool_calls": !is_codex,
        "stream": true,
        "store": false,
        "include": [],
    });
    let reasons = is_codex || request.effort.is_some() || facts(provider, &request.model).reasoning;
    if reasons {
        let mut reasoning = json!({});
        if let Some(effort) = &request.effort {
            reasoning["effort"] = json!(effort);
        }
        if summary == Summary::Auto {
            reasoning["summary"] = json!("auto");
        }
        body["reasoning"] = reasoning;
    }
    // The ChatGPT sign-in's server refuses a cap.
    if let Some(cap) = request.max_output_tokens.filter(|_| !is_codex) {
        body["max_output_tokens"] = json!(cap);
    }
    if let Some(key) = &request.cache_key {
        body["prompt_cache_key"] = json!(key);
    }
    body
}

fn items(message: &Message) -> Vec<Value> {
    match message {
        Message::User(parts) => {
            let content: Vec<Value> = parts.iter().map(input_part).collect();
            vec![json!({ "type": "message", "role": "user", "content": content })]
        }
        Message::Assistant { text, tool_calls } => {
            let said = (!text.is_empty()).then(|| {
                json!({
                    "type": "message",
                    "role": "assistant",
                    "content": [{ "type": "output_text", "text": text }],
                })
            });
            let calls = tool_calls.iter().map(|call| {
                json!({
                    "type": "function_call",
                    "call_id": call.id,
                    "name": call.name,
                    "arguments": call.replayed(),
                })
            });
            said.into_iter().chain(calls).collect()
        }
        Message::ToolResult { call_id, parts, .. } => {
            let output = match parts.as_slice() {
                [Part::Text(text)] => json!(text),
                [] => json!(""),
                parts => parts.iter().map(input_part).collect(),
            };
            vec![json!({ "type": "function_call_output", "call_id": call_id, "output": output })]
        }
    }
}

fn input_part(part: &Part) -> Value {
    match part {
        Part::Text(text) => json!({ "type": "input_text", "text": text }),
        Part::Image(image) => {
            let url = format!("data:{};base64,{}", image.mime_type, image.data);
            json!({ "type": "input_image", "image_url": url })
        }
    }
}

fn tool(tool: &ToolDefinition) -> Value {
    json!({
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": false,
    })
}
