//! The frames with which a server says what a [`Record`](crate::record::Record) decided. In one place, so that a test
//! can look at everything a server ever says: no code is among it.

use crate::builtin::{Body, Builtin, MAX_IDENTIFIER, RePairReason};
use crate::close::{self, Close};
use crate::reason::{AdminNotification, ErrorCode, NextAction, PairFailure, Status};
use crate::record::{AuthRefusal, HelloOutcome, HelloRefusal, Notification, Pairing, Record};
use crate::{Now, PROTOCOL_VERSION};

/// Frames, and whether the connection ends after them.
#[derive(Debug)]
pub struct Answer {
    /// In order.
    pub frames: Vec<Builtin>,
    /// The close after them.
    pub close: Option<Close>,
}

impl Answer {
    /// One frame; the connection goes on.
    pub fn one(frame: Builtin) -> Self {
        Self { frames: vec![frame], close: None }
    }
}

/// A `hello_ack`.
pub fn hello_ack(identifier: &str, next_action: NextAction, request_id: Option<String>, now: Now) -> Builtin {
    // What is on no allow-list can be of any length.
    let cut = identifier.char_indices().nth(MAX_IDENTIFIER).map_or(identifier.len(), |(end, _)| end);
    let body = Body::HelloAck { identifier: identifier[..cut].to_owned(), next_action };
    Builtin::new(request_id, now.unix(), body)
}

/// A rejected `hello`: `hello_ack`, `error`, close. The same shape whatever the reason.
fn rejected(identifier: &str, request_id: Option<String>, code: ErrorCode, message: &str, now: Now) -> Answer {
    let ack = hello_ack(identifier, NextAction::Rejected, request_id.clone(), now);
    let error = Builtin::error(request_id, now.unix(), code, message);
    Answer { frames: vec![ack, error], close: Some(close::REJECTED) }
}

/// The version is not ours.
pub fn unsupported_version(identifier: &str, request_id: Option<String>, now: Now) -> Answer {
    let message = format!("this server speaks protocol version {PROTOCOL_VERSION}");
    rejected(identifier, request_id, ErrorCode::UnsupportedProtocolVersion, &message, now)
}

/// A rejected `hello`.
pub fn refused_hello(identifier: &str, refusal: HelloRefusal, request_id: Option<String>, now: Now) -> Answer {
    let (code, message) = match refusal {
        HelloRefusal::NotAllowed => {
            (ErrorCode::IdentifierNotAllowed, "this identifier is not allowed here".to_owned())
        }
        HelloRefusal::OtherKey => {
            let message = "another key is being paired under this identifier; wait until its code has expired";
            (ErrorCode::PairingRequired, message.to_owned())
        }
        HelloRefusal::TooSoon(seconds) => {
            (ErrorCode::RateLimited, format!("this identifier may try to pair again in {seconds} s"))
        }
        HelloRefusal::TooMany => {
            (ErrorCode::RateLimited, "too many pairings are under way; try again later".to_owned())
        }
    };
    rejected(identifier, request_id, code, &message, now)
}

/// The answer to a `hello`. `pair_request` follows once it is known whether an administrator was notified.
pub fn hello(record: &Record, outcome: HelloOutcome, request_id: Option<String>, now: Now) -> Answer {
    let ack = |next| hello_ack(&record.identifier, next, request_id.clone(), now);
    match outcome {
        HelloOutcome::AuthRequired => Answer::one(ack(NextAction::AuthRequired)),
        HelloOutcome::Started => {
            let mut frames = vec![ack(NextAction::PairRequired)];
            frames.extend(pair_request(record, request_id, now));
            Answer { frames, close: None }
        }
        HelloOutcome::Waiting => {
            let mut frames = vec![ack(NextAction::WaitingPairConfirm)];
            frames.extend(pair_request(record, request_id, now));
            Answer { frames, close: None }
        }
        HelloOutcome::Approved => Answer::one(ack(NextAction::WaitingPairConfirm)),
        HelloOutcome::NoKey => {
            let message = "hello.publicKey is missing, and pairing needs one";
            Answer::one(Builtin::error(request_id, now.unix(), ErrorCode::MalformedMessage, message))
        }
        HelloOutcome::Rejected(refusal) => refused_hello(&record.identifier, refusal, request_id, now),
    }
}

/// The `pair_request` of the pairing under way; none while it is not known whether anybody was told.
pub fn pair_request(record: &Record, request_id: Option<String>, now: Now) -> Option<Builtin> {
    let pairing = record.pairing.as_ref()?;
    let admin_notification = match pairing.notification {
        Notification::Pending => return None,
        Notification::Sent => AdminNotification::Sent,
        Notification::Failed => AdminNotification::Failed,
    };
    let expires_at = expiry(pairing);
    let body = Body::PairRequest {
        identifier: record.identifier.clone(),
        expires_at,
        ttl_seconds: u64::try_from(expires_at.saturating_sub(now.unix())).unwrap_or(0),
        admin_notification,
    };
    Some(Builtin::new(request_id, now.unix(), body))
}

/// When a pairing ends, in unix seconds.
pub const fn expiry(pairing: &Pairing) -> i64 {
    pairing.expires_at.millis().div_euclid(1000)
}

/// The secret of a client that has just been paired.
pub fn pair_success(record: &Record, request_id: Option<String>, now: Now) -> Option<Builtin> {
    let body = Body::PairSuccess {
        identifier: record.identifier.clone(),
        secret: record.secret.clone()?,
        paired_at: record.paired_at.map_or_else(|| now.unix(), |at| at.millis().div_euclid(1000)),
    };
    Some(Builtin::new(request_id, now.unix(), body))
}

/// Pairing failed.
pub fn pair_failed(identifier: &str, reason: PairFailure, request_id: Option<String>, now: Now) -> Builtin {
    Builtin::new(request_id, now.unix(), Body::PairFailed { identifier: identifier.into(), reason })
}

/// The proof holds.
pub fn auth_success(identifier: &str, request_id: Option<String>, now: Now) -> Builtin {
    let body =
        Body::AuthSuccess { identifier: identifier.into(), authenticated_at: now.unix(), status: Status::Online };
    Builtin::new(request_id, now.unix(), body)
}

/// The proof does not hold; and, if trust was reset with it, that the client must pair again.
pub fn auth_failed(identifier: &str, refusal: AuthRefusal, request_id: Option<String>, now: Now) -> Vec<Builtin> {
    let failed = Body::AuthFailed { identifier: identifier.into(), reason: refusal.reason };
    let mut frames = vec![Builtin::new(request_id.clone(), now.unix(), failed)];
    if let Some(condition) = refusal.reset {
        let reason = RePairReason::Unsafe(condition);
        let body = Body::RePairRequired { identifier: identifier.into(), reason };
        frames.push(Builtin::new(request_id, now.unix(), body));
    }
    frames
}

/// A client's liveness changed.
pub fn status_update(identifier: &str, status: Status, reason: Option<String>, now: Now) -> Builtin {
    Builtin::new(None, now.unix(), Body::StatusUpdate { identifier: identifier.into(), status, reason })
}

/// The server is about to close.
pub fn disconnect_notice(identifier: &str, reason: &str, now: Now) -> Builtin {
    Builtin::new(None, now.unix(), Body::DisconnectNotice { identifier: identifier.into(), reason: reason.into() })
}

/// An answer to a heartbeat.
pub fn heartbeat_ack(identifier: &str, now: Now) -> Builtin {
    let body = Body::HeartbeatAck { identifier: identifier.into(), status: Status::Online };
    Builtin::new(None, now.unix(), body)
}
