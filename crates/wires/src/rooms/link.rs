//! The hub's end of a participant's connection: a bounded queue that the connection's task empties. Whoever does not keep
//! up is dropped, alone, and told why.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use convoke_kibitz::close::{self, Close};
use convoke_kibitz::frame::FromRelay;
use tokio::sync::Notify;

use crate::ws::text_frame;

/// Most frames that may wait for one participant.
const MAX_QUEUED: usize = 512;
/// Most bytes that may wait for one participant: a few of the largest messages.
const MAX_QUEUED_BYTES: usize = 4 * 1024 * 1024;
/// A frame's share of the bookkeeping, so that many small ones count too.
const OVERHEAD: usize = 64;

/// Something for a connection.
#[derive(Debug)]
pub(super) enum Out {
    /// A frame as it goes over the wire; shared by all who get it.
    Frame(Bytes),
    /// Close.
    Close(Close),
}

/// The hub's end of a connection.
#[derive(Debug, Default)]
pub(super) struct RoomLink {
    queue: Mutex<Queue>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    items: VecDeque<Out>,
    bytes: usize,
    /// A close is among the items, or the connection is gone: nothing is taken any more.
    ended: bool,
}

/// The participant does not keep up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slow;

impl RoomLink {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    fn queue(&self) -> std::sync::MutexGuard<'_, Queue> {
        // A panic while holding it leaves a queue that is still whole.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a frame. When the queue is full, what waits in it is dropped for a word about that and a close: the
    /// participant would only get what is old.
    pub(super) fn push(&self, frame: Bytes) -> Result<(), Slow> {
        let mut queue = self.queue();
        if queue.ended {
            return Ok(());
        }
        let size = frame.len() + OVERHEAD;
        let fits = queue.items.len() < MAX_QUEUED && queue.bytes + size <= MAX_QUEUED_BYTES;
        if fits {
            queue.bytes += size;
            queue.items.push_back(Out::Frame(frame));
        } else {
            let message = "the participant does not read its connection".into();
            let told = FromRelay::Error { code: "slow".into(), message }.encode();
            queue.items = VecDeque::from([Out::Frame(text_frame(&told).into()), Out::Close(close::SLOW)]);
            queue.ended = true;
        }
        drop(queue);
        self.wake.notify_one();
        if fits { Ok(()) } else { Err(Slow) }
    }

    /// Closes, after what waits.
    pub(super) fn close(&self, close: Close) {
        let mut queue = self.queue();
        if queue.ended {
            return;
        }
        queue.ended = true;
        queue.items.push_back(Out::Close(close));
        drop(queue);
        self.wake.notify_one();
    }

    /// The close that waits, if one does.
    pub(super) fn closing(&self) -> Option<Close> {
        match self.queue().items.back() {
            Some(Out::Close(close)) => Some(*close),
            _ => None,
        }
    }

    /// Waits for the next thing. Cancel-safe: it is taken in the same poll that returns it.
    pub(super) async fn next(&self) -> Out {
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
    pub(super) fn pop(&self) -> Option<Out> {
        let mut queue = self.queue();
        let out = queue.items.pop_front()?;
        if let Out::Frame(frame) = &out {
            queue.bytes = queue.bytes.saturating_sub(frame.len() + OVERHEAD);
        }
        if queue.items.is_empty() {
            // An idle link holds no memory for its queue.
            queue.items = VecDeque::new();
        }
        Some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_keep_up_is_told_and_closed_and_gets_nothing_more() {
        let link = RoomLink::new();
        for _ in 0..MAX_QUEUED {
            assert_eq!(link.push(Bytes::from_static(b"x")), Ok(()));
        }
        assert_eq!(link.push(Bytes::from_static(b"x")), Err(Slow));
        assert_eq!(link.push(Bytes::from_static(b"x")), Ok(()), "dropped without a word: it is closed already");
        let Some(Out::Frame(told)) = link.pop() else { panic!("a word first") };
        assert!(String::from_utf8_lossy(&told).contains("\"slow\""));
        assert!(matches!(link.pop(), Some(Out::Close(close::SLOW))));
        assert!(link.pop().is_none());
    }

    #[test]
    fn bytes_are_bounded_too_and_a_close_comes_after_what_waits() {
        let link = RoomLink::new();
        link.push(Bytes::from(vec![0; MAX_QUEUED_BYTES - OVERHEAD])).expect("fits");
        link.pop();
        link.push(Bytes::from_static(b"x")).expect("room again");
        link.close(close::KICKED);
        link.close(close::LEFT);
        assert!(matches!(link.pop(), Some(Out::Frame(_))));
        assert!(matches!(link.pop(), Some(Out::Close(close::KICKED))));
        assert!(link.pop().is_none());
        let full = RoomLink::new();
        assert_eq!(full.push(Bytes::from(vec![0; MAX_QUEUED_BYTES])), Err(Slow));
    }
}
