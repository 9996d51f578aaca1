//! How much one participant may say: a bucket that refills, enforced by the authority; and the agents' own cooldown,
//! which is courtesy (contract, section 7).

use std::time::Duration;

/// A bucket of one second's worth.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    per_second: u32,
    left: f64,
    since: Duration,
}

impl Rate {
    /// A full bucket.
    pub fn new(per_second: u32, now: Duration) -> Self {
        Self { per_second, left: f64::from(per_second), since: now }
    }

    /// Takes one. False when there is none.
    pub fn take(&mut self, now: Duration) -> bool {
        let most = f64::from(self.per_second);
        self.left = (self.left + now.saturating_sub(self.since).as_secs_f64() * most).min(most);
        self.since = self.since.max(now);
        if self.left < 1.0 {
            return false;
        }
        self.left -= 1.0;
        true
    }
}

/// A gate between an agent's unasked remarks. Replies may ignore it.
#[derive(Clone, Copy, Debug)]
pub struct Cooldown {
    pause: Duration,
    last: Option<Duration>,
}

impl Cooldown {
    /// Ready at first, then after every `pause`.
    pub const fn new(pause: Duration) -> Self {
        Self { pause, last: None }
    }

    /// Whether enough time has passed.
    pub fn ready(&self, now: Duration) -> bool {
        self.last.is_none_or(|last| now.saturating_sub(last) >= self.pause)
    }

    /// Something was said.
    pub const fn stamp(&mut self, now: Duration) {
        self.last = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_bucket_holds_a_second_and_refills() {
        let mut rate = Rate::new(2, ms(0));
        assert!(rate.take(ms(0)) && rate.take(ms(0)) && !rate.take(ms(0)));
        assert!(!rate.take(ms(499)));
        assert!(rate.take(ms(500)), "half a second is one of two");
        assert!(!rate.take(ms(400)), "a clock that goes back gives nothing");
        assert!(rate.take(ms(60_000)) && rate.take(ms(60_000)) && !rate.take(ms(60_000)), "and it holds no more");
    }

    #[test]
    fn a_cooldown_is_ready_at_first_and_after_its_pause() {
        let mut gate = Cooldown::new(ms(6_000));
        assert!(gate.ready(ms(0)));
        gate.stamp(ms(10));
        assert!(!gate.ready(ms(6_009)) && gate.ready(ms(6_010)));
    }
}
