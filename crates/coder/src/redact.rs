//! Secrets are removed by their value, and from the configuration by the exact name of their field. Guessing by parts
//! of names or by prefixes would destroy what is no secret: numbers called tokens, paths with `task-` in them.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::RwLock;

use serde_json::Value;

/// What stands where a secret stood.
pub(crate) const REDACTED: &str = "[REDACTED]";

/// A shorter value is not looked for: it may well be a word.
const MIN_LENGTH: usize = 12;

/// Fields of the configuration and of credentials that hold secrets.
const SECRET_FIELDS: &[&str] = &[
    "openrouter_api_key",
    "openai_api_key",
    "local_api_key",
    "openai_access_token",
    "access_token",
    "refresh_token",
    "id_token",
    "api_key",
    "apikey",
    "token",
    "secret",
    "client_secret",
    "password",
    "passphrase",
    "authorization",
    "credential",
    "credentials",
    "private_key",
];

/// The secrets that are known to this process.
#[derive(Debug, Default)]
pub(crate) struct Redactor {
    known: RwLock<BTreeSet<Hidden>>,
}

/// A value that does not print.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Hidden(String);

impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

impl Redactor {
    /// Learns a secret. It is never unlearned: what was one may still be in a log.
    pub(crate) fn learn(&self, secret: &str) {
        let secret = secret.trim();
        if secret.len() < MIN_LENGTH {
            return;
        }
        let knows = |known: &BTreeSet<Hidden>, text: &str| known.contains(&Hidden(text.to_owned()));
        // As it stands in JSON: what has to be escaped there would not be found otherwise.
        let escaped = Value::String(secret.to_owned()).to_string();
        let escaped = escaped.trim_matches('"').to_owned();
        if self.known.read().is_ok_and(|known| knows(&known, secret)) {
            return;
        }
        if let Ok(mut known) = self.known.write() {
            known.insert(Hidden(secret.to_owned()));
            known.insert(Hidden(escaped));
        }
    }

    /// Learns every secret in a configuration or in credentials.
    pub(crate) fn learn_from(&self, value: &Value) {
        match value {
            Value::Object(map) => {
                for (name, value) in map {
                    match value {
                        Value::String(text) if is_secret_field(name) => self.learn(text),
                        value => self.learn_from(value),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.learn_from(item)),
            _ => {}
        }
    }

    /// A text without what is known to be secret.
    pub(crate) fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let Ok(known) = self.known.read() else { return Cow::Borrowed(text) };
        let mut out = Cow::Borrowed(text);
        // From the longest, or a secret that begins like another would be removed by half.
        for Hidden(secret) in known.iter().rev() {
            if out.contains(secret.as_str()) {
                out = Cow::Owned(out.replace(secret.as_str(), REDACTED));
            }
        }
        out
    }

    /// JSON without what is known to be secret. The replacement needs no escaping, so it stays JSON.
    pub(crate) fn bytes(&self, json: Vec<u8>) -> Vec<u8> {
        let Ok(text) = std::str::from_utf8(&json) else { return json };
        match self.text(text) {
            Cow::Borrowed(_) => json,
            Cow::Owned(clean) => clean.into_bytes(),
        }
    }
}

/// Whether a field of this name holds a secret. The name must fit as a whole, in any case and with `-`, `_` or neither.
pub(crate) fn is_secret_field(name: &str) -> bool {
    let plain =
        |text: &str| text.chars().filter(|c| !matches!(c, '_' | '-')).collect::<String>().to_ascii_lowercase();
    let name = plain(name);
    SECRET_FIELDS.iter().any(|field| plain(field) == name) || name.ends_with("apikey")
}

/// A configuration without its secrets.
pub(crate) fn config(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(name, value)| {
                    let hide =
                        is_secret_field(name) && !matches!(value, Value::Number(_) | Value::Bool(_) | Value::Null);
                    (name.clone(), if hide { REDACTED.into() } else { config(value) })
                })
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.iter().map(config).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn known_values_are_removed_wherever_they_stand() {
        let redactor = Redactor::default();
        redactor.learn_from(
            &json!({ "openrouter_api_key": "canary-aaaaaaaa", "mcp": [{ "token": "canary\"bbbbbbbb" }] }),
        );
        let text = redactor.bytes(br#"{"a":"x canary-aaaaaaaa y","b":"canary\"bbbbbbbb"}"#.to_vec());
        assert_eq!(text, br#"{"a":"x [REDACTED] y","b":"[REDACTED]"}"#);
        assert!(!format!("{redactor:?}").contains("canary"));
    }

    #[test]
    fn what_is_no_secret_stays() {
        let redactor = Redactor::default();
        redactor.learn("short");
        let text = r#"{"tokensBefore":5,"path":"/x/task-management-system/y","authorizationUrl":"u","short":1}"#;
        assert_eq!(redactor.text(text), text);
        let shown =
            config(&json!({ "token": 5, "openai_api_key": "k", "max_tokens": 3, "nested": { "Api-Key": "k" } }));
        assert_eq!(
            shown,
            json!({ "token": 5, "openai_api_key": "[REDACTED]", "max_tokens": 3, "nested": { "Api-Key": "[REDACTED]" } })
        );
    }
}
