//! One simulated agent: its connection, its handshake, and what it does while it lives.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{fmt, io};

use convoke_core::id::PeerId;
use convoke_kenny::agent::{AgentConfig, AgentEvent, AgentSession, AgentTick, EndReason};
use convoke_kenny::frame::{self, ErrorCode, Meta};
use convoke_socket::Connection;
use convoke_socket::drive::{Clock, Lost, Machine, Message, drive};
use convoke_socket::queue::{Item, Queue, Rank};
use serde_json::value::RawValue;
use tokio::net::TcpSocket;
use tokio::sync::{Semaphore, oneshot};
use uuid::Uuid;

use crate::answer::Answer;
use crate::swarm::SwarmConfig;
use crate::telemetry::Snapshot;
use crate::ws::{self, Socket, UpgradeError};

/// What all agents of a swarm share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: SwarmConfig,
    pub(crate) counters: Counters,
    /// One permit for each connection that may be under way.
    pub(crate) permits: Semaphore,
    /// Connections that were let in, ever.
    links: AtomicU64,
    /// Who answers in place of the swarm's one answer.
    asked: Option<Arc<dyn Asked>>,
    result: Box<RawValue>,
    snapshot: Snapshot,
    clock: Clock,
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

/// Whoever decides what requests are answered, one by one, and keeps what was asked.
pub(crate) trait Asked: fmt::Debug + Send + Sync {
    /// The result of one request, and how long it takes.
    fn answer(&self, agent: usize, link: u64, tool: &str, args: &RawValue) -> (Box<RawValue>, Duration);
}

/// A command for an agent. `done` is answered when it is done, and dropped by an agent that is gone.
#[derive(Debug)]
pub(crate) enum Order {
    /// Push a snapshot.
    Push { unlike: bool, done: oneshot::Sender<()> },
    /// Close the connection and make a new one.
    Reconnect { done: oneshot::Sender<()> },
    /// Close the connection for good.
    Leave,
}

impl Item for Order {
    const MAX_MESSAGES: usize = 4;
    const MAX_BYTES: usize = 0;

    fn rank(&self) -> Rank {
        match self {
            Self::Push { .. } | Self::Reconnect { .. } => Rank::Message,
            Self::Leave => Rank::First,
        }
    }

    fn size(&self) -> usize {
        0
    }
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
    /// The hub ended the connection during the handshake: the code 4401 is a refusal.
    #[error("the handshake broke off: {0}")]
    Lost(#[from] Lost),
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
        let (links, clock) = (AtomicU64::new(0), Clock::since(Instant::now()));
        Self { config, counters, permits, links, asked: None, result, snapshot, clock }
    }

    /// The same, with somebody who decides about each request.
    pub(crate) fn with(config: SwarmConfig, asked: Arc<dyn Asked>) -> Self {
        Self { asked: Some(asked), ..Self::new(config) }
    }
}

/// An authenticated connection. Counted among the connected for as long as it exists.
#[derive(Debug)]
pub(crate) struct Link {
    socket: Socket,
    agent: Agent,
}

impl Link {
    /// Its number among all connections of the swarm, in the order in which hubs let them in.
    pub(crate) const fn number(&self) -> u64 {
        self.agent.link
    }

    /// Answers until the connection ends, or until it is told to leave.
    pub(crate) async fn stay(mut self, orders: &Queue<Order>) {
        let clock = self.agent.shared.clock;
        if let Ended::Leaving | Ended::Reconnecting(_) = drive(&mut self.socket, &mut self.agent, orders, clock).await
        {
            self.socket.close(1000, "").await;
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.agent.shared.counters.connected.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Connects agent `index` to the swarm's hub and takes it through the handshake, when it is its turn.
pub(crate) async fn connect(shared: &Arc<Shared>, index: usize) -> Result<Link, ConnectError> {
    connect_to(shared, index, shared.config.target).await
}

/// The same to the hub at `target`.
pub(crate) async fn connect_to(shared: &Arc<Shared>, index: usize, target: SocketAddr) -> Result<Link, ConnectError> {
    let Ok(_permit) = shared.permits.acquire().await else { return Err(ConnectError::TimedOut) };
    let outcome = tokio::time::timeout(shared.config.connect_timeout, shake_hands(shared, index, target)).await;
    let counters = &shared.counters;
    match outcome.unwrap_or(Err(ConnectError::TimedOut)) {
        Ok((socket, mut agent)) => {
            agent.link = shared.links.fetch_add(1, Ordering::Relaxed);
            counters.handshakes.fetch_add(1, Ordering::Relaxed);
            counters.connected.fetch_add(1, Ordering::Relaxed);
            Ok(Link { socket, agent })
        }
        Err(why) => {
            counters.refused.fetch_add(1, Ordering::Relaxed);
            Err(why)
        }
    }
}

async fn shake_hands(
    shared: &Arc<Shared>,
    index: usize,
    target: SocketAddr,
) -> Result<(Socket, Agent), ConnectError> {
    let config = &shared.config;
    let id = config.roster.id(index);
    let tcp = if target.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    if let Some(source) = config.source(index) {
        tcp.bind(source)?;
    }
    let io = tcp.connect(target).await?;
    io.set_nodelay(true)?;
    let mut socket = ws::open(io, target, "/agent/ws", None).await?;

    let mut nonce = [0; 32];
    getrandom::fill(&mut nonce).map_err(io::Error::other)?;
    let mut settings = AgentConfig::new(id.clone(), config.server_key);
    settings.heartbeat = config.heartbeat;
    let session = AgentSession::new(settings, config.roster.key(index), nonce, shared.clock.now());
    let meta = Meta { hostname: id.to_string(), os: "windows".into(), version: "0.8.0".into(), ..Meta::default() };
    let register = session.register_frame(&meta);
    let mut agent = Agent {
        shared: Arc::clone(shared),
        index,
        link: 0,
        id,
        session,
        is_admitted: false,
        delayed: VecDeque::new(),
    };
    agent.send(&register, &mut socket);
    match drive(&mut socket, &mut agent, &Queue::default(), shared.clock).await {
        Ended::Admitted => Ok((socket, agent)),
        Ended::Distrust(reason) => Err(reason.into()),
        Ended::Lost(lost) => Err(lost.into()),
        // Nobody could tell it to.
        Ended::Leaving | Ended::Reconnecting(_) => Err(ConnectError::TimedOut),
    }
}

/// Lives until it is told to leave, or until its connection is lost and the swarm does not retry.
pub(crate) async fn live(shared: Arc<Shared>, index: usize, first: Link, orders: Arc<Queue<Order>>) {
    let mut link = first;
    loop {
        let done = match drive(&mut link.socket, &mut link.agent, &orders, shared.clock).await {
            Ended::Leaving => {
                link.socket.close(1000, "").await;
                break;
            }
            Ended::Reconnecting(done) => {
                link.socket.close(1000, "").await;
                Some(done)
            }
            Ended::Admitted | Ended::Distrust(_) | Ended::Lost(_) => {
                shared.counters.lost.fetch_add(1, Ordering::Relaxed);
                None
            }
        };
        drop(link);
        let first = usize::from(done.is_none());
        let Some(next) = come_back(&shared, index, first, &orders).await else { break };
        link = next;
        if let Some(done) = done {
            // Who asked may have stopped waiting.
            let _ = done.send(());
        }
    }
    // Whoever waits for an order to be obeyed learns that it is not.
    orders.end();
}

async fn come_back(shared: &Arc<Shared>, index: usize, first: usize, orders: &Queue<Order>) -> Option<Link> {
    for tries in first.. {
        if orders.holds(|order| matches!(order, Order::Leave)) {
            break;
        }
        match (connect_to(shared, index, shared.config.hub(index, tries)).await, shared.config.retry) {
            (Ok(link), _) => return Some(link),
            (Err(_), None) => return None,
            (Err(_), Some(pause)) => tokio::time::sleep(pause).await,
        }
    }
    None
}

/// The agent's side of a connection, from its first frame on.
#[derive(Debug)]
struct Agent {
    shared: Arc<Shared>,
    index: usize,
    link: u64,
    id: PeerId,
    session: AgentSession,
    is_admitted: bool,
    /// Answers that are given later.
    delayed: VecDeque<(Duration, String)>,
}

enum Ended {
    /// The hub let the agent in: the handshake is over.
    Admitted,
    Leaving,
    Reconnecting(oneshot::Sender<()>),
    Distrust(EndReason),
    Lost(Lost),
}

impl Machine for Agent {
    type Command = Order;
    type End = Ended;

    fn deadline(&mut self, now: Duration, _: &Connection) -> Duration {
        let heartbeat = self.session.next_deadline().unwrap_or(now);
        self.delayed.front().map_or(heartbeat, |(due, _)| heartbeat.min(*due))
    }

    async fn on_message(
        &mut self,
        message: Message,
        now: Duration,
        connection: &mut Connection,
    ) -> ControlFlow<Ended> {
        let Message::Text(text) = message else { return ControlFlow::Continue(()) };
        match self.session.on_text(&text, now) {
            AgentEvent::Request { id, tool, args, .. } => match &self.shared.asked {
                Some(asked) => {
                    let (result, delay) = asked.answer(self.index, self.link, &tool, &args);
                    self.give(frame::response_ok(id, &result), delay, now, connection);
                }
                None => self.answer(id, now, connection),
            },
            AgentEvent::Reply(frame) | AgentEvent::Auth(frame) => self.send(&frame, connection),
            AgentEvent::End(reason) => return ControlFlow::Break(Ended::Distrust(reason)),
            // There is no frame that says "accepted"; the policy is what a hub sends first to whom it lets in.
            AgentEvent::Policy { .. } if !self.is_admitted => {
                self.is_admitted = true;
                return ControlFlow::Break(Ended::Admitted);
            }
            AgentEvent::Policy { .. } | AgentEvent::Alive | AgentEvent::Dropped(_) => {}
        }
        ControlFlow::Continue(())
    }

    async fn on_command(&mut self, order: Order, _: Duration, connection: &mut Connection) -> ControlFlow<Ended> {
        match order {
            Order::Push { unlike, done } => {
                let (snapshot, id) = (&self.shared.snapshot, self.id.as_str());
                let frame = if unlike { snapshot.unlike_frame(id) } else { snapshot.frame(id) };
                self.send(&frame, connection);
                self.shared.counters.pushed.fetch_add(1, Ordering::Relaxed);
                let _ = done.send(());
                ControlFlow::Continue(())
            }
            Order::Reconnect { done } => ControlFlow::Break(Ended::Reconnecting(done)),
            Order::Leave => ControlFlow::Break(Ended::Leaving),
        }
    }

    async fn on_time(&mut self, now: Duration, connection: &mut Connection) -> ControlFlow<Ended> {
        match self.session.on_tick(now) {
            AgentTick::Wait => {}
            AgentTick::Send(frame) => self.send(&frame, connection),
            AgentTick::End(reason) => return ControlFlow::Break(Ended::Distrust(reason)),
        }
        while let Some((_, answer)) = self.delayed.pop_front_if(|(due, _)| *due <= now) {
            self.send(&answer, connection);
        }
        ControlFlow::Continue(())
    }

    async fn on_lost(&mut self, lost: Lost, _: &mut Connection) -> Ended {
        Ended::Lost(lost)
    }
}

impl Agent {
    fn send(&self, frame: &str, connection: &mut Connection) {
        connection.queue_text(frame);
        self.shared.counters.frames_sent.fetch_add(1, Ordering::Relaxed);
    }

    fn answer(&mut self, id: Uuid, now: Duration, connection: &mut Connection) {
        let answer = match &self.shared.config.answer {
            Answer::Never => return,
            Answer::Error => frame::response_error(id, &ErrorCode::ExecFailed, "the simulation was told to fail"),
            _ => frame::response_ok(id, &self.shared.result),
        };
        let delay = if let Answer::After(delay) = self.shared.config.answer { delay } else { Duration::ZERO };
        self.give(answer, delay, now, connection);
    }

    fn give(&mut self, answer: String, delay: Duration, now: Duration, connection: &mut Connection) {
        self.shared.counters.answered.fetch_add(1, Ordering::Relaxed);
        if delay.is_zero() {
            self.send(&answer, connection);
            return;
        }
        let due = now + delay;
        let place = self.delayed.partition_point(|(other, _)| *other <= due);
        self.delayed.insert(place, (due, answer));
    }
}
