//! Messages as they are stored, and as clients see them (`tauren-transcript-v1`).

use std::borrow::Cow;
use std::collections::HashMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::attachment::MIME_TYPES;
use crate::tool;

/// A message as a session file has it: provider-neutral, with members we may not know of kept as they are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Stored(pub Map<String, Value>);

/// The speaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A person.
    User,
    /// A model.
    Assistant,
    /// A tool.
    Tool,
    /// The summary of what was before.
    Summary,
    /// Instructions; never stored by us.
    System,
    /// Something newer.
    Other,
}

/// A call as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Call<'a> {
    /// The call's id.
    pub id: &'a str,
    /// The tool.
    pub name: &'a str,
    /// JSON as the model wrote it.
    pub arguments: Cow<'a, str>,
    /// The whole of it.
    pub raw: &'a Value,
}

impl Stored {
    /// From an object; anything else is an empty one.
    pub fn from_value(value: Value) -> Self {
        match value {
            Value::Object(map) => Self(map),
            _ => Self::default(),
        }
    }

    /// The speaker.
    pub fn role(&self) -> Role {
        match self.text_of("role").unwrap_or_default() {
            "user" => Role::User,
            "assistant" => Role::Assistant,
            "tool" | "toolResult" => Role::Tool,
            "compactionSummary" => Role::Summary,
            "system" => Role::System,
            _ => Role::Other,
        }
    }

    /// A member that is text.
    pub fn text_of(&self, key: &str) -> Option<&str> {
        self.0.get(key).and_then(Value::as_str)
    }

    /// A member that is text, under the first of its names that is there: files have them in both spellings.
    fn text_under(&self, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|name| self.text_of(name))
    }

    /// The call that a tool's result answers.
    pub fn call_id(&self) -> Option<&str> {
        self.text_under(&["tool_call_id", "toolCallId"])
    }

    /// Its text, parts put together. Whatever part has a text counts, but for thoughts.
    pub fn text(&self) -> String {
        match self.0.get("content") {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Array(parts)) => {
                let texts = parts.iter().filter_map(|part| match part {
                    Value::String(text) => Some(text.as_str()),
                    part if matches!(kind_of(part), Some("thinking" | "reasoning" | "image" | "toolCall")) => None,
                    part => part.get("text").and_then(Value::as_str),
                });
                texts.collect::<Vec<_>>().join("\n")
            }
            _ => String::new(),
        }
    }

    /// What to show of a person's message: what was typed, where that differs from what was sent.
    pub fn display_text(&self) -> String {
        self.text_under(&["display_content", "displayContent"]).map_or_else(|| self.text(), str::to_owned)
    }

    /// Its images of the kinds that clients show.
    pub fn images(&self) -> impl Iterator<Item = &Value> {
        let parts = self.0.get("content").and_then(Value::as_array).into_iter().flatten();
        parts.filter(|part| {
            let has_data = part.get("data").and_then(Value::as_str).is_some_and(|data| !data.is_empty());
            kind_of(part) == Some("image") && has_data && mime_type(part).is_some()
        })
    }

    /// The tools it calls: as providers write them, or as parts of its content.
    pub fn calls(&self) -> impl Iterator<Item = Call<'_>> {
        let listed = self.0.get("tool_calls").or_else(|| self.0.get("toolCalls")).and_then(Value::as_array);
        let parts = self.0.get("content").and_then(Value::as_array).into_iter().flatten();
        let parts = parts.filter(|part| kind_of(part) == Some("toolCall"));
        listed.into_iter().flatten().chain(parts).filter_map(|raw| {
            let function = raw.get("function").unwrap_or(raw);
            Some(Call {
                id: raw.get("id").and_then(Value::as_str).unwrap_or_default(),
                name: function.get("name").and_then(Value::as_str)?,
                arguments: match function.get("arguments") {
                    Some(Value::String(text)) => Cow::Borrowed(text),
                    Some(object @ Value::Object(_)) => Cow::Owned(object.to_string()),
                    _ => Cow::Borrowed("{}"),
                },
                raw,
            })
        })
    }

    /// Whether a tool's result is a failure: as stored, else by its first word.
    pub fn is_error(&self) -> bool {
        let stored = self.0.get("is_error").or_else(|| self.0.get("isError")).and_then(Value::as_bool);
        stored.unwrap_or_else(|| tool::is_error_text(&self.text()))
    }
}

fn kind_of(part: &Value) -> Option<&str> {
    part.get("type").and_then(Value::as_str)
}

/// The MIME type of a stored image, if clients and models show its kind; under each of the names that files give it.
pub fn mime_type(part: &Value) -> Option<&'static str> {
    let stored = ["mimeType", "mime_type", "media_type"].iter().find_map(|name| part.get(name)?.as_str())?;
    let stored = if stored.eq_ignore_ascii_case("image/jpg") { "image/jpeg" } else { stored };
    MIME_TYPES.into_iter().find(|known| stored.eq_ignore_ascii_case(known))
}

/// A message as clients see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Shown {
    /// From a known speaker.
    Known(KnownShown),
    /// Something newer, as it is stored.
    Other(Map<String, Value>),
}

/// A message of a known speaker: `role` says which.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "role", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum KnownShown {
    /// A person.
    User {
        /// Text and images.
        content: Vec<ShownPart>,
    },
    /// A model.
    Assistant {
        /// Thinking, then text, then tool calls.
        content: Vec<ShownPart>,
        /// Why it broke off.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error_message: Option<String>,
    },
    /// A tool.
    ToolResult {
        /// The call it answers.
        tool_call_id: String,
        /// `read`, `write`, `edit`, `bash`, or the tool's own name.
        tool_name: String,
        /// Whether it failed.
        is_error: bool,
        /// Text and images.
        content: Vec<ShownPart>,
        /// What it changed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        details: Option<ShownDetails>,
    },
    /// The summary of what was before.
    CompactionSummary {
        /// The summary.
        summary: String,
        /// What it stands for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tokens_before: Option<u64>,
    },
}

/// A part of a message: `type` says which.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ShownPart {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// What the model thought.
    Thinking {
        /// The thought.
        thinking: String,
    },
    /// A picture.
    Image {
        /// Base64.
        data: String,
        /// One of [`MIME_TYPES`].
        mime_type: String,
        /// Its name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        alt: Option<String>,
    },
    /// A tool that the model calls.
    ToolCall {
        /// The call's id.
        id: String,
        /// `read`, `write`, `edit`, `bash`, or the tool's own name.
        name: String,
        /// Normalised.
        arguments: Value,
    },
}

/// What a tool changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShownDetails {
    /// A unified diff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// Which files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_files: Option<Vec<String>>,
}

/// A conversation as clients see it.
pub fn shown<'a>(messages: impl IntoIterator<Item = &'a Stored>) -> Vec<Shown> {
    let mut calls: HashMap<String, (String, Value)> = HashMap::new();
    let mut out = Vec::new();
    for message in messages {
        for call in message.calls() {
            calls.insert(call.id.to_owned(), (call.name.to_owned(), tool::parse_arguments(&call.arguments)));
        }
        let known = match message.role() {
            Role::System => continue,
            Role::User => KnownShown::User { content: text_and_images(message) },
            Role::Assistant => assistant(message),
            Role::Tool => result(message, &calls),
            Role::Summary => KnownShown::CompactionSummary {
                summary: summary_of(message).to_owned(),
                tokens_before: message
                    .0
                    .get("tokens_before")
                    .or_else(|| message.0.get("tokensBefore"))
                    .and_then(Value::as_u64),
            },
            Role::Other => {
                out.push(Shown::Other(message.0.clone()));
                continue;
            }
        };
        out.push(Shown::Known(known));
    }
    out
}

/// The text of a summary.
pub fn summary_of(message: &Stored) -> &str {
    message.text_of("summary").or_else(|| message.text_of("content")).unwrap_or_default()
}

fn text_and_images(message: &Stored) -> Vec<ShownPart> {
    let mut content = Vec::new();
    let text = message.display_text();
    if !text.is_empty() {
        content.push(ShownPart::Text { text });
    }
    content.extend(message.images().map(image));
    content
}

fn image(part: &Value) -> ShownPart {
    let text = |key: &str| part.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let file_name = |path: &str| path.rsplit(['/', '\\']).next().unwrap_or_default().to_owned();
    ShownPart::Image {
        data: text("data").unwrap_or_default().to_owned(),
        mime_type: mime_type(part).unwrap_or_default().to_owned(),
        // A picture that was found by its path is known by its name.
        alt: text("alt").map(str::to_owned).or_else(|| text("path").map(file_name)),
    }
}

fn assistant(message: &Stored) -> KnownShown {
    let mut content = Vec::new();
    let parts = message.0.get("content").and_then(Value::as_array).into_iter().flatten();
    for part in parts {
        let thought = ["thinking", "reasoning", "text"].iter().find_map(|key| part.get(*key).and_then(Value::as_str));
        if let (Some("thinking" | "reasoning"), Some(thought)) = (kind_of(part), thought) {
            content.push(ShownPart::Thinking { thinking: thought.to_owned() });
        }
    }
    let summary = message.text_under(&["reasoning_summary", "reasoningSummary"]);
    let summary = summary.filter(|text| !text.is_empty() && content.is_empty());
    content.extend(summary.map(|summary| ShownPart::Thinking { thinking: summary.to_owned() }));
    let text = message.text();
    if !text.is_empty() {
        content.push(ShownPart::Text { text });
    }
    content.extend(message.calls().map(|call| ShownPart::ToolCall {
        id: call.id.to_owned(),
        name: tool::event_name(call.name).to_owned(),
        arguments: tool::transcript_args(call.name, &tool::parse_arguments(&call.arguments)),
    }));
    let error_message = message.text_under(&["errorMessage", "error_message"]).filter(|text| !text.is_empty());
    KnownShown::Assistant { content, error_message: error_message.map(str::to_owned) }
}

fn result(message: &Stored, calls: &HashMap<String, (String, Value)>) -> KnownShown {
    let id = message.call_id().unwrap_or_default();
    let none = (String::new(), json!({}));
    let (called, args) = calls.get(id).unwrap_or(&none);
    let name = message.text_under(&["toolName", "tool_name", "name"]).unwrap_or(called);
    let text = message.text();
    let is_error = message.is_error();
    // What a file says of it outright counts more than what can be read out of the text.
    let said: Option<ShownDetails> =
        message.0.get("details").and_then(|details| ShownDetails::deserialize(details).ok()).filter(|_| !is_error);
    let said = said.unwrap_or(ShownDetails { diff: None, changed_files: None });
    let diff = said.diff.or_else(|| tool::diff_in(&text).filter(|_| !is_error).map(str::to_owned));
    let found = if is_error { None } else { tool::changed_files(name, args, &text) };
    let changed_files = said.changed_files.or(found);
    // Only a tool that changes files has a diff of its own; another may merely have read one.
    let diff = diff.filter(|_| changed_files.is_some());
    let details = (diff.is_some() || changed_files.is_some()).then_some(ShownDetails { diff, changed_files });
    let mut content = vec![ShownPart::Text { text }];
    content.extend(message.images().map(image));
    KnownShown::ToolResult {
        tool_call_id: id.to_owned(),
        tool_name: tool::event_name(name).to_owned(),
        is_error,
        content,
        details,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(messages: Value, expect: Value) {
        let messages: Vec<Stored> = serde_json::from_value(messages).unwrap();
        assert_eq!(json!(shown(&messages)), expect);
    }

    #[test]
    fn thinking_stands_before_text_and_text_before_calls() {
        check(
            json!([
                { "role": "system", "content": "no" },
                { "role": "user", "content": "expanded", "display_content": "/plan x" },
                { "role": "assistant", "content": "t", "reasoning_summary": "r", "tool_calls": [
                    { "id": "c", "type": "function", "function": { "name": "run_shell_command", "arguments": "{\"command\":\"ls\"}" } }] },
                { "role": "tool", "tool_call_id": "c", "name": "run_shell_command", "content": "Exit status: 0" },
                { "role": "compactionSummary", "summary": "s", "tokens_before": 5 },
                { "role": "branchSummary", "summary": "b" },
            ]),
            json!([
                { "role": "user", "content": [{ "type": "text", "text": "/plan x" }] },
                { "role": "assistant", "content": [
                    { "type": "thinking", "thinking": "r" }, { "type": "text", "text": "t" },
                    { "type": "toolCall", "id": "c", "name": "bash", "arguments": { "command": "ls" } }] },
                { "role": "toolResult", "toolCallId": "c", "toolName": "bash", "isError": false,
                  "content": [{ "type": "text", "text": "Exit status: 0" }] },
                { "role": "compactionSummary", "summary": "s", "tokensBefore": 5 },
                { "role": "branchSummary", "summary": "b" },
            ]),
        );
    }

    #[test]
    fn thinking_parts_win_over_the_summary_and_unknown_images_are_dropped() {
        check(
            json!([
                { "role": "user", "content": [{ "type": "text", "text": "a" },
                    { "type": "image", "data": "AA==", "mimeType": "image/png", "alt": "x" },
                    { "type": "image", "data": "AA==", "mimeType": "image/bmp" }] },
                { "role": "assistant", "reasoning_summary": "no", "content": [
                    { "type": "reasoning", "text": "one" }, { "type": "text", "text": "t" }, { "type": "thinking", "thinking": "two" }] },
            ]),
            json!([
                { "role": "user", "content": [{ "type": "text", "text": "a" },
                    { "type": "image", "data": "AA==", "mimeType": "image/png", "alt": "x" }] },
                { "role": "assistant", "content": [{ "type": "thinking", "thinking": "one" },
                    { "type": "thinking", "thinking": "two" }, { "type": "text", "text": "t" }] },
            ]),
        );
    }

    #[test]
    fn both_spellings_of_a_member_are_read() {
        check(
            json!([
                { "role": "user", "content": "sent", "displayContent": "typed" },
                { "role": "assistant", "reasoningSummary": "r", "errorMessage": "", "content": [{ "type": "output_text", "text": "t" },
                    { "type": "toolCall", "id": "c", "name": "edit", "arguments": { "path": "a", "edits": [{ "oldText": "x", "newText": "y" }] } }] },
                { "role": "toolResult", "toolCallId": "c", "content": "done", "details": { "diff": "--- a", "changedFiles": ["a"], "more": 1 } },
                { "role": "compactionSummary", "content": "s", "tokensBefore": 7 },
            ]),
            json!([
                { "role": "user", "content": [{ "type": "text", "text": "typed" }] },
                { "role": "assistant", "content": [{ "type": "thinking", "thinking": "r" }, { "type": "text", "text": "t" },
                    { "type": "toolCall", "id": "c", "name": "edit", "arguments": { "path": "a", "edits": [{ "oldText": "x", "newText": "y" }] } }] },
                { "role": "toolResult", "toolCallId": "c", "toolName": "edit", "isError": false,
                  "content": [{ "type": "text", "text": "done" }], "details": { "diff": "--- a", "changedFiles": ["a"] } },
                { "role": "compactionSummary", "summary": "s", "tokensBefore": 7 },
            ]),
        );
    }

    #[test]
    fn a_picture_that_was_found_by_its_path_is_known_by_its_name() {
        check(
            json!([{ "role": "user", "content": [
                { "type": "image", "data": "AA==", "media_type": "image/JPG", "path": "/pictures/Shot one.jpg" },
                { "type": "image", "data": "", "media_type": "image/png" }] }]),
            json!([{ "role": "user", "content": [
                { "type": "image", "data": "AA==", "mimeType": "image/jpeg", "alt": "Shot one.jpg" }] }]),
        );
    }

    #[test]
    fn a_result_tells_what_it_changed_and_whether_it_failed() {
        let edit = "Edited a: replaced 1 block(s)\n--- a\n+++ a\n@@ -1 +1 @@\n-x\n+y\n";
        check(
            json!([
                { "role": "tool", "tool_call_id": "c", "name": "edit_file", "content": edit },
                { "role": "tool", "tool_call_id": "d", "name": "read_file", "content": "--- a\nfront matter" },
                { "role": "tool", "tool_call_id": "e", "name": "write_file", "content": "Error: outside" },
            ]),
            json!([
                { "role": "toolResult", "toolCallId": "c", "toolName": "edit", "isError": false,
                  "content": [{ "type": "text", "text": edit }],
                  "details": { "diff": "--- a\n+++ a\n@@ -1 +1 @@\n-x\n+y\n", "changedFiles": ["a"] } },
                { "role": "toolResult", "toolCallId": "d", "toolName": "read", "isError": false,
                  "content": [{ "type": "text", "text": "--- a\nfront matter" }] },
                { "role": "toolResult", "toolCallId": "e", "toolName": "write", "isError": true,
                  "content": [{ "type": "text", "text": "Error: outside" }] },
            ]),
        );
    }
}
