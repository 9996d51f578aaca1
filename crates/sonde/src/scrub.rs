//! Secrets out of what leaves a machine (field facts, section 9).
//!
//! The field redacts too much (`monkey: banana`) and too little (all but the first word of a pass phrase, PEM blocks,
//! tokens in error texts). Here a name is secret by its words, not by letters in it; a value is taken to its end; and
//! what is recognisable by itself (PEM private keys, cloud keys, JWTs, credentials in URLs) is found without a name.
//!
//! Scrubbing is a net, not a wall: a secret without a tell-tale name or form passes. `custom` patterns are for those.

mod assign;
mod names;
mod shapes;

use regex::Regex;
use serde_json::Value;

/// The text that replaces a secret.
pub const REDACTED: &str = "[REDACTED]";
/// Most patterns of an operator's own.
pub const MAX_CUSTOM: usize = 64;

/// Takes secrets out of texts and values.
#[derive(Clone, Debug, Default)]
pub struct Scrubber {
    custom: Vec<Regex>,
}

/// A pattern of the operator's that cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
#[error("scrub pattern {pattern:?}: {why}")]
pub struct BadPattern {
    pattern: String,
    why: String,
}

impl Scrubber {
    /// With these patterns of the operator's beside the built-in rules; case does not matter to them.
    pub fn new(custom: &[String]) -> Result<Self, BadPattern> {
        let bad = |pattern: &String, why: String| BadPattern { pattern: pattern.clone(), why };
        if let Some(pattern) = custom.get(MAX_CUSTOM) {
            return Err(bad(pattern, format!("there can be at most {MAX_CUSTOM}")));
        }
        let compile = |pattern: &String| {
            let built = regex::RegexBuilder::new(pattern).case_insensitive(true).size_limit(1 << 20).build();
            let regex = built.map_err(|why| bad(pattern, why.to_string()))?;
            // It would match between all letters.
            if regex.is_match("") { Err(bad(pattern, "it matches the empty text".into())) } else { Ok(regex) }
        };
        Ok(Self { custom: custom.iter().map(compile).collect::<Result<_, _>>()? })
    }

    /// A text without its secrets.
    pub fn text(&self, text: &str) -> String {
        let mut out = shapes::scrub(text);
        out = assign::scrub(&out);
        for pattern in &self.custom {
            if pattern.is_match(&out) {
                out = pattern.replace_all(&out, REDACTED).into_owned();
            }
        }
        out
    }

    /// A value without its secrets, in place.
    pub fn value(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.text(text),
            Value::Array(items) => self.list(items),
            Value::Object(members) => {
                for (name, value) in members.iter_mut() {
                    if names::is_secret(name) {
                        redact(value, names::is_password(name));
                    } else {
                        self.value(value);
                    }
                }
            }
            _ => {}
        }
    }

    /// The lines of a file may be one text each: a block that spans them is one secret still.
    fn list(&self, items: &mut [Value]) {
        let mut in_block = false;
        for item in items {
            if let Value::String(text) = item {
                let (begins, ends) = shapes::pem_edges(text);
                if in_block || (begins && !ends) {
                    *text = REDACTED.into();
                    in_block = !ends;
                    continue;
                }
            }
            self.value(item);
        }
    }
}

/// What stands under a secret's name. Numbers there are counts and sizes (`tokens: 12`), except under a password's.
fn redact(value: &mut Value, numbers_too: bool) {
    match value {
        Value::String(text) if !text.is_empty() => *text = REDACTED.into(),
        Value::Number(_) if numbers_too => *value = REDACTED.into(),
        Value::Array(items) => items.iter_mut().for_each(|item| redact(item, numbers_too)),
        Value::Object(members) => members.values_mut().for_each(|member| redact(member, numbers_too)),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
