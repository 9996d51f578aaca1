//! `/peerjs`: the broker through which PeerJS peers find each other. Stock clients of the field work with it unchanged.

use std::collections::HashMap;
use std::fmt::Debug;
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use convoke_kibitz::close::{self, Close};
use convoke_kibitz::signal::{Broker, Claim, Limits, Line, MAX_MESSAGE, Message as Signal, Output};
use convoke_socket::drive::{Lost, Machine, Message, drive};
use tokio::sync::mpsc;

use super::link::{Out, RoomLink};
use crate::Wires;
use crate::ws::{Connection, Socket, Stream, text_frame};

/// Peers of the broker in all, and of one address.
const LIMITS: Limits = Limits { peers: 8_192, each: 256 };
/// Between pings: a browser answers them by itself, so its own heartbeats are not all that keeps it.
const PING_EVERY: Duration = Duration::from_secs(20);
/// Without a sign of life for so long a peer is gone.
const SILENT: Duration = Duration::from_secs(90);
/// How often silence and a stuck close are looked at.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// Messages to the hub's own ids that may wait.
const MAX_LOCAL: usize = 1_024;

/// Who holds which id, and what they tell each other. One hub keeps this in its memory; several would share it behind the
/// same questions.
pub(super) trait Signals: Send + Sync + Debug {
    /// A peer asks for an id.
    fn open(&self, line: Line, claim: Claim, link: &Arc<RoomLink>, now: Duration);
    /// A peer said something.
    fn on_text(&self, line: Line, text: &str, now: Duration);
    /// A peer is gone.
    fn closed(&self, line: Line);
    /// The hub says something under one of its own ids.
    fn say(&self, message: Signal, now: Duration);
    /// The id is the hub's own.
    fn reserve(&self, id: &str);
    /// The id is the hub's no more.
    fn release(&self, id: &str);
    /// What is due, every second.
    fn on_tick(&self, now: Duration);
    /// How many peers there are.
    fn count(&self) -> usize;
}

/// The broker of one hub.
#[derive(Debug)]
pub(super) struct InMemory {
    state: Mutex<State>,
    /// To whoever holds the hub's own ids.
    local: mpsc::Sender<Signal>,
}

#[derive(Debug)]
struct State {
    broker: Broker,
    links: HashMap<Line, Arc<RoomLink>>,
}

impl InMemory {
    /// One with no peers, and what is said to the hub's own ids.
    pub(super) fn new() -> (Self, mpsc::Receiver<Signal>) {
        let state = State { broker: Broker::new(LIMITS), links: HashMap::new() };
        let (local, heard) = mpsc::channel(MAX_LOCAL);
        (Self { state: Mutex::new(state), local }, heard)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn perform(&self, mut state: MutexGuard<'_, State>) {
        for output in state.broker.drain() {
            match output {
                Output::Send(line, text) => {
                    let slow = state.links.get(&line).is_some_and(|link| link.push(framed(&text)).is_err());
                    if slow {
                        state.links.remove(&line);
                        state.broker.closed(line);
                    }
                }
                Output::Close(line) => {
                    if let Some(link) = state.links.remove(&line) {
                        link.close(close::LEFT);
                    }
                }
                // When the hub does not keep up, the caller tries again.
                Output::Local(message) => drop(self.local.try_send(message)),
            }
        }
    }
}

fn framed(text: &str) -> Bytes {
    Bytes::from(text_frame(text))
}

impl Signals for InMemory {
    fn open(&self, line: Line, claim: Claim, link: &Arc<RoomLink>, now: Duration) {
        let mut state = self.state();
        state.links.insert(line, Arc::clone(link));
        state.broker.open(line, claim, now);
        self.perform(state);
    }

    fn on_text(&self, line: Line, text: &str, now: Duration) {
        let mut state = self.state();
        state.broker.on_text(line, text, now);
        self.perform(state);
    }

    fn closed(&self, line: Line) {
        let mut state = self.state();
        state.links.remove(&line);
        state.broker.closed(line);
    }

    fn say(&self, message: Signal, now: Duration) {
        let mut state = self.state();
        state.broker.say(message, now);
        self.perform(state);
    }

    fn reserve(&self, id: &str) {
        let mut state = self.state();
        state.broker.reserve(id);
        self.perform(state);
    }

    fn release(&self, id: &str) {
        self.state().broker.release(id);
    }

    fn on_tick(&self, now: Duration) {
        let mut state = self.state();
        state.broker.on_tick(now);
        self.perform(state);
    }

    fn count(&self) -> usize {
        self.state().broker.count()
    }
}

/// What a peer asks for when it connects: `?key=peerjs&id=…&token=…`.
#[derive(Debug)]
pub struct Asked {
    id: String,
    token: String,
}

impl Asked {
    /// From the address that was asked for. Under another key there is nothing.
    pub fn read(query: &str) -> Self {
        let value = |name: &str| {
            let found = query.split('&').filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name);
            let value = found.map_or("", |(_, value)| value);
            percent_encoding::percent_decode_str(value).decode_utf8_lossy().into_owned()
        };
        let id = if value("key") == "peerjs" { value("id") } else { String::new() };
        Self { id, token: value("token") }
    }
}

/// Serves one peer.
pub async fn serve(hub: Wires, io: Stream, read: Vec<u8>, address: IpAddr, asked: Asked) {
    let mut socket = Socket::server(io, &read, MAX_MESSAGE);
    let line = Line(hub.rooms.number());
    let link = RoomLink::new();
    let mono = hub.mono();
    let claim = Claim { id: asked.id, token: asked.token, address };
    hub.rooms.signals.open(line, claim, &link, mono);
    let mut peer = Peer { hub: &hub, line, link: &link, heard: mono, pinged: mono, next_check: mono };
    let close = drive(&mut socket, &mut peer, &link.queue, hub.clock()).await;
    hub.rooms.signals.closed(line);
    if let Some(close) = close {
        Box::pin(socket.close(close.code, close.reason)).await;
    }
}

/// One peer's connection.
struct Peer<'a> {
    hub: &'a Wires,
    line: Line,
    link: &'a RoomLink,
    heard: Duration,
    pinged: Duration,
    next_check: Duration,
}

impl Machine for Peer<'_> {
    type Command = Out;
    type End = Option<Close>;

    fn deadline(&mut self, _: Duration, _: &Connection) -> Duration {
        self.next_check
    }

    async fn on_message(&mut self, message: Message, mono: Duration, _: &mut Connection) -> ControlFlow<Self::End> {
        self.heard = mono;
        if let Message::Text(text) = message {
            self.hub.rooms.signals.on_text(self.line, &text, mono);
        }
        ControlFlow::Continue(())
    }

    async fn on_command(&mut self, out: Out, _: Duration, connection: &mut Connection) -> ControlFlow<Self::End> {
        match out {
            Out::Frame(frame) => {
                connection.queue_framed(&frame);
                ControlFlow::Continue(())
            }
            Out::Close(close) => ControlFlow::Break(Some(close)),
        }
    }

    async fn on_time(&mut self, mono: Duration, connection: &mut Connection) -> ControlFlow<Self::End> {
        if mono < self.next_check {
            return ControlFlow::Continue(());
        }
        self.next_check = mono + CHECK_EVERY;
        if connection.backlog() >= Self::HIGH_WATER
            && let Some(close) = self.link.closing()
        {
            return ControlFlow::Break(Some(close));
        }
        if mono.saturating_sub(self.heard) >= SILENT {
            return ControlFlow::Break(Some(close::TIMEOUT));
        }
        if mono.saturating_sub(self.pinged) >= PING_EVERY {
            self.pinged = mono;
            connection.queue_ping(b"convoke");
        }
        ControlFlow::Continue(())
    }

    async fn on_lost(&mut self, lost: Lost, _: &mut Connection) -> Self::End {
        match lost {
            Lost::Closed(..) => Some(close::LEFT),
            Lost::Gone(_) => None,
            Lost::Broken(error) => Some(Close { code: error.close_code(), reason: "protocol error" }),
        }
    }
}
