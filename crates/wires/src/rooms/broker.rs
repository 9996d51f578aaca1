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
use convoke_socket::drive::Message;
use tokio::sync::mpsc;

use super::connection::{self, Party};
use super::link::RoomLink;
use crate::Wires;
use crate::ws::{Connection, Socket, Stream, text_frame};

/// Peers of the broker in all, and of one address.
const LIMITS: Limits = Limits { peers: 8_192, each: 256 };
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
    let claim = Claim { id: asked.id, token: asked.token, address };
    hub.rooms.signals.open(line, claim, &link, hub.mono());
    let close = connection::run(&hub, &mut socket, &mut Peer { hub: &hub, line }, &link).await;
    hub.rooms.signals.closed(line);
    if let Some(close) = close {
        Box::pin(socket.close(close.code, close.reason)).await;
    }
}

/// One peer.
struct Peer<'a> {
    hub: &'a Wires,
    line: Line,
}

impl Party for Peer<'_> {
    const SILENT: Duration = Duration::from_secs(90);

    async fn on_message(
        &mut self,
        message: Message,
        now: Duration,
        _: &mut Connection,
    ) -> ControlFlow<Option<Close>> {
        if let Message::Text(text) = message {
            self.hub.rooms.signals.on_text(self.line, &text, now);
        }
        ControlFlow::Continue(())
    }
}
