//! What the catalogue's tools answer, as schemas.

use std::collections::HashMap;
use std::sync::LazyLock;

use convoke_kenny::tools::{TOOLS, Tool};
use serde_json::{Map, Value, json};

/// The tool that answers with a picture.
pub(super) const SCREEN: &str = "screen_capture";

/// The shape of a tool's result, read from the catalogue's sketch of it.
pub(super) fn result_of(tool: &Tool) -> Value {
    if tool.name == SCREEN {
        return json!({ "type": "object", "properties": {
            "format": { "type": "string" }, "bytes": { "type": "integer" } },
            "description": "The picture itself comes as image content." });
    }
    SHAPES.get(tool.name).map_or_else(|| json!({}), Shape::schema)
}

/// Whether what a machine answered has the shape that the schema promises; if not, it is shown elsewhere, or a client
/// that checks would throw the whole answer away.
pub(super) fn fits(tool: &str, value: &Value) -> bool {
    if tool == SCREEN {
        return is_capture(value);
    }
    SHAPES.get(tool).is_none_or(|shape| shape.fits(value))
}

/// What is left of a screenshot beside its picture, as [`result_of`] has it.
fn is_capture(value: &Value) -> bool {
    let Some(map) = value.as_object() else { return false };
    let is = |key: &str, fits: fn(&Value) -> bool| map.get(key).is_none_or(fits);
    is("format", Value::is_string) && is("bytes", |bytes| bytes.is_i64() || bytes.is_u64())
}

static SHAPES: LazyLock<HashMap<&'static str, Shape>> =
    LazyLock::new(|| TOOLS.iter().map(|tool| (tool.name, Shape::read(tool.result))).collect());

/// What a sketch says: `{stdout, stderr}`, `{entries: [{name, bytes}]}`. Whatever it leaves open stays open.
#[derive(Debug, PartialEq)]
enum Shape {
    Any,
    Text,
    Bool,
    Number,
    Object(Vec<(String, Shape)>),
    List(Box<Shape>),
}

impl Shape {
    fn read(sketch: &str) -> Self {
        let mut rest = sketch.trim();
        Self::parse(&mut rest, "")
    }

    fn parse(rest: &mut &str, name: &str) -> Self {
        let text = rest.trim_start();
        if let Some(inner) = text.strip_prefix('{') {
            *rest = inner;
            let mut fields = Vec::new();
            loop {
                let trimmed = rest.trim_start();
                if let Some(after) = trimmed.strip_prefix('}') {
                    *rest = after;
                    break;
                }
                let end = trimmed.find([',', ':', '}']).unwrap_or(trimmed.len());
                let field = trimmed[..end].trim().to_owned();
                *rest = &trimmed[end..];
                let shape = match rest.strip_prefix(':') {
                    Some(after) => {
                        *rest = after;
                        Self::parse(rest, &field)
                    }
                    None => Self::of_name(&field),
                };
                // `...` and `<section>` say that there is more than can be named.
                if field.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') && !field.is_empty() {
                    fields.push((field, shape));
                }
                let trimmed = rest.trim_start();
                *rest = trimmed.strip_prefix(',').unwrap_or(trimmed);
                if rest.is_empty() {
                    break;
                }
            }
            return Self::Object(fields);
        }
        if let Some(inner) = text.strip_prefix('[') {
            *rest = inner;
            let item = Self::parse(rest, "");
            let end = rest.find(']').map_or(rest.len(), |at| at + 1);
            *rest = &rest[end..];
            return Self::List(Box::new(item));
        }
        let end = text.find([',', '}', ']']).unwrap_or(text.len());
        *rest = &text[end..];
        Self::of_name(name)
    }

    /// What a field of that name holds in every agent of the field; anything else is left open.
    fn of_name(name: &str) -> Self {
        match name {
            "stdout" | "stderr" | "content" | "name" | "log" | "message" | "command" | "location" | "display"
            | "note" | "format" | "staged_version" | "principal" => Self::Text,
            "ok"
            | "truncated"
            | "is_dir"
            | "launched"
            | "stopped"
            | "installed"
            | "internet_ok"
            | "interactive_session" => Self::Bool,
            "exit_code" | "pid" | "cpu" | "mem_bytes" | "bytes" => Self::Number,
            _ => Self::Any,
        }
    }

    fn schema(&self) -> Value {
        match self {
            Self::Any => json!({}),
            Self::Text => json!({ "type": ["string", "null"] }),
            Self::Bool => json!({ "type": ["boolean", "null"] }),
            Self::Number => json!({ "type": ["number", "null"] }),
            Self::List(item) => json!({ "type": ["array", "null"], "items": item.schema() }),
            Self::Object(fields) => {
                let properties: Map<_, _> = fields.iter().map(|(name, s)| (name.clone(), s.schema())).collect();
                json!({ "type": "object", "properties": properties })
            }
        }
    }

    fn fits(&self, value: &Value) -> bool {
        match self {
            Self::Any => true,
            Self::Text => value.is_string() || value.is_null(),
            Self::Bool => value.is_boolean() || value.is_null(),
            Self::Number => value.is_number() || value.is_null(),
            Self::List(item) => value.as_array().map_or(value.is_null(), |list| list.iter().all(|v| item.fits(v))),
            Self::Object(fields) => value
                .as_object()
                .is_some_and(|map| fields.iter().all(|(name, s)| map.get(name).is_none_or(|v| s.fits(v)))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sketches_become_schemas() {
        let shape = Shape::read("{entries: [{name, is_dir, bytes}]}");
        let item = Shape::Object(vec![
            ("name".into(), Shape::Text),
            ("is_dir".into(), Shape::Bool),
            ("bytes".into(), Shape::Number),
        ]);
        assert_eq!(shape, Shape::Object(vec![("entries".into(), Shape::List(Box::new(item)))]));
        let open = Shape::read("{interfaces: [...], dns: [...]}");
        let list = || Shape::List(Box::new(Shape::Any));
        assert_eq!(open, Shape::Object(vec![("interfaces".into(), list()), ("dns".into(), list())]));
        assert_eq!(Shape::read("{<section>: {status, summary, ...}}"), Shape::Object(vec![]));
        for tool in TOOLS {
            assert_eq!(result_of(tool)["type"], "object", "{}: {}", tool.name, tool.result);
        }
    }

    #[test]
    fn an_answer_of_another_shape_does_not_fit() {
        assert!(fits("shell_exec", &json!({ "stdout": "x", "exit_code": 0, "more": 1 })));
        assert!(fits("shell_exec", &json!({ "stdout": null })));
        assert!(!fits("shell_exec", &json!({ "stdout": ["x"] })));
        assert!(!fits("shell_exec", &json!("x")));
        assert!(!fits("fs_list", &json!({ "entries": [{ "name": 1 }] })));
        assert!(fits("not_a_tool", &json!(1)));
        assert!(fits("screen_capture", &json!({ "format": "png", "bytes": 7, "width": 1.5 })));
        for other in [json!({ "format": 7 }), json!({ "bytes": 1.5 }), json!({ "format": null }), json!("x")] {
            assert!(!fits("screen_capture", &other), "{other}");
        }
    }
}
