//! What one token may use of the hub: calls a minute, and calls at once. Counted in memory and for all doors together;
//! the gate asks before it looks at a call.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use convoke_core::time::Timestamp;

use super::Token;

const MINUTE_US: i64 = 60_000_000;

/// The limits in force for a token; 0 means none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Calls a minute.
    pub per_minute: u32,
    /// Calls under way.
    pub at_once: u32,
}

/// What a token has used.
#[derive(Debug, Default)]
pub struct Budget {
    rate: Mutex<Rate>,
    running: AtomicU32,
}

/// The generic cell rate algorithm: one number says when the bucket would be full again.
#[derive(Debug, Default)]
struct Rate {
    full_at_us: i64,
    told_at_us: Option<i64>,
}

/// The token's calls a minute are used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooFast {
    /// When the next call may come.
    pub retry_after_s: u32,
    /// Whether this refusal is to be recorded: one a minute is, or the limit would be a way to fill the disk.
    pub tell: bool,
}

/// A place among a token's calls under way; given back when dropped.
#[derive(Debug)]
pub struct Place(Option<Arc<Token>>);

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(token) = &self.0 {
            token.budget.running.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl Budget {
    /// Takes one call out of the minute's.
    pub fn take(&self, per_minute: u32, now: Timestamp) -> Result<(), TooFast> {
        if per_minute == 0 {
            return Ok(());
        }
        let now_us = now.millis().saturating_mul(1000);
        let each = (MINUTE_US / i64::from(per_minute)).max(1);
        let mut rate = self.rate.lock().unwrap_or_else(PoisonError::into_inner);
        // A clock that was set back must not lock the token out for longer than a minute.
        let full_at = rate.full_at_us.clamp(now_us, now_us.saturating_add(MINUTE_US));
        let after = full_at.saturating_add(each);
        let over = after - now_us.saturating_add(MINUTE_US);
        if over > 0 {
            let tell = rate.told_at_us.is_none_or(|told| now_us < told || now_us >= told + MINUTE_US);
            if tell {
                rate.told_at_us = Some(now_us);
            }
            rate.full_at_us = full_at;
            let retry_after_s = u32::try_from(over / 1_000_000 + 1).unwrap_or(60);
            return Err(TooFast { retry_after_s, tell });
        }
        rate.full_at_us = after;
        Ok(())
    }

    /// Calls under way.
    pub fn running(&self) -> u32 {
        self.running.load(Ordering::Acquire)
    }
}

impl Token {
    /// A place among the token's calls under way, if it has one left.
    pub fn enter(self: &Arc<Self>, at_once: u32) -> Option<Place> {
        if at_once == 0 {
            return Some(Place(None));
        }
        let free = |running: u32| (running < at_once).then_some(running + 1);
        self.budget.running.fetch_update(Ordering::AcqRel, Ordering::Acquire, free).ok()?;
        Some(Place(Some(Arc::clone(self))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    #[test]
    fn a_minute_holds_so_many_and_they_come_back_one_by_one() {
        let budget = Budget::default();
        for _ in 0..6 {
            budget.take(6, at(0)).expect("in the bucket");
        }
        let first = budget.take(6, at(0)).expect_err("used up");
        assert_eq!((first.retry_after_s, first.tell), (11, true));
        assert!(!budget.take(6, at(1)).expect_err("used up").tell, "recorded once a minute");
        budget.take(6, at(10_000)).expect("one is back");
        assert!(budget.take(6, at(10_000)).is_err());
        assert!(budget.take(6, at(60_000)).is_ok());
    }

    #[test]
    fn a_clock_set_back_costs_a_minute_at_most() {
        let budget = Budget::default();
        budget.take(1, at(3_600_000)).expect("the first");
        assert!(budget.take(1, at(0)).is_err());
        assert!(budget.take(1, at(60_000)).is_ok());
    }

    #[test]
    fn no_limit_is_no_limit() {
        let budget = Budget::default();
        assert!((0..1000).all(|_| budget.take(0, at(0)).is_ok()));
    }
}
