//! Services: systemd's over D-Bus, else by `systemctl`, else those of OpenRC or of plain init scripts.

mod init;
mod systemd;

use convoke_core::health::Status;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::facts::Facts;
use crate::{Section, ToolError, text};

/// Most services that the tool returns.
const MAX_LISTED: usize = 2000;

/// Most services that the section names: those that failed first.
const MAX_IN_SECTION: usize = 300;

/// A service in the words of the contract: `status` is `running`, `exited` (did its work and is done), `stopped`,
/// `failed`, `starting`, `stopping` or `unknown`; `start` is `auto`, `manual` or `disabled`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Service {
    pub(super) name: String,
    pub(super) display: String,
    pub(super) status: &'static str,
    pub(super) start: &'static str,
}

pub(super) fn list(facts: &Facts, args: &Map<String, Value>) -> Result<Value, ToolError> {
    let filter = args.get("filter").and_then(Value::as_str).unwrap_or_default().to_lowercase();
    let (_, services) = services(facts).ok_or_else(|| {
        ToolError::unsupported("found no service manager on this machine (looked for systemd, OpenRC, init scripts)")
    })?;
    let matching = |service: &Service| {
        service.name.to_lowercase().contains(&filter) || service.display.to_lowercase().contains(&filter)
    };
    let mut found: Vec<_> = services.into_iter().filter(matching).collect();
    let truncated = found.len() > MAX_LISTED;
    found.truncate(MAX_LISTED);
    let mut result = json!({"services": found});
    if truncated {
        result["truncated"] = true.into();
    }
    Ok(result)
}

pub(super) fn section(facts: &Facts) -> Section {
    let Some((source, mut services)) = services(facts) else {
        return Section::ok("no service manager is known on this machine").with("services", json!([]));
    };
    let failed: Vec<_> = services.iter().filter(|service| service.status == "failed").collect();
    let (status, summary) = match failed.as_slice() {
        [] => {
            let running = services.iter().filter(|service| service.status == "running").count();
            (Status::Ok, format!("{} running ({source})", text::count(running, "service")))
        }
        [one] => (Status::Warn, format!("{} has failed", one.name)),
        [first, ..] => (Status::Warn, format!("{} services have failed, {} among them", failed.len(), first.name)),
    };
    let total = services.len();
    services.sort_by_key(|service| match (service.status, service.start) {
        ("failed", _) => 0,
        ("stopped", "auto") => 1,
        ("running", _) => 2,
        _ => 3,
    });
    services.truncate(MAX_IN_SECTION);
    let section = Section::new(status, summary).with("services", json!(services));
    if total > MAX_IN_SECTION { section.with("services_total", total) } else { section }
}

/// Where they were found, and which there are.
fn services(facts: &Facts) -> Option<(&'static str, Vec<Service>)> {
    // A machine may have systemd's programs and run something else.
    let systemd = facts.exists("run/systemd/system");
    let mut found = None;
    if systemd {
        found = systemd::over_dbus(facts).or_else(|| systemd::by_systemctl(facts)).map(|list| ("systemd", list));
    }
    let (name, mut services) = found.or_else(|| init::services(facts))?;
    services.sort_by(|a, b| a.name.cmp(&b.name));
    Some((name, services))
}
