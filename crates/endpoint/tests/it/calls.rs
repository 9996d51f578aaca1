//! Calls: many at once, and of every unpleasant kind.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::kenny::{Endpoint, Kenny};

/// Beyond this, kenny servers of version 0.8 drop a frame without a word.
const FIELD_LIMIT: usize = 256 * 1024;

#[tokio::test]
async fn two_hundred_calls_at_once_are_all_answered_and_the_agent_stays_responsive() {
    let kenny = Kenny::start().await;
    let endpoint = Endpoint::new(&kenny.url(), &kenny.key).set("max_calls", "32");
    let agent = endpoint.run();
    let mut peer = kenny.let_in().await;
    let gate = endpoint.gate("gate");
    let wait = format!("{}; echo done", gate.wait());
    let mut open = BTreeSet::new();
    for _ in 0..200 {
        open.insert(peer.ask("shell_exec", json!({ "command": wait, "timeout_s": 60 })).await);
    }
    // All of them wait, most for a place; the tunnel answers, and what is refused is refused at once.
    peer.send(json!({ "type": "ping" })).await;
    peer.next_of("pong").await;
    let refused = peer.call("shell_exec", json!({ "command": "rm -rf /" })).await;
    assert_eq!(refused["error"]["code"], "blocked");
    let _open = gate.open();
    while !open.is_empty() {
        let response = peer.next_of("response").await;
        assert_eq!(response["result"]["stdout"], "done\n", "{response}");
        assert!(open.remove(response["id"].as_str().expect("an id")));
    }
    agent.stop().await;
}

/// As the original agent on Linux does for a server of 0.8, which has no other tool for a command.
#[tokio::test]
async fn a_kenny_server_runs_commands_by_the_only_tool_it_has() {
    let kenny = Kenny::start().await;
    let endpoint = Endpoint::new(&kenny.url(), &kenny.key);
    let agent = endpoint.run();
    let mut peer = kenny.let_in().await;
    let answer = peer.call("powershell_exec", json!({ "script": "echo hi; exit 3", "timeout_s": 30 })).await;
    assert_eq!(
        (&answer["result"]["stdout"], &answer["result"]["exit_code"]),
        (&json!("hi\n"), &json!(3)),
        "{answer}"
    );
    let refused = peer.call("powershell_exec", json!({ "script": "rm -rf ';' /etc" })).await;
    assert_eq!(refused["error"]["code"], "blocked", "the guard reads it as what runs it: {refused}");
    agent.stop().await;
}

#[tokio::test]
async fn telemetry_on_request_has_the_agents_own_section() {
    let kenny = Kenny::start().await;
    let endpoint = Endpoint::new(&kenny.url(), &kenny.key);
    let agent = endpoint.run();
    let mut peer = kenny.let_in().await;
    for sections in [json!(["agent", "memory"]), json!(["agent"])] {
        let answer = peer.call("telemetry_collect", json!({ "sections": sections })).await;
        assert_eq!(answer["result"]["agent"]["remote_control"], true, "{answer}");
    }
    let without = peer.call("telemetry_collect", json!({ "sections": ["memory"] })).await;
    assert!(without["result"]["agent"].is_null() && without["result"]["memory"].is_object(), "{without}");
    agent.stop().await;
}

#[tokio::test]
async fn beyond_the_bound_calls_are_refused_clearly() {
    let kenny = Kenny::start().await;
    let endpoint = Endpoint::new(&kenny.url(), &kenny.key).set("max_calls", "1").set("max_waiting", "1");
    let agent = endpoint.run();
    let mut peer = kenny.let_in().await;
    let gate = endpoint.gate("gate");
    for _ in 0..2 {
        peer.ask("shell_exec", json!({ "command": gate.wait(), "timeout_s": 60 })).await;
    }
    let refused = peer.call("shell_exec", json!({ "command": "true" })).await;
    assert_eq!(refused["error"]["code"], "internal");
    assert!(refused["error"]["message"].as_str().expect("words").contains("busy"), "{refused}");
    // Stopping ends what runs, within its patience.
    agent.stop().await;
}

#[tokio::test]
async fn a_call_that_waits_too_long_for_a_place_times_out() {
    let kenny = Kenny::start().await;
    let endpoint = Endpoint::new(&kenny.url(), &kenny.key).set("max_calls", "1");
    let agent = endpoint.run();
    let mut peer = kenny.let_in().await;
    let (begun, gate) = (endpoint.gate("begun"), endpoint.gate("gate"));
    let command = format!("{}; {}", begun.tell(), gate.wait());
    peer.ask("shell_exec", json!({ "command": command, "timeout_s": 60 })).await;
    begun.told().await;
    let late = peer.call("shell_exec", json!({ "command": "true", "timeout_s": 1 })).await;
    assert_eq!(late["error"]["code"], "timeout");
    agent.stop().await;
}

#[tokio::test]
async fn a_command_that_never_ends_is_killed_with_all_its_children() {
    let kenny = Kenny::start().await;
    let endpoint = Endpoint::new(&kenny.url(), &kenny.key);
    let agent = endpoint.run();
    let mut peer = kenny.let_in().await;
    // Each of them holds the FIFO open; it ends when the last of them has.
    let held = endpoint.gate("held");
    let command = format!("exec 9> {}; sleep 300 & (sleep 300 & setsid sleep 300 & wait) & wait", held.path());
    let call = peer.call("shell_exec", json!({ "command": command, "timeout_s": 1 }));
    let (timed_out, ()) = tokio::join!(call, held.told());
    assert_eq!(timed_out["error"], json!({ "code": "timeout", "message": "tool exceeded 1s" }));
    agent.stop().await;
}

#[tokio::test]
async fn a_flood_is_cut_to_what_the_hub_takes_and_says_so() {
    let kenny = Kenny::start().await;
    let endpoint = Endpoint::new(&kenny.url(), &kenny.key);
    let agent = endpoint.run();
    let mut peer = kenny.let_in().await;
    let flood = peer.call("shell_exec", json!({ "command": "yes | head -c 104857600", "timeout_s": 60 })).await;
    assert_eq!((&flood["ok"], &flood["result"]["truncated"]), (&json!(true), &json!(true)));
    assert_eq!(flood["result"]["exit_code"], 0);
    let size = flood.to_string().len();
    assert!(size <= FIELD_LIMIT && size > FIELD_LIMIT / 4, "{size}");
    agent.stop().await;
}

#[tokio::test]
async fn output_that_is_no_text_becomes_text() {
    let kenny = Kenny::start().await;
    let endpoint = Endpoint::new(&kenny.url(), &kenny.key);
    let agent = endpoint.run();
    let mut peer = kenny.let_in().await;
    let odd = peer.call("shell_exec", json!({ "command": r"printf 'a\377\376b'; printf '\303' >&2" })).await;
    let text = odd["result"]["stdout"].as_str().expect("a text");
    assert!(text.starts_with('a') && text.ends_with('b') && text.contains('\u{fffd}'), "{text:?}");
    agent.stop().await;
}

#[tokio::test]
async fn odd_requests_cost_nothing_but_themselves() {
    let kenny = Kenny::start().await;
    let endpoint = Endpoint::new(&kenny.url(), &kenny.key);
    let agent = endpoint.run();
    let mut peer = kenny.let_in().await;
    let mut deep = "1".to_owned();
    for _ in 0..300 {
        deep = format!("[{deep}]");
    }
    let id = uuid::Uuid::new_v4();
    for frame in [
        "not json".to_owned(),
        "{}".to_owned(),
        r#"{"type":"party"}"#.to_owned(),
        r#"{"type":"request"}"#.to_owned(),
        r#"{"type":"request","id":"not-a-uuid","tool":"fs_list","args":{}}"#.to_owned(),
        r#"{"type":"policy","rules":"none"}"#.to_owned(),
        r#"{"type":"challenge","server_nonce":"","server_sig":""}"#.to_owned(),
        format!(r#"{{"type":"request","id":"{id}","tool":"fs_list","tool":"fs_read","args":{{}}}}"#),
    ] {
        peer.send_text(frame).await;
    }
    for (args, code) in [("[]", "bad_args"), ("\"x\"", "bad_args"), (deep.as_str(), "bad_args"), ("{}", "bad_args")] {
        let id = uuid::Uuid::new_v4();
        peer.send_text(format!(r#"{{"type":"request","id":"{id}","tool":"fs_list","args":{args}}}"#)).await;
        let response = peer.next_of("response").await;
        assert_eq!((&response["id"], &response["error"]["code"]), (&json!(id), &json!(code)), "{args}");
    }
    for (tool, code) in
        [("winget_list", "unsupported"), ("no_such_tool", "unsupported"), ("agent_update", "bad_args")]
    {
        let response = peer.call(tool, json!({})).await;
        let got = &response["error"]["code"];
        assert!(*got == code || *got == "unsupported", "{tool}: {response}");
    }
    assert_eq!(peer.call("fs_list", json!({ "path": "/" })).await["ok"], true);
    agent.stop().await;
}

/// Kenny servers read the patience of any call out of its arguments, and send them on as they are.
#[tokio::test]
async fn a_time_limit_among_the_arguments_is_heeded_whatever_the_tool() {
    let kenny = Kenny::start().await;
    let endpoint = Endpoint::new(&kenny.url(), &kenny.key).set("max_calls", "1");
    let agent = endpoint.run();
    let mut peer = kenny.let_in().await;
    for (tool, args) in [
        ("fs_list", json!({ "path": "/", "timeout_s": 60 })),
        ("fs_disk_usage", json!({ "timeout_s": 90.5 })),
        ("telemetry_collect", json!({ "sections": ["uptime"], "timeout_s": 120 })),
    ] {
        let response = peer.call(tool, args).await;
        assert_eq!(response["ok"], true, "{tool}: {response}");
    }
    let other = peer.call("fs_list", json!({ "path": "/", "timeout_s": 60, "depth": 2 })).await;
    assert_eq!(other["error"]["code"], "bad_args", "other keys are named as before: {other}");
    // It is the time that the call may wait for its place, too.
    let (begun, gate) = (endpoint.gate("begun"), endpoint.gate("gate"));
    let command = format!("{}; {}", begun.tell(), gate.wait());
    peer.ask("shell_exec", json!({ "command": command, "timeout_s": 60 })).await;
    begun.told().await;
    let late = peer.call("fs_list", json!({ "path": "/", "timeout_s": 1 })).await;
    assert_eq!(late["error"]["code"], "timeout", "{late}");
    agent.stop().await;
}

#[tokio::test]
async fn the_guard_names_its_rule_and_the_operators_rules_add_to_it() {
    let kenny = Kenny::start().await;
    let endpoint = Endpoint::new(&kenny.url(), &kenny.key);
    let agent = endpoint.run();
    let mut peer = kenny.let_in().await;
    let error =
        |response: Value| (response["error"]["code"].clone(), response["error"]["message"].clone().to_string());
    let (code, words) = error(peer.call("shell_exec", json!({ "command": "mkfs.ext4 /dev/sda1" })).await);
    assert_eq!(code, "blocked");
    assert!(words.contains("refused by agent safety policy:") && words.contains("posix_mkfs"), "{words}");
    assert_eq!(peer.call("shell_exec", json!({ "command": "echo fine" })).await["ok"], true);

    peer.send(json!({ "type": "policy", "rules": [
        { "id": "bad", "applies_to": "posix", "pattern": "(", "reason": "no" },
        { "id": "unknown", "applies_to": "telepathy", "pattern": "x", "reason": "no" },
        { "id": "op_fine", "applies_to": "posix", "pattern": "fine", "reason": "operator: nothing is fine" },
    ] }))
    .await;
    // Sent right after: it must meet the rules all the same.
    let (code, words) = error(peer.call("shell_exec", json!({ "command": "echo fine" })).await);
    assert_eq!(code, "blocked");
    assert!(words.contains("operator: nothing is fine") && words.contains("op_fine"), "{words}");
    peer.send(json!({ "type": "policy", "rules": [] })).await;
    assert_eq!(peer.call("shell_exec", json!({ "command": "echo fine" })).await["ok"], true);
    assert_eq!(error(peer.call("shell_exec", json!({ "command": "mkfs.ext4 /dev/sda1" })).await).0, "blocked");
    let elsewhere = json!({ "version": "9", "url": "https://evil.example/x", "sha256": "00" });
    let (code, words) = error(peer.call("agent_update", elsewhere).await);
    assert_eq!(code, "blocked");
    assert!(words.contains("evil.example"), "{words}");
    agent.stop().await;
}

#[tokio::test]
async fn a_shell_policy_of_newer_servers_is_kept_across_tunnels_and_restarts() {
    let kenny = Kenny::start().await;
    let endpoint = Endpoint::new(&kenny.url(), &kenny.key);
    let agent = endpoint.run();
    let mut peer = kenny.let_in().await;
    assert_eq!(peer.call("shell_exec", json!({ "command": "echo one" })).await["ok"], true);
    let rule = json!({ "id": "echo", "applies_to": "posix", "pattern": "echo [a-z]+", "reason": "harmless" });
    let policy = json!({
        "type": "policy", "rules": [], "shell": { "mode": "allowlist", "allow": [rule] },
        "collect": { "web_activity": false },
    });
    peer.send(policy).await;
    assert_eq!(peer.call("shell_exec", json!({ "command": "echo one" })).await["ok"], true);
    let refused = peer.call("shell_exec", json!({ "command": "echo one; id" })).await;
    assert_eq!(refused["error"]["code"], "blocked");
    let words = refused["error"]["message"].as_str().expect("words");
    assert!(words.contains("not permitted by the fleet shell allowlist"), "{words}");
    drop(peer);
    // An empty policy, as older servers and ours send it, says nothing of commands.
    let mut peer = kenny.let_in().await;
    assert_eq!(peer.call("shell_exec", json!({ "command": "id" })).await["error"]["code"], "blocked");
    agent.stop().await;
    let agent = endpoint.run();
    let mut peer = kenny.let_in().await;
    assert_eq!(peer.call("shell_exec", json!({ "command": "id" })).await["error"]["code"], "blocked");
    assert_eq!(peer.call("fs_list", json!({ "path": "/" })).await["ok"], true);
    for (mode, code) in [("off", json!("blocked")), ("telepathy", json!("blocked")), ("unrestricted", Value::Null)] {
        peer.send(json!({ "type": "policy", "rules": [], "shell": { "mode": mode, "allow": [] } })).await;
        assert_eq!(peer.call("shell_exec", json!({ "command": "id" })).await["error"]["code"], code, "{mode}");
    }
    agent.stop().await;
}

#[tokio::test]
async fn a_large_answer_holds_up_none_that_is_ready_after_it() {
    let kenny = Kenny::start().await;
    let endpoint =
        Endpoint::new(&kenny.url(), &kenny.key).set("max_frame_bytes", "8000000").set("heartbeat_s", "600");
    let agent = endpoint.run();
    let mut peer = kenny.let_in().await;
    let gate = endpoint.gate("gate");
    let small = peer.ask("shell_exec", json!({ "command": format!("{}; echo small", gate.wait()) })).await;
    let large = peer.call("shell_exec", json!({ "command": "head -c 900000 /dev/zero | tr '\\0' x" })).await;
    assert_eq!(large["result"]["stdout"].as_str().map(str::len), Some(900_000));
    // The hub says nothing more: the answer must come by itself.
    let _open = gate.open();
    let response = peer.next_of("response").await;
    assert_eq!((&response["id"], &response["result"]["stdout"]), (&json!(small), &json!("small\n")));
    agent.stop().await;
}
