//! The journal, backups and keys.

use std::path::Path;

use crate::support::{Agent, Done, Hub, Server, convoke};

fn on(data: &Path, args: &[&str]) -> std::process::Command {
    let mut command = convoke(args);
    command.arg("--data").arg(data);
    command
}

#[test]
fn the_journal_is_listed_exported_and_verified() {
    let hub = Hub::start();
    let _agent = Agent::join(&hub, "pc-1");
    hub.run(&["call", "pc-1", "shell_exec", "--args", r#"{"command":"uptime"}"#]).ok();
    hub.run(&["audit", "list", "--kind", "call"]).ok().says("shell_exec").says("intent").says("outcome");
    let records = hub.run(&["audit", "list", "--agent", "pc-1", "--tool", "shell_exec", "--json"]).ok().json();
    assert_eq!(records["records"].as_array().map(Vec::len), Some(2));
    let limited = hub.run(&["audit", "list", "--limit", "1", "--after", "1", "--json"]).ok().json();
    assert_eq!(limited["records"][0]["seq"], 2);
    assert_eq!(limited["records"].as_array().map(Vec::len), Some(1));

    // While the hub runs: from its directory, and over the network.
    hub.run(&["audit", "verify"]).ok().says("holds");
    let token = hub.ready["operator_token"].as_str().expect("a token").to_owned();
    let local = hub.beside("local.jsonl").display().to_string();
    let remote = hub.beside("remote.jsonl").display().to_string();
    hub.run(&["audit", "export", &local]).ok();
    hub.run(&["audit", "export", &local]).code(1).notes("cannot create the file");
    hub.run_as(&token, &["audit", "export", &remote]).ok();
    for file in [&local, &remote] {
        Done::of(&mut convoke(["audit", "verify", file])).ok().says("holds");
    }
    let whole = hub.run(&["audit", "export", "-"]).ok().stdout;
    assert!(whole.lines().count() > 3);

    let key = hub.ready["kenny_public_key"].as_str().expect("a key").to_owned();
    let dir = hub.stop();
    let data = dir.path().join("data");
    let good = Done::of(on(&data, &["audit", "verify", "--json"]).args(["--public-key", &key])).ok().json();
    assert_eq!(good["signed_up_to"], good["records"]);
    let place = good["last"].as_str().expect("a place");
    Done::of(&mut on(&data, &["audit", "verify", "--checkpoint", place])).ok();
    // The place is not in a journal that was exported before.
    Done::of(&mut convoke(["audit", "verify", &local, "--checkpoint", place])).code(1).notes("cut off");
    let other = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    Done::of(&mut on(&data, &["audit", "verify", "--public-key", other])).code(1).notes("another key");
}

#[test]
fn an_export_over_the_network_has_the_signatures_too() {
    let hub = Hub::start();
    let token = hub.ready["operator_token"].as_str().expect("a token").to_owned();
    // A hub that stops signs the end of its journal.
    let hub = hub.restart(&[]);
    let whole = hub.run_as(&token, &["audit", "export", "-"]).ok().stdout;
    assert!(whole.contains(r#"{"checkpoint":{"#), "{whole}");
    assert_eq!(whole, {
        let file = hub.beside("remote.jsonl").display().to_string();
        hub.run_as(&token, &["audit", "export", &file]).ok();
        Done::of(&mut convoke(["audit", "verify", &file])).ok().says("holds");
        let again = std::fs::read_to_string(&file).expect("the export");
        let (_, records) = again.split_once('\n').expect("a header");
        format!("{}\n{records}", whole.lines().next().expect("a header"))
    });
}

#[test]
fn a_token_that_sees_some_records_exports_none() {
    let hub = Hub::start();
    let _agent = Agent::join(&hub, "pc-1");
    hub.run(&["call", "pc-1", "fs_list", "--args", r#"{"path":"/tmp"}"#]).ok();
    let narrow = hub.run(&["tokens", "create", "narrow", "--role", "operator", "--agents", "pc-1"]).ok().stdout;
    let file = hub.beside("some.jsonl");
    let shown = file.display().to_string();
    hub.run_as(narrow.trim(), &["audit", "export", &shown]).code(1).notes("sees only some agents,");
    // The same token, of the hub in this directory.
    let flags = ["audit", "export", shown.as_str(), "--token", narrow.trim()];
    hub.run(&flags).code(1).notes("sees only some agents,");
    assert!(!file.exists(), "half a journal would be taken for one");
}

#[test]
fn what_works_on_files_here_takes_no_hubs_address() {
    let hub = Hub::start();
    let file = hub.beside("never").display().to_string();
    for verb in [&["keys", "rotate"][..], &["backup", "create", &file], &["audit", "verify"]] {
        hub.run(&[verb, &["--hub", "http://127.0.0.1:1"]].concat()).code(2).notes("remove --hub");
        hub.run(&[verb, &["--token", "x"]].concat()).code(2).notes("remove --token");
    }
    let data = hub.data().display().to_string();
    let elsewhere =
        |args: &[&str]| Done::of(convoke(args).env("CONVOKE_HUB", "http://127.0.0.1:1").env("CONVOKE_DATA", &data));
    elsewhere(&["audit", "verify"]).ok().notes(&data);
    elsewhere(&["backup", "create", &file]).ok().notes(&data);
    let json = elsewhere(&["backup", "create", &format!("{file}-2"), "--json"]).ok().json();
    assert_eq!(json["data"], *data);
    let _dir = hub.stop();
    elsewhere(&["keys", "rotate"]).ok().notes(&data).says(&data);
}

#[test]
fn a_changed_byte_is_found() {
    let hub = Hub::start();
    let _agent = Agent::join(&hub, "pc-1");
    hub.run(&["call", "pc-1", "fs_list", "--args", r#"{"path":"/find/this/one"}"#]).ok();
    let dir = hub.stop();
    let data = dir.path().join("data");
    let file = data.join("hub.db");
    let mut bytes = std::fs::read(&file).expect("the database");
    let needle = b"/find/this/one";
    let at = bytes.windows(needle.len()).position(|window| window == needle).expect("the record");
    bytes[at + 1] ^= 1;
    std::fs::write(&file, bytes).expect("written");
    Done::of(&mut on(&data, &["audit", "verify"])).code(1).notes("does not hold: record");
    // Nor is an export made of it: it would be kept for one that holds.
    let export = dir.path().join("export.jsonl");
    Done::of(&mut on(&data, &["audit", "export", &export.display().to_string()]))
        .code(1)
        .notes("does not hold: record");
    assert!(!export.exists());
    let none = Done::of(&mut on(&data, &["audit", "export", "-"])).code(1).notes("does not hold: record");
    assert_eq!(none.stdout, "");
    let json = Done::of(&mut on(&data, &["audit", "verify", "--json"])).code(1).json();
    assert_eq!(json["ok"], false);
    assert!(json["seq"].is_u64(), "{json}");
}

#[test]
fn a_backup_is_made_checked_and_restored() {
    let hub = Hub::start();
    let _agent = Agent::join(&hub, "pc-1");
    let key = hub.ready["kenny_public_key"].clone();
    let token = hub.ready["operator_token"].as_str().expect("a token").to_owned();
    let file = hub.beside("with.backup").display().to_string();
    let create = ["backup", "create", &file, "--with-key"];
    hub.run(&create).code(2).notes("CONVOKE_PASSPHRASE");
    Done::of(hub.verb(&create).env("CONVOKE_PASSPHRASE", "correct horse")).ok().says("backed up");
    Done::of(hub.verb(&create).env("CONVOKE_PASSPHRASE", "correct horse")).code(1).notes("already there");
    let bare = hub.beside("without.backup").display().to_string();
    hub.run(&["backup", "create", &bare]).ok().notes("does not contain the data key");
    Done::of(&mut convoke(["backup", "verify", &file])).ok().says("is complete");
    let opens = |file: &str, passphrase: &str| {
        Done::of(convoke(["backup", "verify", file, "--with-key"]).env("CONVOKE_PASSPHRASE", passphrase))
    };
    opens(&file, "correct horse").ok().says("the passphrase opens its data key");
    opens(&file, "wrong").code(1).notes("the passphrase does not open");
    opens(&bare, "correct horse").code(1).notes("does not contain the data key");

    let restored = hub.beside("restored");
    Done::of(&mut convoke(["backup", "restore", &file])).code(2).notes("--data");
    let restore = |passphrase: &str| {
        Done::of(on(&restored, &["backup", "restore", &file]).env("CONVOKE_PASSPHRASE", passphrase))
    };
    restore("wrong").code(1).notes("passphrase");
    restore("correct horse").ok().says("restored");
    restore("correct horse").code(1).notes("is not empty");
    let second = Server::start(&mut Hub::command(&restored));
    let ready: serde_json::Value = serde_json::from_str(&second.line()).expect("JSON");
    assert_eq!(ready["kenny_public_key"], key);
    Done::of(on(&restored, &["agents", "list"]).env("CONVOKE_TOKEN", &token)).ok().says("pc-1").says("trusted");

    let keyless = hub.beside("keyless");
    Done::of(&mut on(&keyless, &["backup", "restore", &bare])).ok().notes("put the data key");
    Done::of(&mut Hub::command(&keyless)).code(1).notes("data.key");
    let mut bytes = std::fs::read(&file).expect("the backup");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, bytes).expect("written");
    Done::of(&mut convoke(["backup", "verify", &file])).code(1).notes("no usable backup");
}

#[test]
fn the_data_key_is_replaced_while_the_hub_is_down() {
    let hub = Hub::start();
    hub.run(&["keys", "show"]).ok().says(hub.ready["kenny_public_key"].as_str().expect("a key"));
    hub.run(&["keys", "rotate"]).code(1).notes("in use by process");
    let before = std::fs::read(hub.data().join("data.key")).expect("the key");
    let key = hub.ready["kenny_public_key"].clone();
    let dir = hub.stop();
    let data = dir.path().join("data");
    let done = Done::of(&mut on(&data, &["keys", "rotate"])).ok().says("with a new data key");
    done.says(&data.display().to_string()).notes("is kept in").notes("data.key.");
    assert_ne!(std::fs::read(data.join("data.key")).expect("the key"), before);
    let again = Server::start(&mut Hub::command(&data));
    let ready: serde_json::Value = serde_json::from_str(&again.line()).expect("JSON");
    assert_eq!(ready["kenny_public_key"], key);
    Done::of(&mut on(&data, &["agents", "list"])).ok();
    drop(again);
    // A key that is in force from outside is the operator's to keep, whatever is in the file.
    let given = std::fs::read_to_string(data.join("data.key")).expect("the key");
    std::fs::write(data.join("data.key"), &before).expect("written");
    let done = Done::of(on(&data, &["keys", "rotate"]).env("CONVOKE_DATA_KEY", given.trim())).ok();
    done.notes("need the old key: keep it").notes("held another key that was not in use. It is kept in");
}
