//! Facts that cost much to find and change seldom, kept between two snapshots.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;

/// What was found (or not), when, and what it was found from.
#[derive(Debug)]
struct Found {
    at: Instant,
    stamp: Option<SystemTime>,
    value: Option<Value>,
}

/// A fact, under a lock of its own: whoever asks while another looks waits for what that one finds.
type Slot = Arc<Mutex<Option<Found>>>;

/// How long a failure is believed: two who ask at once must not fail one after the other.
const FAILURE_AGE: Duration = Duration::from_secs(60);

/// One fact per name; the names are in the code, so there are few.
#[derive(Debug, Default)]
pub(crate) struct Remembered(Mutex<HashMap<&'static str, Slot>>);

impl Remembered {
    /// The fact of that name: as it was found before if that is younger than `age` and its `stamp` (the time at which
    /// what it is made from changed) is the same, else found anew.
    pub(crate) fn or_find(
        &self,
        name: &'static str,
        age: Duration,
        stamp: Option<SystemTime>,
        find: impl FnOnce() -> Option<Value>,
    ) -> Option<Value> {
        let slot = self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(name).or_default().clone();
        let mut found = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = &*found {
            let age = if found.value.is_some() { age } else { age.min(FAILURE_AGE) };
            if found.at.elapsed() < age && found.stamp == stamp {
                return found.value.clone();
            }
        }
        let value = find();
        *found = Some(Found { at: Instant::now(), stamp, value: value.clone() });
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fact_is_found_again_when_it_is_old_or_its_source_changed() {
        let remembered = Remembered::default();
        let long = Duration::from_secs(3600);
        let epoch = Some(SystemTime::UNIX_EPOCH);
        let find = |age, stamp, value: Option<i64>| remembered.or_find("x", age, stamp, || value.map(Value::from));
        assert_eq!(find(long, epoch, Some(1)), Some(1.into()));
        assert_eq!(find(long, epoch, Some(2)), Some(1.into()));
        assert_eq!(find(long, None, Some(3)), Some(3.into()));
        assert_eq!(find(Duration::ZERO, None, Some(4)), Some(4.into()));
        assert_eq!(find(long, epoch, None), None);
        assert_eq!(find(long, epoch, Some(5)), None, "a failure is believed for a while");
        assert_eq!(find(long, None, Some(6)), Some(6.into()));
    }
}
