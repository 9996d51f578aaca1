//! Facts that cost much to find and change seldom, kept between two snapshots.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What was found (or not), when, and what it was found from.
#[derive(Debug)]
struct Found {
    at: Instant,
    stamp: Option<SystemTime>,
    value: Option<Value>,
}

/// A fact with its lock: concurrent callers wait for the one that looks it up.
type Slot = Arc<Mutex<Option<Found>>>;

/// How long a failure is believed: two who ask at once must not fail one after the other.
const FAILURE_AGE: Duration = Duration::from_secs(60);

/// One fact per name; the names are in the code, so there are few.
#[derive(Debug, Default)]
pub(crate) struct Remembered(Mutex<HashMap<String, Slot>>);

impl Remembered {
    /// The fact of that name: as it was found before if that is younger than `age` and its `stamp` (the time at which
    /// what it is made from changed) is the same, else found anew.
    pub(crate) fn or_find(
        &self,
        name: &str,
        age: Duration,
        stamp: Option<SystemTime>,
        find: impl FnOnce() -> Option<Value>,
    ) -> Option<Value> {
        let slot = self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(name.to_owned()).or_default().clone();
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

    /// Everything, for another process: with ages in place of times.
    pub(crate) fn told(&self) -> Value {
        let slots = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let told = slots.into_iter().filter_map(|(name, slot)| {
            // One that is being found right now is not waited for.
            let found = slot.try_lock().ok()?;
            let Found { at, stamp, value } = found.as_ref()?;
            let stamp = stamp.and_then(|stamp| stamp.duration_since(SystemTime::UNIX_EPOCH).ok());
            let told = Told { age: at.elapsed(), stamp, value: value.clone() };
            Some((name, serde_json::to_value(told).ok()?))
        });
        Value::Object(told.collect())
    }

    /// Takes what another process told, so long ago. What does not make sense is as if it had never been found.
    pub(crate) fn take(&self, told: &Value, ago: Duration) {
        let now = Instant::now();
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, told) in told.as_object().into_iter().flatten().take(MOST) {
            let Ok(Told { age, stamp, value }) = Told::deserialize(told) else { continue };
            let Some(at) = now.checked_sub(age.saturating_add(ago)) else { continue };
            let stamp = stamp.and_then(|stamp| SystemTime::UNIX_EPOCH.checked_add(stamp));
            slots.insert(name.clone(), Arc::new(Mutex::new(Some(Found { at, stamp, value }))));
        }
    }
}

/// A fact on its way to another process.
#[derive(Serialize, Deserialize)]
struct Told {
    age: Duration,
    stamp: Option<Duration>,
    value: Option<Value>,
}

/// Most facts that are taken from another process: more than there are names.
const MOST: usize = 64;

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

    #[test]
    fn a_fact_is_as_old_in_another_process() {
        let (hour, epoch) = (Duration::from_secs(3600), Some(SystemTime::UNIX_EPOCH));
        let first = Remembered::default();
        first.or_find("x", hour, epoch, || Some(1.into()));
        first.or_find("failed", hour, None, || None);
        let told = first.told();
        let ago = |ago| {
            let other = Remembered::default();
            other.take(&told, ago);
            other.or_find("x", hour, epoch, || Some(2.into()))
        };
        assert_eq!(ago(Duration::from_secs(60)), Some(1.into()));
        assert_eq!(ago(hour), Some(2.into()), "it has grown old on the way");
        let other = Remembered::default();
        other.take(&told, Duration::ZERO);
        assert_eq!(other.or_find("x", hour, None, || Some(3.into())), Some(3.into()), "its source changed");
        assert_eq!(other.or_find("failed", hour, None, || Some(4.into())), None);
        for odd in [Value::Null, serde_json::json!({ "x": 1 }), serde_json::json!([1])] {
            let other = Remembered::default();
            other.take(&odd, Duration::ZERO);
            assert_eq!(other.or_find("x", hour, epoch, || Some(5.into())), Some(5.into()), "{odd}");
        }
    }
}
