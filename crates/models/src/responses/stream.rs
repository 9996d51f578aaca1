//! An answer of the Responses API, event by event.

use serde_json::Value;

use crate::draft::{Draft, count, text};
use crate::{Finish, ModelError, ProviderKind, Sink, Usage};

/// Takes one event. `true`: the answer is complete.
pub(crate) fn read(
    provider: ProviderKind,
    name: &str,
    data: &str,
    draft: &mut Draft,
    sink: &mut dyn Sink,
) -> Result<bool, ModelError> {
    if data.trim() == "[DONE]" {
        return Ok(false);
    }
    let event: Value = serde_json::from_str(data)
        .map_err(|why| ModelError::Malformed { provider, message: format!("an event is not JSON: {why}") })?;
    match text(&event, "type").unwrap_or(name) {
        "response.created" | "response.in_progress" => origin(&event["response"], draft),
        "response.output_text.delta" | "response.refusal.delta" => {
            draft.add_text(text(&event, "delta").unwrap_or_default(), sink)?;
        }
        "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
            draft.add_reasoning(text(&event, "delta").unwrap_or_default(), sink)?;
        }
        "response.reasoning_summary_part.added" | "response.reasoning_summary_part.done" => {
            draft.end_reasoning_block();
        }
        "response.output_item.added" => item_added(&event, draft)?,
        "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
            let delta = text(&event, "delta").unwrap_or_default();
            draft.grow(delta.len())?;
            let call = draft.call(&key(&event))?;
            if !call.is_whole {
                call.arguments.push_str(delta);
            }
        }
        "response.output_item.done" => item_done(&event, draft, sink)?,
        "response.completed" | "response.done" => {
            let response = &event["response"];
            finished(response, draft, sink)?;
            draft.finish.get_or_insert(Finish::Stop);
            return Ok(true);
        }
        "response.incomplete" => {
            let response = &event["response"];
            finished(response, draft, sink)?;
            draft.finish = Some(match response["incomplete_details"]["reason"].as_str() {
                Some("max_output_tokens") | None => Finish::Length,
                Some("content_filter") => Finish::Filtered,
                Some(other) => Finish::Other(other.to_owned()),
            });
            return Ok(true);
        }
        "response.failed" => return Err(failure(provider, &event["response"]["error"])),
        "response.cancelled" => return Err(ModelError::CutOff { provider }),
        "error" => {
            let told = if event["error"].is_object() { &event["error"] } else { &event };
            return Err(failure(provider, told));
        }
        _ => {}
    }
    Ok(false)
}

/// Takes an answer that came in one piece, from a server that does not stream.
pub(crate) fn read_whole(
    provider: ProviderKind,
    body: &[u8],
    draft: &mut Draft,
    sink: &mut dyn Sink,
) -> Result<(), ModelError> {
    let malformed = |message: String| ModelError::Malformed { provider, message };
    let response: Value =
        serde_json::from_slice(body).map_err(|why| malformed(format!("the answer is not JSON: {why}")))?;
    if response["error"].is_object() {
        return Err(failure(provider, &response["error"]));
    }
    if !response["output"].is_array() {
        return Err(malformed("the answer has no output".into()));
    }
    finished(&response, draft, sink)?;
    draft.finish = Some(if response["status"] == "incomplete" { Finish::Length } else { Finish::Stop });
    Ok(())
}

fn origin(response: &Value, draft: &mut Draft) {
    if let Some(id) = text(response, "id") {
        draft.response_id = Some(id.to_owned());
    }
    if let Some(model) = text(response, "model") {
        draft.model = Some(model.to_owned());
    }
}

/// What identifies an item while it streams.
fn key(event: &Value) -> String {
    match event["output_index"].as_u64() {
        Some(index) => format!("#{index}"),
        None => text(event, "item_id").or_else(|| text(&event["item"], "id")).unwrap_or_default().to_owned(),
    }
}

fn item_added(event: &Value, draft: &mut Draft) -> Result<(), ModelError> {
    let item = &event["item"];
    match text(item, "type") {
        Some("function_call" | "custom_tool_call") => {
            let call = draft.call(&key(event))?;
            call.id = text(item, "call_id").unwrap_or_default().to_owned();
            call.name = text(item, "name").unwrap_or_default().to_owned();
        }
        Some("reasoning") => draft.end_reasoning_block(),
        _ => {}
    }
    Ok(())
}

/// The whole item, whatever fragments have come or not.
fn item_done(event: &Value, draft: &mut Draft, sink: &mut dyn Sink) -> Result<(), ModelError> {
    let item = &event["item"];
    match text(item, "type") {
        Some(kind @ ("function_call" | "custom_tool_call")) => {
            let field = if kind == "function_call" { "arguments" } else { "input" };
            let arguments = text(item, field).unwrap_or_default();
            let had = draft.call(&key(event))?.arguments.len();
            draft.grow(arguments.len().saturating_sub(had))?;
            let call = draft.call(&key(event))?;
            for (kept, told) in [(&mut call.id, text(item, "call_id")), (&mut call.name, text(item, "name"))] {
                if let Some(told) = told {
                    *kept = told.to_owned();
                }
            }
            if !arguments.is_empty() {
                call.arguments = arguments.to_owned();
            }
            call.is_whole = true;
        }
        Some("message") if !draft.has_text() => message_text(item, draft, sink)?,
        Some("reasoning") => draft.end_reasoning_block(),
        _ => {}
    }
    Ok(())
}

/// The text of a message that came without deltas.
fn message_text(item: &Value, draft: &mut Draft, sink: &mut dyn Sink) -> Result<(), ModelError> {
    for part in item["content"].as_array().into_iter().flatten() {
        let said = text(part, "text").or_else(|| text(part, "refusal"));
        draft.add_text(said.unwrap_or_default(), sink)?;
    }
    Ok(())
}

fn finished(response: &Value, draft: &mut Draft, sink: &mut dyn Sink) -> Result<(), ModelError> {
    origin(response, draft);
    let usage = &response["usage"];
    if usage.is_object() {
        let (input, output) = (count(usage, &["input_tokens"]), count(usage, &["output_tokens"]));
        draft.usage = Some(Usage {
            input,
            cached_input: count(usage, &["input_tokens_details", "cached_tokens"]),
            cache_write: count(usage, &["input_tokens_details", "cache_write_tokens"]),
            output,
            reasoning: count(usage, &["output_tokens_details", "reasoning_tokens"]),
            total: count(usage, &["total_tokens"]).max(input + output),
            cost: usage["cost"].as_f64(),
        });
    }
    // A server in OpenAI's place may send nothing but the end.
    if !draft.has_text() && !draft.has_calls() {
        for (index, item) in response["output"].as_array().into_iter().flatten().enumerate() {
            let event = serde_json::json!({ "output_index": index, "item": item });
            item_done(&event, draft, sink)?;
        }
    }
    Ok(())
}

/// What a failure told in the stream means.
fn failure(provider: ProviderKind, error: &Value) -> ModelError {
    let code = text(error, "code").or_else(|| text(error, "type")).unwrap_or_default();
    let message = text(error, "message").unwrap_or("the provider gave no reason");
    crate::client::told_in_stream(provider, code, message)
}
