//! Packages that wait to be installed, what was installed lately, whether a restart is due, how long the system is
//! supported.

mod history;
mod kernel;
mod pending;
mod support;

use std::time::{Duration, SystemTime};

use convoke_core::health::Status;
use serde_json::{Value, json};

use crate::facts::Facts;
use crate::{Section, text};

pub(super) use kernel::reboot_pending;
pub(super) use support::os_support;

/// Most packages told.
const MAX_PACKAGES: usize = 200;

/// What was found about packages holds this long, unless their database changes.
const AGE: Duration = Duration::from_secs(6 * 60 * 60);

/// Lists older than this do not know what is new.
const STALE: Duration = Duration::from_secs(14 * 24 * 60 * 60);

pub(super) fn app_updates(facts: &Facts) -> Section {
    let Some(pending) = pending(facts) else {
        let section = match pending::manager(facts) {
            None => Section::ok("no package manager that is known"),
            Some(manager) => Section::new(Status::Warn, format!("{manager} does not report available packages")),
        };
        return section.with("available", Value::Null).with("packages", json!([]));
    };
    let (available, security) = counts(&pending);
    let summary = match (available, security) {
        (0, _) => "all packages are up to date".to_owned(),
        (n, 0) => format!("{} available", text::count(n, "update")),
        (n, s) => format!("{} available, {s} for security", text::count(n, "update")),
    };
    let status = if available > 0 { Status::Warn } else { Status::Ok };
    Section::new(status, summary)
        .with("available", available)
        .with("security", security)
        .with("packages", pending["packages"].clone())
        .with("manager", pending["manager"].clone())
}

/// The counterpart of Windows Update: when the machine last looked, what it installed lately and how that went, and
/// what waits.
pub(super) fn win_update(facts: &Facts) -> Section {
    let recent = history::recent(facts);
    let checked = history::last_check(facts);
    let pending = pending(facts);
    if recent.is_empty() && checked.is_none() && pending.is_none() {
        return Section::ok("no package manager that is known")
            .with("last_check", Value::Null)
            .with("recent", json!([]));
    }
    let waiting = pending.as_ref().map(counts);
    let security = waiting.map_or(0, |(_, security)| security);
    let failed = recent.iter().filter(|update| update.result == "failed").count();
    let age = checked.and_then(|at| SystemTime::now().duration_since(at).ok());
    let (status, summary) = match age {
        _ if failed > 0 => (Status::Warn, format!("{} not installed properly", text::count(failed, "package"))),
        _ if security > 0 => (Status::Warn, format!("{} for security", text::count(security, "update"))),
        Some(age) if age > STALE => {
            (Status::Warn, format!("last checked for updates {} days ago", age.as_secs() / 86_400))
        }
        _ => {
            let waiting =
                waiting.map_or_else(|| "available updates are not known".to_owned(), |(n, _)| format!("{n} waiting"));
            (Status::Ok, format!("{} lately, {waiting}", text::count(recent.len(), "update")))
        }
    };
    let checked = checked.and_then(|at| jiff::Timestamp::try_from(at).ok()).map(|at| format!("{at:.0}"));
    Section::new(status, summary)
        .with("last_check", checked)
        .with("recent", json!(recent))
        .with("pending", waiting.map(|(available, _)| available))
        .with("pending_security", waiting.map(|(_, security)| security))
}

fn counts(pending: &Value) -> (usize, usize) {
    let count = |key: &str| pending[key].as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
    (count("available"), count("security"))
}

/// What waits. Both sections ask; asking costs a second of a processor, so the answer is kept.
fn pending(facts: &Facts) -> Option<Value> {
    facts.remembered.or_find("pending_packages", AGE, history::changed(facts), || {
        let (manager, mut packages) = pending::packages(facts)?;
        let security = packages.iter().filter(|package| package.security == Some(true)).count();
        let available = packages.len();
        // Those that matter most are not the ones left out.
        packages.sort_by_key(|package| package.security != Some(true));
        packages.truncate(MAX_PACKAGES);
        Some(json!({"manager": manager, "available": available, "security": security, "packages": packages}))
    })
}
