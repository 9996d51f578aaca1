//! Builtin frames (contract, sections 4, 5, 12 and 16): `builtin::{JSON}`, one envelope, fifteen types.
//!
//! Rules of the decoder: keys come in any order, unknown keys are skipped, `null` is the same as absent, a known key
//! given twice is an error, and an error names frame, field and fault in constant words: it never quotes the payload,
//! which may hold a code or a secret.

mod decode;
mod encode;
mod fields;

use convoke_core::secret::SecretText;

use crate::message::BadRule;
use crate::proof::SIGNATURE_LEN;
use crate::reason::{AdminNotification, AuthFailure, ErrorCode, Kind, NextAction, PairFailure, Status, Unsafe};

pub use decode::decode;

/// Longest identifier that is kept of a frame, in characters; a longer one is cut, and on no allow-list.
pub const MAX_IDENTIFIER: usize = 128;
/// Longest `requestId` that is echoed, in characters; a longer one is cut.
pub const MAX_REQUEST_ID: usize = 128;
/// Longest reason or error message that is kept, in characters.
pub const MAX_TEXT: usize = 512;

/// One builtin frame.
#[derive(Clone, Debug)]
pub struct Builtin {
    /// For correlation.
    pub request_id: Option<String>,
    /// When it was made, in UTC unix seconds.
    pub timestamp: Option<i64>,
    /// The body.
    pub body: Body,
}

/// The body of a builtin frame.
#[derive(Clone, Debug)]
pub enum Body {
    /// 5.1.
    Hello(Hello),
    /// 5.1.
    HelloAck {
        /// The client's identifier.
        identifier: String,
        /// The client's next action.
        next_action: NextAction,
    },
    /// 5.2. Never the code itself.
    PairRequest {
        /// The client's identifier.
        identifier: String,
        /// When the code's time is over, in unix seconds.
        expires_at: i64,
        /// How long that is.
        ttl_seconds: u64,
        /// Whether the administrator has it.
        admin_notification: AdminNotification,
    },
    /// 5.2.
    PairConfirm {
        /// The client's identifier.
        identifier: String,
        /// As a person typed it.
        pairing_code: SecretText,
    },
    /// 5.2.
    PairSuccess {
        /// The client's identifier.
        identifier: String,
        /// For the proofs to come.
        secret: SecretText,
        /// When, in unix seconds.
        paired_at: i64,
    },
    /// 5.2.
    PairFailed {
        /// The client's identifier.
        identifier: String,
        /// Why.
        reason: PairFailure,
    },
    /// 5.3.
    AuthRequest(AuthRequest),
    /// 5.3.
    AuthSuccess {
        /// The client's identifier.
        identifier: String,
        /// When, in unix seconds.
        authenticated_at: i64,
        /// `online`.
        status: Status,
    },
    /// 5.3.
    AuthFailed {
        /// The client's identifier.
        identifier: String,
        /// Why.
        reason: AuthFailure,
    },
    /// 5.3.
    RePairRequired {
        /// The client's identifier.
        identifier: String,
        /// Why; another word than the contract's is kept as it came.
        reason: RePairReason,
    },
    /// 5.4.
    Heartbeat {
        /// The client's identifier.
        identifier: String,
    },
    /// 5.4.
    HeartbeatAck {
        /// The client's identifier.
        identifier: String,
        /// `online`.
        status: Status,
    },
    /// 5.5.
    StatusUpdate {
        /// The client's identifier.
        identifier: String,
        /// The new one.
        status: Status,
        /// Why.
        reason: Option<String>,
    },
    /// 5.5.
    DisconnectNotice {
        /// The client's identifier.
        identifier: String,
        /// Why.
        reason: String,
    },
    /// 5.6.
    Error(ErrorBody),
}

/// `hello` (contract, 5.1 and 12).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The client's identifier.
    pub identifier: String,
    /// Whether it has a secret.
    pub has_secret: bool,
    /// Whether it has a key.
    pub has_key_pair: bool,
    /// Its public key, as it came: read with [`crate::key::parse`].
    pub public_key: Option<String>,
    /// The version it speaks.
    pub protocol_version: String,
}

/// `auth_request` (contract, 5.3 and 12).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthRequest {
    /// The client's identifier.
    pub identifier: String,
    /// Exactly 24 characters.
    pub nonce: String,
    /// The proof's time, in unix seconds.
    pub proof_timestamp: i64,
    /// The signature.
    pub signature: [u8; SIGNATURE_LEN],
    /// A public key, as it came.
    pub public_key: Option<String>,
}

/// Why a client must pair again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RePairReason {
    /// A condition that the contract calls unsafe.
    Unsafe(Unsafe),
    /// Another one.
    Other(String),
}

impl RePairReason {
    /// As it travels.
    pub fn name(&self) -> &str {
        match self {
            Self::Unsafe(reason) => reason.name(),
            Self::Other(reason) => reason,
        }
    }
}

/// `error` (contract, 5.6). The contract fixes the codes and leaves the rest; these are the fields we send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorBody {
    /// The code; one of another server may be unknown.
    pub code: Result<ErrorCode, String>,
    /// For people.
    pub message: Option<String>,
}

/// Why a message cannot be used. The text goes to the peer and to logs: it quotes nothing but, at most, the name of an
/// unknown type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// No `::`.
    #[error("there is no `::` in the message")]
    NoDelimiter,
    /// No rule identifier before it.
    #[error(transparent)]
    Rule(BadRule),
    /// A binary message.
    #[error("binary messages are not part of this protocol")]
    Binary,
    /// Over the soft limit.
    #[error("the message of {size} bytes is over the limit of {limit}")]
    TooLarge {
        /// Its size.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// Not JSON, or cut off.
    #[error("the builtin message is not JSON (line {line}, column {column})")]
    NotJson {
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
    },
    /// JSON, but not an object.
    #[error("the builtin message is not a JSON object")]
    NotObject,
    /// No text under `type`.
    #[error("the builtin message has no type")]
    NoType,
    /// Not one of the fifteen.
    #[error("builtin type {kind:?} is not known")]
    UnknownType {
        /// The type, cut.
        kind: String,
    },
    /// One that the other side sends.
    #[error("`{0}` is not for this side to send")]
    WrongSide(Kind),
    /// One that has no place now.
    #[error("`{kind}` {why}")]
    OutOfPlace {
        /// Which.
        kind: Kind,
        /// Why not.
        why: &'static str,
    },
    /// A field that is missing or not what the contract says.
    #[error("{frame}.{field} {why}")]
    Field {
        /// The frame's type.
        frame: &'static str,
        /// The field.
        field: &'static str,
        /// The error.
        why: &'static str,
    },
}

impl Builtin {
    /// A frame of this moment.
    pub const fn new(request_id: Option<String>, timestamp: i64, body: Body) -> Self {
        Self { request_id, timestamp: Some(timestamp), body }
    }

    /// An `error`.
    pub fn error(request_id: Option<String>, timestamp: i64, code: ErrorCode, message: impl Into<String>) -> Self {
        let body = ErrorBody { code: Ok(code), message: Some(message.into()) };
        Self::new(request_id, timestamp, Body::Error(body))
    }

    /// The text that travels.
    pub fn encode(&self) -> String {
        encode::text(self)
    }

    /// Its type.
    pub const fn kind(&self) -> Kind {
        self.body.kind()
    }
}

impl Body {
    /// Its type.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Hello(_) => Kind::Hello,
            Self::HelloAck { .. } => Kind::HelloAck,
            Self::PairRequest { .. } => Kind::PairRequest,
            Self::PairConfirm { .. } => Kind::PairConfirm,
            Self::PairSuccess { .. } => Kind::PairSuccess,
            Self::PairFailed { .. } => Kind::PairFailed,
            Self::AuthRequest(_) => Kind::AuthRequest,
            Self::AuthSuccess { .. } => Kind::AuthSuccess,
            Self::AuthFailed { .. } => Kind::AuthFailed,
            Self::RePairRequired { .. } => Kind::RePairRequired,
            Self::Heartbeat { .. } => Kind::Heartbeat,
            Self::HeartbeatAck { .. } => Kind::HeartbeatAck,
            Self::StatusUpdate { .. } => Kind::StatusUpdate,
            Self::DisconnectNotice { .. } => Kind::DisconnectNotice,
            Self::Error(_) => Kind::Error,
        }
    }
}

/// The body of the fuzz target, here so that a property test on a stable toolchain runs the same code.
pub fn exercise(bytes: &[u8]) {
    use crate::message::{Message, split};
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match split(text) {
        Ok(Message::Rule(rule)) => assert_eq!(crate::message::encode(rule.rule, rule.content), text),
        Ok(Message::Builtin(json)) => match decode(json) {
            Ok(frame) => {
                let written = frame.encode();
                let Ok(Message::Builtin(json)) = split(&written) else { panic!("a builtin stays one") };
                let again = decode(json).expect("what the encoder writes, the decoder reads");
                assert_eq!(again.encode(), written);
            }
            Err(error) => assert!(error.to_string().len() <= 1024),
        },
        Err(error) => assert!(error.to_string().len() <= 1024),
    }
}
