//! How a probe of an owner's pack is run: `{"command": ["/usr/local/bin/depth", "--queue", "{queue}"], "output": "json"}`.

use std::path::PathBuf;

use convoke_sonde::manifest::ProbeSpec;
use convoke_sonde::params::{ParamSpec, ParamType};
use serde_json::{Map, Value};

use super::guard;

/// Most arguments.
const MAX_ARGUMENTS: usize = 64;

/// A command with places for parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) program: PathBuf,
    arguments: Vec<Vec<Part>>,
    pub(super) is_json: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Param(String),
}

impl Run {
    /// Reads and checks the `run` of a probe.
    pub(super) fn read(run: &Value, spec: &ProbeSpec) -> Result<Self, String> {
        let Some(map) = run.as_object() else { return Err("`run` must have a `command`".into()) };
        if let Some(other) = map.keys().find(|key| !["command", "output"].contains(&key.as_str())) {
            return Err(format!("`run` has no `{other}`: it has `command` and `output`"));
        }
        let is_json = match map.get("output").map(Value::as_str) {
            None | Some(Some("json")) => true,
            Some(Some("text")) => false,
            Some(_) => return Err("`output` must be json or text".into()),
        };
        let texts: Option<Vec<&str>> =
            map.get("command").and_then(Value::as_array).and_then(|list| list.iter().map(Value::as_str).collect());
        let Some((program, arguments)) = texts.as_deref().and_then(<[&str]>::split_first) else {
            return Err("`command` must be a list of texts: a program and its arguments".into());
        };
        if arguments.len() > MAX_ARGUMENTS {
            return Err(format!("a command has at most {MAX_ARGUMENTS} arguments"));
        }
        let program = PathBuf::from(program);
        if !program.is_absolute() {
            return Err("the program must be an absolute path".into());
        }
        guard::check_program(&program)?;
        let arguments = arguments.iter().map(|text| parts(text, spec)).collect::<Result<_, _>>()?;
        Ok(Self { program, arguments, is_json })
    }

    /// The arguments with their places filled.
    pub(super) fn arguments(&self, params: &Map<String, Value>) -> Vec<Argument> {
        let fill = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Param(name) => written(params.get(name).unwrap_or(&Value::Null)),
        };
        let is_param = |part: &Part| matches!(part, Part::Param(_));
        let argument = |parts: &Vec<Part>| Argument {
            text: parts.iter().map(fill).collect(),
            is_built: parts.iter().any(is_param),
        };
        self.arguments.iter().map(argument).collect()
    }
}

/// One argument of a command that is about to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Argument {
    pub(crate) text: String,
    /// Whether a parameter is in it.
    pub(crate) is_built: bool,
}

impl AsRef<str> for Argument {
    fn as_ref(&self) -> &str {
        &self.text
    }
}

/// Whole numbers without a point: programs expect them so.
fn written(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_f64() {
            Some(n) if n.fract() == 0.0 && n.abs() < 9e15 => format!("{}", n as i64),
            _ => number.to_string(),
        },
        Value::Bool(yes) => yes.to_string(),
        _ => String::new(),
    }
}

fn parts(text: &str, spec: &ProbeSpec) -> Result<Vec<Part>, String> {
    if text.contains('\0') {
        return Err("an argument cannot have a zero byte".into());
    }
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        let (before, after) = rest.split_at(open);
        let Some(close) = after.find('}') else { break };
        let name = &after[1..close];
        let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if is_name {
            let param = spec.params.get(name).ok_or_else(|| format!("`{{{name}}}` is not a parameter of it"))?;
            fits(name, param, parts.is_empty() && before.is_empty())?;
            push(&mut parts, before);
            parts.push(Part::Param(name.to_owned()));
        } else {
            push(&mut parts, &rest[..open + close + 1]);
        }
        rest = &after[close + 1..];
    }
    push(&mut parts, rest);
    Ok(parts)
}

fn push(parts: &mut Vec<Part>, text: &str) {
    if !text.is_empty() {
        parts.push(Part::Text(text.to_owned()));
    }
}

/// A value may stand in an argument only if it cannot be taken for something else there.
fn fits(name: &str, param: &ParamSpec, leads: bool) -> Result<(), String> {
    if !param.required && param.default.is_none() {
        return Err(format!("parameter {name} is used in the command: make it required, or give it a default"));
    }
    match param.kind {
        ParamType::String if param.format.is_none() && param.one_of.is_empty() => Err(format!(
            "parameter {name} is used in the command: give it a `format` (host, name, path) or an `enum`"
        )),
        // A value that begins with '-' would be an option.
        ParamType::Number if leads && param.minimum.is_none_or(|min| min < 0.0) => {
            Err(format!("parameter {name} begins an argument: give it a `minimum` of 0 or more"))
        }
        _ => Ok(()),
    }
}
