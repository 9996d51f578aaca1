//! Programs that are started for a trace, and a client that talks to them.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::run;

/// The hub listens on loopback and lives for a minute: its token may be known.
const TOKEN: &str = "layout-operator-token-0123456789abcdef0123456789abcdef";
/// How long anything may take: programs that are traced are fifty times slower.
const PATIENCE: Duration = Duration::from_secs(300);
/// Simulated agents of a traced hub.
const AGENTS: &str = "20";

/// A program that ends when its standard input does.
pub(super) struct Running {
    what: &'static str,
    child: Child,
}

impl Running {
    pub(super) fn start(what: &'static str, command: &mut Command, dir: &Path) -> Result<Self> {
        let log = File::options().create(true).append(true).open(dir.join("log")).context("no log can be written")?;
        // What is set for whoever runs this is for another hub.
        for (name, _) in std::env::vars_os() {
            let ours = command.get_envs().any(|(set, _)| set == name);
            let name = name.to_string_lossy().into_owned();
            if !ours && (name.starts_with("CONVOKE_") || name.starts_with("KENNY_")) {
                command.env_remove(name);
            }
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let child = command.spawn().with_context(|| format!("{what} cannot be started"))?;
        Ok(Self { what, child })
    }

    fn first_line(&mut self) -> Result<String> {
        let mut line = String::new();
        let output = self.child.stdout.take().context("its output was read before")?;
        BufReader::new(output).read_line(&mut line)?;
        ensure!(!line.is_empty(), "{} ended before it was ready", self.what);
        Ok(line)
    }

    /// Closes its input and waits until it has ended by itself: only then is a trace whole.
    pub(super) fn end(mut self) -> Result<()> {
        drop(self.child.stdin.take());
        self.ended()
    }

    fn ended(&mut self) -> Result<()> {
        let child = &mut self.child;
        until(self.what, || Ok(child.try_wait()?.is_some()))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// A hub on a free port of loopback.
pub(super) struct Hub {
    running: Running,
    address: String,
}

impl Hub {
    /// `command` is the program, or what it is traced with and the program.
    pub(super) fn start(command: &mut Command, dir: &Path) -> Result<Self> {
        command.args(["hub", "--print-json", "--listen", "127.0.0.1:0", "--data"]).arg(dir.join("hub"));
        let mut running = Running::start("the hub", command.env("CONVOKE_OPERATOR_TOKEN", TOKEN), dir)?;
        let ready: Value = serde_json::from_str(&running.first_line()?).context("what the hub says of itself")?;
        let url = ready["http"].as_str().context("the hub does not say where it listens")?;
        Ok(Self { address: url.trim_start_matches("http://").trim_end_matches('/').to_owned(), running })
    }

    pub(super) fn pid(&self) -> u32 {
        self.running.child.id()
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) fn client(&self) -> Result<Client> {
        Client::connect(&self.address)
    }

    /// Simulated agents that answer at once.
    pub(super) fn swarm(&self, program: &Path, dir: &Path) -> Result<Running> {
        let mut command = Command::new(program);
        command.args(["sim", "agents", "--target", &self.address, "--count", AGENTS, "--enrol"]);
        let mut swarm = Running::start("the simulated agents", command.env("CONVOKE_TOKEN", TOKEN), dir)?;
        swarm.first_line()?;
        Ok(swarm)
    }

    /// Asks it to stop, and waits.
    pub(super) fn stop(mut self) -> Result<()> {
        run::shown(Command::new("kill").args(["-TERM", &self.pid().to_string()]))?;
        self.running.ended()
    }
}

/// An operator's connection to a hub.
pub(super) struct Client {
    address: String,
    stream: BufReader<TcpStream>,
    session: Option<String>,
}

impl Client {
    fn connect(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).context("the hub does not listen")?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { address: address.to_owned(), stream: BufReader::new(stream), session: None })
    }

    /// Another connection.
    pub(super) fn again(&self) -> Result<Self> {
        Self::connect(&self.address)
    }

    /// The session that the last answer named.
    pub(super) fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// Asks, and reads the answer whole. What is no JSON (an empty answer, a stream of events) is null.
    pub(super) fn ask(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &Value) -> Result<Value> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        write!(
            self.stream.get_mut(),
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {TOKEN}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n{headers}\r\n{body}",
            self.address,
            body.len(),
        )?;
        let (mut length, mut chunked) = (0, false);
        self.line()?;
        loop {
            let line = self.line()?;
            let Some((name, value)) = line.split_once(':') else { break };
            match (name.to_ascii_lowercase().as_str(), value.trim()) {
                ("content-length", value) => length = value.parse().context("a length")?,
                ("transfer-encoding", _) => chunked = true,
                ("mcp-session-id", value) => self.session = Some(value.to_owned()),
                _ => {}
            }
        }
        let mut answer = Vec::new();
        if chunked {
            loop {
                let size = usize::from_str_radix(&self.line()?, 16).context("a chunk's size")?;
                self.take(size, &mut answer)?;
                self.line()?;
                if size == 0 {
                    break;
                }
            }
        } else {
            self.take(length, &mut answer)?;
        }
        Ok(serde_json::from_slice(&answer).unwrap_or_default())
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        ensure!(self.stream.read_line(&mut line)? > 0, "the hub closed the connection");
        Ok(line.trim_end().to_owned())
    }

    fn take(&mut self, length: usize, into: &mut Vec<u8>) -> Result<()> {
        let start = into.len();
        into.resize(start + length, 0);
        Ok(self.stream.read_exact(&mut into[start..])?)
    }
}

/// Waits until `done`.
pub(super) fn until(what: &str, mut done: impl FnMut() -> Result<bool>) -> Result<()> {
    let end = Instant::now() + PATIENCE;
    while !done()? {
        if Instant::now() > end {
            bail!("{what} took more than {} s", PATIENCE.as_secs());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}
