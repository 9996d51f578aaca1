//! One connection: register, answer probes, beat.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use convoke_core::secret::SecretText;
use convoke_core::time::Timestamp;
use convoke_probes::Probes;
use convoke_socket::Event as WsEvent;
use convoke_sonde::agent::{AgentConfig, AgentSession, Ask, Event, Ran, Tick};
use convoke_sonde::manifest::Manifest;
use convoke_sonde::register::{Dialect, PackInfo, RegisterOut};
use sha2::{Digest as _, Sha256};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use url::Url;
use uuid::Uuid;

use super::{Saved, SondeError, keys};
use crate::net::{Dialler, Socket, open_websocket};
use crate::switch::Switch;

/// How long each step of connecting may take.
const DIAL: Duration = Duration::from_secs(15);
/// Largest message that is taken from a hub.
const MAX_MESSAGE: usize = 2 * 1024 * 1024;
/// Bytes that may wait to be written before no more probes are taken.
const HIGH_WATER: usize = 4 * 1024 * 1024;
/// What a hub is told while remote control is off.
const SWITCHED_OFF: &str = "remote control is switched off at this machine: it may be looked at, and not changed";
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
                WsEvent::Close(code, _) => {
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
    switch: &Switch,
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
    tracing::info!(hub = saved.hub, name = saved.name, "the Sonde tunnel is up");
    let Connection { socket, started } = connection;
    // What still runs at the end is dropped, and with it every process that it started.
    let mut live = Live { socket, started, session, probes, switch, running: JoinSet::new(), stop };
    live.drive().await
}

struct Live<'a> {
    socket: Socket,
    started: Instant,
    session: AgentSession,
    probes: &'a Arc<Probes>,
    switch: &'a Switch,
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
                            self.socket.queue_ping(b"");
                        }
                        Some(Tick::Silent | Tick::NoAck) => return Err(SondeError::Silent),
                        None => {}
                    }
                }
                () = self.stop.cancelled() => {
                    self.socket.close(1001, "").await;
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
            WsEvent::Close(code, _) => {
                tracing::info!(code, "the hub closes the Sonde tunnel");
                return false;
            }
        };
        match self.session.on_text(&text, Uuid::new_v4(), now(), self.mono()) {
            Event::Probe(ask) => {
                let (probes, switch) = (Arc::clone(self.probes), self.switch.clone());
                let cancel = self.stop.child_token();
                self.running.spawn(async move {
                    tracing::info!(probe = ask.probe, by = ask.requested_by, "a probe is asked for");
                    let ran = match refused(&probes, switch, &ask.probe).await {
                        Some(refused) => refused,
                        None => {
                            probes.run(&ask.probe, ask.params.as_deref().map(|p| p.get()), ask.timeout, cancel).await
                        }
                    };
                    (ask, ran)
                });
            }
            Event::Reply(frame) => self.socket.queue_text(&frame),
            Event::Update(update) => {
                tracing::info!(latest = update.latest_version, "the hub knows a newer agent");
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

/// The answer to a probe that would change this machine while the kill switch is off.
async fn refused(probes: &Probes, switch: Switch, probe: &str) -> Option<Ran> {
    let refused = probes.refused(probe, SWITCHED_OFF)?;
    // A file is read. What cannot be read counts as off.
    let read = tokio::task::spawn_blocking(move || switch.read().is_enabled()).await;
    let is_on = read.unwrap_or(false);
    if !is_on {
        tracing::warn!(probe, "a probe was refused: remote control is off");
    }
    (!is_on).then_some(refused)
}
