//! How long whoever keeps a connection to a hub waits before the next attempt.

use std::time::Duration;

/// The first cap.
const FIRST: Duration = Duration::from_secs(1);
/// Never sooner: a hub that closes at once must not be hammered by a lucky draw.
const LEAST: Duration = Duration::from_millis(200);
/// After a connection this long the pauses start over. A shorter one does not count: a hub that accepts and closes would
/// otherwise be tried once a second for ever.
pub const GOOD_LIFE: Duration = Duration::from_secs(60);

/// Doubles a cap from 1 s to the longest pause and draws each pause from zero to the cap, so that the peers of
/// a hub that restarts do not all connect at once.
#[derive(Debug)]
pub struct Backoff {
    cap: Duration,
    most: Duration,
}

impl Backoff {
    /// With no pause longer than `most`.
    pub fn new(most: Duration) -> Self {
        Self { cap: FIRST.min(most), most }
    }

    /// The next pause. `random` is uniform over all its values.
    pub fn next(&mut self, random: u32) -> Duration {
        let share = f64::from(random) / f64::from(u32::MAX);
        let pause = self.cap.mul_f64(share).max(LEAST);
        self.cap = (self.cap * 2).min(self.most);
        pause
    }

    /// A connection was authenticated for so long and then ended.
    pub fn lived(&mut self, life: Duration) {
        if life >= GOOD_LIFE {
            *self = Self::new(self.most);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn pauses_grow_to_a_minute_and_are_spread() {
        let mut backoff = Backoff::new(MINUTE);
        let longest: Vec<u64> = (0..8).map(|_| backoff.next(u32::MAX).as_secs()).collect();
        assert_eq!(longest, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(backoff.next(0), LEAST);
        let half = backoff.next(u32::MAX / 2).as_secs_f64();
        assert!((29.9..30.1).contains(&half), "{half}");
    }

    #[test]
    fn only_a_good_life_is_forgiven_for() {
        let mut backoff = Backoff::new(MINUTE);
        for _ in 0..5 {
            backoff.next(1);
        }
        backoff.lived(GOOD_LIFE - Duration::from_millis(1));
        assert_eq!(backoff.next(u32::MAX).as_secs(), 32);
        backoff.lived(GOOD_LIFE);
        assert_eq!(backoff.next(u32::MAX).as_secs(), 1);
    }
}
