//! What one token may use of the hub: calls a minute, and calls at once. Counted in memory and for all doors together;
//! the gate asks before it looks at a call.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Instant;

use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};

use super::Token;
use crate::clock;

type Limiter<C> = RateLimiter<NotKeyed, InMemoryState, C, NoOpMiddleware<<C as Clock>::Instant>>;

/// The limits in force for a token; 0 means none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Calls a minute.
    pub per_minute: u32,
    /// Calls under way.
    pub at_once: u32,
}

/// The hub's steady clock, as the rate limits count on it.
#[derive(Clone, Copy, Debug, Default)]
pub struct SteadyClock;

impl Clock for SteadyClock {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        static START: LazyLock<Instant> = LazyLock::new(clock::steady);
        clock::steady().saturating_duration_since(*START).into()
    }
}

/// What a token has used.
#[derive(Debug)]
pub struct Budget<C: Clock = SteadyClock> {
    calls: OnceLock<Limiter<C>>,
    /// Refusals that are recorded: one a minute, or the limit would be a way to fill the disk.
    records: Limiter<C>,
    running: AtomicU32,
}

impl<C: Clock + Clone + Default> Default for Budget<C> {
    fn default() -> Self {
        Self::new(C::default())
    }
}

/// The token's calls a minute are used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooFast {
    /// When the next call may come.
    pub retry_after_s: u32,
    /// Whether this refusal is to be recorded.
    pub record: bool,
}

/// One of a token's calls under way; no longer counted when dropped.
#[derive(Debug)]
pub struct CallPermit(Option<Arc<Token>>);

impl Drop for CallPermit {
    fn drop(&mut self) {
        if let Some(token) = &self.0 {
            token.budget.running.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl<C: Clock + Clone> Budget<C> {
    fn new(clock: C) -> Self {
        let records = Limiter::direct_with_clock(Quota::per_minute(NonZeroU32::MIN), clock);
        Self { calls: OnceLock::new(), records, running: AtomicU32::new(0) }
    }

    /// Takes one call out of the minute's. The token's limit stays the same for as long as it is in memory.
    pub fn take(&self, per_minute: u32) -> Result<(), TooFast> {
        let Some(per_minute) = NonZeroU32::new(per_minute) else { return Ok(()) };
        let new = || Limiter::direct_with_clock(Quota::per_minute(per_minute), self.records.clock().clone());
        self.calls.get_or_init(new).check().map_err(|not_until| {
            let wait = not_until.wait_time_from(self.records.clock().now());
            let retry_after_s = u32::try_from(wait.as_secs() + 1).unwrap_or(60);
            TooFast { retry_after_s, record: self.records.check().is_ok() }
        })
    }

    /// Calls under way.
    pub fn running(&self) -> u32 {
        self.running.load(Ordering::Acquire)
    }
}

impl Token {
    /// Counts one more of the token's calls under way, if there may be one.
    pub fn enter(self: &Arc<Self>, at_once: u32) -> Option<CallPermit> {
        if at_once == 0 {
            return Some(CallPermit(None));
        }
        let free = |running: u32| (running < at_once).then_some(running + 1);
        self.budget.running.fetch_update(Ordering::AcqRel, Ordering::Acquire, free).ok()?;
        Some(CallPermit(Some(Arc::clone(self))))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use governor::clock::FakeRelativeClock;

    use super::*;

    #[test]
    fn a_minute_holds_so_many_and_they_come_back_one_by_one() {
        let clock = FakeRelativeClock::default();
        let budget = Budget::new(clock.clone());
        for _ in 0..6 {
            budget.take(6).expect("in the bucket");
        }
        let first = budget.take(6).expect_err("used up");
        assert_eq!((first.retry_after_s, first.record), (11, true));
        clock.advance(Duration::from_millis(1));
        assert!(!budget.take(6).expect_err("used up").record, "recorded once a minute");
        clock.advance(Duration::from_millis(9_999));
        budget.take(6).expect("one is back");
        assert!(budget.take(6).is_err());
        clock.advance(Duration::from_secs(50));
        assert!(budget.take(6).is_ok());
    }

    #[test]
    fn no_limit_is_no_limit() {
        let budget: Budget = Budget::default();
        assert!((0..1000).all(|_| budget.take(0).is_ok()));
    }
}
