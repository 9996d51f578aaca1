//! Spans of time as people write them: `2 days` is yesterday and today, by the calendar of UTC.

use jiff::civil::{Date, DateTime, Weekday};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ToSpan as _, Zoned};

/// What is said to who writes it otherwise.
pub(super) const USAGE: &str = "Usage: /stats [N minutes|hours|days|weeks|months|years] (default: 1 week)";

/// The longest span, in its unit.
const MOST: u64 = 10_000;

/// A unit of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
}

impl Unit {
    pub(super) fn named(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        Some(match name.strip_suffix('s').unwrap_or(&name) {
            "second" => Self::Second,
            "minute" => Self::Minute,
            "hour" => Self::Hour,
            "day" => Self::Day,
            "week" => Self::Week,
            "month" => Self::Month,
            "year" => Self::Year,
            _ => return None,
        })
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        }
    }

    fn span(self, count: i64) -> Span {
        match self {
            Self::Second => count.seconds(),
            Self::Minute => count.minutes(),
            Self::Hour => count.hours(),
            Self::Day => count.days(),
            Self::Week => count.weeks(),
            Self::Month => count.months(),
            Self::Year => count.years(),
        }
    }

    /// The beginning of the unit that a moment is in.
    pub(super) fn begin(self, at: Timestamp) -> Timestamp {
        let now: DateTime = at.to_zoned(TimeZone::UTC).datetime();
        let (date, time) = (now.date(), now.time());
        let (hour, minute, second) = (time.hour(), time.minute(), time.second());
        let begin = match self {
            Self::Second => date.at(hour, minute, second, 0),
            Self::Minute => date.at(hour, minute, 0, 0),
            Self::Hour => date.at(hour, 0, 0, 0),
            Self::Day => date.at(0, 0, 0, 0),
            Self::Week => monday(date).at(0, 0, 0, 0),
            Self::Month => date.first_of_month().at(0, 0, 0, 0),
            Self::Year => date.first_of_year().at(0, 0, 0, 0),
        };
        zoned(begin).map_or(at, |zoned| zoned.timestamp())
    }

    /// A moment so many units later, or earlier.
    pub(super) fn shift(self, at: Timestamp, count: i64) -> Option<Timestamp> {
        let zoned = at.to_zoned(TimeZone::UTC).checked_add(self.span(count)).ok()?;
        Some(zoned.timestamp())
    }
}

fn monday(date: Date) -> Date {
    let behind = i64::from(date.weekday().since(Weekday::Monday));
    date.checked_sub(behind.days()).unwrap_or(date)
}

fn zoned(at: DateTime) -> Option<Zoned> {
    at.to_zoned(TimeZone::UTC).ok()
}

/// A span that ends now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) input: String,
    pub(super) count: u64,
    pub(super) unit: Unit,
    pub(super) start: Timestamp,
    pub(super) end: Timestamp,
}

impl Range {
    /// Reads a span; `None` when it is none.
    pub(super) fn parse(input: Option<&str>, now: Timestamp) -> Option<Self> {
        let input = input.map(str::trim).filter(|input| !input.is_empty()).unwrap_or("1 week");
        let (count, unit) = input.split_once(char::is_whitespace)?;
        let unit = unit.trim_start();
        if !count.bytes().all(|byte| byte.is_ascii_digit()) || !unit.bytes().all(|byte| byte.is_ascii_alphabetic()) {
            return None;
        }
        let count: u64 = count.parse().ok().filter(|count| (1..=MOST).contains(count))?;
        let unit = Unit::named(unit).filter(|unit| *unit != Unit::Second)?;
        let back = 1 - i64::try_from(count).ok()?;
        let start = unit.shift(unit.begin(now), back)?;
        Some(Self { input: input.to_owned(), count, unit, start, end: now })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(input: &str, expect: &str) {
        // A Wednesday.
        let now: Timestamp = "2026-03-18T13:14:15Z".parse().unwrap();
        let start = Range::parse(Some(input), now).map(|range| range.start.to_string());
        assert_eq!(start.as_deref(), Some(expect).filter(|expect| !expect.is_empty()), "{input}");
    }

    #[test]
    fn spans_begin_with_the_calendar() {
        check("10 minutes", "2026-03-18T13:05:00Z");
        check("1 hour", "2026-03-18T13:00:00Z");
        check("2 days", "2026-03-17T00:00:00Z");
        check("1 week", "2026-03-16T00:00:00Z");
        check("1 month", "2026-03-01T00:00:00Z");
        check("2 months", "2026-02-01T00:00:00Z");
        check("1 YEAR", "2026-01-01T00:00:00Z");
        check("", "2026-03-16T00:00:00Z");
    }

    #[test]
    fn what_is_no_span_is_none() {
        for input in
            ["week", "1", "0 days", "-1 days", "1 fortnight", "1.5 days", "1 day ago", "99999 days", "3 seconds"]
        {
            check(input, "");
        }
    }
}
