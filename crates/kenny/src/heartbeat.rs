//! When to ping and when a peer is gone (contract, "ping / pong"): the same clock for both ends.
//!
//! The contract counts *any* frame as a sign of life and gives up after three missed intervals. The field's servers
//! leave that to the WebSocket layer and its agents never look at the pong, so a frozen end goes unnoticed; here both
//! ends ping and both ends notice.

use std::time::Duration;

/// Time since an arbitrary start that the caller chose; it only moves forward. Deadlines are points on it, so that a
/// wall clock which is set back cannot hold a dead link open.
pub type Mono = Duration;

/// The contract's interval.
pub const DEFAULT_INTERVAL: Duration = Duration::from_secs(30);
/// The contract's patience, in intervals.
pub const DEFAULT_MISSED: u32 = 3;

/// Pings on a fixed beat and knows when the peer counts as gone.
#[derive(Clone, Debug)]
pub struct HeartbeatClock {
    interval: Duration,
    patience: Duration,
    next_ping: Mono,
    dead_at: Mono,
}

/// The action that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beat {
    /// Nothing yet.
    Wait,
    /// Send a `ping`.
    Ping,
    /// Nothing was heard for all intervals: the peer is offline.
    Dead,
}

impl HeartbeatClock {
    /// Starts now. An interval of zero would spin, so it counts as a millisecond.
    pub fn new(interval: Duration, missed: u32, now: Mono) -> Self {
        let interval = interval.max(Duration::from_millis(1));
        let patience = interval.saturating_mul(missed.max(1));
        Self { interval, patience, next_ping: now.saturating_add(interval), dead_at: now.saturating_add(patience) }
    }

    /// Any frame came in.
    pub fn heard(&mut self, now: Mono) {
        self.dead_at = self.dead_at.max(now.saturating_add(self.patience));
    }

    /// When to call [`Self::on_tick`] next.
    pub fn next_deadline(&self) -> Mono {
        self.next_ping.min(self.dead_at)
    }

    /// The action that is due.
    pub fn on_tick(&mut self, now: Mono) -> Beat {
        // We were stopped or had no time: the silence may be ours, and what the peer has said waits to be read.
        if now.saturating_sub(self.next_deadline()) > self.interval / 2 {
            self.dead_at = self.dead_at.max(now.saturating_add(self.interval));
        }
        if now >= self.dead_at {
            return Beat::Dead;
        }
        if now < self.next_ping {
            return Beat::Wait;
        }
        // Counted from now and not from the missed beat: after a machine slept, one ping is enough.
        self.next_ping = now.saturating_add(self.interval);
        Beat::Ping
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Mono {
        Duration::from_secs(seconds)
    }

    #[test]
    fn pings_on_the_beat_and_gives_up_after_three_silent_ones() {
        let mut clock = HeartbeatClock::new(DEFAULT_INTERVAL, DEFAULT_MISSED, s(0));
        let beats: Vec<_> = (0..=90).map(|t| clock.on_tick(s(t))).enumerate().filter(|b| b.1 != Beat::Wait).collect();
        assert_eq!(beats, [(30, Beat::Ping), (60, Beat::Ping), (90, Beat::Dead)]);
    }

    #[test]
    fn any_frame_is_a_sign_of_life() {
        let mut clock = HeartbeatClock::new(DEFAULT_INTERVAL, DEFAULT_MISSED, s(0));
        clock.heard(s(89));
        assert_eq!(clock.on_tick(s(90)), Beat::Ping);
        assert_eq!(clock.on_tick(s(120)), Beat::Ping);
        assert_eq!(clock.on_tick(s(150)), Beat::Ping);
        assert_eq!(clock.on_tick(s(178)), Beat::Wait);
        assert_eq!(clock.on_tick(s(179)), Beat::Dead);
    }

    #[test]
    fn a_tick_that_comes_late_gives_the_peer_an_interval_to_be_heard() {
        let mut clock = HeartbeatClock::new(DEFAULT_INTERVAL, DEFAULT_MISSED, s(0));
        assert_eq!(clock.on_tick(s(30)), Beat::Ping);
        assert_eq!(clock.on_tick(s(200)), Beat::Ping, "we slept, and the peer may have answered");
        assert_eq!(clock.next_deadline(), s(230));
        let mut silent = clock.clone();
        assert_eq!(silent.on_tick(s(230)), Beat::Dead, "it did not");
        clock.heard(s(201));
        assert_eq!(clock.on_tick(s(230)), Beat::Ping);
        assert_eq!(
            [clock.on_tick(s(260)), clock.on_tick(s(290)), clock.on_tick(s(291))],
            [Beat::Ping, Beat::Ping, Beat::Dead]
        );
    }

    #[test]
    fn extreme_settings_neither_spin_nor_overflow() {
        let mut clock = HeartbeatClock::new(Duration::ZERO, 0, s(5));
        assert!(clock.next_deadline() > s(5));
        assert_eq!(clock.on_tick(Duration::from_millis(5001)), Beat::Dead);
        let clock = HeartbeatClock::new(Duration::MAX, u32::MAX, s(5));
        assert_eq!(clock.next_deadline(), Duration::MAX);
    }
}
