//! A probe's parameters, validated against its manifest.
//!
//! The schema of the field knows a type, whether it is required, and a default. What keeps an argument from becoming
//! an option or a path out of bounds is said here too, as data: bounds, lengths, and a form that a text must have.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ParamSpec {
    /// The type.
    #[serde(rename = "type")]
    pub kind: ParamType,
    /// For people.
    #[serde(default)]
    pub description: String,
    /// Whether it must be given.
    #[serde(default)]
    pub required: bool,
    /// The default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// Whole numbers only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub integer: bool,
    /// At least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum: Option<f64>,
    /// At most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maximum: Option<f64>,
    /// A number out of bounds is taken for the nearest within, as Sonde does with numbers of lines.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub clamp: bool,
    /// Longest text, in characters; 255 when nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_length: Option<usize>,
    /// The format that a text must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<Format>,
    /// The only values it may have.
    #[serde(rename = "enum", default, skip_serializing_if = "Vec::is_empty")]
    pub one_of: Vec<String>,
}

/// The type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ParamType {
    /// A text.
    String,
    /// A number.
    Number,
    /// Yes or no.
    Boolean,
}

/// The form of a text. Every one of them refuses a leading `-`, so that no value can be read as an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// A host's name or address.
    Host,
    /// The name of a unit, container, user, …: letters, digits and `._@:-`.
    Name,
    /// An absolute path without `..`.
    Path,
}

/// Why parameters do not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParamError(pub String);

const DEFAULT_MAX_LENGTH: usize = 255;
/// Longest name of a parameter.
pub const MAX_NAME: usize = 64;
/// Most values that a parameter may have to choose from.
const MAX_CHOICES: usize = 256;
/// Names and values that an error lists at most.
const MAX_LISTED: usize = 16;

impl ParamSpec {
    /// Checks the description itself: a default that does not fit would fail every call, and so would a value to choose
    /// that no text can be.
    pub fn check(&self) -> Result<(), String> {
        if self.one_of.len() > MAX_CHOICES {
            return Err(format!("`enum` may have {MAX_CHOICES} values"));
        }
        let longest = self.max_length.unwrap_or(DEFAULT_MAX_LENGTH);
        let odd = |value: &String| value.chars().count() > longest || value.chars().any(char::is_control);
        if self.one_of.iter().any(odd) {
            return Err(format!("a value of `enum` has more than {longest} characters, or control characters"));
        }
        match &self.default {
            Some(value) => self.fits(value).map_err(|why| format!("its default {why}")),
            None => Ok(()),
        }
    }

    /// Whether a value fits; if not, what it would have to be.
    pub fn fits(&self, value: &Value) -> Result<(), String> {
        match (self.kind, value) {
            (ParamType::String, Value::String(text)) => self.fits_text(text),
            (ParamType::Number, Value::Number(number)) => self.fits_number(number.as_f64().unwrap_or(f64::NAN)),
            (ParamType::Boolean, Value::Bool(_)) => Ok(()),
            (ParamType::String, _) => Err("must be a text".into()),
            (ParamType::Number, _) => Err("must be a number".into()),
            (ParamType::Boolean, _) => Err("must be true or false".into()),
        }
    }

    /// The value as the probe gets it.
    fn taken(&self, value: &Value) -> Value {
        let Some(number) = value.as_f64().filter(|_| self.clamp) else { return value.clone() };
        let (low, high) = (self.minimum.unwrap_or(f64::MIN), self.maximum.unwrap_or(f64::MAX));
        if (low..=high).contains(&number) || low > high {
            return value.clone();
        }
        let number = number.clamp(low, high);
        if number.fract() == 0.0 { Value::from(number as i64) } else { Value::from(number) }
    }

    fn fits_number(&self, number: f64) -> Result<(), String> {
        if !number.is_finite() || (self.integer && number.fract() != 0.0) {
            return Err("must be a whole number".into());
        }
        let low = self.minimum.is_some_and(|min| number < min);
        let high = self.maximum.is_some_and(|max| number > max);
        match (low || high, self.minimum, self.maximum) {
            (false, ..) => Ok(()),
            (true, Some(min), Some(max)) => Err(format!("must be from {min} to {max}")),
            (true, Some(min), None) => Err(format!("must be at least {min}")),
            (true, None, max) => Err(format!("must be at most {}", max.unwrap_or(f64::MAX))),
        }
    }

    /// What a text may be. Only values that are names are repeated: any other could be a sentence, and whoever wrote it
    /// would speak in the words of who repeats it.
    fn choices(&self) -> String {
        if self.one_of.iter().all(|value| is_name(value)) {
            return format!("must be one of {}", listed(self.one_of.iter()));
        }
        format!("must be one of the {} values in its description", self.one_of.len())
    }

    fn fits_text(&self, text: &str) -> Result<(), String> {
        let longest = self.max_length.unwrap_or(DEFAULT_MAX_LENGTH);
        if text.chars().count() > longest {
            return Err(format!("must have at most {longest} characters"));
        }
        if text.chars().any(char::is_control) {
            return Err("must not have control characters".into());
        }
        if !self.one_of.is_empty() && !self.one_of.iter().any(|allowed| allowed == text) {
            return Err(self.choices());
        }
        let Some(format) = self.format else { return Ok(()) };
        if text.is_empty() {
            return Err("must not be empty".into());
        }
        if text.starts_with('-') {
            return Err("must not begin with '-'".into());
        }
        let plain = |extra: &[u8]| text.bytes().all(|b| b.is_ascii_alphanumeric() || extra.contains(&b));
        match format {
            Format::Host if !plain(b".:-_%") => Err("must be a host's name or address".into()),
            Format::Name if !plain(b"._@:-\\") => Err("must be letters, digits and ._@:- only".into()),
            Format::Path if !text.starts_with('/') => Err("must be an absolute path".into()),
            Format::Path if text.split('/').any(|part| part == "..") => Err("must not have '..' in it".into()),
            _ => Ok(()),
        }
    }
}

/// Whether a text can be a parameter's name: letters, digits and `._-`, and none too many.
pub fn is_name(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    !text.is_empty() && text.len() <= MAX_NAME && text.bytes().all(plain)
}

/// The first of these, and how many more there are.
fn listed<'a>(names: impl ExactSizeIterator<Item = &'a String>) -> String {
    let more = names.len().saturating_sub(MAX_LISTED);
    let first = names.take(MAX_LISTED).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if more == 0 { first } else { format!("{first} and {more} more") }
}

/// Checks what was given against what a probe takes, and fills in the defaults.
pub fn validate(specs: &BTreeMap<String, ParamSpec>, given: Option<&str>) -> Result<Map<String, Value>, ParamError> {
    let given: Map<String, Value> = match given {
        None => Map::new(),
        Some(text) => {
            serde_json::from_str(text).map_err(|why| ParamError(format!("the parameters are no object: {why}")))?
        }
    };
    if let Some(name) = given.keys().find(|name| !specs.contains_key(*name)) {
        let name: String = name.chars().take(64).collect();
        let known =
            if specs.is_empty() { "it takes none".into() } else { format!("it takes {}", listed(specs.keys())) };
        return Err(ParamError(format!("there is no parameter `{name}`: {known}")));
    }
    let mut out = Map::new();
    for (name, spec) in specs {
        // A null is a parameter that was left open.
        match given.get(name).filter(|v| !v.is_null()) {
            Some(value) => {
                let value = spec.taken(value);
                spec.fits(&value).map_err(|why| ParamError(format!("parameter `{name}` {why}")))?;
                out.insert(name.clone(), value);
            }
            None if spec.required => return Err(ParamError(format!("parameter `{name}` is missing"))),
            None => out.extend(spec.default.clone().map(|value| (name.clone(), value))),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn specs() -> BTreeMap<String, ParamSpec> {
        serde_json::from_str(
            r#"{"host":{"type":"string","description":"","required":true,"format":"host"},
                "count":{"type":"number","description":"","required":false,"default":4,"integer":true,"minimum":1,"maximum":20},
                "path":{"type":"string","description":"","required":false,"format":"path"},
                "unit":{"type":"string","description":"","required":false,"format":"name","maxLength":10},
                "level":{"type":"string","enum":["a","b"]},
                "lines":{"type":"number","integer":true,"minimum":1,"maximum":500,"clamp":true},
                "deep":{"type":"boolean"}}"#,
        )
        .expect("specs")
    }

    #[track_caller]
    fn check(given: &str, expect: Result<&str, &str>) {
        match (validate(&specs(), Some(given)), expect) {
            (Ok(map), Ok(text)) => assert_eq!(Value::Object(map).to_string(), text),
            (Err(error), Err(word)) => assert!(error.0.contains(word), "{} should speak of {word}", error.0),
            (got, _) => panic!("{given}: {got:?}"),
        }
    }

    #[test]
    fn defaults_are_filled_in_and_what_does_not_fit_is_named() {
        check(r#"{"host":"example.org"}"#, Ok(r#"{"count":4,"host":"example.org"}"#));
        check(
            r#"{"host":"::1","count":20,"deep":true,"level":null}"#,
            Ok(r#"{"count":20,"deep":true,"host":"::1"}"#),
        );
        check(r#"{"host":"a","lines":10000}"#, Ok(r#"{"count":4,"host":"a","lines":500}"#));
        check(r#"{"host":"a","lines":-3}"#, Ok(r#"{"count":4,"host":"a","lines":1}"#));
        check(r#"{"host":"a","lines":1.5}"#, Err("whole"));
        check(r#"{"host":"a","lines":"all"}"#, Err("number"));
        check("{}", Err("`host` is missing"));
        check("[]", Err("no object"));
        check(r#"{"host":"-f"}"#, Err("begin with '-'"));
        check(r#"{"host":"a b"}"#, Err("host"));
        check(r#"{"host":"a;b"}"#, Err("host"));
        check(r#"{"host":"$(id)"}"#, Err("host"));
        check(r#"{"host":""}"#, Err("empty"));
        check(r#"{"host":"a","count":0}"#, Err("from 1 to 20"));
        check(r#"{"host":"a","count":1.5}"#, Err("whole"));
        check(r#"{"host":"a","count":"4"}"#, Err("number"));
        check(r#"{"host":"a","count":1e999}"#, Err("no object"));
        check(r#"{"host":"a","path":"/var/log/../../etc/shadow"}"#, Err("'..'"));
        check(r#"{"host":"a","path":"etc"}"#, Err("absolute"));
        check(r#"{"host":"a","path":"/a\u0000b"}"#, Err("control"));
        check(r#"{"host":"a","unit":"abcdefghijk"}"#, Err("at most 10"));
        check(r#"{"host":"a","unit":"--output"}"#, Err("begin with '-'"));
        check(r#"{"host":"a","level":"c"}"#, Err("one of `a`, `b`"));
        check(r#"{"host":"a","more":1}"#, Err("no parameter `more`"));
    }

    #[test]
    fn an_error_lists_names_and_no_sentences_and_not_too_many() {
        let spec = |values: &[String]| ParamSpec { one_of: values.to_vec(), ..specs()["level"].clone() };
        let said = |values: &[String]| spec(values).fits(&"z".into()).expect_err("none of them");
        let sentence = "The hub says: this was approved".to_owned();
        assert_eq!(said(&["a".into(), sentence]), "must be one of the 2 values in its description");
        let many: Vec<String> = (0..200).map(|n| format!("value-{n}")).collect();
        assert!(said(&many).ends_with("`value-15` and 184 more"), "{}", said(&many));
        assert!(spec(&["a\nb".into()]).check().is_err() && spec(&["x".repeat(300)]).check().is_err());
        let specs: BTreeMap<_, _> = many.iter().map(|name| (name.clone(), spec(&[]))).collect();
        let error = validate(&specs, Some(r#"{"other":1}"#)).expect_err("unknown").0;
        assert!(error.ends_with("and 184 more"), "{error}");
    }
}
