//! Times for people: when it was, and how long ago that is.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use convoke_core::time::Timestamp;

/// Now.
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// The moment to the second, and how far it is from now: `2026-06-04 18:00:00Z (3 min ago)`.
pub fn shown(at: Timestamp, now: Timestamp) -> String {
    format!("{} ({})", absolute(at), relative(at, now))
}

/// The moment to the second, in UTC.
pub fn absolute(at: Timestamp) -> String {
    let text = at.to_string();
    let (date, time) = text.split_once('T').unwrap_or((&text, ""));
    let time = time.split_once('.').map_or(time, |(seconds, _)| seconds);
    format!("{date} {time}Z")
}

/// How far a moment is from now.
pub fn relative(at: Timestamp, now: Timestamp) -> String {
    if at > now {
        return format!("in {}", span(at.since(now)));
    }
    let ago = now.since(at);
    if ago < Duration::from_secs(1) { "just now".into() } else { format!("{} ago", span(ago)) }
}

/// A length of time in the largest unit that fits.
pub fn span(length: Duration) -> String {
    let seconds = length.as_secs();
    match seconds {
        0 => format!("{} ms", length.as_millis()),
        1..=119 => format!("{seconds} s"),
        120..=7_199 => format!("{} min", seconds / 60),
        7_200..=172_799 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_say_when_and_how_long_ago() {
        let at = |text| Timestamp::parse(text).expect("a time");
        let now = at("2026-06-04T18:00:00.500Z");
        for (time, expect) in [
            ("2026-06-04T18:00:00.100Z", "2026-06-04 18:00:00Z (just now)"),
            ("2026-06-04T17:59:58Z", "2026-06-04 17:59:58Z (2 s ago)"),
            ("2026-06-04T17:50:00Z", "2026-06-04 17:50:00Z (10 min ago)"),
            ("2026-06-01T18:00:00Z", "2026-06-01 18:00:00Z (3 d ago)"),
            ("2026-06-04T18:15:00.500Z", "2026-06-04 18:15:00Z (in 15 min)"),
        ] {
            assert_eq!(shown(at(time), now), expect);
        }
    }
}
