//! A registered link: probes out, answers and heartbeats in.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use convoke_core::call::code;
use convoke_core::id::CallId;
use convoke_core::journal::{Kind, Phase};
use convoke_core::time::Timestamp;
use convoke_socket::drive::{Liveness, Lost, Machine, Message, drive};
use convoke_sonde::ack::UpdateAvailable;
use convoke_sonde::hub::{Close, Event, Output};
use convoke_sonde::pending::StartError;
use convoke_sonde::probe::{Answer as ProbeAnswer, Status};
use convoke_sonde::version::is_newer;

use super::Session;
use super::ask;
use super::change::{self, NotChanged};
use super::registry::SondeAgent;
use crate::Wires;
use crate::tunnel;
use crate::ws::{Connection, NO_MEMORY, Socket};
use convoke_gate::agents::Agent;
use convoke_gate::calls::INTERRUPTED;
use convoke_gate::clock;
use convoke_gate::hub::Hub;
use convoke_gate::link::{Close as LinkClose, Command, Failure, Link, Request};

/// The failure of a call to an agent that has as many under way as it may.
const TOO_MANY: &str = "too many probes are under way on this agent";

/// Codes of failures that the agent itself answered with.
pub const PROBE_ERROR: &str = "probe_error";
/// It did not finish in time, by its own clock.
pub const PROBE_TIMEOUT: &str = "probe_timeout";
/// Its own ceiling forbids it.
pub const PROBE_UNAUTHORIZED: &str = "probe_unauthorized";

struct Tunnel<'a> {
    hub: &'a Wires,
    agent: &'a Arc<Agent>,
    sonde: &'a Arc<SondeAgent>,
    link: &'a Arc<Link>,
    next_ping: Duration,
    /// When its last message came.
    last_heard: Duration,
    session: Session,
    liveness: Liveness,
    /// Probes that wait for another of the same name: the session says which. At most `sonde.max_in_flight`.
    held: VecDeque<Request>,
}

type Goodbye = Option<(u16, &'static str)>;

/// Runs the link until it ends. Returns what to tell the peer, if it is still there, and when it was last heard.
pub(super) async fn run(
    hub: &Wires,
    socket: &mut Socket,
    session: Session,
    agent: &Arc<Agent>,
    sonde: &Arc<SondeAgent>,
    link: &Arc<Link>,
    version: &str,
) -> (Goodbye, Timestamp) {
    if let Some(latest) = hub.settings.sonde.latest_agent_version.as_deref()
        && is_newer(latest, version)
    {
        let update = UpdateAvailable { latest_version: latest.into(), current_version: version.into() };
        if let Some(frame) = session.update_available(&update, clock::uuid(), clock::now()) {
            socket.queue_text(&frame);
        }
    }
    let interval = hub.settings.sonde.heartbeat_s;
    let mut tunnel = Tunnel {
        hub,
        agent,
        sonde,
        link,
        next_ping: hub.mono() + interval,
        last_heard: hub.mono(),
        session,
        liveness: Liveness::of(socket),
        held: VecDeque::new(),
    };
    let end = drive(socket, &mut tunnel, link.queue(), hub.clock()).await;
    let gone = || match &end {
        Some((_, reason)) if *reason == Close::GoingAway.reason() => Failure::new(code::INTERRUPTED, INTERRUPTED),
        _ => Failure::new(code::DISCONNECTED, format!("Agent '{}' disconnected", sonde.label())),
    };
    for held in tunnel.held.drain(..) {
        let _ = held.reply.send(Err(gone()));
    }
    let names_requests = tunnel.session.names_requests();
    tunnel::fail_all(link, tunnel.session.end().into_iter().map(|(_, waiter)| waiter), gone);
    let last_seen = hub.wall(tunnel.last_heard);
    remember(hub, sonde, names_requests).await;
    (end, last_seen)
}

/// An agent that named a request once is never again given the first match, not even after a restart of the hub.
async fn remember(hub: &Wires, sonde: &Arc<SondeAgent>, names_requests: bool) {
    if !names_requests || sonde.state().facts.names_requests {
        return;
    }
    let kept = change::facts(hub, sonde, |facts| {
        facts.names_requests = true;
        Ok::<_, Infallible>(None)
    });
    match kept.await {
        Ok(()) | Err(NotChanged::Gone) => {}
        Err(NotChanged::No(never)) => match never {},
        Err(NotChanged::Store(why)) => {
            sonde.state().facts.names_requests = true;
            tracing::error!(%why, "cannot store an agent's capabilities");
        }
    }
}

impl Machine for Tunnel<'_> {
    type Command = Command;
    type End = Goodbye;

    fn deadline(&mut self, _: Duration, _: &Connection) -> Duration {
        let held = self.held.iter().map(|held| held.deadline);
        self.session.next_deadline().into_iter().chain(held).fold(self.next_ping, Duration::min)
    }

    async fn on_message(
        &mut self,
        message: Message,
        now: Duration,
        connection: &mut Connection,
    ) -> ControlFlow<Self::End> {
        self.liveness.heard(connection);
        match message {
            Message::Text(text) => self.on_text(text, now, connection).await?,
            Message::Binary(bytes) => {
                self.on_text(String::from_utf8(bytes).unwrap_or_default(), now, connection).await?;
            }
            Message::Pong(_) => {}
            Message::Skipped(skipped) => {
                self.hub.metrics.dropped("arriving_frames", 1);
                tracing::warn!(agent = %self.agent.id, bytes = skipped.size, "no memory for an agent's message");
                return ControlFlow::Break(Some(NO_MEMORY));
            }
        }
        self.send_held(connection);
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
        let close = match command {
            Command::Close(LinkClose::Replaced) => Close::Replaced,
            Command::Close(LinkClose::Revoked) => Close::Revoked,
            Command::Close(LinkClose::Stopping) => Close::GoingAway,
            command => {
                self.obey(command, now, connection);
                return ControlFlow::Continue(());
            }
        };
        ControlFlow::Break(Some((close.code(), close.reason())))
    }

    async fn on_time(&mut self, now: Duration, connection: &mut Connection) -> ControlFlow<Self::End> {
        self.on_tick(now, connection)
    }

    async fn on_lost(&mut self, lost: Lost, _: &mut Connection) -> Self::End {
        match lost {
            Lost::Closed(code, _) => Some((code.unwrap_or(1000), "")),
            Lost::Gone(_) => None,
            Lost::Broken(error) => {
                tunnel::log_broken(self.hub, self.agent, &error);
                Some((error.close_code(), "protocol error"))
            }
        }
    }
}

impl Tunnel<'_> {
    /// Does what a command other than a close asks for.
    fn obey(&mut self, command: Command, now: Duration, connection: &mut Connection) {
        match command {
            overdue if overdue.is_overdue(now) => overdue.fail(self.not_sent()),
            call @ Command::Call(_) if !self.hub.may_act() => call.fail(Hub::no_lease()),
            Command::Call(held) => {
                let waits = |held: &Request| self.held.iter().any(|other| other.tool == held.tool);
                if !self.session.must_wait(&held.tool) && !waits(&held) {
                    start(held, connection, &mut self.session);
                } else if self.held.len() < self.hub.settings.sonde.max_in_flight {
                    self.held.push_back(held);
                } else {
                    let _ = held.reply.send(Err(Failure::new(code::BUSY, TOO_MANY)));
                }
            }
            Command::Forget(id) => {
                self.held.retain(|held| held.id != id);
                drop(self.session.cancel(id.uuid()));
            }
            Command::Withdraw(id, why) => {
                if let Some(held) =
                    self.held.iter().position(|held| held.id == id).and_then(|at| self.held.remove(at))
                {
                    let _ = held.reply.send(Err(why));
                }
            }
            Command::Send(frame) => connection.queue_text(&frame),
            // Deny rules are the hub's own here: the protocol has no frame for them.
            Command::PolicyChanged | Command::Close(_) => {}
        }
    }

    fn not_sent(&self) -> Failure {
        let label = self.sonde.label();
        let message = format!("Agent '{label}' did not read in time; the probe was not sent");
        Failure::new(code::TIMEOUT, message)
    }

    fn on_tick(&mut self, now: Duration, connection: &mut Connection) -> ControlFlow<Goodbye> {
        for overdue in self.link.queue().take_overdue(now) {
            overdue.fail(self.not_sent());
        }
        for output in self.session.on_tick(now) {
            match output {
                Output::Expired(id, waiter) => {
                    let message =
                        format!("Agent '{}' did not answer in time ({id}); it may still finish", self.sonde.label());
                    let _ = waiter.send(Err(Failure::new(code::TIMEOUT, message)));
                }
                Output::Overdue => self.hub.agents.set_overdue(self.agent, self.link.id, true),
                Output::Close(close) => {
                    tracing::info!(agent = %self.agent.id, name = self.sonde.name, why = close.reason(), "an agent disconnected");
                    return ControlFlow::Break(Some((close.code(), close.reason())));
                }
            }
        }
        while let Some(place) = self.held.iter().position(|held| held.deadline <= now) {
            let Some(held) = self.held.remove(place) else { break };
            let message = format!("Agent '{}' was still busy with another {}", self.sonde.label(), held.tool);
            let _ = held.reply.send(Err(Failure::new(code::TIMEOUT, message)));
        }
        self.send_held(connection);
        if now >= self.next_ping {
            self.next_ping = now + self.hub.settings.sonde.heartbeat_s;
            if let Err(unresponsive) = self.liveness.ping(connection) {
                tracing::info!(agent = %self.agent.id, "closed an agent's connection: {unresponsive}");
                return ControlFlow::Break(Some((1001, unresponsive.reason())));
            }
        }
        ControlFlow::Continue(())
    }

    /// Sends the probes that no longer have to wait, in their order.
    fn send_held(&mut self, connection: &mut Connection) {
        // Some of them may have been withdrawn a moment ago.
        while let Some(command) = self.link.queue().pop_notice() {
            self.obey(command, self.hub.mono(), connection);
        }
        let mut place = 0;
        while let Some(held) = self.held.get(place) {
            if self.session.must_wait(&held.tool) {
                place += 1;
            } else if let Some(held) = self.held.remove(place) {
                if self.hub.may_act() {
                    start(held, connection, &mut self.session);
                } else {
                    let _ = held.reply.send(Err(Hub::no_lease()));
                }
            }
        }
    }

    async fn on_text(&mut self, text: String, now: Duration, connection: &mut Connection) -> ControlFlow<Goodbye> {
        self.last_heard = now;
        self.link.heard(clock::now());
        match self.session.on_text(&text, now) {
            Event::Heartbeat => {
                self.hub.agents.set_overdue(self.agent, self.link.id, false);
                self.hub.agents.heard(self.agent, self.link.id, clock::now());
            }
            Event::Answered { waiter, answer, request } => {
                let _ = waiter.send(ask::shown(&answer, request));
            }
            Event::TooLarge { waiter, .. } => {
                let limit = self.hub.settings.sonde.max_frame_bytes;
                let message = format!("the answer is larger than {limit} bytes (sonde.max_frame_bytes)");
                let _ = waiter.send(Err(Failure::new(code::TOO_LARGE, message)));
            }
            Event::Late { request, answer } => self.on_late(CallId::new(request), &answer).await,
            Event::Stranger { probe } => self.on_stranger(&probe).await,
            Event::Reply(frame) => {
                if let Some(note) = self.hub.tells_of(&self.agent.id) {
                    let note = note.words();
                    tracing::info!(agent = %self.agent.id, reply = frame, note, "rejected a message of an agent");
                }
                // A peer that is not reading is not told again and again.
                if connection.backlog() < Self::HIGH_WATER {
                    connection.queue_text(&frame);
                }
            }
            Event::Close(close) => return ControlFlow::Break(Some((close.code(), close.reason()))),
            Event::Register(_) | Event::BadRegistration { .. } | Event::Ignored => {}
        }
        ControlFlow::Continue(())
    }

    async fn on_late(&self, call: CallId, answer: &ProbeAnswer<'_>) {
        let mut record = tunnel::record(self.agent, Kind::Call);
        record.call_id = Some(call);
        record.phase = Some(Phase::Late);
        record.tool = Some(answer.probe.to_string());
        record.outcome =
            Some(if answer.status == Status::Success { "ok".into() } else { answer.status.name().into() });
        self.hub.note(record).await;
    }

    async fn on_stranger(&self, probe: &str) {
        let detail =
            serde_json::json!({ "what": "ignored an answer to a probe of another connection", "probe": probe });
        tunnel::note_odd_answer(self.hub, self.agent, None, detail).await;
    }
}

fn start(held: Request, connection: &mut Connection, session: &mut Session) {
    let Request { id, tool, args, requested_by, timeout, deadline, reply, .. } = held;
    let started =
        session.request(id.uuid(), &tool, Some(&args), &requested_by, timeout, deadline, clock::now(), reply);
    match started {
        Ok(frame) => connection.queue_text(&frame),
        Err((why, reply)) => {
            let failure = match why {
                StartError::Full => Failure::new(code::BUSY, TOO_MANY),
                _ => Failure::new(code::INTERNAL, "cannot send the probe"),
            };
            let _ = reply.send(Err(failure));
        }
    }
}
