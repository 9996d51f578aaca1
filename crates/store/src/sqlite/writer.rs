//! The one writer: a thread that owns the write connection and turns whatever is queued into one transaction.
//!
//! While one group is being synced to the disk, the next one gathers; so under load many changes share one sync, and
//! alone a change waits for nothing but its own. Nobody in it is answered before the commit. If the commit fails, everyone
//! in the group gets the error, the chain's end goes back to where it was, and the next group tries anew.
//!
//! Records that are in the tail ([`super::tail`]) go first in every group.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;

use convoke_core::journal::{Chain, Draft, Sealed};
use ed25519_dalek::SigningKey;
use rusqlite::{CachedStatement, Connection};
use tokio::sync::{mpsc, oneshot};

use super::queue::{self, Incoming, Queue};
use super::skip::Filling;
use super::tail::{Homeless, Tail, Taken, Unsettled, Waiting};
use super::wal::WalKeeper;
use super::{journal, tail, telemetry};
use crate::error::StoreError;
use crate::files::DirLock;
use crate::interface::{Lossy, Result};

/// Records after which the chain's end is signed without being asked.
const SIGN_EVERY: u64 = 1_000;

/// A change as the writer takes it.
pub(super) enum Op {
    /// A journal record: the most frequent one, so it goes without a savepoint.
    Append(Box<Draft>, oneshot::Sender<Result<u64>>),
    /// What nobody waits for.
    Lossy(Box<Lossy>),
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

impl Op {
    /// Whether someone waits for it.
    pub(super) fn is_urgent(&self) -> bool {
        !matches!(self, Self::Lossy(_))
    }

    /// Whether it may have a record.
    fn may_append(&self) -> bool {
        !matches!(self, Self::Lossy(item) if !matches!(**item, Lossy::Record(_)))
    }
}

impl fmt::Debug for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Append(..) => "Append",
            Self::Lossy(_) => "Lossy",
            Self::Work(_) => "Work",
            Self::Stop(_) => "Stop",
        })
    }
}

/// A change made by a closure.
pub(super) struct Request<F, T> {
    work: Option<F>,
    answer: Option<Result<T>>,
    reply: oneshot::Sender<Result<T>>,
}

impl<F, T> Request<F, T> {
    pub(super) fn new(work: F, reply: oneshot::Sender<Result<T>>) -> Self {
        Self { work: Some(work), answer: None, reply }
    }
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

/// Those who wait for records that have their place already, and that go into the database before anything else.
pub(super) struct Awaiting(pub(super) Waiting);

impl Work for Awaiting {
    fn run(&mut self, _: &mut Tx<'_>) -> Result<()> {
        Ok(())
    }

    fn settle(self: Box<Self>, committed: Result<()>) {
        tell(self.0, committed);
    }
}

/// Tells those whose records have their place whether the database has them. If not, they keep their place, and the database
/// takes them once it can be written.
fn tell(waiting: Waiting, committed: Result<()>) {
    let committed = committed.map_err(|error| StoreError::Undecided(Arc::new(error)));
    for (reply, seq) in waiting {
        let _ = reply.send(committed.clone().map(|()| seq));
    }
}

/// What a change sees: the connection inside the group's transaction, and the chain.
pub(super) struct Tx<'a> {
    pub(super) conn: &'a Connection,
    /// Made with the first record and used for all of the group.
    insert: Option<CachedStatement<'a>>,
    chain: &'a mut Chain,
    open_intents: &'a mut u64,
    filling: &'a mut Filling,
    signed: &'a mut u64,
    signer: &'a SigningKey,
}

impl Tx<'_> {
    /// Appends a record.
    pub(super) fn append(&mut self, draft: &Draft) -> Result<u64> {
        let sealed = self.chain.seal(draft);
        self.put(&sealed, draft)?;
        Ok(sealed.seq)
    }

    /// Puts a record that has its place into the database.
    fn put(&mut self, sealed: &Sealed, draft: &Draft) -> Result<()> {
        let insert = match &mut self.insert {
            Some(insert) => insert,
            none => none.insert(journal::insert(self.conn)?),
        };
        journal::put(self.conn, insert, self.open_intents, self.filling, sealed, draft)
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
    pub(super) tail_records: AtomicU64,
    pub(super) failing: AtomicBool,
}

/// Everything the writer owns.
pub(super) struct Writer {
    pub(super) conn: Connection,
    /// The journal's end.
    pub(super) tail: Arc<Tail>,
    /// The last record that a checkpoint covers.
    pub(super) signed: u64,
    /// Calls that were announced and have not ended: while there is none, an outcome has nothing to strike out.
    pub(super) open_intents: u64,
    /// What the block of records that is being filled has so far.
    pub(super) filling: Filling,
    pub(super) signer: Arc<SigningKey>,
    pub(super) wal: WalKeeper,
    /// Whether the last commit failed.
    pub(super) has_failed: bool,
    /// Held for as long as anything may be written.
    pub(super) lock: DirLock,
}

/// Whatever ends the writer, even a panic: nothing is taken into the tail any more, nobody waits for the writer in vain, and
/// nothing is under way to the disk when the directory is let go.
struct Ends(Arc<Tail>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.abandon();
        self.0.wait_for_end();
    }
}

impl Writer {
    /// Starts the thread. With a file for the tail, records may be written there from now on.
    pub(super) fn start(self, queue_limit: usize, tail_file: Option<&Path>) -> Result<Queue> {
        let numbers = Arc::new(Numbers::default());
        let tail = Arc::clone(&self.tail);
        numbers.journal_seq.store(tail.seq(), Relaxed);
        let (queue, incoming) = queue::queue(queue_limit, Arc::clone(&tail), Arc::clone(&numbers));
        let replies = Replies::start();
        thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || self.serve(incoming, &numbers, &replies))
            .map_err(|e| StoreError::Io { what: "start the writer's thread".into(), source: Arc::new(e) })?;
        if let Some(path) = tail_file {
            tail::start(&tail, path, queue.rounds());
        }
        Ok(queue)
    }

    fn serve(mut self, mut incoming: Incoming, numbers: &Numbers, replies: &Replies) {
        let _ends = Ends(Arc::clone(&self.tail));
        let mut stop = None;
        while stop.is_none() {
            let Some(group) = incoming.next_group() else { break };
            let round = self.commit(group.ops, numbers, replies);
            stop = round.stop;
            round.homeless.into_iter().for_each(|record| incoming.push(record));
            if !self.tail.is_settled() {
                incoming.come_back();
            }
            self.wal.after_commit(&self.conn, group.bytes + round.settled_bytes);
        }
        // Whoever comes now is refused before the directory is let go.
        drop(incoming);
        let closed = self.close();
        if let Some(reply) = stop {
            let _ = reply.send(closed);
        } else if let Err(error) = closed {
            tracing::warn!(%error, "the store was not closed cleanly");
        }
    }

    /// One group, one transaction.
    fn commit(&mut self, group: Vec<Op>, numbers: &Numbers, replies: &Replies) -> Round {
        let (mut taken, mut chain) = self.tail.take(group.iter().any(Op::may_append));
        if group.is_empty() && taken.records.is_empty() {
            return Round::default();
        }
        let settled_bytes = taken.records.iter().map(|record| record.sealed.body.len()).sum();
        let (signed_before, open_before) = (self.signed, self.open_intents);
        let writes = (group.len() + taken.records.len()) as u64;
        let (mut settled, mut spent) = (Vec::with_capacity(group.len()), Vec::new());
        self.has_failed = numbers.failing.load(Relaxed);
        let committed = self.transact(&taken.records, &mut chain, group, &mut settled, &mut spent);
        let homeless = if let Err(error) = &committed {
            if !self.conn.is_autocommit() {
                // A rollback can only fail when there is nothing left to roll back.
                let _ = self.conn.execute_batch("ROLLBACK");
            }
            self.signed = signed_before;
            self.open_intents = open_before;
            self.filling.forget();
            if !numbers.failing.swap(true, Relaxed) {
                tracing::error!(error = error as &dyn std::error::Error, "the store cannot write");
            }
            self.tail.undone(&mut taken)
        } else {
            numbers.commits.fetch_add(1, Relaxed);
            numbers.writes.fetch_add(writes, Relaxed);
            numbers.journal_seq.fetch_max(chain.seq(), Relaxed);
            if numbers.failing.swap(false, Relaxed) {
                tracing::info!("the store can write again");
            }
            self.tail.committed(&taken, &chain)
        };
        let mut stop = None;
        settled.retain_mut(|done| match done {
            Settled::Stop(reply) => {
                stop = reply.take();
                false
            }
            Settled::Append { .. } | Settled::Work(_) => true,
        });
        if committed.is_err() {
            numbers.lost.fetch_add(spent.len() as u64, Relaxed);
        }
        replies.send(Settlement { committed, settled, spent, taken });
        Round { stop, homeless, settled_bytes }
    }

    fn transact(
        &mut self,
        first: &[Unsettled],
        chain: &mut Chain,
        group: Vec<Op>,
        settled: &mut Vec<Settled>,
        spent: &mut Vec<Op>,
    ) -> Result<()> {
        let mut failed =
            self.conn.prepare_cached("BEGIN IMMEDIATE").and_then(|mut s| s.execute([])).err().map(Into::into);
        let mut tx = Tx {
            conn: &self.conn,
            insert: None,
            chain,
            open_intents: &mut self.open_intents,
            filling: &mut self.filling,
            signed: &mut self.signed,
            signer: &self.signer,
        };
        if failed.is_none() {
            failed = first.iter().try_for_each(|record| tx.put(&record.sealed, &record.draft)).err();
        }
        for op in group {
            // After a failure nothing more is tried, but everyone must still get their answer.
            let outcome = match op {
                Op::Append(draft, reply) => {
                    let outcome = if failed.is_none() { tx.append(&draft) } else { Ok(0) };
                    let seq = *outcome.as_ref().unwrap_or(&0);
                    settled.push(Settled::Append { reply, seq, _spent: draft });
                    outcome.map(drop)
                }
                Op::Lossy(item) => {
                    let outcome = if failed.is_none() { telemetry::take(&mut tx, &item) } else { Ok(()) };
                    spent.push(Op::Lossy(item));
                    outcome
                }
                Op::Work(mut work) => {
                    let outcome = if failed.is_none() { guarded(&mut tx, &mut *work) } else { Ok(()) };
                    settled.push(Settled::Work(work));
                    outcome
                }
                Op::Stop(reply) => {
                    settled.push(Settled::Stop(Some(reply)));
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
        if self.has_failed {
            // A commit whose sync failed may stand in the log whole, until another is written over it. One that changes
            // nothing is not written, and would not show that the database can be, either.
            super::set_meta(&self.conn, "write_failed_until", &super::now().to_string())?;
        }
        self.conn.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }

    /// The last transaction.
    fn settle_and_sign(&mut self) -> Result<()> {
        let (taken, mut chain) = self.tail.take(true);
        let tx = self.conn.unchecked_transaction()?;
        let mut end = Tx {
            conn: &tx,
            insert: None,
            chain: &mut chain,
            open_intents: &mut self.open_intents,
            filling: &mut self.filling,
            signed: &mut self.signed,
            signer: &self.signer,
        };
        taken.records.iter().try_for_each(|record| end.put(&record.sealed, &record.draft))?;
        end.sign(super::now())?;
        drop(end);
        Ok(tx.commit()?)
    }

    fn close(mut self) -> Result<()> {
        self.tail.close();
        let signed = self.settle_and_sign();
        self.wal.finish();
        if let Some(file) = self.tail.wait_for_end()
            && signed.is_ok()
        {
            // The database has all of it. If it stays, the next start finds that.
            let _ = tail::remove(&file);
        }
        tell(self.tail.take_last(), signed.clone());
        // Emptied, so that a copy of hub.db alone is whole. A reader that is still there may prevent it; no harm.
        let _ = self.conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        drop(self.conn);
        drop(self.lock);
        signed
    }
}

/// What became of a group.
#[derive(Default)]
struct Round {
    /// A stop's reply, for when everything is put away.
    stop: Option<oneshot::Sender<Result<()>>>,
    /// Records that came meanwhile and are to be queued.
    homeless: Vec<Homeless>,
    /// How much of the tail went into the database.
    settled_bytes: usize,
}

enum Settled {
    Append {
        reply: oneshot::Sender<Result<u64>>,
        seq: u64,
        /// Like [`Settlement::spent`].
        _spent: Box<Draft>,
    },
    Work(Box<dyn Work>),
    Stop(Option<oneshot::Sender<Result<()>>>),
}

/// A group whose end is known. Whoever drops it tells those who wait, so that nobody is forgotten where a runtime ends with it.
struct Settlement {
    committed: Result<()>,
    settled: Vec<Settled>,
    /// Carried along to be dropped where it was made: memory that one thread takes and another gives back is not used
    /// again at once, and under a flood of snapshots it would pile up.
    spent: Vec<Op>,
    /// Like `spent`.
    taken: Taken,
}

impl Settlement {
    fn has_no_records(&self) -> bool {
        self.taken.records.is_empty()
    }
}

impl Drop for Settlement {
    fn drop(&mut self) {
        for done in self.settled.drain(..) {
            let outcome = self.committed.clone();
            match done {
                // Whoever has stopped waiting has lost nothing: the change stands all the same.
                Settled::Append { reply, seq, .. } => drop(reply.send(outcome.map(|()| seq))),
                Settled::Work(work) => work.settle(outcome),
                Settled::Stop(_) => {}
            }
        }
    }
}

/// Who tells the callers. Waking each of them from the writer's thread costs a trip between threads apiece; a task
/// beside them is woken once for the whole group.
struct Replies(Option<mpsc::UnboundedSender<Settlement>>);

impl Replies {
    /// A task of the runtime in which the store is opened; without one the writer tells them itself.
    fn start() -> Self {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return Self(None) };
        // Bounded by what is queued: a caller waits for its answer before it asks for more.
        let (settlements, mut arriving) = mpsc::unbounded_channel::<Settlement>();
        runtime.spawn(async move {
            while let Some(settlement) = arriving.recv().await {
                drop(settlement);
            }
        });
        Self(Some(settlements))
    }

    fn send(&self, settlement: Settlement) {
        if settlement.settled.is_empty() && settlement.spent.is_empty() && settlement.has_no_records() {
            return;
        }
        if let Some(task) = &self.0 {
            // The runtime may have ended before the store was closed; then they are told here.
            let _ = task.send(settlement);
        }
    }
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
    tx.filling.forget();
    Ok(())
}
