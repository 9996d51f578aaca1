//! One simulated agent: its connection, its handshake, and what it does while it lives.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use convoke_core::id::PeerId;
use convoke_kenny::agent::{AgentConfig, AgentEvent, AgentSession, AgentTick, EndReason};
use convoke_kenny::frame::{self, ErrorCode, Meta};
use convoke_kenny::heartbeat::Mono;
use serde_json::value::RawValue;
use tokio::net::TcpSocket;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::Instant;

use crate::answer::Answer;
use crate::swarm::SwarmConfig;
use crate::telemetry::Snapshot;
use crate::ws::{self, Event, Socket, SocketError, UpgradeError};

/// What all agents of a swarm share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: SwarmConfig,
    pub(crate) counters: Counters,
    /// One permit for each connection that may be under way.
    pub(crate) permits: Semaphore,
    result: Box<RawValue>,
    snapshot: Snapshot,
    start: Instant,
}

/// What happened so far.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) connected: AtomicU64,
    pub(crate) handshakes: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) lost: AtomicU64,
    pub(crate) answered: AtomicU64,
    pub(crate) pushed: AtomicU64,
    pub(crate) frames_sent: AtomicU64,
}

/// Something an agent is told to do. `done` hears when it is done; an agent that is gone drops it.
#[derive(Debug)]
pub(crate) enum Order {
    /// Push a snapshot.
    Push { unlike: bool, done: oneshot::Sender<()> },
    /// Close the connection and make a new one.
    Reconnect { done: oneshot::Sender<()> },
    /// Close the connection for good.
    Leave,
}

/// Why an agent is not connected.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// No connection.
    #[error("could not connect: {0}")]
    Io(#[from] io::Error),
    /// No WebSocket.
    #[error(transparent)]
    Upgrade(#[from] UpgradeError),
    /// The socket broke during the handshake.
    #[error("the handshake broke off: {0}")]
    Broken(#[from] SocketError),
    /// The hub closed the socket: 4401 is a refusal.
    #[error("the hub closed the handshake (code {0:?})")]
    Closed(Option<u16>),
    /// The agent does not trust this hub.
    #[error(transparent)]
    Distrust(#[from] EndReason),
    /// It took too long.
    #[error("the handshake took too long")]
    TimedOut,
}

impl Shared {
    pub(crate) fn new(config: SwarmConfig) -> Self {
        let permits = Semaphore::new(config.concurrency.max(1));
        let result = config.answer.result();
        let (counters, snapshot) = (Counters::default(), Snapshot::default());
        Self { config, counters, permits, result, snapshot, start: Instant::now() }
    }

    fn mono(&self) -> Mono {
        self.start.elapsed()
    }

    fn send(&self, socket: &mut Socket, frame: &str) {
        socket.queue_text(frame);
        self.counters.frames_sent.fetch_add(1, Ordering::Relaxed);
    }
}

/// An authenticated connection. Counted among the connected for as long as it exists.
#[derive(Debug)]
pub(crate) struct Link {
    shared: Arc<Shared>,
    id: PeerId,
    socket: Socket,
    session: AgentSession,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.shared.counters.connected.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Connects agent `index` and takes it through the handshake, when it is its turn.
pub(crate) async fn connect(shared: &Arc<Shared>, index: usize) -> Result<Link, ConnectError> {
    let Ok(_permit) = shared.permits.acquire().await else { return Err(ConnectError::TimedOut) };
    let outcome = tokio::time::timeout(shared.config.connect_timeout, shake_hands(shared, index)).await;
    let counters = &shared.counters;
    match outcome.unwrap_or(Err(ConnectError::TimedOut)) {
        Ok((id, socket, session)) => {
            counters.handshakes.fetch_add(1, Ordering::Relaxed);
            counters.connected.fetch_add(1, Ordering::Relaxed);
            Ok(Link { shared: Arc::clone(shared), id, socket, session })
        }
        Err(why) => {
            counters.refused.fetch_add(1, Ordering::Relaxed);
            Err(why)
        }
    }
}

async fn shake_hands(shared: &Shared, index: usize) -> Result<(PeerId, Socket, AgentSession), ConnectError> {
    let config = &shared.config;
    let id = config.roster.id(index);
    let tcp = if config.target.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    if let Some(source) = config.source(index) {
        tcp.bind(source)?;
    }
    let io = tcp.connect(config.target).await?;
    io.set_nodelay(true)?;
    let mut socket = ws::open(io, config.target, "/agent/ws", None).await?;

    let mut nonce = [0; 32];
    getrandom::fill(&mut nonce).map_err(io::Error::other)?;
    let mut settings = AgentConfig::new(id.clone(), config.server_key);
    settings.heartbeat = config.heartbeat;
    let mut session = AgentSession::new(settings, config.roster.key(index), nonce, shared.mono());
    let meta = Meta { hostname: id.to_string(), os: "windows".into(), version: "0.8.0".into(), ..Meta::default() };
    shared.send(&mut socket, &session.register_frame(&meta));
    loop {
        let text = match socket.next().await? {
            Event::Text(text) => text,
            Event::Ping(payload) => {
                socket.queue_pong(&payload);
                continue;
            }
            Event::Binary(_) | Event::Pong(_) | Event::Skipped(_) => continue,
            Event::Close(code, _) => return Err(ConnectError::Closed(code)),
        };
        match session.on_text(&text, shared.mono()) {
            AgentEvent::Auth(frame) | AgentEvent::Reply(frame) => shared.send(&mut socket, &frame),
            // There is no frame that says "accepted"; the policy is what a hub sends first to whom it lets in.
            AgentEvent::Policy { .. } => return Ok((id, socket, session)),
            AgentEvent::End(reason) => return Err(reason.into()),
            AgentEvent::Request { .. } | AgentEvent::Alive | AgentEvent::Dropped(_) => {}
        }
    }
}

/// Lives until it is told to leave, or until its connection is lost and the swarm does not retry.
pub(crate) async fn live(shared: Arc<Shared>, index: usize, first: Link, mut orders: mpsc::Receiver<Order>) {
    let mut link = first;
    loop {
        let done = match link.run(&mut orders).await {
            Ended::Leaving => {
                link.close().await;
                return;
            }
            Ended::Reconnecting(done) => {
                link.close().await;
                Some(done)
            }
            Ended::Lost => {
                shared.counters.lost.fetch_add(1, Ordering::Relaxed);
                None
            }
        };
        drop(link);
        link = loop {
            match (connect(&shared, index).await, shared.config.retry) {
                (Ok(link), _) => break link,
                (Err(_), None) => return,
                (Err(_), Some(pause)) => tokio::time::sleep(pause).await,
            }
            // Nobody holds the swarm any more.
            if orders.is_closed() {
                return;
            }
        };
        if let Some(done) = done {
            // Who asked may have stopped waiting.
            let _ = done.send(());
        }
    }
}

enum Ended {
    Leaving,
    Reconnecting(oneshot::Sender<()>),
    Lost,
}

impl Link {
    async fn run(&mut self, orders: &mut mpsc::Receiver<Order>) -> Ended {
        let mut delayed = VecDeque::new();
        let timer = tokio::time::sleep_until(self.deadline(&delayed));
        tokio::pin!(timer);
        loop {
            // Every branch is cancel-safe: the socket keeps its state, a channel loses nothing.
            tokio::select! {
                biased;
                incoming = self.socket.next() => match incoming {
                    Ok(Event::Text(text)) => {
                        if let Some(ended) = self.on_text(&text, &mut delayed) {
                            return ended;
                        }
                        // The heartbeat does not move with what is heard, so only a delayed answer can be earlier.
                        if delayed.len() == 1 {
                            timer.as_mut().reset(self.deadline(&delayed));
                        }
                    }
                    Ok(Event::Ping(payload)) => self.socket.queue_pong(&payload),
                    Ok(Event::Binary(_) | Event::Pong(_) | Event::Skipped(_)) => {}
                    Ok(Event::Close(..)) | Err(_) => return Ended::Lost,
                },
                order = orders.recv() => match order {
                    Some(Order::Push { unlike, done }) => {
                        let (snapshot, id) = (&self.shared.snapshot, self.id.as_str());
                        let frame = if unlike { snapshot.unlike_frame(id) } else { snapshot.frame(id) };
                        self.shared.send(&mut self.socket, &frame);
                        if self.socket.flush().await.is_err() {
                            return Ended::Lost;
                        }
                        self.shared.counters.pushed.fetch_add(1, Ordering::Relaxed);
                        let _ = done.send(());
                    }
                    Some(Order::Reconnect { done }) => return Ended::Reconnecting(done),
                    Some(Order::Leave) | None => return Ended::Leaving,
                },
                () = &mut timer => {
                    if let Some(ended) = self.on_timer(&mut delayed) {
                        return ended;
                    }
                    timer.as_mut().reset(self.deadline(&delayed));
                }
            }
        }
    }

    fn deadline(&self, delayed: &VecDeque<(Instant, String)>) -> Instant {
        // A session without a deadline is over, which `on_timer` finds out at once.
        let heartbeat = self.session.next_deadline().map_or_else(Instant::now, |mono| self.shared.start + mono);
        delayed.front().map_or(heartbeat, |(due, _)| heartbeat.min(*due))
    }

    fn on_text(&mut self, text: &str, delayed: &mut VecDeque<(Instant, String)>) -> Option<Ended> {
        match self.session.on_text(text, self.shared.mono()) {
            AgentEvent::Request { id, .. } => {
                let answer = match &self.shared.config.answer {
                    Answer::Never => return None,
                    Answer::Error => {
                        frame::response_error(id, &ErrorCode::ExecFailed, "the simulation was told to fail")
                    }
                    _ => frame::response_ok(id, &self.shared.result),
                };
                self.shared.counters.answered.fetch_add(1, Ordering::Relaxed);
                if let Answer::After(delay) = self.shared.config.answer {
                    delayed.push_back((Instant::now() + delay, answer));
                } else {
                    self.shared.send(&mut self.socket, &answer);
                }
            }
            AgentEvent::Reply(frame) | AgentEvent::Auth(frame) => self.shared.send(&mut self.socket, &frame),
            AgentEvent::End(_) => return Some(Ended::Lost),
            AgentEvent::Policy { .. } | AgentEvent::Alive | AgentEvent::Dropped(_) => {}
        }
        None
    }

    fn on_timer(&mut self, delayed: &mut VecDeque<(Instant, String)>) -> Option<Ended> {
        match self.session.on_tick(self.shared.mono()) {
            AgentTick::Wait => {}
            AgentTick::Send(frame) => self.shared.send(&mut self.socket, &frame),
            AgentTick::End(_) => return Some(Ended::Lost),
        }
        let now = Instant::now();
        while let Some((_, answer)) = delayed.pop_front_if(|(due, _)| *due <= now) {
            self.shared.send(&mut self.socket, &answer);
        }
        None
    }

    async fn close(&mut self) {
        self.socket.close(1000, "").await;
    }
}
