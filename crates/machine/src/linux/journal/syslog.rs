//! The files of syslog, where there is no journal; of the kernel also its own buffer.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::{Event, Log, cut};
use crate::facts::Facts;
use crate::{ToolError, text, tools};

/// How much of a file's end is read.
const TAIL: u64 = 4 * 1024 * 1024;

pub(super) fn events(facts: &Facts, log: &Log, count: usize) -> Result<Vec<Event>, ToolError> {
    let files: &[&str] = match log {
        Log::All | Log::System | Log::Unit(_) => &["var/log/syslog", "var/log/messages"],
        Log::Security => &["var/log/auth.log", "var/log/secure"],
        Log::Kernel => &["var/log/kern.log"],
        Log::Application => &["var/log/user.log", "var/log/syslog", "var/log/messages"],
    };
    let tail = files.iter().find_map(|file| facts.tail(file, TAIL).ok());
    let year = jiff::Zoned::now().year();
    let mut events: Vec<Event> = match tail {
        Some(text) => text.lines().filter_map(|line| parse_line(line, year)).collect(),
        None if *log == Log::Kernel => kernel_buffer(facts)?,
        None => {
            let looked: Vec<_> = files.iter().map(|file| format!("/{file}")).collect();
            return Err(ToolError::unsupported(format!(
                "this machine has no such log (no journal, and none of {})",
                looked.join(", ")
            )));
        }
    };
    if let Log::Unit(name) = log {
        let program = name.trim_end_matches(".service");
        events.retain(|event| event.source == program);
    }
    events.reverse();
    events.truncate(count);
    Ok(events)
}

fn kernel_buffer(facts: &Facts) -> Result<Vec<Event>, ToolError> {
    let output = facts
        .command("dmesg", &["--decode", "--time-format=iso", "--nopager"])
        .ok_or_else(|| ToolError::unsupported("this machine has no readable kernel log"))?
        .map_err(|error| tools::exec_error(&error))?;
    if !output.success() {
        return Err(ToolError::failed(format!("dmesg: {}", text::one_line(&output.stderr, 300))));
    }
    Ok(output.stdout.lines().filter_map(parse_dmesg).collect())
}

/// `2026-11-15T11:40:55.123456+01:00 host sshd[7]: …` or `Nov 15 11:40:55 host sshd[7]: …`. The second says no year;
/// it is this one, or the one before if that would be more than a day ahead.
fn parse_line(line: &str, year: i16) -> Option<Event> {
    let (time, rest) = parse_iso(line).or_else(|| parse_old(line, year))?;
    let (_host, rest) = rest.split_once(' ')?;
    let (tag, message) = rest.split_once(": ").unwrap_or((rest, ""));
    let source = tag.split('[').next().unwrap_or(tag).trim_end_matches(':');
    Some(Event { time, level: "info", source: text::one_line(source, 128), message: cut(message) })
}

fn parse_iso(line: &str) -> Option<(String, &str)> {
    let (time, rest) = line.split_once(' ')?;
    let time: jiff::Timestamp = time.parse().ok()?;
    Some((format!("{time:.3}"), rest))
}

fn parse_old(line: &str, year: i16) -> Option<(String, &str)> {
    let time = line.get(..15)?;
    let rest = line.get(16..)?;
    let in_year = |year: i16| {
        let text = format!("{year} {time}");
        let civil = DateTime::strptime("%Y %b %e %H:%M:%S", text).ok()?;
        civil.to_zoned(TimeZone::system()).ok().map(|zoned| zoned.timestamp())
    };
    let ahead = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(24);
    let moment = in_year(year).filter(|moment| *moment <= ahead).or_else(|| in_year(year - 1))?;
    Some((format!("{moment:.3}"), rest))
}

/// `kern  :info  : 2026-11-15T11:40:55,123456+00:00 usb 1-1: …`.
fn parse_dmesg(line: &str) -> Option<Event> {
    let mut parts = line.splitn(3, ':');
    let (facility, level, rest) = (parts.next()?.trim(), parts.next()?.trim(), parts.next()?.trim_start());
    let (time, message) = rest.split_once(' ')?;
    let time: jiff::Timestamp = time.replace(',', ".").parse().ok()?;
    let level = match level {
        "emerg" | "alert" | "crit" => "critical",
        "err" => "error",
        "warn" => "warning",
        "debug" => "debug",
        _ => "info",
    };
    let source = if facility == "kern" { "kernel" } else { facility };
    Some(Event { time: format!("{time:.3}"), level, source: source.to_owned(), message: cut(message) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_lines_are_read() {
        let event = parse_line("2026-11-15T12:40:55.5+01:00 pc sshd[7]: Accepted: x", 2026).unwrap();
        assert_eq!((event.time.as_str(), event.source.as_str()), ("2026-11-15T11:40:55.500Z", "sshd"));
        assert_eq!(event.message, "Accepted: x");
        let event = parse_line("Jan  5 01:02:03 pc CRON[1]: (root) CMD (x)", 2020).unwrap();
        assert!(event.time.starts_with("2020-01-0"), "{event:?}");
        assert_eq!(event.source, "CRON");
        for broken in ["", "x", "Jan 99 01:02:03 pc a: b", "Jan  5 01:02:0", "Jän  5 01:02:03 pc a: b"] {
            assert!(parse_line(broken, 2020).is_none(), "{broken}");
        }
    }

    #[test]
    fn a_date_without_a_year_is_not_in_the_future() {
        let year = jiff::Zoned::now().year();
        let (time, _) = parse_old("Dec 31 23:59:59 x", year).unwrap();
        let moment: jiff::Timestamp = time.parse().unwrap();
        assert!(moment <= jiff::Timestamp::now() + jiff::SignedDuration::from_hours(25));
    }

    #[test]
    fn the_kernels_buffer_is_read() {
        let event = parse_dmesg("kern  :err   : 2026-11-15T11:40:55,123456+00:00 EXT4-fs error").unwrap();
        assert_eq!(
            (event.level, event.source.as_str(), event.message.as_str()),
            ("error", "kernel", "EXT4-fs error")
        );
        assert!(parse_dmesg("nonsense").is_none());
    }
}
