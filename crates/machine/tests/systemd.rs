//! Services, journal and network against a real systemd: a small Debian, booted in a container, in which this very
//! program runs its other half.
//!
//! Needs root and the Debian that `cargo xtask setup` makes; without root it is skipped.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use std::path::Path;
use std::process::Command;

use convoke_machine::{Call, Machine, Options};
use convoke_testing::container;
use serde_json::{Value, json};

const SLEEPS: &str = "[Unit]\nDescription=A service that runs\n\
    [Service]\nExecStart=/bin/sh -c 'echo words for the journal; exec sleep infinity'\n\
    [Install]\nWantedBy=multi-user.target\n";
const FAILS: &str = "[Unit]\nDescription=A service that fails\n[Service]\nExecStart=/bin/false\n";

#[test]
fn services_journal_and_network_of_a_real_systemd() {
    let units = [("sleeps.service", SLEEPS), ("fails.service", FAILS)];
    let Some(log) = container::run_inside(&[], &units) else { return };
    assert!(log.contains("inside: everything was looked at"), "{log}");
}

/// The other half. Outside of the container it does nothing.
#[tokio::test]
async fn inside_the_container() {
    if !container::is_inside() {
        return;
    }
    sh(
        "systemctl start sleeps.service; systemctl enable sleeps.service; systemctl start fails.service; journalctl --sync; true",
    );
    services().await;
    journal().await;
    sections().await;
    network().await;
    // Without the bus the program that comes with systemd is asked, and the answer is the same.
    let over_bus = tool("diag_services", json!({"filter": "s"})).await;
    sh("systemctl stop dbus.socket dbus.service");
    assert!(!bus_answers());
    let by_program = tool("diag_services", json!({"filter": "s"})).await;
    // Of those that do not live on the bus.
    let names = ["sleeps", "fails", "convoke-test", "systemd-journald", "systemd-sysctl", "getty@tty1", "hwclock"];
    for name in names.map(|name| format!("{name}.service")) {
        let find = |value: &Value| {
            let list = value["services"].as_array().unwrap();
            list.iter().find(|service| service["name"] == name.as_str()).unwrap().clone()
        };
        assert_eq!(find(&over_bus), find(&by_program));
    }
    eprintln!("inside: everything was looked at");
}

async fn services() {
    let find = async |name: &str| tool("diag_services", json!({"filter": name})).await["services"].clone();
    let sleeps =
        json!([{"name": "sleeps.service", "display": "A service that runs", "status": "running", "start": "auto"}]);
    assert_eq!(find("SLEEPS").await, sleeps);
    assert_eq!(find("service that fails").await[0]["status"], "failed");
    assert_eq!(find("no such thing").await, json!([]));
    let all = tool("diag_services", json!({})).await;
    assert!(all["services"].as_array().unwrap().len() > 20, "{all}");
    let entries = tool("diag_autostart", json!({})).await;
    let command = |name: &str| {
        let entry = entries["entries"].as_array().unwrap().iter().find(|entry| entry["name"] == name);
        entry.unwrap_or_else(|| panic!("{name} in {entries}"))["command"].as_str().unwrap()
    };
    assert!(command("sleeps.service").contains("sleep infinity"), "{entries}");
    // A timer is told with what it starts.
    assert!(command("apt-daily.timer").contains("apt.systemd.daily"), "{entries}");
}

async fn journal() {
    let events = tool("diag_eventlog", json!({"log": "sleeps.service", "count": 50})).await;
    let list = events["events"].as_array().unwrap();
    let said = list.iter().find(|event| event["message"] == "words for the journal");
    assert_eq!(said.unwrap()["level"], "info", "{events}");
    // The newest comes first, and no more than were asked for.
    let times: Vec<_> = list.iter().map(|event| event["time"].as_str().unwrap()).collect();
    assert!(times.is_sorted_by(|a, b| a >= b), "{times:?}");
    let two = tool("diag_eventlog", json!({"log": "System", "count": 2})).await;
    assert_eq!(two["events"].as_array().unwrap().len(), 2);
    let failed = tool("diag_eventlog", json!({"log": "fails.service", "count": 50})).await.to_string();
    assert!(failed.contains("Failed with result 'exit-code'"), "{failed}");
    assert_eq!(tool("diag_eventlog", json!({"log": "nothing.service", "count": 5})).await, json!({"events": []}));
}

async fn sections() {
    let snapshot = machine().collect(None).await;
    assert_eq!(snapshot["services"]["status"], "warn");
    assert_eq!(snapshot["services"]["summary"], "fails.service has failed");
    let reliability = &snapshot["reliability"];
    assert_eq!(reliability["recent_crashes"], 1, "{reliability}");
    assert_eq!(reliability["events"][0]["source"], "fails.service");
    assert_eq!(reliability["events"][0]["event_id"], "unit_failed");
    assert_eq!(snapshot["os_support"]["eol"], false, "{}", snapshot["os_support"]);
    assert_eq!(snapshot["app_updates"]["manager"], "apt", "{}", snapshot["app_updates"]);
    for (name, section) in &snapshot {
        eprintln!("{name}: {} {}", section["status"], section["summary"]);
    }
}

async fn network() {
    sh("ip link add cv0 type veth peer name cv1 && ip link set cv1 up && ip link set cv0 up && \
        ip addr add 192.0.2.7/24 dev cv0 && ip -6 addr add 2001:db8::7/64 dev cv0 nodad && \
        ip route add default via 192.0.2.1 dev cv0");
    let before = sh("ip route show dev cv0; ip -6 addr show dev cv0 scope global | grep -o '2001[^ ]*'");
    assert!(before.contains("default via 192.0.2.1"), "{before}");
    assert_eq!(machine().collect(None).await["routing"]["default_interface"], "cv0");
    let config = tool("net_config", json!({})).await.to_string();
    assert!(config.contains("192.0.2.7/24") && config.contains("2001:db8::7/64"), "{config}");
    assert_eq!(tool("net_adapter_reset", json!({"name": "cv0"})).await["ok"], true);
    assert_eq!(sh("ip route show dev cv0; ip -6 addr show dev cv0 scope global | grep -o '2001[^ ]*'"), before);
    let flush = machine().run("net_dns_flush", &serde_json::Map::new(), &Call::default()).await;
    assert!(flush.unwrap_err().message.contains("no DNS cache"));
}

fn machine() -> Machine {
    Machine::new(Options::default())
}

async fn tool(name: &str, args: Value) -> Value {
    let result = machine().run(name, args.as_object().unwrap(), &Call::default()).await;
    result.unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn sh(script: &str) -> String {
    let output = Command::new("sh").arg("-c").arg(script).output().unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn bus_answers() -> bool {
    Path::new("/run/dbus/system_bus_socket").exists()
        && std::os::unix::net::UnixStream::connect("/run/dbus/system_bus_socket").is_ok()
}
