//! Arguments as models write them.

use serde_json::{Map, Value};

/// A call's arguments. Models get types wrong now and then: a number as text is taken as the number.
#[derive(Debug)]
pub(crate) struct Arguments(pub(crate) Map<String, Value>);

impl Arguments {
    /// A text that must be there.
    pub(crate) fn text(&self, key: &str) -> Result<&str, String> {
        match self.0.get(key) {
            Some(Value::String(text)) => Ok(text),
            None | Some(Value::Null) => Err(format!("{key} is required")),
            Some(_) => Err(format!("{key} must be a string")),
        }
    }

    /// A text that may be there; an empty one counts as none.
    pub(crate) fn optional_text(&self, key: &str) -> Result<Option<&str>, String> {
        match self.0.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str()).filter(|text| !text.is_empty())),
            Some(_) => Err(format!("{key} must be a string")),
        }
    }

    /// A whole number that may be there.
    pub(crate) fn optional_number(&self, key: &str) -> Result<Option<i64>, String> {
        let whole = |number: f64| (number.fract() == 0.0 && number.abs() < 1e15).then_some(number as i64);
        let read = match self.0.get(key) {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::Number(number)) => number.as_i64().or_else(|| number.as_f64().and_then(whole)),
            Some(Value::String(text)) => text.trim().parse().ok(),
            Some(_) => None,
        };
        read.map(Some).ok_or_else(|| format!("{key} must be a whole number"))
    }

    /// Yes or no; absent is no.
    pub(crate) fn flag(&self, key: &str) -> Result<bool, String> {
        match self.0.get(key) {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(yes)) => Ok(*yes),
            Some(_) => Err(format!("{key} must be true or false")),
        }
    }

    /// Texts that may be there; one alone counts as a list.
    pub(crate) fn texts(&self, key: &str) -> Result<Vec<String>, String> {
        match self.0.get(key) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::String(text)) => Ok(vec![text.clone()]),
            Some(Value::Array(items)) => {
                let one = |item: &Value| item.as_str().map(str::to_owned).ok_or(format!("{key} must be strings"));
                items.iter().map(one).collect()
            }
            Some(_) => Err(format!("{key} must be an array of strings")),
        }
    }
}
