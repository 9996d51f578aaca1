//! What a script printed. PowerShell drops the brackets of a list of one, and prints nothing for a list of none.

use serde_json::Value;

/// The one value in a script's output. Nothing is null.
pub(super) fn parse(output: &str) -> Result<Value, String> {
    let text = output.trim().trim_start_matches('\u{feff}');
    if text.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_str(text).map_err(|error| format!("the script did not print JSON: {error}"))
}

/// A list, whatever became of its brackets.
pub(super) fn list(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) => items,
        Value::Null => &[],
        one => std::slice::from_ref(one),
    }
}

/// A text; numbers count as their digits.
pub(super) fn text(value: &Value, key: &str) -> Option<String> {
    match &value[key] {
        Value::String(text) => Some(crate::text::one_line(text, 500)).filter(|text| !text.is_empty()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// A number, also one that was printed as text.
pub(super) fn number(value: &Value, key: &str) -> Option<f64> {
    match &value[key] {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
    .filter(|number| number.is_finite())
}

/// A whole number that is not negative.
pub(super) fn whole(value: &Value, key: &str) -> Option<u64> {
    number(value, key).filter(|number| *number >= 0.0).map(|number| number as u64)
}

/// True or false.
pub(super) fn truth(value: &Value, key: &str) -> Option<bool> {
    value[key].as_bool()
}

/// To one digit.
pub(super) fn round1(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_lose_their_brackets_and_keep_their_items() {
        assert_eq!(list(&json!([1, 2])).len(), 2);
        assert_eq!(list(&json!({"a": 1})).len(), 1);
        assert!(list(&parse(" \r\n").unwrap()).is_empty());
        assert_eq!(parse("\u{feff}{\"a\":1}\r\n").unwrap(), json!({"a": 1}));
        assert!(parse("Get-Foo : not recognized").is_err());
        assert_eq!(number(&json!({"a": "1.5"}), "a"), Some(1.5));
        assert_eq!(whole(&json!({"a": -1}), "a"), None);
    }
}
