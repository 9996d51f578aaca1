//! The client's clock and randomness: the one place where the protocol gets its own from.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use convoke_core::time::Timestamp;
use convoke_yonexus::Now;

/// Where the time that only goes forward begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    started: Instant,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self { started: Instant::now() }
    }

    pub(crate) fn now(self) -> Now {
        Now { wall: wall(), mono: self.started.elapsed() }
    }

    pub(crate) fn instant(self, mono: std::time::Duration) -> Instant {
        self.started.checked_add(mono).unwrap_or_else(|| Instant::now() + std::time::Duration::from_secs(86_400))
    }
}

/// Now, by the wall clock.
pub(crate) fn wall() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Random bytes from the system.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the system's random source failed; keys and nonces would not be safe");
    bytes
}
