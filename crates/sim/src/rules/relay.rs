//! The raw limit of rule messages: what one WebSocket sends, every other one gets. The hub's own kind of socket, one
//! task a connection, a bounded queue each; no identity, no rule, no rate, no record.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use convoke_socket::Connection;
use convoke_socket::drive::{Clock, Lost, Machine, Message, drive};
use convoke_socket::queue::{Item, Queue, Rank};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tungstenite::handshake::derive_accept_key;

use crate::server::Server;
use crate::ws;

/// Longest request head that is read.
const MAX_HEAD: usize = 8 * 1024;

/// A running relay. It stops when it is dropped.
#[derive(Debug)]
pub struct Relay(Server);

#[derive(Debug, Default)]
struct Shared {
    links: Mutex<HashMap<u64, Arc<Queue<Passed>>>>,
}

impl Shared {
    fn links(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Arc<Queue<Passed>>>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Relay {
    /// Listens at `listen`.
    pub async fn start(listen: SocketAddr) -> io::Result<Self> {
        let (shared, next) = (Arc::<Shared>::default(), AtomicU64::new(0));
        let serve = move |stream| serve(stream, Arc::clone(&shared), next.fetch_add(1, Ordering::Relaxed));
        Server::start(listen, serve).await.map(Self)
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.0.address()
    }
}

async fn serve(mut stream: TcpStream, shared: Arc<Shared>, id: u64) {
    let Some(rest) = upgrade(&mut stream).await else { return };
    let mut socket = ws::serve(stream, &rest);
    let queue = Arc::default();
    shared.links().insert(id, Arc::clone(&queue));
    let mut link = Link { shared: Arc::clone(&shared), id };
    drive(&mut socket, &mut link, &queue, Clock::since(Instant::now())).await;
    queue.end();
    shared.links().remove(&id);
}

/// A message on its way to one connection.
#[derive(Debug)]
struct Passed(Arc<str>);

impl Item for Passed {
    /// As many as the hub lets wait.
    const MAX_MESSAGES: usize = 1024;
    const MAX_BYTES: usize = 64 * 1024 * 1024;

    fn rank(&self) -> Rank {
        Rank::Message
    }

    fn size(&self) -> usize {
        self.0.len()
    }
}

/// One connection.
struct Link {
    shared: Arc<Shared>,
    id: u64,
}

impl Machine for Link {
    type Command = Passed;
    type End = ();

    async fn on_message(&mut self, message: Message, _: Duration, _: &mut Connection) -> ControlFlow<()> {
        let Message::Text(text) = message else { return ControlFlow::Continue(()) };
        let text: Arc<str> = text.into();
        let others: Vec<_> = {
            let links = self.shared.links();
            links.iter().filter(|(other, _)| **other != self.id).map(|(_, link)| Arc::clone(link)).collect()
        };
        for other in others {
            // A receiver that is behind holds its sender back.
            let _ = other.send(Passed(Arc::clone(&text))).await;
        }
        ControlFlow::Continue(())
    }

    async fn on_command(&mut self, passed: Passed, _: Duration, connection: &mut Connection) -> ControlFlow<()> {
        connection.queue_text(&passed.0);
        ControlFlow::Continue(())
    }

    async fn on_lost(&mut self, _: Lost, _: &mut Connection) {}
}

/// The server's side of the upgrade. Answers what was read beyond it.
async fn upgrade(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut read = Vec::with_capacity(512);
    let end = loop {
        if let Some(at) = read.windows(4).position(|w| w == b"\r\n\r\n") {
            break at + 4;
        }
        if read.len() >= MAX_HEAD || stream.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&read[..end]).into_owned();
    let key = head
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("sec-websocket-key"))?
        .1
        .trim()
        .to_owned();
    let accept = derive_accept_key(key.as_bytes());
    let answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: {accept}\r\n\r\n"
    );
    stream.write_all(answer.as_bytes()).await.ok()?;
    Some(read[end..].to_vec())
}
