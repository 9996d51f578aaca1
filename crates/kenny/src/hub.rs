//! The hub's end of a tunnel (contract, "Transport", "register" to "auth", "ping / pong").
//!
//! ```text
//! AwaitRegister ──register──▶ LookingUp ──on_register──▶ AwaitAuth ──auth──▶ Live
//!       │                         │                          │               │
//!       └─ 10 s, other frame ─────┴── token (if allowed) ────┴─ 10 s, other ─┴─ silent, too large ─▶ Closed
//!          4400                       CheckingToken ▶ Live      frame, bad
//!                                     or 4401                   signature 4401
//! ```
//!
//! What it promises:
//! * **Nobody is Live without proof**: a signature over *this* session's nonces under a key that the hub stored for the
//!   claimed id, or (only where switched on) a token that the hub found valid.
//! * **No oracle**: an unknown or revoked id gets the same challenge, the same work and the same close as a known id
//!   with a bad signature.
//! * **No waiting for ever**: every state before Live has a deadline, Live has a heartbeat, every call has its own.
//! * **A live tunnel does not die of a frame it cannot read**, unless that frame is beyond the hard limit.

mod event;
mod refusal;

use std::sync::LazyLock;
use std::time::Duration;

use convoke_core::id::{CallId, PeerId};
use convoke_core::secret::SecretText;
use ed25519_dalek::{SigningKey, VerifyingKey};
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::frame::{AgentFrame, FrameError, HubFrame, Meta, Register, response_id, response_id_in_start};
use crate::heartbeat::{self, Beat, HeartbeatClock, Mono};
use crate::inflight::{self, InFlight, Match, StartError};
use crate::policy::Dialect;
use crate::transcript::{Key, Transcript};
use crate::version::ProtocolVersion;
use crate::wire_bytes::{NONCE_LEN, SIGNATURE_LEN};

pub use event::{Event, Ignored, Output, Step, Unreadable};
pub use refusal::Refusal;

/// Longest frame of a peer that has not authenticated, in bytes.
pub const MAX_HANDSHAKE_FRAME: usize = 16 * 1024;
/// Most keys that are tried for one agent: the current one and those of a rotation in progress.
const MAX_KEYS: usize = 4;

/// The settings of a session.
#[derive(Clone, Debug)]
pub struct HubConfig {
    /// The time-out for `register`, and again for `auth`.
    pub handshake_timeout: Duration,
    /// The hub's ping interval.
    pub heartbeat: Duration,
    /// Silent intervals after which the agent is gone.
    pub missed: u32,
    /// Soft limit of a frame from an authenticated agent: beyond it the call fails and the tunnel lives, beyond twice
    /// that the tunnel ends.
    pub max_frame_bytes: usize,
    /// Most requests in flight.
    pub max_in_flight: usize,
    /// Whether the legacy bearer token is taken from agents that cannot sign (contract: migration window).
    pub allow_token_auth: bool,
}

impl Default for HubConfig {
    fn default() -> Self {
        Self {
            handshake_timeout: Duration::from_secs(10),
            heartbeat: heartbeat::DEFAULT_INTERVAL,
            missed: heartbeat::DEFAULT_MISSED,
            max_frame_bytes: 8 * 1024 * 1024,
            max_in_flight: inflight::DEFAULT_CAPACITY,
            allow_token_auth: false,
        }
    }
}

/// The hub's end of one tunnel. `W` is what waits for the answer to a call.
#[derive(Debug)]
pub struct HubSession<W = ()> {
    config: HubConfig,
    state: State,
    calls: InFlight<W>,
}

#[derive(Debug)]
enum State {
    AwaitRegister { deadline: Mono },
    LookingUp { deadline: Mono },
    CheckingToken { deadline: Mono, claim: Box<Accepted> },
    AwaitAuth { deadline: Mono, claim: Box<Accepted>, transcript: Transcript, keys: Vec<VerifyingKey> },
    Live { agent: PeerId, clock: HeartbeatClock },
    Closed,
}

/// An authenticated agent, with the facts it reported.
#[derive(Debug)]
pub struct Accepted {
    /// The agent.
    pub agent: PeerId,
    /// How it authenticated.
    pub proof: Proof,
    /// Its protocol version; absent in agents from before 0.8.
    pub protocol: Option<ProtocolVersion>,
    /// Its dialect beyond the contract: filter its policy with this.
    pub dialect: Dialect,
    /// Its `meta` as far as we know it.
    pub meta: Meta,
    /// Its `meta` as it came.
    pub meta_raw: Option<Box<RawValue>>,
}

/// How an agent authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// By a signature under this one of its keys.
    Signature(VerifyingKey),
    /// By the legacy bearer token.
    Token,
}

impl<W> HubSession<W> {
    /// A session for a socket that has just opened.
    pub fn new(config: HubConfig, now: Mono) -> Self {
        let deadline = now.saturating_add(config.handshake_timeout);
        let calls = InFlight::new(config.max_in_flight);
        Self { config, state: State::AwaitRegister { deadline }, calls }
    }

    /// Whether the agent has proved itself and the session is not over.
    pub fn is_live(&self) -> bool {
        matches!(self.state, State::Live { .. })
    }

    /// The agent, once live.
    pub fn agent(&self) -> Option<&PeerId> {
        match &self.state {
            State::Live { agent, .. } => Some(agent),
            _ => None,
        }
    }

    /// A text message came in: checks its size, decodes it and takes the step.
    pub fn on_text<'a>(&mut self, text: &'a str, now: Mono) -> Event<'a, W> {
        let size = text.len();
        if !self.is_live() {
            if size > MAX_HANDSHAKE_FRAME {
                return Event::Close(self.close(Refusal::TooLarge(size)));
            }
        } else if size > self.config.max_frame_bytes {
            if size > self.config.max_frame_bytes.saturating_mul(2) {
                return Event::Close(self.close(Refusal::TooLarge(size)));
            }
            self.heard(now);
            return self.unreadable(Unreadable::TooLarge(size), response_id(text));
        }
        match AgentFrame::decode(text) {
            Err(error) if self.is_live() => {
                self.heard(now);
                self.unreadable(Unreadable::Frame(error), response_id(text))
            }
            decoded => self.on_frame(decoded, now),
        }
    }

    /// A frame of this length came in and was not kept, for want of room; this is how it began.
    pub fn on_skipped(&mut self, start: &str, size: u64, now: Mono) -> Event<'static, W> {
        if !self.is_live() {
            return Event::Ignored(Ignored::OutOfPlace);
        }
        self.heard(now);
        self.unreadable(Unreadable::Skipped(size), response_id_in_start(start))
    }

    /// A decoded frame came in.
    pub fn on_frame<'a>(&mut self, decoded: Result<AgentFrame<'a>, FrameError>, now: Mono) -> Event<'a, W> {
        match (&self.state, decoded) {
            (State::Closed, _) => Event::Ignored(Ignored::Closed),
            (State::Live { .. }, decoded) => self.on_live_frame(decoded, now),
            (State::AwaitRegister { deadline }, Ok(AgentFrame::Register(register))) => {
                self.state = State::LookingUp { deadline: *deadline };
                Event::Register(register)
            }
            (State::AwaitRegister { .. }, Ok(_)) => Event::Close(self.close(Refusal::NotRegister)),
            (State::AwaitRegister { .. }, Err(error)) => Event::Close(self.close(Refusal::BadRegister(error))),
            (State::AwaitAuth { .. }, Ok(AgentFrame::Auth { agent_sig })) => match self.prove(&agent_sig, now) {
                Ok(accepted) => Event::Accepted(accepted),
                Err(refusal) => Event::Close(refusal),
            },
            // The handshake is strictly turn by turn: who talks out of turn does not speak this protocol.
            _ => Event::Close(self.close(Refusal::NotAuth)),
        }
    }

    /// The agent has been looked up: `stored` are the keys it may sign with, none if it is unknown or revoked.
    /// `server_nonce` must be fresh random bytes; it is what makes a recorded `auth` worthless in a new session.
    pub fn on_register(
        &mut self,
        register: &Register<'_>,
        server_nonce: [u8; NONCE_LEN],
        server_key: &impl Key,
        stored: &[VerifyingKey],
        now: Mono,
    ) -> Step {
        if !matches!(self.state, State::AwaitRegister { .. } | State::LookingUp { .. }) {
            return Step::Close(self.close(Refusal::NotAuth));
        }
        // Refused before anything is signed: the hub's key must not vouch for bytes with a NUL in the id. The form of
        // an id is public, so this tells nobody anything.
        let Ok(agent) = PeerId::kenny(&register.agent_id) else {
            return Step::Close(self.close(Refusal::BadAgentId));
        };
        let protocol = register.protocol.and_then(Result::ok);
        let claim = Box::new(Accepted {
            proof: Proof::Token,
            protocol,
            dialect: Dialect::new(protocol, &register.meta.features),
            meta: register.meta.clone(),
            meta_raw: register.meta_raw.map(ToOwned::to_owned),
            agent,
        });
        let deadline = now.saturating_add(self.config.handshake_timeout);
        match credential(register) {
            Credential::Signature(client_nonce) => {
                let transcript = Transcript::new(claim.agent.as_str(), &client_nonce, &server_nonce);
                let server_sig = transcript.sign(server_key);
                // Both sides sign the same bytes, so an agent stored under the hub's own key could send the hub's
                // signature back.
                let own = server_key.public();
                let keys = stored.iter().filter(|key| **key != own).take(MAX_KEYS).copied().collect();
                self.state = State::AwaitAuth { deadline, claim, transcript, keys };
                Step::Challenge(HubFrame::Challenge { server_nonce, server_sig })
            }
            Credential::Token(token) if self.config.allow_token_auth => {
                let agent = claim.agent.clone();
                self.state = State::CheckingToken { deadline, claim };
                Step::CheckToken { agent, token }
            }
            Credential::Token(_) => Step::Close(self.close(Refusal::TokenAuthOff)),
            Credential::BadNonce(bad) => Step::Close(self.close(Refusal::BadNonce(bad))),
            Credential::None => Step::Close(self.close(Refusal::NoCredential)),
        }
    }

    /// The token has been checked.
    pub fn on_token_checked(&mut self, valid: bool, now: Mono) -> Step {
        match std::mem::replace(&mut self.state, State::Closed) {
            State::CheckingToken { claim, .. } if valid => Step::Accepted(self.go_live(claim, Proof::Token, now)),
            State::CheckingToken { .. } => Step::Close(Refusal::BadToken),
            _ => Step::Close(Refusal::NotAuth),
        }
    }

    /// The agent's signature came in.
    pub fn on_auth(&mut self, agent_sig: &[u8; SIGNATURE_LEN], now: Mono) -> Step {
        match self.prove(agent_sig, now) {
            Ok(accepted) => Step::Accepted(accepted),
            Err(refusal) => Step::Close(refusal),
        }
    }

    /// Starts a call: send its request if this is `Ok`. On an error the waiter comes back.
    pub fn start(&mut self, call: CallId, deadline: Mono, waiter: W) -> Result<(), (StartError, W)> {
        if !self.is_live() {
            return Err((StartError::NotLive, waiter));
        }
        self.calls.start(call, deadline, waiter)
    }

    /// The caller no longer waits.
    pub fn cancel(&mut self, call: CallId) -> Option<W> {
        self.calls.cancel(call)
    }

    /// How many calls wait for their response.
    pub fn in_flight(&self) -> usize {
        self.calls.len()
    }

    /// When to call [`Self::on_tick`] next; never, once the session is over and no call waits.
    pub fn next_deadline(&self) -> Option<Mono> {
        let own = match &self.state {
            State::AwaitRegister { deadline }
            | State::LookingUp { deadline }
            | State::CheckingToken { deadline, .. }
            | State::AwaitAuth { deadline, .. } => Some(*deadline),
            State::Live { clock, .. } => Some(clock.next_deadline()),
            State::Closed => None,
        };
        own.into_iter().chain(self.calls.next_deadline()).min()
    }

    /// Does what is due.
    pub fn on_tick(&mut self, now: Mono) -> Vec<Output<W>> {
        let mut outputs: Vec<_> =
            self.calls.expire(now).into_iter().map(|(call, waiter)| Output::Expired(call, waiter)).collect();
        let refusal = match &mut self.state {
            State::AwaitRegister { deadline } | State::LookingUp { deadline } if now >= *deadline => {
                Some(Refusal::RegisterTimeout)
            }
            State::CheckingToken { deadline, .. } | State::AwaitAuth { deadline, .. } if now >= *deadline => {
                Some(Refusal::AuthTimeout)
            }
            State::Live { clock, .. } => match clock.on_tick(now) {
                Beat::Wait => None,
                Beat::Ping => {
                    outputs.push(Output::Send(HubFrame::Ping));
                    None
                }
                Beat::Dead => Some(Refusal::Silent),
            },
            _ => None,
        };
        if let Some(refusal) = refusal {
            outputs.push(Output::Close(self.close(refusal)));
        }
        outputs
    }

    /// Something of the agent came in, if only a part of a frame.
    pub fn heard(&mut self, now: Mono) {
        if let State::Live { clock, .. } = &mut self.state {
            clock.heard(now);
        }
    }

    /// The socket is gone, or about to be: ends every call that still waits.
    pub fn end(&mut self) -> Vec<(CallId, W)> {
        self.state = State::Closed;
        self.calls.drain()
    }

    /// Any failure leaves the session closed: there is one attempt per nonce.
    fn prove(&mut self, agent_sig: &[u8; SIGNATURE_LEN], now: Mono) -> Result<Box<Accepted>, Refusal> {
        let State::AwaitAuth { claim, transcript, keys, .. } = std::mem::replace(&mut self.state, State::Closed)
        else {
            return Err(Refusal::NotAuth);
        };
        // An unknown id costs the same verification as a known one, so that time does not tell them apart. The decoy's
        // private key is no secret; its signature opens nothing because `keys` stays empty.
        let tried = if keys.is_empty() { std::slice::from_ref(&*DECOY) } else { &keys[..] };
        let signer = tried.iter().find(|key| transcript.verify(key, agent_sig));
        match signer {
            _ if keys.is_empty() => Err(Refusal::UnknownAgent),
            None => Err(Refusal::BadSignature),
            Some(key) => Ok(self.go_live(claim, Proof::Signature(*key), now)),
        }
    }

    fn on_live_frame<'a>(&mut self, decoded: Result<AgentFrame<'a>, FrameError>, now: Mono) -> Event<'a, W> {
        self.heard(now);
        let own = |id: &str| self.agent().is_some_and(|agent| agent.as_str() == id);
        match decoded {
            Ok(AgentFrame::Response(response)) => {
                let call = self.calls.on_response(CallId::new(response.id));
                Event::Response { response, call }
            }
            Ok(AgentFrame::Telemetry(telemetry)) if own(&telemetry.agent_id) => Event::Telemetry(telemetry),
            Ok(AgentFrame::Log(log)) if own(&log.agent_id) => Event::Log(log),
            Ok(AgentFrame::Telemetry(_) | AgentFrame::Log(_)) => Event::Ignored(Ignored::ForeignId),
            Ok(AgentFrame::Ping) => Event::Reply(HubFrame::Pong),
            Ok(AgentFrame::Pong) => Event::Alive,
            Ok(AgentFrame::Register(_) | AgentFrame::Auth { .. }) => Event::Ignored(Ignored::OutOfPlace),
            Ok(AgentFrame::Unknown { kind }) => Event::Ignored(Ignored::Unknown(kind.into_owned())),
            Err(error) => Event::Unreadable { why: Unreadable::Frame(error), call: None },
        }
    }

    fn unreadable<'a>(&mut self, why: Unreadable, call: Option<Uuid>) -> Event<'a, W> {
        let call = call.map(CallId::new).map(|call| (call, self.calls.on_response(call)));
        Event::Unreadable { why, call: call.filter(|(_, what)| !matches!(what, Match::Stranger)) }
    }

    fn go_live(&mut self, mut claim: Box<Accepted>, proof: Proof, now: Mono) -> Box<Accepted> {
        claim.proof = proof;
        let clock = HeartbeatClock::new(self.config.heartbeat, self.config.missed, now);
        self.state = State::Live { agent: claim.agent.clone(), clock };
        claim
    }

    fn close(&mut self, refusal: Refusal) -> Refusal {
        self.state = State::Closed;
        refusal
    }
}

enum Credential {
    Signature([u8; NONCE_LEN]),
    Token(SecretText),
    BadNonce(crate::wire_bytes::BadBytes),
    None,
}

/// Which path a `register` chooses (contract, "Transport" and "register"): signatures whenever the version knows them
/// and a nonce is there; a token only from an agent that offers no nonce and does not claim a version that signs, so
/// that a half-made signature `register` cannot fall back to the weaker path.
fn credential(register: &Register<'_>) -> Credential {
    let signs = match register.protocol {
        None => false,
        Some(Ok(version)) => version.signs(),
        Some(Err(_)) => return Credential::None,
    };
    match (signs, register.client_nonce, &register.token) {
        (true, Some(Ok(nonce)), _) => Credential::Signature(nonce),
        (true, Some(Err(bad)), _) => Credential::BadNonce(bad),
        (false, None, Some(token)) => Credential::Token(token.clone()),
        _ => Credential::None,
    }
}

/// A well-formed key that stands in where an agent has none.
static DECOY: LazyLock<VerifyingKey> = LazyLock::new(|| SigningKey::from_bytes(&[0x5a; 32]).verifying_key());
