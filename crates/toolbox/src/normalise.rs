//! How a call looks in events and transcripts.

use serde_json::{Map, Value, json};

use crate::Call;

/// A call in the words of the event stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Normalised {
    /// `read`, `write`, `edit`, `bash`, or the tool's own name.
    pub tool_name: String,
    /// Arguments with the event stream's keys.
    pub args: Value,
    /// The older form (`kind`, `path`, …) that some clients still read; `edit_file`, `write_file` and
    /// `run_shell_command` have one.
    pub legacy: Option<Value>,
}

/// The event stream's name of a tool.
pub fn event_name(tool: &str) -> &str {
    match tool {
        "read_file" => "read",
        "write_file" => "write",
        "edit_file" => "edit",
        "run_shell_command" => "bash",
        other => other,
    }
}

/// A call as `toolCall` and `toolResult` events show it. Arguments that are no JSON object count as none.
pub fn normalise(call: &Call) -> Normalised {
    let given = call.parsed().unwrap_or_default();
    Normalised {
        tool_name: event_name(&call.name).to_owned(),
        args: arguments(&call.name, &given, "timeout"),
        legacy: legacy(&call.name, &given),
    }
}

/// A call's arguments as transcripts show them: as in events, but a shell command's time-out is `timeoutSeconds`.
pub fn transcript_arguments(call: &Call) -> Value {
    arguments(&call.name, &call.parsed().unwrap_or_default(), "timeoutSeconds")
}

fn arguments(tool: &str, given: &Map<String, Value>, timeout_key: &str) -> Value {
    let of = |key: &str| given.get(key).cloned().unwrap_or(Value::Null);
    match tool {
        "edit_file" => json!({ "path": of("path"), "edits": edits(given) }),
        "write_file" => json!({ "path": of("path"), "content": of("content") }),
        "run_shell_command" => {
            let timeout = given.get("timeout_seconds").filter(|value| !value.is_null()).cloned();
            json!({ "command": of("command"), timeout_key: timeout.unwrap_or(json!(30)) })
        }
        _ => camel_case(&Value::Object(given.clone())),
    }
}

fn edits(given: &Map<String, Value>) -> Vec<Value> {
    let edits = given.get("edits").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let one = |edit: &Value| {
        let text = |snake: &str, camel: &str| edit.get(snake).or_else(|| edit.get(camel)).cloned();
        json!({
            "oldText": text("old_text", "oldText").unwrap_or(Value::Null),
            "newText": text("new_text", "newText").unwrap_or(Value::Null),
        })
    };
    edits.iter().map(one).collect()
}

fn legacy(tool: &str, given: &Map<String, Value>) -> Option<Value> {
    let of = |key: &str| given.get(key).cloned().unwrap_or(Value::Null);
    match tool {
        "edit_file" => {
            let edits = edits(given);
            let first = |key: &str| edits.first().map_or(Value::Null, |edit| edit[key].clone());
            let (old, new) = (first("oldText"), first("newText"));
            Some(json!({ "kind": "edit", "path": of("path"), "edits": edits, "oldText": old, "newText": new }))
        }
        "write_file" => Some(json!({ "kind": "write", "path": of("path") })),
        "run_shell_command" => Some(json!({ "kind": "shell", "command": of("command") })),
        _ => None,
    }
}

fn camel_case(value: &Value) -> Value {
    match value {
        Value::Object(map) => map.iter().map(|(key, value)| (camel_key(key), camel_case(value))).collect(),
        Value::Array(items) => items.iter().map(camel_case).collect(),
        other => other.clone(),
    }
}

fn camel_key(key: &str) -> String {
    let mut words = key.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        camel.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        camel.push_str(letters.as_str());
    }
    camel
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, arguments: Value, tool_name: &str, args: Value, legacy: Value) {
        let call = Call { id: "1".into(), name: name.into(), arguments: arguments.to_string() };
        let seen = normalise(&call);
        assert_eq!(seen.tool_name, tool_name);
        assert_eq!(seen.args, args);
        assert_eq!(seen.legacy.unwrap_or(Value::Null), legacy);
    }

    #[test]
    fn calls_look_as_the_contract_shows_them() {
        check(
            "edit_file",
            json!({ "path": "a", "edits": [{ "old_text": "x", "new_text": "y" }] }),
            "edit",
            json!({ "path": "a", "edits": [{ "oldText": "x", "newText": "y" }] }),
            json!({ "kind": "edit", "path": "a", "edits": [{ "oldText": "x", "newText": "y" }],
                    "oldText": "x", "newText": "y" }),
        );
        check(
            "write_file",
            json!({ "path": "a", "content": "b" }),
            "write",
            json!({ "path": "a", "content": "b" }),
            json!({ "kind": "write", "path": "a" }),
        );
        check(
            "run_shell_command",
            json!({ "command": "ls" }),
            "bash",
            json!({ "command": "ls", "timeout": 30 }),
            json!({ "kind": "shell", "command": "ls" }),
        );
        check(
            "read_file",
            json!({ "path": "a", "offset": 2 }),
            "read",
            json!({ "path": "a", "offset": 2 }),
            json!(null),
        );
        check(
            "web_search",
            json!({ "max_results": 3, "deep": [{ "domain_filter": ["a_b"] }] }),
            "web_search",
            json!({ "maxResults": 3, "deep": [{ "domainFilter": ["a_b"] }] }),
            json!(null),
        );
    }

    #[test]
    fn arguments_that_cannot_be_read_count_as_none() {
        let call = Call { id: "1".into(), name: "mystery".into(), arguments: "{".into() };
        assert_eq!(normalise(&call).args, json!({}));
    }

    #[test]
    fn transcripts_name_the_time_out_differently() {
        let call = Call {
            id: "1".into(),
            name: "run_shell_command".into(),
            arguments: r#"{"command":"ls","timeout_seconds":5}"#.into(),
        };
        assert_eq!(transcript_arguments(&call), json!({ "command": "ls", "timeoutSeconds": 5 }));
    }
}
