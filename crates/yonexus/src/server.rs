//! The server's end of a connection (contract, sections 5 to 9).
//!
//! ```text
//! Fresh ──hello──▶ Greeted ──auth_request, accepted──▶ Live
//!   │                 │                                 │
//!   └─ 10 s ──────────┴─ too long, too many frames ─────┴─ no heartbeat ──▶ Closed
//! ```
//!
//! What it promises:
//! * **Nobody is Live without proof**: [`ServerSession::accept`] takes an [`Accepted`], which only
//!   [`Record::authenticate`](crate::record::Record::authenticate) makes.
//! * **A live connection does not die of a frame it cannot read**, unless three come in a row or one is beyond the hard
//!   limit.
//! * **No waiting for ever**: every state has a deadline.

use std::time::Duration;

use convoke_core::secret::SecretText;
use ed25519_dalek::VerifyingKey;

use crate::builtin::{AuthRequest, Body, Builtin, Hello, Malformed, decode};
use crate::close::{self, Close};
use crate::message::{Message, RuleMessage, split};
use crate::reason::{AuthFailure, ErrorCode, Kind, PairFailure, Status};
use crate::record::Accepted;
use crate::window::{LivenessClock, Rate};
use crate::{MAX_FRAME_AFTER, MAX_FRAME_BEFORE, Now, key};

/// Malformed frames in a row that close a connection.
const MAX_MALFORMED: u8 = 3;
/// Frames that a connection may send before it has authenticated.
const MAX_FRAMES_BEFORE: u32 = 64;
/// How long a connection may take over its `hello`.
const HELLO_WITHIN: Duration = Duration::from_secs(10);

/// The windows of a server.
#[derive(Clone, Copy, Debug)]
pub struct ServerConfig {
    /// Without a heartbeat for so long a client is unstable.
    pub unstable_after: Duration,
    /// Without a heartbeat for so long it is offline.
    pub offline_after: Duration,
    /// How long a connection may take from `hello` to its proof.
    pub auth_within: Duration,
    /// Frames that an authenticated client may send a second.
    pub frames_per_second: u32,
}

impl Default for ServerConfig {
    /// The contract's.
    fn default() -> Self {
        Self {
            unstable_after: Duration::from_secs(420),
            offline_after: Duration::from_secs(660),
            auth_within: Duration::from_secs(30),
            frames_per_second: 5_000,
        }
    }
}

/// One connection.
#[derive(Debug)]
pub struct ServerSession {
    config: ServerConfig,
    state: State,
    malformed: u8,
}

#[derive(Debug)]
enum State {
    Fresh { deadline: Duration, frames: u32 },
    Greeted(Box<Greeted>),
    Live(Box<Live>),
    Closed,
}

#[derive(Debug)]
struct Greeted {
    identifier: String,
    key: Option<VerifyingKey>,
    deadline: Duration,
    frames: u32,
}

#[derive(Debug)]
struct Live {
    identifier: String,
    clock: LivenessClock,
    rate: Rate,
    /// When it was last told that it sends too much: once a second is enough.
    told: Option<Duration>,
}

/// The meaning of a frame.
#[derive(Debug)]
pub enum Event<'a> {
    /// Look the client up, decide, call [`ServerSession::greeted`], and answer.
    Hello {
        /// For the answer.
        request_id: Option<String>,
        /// The body.
        hello: Hello,
        /// Its key, if it is one.
        key: Option<VerifyingKey>,
    },
    /// A code, from a connection that presented this key.
    PairConfirm {
        /// For the answer.
        request_id: Option<String>,
        /// As typed.
        code: SecretText,
        /// The key of its `hello`.
        key: Option<VerifyingKey>,
    },
    /// A proof: check it, and call [`ServerSession::accept`].
    AuthRequest {
        /// For the answer.
        request_id: Option<String>,
        /// The proof.
        request: Box<AuthRequest>,
    },
    /// A sign of life.
    Heartbeat {
        /// The client was unstable before it.
        recovered: bool,
    },
    /// An application's message.
    Rule(RuleMessage<'a>),
    /// Send this; the connection goes on.
    Reply(Builtin),
    /// A frame over the rate was dropped; tell it with this, if anything.
    Dropped(Option<Builtin>),
    /// Send these and close.
    Close(Vec<Builtin>, Close),
    /// Nothing to do.
    Ignored,
}

/// The action that is due.
#[derive(Debug)]
pub enum Output {
    /// The client's liveness changed, for this reason. `Offline` is followed by a close.
    Status(Status, String),
    /// Send these and close.
    Close(Vec<Builtin>, Close),
}

impl ServerSession {
    /// A connection that has just opened.
    pub fn new(config: ServerConfig, now: Now) -> Self {
        let deadline = now.mono.saturating_add(HELLO_WITHIN);
        Self { config, state: State::Fresh { deadline, frames: 0 }, malformed: 0 }
    }

    /// Largest message that is read now; a larger one is refused, and at twice that the connection closes.
    pub const fn soft_limit(&self) -> usize {
        if self.is_live() { MAX_FRAME_AFTER } else { MAX_FRAME_BEFORE }
    }

    /// Whether the client has proved itself.
    pub const fn is_live(&self) -> bool {
        matches!(self.state, State::Live(_))
    }

    /// The identifier that the peer has proved or claims.
    pub fn identifier(&self) -> Option<&str> {
        match &self.state {
            State::Greeted(greeted) => Some(&greeted.identifier),
            State::Live(live) => Some(&live.identifier),
            State::Fresh { .. } | State::Closed => None,
        }
    }

    /// The key of its `hello`.
    pub fn key(&self) -> Option<&VerifyingKey> {
        match &self.state {
            State::Greeted(greeted) => greeted.key.as_ref(),
            _ => None,
        }
    }

    /// A text message came.
    pub fn on_text<'a>(&mut self, text: &'a str, now: Now) -> Event<'a> {
        let limit = self.soft_limit();
        if let Some(over) = self.over_rate(now) {
            return over;
        }
        if text.len() > limit {
            return self.malformed(Malformed::TooLarge { size: text.len(), limit }, None, now);
        }
        let json = match split(text) {
            Err(why) => return self.malformed(why, None, now),
            Ok(Message::Rule(_)) if !self.is_live() => return self.too_early(None, now),
            Ok(Message::Rule(rule)) => {
                self.malformed = 0;
                return Event::Rule(rule);
            }
            Ok(Message::Builtin(json)) => json,
        };
        match decode(json) {
            Err(why) => self.malformed(why, None, now),
            Ok(frame) => self.on_builtin(frame, now),
        }
    }

    /// A binary message came.
    pub fn on_binary(&mut self, now: Now) -> Event<'static> {
        self.over_rate(now).unwrap_or_else(|| self.malformed(Malformed::Binary, None, now))
    }

    fn on_builtin(&mut self, frame: Builtin, now: Now) -> Event<'static> {
        let Builtin { request_id, body, .. } = frame;
        let kind = body.kind();
        match (&mut self.state, body) {
            (State::Closed, _) => Event::Ignored,
            (State::Fresh { .. } | State::Greeted(_), Body::Hello(hello)) => {
                let key = match hello.public_key.as_deref().map(key::parse) {
                    None => None,
                    Some(Ok(key)) => Some(key),
                    Some(Err(why)) => {
                        let why = match why {
                            key::BadKey::NotBase64 => "is not base64",
                            key::BadKey::NotEd25519 => "is not an Ed25519 public key",
                            key::BadKey::Weak => "is not a usable Ed25519 public key",
                        };
                        let field = Malformed::Field { frame: "hello", field: "publicKey", why };
                        return self.malformed(field, request_id, now);
                    }
                };
                self.malformed = 0;
                Event::Hello { request_id, hello, key }
            }
            (State::Greeted(greeted), Body::PairConfirm { identifier, pairing_code }) => {
                self.malformed = 0;
                if identifier != greeted.identifier {
                    let reason = PairFailure::IdentifierNotAllowed;
                    let body = Body::PairFailed { identifier: greeted.identifier.clone(), reason };
                    return Event::Reply(Builtin::new(request_id, now.unix(), body));
                }
                Event::PairConfirm { request_id, code: pairing_code, key: greeted.key }
            }
            (State::Greeted(greeted), Body::AuthRequest(request)) => {
                self.malformed = 0;
                if request.identifier != greeted.identifier {
                    let reason = AuthFailure::UnknownIdentifier;
                    let body = Body::AuthFailed { identifier: greeted.identifier.clone(), reason };
                    return Event::Reply(Builtin::new(request_id, now.unix(), body));
                }
                Event::AuthRequest { request_id, request: Box::new(request) }
            }
            (State::Live(live), Body::Heartbeat { identifier }) => {
                if identifier != live.identifier {
                    let why = "is not the authenticated one";
                    let field = Malformed::Field { frame: "heartbeat", field: "identifier", why };
                    return self.malformed(field, request_id, now);
                }
                self.malformed = 0;
                Event::Heartbeat { recovered: live.clock.beat(now.mono) }
            }
            (State::Fresh { .. }, Body::PairConfirm { .. } | Body::AuthRequest(_)) => {
                self.malformed(Malformed::OutOfPlace { kind, why: "comes after `hello`" }, request_id, now)
            }
            (State::Fresh { .. } | State::Greeted(_), Body::Heartbeat { .. }) => self.too_early(request_id, now),
            (State::Live(_), Body::Hello(_) | Body::PairConfirm { .. } | Body::AuthRequest(_)) => {
                let why = "comes before authentication, and this connection is authenticated";
                self.malformed(Malformed::OutOfPlace { kind, why }, request_id, now)
            }
            _ => self.malformed(Malformed::WrongSide(kind), request_id, now),
        }
    }

    /// A `hello` was answered with something other than a rejection: from now on this connection is that client's.
    /// `until` is how long it may stay without a proof.
    pub fn greeted(&mut self, identifier: &str, key: Option<VerifyingKey>, until: Option<Duration>, now: Now) {
        let frames = match &self.state {
            State::Fresh { frames, .. } => *frames,
            State::Greeted(greeted) => greeted.frames,
            State::Live(_) | State::Closed => return,
        };
        // The proof comes after whatever is waited for.
        let within = until.unwrap_or_default().saturating_add(self.config.auth_within);
        let deadline = now.mono.saturating_add(within);
        self.state = State::Greeted(Box::new(Greeted { identifier: identifier.into(), key, deadline, frames }));
    }

    /// The pairing is done: the proof comes next.
    pub fn paired(&mut self, now: Now) {
        if let State::Greeted(greeted) = &mut self.state {
            greeted.deadline = now.mono.saturating_add(self.config.auth_within);
        }
    }

    /// The client has proved itself.
    pub fn accept(&mut self, accepted: &Accepted, now: Now) {
        let ServerConfig { unstable_after, offline_after, frames_per_second, .. } = self.config;
        self.malformed = 0;
        self.state = State::Live(Box::new(Live {
            identifier: accepted.identifier().to_owned(),
            clock: LivenessClock::new(unstable_after, offline_after, now.mono),
            rate: Rate::new(frames_per_second, now.mono),
            told: None,
        }));
    }

    /// When to call [`Self::on_tick`] next.
    pub fn next_deadline(&self) -> Option<Duration> {
        match &self.state {
            State::Fresh { deadline, .. } => Some(*deadline),
            State::Greeted(greeted) => Some(greeted.deadline),
            State::Live(live) => Some(live.clock.next_deadline()),
            State::Closed => None,
        }
    }

    /// Does what is due.
    pub fn on_tick(&mut self, now: Now) -> Option<Output> {
        match &mut self.state {
            State::Fresh { deadline, .. } if now.mono >= *deadline => {
                Some(self.close_for(ErrorCode::AuthFailed, "no hello came in time", close::TIMEOUT, now))
            }
            State::Greeted(greeted) if now.mono >= greeted.deadline => {
                Some(self.close_for(ErrorCode::AuthFailed, "no proof came in time", close::TIMEOUT, now))
            }
            State::Live(live) => {
                let status = live.clock.on_tick(now.mono)?;
                Some(Output::Status(status, live.clock.reason(status)))
            }
            _ => None,
        }
    }

    /// The connection ends.
    pub fn end(&mut self) {
        self.state = State::Closed;
    }

    fn close_for(&mut self, code: ErrorCode, message: &str, close: Close, now: Now) -> Output {
        self.end();
        Output::Close(vec![Builtin::error(None, now.unix(), code, message)], close)
    }

    /// Counts the frame. Before authentication there is a most; after it a rate.
    fn over_rate(&mut self, now: Now) -> Option<Event<'static>> {
        let frames = match &mut self.state {
            State::Closed => return Some(Event::Ignored),
            State::Fresh { frames, .. } => frames,
            State::Greeted(greeted) => &mut greeted.frames,
            State::Live(live) => {
                if live.rate.take(now.mono) {
                    return None;
                }
                let silent = live.told.is_some_and(|at| now.mono.saturating_sub(at) < Duration::from_secs(1));
                if silent {
                    return Some(Event::Dropped(None));
                }
                live.told = Some(now.mono);
                let message = "too many messages; some were dropped";
                return Some(Event::Dropped(Some(Builtin::error(None, now.unix(), ErrorCode::RateLimited, message))));
            }
        };
        *frames += 1;
        if *frames <= MAX_FRAMES_BEFORE {
            return None;
        }
        self.end();
        let message = "too many frames before authentication";
        let error = Builtin::error(None, now.unix(), ErrorCode::RateLimited, message);
        Some(Event::Close(vec![error], close::RATE_LIMITED))
    }

    fn too_early(&self, request_id: Option<String>, now: Now) -> Event<'static> {
        let message = "authenticate first";
        Event::Reply(Builtin::error(request_id, now.unix(), ErrorCode::AuthFailed, message))
    }

    fn malformed(&mut self, why: Malformed, request_id: Option<String>, now: Now) -> Event<'static> {
        self.malformed = self.malformed.saturating_add(1);
        let error = Builtin::error(request_id, now.unix(), ErrorCode::MalformedMessage, why.to_string());
        if self.malformed >= MAX_MALFORMED {
            self.end();
            return Event::Close(vec![error], close::MALFORMED);
        }
        Event::Reply(error)
    }
}

/// Whether a client may send this type.
pub const fn is_from_client(kind: Kind) -> bool {
    matches!(kind, Kind::Hello | Kind::PairConfirm | Kind::AuthRequest | Kind::Heartbeat)
}
