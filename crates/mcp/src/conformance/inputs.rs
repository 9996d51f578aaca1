//! Questions to the client, and its answers (`input_required`).

use rmcp::ErrorData;
use rmcp::model::{InputRequest, InputRequiredResult, InputResponses, RequestStateCodec};
use serde_json::{Value, json};

/// A form with these fields, all of them required.
pub(super) fn elicitation(message: &str, properties: Value) -> Value {
    let required: Vec<_> = properties.as_object().map(|p| p.keys().cloned().collect()).unwrap_or_default();
    json!({ "method": "elicitation/create", "params": { "mode": "form", "message": message,
        "requestedSchema": { "type": "object", "properties": properties, "required": required } } })
}

/// A question for the client's model.
pub(super) fn sampling(text: &str, tokens: u32) -> Value {
    json!({ "method": "sampling/createMessage", "params": { "maxTokens": tokens,
        "messages": [{ "role": "user", "content": { "type": "text", "text": text } }] } })
}

/// A question for the client's roots.
pub(super) fn roots() -> Value {
    json!({ "method": "roots/list", "params": {} })
}

/// What must be answered first.
pub(super) fn required(questions: &[(&str, Value)], state: Option<&str>) -> Result<InputRequiredResult, ErrorData> {
    let wrong = |why: serde_json::Error| ErrorData::internal_error(why.to_string(), None);
    let questions = questions
        .iter()
        .map(|(key, value)| Ok(((*key).to_owned(), serde_json::from_value::<InputRequest>(value.clone())?)))
        .collect::<Result<_, _>>()
        .map_err(wrong)?;
    Ok(InputRequiredResult::new(Some(questions), state.map(seal).transpose()?))
}

/// A field of a form that was accepted.
pub(super) fn field(answers: &InputResponses, key: &str, field: &str) -> Option<Value> {
    let answer = answers.get(key)?;
    (answer["action"] == "accept").then(|| answer["content"].get(field).cloned()).flatten()
}

fn codec() -> Result<RequestStateCodec, ErrorData> {
    RequestStateCodec::try_new(b"the conformance suite's own state key".to_vec())
        .map_err(|why| ErrorData::internal_error(why.to_string(), None))
}

fn seal(state: &str) -> Result<String, ErrorData> {
    Ok(codec()?.seal(state.as_bytes()))
}

/// A state that came back, if it is as it was given.
pub(super) fn opened(state: Option<&str>) -> Result<Option<String>, ErrorData> {
    let Some(state) = state else { return Ok(None) };
    let bytes = codec()?.open(state);
    let bytes = bytes.map_err(|why| ErrorData::invalid_params(why.to_string(), None))?;
    Ok(String::from_utf8(bytes).ok())
}
