//! From a builtin frame to its text: exactly the contract's keys, in the contract's order.

use serde::Serialize;

use super::{AuthRequest, Body, Builtin, ErrorBody, Hello};
use crate::message::{BUILTIN, DELIMITER};
use crate::proof;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<'a, P> {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<i64>,
    payload: P,
}

/// All payloads but the two large ones have their fields among these, in this order.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Payload<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    identifier: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    has_secret: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    has_key_pair: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_action: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl_seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    admin_notification: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code_delivery: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pairing_code: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    paired_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nonce: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    proof_timestamp: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signature: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    public_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol_version: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    authenticated_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
}

pub(super) fn text(frame: &Builtin) -> String {
    let envelope = Envelope {
        r#type: frame.kind().name(),
        request_id: frame.request_id.as_deref(),
        timestamp: frame.timestamp,
        payload: payload(&frame.body),
    };
    let mut text = Vec::with_capacity(256);
    text.extend_from_slice(BUILTIN.as_bytes());
    text.extend_from_slice(DELIMITER.as_bytes());
    serde_json::to_writer(&mut text, &envelope).expect("texts, numbers and switches serialise");
    String::from_utf8(text).expect("JSON is UTF-8")
}

fn payload(body: &Body) -> Payload<'_> {
    let of = |identifier| Payload { identifier: Some(identifier), ..Payload::default() };
    match body {
        Body::Hello(Hello { identifier, has_secret, has_key_pair, public_key, protocol_version }) => Payload {
            has_secret: Some(*has_secret),
            has_key_pair: Some(*has_key_pair),
            public_key: public_key.as_deref(),
            protocol_version: Some(protocol_version),
            ..of(identifier)
        },
        Body::HelloAck { identifier, next_action } => {
            Payload { next_action: Some(next_action.name()), ..of(identifier) }
        }
        Body::PairRequest { identifier, expires_at, ttl_seconds, admin_notification } => Payload {
            expires_at: Some(*expires_at),
            ttl_seconds: Some(*ttl_seconds),
            admin_notification: Some(admin_notification.name()),
            code_delivery: Some("out_of_band"),
            ..of(identifier)
        },
        Body::PairConfirm { identifier, pairing_code } => {
            Payload { pairing_code: Some(pairing_code.reveal()), ..of(identifier) }
        }
        Body::PairSuccess { identifier, secret, paired_at } => {
            Payload { secret: Some(secret.reveal()), paired_at: Some(*paired_at), ..of(identifier) }
        }
        Body::PairFailed { identifier, reason } => Payload { reason: Some(reason.name()), ..of(identifier) },
        Body::AuthRequest(AuthRequest { identifier, nonce, proof_timestamp, signature, public_key }) => Payload {
            nonce: Some(nonce),
            proof_timestamp: Some(*proof_timestamp),
            signature: Some(proof::encode(signature)),
            public_key: public_key.as_deref(),
            ..of(identifier)
        },
        Body::AuthSuccess { identifier, authenticated_at, status } => {
            Payload { authenticated_at: Some(*authenticated_at), status: Some(status.name()), ..of(identifier) }
        }
        Body::AuthFailed { identifier, reason } => Payload { reason: Some(reason.name()), ..of(identifier) },
        Body::RePairRequired { identifier, reason } => Payload { reason: Some(reason.name()), ..of(identifier) },
        Body::Heartbeat { identifier } => Payload { status: Some("alive"), ..of(identifier) },
        Body::HeartbeatAck { identifier, status } => Payload { status: Some(status.name()), ..of(identifier) },
        Body::StatusUpdate { identifier, status, reason } => {
            Payload { status: Some(status.name()), reason: reason.as_deref(), ..of(identifier) }
        }
        Body::DisconnectNotice { identifier, reason } => Payload { reason: Some(reason), ..of(identifier) },
        Body::Error(ErrorBody { code, message }) => Payload {
            code: Some(code.as_ref().map_or_else(String::as_str, |code| code.name())),
            message: message.as_deref(),
            ..Payload::default()
        },
    }
}
