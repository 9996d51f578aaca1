//! Errors of one shape. A handler says what went wrong; the request's id is put in on the way out.

use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::Relaxed;

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use convoke_api::{ErrorBody, ErrorDetail};
use convoke_core::grant::Missing;
use convoke_core::id::PeerId;
use convoke_store::StoreError;

use convoke_gate::clock;

/// The code of what another moment would take.
const BUSY: &str = "busy";

/// What went wrong.
#[derive(Clone, Debug)]
pub struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
    hint: Option<String>,
    retry_after: Option<u32>,
    challenge: Option<String>,
    /// Nothing more is read from this client.
    closes: bool,
}

impl ApiError {
    /// An error.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), hint: None, retry_after: None, challenge: None, closes: false }
    }

    /// With what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// With what `WWW-Authenticate` says.
    #[must_use]
    pub fn challenge(mut self, challenge: String) -> Self {
        self.challenge = Some(challenge);
        self
    }

    /// Its code.
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// What went wrong, and what to do about it.
    pub fn sentence(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{}; {hint}", self.message),
            None => self.message.clone(),
        }
    }

    /// 400.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", message)
    }

    /// 401.
    pub fn unauthorized(message: &str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
            .hint("send `Authorization: Bearer <operator token>`; an admin creates one with `convoke tokens create`")
    }

    /// 403.
    pub fn forbidden(missing: &Missing) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", missing.to_string())
    }

    /// 403, for a token that is paused.
    pub fn paused() -> Self {
        Self::new(StatusCode::FORBIDDEN, "paused", "this token is paused")
            .hint("whose it is, or an admin, lets it go on")
    }

    /// 403, for a session that must show a password or passkey again.
    pub fn step_up() -> Self {
        let message = "this needs your password or passkey again";
        Self::new(StatusCode::FORBIDDEN, "step_up", message)
            .hint("show it with `POST /api/session/step-up`; that counts for five minutes")
    }

    /// 404.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    /// 404 for an agent.
    pub fn no_agent(id: &str) -> Self {
        Self::not_found(format!("there is no agent `{}`", clip(id)))
            .hint("`convoke agents list` shows those there are; `convoke enroll-token ID` invites a new one")
    }

    /// 409 for a text that means several agents.
    pub fn ambiguous(text: &str, ids: &[PeerId], count: usize) -> Self {
        Self::new(StatusCode::CONFLICT, "ambiguous", ambiguous(text, ids, count)).hint("name one of them by its id")
    }

    /// 405.
    pub fn method_not_allowed() -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "this path does not support that method")
    }

    /// 413, for a body of which the rest is not read.
    pub fn body_too_large(message: String) -> Self {
        Self { closes: true, ..Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message) }
    }

    /// 409.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", message)
    }

    /// 429, for an address that presented too many wrong tokens.
    pub fn throttled(retry_after_s: u32) -> Self {
        let message = "too many wrong tokens or proofs from this address; try again later";
        let error = Self::new(StatusCode::TOO_MANY_REQUESTS, "throttled", message);
        Self { retry_after: Some(retry_after_s), ..error }
    }

    /// 429, for a token that has used up what it may use.
    pub fn limited(message: impl Into<String>, retry_after_s: u32) -> Self {
        let error = Self::new(StatusCode::TOO_MANY_REQUESTS, "limited", message);
        Self { retry_after: Some(retry_after_s), ..error }
    }

    /// 503, for a limit that is reached.
    pub fn busy(message: impl Into<String>) -> Self {
        let error = Self::new(StatusCode::SERVICE_UNAVAILABLE, BUSY, message);
        Self { retry_after: Some(1), ..error }
    }

    /// Database or bus cannot be reached, or other hubs.
    pub fn unavailable(message: impl Into<String>) -> Self {
        let error = Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message);
        Self { retry_after: Some(2), ..error }
    }

    /// 500.
    pub fn internal() -> Self {
        let message = "internal error; the hub's log has more under this request id";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
    }
}

/// Says that a text means several agents, and which.
pub fn ambiguous(text: &str, ids: &[PeerId], count: usize) -> String {
    let mut named: Vec<&str> = ids.iter().map(PeerId::as_str).collect();
    if count > named.len() {
        named.push("…");
    }
    format!("`{}` means {count} agents: {}", clip(text), named.join(", "))
}

impl std::convert::From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        if matches!(error, StoreError::Conflict { .. }) {
            return Self::conflict(error.to_string());
        }
        tracing::error!(%error, "the store failed");
        let hint = if matches!(error, StoreError::DiskFull) {
            "nothing was changed; writing resumes once there is space"
        } else if error.has_changed_nothing() {
            "nothing was changed; check the hub's log and the free space of its data directory"
        } else {
            "check the hub's log and disk, and once it writes again, whether the change was made"
        };
        let again = error.is_of_the_storage() && error.has_changed_nothing();
        let failed = Self::new(StatusCode::SERVICE_UNAVAILABLE, "store", format!("the hub's store failed: {error}"));
        Self { retry_after: again.then_some(2), ..failed.hint(hint) }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = self.status;
        response.extensions_mut().insert(self);
        response
    }
}

/// How an error is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// With code, message, hint and the request's id.
    Own,
    /// As Sonde's programs expect it: a text.
    Sonde,
}

/// Whether to log once more that the hub is busy. Strangers can make it so as often as they like, and must not fill the
/// log with it.
fn is_first_of_a_minute() -> bool {
    static TOLD: AtomicI64 = AtomicI64::new(i64::MIN);
    let (now, told) = (clock::now().millis(), TOLD.load(Relaxed));
    now.saturating_sub(told) >= 60_000 && TOLD.compare_exchange(told, now, Relaxed, Relaxed).is_ok()
}

/// Gives an error its body, now that the request's id is known.
pub fn finish(mut response: Response<Body>, request_id: &HeaderValue, shape: Shape) -> Response<Body> {
    let Some(error) = response.extensions_mut().remove::<ApiError>() else { return response };
    let request_id = request_id.to_str().unwrap_or_default();
    if error.status.is_server_error() && (error.code != BUSY || is_first_of_a_minute()) {
        tracing::warn!(request_id, code = error.code, message = error.message, "a request failed");
    }
    let sonde = (shape == Shape::Sonde).then(|| serde_json::json!({ "error": error.message }).to_string());
    let body = ErrorBody {
        error: ErrorDetail {
            code: error.code.into(),
            message: error.message,
            hint: error.hint,
            request_id: request_id.into(),
        },
    };
    let headers = response.headers_mut();
    // The router has counted the empty body; the real one is counted anew.
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let challenge = error.challenge.as_deref().and_then(|text| HeaderValue::from_str(text).ok());
    match challenge {
        Some(challenge) => drop(headers.insert(header::WWW_AUTHENTICATE, challenge)),
        None if error.status == StatusCode::UNAUTHORIZED => {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"convoke\""));
        }
        None => {}
    }
    if error.closes {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    if let Some(seconds) = error.retry_after {
        headers.insert(header::RETRY_AFTER, seconds.into());
    }
    let text = sonde.unwrap_or_else(|| serde_json::to_string(&body).unwrap_or_else(|_| "{}".into()));
    *response.body_mut() = Body::from(text);
    response
}

/// A caller's text is shown back short: an error is no place for a megabyte of it.
pub fn clip(text: &str) -> &str {
    &text[..text.floor_char_boundary(160)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_said_to_be_unchanged_that_may_come_back() {
        let unsure = ApiError::from(StoreError::NotSynced(std::sync::Arc::new(std::io::Error::other("EIO"))));
        assert!(!unsure.sentence().contains("nothing was changed"), "{}", unsure.sentence());
        assert!(unsure.sentence().contains("not known"), "{}", unsure.sentence());
        let full = ApiError::from(StoreError::DiskFull).sentence();
        assert!(full.contains("nothing was changed; writing resumes"), "{full}");
    }
}
