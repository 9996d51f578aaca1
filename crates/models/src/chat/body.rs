//! A request in the words of chat completions.

use serde_json::{Value, json};

use crate::{ImagePart, Message, Part, ProviderKind, Request, ToolCall, ToolDefinition};

/// The body of `POST /chat/completions`.
pub(crate) fn body(provider: ProviderKind, request: &Request) -> Value {
    let mut body = json!({
        "model": request.model,
        "messages": messages(request),
        "stream": true,
        "stream_options": { "include_usage": true },
    });
    if !request.tools.is_empty() {
        body["tools"] = request.tools.iter().map(tool).collect();
        body["tool_choice"] = json!("auto");
    }
    if let Some(cap) = request.max_output_tokens {
        body["max_tokens"] = json!(cap);
    }
    if provider == ProviderKind::OpenRouter {
        // Puts the cost into the usage.
        body["usage"] = json!({ "include": true });
        if let Some(effort) = &request.effort {
            body["reasoning"] = json!({ "effort": effort });
        }
    } else if let Some(effort) = &request.effort {
        body["reasoning_effort"] = json!(effort);
    }
    body
}

fn messages(request: &Request) -> Vec<Value> {
    let mut out = Vec::with_capacity(request.messages.len() + 1);
    if !request.instructions.is_empty() {
        out.push(json!({ "role": "system", "content": request.instructions }));
    }
    // A tool's result takes text only. Its pictures follow as a user's, after the last result of the run: in between
    // they would separate a call from its answer.
    let mut pictures: Vec<Value> = Vec::new();
    for message in &request.messages {
        if !matches!(message, Message::ToolResult { .. }) && !pictures.is_empty() {
            out.push(json!({ "role": "user", "content": std::mem::take(&mut pictures) }));
        }
        match message {
            Message::User(parts) => out.push(json!({ "role": "user", "content": content(parts) })),
            Message::Assistant { text, tool_calls } => out.extend(assistant(text, tool_calls)),
            Message::ToolResult { call_id, name, parts } => {
                let images = parts.iter().filter_map(|part| match part {
                    Part::Image(image) => Some(picture(image)),
                    Part::Text(_) => None,
                });
                let before = pictures.len();
                pictures.extend(images);
                if pictures.len() > before {
                    let note = json!({ "type": "text", "text": format!("Pictures from {name} ({call_id}):") });
                    pictures.insert(before, note);
                }
                out.push(json!({ "role": "tool", "tool_call_id": call_id, "content": plain(parts) }));
            }
        }
    }
    if !pictures.is_empty() {
        out.push(json!({ "role": "user", "content": pictures }));
    }
    out
}

fn assistant(text: &str, tool_calls: &[ToolCall]) -> Option<Value> {
    if text.is_empty() && tool_calls.is_empty() {
        return None;
    }
    let content = if text.is_empty() { Value::Null } else { json!(text) };
    let mut message = json!({ "role": "assistant", "content": content });
    if !tool_calls.is_empty() {
        let call = |call: &ToolCall| {
            json!({
                "id": call.id,
                "type": "function",
                "function": { "name": call.name, "arguments": call.replayed() },
            })
        };
        message["tool_calls"] = tool_calls.iter().map(call).collect();
    }
    Some(message)
}

/// Plain text stays a string: not every server takes parts.
fn content(parts: &[Part]) -> Value {
    if parts.iter().all(|part| matches!(part, Part::Text(_))) {
        return json!(plain(parts));
    }
    let one = |part: &Part| match part {
        Part::Text(text) => json!({ "type": "text", "text": text }),
        Part::Image(image) => picture(image),
    };
    parts.iter().map(one).collect()
}

fn plain(parts: &[Part]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.as_str()),
        Part::Image(_) => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn picture(image: &ImagePart) -> Value {
    let url = format!("data:{};base64,{}", image.mime_type, image.data);
    json!({ "type": "image_url", "image_url": { "url": url } })
}

fn tool(tool: &ToolDefinition) -> Value {
    json!({
        "type": "function",
        "function": { "name": tool.name, "description": tool.description, "parameters": tool.parameters },
    })
}
