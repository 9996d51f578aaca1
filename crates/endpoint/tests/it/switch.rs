//! The kill switch.

use convoke_endpoint::RemoteControl;
use serde_json::json;

use crate::kenny::{Endpoint, Kenny};

#[tokio::test]
async fn what_would_change_the_machine_is_refused_and_the_hub_is_told() {
    let kenny = Kenny::start().await;
    let endpoint = Endpoint::new(&kenny.url(), &kenny.key);
    let agent = endpoint.run();
    let mut peer = kenny.let_in().await;
    let first = peer.next_of("telemetry").await;
    assert_eq!(first["snapshot"]["agent"]["remote_control"], true, "{first}");
    let sections = first["snapshot"].as_object().expect("sections").len();

    endpoint.switch().set(RemoteControl::Disabled).expect("set");
    for (tool, args) in [
        ("shell_exec", json!({ "command": "true" })),
        ("powershell_exec", json!({ "script": "Get-Date" })),
        ("winget_install", json!({ "id": "x" })),
        ("net_dns_flush", json!({})),
        ("net_adapter_reset", json!({ "name": "eth0" })),
        ("remotehelp_start", json!({})),
        ("agent_update", json!({ "version": "1", "url": "https://evil.example", "sha256": "0" })),
        // The switch comes before the guard.
        ("shell_exec", json!({ "command": "rm -rf /" })),
    ] {
        let refused = peer.call(tool, args).await;
        let expect = json!({ "code": "disabled", "message": "remote control is disabled at the endpoint" });
        assert_eq!(refused["error"], expect, "{tool}");
    }
    assert_eq!(peer.call("fs_list", json!({ "path": "/" })).await["ok"], true);
    let told = match peer.skipped.iter().position(|f| f["snapshot"]["agent"]["remote_control"] == false) {
        Some(at) => peer.skipped.remove(at),
        None => peer.next_of("telemetry").await,
    };
    assert_eq!(told["snapshot"]["agent"]["remote_control"], false);
    assert_eq!(told["snapshot"].as_object().map(|s| s.len()), Some(sections), "with all that was known before");
    agent.stop().await;

    // It stays off across a restart, and the hub knows it from the first frame on.
    let agent = endpoint.run();
    let mut peer = kenny.let_in().await;
    assert_eq!(peer.register["meta"]["remote_control"], false);
    assert_eq!(peer.call("shell_exec", json!({ "command": "true" })).await["error"]["code"], "disabled");
    endpoint.switch().set(RemoteControl::Enabled).expect("set");
    assert_eq!(peer.call("shell_exec", json!({ "command": "true" })).await["ok"], true);
    agent.stop().await;
}

#[tokio::test]
async fn a_call_that_waited_meets_the_switch_as_it_is_then() {
    let kenny = Kenny::start().await;
    let endpoint = Endpoint::new(&kenny.url(), &kenny.key).set("max_calls", "1");
    let agent = endpoint.run();
    let mut peer = kenny.let_in().await;
    let (gate, begun) = (endpoint.gate("gate"), endpoint.gate("begun"));
    let wait = format!("{}; {}", begun.tell(), gate.wait());
    peer.ask("shell_exec", json!({ "command": wait })).await;
    begun.told().await;
    let second = peer.ask("shell_exec", json!({ "command": "true" })).await;
    // A round trip: the second call has been looked at, and waits.
    peer.call("fs_list", json!({ "path": 5 })).await;
    endpoint.switch().set(RemoteControl::Disabled).expect("set");
    let _open = gate.open();
    let response = loop {
        let response = peer.next_of("response").await;
        if response["id"] == second.as_str() {
            break response;
        }
    };
    assert_eq!(response["error"]["code"], "disabled");
    agent.stop().await;
}
