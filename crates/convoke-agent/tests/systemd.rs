//! The small program as a service of a real systemd: a Debian, booted in a container, in which this very test runs the
//! hub. Nothing of `convoke` is there.
//!
//! Needs root and the Debian that `cargo xtask setup` makes; without root it is skipped.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::Command;

use convoke_api::Client;
use convoke_core::secret::SecretText;
use convoke_hub::HubOptions;
use convoke_hub::settings::{Settings, Sources};
use convoke_testing::container;
use serde_json::{Value, json};

const DONE: &str = "inside: the service was installed, killed and removed";
const TOKEN: &str = "cvk_test-operator-token";

/// Runs a command, and waits until the agent has said after it that it is connected.
const UNTIL_CONNECTED: &str = r#"
until_connected() {
  since=$(journalctl --quiet --lines=1 --show-cursor | sed -n 's/^-- cursor: //p')
  "$@"
  mkfifo /srv/journal
  journalctl --follow --no-tail --after-cursor="$since" --unit=convoke-agent --output=cat >/srv/journal &
  grep --max-count=1 'run: connected' /srv/journal
  kill $! || true # it may have ended with the line that was waited for
  rm /srv/journal
}
"#;

#[test]
fn the_small_program_alone_is_installed_survives_and_is_removed() {
    let program = ("convoke-agent", Path::new(env!("CARGO_BIN_EXE_convoke-agent")));
    let Some(log) = container::run_inside(&[program], &[]) else { return };
    assert!(log.contains(DONE), "{log}");
}

/// The other half. Outside of the container it does nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inside_the_container() {
    if !container::is_inside() {
        return;
    }
    let flags = vec![("hub.listen".to_owned(), "127.0.0.1:0".to_owned())];
    let settings = Settings::resolve(&Sources { flags, ..Sources::default() }).expect("valid settings");
    let operator_token = Some(SecretText::new(TOKEN));
    let options = HubOptions { data: "/srv/hub".into(), settings, data_key: None, hub_seed: None, operator_token };
    let hub = convoke_hub::start(options).await.expect("starts");
    let client = Client::new(&hub.http, SecretText::new(TOKEN)).expect("a client");
    let call = async |command: &str| -> Value {
        let call = json!({ "tool": "shell_exec", "args": { "command": command } });
        client.post("/api/agents/pc-1/call", &call).await.expect("answered")
    };

    let token: Value = client.post("/api/agents/pc-1/token", &json!({})).await.expect("answered");
    let text = |name: &str| token[name].as_str().expect("a text").to_owned();
    let (key, token) = (text("hub_public_key"), text("token"));
    // Before it is enrolled there is nothing to start.
    sh("! /opt/test/convoke-agent install").await;
    let enroll = format!("enroll --hub {} --id pc-1 --token {token} --hub-key {key}", hub.http);
    sh(&format!("/opt/test/convoke-agent {enroll}")).await;
    sh("until_connected /opt/test/convoke-agent install").await;
    sh("systemctl is-active convoke-agent; systemctl is-enabled convoke-agent").await;
    sh("systemd-analyze verify /etc/systemd/system/convoke-agent.service").await;
    sh("cmp /opt/test/convoke-agent /opt/convoke-agent/bin/convoke").await;
    sh("/opt/test/convoke-agent status | grep service").await;
    let answer = call("id -u").await;
    assert_eq!(answer["result"]["stdout"], "0\n", "{answer}");
    let answer = call("systemctl stop convoke-agent").await;
    assert_eq!(answer["ok"], false, "it does not stop itself: {answer}");
    // Killed, it is back.
    sh("until_connected kill -KILL $(systemctl show -P MainPID convoke-agent)").await;
    let answer = call("echo back").await;
    assert_eq!(answer["result"]["stdout"], "back\n", "{answer}");
    sh("/opt/test/convoke-agent uninstall; ! systemctl is-active convoke-agent").await;
    sh("test ! -e /opt/convoke-agent; test -e /var/lib/convoke-agent/convoke-agent.key").await;
    sh("/opt/test/convoke-agent uninstall --purge; test ! -e /var/lib/convoke-agent").await;
    // The original installers' one line, from nothing to a service.
    let token: Value = client.post("/api/agents/pc-2/token", &json!({})).await.expect("answered");
    let text = |name: &str| token[name].as_str().expect("a text");
    let server = format!("{}/agent/ws", hub.http.replacen("http", "ws", 1));
    let install = format!(
        "install --server {server} --agent-id pc-2 --enroll-token {} --server-pubkey {}",
        text("token"),
        text("hub_public_key")
    );
    sh(&format!("until_connected /opt/test/convoke-agent {install}")).await;
    sh("systemctl is-active convoke-agent; /opt/test/convoke-agent uninstall --purge").await;
    hub.stop().await.expect("stops");
    eprintln!("{DONE}");
}

/// Runs a script beside the hub; each of its lines must succeed.
async fn sh(script: &str) {
    let script = format!("set -ex\n{UNTIL_CONNECTED}\n{}", script.replace("; ", "\n"));
    let run = tokio::task::spawn_blocking(move || {
        let status = Command::new("/bin/sh").args(["-c", &script]).status().expect("there is a shell");
        assert!(status.success(), "{script}");
    });
    run.await.expect("it succeeds");
}
