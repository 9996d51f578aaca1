//! An answer of chat completions, chunk by chunk.

use serde_json::Value;

use crate::draft::{Draft, count, text};
use crate::{Finish, ModelError, ProviderKind, Sink, Usage};

/// Takes one chunk. `true`: the answer is complete.
pub(crate) fn read(
    provider: ProviderKind,
    data: &str,
    draft: &mut Draft,
    sink: &mut dyn Sink,
) -> Result<bool, ModelError> {
    if data.trim() == "[DONE]" {
        return Ok(true);
    }
    let chunk: Value = serde_json::from_str(data)
        .map_err(|why| ModelError::Malformed { provider, message: format!("a chunk is not JSON: {why}") })?;
    take(provider, &chunk, draft, sink)?;
    Ok(false)
}

/// Takes an answer that came in one piece, from a server that does not stream.
pub(crate) fn read_whole(
    provider: ProviderKind,
    body: &[u8],
    draft: &mut Draft,
    sink: &mut dyn Sink,
) -> Result<(), ModelError> {
    let whole: Value = serde_json::from_slice(body)
        .map_err(|why| ModelError::Malformed { provider, message: format!("the answer is not JSON: {why}") })?;
    take(provider, &whole, draft, sink)?;
    if whole["choices"].as_array().is_none_or(Vec::is_empty) {
        let message = "the answer has no choices".to_owned();
        return Err(ModelError::Malformed { provider, message });
    }
    draft.finish.get_or_insert(Finish::Stop);
    Ok(())
}

fn take(provider: ProviderKind, chunk: &Value, draft: &mut Draft, sink: &mut dyn Sink) -> Result<(), ModelError> {
    if let Some(error) = chunk.get("error").filter(|error| !error.is_null()) {
        return Err(failure(provider, error));
    }
    if let Some(id) = text(chunk, "id").filter(|id| !id.is_empty()) {
        draft.response_id = Some(id.to_owned());
    }
    if let Some(model) = text(chunk, "model").filter(|model| !model.is_empty()) {
        draft.model = Some(model.to_owned());
    }
    if let Some(usage) = chunk.get("usage").filter(|usage| usage.is_object()) {
        draft.usage = Some(read_usage(usage));
    }
    let Some(choice) = chunk["choices"].get(0) else { return Ok(()) };
    if let Some(error) = choice.get("error").filter(|error| error.is_object()) {
        return Err(failure(provider, error));
    }
    let delta = if choice["delta"].is_object() { &choice["delta"] } else { &choice["message"] };
    let reasoning = text(delta, "reasoning").or_else(|| text(delta, "reasoning_content"));
    draft.add_reasoning(reasoning.unwrap_or_default(), sink)?;
    draft.add_text(text(delta, "content").unwrap_or_default(), sink)?;
    draft.add_text(text(delta, "refusal").unwrap_or_default(), sink)?;
    for fragment in delta["tool_calls"].as_array().into_iter().flatten() {
        take_call(fragment, draft)?;
    }
    match text(choice, "finish_reason") {
        None | Some("") => {}
        Some("stop") => draft.finish = Some(Finish::Stop),
        Some("tool_calls" | "function_call") => draft.finish = Some(Finish::ToolCalls),
        Some("length") => draft.finish = Some(Finish::Length),
        Some("content_filter") => draft.finish = Some(Finish::Filtered),
        Some("error") => {
            let message =
                text(choice, "native_finish_reason").unwrap_or("the model's own provider failed").to_owned();
            return Err(ModelError::Server { provider, status: 502, message, retry_after: None });
        }
        Some(other) => draft.finish = Some(Finish::Other(other.to_owned())),
    }
    Ok(())
}

/// Puts a fragment where it belongs. By the book it has an index; in the field some servers send none, and some send
/// every call as number 0 with an id of its own.
fn take_call(fragment: &Value, draft: &mut Draft) -> Result<(), ModelError> {
    let function = &fragment["function"];
    let arguments = match &function["arguments"] {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        object => object.to_string(),
    };
    draft.grow(arguments.len())?;
    let id = text(fragment, "id").filter(|id| !id.is_empty());
    let index = fragment["index"].as_u64().map(|index| index.to_string());
    let call = match place(&index, id, text(function, "name"), draft) {
        Some(at) => draft.call_at(at),
        None => {
            // From now on the number means this call.
            if let Some(at) = draft.position(|call| index.is_some() && call.key == index) {
                draft.call_at(at).key = None;
            }
            let call = draft.add_call()?;
            call.key = index;
            call
        }
    };
    if let Some(id) = id {
        call.id = id.to_owned();
    }
    match text(function, "name") {
        // A name comes whole, or whole again with each fragment.
        Some(name) if !name.is_empty() && call.name != name => call.name.push_str(name),
        _ => {}
    }
    call.arguments.push_str(&arguments);
    Ok(())
}

/// The call that a fragment continues.
fn place(index: &Option<String>, id: Option<&str>, name: Option<&str>, draft: &Draft) -> Option<usize> {
    let same_number = draft.position(|call| {
        let is_other = id.is_some_and(|id| !call.id.is_empty() && call.id != id);
        index.is_some() && call.key == *index && !is_other
    });
    let same_id = || draft.position(|call| id == Some(call.id.as_str()));
    let goes_on = index.is_none() && id.is_none() && name.is_none_or(str::is_empty);
    same_number.or_else(same_id).or_else(|| draft.last_call().filter(|_| goes_on))
}

fn read_usage(usage: &Value) -> Usage {
    let (input, output) = (count(usage, &["prompt_tokens"]), count(usage, &["completion_tokens"]));
    Usage {
        input,
        cached_input: count(usage, &["prompt_tokens_details", "cached_tokens"]),
        cache_write: count(usage, &["prompt_tokens_details", "cache_write_tokens"]),
        output,
        reasoning: count(usage, &["completion_tokens_details", "reasoning_tokens"]),
        total: count(usage, &["total_tokens"]).max(input + output),
        cost: usage["cost"].as_f64(),
    }
}

/// What a failure told in the stream means. OpenRouter gives its code as a number, an HTTP status.
fn failure(provider: ProviderKind, error: &Value) -> ModelError {
    let message = match error {
        Value::String(message) => message,
        error => text(error, "message").unwrap_or("the provider gave no reason"),
    };
    if let Some(status) = error["code"].as_u64().and_then(|code| u16::try_from(code).ok()) {
        return crate::client::told_by_status(provider, status, message);
    }
    let code = text(error, "code").or_else(|| text(error, "type")).unwrap_or_default();
    crate::client::told_in_stream(provider, code, message)
}
