//! The packs systemd and system against a real systemd: a small Debian, booted in a container, in which this very
//! program runs its other half.
//!
//! Needs root and the Debian that `cargo xtask setup` makes; without root it is skipped.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use std::process::Command;
use std::time::Duration;

use convoke_machine::Call;
use convoke_probes::{Config, Probes};
use convoke_testing::container;
use serde_json::{Value, json};

const DONE: &str = "inside: everything was asked for";

const SLEEPS: &str = "[Unit]\nDescription=A service that runs\n\
    [Service]\nExecStart=/bin/sh -c 'echo words for the journal; echo PASSWORD=hunter2-hunter2; exec sleep infinity'\n";
/// Of a type whose start waits for its end: it has failed once it was started.
const FAILS: &str = "[Unit]\nDescription=A service that fails\n[Service]\nType=oneshot\nExecStart=/bin/false\n";

#[test]
fn services_and_journal_of_a_real_systemd() {
    let units = [("sleeps.service", SLEEPS), ("fails.service", FAILS)];
    let Some(log) = container::run_inside(&[], &units) else { return };
    assert!(log.contains(DONE), "{log}");
}

/// The other half. Outside of the container it does nothing.
#[tokio::test]
async fn inside_the_container() {
    if !container::is_inside() {
        return;
    }
    let started =
        Command::new("/bin/sh").args(["-c", "systemctl start sleeps fails; journalctl --sync; true"]).status();
    assert!(started.unwrap().success());
    let probes = Probes::load(Config::default(), "0.1.0").unwrap();
    assert!(probes.packs().iter().any(|pack| pack.name == "systemd"), "{:?}", probes.packs());
    let ask = async |probe: &str, params: Value| {
        let params = params.to_string();
        let call = Call { timeout: Some(Duration::from_secs(30)), ..Call::default() };
        let ran = probes.run(probe, Some(&params), &call).await;
        ran.outcome.map(|raw| serde_json::from_str::<Value>(raw.get()).unwrap())
    };
    let services = ask("systemd.services.list", json!({})).await.unwrap();
    let find = |name: &str| {
        let list = services["services"].as_array().unwrap();
        list.iter().find(|s| s["unit"] == name).unwrap_or_else(|| panic!("{name} in {services}")).clone()
    };
    let running = json!({ "unit": "sleeps.service", "load": "loaded", "active": "active", "sub": "running",
        "description": "A service that runs" });
    assert_eq!(find("sleeps.service"), running);
    assert_eq!(find("fails.service")["active"], "failed");

    let status = ask("systemd.service.status", json!({ "service": "sleeps" })).await.unwrap();
    assert_eq!((&status["name"], &status["subState"]), (&json!("sleeps.service"), &json!("running")), "{status}");
    assert!(status["mainPid"].as_u64().is_some_and(|pid| pid > 1) && status["restartCount"] == 0, "{status}");
    let gone = ask("systemd.service.status", json!({ "service": "no-such-thing" })).await.unwrap();
    assert_eq!((&gone["loadState"], &gone["activeState"]), (&json!("not-found"), &json!("inactive")), "{gone}");

    let journal = ask("systemd.journal.query", json!({ "unit": "sleeps", "lines": 50 })).await.unwrap();
    let said = |journal: &Value, words: &str| {
        journal["entries"].as_array().unwrap().iter().any(|e| e["message"].as_str().unwrap().contains(words))
    };
    assert!(said(&journal, "words for the journal"), "{journal}");
    assert!(!journal.to_string().contains("hunter2"), "{journal}");
    let entry = &journal["entries"][0];
    for field in ["timestamp", "pid", "uid"] {
        assert!(entry[field].as_str().is_some_and(|t| t.bytes().all(|b| b.is_ascii_digit())), "{field}: {entry}");
    }
    assert_eq!(journal["entryCount"], journal["entries"].as_array().unwrap().len());
    let two = ask("systemd.journal.query", json!({ "unit": "sleeps.service", "lines": 1 })).await.unwrap();
    assert_eq!(two["entryCount"], 1, "{two}");
    let of_unit = ask("system.logs.journal", json!({ "unit": "fails.service" })).await.unwrap();
    assert!(said(&of_unit, "fails.service"), "{of_unit}");
    let whole = ask("system.logs.journal", json!({ "lines": 3, "priority": "info" })).await.unwrap();
    assert_eq!(whole["entryCount"], 3, "{whole}");
    for hostile in ["--no-pager", "-f", "a b", "x;reboot", "../x", "*"] {
        assert!(ask("systemd.service.status", json!({ "service": hostile })).await.is_err(), "{hostile}");
        assert!(ask("systemd.journal.query", json!({ "unit": hostile })).await.is_err(), "{hostile}");
    }
    eprintln!("{DONE}");
}
