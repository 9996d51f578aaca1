//! One sender, some receivers, so many messages in flight: enough to keep a server busy, never more than its queues
//! hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::RulesError;
use super::nats::Nats;
use crate::ws::{Event, Socket};

/// Messages that may be under way to each receiver.
const WINDOW: u64 = 256;
/// Messages that go out in one write.
const BATCH: u64 = 16;
/// How long the last messages may take to arrive.
const PATIENCE: Duration = Duration::from_secs(30);

/// A connection, whatever it speaks.
#[derive(Debug)]
pub enum Conn {
    /// A WebSocket; messages are `rule::content`.
    Ws(Box<Socket>),
    /// A participant of a room; messages are lines of chat.
    Room(Box<Socket>),
    /// NATS; messages are content under a subject.
    Nats(Nats),
}

/// The result.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// Messages sent.
    pub sent: u64,
    /// Messages that arrived, over all receivers.
    pub arrived: u64,
    /// How long it took.
    pub elapsed: Duration,
}

impl Conn {
    async fn queue(&mut self, message: &str, content: &str) -> Result<(), RulesError> {
        match self {
            Self::Ws(socket) => {
                socket.queue_text(message);
                Ok(())
            }
            Self::Room(socket) => {
                socket.queue_text(&crate::rooms::line(content));
                Ok(())
            }
            Self::Nats(nats) => nats.publish(content).await,
        }
    }

    async fn flush(&mut self) -> Result<(), RulesError> {
        match self {
            Self::Ws(socket) | Self::Room(socket) => Ok(socket.flush().await?),
            Self::Nats(nats) => nats.flush().await,
        }
    }

    async fn next(&mut self) -> Result<(), RulesError> {
        match self {
            Self::Ws(socket) => loop {
                match socket.next().await? {
                    Event::Text(text) if !text.starts_with("builtin::") => return Ok(()),
                    Event::Text(text) => return Err(RulesError::Odd(format!("the server said {text}"))),
                    Event::Ping(payload) => socket.queue_pong(&payload),
                    Event::Binary(_) | Event::Pong(_) | Event::Skipped(_) => {}
                    Event::Close(code, _) => return Err(RulesError::Odd(format!("closed with {code:?}"))),
                }
            },
            Self::Room(socket) => crate::rooms::hear(socket).await,
            Self::Nats(nats) => nats.next().await,
        }
    }
}

/// Sends for `time`, waits until everything has arrived, and gives the connections back.
pub async fn run(
    mut sender: Conn,
    receivers: Vec<Conn>,
    rule: &str,
    content: &str,
    time: Duration,
) -> Result<(Flow, Conn, Vec<Conn>), RulesError> {
    let count = receivers.len() as u64;
    let message = format!("{rule}::{content}");
    let arrived = Arc::new(AtomicU64::new(0));
    let expected = Arc::new(AtomicU64::new(u64::MAX - 1));
    let mut tasks = JoinSet::new();
    for mut receiver in receivers {
        let (arrived, expected) = (Arc::clone(&arrived), Arc::clone(&expected));
        tasks.spawn(async move {
            // The end mark is one message more than are expected, so that nobody waits for a message that does not come.
            let mut own = 0;
            while own <= expected.load(Ordering::Acquire) {
                receiver.next().await?;
                own += 1;
                arrived.fetch_add(1, Ordering::AcqRel);
            }
            Ok::<_, RulesError>(receiver)
        });
    }
    let began = Instant::now();
    let mut sent = 0;
    while began.elapsed() < time {
        if sent * count < arrived.load(Ordering::Acquire) + WINDOW * count {
            for _ in 0..BATCH {
                sender.queue(&message, content).await?;
            }
            sent += BATCH;
            sender.flush().await?;
        }
        tokio::task::yield_now().await;
        if let Some(Ok(Err(why))) = tasks.try_join_next() {
            return Err(why);
        }
    }
    expected.store(sent, Ordering::Release);
    // The end mark; it is not counted.
    sender.queue(&message, content).await?;
    sender.flush().await?;
    let mut back = Vec::new();
    let all = async {
        while let Some(done) = tasks.join_next().await {
            back.push(done.map_err(|why| RulesError::Odd(why.to_string()))??);
        }
        Ok::<_, RulesError>(())
    };
    match tokio::time::timeout(PATIENCE, all).await {
        Ok(done) => done?,
        Err(_) => return Err(RulesError::Odd("not everything that was sent has arrived".into())),
    }
    let elapsed = began.elapsed();
    Ok((Flow { sent, arrived: sent * count, elapsed }, sender, back))
}
