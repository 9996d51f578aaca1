//! Tool calls as clients see them: short names, camel-case arguments, results with their diff.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The time-out of a shell command that names none, in seconds.
pub const DEFAULT_SHELL_TIMEOUT: u64 = 30;

/// A tool call in the words of older clients.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LegacyTool {
    /// `edit`, `write` or `shell`.
    pub kind: String,
    /// The file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// All replacements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edits: Option<Vec<Edit>>,
    /// The first replacement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_text: Option<String>,
    /// The first replacement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_text: Option<String>,
    /// The command line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// A replacement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Edit {
    /// What stood there.
    pub old_text: String,
    /// What stands there now.
    pub new_text: String,
}

/// What a tool returned.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolOutcome {
    /// Its text.
    pub content: String,
    /// Whether it failed, was declined or cancelled.
    pub is_error: bool,
    /// `{type, data, mimeType}` each.
    pub images: Vec<Value>,
    /// A unified diff of what it changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// The files it changed, as far as it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_files: Option<Vec<String>>,
    /// Where the change begins, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_changed_line: Option<u64>,
}

/// The name a client knows a tool by.
pub fn event_name(name: &str) -> &str {
    match name {
        "read_file" => "read",
        "write_file" => "write",
        "edit_file" => "edit",
        "run_shell_command" => "bash",
        other => other,
    }
}

/// The arguments in a client's words, for events: a shell command's time-out is `timeout`, and always told.
pub fn event_args(name: &str, args: &Value) -> Value {
    normalised(name, args, "timeout", Some(DEFAULT_SHELL_TIMEOUT))
}

/// The same for transcripts, where it is `timeoutSeconds`, and told where the model named one.
pub fn transcript_args(name: &str, args: &Value) -> Value {
    normalised(name, args, "timeoutSeconds", None)
}

fn normalised(name: &str, args: &Value, timeout: &str, default: Option<u64>) -> Value {
    match name {
        "edit_file" | "edit" => json!({ "path": text(args, "path"), "edits": edits(args) }),
        "write_file" | "write" => json!({ "path": text(args, "path"), "content": text(args, "content") }),
        "run_shell_command" | "bash" => {
            let named = ["timeout_seconds", "timeout", "timeoutSeconds"].iter().find_map(|key| args.get(*key));
            let seconds = named.filter(|value| value.is_number()).cloned().or_else(|| default.map(Value::from));
            let mut shell = Map::new();
            shell.insert("command".into(), text(args, "command").into());
            shell.extend(seconds.map(|seconds| (timeout.to_owned(), seconds)));
            Value::Object(shell)
        }
        _ => camel_keys(args),
    }
}

/// The same in the words of older clients, for the three tools they know.
pub fn legacy(name: &str, args: &Value) -> Option<LegacyTool> {
    let none =
        LegacyTool { kind: String::new(), path: None, edits: None, old_text: None, new_text: None, command: None };
    match name {
        "edit_file" => {
            let edits = edits(args);
            let first = edits.first().cloned();
            Some(LegacyTool {
                kind: "edit".into(),
                path: Some(text(args, "path")),
                old_text: first.as_ref().map(|edit| edit.old_text.clone()),
                new_text: first.map(|edit| edit.new_text),
                edits: Some(edits),
                ..none
            })
        }
        "write_file" => Some(LegacyTool { kind: "write".into(), path: Some(text(args, "path")), ..none }),
        "run_shell_command" => {
            Some(LegacyTool { kind: "shell".into(), command: Some(text(args, "command")), ..none })
        }
        _ => None,
    }
}

/// The arguments of a call, from the text the model wrote. What is no object counts as none.
pub fn parse_arguments(arguments: &str) -> Value {
    match serde_json::from_str(arguments) {
        Ok(Value::Object(map)) => Value::Object(map),
        _ => Value::Object(Map::new()),
    }
}

/// Whether a stored result says by its first word that it failed.
pub fn is_error_text(text: &str) -> bool {
    ["Error:", "Declined:", "Cancelled."].iter().any(|prefix| text.starts_with(prefix))
}

/// The diff in a stored result: from the first line that begins one.
pub fn diff_in(text: &str) -> Option<&str> {
    let at = if text.starts_with("--- ") { 0 } else { text.find("\n--- ")? + 1 };
    Some(&text[at..])
}

/// The files that a stored result says were changed.
pub fn changed_files(name: &str, args: &Value, result: &str) -> Option<Vec<String>> {
    if !matches!(name, "write_file" | "edit_file" | "write" | "edit") || is_error_text(result) {
        return None;
    }
    let first = result.lines().next().unwrap_or_default();
    let said = first
        .strip_prefix("Edited ")
        .map(|rest| rest.split_once(": ").map_or(rest, |(path, _)| path))
        .or_else(|| first.strip_prefix("Wrote ")?.split_once(" bytes to ").map(|(_, path)| path));
    let path = args.get("path").and_then(Value::as_str).or(said)?;
    Some(vec![path.to_owned()])
}

fn text(args: &Value, key: &str) -> String {
    match args.get(key) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    }
}

fn edits(args: &Value) -> Vec<Edit> {
    let edit = |edit: &Value| {
        let part = |snake: &str, camel: &str| {
            let value = edit.get(snake).or_else(|| edit.get(camel));
            value.and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        Edit { old_text: part("old_text", "oldText"), new_text: part("new_text", "newText") }
    };
    args.get("edits").and_then(Value::as_array).map(|edits| edits.iter().map(edit).collect()).unwrap_or_default()
}

fn camel_keys(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(map.iter().map(|(key, value)| (camel(key), camel_keys(value))).collect()),
        Value::Array(items) => Value::Array(items.iter().map(camel_keys).collect()),
        other => other.clone(),
    }
}

fn camel(key: &str) -> String {
    let mut parts = key.split('_');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let mut chars = part.chars();
        if let Some(first) = chars.next() {
            out.extend(first.to_uppercase());
            out.push_str(chars.as_str());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_the_contracts_examples() {
        let edit = json!({ "path": "a", "edits": [{ "old_text": "x", "new_text": "y" }] });
        assert_eq!(
            event_args("edit_file", &edit),
            json!({ "path": "a", "edits": [{ "oldText": "x", "newText": "y" }] })
        );
        let write = json!({ "path": "a", "content": "c", "mode": 3 });
        assert_eq!(event_args("write_file", &write), json!({ "path": "a", "content": "c" }));
        let shell = json!({ "command": "ls" });
        assert_eq!(event_args("run_shell_command", &shell), json!({ "command": "ls", "timeout": 30 }));
        assert_eq!(transcript_args("run_shell_command", &shell), json!({ "command": "ls" }));
        let patient = json!({ "command": "ls", "timeout_seconds": 5 });
        assert_eq!(transcript_args("run_shell_command", &patient), json!({ "command": "ls", "timeoutSeconds": 5 }));
        let other = json!({ "max_results": 3, "nested": [{ "a_b": 1 }] });
        assert_eq!(event_args("web_search", &other), json!({ "maxResults": 3, "nested": [{ "aB": 1 }] }));
        assert_eq!(event_name("run_shell_command"), "bash");
        assert_eq!(event_name("code_search"), "code_search");
    }

    #[test]
    fn older_clients_know_three_tools() {
        let edit = json!({ "path": "a", "edits": [{ "old_text": "x", "new_text": "y" }] });
        assert_eq!(
            json!(legacy("edit_file", &edit)),
            json!({ "kind": "edit", "path": "a", "edits": [{ "oldText": "x", "newText": "y" }], "oldText": "x", "newText": "y" })
        );
        assert_eq!(
            json!(legacy("run_shell_command", &json!({ "command": "ls" }))),
            json!({ "kind": "shell", "command": "ls" })
        );
        assert_eq!(legacy("read_file", &json!({})), None);
    }

    #[test]
    fn stored_results_tell_what_they_changed() {
        let text = "Edited a.rs: replaced 1 block(s)\n--- a.rs\n+++ a.rs\n";
        assert_eq!(diff_in(text), Some("--- a.rs\n+++ a.rs\n"));
        assert_eq!(changed_files("edit_file", &json!({}), text), Some(vec!["a.rs".into()]));
        assert_eq!(changed_files("write_file", &json!({}), "Wrote 5 bytes to b c.txt"), Some(vec!["b c.txt".into()]));
        assert_eq!(changed_files("read_file", &json!({ "path": "a" }), "text"), None);
        assert!(is_error_text("Error: no") && is_error_text("Cancelled.") && !is_error_text("Unknown tool: x"));
    }
}
