//! The agent's end of a tunnel (contract, "Transport", "register" to "auth", "ping / pong").
//!
//! The hub must prove itself first. Until a `challenge` carries the pinned key's signature over this session's nonce,
//! nothing is dispatched and no `auth` is sent: whoever merely terminates TLS can neither drive the machine nor collect
//! a signature. There is no frame that says "accepted"; a hub that lets the agent in sends a `policy`, one that does not
//! closes the socket.

use std::borrow::Cow;
use std::time::Duration;

use convoke_core::id::PeerId;
use ed25519_dalek::{SigningKey, VerifyingKey};
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::frame::{self, FrameError, HubFrame, Meta};
use crate::heartbeat::{self, Beat, HeartbeatClock, Mono};
use crate::policy::{PolicyRule, ShellPolicy};
use crate::transcript::Transcript;
use crate::wire_bytes::NONCE_LEN;

/// The settings of a session.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// This agent's id.
    pub agent_id: PeerId,
    /// The hub's public key, pinned at install time.
    pub server_key: VerifyingKey,
    /// The time-out for the hub's challenge.
    pub challenge_timeout: Duration,
    /// Our ping interval.
    pub heartbeat: Duration,
    /// Silent intervals after which the hub is gone.
    pub missed: u32,
}

impl AgentConfig {
    /// The contract's intervals.
    pub fn new(agent_id: PeerId, server_key: VerifyingKey) -> Self {
        Self {
            agent_id,
            server_key,
            challenge_timeout: Duration::from_secs(10),
            heartbeat: heartbeat::DEFAULT_INTERVAL,
            missed: heartbeat::DEFAULT_MISSED,
        }
    }
}

/// The agent's end of one tunnel.
#[derive(Debug)]
pub struct AgentSession {
    config: AgentConfig,
    client_nonce: [u8; NONCE_LEN],
    state: State,
}

#[derive(Debug)]
enum State {
    /// The private key leaves the session with this state.
    AwaitChallenge {
        deadline: Mono,
        key: Box<SigningKey>,
    },
    Live {
        clock: HeartbeatClock,
        confirmed: bool,
    },
    Ended,
}

/// The meaning of a frame of the hub.
#[derive(Debug)]
pub enum AgentEvent<'a> {
    /// The hub has proved itself: send this `auth`. Requests may follow.
    Auth(String),
    /// Run a tool and answer under this id.
    Request {
        /// The id to answer under.
        id: Uuid,
        /// The tool.
        tool: Cow<'a, str>,
        /// Its arguments, not yet looked at: not even known to be an object.
        args: Cow<'a, RawValue>,
        /// The only folders below which files may be read for it.
        below: Option<Vec<String>>,
    },
    /// The operator's rules, in place of those before.
    Policy {
        /// The rules.
        rules: Vec<PolicyRule>,
        /// The number of rules skipped because this agent does not understand them.
        skipped: usize,
        /// The shell policy, if the hub sends one; otherwise the present one stays.
        shell: Option<ShellPolicy>,
    },
    /// Send this.
    Reply(String),
    /// A sign of life and nothing else.
    Alive,
    /// A frame that is dropped; the tunnel lives.
    Dropped(Dropped),
    /// Close the socket and connect anew.
    End(EndReason),
}

/// Why a frame of the hub is dropped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Dropped {
    /// Not a frame that we can read.
    #[error(transparent)]
    Unreadable(FrameError),
    /// A challenge after the handshake.
    #[error("a challenge after the handshake")]
    OutOfPlace,
    /// The session is over.
    #[error("the session is over")]
    Ended,
}

/// Why a session ends.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndReason {
    /// The hub sent something else before it proved itself.
    #[error("the hub sent something else before its challenge")]
    NotChallenge,
    /// The hub's first frame was unreadable.
    #[error("the hub's challenge was unreadable: {0}")]
    BadChallenge(FrameError),
    /// The challenge is not signed by the pinned key.
    #[error("the hub could not prove that it holds the pinned key")]
    BadServerSignature,
    /// No challenge in time.
    #[error("the hub sent no challenge in time")]
    ChallengeTimeout,
    /// Nothing heard for as long as the heartbeat allows.
    #[error("nothing heard from the hub for too long")]
    Silent,
}

/// The action that is due.
#[derive(Debug, PartialEq, Eq)]
pub enum AgentTick {
    /// Nothing yet.
    Wait,
    /// Send this.
    Send(String),
    /// Close the socket and connect anew.
    End(EndReason),
}

impl AgentSession {
    /// A session for a socket that has just opened. `client_nonce` must be fresh random bytes: it is what stops a
    /// recorded challenge from being played to us again.
    pub fn new(config: AgentConfig, key: SigningKey, client_nonce: [u8; NONCE_LEN], now: Mono) -> Self {
        let deadline = now.saturating_add(config.challenge_timeout);
        Self { config, client_nonce, state: State::AwaitChallenge { deadline, key: Box::new(key) } }
    }

    /// The frame to send first.
    pub fn register_frame(&self, meta: &Meta) -> String {
        frame::register(self.config.agent_id.as_str(), &self.client_nonce, meta)
    }

    /// Whether the hub has proved itself and the session is not over.
    pub fn is_live(&self) -> bool {
        matches!(self.state, State::Live { .. })
    }

    /// Whether the hub has let us in: it has sent something after our `auth`. Time to forget the reconnect back-off.
    pub fn is_confirmed(&self) -> bool {
        matches!(self.state, State::Live { confirmed: true, .. })
    }

    /// A text message came in.
    pub fn on_text<'a>(&mut self, text: &'a str, now: Mono) -> AgentEvent<'a> {
        match &mut self.state {
            State::Ended => return AgentEvent::Dropped(Dropped::Ended),
            State::AwaitChallenge { .. } => return self.on_challenge(HubFrame::decode(text), now),
            State::Live { clock, confirmed } => {
                clock.heard(now);
                *confirmed = true;
            }
        }
        match HubFrame::decode(text) {
            Ok(HubFrame::Request { id, tool, args, below }) => AgentEvent::Request { id, tool, args, below },
            Ok(HubFrame::Policy { rules, skipped, shell }) => AgentEvent::Policy { rules, skipped, shell },
            Ok(HubFrame::Ping) => AgentEvent::Reply(frame::pong()),
            Ok(HubFrame::Pong) => AgentEvent::Alive,
            Ok(HubFrame::Challenge { .. }) => AgentEvent::Dropped(Dropped::OutOfPlace),
            Err(error) => AgentEvent::Dropped(Dropped::Unreadable(error)),
        }
    }

    /// When to call [`Self::on_tick`] next; never, once the session is over.
    pub fn next_deadline(&self) -> Option<Mono> {
        match &self.state {
            State::AwaitChallenge { deadline, .. } => Some(*deadline),
            State::Live { clock, .. } => Some(clock.next_deadline()),
            State::Ended => None,
        }
    }

    /// Does what is due.
    pub fn on_tick(&mut self, now: Mono) -> AgentTick {
        match &mut self.state {
            State::AwaitChallenge { deadline, .. } if now >= *deadline => {
                AgentTick::End(self.end(EndReason::ChallengeTimeout))
            }
            State::Live { clock, .. } => match clock.on_tick(now) {
                Beat::Wait => AgentTick::Wait,
                Beat::Ping => AgentTick::Send(frame::ping()),
                Beat::Dead => AgentTick::End(self.end(EndReason::Silent)),
            },
            _ => AgentTick::Wait,
        }
    }

    fn on_challenge<'a>(&mut self, decoded: Result<HubFrame<'a>, FrameError>, now: Mono) -> AgentEvent<'a> {
        let State::AwaitChallenge { key, .. } = std::mem::replace(&mut self.state, State::Ended) else {
            return AgentEvent::Dropped(Dropped::Ended);
        };
        let (server_nonce, server_sig) = match decoded {
            Ok(HubFrame::Challenge { server_nonce, server_sig }) => (server_nonce, server_sig),
            Ok(_) | Err(FrameError::UnknownType { .. }) => return AgentEvent::End(EndReason::NotChallenge),
            Err(error) => return AgentEvent::End(EndReason::BadChallenge(error)),
        };
        let transcript = Transcript::new(self.config.agent_id.as_str(), &self.client_nonce, &server_nonce);
        if !transcript.verify(&self.config.server_key, &server_sig) {
            return AgentEvent::End(EndReason::BadServerSignature);
        }
        let clock = HeartbeatClock::new(self.config.heartbeat, self.config.missed, now);
        self.state = State::Live { clock, confirmed: false };
        AgentEvent::Auth(frame::auth(&transcript.sign(&*key)))
    }

    fn end(&mut self, reason: EndReason) -> EndReason {
        self.state = State::Ended;
        reason
    }
}
