//! What a simulated agent answers to a request.

use std::str::FromStr;
use std::time::Duration;

use serde_json::value::RawValue;

/// Largest result that can be asked for: twice the hub's hard limit for a frame, so that crossing it can be tried.
const MAX_LARGE: usize = 64 * 1024 * 1024;

/// How every request is answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Answer {
    /// At once, with an empty listing.
    #[default]
    AtOnce,
    /// The same after a while.
    After(Duration),
    /// Not at all: the caller runs into its deadline.
    Never,
    /// At once, with a result of about so many bytes.
    Large(usize),
    /// At once, with the error `exec_failed`.
    Error,
}

impl Answer {
    /// The result of an answer that is not an error.
    pub(crate) fn result(&self) -> Box<RawValue> {
        let text = match self {
            Self::Large(bytes) => format!(r#"{{"content":"{}"}}"#, "x".repeat(bytes.saturating_sub(14))),
            _ => r#"{"entries":[]}"#.to_owned(),
        };
        RawValue::from_string(text).expect("an object with one text is JSON")
    }
}

/// A text that is no [`Answer`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an answer: take at-once, after:MILLISECONDS, never, large:BYTES (at most 67108864) or error")]
pub struct BadAnswer(String);

impl FromStr for Answer {
    type Err = BadAnswer;

    fn from_str(text: &str) -> Result<Self, BadAnswer> {
        let bad = || BadAnswer(text.to_owned());
        match text.split_once(':') {
            None => match text {
                "at-once" => Ok(Self::AtOnce),
                "never" => Ok(Self::Never),
                "error" => Ok(Self::Error),
                _ => Err(bad()),
            },
            Some(("after", millis)) => {
                millis.parse().map(|m| Self::After(Duration::from_millis(m))).map_err(|_| bad())
            }
            Some(("large", bytes)) => match bytes.parse() {
                Ok(bytes) if bytes <= MAX_LARGE => Ok(Self::Large(bytes)),
                _ => Err(bad()),
            },
            Some(_) => Err(bad()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_from_text() {
        for (text, answer) in [
            ("at-once", Answer::AtOnce),
            ("after:250", Answer::After(Duration::from_millis(250))),
            ("never", Answer::Never),
            ("large:1000000", Answer::Large(1_000_000)),
            ("error", Answer::Error),
        ] {
            assert_eq!(text.parse(), Ok(answer));
        }
        for text in ["", "later", "after:", "after:soon", "large:99999999999", "never:1"] {
            assert!(text.parse::<Answer>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_large_result_is_as_large_as_asked() {
        assert_eq!(Answer::Large(5000).result().get().len(), 5000);
    }
}
