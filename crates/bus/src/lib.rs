//! How hubs talk to each other: subjects that hubs subscribe to, messages, and requests with an answer.
//!
//! Nothing here lasts: a message reaches who is subscribed at that moment, at most once, and nobody else. Whoever has the
//! server can read, drop, repeat and invent messages, so hubs put them into an [`Envelope`] first.

mod envelope;
mod in_process;
mod nats;

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::mpsc;

pub use envelope::{Envelope, Opened, Unopened};
pub use in_process::InProcess;
pub use nats::Nats;

/// Messages that wait for one subscriber. A slower one loses those that come next.
const WAITING: usize = 1_024;

/// Where messages go: words of letters, digits, `-` and `_`, with dots between them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Subject(String);

impl Subject {
    /// A subject. None when the text has something else in it; `*` and `>` would be wildcards.
    pub fn parse(text: &str) -> Option<Self> {
        let is_word = |word: &str| {
            !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        };
        (text.len() <= 512 && text.split('.').all(is_word)).then(|| Self(text.to_owned()))
    }

    /// The subject of one link of a peer: who holds the link subscribes to it. The peer's id goes in as hex digits, since it
    /// may have dots and other characters.
    pub fn of_link(peer: &str, epoch: u64) -> Self {
        let mut text = String::from("convoke.link.");
        for byte in peer.bytes() {
            text.push_str(&format!("{byte:02x}"));
        }
        Self(format!("{text}.{epoch}"))
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why a message did not get through, or no answer came.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BusError {
    /// Nobody is subscribed.
    #[error("nobody is there to answer")]
    NoResponders,
    /// Somebody is subscribed, and no answer came in time.
    #[error("no answer came in time")]
    TimedOut,
    /// The message is larger than the bus takes.
    #[error("a message of {bytes} bytes is more than the {most} that the bus takes")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// What the bus takes.
        most: usize,
    },
    /// The bus cannot be reached.
    #[error("the bus cannot be reached: {0}")]
    Unavailable(String),
}

/// Shorthand for what every method answers.
pub type Result<T> = std::result::Result<T, BusError>;

/// A bus.
#[async_trait]
pub trait Bus: fmt::Debug + Send + Sync {
    /// Hands a message to whoever is subscribed at this moment. Nobody is no error.
    async fn publish(&self, subject: &Subject, body: Bytes) -> Result<()>;
    /// Asks whoever is subscribed, and answers with the first answer. Where nobody is, that is known at once.
    async fn request(&self, subject: &Subject, body: Bytes, timeout: Duration) -> Result<Bytes>;
    /// Subscribes: what is sent after this has resolved arrives.
    async fn subscribe(&self, subject: &Subject) -> Result<Subscription>;
    /// The most bytes that a message may have.
    fn most_bytes(&self) -> usize;
    /// Whether it can be reached now.
    fn is_reachable(&self) -> bool;
}

/// Messages to one subject, until it is dropped.
#[derive(Debug)]
pub struct Subscription {
    messages: mpsc::Receiver<Message>,
    /// Dropped with the subscription, which ends it.
    _end: Option<EndOnDrop>,
}

impl Subscription {
    /// The next message. None when the bus has ended.
    pub async fn next(&mut self) -> Option<Message> {
        self.messages.recv().await
    }
}

/// A task that ends with its owner.
#[derive(Debug)]
struct EndOnDrop(tokio::task::AbortHandle);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A message.
#[derive(Debug)]
pub struct Message {
    /// What was sent.
    pub body: Bytes,
    /// How it is answered, when somebody asked.
    pub reply: Option<Reply>,
}

/// The way back to who asked.
#[derive(Debug)]
pub struct Reply(Way);

#[derive(Debug)]
enum Way {
    Here(mpsc::Sender<Bytes>),
    Nats(async_nats::Client, async_nats::Subject),
}

impl Reply {
    /// Answers. Whoever asked may have stopped waiting: that is no error.
    pub async fn send(self, body: Bytes) -> Result<()> {
        match self.0 {
            // The first answer counts.
            Way::Here(asker) => {
                let _ = asker.try_send(body);
                Ok(())
            }
            Way::Nats(client, subject) => nats::send(&client, subject, body).await,
        }
    }
}
