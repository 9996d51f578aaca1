//! An agent's connection at the forwarder.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use convoke_kenny::frame::{AgentFrame, HubFrame};
use convoke_kenny::transcript::Transcript;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use super::Shared;
use crate::ws::{self, Event, Socket};

/// Requests that may wait for a link, as many as the hub lets wait.
const QUEUE: usize = 64;
/// Requests without an answer after which those that nobody waits for any more are forgotten.
const MAX_WAITING: usize = 1024;
/// How long an agent may take over its handshake.
const PATIENCE: Duration = Duration::from_secs(10);
/// How every response of our agents begins; the id follows.
const RESPONSE: &str = r#"{"type":"response","id":""#;
/// How every snapshot of our agents begins.
const TELEMETRY: &str = r#"{"type":"telemetry""#;

/// A request on its way to the agent.
#[derive(Debug)]
pub(super) struct Forward {
    /// The caller's body: an object with `tool` and `args`.
    pub(super) body: Bytes,
    /// Hears the agent's response frame.
    pub(super) reply: oneshot::Sender<String>,
}

/// Serves one agent, from its register to its end.
pub(super) async fn run(shared: &Arc<Shared>, io: TcpStream, read: Vec<u8>) {
    let mut socket = ws::serve(io, &read);
    // Boxed, so that the idle task does not carry the handshake's state.
    let handshake = Box::pin(tokio::time::timeout(PATIENCE, shake_hands(shared, &mut socket)));
    let Ok(Some(agent)) = handshake.await else { return };
    let (queue, inbox) = mpsc::channel(QUEUE);
    // The list holds the only sender, so that a link which is replaced, or whose forwarder is gone, ends.
    let own = queue.downgrade();
    shared.links().insert(agent.clone(), queue);
    shared.handshakes.fetch_add(1, Ordering::Relaxed);
    live(shared, &mut socket, inbox).await;
    // Only our own entry: a newer connection of the same agent may have replaced it.
    let mut links = shared.links();
    if links.get(&agent).is_some_and(|entry| own.upgrade().is_some_and(|own| own.same_channel(entry))) {
        links.remove(&agent);
    }
}

/// Proves itself to the agent, which would not talk otherwise, and believes the agent without looking.
async fn shake_hands(shared: &Shared, socket: &mut Socket) -> Option<String> {
    let text = next_text(socket).await?;
    let Ok(AgentFrame::Register(register)) = AgentFrame::decode(&text) else { return None };
    let client_nonce = register.client_nonce?.ok()?;
    let mut server_nonce = [0; 32];
    getrandom::fill(&mut server_nonce).ok()?;
    let server_sig = Transcript::new(&register.agent_id, &client_nonce, &server_nonce).sign(&shared.key);
    socket.queue_text(&HubFrame::Challenge { server_nonce, server_sig }.encode());
    let agent = register.agent_id.into_owned();
    next_text(socket).await?;
    socket.queue_text(&HubFrame::policy(Vec::new()).encode());
    socket.flush().await.ok()?;
    Some(agent)
}

async fn next_text(socket: &mut Socket) -> Option<String> {
    loop {
        match socket.next().await.ok()? {
            Event::Text(text) => return Some(text),
            Event::Ping(payload) => socket.queue_pong(&payload),
            Event::Close(..) => return None,
            Event::Binary(_) | Event::Pong(_) | Event::Skipped(_) => {}
        }
    }
}

async fn live(shared: &Shared, socket: &mut Socket, mut inbox: mpsc::Receiver<Forward>) {
    let mut waiting: HashMap<Uuid, oneshot::Sender<String>> = HashMap::new();
    let mut next = 0;
    loop {
        // Both branches are cancel-safe: the socket keeps its state, a channel loses nothing.
        tokio::select! {
            incoming = socket.next() => match incoming {
                Ok(Event::Text(text)) => on_text(shared, socket, &mut waiting, text),
                Ok(Event::Ping(payload)) => socket.queue_pong(&payload),
                Ok(Event::Binary(_) | Event::Pong(_) | Event::Skipped(_)) => {}
                Ok(Event::Close(..)) => return socket.close(1000, "").await,
                Err(_) => return,
            },
            order = inbox.recv() => {
                let Some(Forward { body, reply }) = order else { return };
                let Some(rest) = std::str::from_utf8(&body).ok().and_then(|body| body.strip_prefix('{')) else {
                    continue;
                };
                next += 1;
                let id = Uuid::from_u64_pair(0, next);
                if waiting.len() >= MAX_WAITING {
                    waiting.retain(|_, reply| !reply.is_closed());
                }
                waiting.insert(id, reply);
                socket.queue_text(&format!(r#"{{"type":"request","id":"{id}",{rest}"#));
            }
        }
    }
}

fn on_text(shared: &Shared, socket: &mut Socket, waiting: &mut HashMap<Uuid, oneshot::Sender<String>>, text: String) {
    if let Some(id) = text.strip_prefix(RESPONSE) {
        let id = id.get(..36).and_then(|id| Uuid::try_parse(id).ok());
        if let Some(reply) = id.and_then(|id| waiting.remove(&id)) {
            // Whoever waited may have given up.
            let _ = reply.send(text);
        }
    } else if text.starts_with(TELEMETRY) {
        shared.snapshots.fetch_add(1, Ordering::Relaxed);
    } else if text == convoke_kenny::frame::ping() {
        socket.queue_text(&convoke_kenny::frame::pong());
    }
}
