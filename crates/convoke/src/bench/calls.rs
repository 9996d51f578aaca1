//! Calls under load, and what they cost.

use std::time::Duration;

/// One load.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallPoint {
    /// CPU of the server per call, in milliseconds.
    pub(super) cpu_ms: f64,
    /// Answered calls per second.
    pub(super) rate: f64,
    /// Half of the callers waited no longer.
    pub(super) p50: Duration,
    /// All but one in a hundred.
    pub(super) p99: Duration,
    /// Calls that were not answered with `ok`.
    pub(super) errors: u64,
}

/// Several loads of the same kind. Each figure is the median of its own: one disturbed load spoils none.
#[derive(Clone, Debug, Default)]
pub(super) struct CallSeries(Vec<CallPoint>);

impl CallSeries {
    pub(super) fn push(&mut self, point: CallPoint) {
        self.0.push(point);
    }

    pub(super) fn cpu_ms(&self) -> f64 {
        self.median(|point| point.cpu_ms)
    }

    pub(super) fn rate(&self) -> f64 {
        self.median(|point| point.rate)
    }

    pub(super) fn p50_ms(&self) -> f64 {
        self.median(|point| point.p50.as_secs_f64() * 1000.0)
    }

    pub(super) fn p99_ms(&self) -> f64 {
        self.median(|point| point.p99.as_secs_f64() * 1000.0)
    }

    pub(super) fn errors(&self) -> u64 {
        self.0.iter().map(|point| point.errors).sum()
    }

    /// What is worth knowing beside the CPU.
    pub(super) fn describe(&self) -> String {
        let mut text = format!("{:.0}/s, p50 {:.2} ms, p99 {:.2} ms", self.rate(), self.p50_ms(), self.p99_ms());
        if self.errors() > 0 {
            text.push_str(&format!(", {} ERRORS", self.errors()));
        }
        text
    }

    fn median(&self, of: impl Fn(&CallPoint) -> f64) -> f64 {
        median(self.0.iter().map(of).collect())
    }
}

/// One server with few agents and with many.
#[derive(Clone, Debug, Default)]
pub(super) struct GrowthSeries {
    /// Few are connected.
    pub(super) few: CallSeries,
    /// Many are connected, and as few are called.
    pub(super) same: CallSeries,
    /// Many are connected, and all are called.
    pub(super) all: CallSeries,
}

impl GrowthSeries {
    /// How much the rate changes, in per cent.
    pub(super) fn change(&self, many: fn(&Self) -> &CallSeries) -> f64 {
        (many(self).rate() / self.few.rate() - 1.0) * 100.0
    }

    /// What it changes from and to.
    pub(super) fn describe(&self, many: fn(&Self) -> &CallSeries) -> String {
        let (many, few) = (many(self), &self.few);
        let (cpu_many, cpu_few) = (many.cpu_ms(), few.cpu_ms());
        format!("{:.0}/s against {:.0}/s, CPU {cpu_many:.4} against {cpu_few:.4} ms", many.rate(), few.rate())
    }
}

/// The one in the middle, or what is between the two that are.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_disturbed_load_spoils_nothing() {
        let mut series = CallSeries::default();
        assert!(series.rate().is_nan());
        for (cpu_ms, rate, p99) in [(0.1, 1000.0, 9), (0.9, 50.0, 900), (0.12, 990.0, 8)] {
            let (p50, p99) = (Duration::from_millis(1), Duration::from_millis(p99));
            series.push(CallPoint { cpu_ms, rate, p50, p99, errors: 0 });
        }
        assert_eq!((series.cpu_ms(), series.rate(), series.p99_ms()), (0.12, 990.0, 9.0));
        assert_eq!(series.describe(), "990/s, p50 1.00 ms, p99 9.00 ms");
    }
}
