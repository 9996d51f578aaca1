//! The hub's end of a participant's connection: a bounded queue that the connection's task empties. Whoever does not keep
//! up is dropped, alone, and told why.

use std::sync::Arc;

use bytes::Bytes;
use convoke_kibitz::close::{self, Close};
use convoke_kibitz::frame::FromRelay;
use convoke_socket::queue::{Item, Queue, Rank, Refused};

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
    /// Close, after what waits.
    Close(Close),
}

impl Item for Out {
    const MAX_MESSAGES: usize = MAX_QUEUED;
    const MAX_BYTES: usize = MAX_QUEUED_BYTES;

    fn rank(&self) -> Rank {
        match self {
            Self::Frame(_) => Rank::Message,
            Self::Close(_) => Rank::Last,
        }
    }

    fn size(&self) -> usize {
        match self {
            Self::Frame(frame) => frame.len() + OVERHEAD,
            Self::Close(_) => 0,
        }
    }
}

/// The hub's end of a connection.
#[derive(Debug, Default)]
pub(super) struct RoomLink {
    pub(super) queue: Queue<Out>,
}

/// The participant does not keep up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slow;

impl RoomLink {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// Takes a frame. When the queue is full, what waits in it is dropped for a word about that and a close: the
    /// participant would only get what is old.
    pub(super) fn push(&self, frame: Bytes) -> Result<(), Slow> {
        if self.queue.push(Out::Frame(frame)) != Err(Refused::Full) {
            return Ok(());
        }
        let message = "the participant does not read its connection".into();
        let told = FromRelay::Error { code: "slow".into(), message }.encode();
        self.queue.end_with([Out::Frame(text_frame(&told).into()), Out::Close(close::SLOW)]);
        Err(Slow)
    }

    /// Closes, after what waits.
    pub(super) fn close(&self, close: Close) {
        let _ = self.queue.push(Out::Close(close));
    }

    /// The close that waits, if one does.
    pub(super) fn closing(&self) -> Option<Close> {
        self.queue.look_at_last(|out| match out {
            Out::Close(close) => Some(*close),
            Out::Frame(_) => None,
        })
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
        let Some(Out::Frame(told)) = link.queue.pop() else { panic!("a word first") };
        assert!(String::from_utf8_lossy(&told).contains("\"slow\""));
        assert!(matches!(link.queue.pop(), Some(Out::Close(close::SLOW))));
        assert!(link.queue.pop().is_none());
    }

    #[test]
    fn bytes_are_bounded_too_and_a_close_comes_after_what_waits() {
        let link = RoomLink::new();
        link.push(Bytes::from(vec![0; MAX_QUEUED_BYTES - OVERHEAD])).expect("fits");
        link.queue.pop();
        link.push(Bytes::from_static(b"x")).expect("room again");
        link.close(close::KICKED);
        link.close(close::LEFT);
        assert!(matches!(link.queue.pop(), Some(Out::Frame(_))));
        assert!(matches!(link.queue.pop(), Some(Out::Close(close::KICKED))));
        assert!(link.queue.pop().is_none());
        let full = RoomLink::new();
        assert_eq!(full.push(Bytes::from(vec![0; MAX_QUEUED_BYTES])), Err(Slow));
    }
}
