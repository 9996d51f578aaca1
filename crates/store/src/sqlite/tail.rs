//! The end of the journal, and a file that has its newest records before the database does.
//!
//! A commit of the database for one record costs a thread that is woken, some pages and a sync. So a record that comes
//! alone (how a call ended, which is most of them) is given its place in the chain where it arises, and written to
//! `hub.db-tail` from there, past the page cache and synced, together with whoever else comes at that moment. Then it is
//! acknowledged. The writer puts it into the database within some [`super::queue::SETTLE`], many at once; and a start
//! after a kill does the same with what it finds.
//!
//! Invariants:
//!
//! - A record that was given its place here keeps it: it is never undone. The writer puts these records into the database
//!   in order, before records of its own.
//! - While the writer has records of its own in a transaction, which may fail, none is given a place here: it would
//!   continue one that is undone. They wait for the commit.
//! - A frame is written over only once the database has its records, committed and synced.
//! - One frame is written at a time, and none while a record before it is neither in the file nor in the database. So of
//!   what was acknowledged nothing is behind a gap.
//!
//! Where there is no ring ([`convoke_ring`]), or a write to the file fails, everything goes the long way: to the writer, which
//! gives it its place, and is acknowledged once the database has it. So do records that do not fit.

mod format;
mod room;
mod task;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use convoke_core::journal::{Chain, Draft, Hash, Sealed};
use tokio::sync::{Notify, oneshot};

use crate::interface::Result;
use format::{FRAME_HEADER, FrameHeader, Identity, Salt};
use room::Room;

pub use format::TailDamage;
pub(crate) use format::{Contents, Following};
pub(super) use format::{identity, remove};
pub(super) use task::start;

/// How long a frame waits at the most for those who are on their way, so that they share a write.
const GATHER: Duration = Duration::from_millis(2);
/// Most bytes of a frame. What does not fit goes the long way.
const MAX_FRAME: usize = 256 << 10;

/// How long whoever closes waits for a write that is under way.
const END_PATIENCE: Duration = Duration::from_secs(10);

/// Who waits for a record.
pub(super) type Reply = oneshot::Sender<Result<u64>>;

/// Those who wait for records that have their place.
pub(super) type Waiting = Vec<(Reply, u64)>;

/// A record that gets no place here, and whoever waits for it: it has to go the long way.
pub(super) type Homeless = (Box<Draft>, Reply);

/// The journal's end, shared by whoever appends.
#[derive(Debug)]
pub(super) struct Tail {
    state: Mutex<State>,
    /// Wakes the task that writes frames.
    wake: Notify,
    /// Records that the database does not have yet.
    unsettled: AtomicUsize,
    /// Whoever writes frames.
    writing: Mutex<Option<Writing>>,
    /// Whether records may be given a place here. A look at it without the lock may be wrong; under the lock it is not.
    is_open: AtomicBool,
    /// The next write is told as failed, though it was made.
    #[cfg(test)]
    fails_next: AtomicBool,
}

/// The file, and what whoever writes to it lets go of once nothing is written any more.
#[derive(Debug)]
struct Writing {
    path: PathBuf,
    identity: Option<Identity>,
    ended: mpsc::Receiver<()>,
}

#[derive(Debug)]
struct State {
    chain: Chain,
    way: Way,
    /// The writer has records of its own in a transaction.
    is_lent: bool,
    /// The database cannot be written at this time.
    is_failing: bool,
    /// The last record that found no room in the file. Until the database has it, no frame may follow.
    gap: u64,
    /// Records that came meanwhile, and get their place after the writer's.
    parked: Vec<(Box<Draft>, Reply)>,
    /// Records that have their place, and that the database does not have.
    unsettled: Vec<Unsettled>,
    frame: Frame,
    room: Room,
    /// Those whose records the writer takes with its last transaction: it takes no more orders by then.
    at_the_end: Waiting,
}

/// Whether records can be written to the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Open,
    /// What is gathered is still written.
    Closing,
    Closed,
}

/// A record with its place.
#[derive(Debug)]
pub(super) struct Unsettled {
    pub(super) sealed: Sealed,
    pub(super) draft: Box<Draft>,
}

/// What gathers for the next write.
#[derive(Debug, Default)]
struct Frame {
    bytes: Vec<u8>,
    first: u64,
    before: Hash,
    last: Hash,
    waiting: Waiting,
    since: Option<Instant>,
    /// Whether all who are on their way are here.
    is_whole: bool,
}

/// What the writer takes for a transaction.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// Records that have their place, to be put into the database first.
    pub(super) records: Vec<Unsettled>,
    is_lent: bool,
}

impl Tail {
    /// The end of a chain, with nothing but the long way.
    pub(super) fn new(chain: Chain) -> Arc<Self> {
        let state = State {
            chain,
            way: Way::Closed,
            is_lent: false,
            is_failing: false,
            gap: 0,
            parked: Vec::new(),
            unsettled: Vec::new(),
            frame: Frame::default(),
            room: Room::default(),
            at_the_end: Vec::new(),
        };
        let (wake, unsettled, is_open) = (Notify::new(), AtomicUsize::new(0), AtomicBool::new(false));
        Arc::new(Self {
            state: Mutex::new(state),
            wake,
            unsettled,
            writing: Mutex::default(),
            is_open,
            #[cfg(test)]
            fails_next: AtomicBool::new(false),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last record's place.
    pub(super) fn seq(&self) -> u64 {
        self.state().chain.seq()
    }

    /// Whether a record that comes now may be given its place here.
    pub(super) fn is_open(&self) -> bool {
        self.is_open.load(Relaxed)
    }

    #[cfg(test)]
    pub(super) fn parked(&self) -> usize {
        self.state().parked.len()
    }

    /// Whether the database has everything.
    pub(super) fn is_settled(&self) -> bool {
        self.unsettled.load(Relaxed) == 0
    }

    /// Gives a record its place and lets it be written. What cannot be comes back.
    pub(super) fn append(
        &self,
        draft: Box<Draft>,
        reply: Reply,
        is_whole: bool,
    ) -> std::result::Result<(), Homeless> {
        let mut state = self.state();
        if state.is_lent && state.takes_more() {
            state.parked.push((draft, reply));
            return Ok(());
        }
        let wake = state.place(draft, reply, is_whole)?;
        self.unsettled.store(state.unsettled.len(), Relaxed);
        drop(state);
        if wake {
            self.wake.notify_one();
        }
        Ok(())
    }

    /// What the writer puts into the database in its next transaction, and the chain's end behind it. With `lend`, records
    /// of its own may follow; until it says what became of them no others get a place.
    pub(super) fn take(&self, lend: bool) -> (Taken, Chain) {
        let mut state = self.state();
        state.is_lent = lend;
        let records = std::mem::take(&mut state.unsettled);
        (Taken { records, is_lent: lend }, state.chain.clone())
    }

    /// What was taken is committed, and so is what the writer added, up to this end. Answers the records that came meanwhile
    /// and have to go the long way.
    #[must_use]
    pub(super) fn committed(&self, taken: &Taken, chain: &Chain) -> Vec<Homeless> {
        let mut state = self.state();
        // A frame is a piece of the chain without gaps. What gathered before the writer added records of its own was taken
        // with them, so the database has it: those who wait for it need not wait for a write any more.
        let has_grown = chain.seq() > state.chain.seq();
        let answered = if has_grown { state.frame.give_up() } else { Vec::new() };
        if taken.is_lent {
            state.chain = chain.clone();
        }
        state.is_failing = false;
        state.room.free_up_to(chain.seq());
        if state.gap <= chain.seq() {
            state.gap = 0;
        }
        let homeless = self.end_loan(state);
        for (reply, seq) in answered {
            let _ = reply.send(Ok(seq));
        }
        homeless
    }

    /// What was taken is not committed: it is taken again the next time. What the writer added is undone. Answers like
    /// [`Self::committed`].
    #[must_use]
    pub(super) fn undone(&self, taken: &mut Taken) -> Vec<Homeless> {
        let mut state = self.state();
        state.is_failing = true;
        taken.records.append(&mut state.unsettled);
        state.unsettled = std::mem::take(&mut taken.records);
        self.end_loan(state)
    }

    fn end_loan(&self, mut state: MutexGuard<'_, State>) -> Vec<Homeless> {
        state.is_lent = false;
        let parked = std::mem::take(&mut state.parked);
        let has_placed = !parked.is_empty();
        let homeless =
            parked.into_iter().filter_map(|(draft, reply)| state.place(draft, reply, true).err()).collect();
        self.unsettled.store(state.unsettled.len(), Relaxed);
        drop(state);
        if has_placed {
            self.wake.notify_one();
        }
        homeless
    }

    /// No record gets a place here any more. What is gathered is still written.
    pub(super) fn close(&self) {
        let mut state = self.state();
        self.is_open.store(false, Relaxed);
        if state.way == Way::Open {
            state.way = Way::Closing;
        }
        drop(state);
        self.wake.notify_one();
    }

    /// There is no writer any more.
    pub(super) fn abandon(&self) {
        self.close();
        let mut state = self.state();
        state.is_lent = false;
        // Dropping them answers that the store is closed.
        state.parked.clear();
    }

    /// Waits until nothing is written any more, after [`Self::close`]. Answers the file, if there is one.
    pub(super) fn wait_for_end(&self) -> Option<PathBuf> {
        let Writing { path, identity, ended } = self.writing.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        // Nothing is ever sent: it ends when the other side is dropped.
        if ended.recv_timeout(END_PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
            // Its runtime is there, and nobody drives it. What it still does can do no harm: the database has everything, and
            // the next start has a file of its own.
            tracing::warn!("whoever writes hub.db-tail does not end; the file is left to the next start");
            return None;
        }
        // Somebody else's is not ours to remove.
        (format::identity(&path) == identity).then_some(path)
    }

    /// Those who are to be answered once the last transaction is over.
    pub(super) fn take_last(&self) -> Waiting {
        std::mem::take(&mut self.state().at_the_end)
    }

    /// The next write fails after it was made, as one whose sync fails may.
    #[cfg(test)]
    pub(super) fn fail_next(&self) {
        self.fails_next.store(true, Relaxed);
    }
}

impl State {
    /// Whether records get a place here, but for a loan.
    fn takes_more(&self) -> bool {
        self.way == Way::Open && !self.is_failing && self.gap == 0
    }

    /// Whether whoever writes must look at it now.
    fn place(&mut self, draft: Box<Draft>, reply: Reply, is_whole: bool) -> std::result::Result<bool, Homeless> {
        if self.is_lent || !self.takes_more() || !self.frame.has_room(&draft) {
            return Err((draft, reply));
        }
        let before = *self.chain.head();
        let sealed = self.chain.seal(&draft);
        let wake = self.frame.add(&sealed, before, reply, is_whole);
        self.unsettled.push(Unsettled { sealed, draft });
        Ok(wake)
    }
}

impl Frame {
    fn has_room(&self, draft: &Draft) -> bool {
        self.bytes.len() + super::journal::weight(draft) <= MAX_FRAME
    }

    /// Whether whoever writes must look at it now.
    fn add(&mut self, sealed: &Sealed, before: Hash, reply: Reply, is_whole: bool) -> bool {
        let is_first = self.bytes.is_empty();
        if is_first {
            self.bytes.extend_from_slice(&[0; FRAME_HEADER]);
            (self.first, self.before) = (sealed.seq, before);
        }
        debug_assert!(is_first || self.last == before, "a frame has no gaps");
        // A body is far below 4 GiB: `has_room` was asked.
        self.bytes.extend_from_slice(&(sealed.body.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(sealed.body.as_bytes());
        self.last = sealed.hash;
        self.waiting.push((reply, sealed.seq));
        self.is_whole = is_whole;
        if !is_whole && self.since.is_none() {
            self.since = Some(Instant::now());
        }
        is_first || is_whole
    }

    /// Those who wait for it. It is not written.
    fn give_up(&mut self) -> Waiting {
        self.bytes.clear();
        self.since = None;
        std::mem::take(&mut self.waiting)
    }

    fn header(&self, salt: Salt) -> FrameHeader {
        FrameHeader {
            salt,
            first: self.first,
            records: self.waiting.len() as u32,
            bytes: (self.bytes.len() - FRAME_HEADER) as u32,
            before: self.before,
            last: self.last,
        }
    }
}
