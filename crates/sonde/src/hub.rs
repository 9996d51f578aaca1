//! The hub's end of a link (contract, "Registration", "Probes", "Heartbeats"; field facts, sections 2 to 8).
//!
//! ```text
//! AwaitRegister ──agent.register──▶ Deciding ──accept──▶ Live ──▶ Closed
//!       │                              │                  │
//!       └─ 10 s, bad registration ─────┴── refuse ────────┴─ no heartbeat, frame beyond the hard limit
//! ```
//!
//! What it promises:
//! * **An answer meets only a request of its own link**, by its id; without one only from an agent that has never sent
//!   one, and then only a request for the same probe.
//! * **Heartbeats decide**: an agent that stops them is gone, whatever its socket says.
//! * **Once an agent has a certificate every message is signed**, and what was verified is what is read.
//! * **A live link does not die of a message it cannot read**: the sender is told, and it costs nobody else anything.

mod event;

use std::sync::Arc;
use std::time::Duration;

use convoke_core::time::Timestamp;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::Mono;
use crate::ack::{Ack, Reject, UpdateAvailable};
use crate::envelope::{self, Envelope, MessageType};
use crate::json;
use crate::pending::{Match, Pending, StartError};
use crate::probe::{Answer, Request};
use crate::register::{Dialect, Register};
use crate::sign::{Signer, Verifier};

pub use event::{Close, Event, Output, Registration};

/// The settings of a link.
#[derive(Clone, Debug)]
pub struct HubConfig {
    /// How long a peer may take to register.
    pub register_timeout: Duration,
    /// The contract's interval.
    pub heartbeat: Duration,
    /// Missed heartbeats after which the agent is gone.
    pub missed: u32,
    /// Soft limit of a frame: beyond it the probe fails and the link lives, beyond twice that the link ends.
    pub max_frame: usize,
    /// Longest frame before registration.
    pub max_register_frame: usize,
    /// Most probes in flight.
    pub max_in_flight: usize,
}

impl Default for HubConfig {
    fn default() -> Self {
        Self {
            register_timeout: Duration::from_secs(10),
            heartbeat: Duration::from_secs(30),
            missed: 3,
            max_frame: 1024 * 1024,
            max_register_frame: 256 * 1024,
            max_in_flight: 256,
        }
    }
}

/// The hub's end of one link. `W` is what waits for an answer.
#[derive(Debug)]
pub struct HubSession<W = ()> {
    config: HubConfig,
    state: State,
    pending: Pending<W>,
}

#[derive(Debug)]
enum State {
    AwaitRegister { deadline: Mono },
    Deciding { deadline: Mono },
    Live(Live),
    Closed,
}

struct Live {
    agent: Member,
    last_beat: Mono,
    told_overdue: bool,
}

/// An admitted agent.
#[derive(Clone)]
pub struct Member {
    /// The id that it was given.
    pub agent_id: String,
    /// Its certificate's key: with one, every message must be signed.
    pub verifier: Option<Arc<dyn Verifier>>,
    /// The hub's key: with one, what the hub sends is signed.
    pub signer: Option<Arc<dyn Signer>>,
    /// Whether it has ever named a request in an answer.
    pub names_requests: bool,
}

impl std::fmt::Debug for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Member({}, signed: {})", self.agent_id, self.verifier.is_some())
    }
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Live({:?})", self.agent)
    }
}

/// The fixed texts of bare error frames, as the field's hub sends them.
pub mod error_text {
    /// The envelope cannot be read.
    pub const FORMAT: &str = "Invalid message format";
    /// A message in another agent's name.
    pub const AGENT: &str = "Agent ID mismatch";
    /// Unsigned, though the agent has a certificate.
    pub const UNSIGNED: &str = "Signature required";
    /// Signed by something else.
    pub const SIGNATURE: &str = "Signature verification failed";
    /// A registration that cannot be read.
    pub const REGISTRATION: &str = "Invalid registration data";
    /// A message before `agent.register`.
    pub const FIRST: &str = "Not registered";
    /// A frame beyond the limit.
    pub const LARGE: &str = "Message too large";
}

impl<W> HubSession<W> {
    /// A session for a socket whose bearer or certificate has been accepted.
    pub fn new(config: HubConfig, now: Mono) -> Self {
        let deadline = now.saturating_add(config.register_timeout);
        let pending = Pending::new(config.max_in_flight);
        Self { config, state: State::AwaitRegister { deadline }, pending }
    }

    /// Whether the agent has registered and the session is not over.
    pub fn is_live(&self) -> bool {
        matches!(self.state, State::Live(_))
    }

    /// Whether the agent has ever named a request in an answer.
    pub fn names_requests(&self) -> bool {
        matches!(&self.state, State::Live(live) if live.agent.names_requests)
    }

    /// A message came in.
    pub fn on_text(&mut self, text: &str, now: Mono) -> Event<W> {
        let soft = if self.is_live() { self.config.max_frame } else { self.config.max_register_frame };
        let hard = if self.is_live() { soft.saturating_mul(2) } else { soft };
        if matches!(self.state, State::Closed) {
            return Event::Ignored;
        }
        if text.len() > hard {
            return Event::Close(self.close(Close::TooLarge));
        }
        let envelope = match Envelope::decode(text) {
            Ok(envelope) => envelope,
            Err(why) => {
                return Event::Reply(envelope::error_frame(error_text::FORMAT, Some(&why.to_string())));
            }
        };
        match &self.state {
            State::AwaitRegister { .. } => self.on_first(&envelope),
            State::Deciding { .. } => Event::Reply(envelope::error_frame(error_text::FIRST, None)),
            State::Live(_) => self.on_live(&envelope, text.len() > soft, now),
            State::Closed => Event::Ignored,
        }
    }

    fn on_first(&mut self, envelope: &Envelope<'_>) -> Event<W> {
        if envelope.kind != MessageType::Register {
            let detail = format!("{} came before {}", envelope.kind, MessageType::Register);
            return Event::Reply(envelope::error_frame(error_text::FIRST, Some(&detail)));
        }
        let payload = match json::canonical(envelope.payload.get()) {
            Ok(payload) => payload,
            Err(why) => return Event::Reply(envelope::error_frame(error_text::FORMAT, Some(&why.to_string()))),
        };
        match Register::decode(&payload) {
            Ok(register) => {
                let State::AwaitRegister { deadline } = self.state else { return Event::Ignored };
                self.state = State::Deciding { deadline };
                let signature = envelope.signature.to_string();
                Event::Register(Box::new(Registration { register, payload, signature }))
            }
            Err(bad) => {
                let bare = envelope::error_frame(error_text::REGISTRATION, Some(&bad.what));
                self.state = State::Closed;
                Event::BadRegistration { bare, bad }
            }
        }
    }

    /// The registration is taken. Gives the `hub.ack` to send; the agent is live from now on.
    pub fn accept(&mut self, member: Member, ack: &Ack, id: Uuid, at: Timestamp, now: Mono) -> String {
        let agent = ack.agent_id.as_deref();
        let frame = envelope::encode(id, MessageType::Ack, at, agent, member.signer.as_deref(), &ack.encode());
        self.state = State::Live(Live { agent: member, last_beat: now, told_overdue: false });
        frame
    }

    /// The registration is refused. Gives the frame that a peer of that shape understands; the session is over.
    pub fn refuse(&mut self, dialect: Dialect, reason: &str, id: Uuid, at: Timestamp) -> String {
        self.state = State::Closed;
        refusal(dialect, reason, id, at)
    }

    fn on_live(&mut self, envelope: &Envelope<'_>, too_large: bool, now: Mono) -> Event<W> {
        let State::Live(live) = &mut self.state else { return Event::Ignored };
        let reply = |text: &str, detail: Option<&str>| Event::Reply(envelope::error_frame(text, detail));
        if envelope.agent_id.as_ref().is_some_and(|id| **id != *live.agent.agent_id) {
            return reply(error_text::AGENT, None);
        }
        let canonical;
        let payload = match &live.agent.verifier {
            None => envelope.payload.get(),
            Some(_) if envelope.signature.is_empty() => return reply(error_text::UNSIGNED, None),
            Some(key) => {
                canonical = match json::canonical(envelope.payload.get()) {
                    Ok(canonical) => canonical,
                    Err(why) => return reply(error_text::FORMAT, Some(&why.to_string())),
                };
                if !key.verify(canonical.as_bytes(), &envelope.signature) {
                    return reply(error_text::SIGNATURE, None);
                }
                &canonical
            }
        };
        match envelope.kind {
            MessageType::Heartbeat => {
                live.last_beat = live.last_beat.max(now);
                live.told_overdue = false;
                Event::Heartbeat
            }
            MessageType::ProbeResponse | MessageType::ProbeError => {
                match Answer::decode(payload, envelope.kind == MessageType::ProbeError) {
                    Ok(answer) => self.on_answer(answer, too_large),
                    Err(why) => reply(error_text::FORMAT, Some(&why)),
                }
            }
            MessageType::Register => reply(error_text::REGISTRATION, Some("this link is registered already")),
            other => reply(error_text::FORMAT, Some(&format!("an agent does not send {other}"))),
        }
    }

    fn on_answer(&mut self, answer: Answer<'_>, too_large: bool) -> Event<W> {
        let State::Live(live) = &mut self.state else { return Event::Ignored };
        live.agent.names_requests |= answer.names_a_request;
        let matched = match answer.request_id {
            Some(id) => self.pending.by_id(id),
            None if !live.agent.names_requests => self.pending.first(&answer.probe),
            // It names its requests, only not this one: whose answer this is cannot be known.
            None => Match::Stranger,
        };
        match matched {
            Match::Answered(request, waiter) if too_large => Event::TooLarge { request, waiter },
            Match::Answered(request, waiter) => {
                Event::Answered { request, waiter, answer: Box::new(answer.into_owned()) }
            }
            Match::Late(request) => Event::Late { request, answer: Box::new(answer.into_owned()) },
            Match::Stranger => Event::Stranger { probe: envelope::clip(&answer.probe).into_owned() },
        }
    }

    /// Starts a probe: gives the `probe.request` to send. On an error the waiter comes back. The envelope's id is the
    /// request's, as in the field.
    #[expect(clippy::too_many_arguments, reason = "a request is that many things")]
    pub fn request(
        &mut self,
        id: Uuid,
        probe: &str,
        params: Option<&RawValue>,
        requested_by: &str,
        timeout: Duration,
        deadline: Mono,
        at: Timestamp,
        waiter: W,
    ) -> Result<String, (StartError, W)> {
        let State::Live(live) = &self.state else { return Err((StartError::NotLive, waiter)) };
        let text_id = id.to_string();
        let request = Request {
            probe: probe.into(),
            params: params.filter(|p| p.get() != "{}"),
            timeout_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX).max(1),
            requested_by: requested_by.into(),
            runbook_id: None,
            request_id: Some(text_id.as_str().into()),
        };
        let (agent, signer) = (Some(live.agent.agent_id.as_str()), live.agent.signer.as_deref());
        let frame = envelope::encode(id, MessageType::ProbeRequest, at, agent, signer, &request.encode());
        self.pending.start(id, probe, deadline, waiter)?;
        Ok(frame)
    }

    /// `hub.update_available`, if the agent is registered.
    pub fn update_available(&self, update: &UpdateAvailable, id: Uuid, at: Timestamp) -> Option<String> {
        let State::Live(live) = &self.state else { return None };
        let payload = serde_json::to_string(update).ok()?;
        let (agent, signer) = (Some(live.agent.agent_id.as_str()), live.agent.signer.as_deref());
        Some(envelope::encode(id, MessageType::UpdateAvailable, at, agent, signer, &payload))
    }

    /// The caller no longer waits.
    pub fn cancel(&mut self, request: Uuid) -> Option<W> {
        self.pending.cancel(request)
    }

    /// Whether another request for this probe must wait for one that is under way: the agent has never named a request, so
    /// with two of them nobody could tell whose answer came.
    pub fn must_wait(&self, probe: &str) -> bool {
        !self.names_requests() && self.pending.is_asked(probe)
    }

    /// How many probes wait for their answer.
    pub fn in_flight(&self) -> usize {
        self.pending.len()
    }

    /// When to call [`Self::on_tick`] next.
    pub fn next_deadline(&self) -> Option<Mono> {
        let own = match &self.state {
            State::AwaitRegister { deadline } | State::Deciding { deadline } => Some(*deadline),
            State::Live(live) if live.told_overdue => Some(self.gone_at(live)),
            State::Live(live) => Some(self.overdue_at(live)),
            State::Closed => None,
        };
        own.into_iter().chain(self.pending.next_deadline()).min()
    }

    /// Does what is due.
    pub fn on_tick(&mut self, now: Mono) -> Vec<Output<W>> {
        let mut outputs: Vec<_> =
            self.pending.expire(now).into_iter().map(|(id, waiter)| Output::Expired(id, waiter)).collect();
        let gone = match &self.state {
            State::AwaitRegister { deadline } | State::Deciding { deadline } if now >= *deadline => {
                Some(Close::RegisterTimeout)
            }
            State::Live(live) if now >= self.gone_at(live) => Some(Close::NoHeartbeat),
            _ => None,
        };
        if let Some(close) = gone {
            outputs.push(Output::Close(self.close(close)));
        } else {
            let overdue = matches!(&self.state, State::Live(live) if now >= self.overdue_at(live));
            if let State::Live(live) = &mut self.state
                && overdue
                && !std::mem::replace(&mut live.told_overdue, true)
            {
                outputs.push(Output::Overdue);
            }
        }
        outputs
    }

    /// The socket is gone: ends every probe that still waits.
    pub fn end(&mut self) -> Vec<(Uuid, W)> {
        self.state = State::Closed;
        self.pending.drain()
    }

    /// One and a half intervals: a heartbeat is late, not merely slow.
    fn overdue_at(&self, live: &Live) -> Mono {
        let interval = self.interval();
        live.last_beat.saturating_add(interval).saturating_add(interval / 2)
    }

    fn gone_at(&self, live: &Live) -> Mono {
        // At least two, so that one lost heartbeat is never the end.
        live.last_beat.saturating_add(self.interval().saturating_mul(self.config.missed.max(2)))
    }

    fn interval(&self) -> Duration {
        self.config.heartbeat.max(Duration::from_millis(1))
    }

    fn close(&mut self, close: Close) -> Close {
        self.state = State::Closed;
        close
    }
}

/// How a peer of that shape is told that it is refused: `hub.reject`, or the field's `hub.ack` with an error.
pub fn refusal(dialect: Dialect, reason: &str, id: Uuid, at: Timestamp) -> String {
    let (kind, payload) = match dialect {
        Dialect::Contract => {
            let reject = Reject { reason: reason.into() };
            (MessageType::Reject, serde_json::to_string(&reject).unwrap_or_default())
        }
        Dialect::Field => {
            let ack = Ack { error: Some(reason.into()), ..Ack::default() };
            (MessageType::Ack, ack.encode())
        }
    };
    envelope::encode(id, kind, at, None, None, &payload)
}
