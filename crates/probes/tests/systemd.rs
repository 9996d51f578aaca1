//! The packs systemd and system against a real systemd: a small Debian, booted in a container, in which this very
//! program runs its other half.
//!
//! Needs root and the Debian that `cargo xtask setup` makes; without root it is skipped.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use std::process::{Command, Stdio};
use std::time::Duration;
use std::{env, fs};

use convoke_probes::{Config, Probes};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// Set for the half that runs inside.
const INSIDE: &str = "INSIDE_THE_CONTAINER";
const DONE: &str = "inside: everything was asked for";

const RUNNER: &str = "[Unit]\nDescription=Runs the other half of the test\nAfter=multi-user.target dbus.service\n\
    FailureAction=poweroff-force\nSuccessAction=poweroff-force\n\
    [Service]\nType=oneshot\nEnvironment=INSIDE_THE_CONTAINER=1 RUST_BACKTRACE=0\n\
    ExecStart=/bin/sh -c '/opt/test/program --exact inside_the_container --nocapture >/opt/out/log 2>&1; echo $? >/opt/out/status'\n";
const SLEEPS: &str = "[Unit]\nDescription=A service that runs\n\
    [Service]\nExecStart=/bin/sh -c 'echo words for the journal; echo PASSWORD=hunter2-hunter2; exec sleep infinity'\n";
/// Of a type whose start waits for its end: it has failed once it was started.
const FAILS: &str = "[Unit]\nDescription=A service that fails\n[Service]\nType=oneshot\nExecStart=/bin/false\n";

#[test]
fn services_and_journal_of_a_real_systemd() {
    let Some(root) = convoke_testing::debian() else { return };
    let work = tempfile::tempdir().unwrap();
    let (program, out, units) = (work.path().join("test"), work.path().join("out"), work.path().join("units"));
    for folder in [&program, &out, &units] {
        fs::create_dir(folder).unwrap();
    }
    fs::copy(env::current_exe().unwrap(), program.join("program")).unwrap();
    let mut boot = Command::new("timeout");
    boot.args(["--kill-after=10", "120", "systemd-nspawn", "--quiet", "--register=no", "--keep-unit"]);
    boot.args(["--private-network", "--volatile=overlay", "--link-journal=no", "--console=pipe"]);
    boot.arg("--directory").arg(root);
    boot.arg(format!("--bind-ro={}:/opt/test", program.display()));
    boot.arg(format!("--bind={}:/opt/out", out.display()));
    for (name, text) in [("convoke-test.service", RUNNER), ("sleeps.service", SLEEPS), ("fails.service", FAILS)] {
        fs::write(units.join(name), text).unwrap();
        boot.arg(format!("--bind-ro={}:/etc/systemd/system/{name}", units.join(name).display()));
    }
    boot.args(["--boot", "--", "systemd.wants=convoke-test.service"]);
    let booted = boot.stdin(Stdio::null()).output().unwrap();
    let status = fs::read_to_string(out.join("status")).unwrap_or_default();
    let log = fs::read_to_string(out.join("log")).unwrap_or_default();
    let console = String::from_utf8_lossy(&booted.stdout).into_owned() + &String::from_utf8_lossy(&booted.stderr);
    assert_eq!(status.trim(), "0", "{log}\n{console}");
    assert!(log.contains(DONE), "{log}");
}

/// The other half. Outside of the container it does nothing.
#[tokio::test]
async fn inside_the_container() {
    if env::var_os(INSIDE).is_none() {
        return;
    }
    let started =
        Command::new("/bin/sh").args(["-c", "systemctl start sleeps fails; journalctl --sync; true"]).status();
    assert!(started.unwrap().success());
    let probes = Probes::load(Config::default(), "0.1.0").unwrap();
    assert!(probes.packs().iter().any(|pack| pack.name == "systemd"), "{:?}", probes.packs());
    let ask = async |probe: &str, params: Value| {
        let params = params.to_string();
        let ran = probes.run(probe, Some(&params), Duration::from_secs(30), CancellationToken::new()).await;
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
