//! The way to the writer: a bounded queue from which it takes whole groups.
//!
//! A channel would wake the writer for the first change of a group and leave it to look again and again whether more
//! have come. Here the writer says for how many it waits, and is woken once: when they are there, or when it has
//! waited long enough.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use convoke_core::journal::Draft;
use tokio::sync::{Semaphore, oneshot};

use super::journal;
use super::writer::{Numbers, Op, Request, Tx};
use crate::error::StoreError;
use crate::interface::Result;

/// How long a group waits at the most for those who were in the last one too: they were answered a moment ago, and
/// under load their next changes are on the way. A disk that syncs faster than this would otherwise make many small
/// groups, each with a sync of its own.
const GATHER: Duration = Duration::from_micros(900);
/// Smaller groups do not wait for company.
const GATHER_FROM: usize = 4;
/// How long a group that nobody waits for gathers company, unless someone comes who does wait.
const LINGER: Duration = Duration::from_millis(5);
/// Most changes in one transaction.
const MAX_GROUP: usize = 512;
/// A transaction takes no more changes once it holds this much.
const MAX_GROUP_BYTES: usize = 8 << 20;
/// What may wait for the writer, in KiB. Beyond it callers wait: nothing is dropped.
const QUEUE_KIB: usize = 64 << 10;

/// The way to the writer.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    shared: Arc<Open>,
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
    last_group: usize,
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
    /// Wake the writer when this many wait, or this many urgent ones; `None` while it does not wait.
    wake_at: Option<Wanted>,
    closed: bool,
}

#[derive(Clone, Copy, Debug)]
struct Wanted {
    any: usize,
    urgent: usize,
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
pub(super) fn queue(limit: usize, numbers: Arc<Numbers>) -> (Queue, Incoming) {
    let limit = limit.clamp(1, QUEUE_KIB);
    let shared = Arc::new(Shared {
        state: Mutex::default(),
        arrived: Condvar::new(),
        room: Semaphore::new(QUEUE_KIB),
        least: QUEUE_KIB / limit,
        limit,
        waiting: AtomicUsize::new(0),
    });
    (Queue { shared: Arc::new(Open(Arc::clone(&shared))), numbers }, Incoming { shared, last_group: 0 })
}

impl Queue {
    /// Hands a change over; waits while the queue is full.
    pub(super) async fn send(&self, op: Op, bytes: usize) -> Result<()> {
        let room = (bytes / 1024 + 1).clamp(self.shared.least, QUEUE_KIB);
        let permit = self.shared.room.acquire_many(u32::try_from(room).unwrap_or(u32::MAX));
        // Given back by the writer when the change leaves the queue.
        permit.await.map_err(|_| StoreError::Closed)?.forget();
        self.shared.push(Queued { op, bytes, room })
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

    /// Appends a record and waits until it is committed.
    pub(super) async fn append(&self, draft: Draft) -> Result<u64> {
        let (reply, answer) = oneshot::channel();
        let bytes = journal::weight(&draft);
        self.send(Op::Append(draft, reply), bytes).await?;
        answer.await.map_err(|_| StoreError::Closed)?
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

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, queued: Queued) -> Result<()> {
        let mut state = self.state();
        if state.closed {
            return Err(StoreError::Closed);
        }
        state.urgent += usize::from(queued.op.is_urgent());
        state.waiting.push_back(queued);
        self.waiting.store(state.waiting.len(), Relaxed);
        let wake = state.wake_at.is_some_and(|wanted| state.has(wanted));
        if wake {
            state.wake_at = None;
        }
        drop(state);
        if wake {
            self.arrived.notify_one();
        }
        Ok(())
    }
}

impl State {
    fn has(&self, wanted: Wanted) -> bool {
        self.closed || self.waiting.len() >= wanted.any || self.urgent >= wanted.urgent
    }
}

impl Incoming {
    /// The next group; waits for it. None when nobody can send any more and everything was taken.
    pub(super) fn next_group(&mut self) -> Option<Group> {
        let mut state = self.shared.state();
        state = self.wait(state, Wanted { any: 1, urgent: 1 }, None);
        if self.last_group >= GATHER_FROM {
            let same_again = Wanted { any: MAX_GROUP, urgent: self.last_group };
            state = self.wait(state, same_again, Some(GATHER));
        }
        if state.urgent == 0 {
            state = self.wait(state, Wanted { any: MAX_GROUP / 2, urgent: 1 }, Some(LINGER));
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
        self.shared.waiting.store(state.waiting.len(), Relaxed);
        drop(state);
        self.shared.room.add_permits(room);
        // Those whom nobody waits for are no sign that others will come.
        self.last_group = urgent;
        (!group.ops.is_empty()).then_some(group)
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
