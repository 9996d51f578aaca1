//! A bus within one process: for a single hub, which is its own and only subscriber.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::mpsc;

use crate::{Bus, BusError, Message, Reply, Result, Subject, Subscription, WAITING, Way};

/// As much as a NATS server takes by default.
const MOST_BYTES: usize = 1 << 20;

/// A bus whose clones are one bus.
#[derive(Clone, Debug, Default)]
pub struct InProcess {
    subscribers: Arc<Mutex<HashMap<Subject, Vec<mpsc::Sender<Message>>>>>,
}

impl InProcess {
    /// Hands a message to all subscribers; answers how many there are.
    fn hand_out(&self, subject: &Subject, body: &Bytes, asker: Option<&mpsc::Sender<Bytes>>) -> Result<usize> {
        if body.len() > MOST_BYTES {
            return Err(BusError::TooLarge { bytes: body.len(), most: MOST_BYTES });
        }
        let mut all = self.subscribers.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(subscribers) = all.get_mut(subject) else { return Ok(0) };
        subscribers.retain(|subscriber| !subscriber.is_closed());
        for subscriber in &*subscribers {
            let reply = asker.map(|asker| Reply(Way::Here(asker.clone())));
            // A subscriber that is too slow loses it, as it does with a server.
            let _ = subscriber.try_send(Message { body: body.clone(), reply });
        }
        let count = subscribers.len();
        if count == 0 {
            all.remove(subject);
        }
        Ok(count)
    }
}

#[async_trait]
impl Bus for InProcess {
    async fn publish(&self, subject: &Subject, body: Bytes) -> Result<()> {
        self.hand_out(subject, &body, None).map(drop)
    }

    async fn request(&self, subject: &Subject, body: Bytes, timeout: Duration) -> Result<Bytes> {
        let (asker, mut answers) = mpsc::channel(1);
        if self.hand_out(subject, &body, Some(&asker))? == 0 {
            return Err(BusError::NoResponders);
        }
        // From here on only those who were asked can answer.
        drop(asker);
        match tokio::time::timeout(timeout, answers.recv()).await {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) | Err(_) => Err(BusError::TimedOut),
        }
    }

    async fn subscribe(&self, subject: &Subject) -> Result<Subscription> {
        let (sender, messages) = mpsc::channel(WAITING);
        let mut all = self.subscribers.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that have ended go, so that the list is as long as it is used.
        all.retain(|_, subscribers| {
            subscribers.retain(|subscriber| !subscriber.is_closed());
            !subscribers.is_empty()
        });
        all.entry(subject.clone()).or_default().push(sender);
        Ok(Subscription { messages, _end: None })
    }

    fn most_bytes(&self) -> usize {
        MOST_BYTES
    }

    fn is_reachable(&self) -> bool {
        true
    }
}
