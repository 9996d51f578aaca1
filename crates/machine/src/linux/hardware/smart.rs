//! What disks say of their own health, through `smartctl`.

use convoke_core::health::Status;
use serde::Serialize;
use serde_json::{Value, json};

use crate::facts::Facts;
use crate::{Section, text};

/// Most disks that are asked.
const MAX_DISKS: usize = 32;

/// One disk.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Disk {
    device: String,
    model: String,
    /// Absent when the disk does not say.
    predict_failure: Option<bool>,
    /// How much of a flash disk's life is used.
    wear_percent: Option<u64>,
    temperature_c: Option<i64>,
    power_on_hours: Option<u64>,
    reallocated_sectors: Option<u64>,
}

pub(in crate::linux) fn section(facts: &Facts) -> Section {
    let names = disks(facts);
    if names.is_empty() {
        return Section::ok("no disk with SMART").with("disks", json!([]));
    }
    if facts.program("smartctl").is_none() {
        let summary = format!("{} not checked: smartctl is not installed", text::count(names.len(), "disk"));
        return Section::ok(summary).with("disks", json!(unasked(facts, &names)));
    }
    let mut found = Vec::new();
    for name in &names {
        let device = format!("/dev/{name}");
        // Standby: a look must not wake a disk that sleeps.
        let args = ["--json", "--info", "--health", "--attributes", "--nocheck=standby,0", "--", &device];
        let disk = facts.command("smartctl", &args).and_then(Result::ok).and_then(|out| parse(&device, &out.stdout));
        found.push(disk.unwrap_or_else(|| silent(facts, name)));
    }
    let failing: Vec<_> = found.iter().filter(|disk| disk.predict_failure == Some(true)).collect();
    let worn = found.iter().filter(|disk| disk.wear_percent.is_some_and(|wear| wear >= 90)).count();
    let healthy = found.iter().filter(|disk| disk.predict_failure == Some(false)).count();
    let (status, summary) = match failing.first() {
        Some(disk) => (Status::Crit, format!("{} ({}) is about to fail", disk.device, disk.model)),
        None if worn > 0 => (Status::Warn, format!("{} worn out", text::count(worn, "disk"))),
        None if healthy == 0 => {
            (Status::Ok, format!("{}, none reports its health", text::count(found.len(), "disk")))
        }
        None => (Status::Ok, format!("{} healthy", text::count(healthy, "disk"))),
    };
    Section::new(status, summary).with("disks", json!(found))
}

/// Whole disks with hardware behind them: no loops, no RAM, no parts, no disks of a mapper.
fn disks(facts: &Facts) -> Vec<String> {
    let names = facts.names("sys/block").into_iter();
    names.filter(|name| facts.exists(&format!("sys/block/{name}/device"))).take(MAX_DISKS).collect()
}

fn unasked(facts: &Facts, names: &[String]) -> Vec<Disk> {
    names.iter().map(|name| silent(facts, name)).collect()
}

/// A disk that says nothing: virtual ones have no such thing.
fn silent(facts: &Facts, name: &str) -> Disk {
    Disk {
        device: format!("/dev/{name}"),
        model: facts.word(&format!("sys/block/{name}/device/model")).unwrap_or_default(),
        predict_failure: None,
        wear_percent: None,
        temperature_c: None,
        power_on_hours: None,
        reallocated_sectors: None,
    }
}

fn parse(device: &str, text: &str) -> Option<Disk> {
    let report: Value = serde_json::from_str(text).ok()?;
    // Without any of these it is a complaint and no report.
    let model = ["model_name", "scsi_model_name", "product"].iter().find_map(|key| report[*key].as_str())?;
    let attribute = |id: u64| {
        let table = report["ata_smart_attributes"]["table"].as_array()?;
        table.iter().find(|row| row["id"] == id)
    };
    // Vendors count what is left of a flash disk from 100 down, under different numbers.
    let left = [231, 233, 177, 202].iter().find_map(|id| attribute(*id)?["value"].as_u64());
    let nvme = &report["nvme_smart_health_information_log"];
    let warned = nvme["critical_warning"].as_u64().filter(|bits| *bits != 0).map(|_| true);
    Some(Disk {
        device: device.to_owned(),
        model: text::one_line(model, 128),
        predict_failure: warned.or_else(|| report["smart_status"]["passed"].as_bool().map(|passed| !passed)),
        wear_percent: nvme["percentage_used"]
            .as_u64()
            .or_else(|| left.filter(|_| report["rotation_rate"] == 0).map(|left| 100_u64.saturating_sub(left))),
        temperature_c: report["temperature"]["current"].as_i64(),
        power_on_hours: report["power_on_time"]["hours"].as_u64(),
        reallocated_sectors: attribute(5).and_then(|row| row["raw"]["value"].as_u64()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::tests::collected;

    const ATA: &str = include_str!("../../../../../fixtures/machine/linux/smartctl-ata.json");
    const NVME: &str = include_str!("../../../../../fixtures/machine/linux/smartctl-nvme.json");

    #[test]
    fn reports_are_read() {
        let disk = parse("/dev/sda", ATA).unwrap();
        assert_eq!((disk.model.as_str(), disk.predict_failure), ("Example SSD 860 500GB", Some(true)));
        assert_eq!((disk.wear_percent, disk.reallocated_sectors), (Some(3), Some(12)));
        let disk = parse("/dev/nvme0", NVME).unwrap();
        assert_eq!((disk.predict_failure, disk.wear_percent, disk.temperature_c), (Some(false), Some(4), Some(41)));
        assert_eq!(disk.power_on_hours, Some(2310));
        assert!(parse("/dev/x", "{\"smartctl\":{\"exit_status\":2}}").is_none());
        assert!(parse("/dev/x", "").is_none());
    }

    #[test]
    fn without_the_program_nothing_is_claimed() {
        let section =
            collected(super::section, &[("sys/block/sda/device/model", "Disk X\n"), ("sys/block/loop0/size", "0")]);
        assert_eq!(section["status"], "ok");
        assert_eq!(section["disks"][0]["predict_failure"], Value::Null);
        assert!(section["summary"].as_str().unwrap().contains("not installed"));
    }
}
