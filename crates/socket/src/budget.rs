//! Memory for large messages that arrive, shared by many connections.
//!
//! Each message is bounded by its limit, but a fleet that answers at once would be more memory than any machine has. A
//! connection with a large message waits until the budget has memory for it: it is not read meanwhile, and no other
//! connection waits with it. A message that gets none in time is skipped.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;

/// Messages up to this size are not counted. No memory is reserved for larger ones, either, until as much has come.
pub const SMALL: usize = 64 * 1024;
/// How long a connection waits for memory.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a message has all the time it wants, and how often it is looked at from then on.
const GRACE: Duration = Duration::from_secs(10);
/// How long after a message had to go the next one may have to.
const TURN: Duration = Duration::from_millis(100);
/// Bytes a second that a message must bring while others wait for its memory: a length that is only announced must not keep them
/// out.
const PACE: u64 = 64 * 1024;

/// Memory for messages that come in.
#[derive(Debug)]
pub struct Budget {
    free: Arc<Semaphore>,
    limit: u32,
    waiting: AtomicUsize,
    /// When a message had to go the last time.
    gave_way: Mutex<Option<Instant>>,
    patience: Duration,
    grace: Duration,
}

impl Budget {
    /// With so many bytes.
    pub fn new(limit: usize) -> Arc<Self> {
        Self::with(limit, PATIENCE, GRACE)
    }

    /// The same with other times.
    pub(crate) fn with(limit: usize, patience: Duration, grace: Duration) -> Arc<Self> {
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        let (free, waiting) = (Arc::new(Semaphore::new(limit as usize)), AtomicUsize::new(0));
        Arc::new(Self { free, limit, waiting, gave_way: Mutex::default(), patience, grace })
    }

    /// Bytes in use, or set aside for a connection that waits.
    pub fn held(&self) -> usize {
        self.limit as usize - self.free.available_permits()
    }

    /// Connections that wait for memory.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Relaxed)
    }

    /// Whether a message has to give way now. One at a time: its memory may be all that the next one needs.
    fn has_to_go(&self) -> bool {
        let mut gave_way = self.gave_way.lock().unwrap_or_else(PoisonError::into_inner);
        let has_to = gave_way.is_none_or(|last| last.elapsed() >= TURN);
        if has_to {
            *gave_way = Some(Instant::now());
        }
        has_to
    }
}

/// What one connection has of it: nothing, most of the time.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Arc<Budget>,
    state: Option<Box<State>>,
}

enum State {
    /// It waits.
    Asking(Pin<Box<dyn Future<Output = Option<OwnedSemaphorePermit>> + Send>>),
    /// It has memory for its message.
    Held(Held),
}

#[derive(Debug)]
struct Held {
    _permit: OwnedSemaphorePermit,
    /// When it was looked at, and what had come of the message by then.
    since: Instant,
    here: usize,
    /// When it is looked at next.
    look: Pin<Box<Sleep>>,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asking(_) => f.write_str("Asking"),
            Self::Held(held) => held.fmt(f),
        }
    }
}

impl Share {
    pub(crate) fn of(budget: &Arc<Budget>) -> Self {
        Self { budget: Arc::clone(budget), state: None }
    }

    /// Whether it waits for memory.
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self.state.as_deref(), Some(State::Asking(_)))
    }

    /// Whether there is memory for a message that may be so long and of which so much is here, once that is known. Asked again as
    /// more of it comes: it may have to go.
    pub(crate) fn poll_memory(&mut self, here: usize, whole: usize, cx: &mut Context<'_>) -> Poll<bool> {
        loop {
            let granted = match self.state.as_deref_mut() {
                Some(State::Held(held)) => {
                    let stays = held.may_stay(&self.budget, here, cx);
                    if !stays {
                        self.release();
                    }
                    return Poll::Ready(stays);
                }
                Some(State::Asking(asking)) => ready!(asking.as_mut().poll(cx)),
                None => {
                    // A message larger than the whole budget gets all of it.
                    let wanted = u32::try_from(whole).unwrap_or(u32::MAX).min(self.budget.limit);
                    match Arc::clone(&self.budget.free).try_acquire_many_owned(wanted) {
                        Ok(granted) => Some(granted),
                        Err(_) => {
                            let asking = ask(Arc::clone(&self.budget), wanted);
                            self.state = Some(Box::new(State::Asking(Box::pin(asking))));
                            continue;
                        }
                    }
                }
            };
            let Some(permit) = granted else {
                self.release();
                return Poll::Ready(false);
            };
            let look = Box::pin(tokio::time::sleep(self.budget.grace));
            let held = Held { _permit: permit, since: Instant::now(), here, look };
            self.state = Some(Box::new(State::Held(held)));
        }
    }

    /// Gives it back.
    pub(crate) fn release(&mut self) {
        self.state = None;
    }
}

impl Held {
    /// Whether it comes fast enough, or is in nobody's way.
    fn may_stay(&mut self, budget: &Budget, here: usize, cx: &mut Context<'_>) -> bool {
        // The look wakes the connection, also one of which nothing comes.
        while self.look.as_mut().poll(cx).is_ready() {
            let came = here.saturating_sub(self.here) as u64;
            let is_slow = came < self.since.elapsed().as_secs().max(1).saturating_mul(PACE);
            let next = match is_slow && budget.waiting() > 0 {
                true if budget.has_to_go() => return false,
                true => TURN,
                false => {
                    (self.since, self.here) = (Instant::now(), here);
                    budget.grace.max(Duration::from_millis(1))
                }
            };
            self.look.as_mut().reset(tokio::time::Instant::now() + next);
        }
        true
    }
}

async fn ask(budget: Arc<Budget>, wanted: u32) -> Option<OwnedSemaphorePermit> {
    struct Waits<'a>(&'a AtomicUsize);
    impl Drop for Waits<'_> {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Relaxed);
        }
    }
    budget.waiting.fetch_add(1, Relaxed);
    let _waits = Waits(&budget.waiting);
    let acquired = Arc::clone(&budget.free).acquire_many_owned(wanted);
    // It is never closed.
    tokio::time::timeout(budget.patience, acquired).await.ok()?.ok()
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    async fn reserve(share: &mut Share, size: usize) -> bool {
        poll_fn(|cx| share.poll_memory(SMALL, size, cx)).await
    }

    fn has_to_wait(share: &mut Share, size: usize) -> bool {
        share.poll_memory(SMALL, size, &mut Context::from_waker(std::task::Waker::noop())).is_pending()
    }

    #[tokio::test]
    async fn who_finds_no_memory_waits_for_who_has_it_and_in_turn() {
        let budget = Budget::new(1_000_000);
        let [mut first, mut second, mut third] = std::array::from_fn(|_| Share::of(&budget));
        assert!(reserve(&mut first, 600_000).await);
        assert!(reserve(&mut first, 600_000).await, "it has it");
        assert_eq!(budget.held(), 600_000);
        assert!(has_to_wait(&mut second, 700_000) && second.is_waiting());
        assert!(has_to_wait(&mut third, 100_000), "nobody goes before who came first");
        first.release();
        assert!(reserve(&mut second, 700_000).await && !second.is_waiting());
        assert!(reserve(&mut third, 100_000).await);
        assert_eq!((budget.held(), budget.waiting()), (800_000, 0));
        drop((second, third));
        assert_eq!(budget.held(), 0);
    }

    #[tokio::test]
    async fn who_waits_gives_up_in_time_and_leaves_nothing_behind() {
        let budget = Budget::with(1_000_000, Duration::from_millis(1), GRACE);
        let [mut first, mut second] = std::array::from_fn(|_| Share::of(&budget));
        assert!(reserve(&mut first, 600_000).await);
        assert!(!reserve(&mut second, 500_000).await);
        assert_eq!((budget.held(), budget.waiting()), (600_000, 0));
        assert!(reserve(&mut second, 400_000).await);
        assert!(has_to_wait(&mut Share::of(&budget), 100_000), "and is gone at once");
        assert_eq!((budget.held(), budget.waiting()), (1_000_000, 0));
    }

    #[tokio::test]
    async fn one_that_hardly_comes_gives_way_to_who_waits_though_nothing_of_it_comes() {
        let budget = Budget::with(1_000_000, PATIENCE, Duration::from_millis(1));
        let mut slow = Share::of(&budget);
        assert!(reserve(&mut slow, 900_000).await);
        let stays = tokio::spawn({
            let budget = Arc::clone(&budget);
            async move {
                // What a connection does while nothing comes: it is looked at when somebody wakes it.
                let gone = poll_fn(|cx| match slow.poll_memory(SMALL, 900_000, cx) {
                    Poll::Ready(true) => Poll::Pending,
                    Poll::Ready(false) => Poll::Ready(budget.waiting()),
                    Poll::Pending => panic!("it has its memory"),
                });
                gone.await
            }
        });
        let mut other = Share::of(&budget);
        assert!(reserve(&mut other, 900_000).await);
        assert_eq!(stays.await.expect("no panic"), 1, "while somebody waited");
    }

    #[tokio::test]
    async fn one_that_comes_fast_enough_stays() {
        let budget = Budget::with(1_000_000, PATIENCE, Duration::ZERO);
        let [mut fast, mut other] = std::array::from_fn(|_| Share::of(&budget));
        assert!(reserve(&mut fast, 900_000).await);
        assert!(has_to_wait(&mut other, 900_000));
        let here = SMALL + 60 * PACE as usize;
        assert!(poll_fn(|cx| fast.poll_memory(here, 900_000, cx)).await);
        // And goes once it does not.
        let gone = poll_fn(|cx| match fast.poll_memory(SMALL, 900_000, cx) {
            Poll::Ready(false) => Poll::Ready(()),
            _ => Poll::Pending,
        });
        gone.await;
    }

    #[tokio::test]
    async fn no_more_go_than_somebody_waits_for() {
        let budget = Budget::with(1_000_000, PATIENCE, Duration::ZERO);
        let mut slow: [_; 4] = std::array::from_fn(|_| Share::of(&budget));
        for share in &mut slow {
            assert!(reserve(share, 250_000).await);
        }
        let mut other = Share::of(&budget);
        assert!(has_to_wait(&mut other, 100_000));
        // All are looked at in the same moment, before who waits hears of the memory.
        let gone = poll_fn(|cx| {
            let gone = slow.iter_mut().filter_map(|share| match share.poll_memory(SMALL, 250_000, cx) {
                Poll::Ready(false) => Some(()),
                _ => None,
            });
            match gone.count() {
                0 => Poll::Pending,
                some => Poll::Ready(some),
            }
        });
        assert_eq!(gone.await, 1);
        assert!(reserve(&mut other, 100_000).await);
        assert_eq!(budget.held(), 3 * 250_000 + 100_000);
    }

    #[tokio::test]
    async fn one_that_is_larger_than_all_there_is_comes_alone() {
        let budget = Budget::new(1_000_000);
        let [mut first, mut second] = std::array::from_fn(|_| Share::of(&budget));
        assert!(reserve(&mut first, 5_000_000).await);
        assert!(has_to_wait(&mut second, 100_000));
        first.release();
        assert!(reserve(&mut second, 100_000).await);
    }
}
