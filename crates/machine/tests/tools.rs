//! Every tool of the catalogue on this machine, as it is.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]
#![cfg(target_os = "linux")]

use std::time::Duration;

use convoke_core::health::{Os, SECTIONS, evaluate};
use convoke_core::time::Timestamp;
use convoke_kenny::frame::ErrorCode;
use convoke_kenny::tools::TOOLS;
use convoke_machine::{Call, Machine, Options, ToolError};
use serde_json::{Value, json};

fn machine() -> Machine {
    Machine::new(Options { sample: Duration::from_millis(50), ..Options::default() })
}

async fn call(tool: &str, args: Value) -> Result<Value, ToolError> {
    machine().run(tool, args.as_object().unwrap(), &Call::default()).await
}

#[tokio::test]
async fn a_shell_runs_a_command() {
    let result = call("shell_exec", json!({"command": "echo hi; exit 4"})).await.unwrap();
    assert_eq!(result, json!({"stdout": "hi\n", "stderr": "", "exit_code": 4}));
    let error = call("shell_exec", json!({"command": "sleep 300", "timeout_s": 1})).await.unwrap_err();
    assert_eq!((error.code, error.message.as_str()), (ErrorCode::Timeout, "tool exceeded 1s"));
    let result = call("shell_exec", json!({"command": "head -c 3000000 /dev/zero | tr '\\0' x"})).await.unwrap();
    assert_eq!((&result["truncated"], &result["stdout_bytes"]), (&true.into(), &3_000_000.into()));
    assert_eq!(result["stdout"].as_str().unwrap().len(), 1 << 20);
}

#[tokio::test]
async fn a_shell_works_where_it_is_told_to_or_among_temporary_files() {
    let dir = tempfile::tempdir().unwrap();
    let work = dir.path().join("state/work");
    let machine = Machine::new(Options { work_dir: Some(work.clone()), ..Options::default() });
    let pwd = json!({"command": "pwd -P"});
    for _ in 0..2 {
        let result = machine.run("shell_exec", pwd.as_object().unwrap(), &Call::default()).await.unwrap();
        let told = result["stdout"].as_str().unwrap().trim_end();
        assert_eq!(std::path::Path::new(told), work.canonicalize().unwrap());
        std::fs::remove_dir(&work).unwrap();
    }
    std::fs::write(&work, "no directory").unwrap();
    let result = machine.run("shell_exec", pwd.as_object().unwrap(), &Call::default()).await.unwrap();
    let told = result["stdout"].as_str().unwrap().trim_end();
    assert_eq!(std::path::Path::new(told), std::env::temp_dir().canonicalize().unwrap());
}

#[tokio::test]
async fn a_call_can_be_bounded_and_cancelled() {
    let args = json!({"command": "sleep 300", "timeout_s": 200});
    let call = Call { timeout: Some(Duration::from_millis(200)), ..Call::default() };
    let error = machine().run("shell_exec", args.as_object().unwrap(), &call).await.unwrap_err();
    assert_eq!((error.code, error.message.as_str()), (ErrorCode::Timeout, "tool exceeded 0.2s"));
    let call = Call::default();
    call.cancel.cancel();
    let error = machine().run("shell_exec", args.as_object().unwrap(), &call).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::ExecFailed);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn what_a_cancelled_call_ran_is_gone_when_it_is_told() {
    for _ in 0..8 {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pid");
        let args =
            json!({"command": format!("echo $$ > '{0}.part'; mv '{0}.part' '{0}'; exec sleep 300", file.display())});
        let (machine, call) = (machine(), Call::default());
        let cancel = async {
            let pid = loop {
                match std::fs::read_to_string(&file) {
                    Ok(pid) => break pid,
                    Err(_) => tokio::task::yield_now().await,
                }
            };
            call.cancel.cancel();
            pid.trim().to_owned()
        };
        let (result, pid) = tokio::join!(machine.run("shell_exec", args.as_object().unwrap(), &call), cancel);
        let there = std::path::Path::new("/proc").join(&pid).exists();
        assert_eq!((result.unwrap_err().code, there), (ErrorCode::ExecFailed, false), "process {pid}");
    }
}

#[tokio::test]
async fn the_agents_own_settings_are_not_passed_on() {
    // Set by cargo's runner for this one test would be unsafe code; a child of a child shows it as well.
    let exe = std::env::current_exe().unwrap();
    let output = tokio::process::Command::new(exe)
        .args(["--exact", "prints_the_environment_of_a_command", "--nocapture", "--include-ignored"])
        .env("KENNY_TOKEN", "hush-kenny")
        .env("CONVOKE_DATA_KEY", "hush-convoke")
        .env("PLAIN_VARIABLE", "told")
        .output()
        .await
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("told"), "{text}");
    assert!(!text.contains("hush"), "{text}");
}

#[tokio::test]
async fn prints_the_environment_of_a_command() {
    let result = call("shell_exec", json!({"command": "env"})).await.unwrap();
    #[expect(clippy::print_stdout, reason = "another test reads it")]
    {
        println!("{}", result["stdout"].as_str().unwrap());
    }
}

#[tokio::test]
async fn what_linux_does_not_have_is_said_clearly() {
    for (tool, args) in [
        ("winget_list", json!({})),
        ("winget_install", json!({"id": "x"})),
        ("winget_uninstall", json!({"id": "x"})),
        ("winget_update", json!({})),
        ("remotehelp_start", json!({})),
        ("remotehelp_stop", json!({})),
        ("webfilter_status", json!({})),
        ("account_delete", json!({"principal": "x", "remove_profile": false})),
        ("no_such_tool", json!({})),
    ] {
        let error = call(tool, args).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::Unsupported, "{tool}");
    }
    let error = call("winget_list", json!({})).await.unwrap_err();
    assert_eq!(error.message, "winget_list is only available on Windows");
    assert_eq!(call("no_such_tool", json!({})).await.unwrap_err().message, "unknown tool: no_such_tool");
    let status = call("remotehelp_status", json!({})).await.unwrap();
    assert_eq!((&status["installed"], &status["version"]), (&json!(false), &json!("")));
    assert_eq!(status["interactive_session"], false);
}

#[tokio::test]
async fn arguments_are_checked_before_anything_runs() {
    for (tool, args) in [
        ("shell_exec", json!({})),
        ("shell_exec", json!({"command": 5})),
        ("shell_exec", json!({"command": "true", "timeout_s": 0})),
        ("fs_read", json!({"path": "/", "offset": 3})),
        ("diag_eventlog", json!({"log": "--flush", "count": 1})),
        ("net_adapter_reset", json!({"name": "-a"})),
        ("net_adapter_reset", json!({"name": "lo"})),
    ] {
        let error = call(tool, args).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::BadArgs, "{tool}: {error}");
    }
    let error = call("net_adapter_reset", json!({"name": "no-such0"})).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::NotFound);
}

#[tokio::test]
async fn every_tool_answers() {
    for tool in TOOLS.iter().filter(|tool| !tool.mutating && tool.args.iter().all(|arg| !arg.required)) {
        match call(tool.name, json!({})).await {
            Ok(result) => assert!(result.is_object(), "{}", tool.name),
            Err(error) => assert!(
                matches!(error.code, ErrorCode::Unsupported | ErrorCode::ExecFailed) && !error.message.is_empty(),
                "{}: {error}",
                tool.name
            ),
        }
    }
}

#[tokio::test]
async fn processes_are_processes_and_their_use_is_real() {
    let mut burner =
        tokio::process::Command::new("sh").arg("-c").arg("while :; do :; done").kill_on_drop(true).spawn().unwrap();
    let pid = burner.id().unwrap();
    // A thread of ours is no process.
    let (ready, wait) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::Builder::new().name("not-a-process".into()).spawn(move || wait.recv()).unwrap();
    let machine = Machine::new(Options { sample: Duration::from_millis(300), ..Options::default() });
    let (list, cpu) = loop {
        let result = machine.run("diag_processes", &serde_json::Map::new(), &Call::default()).await.unwrap();
        let list = result["processes"].as_array().unwrap().clone();
        let cpu = list.iter().find(|process| process["pid"] == pid).unwrap()["cpu"].as_f64().unwrap();
        // A busy machine may not have let it run.
        if cpu > 0.0 {
            break (list, cpu);
        }
    };
    assert!(cpu <= 110.0, "one loop cannot use more than one processor: {cpu}");
    let own = list.iter().find(|process| process["pid"] == std::process::id()).unwrap();
    assert!(own["mem_bytes"].as_u64().unwrap() > 100_000);
    assert!(!list.iter().any(|process| process["name"] == "not-a-process" || process["name"] == "kthreadd"));
    drop(ready);
    let _ = thread.join();
    burner.kill().await.unwrap();
}

#[tokio::test]
async fn a_snapshot_has_every_section_with_status_and_summary() {
    let snapshot = machine().collect(None).await;
    assert_eq!(snapshot.len(), SECTIONS.len());
    for section in SECTIONS {
        let payload = &snapshot[section.name];
        let status = payload["status"].as_str().unwrap();
        assert!(["ok", "warn", "crit"].contains(&status), "{}", section.name);
        let summary = payload["summary"].as_str().unwrap();
        assert!(!summary.is_empty() && summary.len() < 400, "{}: {summary}", section.name);
        assert_ne!(summary, "the collector failed; the agent's log has more", "{}", section.name);
    }
    // The hub, which judges by its own rules, comes to what the agent says.
    let now = Timestamp::from_millis(jiff::Timestamp::now().as_millisecond());
    for (name, section) in &snapshot {
        let raw = serde_json::value::to_raw_value(section).unwrap();
        let verdict = evaluate(name, &raw, Os::Linux, now);
        assert_eq!(verdict.status.name(), section["status"], "{name}: {section}");
    }
    // The field's v0.8 servers drop what is larger, in silence.
    assert!(serde_json::to_string(&snapshot).unwrap().len() < 256 * 1024);
    assert_eq!(snapshot["disk"]["volumes"][0]["mount"], "/");
    assert!(snapshot["memory"]["total_bytes"].as_u64().unwrap() > 0);
    assert!(snapshot["uptime"]["uptime_secs"].is_u64());
    assert_eq!(snapshot["defender"]["enabled"], Value::Null);
}

#[tokio::test]
async fn a_snapshot_can_be_restricted() {
    let result = call("telemetry_collect", json!({"sections": ["uptime", "memory", "later"]})).await.unwrap();
    let names: Vec<_> = result.as_object().unwrap().keys().cloned().collect();
    assert_eq!(names, ["memory", "uptime"]);
    assert_eq!(call("telemetry_collect", json!({"sections": ["x"]})).await.unwrap_err().code, ErrorCode::NotFound);
    assert_eq!(call("telemetry_collect", json!({"sections": []})).await.unwrap(), json!({}));
}
