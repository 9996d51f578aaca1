//! The operator's verbs, against a hub with an agent.

use crate::support::{Agent, Done, Hub, Server, convoke};

#[test]
fn an_agent_is_invited_connects_and_answers() {
    let hub = Hub::start();
    hub.run(&["agents", "list"]).ok().notes("no agents");
    let invited = hub.run(&["enroll-token", "pc-1"]).ok();
    let socket = format!("KENNY_SERVER='{}/agent/ws'", hub.http().replacen("http", "ws", 1));
    let key = format!("KENNY_SERVER_PUBKEY='{}'", hub.ready["kenny_public_key"].as_str().expect("a key"));
    let invited = invited.says(&socket).says("KENNY_AGENT_ID='pc-1'").says("KENNY_ENROLL_TOKEN='").says(&key);
    let token =
        invited.stdout.lines().find_map(|line| line.strip_prefix("token ")).expect("a token").trim().to_owned();

    let hub_key = hub.ready["kenny_public_key"].as_str().expect("a key").to_owned();
    let agent = Agent::enrol_and_connect(&hub, "pc-1", token, &hub_key);
    hub.run(&["agents", "list"]).ok().says("pc-1").says("online").says("trusted").says("TEST-PC");
    hub.run(&["agents", "list", "--offline"]).ok().notes("no agent matches");
    let shown = hub.run(&["agents", "show", "pc-1"]).ok().says("last seen").says("key (sha256)");
    assert!(shown.stdout.contains(" ago)") || shown.stdout.contains("(just now)"), "{}", shown.stdout);

    hub.run(&["call", "pc-1", "fs_list", "--args", r#"{"path":"/tmp"}"#]).ok().says("photos/").says("2.0 KiB");
    assert_eq!(agent.asked(), ("fs_list".into(), serde_json::json!({ "path": "/tmp" })));
    let done = hub.run(&["call", "pc-1", "shell_exec", "--args", r#"{"command":"uptime"}"#]).ok();
    assert_eq!(done.stdout, "ran uptime\n");
    done.notes("a warning").notes("exit code 3");
    let shown = hub.run(&["call", "pc-1", "net_config"]).ok().says("\"dns\": [\n").says(r"a\u007f\u202eb");
    assert_eq!(shown.json()["domain"], "a\u{7f}\u{202e}b", "what a person is shown is still JSON");
    let json = hub.run(&["call", "pc-1", "net_config", "--json"]).ok().json();
    assert_eq!(json["result"]["dns"][0], "192.0.2.1");
    hub.run(&["calls", "show", json["call_id"].as_str().expect("an id")]).ok().says("192.0.2.1");
}

#[test]
fn arguments_come_from_a_file_or_standard_input() {
    let hub = Hub::start();
    let agent = Agent::join(&hub, "pc-1");
    let file = hub.beside("args.json");
    std::fs::write(&file, r#"{"path":"/from/file"}"#).expect("written");
    hub.run(&["call", "pc-1", "fs_list", "--args", &format!("@{}", file.display())]).ok();
    assert_eq!(agent.asked().1["path"], "/from/file");
    Done::with_input(&mut hub.verb(&["call", "pc-1", "fs_list", "--args", "-"]), r#"{"path":"/from/stdin"}"#).ok();
    assert_eq!(agent.asked().1["path"], "/from/stdin");
    hub.run(&["call", "pc-1", "fs_list", "--args", "{path"]).code(2).notes("not JSON");
}

#[test]
fn a_failed_call_says_why() {
    let hub = Hub::start();
    let agent = Agent::join(&hub, "pc-1");
    hub.run(&["call", "pc-1", "fs_read", "--args", r#"{"path":"/x"}"#])
        .code(1)
        .notes("there is no such thing (not_found)");
    hub.run(&["call", "pc-1", "diag_services", "--timeout", "0.2"]).code(1).notes("(timeout)");
    hub.run(&["call", "nobody", "fs_list"]).code(1).notes("no agent `nobody`").notes("convoke agents list");
    let json = hub.run(&["call", "pc-1", "fs_read", "--args", r#"{"path":"/x"}"#, "--json"]).code(1).json();
    assert_eq!(json["error"]["code"], "not_found");

    drop(agent);
    wait_until_offline(&hub, "pc-1");
    hub.run(&["call", "pc-1", "fs_list", "--args", r#"{"path":"/"}"#])
        .code(1)
        .notes("pc-1 is offline")
        .notes("last seen");
}

/// The hub learns of a closed socket by itself; its word is awaited.
fn wait_until_offline(hub: &Hub, id: &str) {
    let since = std::time::Instant::now();
    while hub.run(&["agents", "show", id, "--json"]).ok().json()["online"] != false {
        assert!(since.elapsed().as_secs() < 60, "{id} stays online");
    }
}

#[test]
fn the_same_key_returns_the_first_outcome() {
    let hub = Hub::start();
    let agent = Agent::join(&hub, "pc-1");
    let call = || hub.run(&["call", "pc-1", "net_config", "--idempotency-key", "once", "--json"]).ok().json();
    assert_eq!(call()["call_id"], call()["call_id"]);
    agent.asked();
    hub.run(&["call", "pc-1", "fs_list", "--idempotency-key", "once"]).code(1).notes("conflict");
}

#[test]
fn agents_are_tagged_rekeyed_revoked_and_removed() {
    let hub = Hub::start();
    let _agent = Agent::join(&hub, "pc-1");
    hub.run(&["enroll-token", "pc-2"]).ok();
    hub.run(&["agents", "tag", "pc-1", "lab", "floor:2"]).ok().says("floor:2, lab");
    let listed = hub.run(&["agents", "list", "--tag", "lab", "--json"]).ok().json();
    assert_eq!(listed["agents"].as_array().map(Vec::len), Some(1));
    hub.run(&["agents", "tag", "pc-1", "--clear"]).ok().says("pc-1 has the tags: -");

    let rotated = hub.run(&["agents", "rotate-key", "pc-1", "--json"]).ok().json();
    let text = |name: &str| rotated[name].as_str().expect("a text").to_owned();
    let _again = Agent::enrol_and_connect(&hub, "pc-1", text("token"), &text("hub_public_key"));
    hub.run(&["agents", "update", "pc-1"]).code(1).notes("kenny.update_dir");

    hub.run(&["agents", "revoke", "pc-1"]).ok().says("revoked");
    wait_until_offline(&hub, "pc-1");
    hub.run(&["agents", "show", "pc-1"]).ok().says("revoked");
    hub.run(&["agents", "remove", "pc-1"]).code(2).notes("--yes");
    hub.run(&["agents", "remove", "pc-1", "--yes"]).ok().says("removed");
    hub.run(&["agents", "show", "pc-1"]).code(1).notes("no agent `pc-1`");
}

#[test]
fn health_and_logs_are_shown() {
    let hub = Hub::start();
    let _agent = Agent::join(&hub, "pc-1");
    // Telemetry and logs are taken in order before this answer.
    hub.run(&["call", "pc-1", "net_config"]).ok();
    hub.run(&["fleet"]).ok().says("disk crit").notes("1 agent, 1 online; overall: crit");
    assert_eq!(hub.run(&["fleet", "--json"]).ok().json()["overall"], "crit");
    let since = std::time::Instant::now();
    let logs = loop {
        let logs = hub.run(&["logs", "--agent", "pc-1", "--level", "warn"]).ok();
        if !logs.stdout.is_empty() {
            break logs;
        }
        assert!(since.elapsed().as_secs() < 60, "no log lines");
    };
    let logs = logs.says("WARN  pc-1 test::disk: almost full left=3");
    assert_eq!(logs.stdout.lines().count(), 1);
    hub.run(&["logs", "--level", "error"]).ok().notes("no log lines");
    let entries = hub.run(&["logs", "--json", "--limit", "1"]).ok().json();
    assert_eq!(entries["entries"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_call_whose_hub_is_killed_may_have_run_and_is_told_so() {
    let hub = Hub::start();
    let agent = Agent::join(&hub, "pc-1");
    let call = |more: &[&str]| {
        let begun = Server::start(hub.verb(&["call", "pc-1", "diag_services", "--timeout", "600"]).args(more));
        assert_eq!(agent.asked().0, "diag_services");
        begun
    };
    let calls = [
        (call(&[]), "convoke audit list --agent pc-1"),
        (call(&["--idempotency-key", "k"]), "with the same idempotency key"),
    ];
    hub.server.signal("KILL");
    for (mut call, next) in calls {
        let told = call.told("the call may have run");
        assert!(told.contains(next), "{told}");
        assert_eq!(call.end().code(), Some(3));
    }
}

#[test]
fn a_follower_sees_lines_as_they_come() {
    let hub = Hub::start();
    let follower = crate::support::Server::start(&mut hub.verb(&["logs", "--follow"]));
    let sees = |agent: &str| loop {
        let line = follower.line();
        if line.contains(agent) && line.contains("almost full") {
            break;
        }
    };
    let agent = Agent::join(&hub, "pc-1");
    sees("pc-1");
    // The same after a restart, at another port.
    drop(agent);
    let hub = hub.restart(&[]);
    let _agent = Agent::join(&hub, "pc-2");
    sees("pc-2");
}

#[test]
fn a_follower_ends_when_nobody_reads_it() {
    let hub = Hub::start();
    let mut command = hub.verb(&["logs", "--follow"]);
    let mut follower = command.stdout(std::process::Stdio::piped()).spawn().expect("runs");
    drop(follower.stdout.take());
    // There is no line that it could fail to write. Only a failure waits so long.
    let (done, ended) = std::sync::mpsc::channel();
    let pid = follower.id();
    std::thread::spawn(move || done.send(follower.wait().expect("ends").success()));
    let ended = ended.recv_timeout(std::time::Duration::from_secs(30));
    if ended.is_err() {
        let _ = std::process::Command::new("kill").arg(pid.to_string()).status();
    }
    assert_eq!(ended, Ok(true));
}

#[test]
fn deny_rules_are_added_and_enforced() {
    let hub = Hub::start();
    let _agent = Agent::join(&hub, "pc-1");
    let add = ["policy", "add", "--id", "no-uptime", "--applies-to", "posix", "--pattern", r"\buptime\b", "--reason"];
    hub.run(&[&add[..], &["not today"]].concat()).ok().says("at kenny agents of version 0.14 and newer");
    hub.run(&["policy", "list"]).ok().says("no-uptime").says("not today").says("built in");
    let call = ["call", "pc-1", "shell_exec", "--args", r#"{"command":"uptime"}"#];
    hub.run(&call).code(1).notes("not today").notes("blocked");
    hub.run(&["policy", "remove", "no-uptime"]).ok();
    hub.run(&call).ok();
    hub.run(&["policy", "remove", "no-uptime"]).code(1).notes("rule `no-uptime` does not exist");
    let bad = ["policy", "add", "--id", "x", "--applies-to", "posix", "--pattern", "(", "--reason", "r"];
    hub.run(&bad).code(1).notes("bad_request");
}

#[test]
fn tokens_are_minted_narrowed_and_revoked() {
    let hub = Hub::start();
    let _agent = Agent::join(&hub, "pc-1");
    let create = ["tokens", "create", "anna", "--role", "viewer", "--agents", "pc-*", "--expires", "30d"];
    let token = hub.run(&create).ok().stdout.trim().to_owned();
    hub.run(&create).code(1).notes("conflict");
    hub.run(&["tokens", "list"]).ok().says("anna").says("agents pc-*").says("in 29 d");
    hub.run_as(&token, &["agents", "list"]).ok().says("pc-1");
    let manage = ["call", "pc-1", "shell_exec", "--args", r#"{"command":"id"}"#];
    hub.run_as(&token, &manage).code(1).notes("needs the role operator");
    hub.run_as(&token, &["tokens", "list"]).code(1).notes("forbidden");
    hub.run(&["tokens", "revoke", "anna"]).ok().says("anna is revoked");
    hub.run_as(&token, &["agents", "list"]).code(1).notes("is not valid");
    hub.run(&["tokens", "revoke", "nobody"]).code(1).notes("token `nobody` does not exist");
    // As with every other name that the hub does not know.
    hub.run(&["agents", "show", "nobody"]).code(1);
}

#[test]
fn what_the_command_line_lacks_is_told_as_json_to_a_program() {
    for (line, word) in [
        ("calls show nope --json", "nope"),
        ("--json tokens create n --role boss", "operator"),
        ("call pc fs_list --timeout 0 --json", "--timeout"),
        ("agents --json", "requires a subcommand"),
        ("--json agents", "no command"),
        ("agents lst --json", "list"),
        ("agent run --json --nope", "--nope"),
    ] {
        let done = Done::of(&mut convoke(line.split(' '))).code(2);
        let error: serde_json::Value =
            serde_json::from_str(&done.stderr).unwrap_or_else(|why| panic!("{why}: {}", done.stderr));
        let message = error["error"]["message"].as_str().expect("a message");
        assert_eq!((error["error"]["code"].as_str(), done.stdout.as_str()), (Some("usage"), ""), "{line}");
        assert!(
            message.contains(word) && !message.starts_with("error:") && !message.contains("For more"),
            "{message}"
        );
    }
    for line in ["calls show nope", "call pc fs_list --timeout 0 -- --json"] {
        Done::of(&mut convoke(line.split(' '))).code(2).notes("error: ");
    }
    Done::of(&mut convoke(["agents", "--help", "--json"])).ok().says("Usage:");
    Done::of(&mut convoke(["--version", "--json"])).ok().says("convoke ");
}
