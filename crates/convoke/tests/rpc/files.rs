//! Session files that are shared with Kward: its own open here, and what is written here has all that its reader asks for.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use convoke_models::testkit::Reply;
use serde_json::{Value, json};

use crate::world::World;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/kward/sessions");

fn fixture(name: &str) -> String {
    std::fs::read_to_string(format!("{FIXTURES}/{name}")).expect("a fixture")
}

/// Puts a file of Kward's where its workspace's sessions are.
fn place(world: &World, text: &str, name: &str) -> PathBuf {
    let path = world.sessions().join(name);
    std::fs::create_dir_all(world.sessions()).expect("it works");
    let here = |path: PathBuf| path.to_str().expect("it works").to_owned();
    let text = text.replace("WORKSPACE", &here(world.work())).replace("SESSIONS", &here(world.sessions()));
    std::fs::write(&path, text).expect("it works");
    path
}

const WHOLE: &str = "2026-03-04T05-06-07.000Z_5d0a6f2e-0c11-4a6e-8d0e-3f6b7c8d9e01.jsonl";
const COPY: &str = "2026-03-04T06-06-07.000Z_5d0a6f2e-0c11-4a6e-8d0e-3f6b7c8d9e02.jsonl";
const LOST: &str = "2026-03-04T07-06-07.000Z_5d0a6f2e-0c11-4a6e-8d0e-3f6b7c8d9e03.jsonl";

#[test]
fn a_tree_of_kwards_is_shown_as_kward_shows_it() {
    let world = World::new();
    let text = fixture("v2.jsonl");
    let (before, _) = text.trim_end().rsplit_once('\n').expect("its last line is the compaction");
    let path = place(&world, before, WHOLE);
    let mut client = world.client();
    let session = client.call("sessions/resume", json!({ "path": path }));
    assert_eq!(session["name"], "the kitchen");
    let of = json!({ "sessionId": session["id"] });
    let expected: Value = serde_json::from_str(&fixture("v2_shown.json")).unwrap();
    let shown = client.call("sessions/transcript", of.clone())["messages"].clone();
    for (at, message) in expected.as_array().unwrap().iter().enumerate() {
        assert_eq!(&shown[at], message, "message {at}");
    }
    assert_eq!(shown.as_array().unwrap().len(), expected.as_array().unwrap().len());
    let why = client.call("memory/why", of);
    assert_eq!(why["explanation"], "core_001 (1.00): Gas, not electric [scope match; core memories are preferred]");
    client.finish();
}

#[test]
fn compacted_copied_and_headless_files_of_kwards_open_and_go_on() {
    let world = World::new();
    let whole = place(&world, &fixture("v2.jsonl"), WHOLE);
    let copy = place(&world, &fixture("v2_copy.jsonl"), COPY);
    let lost = place(&world, &fixture("v2_lost_header.jsonl"), LOST);
    let mut client = world.client();
    let listed = client.call("sessions/list", json!({ "workspaceRoot": world.work() }))["sessions"].clone();
    let of =
        |id: &str| listed.as_array().unwrap().iter().find(|one| one["id"].as_str().unwrap().ends_with(id)).unwrap();
    let summary = "## Goal A kitchen. ## Files & Code ### Read - lib.rb ### Modified - ../x - lib.rb";
    for (id, name, first, count, depth) in [
        ("e01", "the kitchen", summary, 5, 0),
        ("e02", "the kitchen", summary, 7, 1),
        ("e03", "lost and found", "Is anybody there?", 2, 0),
    ] {
        let one = of(id);
        assert_eq!((&one["name"], &one["firstMessage"]), (&json!(name), &json!(first)));
        assert_eq!((&one["messageCount"], &one["depth"]), (&json!(count), &json!(depth)), "{id}");
        assert_eq!(one["cwd"], world.work().to_str().unwrap());
    }
    assert_eq!(of("e03")["createdAt"], "2026-03-04T07:06:07.000Z");

    let session = client.call("sessions/resume", json!({ "path": whole, "workspaceRoot": world.work() }));
    let refused = client.refused("sessions/compact", json!({ "sessionId": session["id"] }));
    assert_eq!(refused["message"], "Already compacted", "nothing was said since");
    for (path, count) in [(&whole, 5), (&copy, 7), (&lost, 2)] {
        let session = client.call("sessions/resume", json!({ "path": path, "workspaceRoot": world.work() }));
        let id = session["id"].as_str().unwrap().to_owned();
        world.says(&Reply::text("gladly"));
        assert_eq!(client.run(&id, "go on")["status"], "completed");
        let messages = client.call("sessions/transcript", json!({ "sessionId": id }))["messages"].clone();
        assert_eq!(messages.as_array().unwrap().len(), count + 2);
        // Kward finds the first line wherever it stands, and each entry by the one before it.
        let lines = lines(path);
        assert_eq!(lines.iter().filter(|line| line["type"] == "session").count(), 1);
        let said: Vec<&Value> = lines.iter().filter(|line| line["type"] == "message").rev().take(2).collect();
        assert_eq!(said[0]["parentId"], said[1]["id"]);
        assert!(lines.iter().any(|line| line["id"] == said[1]["parentId"]));
    }
    let last: Value =
        serde_json::from_slice(&std::fs::read(world.sessions().join("last_session.json")).unwrap()).unwrap();
    assert_eq!(last["path"], lost.to_str().unwrap());
    client.finish();
}

#[test]
fn a_file_that_kward_removes_as_empty_is_made_again() {
    let world = World::new();
    let mut client = world.client();
    let session = client.call("sessions/create", json!({ "workspaceRoot": world.work() }));
    let path = PathBuf::from(session["path"].as_str().unwrap());
    std::fs::remove_file(&path).unwrap();
    world.says(&Reply::text("here"));
    let id = session["id"].as_str().unwrap().to_owned();
    assert_eq!(client.run(&id, "are you there?")["status"], "completed");
    assert_eq!(lines(&path)[0]["id"], session["persistentId"]);
    // Once somebody has spoken, a file that is gone was deleted.
    std::fs::remove_file(&path).unwrap();
    assert_eq!(client.run(&id, "and now?")["status"], "failed");
    assert!(!path.exists());
    client.finish();
}

fn lines(path: &std::path::Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).expect("a session file");
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// How many records there are of each kind, and what members they have.
#[derive(Default)]
struct Shapes(BTreeMap<String, (usize, Members)>);

/// In how many records a member is, and with which types.
type Members = BTreeMap<String, (usize, BTreeSet<&'static str>)>;

impl Shapes {
    fn of(records: &[Value]) -> Self {
        let mut shapes = Self::default();
        for record in records {
            let kind = record["type"].as_str().expect("a kind");
            let role = record["message"]["role"].as_str();
            let name = role.map_or_else(|| kind.to_owned(), |role| format!("{kind} of {role}"));
            for (part, value) in [("", record), (".message", &record["message"]), (".result", &record["result"])] {
                shapes.see(format!("{name}{part}"), value);
            }
        }
        shapes
    }

    fn see(&mut self, name: String, value: &Value) {
        let Value::Object(members) = value else { return };
        let (count, shape) = self.0.entry(name).or_default();
        *count += 1;
        for (key, value) in members {
            let (seen, types) = shape.entry(key.clone()).or_default();
            *seen += 1;
            types.insert(type_of(value));
        }
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "text",
        Value::Array(_) => "list",
        Value::Object(_) => "object",
    }
}

#[test]
fn every_record_has_the_members_of_kwards() {
    let kwards: Vec<Value> = ["v1.jsonl", "v2.jsonl", "v2_copy.jsonl"]
        .iter()
        .flat_map(|name| fixture(name).lines().filter_map(|line| serde_json::from_str(line).ok()).collect::<Vec<_>>())
        .collect();
    let kwards = Shapes::of(&kwards);

    let world = World::new();
    world.config(&json!({ "compaction": { "keep_recent_tokens": 40 }, "memory": { "enabled": true }, "reasoning_effort": "low" }));
    world.file("work/a.txt", "one\n");
    world.file("home/.kward/prompts/plan.md", "Plan: $ARGUMENTS\n");
    let mut client = world.client();
    let session = world.session(&mut client);
    client.call("memory/addCore", json!({ "text": "we use tabs" }));
    world.says(&Reply::text("").and_call("c1", "read_file", &json!({ "path": "a.txt" })));
    let edit = json!({ "path": "a.txt", "edits": [{ "old_text": "one", "new_text": "two" }] });
    world.says(&Reply::text("now").and_call("c2", "edit_file", &edit));
    world.says(&Reply::text("").and_call("c3", "write_file", &json!({ "path": "../x", "content": "x" })));
    world.says(&Reply::text("done").and_reasoning("hm").and_usage(100, 20, 10, 0));
    client.run(&session, "/plan the day");
    world.says(&Reply::text("a dot"));
    let image = json!({ "type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png", "name": "dot.png" });
    let start = json!({ "sessionId": session, "input": "look", "attachments": [image] });
    let turn = client.call("turns/start", start)["id"].as_str().unwrap().to_owned();
    client.event(&turn, "turnFinished");
    client.call("sessions/rename", json!({ "sessionId": session, "name": "the day" }));
    world.says(&Reply::text("## Goal\nA day."));
    client.call("sessions/compact", json!({ "sessionId": session }));
    world.says(&Reply::text("still here"));
    client.run(&session, "go on");
    let clone = client.call("sessions/clone", json!({ "sessionId": session }));
    let state = client.call("runtime/state", json!({ "sessionId": session }));
    let files = [&state["sessionFile"], &clone["path"]].map(|path| PathBuf::from(path.as_str().unwrap()));
    client.finish();

    let mut beyond = BTreeSet::new();
    for file in files {
        let records = lines(&file);
        let entries: Vec<&Value> = records.iter().filter(|one| one.get("message").is_some()).collect();
        for (before, entry) in entries.iter().zip(entries.iter().skip(1)) {
            assert_eq!(entry["parentId"], before["id"], "each follows the one before it");
            assert_eq!(entry["message"]["id"], entry["id"]);
        }
        for (name, (count, shape)) in Shapes::of(&records).0 {
            let Some((all, known)) = kwards.0.get(&name) else { panic!("Kward writes no `{name}`") };
            for (key, (seen, types)) in known {
                // What every one of Kward's has, every one of ours has; the first entry has nothing before it.
                let is_needed = seen == all && key != "parentId";
                // In a copy, what a summary kept is what follows it.
                let is_needed =
                    is_needed && !(name.starts_with("message of compaction") && key == "first_kept_entry_id");
                let ours = shape.get(key);
                assert!(!is_needed || ours.is_some_and(|(seen, _)| *seen == count), "`{key}` is missing in a {name}");
                let Some((_, ours)) = ours else { continue };
                let may_be_null = matches!(key.as_str(), "name" | "lastRetrieval");
                let is_picture = name.starts_with("message of tool") && key == "content";
                let others: Vec<_> =
                    ours.difference(types).filter(|kind| !(is_picture || may_be_null && **kind == "null")).collect();
                assert!(others.is_empty(), "`{key}` of a {name} is {others:?}, Kward's is {types:?}");
            }
            beyond.extend(shape.keys().filter(|key| !known.contains_key(*key)).map(|key| format!("{name}: {key}")));
        }
    }
    // What is written beyond that. Kward's readers skip it; whoever adds to it should know that they do.
    assert_eq!(
        beyond.into_iter().collect::<Vec<_>>(),
        [
            "compaction of compactionSummary.message: first_kept_id",
            "compaction of compactionSummary.message: kept_messages",
            "message of compactionSummary.message: kept_messages",
            "message of tool.message: is_error",
            "tool_execution_end.result: firstChangedLine",
        ]
    );
}
