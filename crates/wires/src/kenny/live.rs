//! An authenticated tunnel: commands out, frames in, heartbeats between.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use convoke_core::call::code;
use convoke_core::id::CallId;
use convoke_core::journal::{Kind, Phase};
use convoke_core::time::Timestamp;
use convoke_kenny::close::{self, Close};
use convoke_kenny::frame::{HubFrame, Response};
use convoke_kenny::hub::{Event, Output, Unreadable};
use convoke_kenny::inflight::{Match, StartError};
use convoke_kenny::policy::{Dialect, PolicyRule};
use convoke_socket::drive::{Liveness, Lost, Machine, Message, drive};
use serde_json::json;

use super::{Session, Waiter, telemetry};
use crate::Wires;
use crate::tunnel;
use crate::ws::{Connection, Skipped, Socket, WsError};
use convoke_gate::agents::Agent;
use convoke_gate::answers::AnswerText;
use convoke_gate::calls::{INTERRUPTED, reserve_memory};
use convoke_gate::clock;
use convoke_gate::hub::Hub;
use convoke_gate::link::{Close as LinkClose, Command, Failure, Link, Request};
use convoke_gate::policy::InForce;

/// The state of one live tunnel beyond the protocol's own.
pub(super) struct Tunnel<'a> {
    pub(super) hub: &'a Wires,
    pub(super) agent: &'a Arc<Agent>,
    link: &'a Arc<Link>,
    dialect: Dialect,
    last_heard: Duration,
    overdue: bool,
    session: Session,
    liveness: Liveness,
    /// The newest snapshot beyond the limit of its minute.
    pub(super) held: Option<(i64, String)>,
    /// Why the hub ended the connection.
    fault: Option<String>,
}

/// Runs the tunnel until it ends. Returns what to tell the peer, if it is still there, and when it was last heard.
pub(super) async fn run(
    hub: &Wires,
    socket: &mut Socket,
    session: Session,
    agent: &Arc<Agent>,
    link: &Arc<Link>,
    dialect: Dialect,
) -> (Option<Close>, Timestamp) {
    let mut tunnel = Tunnel {
        hub,
        agent,
        link,
        dialect,
        last_heard: hub.mono(),
        overdue: false,
        session,
        liveness: Liveness::of(socket),
        held: None,
        fault: None,
    };
    // There is no "accepted" frame: the policy, even an empty one, is what tells the agent that it is in.
    tunnel.send_policy(socket);
    let end = drive(socket, &mut tunnel, link.queue(), hub.clock()).await;
    tunnel.tell_dropped(true).await;
    tunnel.take_held(true).await;
    let last_seen = tunnel.last_seen();
    // Every call that waits learns at once that this agent is gone; nobody else's does.
    let why = tunnel.fault.take().map_or_else(String::new, |fault| format!(": {fault}"));
    let gone = || match &end {
        Some(close) if *close == close::SHUTTING_DOWN => Failure::new(code::INTERRUPTED, INTERRUPTED),
        _ => Failure::new(code::DISCONNECTED, format!("agent {} disconnected during the call{why}", agent.id)),
    };
    tunnel::fail_all(link, tunnel.session.end().into_iter().map(|(_, waiter)| waiter), gone);
    (end, last_seen)
}

impl Machine for Tunnel<'_> {
    type Command = Command;
    type End = Option<Close>;

    fn deadline(&mut self, now: Duration, _: &Connection) -> Duration {
        self.session.next_deadline().unwrap_or(now)
    }

    async fn on_message(
        &mut self,
        message: Message,
        now: Duration,
        connection: &mut Connection,
    ) -> ControlFlow<Self::End> {
        self.liveness.heard(connection);
        match message {
            Message::Text(text) => return self.on_text(text, now, connection).await,
            Message::Binary(bytes) => {
                self.complain(format!("dropped a binary message of {} bytes: frames are text", bytes.len())).await;
            }
            Message::Pong(_) => {}
            Message::Skipped(skipped) => self.on_skipped(&skipped, now).await,
        }
        ControlFlow::Continue(())
    }

    fn on_ping(&mut self, connection: &mut Connection) -> ControlFlow<Self::End> {
        self.liveness.heard(connection);
        ControlFlow::Continue(())
    }

    async fn on_command(
        &mut self,
        command: Command,
        now: Duration,
        connection: &mut Connection,
    ) -> ControlFlow<Self::End> {
        match command {
            overdue if overdue.is_overdue(now) => overdue.fail(self.not_sent()),
            call @ Command::Call(_) if !self.hub.may_act() => call.fail(Hub::no_lease()),
            Command::Call(Request { id, tool, args, below, deadline, reply, .. }) => match self
                .session
                .start(id, deadline, reply)
            {
                Ok(()) => {
                    let below = below.filter(|_| self.dialect.heeds_below());
                    let (tool, args) = (tool.as_str().into(), Cow::Borrowed(&*args));
                    let frame = HubFrame::Request { id: id.uuid(), tool, args, below };
                    connection.queue_text(&frame.encode());
                }
                Err((why, reply)) => {
                    let failure = match why {
                        StartError::Full => Failure::new(code::BUSY, "too many calls are under way on this agent"),
                        _ => Failure::new(code::INTERNAL, "cannot send the call"),
                    };
                    let _ = reply.send(Err(failure));
                }
            },
            Command::Forget(id) => drop(self.session.cancel(id)),
            // Nothing is held back here: it has gone out.
            Command::Withdraw(..) => {}
            Command::Send(frame) => connection.queue_text(&frame),
            Command::PolicyChanged => self.send_policy(connection),
            Command::Close(LinkClose::Replaced) => return ControlFlow::Break(Some(close::REPLACED)),
            Command::Close(LinkClose::Revoked) => return ControlFlow::Break(Some(close::REVOKED)),
            Command::Close(LinkClose::Stopping) => return ControlFlow::Break(Some(close::SHUTTING_DOWN)),
        }
        ControlFlow::Continue(())
    }

    async fn on_time(&mut self, now: Duration, connection: &mut Connection) -> ControlFlow<Self::End> {
        self.tell_dropped(false).await;
        self.take_held(false).await;
        self.on_tick(now, connection)
    }

    async fn on_lost(&mut self, lost: Lost, _: &mut Connection) -> Self::End {
        match lost {
            // A close is answered with a close.
            Lost::Closed(code, _) => Some(Close { code: code.unwrap_or(1000), reason: "" }),
            Lost::Gone(_) => None,
            Lost::Broken(error) => {
                tunnel::log_broken(self.hub, self.agent, &error);
                // An answer that nobody could take may be what a call waits for.
                self.fault = Some(format!("the hub closed the connection, {error}"));
                self.complain(format!("the connection was closed: {error}")).await;
                let reason = match error {
                    WsError::TooLarge { .. } => "frame too large",
                    _ => "protocol error",
                };
                Some(Close { code: error.close_code(), reason })
            }
        }
    }
}

impl Tunnel<'_> {
    fn not_sent(&self) -> Failure {
        let message = format!("agent {} did not read in time; the call was not sent", self.agent.id);
        Failure::new(code::TIMEOUT, message)
    }

    fn send_policy(&self, connection: &mut Connection) {
        let policy = self.hub.policy.current();
        connection.queue_text(&HubFrame::policy_for(self.dialect, wire_rules(&policy)).encode());
    }

    fn on_tick(&mut self, now: Duration, connection: &mut Connection) -> ControlFlow<Option<Close>> {
        for overdue in self.link.queue().take_overdue(now) {
            overdue.fail(self.not_sent());
        }
        if self.liveness.is_receiving(connection) {
            self.last_heard = now;
            self.session.heard(now);
        }
        for output in self.session.on_tick(now) {
            match output {
                Output::Send(frame) => {
                    self.on_heartbeat(now, connection)?;
                    connection.queue_text(&frame.encode());
                }
                Output::Expired(_, waiter) => {
                    let message = format!("agent {} did not answer in time; it may still finish", self.agent.id);
                    let _ = waiter.send(Err(Failure::new(code::TIMEOUT, message)));
                }
                Output::Close(refusal) => {
                    tracing::info!(agent = %self.agent.id, %refusal, "an agent disconnected");
                    self.fault = Some(format!("the hub closed the connection, {refusal}"));
                    return ControlFlow::Break(Some(refusal.close()));
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// When the agent was last heard.
    fn last_seen(&self) -> Timestamp {
        self.hub.wall(self.last_heard)
    }

    /// Once an interval: notices a peer that is overdue, half-open, or does not read.
    fn on_heartbeat(&mut self, now: Duration, connection: &mut Connection) -> ControlFlow<Option<Close>> {
        let interval = self.hub.settings.kenny.heartbeat_s;
        let overdue = now.saturating_sub(self.last_heard) >= interval.saturating_mul(2);
        self.set_overdue(overdue);
        self.hub.agents.heard(self.agent, self.link.id, self.last_seen());
        let Err(unresponsive) = self.liveness.ping(connection) else { return ControlFlow::Continue(()) };
        tracing::info!(agent = %self.agent.id, "closed an agent's connection: {unresponsive}");
        self.fault = Some(format!("the hub closed the connection, since {unresponsive}"));
        ControlFlow::Break(Some(Close { code: close::GOING_AWAY, reason: unresponsive.reason() }))
    }

    fn set_overdue(&mut self, overdue: bool) {
        if self.overdue != overdue {
            self.overdue = overdue;
            self.hub.agents.set_overdue(self.agent, self.link.id, overdue);
        }
    }

    async fn on_text(
        &mut self,
        text: String,
        now: Duration,
        connection: &mut Connection,
    ) -> ControlFlow<Option<Close>> {
        self.last_heard = now;
        self.link.heard(clock::now());
        self.set_overdue(false);
        match self.session.on_text(&text, now) {
            Event::Response { response, call } => self.on_response(response, call).await,
            Event::Telemetry(_) if self.is_too_much(&text) => {
                self.on_too_much("snapshots", "a snapshot", &text).await
            }
            Event::Log(_) if self.is_too_much(&text) => self.on_too_much("log_lines", "a log frame", &text).await,
            Event::Telemetry(telemetry) => {
                if self.may_push().await {
                    self.drop_held();
                    let snapshot = self.judge(&telemetry);
                    let body = telemetry::position(&text, telemetry.body.get());
                    self.keep_snapshot(snapshot, telemetry::cut(text, body)).await;
                } else {
                    self.hold(text);
                }
            }
            Event::Log(log) => self.on_log(&log).await,
            Event::Reply(frame) => connection.queue_text(&frame.encode()),
            Event::Alive => {}
            Event::Unreadable { why, call } => self.on_unreadable(&why, call).await,
            Event::Ignored(why) => self.complain(format!("ignored a frame: {why}")).await,
            Event::Close(refusal) => return ControlFlow::Break(Some(refusal.close())),
            Event::Register(_) | Event::Accepted(_) => {}
        }
        ControlFlow::Continue(())
    }

    /// A large frame for which there was no room.
    async fn on_skipped(&mut self, skipped: &Skipped, now: Duration) {
        self.hub.metrics.dropped("arriving_frames", 1);
        self.last_heard = now;
        self.set_overdue(false);
        // Where it was cut a letter may be cut, too.
        let start = String::from_utf8_lossy(&skipped.start);
        if let Event::Unreadable { why, call } = self.session.on_skipped(&start, skipped.size, now) {
            self.on_unreadable(&why, call).await;
        }
    }

    fn is_too_much(&self, text: &str) -> bool {
        text.len() > self.hub.settings.kenny.max_telemetry_bytes
    }

    async fn on_too_much(&mut self, counted_as: &'static str, what: &str, text: &str) {
        self.hub.metrics.dropped(counted_as, 1);
        let size = text.len();
        self.complain(format!("dropped {what} of {size} bytes: larger than kenny.max_telemetry_bytes")).await;
    }

    async fn on_response(&mut self, response: Response<'_>, call: Match<Waiter>) {
        let id = CallId::new(response.id);
        let answer = response.outcome();
        match call {
            Match::Answered(waiter) => {
                let answer = match answer {
                    // A large one may wait for room, and with it this connection alone.
                    Ok(result) => reserve_memory(self.hub, result.get().len())
                        .await
                        .map(|reserved| AnswerText::new(result.to_owned(), reserved)),
                    Err(error) => Err(Failure::of_peer(error.code.as_str(), error.message)),
                };
                let _ = waiter.send(answer);
            }
            Match::Late => {
                let outcome = answer
                    .map_or_else(|error| code::of_agent(error.code.as_str()).to_owned().into(), |_| "ok".into());
                self.note_late(id, outcome).await;
            }
            Match::Stranger => {
                let detail = json!({ "what": "ignored an answer to a call of another connection" });
                tunnel::note_odd_answer(self.hub, self.agent, Some(id), detail).await;
            }
        }
    }

    /// A call's answer came after its end.
    async fn note_late(&mut self, id: CallId, outcome: Cow<'static, str>) {
        let mut record = tunnel::record(self.agent, Kind::Call);
        record.call_id = Some(id);
        record.phase = Some(Phase::Late);
        record.outcome = Some(outcome);
        if let Some(call) = self.hub.calls.find(id) {
            record.tool = Some(call.tool.clone());
        }
        self.hub.note(record).await;
    }

    async fn on_unreadable(&mut self, why: &Unreadable, call: Option<(CallId, Match<Waiter>)>) {
        let failure = || match why {
            Unreadable::TooLarge(size) => {
                let limit = self.hub.settings.kenny.max_frame_bytes;
                let message =
                    format!("the answer of {size} bytes is larger than {limit} bytes (kenny.max_frame_bytes)");
                Failure::new(code::TOO_LARGE, message)
            }
            Unreadable::Skipped(size) => {
                let message = format!(
                    "the machine answered, but the hub dropped the answer of {size} bytes: its memory for arriving \
                     messages is full (hub.max_bytes_arriving)"
                );
                Failure::new(code::BUSY, message)
            }
            Unreadable::Frame(error) => {
                Failure::of_peer(code::INTERNAL, format!("cannot read the agent's answer: {error}"))
            }
        };
        match call {
            Some((_, Match::Answered(waiter))) => drop(waiter.send(Err(failure()))),
            Some((id, Match::Late)) => self.note_late(id, failure().code.into()).await,
            Some((_, Match::Stranger)) | None => {}
        }
        self.complain(format!("dropped a frame: {why}")).await;
    }
}

/// The operators' deny rules as kenny agents take them.
fn wire_rules(policy: &InForce) -> impl Iterator<Item = PolicyRule> + '_ {
    policy.deny.iter().map(|rule| PolicyRule {
        id: rule.id.clone(),
        applies_to: rule.applies_to,
        pattern: rule.pattern.clone(),
        reason: rule.reason.clone(),
    })
}
