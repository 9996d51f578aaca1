//! Wrong tokens per address and minute. Tokens have 256 bits, so this is less about luck than about noise: a script
//! that hammers the door learns at once that it is not being listened to.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use convoke_core::time::Timestamp;

/// Wrong tokens an address may present in a minute.
pub const MAX_FAILURES: u32 = 10;
/// The window.
pub const WINDOW_MS: i64 = 60_000;
/// Addresses remembered; past it the oldest windows go first.
const MAX_ADDRESSES: usize = 10_000;

/// Failures per address.
#[derive(Debug)]
pub struct Throttle {
    most: u32,
    failures: Mutex<HashMap<IpAddr, (i64, u32)>>,
}

impl Default for Throttle {
    fn default() -> Self {
        Self::new(MAX_FAILURES)
    }
}

impl Throttle {
    /// One that takes `most` failures from an address in a minute.
    pub fn new(most: u32) -> Self {
        Self { most, failures: Mutex::default() }
    }

    /// How many seconds, begun ones included, an address that has used up its failures is not listened to.
    pub fn blocked_for(&self, from: IpAddr, now: Timestamp) -> Option<u32> {
        let map = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, _) = map.get(&from).filter(|(_, count)| *count >= self.most)?;
        // A clock that was set back would otherwise block for as long as it was set back.
        let left_ms = Some(since + WINDOW_MS - now.millis()).filter(|left| (1..=WINDOW_MS).contains(left))?;
        u32::try_from((left_ms + 999) / 1_000).ok()
    }

    /// Counts a failure.
    pub fn failed(&self, from: IpAddr, now: Timestamp) {
        let mut map = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if map.len() >= MAX_ADDRESSES && !map.contains_key(&from) {
            map.retain(|_, (since, _)| now.millis() < *since + WINDOW_MS);
            if map.len() >= MAX_ADDRESSES
                && let Some(oldest) = map.iter().min_by_key(|(_, (since, _))| *since).map(|(a, _)| *a)
            {
                map.remove(&oldest);
            }
        }
        let entry = map.entry(from).or_insert((now.millis(), 0));
        // The window slides only once it is over, or a steady guesser would never be heard again — and never again.
        if now.millis() >= entry.0 + WINDOW_MS || now.millis() < entry.0 {
            *entry = (now.millis(), 0);
        }
        entry.1 += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_set_back_blocks_nobody_for_a_day() {
        let (throttle, from) = (Throttle::new(1), IpAddr::from([127, 0, 0, 1]));
        let at = Timestamp::from_millis;
        throttle.failed(from, at(86_400_000));
        assert_eq!(throttle.blocked_for(from, at(86_400_000)), Some(60));
        assert_eq!(throttle.blocked_for(from, at(86_400_000 + WINDOW_MS - 1)), Some(1));
        assert_eq!(throttle.blocked_for(from, at(86_400_000 + WINDOW_MS)), None);
        assert_eq!(throttle.blocked_for(from, at(0)), None);
        throttle.failed(from, at(0));
        assert_eq!(throttle.blocked_for(from, at(1)), Some(60), "and goes on counting by the new time");
    }
}
