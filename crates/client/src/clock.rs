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

    /// The same clock for connections.
    pub(crate) fn of_connections(self) -> convoke_socket::drive::Clock {
        convoke_socket::drive::Clock::since(self.started)
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
