//! One connection: register, answer probes, beat.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use convoke_core::effect::Effect;
use convoke_core::guard::Surface;
use convoke_core::secret::SecretText;
use convoke_core::time::Timestamp;
use convoke_probes::Probes;
use convoke_sonde::agent::{AgentConfig, AgentSession, Ask, Event, Failure, Ran, Tick};
use convoke_sonde::manifest::Manifest;
use convoke_sonde::probe::{Status, code};
use convoke_sonde::register::{Dialect, PackInfo, RegisterOut};
use convoke_ws::Event as WsEvent;
use sha2::{Digest as _, Sha256};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use url::Url;
use uuid::Uuid;

use super::{Saved, SondeError, keys};
use crate::net::{Dialler, Stream};
use crate::policy::{Policy, Refusal, Request};
use crate::ws::Socket;

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
        }
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
    socket: Socket<Stream>,
    started: Instant,
}

impl Connection {
    pub(super) async fn open(saved: &Saved, bearer: &str) -> Result<Self, SondeError> {
        let url = Url::parse(&saved.hub).map_err(|_| SondeError::Address(saved.hub.clone()))?;
        let mut dialler = Dialler::new(saved.ca_file.clone(), DIAL);
        dialler.tls = keys::tls(saved)?;
        let io = dialler.dial(&url).await?;
        let headers = if bearer.is_empty() { String::new() } else { format!("Authorization: Bearer {bearer}\r\n") };
        let upgraded = tokio::time::timeout(DIAL, Socket::upgrade_with(io, &url, MAX_MESSAGE, &headers)).await;
        let (socket, _) = upgraded.map_err(|_| SondeError::NoAck)??;
        Ok(Self { socket, started: Instant::now() })
    }

    fn mono(&self) -> Duration {
        self.started.elapsed()
    }

    /// Registers, and gives the hub's answer: an ack or a refusal.
    pub(super) async fn register(
        &mut self,
        config: AgentConfig,
        register: &RegisterOut<'_>,
        dialect: Dialect,
    ) -> Result<(AgentSession, Event), SondeError> {
        let (mut session, hello) = AgentSession::new(config, register, dialect, Uuid::new_v4(), now(), self.mono());
        self.socket.queue_text(&hello);
        loop {
            let deadline = session.next_deadline().unwrap_or_else(|| self.mono());
            let event = tokio::select! {
                event = self.socket.next() => event?,
                () = tokio::time::sleep_until((self.started + deadline).into()) => return Err(SondeError::NoAck),
            };
            let text = match event {
                WsEvent::Text(text) => text,
                WsEvent::Binary(bytes) => String::from_utf8(bytes).unwrap_or_default(),
                WsEvent::Ping(payload) => {
                    self.socket.queue_pong(&payload);
                    continue;
                }
                WsEvent::Pong(_) | WsEvent::Skipped(_) => continue,
                WsEvent::Close(code) => {
                    return Err(SondeError::Refused(format!("it closes the connection ({})", code.unwrap_or(1005))));
                }
            };
            match session.on_text(&text, Uuid::new_v4(), now(), self.mono()) {
                Event::Noted(what) => tracing::warn!(what, "from the hub"),
                event => return Ok((session, event)),
            }
        }
    }
}

/// Runs one connection to its end.
pub(super) async fn run(
    saved: &Saved,
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
        read.map_err(|why| SondeError::Saved(why.to_string()))?
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
    let Connection { socket, started } = connection;
    // What still runs at the end is dropped, and with it every process that it started.
    let mut live = Live { socket, started, session, probes, policy, running: JoinSet::new(), stop };
    live.drive().await
}

struct Live<'a> {
    socket: Socket<Stream>,
    started: Instant,
    session: AgentSession,
    probes: &'a Arc<Probes>,
    policy: &'a Policy,
    running: JoinSet<(Ask, Ran)>,
    stop: &'a CancellationToken,
}

impl Live<'_> {
    fn mono(&self) -> Duration {
        self.started.elapsed()
    }

    async fn drive(&mut self) -> Result<(), SondeError> {
        loop {
            let deadline = self.session.next_deadline().unwrap_or_else(|| self.mono());
            tokio::select! {
                event = self.socket.next_or_room(HIGH_WATER) => {
                    let Some(event) = event? else { continue };
                    self.session.heard(self.started.elapsed());
                    if !self.on_event(event) {
                        return Ok(());
                    }
                }
                Some(done) = self.running.join_next(), if self.socket.backlog() < HIGH_WATER => {
                    if let Ok((ask, ran)) = done {
                        let frame = self.session.answer(&ask, &ran, Uuid::new_v4(), now());
                        self.socket.queue_text(&frame);
                    }
                }
                () = tokio::time::sleep_until((self.started + deadline).into()) => {
                    match self.session.on_tick(Uuid::new_v4(), now(), self.mono()) {
                        Some(Tick::Send(frame)) => {
                            self.socket.queue_text(&frame);
                            self.socket.queue_ping();
                        }
                        Some(Tick::Silent | Tick::NoAck) => return Err(SondeError::Silent),
                        None => {}
                    }
                }
                () = self.stop.cancelled() => {
                    self.socket.queue_close(1001);
                    let _ = tokio::time::timeout(Duration::from_secs(2), self.socket.flush()).await;
                    return Ok(());
                }
            }
        }
    }

    /// False when the hub is done with us.
    fn on_event(&mut self, event: WsEvent) -> bool {
        let text = match event {
            WsEvent::Text(text) => text,
            WsEvent::Binary(bytes) => String::from_utf8(bytes).unwrap_or_default(),
            WsEvent::Ping(payload) => {
                self.socket.queue_pong(&payload);
                return true;
            }
            WsEvent::Pong(_) | WsEvent::Skipped(_) => return true,
            WsEvent::Close(code) => {
                tracing::info!(code, "the hub closed the Sonde tunnel");
                return false;
            }
        };
        match self.session.on_text(&text, Uuid::new_v4(), now(), self.mono()) {
            Event::Probe(ask) => {
                let (probes, policy) = (Arc::clone(self.probes), self.policy.clone());
                let cancel = self.stop.child_token();
                self.running.spawn(async move {
                    tracing::info!(probe = ask.probe, by = ask.requested_by, "running a probe");
                    let ran = match policy.check(ProbeRequest::new(&probes, &ask)).await {
                        Ok(ProbeRequest { probe, params, .. }) => {
                            probes.run(&probe, params.as_deref(), ask.timeout, cancel).await
                        }
                        Err(refusal) => {
                            tracing::warn!(probe = ask.probe, by = ask.requested_by, %refusal, "refused a probe");
                            probes.refused(&ask.probe, failure(refusal))
                        }
                    };
                    (ask, ran)
                });
            }
            Event::Reply(frame) => self.socket.queue_text(&frame),
            Event::Update(update) => {
                tracing::info!(latest = update.latest_version, "the hub knows a newer version of the agent");
            }
            Event::Refused(refused) => {
                tracing::warn!(reason = refused.reason, "from the hub");
                return false;
            }
            Event::Noted(what) => tracing::warn!(what, "from the hub"),
            Event::Acked(_) => {}
        }
        true
    }
}

/// A probe, as the endpoint's policy reads it.
struct ProbeRequest {
    probes: Arc<Probes>,
    probe: String,
    params: Option<String>,
}

impl ProbeRequest {
    fn new(probes: &Arc<Probes>, ask: &Ask) -> Self {
        let params = ask.params.as_deref().map(|params| params.get().to_owned());
        Self { probes: Arc::clone(probes), probe: ask.probe.clone(), params }
    }
}

impl Request for ProbeRequest {
    fn changes_machine(&self) -> bool {
        self.probes.effect(&self.probe).is_some_and(|effect| effect > Effect::Observe)
    }

    fn surfaces(&self) -> Vec<Surface<'_>> {
        self.probes.surfaces(&self.probe, self.params.as_deref())
    }

    /// The most that the machine's owner allows a probe to do.
    fn over_limit(&self) -> Option<Refusal> {
        self.probes.over_ceiling(&self.probe).map(Refusal::OverLimit)
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
