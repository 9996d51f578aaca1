//! The one writer: a thread that owns the write connection and turns whatever is queued into one transaction.
//!
//! While one group is being synced to the disk, the next one gathers; so under load many changes share one sync, and
//! alone a change waits for nothing but its own. Nobody is answered before the commit. If the commit fails, everyone
//! in the group gets the error, the chain's end goes back to the last committed record, and the next group tries anew.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use convoke_core::journal::{Chain, Draft};
use ed25519_dalek::SigningKey;
use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::wal::WalKeeper;
use super::{journal, telemetry};
use crate::error::StoreError;
use crate::files::DirLock;
use crate::interface::{Lossy, Result};

/// How long a group waits at the most for those who were in the last one too: they were answered a moment ago, and
/// under load their next changes are on the way. A disk that syncs faster than this would otherwise make many small
/// groups, each with a sync of its own.
const GATHER: Duration = Duration::from_micros(150);
/// So many times it looks whether they are all there.
const GATHER_LOOKS: usize = 6;
/// How long a group that nobody waits for gathers company, in steps after each of which it looks for someone who does.
const LINGER: Duration = Duration::from_micros(500);
/// So many steps.
const LINGER_LOOKS: usize = 10;
/// Smaller groups do not wait for company.
const GATHER_FROM: usize = 4;
/// Most changes in one transaction.
const MAX_GROUP: usize = 512;
/// A transaction takes no more changes once it holds this much.
const MAX_GROUP_BYTES: usize = 8 << 20;
/// What may wait for the writer, in KiB. Beyond it callers wait: nothing is dropped.
const QUEUE_KIB: usize = 64 << 10;
/// Records after which the chain's end is signed without being asked.
const SIGN_EVERY: u64 = 1_000;

/// A change as the writer takes it.
pub(super) enum Op {
    /// A journal record: the most frequent one, so it goes without a box and without a savepoint.
    Append(Draft, oneshot::Sender<Result<u64>>),
    /// What nobody waits for.
    Lossy(Lossy),
    /// Everything else. It may fail on its own without taking the group with it.
    Work(Box<dyn Work>),
    /// Sign the end, stop, let go of the directory.
    Stop(oneshot::Sender<Result<()>>),
}

/// A change that answers something.
pub(super) trait Work: Send {
    /// Makes the change and keeps its answer. An error undoes this change only, unless it is of the storage.
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<()>;
    /// The transaction was committed, or was not: answers.
    fn settle(self: Box<Self>, committed: Result<()>);
}

struct Request<F, T> {
    work: Option<F>,
    answer: Option<Result<T>>,
    reply: oneshot::Sender<Result<T>>,
}

impl<F, T> Work for Request<F, T>
where
    F: FnOnce(&mut Tx<'_>) -> Result<T> + Send,
    T: Send,
{
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<()> {
        let Some(work) = self.work.take() else { return Ok(()) };
        let answer = work(tx);
        let outcome = answer.as_ref().map(|_| ()).map_err(Clone::clone);
        self.answer = Some(answer);
        outcome
    }

    fn settle(self: Box<Self>, committed: Result<()>) {
        let Self { answer, reply, .. } = *self;
        let answer = committed.and_then(|()| answer.unwrap_or(Err(StoreError::Closed)));
        // The caller may have stopped waiting: the change stands all the same.
        let _ = reply.send(answer);
    }
}

/// What a change sees: the connection inside the group's transaction, and the chain.
pub(super) struct Tx<'a> {
    pub(super) conn: &'a Connection,
    chain: &'a mut Chain,
    open_intents: &'a mut u64,
    signed: &'a mut u64,
    signer: &'a SigningKey,
}

impl Tx<'_> {
    /// Appends a record.
    pub(super) fn append(&mut self, draft: &Draft) -> Result<u64> {
        journal::append(self.conn, self.chain, self.open_intents, draft)
    }

    /// Signs the chain's end, unless it is signed.
    pub(super) fn sign(&mut self, now: convoke_core::time::Timestamp) -> Result<()> {
        if *self.signed < self.chain.seq() {
            journal::sign(self.conn, self.chain, self.signer, now)?;
            *self.signed = self.chain.seq();
        }
        Ok(())
    }
}

/// What the writer tells the world.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    pub(super) commits: AtomicU64,
    pub(super) writes: AtomicU64,
    pub(super) lost: AtomicU64,
    pub(super) journal_seq: AtomicU64,
    pub(super) failing: AtomicBool,
}

/// The way to the writer.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    ops: mpsc::Sender<Queued>,
    room: Arc<Semaphore>,
    numbers: Arc<Numbers>,
}

struct Queued {
    op: Op,
    bytes: usize,
    /// Gives the room back when the change leaves the queue.
    _room: OwnedSemaphorePermit,
}

impl Queue {
    /// Hands a change over; waits while the queue is full.
    pub(super) async fn send(&self, op: Op, bytes: usize) -> Result<()> {
        let kib = (bytes / 1024 + 1).min(QUEUE_KIB);
        let room = Arc::clone(&self.room)
            .acquire_many_owned(u32::try_from(kib).unwrap_or(u32::MAX))
            .await
            .map_err(|_| StoreError::Closed)?;
        self.ops.send(Queued { op, bytes, _room: room }).await.map_err(|_| StoreError::Closed)
    }

    /// Makes a change and waits until it is committed. Once it is queued it is made, even if nobody waits any more.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce(&mut Tx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let request = Request { work: Some(work), answer: None, reply };
        self.send(Op::Work(Box::new(request)), bytes).await?;
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
        self.ops.max_capacity() - self.ops.capacity()
    }

    pub(super) fn limit(&self) -> usize {
        self.ops.max_capacity()
    }
}

/// Everything the writer owns.
pub(super) struct Writer {
    pub(super) conn: Connection,
    pub(super) chain: Chain,
    /// The last record that a checkpoint covers.
    pub(super) signed: u64,
    /// Calls that were announced and have not ended: while there is none, an outcome has nothing to strike out.
    pub(super) open_intents: u64,
    pub(super) signer: Arc<SigningKey>,
    pub(super) wal: WalKeeper,
    /// Held for as long as anything may be written.
    pub(super) lock: DirLock,
}

impl Writer {
    /// Starts the thread.
    pub(super) fn start(self, queue_limit: usize) -> Result<Queue> {
        let (ops, incoming) = mpsc::channel(queue_limit.max(1));
        let numbers = Arc::new(Numbers::default());
        numbers.journal_seq.store(self.chain.seq(), Relaxed);
        let room = Arc::new(Semaphore::new(QUEUE_KIB));
        let queue = Queue { ops, room, numbers: Arc::clone(&numbers) };
        thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || self.serve(incoming, &numbers))
            .map_err(|e| StoreError::Io { what: "start the writer's thread".into(), source: Arc::new(e) })?;
        Ok(queue)
    }

    fn serve(mut self, mut incoming: mpsc::Receiver<Queued>, numbers: &Numbers) {
        let mut stop = None;
        let mut last_group = 0;
        while stop.is_none() {
            let Some(first) = incoming.blocking_recv() else { break };
            let mut bytes = first.bytes;
            let mut group = vec![first.op];
            let mut gather = |group: &mut Vec<Op>| {
                while group.len() < MAX_GROUP && bytes < MAX_GROUP_BYTES {
                    let Ok(next) = incoming.try_recv() else { break };
                    bytes += next.bytes;
                    group.push(next.op);
                }
            };
            gather(&mut group);
            for _ in 0..GATHER_LOOKS {
                if last_group < GATHER_FROM || group.len() >= last_group {
                    break;
                }
                thread::sleep(GATHER);
                gather(&mut group);
            }
            for _ in 0..LINGER_LOOKS {
                if group.len() >= MAX_GROUP / 2 || group.iter().any(|op| !matches!(op, Op::Lossy(_))) {
                    break;
                }
                thread::sleep(LINGER);
                gather(&mut group);
            }
            // Those whom nobody waits for are no sign that others will come.
            last_group = group.iter().filter(|op| !matches!(op, Op::Lossy(_))).count();
            stop = self.commit(group, numbers);
            self.wal.after_commit(&self.conn, bytes);
        }
        // What was queued behind the stop is refused, not forgotten: dropping it answers `Closed`.
        incoming.close();
        let closed = self.close();
        drop(incoming);
        if let Some(reply) = stop {
            let _ = reply.send(closed);
        } else if let Err(error) = closed {
            tracing::warn!(%error, "the store was not closed cleanly");
        }
    }

    /// One group, one transaction. Answers a stop's reply for when everything is put away.
    fn commit(&mut self, group: Vec<Op>, numbers: &Numbers) -> Option<oneshot::Sender<Result<()>>> {
        let (chain_before, signed_before, open_before) = (self.chain.clone(), self.signed, self.open_intents);
        let writes = group.len() as u64;
        let mut settled = Vec::with_capacity(group.len());
        let committed = self.transact(group, &mut settled);
        if let Err(error) = &committed {
            if !self.conn.is_autocommit() {
                // A rollback can only fail when there is nothing left to roll back.
                let _ = self.conn.execute_batch("ROLLBACK");
            }
            self.chain = chain_before;
            self.signed = signed_before;
            self.open_intents = open_before;
            if !numbers.failing.swap(true, Relaxed) {
                tracing::error!(error = error as &dyn std::error::Error, "the store cannot write");
            }
        } else {
            numbers.commits.fetch_add(1, Relaxed);
            numbers.writes.fetch_add(writes, Relaxed);
            numbers.journal_seq.store(self.chain.seq(), Relaxed);
            if numbers.failing.swap(false, Relaxed) {
                tracing::info!("the store can write again");
            }
        }
        let mut stop = None;
        for done in settled {
            let outcome = committed.clone();
            match done {
                Settled::Append(reply, seq) => drop(reply.send(outcome.map(|()| seq))),
                Settled::Work(work) => work.settle(outcome),
                Settled::Lossy if outcome.is_err() => drop(numbers.lost.fetch_add(1, Relaxed)),
                Settled::Lossy => {}
                Settled::Stop(reply) => stop = Some(reply),
            }
        }
        stop
    }

    fn transact(&mut self, group: Vec<Op>, settled: &mut Vec<Settled>) -> Result<()> {
        let mut failed =
            self.conn.prepare_cached("BEGIN IMMEDIATE").and_then(|mut s| s.execute([])).err().map(Into::into);
        let mut tx = Tx {
            conn: &self.conn,
            chain: &mut self.chain,
            open_intents: &mut self.open_intents,
            signed: &mut self.signed,
            signer: &self.signer,
        };
        for op in group {
            // After a failure nothing more is tried, but everyone must still get their answer.
            let outcome = match op {
                Op::Append(draft, reply) => {
                    let outcome = if failed.is_none() { tx.append(&draft) } else { Ok(0) };
                    settled.push(Settled::Append(reply, *outcome.as_ref().unwrap_or(&0)));
                    outcome.map(drop)
                }
                Op::Lossy(item) => {
                    settled.push(Settled::Lossy);
                    if failed.is_none() { telemetry::take(&mut tx, item) } else { Ok(()) }
                }
                Op::Work(mut work) => {
                    let outcome = if failed.is_none() { guarded(&mut tx, &mut *work) } else { Ok(()) };
                    settled.push(Settled::Work(work));
                    outcome
                }
                Op::Stop(reply) => {
                    settled.push(Settled::Stop(reply));
                    Ok(())
                }
            };
            failed = failed.or(outcome.err());
        }
        if let Some(error) = failed {
            return Err(error);
        }
        if tx.chain.seq() - *tx.signed >= SIGN_EVERY {
            tx.sign(super::now())?;
        }
        self.conn.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }

    fn close(mut self) -> Result<()> {
        let tx = self.conn.unchecked_transaction()?;
        let mut end = Tx {
            conn: &tx,
            chain: &mut self.chain,
            open_intents: &mut self.open_intents,
            signed: &mut self.signed,
            signer: &self.signer,
        };
        let signed = end.sign(super::now()).and_then(|()| Ok(tx.commit()?));
        self.wal.finish();
        // Emptied, so that a copy of hub.db alone is whole. A reader that is still there may prevent it; no harm.
        let _ = self.conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        drop(self.conn);
        drop(self.lock);
        signed
    }
}

enum Settled {
    Append(oneshot::Sender<Result<u64>>, u64),
    Work(Box<dyn Work>),
    Lossy,
    Stop(oneshot::Sender<Result<()>>),
}

/// Runs a change that may fail on its own: then it, and its records, are undone, and the group goes on.
fn guarded(tx: &mut Tx<'_>, work: &mut dyn Work) -> Result<()> {
    let (chain, signed, open) = (tx.chain.clone(), *tx.signed, *tx.open_intents);
    tx.conn.prepare_cached("SAVEPOINT work")?.execute([])?;
    let Err(error) = work.run(tx) else {
        tx.conn.prepare_cached("RELEASE work")?.execute([])?;
        return Ok(());
    };
    // Some errors make SQLite give up the whole transaction; then there is no savepoint to go back to.
    if error.is_of_the_storage() || tx.conn.is_autocommit() {
        return Err(error);
    }
    tx.conn.execute_batch("ROLLBACK TO work; RELEASE work")?;
    *tx.chain = chain;
    *tx.signed = signed;
    *tx.open_intents = open;
    Ok(())
}
