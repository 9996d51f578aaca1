//! Why the hub ends a tunnel.

use crate::close::{BAD_REGISTER, Close, GOING_AWAY, TOO_LARGE, UNAUTHORIZED};
use crate::frame::FrameError;
use crate::wire_bytes::BadBytes;

/// Why the hub ends a session. The hub logs this; the peer is told only [`Refusal::close`], which says the same for
/// every way to fail authentication, so that nobody learns which ids exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No `register` in time. (The field's servers wait for ever, and unauthenticated sockets pile up.)
    #[error("no register frame in time")]
    RegisterTimeout,
    /// The first frame was another one.
    #[error("the first frame was not a register")]
    NotRegister,
    /// The first frame was no frame.
    #[error("the first frame was unreadable: {0}")]
    BadRegister(FrameError),
    /// The claimed id is none that an agent can have.
    #[error("the agent id is malformed")]
    BadAgentId,
    /// `client_nonce` is not base64 of 32 bytes.
    #[error("client_nonce {0}")]
    BadNonce(BadBytes),
    /// Neither the signature path nor (where allowed) a token.
    #[error("the register frame offers no way to authenticate that this hub takes")]
    NoCredential,
    /// A token, but this hub does not take tokens.
    #[error("token authentication is switched off")]
    TokenAuthOff,
    /// The token is not the agent's.
    #[error("the token is not valid for this agent")]
    BadToken,
    /// No `auth` in time.
    #[error("no auth frame in time")]
    AuthTimeout,
    /// Another frame, or an unreadable one, where `auth` was due.
    #[error("a frame other than auth during the handshake")]
    NotAuth,
    /// The id has no key here, or is revoked.
    #[error("the agent is unknown or revoked")]
    UnknownAgent,
    /// The signature does not fit the agent's key and this session.
    #[error("the signature is not valid")]
    BadSignature,
    /// A frame beyond the limit.
    #[error("a frame of {0} bytes is over the limit")]
    TooLarge(usize),
    /// Nothing heard for as long as the heartbeat allows.
    #[error("nothing heard for too long")]
    Silent,
}

impl Refusal {
    /// The close frame for the peer.
    pub const fn close(&self) -> Close {
        match self {
            Self::RegisterTimeout => Close { code: BAD_REGISTER, reason: "no register frame in time" },
            Self::NotRegister | Self::BadRegister(_) | Self::BadAgentId => {
                Close { code: BAD_REGISTER, reason: "expected a register frame" }
            }
            Self::BadNonce(_)
            | Self::NoCredential
            | Self::TokenAuthOff
            | Self::BadToken
            | Self::AuthTimeout
            | Self::NotAuth
            | Self::UnknownAgent
            | Self::BadSignature => Close { code: UNAUTHORIZED, reason: "authentication failed" },
            Self::TooLarge(_) => Close { code: TOO_LARGE, reason: "frame too large" },
            Self::Silent => Close { code: GOING_AWAY, reason: "no frame for too long" },
        }
    }
}
