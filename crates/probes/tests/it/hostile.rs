//! Hostile parameters to every probe, limits, ceilings, secrets in errors.

use std::time::Duration;

use convoke_core::effect::Effect;
use convoke_machine::Call;
use convoke_probes::{Config, Probes};
use convoke_sonde::builtin;
use convoke_sonde::params::ParamType;
use convoke_sonde::probe::Status;
use serde_json::{Map, Value, json};

use crate::support::{ask, bad, good, probes, program};

/// Every program that a probe could start, each of which notes that it was started.
fn trap() -> (tempfile::TempDir, Probes) {
    let dir = tempfile::tempdir().expect("a directory");
    let started = dir.path().join("started");
    for name in [
        "df",
        "ping",
        "traceroute",
        "journalctl",
        "dmesg",
        "docker",
        "systemctl",
        "nginx",
        "psql",
        "redis-cli",
        "mysql",
        "mariadb",
        "qm",
        "pct",
        "ha-manager",
        "lvs",
        "vgs",
        "pvs",
        "ceph",
        "pvecm",
    ] {
        program(dir.path(), name, &format!("echo \"$0 $*\" >> {}", started.display()));
    }
    let root = dir.path().join("root");
    std::fs::create_dir_all(root.join("run/systemd/system")).expect("makes");
    std::fs::create_dir_all(root.join("proc")).expect("makes");
    std::fs::write(root.join("proc/loadavg"), "0 0 0 1/1 1").expect("writes");
    let probes = probes(Config { path: vec![dir.path().into()], root, ..Config::default() });
    (dir, probes)
}

#[tokio::test]
async fn a_hostile_value_starts_no_program_whatever_the_probe() {
    let (dir, probes) = trap();
    assert_eq!(probes.capabilities().len(), 35, "all packs are loaded");
    let hostile = [
        "-f",
        "--help",
        "-o/etc/passwd",
        "a b",
        "a;id",
        "$(id)",
        "`id`",
        "a\nb",
        "a\0b",
        "../../etc/shadow",
        "",
        "'",
        "\"",
        "a|b",
        "/etc/shadow",
        "\u{202e}x",
    ];
    let mut tried = 0;
    for pack in builtin::packs() {
        for probe in &pack.probes {
            let name = format!("{}.{}", pack.name, probe.name);
            let fine: Map<String, Value> = probe
                .params
                .iter()
                .filter(|(_, spec)| spec.required)
                .map(|(n, spec)| (n.clone(), if spec.kind == ParamType::Number { json!(100) } else { json!("x") }))
                .collect();
            for (param, spec) in &probe.params {
                let values: Vec<Value> = match spec.kind {
                    ParamType::String => hostile.iter().map(|v| json!(v)).chain([json!(7), json!(["a"])]).collect(),
                    // Out of bounds is the nearest within.
                    _ if spec.clamp => vec![json!("1"), json!(1.5), json!({}), json!("1;id")],
                    _ => vec![json!("1"), json!(-1), json!(1e18), json!(0.5), json!({}), json!("1;id")],
                };
                for value in values {
                    let mut params = fine.clone();
                    params.insert(param.clone(), value.clone());
                    let failure = bad(ask(&probes, &name, Value::Object(params)).await);
                    assert!(
                        ["INVALID_PARAMS", "UNAUTHORIZED"].contains(&failure.code),
                        "{name} {param}={value}: {failure:?}"
                    );
                    tried += 1;
                }
            }
            let failure = bad(ask(&probes, &name, json!({"unheard-of": 1})).await);
            assert_eq!(failure.code, "INVALID_PARAMS", "{name}");
        }
    }
    assert!(tried > 300, "{tried}");
    assert!(!dir.path().join("started").exists(), "nothing was started");
}

#[tokio::test]
async fn a_database_elsewhere_is_asked_only_where_that_is_allowed() {
    let (dir, probes) = trap();
    for name in ["postgres.databases.list", "redis.info", "mysql.status"] {
        let failure = bad(ask(&probes, name, json!({"host": "10.0.0.7"})).await);
        assert_eq!((failure.code, failure.status), ("UNAUTHORIZED", Status::Unauthorized), "{name}");
    }
    assert!(!dir.path().join("started").exists());
    let allowed =
        Config { database_hosts: vec!["db.example".into()], path: vec![dir.path().into()], ..Config::default() };
    let failure = bad(ask(&self::probes(allowed), "redis.info", json!({"host": "db.example"})).await);
    assert_eq!(failure.code, "PROBE_FAILED", "it was tried");
}

#[tokio::test]
async fn a_probe_that_takes_too_long_is_ended_with_all_it_started() {
    let dir = tempfile::tempdir().expect("a directory");
    program(dir.path(), "docker", "sleep 1000 & sleep 1000");
    let probes =
        probes(Config { path: vec![dir.path().into(), "/usr/bin".into(), "/bin".into()], ..Config::default() });
    let call = Call { timeout: Some(Duration::from_millis(200)), ..Call::default() };
    let ran = probes.run("docker.images.list", None, &call).await;
    let failure = bad(ran);
    assert_eq!((failure.code, failure.status), ("TIMEOUT", Status::Timeout));
}

#[tokio::test]
async fn unknown_probes_and_packs_and_the_ceiling() {
    let probes = probes(Config { disabled_packs: vec!["docker".into()], ..Config::default() });
    let failure = bad(ask(&probes, "system.nothing", json!({})).await);
    assert_eq!((failure.code, failure.message.as_str()), ("PROBE_NOT_FOUND", "Unknown probe: system.nothing"));
    assert_eq!(bad(ask(&probes, "docker.images.list", json!({})).await).message, "Pack 'docker' not loaded");
    assert_eq!(bad(ask(&probes, "", json!({})).await).code, "PROBE_NOT_FOUND");
    assert_eq!(bad(ask(&probes, &"x".repeat(100_000), json!({})).await).code, "PROBE_NOT_FOUND");
    assert_eq!(Config::default().ceiling, Effect::Observe);
}

#[tokio::test]
async fn errors_are_scrubbed_too() {
    let dir = tempfile::tempdir().expect("a directory");
    program(
        dir.path(),
        "psql",
        "echo 'psql: error: connection to postgres://bob:hunter2@db failed: PASSWORD: two words' >&2; exit 2",
    );
    let config = Config { path: vec![dir.path().into()], scrub: vec!["kunde-[0-9]+".into()], ..Config::default() };
    let failure = bad(ask(&probes(config), "postgres.databases.list", json!({})).await);
    assert!(failure.message.contains("bob:[REDACTED]@db") && !failure.message.contains("words"), "{failure:?}");
    assert!(
        Probes::load(Config { scrub: vec!["(".into()], ..Config::default() }, "1").is_err(),
        "a pattern that cannot be used is no pattern"
    );
}

#[tokio::test]
async fn a_flood_of_output_is_bounded() {
    let dir = tempfile::tempdir().expect("a directory");
    program(dir.path(), "docker", "yes 0123456789012345678901234567890123456789 | head -c 50000000");
    let path = vec![dir.path().into(), "/usr/bin".into(), "/bin".into()];
    let logs = good(
        ask(
            &probes(Config { path, ..Config::default() }),
            "docker.logs.tail",
            json!({"container": "x", "lines": 1000}),
        )
        .await,
    );
    assert!(logs.to_string().len() < 1024 * 1024 && logs["truncated"] == true);
}
