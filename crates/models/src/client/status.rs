//! What a provider's refusal means.

use std::time::{Duration, SystemTime};

use reqwest::header::HeaderMap;
use serde_json::Value;

use crate::draft::text;
use crate::{ModelError, ProviderKind};

/// How much of a provider's message is kept.
const MESSAGE_CHARS: usize = 2_000;

/// Words of a refusal that waiting does not cure.
const QUOTA: &[&str] = &[
    "insufficient_quota",
    "exceeded your current quota",
    "usage_limit_reached",
    "usage_not_included",
    "usage limit has been reached",
    "insufficient credits",
    "credit balance",
    "billing",
    "payment required",
];

/// Words of a refusal that a shorter conversation cures.
const OVERFLOW: &[&str] = &[
    "context_length_exceeded",
    "context length",
    "context window",
    "context size",
    "prompt is too long",
    "input is too long",
    "too many tokens",
    "maximum number of tokens",
];

/// An HTTP answer that is no success.
pub(super) fn from_http(provider: ProviderKind, status: u16, headers: &HeaderMap, body: &[u8]) -> ModelError {
    let told = Told::read(body);
    let retry_after = retry_after(headers, SystemTime::now()).or(told.resets_in);
    let message = told.message.unwrap_or_else(|| plain_reason(status, body));
    with_delay(classify(provider, status, &told.code, &message), retry_after)
}

/// A failure told in the stream with a word for its kind.
pub(crate) fn told_in_stream(provider: ProviderKind, code: &str, message: &str) -> ModelError {
    let status = match code {
        "server_error" | "server_is_overloaded" | "overloaded_error" | "internal_error" | "slow_down" => 500,
        "rate_limit_exceeded" | "rate_limit_error" | "too_many_requests" => 429,
        "invalid_api_key" | "authentication_error" => 401,
        _ => 400,
    };
    let delay = if status == 429 { spoken_delay(message) } else { None };
    with_delay(classify(provider, status, code, message), delay)
}

/// A failure told in the stream with an HTTP status.
pub(crate) fn told_by_status(provider: ProviderKind, status: u16, message: &str) -> ModelError {
    classify(provider, status, "", message)
}

fn classify(provider: ProviderKind, status: u16, code: &str, message: &str) -> ModelError {
    let words = format!("{code} {message}").to_lowercase();
    let says = |list: &[&str]| list.iter().any(|word| words.contains(word));
    let message = shortened(message);
    match status {
        402 => ModelError::QuotaExceeded { provider, status, message },
        429 | 403 | 500.. if says(QUOTA) => ModelError::QuotaExceeded { provider, status, message },
        429 => ModelError::RateLimited { provider, status, message, retry_after: None },
        401 | 403 => ModelError::Unauthorised { provider, status, message },
        400 | 413 | 422 if says(OVERFLOW) => ModelError::ContextOverflow { provider, message },
        408 | 425 | 500.. => ModelError::Server { provider, status, message, retry_after: None },
        _ => ModelError::Rejected { provider, status, message },
    }
}

fn with_delay(mut error: ModelError, delay: Option<Duration>) -> ModelError {
    if let ModelError::RateLimited { retry_after, .. } | ModelError::Server { retry_after, .. } = &mut error {
        *retry_after = delay;
    }
    error
}

/// What a body says, in any of the shapes that are in use.
struct Told {
    code: String,
    message: Option<String>,
    resets_in: Option<Duration>,
}

impl Told {
    fn read(body: &[u8]) -> Self {
        let value: Value = serde_json::from_slice(body).unwrap_or_default();
        // Some servers wrap the object into an array.
        let value = if value.is_array() { &value[0] } else { &value };
        let error = &value["error"];
        let message = text(error, "message")
            .or_else(|| error.as_str())
            .or_else(|| text(value, "detail"))
            .or_else(|| text(&value["detail"], "message"))
            .or_else(|| text(value, "message"));
        // OpenRouter passes on what the model's own provider said.
        let raw = text(&error["metadata"], "raw");
        let message = match (message, raw) {
            (Some(message), Some(raw)) => Some(format!("{message}: {raw}")),
            (message, _) => message.map(str::to_owned),
        };
        let codes = [text(error, "code"), text(error, "type"), text(&value["detail"], "code")];
        Self {
            code: codes.into_iter().flatten().collect::<Vec<_>>().join(" "),
            message: message.filter(|message| !message.trim().is_empty()),
            resets_in: error["resets_in_seconds"].as_u64().map(Duration::from_secs),
        }
    }
}

/// Whether a body explains itself, as an API's does and a web server's page does not.
pub(super) fn explains_itself(body: &[u8]) -> bool {
    Told::read(body).message.is_some()
}

fn plain_reason(status: u16, body: &[u8]) -> String {
    let body = String::from_utf8_lossy(body);
    let body = body.trim();
    let is_page = body.starts_with('<');
    match status {
        _ if !body.is_empty() && !is_page => body.to_owned(),
        300..=399 => "it redirects elsewhere; check the base URL".into(),
        404 => "there is nothing at this address; check the base URL".into(),
        _ => "no reason was given".into(),
    }
}

fn shortened(message: &str) -> String {
    // Nothing that moves a terminal's cursor.
    let is_plain = |c: &char| !c.is_control() || matches!(c, '\n' | '\t');
    let mut kept: String = message.chars().take(MESSAGE_CHARS).filter(is_plain).collect();
    if message.chars().nth(MESSAGE_CHARS).is_some() {
        kept.push('…');
    }
    without_keys(&kept)
}

/// Providers repeat a wrong key in their refusal, in part or whole.
fn without_keys(message: &str) -> String {
    let is_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '*');
    let mut out = String::with_capacity(message.len());
    let mut rest = message;
    while let Some(at) = rest.find("sk-") {
        let begins = !rest[..at].ends_with(|c: char| c.is_alphanumeric());
        let length = rest[at..].find(|c| !is_key(c)).unwrap_or(rest.len() - at);
        let is_one = begins && length >= "sk-".len() + 8;
        out.push_str(&rest[..at]);
        out.push_str(if is_one { "[REDACTED]" } else { &rest[at..at + length] });
        rest = &rest[at + length..];
    }
    out.push_str(rest);
    out
}

/// When the provider asks to come back: `retry-after-ms`, or `Retry-After` in seconds or as a date.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let of = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    if let Some(ms) = of("retry-after-ms").and_then(|ms| ms.parse::<f64>().ok()) {
        return Duration::try_from_secs_f64(ms / 1000.0).ok();
    }
    let value = of("retry-after")?;
    if let Ok(seconds) = value.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = httpdate::parse_http_date(value).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

/// `… Please try again in 1.3s …`, as OpenAI words it where there is no header.
fn spoken_delay(message: &str) -> Option<Duration> {
    let (_, after) = message.split_once("try again in ")?;
    let digits = after.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(after.len());
    let number: f64 = after[..digits].parse().ok()?;
    let unit = after[digits..].trim_start();
    let seconds = if unit.starts_with("ms") {
        number / 1000.0
    } else if unit.starts_with('m') {
        number * 60.0
    } else {
        number
    };
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(status: u16, body: &str) -> (&'static str, String) {
        let error = from_http(ProviderKind::OpenAi, status, &HeaderMap::new(), body.as_bytes());
        (error.code(), error.to_string())
    }

    #[test]
    fn refusals_are_told_apart() {
        let check = |status, body: &str, expected: &str, words: &str| {
            let (code, message) = code(status, body);
            assert_eq!(code, expected, "{status} {body}");
            assert!(message.contains(words), "{message}");
        };
        check(401, r#"{"error":{"message":"bad key","code":"invalid_api_key"}}"#, "unauthorised", "bad key");
        check(429, r#"{"error":{"message":"slow down"}}"#, "rate_limited", "slow down");
        check(429, r#"{"error":{"message":"x","code":"insufficient_quota"}}"#, "quota_exceeded", "x");
        check(429, r#"{"error":{"type":"usage_limit_reached","message":"limit"}}"#, "quota_exceeded", "limit");
        check(402, r#"{"error":{"message":"Insufficient credits","code":402}}"#, "quota_exceeded", "credits");
        check(400, r#"{"error":{"message":"m","code":"context_length_exceeded"}}"#, "context_overflow", "m");
        check(400, r#"{"error":"the request exceeds the available context size"}"#, "context_overflow", "exceeds");
        check(400, r#"{"detail":"Unsupported parameter"}"#, "rejected", "Unsupported parameter");
        check(404, r#"{"error":{"message":"model 'x' not found"}}"#, "rejected", "model 'x' not found");
        check(404, "<html>nginx</html>", "rejected", "check the base URL");
        check(301, "", "rejected", "check the base URL");
        check(500, "", "server_error", "no reason");
        check(503, r#"{"error":{"message":"overloaded","metadata":{"raw":"upstream"}}}"#, "server_error", "upstream");
        check(500, r#"{"error":{"message":"check your billing details"}}"#, "quota_exceeded", "billing");
        check(418, "teapot", "rejected", "teapot");
    }

    #[test]
    fn a_key_in_a_refusal_is_left_out() {
        let (_, message) =
            code(401, r#"{"error":{"message":"Incorrect API key provided: sk-proj-12****7890. See x"}}"#);
        assert!(!message.contains("7890") && message.contains("[REDACTED]. See x"), "{message}");
        assert_eq!(without_keys("a task-management tool, sk-short"), "a task-management tool, sk-short");
    }

    #[test]
    fn a_long_message_is_cut() {
        let (_, message) = code(400, &"ä".repeat(5_000));
        assert!(message.chars().count() < 2_100);
    }

    #[test]
    fn delays_are_read_in_every_form() {
        let check = |name: &'static str, value: &str, expected: Option<u64>| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            let now = httpdate::parse_http_date("Sun, 15 Nov 2026 12:00:00 GMT").unwrap();
            assert_eq!(retry_after(&headers, now).map(|d| d.as_millis() as u64), expected, "{name}: {value}");
        };
        check("retry-after", "7", Some(7_000));
        check("retry-after", "0.5", Some(500));
        check("retry-after-ms", "120", Some(120));
        check("retry-after", "Sun, 15 Nov 2026 12:00:30 GMT", Some(30_000));
        check("retry-after", "Sun, 15 Nov 2026 11:00:00 GMT", Some(0));
        check("retry-after", "-3", None);
        check("retry-after", "soon", None);
    }

    #[test]
    fn a_delay_in_words_is_understood() {
        let check = |words: &str, ms| assert_eq!(spoken_delay(words).map(|d| d.as_millis()), ms, "{words}");
        check("Rate limit reached. Please try again in 1.3s. Visit", Some(1_300));
        check("Please try again in 20ms.", Some(20));
        check("Please try again in 2m.", Some(120_000));
        check("Please try later", None);
    }
}
