//! The hub's end of a client's connection: a bounded queue that the connection's task empties.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use convoke_core::id::LinkId;
use convoke_yonexus::close::Close;
use tokio::sync::Notify;

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

impl Out {
    fn size(&self) -> usize {
        match self {
            Self::Frame(frame) => frame.len() + OVERHEAD,
            Self::Text(text) | Self::Paired(text) => text.len() + OVERHEAD,
            Self::Outbox | Self::Close(..) => 0,
        }
    }
}

/// Why something was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The connection has ended.
    Ended,
    /// The queue is full.
    Full,
}

/// The hub's end of a connection.
#[derive(Debug)]
pub struct ClientLink {
    pub id: LinkId,
    queue: Mutex<Queue>,
    wake: Notify,
    room: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    items: VecDeque<Out>,
    bytes: usize,
    /// Whether an [`Out::Outbox`] is among the items: one is enough.
    outbox: bool,
    ended: bool,
    /// It was waited for in vain: nobody waits again until it has caught up.
    slow: bool,
}

impl ClientLink {
    pub fn new(id: LinkId) -> Arc<Self> {
        Arc::new(Self { id, queue: Mutex::default(), wake: Notify::new(), room: Notify::new() })
    }

    fn queue(&self) -> std::sync::MutexGuard<'_, Queue> {
        // A panic while holding it leaves a queue that is still whole.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes something. A close and a hint are always taken: they must get through when the queue is full.
    pub fn push(&self, out: Out) -> Result<(), Refused> {
        let mut queue = self.queue();
        if queue.ended {
            return Err(Refused::Ended);
        }
        let size = out.size();
        match out {
            Out::Close(..) => queue.items.push_front(out),
            Out::Outbox if queue.outbox => return Ok(()),
            Out::Outbox => {
                queue.outbox = true;
                queue.items.push_back(out);
            }
            _ if queue.items.len() >= MAX_QUEUED || queue.bytes + size > MAX_QUEUED_BYTES => {
                return Err(Refused::Full);
            }
            _ => queue.items.push_back(out),
        }
        queue.bytes += size;
        drop(queue);
        self.wake.notify_one();
        Ok(())
    }

    /// Waits for room in a full queue. Returns at once for one that was waited for in vain before.
    pub async fn room(&self) {
        loop {
            let notified = self.room.notified();
            {
                let queue = self.queue();
                if queue.ended || queue.slow || queue.items.len() < MAX_QUEUED / 2 {
                    return;
                }
            }
            notified.await;
        }
    }

    /// Nobody waits for this client any more, until it has read half of what is there.
    pub fn set_slow(&self) {
        self.queue().slow = true;
        self.room.notify_waiters();
    }

    /// Waits for the next thing. Cancel-safe: it is taken in the same poll that returns it.
    pub async fn next(&self) -> Out {
        loop {
            // `notified` is made before looking, so that a push in between is not missed.
            let notified = self.wake.notified();
            if let Some(out) = self.pop() {
                return out;
            }
            notified.await;
        }
    }

    /// The next thing, if there is one.
    pub fn pop(&self) -> Option<Out> {
        let mut queue = self.queue();
        let out = queue.items.pop_front()?;
        queue.bytes -= out.size();
        if matches!(out, Out::Outbox) {
            queue.outbox = false;
        }
        let caught_up = queue.items.len() == MAX_QUEUED / 2;
        if queue.items.is_empty() {
            // An idle link holds no memory for its queue.
            queue.items = VecDeque::new();
            queue.slow = false;
        }
        if caught_up {
            queue.slow = false;
        }
        let was_idle = queue.items.is_empty();
        drop(queue);
        if caught_up || was_idle {
            self.room.notify_waiters();
        }
        Some(out)
    }

    /// The connection has ended: nothing is taken any more.
    pub fn end(&self) {
        let mut queue = self.queue();
        queue.ended = true;
        queue.bytes = 0;
        queue.items = VecDeque::new();
        drop(queue);
        self.room.notify_waiters();
    }

    /// Whether the connection has ended.
    pub fn has_ended(&self) -> bool {
        self.queue().ended
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
        let link = ClientLink::new(LinkId(1));
        for _ in 0..MAX_QUEUED {
            link.push(frame()).expect("room");
        }
        assert_eq!(link.push(frame()), Err(Refused::Full));
        link.push(Out::Outbox).expect("taken");
        link.push(Out::Outbox).expect("taken, and one is enough");
        link.push(Out::Close(Vec::new(), close::REVOKED)).expect("always taken");
        assert!(matches!(link.pop(), Some(Out::Close(..))));
        let left = std::iter::from_fn(|| link.pop()).count();
        assert_eq!(left, MAX_QUEUED + 1);
        link.end();
        assert_eq!(link.push(frame()), Err(Refused::Ended));
    }

    #[test]
    fn bytes_are_bounded_too() {
        let link = ClientLink::new(LinkId(1));
        let large = || Out::Frame(Bytes::from(vec![0; MAX_QUEUED_BYTES - OVERHEAD]));
        link.push(large()).expect("fits");
        assert_eq!(link.push(frame()), Err(Refused::Full));
        link.pop();
        link.push(large()).expect("room again");
    }

    #[tokio::test]
    async fn who_waits_for_room_goes_on_when_there_is_or_when_it_is_in_vain() {
        let link = ClientLink::new(LinkId(1));
        for _ in 0..MAX_QUEUED {
            link.push(frame()).expect("room");
        }
        let waiting = tokio::spawn({
            let link = Arc::clone(&link);
            async move { link.room().await }
        });
        while link.pop().is_some() {}
        waiting.await.expect("goes on");
        for _ in 0..MAX_QUEUED {
            link.push(frame()).expect("room");
        }
        link.set_slow();
        link.room().await;
    }
}
