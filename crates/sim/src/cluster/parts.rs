//! The processes of a cluster: PostgreSQL, NATS and the hubs, each a child of this process.

use std::fs::{self, File, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use convoke_kenny::enrol::parse_key;
use convoke_kenny::wire_bytes;
use ed25519_dalek::VerifyingKey;
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use super::ClusterError;
use super::faults::Place;
use super::net::{self, Ground};
use crate::usage::{self, Usage, UsageError};

/// How long a part may take to start.
const PATIENCE: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(50);
const DATABASE: &str = "convoke";
/// Debian's libraries that move a program's wall clock.
const FAKETIME: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";
/// The end of a log that an error shows, in bytes.
const SHOWN: usize = 2000;

/// How a cluster is set up.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The program that the hubs run.
    pub program: PathBuf,
    /// How many hubs.
    pub hubs: usize,
    /// The hubs' lease, in seconds.
    pub lease_s: u64,
    /// Whether PostgreSQL syncs what it commits.
    pub durable: bool,
    /// Further settings of each hub, as `name=value`.
    pub settings: Vec<String>,
    /// The token of the operator.
    pub token: String,
}

/// A cluster. Its processes end with it.
#[derive(Debug)]
pub struct Parts {
    pub(super) ground: Ground,
    pub(super) setup: Setup,
    dir: PathBuf,
    bin: PathBuf,
    data_key: String,
    postgres_at: SocketAddr,
    nats_at: SocketAddr,
    hubs_at: Vec<SocketAddr>,
    postgres: Option<Child>,
    nats: Option<Child>,
    hubs: Vec<Option<Child>>,
}

impl Parts {
    /// A cluster with its files in `dir`; nothing is started.
    pub(super) fn new(ground: Ground, setup: Setup, dir: &Path) -> Result<Self, ClusterError> {
        let io = |what: &'static str| move |why| ClusterError::io(what, why);
        let versions = fs::read_dir("/usr/lib/postgresql").map_err(io("find PostgreSQL"))?;
        let bin = versions.filter_map(|entry| Some(entry.ok()?.path().join("bin"))).max();
        let bin = bin.ok_or_else(|| ClusterError::Odd("PostgreSQL is not installed".into()))?;
        // PostgreSQL runs as another user.
        fs::set_permissions(dir, Permissions::from_mode(0o777)).map_err(io("open the directory"))?;
        let mut data_key = [0; 32];
        getrandom::fill(&mut data_key).map_err(|why| ClusterError::io("make a key", std::io::Error::other(why)))?;
        let at = |place, port| ground.socket(place, port).map_err(io("find a free port"));
        let hubs_at: Result<_, _> = (0..setup.hubs).map(|hub| at(Place::Hub(hub), 7410)).collect();
        Ok(Self {
            ground,
            dir: dir.to_owned(),
            bin,
            data_key: wire_bytes::encode(&data_key),
            postgres_at: at(Place::Postgres, 5432)?,
            nats_at: at(Place::Nats, 4222)?,
            hubs_at: hubs_at?,
            postgres: None,
            nats: None,
            hubs: (0..setup.hubs).map(|_| None).collect(),
            setup,
        })
    }

    /// Starts a cluster on loopback, with its files in `dir`; answers the key that agents pin, too.
    pub async fn on_loopback(setup: Setup, dir: &Path) -> Result<(Self, VerifyingKey), ClusterError> {
        let mut parts = Self::new(Ground::Loopback, setup, dir)?;
        parts.start_servers().await?;
        let mut key = parts.start_hub(0).await?;
        for hub in 1..parts.setup.hubs {
            key = parts.start_hub(hub).await?;
        }
        Ok((parts, key))
    }

    /// Where a hub listens.
    pub fn address(&self, hub: usize) -> SocketAddr {
        self.hubs_at[hub]
    }

    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        self.hubs_at.clone()
    }

    /// The directory with the parts' data and logs.
    pub fn directory(&self) -> &Path {
        &self.dir
    }

    /// The database, as hubs reach it.
    fn database(&self) -> String {
        let base = format!("postgres://postgres@{}/{DATABASE}", self.postgres_at);
        match self.ground {
            Ground::Loopback => base,
            Ground::Namespaces => format!("{base}?sslrootcert={}", self.dir.join("server.crt").display()),
        }
    }

    /// The database, as this process reaches it whatever the network does.
    pub(super) fn near_database(&self) -> String {
        format!("postgres:///{DATABASE}?host={}&user=postgres&port={}", self.dir.display(), self.postgres_at.port())
    }

    /// Makes the database, and starts PostgreSQL and NATS.
    pub(super) async fn start_servers(&mut self) -> Result<(), ClusterError> {
        let data = self.dir.join("postgres");
        let mut init = self.unprivileged(&self.bin.join("initdb"));
        init.args(["--auth=trust", "--username=postgres", "--no-sync", "--encoding=UTF8", "--no-locale", "-D"]);
        finish("initdb", init.arg(&data)).await?;
        let hba = "local all all trust\nhost all all 0.0.0.0/0 trust\n";
        fs::write(data.join("pg_hba.conf"), hba).map_err(|why| ClusterError::io("write pg_hba.conf", why))?;
        self.certificate().await?;
        self.move_clock(0)?;
        self.start_postgres().await?;
        self.sql("postgres", &format!("CREATE DATABASE {DATABASE}")).await?;
        self.start_nats().await
    }

    /// PostgreSQL takes connections from elsewhere with TLS only, as hubs want it.
    async fn certificate(&self) -> Result<(), ClusterError> {
        let made = rcgen::generate_simple_self_signed(vec![self.postgres_at.ip().to_string()]);
        let made = made.map_err(|why| ClusterError::Odd(format!("no certificate: {why}")))?;
        let (cert, key) = (self.dir.join("server.crt"), self.dir.join("server.key"));
        let io = |why| ClusterError::io("write the certificate", why);
        fs::write(&cert, made.cert.pem()).map_err(io)?;
        fs::write(&key, made.signing_key.serialize_pem()).map_err(io)?;
        fs::set_permissions(&key, Permissions::from_mode(0o600)).map_err(io)?;
        net::run("chown", &["postgres", &key.display().to_string()]).await
    }

    pub(super) async fn start_postgres(&mut self) -> Result<(), ClusterError> {
        let begun = Instant::now();
        loop {
            let child = self.spawn_postgres()?;
            self.postgres = Some(child);
            // One that was killed is in the way until its last process has noticed.
            while self.sql("postgres", "SELECT 1").await.is_err() {
                if begun.elapsed() > PATIENCE {
                    return Err(self.failed("PostgreSQL", "postgres.log", "does not start"));
                }
                tokio::time::sleep(POLL).await;
                if self.postgres.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(Some(_)))) {
                    break;
                }
            }
            if self.postgres.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None))) {
                return Ok(());
            }
        }
    }

    fn spawn_postgres(&self) -> Result<Child, ClusterError> {
        // Not on the way there: what the library shares between processes is the user's who made it.
        let mut server = self.unprivileged(Path::new("env"));
        if self.ground == Ground::Namespaces && Self::can_move_clocks() {
            server.arg(format!("LD_PRELOAD={FAKETIME}"));
            server.arg(format!("FAKETIME_TIMESTAMP_FILE={}", self.clock_file().display()));
            server.args(["FAKETIME_DONT_FAKE_MONOTONIC=1", "FAKETIME_CACHE_DURATION=1"]);
        }
        server.arg(self.bin.join("postgres")).arg("-D").arg(self.dir.join("postgres")).arg("-k").arg(&self.dir);
        let sync = if self.setup.durable { "on" } else { "off" };
        for setting in [
            format!("listen_addresses={}", self.postgres_at.ip()),
            format!("port={}", self.postgres_at.port()),
            format!("fsync={sync}"),
            format!("full_page_writes={sync}"),
            format!("ssl_cert_file={}", self.dir.join("server.crt").display()),
            format!("ssl_key_file={}", self.dir.join("server.key").display()),
            "ssl=on".into(),
            "max_connections=200".into(),
            "shared_buffers=64MB".into(),
        ] {
            server.args(["-c", &setting]);
        }
        self.spawn("PostgreSQL", &mut server, "postgres.log")
    }

    pub(super) async fn start_nats(&mut self) -> Result<(), ClusterError> {
        let mut server = self.ground.command(Place::Nats, "nats-server");
        server.args(["-a", &self.nats_at.ip().to_string(), "-p", &self.nats_at.port().to_string()]);
        self.nats = Some(self.spawn("NATS", server.stdout(Stdio::null()), "nats.log")?);
        let begun = Instant::now();
        while TcpStream::connect(self.nats_at).await.is_err() {
            if begun.elapsed() > PATIENCE {
                return Err(self.failed("NATS", "nats.log", "does not listen"));
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    /// Starts a hub, and does not wait for it.
    pub(super) fn spawn_hub(&mut self, hub: usize) -> Result<(), ClusterError> {
        let (name, log) = (format!("hub {}", hub + 1), format!("hub{}.log", hub + 1));
        let mut program = self.hub(hub);
        self.hubs[hub] = Some(self.spawn(&name, program.stdout(Stdio::null()), &log)?);
        Ok(())
    }

    /// Starts a hub; answers once it is ready, with the key that agents pin.
    pub(super) async fn start_hub(&mut self, hub: usize) -> Result<VerifyingKey, ClusterError> {
        #[derive(Deserialize)]
        struct Ready {
            kenny_public_key: String,
        }
        let (name, log) = (format!("hub {}", hub + 1), format!("hub{}.log", hub + 1));
        let mut program = self.hub(hub);
        let mut child = self.spawn(&name, program.stdout(Stdio::piped()), &log)?;
        let output = child.stdout.take().ok_or_else(|| ClusterError::Odd(format!("{name} has no output")))?;
        self.hubs[hub] = Some(child);
        let mut lines = BufReader::new(output).lines();
        let line = match tokio::time::timeout(PATIENCE, lines.next_line()).await {
            Ok(Ok(Some(line))) => line,
            Ok(Ok(None) | Err(_)) => return Err(self.failed(&name, &log, "ended before it was ready")),
            Err(_) => return Err(self.failed(&name, &log, "was not ready in time")),
        };
        // Nobody reads what else it says there; it must not stand still for that.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let key = serde_json::from_str(&line).ok().and_then(|ready: Ready| parse_key(&ready.kenny_public_key).ok());
        key.ok_or_else(|| self.failed(&name, &log, &format!("said `{line}` when it was ready")))
    }

    fn hub(&self, hub: usize) -> Command {
        let setup = &self.setup;
        let mut program = self.ground.command(Place::Hub(hub), &setup.program);
        program.args(["hub", "--print-json", "--listen", &self.hubs_at[hub].to_string(), "--data"]);
        program.arg(self.dir.join(format!("hub{}", hub + 1)));
        let mut settings = vec![format!("hub.name=hub-{}", hub + 1), "kenny.heartbeat_s=5".into()];
        if setup.hubs > 1 {
            settings.push(format!("bus.url=nats://{}", self.nats_at));
            settings.push(format!("hub.lease_s={}", setup.lease_s));
        }
        if self.ground == Ground::Namespaces {
            settings.push("hub.insecure_listen=true".into());
        }
        for setting in settings.iter().chain(&setup.settings) {
            program.args(["--set", setting]);
        }
        // The settings of whoever runs this are for another hub.
        for (name, _) in std::env::vars_os() {
            if ["CONVOKE_", "KENNY_"].iter().any(|prefix| name.as_encoded_bytes().starts_with(prefix.as_bytes())) {
                program.env_remove(name);
            }
        }
        program.env("CONVOKE_STORE__URL", self.database());
        program.env("CONVOKE_DATA_KEY", &self.data_key).env("CONVOKE_OPERATOR_TOKEN", &setup.token);
        program
    }

    fn clock_file(&self) -> PathBuf {
        self.dir.join("clock")
    }

    /// Whether the library that moves clocks is installed.
    pub(super) fn can_move_clocks() -> bool {
        Path::new(FAKETIME).exists()
    }

    /// Moves PostgreSQL's clock, against the true time. A hub's own cannot be: the library and its allocator do not agree.
    pub(super) fn move_clock(&self, seconds: i64) -> Result<(), ClusterError> {
        let io = |why| ClusterError::io("move the clock", why);
        let next = self.dir.join("clock.next");
        fs::write(&next, format!("{seconds:+}s\n")).map_err(io)?;
        fs::rename(next, self.clock_file()).map_err(io)
    }

    fn child(&mut self, place: Place) -> Option<&mut Child> {
        match place {
            Place::Hub(hub) => self.hubs.get_mut(hub)?.as_mut(),
            Place::Postgres => self.postgres.as_mut(),
            Place::Nats => self.nats.as_mut(),
            Place::Agents => None,
        }
    }

    /// Sends a signal to a part that runs.
    pub(super) async fn signal(&mut self, place: Place, signal: &str) -> Result<(), ClusterError> {
        let Some(pid) = self.child(place).and_then(|child| child.id()) else { return Ok(()) };
        net::run("kill", &[&format!("-{signal}"), &pid.to_string()]).await
    }

    /// Sends a signal to a part, and waits until it has ended.
    pub(super) async fn end(&mut self, place: Place, signal: &str) -> Result<(), ClusterError> {
        self.signal(place, signal).await?;
        let Some(child) = self.child(place) else { return Ok(()) };
        if tokio::time::timeout(PATIENCE, child.wait()).await.is_err() {
            return Err(ClusterError::Odd(format!("{place} did not end by SIG{signal}")));
        }
        match place {
            Place::Hub(hub) => self.hubs[hub] = None,
            Place::Postgres => self.postgres = None,
            Place::Nats => self.nats = None,
            Place::Agents => {}
        }
        Ok(())
    }

    /// How a hub ended that nobody ended; it counts as not running from then on.
    pub(super) fn ended_by_itself(&mut self, hub: usize) -> Option<ExitStatus> {
        let status = self.hubs[hub].as_mut()?.try_wait().ok()??;
        self.hubs[hub] = None;
        Some(status)
    }

    /// Whether a hub runs, or stands still.
    pub(super) fn is_started(&self, hub: usize) -> bool {
        self.hubs[hub].is_some()
    }

    /// What a hub has used so far.
    pub fn usage(&self, hub: usize) -> Result<Usage, UsageError> {
        Usage::of(self.hubs[hub].as_ref().and_then(Child::id).unwrap_or(0))
    }

    /// What PostgreSQL and NATS have used so far.
    pub fn usage_of_servers(&self) -> Result<(Duration, Duration), UsageError> {
        let pid = |child: &Option<Child>| child.as_ref().and_then(Child::id).unwrap_or(0);
        Ok((usage::cpu_of_family(pid(&self.postgres))?, Usage::of(pid(&self.nats))?.cpu))
    }

    /// Kills a hub.
    pub async fn kill_hub(&mut self, hub: usize) -> Result<(), ClusterError> {
        self.end(Place::Hub(hub), "KILL").await
    }

    /// Runs statements in a database; answers what they print.
    pub(super) async fn sql(&self, database: &str, sql: &str) -> Result<String, ClusterError> {
        let mut psql = Command::new(self.bin.join("psql"));
        psql.args(["-XqAt", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-d", database, "-c", sql]);
        psql.args(["-p", &self.postgres_at.port().to_string(), "-h"]).arg(&self.dir);
        finish("psql", &mut psql).await
    }

    /// The same in the hubs' database.
    pub(super) async fn ask(&self, sql: &str) -> Result<String, ClusterError> {
        self.sql(DATABASE, sql).await
    }

    /// What `convoke audit verify` says of all chains, and whether it is satisfied.
    pub(super) async fn verify(&self) -> Result<(bool, String), ClusterError> {
        let mut program = Command::new(&self.setup.program);
        program.args(["audit", "verify", &self.near_database()]).env_remove("CONVOKE_HUB");
        let output = program.stdin(Stdio::null()).output().await;
        let output = output.map_err(|why| ClusterError::io("run `convoke audit verify`", why))?;
        let said = [output.stdout, output.stderr].concat();
        Ok((output.status.success(), String::from_utf8_lossy(&said).trim().to_owned()))
    }

    /// A command of PostgreSQL's, as a user whom it accepts.
    fn unprivileged(&self, program: &Path) -> Command {
        let mut command = self.ground.command(Place::Postgres, "setpriv");
        command.args(["--reuid", "postgres", "--regid", "postgres", "--clear-groups", "--pdeathsig", "QUIT"]);
        command.arg(program).current_dir(&self.dir);
        command
    }

    fn spawn(&self, what: &str, command: &mut Command, log: &str) -> Result<Child, ClusterError> {
        let io = |why| ClusterError::io(&format!("start {what}"), why);
        let log = File::options().create(true).append(true).open(self.dir.join(log)).map_err(io)?;
        command.stdin(Stdio::null()).stderr(log).kill_on_drop(true).spawn().map_err(io)
    }

    fn failed(&self, what: &str, log: &str, why: &str) -> ClusterError {
        let text = fs::read(self.dir.join(log)).unwrap_or_default();
        let end = String::from_utf8_lossy(&text[text.len().saturating_sub(SHOWN)..]).into_owned();
        ClusterError::Odd(format!("{what} {why}; the end of its log:\n{end}"))
    }
}

async fn finish(what: &str, command: &mut Command) -> Result<String, ClusterError> {
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await;
    let output = output.map_err(|why| ClusterError::io(&format!("run {what}"), why))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    Err(ClusterError::Program(what.to_owned(), String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}
