//! One Sonde agent: its registration, and its answers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::LazyLock;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use convoke_core::effect::Effect;
use convoke_core::secret::SecretText;
use convoke_core::time::Timestamp;
use convoke_sonde::ack::Ack;
use convoke_sonde::agent::{AgentConfig, AgentSession, Event, Ran, Tick};
use convoke_sonde::probe::Metadata;
use convoke_sonde::register::{Dialect, PackInfo, RegisterOut};
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use uuid::Uuid;

use super::tls::OwnKey;
use super::{Counters, SondeError};
use crate::ws::{self, Event as WsEvent, Socket};

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
) -> Result<(Socket<S>, AgentSession, Ack), SondeError> {
    let mut socket = ws::open(io, host, DOOR, Some(bearer)).await?;
    let (mut session, hello) =
        AgentSession::new(AgentConfig::default(), out, Dialect::Field, Uuid::new_v4(), at(), Duration::ZERO);
    socket.queue_text(&hello);
    loop {
        let text = match socket.next().await? {
            WsEvent::Text(text) => text,
            WsEvent::Close(code, _) => return Err(SondeError::Odd(format!("the hub closed with {code:?}"))),
            WsEvent::Ping(payload) => {
                socket.queue_pong(&payload);
                continue;
            }
            WsEvent::Binary(_) | WsEvent::Pong(_) | WsEvent::Skipped(_) => continue,
        };
        match session.on_text(&text, Uuid::new_v4(), at(), Duration::ZERO) {
            Event::Acked(ack) => return Ok((socket, session, *ack)),
            Event::Refused(refused) => return Err(SondeError::Odd(refused.reason)),
            other => return Err(SondeError::Odd(format!("the hub answered {other:?}"))),
        }
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
    let (mut socket, _, ack) = join(io, host, token.reveal(), &out).await?;
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
    session: AgentSession,
    began: Instant,
}

/// Comes back with a key.
pub(super) async fn enter(target: SocketAddr, name: &str, key: &str) -> Result<Live, SondeError> {
    let out = register(name, None, None);
    let (socket, session, _) = join(dial(target).await?, target, key, &out).await?;
    Ok(Live { socket, session, began: Instant::now() })
}

impl Live {
    /// Answers until the connection ends. It counts as connected from now on, whenever its task comes to run.
    pub(super) fn serve(self, counters: Arc<Counters>) -> impl Future<Output = ()> {
        counters.connected.fetch_add(1, Ordering::Relaxed);
        let leaves = Leaves(Arc::clone(&counters));
        async move {
            self.answer_all(&counters).await;
            drop(leaves);
        }
    }

    async fn answer_all(mut self, counters: &Counters) {
        loop {
            let due = self.began + self.session.next_deadline().unwrap_or_default();
            tokio::select! {
                incoming = self.socket.next() => {
                    let now = self.began.elapsed();
                    self.session.heard(now);
                    match incoming {
                        Ok(WsEvent::Text(text)) => self.on_text(&text, counters),
                        Ok(WsEvent::Ping(payload)) => self.socket.queue_pong(&payload),
                        Ok(WsEvent::Binary(_) | WsEvent::Pong(_) | WsEvent::Skipped(_)) => {}
                        // Its own newer connection has taken its place.
                        Ok(WsEvent::Close(Some(4409), _)) => return,
                        Ok(WsEvent::Close(..)) | Err(_) => {
                            counters.lost.fetch_add(1, Ordering::Relaxed);
                            return;
                        }
                    }
                }
                () = tokio::time::sleep_until(due.into()) => {
                    if let Some(Tick::Send(beat)) = self.session.on_tick(Uuid::new_v4(), at(), self.began.elapsed()) {
                        self.socket.queue_text(&beat);
                    }
                }
            }
        }
    }

    fn on_text(&mut self, text: &str, counters: &Counters) {
        let now = self.began.elapsed();
        let Event::Probe(ask) = self.session.on_text(text, Uuid::new_v4(), at(), now) else { return };
        let metadata = Metadata {
            agent_version: VERSION.into(),
            pack_name: "system".into(),
            pack_version: "0.2.0".into(),
            capability_level: Effect::Observe,
        };
        let data = RawValue::from_string(DATA.to_owned()).expect("a constant that is JSON");
        let ran = Ran { outcome: Ok(data), duration: Duration::from_millis(1), metadata };
        let frame = self.session.answer(&ask, &ran, Uuid::new_v4(), at());
        self.socket.queue_text(&frame);
        counters.answered.fetch_add(1, Ordering::Relaxed);
    }
}

/// Counts an agent out, however its task ends.
struct Leaves(Arc<Counters>);

impl Drop for Leaves {
    fn drop(&mut self) {
        self.0.connected.fetch_sub(1, Ordering::Relaxed);
    }
}
