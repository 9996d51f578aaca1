//! An agent's connection at the forwarder.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use convoke_kenny::frame::{AgentFrame, HubFrame};
use convoke_kenny::transcript::Transcript;
use convoke_socket::Connection;
use convoke_socket::drive::{Clock, Lost, Machine, Message, drive};
use convoke_socket::queue::{Item, Queue, Rank};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use uuid::Uuid;

use super::Shared;
use crate::ws;

/// Requests without an answer after which those that nobody waits for any more are forgotten.
const MAX_WAITING: usize = 1024;
/// How long an agent may take over its handshake.
const PATIENCE: Duration = Duration::from_secs(10);
/// How every response of our agents begins; the id follows.
const RESPONSE: &str = r#"{"type":"response","id":""#;
/// How every snapshot of our agents begins.
const TELEMETRY: &str = r#"{"type":"telemetry""#;

/// What a link is asked to do.
#[derive(Debug)]
pub(super) enum Command {
    /// Send a request to the agent.
    Forward {
        /// The caller's body: an object with `tool` and `args`.
        body: Bytes,
        /// Hears the agent's response frame.
        reply: oneshot::Sender<String>,
    },
    /// End: a newer connection replaces this one, or the forwarder stops.
    End,
}

impl Item for Command {
    /// As many as the hub lets wait.
    const MAX_MESSAGES: usize = 64;
    const MAX_BYTES: usize = Self::MAX_MESSAGES * super::MAX_BODY;

    fn rank(&self) -> Rank {
        match self {
            Self::Forward { .. } => Rank::Message,
            Self::End => Rank::First,
        }
    }

    fn size(&self) -> usize {
        match self {
            Self::Forward { body, .. } => body.len(),
            Self::End => 0,
        }
    }
}

/// Serves one agent, from its register to its end.
pub(super) async fn run(shared: Arc<Shared>, io: TcpStream, read: Vec<u8>) {
    let mut socket = ws::serve(io, &read);
    let queue = Arc::default();
    let mut link =
        Link { shared, queue: Arc::clone(&queue), state: State::Unknown, waiting: HashMap::new(), next: 0 };
    let is_closed = drive(&mut socket, &mut link, &queue, Clock::since(Instant::now())).await;
    queue.end();
    if let State::Live(agent) = &link.state {
        // Only our own entry: a newer connection of the same agent may have replaced it.
        let mut links = link.shared.links();
        if links.get(agent).is_some_and(|entry| Arc::ptr_eq(entry, &queue)) {
            links.remove(agent);
        }
    }
    if is_closed {
        socket.close(1000, "").await;
    }
}

/// The forwarder's side of a connection. It proves itself to the agent, which would not talk otherwise, and believes the
/// agent without looking.
struct Link {
    shared: Arc<Shared>,
    queue: Arc<Queue<Command>>,
    state: State,
    waiting: HashMap<Uuid, oneshot::Sender<String>>,
    next: u64,
}

enum State {
    Unknown,
    /// Named, and challenged.
    Challenged(String),
    Live(String),
}

impl Machine for Link {
    type Command = Command;
    /// Whether the agent closed the connection, which is answered with a close.
    type End = bool;

    fn deadline(&mut self, _: Duration, _: &Connection) -> Duration {
        if matches!(self.state, State::Live(_)) { Duration::MAX } else { PATIENCE }
    }

    async fn on_message(&mut self, message: Message, _: Duration, connection: &mut Connection) -> ControlFlow<bool> {
        let Message::Text(text) = message else { return ControlFlow::Continue(()) };
        match &mut self.state {
            State::Live(_) => self.on_text(text, connection),
            State::Challenged(agent) => {
                let agent = std::mem::take(agent);
                connection.queue_text(&HubFrame::policy(Vec::new()).encode());
                let older = self.shared.links().insert(agent.clone(), Arc::clone(&self.queue));
                if let Some(older) = older {
                    // One that has ended needs no telling.
                    let _ = older.push(Command::End);
                }
                self.state = State::Live(agent);
                self.shared.handshakes.fetch_add(1, Ordering::Relaxed);
            }
            State::Unknown => match challenge(&self.shared, &text) {
                Some((agent, challenge)) => {
                    connection.queue_text(&challenge);
                    self.state = State::Challenged(agent);
                }
                None => return ControlFlow::Break(false),
            },
        }
        ControlFlow::Continue(())
    }

    async fn on_command(&mut self, command: Command, _: Duration, connection: &mut Connection) -> ControlFlow<bool> {
        let Command::Forward { body, reply } = command else { return ControlFlow::Break(false) };
        if let Some(rest) = std::str::from_utf8(&body).ok().and_then(|body| body.strip_prefix('{')) {
            self.next += 1;
            let id = Uuid::from_u64_pair(0, self.next);
            if self.waiting.len() >= MAX_WAITING {
                self.waiting.retain(|_, reply| !reply.is_closed());
            }
            self.waiting.insert(id, reply);
            connection.queue_text(&format!(r#"{{"type":"request","id":"{id}",{rest}"#));
        }
        ControlFlow::Continue(())
    }

    async fn on_time(&mut self, now: Duration, connection: &mut Connection) -> ControlFlow<bool> {
        if now >= self.deadline(now, connection) { ControlFlow::Break(false) } else { ControlFlow::Continue(()) }
    }

    async fn on_lost(&mut self, lost: Lost, _: &mut Connection) -> bool {
        matches!(lost, Lost::Closed(..))
    }
}

impl Link {
    fn on_text(&mut self, text: String, connection: &mut Connection) {
        if let Some(id) = text.strip_prefix(RESPONSE) {
            let id = id.get(..36).and_then(|id| Uuid::try_parse(id).ok());
            if let Some(reply) = id.and_then(|id| self.waiting.remove(&id)) {
                // Whoever waited may have given up.
                let _ = reply.send(text);
            }
        } else if text.starts_with(TELEMETRY) {
            self.shared.snapshots.fetch_add(1, Ordering::Relaxed);
        } else if text == convoke_kenny::frame::ping() {
            connection.queue_text(&convoke_kenny::frame::pong());
        }
    }
}

/// Who registers, and the challenge to send.
fn challenge(shared: &Shared, text: &str) -> Option<(String, String)> {
    let Ok(AgentFrame::Register(register)) = AgentFrame::decode(text) else { return None };
    let client_nonce = register.client_nonce?.ok()?;
    let mut server_nonce = [0; 32];
    getrandom::fill(&mut server_nonce).ok()?;
    let server_sig = Transcript::new(&register.agent_id, &client_nonce, &server_nonce).sign(&shared.key);
    Some((register.agent_id.into_owned(), HubFrame::Challenge { server_nonce, server_sig }.encode()))
}
