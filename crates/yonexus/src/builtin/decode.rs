//! From JSON to a builtin frame.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use convoke_core::secret::SecretText;

use super::fields::Fields;
use super::{
    AuthRequest, Body, Builtin, ErrorBody, Hello, MAX_IDENTIFIER, MAX_REQUEST_ID, MAX_TEXT, Malformed, RePairReason,
};
use crate::proof::{NONCE_LEN, SIGNATURE_LEN};
use crate::reason::{AdminNotification, AuthFailure, ErrorCode, Kind, NextAction, PairFailure, Status, Unsafe};

/// Longest name of an unknown type that is quoted.
const MAX_NAME: usize = 64;

/// Reads the JSON after `builtin::`.
pub fn decode(json: &str) -> Result<Builtin, Malformed> {
    let envelope = Fields::read(json, "builtin")?.once()?;
    let name = envelope.get("type").and_then(|_| envelope.text("type").ok()).ok_or(Malformed::NoType)?;
    let kind = Kind::parse(&name).ok_or_else(|| Malformed::UnknownType { kind: clip(&name, MAX_NAME).to_owned() })?;
    let request_id = envelope.optional_text("requestId")?.map(|id| clip(&id, MAX_REQUEST_ID).to_owned());
    let timestamp = envelope.optional_number("timestamp")?;
    let payload = match envelope.get("payload") {
        None => Fields::none(kind.name()),
        Some(raw) => match Fields::read(raw.get(), kind.name()) {
            Err(Malformed::NotObject) => return Err(envelope.bad("payload", "is not an object")),
            read => read?.once()?,
        },
    };
    Ok(Builtin { request_id, timestamp, body: body(kind, &payload)? })
}

fn body(kind: Kind, payload: &Fields<'_>) -> Result<Body, Malformed> {
    let identifier = || identifier(payload);
    let status = || payload.word("status", Status::parse);
    Ok(match kind {
        Kind::Hello => Body::Hello(Hello {
            identifier: identifier()?,
            has_secret: payload.flag("hasSecret")?,
            has_key_pair: payload.flag("hasKeyPair")?,
            public_key: payload.optional_text("publicKey")?.map(Into::into),
            protocol_version: clip(&payload.text("protocolVersion")?, MAX_NAME).to_owned(),
        }),
        Kind::HelloAck => {
            Body::HelloAck { identifier: identifier()?, next_action: payload.word("nextAction", NextAction::parse)? }
        }
        Kind::PairRequest => Body::PairRequest {
            identifier: identifier()?,
            expires_at: payload.number("expiresAt")?,
            ttl_seconds: u64::try_from(payload.number("ttlSeconds")?)
                .map_err(|_| payload.bad("ttlSeconds", "is negative"))?,
            admin_notification: payload.word("adminNotification", AdminNotification::parse)?,
        },
        Kind::PairConfirm => Body::PairConfirm {
            identifier: identifier()?,
            pairing_code: SecretText::new(payload.text("pairingCode")?),
        },
        Kind::PairSuccess => Body::PairSuccess {
            identifier: identifier()?,
            secret: secret(payload)?,
            paired_at: payload.number("pairedAt")?,
        },
        Kind::PairFailed => {
            Body::PairFailed { identifier: identifier()?, reason: payload.word("reason", PairFailure::parse)? }
        }
        Kind::AuthRequest => Body::AuthRequest(auth_request(payload)?),
        Kind::AuthSuccess => Body::AuthSuccess {
            identifier: identifier()?,
            authenticated_at: payload.number("authenticatedAt")?,
            status: status()?,
        },
        Kind::AuthFailed => {
            Body::AuthFailed { identifier: identifier()?, reason: payload.word("reason", AuthFailure::parse)? }
        }
        Kind::RePairRequired => {
            let reason = payload.text("reason")?;
            let reason = Unsafe::parse(&reason)
                .map_or_else(|| RePairReason::Other(clip(&reason, MAX_TEXT).to_owned()), RePairReason::Unsafe);
            Body::RePairRequired { identifier: identifier()?, reason }
        }
        Kind::Heartbeat => {
            if payload.text("status")? != "alive" {
                return Err(payload.bad("status", "is not `alive`"));
            }
            Body::Heartbeat { identifier: identifier()? }
        }
        Kind::HeartbeatAck => Body::HeartbeatAck { identifier: identifier()?, status: status()? },
        Kind::StatusUpdate => Body::StatusUpdate {
            identifier: identifier()?,
            status: status()?,
            reason: payload.optional_text("reason")?.map(|reason| clip(&reason, MAX_TEXT).to_owned()),
        },
        Kind::DisconnectNotice => Body::DisconnectNotice {
            identifier: identifier()?,
            reason: clip(&payload.text("reason")?, MAX_TEXT).to_owned(),
        },
        Kind::Error => {
            let code = payload.text("code")?;
            Body::Error(ErrorBody {
                code: ErrorCode::parse(&code).ok_or_else(|| clip(&code, MAX_NAME).to_owned()),
                message: payload.optional_text("message")?.map(|text| clip(&text, MAX_TEXT).to_owned()),
            })
        }
    })
}

fn identifier(payload: &Fields<'_>) -> Result<String, Malformed> {
    let text = payload.text("identifier")?;
    if text.is_empty() {
        return Err(payload.bad("identifier", "is empty"));
    }
    Ok(clip(&text, MAX_IDENTIFIER + 1).to_owned())
}

fn secret(payload: &Fields<'_>) -> Result<SecretText, Malformed> {
    let text = payload.text("secret")?;
    if text.is_empty() {
        return Err(payload.bad("secret", "is empty"));
    }
    Ok(SecretText::new(text))
}

fn auth_request(payload: &Fields<'_>) -> Result<AuthRequest, Malformed> {
    let nonce = payload.text("nonce")?;
    if nonce.chars().count() != NONCE_LEN {
        return Err(payload.bad("nonce", "is not 24 characters long"));
    }
    let signature = payload.text("signature")?;
    // Exporters differ in alphabet and padding; the bytes are what counts.
    let decoded = [&STANDARD, &STANDARD_NO_PAD, &URL_SAFE, &URL_SAFE_NO_PAD]
        .into_iter()
        .find_map(|engine| engine.decode(&*signature).ok())
        .ok_or_else(|| payload.bad("signature", "is not base64"))?;
    let signature =
        <[u8; SIGNATURE_LEN]>::try_from(decoded).map_err(|_| payload.bad("signature", "is not 64 bytes"))?;
    Ok(AuthRequest {
        identifier: identifier(payload)?,
        nonce: nonce.into(),
        proof_timestamp: payload.number("proofTimestamp")?,
        signature,
        public_key: payload.optional_text("publicKey")?.map(Into::into),
    })
}

/// The first `max` characters.
fn clip(text: &str, max: usize) -> &str {
    text.char_indices().nth(max).map_or(text, |(end, _)| &text[..end])
}
