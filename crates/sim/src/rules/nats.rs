//! A NATS server, if one is installed, and connections to it.

use std::fmt::Display;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Stdio;
use std::time::{Duration, Instant};

use async_nats::{Client, ConnectOptions, RequestErrorKind, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt as _;
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
    client: Client,
    messages: Option<Subscriber>,
}

impl Nats {
    /// Connects; subscribes if asked to.
    pub async fn connect(address: SocketAddr, subscribe: bool) -> Result<Self, RulesError> {
        let client = ConnectOptions::new().no_echo().connect(address.to_string()).await.map_err(odd)?;
        let messages = if subscribe { Some(client.subscribe(SUBJECT).await.map_err(odd)?) } else { None };
        // Nobody answers there, and the server says so once it has taken the subscription.
        match client.request("nobody", Bytes::new()).await {
            Err(why) if why.kind() == RequestErrorKind::NoResponders => Ok(Self { client, messages }),
            other => Err(odd(format!("unexpected answer of nats-server: {other:?}"))),
        }
    }

    /// Queues a message.
    pub async fn publish(&mut self, content: &str) -> Result<(), RulesError> {
        self.client.publish(SUBJECT, Bytes::copy_from_slice(content.as_bytes())).await.map_err(odd)
    }

    /// Writes what is queued.
    pub async fn flush(&mut self) -> Result<(), RulesError> {
        self.client.flush().await.map_err(odd)
    }

    /// Waits for one message.
    pub async fn next(&mut self) -> Result<(), RulesError> {
        let messages = self.messages.as_mut().ok_or_else(|| odd("this connection has not subscribed"))?;
        messages.next().await.map(drop).ok_or_else(|| odd("nats-server closed the connection"))
    }
}

fn odd(why: impl Display) -> RulesError {
    RulesError::Odd(why.to_string())
}
