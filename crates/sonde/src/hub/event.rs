//! The outputs of a session.

use uuid::Uuid;

use crate::probe::Answer;
use crate::register::{BadRegister, Register};

/// The meaning of a message.
#[derive(Debug)]
pub enum Event<W> {
    /// A registration: decide on it, then `accept` or `refuse`.
    Register(Box<Registration>),
    /// A registration that cannot be read: send `bare`, and to who speaks the contract's shape a refusal; then close.
    BadRegistration {
        /// The field's bare error frame.
        bare: String,
        /// The error, in the peer's format.
        bad: BadRegister,
    },
    /// The agent lives.
    Heartbeat,
    /// A request is answered.
    Answered {
        /// Which.
        request: Uuid,
        /// The waiting caller.
        waiter: W,
        /// With what.
        answer: Box<Answer<'static>>,
    },
    /// A request's answer is beyond the limit.
    TooLarge {
        /// Which.
        request: Uuid,
        /// The waiting caller.
        waiter: W,
    },
    /// An answer to a request that ended without one.
    Late {
        /// Which.
        request: Uuid,
        /// The answer.
        answer: Box<Answer<'static>>,
    },
    /// An answer to nothing that was asked on this link.
    Stranger {
        /// The probe that it names.
        probe: String,
    },
    /// Something that cannot be taken: send this, and go on.
    Reply(String),
    /// The session is over.
    Close(Close),
    /// Nothing to do.
    Ignored,
}

/// A registration to be decided on.
#[derive(Debug)]
pub struct Registration {
    /// The registration.
    pub register: Register,
    /// Its payload in the canonical form: what a signature of it covers.
    pub payload: String,
    /// Its signature; empty when unsigned.
    pub signature: String,
}

/// The action that is due.
#[derive(Debug)]
pub enum Output<W> {
    /// A request's deadline has come.
    Expired(Uuid, W),
    /// A heartbeat is late.
    Overdue,
    /// The session is over.
    Close(Close),
}

/// Why a hub closes a link, with what the close frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// No registration in time.
    RegisterTimeout,
    /// Refused.
    Refused,
    /// No heartbeat within the window.
    NoHeartbeat,
    /// A frame beyond the hard limit.
    TooLarge,
    /// A newer link of the same agent.
    Replaced,
    /// Its trust is gone.
    Revoked,
    /// The hub stops.
    GoingAway,
}

impl Close {
    /// The close code. 4001 is the one that the field's agent explains to its owner as a refused credential.
    pub const fn code(self) -> u16 {
        match self {
            Self::RegisterTimeout => 4408,
            Self::Refused | Self::Revoked => 4001,
            Self::NoHeartbeat => 4410,
            Self::TooLarge => 1009,
            Self::Replaced => 4409,
            Self::GoingAway => 1001,
        }
    }

    /// The close frame's text.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::RegisterTimeout => "no agent.register in time",
            Self::Refused => "registration refused",
            Self::NoHeartbeat => "no heartbeat in time",
            Self::TooLarge => "message too large",
            Self::Replaced => "replaced by a newer connection",
            Self::Revoked => "revoked",
            Self::GoingAway => "the hub is stopping",
        }
    }
}
