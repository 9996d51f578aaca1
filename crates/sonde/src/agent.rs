//! The agent's end of a link (contract; field facts, sections 4 to 8).
//!
//! It registers in the field's shape with the contract's fields beside it; a hub that refuses that as unreadable is
//! tried again in the contract's own shape. Once it holds the hub's CA it runs nothing that the hub did not sign.

use std::sync::Arc;
use std::time::Duration;

use convoke_core::time::Timestamp;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::Mono;
use crate::ack::{Ack, Reject, UpdateAvailable};
use crate::envelope::{self, Envelope, MAX_FRAME, MessageType};
use crate::json;
use crate::probe::{AnswerOut, Metadata, Request, Status, code};
use crate::register::{Dialect, RegisterOut};
use crate::sign::{Signer, Verifier};

/// The settings of a link.
#[derive(Clone)]
pub struct AgentConfig {
    /// The time-out for the answer to a registration.
    pub ack_timeout: Duration,
    /// The contract's interval.
    pub heartbeat: Duration,
    /// Intervals without anything at all from the hub, an answer to a ping included, after which it is gone.
    pub silent_intervals: u32,
    /// Most probes under way at once; more are refused as busy.
    pub max_running: usize,
    /// The agent's own key: with one, everything is signed.
    pub signer: Option<Arc<dyn Signer>>,
    /// The hub's CA: with one, what the hub asks must be signed.
    pub verifier: Option<Arc<dyn Verifier>>,
}

impl Default for AgentConfig {
    fn default() -> Self {
        Self {
            ack_timeout: Duration::from_secs(10),
            heartbeat: Duration::from_secs(30),
            silent_intervals: 3,
            max_running: 32,
            signer: None,
            verifier: None,
        }
    }
}

impl std::fmt::Debug for AgentConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AgentConfig(signs: {}, verifies: {})", self.signer.is_some(), self.verifier.is_some())
    }
}

/// The agent's end of one link.
#[derive(Debug)]
pub struct AgentSession {
    config: AgentConfig,
    state: State,
    running: usize,
}

#[derive(Debug)]
enum State {
    AwaitAck { deadline: Mono, dialect: Dialect },
    Live { agent_id: String, next_beat: Mono, heard: Mono },
    Closed,
}

/// The meaning of a message.
#[derive(Debug)]
pub enum Event {
    /// Registered.
    Acked(Box<Ack>),
    /// Refused; the session is over.
    Refused(Refused),
    /// Run this probe, then [`AgentSession::answer`].
    Probe(Ask),
    /// There is a newer agent.
    Update(UpdateAvailable),
    /// Send this: a request that cannot be taken.
    Reply(String),
    /// The hub complained, or a message cannot be trusted or read; for the log.
    Noted(String),
}

/// Why a registration failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The hub's words.
    pub reason: String,
    /// Whether the other shape may be understood: the hub could not read this one.
    pub try_other_shape: bool,
}

/// A probe to run.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Which.
    pub probe: String,
    /// With what: an object, or nothing.
    pub params: Option<Box<RawValue>>,
    /// The time-out.
    pub timeout: Duration,
    /// `api` or a runbook's id.
    pub requested_by: String,
    /// The id that the answer must repeat.
    pub request_id: Option<String>,
}

/// How a probe ended, for [`AgentSession::answer`].
#[derive(Clone, Debug)]
pub struct Ran {
    /// Its result, or the status, code and text of its failure.
    pub outcome: Result<Box<RawValue>, Failure>,
    /// The duration.
    pub duration: Duration,
    /// The agent and version that ran it.
    pub metadata: Metadata,
}

/// A probe's failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// `error`, `timeout` or `unauthorized`.
    pub status: Status,
    /// A code of [`code`].
    pub code: &'static str,
    /// For people.
    pub message: String,
}

impl AgentSession {
    /// A session for a socket that has just opened, with its first frame.
    pub fn new(
        config: AgentConfig,
        register: &RegisterOut<'_>,
        dialect: Dialect,
        id: Uuid,
        at: Timestamp,
        now: Mono,
    ) -> (Self, String) {
        let payload = register.encode(dialect);
        let frame = envelope::encode(id, MessageType::Register, at, None, config.signer.as_deref(), &payload);
        let deadline = now.saturating_add(config.ack_timeout);
        (Self { config, state: State::AwaitAck { deadline, dialect }, running: 0 }, frame)
    }

    /// The id that the hub gave, once registered.
    pub fn agent_id(&self) -> Option<&str> {
        match &self.state {
            State::Live { agent_id, .. } => Some(agent_id),
            _ => None,
        }
    }

    /// Anything at all came from the hub: it is there.
    pub fn heard(&mut self, now: Mono) {
        if let State::Live { heard, .. } = &mut self.state {
            *heard = now.max(*heard);
        }
    }

    /// A message came in. `id` and `at` are for a frame that may have to be sent back.
    pub fn on_text(&mut self, text: &str, id: Uuid, at: Timestamp, now: Mono) -> Event {
        let envelope = match Envelope::decode(text) {
            Ok(envelope) => envelope,
            Err(why) => return self.on_bare(text, &why.to_string()),
        };
        let canonical;
        let payload = match &self.config.verifier {
            // A notice changes nothing here, and the field's hub never signs it; neither does it sign a refusal.
            Some(key) if matches!(envelope.kind, MessageType::Ack | MessageType::ProbeRequest) => {
                let Ok(text) = json::canonical(envelope.payload.get()) else {
                    return Event::Noted(format!("a {} cannot be read", envelope.kind));
                };
                canonical = text;
                let refusal = envelope.kind == MessageType::Ack && envelope.signature.is_empty();
                let refusal = refusal && Ack::decode(&canonical).is_ok_and(|ack| ack.error.is_some());
                if !refusal && !key.verify(canonical.as_bytes(), &envelope.signature) {
                    let how = if envelope.signature.is_empty() { "is not signed" } else { "has a bad signature" };
                    return Event::Noted(format!("a {} {how} and was dropped", envelope.kind));
                }
                &canonical
            }
            _ => envelope.payload.get(),
        };
        match (envelope.kind, &self.state) {
            (MessageType::Ack, State::AwaitAck { .. }) => self.on_ack(payload, envelope.agent_id.as_deref(), now),
            (MessageType::Reject, State::AwaitAck { dialect, .. }) => {
                let reason =
                    serde_json::from_str::<Reject>(payload).map_or_else(|_| "no reason given".into(), |r| r.reason);
                // A hub that only knows the contract's text cannot read the field's packs; one that refuses by name or
                // token will say the same again, which costs one connection.
                let try_other_shape = *dialect == Dialect::Field;
                self.refused(reason, try_other_shape)
            }
            (MessageType::ProbeRequest, State::Live { .. }) => self.on_request(payload, id, at),
            (MessageType::UpdateAvailable, _) => match serde_json::from_str(payload) {
                Ok(update) => Event::Update(update),
                Err(why) => Event::Noted(format!("a {} cannot be read: {why}", envelope.kind)),
            },
            (kind, _) => Event::Noted(format!("a {kind} came out of turn")),
        }
    }

    /// Not an envelope: the hub's bare error, or nonsense.
    fn on_bare(&mut self, text: &str, why: &str) -> Event {
        let Some(error) = envelope::read_error_frame(text) else {
            return Event::Noted(format!("a message cannot be read: {why}"));
        };
        match &self.state {
            State::AwaitAck { dialect, .. } => {
                let try_other_shape = *dialect == Dialect::Field;
                self.refused(error, try_other_shape)
            }
            _ => Event::Noted(format!("the hub complains: {error}")),
        }
    }

    fn on_ack(&mut self, payload: &str, in_envelope: Option<&str>, now: Mono) -> Event {
        let ack = match Ack::decode(payload) {
            Ok(ack) => ack,
            Err(why) => return self.refused(format!("hub.ack cannot be read: {why}"), false),
        };
        if let Some(error) = ack.error {
            return self.refused(error, false);
        }
        let Some(agent_id) = ack.agent_id.clone().or_else(|| in_envelope.map(ToOwned::to_owned)) else {
            return self.refused("hub.ack gives no agentId".into(), false);
        };
        let next_beat = now.saturating_add(self.config.heartbeat);
        self.state = State::Live { agent_id, next_beat, heard: now };
        Event::Acked(Box::new(ack))
    }

    fn refused(&mut self, reason: String, try_other_shape: bool) -> Event {
        self.state = State::Closed;
        Event::Refused(Refused { reason, try_other_shape })
    }

    fn on_request(&mut self, payload: &str, id: Uuid, at: Timestamp) -> Event {
        let refuse = |session: &Self, probe: &str, request_id: Option<&str>, failure: Failure| {
            let metadata = unknown_pack();
            let ran = Ran { outcome: Err(failure), duration: Duration::ZERO, metadata };
            Event::Reply(session.encode_answer(probe, request_id, &ran, id, at))
        };
        let request = match Request::decode(payload) {
            Ok(request) => request,
            Err(why) => {
                let message = format!("Invalid probe request payload: {why}");
                let failure = Failure { status: Status::Error, code: code::INVALID_REQUEST, message };
                // With the request's id if it has one, so that the hub does not wait in vain.
                let request_id = serde_json::from_str::<serde_json::Value>(payload).ok();
                let request_id = request_id.as_ref().and_then(|v| v.get("requestId")?.as_str());
                return refuse(self, "unknown", request_id, failure);
            }
        };
        if self.running >= self.config.max_running {
            let message = format!("this agent runs at most {} probes at once", self.config.max_running);
            let failure = Failure { status: Status::Error, code: code::BUSY, message };
            return refuse(self, &request.probe, request.request_id.as_deref(), failure);
        }
        self.running += 1;
        Event::Probe(Ask {
            probe: request.probe.into_owned(),
            params: request.params.map(ToOwned::to_owned),
            timeout: Duration::from_millis(request.timeout_ms),
            requested_by: request.requested_by.into_owned(),
            request_id: request.request_id.map(|id| id.into_owned()),
        })
    }

    /// A probe has ended: the frame to send. It is always below 1 MiB; a result that is not becomes an error.
    pub fn answer(&mut self, ask: &Ask, ran: &Ran, id: Uuid, at: Timestamp) -> String {
        self.running = self.running.saturating_sub(1);
        self.encode_answer(&ask.probe, ask.request_id.as_deref(), ran, id, at)
    }

    fn encode_answer(&self, probe: &str, request_id: Option<&str>, ran: &Ran, id: Uuid, at: Timestamp) -> String {
        let frame = self.encode_once(probe, request_id, ran, id, at);
        if frame.len() <= MAX_FRAME {
            return frame;
        }
        let message =
            format!("the result does not fit a frame: it has {} bytes, the limit is {MAX_FRAME}", frame.len());
        let failure = Failure { status: Status::Error, code: code::TOO_LARGE, message };
        let ran = Ran { outcome: Err(failure), duration: ran.duration, metadata: ran.metadata.clone() };
        self.encode_once(&envelope::clip(probe), request_id.map(|r| &r[..r.floor_char_boundary(256)]), &ran, id, at)
    }

    fn encode_once(&self, probe: &str, request_id: Option<&str>, ran: &Ran, id: Uuid, at: Timestamp) -> String {
        let failure = ran.outcome.as_ref().err();
        let out = AnswerOut {
            probe,
            status: failure.map_or(Status::Success, |f| f.status),
            data: ran.outcome.as_deref().ok(),
            duration_ms: u64::try_from(ran.duration.as_millis()).unwrap_or(u64::MAX),
            request_id,
            metadata: &ran.metadata,
            error: failure.map(|f| f.message.as_str()),
            code: failure.map(|f| f.code),
        };
        let kind = if failure.is_some() { MessageType::ProbeError } else { MessageType::ProbeResponse };
        envelope::encode(id, kind, at, self.agent_id(), self.config.signer.as_deref(), &out.encode())
    }

    /// When to call [`Self::on_tick`] next.
    pub fn next_deadline(&self) -> Option<Mono> {
        match &self.state {
            State::AwaitAck { deadline, .. } => Some(*deadline),
            State::Live { next_beat, heard, .. } => Some((*next_beat).min(self.gone_at(*heard))),
            State::Closed => None,
        }
    }

    fn gone_at(&self, heard: Mono) -> Mono {
        // At least two, so that one lost packet is never the end.
        heard.saturating_add(self.config.heartbeat.saturating_mul(self.config.silent_intervals.max(2)))
    }

    /// Does what is due: a heartbeat to send, the end of the wait for `hub.ack`, or the end of a hub that is silent.
    pub fn on_tick(&mut self, id: Uuid, at: Timestamp, now: Mono) -> Option<Tick> {
        if let State::Live { heard, .. } = &self.state
            && now >= self.gone_at(*heard)
        {
            self.state = State::Closed;
            return Some(Tick::Silent);
        }
        match &mut self.state {
            State::AwaitAck { deadline, .. } if now >= *deadline => {
                self.state = State::Closed;
                Some(Tick::NoAck)
            }
            State::Live { agent_id, next_beat, .. } if now >= *next_beat => {
                // Counted from now: after a machine slept one heartbeat is enough.
                *next_beat = now.saturating_add(self.config.heartbeat);
                let signer = self.config.signer.as_deref();
                Some(Tick::Send(envelope::encode(id, MessageType::Heartbeat, at, Some(agent_id), signer, "{}")))
            }
            _ => None,
        }
    }
}

/// The action that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tick {
    /// Send this heartbeat, and a WebSocket ping: the protocol has no answer to a heartbeat, and a hub of the field sends
    /// no pings of its own.
    Send(String),
    /// Nothing has come from the hub for too long: the connection is half-open. The session is over.
    Silent,
    /// The hub did not answer the registration.
    NoAck,
}

/// The pack of a probe that no pack has.
pub fn unknown_pack() -> Metadata {
    Metadata {
        agent_version: env!("CARGO_PKG_VERSION").into(),
        pack_name: "unknown".into(),
        pack_version: "0.0.0".into(),
        capability_level: convoke_core::effect::Effect::Observe,
    }
}
