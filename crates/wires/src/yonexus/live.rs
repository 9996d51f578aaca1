//! An authenticated connection: messages in, frames out, heartbeats between.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use convoke_core::peer::Liveness;
use convoke_socket::drive::{Lost, Machine, Message, drive};
use convoke_store::Lossy;
use convoke_yonexus::close::{self, Close};
use convoke_yonexus::reason::Status;
use convoke_yonexus::server::{Event, Output, ServerSession};
use convoke_yonexus::{MAX_FRAME_AFTER, answer};

use super::clients::Client;
use super::link::{ClientLink, Out};
use super::outbox::Delivery;
use super::serve::broken;
use super::{now, rules, tells_of};
use crate::Wires;
use crate::ws::{Connection, NO_MEMORY, Socket};

/// How long a client that does not read may keep us waiting.
const STALL: Duration = Duration::from_secs(30);

/// The reason that is given for a connection which simply ended.
const DISCONNECTED: &str = "disconnected";

/// What to tell the peer, if it is still there, and why the connection ended.
type Goodbye = (Option<Close>, String);

struct Live<'a> {
    hub: &'a Wires,
    client: &'a Arc<Client>,
    link: &'a Arc<ClientLink>,
    session: ServerSession,
    delivery: Delivery,
    /// When its last message came.
    last_heard: Duration,
    /// Bytes written when a backlog was first seen, and when that was.
    stalled: Option<(u64, Duration)>,
}

/// Runs until the connection ends. Answers what to tell the peer, if it is still there.
pub(super) async fn run(
    hub: &Wires,
    socket: &mut Socket,
    session: ServerSession,
    client: &Arc<Client>,
    link: &Arc<ClientLink>,
) -> Option<Close> {
    socket.set_limit(2 * MAX_FRAME_AFTER);
    socket.set_budget(&hub.receive_budget);
    let (delivery, last_heard) = (Delivery::default(), hub.mono());
    let mut live = Live { hub, client, link, session, delivery, last_heard, stalled: None };
    // What other hubs put there is not counted here.
    if hub.cluster.is_some() || hub.yonexus.outbox.waiting(&client.identifier) > 0 {
        live.deliver(socket).await;
    }
    let (close, reason) = drive(socket, &mut live, &link.queue, hub.clock()).await;
    link.queue.end();
    link.hold(None);
    let at = hub.wall(live.last_heard);
    if hub.yonexus.clients.ended(client, link, Some(at)) {
        let liveness = Liveness::Offline;
        let seen =
            Lossy::ClientSeen { identifier: client.identifier.to_string(), liveness, at, authenticated: false };
        if let Err(why) = hub.store.enqueue(seen).await {
            tracing::error!(%why, "cannot record a disconnection");
        }
        tell_watchers(hub, &client.identifier, Status::Offline, Some(&reason));
    }
    close
}

/// Tells those who watch that a client's liveness changed.
pub(super) fn tell_watchers(hub: &Wires, identifier: &str, status: Status, reason: Option<&str>) {
    if let Some(client) = hub.yonexus.clients.find(identifier) {
        super::events::client(hub, &client, false);
    }
    let watchers = &hub.settings.yonexus.status_watchers;
    if watchers.is_empty() {
        return;
    }
    let text = answer::status_update(identifier, status, reason.map(Into::into), now(hub)).encode();
    let frame = bytes::Bytes::from(crate::ws::text_frame(&text));
    let tell = |name: &str, link: &ClientLink| {
        if name != identifier {
            // A watcher whose queue is full misses the event; it can ask for the state.
            let _ = link.push(Out::Frame(frame.clone()));
        }
    };
    if watchers.iter().any(|name| name == "*") {
        hub.yonexus.clients.links().iter().for_each(|(name, link)| tell(name, link));
        return;
    }
    for name in watchers {
        if let Some(link) = hub.yonexus.clients.link(name) {
            tell(name, &link);
        }
    }
}

impl Machine for Live<'_> {
    type Command = Out;
    type End = Goodbye;

    fn deadline(&mut self, now: Duration, connection: &Connection) -> Duration {
        let heartbeat = self.session.next_deadline().unwrap_or(now);
        if connection.backlog() == 0 {
            self.stalled = None;
            return heartbeat;
        }
        let (_, since) = *self.stalled.get_or_insert_with(|| (connection.progress(), now));
        heartbeat.min(since + STALL)
    }

    async fn on_message(
        &mut self,
        message: Message,
        mono: Duration,
        connection: &mut Connection,
    ) -> ControlFlow<Self::End> {
        match message {
            Message::Text(text) => {
                self.last_heard = mono;
                let event = self.session.on_text(&text, now(self.hub));
                return self.on_event(event, connection).await;
            }
            Message::Binary(_) => {
                self.last_heard = mono;
                let event = self.session.on_binary(now(self.hub));
                return self.on_event(event, connection).await;
            }
            Message::Pong(payload) => self.on_pong(&payload, connection).await,
            Message::Skipped(skipped) => {
                self.hub.metrics.dropped("arriving_frames", 1);
                let client = &*self.client.identifier;
                tracing::warn!(client, bytes = skipped.size, "no memory for a client's message");
                let (code, reason) = NO_MEMORY;
                return closed(Close { code, reason });
            }
        }
        ControlFlow::Continue(())
    }

    async fn on_command(&mut self, out: Out, _: Duration, connection: &mut Connection) -> ControlFlow<Self::End> {
        match out {
            Out::Frame(frame) => connection.queue_framed(&frame),
            Out::Text(text) | Out::Paired(text) => connection.queue_text(&text),
            Out::Outbox => self.deliver(connection).await,
            Out::Close(frames, close) => {
                frames.iter().for_each(|frame| connection.queue_text(frame));
                return closed(close);
            }
        }
        ControlFlow::Continue(())
    }

    async fn on_time(&mut self, _: Duration, connection: &mut Connection) -> ControlFlow<Self::End> {
        match self.on_tick(connection).await {
            Some(end) => ControlFlow::Break(end),
            None => ControlFlow::Continue(()),
        }
    }

    async fn on_lost(&mut self, lost: Lost, connection: &mut Connection) -> Self::End {
        let close = match lost {
            Lost::Closed(..) => Some(Close { code: 1000, reason: "bye" }),
            Lost::Gone(_) => None,
            Lost::Broken(error) => {
                if let Some(note) = tells_of(self.hub, &self.client.identifier) {
                    let (client, note) = (&*self.client.identifier, note.words());
                    tracing::warn!(client, %error, note, "closed a client's connection");
                }
                let (text, close) = broken(error, self.hub);
                text.into_iter().for_each(|text| connection.queue_text(&text));
                Some(close)
            }
        };
        (close, DISCONNECTED.into())
    }
}

fn closed(close: Close) -> ControlFlow<Goodbye> {
    ControlFlow::Break((Some(close), DISCONNECTED.into()))
}

impl Live<'_> {
    async fn on_event(&mut self, event: Event<'_>, connection: &mut Connection) -> ControlFlow<Goodbye> {
        match event {
            Event::Rule(message) => {
                let reply = rules::route(self.hub, &self.client.identifier, self.link, message).await;
                if let Some(frame) = reply {
                    connection.queue_text(&frame.encode());
                }
            }
            Event::Heartbeat { recovered } => {
                let at = now(self.hub);
                self.client.state().last_seen = Some(at.wall);
                if recovered {
                    self.hub.yonexus.clients.set_overdue(self.client, self.link, false);
                    self.status(Status::Online, None, connection).await;
                }
                if self.hub.settings.yonexus.heartbeat_ack {
                    connection.queue_text(&answer::heartbeat_ack(&self.client.identifier, at).encode());
                }
            }
            Event::Reply(frame) => connection.queue_text(&frame.encode()),
            Event::Dropped(frame) => {
                self.hub.metrics.dropped("yonexus_messages", 1);
                frame.into_iter().for_each(|frame| connection.queue_text(&frame.encode()));
            }
            Event::Close(frames, close) => {
                frames.iter().for_each(|frame| connection.queue_text(&frame.encode()));
                return closed(close);
            }
            Event::Hello { .. } | Event::PairConfirm { .. } | Event::AuthRequest { .. } | Event::Ignored => {}
        }
        ControlFlow::Continue(())
    }

    /// Sends the next messages that wait in the outbox, and a ping behind them.
    async fn deliver(&mut self, connection: &mut Connection) {
        if let Some((frames, ping)) = self.delivery.next(self.hub, &self.client.identifier).await {
            frames.iter().for_each(|frame| connection.queue_text(frame));
            connection.queue_ping(&ping);
        }
    }

    /// The client has read everything up to a ping of ours.
    async fn on_pong(&mut self, payload: &[u8], connection: &mut Connection) {
        if self.delivery.read(self.hub, &self.client.identifier, payload).await {
            self.deliver(connection).await;
        }
    }

    async fn on_tick(&mut self, connection: &mut Connection) -> Option<Goodbye> {
        let at = now(self.hub);
        if let Some((written, since)) = self.stalled
            && at.mono >= since + STALL
        {
            if connection.progress() == written {
                tracing::info!(client = %self.client.identifier, "a client does not read its connection");
                return Some((None, "not reading".into()));
            }
            self.stalled = Some((connection.progress(), at.mono));
        }
        match self.session.on_tick(at)? {
            Output::Status(Status::Offline, reason) => {
                tracing::info!(client = %self.client.identifier, reason, "a client disconnected");
                let notice = answer::disconnect_notice(&self.client.identifier, &reason, at);
                connection.queue_text(&notice.encode());
                Some((Some(close::TIMEOUT), reason))
            }
            Output::Status(status, reason) => {
                self.hub.yonexus.clients.set_overdue(self.client, self.link, status == Status::Unstable);
                self.status(status, Some(reason), connection).await;
                None
            }
            Output::Close(frames, close) => {
                frames.iter().for_each(|frame| connection.queue_text(&frame.encode()));
                Some((Some(close), close.reason.into()))
            }
        }
    }

    /// The client's liveness changed: tells the client and its watchers.
    async fn status(&self, status: Status, reason: Option<String>, connection: &mut Connection) {
        let at = now(self.hub);
        tell_watchers(self.hub, &self.client.identifier, status, reason.as_deref());
        connection.queue_text(&answer::status_update(&self.client.identifier, status, reason, at).encode());
        let liveness = if status == Status::Unstable { Liveness::Unstable } else { Liveness::Online };
        let identifier = self.client.identifier.to_string();
        let seen = Lossy::ClientSeen { identifier, liveness, at: at.wall, authenticated: false };
        if let Err(why) = self.hub.store.enqueue(seen).await {
            tracing::error!(%why, "cannot store a client's liveness");
        }
    }
}
