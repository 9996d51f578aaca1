//! What a connection is asked to do: a bounded queue that many fill and the connection's task empties.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use tokio::sync::Notify;

/// Something that waits in a [`Queue`].
pub trait Item {
    /// Most messages that wait.
    const MAX_MESSAGES: usize;
    /// Most bytes that wait.
    const MAX_BYTES: usize;

    /// Where it waits.
    fn rank(&self) -> Rank;

    /// Its share of [`Item::MAX_BYTES`].
    fn size(&self) -> usize;

    /// When it must not go out any more.
    fn deadline(&self) -> Option<Duration> {
        None
    }
}

/// Where an item waits, and whether a full queue refuses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rank {
    /// Before everything, and always taken: a close must get through.
    First,
    /// Before messages, always taken, and handed out even while the peer does not read.
    Notice,
    /// In its turn; a full queue refuses it.
    Message,
    /// In its turn, and always taken. One that waits stands for all.
    Hint,
    /// In its turn, and always taken; nothing is taken after it.
    Last,
}

/// An item was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The connection has ended, or is told to.
    Ended,
    /// The queue is full.
    Full,
}

/// A bounded queue with one reader. An empty one holds no memory for items.
#[derive(Debug)]
pub struct Queue<T> {
    state: Mutex<State<T>>,
    /// Those who wait for space.
    space: Notify,
}

#[derive(Debug)]
struct State<T> {
    items: VecDeque<T>,
    /// Items of rank [`Rank::Notice`]: at most a few for each message that was sent.
    notices: VecDeque<T>,
    bytes: usize,
    /// An item of rank [`Rank::Hint`] waits.
    hint: bool,
    ended: bool,
    /// Somebody waited for space in vain: nobody waits again until half of the queue is free.
    slow: bool,
    /// The connection's task, while it waits for an item.
    reader: Option<Waker>,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        let state = State {
            items: VecDeque::new(),
            notices: VecDeque::new(),
            bytes: 0,
            hint: false,
            ended: false,
            slow: false,
            reader: None,
        };
        Self { state: Mutex::new(state), space: Notify::new() }
    }
}

impl<T: Item> State<T> {
    /// Whether the next item comes before all others.
    fn is_first_due(&self) -> bool {
        self.items.front().is_some_and(|item| item.rank() == Rank::First)
    }

    fn pop_notice(&mut self) -> Option<T> {
        let notice = self.notices.pop_front()?;
        if self.notices.is_empty() {
            self.notices = VecDeque::new();
        }
        Some(notice)
    }

    fn pop(&mut self) -> Option<T> {
        if !self.is_first_due()
            && let Some(notice) = self.pop_notice()
        {
            return Some(notice);
        }
        let item = self.items.pop_front()?;
        self.removed(&item);
        Some(item)
    }

    fn removed(&mut self, item: &T) {
        self.bytes -= item.size();
        self.hint &= item.rank() != Rank::Hint;
        if self.items.is_empty() {
            self.items = VecDeque::new();
        }
    }

    fn is_half_free(&self) -> bool {
        self.items.len() <= T::MAX_MESSAGES / 2 && self.bytes <= T::MAX_BYTES / 2
    }

    fn next_deadline(&self) -> Option<Duration> {
        self.items.iter().filter_map(T::deadline).min()
    }
}

impl<T: Item> Queue<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        // A panic while holding it leaves a queue that is still whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an item, as its rank says.
    pub fn push(&self, item: T) -> Result<(), Refused> {
        self.try_push(item).map_err(|(refused, _)| refused)
    }

    /// Takes an item of at most [`Item::MAX_BYTES`]; while the queue is full, waits for space. Gives the item back if the
    /// connection has ended.
    pub async fn send(&self, mut item: T) -> Result<(), T> {
        loop {
            let notified = self.space.notified();
            match self.try_push(item) {
                Ok(()) => return Ok(()),
                Err((Refused::Ended, back)) => return Err(back),
                Err((Refused::Full, back)) => item = back,
            }
            notified.await;
        }
    }

    fn try_push(&self, item: T) -> Result<(), (Refused, T)> {
        let mut state = self.state();
        if state.ended {
            return Err((Refused::Ended, item));
        }
        let size = item.size();
        match item.rank() {
            Rank::Message if state.items.len() >= T::MAX_MESSAGES || state.bytes + size > T::MAX_BYTES => {
                return Err((Refused::Full, item));
            }
            Rank::Hint if state.hint => return Ok(()),
            Rank::First => state.items.push_front(item),
            Rank::Notice => state.notices.push_back(item),
            rank => {
                state.hint |= rank == Rank::Hint;
                state.ended = rank == Rank::Last;
                state.items.push_back(item);
            }
        }
        state.bytes += size;
        let reader = state.reader.take();
        drop(state);
        if let Some(reader) = reader {
            reader.wake();
        }
        Ok(())
    }

    /// Waits until half of the messages and bytes of a full queue are free, or the connection has ended. Returns at once
    /// if the reader is slow.
    pub async fn wait_for_space(&self) {
        loop {
            let notified = self.space.notified();
            {
                let state = self.state();
                if state.ended || state.slow || state.is_half_free() {
                    return;
                }
            }
            notified.await;
        }
    }

    /// Nobody waits for space any more, until half of the queue is free.
    pub fn set_slow(&self) {
        self.state().slow = true;
        self.space.notify_waiters();
    }

    /// Waits for the next item. While the peer does not read (`may_send` is false), waits only for what is first and for
    /// notices, and for a message that must be given up before `due`: then there is no item, and
    /// [`Queue::take_overdue`] gives it. For one task. Cancel-safe: an item is taken in the same poll that returns it.
    pub async fn next(&self, may_send: bool, due: Duration) -> Option<T> {
        poll_fn(|cx| {
            let mut state = self.state();
            if (may_send || state.is_first_due() || !state.notices.is_empty())
                && let Some(item) = state.pop()
            {
                self.wake_waiters(state);
                return Poll::Ready(Some(item));
            }
            if !may_send && state.next_deadline().is_some_and(|deadline| deadline < due) {
                return Poll::Ready(None);
            }
            state.reader = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Waits until there is an item, or nothing more will come. For one task. Cancel-safe.
    pub async fn ready(&self) {
        poll_fn(|cx| {
            let mut state = self.state();
            if state.ended || !state.items.is_empty() || !state.notices.is_empty() {
                return Poll::Ready(());
            }
            state.reader = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// The next item, if there is one.
    pub fn pop(&self) -> Option<T> {
        let mut state = self.state();
        let item = state.pop();
        self.wake_waiters(state);
        item
    }

    /// The next item of rank [`Rank::Notice`], if there is one.
    pub fn pop_notice(&self) -> Option<T> {
        self.state().pop_notice()
    }

    fn wake_waiters(&self, mut state: MutexGuard<'_, State<T>>) {
        let is_half_free = state.is_half_free();
        state.slow &= !is_half_free;
        drop(state);
        if is_half_free {
            self.space.notify_waiters();
        }
    }

    /// Takes out the first item that `is_wanted`, wherever it waits.
    pub fn take(&self, is_wanted: impl Fn(&T) -> bool) -> Option<T> {
        let mut state = self.state();
        let at = state.items.iter().position(is_wanted)?;
        let item = state.items.remove(at)?;
        state.removed(&item);
        Some(item)
    }

    /// When the first of the items that wait must be given up.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.state().next_deadline()
    }

    /// Takes out the items that must not go out any more.
    pub fn take_overdue(&self, now: Duration) -> Vec<T> {
        let mut state = self.state();
        if state.next_deadline().is_none_or(|deadline| deadline > now) {
            return Vec::new();
        }
        let is_overdue = |item: &T| item.deadline().is_some_and(|deadline| deadline <= now);
        let (overdue, rest): (Vec<_>, Vec<_>) = state.items.drain(..).partition(is_overdue);
        state.items = VecDeque::from(rest);
        overdue.iter().for_each(|item| state.removed(item));
        overdue
    }

    /// Replaces all that waits by `items`; nothing is taken any more.
    pub fn end_with(&self, items: impl IntoIterator<Item = T>) {
        let mut state = self.state();
        state.items = items.into_iter().collect();
        state.bytes = state.items.iter().map(T::size).sum();
        (state.notices, state.hint, state.ended) = (VecDeque::new(), false, true);
        let reader = state.reader.take();
        drop(state);
        if let Some(reader) = reader {
            reader.wake();
        }
        self.space.notify_waiters();
    }

    /// The connection has ended: nothing is taken any more. Returns the items that waited, without notices.
    pub fn end(&self) -> VecDeque<T> {
        let mut state = self.state();
        (state.notices, state.bytes, state.ended, state.reader) = (VecDeque::new(), 0, true, None);
        let left = std::mem::take(&mut state.items);
        drop(state);
        self.space.notify_waiters();
        left
    }

    /// Whether nothing is taken any more.
    pub fn has_ended(&self) -> bool {
        self.state().ended
    }

    /// Whether an item that `is_wanted` waits.
    pub fn holds(&self, is_wanted: impl Fn(&T) -> bool) -> bool {
        self.state().items.iter().any(is_wanted)
    }

    /// What `look` makes of the last item.
    pub fn look_at_last<U>(&self, look: impl Fn(&T) -> Option<U>) -> Option<U> {
        self.state().items.back().and_then(look)
    }

    /// How many items wait.
    pub fn depth(&self) -> usize {
        let state = self.state();
        state.items.len() + state.notices.len()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const MAX: usize = 8;
    const NEVER: Duration = Duration::MAX;

    #[derive(Debug, PartialEq, Eq)]
    struct Note {
        rank: Rank,
        size: usize,
        deadline_s: Option<u64>,
    }

    impl Item for Note {
        const MAX_MESSAGES: usize = MAX;
        const MAX_BYTES: usize = 100;

        fn rank(&self) -> Rank {
            self.rank
        }

        fn size(&self) -> usize {
            self.size
        }

        fn deadline(&self) -> Option<Duration> {
            self.deadline_s.map(Duration::from_secs)
        }
    }

    fn note(rank: Rank) -> Note {
        Note { rank, size: usize::from(rank == Rank::Message), deadline_s: None }
    }

    fn message(size: usize, deadline_s: u64) -> Note {
        Note { rank: Rank::Message, size, deadline_s: Some(deadline_s) }
    }

    fn full() -> Queue<Note> {
        let queue = Queue::default();
        for _ in 0..MAX {
            queue.push(note(Rank::Message)).expect("space");
        }
        queue
    }

    fn ranks(queue: &Queue<Note>) -> Vec<Rank> {
        std::iter::from_fn(|| queue.pop()).map(|note| note.rank).filter(|rank| *rank != Rank::Message).collect()
    }

    #[test]
    fn a_full_queue_refuses_messages_and_nothing_else() {
        let queue = full();
        assert_eq!(queue.push(note(Rank::Message)), Err(Refused::Full));
        for rank in [Rank::Hint, Rank::Hint, Rank::Notice, Rank::First] {
            queue.push(note(rank)).expect("always taken");
        }
        assert_eq!(queue.depth(), MAX + 3, "one hint is enough");
        assert_eq!(ranks(&queue), [Rank::First, Rank::Notice, Rank::Hint]);
        queue.push(note(Rank::Hint)).expect("taken again once the last was handed out");
        assert_eq!(ranks(&queue), [Rank::Hint]);
    }

    #[test]
    fn bytes_are_bounded_too() {
        let queue = Queue::default();
        queue.push(message(100, 1)).expect("fits");
        assert_eq!(queue.push(note(Rank::Message)), Err(Refused::Full));
        queue.pop();
        queue.push(message(100, 1)).expect("space again");
        queue.take(|note| note.size == 100).expect("it waits");
        queue.push(message(100, 1)).expect("space again");
    }

    #[test]
    fn nothing_is_taken_after_the_last_or_the_end() {
        let queue = full();
        queue.push(note(Rank::Last)).expect("always taken");
        assert_eq!(queue.push(note(Rank::First)), Err(Refused::Ended));
        assert_eq!(queue.look_at_last(|note| Some(note.rank)), Some(Rank::Last));
        assert_eq!(ranks(&queue), [Rank::Last]);
        let queue = full();
        assert_eq!(queue.end().len(), MAX);
        assert_eq!((queue.push(note(Rank::First)), queue.depth()), (Err(Refused::Ended), 0));
        let queue = full();
        queue.end_with([note(Rank::Message), note(Rank::Last)]);
        assert_eq!((queue.push(note(Rank::Hint)), queue.depth()), (Err(Refused::Ended), 2));
    }

    #[test]
    fn only_what_is_overdue_is_taken_out_of_the_middle() {
        let queue = Queue::default();
        for item in [message(1, 30), message(97, 10), note(Rank::Hint), message(1, 20)] {
            queue.push(item).expect("space");
        }
        let s = Duration::from_secs;
        assert_eq!((queue.next_deadline(), queue.take_overdue(s(9)).len(), queue.depth()), (Some(s(10)), 0, 4));
        assert_eq!((queue.take_overdue(s(10)).len(), queue.next_deadline()), (1, Some(s(20))));
        queue.push(message(97, 40)).expect("its bytes are free again");
        let left: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|note| note.deadline_s).collect();
        assert_eq!(left, [Some(30), None, Some(20), Some(40)]);
    }

    #[tokio::test]
    async fn while_the_peer_does_not_read_only_an_earlier_deadline_notices_and_what_is_first_are_seen() {
        let queue = Arc::new(Queue::default());
        let waiting = tokio::spawn({
            let queue = Arc::clone(&queue);
            async move { (queue.next(false, Duration::from_secs(10)).await, queue.depth()) }
        });
        for later in [message(1, 30), message(1, 10), message(1, 9)] {
            assert!(!waiting.is_finished());
            queue.push(later).expect("space");
            tokio::task::yield_now().await;
        }
        assert_eq!(waiting.await.expect("no panic"), (None, 3), "nothing is taken");
        queue.push(note(Rank::Notice)).expect("always taken");
        queue.push(note(Rank::First)).expect("always taken");
        for rank in [Rank::First, Rank::Notice] {
            assert_eq!(queue.next(false, Duration::ZERO).await, Some(note(rank)));
        }
    }

    #[tokio::test]
    async fn the_reader_sees_what_is_pushed_later() {
        let queue = Arc::new(Queue::default());
        let waiting = tokio::spawn({
            let queue = Arc::clone(&queue);
            async move { queue.next(true, NEVER).await }
        });
        queue.push(note(Rank::Message)).expect("space");
        assert_eq!(waiting.await.expect("no panic"), Some(note(Rank::Message)));
    }

    #[tokio::test]
    async fn a_sender_waits_for_space_unless_the_reader_is_slow() {
        let queue = Arc::new(full());
        let waiting = tokio::spawn({
            let queue = Arc::clone(&queue);
            async move { queue.wait_for_space().await }
        });
        while queue.pop().is_some() {}
        waiting.await.expect("goes on");
        let queue = full();
        queue.set_slow();
        queue.wait_for_space().await;
    }

    #[tokio::test]
    async fn what_is_sent_waits_for_space_and_comes_back_at_the_end() {
        let queue = Arc::new(full());
        let sending = tokio::spawn({
            let queue = Arc::clone(&queue);
            async move { (queue.send(message(60, 1)).await, queue.send(message(60, 2)).await) }
        });
        let mut taken = Vec::new();
        while taken.last().is_none_or(|note: &Note| note.deadline_s != Some(1)) {
            taken.extend(queue.next(true, NEVER).await);
        }
        assert_eq!(taken.len(), MAX + 1);
        while queue.depth() == 0 {
            tokio::task::yield_now().await;
        }
        for item in [message(40, 3), note(Rank::Hint)] {
            queue.push(item).expect("space");
        }
        let late = tokio::spawn({
            let queue = Arc::clone(&queue);
            async move { queue.send(message(1, 4)).await }
        });
        tokio::task::yield_now().await;
        assert_eq!(queue.end().len(), 3);
        assert_eq!(late.await.expect("no panic"), Err(message(1, 4)));
        assert_eq!(sending.await.expect("no panic"), (Ok(()), Ok(())));
    }
}
