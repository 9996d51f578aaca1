//! What was installed lately, when the lists were last fetched, when the packages last changed.

use std::time::SystemTime;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde::Serialize;

use crate::facts::Facts;
use crate::text;

/// How much of a log's end is read.
const TAIL: u64 = 1024 * 1024;

/// Most entries in the answer.
const MAX_RECENT: usize = 20;

/// An update, in the words of the section. `kb` is the package's name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Update {
    pub(super) kb: String,
    pub(super) title: String,
    pub(super) result: &'static str,
    pub(super) installed_at: Option<String>,
}

impl Update {
    fn done(package: &str, from: &str, to: &str, at: Option<jiff::Timestamp>) -> Self {
        Self {
            kb: text::one_line(package, 128),
            title: text::one_line(&format!("{package} {from} → {to}"), 200),
            result: "succeeded",
            installed_at: at.map(|at| format!("{at:.0}")),
        }
    }
}

/// What makes an update of a line of a log.
type Reader = fn(&str) -> Option<Update>;

/// The newest first; packages that are only half installed before them.
pub(super) fn recent(facts: &Facts) -> Vec<Update> {
    let mut updates = broken(facts.lines("var/lib/dpkg/status"));
    let logs: [(&str, Reader); 3] =
        [("var/log/dpkg.log", dpkg_line), ("var/log/dnf.rpm.log", dnf_line), ("var/log/pacman.log", pacman_line)];
    for (file, parse) in logs {
        let text = facts.tail(file, TAIL).unwrap_or_default();
        updates.extend(text.lines().rev().filter_map(parse).take(MAX_RECENT));
    }
    updates.truncate(MAX_RECENT);
    updates
}

/// Packages that dpkg began with and did not finish.
fn broken(status: impl Iterator<Item = String>) -> Vec<Update> {
    let mut found = Vec::new();
    let mut package = String::new();
    for line in status {
        if let Some(name) = line.strip_prefix("Package: ") {
            name.clone_into(&mut package);
        } else if let Some(state) = line.strip_prefix("Status: ")
            && let Some(state) = state.split_ascii_whitespace().next_back()
            && matches!(state, "half-installed" | "half-configured" | "unpacked")
        {
            found.push(Update {
                kb: text::one_line(&package, 128),
                title: format!("{} is {state}", text::one_line(&package, 128)),
                result: "failed",
                installed_at: None,
            });
        }
    }
    found
}

/// `2026-11-14 06:12:01 upgrade libssl3:amd64 3.0.16-1 3.0.17-1`, in the machine's own time.
fn dpkg_line(line: &str) -> Option<Update> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [date, time, "upgrade", package, from, to] = words.as_slice() else { return None };
    let at: DateTime = format!("{date}T{time}").parse().ok()?;
    let at = at.to_zoned(TimeZone::system()).ok()?.timestamp();
    Some(Update::done(package.split(':').next().unwrap_or(package), from, to, Some(at)))
}

/// `2026-11-10T06:00:00+0000 SUBDEBUG Upgraded: openssl-libs-1:3.0.7-28.el9.x86_64`; what it replaced is not said.
fn dnf_line(line: &str) -> Option<Update> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [at, _, "Upgrade:", full] = words.as_slice() else { return None };
    let at = at.parse().ok();
    let mut parts = full.rsplitn(3, '-');
    let (release, version, name) = (parts.next()?, parts.next()?, parts.next()?);
    Some(Update::done(name, "", &format!("{version}-{release}"), at))
}

/// `[2026-11-01T10:00:00+0100] [ALPM] upgraded linux (6.10-1 -> 6.11-1)`.
fn pacman_line(line: &str) -> Option<Update> {
    let (at, rest) = line.strip_prefix('[')?.split_once("] [ALPM] upgraded ")?;
    let (package, versions) = rest.split_once(" (")?;
    let (from, to) = versions.trim_end_matches(')').split_once(" -> ")?;
    Some(Update::done(package, from, to, at.parse().ok()))
}

/// When the lists of packages were last fetched.
pub(super) fn last_check(facts: &Facts) -> Option<SystemTime> {
    let stamps = [
        "var/lib/apt/periodic/update-success-stamp",
        "var/lib/apt/lists/partial",
        "var/cache/dnf/last_makecache",
        "var/cache/dnf/expired_repos.json",
        "var/lib/pacman/sync/core.db",
        "var/cache/zypp/solv",
        "var/cache/apk",
    ];
    stamps.iter().filter_map(|stamp| modified(facts, stamp)).max()
}

/// When packages or their lists last changed.
pub(super) fn changed(facts: &Facts) -> Option<SystemTime> {
    let databases = ["var/lib/dpkg/status", "var/lib/rpm", "var/lib/pacman/local", "lib/apk/db/installed"];
    databases.iter().filter_map(|path| modified(facts, path)).chain(last_check(facts)).max()
}

fn modified(facts: &Facts, path: &str) -> Option<SystemTime> {
    facts.path(path).metadata().ok()?.modified().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_of_three_managers_are_read() {
        let update = dpkg_line("2026-11-14 06:12:01 upgrade libssl3:amd64 3.0.16-1 3.0.17-1").unwrap();
        assert_eq!((update.kb.as_str(), update.title.as_str()), ("libssl3", "libssl3 3.0.16-1 → 3.0.17-1"));
        assert!(dpkg_line("2026-11-14 06:12:01 status installed libssl3:amd64 3.0.17-1").is_none());
        let update =
            dnf_line("2026-11-10T06:00:00+0000 SUBDEBUG Upgrade: openssl-libs-1:3.0.7-28.el9.x86_64").unwrap();
        assert_eq!(
            (update.kb.as_str(), update.installed_at.as_deref()),
            ("openssl-libs", Some("2026-11-10T06:00:00Z"))
        );
        let update = pacman_line("[2026-11-01T10:00:00+0100] [ALPM] upgraded linux (6.10-1 -> 6.11-1)").unwrap();
        assert_eq!(update.installed_at.as_deref(), Some("2026-11-01T09:00:00Z"));
    }

    #[test]
    fn what_is_half_installed_has_failed() {
        let status = "Package: a\nStatus: install ok installed\n\nPackage: b\nStatus: install ok half-configured\n";
        let found = broken(status.lines().map(str::to_owned));
        assert_eq!((found.len(), found[0].kb.as_str(), found[0].result), (1, "b", "failed"));
    }
}
