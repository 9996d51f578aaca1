//! The way to the writer: a bounded queue from which it takes whole groups.
//!
//! A channel would wake the writer for the first change of a group and leave it to look again and again whether more
//! have come. Here whoever will append soon says so beforehand, and the writer is woken once: when all who are on their
//! way have come, or when it has waited long enough.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use convoke_core::journal::Draft;
use tokio::sync::{Semaphore, oneshot};

use super::journal;
use super::tail::{Homeless, Reply, Tail, Waiting};
use super::writer::{Awaiting, Numbers, Op, Request, Tx};
use crate::error::StoreError;
use crate::interface::{Expected, Result};

/// How long a group waits at the most for those who are on their way. A disk that syncs faster than they come would
/// otherwise make many small groups, each with a sync of its own, and a sync is what costs most.
const GATHER: Duration = Duration::from_millis(2);
/// How long after a group the writer waits for the next one to be whole before it asks to be woken by the first that
/// comes. Callers who go on at once are back by then, and the writer is woken once for them and not twice.
const SOON: Duration = Duration::from_millis(1);
/// How long a group that nobody waits for gathers company, unless someone comes who does wait.
const LINGER: Duration = Duration::from_millis(5);
/// How long records that are in the tail, and acknowledged, wait for the database, unless someone comes who does wait.
pub(super) const SETTLE: Duration = Duration::from_millis(40);
/// … or until there are so many: each may have a page of the tail to itself, and there are 1,024.
const SETTLE_AT: usize = 640;
/// Most changes in one transaction.
const MAX_GROUP: usize = 512;
/// A transaction takes no more changes once it holds this much.
const MAX_GROUP_BYTES: usize = 8 << 20;
/// What may wait for the writer, in KiB. Beyond it callers wait: nothing is dropped.
const QUEUE_KIB: usize = 16 << 10;

/// The way to the writer.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    shared: Arc<Open>,
    tail: Arc<Tail>,
    numbers: Arc<Numbers>,
}

/// The queue as long as someone may send: the last one who lets go of it closes it.
#[derive(Debug)]
struct Open(Arc<Shared>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.state().closed = true;
        self.0.arrived.notify_one();
    }
}

impl Deref for Open {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

/// The writer's end.
#[derive(Debug)]
pub(super) struct Incoming {
    shared: Arc<Shared>,
    /// [`GATHER`], but in tests.
    gather: Duration,
    /// [`SOON`], but in tests.
    soon: Duration,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    arrived: Condvar,
    /// Room in KiB.
    room: Semaphore,
    /// What a change takes of the room at the least, so that their number is bounded too.
    least: usize,
    limit: usize,
    waiting: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Queued>,
    /// How many of them someone waits for.
    urgent: usize,
    /// About how many records the tail has for the database.
    in_tail: usize,
    /// What the writer waits for; `None` while it does not wait.
    wake_at: Option<Wanted>,
    /// Groups taken so far.
    groups: u64,
    /// How many are on their way who said so since the last group, and since the one before it (by parity). Whoever
    /// takes longer than two groups is no longer waited for: a slow agent must not hold up the others.
    expected: [usize; 2],
    closed: bool,
}

#[derive(Clone, Copy, Debug)]
enum Wanted {
    /// Anyone, in the queue or in the tail.
    Any,
    /// Anyone in the queue, or many in the tail.
    Queued,
    /// Many, or one for whom someone waits.
    Many,
    /// Everyone who is on the way.
    Everyone,
    /// Someone who is waited for, and with them everyone who is on the way.
    Whole,
}

#[derive(Debug)]
struct Queued {
    op: Op,
    bytes: usize,
    room: usize,
}

/// What goes into one transaction.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) ops: Vec<Op>,
    pub(super) bytes: usize,
}

/// A queue for at most `limit` changes, and its two ends.
pub(super) fn queue(limit: usize, tail: Arc<Tail>, numbers: Arc<Numbers>) -> (Queue, Incoming) {
    let limit = limit.clamp(1, QUEUE_KIB);
    let shared = Arc::new(Shared {
        state: Mutex::default(),
        arrived: Condvar::new(),
        room: Semaphore::new(QUEUE_KIB),
        least: QUEUE_KIB / limit,
        limit,
        waiting: AtomicUsize::new(0),
    });
    (
        Queue { shared: Arc::new(Open(Arc::clone(&shared))), tail, numbers },
        Incoming { shared, gather: GATHER, soon: SOON },
    )
}

impl Queue {
    /// Hands a change over; waits while the queue is full.
    pub(super) async fn send(&self, op: Op, bytes: usize) -> Result<()> {
        let room = self.room(bytes).await?;
        self.shared.push(Queued { op, bytes, room }, None)
    }

    /// Waits for room in the queue.
    async fn room(&self, bytes: usize) -> Result<usize> {
        let room = (bytes / 1024 + 1).clamp(self.shared.least, QUEUE_KIB);
        let permit = self.shared.room.acquire_many(u32::try_from(room).unwrap_or(u32::MAX));
        // Given back by the writer when the change leaves the queue.
        permit.await.map_err(|_| StoreError::Closed)?.forget();
        Ok(room)
    }

    /// Makes a change and waits until it is committed. Once it is queued it is made, even if nobody waits any more.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce(&mut Tx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        self.send(Op::Work(Box::new(Request::new(work, reply))), bytes).await?;
        answer.await.map_err(|_| StoreError::Closed)?
    }

    /// Says that a record will come soon.
    pub(super) fn announce(&self) -> Expected {
        let mut state = self.shared.state();
        let groups = state.groups;
        state.expected[parity(groups)] += 1;
        Expected(groups)
    }

    /// Appends a record and waits until it is in the tail or committed.
    pub(super) async fn append(&self, draft: Draft) -> Result<u64> {
        let (reply, answer) = oneshot::channel();
        if let Err((draft, reply)) = self.append_to_tail(Box::new(draft), reply, None) {
            let bytes = journal::weight(&draft);
            self.send(Op::Append(draft, reply), bytes).await?;
        }
        answer.await.map_err(|_| StoreError::Closed)?
    }

    /// Gives a record its place in the tail, if it can have one there.
    fn append_to_tail(
        &self,
        draft: Box<Draft>,
        reply: Reply,
        expected: Option<Expected>,
    ) -> std::result::Result<(), Homeless> {
        let is_whole = self.shared.arrived(expected);
        if !self.tail.is_open() {
            return Err((draft, reply));
        }
        self.tail.append(draft, reply, is_whole)?;
        self.shared.is_in_tail();
        Ok(())
    }

    /// Appends a record that was announced, without waiting for anything.
    pub(super) fn append_expected(
        &self,
        draft: Box<Draft>,
        expected: Expected,
        committed: oneshot::Sender<Result<u64>>,
    ) {
        if let Err((draft, committed)) = self.append_to_tail(draft, committed, Some(expected)) {
            let queued = Queued { bytes: journal::weight(&draft), op: Op::Append(draft, committed), room: 0 };
            // Refused, it is dropped, which tells that the store is closed.
            let _ = self.shared.push(queued, None);
        }
    }

    /// Waits until the database has every record that was acknowledged. If it cannot be written, what it has must do.
    pub(super) async fn settle(&self) {
        if !self.tail.is_settled() {
            let _ = self.run(0, |_| Ok(())).await;
        }
    }

    /// Whether records can be acknowledged before the database has them.
    pub(super) fn tail_is_open(&self) -> bool {
        self.tail.is_open()
    }

    #[cfg(test)]
    pub(super) fn is_closed(&self) -> bool {
        self.shared.state().closed
    }

    #[cfg(test)]
    pub(super) fn tail(&self) -> &Tail {
        &self.tail
    }

    /// How many records wait for the writer to give the journal's end back.
    #[cfg(test)]
    pub(super) fn parked(&self) -> usize {
        self.tail.parked()
    }

    /// What the tail needs to know of the others, and they of it.
    pub(super) fn rounds(&self) -> Rounds {
        Rounds { shared: Arc::clone(&self.shared.0), numbers: Arc::clone(&self.numbers) }
    }

    pub(super) fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    pub(super) fn waiting(&self) -> usize {
        self.shared.waiting.load(Relaxed)
    }

    pub(super) fn limit(&self) -> usize {
        self.shared.limit
    }
}

/// The tail's view of the queue.
#[derive(Debug)]
pub(super) struct Rounds {
    shared: Arc<Shared>,
    numbers: Arc<Numbers>,
}

impl Rounds {
    /// A frame goes to the disk: whoever said that they would come before the last one is late.
    pub(super) fn next(&self) {
        self.shared.state().next_group();
    }

    /// Those wait for the database, which has their records, or will with the next commit. They come back where the writer
    /// takes nothing any more: its last transaction has their records.
    #[must_use]
    pub(super) fn commit(&self, waiting: Waiting) -> Waiting {
        let mut state = self.shared.state();
        if state.closed {
            return waiting;
        }
        state.push(Queued { op: Op::Work(Box::new(Awaiting(waiting))), bytes: 0, room: 0 });
        self.shared.pushed(state);
        Vec::new()
    }

    /// So many records are in the tail, and the journal goes up to here.
    pub(super) fn acknowledged(&self, records: usize, seq: u64) {
        self.numbers.tail_records.fetch_add(records as u64, Relaxed);
        self.numbers.journal_seq.fetch_max(seq, Relaxed);
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, queued: Queued, expected: Option<Expected>) -> Result<()> {
        let mut state = self.state();
        if state.closed {
            return Err(StoreError::Closed);
        }
        state.arrived(expected);
        state.push(queued);
        self.pushed(state);
        Ok(())
    }

    fn pushed(&self, state: MutexGuard<'_, State>) {
        self.waiting.store(state.waiting.len(), Relaxed);
        self.wake(state);
    }

    /// One who said so is here. Answers whether all are.
    fn arrived(&self, expected: Option<Expected>) -> bool {
        let mut state = self.state();
        state.arrived(expected);
        state.is_whole()
    }

    /// The tail has a record for the database.
    fn is_in_tail(&self) {
        let mut state = self.state();
        state.in_tail += 1;
        self.wake(state);
    }

    /// Wakes the writer if it waits for what is there now.
    fn wake(&self, mut state: MutexGuard<'_, State>) {
        let wake = state.wake_at.is_some_and(|wanted| state.has(wanted));
        if wake {
            state.wake_at = None;
        }
        drop(state);
        if wake {
            self.arrived.notify_one();
        }
    }
}

impl State {
    fn push(&mut self, queued: Queued) {
        self.urgent += usize::from(queued.op.is_urgent());
        self.waiting.push_back(queued);
    }

    fn has(&self, wanted: Wanted) -> bool {
        let enough = match wanted {
            Wanted::Any => !self.waiting.is_empty() || self.in_tail > 0,
            Wanted::Queued => !self.waiting.is_empty() || self.in_tail >= SETTLE_AT,
            Wanted::Many => self.urgent > 0 || self.waiting.len() >= MAX_GROUP / 2,
            Wanted::Everyone => self.is_whole(),
            Wanted::Whole => (self.urgent > 0 && self.is_whole()) || self.waiting.len() >= MAX_GROUP / 2,
        };
        self.closed || enough
    }

    /// Nobody is on the way any more, or they would not fit.
    fn is_whole(&self) -> bool {
        self.expected == [0, 0] || self.waiting.len() >= MAX_GROUP
    }

    /// One who said so is here.
    fn arrived(&mut self, expected: Option<Expected>) {
        if let Some(Expected(groups)) = expected
            && groups + 1 >= self.groups
        {
            self.expected[parity(groups)] -= 1;
        }
    }

    /// A group was taken: whoever said before the last one that they would come is late.
    fn next_group(&mut self) {
        self.groups += 1;
        self.expected[parity(self.groups)] = 0;
    }
}

const fn parity(groups: u64) -> usize {
    (groups % 2) as usize
}

impl Incoming {
    /// The next group; waits for it. It may be empty, when there is only the tail to settle. None when nobody can send any
    /// more and everything was taken.
    pub(super) fn next_group(&mut self) -> Option<Group> {
        let mut state = self.shared.state();
        state = self.wait(state, Wanted::Whole, Some(self.soon));
        state = self.wait(state, Wanted::Any, None);
        if state.waiting.is_empty() {
            state = self.wait(state, Wanted::Queued, Some(SETTLE));
        }
        if state.urgent == 0 && !state.waiting.is_empty() {
            state = self.wait(state, Wanted::Many, Some(LINGER));
        }
        if state.urgent > 0 {
            state = self.wait(state, Wanted::Everyone, Some(self.gather));
        }
        let (mut group, mut room, mut urgent) = (Group::default(), 0, 0);
        group.ops.reserve(state.waiting.len().min(MAX_GROUP));
        while group.ops.len() < MAX_GROUP && group.bytes < MAX_GROUP_BYTES {
            let Some(next) = state.waiting.pop_front() else { break };
            group.bytes += next.bytes;
            room += next.room;
            urgent += usize::from(next.op.is_urgent());
            group.ops.push(next.op);
        }
        state.urgent -= urgent;
        let in_tail = std::mem::take(&mut state.in_tail);
        // Frames have rounds of their own.
        if urgent > 0 {
            state.next_group();
        }
        self.shared.waiting.store(state.waiting.len(), Relaxed);
        drop(state);
        self.shared.room.add_permits(room);
        (!group.ops.is_empty() || in_tail > 0).then_some(group)
    }

    /// The tail has records for the database that nobody told of, or that have to be tried again.
    pub(super) fn come_back(&self) {
        let mut state = self.shared.state();
        // Whoever closes tries once more, and no longer.
        state.in_tail += usize::from(!state.closed);
    }

    /// Queues what came back from the tail.
    pub(super) fn push(&self, (draft, reply): Homeless) {
        let queued = Queued { bytes: journal::weight(&draft), op: Op::Append(draft, reply), room: 0 };
        // Refused, it is dropped, which tells that the store is closed.
        let _ = self.shared.push(queued, None);
    }

    /// Waits until that many are there, or until the time is over.
    fn wait<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        wanted: Wanted,
        at_most: Option<Duration>,
    ) -> MutexGuard<'a, State> {
        let until = at_most.map(|at_most| Instant::now() + at_most);
        while !state.has(wanted) {
            state.wake_at = Some(wanted);
            state = match until {
                None => self.shared.arrived.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        break;
                    }
                    self.shared.arrived.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        state.wake_at = None;
        state
    }
}

impl Drop for Incoming {
    /// What is still queued is refused, not forgotten: dropping it answers `Closed`.
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.closed = true;
        let refused = std::mem::take(&mut state.waiting);
        drop(state);
        self.shared.room.close();
        drop(refused);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use convoke_core::id::HubId;
    use convoke_core::journal::{Chain, Kind};
    use convoke_core::time::Timestamp;

    use super::*;
    use crate::interface::Lossy;

    fn patient() -> (Queue, Incoming) {
        let tail = Tail::new(Chain::new(HubId::new(uuid::Uuid::nil())));
        let (queue, mut incoming) = queue(100, tail, Arc::default());
        (incoming.gather, incoming.soon) = (Duration::from_secs(3600), Duration::ZERO);
        (queue, incoming)
    }

    /// Queues a record whose commit nobody waits for here.
    fn push(queue: &Queue, expected: Option<Expected>) {
        let draft = Draft::new(Timestamp::from_millis(0), Kind::Call);
        let (reply, _) = oneshot::channel();
        let op = Op::Append(Box::new(draft), reply);
        queue.shared.push(Queued { op, bytes: 1, room: 0 }, expected).expect("takes it");
    }

    #[test]
    fn a_group_waits_for_all_who_are_on_their_way() {
        let (queue, mut incoming) = patient();
        let [first, second, third] = [(); 3].map(|()| queue.announce());
        let writer = thread::spawn(move || incoming.next_group().map(|group| group.ops.len()));
        push(&queue, Some(first));
        push(&queue, None);
        push(&queue, Some(second));
        assert!(!writer.is_finished(), "one has not come yet");
        push(&queue, Some(third));
        assert_eq!(writer.join().expect("no panic"), Some(4));
    }

    #[test]
    fn right_after_a_group_the_writer_is_woken_once_for_the_next() {
        let (queue, mut incoming) = patient();
        incoming.soon = Duration::from_secs(3600);
        let [first, second] = [(); 2].map(|()| queue.announce());
        let writer = thread::spawn(move || incoming.next_group().map(|group| group.ops.len()));
        while queue.shared.state().wake_at.is_none() {
            thread::yield_now();
        }
        push(&queue, Some(first));
        let wake_at = queue.shared.state().wake_at;
        assert!(matches!(wake_at, Some(Wanted::Whole)), "woken, though the other one is on the way: {wake_at:?}");
        push(&queue, Some(second));
        assert_eq!(writer.join().expect("no panic"), Some(2));
    }

    #[test]
    fn many_that_nobody_waits_for_do_not_wait_for_the_time_to_be_over() {
        let (queue, mut incoming) = patient();
        incoming.soon = Duration::from_secs(3600);
        let lossy = || Queued { op: Op::Lossy(Box::new(Lossy::Logs(Vec::new()))), bytes: 1, room: 0 };
        for _ in 0..MAX_GROUP / 2 {
            queue.shared.push(lossy(), None).expect("takes it");
        }
        assert_eq!(incoming.next_group().map(|group| group.ops.len()), Some(MAX_GROUP / 2));
    }

    #[test]
    fn whoever_comes_alone_waits_for_nobody() {
        let (queue, mut incoming) = patient();
        push(&queue, None);
        assert_eq!(incoming.next_group().map(|group| group.ops.len()), Some(1));
        let expected = queue.announce();
        push(&queue, Some(expected));
        assert_eq!(incoming.next_group().map(|group| group.ops.len()), Some(1));
    }

    #[test]
    fn a_slow_one_is_waited_for_during_two_groups_and_may_still_come() {
        let (queue, mut incoming) = patient();
        let slow = queue.announce();
        for _ in 0..2 {
            queue.shared.state().next_group();
        }
        let quick = queue.announce();
        push(&queue, Some(quick));
        assert_eq!(incoming.next_group().map(|group| group.ops.len()), Some(1));
        let another = queue.announce();
        push(&queue, Some(slow));
        assert_eq!(queue.shared.state().expected.iter().sum::<usize>(), 1, "the slow one no longer counts");
        push(&queue, Some(another));
        assert_eq!(incoming.next_group().map(|group| group.ops.len()), Some(2));
    }

    #[test]
    fn a_closed_queue_gives_what_it_has_and_ends() {
        let (queue, mut incoming) = patient();
        let _never_comes = queue.announce();
        push(&queue, None);
        drop(queue);
        assert_eq!(incoming.next_group().map(|group| group.ops.len()), Some(1));
        assert!(incoming.next_group().is_none());
    }
}
