//! `cp`: files from a machine and to one, with a real agent.

use std::fs;
use std::path::Path;

use crate::endpoint::{Endpoint, until_online};
use crate::support::{Done, Hub, Server};

/// A hub, its machine `pc-1`, and two folders: what is there, and what is here.
struct Setup {
    hub: Hub,
    _agent: Server,
    there: std::path::PathBuf,
    here: std::path::PathBuf,
}

fn setup() -> Setup {
    let hub = Hub::start();
    let endpoint = Endpoint::at(&hub, "agent");
    endpoint.enrol(&hub, "pc-1");
    let agent = endpoint.run(&[]);
    until_online(&hub, "pc-1");
    let [there, here] = ["there", "here"].map(|name| hub.beside(name));
    for folder in [&there, &here] {
        fs::create_dir(folder).expect("made");
    }
    Setup { hub, _agent: agent, there, here }
}

fn at(path: &Path) -> String {
    format!("pc-1:{}", path.display())
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("reads");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    names
}

#[test]
fn a_file_comes_and_goes_whole_in_one_recorded_call() {
    let Setup { hub, there, here, .. } = &setup();
    let big: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).take(3 << 20).collect();
    fs::write(there.join("big"), &big).expect("written");
    fs::write(here.join("empty"), "").expect("written");
    let to = |name: &str| here.join(name).display().to_string();
    hub.run(&["cp", &at(&there.join("big")), &here.display().to_string()]).ok().says("3.0 MiB");
    assert!(fs::read(here.join("big")).expect("reads") == big, "the same bytes");
    hub.run(&["cp", &to("empty"), &format!("{}/", at(there))]).ok();
    hub.run(&["cp", &to("big"), &at(&there.join("back"))]).ok();
    assert!(fs::read(there.join("back")).expect("reads") == big, "the same bytes");
    let shown = hub.run(&["cp", &at(&there.join("empty")), "-"]).ok();
    assert_eq!(shown.stdout, "");
    let json = hub.run(&["cp", "--json", &at(&there.join("empty")), &to("again")]).ok().json();
    assert_eq!(json["result"]["size"], 0);
    assert_eq!(names(there), ["back", "big", "empty"]);
    assert_eq!(names(here), ["again", "big", "empty"]);

    let records = hub.run(&["audit", "list", "--tool", "file_put", "--json"]).ok().json();
    let records = records["records"].as_array().expect("records").clone();
    assert_eq!(records.len(), 4, "an intent and an outcome for each: {records:?}");
    let (intent, outcome) = (&records[2], &records[3]);
    assert_eq!(intent["args"]["size"], 3 << 20);
    assert_eq!(outcome["detail"]["sha256"], intent["args"]["sha256"]);
}

#[test]
fn what_cannot_be_copied_is_told_and_leaves_nothing() {
    let Setup { hub, there, here, .. } = &setup();
    fs::write(here.join("x"), "x").expect("written");
    let key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n";
    fs::write(there.join("notes"), format!("{}{key}", "a\n".repeat(200_000))).expect("written");
    std::os::unix::fs::symlink(there.join("notes"), there.join("link")).expect("linked");
    let (x, into) = (here.join("x").display().to_string(), here.display().to_string());
    for (from, to, expect) in [
        (at(&there.join("nothing")), into.clone(), "not_found"),
        (at(there), into.clone(), "a directory"),
        (at(&there.join("notes")), into.clone(), "private key"),
        (at(&there.join("link")), into.clone(), "private key"),
        (at(Path::new("/etc/shadow")), into.clone(), "path_shadow"),
        (x.clone(), at(there), "is a directory"),
        (x.clone(), at(&there.join("link")), "symbolic link"),
        (x.clone(), at(&there.join("no/such/folder")), "not_found"),
        (x.clone(), at(&hub.beside("agent").join("agent.toml")), "agent's own files"),
        (x.clone(), at(&hub.data().join("convoke.toml")), "data of this hub"),
    ] {
        hub.run(&["cp", &from, &to]).code(1).notes(expect);
    }
    for (from, to, expect) in [
        (x.clone(), into.clone(), "neither is on a machine"),
        (at(there), at(there), "both are on machines"),
        (x.clone(), "pc-1:relative".into(), "whole path"),
        (into.clone(), at(there), "packed first"),
        (here.join("nothing").display().to_string(), at(there), "cannot read"),
        (at(&there.join("notes")), "/no/such/folder/x".into(), "cannot write"),
    ] {
        hub.run(&["cp", &from, &to]).code(2).notes(expect);
    }
    hub.run(&["call", "pc-1", "file_get", "path=/etc/hostname", "url=http://127.0.0.1:1/d/file/x"])
        .code(1)
        .notes("file_link");
    let viewer = hub.run(&["tokens", "create", "vera", "--role", "viewer"]).ok().stdout.trim().to_owned();
    hub.run_as(&viewer, &["cp", &at(&there.join("notes")), &into]).code(1).notes("viewer");
    hub.run_as(&viewer, &["cp", &x, &at(&there.join("y"))]).code(1).notes("operator");
    assert_eq!(names(there), ["link", "notes"]);
    assert_eq!(names(here), ["x"]);
}

#[test]
fn a_copy_waits_for_its_person() {
    let Setup { hub, there, here, .. } = &setup();
    hub.run(&["policy", "confirm", "add", "--id", "ask", "--tools", "file_put"]).ok();
    let bela = hub.run(&["tokens", "create", "bela", "--role", "viewer", "--approve"]).ok().stdout.trim().to_owned();
    fs::write(here.join("x"), "hello").expect("written");
    let x = here.join("x").display().to_string();
    let mut copy = Server::start(&mut hub.verb(&["cp", &x, &at(&there.join("x"))]));
    let told = copy.told("approvals approve");
    let approval = told.split_once("approvals approve ").expect("told").1.split_whitespace().next().expect("an id");
    assert_eq!(names(there), Vec::<String>::new());
    hub.run(&["approvals", "list"]).ok().says("file_put").says("sha256");
    hub.run_as(&bela, &["approvals", "approve", approval]).ok();
    assert!(copy.line().contains("copied"));
    assert!(copy.end().success());
    assert_eq!(fs::read(there.join("x")).expect("reads"), b"hello");
    let json = hub.run(&["calls", "list", "--json"]).ok().json();
    let id = json["calls"][0]["call_id"].as_str().expect("an id").to_owned();
    let story: Done = hub.run(&["audit", "show", &id]).ok().says("by operator").says("by bela").says("ok after");
    assert!(story.stdout.contains("ask"), "the rule: {}", story.stdout);
}
