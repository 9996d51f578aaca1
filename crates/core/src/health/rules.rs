//! The hub's health rules: which section, on which systems, by which fields, judged how.
//!
//! The boundaries are those of the newest kenny in the field, so that a fleet that moves to this hub keeps its
//! colours. `web_activity` has no row: its verdict there rests on lists that only its own server has, so here the
//! agent's status stands.
//!
//! A rule gives no verdict when none of its fields are there. A list that is there is a reading even when it is empty
//! (no failed update, no open port); a maximum needs at least one value.

use std::net::IpAddr;
use std::time::Duration;

use super::fields::Field;
use super::{Os, Status};
use crate::time::Timestamp;
use Systems::{All, Windows};

/// One row of the table.
pub(super) struct Rule {
    /// The section it judges.
    pub(super) section: &'static str,
    /// Where it applies.
    on: Systems,
    /// The fields it reads, in the order in which the judge gets them.
    pub(super) fields: &'static [&'static str],
    /// Its verdict, or none when what it needs is not there.
    pub(super) judge: fn(&Reading<'_>) -> Option<Status>,
}

/// Where a rule applies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Systems {
    All,
    Windows,
}

/// Most fields a rule reads.
pub(super) const MAX_FIELDS: usize = 3;

/// What a rule judges by.
pub(super) struct Reading<'a> {
    /// The rule's fields, in its order; absent beyond them.
    pub(super) fields: [Field<'a>; MAX_FIELDS],
    /// The agent's system.
    pub(super) os: Os,
    /// The hub's time.
    pub(super) now: Timestamp,
}

static RULES: [Rule; 14] = [
    Rule { section: "disk", on: All, fields: &["volumes"], judge: disk },
    Rule {
        section: "defender",
        on: Windows,
        fields: &["enabled", "realtime_protection", "last_scan"],
        judge: defender,
    },
    Rule { section: "win_update", on: Windows, fields: &["recent"], judge: win_update },
    Rule { section: "reboot_pending", on: Windows, fields: &["pending"], judge: reboot_pending },
    Rule { section: "battery", on: All, fields: &["present", "health_percent"], judge: battery },
    Rule { section: "memory", on: All, fields: &["percent_used"], judge: memory },
    Rule { section: "os_support", on: All, fields: &["eol", "eol_date"], judge: os_support },
    Rule { section: "thermals", on: All, fields: &["sensors"], judge: thermals },
    Rule {
        section: "reliability",
        on: All,
        fields: &["stability_index", "recent_crashes", "events"],
        judge: reliability,
    },
    Rule { section: "listening_ports", on: All, fields: &["ports"], judge: listening_ports },
    Rule { section: "local_accounts", on: All, fields: &["accounts"], judge: local_accounts },
    Rule { section: "logon_failures", on: All, fields: &["accounts", "unmatched_count"], judge: logon_failures },
    Rule {
        section: "backup_status",
        on: Windows,
        fields: &["restore_points", "file_history", "onedrive"],
        judge: backup_status,
    },
    Rule { section: "net_quality", on: All, fields: &["gateway", "reference"], judge: net_quality },
];

/// The rule for a section on a system.
pub(super) fn rule_for(section: &str, os: Os) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.section == section && (rule.on == All || os == Os::Windows))
}

/// Sections about parts of Windows, which agents elsewhere may send empty.
const OF_WINDOWS: [&str; 4] = ["defender", "defender_quarantine", "win_update", "backup_status"];

/// Whether a section tells about another system than the agent's.
pub(super) fn is_foreign(section: &str, os: Os) -> bool {
    matches!(os, Os::Linux | Os::Macos) && OF_WINDOWS.contains(&section)
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// At least this much of the fullest volume used.
const DISK_CRIT_PERCENT: f64 = 95.0;
/// More than this.
const DISK_WARN_PERCENT: f64 = 80.0;

fn disk(reading: &Reading<'_>) -> Option<Status> {
    let [volumes, ..] = reading.fields;
    let fullest = highest(volumes, "percent_used")?;
    Some(grade(fullest >= DISK_CRIT_PERCENT, fullest > DISK_WARN_PERCENT))
}

/// A scan older than this.
const DEFENDER_SCAN_AGE: Duration = Duration::from_secs(14 * DAY.as_secs());

fn defender(reading: &Reading<'_>) -> Option<Status> {
    let [enabled, realtime, last_scan] = reading.fields;
    let (enabled, realtime, last_scan) = (enabled.boolean(), realtime.boolean(), last_scan.about_when());
    if enabled.is_none() && realtime.is_none() && last_scan.is_none() {
        return None;
    }
    let off = enabled == Some(false) || realtime == Some(false);
    let stale = last_scan.is_some_and(|scan| reading.now.since(scan) > DEFENDER_SCAN_AGE);
    Some(grade(off, stale))
}

fn win_update(reading: &Reading<'_>) -> Option<Status> {
    let [recent, ..] = reading.fields;
    let mut failed = false;
    let there = recent.each(|update| {
        let [result] = update.pick(["result"]);
        failed |= result.text().is_some_and(|result| result.eq_ignore_ascii_case("failed"));
    });
    there.then(|| grade(false, failed))
}

fn reboot_pending(reading: &Reading<'_>) -> Option<Status> {
    let [pending, ..] = reading.fields;
    Some(grade(false, pending.boolean()?))
}

/// Less than this much of the designed capacity left.
const BATTERY_CRIT_PERCENT: f64 = 50.0;
/// Less than this.
const BATTERY_WARN_PERCENT: f64 = 70.0;

fn battery(reading: &Reading<'_>) -> Option<Status> {
    let [present, health, ..] = reading.fields;
    // A desktop may report a capacity of zero for the battery it does not have.
    if present.boolean() == Some(false) {
        return None;
    }
    let health = health.number()?;
    Some(grade(health < BATTERY_CRIT_PERCENT, health < BATTERY_WARN_PERCENT))
}

/// More than this much used.
const MEMORY_CRIT_PERCENT: f64 = 95.0;
/// More than this.
const MEMORY_WARN_PERCENT: f64 = 85.0;

fn memory(reading: &Reading<'_>) -> Option<Status> {
    let [used, ..] = reading.fields;
    let used = used.number()?;
    Some(grade(used > MEMORY_CRIT_PERCENT, used > MEMORY_WARN_PERCENT))
}

/// Support that ends within this time.
const EOL_NOTICE: Duration = Duration::from_secs(90 * DAY.as_secs());

fn os_support(reading: &Reading<'_>) -> Option<Status> {
    let [eol, eol_date, ..] = reading.fields;
    let eol = eol.boolean();
    // A plain date is a whole day: compared by days, support lasts to the end of the day it names.
    let end = eol_date.time().map(|end| (end, reading.now)).or_else(|| Some((eol_date.date()?, day_of(reading.now))));
    if eol.is_none() && end.is_none() {
        return None;
    }
    let over = eol == Some(true) || end.is_some_and(|(end, now)| end < now);
    let soon = end.is_some_and(|(end, now)| end.since(now) <= EOL_NOTICE);
    Some(grade(over, soon))
}

/// The first moment of the day, in UTC.
fn day_of(moment: Timestamp) -> Timestamp {
    let day = i64::try_from(DAY.as_millis()).expect("a day has few milliseconds");
    Timestamp::from_millis(moment.millis().div_euclid(day) * day)
}

/// The hottest sensor at this or above, in degrees Celsius.
const THERMALS_CRIT_C: f64 = 95.0;
/// At this or above.
const THERMALS_WARN_C: f64 = 85.0;

fn thermals(reading: &Reading<'_>) -> Option<Status> {
    let [sensors, ..] = reading.fields;
    let hottest = highest(sensors, "temperature_c")?;
    Some(grade(hottest >= THERMALS_CRIT_C, hottest >= THERMALS_WARN_C))
}

/// This many errors in the agent's window, or more.
const RELIABILITY_CRIT_EVENTS: f64 = 50.0;
/// This many.
const RELIABILITY_WARN_EVENTS: f64 = 15.0;
/// This many different errors.
const RELIABILITY_WARN_PATTERNS: usize = 8;
/// A stability index (1 to 10, the system's own) under this.
const RELIABILITY_CRIT_INDEX: f64 = 3.0;
/// Under this.
const RELIABILITY_WARN_INDEX: f64 = 6.0;

fn reliability(reading: &Reading<'_>) -> Option<Status> {
    let [index, total, events] = reading.fields;
    let (index, total) = (index.number(), total.number());

    let mut patterns: Vec<(&str, &str)> = Vec::new();
    let mut counted = 0.0;
    let mut critical = false;
    let listed = events.each(|event| {
        let [source, id, level, count] = event.pick(["source", "event_id", "level", "count"]);
        counted += count.number().unwrap_or(0.0);
        critical |= level.text().is_some_and(|level| level.eq_ignore_ascii_case("critical"));
        let (Some(source), Some(id)) = (source.raw(), id.raw()) else { return };
        if patterns.len() < RELIABILITY_WARN_PATTERNS && !patterns.contains(&(source, id)) {
            patterns.push((source, id));
        }
    });
    if index.is_none() && total.is_none() && !listed {
        return None;
    }
    // The list may be shortened by the agent, and its total may count crashes alone: the larger one is what is known.
    let total = total.unwrap_or(0.0).max(counted);
    let index_under = |bound| index.is_some_and(|index| index < bound);
    let crit = total >= RELIABILITY_CRIT_EVENTS || index_under(RELIABILITY_CRIT_INDEX);
    let warn = total >= RELIABILITY_WARN_EVENTS
        || critical
        || patterns.len() >= RELIABILITY_WARN_PATTERNS
        || index_under(RELIABILITY_WARN_INDEX);
    Some(grade(crit, warn))
}

/// Ports through which a machine is operated from afar: SSH, RDP, VNC, WinRM.
const REMOTE_ACCESS_PORTS: [f64; 5] = [22.0, 3389.0, 5900.0, 5985.0, 5986.0];

fn listening_ports(reading: &Reading<'_>) -> Option<Status> {
    let [ports, ..] = reading.fields;
    let mut exposed = false;
    let there = ports.each(|listener| {
        let [port, address] = listener.pick(["port", "address"]);
        // A listener whose address is not told is not known to be local.
        exposed |= port.number().is_some_and(|port| REMOTE_ACCESS_PORTS.contains(&port))
            && !address.text().is_some_and(|address| is_loopback(&address));
    });
    there.then(|| grade(false, exposed))
}

/// Whether an address as systems print it (`127.0.0.1`, `[::1]`, `::1%lo`) is reachable from this machine only.
fn is_loopback(address: &str) -> bool {
    let bare = address.trim_start_matches('[').trim_end_matches(']');
    let bare = bare.split_once('%').map_or(bare, |(ip, _zone)| ip);
    bare.eq_ignore_ascii_case("localhost") || bare.parse().is_ok_and(|ip: IpAddr| ip.to_canonical().is_loopback())
}

fn local_accounts(reading: &Reading<'_>) -> Option<Status> {
    let [accounts, ..] = reading.fields;
    let mut worst = Status::Ok;
    let there = accounts.each(|account| worst = worst.max(local_account(account, reading.os)));
    there.then_some(worst)
}

fn local_account(account: Field<'_>, os: Os) -> Status {
    let [enabled, admin, required, last_set, builtin_admin, builtin_guest, denied] = account.pick([
        "enabled",
        "is_admin",
        "password_required",
        "password_last_set",
        "builtin_admin",
        "builtin_guest",
        "deny_logon",
    ]);
    let is = |field: Field<'_>| field.boolean() == Some(true);
    // The flag alone is common on machines as they are sold; it matters where no password was ever set.
    let open = is(enabled) && is(admin) && required.boolean() == Some(false) && last_set.is_null();
    // Elsewhere the built-in administrator is root, which is always enabled.
    let builtin = is(enabled) && ((is(builtin_admin) && os == Os::Windows) || is(builtin_guest));
    let mut rights = 0;
    denied.each(|_| rights += 1);
    // Who is disabled cannot sign in anyway.
    let contradicts = is(admin) && rights > 0 && enabled.boolean() != Some(false);
    grade(open, builtin || contradicts)
}

/// This many failed sign-ins for one account, or for names that do not exist.
const LOGON_WARN_FAILURES: f64 = 15.0;

fn logon_failures(reading: &Reading<'_>) -> Option<Status> {
    let [accounts, unmatched, ..] = reading.fields;
    let unmatched = unmatched.number();
    let mut most = unmatched.unwrap_or(0.0);
    let listed = accounts.each(|account| {
        let [count] = account.pick(["count"]);
        most = most.max(count.number().unwrap_or(0.0));
    });
    (listed || unmatched.is_some()).then(|| grade(false, most >= LOGON_WARN_FAILURES))
}

/// A restore point no older than this is a backup.
const RESTORE_POINT_AGE: Duration = Duration::from_secs(30 * DAY.as_secs());

fn backup_status(reading: &Reading<'_>) -> Option<Status> {
    let [restore_points, file_history, onedrive] = reading.fields;
    let [latest, enabled] = restore_points.pick(["latest", "enabled"]);
    let latest = latest.time();
    let history = file_history.pick(["service_state"])[0].text();
    let onedrive = onedrive.pick(["running"])[0].boolean();
    // All of them null is a machine that could not be asked, not one without backups.
    if latest.is_none() && history.is_none() && onedrive.is_none() {
        return None;
    }
    // Where restore points are switched off, the last one is the last there will be.
    let recent = latest.is_some_and(|latest| reading.now.since(latest) <= RESTORE_POINT_AGE)
        && enabled.boolean() != Some(false);
    let saved =
        recent || history.is_some_and(|state| state.eq_ignore_ascii_case("running")) || onedrive == Some(true);
    Some(grade(false, !saved))
}

/// At least this much lost on the way to the reference host.
const NET_CRIT_LOSS_PERCENT: f64 = 60.0;
/// More than this much lost on the way to the gateway.
const NET_WARN_LOSS_PERCENT: f64 = 20.0;
/// A gateway that takes longer than this.
const NET_WARN_LATENCY_MS: f64 = 100.0;

fn net_quality(reading: &Reading<'_>) -> Option<Status> {
    let [gateway, reference, ..] = reading.fields;
    let [latency, loss] = gateway.pick(["latency_ms", "loss_percent"]).map(Field::number);
    let reference_loss = reference.pick(["loss_percent"])[0].number();
    if latency.is_none() && loss.is_none() && reference_loss.is_none() {
        return None;
    }
    let crit = reference_loss.is_some_and(|loss| loss >= NET_CRIT_LOSS_PERCENT);
    let warn = latency.is_some_and(|ms| ms > NET_WARN_LATENCY_MS) || loss.is_some_and(|l| l > NET_WARN_LOSS_PERCENT);
    Some(grade(crit, warn))
}

/// The worse of two findings.
const fn grade(crit: bool, warn: bool) -> Status {
    match (crit, warn) {
        (true, _) => Status::Crit,
        (false, true) => Status::Warn,
        (false, false) => Status::Ok,
    }
}

/// The highest number of that name in a list of objects.
fn highest(list: Field<'_>, name: &str) -> Option<f64> {
    let mut highest: Option<f64> = None;
    list.each(|element| {
        let [value] = element.pick([name]);
        highest = highest.into_iter().chain(value.number()).reduce(f64::max);
    });
    highest
}
