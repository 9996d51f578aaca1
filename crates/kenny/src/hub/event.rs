//! The outputs of a session.

use convoke_core::id::{CallId, PeerId};
use convoke_core::secret::SecretText;

use super::{Accepted, Refusal};
use crate::frame::{FrameError, HubFrame, Log, Register, Response, Telemetry};
use crate::inflight::Match;

/// The result of a step of the handshake.
#[derive(Debug)]
pub enum Step {
    /// Send this challenge.
    Challenge(HubFrame<'static>),
    /// Check this token and say so with [`HubSession::on_token_checked`](super::HubSession::on_token_checked).
    CheckToken {
        /// The agent whose key it should be.
        agent: PeerId,
        /// The token.
        token: SecretText,
    },
    /// The agent is in: replace its older link, send the policy, serve it.
    Accepted(Box<Accepted>),
    /// Close with [`Refusal::close`].
    Close(Refusal),
}

/// The meaning of a frame.
#[derive(Debug)]
pub enum Event<'a, W> {
    /// Look the agent up and call [`HubSession::on_register`](super::HubSession::on_register).
    Register(Box<Register<'a>>),
    /// The agent is in.
    Accepted(Box<Accepted>),
    /// A response, and what it is to the table of calls.
    Response {
        /// The response.
        response: Response<'a>,
        /// The call that waited for it, if any.
        call: Match<W>,
    },
    /// A snapshot of this agent.
    Telemetry(Telemetry<'a>),
    /// A log event of this agent.
    Log(Log<'a>),
    /// Send this.
    Reply(HubFrame<'static>),
    /// A sign of life and nothing else.
    Alive,
    /// A frame that cannot be used. If it was the response to a waiting call, that call ends here.
    Unreadable {
        /// The error.
        why: Unreadable,
        /// The call of this link that it answers, and what waited for it.
        call: Option<(CallId, Match<W>)>,
    },
    /// A frame that is dropped.
    Ignored(Ignored),
    /// Close with [`Refusal::close`].
    Close(Refusal),
}

/// Why a frame of a live agent cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// Over the soft limit: its call fails with `too_large`.
    #[error("the frame of {0} bytes is over the limit")]
    TooLarge(usize),
    /// There was no room for it: its call fails with `busy`.
    #[error("there was no room for a frame of {0} bytes")]
    Skipped(u64),
    /// Not a frame.
    #[error(transparent)]
    Frame(FrameError),
}

/// Why a readable frame is dropped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Ignored {
    /// A type of a version that we do not know.
    #[error("frame type {0:?} is not known")]
    Unknown(String),
    /// A handshake frame after the handshake.
    #[error("a handshake frame after the handshake")]
    OutOfPlace,
    /// Telemetry or a log event under another agent's id. (The field's v0.8 servers store it as that agent's.)
    #[error("the frame carries another agent's id")]
    ForeignId,
    /// The session is over.
    #[error("the session is over")]
    Closed,
}

/// The action that is due.
#[derive(Debug)]
pub enum Output<W> {
    /// Send this.
    Send(HubFrame<'static>),
    /// The call's deadline has come.
    Expired(CallId, W),
    /// Close with [`Refusal::close`].
    Close(Refusal),
}
