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

/// The same for what the environment calls a secret, if it is no plain word or number either.
const MIN_LENGTH_NAMED: usize = 6;

/// So much of a secret, or half of a shorter one, is not shown where a text breaks off within it.
const TELLING: usize = 8;

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
        if secret.len() >= MIN_LENGTH {
            self.keep(secret);
        }
    }

    /// Learns what a variable of the environment holds whose name says that it is a secret.
    pub(crate) fn learn_from_environment(&self, secret: &str) {
        let secret = secret.trim();
        let is_word = secret.chars().all(char::is_alphabetic) || secret.chars().all(char::is_numeric);
        if secret.len() >= MIN_LENGTH || (secret.len() >= MIN_LENGTH_NAMED && !is_word) {
            self.keep(secret);
        }
    }

    fn keep(&self, secret: &str) {
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

    /// The next piece of a text that comes in pieces. What may be the beginning of a secret stays in `held` until the
    /// rest of it has come or cannot come any more; as a rule that is nothing.
    pub(crate) fn next_piece(&self, held: &mut String, piece: &str) -> String {
        let Ok(known) = self.known.read() else { return String::new() };
        if known.is_empty() {
            return std::mem::take(held) + piece;
        }
        held.push_str(piece);
        let cut =
            known.iter().filter_map(|Hidden(secret)| beginning_at_end(held, secret)).min().unwrap_or(held.len());
        let cut = before_what_spans(held, cut, known.iter().map(|Hidden(secret)| secret.as_str()));
        drop(known);
        let rest = held.split_off(cut);
        let shown = self.text(held).into_owned();
        *held = rest;
        shown
    }

    /// The end of such a text. If it breaks off within a secret, what had come of that is not shown either.
    pub(crate) fn last_piece(&self, held: &str) -> String {
        let Ok(known) = self.known.read() else { return String::new() };
        let broken = known.iter().filter_map(|Hidden(secret)| {
            let at = beginning_at_end(held, secret)?;
            (held.len() - at >= TELLING.min(secret.len() / 2)).then_some(at)
        });
        let cut = broken.min();
        drop(known);
        match cut {
            Some(at) => format!("{}{REDACTED}", self.text(&held[..at])),
            None => self.text(held).into_owned(),
        }
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

/// Where a text ends with the beginning of a secret, but not with all of it.
fn beginning_at_end(text: &str, secret: &str) -> Option<usize> {
    let longest = secret.len().saturating_sub(1).min(text.len());
    let starts = (text.len() - longest..text.len()).filter(|at| text.is_char_boundary(*at));
    starts.into_iter().find(|at| secret.as_bytes().starts_with(&text.as_bytes()[*at..]))
}

/// The same place, or an earlier one if a secret stands across it.
fn before_what_spans<'a>(text: &str, mut cut: usize, secrets: impl Iterator<Item = &'a str> + Clone) -> usize {
    loop {
        let spans = |secret: &&str| {
            let from = (cut + 1).saturating_sub(secret.len());
            (from..cut).find(|at| text.as_bytes()[*at..].starts_with(secret.as_bytes()))
        };
        match secrets.clone().filter_map(|secret| spans(&secret)).min() {
            Some(earlier) => cut = earlier,
            None => return cut,
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
    use proptest::prelude::*;
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

    /// A text in pieces, as it is shown.
    fn streamed<'a>(redactor: &Redactor, pieces: impl IntoIterator<Item = &'a str>) -> String {
        let (mut held, mut shown) = (String::new(), String::new());
        for piece in pieces {
            shown.push_str(&redactor.next_piece(&mut held, piece));
        }
        shown.push_str(&redactor.last_piece(&held));
        shown
    }

    #[test]
    fn a_secret_is_found_wherever_it_is_split() {
        let redactor = Redactor::default();
        // One begins like another, one ends like another begins, one repeats itself.
        let secrets = ["canary-aaaa-bbbb", "canary-aaaa-bbbb-cccc", "bbbb-cccc-dddd-eé", "abababababab"];
        secrets.iter().for_each(|secret| redactor.learn(secret));
        for secret in secrets {
            let text = format!("before {secret} after");
            for first in (0..=text.len()).filter(|at| text.is_char_boundary(*at)) {
                for second in (first..=text.len()).filter(|at| text.is_char_boundary(*at)) {
                    let pieces = [&text[..first], &text[first..second], &text[second..]];
                    assert_eq!(streamed(&redactor, pieces), "before [REDACTED] after", "{pieces:?}");
                }
            }
            let letters: Vec<String> = text.chars().map(String::from).collect();
            assert_eq!(streamed(&redactor, letters.iter().map(String::as_str)), "before [REDACTED] after");
        }
    }

    #[test]
    fn nothing_is_held_back_but_what_may_be_a_secret() {
        let redactor = Redactor::default();
        redactor.learn("canary-aaaa-bbbb");
        let mut held = String::new();
        assert_eq!(redactor.next_piece(&mut held, "a word and c"), "a word and ");
        assert_eq!(redactor.next_piece(&mut held, "anvas"), "canvas");
        assert_eq!(held, "");
        assert_eq!(
            streamed(&redactor, ["all of it but the end: canary-aaaa-b"]),
            "all of it but the end: [REDACTED]"
        );
        assert_eq!(streamed(&redactor, ["a can"]), "a can", "a few letters tell nothing");
    }

    proptest! {
        /// However a text is cut into pieces, the same is shown as of the whole, but for a secret that never ended.
        #[test]
        fn pieces_show_what_the_whole_shows(text in "[abc ]{0,60}", cuts in prop::collection::vec(0usize..60, 0..6)) {
            let redactor = Redactor::default();
            ["abcabcabcabc", "abcabcabcabcab", "cabcabcabcab ab"].iter().for_each(|secret| redactor.learn(secret));
            let mut cuts: Vec<usize> = cuts.into_iter().map(|at| at.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let text = text + " .";
            cuts.push(text.len());
            let shown = streamed(&redactor, cuts.windows(2).map(|cut| &text[cut[0]..cut[1]]));
            for secret in ["abcabcabcabc", "abcabcabcabcab", "cabcabcabcab ab"] {
                prop_assert!(!shown.contains(secret), "{shown}");
            }
            prop_assert_eq!(shown.replace(REDACTED, "").len() <= text.len(), true);
            if !redactor.text(&text).contains(REDACTED) {
                prop_assert_eq!(shown, text);
            }
        }
    }

    #[test]
    fn what_the_environment_calls_a_secret_may_be_shorter() {
        let redactor = Redactor::default();
        ["hunter2", "postgres", "1234567", "ab1"].iter().for_each(|secret| redactor.learn_from_environment(secret));
        assert_eq!(redactor.text("hunter2 postgres 1234567 ab1"), "[REDACTED] postgres 1234567 ab1");
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
