//! How long the machine has been on.

use convoke_core::health::Status;

use crate::Section;
use crate::facts::Facts;

/// Days without a restart after which a kernel has surely missed updates.
const LONG_DAYS: u64 = 30;

pub(super) fn uptime(facts: &Facts) -> Section {
    let up = facts.read("proc/uptime").ok().and_then(|text| parse_uptime(&text));
    let boot = facts.read("proc/stat").ok().and_then(|text| parse_boot_time(&text));
    let Some(up) = up else { return Section::new(Status::Warn, "/proc/uptime cannot be read") };
    let days = up / 86_400;
    let status = if days >= LONG_DAYS { Status::Warn } else { Status::Ok };
    Section::new(status, format!("up {}", shown(up))).with("uptime_secs", up).with("boot_time_unix", boot)
}

fn parse_uptime(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().next()?.split('.').next()?.parse().ok()
}

fn parse_boot_time(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

/// `3 days 4 h`, `4 h 5 min`, `5 min`.
fn shown(secs: u64) -> String {
    let (days, hours, minutes) = (secs / 86_400, secs / 3600 % 24, secs / 60 % 60);
    match (days, hours) {
        (0, 0) => format!("{minutes} min"),
        (0, _) => format!("{hours} h {minutes} min"),
        (1, _) => format!("1 day {hours} h"),
        _ => format!("{days} days {hours} h"),
    }
}
