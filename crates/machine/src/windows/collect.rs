//! What the sections make of a script's answer.

use std::collections::BTreeMap;

use convoke_core::health::Status;
use convoke_core::time::Timestamp;
use serde_json::{Value, json};

use super::json::{list, number, round1, text, truth, whole};
use super::{tools, winget};
use crate::Section;
use crate::text::{count, one_line, process_count};

/// The section of that name from what its script printed.
pub(super) fn section(name: &str, answer: &Value, now: Timestamp) -> Section {
    match name {
        "disk" => disk(answer),
        "peripherals" => peripherals(answer),
        "network" => network(answer),
        "routing" => routing(answer),
        "processes" => processes(answer),
        "services" => services(answer),
        "defender" => defender(answer, now),
        "win_update" => win_update(answer),
        "disk_smart" => disk_smart(answer),
        "battery" => battery(answer),
        "memory" => memory(answer),
        "thermals" => thermals(answer),
        "firewall" => firewall(answer),
        "encryption" => encryption(answer),
        "av_thirdparty" => av_thirdparty(answer),
        "defender_quarantine" => quarantine(answer),
        "reboot_pending" => reboot_pending(answer),
        "os_support" => os_support(answer, now),
        "reliability" => reliability(answer),
        "app_updates" => app_updates(answer),
        "uptime" => uptime(answer),
        "time_sync" => time_sync(answer),
        "printers" => printers(answer),
        "wifi_quality" => wifi_quality(answer),
        "autostart" => {
            let entries = tools::autostart(answer);
            Section::ok(format!("{} entries", entries.len())).with("entries", entries)
        }
        other => Section::new(Status::Warn, format!("{other} is not a section")),
    }
}

const fn worst(crit: bool, warn: bool) -> Status {
    match (crit, warn) {
        (true, _) => Status::Crit,
        (_, true) => Status::Warn,
        _ => Status::Ok,
    }
}

fn disk(answer: &Value) -> Section {
    let volumes = tools::volumes(answer);
    let used = |volume: &Value| number(volume, "percent_used").unwrap_or(0.0);
    let fullest = list(&volumes).iter().max_by(|a, b| used(a).total_cmp(&used(b)));
    let section = match fullest {
        None => Section::ok("no fixed disk"),
        Some(volume) => {
            let percent = used(volume);
            let name = text(volume, "mount").unwrap_or_default();
            Section::new(worst(percent >= 95.0, percent > 80.0), format!("{name} {percent:.0}% full"))
        }
    };
    section.with("volumes", volumes).with("top_dirs", json!([]))
}

/// The section `disk` with the largest directories.
pub(super) fn with_top_dirs(section: Section, answer: &Value) -> Section {
    let dir = |dir: &Value| Some(json!({"path": text(dir, "path")?, "bytes": whole(dir, "bytes")?}));
    let dirs: Vec<_> = list(&answer["dirs"]).iter().filter_map(dir).collect();
    section.with("top_dirs", dirs).with("top_dirs_complete", truth(answer, "complete").unwrap_or(false))
}

fn peripherals(answer: &Value) -> Section {
    let device = |device: &Value| {
        // 22 is "disabled", which somebody wanted.
        let status = match whole(device, "ConfigManagerErrorCode") {
            None | Some(0) => "ok",
            Some(22) => "disabled",
            Some(_) => "error",
        };
        Some(json!({"name": text(device, "Name")?, "class": text(device, "PNPClass"), "status": status}))
    };
    let devices: Vec<_> = list(answer).iter().filter_map(device).collect();
    let bad = devices.iter().filter(|device| device["status"] == "error").count();
    let summary = match bad {
        0 => format!("{}, none in error", count(devices.len(), "device")),
        bad => format!("{bad} of {} in error", count(devices.len(), "device")),
    };
    Section::new(worst(false, bad > 0), summary).with("devices", devices)
}

fn network(answer: &Value) -> Section {
    let (interfaces, dns) = tools::network(answer);
    let up = interfaces.iter().filter(|interface| interface["up"] == true).count();
    Section::new(worst(false, up == 0), format!("{} up", count(up, "interface")))
        .with("interfaces", interfaces)
        .with("dns", dns)
}

fn routing(answer: &Value) -> Section {
    let route = |route: &Value| {
        Some(json!({
            "destination": text(route, "DestinationPrefix")?,
            "next_hop": text(route, "NextHop"),
            "interface": text(route, "InterfaceAlias"),
            "metric": whole(route, "Metric"),
        }))
    };
    let routes: Vec<_> = list(answer).iter().filter_map(route).collect();
    let is_default = |route: &&Value| route["destination"] == "0.0.0.0/0" || route["destination"] == "::/0";
    let best = routes.iter().filter(is_default).min_by_key(|route| route["metric"].as_u64().unwrap_or(u64::MAX));
    let interface = best.and_then(|route| text(route, "interface"));
    let summary =
        interface.as_ref().map_or_else(|| "no default route".to_owned(), |name| format!("default via {name}"));
    Section::new(worst(false, best.is_none()), summary).with("default_interface", interface).with("routes", routes)
}

fn processes(answer: &Value) -> Section {
    let all = tools::processes(answer);
    let shown: Vec<_> = all.iter().take(15).cloned().collect();
    Section::ok(process_count(all.len())).with("count", all.len()).with("processes", shown)
}

/// Services that start by themselves and are not running, unless they are of those that come and go: started late, or
/// ended by themselves without complaint.
fn services(answer: &Value) -> Section {
    let failed = |service: &&Value| {
        text(service, "StartMode").as_deref() == Some("Auto")
            && text(service, "State").as_deref() == Some("Stopped")
            && truth(service, "DelayedAutoStart") != Some(true)
            && whole(service, "ExitCode").is_some_and(|code| code != 0 && code != 1077)
    };
    let names: Vec<_> = list(answer).iter().filter(failed).filter_map(|service| text(service, "Name")).collect();
    let services = tools::services(answer, "");
    let running = services.iter().filter(|service| service["status"] == "running").count();
    let summary = match names.first() {
        None => format!("{} running", count(running, "service")),
        Some(first) => {
            format!("{} stopped with an error, {first} among them", count(names.len(), "automatic service"))
        }
    };
    Section::new(worst(false, !names.is_empty()), summary).with("services", services)
}

fn defender(answer: &Value, now: Timestamp) -> Section {
    let fields = |section: Section| {
        section
            .with("enabled", truth(answer, "enabled"))
            .with("realtime_protection", truth(answer, "realtime"))
            .with("last_scan", text(answer, "last_scan"))
            .with("last_scan_type", text(answer, "last_scan_type"))
            .with("last_signature_update", text(answer, "signatures"))
            .with("threats_found", whole(answer, "threats"))
            .with("action_needed", whole(answer, "threats").map(|threats| threats > 0))
    };
    if answer.is_null() {
        return fields(Section::ok("Defender does not answer; another product may replace it"));
    }
    // In passive mode another product protects, and Defender is meant to be off.
    let passive = text(answer, "mode").is_some_and(|mode| mode.to_lowercase().contains("passive"));
    let off = !passive && (truth(answer, "enabled") == Some(false) || truth(answer, "realtime") == Some(false));
    let threats = whole(answer, "threats").unwrap_or(0);
    let days =
        text(answer, "last_scan").and_then(|at| Timestamp::parse(&at)).map(|at| now.since(at).as_secs() / 86_400);
    let stale = days.is_some_and(|days| days > 14);
    let summary = match (off, threats, days) {
        (true, ..) => "Real-time protection OFF".to_owned(),
        (_, 1.., _) => format!("{} found", count(usize::try_from(threats).unwrap_or(usize::MAX), "threat")),
        (_, _, Some(days)) => format!("on, last scan {days} days ago"),
        _ => "on, never scanned".to_owned(),
    };
    fields(Section::new(worst(off, threats > 0 || stale), summary))
}

fn win_update(answer: &Value) -> Section {
    let update = |update: &Value| {
        let title = text(update, "title")?;
        let kb = title
            .find("KB")
            .map(|at| title[at..].chars().take_while(char::is_ascii_alphanumeric).collect::<String>());
        let result = match whole(update, "result") {
            Some(2 | 3) => "succeeded",
            Some(4 | 5) => "failed",
            _ => "in progress",
        };
        Some(json!({"kb": kb, "title": title, "result": result, "installed_at": text(update, "at")}))
    };
    let recent: Vec<_> = list(&answer["recent"]).iter().filter_map(update).collect();
    let failed = recent.iter().filter(|update| update["result"] == "failed").count();
    let summary = match failed {
        0 => format!("{} lately", count(recent.len(), "update")),
        failed => format!("{failed} of {} failed", count(recent.len(), "update")),
    };
    Section::new(worst(false, failed > 0), summary)
        .with("last_check", text(answer, "last_check"))
        .with("recent", recent)
}

fn disk_smart(answer: &Value) -> Section {
    let disk = |disk: &Value| {
        let health = text(disk, "health").unwrap_or_default();
        // Windows says 0 for what a disk does not tell.
        let told = |key: &str| whole(disk, key).filter(|value| *value > 0);
        Some(json!({
            "model": text(disk, "model")?,
            "predict_failure": (health == "Unhealthy") || (health == "Warning"),
            "health": health,
            "wear_percent": whole(disk, "wear"),
            "temperature_c": told("temperature"),
            "power_on_hours": told("hours"),
        }))
    };
    let disks: Vec<_> = list(answer).iter().filter_map(disk).collect();
    let failing = disks.iter().find(|disk| disk["predict_failure"] == true);
    let summary = match failing {
        Some(disk) => format!("{} is about to fail", text(disk, "model").unwrap_or_default()),
        None => format!("{} healthy", count(disks.len(), "disk")),
    };
    Section::new(worst(failing.is_some(), false), summary).with("disks", disks)
}

fn battery(answer: &Value) -> Section {
    if answer.is_null() {
        return Section::ok("no battery")
            .with("present", false)
            .with("charge_percent", Value::Null)
            .with("health_percent", Value::Null);
    }
    let charge = number(answer, "charge").map(|charge| charge.clamp(0.0, 100.0));
    let ratio =
        number(answer, "full").zip(number(answer, "design")).filter(|(full, design)| *full > 0.0 && *design > 0.0);
    let health = ratio.map(|(full, design)| round1((full / design * 100.0).min(100.0)));
    let status = worst(health.is_some_and(|h| h < 50.0), health.is_some_and(|h| h < 70.0));
    let state = if whole(answer, "status") == Some(1) { "discharging" } else { "on mains" };
    let at = charge.map_or_else(|| "unknown".to_owned(), |charge| format!("{charge:.0}%"));
    Section::new(status, format!("battery at {at}, {state}"))
        .with("present", true)
        .with("charge_percent", charge)
        .with("health_percent", health)
        .with("state", state)
}

fn memory(answer: &Value) -> Section {
    let (Some(total), Some(free)) = (whole(answer, "total").filter(|total| *total > 0), whole(answer, "free")) else {
        return Section::new(Status::Warn, "the memory is not known");
    };
    let used = total.saturating_sub(free);
    let percent = round1(used as f64 / total as f64 * 100.0);
    Section::new(worst(percent > 95.0, percent > 85.0), format!("{percent:.0}% used"))
        .with("total_bytes", total)
        .with("used_bytes", used)
        .with("available_bytes", free)
        .with("percent_used", percent)
        .with("swap_total_bytes", whole(answer, "swap_total").unwrap_or(0))
        .with("swap_used_bytes", whole(answer, "swap_used").unwrap_or(0))
}

fn thermals(answer: &Value) -> Section {
    let sensor = |zone: &Value| {
        // Tenths of a kelvin.
        let heat = number(zone, "CurrentTemperature")? / 10.0 - 273.15;
        let name = text(zone, "InstanceName")?;
        let label = name.rsplit('\\').next().unwrap_or(&name).trim_end_matches("_0").to_owned();
        (-40.0..=200.0).contains(&heat).then(|| (heat, json!({"label": label, "temperature_c": round1(heat)})))
    };
    let sensors: Vec<_> = list(answer).iter().filter_map(sensor).collect();
    let hottest = sensors.iter().map(|(heat, _)| *heat).reduce(f64::max);
    let sensors: Vec<_> = sensors.into_iter().map(|(_, sensor)| sensor).collect();
    let section = match hottest {
        None => Section::ok("no temperature sensor"),
        Some(heat) => Section::new(worst(heat >= 95.0, heat >= 85.0), format!("hottest {heat:.0} °C")),
    };
    section.with("sensors", sensors)
}

fn firewall(answer: &Value) -> Section {
    let profile =
        |profile: &Value| Some(json!({"name": text(profile, "name")?, "enabled": truth(profile, "enabled")}));
    let profiles: Vec<_> = list(answer).iter().filter_map(profile).collect();
    let off: Vec<_> = profiles.iter().filter(|p| p["enabled"] == false).filter_map(|p| text(p, "name")).collect();
    let summary = match off.is_empty() {
        true => format!("{} on", count(profiles.len(), "profile")),
        false => format!("off: {}", off.join(", ")),
    };
    Section::new(worst(false, !off.is_empty()), summary).with("profiles", profiles)
}

fn encryption(answer: &Value) -> Section {
    let volume = |volume: &Value| {
        Some(json!({"mount": text(volume, "mount")?, "protection_status": whole(volume, "protection")}))
    };
    let volumes: Vec<_> = list(answer).iter().filter_map(volume).collect();
    let system = list(answer).iter().find(|volume| truth(volume, "system") == Some(true));
    let name = system.and_then(|volume| text(volume, "mount")).unwrap_or_default();
    let section = match system.map(|volume| whole(volume, "protection")) {
        None => Section::ok("BitLocker is not available"),
        Some(Some(1)) => Section::ok(format!("{name} protected")),
        Some(_) => Section::new(Status::Warn, format!("{name} is not protected by BitLocker")),
    };
    section.with("volumes", volumes)
}

fn av_thirdparty(answer: &Value) -> Section {
    let product = |product: &Value| {
        // The middle byte says whether it is on, the last whether its signatures are old.
        let state = whole(product, "productState").unwrap_or(0);
        let (on, current) = ((state >> 12) & 0xf == 1, state & 0x10 == 0);
        Some(json!({"name": text(product, "displayName")?, "running": on, "up_to_date": current}))
    };
    let products: Vec<_> = list(answer).iter().filter_map(product).collect();
    let names: Vec<_> = products.iter().filter_map(|product| text(product, "name")).collect();
    let old = products.iter().any(|product| product["running"] == true && product["up_to_date"] == false);
    let summary = if names.is_empty() { "no other products".to_owned() } else { names.join(", ") };
    Section::new(worst(false, old), summary).with("products", products)
}

fn quarantine(answer: &Value) -> Section {
    let item = |item: &Value| Some(json!({"name": text(item, "name")?, "at": text(item, "at")}));
    let items: Vec<_> = list(answer).iter().filter_map(item).collect();
    let summary = if items.is_empty() {
        "nothing in quarantine".to_owned()
    } else {
        format!("{} in quarantine", count(items.len(), "item"))
    };
    Section::new(worst(false, !items.is_empty()), summary).with("items", items)
}

fn reboot_pending(answer: &Value) -> Section {
    let reasons: Vec<_> = list(&answer["reasons"]).iter().filter_map(|r| r.as_str().map(str::to_owned)).collect();
    let summary = if reasons.is_empty() {
        "no restart is due".to_owned()
    } else {
        format!("a restart is due: {}", reasons.join(", "))
    };
    Section::new(worst(false, !reasons.is_empty()), summary)
        .with("pending", !reasons.is_empty())
        .with("reasons", reasons)
}

/// The build, the last day for Home and Pro, and for Enterprise and Education; of servers the second holds.
const BUILDS: &[(u64, &str, &str)] = &[
    (7601, "2020-01-14", "2020-01-14"),
    (9600, "2023-01-10", "2023-10-10"),
    (14393, "2018-04-10", "2027-01-12"),
    (17763, "2020-11-10", "2029-01-09"),
    (19044, "2023-06-13", "2024-06-11"),
    (19045, "2025-10-14", "2025-10-14"),
    (20348, "2031-10-14", "2031-10-14"),
    (22000, "2023-10-10", "2024-10-08"),
    (22621, "2024-10-08", "2025-10-14"),
    (22631, "2025-11-11", "2026-11-10"),
    (26100, "2026-10-13", "2027-10-12"),
    (26200, "2027-10-12", "2028-10-10"),
];

fn os_support(answer: &Value, now: Timestamp) -> Section {
    let name = text(answer, "name").unwrap_or_else(|| "Windows".to_owned()).replace("Microsoft ", "");
    let build = whole(answer, "build");
    let edition = text(answer, "edition").unwrap_or_default();
    let server = text(answer, "type").is_some_and(|kind| kind.contains("Server"));
    let long = edition.starts_with("Enterprise") || edition.starts_with("Education") || edition.contains("IoT");
    let row = BUILDS.iter().find(|(known, ..)| Some(*known) == build);
    // A server of this build is kept to 2034, far longer than the desktop that shares it.
    let end = match row {
        Some((26100, ..)) if server => Some("2034-10-10"),
        Some((_, short, lasting)) => Some(if server || long { *lasting } else { *short }),
        None => None,
    };
    let at = end.and_then(|end| Timestamp::parse(&format!("{end}T23:59:59Z")));
    let over = at.is_some_and(|at| at < now);
    let soon = at.is_some_and(|at| at.since(now).as_secs() <= 90 * 86_400);
    let summary = match end {
        None => format!("{name}: end of support is not known"),
        Some(end) if over => format!("{name}: support ended on {end}"),
        Some(end) => format!("{name}: supported until {end}"),
    };
    Section::new(worst(over, soon), summary)
        .with("name", name)
        .with("version", text(answer, "version"))
        .with("build", build.map(|build| build.to_string()))
        .with("eol", end.map(|_| over))
        .with("eol_date", end)
        .with("arch", text(answer, "arch").map(|arch| if arch == "ARM64" { "aarch64" } else { "x86_64" }))
}

fn reliability(answer: &Value) -> Section {
    let mut groups: BTreeMap<(String, u64), Vec<&Value>> = BTreeMap::new();
    let events = list(&answer["events"]);
    for event in events {
        let key = (text(event, "source").unwrap_or_default(), whole(event, "id").unwrap_or(0));
        groups.entry(key).or_default().push(event);
    }
    let mut patterns: Vec<(usize, Value)> = Vec::new();
    for ((source, id), members) in groups {
        let mut by_day: BTreeMap<String, u64> = BTreeMap::new();
        for at in members.iter().filter_map(|event| text(event, "at")) {
            *by_day.entry(at.chars().take(10).collect()).or_default() += 1;
        }
        let critical = members.iter().any(|event| whole(event, "level") == Some(1));
        let sample = members.first().and_then(|event| text(event, "message")).unwrap_or_default();
        let shown = json!({
            "source": source,
            "event_id": id,
            "level": if critical { "critical" } else { "error" },
            "count": members.len(),
            "sample": one_line(&sample, 300),
            "last_seen": members.iter().filter_map(|event| text(event, "at")).max(),
            "by_day": by_day,
        });
        patterns.push((members.len(), shown));
    }
    patterns.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let truncated = patterns.len() > 30;
    let critical = patterns.iter().any(|(_, pattern)| pattern["level"] == "critical");
    let distinct = patterns.len();
    let shown: Vec<_> = patterns.into_iter().take(30).map(|(_, pattern)| pattern).collect();
    let index = number(answer, "index").map(round1);
    let total = events.len();
    let crit = total >= 50 || index.is_some_and(|index| index < 3.0);
    let warn = total >= 15 || critical || distinct >= 8 || index.is_some_and(|index| index < 6.0);
    Section::new(worst(crit, warn), format!("{} in 7 days", count(total, "error")))
        .with("stability_index", index)
        .with("recent_crashes", total)
        .with("window_days", 7)
        .with("events", shown)
        .with("truncated", truncated)
}

fn app_updates(answer: &Value) -> Section {
    if truth(answer, "missing") == Some(true) || answer.is_null() {
        return Section::ok("winget is not installed").with("available", 0).with("packages", json!([]));
    }
    let packages = winget::parse(answer["text"].as_str().unwrap_or_default());
    let shown: Vec<_> = packages
        .iter()
        .take(200)
        .map(|package| json!({"id": package.id, "installed": package.version, "available": package.available}))
        .collect();
    let summary = match packages.len() {
        0 => "all packages are up to date".to_owned(),
        n => format!("{} available", count(n, "update")),
    };
    Section::new(worst(false, !packages.is_empty()), summary)
        .with("available", packages.len())
        .with("packages", shown)
}

fn uptime(answer: &Value) -> Section {
    let (Some(boot), Some(now)) = (whole(answer, "boot"), whole(answer, "now")) else {
        return Section::new(Status::Warn, "the start time is not known");
    };
    let up = now.saturating_sub(boot);
    let days = up / 86_400;
    Section::new(worst(false, days >= 30), format!("up {days} days {} h", up / 3600 % 24))
        .with("uptime_secs", up)
        .with("boot_time_unix", boot)
}

fn time_sync(answer: &Value) -> Section {
    let status = answer["status"].as_str().unwrap_or_default();
    let source = text(answer, "source").filter(|source| !source.contains("0x8007"));
    // The words are in the machine's language; the numbers are not. Stratum 0 is "never".
    let stratum = status.lines().find_map(|line| line.split_once(": ").filter(|(key, _)| key.starts_with("Strat")));
    let stratum = stratum.and_then(|(_, value)| value.split_whitespace().next()?.parse::<u8>().ok());
    let offset = status.lines().find_map(|line| {
        let value = line.split_once("Phase Offset: ")?.1.trim();
        value.trim_end_matches('s').parse::<f64>().ok()
    });
    let local = source.as_deref().is_none_or(|source| source.contains("CMOS") || source.contains("Free-running"));
    let synchronized = text(answer, "service").as_deref() == Some("Running") && !local && stratum != Some(0);
    let off = offset.is_some_and(|offset| offset.abs() > 5.0);
    let summary = match (synchronized, off) {
        (false, _) => "the clock is not synchronised".to_owned(),
        (true, true) => format!("the clock is {:.0} s off", offset.unwrap_or(0.0)),
        (true, false) => "the clock is synchronised".to_owned(),
    };
    Section::new(worst(false, !synchronized || off), summary)
        .with("synchronized", synchronized)
        .with("source", source)
        .with("offset_secs", offset)
}

fn printers(answer: &Value) -> Section {
    let printer = |printer: &Value| {
        Some(
            json!({"name": text(printer, "name")?, "status": text(printer, "status").unwrap_or_default().to_lowercase()}),
        )
    };
    let printers: Vec<_> = list(answer).iter().filter_map(printer).collect();
    let bad = |printer: &&Value| {
        !matches!(printer["status"].as_str(), Some("normal" | "idle" | "printing" | "offline" | "powersave" | ""))
    };
    let first = printers.iter().find(bad);
    let summary = match first {
        Some(printer) => {
            format!("{}: {}", text(printer, "name").unwrap_or_default(), text(printer, "status").unwrap_or_default())
        }
        None => count(printers.len(), "printer"),
    };
    Section::new(worst(false, first.is_some()), summary).with("printers", printers)
}

/// The table of `netsh`, whose words are in the machine's language. What stays: `SSID`, the per cent sign, and a channel
/// or band that tells the frequency.
fn wifi_quality(answer: &Value) -> Section {
    let table = answer["text"].as_str().unwrap_or_default();
    let pairs: Vec<(&str, &str)> =
        table.lines().filter_map(|line| line.split_once(" : ")).map(|(k, v)| (k.trim(), v.trim())).collect();
    let ssid = pairs.iter().find(|(key, _)| *key == "SSID").map(|(_, value)| one_line(value, 64));
    let signal = pairs.iter().find_map(|(_, value)| value.strip_suffix('%')?.trim().parse::<f64>().ok());
    let band = pairs.iter().find_map(|(_, value)| value.ends_with("GHz").then(|| one_line(value, 16)));
    let connected = ssid.is_some() && signal.is_some();
    let summary = match (&ssid, signal) {
        (Some(ssid), Some(signal)) => format!("{ssid} at {signal:.0}%"),
        _ if pairs.is_empty() => "no wireless adapter".to_owned(),
        _ => "not connected".to_owned(),
    };
    let weak = connected && signal.is_some_and(|signal| signal < 50.0);
    Section::new(worst(false, weak), summary)
        .with("connected", connected)
        .with("ssid", ssid)
        .with("signal_percent", signal)
        .with("band", band)
}

#[cfg(test)]
mod tests;
