//! The client's end of a connection (contract, 6.1): the ten states, what to send and what a person must be told.
//!
//! The caller keeps the secret *before* it lets the client prove itself with it: [`ClientEvent::Paired`] comes first,
//! and [`ClientSession::authenticate`] is called once the secret is on disk. A client that lost it would have to bother
//! a person again.

use std::fmt;
use std::time::Duration;

use convoke_core::secret::SecretText;
use ed25519_dalek::SigningKey;

use crate::builtin::{AuthRequest, Body, Builtin, Hello, Malformed, RePairReason, decode};
use crate::message::{Message, RuleMessage, split};
use crate::proof::NONCE_LEN;
use crate::reason::{AdminNotification, AuthFailure, ErrorCode, NextAction, PairFailure, Status};
use crate::{Now, PROTOCOL_VERSION, key, proof};

/// The contract's interval between heartbeats.
pub const HEARTBEAT: Duration = Duration::from_secs(300);

/// The state of a client (contract, 6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing was begun.
    Idle,
    /// A socket is being opened.
    Connecting,
    /// `hello` is out.
    Connected,
    /// The server wants to pair.
    PairingRequired,
    /// A code is under way.
    PairingPending,
    /// The secret is there.
    Paired,
    /// A proof is out.
    Authenticating,
    /// It holds.
    Authenticated,
    /// The connection was lost.
    Reconnecting,
    /// An error that needs a person.
    Error,
}

impl State {
    /// The contract's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Connecting => "connecting",
            Self::Connected => "connected",
            Self::PairingRequired => "pairing_required",
            Self::PairingPending => "pairing_pending",
            Self::Paired => "paired",
            Self::Authenticating => "authenticating",
            Self::Authenticated => "authenticated",
            Self::Reconnecting => "reconnecting",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The client's identity.
#[derive(Clone)]
pub struct Identity {
    /// Its identifier.
    pub identifier: String,
    /// Its key.
    pub key: SigningKey,
    /// Its secret, once it is paired.
    pub secret: Option<SecretText>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("identifier", &self.identifier).finish_non_exhaustive()
    }
}

/// The meaning of a message from the server.
#[derive(Debug)]
pub enum Incoming<'a> {
    /// An application's message.
    Rule(RuleMessage<'a>),
    /// An event of the connection.
    Event(ClientEvent),
    /// Nothing to do.
    Ignored,
}

/// An event of the connection.
#[derive(Clone, Debug)]
pub enum ClientEvent {
    /// Call [`ClientSession::authenticate`].
    AuthRequired,
    /// A code is under way: ask for it, or, if nobody could be told, wait.
    CodeWanted {
        /// When its time is over, in unix seconds of the server's clock.
        expires_at: i64,
        /// How long that is.
        ttl_seconds: u64,
        /// Whether anybody has it.
        notification: AdminNotification,
    },
    /// Keep this secret, then call [`ClientSession::authenticate`].
    Paired {
        /// The secret.
        secret: SecretText,
        /// When, in unix seconds.
        paired_at: i64,
    },
    /// Pairing failed.
    PairFailed(PairFailure),
    /// The client is in.
    Authenticated {
        /// When, in unix seconds.
        at: i64,
    },
    /// The proof was not accepted.
    AuthFailed {
        /// Why.
        reason: AuthFailure,
        /// In words, with what to do.
        explanation: String,
    },
    /// Trust was reset: the secret is of no use any more.
    RePairRequired(RePairReason),
    /// The server does not want this client.
    Rejected,
    /// A client's liveness changed.
    Status {
        /// The client's identifier.
        identifier: String,
        /// The new one.
        status: Status,
        /// Why.
        reason: Option<String>,
    },
    /// The server is about to close.
    DisconnectNotice(String),
    /// The server said that something was wrong.
    ServerError {
        /// The code.
        code: Result<ErrorCode, String>,
        /// For people.
        message: Option<String>,
    },
    /// The server sent what is no message.
    Malformed(Malformed),
}

/// One client.
#[derive(Debug)]
pub struct ClientSession {
    identity: Identity,
    state: State,
    heartbeat: Duration,
    next_beat: Option<Duration>,
    authenticated_at: Option<Duration>,
    /// How far this machine's clock is ahead of the server's, in seconds, as its last frame told.
    ahead: Option<i64>,
    requests: u64,
}

impl ClientSession {
    /// A client that has begun nothing. The contract's heartbeat interval is [`HEARTBEAT`].
    pub fn new(identity: Identity, heartbeat: Duration) -> Self {
        let heartbeat = heartbeat.max(Duration::from_millis(100));
        Self {
            identity,
            state: State::Idle,
            heartbeat,
            next_beat: None,
            authenticated_at: None,
            ahead: None,
            requests: 0,
        }
    }

    /// The present state.
    pub const fn state(&self) -> State {
        self.state
    }

    /// The client's identity.
    pub const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The seconds by which this machine's clock is ahead of the server's.
    pub const fn clock_ahead(&self) -> Option<i64> {
        self.ahead
    }

    /// A socket is being opened.
    pub fn connecting(&mut self) {
        self.state = State::Connecting;
    }

    /// The socket is open: send this `hello`. Also on a connection that is open already, to pair again.
    pub fn hello(&mut self, now: Now) -> Builtin {
        self.state = State::Connected;
        self.next_beat = None;
        let hello = Hello {
            identifier: self.identity.identifier.clone(),
            has_secret: self.identity.secret.is_some(),
            has_key_pair: true,
            public_key: Some(key::encode(&self.identity.key.verifying_key())),
            protocol_version: PROTOCOL_VERSION.into(),
        };
        self.frame(Body::Hello(hello), now)
    }

    /// The proof; nothing while there is no secret.
    pub fn authenticate(&mut self, random: &[u8; NONCE_LEN], now: Now) -> Option<Builtin> {
        let secret = self.identity.secret.as_ref()?;
        let nonce = proof::nonce(random);
        let timestamp = now.unix();
        let signature = proof::sign(&self.identity.key, secret, &nonce, timestamp);
        self.state = State::Authenticating;
        let request = AuthRequest {
            identifier: self.identity.identifier.clone(),
            nonce,
            proof_timestamp: timestamp,
            signature,
            public_key: Some(key::encode(&self.identity.key.verifying_key())),
        };
        Some(self.frame(Body::AuthRequest(request), now))
    }

    /// The code that a person carried here.
    pub fn confirm(&mut self, code: SecretText, now: Now) -> Builtin {
        self.state = State::PairingPending;
        let body = Body::PairConfirm { identifier: self.identity.identifier.clone(), pairing_code: code };
        self.frame(body, now)
    }

    /// A text message came.
    pub fn on_text<'a>(&mut self, text: &'a str, now: Now) -> Incoming<'a> {
        let json = match split(text) {
            Ok(Message::Rule(rule)) => return Incoming::Rule(rule),
            Ok(Message::Builtin(json)) => json,
            Err(why) => return Incoming::Event(ClientEvent::Malformed(why)),
        };
        match decode(json) {
            Ok(frame) => self.on_builtin(frame, now),
            Err(why) => Incoming::Event(ClientEvent::Malformed(why)),
        }
    }

    fn on_builtin(&mut self, frame: Builtin, now: Now) -> Incoming<'static> {
        if let Some(theirs) = frame.timestamp {
            self.ahead = Some(now.unix().saturating_sub(theirs));
        }
        Incoming::Event(match frame.body {
            Body::HelloAck { next_action, .. } => match next_action {
                NextAction::AuthRequired if self.identity.secret.is_some() => ClientEvent::AuthRequired,
                // A server that has us paired while we have no secret: only pairing again helps.
                NextAction::AuthRequired => {
                    self.state = State::Error;
                    ClientEvent::Rejected
                }
                NextAction::PairRequired => {
                    // It knows us no longer: the secret is of no use.
                    self.identity.secret = None;
                    self.state = State::PairingRequired;
                    return Incoming::Ignored;
                }
                NextAction::WaitingPairConfirm => {
                    self.identity.secret = None;
                    self.state = State::PairingPending;
                    return Incoming::Ignored;
                }
                NextAction::Rejected => {
                    self.state = State::Error;
                    ClientEvent::Rejected
                }
            },
            Body::PairRequest { expires_at, ttl_seconds, admin_notification, .. } => {
                self.state = State::PairingPending;
                ClientEvent::CodeWanted { expires_at, ttl_seconds, notification: admin_notification }
            }
            Body::PairSuccess { secret, paired_at, .. } => {
                // Only a pairing that we wait for: nobody hands us another secret later.
                if !matches!(self.state, State::PairingRequired | State::PairingPending) {
                    return Incoming::Ignored;
                }
                self.identity.secret = Some(secret.clone());
                self.state = State::Paired;
                ClientEvent::Paired { secret, paired_at }
            }
            Body::PairFailed { reason, .. } => {
                self.state = State::PairingRequired;
                ClientEvent::PairFailed(reason)
            }
            Body::AuthSuccess { authenticated_at, .. } => {
                if self.state != State::Authenticating {
                    return Incoming::Ignored;
                }
                self.state = State::Authenticated;
                self.authenticated_at = Some(now.mono);
                self.next_beat = Some(now.mono.saturating_add(self.heartbeat));
                ClientEvent::Authenticated { at: authenticated_at }
            }
            Body::AuthFailed { reason, .. } => {
                self.state = State::Error;
                ClientEvent::AuthFailed { reason, explanation: self.explain(reason) }
            }
            Body::RePairRequired { reason, .. } => {
                self.identity.secret = None;
                self.state = State::PairingRequired;
                self.next_beat = None;
                ClientEvent::RePairRequired(reason)
            }
            Body::StatusUpdate { identifier, status, reason } => ClientEvent::Status { identifier, status, reason },
            Body::DisconnectNotice { reason, .. } => ClientEvent::DisconnectNotice(reason),
            Body::Error(error) => ClientEvent::ServerError { code: error.code, message: error.message },
            Body::HeartbeatAck { .. } => return Incoming::Ignored,
            Body::Hello(_) | Body::PairConfirm { .. } | Body::AuthRequest(_) | Body::Heartbeat { .. } => {
                return Incoming::Ignored;
            }
        })
    }

    /// The socket is gone. Answers how long the client was authenticated.
    pub fn lost(&mut self, now: Now) -> Duration {
        self.state = State::Reconnecting;
        self.next_beat = None;
        self.authenticated_at.take().map_or(Duration::ZERO, |since| now.mono.saturating_sub(since))
    }

    /// When to call [`Self::on_tick`] next.
    pub const fn next_deadline(&self) -> Option<Duration> {
        self.next_beat
    }

    /// The heartbeat, when it is due.
    pub fn on_tick(&mut self, now: Now) -> Option<Builtin> {
        let due = self.next_beat?;
        if now.mono < due {
            return None;
        }
        // From now on and not from the missed beat: after a machine slept, one is enough.
        self.next_beat = Some(now.mono.saturating_add(self.heartbeat));
        let body = Body::Heartbeat { identifier: self.identity.identifier.clone() };
        Some(Builtin::new(None, now.unix(), body))
    }

    fn frame(&mut self, body: Body, now: Now) -> Builtin {
        self.requests += 1;
        Builtin::new(Some(format!("req_{:03}", self.requests)), now.unix(), body)
    }

    fn explain(&self, reason: AuthFailure) -> String {
        match reason {
            AuthFailure::StaleTimestamp | AuthFailure::FutureTimestamp => {
                let (seconds, word) = match self.ahead {
                    Some(ahead) if ahead >= 0 => (ahead.unsigned_abs(), "ahead of"),
                    Some(behind) => (behind.unsigned_abs(), "behind"),
                    None => return "this machine's clock and the hub's are too far apart".into(),
                };
                format!(
                    "this machine's clock is {seconds} s {word} the hub's; set it right (at most 9 s are allowed)"
                )
            }
            AuthFailure::UnknownIdentifier => "the hub does not know this identifier".into(),
            AuthFailure::NotPaired => "the hub has no pairing with this client; pair again".into(),
            AuthFailure::InvalidSignature => {
                "the hub has another key or secret for this identifier; pair again".into()
            }
            AuthFailure::InvalidSecret => "this client's secret was revoked; pair again".into(),
            AuthFailure::NonceCollision => "a nonce was used twice, so the hub reset its trust; pair again".into(),
            AuthFailure::RateLimited => {
                "too many attempts in ten seconds, so the hub reset its trust; pair again".into()
            }
            AuthFailure::RePairRequired => "the hub reset its trust in this client; pair again".into(),
        }
    }
}
