//! An authenticated tunnel: commands out, frames in, heartbeats between.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use convoke_core::call::code;
use convoke_core::door::Door;
use convoke_core::id::CallId;
use convoke_core::journal::{Decision, Draft, Kind, Phase};
use convoke_core::time::Timestamp;
use convoke_kenny::close::{self, Close};
use convoke_kenny::frame::{HubFrame, Response};
use convoke_kenny::hub::{Event, Output, Unreadable};
use convoke_kenny::inflight::{Match, StartError};
use convoke_kenny::policy::Dialect;
use serde_json::json;
use tokio::time::Instant;

use super::{Session, telemetry};
use crate::agents::Agent;
use crate::agents::budget::Record;
use crate::answers::Told;
use crate::calls::{INTERRUPTED, room_for_answer};
use crate::clock;
use crate::hub::Hub;
use crate::link::{Close as LinkClose, Command, Failure, Link, Probe, Reply, others_first};
use crate::ws::{Event as WsEvent, Skipped, Socket, SocketError, WsError};

/// Bytes that may wait to be written before no more commands are taken.
const HIGH_WATER: usize = 256 * 1024;

/// The state of one live tunnel beyond the protocol's own.
pub(super) struct Tunnel<'a> {
    pub(super) hub: &'a Hub,
    pub(super) agent: &'a Arc<Agent>,
    link: &'a Arc<Link>,
    dialect: Dialect,
    last_heard: Duration,
    overdue: bool,
    /// WebSocket pings since anything at all was read: a half-open socket answers none.
    pings_unanswered: u32,
    /// Bytes written when a backlog was first seen.
    stalled_at: Option<u64>,
    /// Bytes read when the last frame came.
    read_at_frame: u64,
    /// Why the hub ended the connection.
    fault: Option<String>,
}

/// Runs the tunnel until it ends. Returns what to tell the peer, if it is still there, and when it was last heard.
pub(super) async fn run(
    hub: &Hub,
    socket: &mut Socket,
    mut session: Session,
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
        pings_unanswered: 0,
        stalled_at: None,
        read_at_frame: socket.received(),
        fault: None,
    };
    // There is no "accepted" frame: the policy, even an empty one, is what tells the agent that it is in.
    tunnel.send_policy(socket);
    let end = tunnel.drive(socket, &mut session).await;
    tunnel.tell_dropped(true).await;
    let last_seen = tunnel.last_seen();
    // Every call that waits learns at once that this agent is gone; nobody else's does.
    let why = tunnel.fault.map_or_else(String::new, |fault| format!(": {fault}"));
    let gone = || match &end {
        Some(close) if *close == close::SHUTTING_DOWN => Failure::new(code::INTERRUPTED, INTERRUPTED),
        _ => Failure::new(code::DISCONNECTED, format!("agent {} disconnected during the call{why}", agent.id)),
    };
    for command in link.end() {
        command.fail(gone());
    }
    for (_, waiter) in session.end() {
        waiter.send(Err(gone()));
    }
    (end, last_seen)
}

impl Tunnel<'_> {
    async fn drive(&mut self, socket: &mut Socket, session: &mut Session) -> Option<Close> {
        let sleep = tokio::time::sleep_until(Instant::now());
        tokio::pin!(sleep);
        loop {
            let has_room = socket.backlog() < HIGH_WATER;
            let mut deadline = session.next_deadline().unwrap_or_else(|| self.hub.mono());
            if !has_room {
                deadline = self.link.next_deadline().map_or(deadline, |waiting| waiting.min(deadline));
            }
            let due: Instant = self.hub.instant(deadline).into();
            // A tick that comes too early costs nothing; setting the timer anew for every call does.
            if due < sleep.deadline() || sleep.is_elapsed() {
                sleep.as_mut().reset(due);
            }
            tokio::select! {
                event = socket.next_or_room(HIGH_WATER) => match event {
                    Ok(None) => {}
                    Ok(Some(event)) => {
                        self.pings_unanswered = 0;
                        self.read_at_frame = socket.received();
                        if let Some(end) = self.on_event(event, socket, session).await {
                            return end.close();
                        }
                    }
                    Err(SocketError::Broken(error)) => {
                        if let Some(note) = self.hub.tells_of(&self.agent.id) {
                            let note = note.words();
                            tracing::warn!(agent = %self.agent.id, %error, note, "an agent's connection was closed");
                        }
                        // An answer that nobody could take may be what a call waits for.
                        self.fault = Some(format!("the hub closed the connection, {error}"));
                        self.complain(format!("the connection was closed: {error}")).await;
                        let reason = match error {
                            WsError::TooLarge { .. } => "frame too large",
                            _ => "protocol error",
                        };
                        return Some(Close { code: error.close_code(), reason });
                    }
                    Err(SocketError::Ended | SocketError::Io(_)) => return None,
                },
                command = self.link.next(has_room, deadline) => {
                    let Some(command) = command else { continue };
                    let now = self.hub.mono();
                    if let Some(close) = self.on_command(command, now, socket, session) {
                        return Some(close);
                    }
                    // A lone call has nobody to wait for.
                    if self.hub.calls.running() > 1 {
                        others_first().await;
                    }
                    // What else waits goes out in the same write.
                    while socket.backlog() < HIGH_WATER {
                        let Some(command) = self.link.pop() else { break };
                        if let Some(close) = self.on_command(command, now, socket, session) {
                            return Some(close);
                        }
                    }
                }
                () = &mut sleep => {
                    self.tell_dropped(false).await;
                    if let Some(close) = self.on_tick(socket, session) {
                        return Some(close);
                    }
                }
            }
        }
    }

    fn on_command(
        &self,
        command: Command,
        now: Duration,
        socket: &mut Socket,
        session: &mut Session,
    ) -> Option<Close> {
        match command {
            overdue if overdue.is_overdue(now) => overdue.fail(self.not_sent()),
            Command::Call { id, frame, deadline, reply } => match session.start(id, deadline, reply) {
                Ok(()) => socket.queue_text(&frame),
                Err((why, reply)) => {
                    let failure = match why {
                        StartError::Full => Failure::new(code::BUSY, "too many calls are under way on this agent"),
                        _ => Failure::new(code::INTERNAL, "the call could not be started"),
                    };
                    reply.send(Err(failure));
                }
            },
            Command::Probe(Probe { reply, .. }) => {
                let _ = reply.send(Err(Failure::new(code::INTERNAL, "this agent speaks another protocol")));
            }
            Command::Forget(id) => drop(session.cancel(id)),
            // Nothing is held back here: it has gone out.
            Command::Withdraw(..) => {}
            Command::Send(frame) => socket.queue_text(&frame),
            Command::PolicyChanged => self.send_policy(socket),
            Command::Close(LinkClose::Replaced) => return Some(close::REPLACED),
            Command::Close(LinkClose::Revoked) => return Some(close::REVOKED),
            Command::Close(LinkClose::Stopping) => return Some(close::SHUTTING_DOWN),
        }
        None
    }

    fn not_sent(&self) -> Failure {
        let message =
            format!("agent {} did not read in time what it was sent: the call did not go out", self.agent.id);
        Failure::new(code::TIMEOUT, message)
    }

    fn send_policy(&self, socket: &mut Socket) {
        let policy = self.hub.policy.current();
        socket.queue_text(&HubFrame::policy_for(self.dialect, policy.wire_rules()).encode());
    }

    fn on_tick(&mut self, socket: &mut Socket, session: &mut Session) -> Option<Close> {
        let now = self.hub.mono();
        for overdue in self.link.take_overdue(now) {
            overdue.fail(self.not_sent());
        }
        // Of a large frame on a slow line nothing is whole for long; and what is not read cannot be heard.
        if socket.received() != self.read_at_frame || socket.is_waiting_for_budget() {
            self.read_at_frame = socket.received();
            self.pings_unanswered = 0;
            self.last_heard = now;
            session.heard(now);
        }
        for output in session.on_tick(now) {
            match output {
                Output::Send(frame) => {
                    if let Some(close) = self.on_heartbeat(now, socket) {
                        return Some(close);
                    }
                    socket.queue_text(&frame.encode());
                }
                Output::Expired(_, waiter) => {
                    let message = format!("agent {} did not answer in time; it may still finish", self.agent.id);
                    waiter.send(Err(Failure::new(code::TIMEOUT, message)));
                }
                Output::Close(refusal) => {
                    tracing::info!(agent = %self.agent.id, %refusal, "an agent is gone");
                    self.fault = Some(format!("the hub closed the connection, {refusal}"));
                    return Some(refusal.close());
                }
            }
        }
        None
    }

    /// When the agent was last heard.
    fn last_seen(&self) -> Timestamp {
        self.hub.wall(self.last_heard)
    }

    /// Once an interval: notices a peer that is overdue, half-open, or does not read.
    fn on_heartbeat(&mut self, now: Duration, socket: &mut Socket) -> Option<Close> {
        let interval = self.hub.settings.seconds("kenny.heartbeat_s");
        let overdue = now.saturating_sub(self.last_heard) >= interval.saturating_mul(2);
        self.set_overdue(overdue);
        self.hub.agents.heard(self.agent, self.link.id, self.last_seen());
        if self.pings_unanswered >= 2 {
            tracing::info!(agent = %self.agent.id, "an agent's socket is half-open");
            self.fault = Some("the hub closed the connection, since pings were not answered".to_owned());
            return Some(Close { code: close::GOING_AWAY, reason: "no answer to pings" });
        }
        if socket.backlog() == 0 {
            self.stalled_at = None;
        } else if self.stalled_at == Some(socket.progress()) {
            tracing::info!(agent = %self.agent.id, "an agent does not read what it is sent");
            self.fault = Some("the hub closed the connection, since nothing of what it sent was read".to_owned());
            return Some(Close { code: close::GOING_AWAY, reason: "not reading" });
        } else {
            self.stalled_at = Some(socket.progress());
        }
        self.pings_unanswered += 1;
        socket.queue_ping(b"convoke");
        None
    }

    fn set_overdue(&mut self, overdue: bool) {
        if self.overdue != overdue {
            self.overdue = overdue;
            self.hub.agents.set_overdue(self.agent, self.link.id, overdue);
        }
    }

    async fn on_event(&mut self, event: WsEvent, socket: &mut Socket, session: &mut Session) -> Option<End> {
        let text = match event {
            WsEvent::Text(text) => text,
            WsEvent::Binary(bytes) => {
                self.complain(format!("a binary message of {} bytes was dropped: frames are text", bytes.len()))
                    .await;
                return None;
            }
            WsEvent::Ping(payload) => {
                socket.queue_pong(&payload);
                return None;
            }
            WsEvent::Pong(_) => return None,
            WsEvent::Skipped(skipped) => {
                self.on_skipped(&skipped, session).await;
                return None;
            }
            WsEvent::Close(code, _) => return Some(End::Theirs(code)),
        };
        let now = self.hub.mono();
        self.last_heard = now;
        self.link.heard(clock::now());
        self.set_overdue(false);
        match session.on_text(&text, now) {
            Event::Response { response, call } => self.on_response(response, call).await,
            Event::Telemetry(_) if self.is_too_much(&text) => {
                self.on_too_much("snapshots", "a snapshot", &text).await
            }
            Event::Log(_) if self.is_too_much(&text) => self.on_too_much("log_lines", "a log frame", &text).await,
            Event::Telemetry(telemetry) => {
                if self.may_push().await {
                    let snapshot = self.judge(&telemetry);
                    let place = telemetry::place(&text, telemetry.body.get());
                    self.keep_snapshot(snapshot, telemetry::cut(text, place)).await;
                }
            }
            Event::Log(log) => self.on_log(&log).await,
            Event::Reply(frame) => socket.queue_text(&frame.encode()),
            Event::Alive => {}
            Event::Unreadable { why, call } => self.on_unreadable(&why, call).await,
            Event::Ignored(why) => self.complain(format!("a frame was ignored: {why}")).await,
            Event::Close(refusal) => return Some(End::Ours(refusal.close())),
            Event::Register(_) | Event::Accepted(_) => {}
        }
        None
    }

    /// A large frame for which there was no room.
    async fn on_skipped(&mut self, skipped: &Skipped, session: &mut Session) {
        self.hub.metrics.dropped("arriving_frames", 1);
        let now = self.hub.mono();
        self.last_heard = now;
        self.set_overdue(false);
        // Where it was cut a letter may be cut, too.
        let start = String::from_utf8_lossy(&skipped.start);
        if let Event::Unreadable { why, call } = session.on_skipped(&start, skipped.size, now) {
            self.on_unreadable(&why, call).await;
        }
    }

    fn is_too_much(&self, text: &str) -> bool {
        text.len() > self.hub.settings.size("kenny.max_telemetry_bytes")
    }

    async fn on_too_much(&mut self, counted_as: &'static str, what: &str, text: &str) {
        self.hub.metrics.dropped(counted_as, 1);
        let size = text.len();
        self.complain(format!("{what} of {size} bytes was dropped: it is over kenny.max_telemetry_bytes")).await;
    }

    async fn on_response(&mut self, response: Response<'_>, call: Match<Reply>) {
        let id = CallId::new(response.id);
        let answer = response.outcome();
        match call {
            Match::Answered(waiter) => {
                let answer = match answer {
                    // A large one may wait for room, and with it this connection alone.
                    Ok(result) => room_for_answer(self.hub, result.get().len())
                        .await
                        .map(|room| Told::new(result.to_owned(), room)),
                    Err(error) => Err(Failure::of_peer(error.code.as_str(), error.message)),
                };
                waiter.send(answer);
            }
            Match::Late => {
                let outcome = answer
                    .map_or_else(|error| code::of_agent(error.code.as_str()).to_owned().into(), |_| "ok".into());
                self.note_late(id, outcome).await;
            }
            Match::Stranger => {
                let now_ms = clock::now().millis();
                let Some(note) = self.hub.budgets.keep(&self.agent.id, Record::OddAnswer, now_ms) else {
                    self.hub.metrics.dropped("odd_answers", 1);
                    return;
                };
                let mut record = self.record(id);
                record.decision = Some(Decision::Denied);
                let mut detail = json!({ "what": "an answer to a call that is not this connection's" });
                note.tell(&mut detail);
                self.hub.note(record.detail(&detail)).await;
            }
        }
    }

    /// A call's answer came after its end.
    async fn note_late(&self, id: CallId, outcome: Cow<'static, str>) {
        let mut record = self.record(id);
        record.kind = Kind::Call;
        record.phase = Some(Phase::Late);
        record.outcome = Some(outcome);
        if let Some(call) = self.hub.calls.find(id) {
            record.tool = Some(call.tool.clone());
        }
        self.hub.note(record).await;
    }

    fn record(&self, call: CallId) -> Draft {
        let mut record = Draft::new(clock::now(), Kind::Refusal);
        record.who = Some(format!("agent:{}", self.agent.id));
        record.door = Some(Door::Wire);
        record.target = Some(self.agent.id.as_str().into());
        record.call_id = Some(call);
        record
    }

    async fn on_unreadable(&mut self, why: &Unreadable, call: Option<(CallId, Match<Reply>)>) {
        let failure = || match why {
            Unreadable::TooLarge(size) => {
                let limit = self.hub.settings.number("kenny.max_frame_bytes");
                let message =
                    format!("the answer of {size} bytes is over the limit of {limit} (kenny.max_frame_bytes)");
                Failure::new(code::TOO_LARGE, message)
            }
            Unreadable::Skipped(size) => {
                let message = format!(
                    "the machine has answered, but the hub takes in as much as it may (hub.max_bytes_arriving), and this \
                     answer of {size} bytes was dropped"
                );
                Failure::new(code::BUSY, message)
            }
            Unreadable::Frame(error) => {
                Failure::of_peer(code::INTERNAL, format!("the agent's answer could not be read: {error}"))
            }
        };
        match call {
            Some((_, Match::Answered(waiter))) => waiter.send(Err(failure())),
            Some((id, Match::Late)) => self.note_late(id, failure().code.into()).await,
            Some((_, Match::Stranger)) | None => {}
        }
        self.complain(format!("a frame was dropped: {why}")).await;
    }
}

enum End {
    Theirs(Option<u16>),
    Ours(Close),
}

impl End {
    /// A close is answered with a close.
    fn close(self) -> Option<Close> {
        match self {
            Self::Theirs(code) => Some(Close { code: code.unwrap_or(1000), reason: "" }),
            Self::Ours(close) => Some(close),
        }
    }
}
