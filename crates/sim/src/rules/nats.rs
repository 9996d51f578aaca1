//! As much of NATS' text protocol as publishing and subscribing takes, and a server of it if one is installed.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use super::RulesError;
use crate::usage::{Usage, UsageError};

/// The subject of all messages.
const SUBJECT: &str = "chat";
/// How long a server may take to be ready.
const PATIENCE: Duration = Duration::from_secs(10);

/// A NATS server of our own. It is ended when dropped.
#[derive(Debug)]
pub struct NatsServer {
    child: Child,
    pid: u32,
    /// Where it listens.
    pub address: SocketAddr,
}

impl NatsServer {
    /// Starts one on a free port of loopback; nothing when none is installed.
    pub async fn start() -> Result<Option<Self>, RulesError> {
        // It picks no port by itself and tells; one that was free a moment ago is free still.
        let port = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut command = Command::new("nats-server");
        command.args(["-a", "127.0.0.1", "-p", &port.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        let child = match command.spawn() {
            Ok(child) => child,
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(why) => return Err(why.into()),
        };
        let pid = child.id().ok_or_else(|| RulesError::Odd("nats-server ended at once".into()))?;
        let server = Self { child, pid, address };
        let since = Instant::now();
        while TcpStream::connect(address).await.is_err() {
            if since.elapsed() > PATIENCE {
                return Err(RulesError::Odd("nats-server does not listen".into()));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(Some(server))
    }

    /// What it has used so far.
    pub fn usage(&self) -> Result<Usage, UsageError> {
        Usage::of(self.pid)
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.start_kill();
    }
}

/// A connection.
#[derive(Debug)]
pub struct Nats {
    stream: TcpStream,
    read: Vec<u8>,
    out: Vec<u8>,
}

impl Nats {
    /// Connects; subscribes if asked to.
    pub async fn connect(address: SocketAddr, subscribe: bool) -> Result<Self, RulesError> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let mut nats = Self { stream, read: Vec::new(), out: Vec::new() };
        nats.out.extend_from_slice(b"CONNECT {\"verbose\":false,\"pedantic\":false,\"echo\":false}\r\n");
        if subscribe {
            nats.out.extend_from_slice(format!("SUB {SUBJECT} 1\r\n").as_bytes());
        }
        nats.out.extend_from_slice(b"PING\r\n");
        nats.flush().await?;
        // Its PONG means that it has taken everything before.
        loop {
            let line = nats.line().await?;
            if line.starts_with(b"PONG") {
                return Ok(nats);
            }
            if line.starts_with(b"-ERR") {
                return Err(RulesError::Odd(String::from_utf8_lossy(&line).into_owned()));
            }
        }
    }

    /// Queues a message.
    pub fn publish(&mut self, content: &str) {
        self.out.extend_from_slice(format!("PUB {SUBJECT} {}\r\n", content.len()).as_bytes());
        self.out.extend_from_slice(content.as_bytes());
        self.out.extend_from_slice(b"\r\n");
    }

    /// Writes what is queued.
    pub async fn flush(&mut self) -> io::Result<()> {
        self.stream.write_all(&self.out).await?;
        self.out.clear();
        Ok(())
    }

    /// Waits for one message.
    pub async fn next(&mut self) -> Result<(), RulesError> {
        loop {
            let line = self.line().await?;
            if let Some(head) = line.strip_prefix(b"MSG ") {
                let head = String::from_utf8_lossy(head);
                let size: usize = head.trim().rsplit(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0);
                while self.read.len() < size + 2 {
                    self.fill().await?;
                }
                self.read.drain(..size + 2);
                return Ok(());
            }
            if line.starts_with(b"PING") {
                self.out.extend_from_slice(b"PONG\r\n");
                self.flush().await?;
            }
        }
    }

    async fn line(&mut self) -> Result<Vec<u8>, RulesError> {
        loop {
            if let Some(end) = self.read.iter().position(|b| *b == b'\n') {
                return Ok(self.read.drain(..=end).collect());
            }
            self.fill().await?;
        }
    }

    async fn fill(&mut self) -> Result<(), RulesError> {
        if self.stream.read_buf(&mut self.read).await? == 0 {
            return Err(RulesError::Odd("nats-server closed the connection".into()));
        }
        Ok(())
    }
}
