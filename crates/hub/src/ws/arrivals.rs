//! How much of large messages the hub takes in at once, over all connections. Each message is bounded by its limit; but
//! a fleet that answers at once would be more memory than any machine has. Whoever sends a large one waits until there is
//! room for it: it is not read from, and nobody else's connection is held up by that. Who finds none in time is not heard.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Messages up to this size are not counted. No room is taken for larger ones, either, until as much has come: a length that
/// is only announced keeps nobody out.
pub const SMALL: usize = 64 * 1024;
/// How long a connection waits for room. Well below the time after which silence counts as its end.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a message may take to come in while others wait for its room.
const SLOW: Duration = Duration::from_secs(60);

/// Room for messages that come in.
#[derive(Debug)]
pub struct Arrivals {
    room: Arc<Semaphore>,
    limit: u32,
    waiting: AtomicUsize,
    patience: Duration,
    slow: Duration,
}

impl Arrivals {
    /// Room for so many bytes.
    pub fn new(limit: usize) -> Arc<Self> {
        Self::with(limit, PATIENCE, SLOW)
    }

    /// The same with other times.
    pub(super) fn with(limit: usize, patience: Duration, slow: Duration) -> Arc<Self> {
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        let (room, waiting) = (Arc::new(Semaphore::new(limit as usize)), AtomicUsize::new(0));
        Arc::new(Self { room, limit, waiting, patience, slow })
    }

    /// Bytes that are taken, or put aside for who waits.
    pub fn held(&self) -> usize {
        self.limit as usize - self.room.available_permits()
    }

    /// Connections that wait for room.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Relaxed)
    }
}

/// What one connection has of it.
pub(super) struct Share {
    arrivals: Arc<Arrivals>,
    held: Option<(OwnedSemaphorePermit, Instant)>,
    asking: Option<Asking>,
}

type Asking = Pin<Box<dyn Future<Output = Option<OwnedSemaphorePermit>> + Send>>;

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Share").field("held", &self.held).finish_non_exhaustive()
    }
}

impl Share {
    pub(super) fn of(arrivals: &Arc<Arrivals>) -> Self {
        Self { arrivals: Arc::clone(arrivals), held: None, asking: None }
    }

    /// Whether there is room for a message of this size, once that is known.
    pub(super) fn poll_room(&mut self, size: usize, cx: &mut Context<'_>) -> Poll<bool> {
        // One that is larger than all there is has it for itself.
        let wanted = u32::try_from(size).unwrap_or(u32::MAX).min(self.arrivals.limit);
        loop {
            let (has, since) =
                self.held.as_ref().map_or((0, None), |(permit, since)| (permit.num_permits(), Some(*since)));
            let missing = wanted.saturating_sub(u32::try_from(has).unwrap_or(u32::MAX));
            if missing == 0 {
                let is_in_the_way =
                    self.arrivals.waiting() > 0 && since.is_some_and(|s| s.elapsed() >= self.arrivals.slow);
                return Poll::Ready(!is_in_the_way);
            }
            let granted = match &mut self.asking {
                Some(asking) => ready!(asking.as_mut().poll(cx)),
                None => match Arc::clone(&self.arrivals.room).try_acquire_many_owned(missing) {
                    Ok(granted) => Some(granted),
                    Err(_) => {
                        self.asking = Some(Box::pin(ask(Arc::clone(&self.arrivals), missing)));
                        continue;
                    }
                },
            };
            self.asking = None;
            let Some(granted) = granted else { return Poll::Ready(false) };
            match &mut self.held {
                Some((held, _)) => held.merge(granted),
                None => self.held = Some((granted, Instant::now())),
            }
        }
    }

    /// Gives it back.
    pub(super) fn release(&mut self) {
        (self.held, self.asking) = (None, None);
    }
}

async fn ask(arrivals: Arc<Arrivals>, missing: u32) -> Option<OwnedSemaphorePermit> {
    struct Waits<'a>(&'a AtomicUsize);
    impl Drop for Waits<'_> {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Relaxed);
        }
    }
    arrivals.waiting.fetch_add(1, Relaxed);
    let _waits = Waits(&arrivals.waiting);
    let acquired = Arc::clone(&arrivals.room).acquire_many_owned(missing);
    // It is never closed.
    tokio::time::timeout(arrivals.patience, acquired).await.ok()?.ok()
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    async fn room(share: &mut Share, size: usize) -> bool {
        poll_fn(|cx| share.poll_room(size, cx)).await
    }

    fn has_to_wait(share: &mut Share, size: usize) -> bool {
        share.poll_room(size, &mut Context::from_waker(std::task::Waker::noop())).is_pending()
    }

    #[tokio::test]
    async fn who_finds_no_room_waits_for_who_has_it_and_in_turn() {
        let arrivals = Arrivals::new(1_000_000);
        let [mut first, mut second, mut third] = std::array::from_fn(|_| Share::of(&arrivals));
        assert!(room(&mut first, 600_000).await);
        assert!(room(&mut first, 600_000).await, "it has it");
        assert_eq!(arrivals.held(), 600_000);
        assert!(has_to_wait(&mut second, 700_000));
        assert!(has_to_wait(&mut third, 100_000), "nobody goes before who came first");
        first.release();
        assert!(room(&mut second, 700_000).await);
        assert!(room(&mut third, 100_000).await);
        assert_eq!((arrivals.held(), arrivals.waiting()), (800_000, 0));
        (second, third) = (Share::of(&arrivals), Share::of(&arrivals));
        assert_eq!(arrivals.held(), 0);
        drop((second, third));
    }

    #[tokio::test]
    async fn who_waits_gives_up_in_time_and_leaves_nothing_behind() {
        let arrivals = Arrivals::with(1_000_000, Duration::from_millis(1), SLOW);
        let [mut first, mut second] = std::array::from_fn(|_| Share::of(&arrivals));
        assert!(room(&mut first, 600_000).await);
        assert!(!room(&mut second, 500_000).await);
        second.release();
        assert_eq!((arrivals.held(), arrivals.waiting()), (600_000, 0));
        assert!(room(&mut second, 400_000).await);
        assert!(has_to_wait(&mut first, 600_001), "a message of pieces that goes on");
        first.release();
        assert_eq!((arrivals.held(), arrivals.waiting()), (400_000, 0));
    }

    #[tokio::test]
    async fn a_slow_one_gives_way_once_others_wait() {
        let arrivals = Arrivals::with(1_000_000, PATIENCE, Duration::ZERO);
        let [mut slow, mut other] = std::array::from_fn(|_| Share::of(&arrivals));
        assert!(room(&mut slow, 900_000).await);
        assert!(room(&mut slow, 900_000).await, "it is in nobody's way");
        assert!(has_to_wait(&mut other, 900_000));
        assert!(!room(&mut slow, 900_000).await);
        slow.release();
        assert!(room(&mut other, 900_000).await);
    }

    #[tokio::test]
    async fn one_that_is_larger_than_all_there_is_comes_alone() {
        let arrivals = Arrivals::new(1_000_000);
        let [mut first, mut second] = std::array::from_fn(|_| Share::of(&arrivals));
        assert!(room(&mut first, 5_000_000).await);
        assert!(has_to_wait(&mut second, 100_000));
        first.release();
        assert!(room(&mut second, 100_000).await);
    }
}
