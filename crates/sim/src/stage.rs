//! The processes of a measurement, each a child of this one: the hub, the bare forwarder, the swarm. They are ended by
//! their id when their handle is dropped, whatever happened before; swarm and forwarder end by themselves, too, when
//! this process is gone and their standard input with it.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use convoke_kenny::enrol::{BadKey, parse_key};
use ed25519_dalek::VerifyingKey;
use serde::Deserialize;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command as Program};

use crate::control::{Command, Reply};
use crate::key_text;
use crate::usage::{Usage, UsageError};

/// How long a process may take to be ready.
const START_PATIENCE: Duration = Duration::from_secs(60);
/// The end of a process's log that an error shows, in bytes.
const SHOWN: usize = 2000;

/// Why a process is of no use.
#[derive(Debug, thiserror::Error)]
pub enum StageError {
    /// It, or its files, could not be made.
    #[error("{what} could not be started: {why}")]
    Start {
        /// Which.
        what: &'static str,
        /// Why.
        why: io::Error,
    },
    /// It ended, fell silent or talks nonsense.
    #[error("{what} {why}; the end of its log:\n{log}")]
    Failed {
        /// Which.
        what: &'static str,
        /// What it did.
        why: String,
        /// What it said last.
        log: String,
    },
    /// Its usage is not known.
    #[error(transparent)]
    Usage(#[from] UsageError),
}

/// Where measurements take place: the program that plays every part, and a directory that goes away at the end.
#[derive(Debug)]
pub struct Stage {
    program: PathBuf,
    scratch: TempDir,
}

/// A server that is ready: the hub or the forwarder.
#[derive(Debug)]
pub struct Server {
    process: Process,
    /// Where it listens.
    pub address: SocketAddr,
    /// The key that agents pin.
    pub key: VerifyingKey,
    /// Where Sonde agents come with certificates, if anywhere.
    pub sonde_tls: Option<SocketAddr>,
}

/// A swarm in its own process.
#[derive(Debug)]
pub struct SwarmProcess {
    process: Process,
}

#[derive(Debug)]
struct Process {
    what: &'static str,
    child: Child,
    pid: u32,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
    log: PathBuf,
}

impl Stage {
    /// A stage on which `program` (this very binary, as a rule) plays every part. Its directory is made in `parent`,
    /// which decides what disk the hub commits to; the system's temporary directory by default.
    pub fn new(program: PathBuf, parent: Option<&Path>) -> Result<Self, StageError> {
        let mut builder = tempfile::Builder::new();
        builder.prefix("convoke-bench-");
        let scratch = match parent {
            Some(parent) => builder.tempdir_in(parent),
            None => builder.tempdir(),
        };
        let scratch = scratch.map_err(|why| StageError::Start { what: "the scratch directory", why })?;
        Ok(Self { program, scratch })
    }

    /// The scratch directory.
    pub fn directory(&self) -> &Path {
        self.scratch.path()
    }

    /// Starts a hub on a free port with its data in `data` of the scratch directory. The same name again is the same
    /// hub, restarted. `settings` are `name=value`.
    pub async fn hub(&self, data: &str, operator_token: &str, settings: &[String]) -> Result<Server, StageError> {
        let mut program = Program::new(&self.program);
        program.args(["hub", "--print-json", "--listen", "127.0.0.1:0", "--data"]).arg(self.directory().join(data));
        for setting in settings {
            program.args(["--set", setting]);
        }
        // The settings of whoever runs this are for another hub.
        for (name, _) in std::env::vars_os() {
            if ["CONVOKE_", "KENNY_"].iter().any(|prefix| name.as_encoded_bytes().starts_with(prefix.as_bytes())) {
                program.env_remove(name);
            }
        }
        program.env("CONVOKE_OPERATOR_TOKEN", operator_token).stdin(Stdio::null());
        Server::start("the hub", program, &self.directory().join(format!("{data}.log"))).await
    }

    /// Starts the bare forwarder on a free port.
    pub async fn forwarder(&self) -> Result<Server, StageError> {
        let mut program = Program::new(&self.program);
        program.args(["sim", "forwarder", "--listen", "127.0.0.1:0"]).stdin(Stdio::piped());
        Server::start("the forwarder", program, &self.directory().join("forwarder.log")).await
    }

    /// Starts one that writes what is answered to a file of the scratch directory, and syncs it.
    pub async fn durable_forwarder(&self) -> Result<Server, StageError> {
        let mut program = Program::new(&self.program);
        program.args(["sim", "forwarder", "--listen", "127.0.0.1:0", "--log"]).stdin(Stdio::piped());
        program.arg(self.directory().join("answers"));
        Server::start("the forwarder that syncs", program, &self.directory().join("durable-forwarder.log")).await
    }

    /// Starts the bare MCP server on a free port.
    pub async fn bare_mcp(&self) -> Result<Server, StageError> {
        let mut program = Program::new(&self.program);
        program.args(["sim", "mcp", "--listen", "127.0.0.1:0"]).stdin(Stdio::piped());
        Server::start("the bare MCP server", program, &self.directory().join("mcp.log")).await
    }

    /// Starts simulated Sonde agents for `server`; those that enrol are remembered in the scratch directory, for the next
    /// process of them. `tls` is the hub's listener for mutual TLS, and the certificate of its authority.
    pub fn sonde_agents(
        &self,
        server: &Server,
        operator_token: &str,
        tls: Option<(SocketAddr, &Path)>,
    ) -> Result<SwarmProcess, StageError> {
        let mut program = Program::new(&self.program);
        program.args(["sim", "sonde", "--target", &server.address.to_string(), "--keys"]);
        program.arg(self.directory().join("sonde-keys.json")).env("CONVOKE_TOKEN", operator_token);
        if let Some((address, ca)) = tls {
            program.args(["--tls", &address.to_string(), "--ca"]).arg(ca);
        }
        program.stdin(Stdio::piped());
        let log = self.directory().join(format!("sonde-{}.log", server.address.port()));
        Ok(SwarmProcess { process: Process::start("the Sonde agents", program, &log)? })
    }

    /// Starts the bare relay of rule messages on a free port.
    pub async fn relay(&self) -> Result<Server, StageError> {
        let mut program = Program::new(&self.program);
        program.args(["sim", "relay", "--listen", "127.0.0.1:0"]).stdin(Stdio::piped());
        Server::start("the relay", program, &self.directory().join("relay.log")).await
    }

    /// Starts a swarm of the [`Roster`](crate::roster::Roster) of `seed` for `server`; none is connected yet.
    pub fn swarm(&self, server: &Server, seed: &str) -> Result<SwarmProcess, StageError> {
        self.swarm_of(&[server.address], &server.key, seed, 0)
    }

    /// Starts a swarm, from the agent `first` of the roster on, for the first of these hubs, and for the others when that is
    /// lost.
    pub fn swarm_of(
        &self,
        hubs: &[SocketAddr],
        key: &VerifyingKey,
        seed: &str,
        first: usize,
    ) -> Result<SwarmProcess, StageError> {
        let mut program = Program::new(&self.program);
        program.args([
            "sim",
            "agents",
            "--seed",
            seed,
            "--first",
            &first.to_string(),
            "--target-key",
            &key_text(key),
        ]);
        let [target, others @ ..] = hubs else {
            return Err(StageError::Start { what: "the swarm", why: io::ErrorKind::AddrNotAvailable.into() });
        };
        program.args(["--target", &target.to_string()]);
        for other in others {
            program.args(["--retry-s", "1", "--other", &other.to_string()]);
        }
        program.stdin(Stdio::piped());
        let log = self.directory().join(format!("swarm-{}.log", target.port()));
        Ok(SwarmProcess { process: Process::start("the swarm", program, &log)? })
    }
}

impl Server {
    async fn start(what: &'static str, program: Program, log: &Path) -> Result<Self, StageError> {
        #[derive(Deserialize)]
        struct Ready {
            http: String,
            kenny_public_key: String,
            #[serde(default)]
            sonde_tls: Option<SocketAddr>,
        }
        let mut process = Process::start(what, program, log)?;
        let line = process.read_line(START_PATIENCE).await?;
        let ready: Ready = match serde_json::from_str(&line) {
            Ok(ready) => ready,
            Err(why) => {
                return Err(process.failed(format!("printed `{line}` where its line of JSON was expected: {why}")));
            }
        };
        let address = ready.http.trim_start_matches("http://").trim_end_matches('/').parse();
        let key: Result<_, BadKey> = parse_key(&ready.kenny_public_key);
        match (address, key) {
            (Ok(address), Ok(key)) => Ok(Self { process, address, key, sonde_tls: ready.sonde_tls }),
            _ => Err(process.failed(format!("printed `{line}`, which does not say where it listens"))),
        }
    }

    /// What it has used so far.
    pub fn usage(&self) -> Result<Usage, StageError> {
        Ok(Usage::of(self.process.pid)?)
    }

    /// Ends it, and waits until it has ended.
    pub async fn stop(mut self) -> Result<(), StageError> {
        let what = self.process.what;
        self.process.child.kill().await.map_err(|why| StageError::Start { what, why })
    }
}

impl SwarmProcess {
    /// Tells the swarm to do something, and waits until it is done.
    pub async fn command(&mut self, command: Command) -> Result<Reply, StageError> {
        let mut line = serde_json::to_string(&command).expect("a command has numbers and names only");
        line.push('\n');
        let written = match &mut self.process.input {
            Some(input) => input.write_all(line.as_bytes()).await,
            None => Err(io::ErrorKind::BrokenPipe.into()),
        };
        if let Err(why) = written {
            return Err(self.process.failed(format!("takes no commands: {why}")));
        }
        let line = self.process.read_line(command.patience()).await?;
        serde_json::from_str(&line).map_err(|why| self.process.failed(format!("answered `{line}`: {why}")))
    }

    /// What it has used so far.
    pub fn usage(&self) -> Result<Usage, StageError> {
        Ok(Usage::of(self.process.pid)?)
    }
}

impl Drop for Process {
    /// Ends the process and waits for its end, within a bound: while it writes, the scratch directory cannot go.
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.start_kill();
        for _ in 0..100 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Process {
    fn start(what: &'static str, mut program: Program, log: &Path) -> Result<Self, StageError> {
        let wrong = |why: io::Error| StageError::Start { what, why };
        let stderr = File::options().create(true).append(true).open(log).map_err(wrong)?;
        let mut child = program.stdout(Stdio::piped()).stderr(stderr).kill_on_drop(true).spawn().map_err(wrong)?;
        let pid = child.id().ok_or_else(|| wrong(io::ErrorKind::NotFound.into()))?;
        let output = child.stdout.take().ok_or_else(|| wrong(io::ErrorKind::BrokenPipe.into()))?;
        let input = child.stdin.take();
        Ok(Self { what, child, pid, input, output: BufReader::new(output).lines(), log: log.to_owned() })
    }

    async fn read_line(&mut self, patience: Duration) -> Result<String, StageError> {
        match tokio::time::timeout(patience, self.output.next_line()).await {
            Ok(Ok(Some(line))) => Ok(line),
            Ok(Ok(None)) => {
                let status = self.child.wait().await.map_or_else(|why| why.to_string(), |status| status.to_string());
                Err(self.failed(format!("ended ({status})")))
            }
            Ok(Err(why)) => Err(self.failed(format!("cannot be read: {why}"))),
            Err(_) => Err(self.failed(format!("said nothing for {} s", patience.as_secs()))),
        }
    }

    fn failed(&self, why: String) -> StageError {
        let log = std::fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log[log.len().saturating_sub(SHOWN)..]).into_owned();
        StageError::Failed { what: self.what, why, log }
    }
}
