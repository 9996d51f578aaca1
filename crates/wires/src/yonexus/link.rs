//! The hub's end of a client's connection: a bounded queue that the connection's task empties.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use convoke_core::id::LinkId;
use convoke_gate::cluster::forward::{Answered, ToLink};
use convoke_gate::cluster::{Held, Holder};
use convoke_gate::hub::Hub;
pub(crate) use convoke_socket::queue::Refused;
use convoke_socket::queue::{Item, Queue, Rank};
use convoke_yonexus::close::Close;

use crate::Wires;

/// Most frames that may wait for one client.
const MAX_QUEUED: usize = 1024;
/// Most bytes that may wait for one client: a few of the largest messages.
const MAX_QUEUED_BYTES: usize = 4 * 1024 * 1024;
/// A frame's share of the bookkeeping, so that many small ones count too.
const OVERHEAD: usize = 64;

/// Something for a connection.
#[derive(Debug)]
pub enum Out {
    /// A frame as it goes over the wire; shared by all who get it.
    Frame(Bytes),
    /// A builtin frame of the connection's own.
    Text(String),
    /// The pairing is done: this `pair_success` goes out.
    Paired(String),
    /// Something waits in the outbox.
    Outbox,
    /// Say this and close.
    Close(Vec<String>, Close),
}

impl Item for Out {
    const MAX_MESSAGES: usize = MAX_QUEUED;
    const MAX_BYTES: usize = MAX_QUEUED_BYTES;

    fn rank(&self) -> Rank {
        match self {
            Self::Close(..) => Rank::First,
            Self::Outbox => Rank::Hint,
            Self::Frame(_) | Self::Text(_) | Self::Paired(_) => Rank::Message,
        }
    }

    fn size(&self) -> usize {
        match self {
            Self::Frame(frame) => frame.len() + OVERHEAD,
            Self::Text(text) | Self::Paired(text) => text.len() + OVERHEAD,
            Self::Outbox | Self::Close(..) => 0,
        }
    }
}

/// The hub's end of a connection.
#[derive(Debug, Default)]
pub struct ClientLink {
    /// Its number, from when it has proved itself.
    id: AtomicU64,
    pub(crate) queue: Queue<Out>,
    /// What makes it stand for the client at other hubs, too.
    held: Mutex<Option<Held>>,
}

impl ClientLink {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(crate) fn id(&self) -> LinkId {
        LinkId(self.id.load(Ordering::Relaxed))
    }

    pub(crate) fn set_id(&self, id: LinkId) {
        self.id.store(id.0, Ordering::Relaxed);
    }

    /// It stands for its client, or does not any more.
    pub(crate) fn hold(&self, held: Option<Held>) {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = held;
    }

    pub(crate) fn push(&self, out: Out) -> Result<(), Refused> {
        self.queue.push(out)
    }
}

/// What other hubs send to a client's connection.
#[derive(Debug)]
pub(crate) struct AtClient(pub(crate) Arc<ClientLink>);

#[async_trait]
impl Holder for AtClient {
    async fn take(&self, hub: &Hub, message: ToLink) -> Option<Answered> {
        match message {
            ToLink::Frame { frame, .. } => {
                let frame = STANDARD.decode(frame).map(Bytes::from).unwrap_or_default();
                if !hub.may_act() {
                    return Some(Answered::not_taken(Refused::Ended));
                }
                let is_taken = super::rules::hand(&Wires::of(hub), &self.0, &frame, None).await;
                Some(if is_taken { Answered::taken() } else { Answered::not_taken(Refused::Full) })
            }
            ToLink::Outbox { .. } => {
                let _ = self.0.push(Out::Outbox);
                None
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use convoke_yonexus::close;

    use super::*;

    fn frame() -> Out {
        Out::Frame(Bytes::from_static(b"x"))
    }

    #[test]
    fn a_full_queue_refuses_but_takes_a_close_first_and_one_hint() {
        let link = ClientLink::new();
        for _ in 0..MAX_QUEUED {
            link.push(frame()).expect("room");
        }
        assert_eq!(link.push(frame()), Err(Refused::Full));
        link.push(Out::Outbox).expect("taken");
        link.push(Out::Outbox).expect("taken, and one is enough");
        link.push(Out::Close(Vec::new(), close::REVOKED)).expect("always taken");
        assert!(matches!(link.queue.pop(), Some(Out::Close(..))));
        let left = std::iter::from_fn(|| link.queue.pop()).count();
        assert_eq!(left, MAX_QUEUED + 1);
        link.queue.end();
        assert_eq!(link.push(frame()), Err(Refused::Ended));
    }

    #[test]
    fn bytes_are_bounded_too() {
        let link = ClientLink::new();
        let large = || Out::Frame(Bytes::from(vec![0; MAX_QUEUED_BYTES - OVERHEAD]));
        link.push(large()).expect("fits");
        assert_eq!(link.push(frame()), Err(Refused::Full));
        link.queue.pop();
        link.push(large()).expect("room again");
    }
}
