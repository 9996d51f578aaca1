//! A data directory of version 0.1.0 opens, with everything that was acknowledged there. `fixtures/data-0.1.0/README.md` says
//! what is in it.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use convoke_api::Client;
use convoke_core::secret::SecretText;
use ed25519_dalek::SigningKey;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::endpoint::until_online;
use crate::support::{Agent, Done, Hub, Server, convoke};

/// The last record that the hub of 0.1.0 acknowledged.
const LAST_RECORD: u64 = 129;
/// How long the tail was before the zeroes at its end were cut off.
const TAIL_LENGTH: u64 = 1_025 * 4_096;
const KEY_OF_PC_1: &[u8; 32] = b"the fixture's key of agent pc-1.";

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/data-0.1.0")
}

fn expected() -> Value {
    let text = fs::read_to_string(fixture().join("expected.json")).expect("the fixture's list");
    serde_json::from_str(&text).expect("JSON")
}

/// Text at a place in the list, such as `/tokens/vera`.
fn text(expected: &Value, place: &str) -> String {
    expected.pointer(place).and_then(Value::as_str).unwrap_or_else(|| panic!("no {place}")).to_owned()
}

/// Copies a directory as the hub had it: for its owner alone.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    fs::set_permissions(to, Permissions::from_mode(0o700)).expect("set");
    for entry in fs::read_dir(from).expect("the fixture") {
        let entry = entry.expect("the fixture");
        let copied = to.join(entry.file_name());
        if entry.file_type().expect("known").is_dir() {
            copy(&entry.path(), &copied);
        } else {
            fs::copy(entry.path(), &copied).expect("copied");
            fs::set_permissions(&copied, Permissions::from_mode(0o600)).expect("set");
        }
    }
}

/// The hub of this version, on a copy of the directory.
fn opened() -> (Hub, Value) {
    let dir = TempDir::new().expect("a directory");
    copy(&fixture(), dir.path());
    let tail = File::options().write(true).open(dir.path().join("data/hub.db-tail")).expect("the tail");
    tail.set_len(TAIL_LENGTH).expect("grown");
    (Hub::start_in(dir, &[]), expected())
}

/// A list of the hub, each entry as the fields that are named, with a space between them.
fn list(hub: &Hub, verb: &[&str], name: &str, fields: &[&str]) -> Vec<String> {
    let answer = hub.run(&[verb, &["--json"]].concat()).ok().json();
    let entries = answer[name].as_array().unwrap_or_else(|| panic!("no {name}: {answer}")).clone();
    let field = |entry: &Value, name: &str| {
        let value = entry.pointer(&format!("/{name}")).unwrap_or_else(|| panic!("no {name}: {entry}"));
        value.as_str().map_or_else(|| value.to_string(), str::to_owned)
    };
    let line = |entry: &Value| fields.iter().map(|name| field(entry, name)).collect::<Vec<_>>().join(" ");
    entries.iter().map(line).collect()
}

fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort();
    lines
}

#[test]
fn every_acknowledged_record_is_in_the_journal() {
    let (hub, expected) = opened();
    hub.run(&["audit", "verify"]).ok().says("holds");
    let answer = hub.run(&["audit", "list", "--limit", "1000", "--json"]).ok().json();
    let records = answer["records"].as_array().expect("a list");
    let numbers: Vec<u64> = records.iter().filter_map(|record| record["seq"].as_u64()).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    assert!(numbers.len() as u64 > LAST_RECORD, "the start ends the call that was under way");
    let outcome = |call: &str| {
        records.iter().find(|r| r["phase"] == "outcome" && r["call_id"] == call).map(|r| r["outcome"].clone())
    };
    for call in expected["calls"]["answered"].as_array().expect("a list") {
        assert_eq!(outcome(call.as_str().expect("an id")), Some("ok".into()), "{call} was answered");
    }
    let open = records.iter().find(|r| r["args"]["command"] == "never ends").expect("its intent");
    assert_eq!(outcome(open["call_id"].as_str().expect("an id")), Some("interrupted".into()));

    // After a clean stop it holds to its end, under the key that the hub had.
    let dir = hub.stop();
    assert!(!dir.path().join("data/hub.db-tail").exists(), "the database has the tail's records");
    let mut verify = convoke(["audit", "verify", "--json", "--public-key", &text(&expected, "/kenny_public_key")]);
    let verdict = Done::of(verify.arg("--data").arg(dir.path().join("data"))).ok().json();
    assert_eq!(verdict["signed_up_to"], verdict["records"], "{verdict}");
}

#[test]
fn agents_tokens_and_policy_are_as_they_were() {
    let (hub, expected) = opened();
    assert_eq!(hub.ready["kenny_public_key"], expected["kenny_public_key"], "the data key opens the hub's own");
    assert_eq!(
        list(&hub, &["agents", "list", "--protocol", "kenny"], "agents", &["id", "trust", "tags"]),
        [r#"local trusted ["lab"]"#, r#"pc-1 trusted ["lab","windows"]"#, "pc-2 revoked []", "pc-3 pending []"]
    );
    let sonde = list(&hub, &["agents", "list", "--protocol", "sonde"], "agents", &["meta/hostname", "trust"]);
    assert_eq!(sorted(sonde), ["sim-0 trusted", "sim-1 trusted", "tls-0 trusted"]);
    hub.run(&["agents", "show", "pc-1"]).ok().says("TEST-PC").says("crit");
    hub.run(&["logs", "--agent", "pc-1"]).ok().says("almost full");

    let tokens = list(&hub, &["tokens", "list"], "tokens", &["name", "role"]);
    assert_eq!(
        tokens,
        [
            "asker operator",
            "gone admin",
            "narrow operator",
            "operator admin",
            "second-admin admin",
            "short viewer",
            "vera viewer",
        ]
    );
    let as_token = |name: &str, args: &[&str]| hub.run_as(&text(&expected, &format!("/tokens/{name}")), args);
    for name in ["asker", "operator", "second-admin", "vera"] {
        as_token(name, &["agents", "list"]).ok().says("pc-2");
    }
    as_token("gone", &["agents", "list"]).code(1).notes("token");
    let seen = as_token("narrow", &["agents", "list"]).ok().says("pc-1");
    assert!(!seen.stdout.contains("pc-2"), "{}", seen.stdout);

    hub.run(&["policy", "list"]).ok().says("no-shutdown").says("the fixture stays on");
    assert!(!hub.run(&["policy", "list"]).ok().stdout.contains("was-removed"));
    hub.run(&["policy", "confirm", "list"]).ok().says("asker-asks").says("mcp-needs-a-person");
}

#[test]
fn what_waited_for_a_person_is_decided_and_runs() {
    let (hub, expected) = opened();
    let key = text(&expected, "/kenny_public_key");
    let agent = Agent::connect(&hub, "pc-1", SigningKey::from_bytes(KEY_OF_PC_1), &key, None);
    let of = |name: &str| text(&expected, &format!("/approvals/{name}"));
    let states = list(&hub, &["approvals", "list", "--all"], "approvals", &["id", "state"]);
    let known = ["used", "denied", "pending"].map(|name| format!("{} {name}", of(name)));
    assert_eq!(sorted(states), sorted(known.into()));

    let vera = text(&expected, "/tokens/vera");
    for decided in ["used", "denied"] {
        hub.run_as(&vera, &["approvals", "approve", &of(decided)]).code(1).notes("conflict");
    }
    hub.run_as(&text(&expected, "/tokens/asker"), &["approvals", "approve", &of("pending")]).code(1);
    hub.run_as(&vera, &["approvals", "approve", &of("pending")]).ok().says("approved");
    let done = hub.run(&["calls", "show", &text(&expected, "/calls/pending"), "--wait"]).ok();
    assert_eq!(done.stdout, "ran was pending\n");
    assert_eq!(agent.asked(), ("shell_exec".to_owned(), json!({ "command": "was pending" })));

    // The same idempotency key is answered with the outcome of then.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let client = Client::new(hub.http(), SecretText::new(text(&expected, "/tokens/operator"))).expect("a client");
    let body = json!({ "tool": "shell_exec", "args": { "command": "once" }, "idempotency_key": "fixture-once" });
    let again: Value = runtime.block_on(client.post("/api/agents/pc-1/call", &body)).expect("answered");
    assert_eq!((&again["call_id"], &again["ok"]), (&expected["calls"]["once"], &json!(true)), "{again}");
    hub.run(&["audit", "verify"]).ok();
}

#[test]
fn clients_rooms_and_an_agent_come_back_with_the_keys_they_have() {
    let (hub, _) = opened();
    assert_eq!(
        list(&hub, &["clients", "list"], "clients", &["identifier", "state"]),
        ["a paired", "b paired", "c unpaired", "d revoked"]
    );
    assert_eq!(list(&hub, &["rules", "list"], "rules", &["rule"]), ["chat", "note", "hook", "deploy"]);
    assert_eq!(
        list(&hub, &["messages", "list"], "messages", &["sender", "content"]),
        ["a first note", "a second::note"]
    );
    let ws = format!("{}/yonexus", hub.http().replace("http", "ws"));
    let client = |id: &str, args: &[&str]| {
        let mut command = convoke(args);
        command.args(["--hub", &ws, "--state"]).arg(hub.data().join("clients").join(format!("{id}.json")));
        command.stdin(Stdio::null());
        command
    };
    let b = Server::start(&mut client("b", &["client", "run"]));
    assert_eq!(b.line(), "chat::kept for b");
    Done::of(&mut client("a", &["client", "send", "chat", "hello"])).ok();
    assert_eq!(b.line(), "chat::a::hello");

    assert_eq!(list(&hub, &["room", "list"], "rooms", &["name"]), ["door", "standup"]);
    let hears = Server::start(&mut hub.verb(&["room", "observe", "--room", "standup"]));
    hears.told("in the room");
    let key = hub.beside("room-agent.jwk").display().to_string();
    hub.run(&["room", "say", "--room", "standup", "--name", "bot", "--key", &key, "hello"]).ok();
    assert_eq!(hears.line(), "<bot> hello");

    let tunnel = format!("{}/agent/ws", hub.http().replace("http", "ws"));
    let mut run = convoke(["agent", "run", "--hub", &tunnel, "--state"]);
    let mut agent = Server::start(run.arg(hub.data().join("agent")));
    until_online(&hub, "local");
    hub.run(&["call", "local", "shell_exec", "--args", r#"{"command":"echo still here"}"#]).ok().says("still here");
    agent.signal("TERM");
    assert!(agent.end().success());
}
