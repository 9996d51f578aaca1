//! The queue between the callers and the writer thread: bounded, in order, and taken in groups.

mod line;

use std::sync::{self, Arc};
use std::time::Duration;

use convoke_core::journal::Draft;
use tokio::sync::{Semaphore, oneshot};

use super::journal;
use super::writer::{Numbers, Op, Request, Tx, Withdrawal};
use crate::Result;
use crate::error::StoreError;
use line::{Item, Line};

/// How long a group that nobody waits for gathers, unless an urgent change arrives: each commit costs a sync.
const LINGER: Duration = Duration::from_millis(5);
/// Most changes in one transaction.
const MAX_GROUP: usize = 512;
/// A transaction takes no more changes once it holds this many bytes.
const MAX_GROUP_BYTES: usize = 8 << 20;
/// Most KiB that wait for the writer. At the limit callers wait; nothing is dropped.
const QUEUE_KIB: usize = 16 << 10;

/// The callers' end. When the last clone is dropped, the writer takes what is queued and stops.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    shared: Arc<CallersEnd>,
    numbers: Arc<Numbers>,
}

/// Closes the queue when the last caller is gone.
#[derive(Debug)]
struct CallersEnd(Arc<Shared>);

impl Drop for CallersEnd {
    fn drop(&mut self) {
        self.0.line.close();
    }
}

/// The writer's end.
#[derive(Debug)]
pub(crate) struct Incoming {
    shared: Arc<Shared>,
    /// [`LINGER`], but in tests.
    linger: Duration,
}

#[derive(Debug)]
struct Shared {
    line: Line<Queued>,
    /// Free KiB.
    space: Semaphore,
    /// What a change takes of the space at least, so that their number is bounded too.
    least_kib: usize,
    limit: usize,
}

#[derive(Debug)]
struct Queued {
    op: Op,
    bytes: usize,
    kib: usize,
}

impl Item for Queued {
    fn is_urgent(&self) -> bool {
        self.op.is_urgent()
    }
}

/// What goes into one transaction.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(crate) ops: Vec<Op>,
    pub(crate) bytes: usize,
}

/// A queue for at most `limit` changes, and its two ends.
pub(crate) fn queue(limit: usize, numbers: Arc<Numbers>) -> (Queue, Incoming) {
    let limit = limit.clamp(1, QUEUE_KIB);
    let shared =
        Arc::new(Shared { line: Line::new(), space: Semaphore::new(QUEUE_KIB), least_kib: QUEUE_KIB / limit, limit });
    let callers = CallersEnd(Arc::clone(&shared));
    (Queue { shared: Arc::new(callers), numbers }, Incoming { shared, linger: LINGER })
}

impl Queue {
    /// Queues a change of about `bytes`; waits while the queue is full.
    pub(crate) async fn send(&self, op: Op, bytes: usize) -> Result<()> {
        let shared = &self.shared.0;
        let kib = (bytes / 1024 + 1).clamp(shared.least_kib, QUEUE_KIB);
        let permit = shared.space.acquire_many(u32::try_from(kib).unwrap_or(u32::MAX)).await;
        // The writer gives it back when it takes the change.
        permit.map_err(|_| StoreError::Closed)?.forget();
        shared.line.push(Queued { op, bytes, kib }).map_err(|_| StoreError::Closed)
    }

    /// Makes a change and waits until it is committed. A queued change is made even if its caller stops waiting.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce(&mut Tx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        self.send(Op::Work(Box::new(Request::new(work, reply))), bytes).await?;
        answer.await.map_err(|_| StoreError::Closed)?
    }

    /// Makes a change that withdraws something. [`StoreError::Owed`] means that the disk could not take it, and that it is made
    /// before anything else as soon as that can.
    pub(crate) async fn withdraw<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnMut(&mut Tx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        self.send(Op::Work(Box::new(Withdrawal::new(work, reply))), bytes).await?;
        answer.await.map_err(|_| StoreError::Closed)?
    }

    /// Appends a record and waits until it is committed.
    pub(crate) async fn append(&self, draft: Draft) -> Result<u64> {
        let (reply, answer) = oneshot::channel();
        let bytes = journal::weight(&draft);
        self.send(Op::Append(Box::new(draft), reply), bytes).await?;
        answer.await.map_err(|_| StoreError::Closed)?
    }

    pub(crate) fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    /// How many changes wait for the writer.
    pub(crate) fn waiting(&self) -> usize {
        self.shared.0.line.len()
    }

    pub(crate) fn limit(&self) -> usize {
        self.shared.0.limit
    }
}

impl Incoming {
    /// Waits for the next group. None when no caller is left and everything was taken.
    pub(crate) fn next_group(&mut self) -> Option<Group> {
        let (mut count, mut bytes) = (0, 0);
        let taken = self.shared.line.take(self.linger, MAX_GROUP / 2, |next| {
            let fits = count < MAX_GROUP && bytes < MAX_GROUP_BYTES;
            (count, bytes) = (count + 1, bytes + next.bytes);
            fits
        });
        self.shared.space.add_permits(taken.iter().map(|queued| queued.kib).sum());
        let bytes = taken.iter().map(|queued| queued.bytes).sum();
        let ops: Vec<Op> = taken.into_iter().map(|queued| queued.op).collect();
        (!ops.is_empty()).then_some(Group { ops, bytes })
    }
}

impl Drop for Incoming {
    /// Refuses what is still queued: a dropped change answers [`StoreError::Closed`].
    fn drop(&mut self) {
        let refused = self.shared.line.end();
        self.shared.space.close();
        drop(refused);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use convoke_core::journal::Kind;
    use convoke_core::time::Timestamp;

    use super::*;
    use crate::Lossy;

    fn patient() -> (Queue, Incoming) {
        let (queue, mut incoming) = queue(100, Arc::default());
        incoming.linger = Duration::from_secs(3600);
        (queue, incoming)
    }

    fn push(queue: &Queue, op: Op) {
        queue.shared.0.line.push(Queued { op, bytes: 1, kib: 0 }).expect("takes it");
    }

    fn lossy() -> Op {
        Op::Lossy(Box::new(Lossy::Logs(Vec::new())))
    }

    fn urgent() -> Op {
        Op::Append(Box::new(Draft::new(Timestamp::from_millis(0), Kind::Call)), oneshot::channel().0)
    }

    #[test]
    fn an_urgent_change_takes_along_what_gathers_and_waits_for_nothing() {
        let (queue, mut incoming) = patient();
        push(&queue, lossy());
        let writer = thread::spawn(move || incoming.next_group().map(|group| group.ops.len()));
        push(&queue, urgent());
        assert_eq!(writer.join().expect("no panic"), Some(2));
    }

    #[test]
    fn many_that_nobody_waits_for_do_not_wait_for_the_time_to_be_over() {
        let (queue, mut incoming) = patient();
        for _ in 0..MAX_GROUP / 2 {
            push(&queue, lossy());
        }
        assert_eq!(incoming.next_group().map(|group| group.ops.len()), Some(MAX_GROUP / 2));
    }

    #[test]
    fn a_closed_queue_gives_what_it_has_and_ends() {
        let (queue, mut incoming) = patient();
        push(&queue, lossy());
        drop(queue);
        assert_eq!(incoming.next_group().map(|group| group.ops.len()), Some(1));
        assert!(incoming.next_group().is_none());
    }

    #[tokio::test]
    async fn a_full_queue_lets_callers_wait_until_the_writer_takes_something() {
        let (queue, mut incoming) = super::queue(2, Arc::default());
        queue.send(urgent(), 0).await.expect("takes it");
        queue.send(urgent(), 0).await.expect("takes it");
        let third = tokio::spawn({
            let queue = queue.clone();
            async move { queue.send(urgent(), 0).await }
        });
        tokio::task::yield_now().await;
        assert_eq!((queue.waiting(), third.is_finished()), (2, false));
        assert_eq!(incoming.next_group().map(|group| group.ops.len()), Some(2));
        third.await.expect("no panic").expect("takes it");
        drop(incoming);
        assert!(matches!(queue.send(urgent(), 0).await, Err(StoreError::Closed)));
    }
}
