//! When a client tries again: exponential backoff with full jitter, 1 s to 60 s, reset after a minute of authenticated
//! life. Full jitter, so that a thousand clients of a restarted hub do not come back in step.

use std::time::Duration;

/// The first delay.
pub const FIRST: Duration = Duration::from_secs(1);
/// The longest delay.
pub const LONGEST: Duration = Duration::from_secs(60);
/// An authenticated life of this length is a success.
pub const GOOD_LIFE: Duration = Duration::from_secs(60);

/// Counts failures in a row.
#[derive(Clone, Copy, Debug, Default)]
pub struct Backoff {
    failures: u32,
}

impl Backoff {
    /// The connection ended after `life` of being authenticated. Answers how long to wait; `random` is any number.
    pub fn ended(&mut self, life: Duration, random: u64) -> Duration {
        if life >= GOOD_LIFE {
            self.failures = 0;
        }
        let ceiling = FIRST.saturating_mul(1 << self.failures.min(6)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        // 53 bits are what a float holds; never zero, so that a refused connection is no busy loop.
        let share = (random >> 11) as f64 / (1u64 << 53) as f64;
        ceiling.mul_f64(share).max(FIRST / 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_a_minute_are_spread_and_start_over_after_a_good_life() {
        let mut backoff = Backoff::default();
        let longest: Vec<u64> =
            (0..8).map(|_| backoff.ended(Duration::ZERO, u64::MAX).as_secs_f64().round() as u64).collect();
        assert_eq!(longest, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(backoff.ended(Duration::ZERO, 0), FIRST / 10);
        assert!(backoff.ended(GOOD_LIFE, u64::MAX) <= FIRST);
    }
}
