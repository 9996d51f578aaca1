//! The pack `system` on this very machine.

use convoke_probes::Config;
use serde_json::json;

use crate::support::{ask, bad, good, names, probes};

#[tokio::test]
async fn disk_memory_and_load_of_this_machine() {
    let probes = probes(Config::default());
    assert!(probes.packs().iter().any(|p| p.name == "system" && p.version == "0.2.0"));
    let disk = good(ask(&probes, "system.disk.usage", json!({})).await);
    let first = &disk["filesystems"][0];
    assert_eq!(names(first), ["availableKb", "filesystem", "mountedOn", "sizeKb", "usePct", "usedKb"], "{disk}");
    let memory = good(ask(&probes, "system.memory.usage", json!({})).await);
    assert_eq!(names(&memory), ["availableBytes", "freeBytes", "swap", "totalBytes", "usedBytes"]);
    assert_eq!(names(&memory["swap"]), ["freeBytes", "totalBytes", "usedBytes"]);
    let cpu = good(ask(&probes, "system.cpu.usage", json!({})).await);
    assert_eq!(names(&cpu), ["cpuCount", "loadAvg1", "loadAvg15", "loadAvg5"]);
    assert!(cpu["cpuCount"].as_u64().is_some_and(|n| n > 0));
}

#[tokio::test]
async fn a_host_that_answers_and_one_that_does_not_are_both_results() {
    let probes = probes(Config::default());
    let alive = good(ask(&probes, "system.network.ping", json!({"host": "127.0.0.1", "count": 1})).await);
    assert_eq!((&alive["packetsReceived"], &alive["packetLossPercent"]), (&json!(1), &json!(0.0)), "{alive}");
    assert_eq!(names(&alive["rttMs"]), ["avg", "max", "min", "stddev"]);
    let unknown = bad(ask(&probes, "system.network.ping", json!({"host": "no-such-host.invalid", "count": 1})).await);
    assert!(unknown.message.contains("ping"), "{unknown:?}");
    let route = good(ask(&probes, "system.network.traceroute", json!({"host": "127.0.0.1"})).await);
    assert_eq!((&route["hops"][0]["hop"], &route["hops"][0]["ip"]), (&json!(1), &json!("127.0.0.1")), "{route}");
}

#[tokio::test]
async fn a_log_is_read_inside_its_directories_only() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("app.log");
    let lines: Vec<String> = (1..=100).map(|i| format!("line {i} password=hunter{i}")).collect();
    std::fs::write(&log, lines.join("\n")).expect("writes");
    let probes = probes(Config { log_dirs: vec![dir.path().into()], ..Config::default() });
    let tail = good(ask(&probes, "system.logs.tail", json!({"path": log, "lines": 2})).await);
    assert_eq!(names(&tail), ["lineCount", "lines", "logPath"]);
    assert_eq!(tail["lines"], json!(["line 99 password=[REDACTED]", "line 100 password=[REDACTED]"]));
    let outside = bad(ask(&probes, "system.logs.tail", json!({"path": "/etc/hostname"})).await);
    assert_eq!(outside.code, "UNAUTHORIZED");
    let link = dir.path().join("link.log");
    std::os::unix::fs::symlink("/etc/hostname", &link).expect("links");
    assert_eq!(bad(ask(&probes, "system.logs.tail", json!({"path": link})).await).code, "UNAUTHORIZED");
}

#[tokio::test]
async fn a_huge_log_stays_within_a_frame() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("big.log");
    std::fs::write(&log, format!("{}\n", "\u{1}".repeat(6_000)).repeat(600)).expect("writes");
    let probes = probes(Config { log_dirs: vec![dir.path().into()], ..Config::default() });
    let ran = ask(&probes, "system.logs.tail", json!({"path": log, "lines": 500})).await;
    let raw = ran.outcome.expect("a result");
    assert!(raw.get().contains("\"truncated\":true"));
}
