//! One Sonde agent: its registration, and its answers.

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::LazyLock;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use convoke_core::effect::Effect;
use convoke_core::secret::SecretText;
use convoke_core::time::Timestamp;
use convoke_socket::Connection;
use convoke_socket::drive::{Clock, Lost, Machine, Message, Stop, drive};
use convoke_socket::queue::Queue;
use convoke_sonde::ack::Ack;
use convoke_sonde::agent::{AgentConfig, AgentSession, Ask, Event, Ran, Tick};
use convoke_sonde::probe::Metadata;
use convoke_sonde::register::{Dialect, PackInfo, RegisterOut};
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use uuid::Uuid;

use super::tls::OwnKey;
use super::{Counters, SondeError};
use crate::ws::{self, Socket};

/// Where agents connect.
const DOOR: &str = "/ws/agent";
/// What a ping of a host answers, by and large.
const DATA: &str = r#"{"host":"host","packetsTransmitted":1,"packetsReceived":1,"packetLossPercent":0,"rttMs":{"min":0.04,"avg":0.05,"max":0.06,"stddev":0.01}}"#;
const VERSION: &str = "0.2.11";

static PACKS: LazyLock<[PackInfo; 1]> =
    LazyLock::new(|| [PackInfo { name: "system".into(), version: "0.2.0".into(), status: "active".into() }]);

fn at() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

fn register<'a>(name: &'a str, token: Option<&'a SecretText>, csr: Option<&'a str>) -> RegisterOut<'a> {
    RegisterOut {
        name,
        hostname: name,
        os: "linux",
        os_version: "Debian GNU/Linux 12",
        arch: "x64",
        kernel: "6.1.0",
        version: VERSION,
        packs: &*PACKS,
        capabilities: &[],
        binary_hash: "0f343b0931126a20f133d67c2b018a3b0f343b0931126a20f133d67c2b018a3b",
        config_hash: "5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9",
        token,
        csr,
        manifests: &[],
        machine: None,
    }
}

pub(super) async fn dial(target: SocketAddr) -> Result<TcpStream, SondeError> {
    let stream = TcpStream::connect(target).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Registers, and gives the hub's answer.
async fn join<S: AsyncRead + AsyncWrite + Unpin>(
    io: S,
    host: SocketAddr,
    bearer: &str,
    out: &RegisterOut<'_>,
    counters: Arc<Counters>,
) -> Result<(Socket<S>, Agent, Ack), SondeError> {
    let mut socket = ws::open(io, host, DOOR, Some(bearer)).await?;
    let (clock, id) = (Clock::since(Instant::now()), Uuid::new_v4());
    let (session, hello) = AgentSession::new(AgentConfig::default(), out, Dialect::Field, id, at(), clock.now());
    socket.queue_text(&hello);
    let mut agent = Agent { session, clock, counters };
    match drive(&mut socket, &mut agent, &Queue::default(), clock).await {
        Ended::Acked(ack) => Ok((socket, agent, *ack)),
        Ended::Refused(reason) => Err(SondeError::Odd(reason)),
        Ended::Lost(lost) => Err(lost.into()),
    }
}

/// Enrols, and gives the API key.
pub(super) async fn enrol<S: AsyncRead + AsyncWrite + Unpin>(
    io: S,
    host: SocketAddr,
    name: &str,
    token: &SecretText,
    key: Option<&OwnKey>,
) -> Result<String, SondeError> {
    let out = register(name, Some(token), key.map(|k| k.request.as_str()));
    let (mut socket, _, ack) = join(io, host, token.reveal(), &out, Arc::default()).await?;
    if key.is_some() && ack.cert_pem.is_none() {
        return Err(SondeError::Odd("the hub gave no certificate".into()));
    }
    socket.close(1000, "").await;
    let key = ack.api_key.ok_or_else(|| SondeError::Odd("the hub gave no key".into()))?;
    Ok(key.reveal().to_owned())
}

/// An agent that is in.
pub(super) struct Live {
    socket: Socket,
    agent: Agent,
}

/// Comes back with a key.
pub(super) async fn enter(
    target: SocketAddr,
    name: &str,
    key: &str,
    counters: &Arc<Counters>,
) -> Result<Live, SondeError> {
    let out = register(name, None, None);
    let (socket, agent, _) = join(dial(target).await?, target, key, &out, Arc::clone(counters)).await?;
    Ok(Live { socket, agent })
}

impl Live {
    /// Answers until the connection ends. It counts as connected from now on, whenever its task comes to run.
    pub(super) fn serve(mut self) -> impl Future<Output = ()> {
        let counters = Arc::clone(&self.agent.counters);
        counters.connected.fetch_add(1, Ordering::Relaxed);
        let leaves = Leaves(Arc::clone(&counters));
        async move {
            let clock = self.agent.clock;
            let ended = drive(&mut self.socket, &mut self.agent, &Queue::default(), clock).await;
            // With this code its own newer connection has taken its place.
            if !matches!(ended, Ended::Lost(Lost::Closed(Some(4409), _))) {
                counters.lost.fetch_add(1, Ordering::Relaxed);
            }
            drop(leaves);
        }
    }
}

/// The agent's side of a connection.
struct Agent {
    session: AgentSession,
    clock: Clock,
    counters: Arc<Counters>,
}

enum Ended {
    /// The hub let the agent in: the registration is over.
    Acked(Box<Ack>),
    Refused(String),
    Lost(Lost),
}

impl Machine for Agent {
    type Command = Stop;
    type End = Ended;

    fn deadline(&mut self, now: Duration, _: &Connection) -> Duration {
        self.session.next_deadline().unwrap_or(now)
    }

    async fn on_message(
        &mut self,
        message: Message,
        now: Duration,
        connection: &mut Connection,
    ) -> ControlFlow<Ended> {
        self.session.heard(now);
        let Message::Text(text) = message else { return ControlFlow::Continue(()) };
        match self.session.on_text(&text, Uuid::new_v4(), at(), now) {
            Event::Acked(ack) => return ControlFlow::Break(Ended::Acked(ack)),
            Event::Refused(refused) => return ControlFlow::Break(Ended::Refused(refused.reason)),
            Event::Probe(ask) => self.answer(&ask, connection),
            Event::Reply(frame) => connection.queue_text(&frame),
            Event::Update(_) | Event::Noted(_) => {}
        }
        ControlFlow::Continue(())
    }

    fn on_ping(&mut self, _: &mut Connection) -> ControlFlow<Ended> {
        self.session.heard(self.clock.now());
        ControlFlow::Continue(())
    }

    async fn on_time(&mut self, now: Duration, connection: &mut Connection) -> ControlFlow<Ended> {
        match self.session.on_tick(Uuid::new_v4(), at(), now) {
            Some(Tick::Send(beat)) => connection.queue_text(&beat),
            Some(Tick::Silent | Tick::NoAck) => {
                return ControlFlow::Break(Ended::Refused("the hub did not answer in time".into()));
            }
            None => {}
        }
        ControlFlow::Continue(())
    }

    async fn on_lost(&mut self, lost: Lost, _: &mut Connection) -> Ended {
        Ended::Lost(lost)
    }
}

impl Agent {
    fn answer(&mut self, ask: &Ask, connection: &mut Connection) {
        let metadata = Metadata {
            agent_version: VERSION.into(),
            pack_name: "system".into(),
            pack_version: "0.2.0".into(),
            capability_level: Effect::Observe,
        };
        let data = RawValue::from_string(DATA.to_owned()).expect("a constant that is JSON");
        let ran = Ran { outcome: Ok(data), duration: Duration::from_millis(1), metadata };
        connection.queue_text(&self.session.answer(ask, &ran, Uuid::new_v4(), at()));
        self.counters.answered.fetch_add(1, Ordering::Relaxed);
    }
}

/// Counts an agent out, however its task ends.
struct Leaves(Arc<Counters>);

impl Drop for Leaves {
    fn drop(&mut self) {
        self.0.connected.fetch_sub(1, Ordering::Relaxed);
    }
}
