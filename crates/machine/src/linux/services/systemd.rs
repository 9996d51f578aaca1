//! systemd's services.

use std::collections::BTreeMap;
use std::time::Duration;

use zbus::OwnedObjectPath;

use super::Service;
use crate::facts::Facts;
use crate::text;

/// A bus that does not answer within this time is left for `systemctl`.
const BUS_TIME: Duration = Duration::from_secs(5);

/// What the manager's `ListUnits` says of a unit: name, description, load state, active state, sub-state, followed
/// unit, path, job, kind and path of the job.
type Unit = (String, String, String, String, String, String, OwnedObjectPath, u32, String, OwnedObjectPath);

/// What is known of a unit that is loaded.
#[derive(Debug, Default, PartialEq, Eq)]
struct Loaded {
    description: String,
    load: String,
    active: String,
    sub: String,
}

/// Asks the manager over the system's bus.
pub(super) fn over_dbus(facts: &Facts) -> Option<Vec<Service>> {
    let socket = facts.path("run/dbus/system_bus_socket");
    if !socket.exists() {
        return None;
    }
    let ask = async {
        let address = format!("unix:path={}", socket.display());
        let bus = zbus::connection::Builder::address(address.as_str()).build().await?;
        let manager = |method: &'static str| {
            let (name, path) = ("org.freedesktop.systemd1", "/org/freedesktop/systemd1");
            let bus = bus.clone();
            async move { bus.call_method(Some(name), path, Some("org.freedesktop.systemd1.Manager"), method, &()).await }
        };
        let units: Vec<Unit> = manager("ListUnits").await?.body().deserialize()?;
        let files: Vec<(String, String)> = manager("ListUnitFiles").await?.body().deserialize()?;
        zbus::Result::Ok((units, files))
    };
    let (units, files) = match facts.wait(async { tokio::time::timeout(BUS_TIME, ask).await }) {
        Ok(Ok(found)) => found,
        Ok(Err(error)) => {
            tracing::debug!(%error, "the system bus does not list the services");
            return None;
        }
        Err(_) => return None,
    };
    let loaded = units
        .into_iter()
        .map(|(name, description, load, active, sub, ..)| (name, Loaded { description, load, active, sub }));
    let files = files.into_iter().map(|(path, state)| {
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        (name, state)
    });
    Some(join(loaded.collect(), files.collect()))
}

/// The same by the program that comes with it, which has a way of its own to the manager.
pub(super) fn by_systemctl(facts: &Facts) -> Option<Vec<Service>> {
    // Not `list-units`: its table grows a column when a job waits.
    let shown = "--property=Id,Description,LoadState,ActiveState,SubState";
    let units = facts.output("systemctl", &["show", "--no-pager", "--all", shown, "*.service"])?;
    let plain = ["list-unit-files", "--type=service", "--no-legend", "--no-pager"];
    let files = facts.output("systemctl", &plain).unwrap_or_default();
    Some(join(parse_units(&units), parse_files(&files)))
}

/// Lines such as `Id=ssh.service`, with an empty one between two units.
fn parse_units(text: &str) -> BTreeMap<String, Loaded> {
    let unit = |record: &str| {
        let field = |name: &str| {
            let value = record.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
            value.unwrap_or_default().to_owned()
        };
        let loaded = Loaded {
            description: field("Description"),
            load: field("LoadState"),
            active: field("ActiveState"),
            sub: field("SubState"),
        };
        Some((field("Id"), loaded)).filter(|(name, _)| !name.is_empty())
    };
    text.split("\n\n").filter_map(unit).collect()
}

/// `ssh.service enabled enabled`.
fn parse_files(text: &str) -> BTreeMap<String, String> {
    let file = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        Some((words.next()?.to_owned(), words.next()?.to_owned()))
    };
    text.lines().filter_map(file).collect()
}

/// One list of what is loaded and what could be.
fn join(loaded: BTreeMap<String, Loaded>, files: BTreeMap<String, String>) -> Vec<Service> {
    let is_service = |name: &str| name.ends_with(".service") && !name.ends_with("@.service");
    let mut services = Vec::new();
    for (name, unit) in &loaded {
        // One that is only mentioned by another and exists nowhere is none.
        if !is_service(name) || unit.load == "not-found" {
            continue;
        }
        // `getty@tty1.service` is made from the file `getty@.service`.
        let template = name.split_once('@').map(|(stem, _)| format!("{stem}@.service"));
        let state = files.get(name).or_else(|| files.get(&template?)).map_or("", String::as_str);
        services.push(Service {
            name: text::one_line(name, 256),
            display: text::one_line(&unit.description, 256),
            status: status(&unit.active, &unit.sub),
            start: start(state, &unit.load),
        });
    }
    for (name, state) in files {
        if is_service(&name) && !loaded.contains_key(&name) && state != "alias" {
            let display = name.trim_end_matches(".service").to_owned();
            services.push(Service { start: start(&state, ""), name, display, status: "stopped" });
        }
    }
    services
}

fn status(active: &str, sub: &str) -> &'static str {
    match (active, sub) {
        ("active" | "reloading" | "refreshing", "exited") => "exited",
        ("active" | "reloading" | "refreshing", _) => "running",
        ("inactive", _) => "stopped",
        ("failed", _) => "failed",
        // Waits to be started again after a failure.
        ("activating", "auto-restart") => "failed",
        ("activating", _) => "starting",
        ("deactivating", _) => "stopping",
        _ => "unknown",
    }
}

fn start(file: &str, load: &str) -> &'static str {
    match (file, load) {
        ("enabled" | "enabled-runtime" | "alias" | "generated", _) => "auto",
        ("masked" | "masked-runtime" | "bad", _) | (_, "masked") => "disabled",
        _ => "manual",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNITS: &str = include_str!("../../../../../fixtures/machine/linux/systemctl-show.txt");
    const FILES: &str = include_str!("../../../../../fixtures/machine/linux/systemctl-unit-files.txt");

    #[test]
    fn units_and_files_make_one_list() {
        let list = join(parse_units(UNITS), parse_files(FILES));
        let lines: Vec<_> =
            list.iter().map(|s| format!("{} | {} | {} | {}", s.name, s.display, s.status, s.start)).collect();
        assert_eq!(
            lines,
            [
                "cron.service | Regular background program processing daemon | running | auto",
                "e2scrub_reap.service | Remove Stale Online ext4 Metadata Check Snapshots | stopped | auto",
                "getty@tty1.service | Getty on tty1 | running | auto",
                "nginx.service | A high performance web server and a reverse proxy server | failed | auto",
                "systemd-sysctl.service | Apply Kernel Variables | exited | manual",
                "tmp-unit.service | A restart loop | failed | manual",
                "plymouth.service | plymouth | stopped | disabled",
                "rsync.service | rsync | stopped | manual",
            ]
        );
    }
}
