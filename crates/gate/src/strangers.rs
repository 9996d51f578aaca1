//! Refusals of strangers: counted per address and minute and written as one record each, so that nobody can fill the
//! disk by knocking.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use convoke_core::door::Door;
use convoke_core::journal::{Decision, Draft, Kind};
use convoke_core::time::Timestamp;
use serde_json::json;

/// Addresses told apart in one minute; the rest are counted together.
const MAX_ADDRESSES: usize = 256;

/// The counts of the present minute.
#[derive(Debug, Default)]
pub struct Strangers {
    counts: Mutex<HashMap<(Option<IpAddr>, Door), u64>>,
}

impl Strangers {
    /// Counts one refusal, and says whether it is the first of its address in this minute.
    pub fn refused(&self, from: IpAddr, door: Door) -> bool {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let known = counts.contains_key(&(Some(from), door));
        let address = (known || counts.len() < MAX_ADDRESSES).then_some(from);
        let count = counts.entry((address, door)).or_default();
        *count += 1;
        *count == 1
    }

    /// The records of the minute that ends now.
    pub fn drain(&self, now: Timestamp) -> Vec<Draft> {
        let counts = std::mem::take(&mut *self.counts.lock().unwrap_or_else(PoisonError::into_inner));
        let record = |((address, door), count): ((Option<IpAddr>, Door), u64)| {
            let address = address.map_or_else(|| "others".to_owned(), |a| a.to_string());
            let mut draft = Draft::new(now, Kind::Refusal).detail(&json!({ "address": address, "count": count }));
            draft.door = Some(door);
            draft.decision = Some(Decision::Denied);
            draft
        };
        counts.into_iter().map(record).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_becomes_a_bounded_number_of_records() {
        let strangers = Strangers::default();
        let first = (0..100_000u32).filter(|i| strangers.refused(IpAddr::V4((*i).into()), Door::Wire)).count();
        assert_eq!(first, MAX_ADDRESSES + 1, "who is told of the first of each is not flooded either");
        let records = strangers.drain(Timestamp::from_millis(0));
        assert!(records.len() <= MAX_ADDRESSES + 1);
        let total: u64 = records
            .iter()
            .filter_map(|r| {
                serde_json::from_str::<serde_json::Value>(r.detail.as_ref()?.get()).ok()?["count"].as_u64()
            })
            .sum();
        assert_eq!(total, 100_000, "every one is counted");
        assert!(strangers.drain(Timestamp::from_millis(0)).is_empty());
    }
}
