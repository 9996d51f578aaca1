//! How long answers took, in buckets whose width grows with the value: under 1 % error at any size, in a few kilobytes.

use std::time::Duration;

/// Values below `2 * STEPS` microseconds have a bucket each; above, each doubling is cut into so many.
const STEPS: u64 = 128;
/// Buckets by powers of two: up to about nine hours.
const DOUBLINGS: usize = 28;

/// A histogram of waiting times.
#[derive(Clone, Debug)]
pub struct Latency {
    buckets: Vec<u64>,
    count: u64,
    max: Duration,
}

impl Default for Latency {
    fn default() -> Self {
        Self { buckets: vec![0; (STEPS as usize) * (DOUBLINGS + 1)], count: 0, max: Duration::ZERO }
    }
}

impl Latency {
    /// Takes one waiting time.
    pub fn record(&mut self, waited: Duration) {
        let last = self.buckets.len() - 1;
        let micros = u64::try_from(waited.as_micros()).unwrap_or(u64::MAX);
        self.buckets[bucket(micros).min(last)] += 1;
        self.count += 1;
        self.max = self.max.max(waited);
    }

    /// Takes all of another.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.count += other.count;
        self.max = self.max.max(other.max);
    }

    /// How many were taken.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The longest.
    pub const fn max(&self) -> Duration {
        self.max
    }

    /// What `share` of all (0.5 for the median) did not exceed; zero when there are none.
    pub fn quantile(&self, share: f64) -> Duration {
        let wanted = ((self.count as f64) * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return Duration::from_micros(upper_bound(index)).min(self.max);
            }
        }
        self.max
    }
}

fn bucket(micros: u64) -> usize {
    let doublings = (micros / STEPS).checked_ilog2().map_or(0, u64::from);
    // Within its doubling the value is known to 1 in STEPS.
    (doublings * STEPS + (micros >> doublings)) as usize
}

fn upper_bound(index: usize) -> u64 {
    let index = index as u64;
    if index < 2 * STEPS {
        return index;
    }
    let doublings = index / STEPS - 1;
    (((index % STEPS + STEPS) + 1) << doublings) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_its_bucket_and_within_one_percent() {
        for micros in (0..3000).chain([65_535, 65_536, 1_000_000, 10_000_000, 3_000_000_000]) {
            let bound = upper_bound(bucket(micros));
            assert!(bound >= micros && bound as f64 <= micros as f64 * 1.01 + 1.0, "{micros} is put at {bound}");
        }
        assert!((0..100_000).map(bucket).is_sorted());
    }

    #[test]
    fn quantiles_are_those_of_the_values() {
        let mut latency = Latency::default();
        assert_eq!(latency.quantile(0.5), Duration::ZERO);
        for millis in 1..=100 {
            latency.record(Duration::from_millis(millis));
        }
        let near = |share: f64, millis: f64| {
            let got = latency.quantile(share).as_secs_f64() * 1000.0;
            assert!((got - millis).abs() <= millis * 0.011, "{share}: {got}");
        };
        near(0.5, 50.0);
        near(0.99, 99.0);
        assert_eq!(latency.quantile(1.0), Duration::from_millis(100));
        assert_eq!(latency.max(), Duration::from_millis(100));
    }

    #[test]
    fn absurd_values_are_kept_in_bounds() {
        let mut latency = Latency::default();
        latency.record(Duration::MAX);
        let mut all = Latency::default();
        all.merge(&latency);
        assert_eq!((all.count(), all.max()), (1, Duration::MAX));
    }
}
