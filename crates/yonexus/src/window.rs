//! The security windows (contract, section 7) and the windows of liveness (13.4). All are bounded, in memory, and empty
//! after a restart, as the contract recommends.

use std::collections::VecDeque;
use std::time::Duration;

use crate::reason::Status;

/// The largest allowed drift of a proof's time, in seconds: `abs(now - proofTimestamp) < 10`.
pub const MAX_DRIFT_S: i64 = 10;
/// The window in which handshake attempts are counted.
pub const ATTEMPT_WINDOW: Duration = Duration::from_secs(10);
/// Most attempts in it.
pub const MAX_ATTEMPTS: usize = 10;
/// How long a nonce is remembered: a proof from the future stays good for almost twice the drift.
const NONCE_LIFE: Duration = Duration::from_secs(2 * MAX_DRIFT_S as u64);
/// Nonces remembered: the contract's ten, and as many again, since two windows of attempts fit into a nonce's life.
const MAX_NONCES: usize = 2 * MAX_ATTEMPTS;

/// An error in a proof's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drift {
    /// It is right.
    Within,
    /// The client's clock is behind, by so many seconds.
    Stale(i64),
    /// The client's clock is ahead, by so many seconds.
    Future(i64),
}

/// Judges a proof's time (contract, 7.4).
pub const fn drift(now: i64, proof: i64) -> Drift {
    let off = now.saturating_sub(proof);
    if off >= MAX_DRIFT_S {
        Drift::Stale(off)
    } else if off <= -MAX_DRIFT_S {
        Drift::Future(off.saturating_neg())
    } else {
        Drift::Within
    }
}

/// Nonces and attempts of one client.
#[derive(Clone, Debug, Default)]
pub struct Windows {
    nonces: VecDeque<(Duration, Box<str>)>,
    attempts: VecDeque<Duration>,
}

impl Windows {
    /// Remembers a nonce. False when it was there: a collision.
    pub fn take_nonce(&mut self, nonce: &str, now: Duration) -> bool {
        self.forget(now);
        if self.nonces.iter().any(|(_, seen)| **seen == *nonce) {
            return false;
        }
        if self.nonces.len() >= MAX_NONCES {
            self.nonces.pop_front();
        }
        self.nonces.push_back((now, nonce.into()));
        true
    }

    /// Counts an attempt. False when it is one too many.
    pub fn take_attempt(&mut self, now: Duration) -> bool {
        self.forget(now);
        if self.attempts.len() >= MAX_ATTEMPTS {
            return false;
        }
        self.attempts.push_back(now);
        true
    }

    /// Forgets what is old; an idle client's windows then hold no memory.
    pub fn forget(&mut self, now: Duration) {
        while self.nonces.front().is_some_and(|(seen, _)| now.saturating_sub(*seen) >= NONCE_LIFE) {
            self.nonces.pop_front();
        }
        while self.attempts.front().is_some_and(|at| now.saturating_sub(*at) >= ATTEMPT_WINDOW) {
            self.attempts.pop_front();
        }
        if self.nonces.is_empty() && self.nonces.capacity() > 0 {
            self.nonces = VecDeque::new();
        }
        if self.attempts.is_empty() && self.attempts.capacity() > 0 {
            self.attempts = VecDeque::new();
        }
    }
}

/// The liveness of an authenticated connection (contract, 13.4): only `heartbeat` keeps it up.
#[derive(Clone, Copy, Debug)]
pub struct LivenessClock {
    unstable_after: Duration,
    offline_after: Duration,
    last: Duration,
    status: Status,
}

impl LivenessClock {
    /// Starts now. `offline_after` counts as at least `unstable_after`.
    pub fn new(unstable_after: Duration, offline_after: Duration, now: Duration) -> Self {
        let offline_after = offline_after.max(unstable_after);
        Self { unstable_after, offline_after, last: now, status: Status::Online }
    }

    /// A heartbeat came. True when the client was unstable and is online again.
    pub fn beat(&mut self, now: Duration) -> bool {
        self.last = self.last.max(now);
        std::mem::replace(&mut self.status, Status::Online) != Status::Online
    }

    /// When to call [`Self::on_tick`] next.
    pub fn next_deadline(&self) -> Duration {
        match self.status {
            Status::Online => self.last.saturating_add(self.unstable_after),
            _ => self.last.saturating_add(self.offline_after),
        }
    }

    /// The new status, if it has changed.
    pub fn on_tick(&mut self, now: Duration) -> Option<Status> {
        let silent = now.saturating_sub(self.last);
        let status = if silent >= self.offline_after {
            Status::Offline
        } else if silent >= self.unstable_after {
            Status::Unstable
        } else {
            Status::Online
        };
        let changed = status != self.status;
        self.status = status;
        changed.then_some(status)
    }

    /// The present status.
    pub const fn status(&self) -> Status {
        self.status
    }

    /// The reason that travels: `heartbeat_timeout_7m`, or in seconds where the setting is no whole minutes.
    pub fn reason(&self, status: Status) -> String {
        let after = if status == Status::Offline { self.offline_after } else { self.unstable_after }.as_secs();
        match after {
            s if s > 0 && s.is_multiple_of(60) => format!("heartbeat_timeout_{}m", s / 60),
            s => format!("heartbeat_timeout_{s}s"),
        }
    }
}

/// A token bucket: so many a second, and at most a second's worth at once.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    per_second: u32,
    left: u32,
    since: Duration,
}

impl Rate {
    /// A full bucket.
    pub const fn new(per_second: u32, now: Duration) -> Self {
        Self { per_second, left: per_second, since: now }
    }

    /// Takes one. False when there is none.
    pub fn take(&mut self, now: Duration) -> bool {
        let passed = now.saturating_sub(self.since);
        if self.left < self.per_second {
            let fresh = passed.as_secs_f64() * f64::from(self.per_second);
            if fresh >= 1.0 {
                self.left = self.left.saturating_add(fresh as u32).min(self.per_second);
                self.since = now;
            }
        } else {
            self.since = now;
        }
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn drift_is_less_than_ten_seconds_either_way() {
        for (now, proof, expect) in [
            (100, 100, Drift::Within),
            (100, 91, Drift::Within),
            (100, 90, Drift::Stale(10)),
            (100, 109, Drift::Within),
            (100, 110, Drift::Future(10)),
            (0, i64::MAX, Drift::Future(i64::MAX)),
            (i64::MAX, i64::MIN, Drift::Stale(i64::MAX)),
        ] {
            assert_eq!(drift(now, proof), expect, "{now} {proof}");
        }
    }

    #[test]
    fn a_nonce_collides_while_its_proof_could_still_hold_and_not_after() {
        let mut windows = Windows::default();
        assert!(windows.take_nonce("a", s(0)));
        assert!(!windows.take_nonce("a", s(19)));
        assert!(windows.take_nonce("a", s(20)));
        for n in 0..100 {
            assert!(windows.take_nonce(&n.to_string(), s(21)));
        }
        assert!(windows.nonces.len() <= MAX_NONCES, "bounded");
        windows.forget(s(100));
        assert_eq!((windows.nonces.capacity(), windows.attempts.capacity()), (0, 0));
    }

    #[test]
    fn ten_attempts_in_ten_seconds_are_fine_and_the_eleventh_is_not() {
        let mut windows = Windows::default();
        for _ in 0..10 {
            assert!(windows.take_attempt(s(0)));
        }
        assert!(!windows.take_attempt(s(9)));
        assert!(windows.take_attempt(s(10)));
    }

    #[test]
    fn seven_minutes_are_unstable_and_eleven_are_offline() {
        let mut clock = LivenessClock::new(s(420), s(660), s(0));
        let changes: Vec<_> = (0..=700).filter_map(|t| clock.on_tick(s(t)).map(|status| (t, status))).collect();
        assert_eq!(changes, [(420, Status::Unstable), (660, Status::Offline)]);
        assert_eq!(clock.reason(Status::Unstable), "heartbeat_timeout_7m");
        assert_eq!(clock.reason(Status::Offline), "heartbeat_timeout_11m");
        let mut clock = LivenessClock::new(s(420), s(660), s(0));
        clock.on_tick(s(420));
        assert_eq!(clock.next_deadline(), s(660));
        assert!(clock.beat(s(500)));
        assert!(!clock.beat(s(501)));
        assert_eq!(clock.next_deadline(), s(921));
        assert_eq!(LivenessClock::new(s(1), s(90), s(0)).reason(Status::Offline), "heartbeat_timeout_90s");
    }

    #[test]
    fn a_rate_lets_a_seconds_worth_through_and_then_the_rate() {
        let mut rate = Rate::new(10, s(0));
        assert_eq!((0..100).filter(|_| rate.take(s(0))).count(), 10);
        assert_eq!((0..100).filter(|_| rate.take(Duration::from_millis(500))).count(), 5);
        assert_eq!((0..100).filter(|_| rate.take(s(60))).count(), 10);
        let through = (0..10_000u64).filter(|ms| rate.take(s(100) + Duration::from_millis(*ms))).count();
        assert!((100..=110).contains(&through), "{through}");
    }
}
