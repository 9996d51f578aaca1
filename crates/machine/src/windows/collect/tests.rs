use convoke_core::health::SECTIONS;
use proptest::prelude::*;

use super::*;

/// What each script printed on a machine, by section.
const ANSWERS: &str = include_str!("../../../../../fixtures/machine/windows/answers.json");

fn now() -> Timestamp {
    Timestamp::parse("2026-11-15T12:00:00Z").unwrap()
}

fn recorded(name: &str) -> Value {
    let answers: Value = serde_json::from_str(ANSWERS).unwrap();
    section(name, &answers[name], now()).into()
}

#[test]
fn the_largest_directories_are_named() {
    let one = r#"{"complete":true,"dirs":{"path":"C:\\Users","bytes":120000000000}}"#;
    let two =
        r#"{"dirs":[{"path":"C:\\Windows","bytes":9},{"path":null,"bytes":1},{"path":"C:\\x"}],"complete":false}"#;
    for (answer, dirs, complete) in [
        (one, json!([{"path": "C:\\Users", "bytes": 120_000_000_000_u64}]), true),
        (two, json!([{"path": "C:\\Windows", "bytes": 9}]), false),
        ("null", json!([]), false),
    ] {
        let section = with_top_dirs(disk(&json!([])), &serde_json::from_str(answer).unwrap());
        assert_eq!(section.field("top_dirs"), Some(&dirs), "{answer}");
        assert_eq!(section.field("top_dirs_complete"), Some(&json!(complete)), "{answer}");
    }
}

#[test]
fn recorded_answers_become_sections() {
    let check = |name: &str, status: &str, summary: &str, fields: Value| {
        let found = recorded(name);
        assert_eq!((found["status"].as_str(), found["summary"].as_str()), (Some(status), Some(summary)), "{name}");
        for (key, value) in fields.as_object().unwrap() {
            assert_eq!(&found[key], value, "{name}.{key}");
        }
    };
    check("disk", "warn", "C: 91% full", json!({"top_dirs": []}));
    check("peripherals", "warn", "1 of 3 devices in error", json!({}));
    check("network", "ok", "1 interface up", json!({"dns": ["192.0.2.1", "2001:db8::53"]}));
    check("routing", "ok", "default via Ethernet", json!({"default_interface": "Ethernet"}));
    check("processes", "ok", "3 processes", json!({"count": 3}));
    check("services", "warn", "1 automatic service stopped with an error, Broken among them", json!({}));
    check(
        "defender",
        "warn",
        "on, last scan 20 days ago",
        json!({"enabled": true, "threats_found": 0, "last_scan_type": "quick"}),
    );
    check("win_update", "warn", "1 of 2 updates failed", json!({"last_check": "2026-11-15T03:11:00Z"}));
    check("disk_smart", "crit", "Example HDD 1T is about to fail", json!({}));
    check("battery", "warn", "battery at 82%, discharging", json!({"present": true, "health_percent": 60.0}));
    check("memory", "ok", "61% used", json!({"percent_used": 61.0, "swap_used_bytes": 104_857_600}));
    check("thermals", "ok", "hottest 48 °C", json!({"sensors": [{"label": "TZ01", "temperature_c": 48.1}]}));
    check("firewall", "warn", "off: Public", json!({}));
    check("encryption", "warn", "C: is not protected by BitLocker", json!({}));
    check(
        "av_thirdparty",
        "ok",
        "Example Antivirus",
        json!({"products": [{"name": "Example Antivirus", "running": true, "up_to_date": true}]}),
    );
    check("defender_quarantine", "warn", "1 item in quarantine", json!({}));
    check(
        "reboot_pending",
        "warn",
        "a restart is due: Windows Update",
        json!({"pending": true, "reasons": ["Windows Update"]}),
    );
    check(
        "os_support",
        "crit",
        "Windows 11 Pro: support ended on 2026-10-13",
        json!({"eol": true, "eol_date": "2026-10-13", "arch": "x86_64", "version": "24H2"}),
    );
    check("reliability", "warn", "3 errors in 7 days", json!({"stability_index": 5.3, "recent_crashes": 3}));
    check("app_updates", "warn", "2 updates available", json!({"available": 2}));
    check("uptime", "ok", "up 3 days 7 h", json!({"uptime_secs": 284_400}));
    check(
        "time_sync",
        "ok",
        "the clock is synchronised",
        json!({"synchronized": true, "source": "time.windows.com,0x9", "offset_secs": 0.001_234_5}),
    );
    check("printers", "warn", "Office: paperjam", json!({}));
    check("wifi_quality", "warn", "Home net at 42%", json!({"connected": true, "band": "5 GHz"}));
    check("autostart", "ok", "2 entries", json!({}));
}

#[test]
fn a_machine_without_the_thing_is_not_ill() {
    let check = |name: &str, answer: Value, status: &str| {
        let found: Value = section(name, &answer, now()).into();
        assert_eq!(found["status"], status, "{name}: {}", found["summary"]);
    };
    check("battery", Value::Null, "ok");
    check("defender", Value::Null, "ok");
    check("encryption", json!([]), "ok");
    check("thermals", Value::Null, "ok");
    check("app_updates", json!({"missing": true}), "ok");
    check("wifi_quality", json!({"text": "The Wireless AutoConfig Service (wlansvc) is not running.\r\n"}), "ok");
    check("os_support", json!({"name": "Microsoft Windows 99", "build": "99999"}), "ok");
    // Another product protects; Defender is meant to be off.
    check("defender", json!({"enabled": false, "realtime": false, "mode": "Passive Mode", "threats": 0}), "ok");
    check("defender", json!({"enabled": true, "realtime": false, "mode": "Normal", "threats": 0}), "crit");
    check("os_support", json!({"build": "26100", "type": "Server", "edition": "ServerStandard"}), "ok");
}

proptest! {
    #[test]
    fn any_answer_makes_a_section(name in prop::sample::select(SECTIONS.to_vec()), key in "[a-zA-Z_]{1,12}", text: String, number: f64) {
        for answer in [json!(text), json!(number), json!([text, number]), json!({"events": {"at": text}, "recent": [text], key: [{"x": number}]})] {
            let found = section(name.name, &answer, now());
            prop_assert!(!found.summary().is_empty());
        }
    }
}

#[test]
fn the_boundaries_are_the_hubs() {
    use convoke_core::health::{Os, evaluate};

    for name in [
        "disk",
        "battery",
        "memory",
        "thermals",
        "os_support",
        "reliability",
        "win_update",
        "reboot_pending",
        "defender",
    ] {
        let found = recorded(name);
        let raw = serde_json::value::to_raw_value(&found).unwrap();
        let verdict = evaluate(name, &raw, Os::Windows, now());
        assert!(verdict.ruled, "{name}: the hub's rule finds its fields");
        assert_eq!(verdict.status.name(), found["status"], "{name}");
    }
}
