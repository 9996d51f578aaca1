//! Points in time as the record keeps them: whole milliseconds since 1970, printed as RFC 3339 in UTC.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A moment, to the millisecond. Passed in everywhere: this crate has no clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The moment `millis` milliseconds after 1970-01-01T00:00:00Z, clamped to what RFC 3339 can print.
    pub const fn from_millis(millis: i64) -> Self {
        // Year 0 to the end of what `jiff` holds in year 9999: outside, the text form has no agreed spelling.
        const MIN: i64 = -62_167_219_200_000;
        const MAX: i64 = 253_402_207_199_999;
        if millis < MIN {
            Self(MIN)
        } else if millis > MAX {
            Self(MAX)
        } else {
            Self(millis)
        }
    }

    /// Milliseconds since 1970.
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// Parses RFC 3339 (any offset, any number of fraction digits).
    pub fn parse(text: &str) -> Option<Self> {
        text.parse::<jiff::Timestamp>().ok().map(|t| Self::from_millis(t.as_millisecond()))
    }

    /// This moment plus `duration`, clamped.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self::from_millis(self.0.saturating_add(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }

    /// How long after `earlier` this is; zero when it is not after it (clocks do go back).
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let t = jiff::Timestamp::from_millisecond(self.0).map_err(|_| fmt::Error)?;
        write!(f, "{t:.3}")
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| de::Error::custom("not an RFC 3339 time"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_and_reads_back() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (1_780_596_000_123, "2026-06-04T18:00:00.123Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (i64::MAX, "9999-12-30T21:59:59.999Z"),
        ] {
            let t = Timestamp::from_millis(millis);
            assert_eq!(t.to_string(), text);
            assert_eq!(Timestamp::parse(text), Some(t));
        }
        assert_eq!(Timestamp::parse("2026-06-04T20:00:00+02:00"), Timestamp::parse("2026-06-04T18:00:00Z"));
        assert_eq!(Timestamp::parse("yesterday"), None);
    }

    #[test]
    fn a_clock_that_goes_back_yields_no_negative_time() {
        let now = Timestamp::from_millis(1_000);
        assert_eq!(now.since(Timestamp::from_millis(5_000)), Duration::ZERO);
    }
}
