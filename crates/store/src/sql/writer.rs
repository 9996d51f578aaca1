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
use tokio::sync::oneshot;

use super::queue::{self, Incoming, Queue};
use super::{Connection, journal, telemetry};
use crate::error::StoreError;
use crate::store::now;
use crate::{Lossy, Observer, Result};

/// About how many bytes a change without a large part holds.
pub(crate) const SMALL: usize = 1_024;
/// Records after which the chain's end is signed without being asked.
const SIGN_EVERY: u64 = 1_000;

/// Most withdrawals that are owed. Beyond it they are in force and not kept.
const MAX_OWED: usize = 10_000;

/// A change as the writer takes it.
pub(crate) enum Op {
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
pub(crate) trait Work: Send {
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
    pub(crate) fn is_urgent(&self) -> bool {
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
pub(crate) struct Request<F, T> {
    work: Option<F>,
    answer: Option<Result<T>>,
    reply: oneshot::Sender<Result<T>>,
}

impl<F, T> Request<F, T> {
    pub(crate) fn new(work: F, reply: oneshot::Sender<Result<T>>) -> Self {
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
pub(crate) struct Withdrawal<F, T> {
    work: F,
    answer: Option<Result<T>>,
    reply: Option<oneshot::Sender<Result<T>>>,
}

impl<F, T> Withdrawal<F, T> {
    pub(crate) fn new(work: F, reply: oneshot::Sender<Result<T>>) -> Self {
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
pub(crate) struct Tx<'a> {
    pub(crate) conn: &'a Connection,
    chain: &'a mut Chain,
    signed: &'a mut u64,
    signer: &'a SigningKey,
    batch: &'a mut journal::Batch,
}

impl Tx<'_> {
    /// The hub that writes.
    pub(crate) fn hub_id(&self) -> HubId {
        self.chain.hub_id()
    }

    /// Appends a record.
    pub(crate) fn append(&mut self, draft: &Draft) -> Result<u64> {
        let draft = draft.bounded();
        let sealed = self.chain.seal(&draft);
        let seq = sealed.seq;
        journal::put(self.conn, self.hub_id(), sealed, &draft, self.batch)?;
        Ok(seq)
    }

    /// Signs the chain's end, unless it is signed.
    pub(crate) fn sign(&mut self, now: convoke_core::time::Timestamp) -> Result<()> {
        if *self.signed < self.chain.seq() {
            journal::sign(self.conn, self.chain, self.signer, now)?;
            *self.signed = self.chain.seq();
        }
        Ok(())
    }
}

/// What the writer tells others: the store's counters, and what was committed.
#[derive(Default)]
pub(crate) struct Numbers {
    observer: OnceLock<Observer>,
    pub(crate) commits: AtomicU64,
    pub(crate) writes: AtomicU64,
    pub(crate) lost: AtomicU64,
    pub(crate) journal_seq: AtomicU64,
    pub(crate) failing: AtomicBool,
    pub(crate) owed: AtomicU64,
}

impl fmt::Debug for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Numbers").field("commits", &self.commits).finish_non_exhaustive()
    }
}

impl Numbers {
    /// Sets the observer of commits; the first one stays.
    pub(crate) fn observed_by(&self, observer: Observer) {
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
pub(crate) struct Writer {
    pub(crate) conn: Connection,
    /// The journal's end.
    pub(crate) chain: Chain,
    /// The last record that a checkpoint covers.
    pub(crate) signed: u64,
    pub(crate) signer: Arc<SigningKey>,
    /// Withdrawals that could not be kept, oldest first.
    pub(crate) owed: Vec<Box<dyn Work>>,
    pub(crate) guard: Box<dyn Guard>,
}

/// What an engine does around the writer's transactions. Held for as long as anything may be written.
pub(crate) trait Guard: Send {
    /// Before a transaction: makes a lost connection anew. Then the end of the chain may be another: it is answered.
    fn ready(&mut self, conn: &mut Connection) -> Result<Option<(Chain, u64)>>;
    /// Begins a transaction in which this hub may write.
    fn begin(&mut self, conn: &Connection) -> Result<()>;
    /// Commits it.
    fn commit(&mut self, conn: &Connection) -> Result<()>;
    /// After a transaction of about so many bytes.
    fn after_commit(&mut self, conn: &Connection, bytes: usize);
    /// Frees the space that is held for what withdraws something. False when there was none.
    fn free_reserve(&mut self) -> bool {
        false
    }
    /// Takes that space again.
    fn fill_reserve(&mut self) {}
    /// The last thing that happens; with the guard goes whatever kept others out.
    fn close(self: Box<Self>, conn: Connection);
}

impl Writer {
    /// Starts the thread.
    pub(crate) fn start(self, queue_limit: usize) -> Result<Queue> {
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
            self.guard.after_commit(&self.conn, group.bytes);
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
        let freed = self.guard.free_reserve();
        let _ = self.keep_owed(numbers);
        if freed {
            // Before anything else takes the space.
            self.guard.fill_reserve();
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
        let ready = self.guard.ready(&mut self.conn);
        if let Ok(Some(end)) = &ready {
            (self.chain, self.signed) = end.clone();
        }
        let (chain, signed) = (self.chain.clone(), self.signed);
        let writes = group.len() as u64;
        let committed = self.transact(ready.err(), group, numbers, answers);
        if let Err(error) = &committed {
            if is_in_transaction(&self.conn) {
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

    fn transact(
        &mut self,
        unready: Option<StoreError>,
        group: Vec<Op>,
        numbers: &Numbers,
        answers: &mut Vec<Answer>,
    ) -> Result<()> {
        let mut failed = unready.or_else(|| self.guard.begin(&self.conn).err());
        let mut batch = journal::Batch::default();
        let Self { conn, chain, signed, signer, .. } = self;
        let mut tx = Tx { conn, chain, signed, signer, batch: &mut batch };
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
            tx.sign(now())?;
        }
        if numbers.failing.load(Relaxed) {
            // A commit whose sync failed may stand in the log whole, until another is written over it. A commit that changes
            // nothing is not written, and would not show that the database can be, either.
            super::set_meta(tx.conn, "write_failed_until", &now().to_string())?;
        }
        let hub_id = tx.hub_id();
        batch.flush(&self.conn, hub_id)?;
        self.guard.commit(&self.conn)
    }

    /// Signs the chain's end and lets others write.
    fn close(mut self) -> Result<()> {
        let signed = self.sign_end();
        self.guard.close(self.conn);
        signed
    }

    fn sign_end(&mut self) -> Result<()> {
        if self.signed < self.chain.seq() {
            self.guard.begin(&self.conn)?;
            journal::sign(&self.conn, &self.chain, &self.signer, now())?;
            self.guard.commit(&self.conn)?;
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
    let (chain, signed, mark) = (tx.chain.clone(), *tx.signed, tx.batch.mark());
    tx.conn.prepare_cached("SAVEPOINT work")?.execute([])?;
    let Err(error) = work.run(tx) else {
        tx.conn.prepare_cached("RELEASE work")?.execute([])?;
        return Ok(());
    };
    // Some errors make SQLite give up the whole transaction; then there is no savepoint to go back to.
    if error.is_of_the_storage() || !is_in_transaction(tx.conn) {
        return Err(error);
    }
    tx.conn.execute_batch("ROLLBACK TO work; RELEASE work")?;
    *tx.chain = chain;
    *tx.signed = signed;
    tx.batch.back_to(mark);
    Ok(())
}

fn is_in_transaction(conn: &Connection) -> bool {
    match conn {
        Connection::Sqlite(conn) => !conn.is_autocommit(),
        Connection::Postgres(session) => session.is_usable(),
    }
}
