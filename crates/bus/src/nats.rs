//! A NATS server as the bus: core NATS, which keeps nothing.

use std::time::Duration;

use async_nats::connection::State;
use async_nats::{Client, ConnectOptions, RequestErrorKind};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt as _;
use tokio::sync::mpsc;

use crate::{Bus, BusError, EndOnDrop, Message, Reply, Result, Subject, Subscription, WAITING, Way};

/// The longest pause between two tries to connect again.
const LONGEST_PAUSE: Duration = Duration::from_secs(4);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How often the server is asked whether it is there: half of what a dead connection may take to be noticed.
const PING_EVERY: Duration = Duration::from_secs(3);
/// Nobody subscribes to this. The server says so after it has taken all that was sent before.
const NOBODY: &str = "convoke.nobody";
/// The server's default, until it has told its own.
const DEFAULT_MOST_BYTES: usize = 1 << 20;

/// A connection to a server, made anew when it breaks; subscriptions go on then.
#[derive(Clone, Debug)]
pub struct Nats {
    client: Client,
}

impl Nats {
    /// Connects to `nats://user:password@host:port`, or `tls://…`.
    pub async fn connect(url: &str) -> Result<Self> {
        let options = ConnectOptions::new()
            .name("convoke")
            .connection_timeout(CONNECT_TIMEOUT)
            .ping_interval(PING_EVERY)
            .request_timeout(None)
            .reconnect_delay_callback(pause);
        let client = options.connect(url).await.map_err(|why| BusError::Unavailable(why.to_string()))?;
        Ok(Self { client })
    }

    fn check(&self, body: &Bytes) -> Result<()> {
        let most = self.most_bytes();
        if body.len() > most { Err(BusError::TooLarge { bytes: body.len(), most }) } else { Ok(()) }
    }

    /// Resolves once the server has taken what was sent before.
    async fn settle(&self) -> Result<()> {
        match self.client.request(NOBODY, Bytes::new()).await {
            Err(why) if why.kind() == RequestErrorKind::NoResponders => Ok(()),
            Ok(_) => Ok(()),
            Err(why) => Err(BusError::Unavailable(why.to_string())),
        }
    }
}

/// Longer with each failure, and not the same for all hubs.
fn pause(failures: usize) -> Duration {
    let most = LONGEST_PAUSE.min(Duration::from_millis(50) * 2_u32.saturating_pow(failures.min(10) as u32));
    let mut random = [0];
    // Without randomness all wait as long.
    let _ = getrandom::fill(&mut random);
    most / 2 + most * u32::from(random[0]) / 512
}

pub(crate) async fn send(client: &Client, subject: async_nats::Subject, body: Bytes) -> Result<()> {
    let unavailable = |why: String| BusError::Unavailable(why);
    client.publish(subject, body).await.map_err(|why| unavailable(why.to_string()))?;
    client.flush().await.map_err(|why| unavailable(why.to_string()))
}

#[async_trait]
impl Bus for Nats {
    async fn publish(&self, subject: &Subject, body: Bytes) -> Result<()> {
        self.check(&body)?;
        send(&self.client, subject.as_str().into(), body).await
    }

    async fn request(&self, subject: &Subject, body: Bytes, timeout: Duration) -> Result<Bytes> {
        self.check(&body)?;
        let asked = self.client.request(subject.as_str().to_owned(), body);
        match tokio::time::timeout(timeout, asked).await {
            Ok(Ok(answer)) => Ok(answer.payload),
            Ok(Err(why)) if why.kind() == RequestErrorKind::NoResponders => Err(BusError::NoResponders),
            Ok(Err(why)) if why.kind() != RequestErrorKind::TimedOut => Err(BusError::Unavailable(why.to_string())),
            Ok(Err(_)) | Err(_) => Err(BusError::TimedOut),
        }
    }

    async fn subscribe(&self, subject: &Subject) -> Result<Subscription> {
        let subscribed = self.client.subscribe(subject.as_str().to_owned()).await;
        let mut incoming = subscribed.map_err(|why| BusError::Unavailable(why.to_string()))?;
        let (sender, messages) = mpsc::channel(WAITING);
        let client = self.client.clone();
        let task = tokio::spawn(async move {
            while let Some(message) = incoming.next().await {
                let reply = message.reply.map(|subject| Reply(Way::Nats(client.clone(), subject)));
                // A subscriber that is too slow loses it: waiting for it would keep the server's other messages.
                let _ = sender.try_send(Message { body: message.payload, reply });
            }
        });
        let end = EndOnDrop(task.abort_handle());
        self.settle().await?;
        Ok(Subscription { messages, _end: Some(end) })
    }

    fn most_bytes(&self) -> usize {
        match self.client.server_info().max_payload {
            0 => DEFAULT_MOST_BYTES,
            most => most,
        }
    }

    fn is_reachable(&self) -> bool {
        self.client.connection_state() == State::Connected
    }
}
