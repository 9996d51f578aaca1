//! The frames of the relay: JSON texts told apart by `t`. The words are those of the presence protocol of the field
//! (`knock`, `voice`, `roster`, `lobby`, `kick`, …), and `to`/`from` carry content, as in the field's local hub.
//!
//! `null` is the same as absent everywhere, and what is unknown is ignored.

mod decode;
mod encode;

pub use decode::{Malformed, exercise, from_participant, from_relay};
pub(crate) use encode::from as encode_from;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::grant::Grant;

/// The reason of a `kick` by which nobody is kept out.
const LAPSED: &str = "lapsed";

/// The facts that a participant sends when it knocks or announces itself.
#[derive(Clone, Debug, Default)]
pub struct Announce {
    /// The requested name.
    pub name: Option<String>,
    /// A picture's address.
    pub avatar: Option<String>,
    /// A secret of the participant's own by which it is the same one when it comes again.
    pub token: Option<String>,
    /// An invite.
    pub jwt: Option<String>,
    /// An agent's assertion of its key.
    pub agent_assertion: Option<String>,
    /// What an agent pays with, where the room asks for that.
    pub agent_credit: Option<String>,
    /// What else it tells everyone: `role`, `backend`, `egress`, … Opaque but for these.
    pub meta: Option<Box<RawValue>>,
}

/// What a host asks of the room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moderation {
    /// Be the room's host from now on.
    Claim,
    /// Turn the lobby on.
    LobbyOn,
    /// Turn it off; whoever waits is admitted.
    LobbyOff,
    /// Let somebody in.
    Admit,
    /// Turn somebody away.
    Deny,
    /// Let nobody new in.
    Lock,
    /// Let new ones in again.
    Unlock,
    /// Clear what was said.
    Reset,
    /// Remove somebody.
    Kick,
    /// Change somebody's grant.
    Grant,
    /// Let an agent perceive nothing but who is there, and do nothing, until it is resumed.
    Pause,
    /// Let an agent say and do nothing until it is resumed.
    Silence,
    /// Take back a pause or a silence.
    Resume,
    /// Say that somebody is an agent, whatever they say.
    Agent,
}

impl Moderation {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::Claim,
        Self::LobbyOn,
        Self::LobbyOff,
        Self::Admit,
        Self::Deny,
        Self::Lock,
        Self::Unlock,
        Self::Reset,
        Self::Kick,
        Self::Grant,
        Self::Pause,
        Self::Silence,
        Self::Resume,
        Self::Agent,
    ];

    /// As it is spelled on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::LobbyOn => "lobbyon",
            Self::LobbyOff => "lobbyoff",
            Self::Admit => "admit",
            Self::Deny => "deny",
            Self::Lock => "lock",
            Self::Unlock => "unlock",
            Self::Reset => "reset",
            Self::Kick => "kick",
            Self::Grant => "grant",
            Self::Pause => "pause",
            Self::Silence => "silence",
            Self::Resume => "resume",
            Self::Agent => "agent",
        }
    }

    /// The one of that spelling.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|op| op.name() == text)
    }
}

/// What a participant sends.
#[derive(Clone, Debug)]
pub enum FromParticipant<'a> {
    /// It wants in.
    Knock(Box<Announce>),
    /// It is there (or not any more), and so it is shown.
    Voice {
        /// Whether it is there.
        on: bool,
        /// Whether it shows a camera.
        cam: bool,
        /// What it says about itself.
        announce: Box<Announce>,
    },
    /// A sign of life.
    Ping,
    /// It goes.
    Leave,
    /// A host's command. The connection has proved who it is, so the command carries no signature of its own.
    Mod {
        /// What to do.
        op: Moderation,
        /// To whom.
        target: Option<String>,
        /// For `grant`: what they may from now on; absent, what they may by default.
        grant: Option<Grant>,
    },
    /// An agent asks for the floor, or gives it back.
    Floor {
        /// Whether it wants it.
        on: bool,
    },
    /// Content, for one participant or for all.
    To {
        /// For whom; absent for all.
        id: Option<String>,
        /// The sender's number for it, repeated in a refusal.
        reference: Option<u64>,
        /// The content.
        payload: &'a RawValue,
    },
}

/// Where somebody stands who wants in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lobby {
    /// A host decides.
    Waiting,
    /// They are in.
    Admitted,
    /// A host said no.
    Denied,
    /// The room lets nobody new in.
    Locked,
    /// No credential that counts here.
    Unverified,
}

impl Lobby {
    /// All of them.
    pub const ALL: &'static [Self] = &[Self::Waiting, Self::Admitted, Self::Denied, Self::Locked, Self::Unverified];

    /// As it is spelled on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Admitted => "admitted",
            Self::Denied => "denied",
            Self::Locked => "locked",
            Self::Unverified => "unverified",
        }
    }

    /// The one of that spelling.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|status| status.name() == text)
    }
}

/// Somebody in the roster.
#[derive(Clone, Debug)]
pub struct Member {
    /// Their id.
    pub id: String,
    /// The name.
    pub name: String,
    /// Whether they show a camera.
    pub cam: bool,
    /// A picture's address.
    pub avatar: Option<String>,
    /// What else they tell everyone.
    pub meta: Option<Box<RawValue>>,
}

/// Somebody who waits at the door, as hosts are told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Knocker {
    /// Their id, for `admit` and `deny`.
    pub id: String,
    /// What they call themselves.
    pub name: String,
    /// `human` or `agent`.
    pub kind: String,
}

/// A line of the room's log, as hosts are told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// Milliseconds since 1970.
    pub at: i64,
    /// About whom: the authority's own id, also on the mesh.
    pub id: String,
    /// Their name; empty if they were gone.
    pub name: String,
    /// What happened: `blocked`, `granted`, `joined`, …
    pub kind: String,
    /// More.
    pub detail: String,
}

/// What the relay sends.
#[derive(Clone, Debug)]
pub enum FromRelay {
    /// The first frame: what an agent's assertion is bound to.
    Hello {
        /// The version of these frames.
        relay: u32,
        /// The room.
        room: String,
        /// Fresh for this connection.
        challenge: String,
    },
    /// The participant is in, under this id and name.
    Id {
        /// Its id.
        id: String,
        /// What it is called.
        name: String,
        /// `human` or `agent`, as the authority sees it.
        kind: String,
    },
    /// Where somebody stands who wants in.
    Lobby(Lobby),
    /// The roster.
    Roster {
        /// The members.
        members: Vec<Member>,
        /// Whether a host decides who comes in.
        lobby: bool,
        /// The host's id; empty when there is none.
        host: String,
        /// Whether nobody new is let in.
        locked: bool,
        /// The agent that has the floor.
        floor: Option<String>,
    },
    /// A sign of life.
    Ping,
    /// The participant was removed.
    Kick,
    /// What an agent came with has run out: it may come again with more.
    Lapsed,
    /// Clear what was said.
    Reset,
    /// Content.
    From {
        /// The sender.
        id: String,
        /// The content.
        payload: Box<RawValue>,
    },
    /// The participant may moderate, and these wait at the door. Only hosts are told.
    Host {
        /// Who waits.
        waiting: Vec<Knocker>,
        /// Everybody's grant, without what a pause, a silence or the floor takes away now.
        grants: BTreeMap<String, Grant>,
    },
    /// Lines of the room's log, oldest first. Only hosts are told.
    Log {
        /// The lines.
        lines: Vec<LogLine>,
    },
    /// Content was not handed on.
    Refused {
        /// The value.
        what: String,
        /// The capability that is missing, or another fixed word.
        reason: String,
        /// In words.
        message: String,
        /// The sender's number for it.
        reference: Option<u64>,
    },
    /// Something else is wrong.
    Error {
        /// A fixed word.
        code: String,
        /// In words.
        message: String,
    },
}
