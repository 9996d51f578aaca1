//! How long the machine has been on, its battery, its heat.

use convoke_core::health::Status;
use serde_json::{Value, json};

use super::round1;
use crate::Section;
use crate::facts::Facts;

/// Days without a restart after which a kernel has surely missed updates.
const LONG_DAYS: u64 = 30;

pub(super) fn uptime(facts: &Facts) -> Section {
    let up = facts.read("proc/uptime").ok().and_then(|text| parse_uptime(&text));
    let boot = facts.read("proc/stat").ok().and_then(|text| parse_boot_time(&text));
    let Some(up) = up else { return Section::new(Status::Warn, "cannot read /proc/uptime") };
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

/// What `/sys/class/power_supply` says of a battery.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Battery {
    now: f64,
    full: f64,
    design: f64,
}

/// All batteries of the machine as one, as people think of it. Those of mice and headsets do not count.
pub(super) fn battery(facts: &Facts) -> Section {
    let mut whole = Battery::default();
    let (mut count, mut states, mut charge) = (0, Vec::new(), Vec::new());
    for name in facts.names("sys/class/power_supply") {
        let read = |file: &str| facts.word(&format!("sys/class/power_supply/{name}/{file}"));
        if read("type").as_deref() != Some("Battery") || read("scope").as_deref() == Some("Device") {
            continue;
        }
        if read("present").as_deref() == Some("0") {
            continue;
        }
        count += 1;
        states.extend(read("status"));
        let number = |file: &str| read(file).and_then(|text| text.parse::<f64>().ok());
        charge.extend(number("capacity"));
        // Energy in µWh or charge in µAh, whichever the firmware knows; both are fit for a ratio.
        let both = |energy: &str, plain: &str| number(energy).or_else(|| number(plain)).unwrap_or(0.0);
        whole.now += both("energy_now", "charge_now");
        whole.full += both("energy_full", "charge_full");
        whole.design += both("energy_full_design", "charge_full_design");
    }
    if count == 0 {
        return Section::ok("no battery")
            .with("present", false)
            .with("charge_percent", Value::Null)
            .with("health_percent", Value::Null);
    }
    let ratio = |part: f64, of: f64| (part > 0.0 && of > 0.0).then(|| round1((part / of * 100.0).min(100.0)));
    let charge = charge.first().copied().filter(|_| count == 1).or_else(|| ratio(whole.now, whole.full));
    let health = ratio(whole.full, whole.design);
    // The hub's boundaries.
    let status = match health {
        Some(health) if health < 50.0 => Status::Crit,
        Some(health) if health < 70.0 => Status::Warn,
        _ => Status::Ok,
    };
    let state = states.first().map_or_else(String::new, |state| format!(", {}", state.to_lowercase()));
    let wear = health.map_or_else(String::new, |health| format!(", {health:.0}% of its capacity left"));
    let at = charge.map_or_else(|| "unknown".to_owned(), |charge| format!("{charge:.0}%"));
    Section::new(status, format!("battery at {at}{state}{wear}"))
        .with("present", true)
        .with("charge_percent", charge)
        .with("health_percent", health)
        .with("state", states.first().map(|state| state.to_lowercase()))
}

/// Most sensors told.
const MAX_SENSORS: usize = 64;

pub(super) fn thermals(facts: &Facts) -> Section {
    let mut sensors = hardware_monitors(facts);
    if sensors.is_empty() {
        sensors = thermal_zones(facts);
    }
    sensors.truncate(MAX_SENSORS);
    let hottest = sensors.iter().max_by(|a, b| a.1.total_cmp(&b.1)).cloned();
    let shown: Vec<_> =
        sensors.iter().map(|(label, heat)| json!({"label": label, "temperature_c": round1(*heat)})).collect();
    let Some((label, heat)) = hottest else {
        return Section::ok("no temperature sensor").with("sensors", json!([]));
    };
    // The hub's boundaries.
    let status = match heat {
        heat if heat >= 95.0 => Status::Crit,
        heat if heat >= 85.0 => Status::Warn,
        _ => Status::Ok,
    };
    Section::new(status, format!("hottest {heat:.0} °C ({label})")).with("sensors", shown)
}

/// What drivers of chips say: `coretemp Package id 0`.
fn hardware_monitors(facts: &Facts) -> Vec<(String, f64)> {
    let mut sensors = Vec::new();
    for chip in facts.names("sys/class/hwmon") {
        let folder = format!("sys/class/hwmon/{chip}");
        let name = facts.word(&format!("{folder}/name")).unwrap_or(chip);
        for file in facts.names(&folder) {
            let Some(stem) = file.strip_prefix("temp").and_then(|rest| rest.strip_suffix("_input")) else { continue };
            let Some(heat) = facts.number(&format!("{folder}/{file}")).and_then(plausible) else { continue };
            let label = facts.word(&format!("{folder}/temp{stem}_label"));
            sensors.push((label.map_or_else(|| name.clone(), |label| format!("{name} {label}")), heat));
        }
    }
    sensors
}

fn thermal_zones(facts: &Facts) -> Vec<(String, f64)> {
    let zones = facts.names("sys/class/thermal").into_iter().filter(|name| name.starts_with("thermal_zone"));
    zones
        .filter_map(|zone| {
            let heat = facts.number(&format!("sys/class/thermal/{zone}/temp")).and_then(plausible)?;
            Some((facts.word(&format!("sys/class/thermal/{zone}/type")).unwrap_or(zone), heat))
        })
        .collect()
}

/// Thousandths of a degree as degrees. A sensor that is not there reads far below freezing, or absurdly high.
fn plausible(thousandths: i64) -> Option<f64> {
    let heat = thousandths as f64 / 1000.0;
    (-40.0..=200.0).contains(&heat).then_some(heat)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::tests::collected;

    #[test]
    fn a_worn_battery_is_noticed() {
        let section = collected(
            battery,
            &[
                ("sys/class/power_supply/AC/type", "Mains\n"),
                ("sys/class/power_supply/hid/type", "Battery\n"),
                ("sys/class/power_supply/hid/scope", "Device\n"),
                ("sys/class/power_supply/BAT0/type", "Battery\n"),
                ("sys/class/power_supply/BAT0/present", "1\n"),
                ("sys/class/power_supply/BAT0/status", "Discharging\n"),
                ("sys/class/power_supply/BAT0/capacity", "82\n"),
                ("sys/class/power_supply/BAT0/energy_full", "30000000\n"),
                ("sys/class/power_supply/BAT0/energy_full_design", "50000000\n"),
            ],
        );
        assert_eq!(section["summary"], "battery at 82%, discharging, 60% of its capacity left");
        assert_eq!((&section["status"], &section["health_percent"]), (&"warn".into(), &60.0.into()));
        assert_eq!(collected(battery, &[])["present"], false);
    }

    #[test]
    fn the_hottest_sensor_decides() {
        let section = collected(
            thermals,
            &[
                ("sys/class/hwmon/hwmon0/name", "coretemp\n"),
                ("sys/class/hwmon/hwmon0/temp1_input", "86000\n"),
                ("sys/class/hwmon/hwmon0/temp1_label", "Package id 0\n"),
                ("sys/class/hwmon/hwmon1/name", "nvme\n"),
                ("sys/class/hwmon/hwmon1/temp1_input", "41850\n"),
                ("sys/class/hwmon/hwmon1/temp2_input", "-273150\n"),
                ("sys/class/thermal/thermal_zone0/temp", "99000\n"),
            ],
        );
        assert_eq!(section["summary"], "hottest 86 °C (coretemp Package id 0)");
        assert_eq!(section["status"], "warn");
        assert_eq!(section["sensors"].as_array().map(Vec::len), Some(2));
        let zone =
            [("sys/class/thermal/thermal_zone0/temp", "50000"), ("sys/class/thermal/thermal_zone0/type", "acpi")];
        assert_eq!(collected(thermals, &zone)["sensors"][0], json!({"label": "acpi", "temperature_c": 50.0}));
    }

    #[test]
    fn time_on_is_said_for_people() {
        for (secs, expect) in [(59, "0 min"), (3661, "1 h 1 min"), (90_000, "1 day 1 h"), (864_000, "10 days 0 h")] {
            assert_eq!(shown(secs), expect);
        }
        assert_eq!(parse_uptime("123.45 67.8\n"), Some(123));
        assert_eq!(parse_boot_time("cpu 1\nbtime 1700000000\n"), Some(1_700_000_000));
    }
}
