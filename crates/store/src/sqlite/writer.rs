//! The one writer: a thread that owns the write connection and commits whatever is queued in one transaction.
//!
//! While one group is synced to the disk, the next one gathers, so under load many changes share one sync. No caller is
//! answered before the commit. If the commit fails, every caller in the group gets the error, the chain's end goes back to
//! where it was, and the next group tries anew.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::thread;

use convoke_core::id::HubId;
use convoke_core::journal::{Chain, Draft};
use ed25519_dalek::SigningKey;
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::queue::{self, Incoming, Queue};
use super::reserve::Reserve;
use super::wal::WalKeeper;
use super::{journal, telemetry};
use crate::error::StoreError;
use crate::files::DirLock;
use crate::{Lossy, Observer, Result};

/// About how many bytes a change without a large part holds.
pub(super) const SMALL: usize = 1_024;
/// Records after which the chain's end is signed without being asked.
const SIGN_EVERY: u64 = 1_000;

/// Most withdrawals that are owed. Beyond it they are in force and not kept.
const MAX_OWED: usize = 10_000;

/// A change as the writer takes it.
pub(super) enum Op {
    /// A journal record: the most frequent change, so it goes without a savepoint.
    Append(Box<Draft>, oneshot::Sender<Result<u64>>),
    /// What nobody waits for.
    Lossy(Box<Lossy>),
    /// Everything else. It may fail on its own without taking the group with it.
    Work(Box<dyn Work>),
    /// Sign the end, stop, release the directory.
    Stop(oneshot::Sender<Result<()>>),
}

/// A change that answers something.
pub(super) trait Work: Send {
    /// Makes the change and keeps its answer. An error undoes this change only, unless the storage failed.
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<()>;
    /// Sends the answer, once the transaction was committed or has failed.
    fn answer(self: Box<Self>, committed: Result<()>);
    /// Whether it withdraws something, so that it is made later where it cannot be made now. It can be run again then.
    fn withdraws(&self) -> bool {
        false
    }
    /// Tells the caller that it is made later.
    fn owe(&mut self) {}
}

impl Op {
    /// Whether a caller waits for it.
    pub(super) fn is_urgent(&self) -> bool {
        !matches!(self, Self::Lossy(_))
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

    fn answer(self: Box<Self>, committed: Result<()>) {
        let Self { answer, reply, .. } = *self;
        let answer = committed.and_then(|()| answer.unwrap_or(Err(StoreError::Closed)));
        // The caller may have stopped waiting: the change stands all the same.
        let _ = reply.send(answer);
    }
}

/// A change that withdraws something: made again and again until it is kept.
pub(super) struct Withdrawal<F, T> {
    work: F,
    answer: Option<Result<T>>,
    reply: Option<oneshot::Sender<Result<T>>>,
}

impl<F, T> Withdrawal<F, T> {
    pub(super) fn new(work: F, reply: oneshot::Sender<Result<T>>) -> Self {
        Self { work, answer: None, reply: Some(reply) }
    }

    fn tell(&mut self, answer: Result<T>) {
        if let Some(reply) = self.reply.take() {
            let _ = reply.send(answer);
        }
    }
}

impl<F, T> Work for Withdrawal<F, T>
where
    F: FnMut(&mut Tx<'_>) -> Result<T> + Send,
    T: Send,
{
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<()> {
        let answer = (self.work)(tx);
        let outcome = answer.as_ref().map(|_| ()).map_err(Clone::clone);
        self.answer = Some(answer);
        outcome
    }

    fn answer(mut self: Box<Self>, committed: Result<()>) {
        let answer = self.answer.take().unwrap_or(Err(StoreError::Closed));
        self.tell(committed.and(answer));
    }

    fn withdraws(&self) -> bool {
        true
    }

    fn owe(&mut self) {
        self.tell(Err(StoreError::Owed));
    }
}

/// What a change sees: the connection inside the group's transaction, and the chain.
pub(super) struct Tx<'a> {
    pub(super) conn: &'a Connection,
    chain: &'a mut Chain,
    signed: &'a mut u64,
    signer: &'a SigningKey,
}

impl Tx<'_> {
    /// The hub that writes.
    pub(super) fn hub_id(&self) -> HubId {
        self.chain.hub_id()
    }

    /// Appends a record.
    pub(super) fn append(&mut self, draft: &Draft) -> Result<u64> {
        let draft = draft.bounded();
        let sealed = self.chain.seal(&draft);
        journal::put(self.conn, self.hub_id(), &sealed, &draft)?;
        Ok(sealed.seq)
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

/// What the writer tells others: the store's counters, and what was committed.
#[derive(Default)]
pub(super) struct Numbers {
    observer: OnceLock<Observer>,
    pub(super) commits: AtomicU64,
    pub(super) writes: AtomicU64,
    pub(super) lost: AtomicU64,
    pub(super) journal_seq: AtomicU64,
    pub(super) failing: AtomicBool,
    pub(super) owed: AtomicU64,
}

impl fmt::Debug for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Numbers").field("commits", &self.commits).finish_non_exhaustive()
    }
}

impl Numbers {
    /// Sets the observer of commits; the first one stays.
    pub(super) fn observed_by(&self, observer: Observer) {
        let _ = self.observer.set(observer);
    }

    /// What of a committed item somebody is to be told.
    fn observed(&self, mut item: Lossy) -> Option<Lossy> {
        self.observer.get()?;
        match &mut item {
            Lossy::Logs(_) => Some(item),
            Lossy::Snapshot(snapshot) => {
                snapshot.body = String::new();
                Some(item)
            }
            _ => None,
        }
    }

    fn tell(&self, item: Lossy) {
        if let Some(observer) = self.observer.get() {
            observer(item);
        }
    }
}

/// Everything the writer owns.
pub(super) struct Writer {
    pub(super) conn: Connection,
    /// The journal's end.
    pub(super) chain: Chain,
    /// The last record that a checkpoint covers.
    pub(super) signed: u64,
    pub(super) signer: Arc<SigningKey>,
    pub(super) wal: WalKeeper,
    /// Space for what withdraws something.
    pub(super) reserve: Reserve,
    /// Withdrawals that could not be kept, oldest first.
    pub(super) owed: Vec<Box<dyn Work>>,
    /// Held for as long as anything may be written.
    pub(super) lock: DirLock,
}

impl Writer {
    /// Starts the thread.
    pub(super) fn start(self, queue_limit: usize) -> Result<Queue> {
        let numbers = Arc::new(Numbers::default());
        numbers.journal_seq.store(self.chain.seq(), Relaxed);
        let (queue, incoming) = queue::queue(queue_limit, Arc::clone(&numbers));
        thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || self.serve(incoming, &numbers))
            .map_err(|e| StoreError::Io { what: "start the writer's thread".into(), source: Arc::new(e) })?;
        Ok(queue)
    }

    fn serve(mut self, mut incoming: Incoming, numbers: &Numbers) {
        let mut stop = None;
        while stop.is_none() {
            let Some(group) = incoming.next_group() else { break };
            stop = self.commit(group.ops, numbers);
            self.wal.after_commit(&self.conn, group.bytes);
            self.reserve.refill();
        }
        // Late callers are refused before the directory is released.
        drop(incoming);
        if self.keep_owed(numbers).is_err() {
            tracing::error!(
                owed = self.owed.len(),
                "what was withdrawn while the disk was full is not kept: the next start does not know of it"
            );
        }
        let closed = self.close();
        if let Some(reply) = stop {
            let _ = reply.send(closed);
        } else if let Err(error) = closed {
            tracing::warn!(%error, "the store was not closed cleanly");
        }
    }

    /// Commits one group in one transaction and answers its callers. Answers the reply of a stop, if there was one. What
    /// withdraws something goes first where it is owed, and is owed where it fails.
    fn commit(&mut self, group: Vec<Op>, numbers: &Numbers) -> Option<oneshot::Sender<Result<()>>> {
        let mut answers = Vec::with_capacity(group.len());
        let committed = match self.keep_owed(numbers) {
            Ok(()) => self.try_commit(group, numbers, &mut answers),
            Err(why) => {
                answers.extend(group.into_iter().map(Answer::untried));
                Err(why)
            }
        };
        if committed.is_err() {
            let lost = answers.iter().filter(|answer| matches!(answer, Answer::Nobody(_))).count();
            numbers.lost.fetch_add(lost as u64, Relaxed);
        }
        let mut stop = None;
        let mut withdrawn = Vec::new();
        for answer in answers {
            match answer {
                // A caller that has stopped waiting has lost nothing: the change stands all the same.
                Answer::Seq(reply, seq) => drop(reply.send(committed.clone().map(|()| seq))),
                Answer::Work(work) if work.withdraws() && is_owed(&committed) => withdrawn.push(work),
                Answer::Work(work) => work.answer(committed.clone()),
                Answer::Stop(reply) => stop = Some(reply),
                Answer::Nobody(Some(item)) if committed.is_ok() => numbers.tell(*item),
                Answer::Nobody(_) => {}
            }
        }
        if !withdrawn.is_empty() {
            self.withdraw(withdrawn, numbers);
        }
        stop
    }

    /// Makes withdrawals that have failed with their group once more, alone and with the reserve's space; if that fails, too,
    /// they are owed.
    fn withdraw(&mut self, mut withdrawn: Vec<Box<dyn Work>>, numbers: &Numbers) {
        let room = MAX_OWED.saturating_sub(self.owed.len());
        for work in withdrawn.split_off(withdrawn.len().min(room)) {
            work.answer(Err(StoreError::DiskFull));
        }
        self.owed.append(&mut withdrawn);
        let freed = self.reserve.free();
        let _ = self.keep_owed(numbers);
        if freed {
            // Before anything else takes the space.
            self.reserve.fill();
        }
        self.owed.iter_mut().for_each(|work| work.owe());
        numbers.owed.store(self.owed.len() as u64, Relaxed);
    }

    /// Keeps what is owed, in a transaction of its own: nothing may come before it.
    fn keep_owed(&mut self, numbers: &Numbers) -> Result<()> {
        if self.owed.is_empty() {
            return Ok(());
        }
        let owed = std::mem::take(&mut self.owed);
        let mut answers = Vec::with_capacity(owed.len());
        let kept = self.try_commit(owed.into_iter().map(Op::Work).collect(), numbers, &mut answers);
        for answer in answers {
            match answer {
                Answer::Work(work) if is_owed(&kept) => self.owed.push(work),
                Answer::Work(work) => work.answer(kept.clone()),
                _ => {}
            }
        }
        numbers.owed.store(self.owed.len() as u64, Relaxed);
        if is_owed(&kept) { kept } else { Ok(()) }
    }

    /// One group in one transaction, which is undone if any of it fails.
    fn try_commit(&mut self, group: Vec<Op>, numbers: &Numbers, answers: &mut Vec<Answer>) -> Result<()> {
        let (chain, signed) = (self.chain.clone(), self.signed);
        let writes = group.len() as u64;
        let committed = self.transact(group, numbers, answers);
        if let Err(error) = &committed {
            if !self.conn.is_autocommit() {
                // A rollback can only fail when there is nothing left to roll back.
                let _ = self.conn.execute_batch("ROLLBACK");
            }
            (self.chain, self.signed) = (chain, signed);
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
        committed
    }

    fn transact(&mut self, group: Vec<Op>, numbers: &Numbers, answers: &mut Vec<Answer>) -> Result<()> {
        let mut failed = begin(&self.conn).err();
        let mut tx = Tx { conn: &self.conn, chain: &mut self.chain, signed: &mut self.signed, signer: &self.signer };
        for op in group {
            // After a failure nothing more is tried, but every caller must still get an answer.
            let outcome = match op {
                Op::Append(draft, reply) => {
                    let outcome = if failed.is_none() { tx.append(&draft) } else { Ok(0) };
                    answers.push(Answer::Seq(reply, *outcome.as_ref().unwrap_or(&0)));
                    outcome.map(drop)
                }
                Op::Lossy(mut item) => {
                    let outcome = if failed.is_none() { telemetry::take(&mut tx, &mut item) } else { Ok(()) };
                    answers.push(Answer::Nobody(numbers.observed(*item).map(Box::new)));
                    outcome
                }
                Op::Work(mut work) => {
                    let outcome = if failed.is_none() { guarded(&mut tx, &mut *work) } else { Ok(()) };
                    answers.push(Answer::Work(work));
                    outcome
                }
                Op::Stop(reply) => {
                    answers.push(Answer::Stop(reply));
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
        if numbers.failing.load(Relaxed) {
            // A commit whose sync failed may stand in the log whole, until another is written over it. A commit that changes
            // nothing is not written, and would not show that the database can be, either.
            super::set_meta(&self.conn, "write_failed_until", &super::now().to_string())?;
        }
        self.conn.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }

    /// Signs the chain's end, empties the write-ahead log and releases the directory.
    fn close(mut self) -> Result<()> {
        let signed = self.sign_end();
        self.wal.finish();
        // Emptied, so that a copy of hub.db alone is whole. A reader that is still there may prevent it; no harm.
        let _ = self.conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        drop(self.conn);
        drop(self.lock);
        signed
    }

    fn sign_end(&mut self) -> Result<()> {
        if self.signed < self.chain.seq() {
            journal::sign(&self.conn, &self.chain, &self.signer, super::now())?;
        }
        Ok(())
    }
}

/// How a caller is answered once its group's end is known.
enum Answer {
    Seq(oneshot::Sender<Result<u64>>, u64),
    Work(Box<dyn Work>),
    Stop(oneshot::Sender<Result<()>>),
    /// Nobody waits; who observes the store may be told.
    Nobody(Option<Box<Lossy>>),
}

impl Answer {
    /// Of what was not tried.
    fn untried(op: Op) -> Self {
        match op {
            Op::Append(_, reply) => Self::Seq(reply, 0),
            Op::Work(work) => Self::Work(work),
            Op::Stop(reply) => Self::Stop(reply),
            Op::Lossy(_) => Self::Nobody(None),
        }
    }
}

/// Whether what failed is worth trying again: the storage failed, and not the change.
fn is_owed(committed: &Result<()>) -> bool {
    committed.as_ref().is_err_and(StoreError::is_of_the_storage)
}

/// Runs a change that may fail on its own: then it, and its records, are undone, and the group goes on.
fn guarded(tx: &mut Tx<'_>, work: &mut dyn Work) -> Result<()> {
    let (chain, signed) = (tx.chain.clone(), *tx.signed);
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
    Ok(())
}

fn begin(conn: &Connection) -> Result<()> {
    conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    Ok(())
}
