//! One connection: register, answer probes, beat.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use convoke_core::secret::SecretText;
use convoke_core::time::Timestamp;
use convoke_machine::Call;
use convoke_probes::Probes;
use convoke_socket::drive::{Clock, Lost, Machine, Message, drive};
use convoke_socket::queue::{Item, Queue, Rank};
use convoke_socket::{Connection as WsConnection, UpgradeError};
use convoke_sonde::agent::{AgentConfig, AgentSession, Ask, Event, Failure, Ran, Tick};
use convoke_sonde::manifest::Manifest;
use convoke_sonde::probe::{Status, code};
use convoke_sonde::register::{Dialect, MachineProof, PackInfo, RegisterOut};
use sha2::{Digest as _, Sha256};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use url::Url;
use uuid::Uuid;

use super::{Saved, SondeError, keys};
use crate::net::{Dialler, Socket, open_websocket};
use crate::policy::{Policy, Refusal};
use crate::probe::ProbeRequest;

/// How long each step of connecting may take.
const DIAL: Duration = Duration::from_secs(15);
/// Largest message that is taken from a hub.
const MAX_MESSAGE: usize = 2 * 1024 * 1024;
/// Bytes that may wait to be written before no more probes are taken.
const HIGH_WATER: usize = 4 * 1024 * 1024;
/// What a hub is told while remote control is off.
const SWITCHED_OFF: &str = "remote control is switched off at this machine; only probes that observe are allowed";
/// How a refusal begins that the other shape may get around.
pub(super) const OTHER_SHAPE: &str = "not understood: ";

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

pub(super) fn hostname() -> String {
    let read =
        std::fs::read_to_string("/proc/sys/kernel/hostname").or_else(|_| std::fs::read_to_string("/etc/hostname"));
    let name = read.ok().map(|name| name.trim().to_owned()).or_else(|| std::env::var("COMPUTERNAME").ok());
    name.filter(|n| !n.is_empty()).unwrap_or_else(|| "machine".into())
}

/// What the agent says about itself. Read once per connection; the same after a restart.
pub(super) struct About {
    name: String,
    hostname: String,
    os_version: String,
    kernel: String,
    packs: Vec<PackInfo>,
    capabilities: Vec<String>,
    manifests: Vec<Manifest>,
    machine: Option<MachineProof>,
    binary_hash: String,
    config_hash: String,
}

impl About {
    pub(super) fn new(saved: &Saved, probes: &Probes) -> Self {
        let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
        let pretty = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
        let binary = std::env::current_exe().ok().and_then(|path| hash_file(&path)).unwrap_or_default();
        Self {
            name: saved.name.clone(),
            hostname: hostname(),
            os_version: pretty.map_or(std::env::consts::OS, |name| name.trim_matches('"')).to_owned(),
            kernel: std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
            packs: probes.packs(),
            capabilities: probes.capabilities(),
            binary_hash: binary,
            config_hash: hex::encode(Sha256::digest(saved.config_text() + &probes.own_text())),
            manifests: probes.own_manifests(),
            machine: None,
        }
    }

    /// With the proof that this is the second tunnel of a machine.
    pub(super) fn of(mut self, machine: Option<MachineProof>) -> Self {
        self.machine = machine;
        self
    }

    pub(super) fn register<'a>(&'a self, token: Option<&'a SecretText>, csr: Option<&'a str>) -> RegisterOut<'a> {
        RegisterOut {
            name: &self.name,
            hostname: &self.hostname,
            os: match std::env::consts::OS {
                "macos" => "darwin",
                "windows" => "win32",
                other => other,
            },
            os_version: &self.os_version,
            arch: match std::env::consts::ARCH {
                "x86_64" => "x64",
                "aarch64" => "arm64",
                other => other,
            },
            kernel: &self.kernel,
            version: env!("CARGO_PKG_VERSION"),
            packs: &self.packs,
            capabilities: &self.capabilities,
            binary_hash: &self.binary_hash,
            config_hash: &self.config_hash,
            token,
            csr,
            manifests: &self.manifests,
            machine: self.machine.as_ref(),
        }
    }
}

fn hash_file(path: &std::path::Path) -> Option<String> {
    use std::io::Read as _;
    let mut file = std::fs::File::open(path).ok()?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match file.read(&mut buffer).ok()? {
            0 => return Some(hex::encode(hash.finalize())),
            n => hash.update(&buffer[..n]),
        }
    }
}

/// A socket at a hub's door.
pub(super) struct Connection {
    socket: Socket,
    started: Instant,
}

impl Connection {
    pub(super) async fn open(saved: &Saved, bearer: &str) -> Result<Self, SondeError> {
        let url = Url::parse(&saved.hub).map_err(|_| SondeError::Address(saved.hub.clone()))?;
        let mut dialler = Dialler::new(saved.ca_file.clone(), DIAL);
        dialler.tls = keys::tls(saved)?;
        let io = dialler.dial(&url).await?;
        let headers = if bearer.is_empty() { String::new() } else { format!("Authorization: Bearer {bearer}\r\n") };
        let upgraded = tokio::time::timeout(DIAL, open_websocket(io, &url, MAX_MESSAGE, &headers)).await;
        let (socket, _) = upgraded.map_err(|_| SondeError::NoAck)?.map_err(|why| match why {
            UpgradeError::Status { status: Some(status @ (401 | 403)), .. } => SondeError::Key(status),
            why => SondeError::Upgrade(why),
        })?;
        Ok(Self { socket, started: Instant::now() })
    }

    /// Registers, and gives the hub's answer: an ack or a refusal.
    pub(super) async fn register(
        &mut self,
        config: AgentConfig,
        register: &RegisterOut<'_>,
        dialect: Dialect,
    ) -> Result<(AgentSession, Event), SondeError> {
        let (mut session, hello) =
            AgentSession::new(config, register, dialect, Uuid::new_v4(), now(), self.started.elapsed());
        self.socket.queue_text(&hello);
        let mut registration = Registration { session: &mut session };
        let answer =
            drive(&mut self.socket, &mut registration, &Queue::default(), Clock::since(self.started)).await?;
        Ok((session, answer))
    }
}

/// Waits for the answer to a registration.
struct Registration<'a> {
    session: &'a mut AgentSession,
}

impl Machine for Registration<'_> {
    type Command = Out;
    type End = Result<Event, SondeError>;

    fn deadline(&mut self, now: Duration, _: &WsConnection) -> Duration {
        self.session.next_deadline().unwrap_or(now)
    }

    async fn on_message(&mut self, message: Message, mono: Duration, _: &mut WsConnection) -> ControlFlow<Self::End> {
        let Some(text) = text(message) else { return ControlFlow::Continue(()) };
        match self.session.on_text(&text, Uuid::new_v4(), now(), mono) {
            Event::Noted(what) => {
                tracing::warn!(what, "from the hub");
                ControlFlow::Continue(())
            }
            event => ControlFlow::Break(Ok(event)),
        }
    }

    async fn on_time(&mut self, _: Duration, _: &mut WsConnection) -> ControlFlow<Self::End> {
        ControlFlow::Break(Err(SondeError::NoAck))
    }

    async fn on_lost(&mut self, lost: Lost, _: &mut WsConnection) -> Self::End {
        Err(match lost {
            Lost::Closed(code, _) => {
                SondeError::Refused(format!("it closes the connection ({})", code.unwrap_or(1005)))
            }
            Lost::Broken(error) => SondeError::Socket(error.into()),
            Lost::Gone(error) => SondeError::Socket(error),
        })
    }
}

/// The text of a message, if it has one.
fn text(message: Message) -> Option<String> {
    match message {
        Message::Text(text) => Some(text),
        Message::Binary(bytes) => Some(String::from_utf8(bytes).unwrap_or_default()),
        Message::Pong(_) | Message::Skipped(_) => None,
    }
}

/// What a connection is asked to do.
enum Out {
    /// Answer a probe.
    Answer(Box<(Ask, Ran)>),
    /// Close the connection: the agent stops.
    Stop,
}

impl Item for Out {
    const MAX_MESSAGES: usize = 64;
    /// Above the largest answer.
    const MAX_BYTES: usize = 512 * 1024 * 1024;

    fn rank(&self) -> Rank {
        match self {
            Self::Answer(_) => Rank::Message,
            Self::Stop => Rank::First,
        }
    }

    fn size(&self) -> usize {
        match self {
            Self::Answer(answer) => answer.1.outcome.as_ref().map_or(0, |data| data.get().len()),
            Self::Stop => 0,
        }
    }
}

/// Runs one connection to its end.
pub(super) async fn run(
    (saved, machine): (&Saved, Option<MachineProof>),
    probes: &Arc<Probes>,
    policy: &Policy,
    config: AgentConfig,
    dialect: Dialect,
    stop: &CancellationToken,
    connected: impl Fn(),
) -> Result<(), SondeError> {
    let about = {
        let (saved, probes) = (saved.clone(), Arc::clone(probes));
        // The binary is read for its hash.
        let read = tokio::task::spawn_blocking(move || About::new(&saved, &probes)).await;
        read.map_err(|why| SondeError::Saved(why.to_string()))?.of(machine)
    };
    let mut connection = Connection::open(saved, saved.api_key.as_deref().unwrap_or_default()).await?;
    let (session, event) = connection.register(config, &about.register(None, None), dialect).await?;
    match event {
        Event::Acked(ack) => {
            if let Some(warning) = ack.warning {
                tracing::warn!(warning, "from the hub");
            }
        }
        Event::Refused(refused) if refused.try_other_shape => {
            return Err(SondeError::Refused(format!("{OTHER_SHAPE}{}", refused.reason)));
        }
        Event::Refused(refused) => return Err(SondeError::Refused(refused.reason)),
        _ => return Err(SondeError::NoAck),
    }
    connected();
    tracing::info!(hub = saved.hub, name = saved.name, "the Sonde tunnel is open");
    let Connection { mut socket, started } = connection;
    let queue = Arc::new(Queue::default());
    let feed = async {
        stop.cancelled().await;
        let _ = queue.push(Out::Stop);
        std::future::pending().await
    };
    // What still runs at the end is dropped, and with it every process that it started.
    let running = JoinSet::new();
    let mut live = Live { started, session, probes, policy, running, queue: Arc::clone(&queue), stop };
    let ended = tokio::select! {
        ended = drive(&mut socket, &mut live, &queue, Clock::since(started)) => ended,
        never = feed => never,
    };
    if matches!(ended, Ok(End::Stopped)) {
        socket.close(1001, "").await;
    }
    ended.map(|_| ())
}

/// How a connection ended.
enum End {
    /// The agent stops.
    Stopped,
    /// The hub is done with us.
    Closed,
}

struct Live<'a> {
    started: Instant,
    session: AgentSession,
    probes: &'a Arc<Probes>,
    policy: &'a Policy,
    running: JoinSet<()>,
    queue: Arc<Queue<Out>>,
    stop: &'a CancellationToken,
}

impl Machine for Live<'_> {
    type Command = Out;
    type End = Result<End, SondeError>;

    const HIGH_WATER: usize = HIGH_WATER;

    fn deadline(&mut self, now: Duration, _: &WsConnection) -> Duration {
        self.session.next_deadline().unwrap_or(now)
    }

    async fn on_message(
        &mut self,
        message: Message,
        now: Duration,
        connection: &mut WsConnection,
    ) -> ControlFlow<Self::End> {
        self.session.heard(now);
        while self.running.try_join_next().is_some() {}
        match text(message) {
            Some(text) => self.on_text(&text, now, connection),
            None => ControlFlow::Continue(()),
        }
    }

    fn on_ping(&mut self, _: &mut WsConnection) -> ControlFlow<Self::End> {
        self.session.heard(self.started.elapsed());
        ControlFlow::Continue(())
    }

    async fn on_command(&mut self, out: Out, _: Duration, connection: &mut WsConnection) -> ControlFlow<Self::End> {
        match out {
            Out::Answer(answer) => {
                let (ask, ran) = *answer;
                connection.queue_text(&self.session.answer(&ask, &ran, Uuid::new_v4(), now()));
                ControlFlow::Continue(())
            }
            Out::Stop => ControlFlow::Break(Ok(End::Stopped)),
        }
    }

    async fn on_time(&mut self, mono: Duration, connection: &mut WsConnection) -> ControlFlow<Self::End> {
        match self.session.on_tick(Uuid::new_v4(), now(), mono) {
            Some(Tick::Send(frame)) => {
                connection.queue_text(&frame);
                connection.queue_ping(b"");
                ControlFlow::Continue(())
            }
            Some(Tick::Silent | Tick::NoAck) => ControlFlow::Break(Err(SondeError::Silent)),
            None => ControlFlow::Continue(()),
        }
    }

    async fn on_lost(&mut self, lost: Lost, _: &mut WsConnection) -> Self::End {
        match lost {
            Lost::Closed(code, _) => {
                tracing::info!(code, "the hub closed the Sonde tunnel");
                Ok(End::Closed)
            }
            Lost::Broken(error) => Err(SondeError::Socket(error.into())),
            Lost::Gone(error) => Err(SondeError::Socket(error)),
        }
    }
}

impl Live<'_> {
    fn on_text(
        &mut self,
        text: &str,
        mono: Duration,
        connection: &mut WsConnection,
    ) -> ControlFlow<Result<End, SondeError>> {
        match self.session.on_text(text, Uuid::new_v4(), now(), mono) {
            Event::Probe(ask) => {
                let (probes, policy, queue) = (Arc::clone(self.probes), self.policy.clone(), Arc::clone(&self.queue));
                let cancel = self.stop.child_token();
                let params = ask.params.as_deref().map(|params| params.get().to_owned());
                let request = ProbeRequest { probes: Arc::clone(&probes), probe: ask.probe.clone(), params };
                self.running.spawn(async move {
                    tracing::info!(probe = ask.probe, by = ask.requested_by, "running a probe");
                    let ran = match policy.check(request).await {
                        Ok(ProbeRequest { probe, params, .. }) => {
                            let rules = Some(policy.real_paths(None));
                            let call = Call { timeout: Some(ask.timeout), cancel, rules };
                            probes.run(&probe, params.as_deref(), &call).await
                        }
                        Err(refusal) => {
                            tracing::warn!(probe = ask.probe, by = ask.requested_by, %refusal, "refused a probe");
                            probes.refused(&ask.probe, failure(refusal))
                        }
                    };
                    let _ = queue.send(Out::Answer(Box::new((ask, ran)))).await;
                });
            }
            Event::Reply(frame) => connection.queue_text(&frame),
            Event::Update(update) => {
                tracing::info!(latest = update.latest_version, "the hub knows a newer version of the agent");
            }
            Event::Refused(refused) => {
                tracing::warn!(reason = refused.reason, "from the hub");
                return ControlFlow::Break(Ok(End::Closed));
            }
            Event::Noted(what) => tracing::warn!(what, "from the hub"),
            Event::Acked(_) => {}
        }
        ControlFlow::Continue(())
    }
}

/// A refusal in Sonde's words.
fn failure(refusal: Refusal) -> Failure {
    let (status, code) = match refusal {
        Refusal::Failed => (Status::Error, code::FAILED),
        _ => (Status::Unauthorized, code::UNAUTHORIZED),
    };
    let message = match refusal {
        Refusal::SwitchedOff => SWITCHED_OFF.to_owned(),
        other => other.to_string(),
    };
    Failure { status, code, message }
}
