//! What broke in the last week: the kernel's own failures, processes killed for want of memory, services that failed,
//! programs that crashed. From the journal; of the kernel alone where there is none.

use std::collections::BTreeMap;
use std::time::Duration;

use convoke_core::health::Status;
use serde::Serialize;
use serde_json::{Value, json};

use super::journal::{self, Entry};
use crate::facts::Facts;
use crate::{Section, text};

/// The window.
const WINDOW_DAYS: i64 = 7;

/// Most entries of the journal that are read; a machine with more in a week is in a state that shows anyway.
const MAX_ENTRIES: &str = "--lines=5000";

/// Most patterns told.
const MAX_EVENTS: usize = 30;

/// Reading a week of the journal costs; an hour is soon enough.
const AGE: Duration = Duration::from_secs(60 * 60);

/// Ids that systemd gives its messages.
const UNIT_FAILED: &str = "d9b373ed55a64feb8242e02dbe79a49c";
const CORE_DUMPED: &str = "fc2e22bc6ee647b6b90729ab34a250b1";

/// What the kernel says when something broke: a kind, how bad, and what it says.
const KERNEL: &[(&str, &str, &[&str])] = &[
    ("panic", "critical", &["Kernel panic"]),
    (
        "oops",
        "critical",
        &[
            "BUG: ",
            "Oops: ",
            "kernel BUG at",
            "general protection fault",
            "Unable to handle kernel",
            "invalid opcode:",
        ],
    ),
    ("hardware_error", "critical", &["Hardware Error", "Machine check", "mce: [Hardware"]),
    ("lockup", "error", &["soft lockup", "hard LOCKUP", "rcu_sched self-detected stall", "blocked for more than"]),
    ("out_of_memory", "error", &["Out of memory: Killed process", "Memory cgroup out of memory: Killed process"]),
    (
        "storage_error",
        "error",
        &[
            "I/O error, dev",
            "Buffer I/O error",
            "EXT4-fs error",
            "BTRFS error",
            "Corruption detected",
            "medium error",
        ],
    ),
];

/// One thing that broke, once.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Failure {
    micros: i64,
    source: String,
    event_id: String,
    level: &'static str,
    message: String,
}

/// The same thing, as often as it happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Pattern {
    source: String,
    event_id: String,
    level: &'static str,
    count: u64,
    sample: String,
    last_seen: String,
    by_day: BTreeMap<String, u64>,
}

pub(super) fn section(facts: &Facts) -> Section {
    let found = facts.remembered.or_find("reliability", AGE, None, || {
        let failures = failures(facts)?;
        let (patterns, truncated) = group(&failures);
        Some(json!({"total": failures.len(), "events": patterns, "truncated": truncated}))
    });
    let Some(found) = found else {
        return Section::ok("unknown: there is no journal and no readable kernel log")
            .with("stability_index", Value::Null)
            .with("recent_crashes", Value::Null)
            .with("events", json!([]));
    };
    let total = found["total"].as_u64().unwrap_or(0);
    let events = found["events"].as_array().map_or(&[][..], Vec::as_slice);
    let critical = events.iter().any(|event| event["level"] == "critical");
    // The hub's boundaries.
    let status = match total {
        50.. => Status::Crit,
        15.. => Status::Warn,
        _ if critical || events.len() >= 8 => Status::Warn,
        _ => Status::Ok,
    };
    let summary = match events.first() {
        None => format!("no failures in {WINDOW_DAYS} days"),
        Some(most) => {
            let what = most["event_id"].as_str().unwrap_or_default().replace('_', " ");
            let source = most["source"].as_str().unwrap_or_default();
            let failures = text::count(usize::try_from(total).unwrap_or(usize::MAX), "failure");
            format!("{failures} in {WINDOW_DAYS} days, mostly {source}: {what}")
        }
    };
    Section::new(status, summary)
        .with("stability_index", Value::Null)
        .with("recent_crashes", total)
        .with("window_days", WINDOW_DAYS)
        .with("events", found["events"].clone())
        .with("truncated", found["truncated"].clone())
}

fn failures(facts: &Facts) -> Option<Vec<Failure>> {
    if journal::has_journal(facts) {
        let since = format!("--since=-{WINDOW_DAYS}days");
        let (failed, dumped) = (format!("MESSAGE_ID={UNIT_FAILED}"), format!("MESSAGE_ID={CORE_DUMPED}"));
        let mut args = vec!["--no-pager", "--quiet", "--output=json", journal::FIELDS, MAX_ENTRIES, &since];
        // Several values of a field mean any of them; a plus stands between alternatives.
        args.extend([
            "_TRANSPORT=kernel",
            "PRIORITY=0",
            "PRIORITY=1",
            "PRIORITY=2",
            "PRIORITY=3",
            "+",
            &failed,
            &dumped,
        ]);
        let output = facts.output("journalctl", &args)?;
        return Some(output.lines().filter_map(journal::parse_entry).filter_map(|entry| of_entry(&entry)).collect());
    }
    let oldest = jiff::Timestamp::now().as_microsecond() - WINDOW_DAYS * 24 * 3600 * 1_000_000;
    let events = journal::kernel_events(facts)?;
    let entries = events.into_iter().filter_map(|event| {
        let micros = event.time.parse::<jiff::Timestamp>().ok()?.as_microsecond();
        (micros >= oldest).then(|| of_kernel(micros, &event.message)).flatten()
    });
    Some(entries.collect())
}

fn of_entry(entry: &Entry) -> Option<Failure> {
    if entry.kernel {
        return of_kernel(entry.micros, &entry.message);
    }
    let event_id = match entry.message_id.as_deref() {
        Some(UNIT_FAILED) => "unit_failed",
        Some(CORE_DUMPED) => "crash",
        _ => return None,
    };
    let source = entry.unit.clone().filter(|_| event_id == "unit_failed").unwrap_or_else(|| crashed(&entry.message));
    Some(Failure {
        micros: entry.micros,
        source: text::one_line(&source, 128),
        event_id: event_id.to_owned(),
        level: "error",
        message: entry.message.clone(),
    })
}

/// `Process 4242 (editor) of user 1000 dumped core.`
fn crashed(message: &str) -> String {
    let name = message.split_once('(').and_then(|(_, rest)| rest.split_once(')'));
    name.map_or_else(|| "a program".to_owned(), |(name, _)| name.to_owned())
}

fn of_kernel(micros: i64, message: &str) -> Option<Failure> {
    let (kind, level, _) = KERNEL.iter().find(|(_, _, says)| says.iter().any(|words| message.contains(words)))?;
    Some(Failure { micros, source: "kernel".into(), event_id: (*kind).into(), level, message: message.to_owned() })
}

/// The most frequent first.
fn group(failures: &[Failure]) -> (Vec<Pattern>, bool) {
    let mut groups: BTreeMap<(&str, &str), Vec<&Failure>> = BTreeMap::new();
    for failure in failures {
        groups.entry((&failure.source, &failure.event_id)).or_default().push(failure);
    }
    let mut patterns: Vec<Pattern> = Vec::new();
    for ((source, event_id), members) in groups {
        let Some(last) = members.iter().max_by_key(|failure| failure.micros) else { continue };
        let mut by_day = BTreeMap::new();
        for failure in &members {
            let day = journal::shown_time(failure.micros).chars().take(10).collect::<String>();
            *by_day.entry(day).or_default() += 1;
        }
        patterns.push(Pattern {
            source: source.to_owned(),
            event_id: event_id.to_owned(),
            level: last.level,
            count: members.len() as u64,
            sample: text::one_line(&last.message, 300),
            last_seen: journal::shown_time(last.micros),
            by_day,
        });
    }
    patterns.sort_by_key(|pattern| std::cmp::Reverse((pattern.level == "critical", pattern.count)));
    let truncated = patterns.len() > MAX_EVENTS;
    patterns.truncate(MAX_EVENTS);
    (patterns, truncated)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRIES: &str = include_str!("../../../../fixtures/machine/linux/journal-failures.jsonl");

    #[test]
    fn failures_are_grouped_and_noise_is_not_counted() {
        let entries: Vec<_> = ENTRIES.lines().filter_map(journal::parse_entry).collect();
        let failures: Vec<_> = entries.iter().filter_map(of_entry).collect();
        let (patterns, truncated) = group(&failures);
        let lines: Vec<_> =
            patterns.iter().map(|p| format!("{} {} {} {}", p.source, p.event_id, p.level, p.count)).collect();
        assert_eq!(
            lines,
            [
                "kernel oops critical 1",
                "nginx.service unit_failed error 2",
                "editor crash error 1",
                "kernel out_of_memory error 1",
                "kernel storage_error error 1",
            ]
        );
        assert!(!truncated);
        assert_eq!(patterns[1].by_day, BTreeMap::from([("2026-11-14".into(), 1), ("2026-11-15".into(), 1)]));
        assert_eq!(patterns[1].last_seen, "2026-11-15T11:40:00.000Z");
    }
}
