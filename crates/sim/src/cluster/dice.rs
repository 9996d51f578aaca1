//! Randomness that follows from a seed, so that a run can be tried again.

use std::time::Duration;

/// A stream of numbers (splitmix64).
#[derive(Clone, Debug)]
pub(super) struct Dice(u64);

impl Dice {
    /// The stream of that name among those of a seed: who throws more of one does not disturb the others.
    pub(super) fn new(seed: u64, stream: &str) -> Self {
        // FNV-1a: the name decides where the stream begins.
        let name = stream.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        let mut dice = Self(seed ^ name);
        dice.next();
        dice
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// One of `0..count`; 0 where there is none.
    pub(super) fn below(&mut self, count: usize) -> usize {
        (self.next() % (count.max(1) as u64)) as usize
    }

    pub(super) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(super) fn between(&mut self, from: Duration, to: Duration) -> Duration {
        let steps = to.saturating_sub(from).as_millis() as usize;
        from + Duration::from_millis(self.below(steps + 1) as u64)
    }

    pub(super) fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        from.get(self.below(from.len())).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_throws_the_same() {
        let throw = |seed, stream| {
            let mut dice = Dice::new(seed, stream);
            [dice.next(), dice.next(), dice.next()]
        };
        assert_eq!(throw(1, "a"), throw(1, "a"));
        assert_ne!(throw(1, "a"), throw(2, "a"));
        assert_ne!(throw(1, "a"), throw(1, "b"));
        let mut dice = Dice::new(7, "x");
        assert!((0..1000).all(|_| dice.below(3) < 3));
        assert_eq!(dice.below(0), 0);
        assert_eq!(dice.pick::<u8>(&[]), None);
    }
}
