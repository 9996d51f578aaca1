//! Scanners of other makers, by what they leave on the disk and whether their processes run.

use std::time::{Duration, SystemTime};

use convoke_core::health::Status;
use serde::Serialize;
use serde_json::json;

use crate::Section;
use crate::facts::Facts;

/// What is known: name, a path that it installs, its processes as the kernel names them (15 bytes).
const PRODUCTS: &[(&str, &[&str], &[&str])] = &[
    ("ClamAV", &["usr/sbin/clamd", "usr/bin/clamscan", "usr/bin/freshclam"], &["clamd"]),
    ("Microsoft Defender for Endpoint", &["opt/microsoft/mdatp"], &["wdavdaemon"]),
    ("CrowdStrike Falcon", &["opt/CrowdStrike"], &["falcon-sensor", "falcon-sensor-b"]),
    ("SentinelOne", &["opt/sentinelone"], &["s1-agent", "sentinelone-age"]),
    ("Sophos", &["opt/sophos-spl", "opt/sophos-av"], &["sophos_watchdog", "savd"]),
    ("ESET", &["opt/eset"], &["oaeventd", "esets_daemon", "eraagent"]),
    ("Bitdefender", &["opt/bitdefender-security-tools", "opt/BitDefender"], &["bdsecd", "bdepsecd"]),
    ("Trend Micro", &["opt/ds_agent", "opt/TrendMicro"], &["ds_agent"]),
    ("Kaspersky", &["opt/kaspersky"], &["kesl"]),
    ("WithSecure", &["opt/f-secure"], &["fsma", "f-secure-linuxs"]),
    ("Wazuh", &["var/ossec/bin/wazuh-agentd"], &["wazuh-agentd"]),
];

/// Signatures older than this do not know what goes round.
const STALE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Product {
    name: &'static str,
    running: bool,
    /// When its signatures were last brought up to date, where that can be told.
    signatures: Option<String>,
}

pub(in crate::linux) fn section(facts: &Facts) -> Section {
    let running = super::super::running_processes(facts);
    let mut stale = None;
    let mut products = Vec::new();
    for (name, paths, processes) in PRODUCTS {
        let runs = processes.iter().any(|process| running.contains(*process));
        if !runs && !paths.iter().any(|path| facts.exists(path)) {
            continue;
        }
        let updated = if *name == "ClamAV" { signatures(facts) } else { None };
        if runs && updated.is_some_and(|at| at.elapsed().is_ok_and(|age| age > STALE)) {
            stale = Some(*name);
        }
        products.push(Product { name, running: runs, signatures: updated.and_then(shown) });
    }
    let names: Vec<_> = products
        .iter()
        .map(|product| format!("{}{}", product.name, if product.running { "" } else { " (not running)" }))
        .collect();
    let (status, summary) = match (stale, names.is_empty()) {
        (Some(name), _) => (Status::Warn, format!("the signatures of {name} are more than a week old")),
        (None, true) => (Status::Ok, "none known to be installed".to_owned()),
        (None, false) => (Status::Ok, names.join(", ")),
    };
    Section::new(status, summary).with("products", json!(products))
}

fn signatures(facts: &Facts) -> Option<SystemTime> {
    let files = ["daily.cld", "daily.cvd", "daily.inc"];
    files.iter().find_map(|file| facts.path("var/lib/clamav").join(file).metadata().ok()?.modified().ok())
}

fn shown(time: SystemTime) -> Option<String> {
    jiff::Timestamp::try_from(time).ok().map(|time| format!("{time:.0}"))
}

#[cfg(test)]
mod tests {
    use crate::linux::tests::collected;

    #[test]
    fn what_is_installed_and_what_runs_are_told_apart() {
        let section = collected(
            super::section,
            &[("usr/bin/clamscan", ""), ("var/lib/clamav/daily.cvd", "x"), ("proc/9/comm", "falcon-sensor\n")],
        );
        assert_eq!(section["summary"], "ClamAV (not running), CrowdStrike Falcon");
        assert!(section["products"][0]["signatures"].is_string());
        assert_eq!(section["products"][1]["running"], true);
    }
}
