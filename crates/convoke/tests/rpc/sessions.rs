//! Sessions: files of Kward's own, names, clones, forks, exports, ends.

use convoke_models::ProviderKind;
use convoke_models::testkit::Reply;
use serde_json::{Value, json};

use crate::client::Client;
use crate::world::World;

/// A file as Kward of the contract's time wrote it: no ids, a compaction, a torn last line.
fn kward_file(world: &World) -> std::path::PathBuf {
    let text =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/kward/sessions/v1.jsonl"))
            .expect("it works");
    let path = world.sessions().join("2026-01-02T03-04-05.678Z_0b9e4c1e-5a0f-4b57-9d8e-0d1f2a3b4c5d.jsonl");
    std::fs::create_dir_all(world.sessions()).expect("it works");
    std::fs::write(&path, text.replace("WORKSPACE", world.work().to_str().expect("it works"))).expect("it works");
    path
}

#[test]
fn a_file_of_kwards_own_opens_and_goes_on() {
    let world = World::new();
    let path = kward_file(&world);
    let mut command = world.command();
    let mut client = Client::start(command.env("OPENAI_ACCESS_TOKEN", "an-access-token-of-this-test"));
    let listed = client.call("sessions/list", json!({ "workspaceRoot": world.work() }))["sessions"][0].clone();
    assert_eq!(listed["name"], "parser work");
    assert_eq!(listed["id"], "0b9e4c1e-5a0f-4b57-9d8e-0d1f2a3b4c5d");
    assert_eq!(listed["firstMessage"], "Earlier: the parser was split in two.");
    assert_eq!(listed["messageCount"], 5);
    assert_eq!(
        (&listed["depth"], &listed["isLast"], &listed["ancestorContinues"]),
        (&json!(0), &json!(true), &json!([]))
    );

    let session = client.call("sessions/resume", json!({ "path": path, "workspaceRoot": world.work() }));
    assert_eq!((&session["name"], &session["persistentId"]), (&json!("parser work"), &listed["id"]));
    let id = session["id"].as_str().unwrap().to_owned();
    let state = client.call("runtime/state", json!({ "sessionId": id }));
    assert_eq!(state["model"]["id"], "gpt-5.4", "a session keeps its model");
    let messages = client.call("sessions/transcript", json!({ "sessionId": id }))["messages"].clone();
    let roles: Vec<&str> = messages.as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["compactionSummary", "user", "assistant", "toolResult", "assistant"]);
    assert_eq!(messages[2]["content"][0], json!({ "type": "thinking", "thinking": "Look first." }));
    assert_eq!(messages[3]["details"]["changedFiles"], json!(["src/a.rb"]));
    let stats = client.call("runtime/stats", json!({ "sessionId": id }));
    assert_eq!(stats["tokens"]["total"], 1200);

    world.provider.push(Reply::text("fine").answer(ProviderKind::Codex));
    assert_eq!(client.run(&id, "go on")["status"], "completed");
    let before = client.call("sessions/transcript", json!({ "sessionId": id }))["messages"].clone();
    client.finish();
    // Whoever opens it next finds all of it: what Kward wrote, and what was said here.
    let mut command = world.command();
    let mut client = Client::start(command.env("OPENAI_ACCESS_TOKEN", "an-access-token-of-this-test"));
    let again = client.call("sessions/resume", json!({ "path": path }))["id"].clone();
    assert_eq!(client.call("sessions/transcript", json!({ "sessionId": again }))["messages"], before);
    assert_eq!(before.as_array().unwrap().len(), 7);
    client.finish();
    // Where its provider cannot be used, it goes on with the one that can.
    let mut client = world.client();
    let session = client.call("sessions/resume", json!({ "path": path }));
    let state = client.call("runtime/state", json!({ "sessionId": session["id"] }));
    assert_eq!((&state["model"]["provider"], &state["model"]["id"]), (&json!("Local"), &json!("test-model")));
    client.finish();
    // The torn line was closed, what came before is untouched, what came after can be read.
    let text = std::fs::read_to_string(&path).unwrap();
    let readable = text.lines().filter(|line| serde_json::from_str::<Value>(line).is_ok()).count();
    assert_eq!(text.lines().count() - readable, 1);
    assert!(text.lines().any(|line| line.contains("\"fine\"")));
}

#[test]
fn names_clones_and_forks_are_sessions_of_their_own() {
    let world = World::new();
    let mut client = world.client();
    let session = world.session(&mut client);
    let of = json!({ "sessionId": session });
    for (said, answered) in [("first question", "a"), ("second  question ", "b")] {
        world.says(&Reply::text(answered));
        client.run(&session, said);
    }
    let renamed = client.call("sessions/rename", json!({ "sessionId": session, "name": "  mine " }));
    assert_eq!(renamed["name"], "mine");
    let clone = client.call("sessions/clone", of.clone());
    assert_eq!((&clone["parentId"], &clone["parentPath"]), (&renamed["persistentId"], &renamed["path"]));
    assert_ne!(clone["path"], renamed["path"]);
    assert_eq!(clone["name"], "mine");
    world.says(&Reply::text("c"));
    client.run(clone["id"].as_str().unwrap(), "in the clone");
    assert_eq!(client.call("runtime/stats", of.clone())["totalMessages"], 4, "the source is unchanged");

    let messages = client.call("sessions/forkMessages", of.clone())["messages"].clone();
    assert_eq!(
        messages,
        json!([{ "entryId": "message:0", "text": "first question" }, { "entryId": "message:2", "text": "second question" }])
    );
    let fork = client.call("sessions/fork", json!({ "sessionId": session, "entryId": "message:2" }));
    assert_eq!((&fork["text"], &fork["cancelled"]), (&json!("second  question"), &json!(false)));
    let forked =
        client.call("sessions/transcript", json!({ "sessionId": fork["session"]["id"] }))["messages"].clone();
    assert_eq!(forked.as_array().unwrap().len(), 2);
    for (entry, message) in [
        ("x", "Invalid entryId: x"),
        ("message:9", "Unknown fork entryId: message:9"),
        ("message:1", "Entry is not forkable: message:1"),
    ] {
        let error = client.refused("sessions/fork", json!({ "sessionId": session, "entryId": entry }));
        assert_eq!((&error["code"], &error["message"]), (&json!(-32602), &json!(message)));
    }
    let list = client.call("sessions/list", json!({ "workspaceRoot": world.work(), "limit": 0 }))["sessions"].clone();
    let depths: Vec<u64> = list.as_array().unwrap().iter().map(|s| s["depth"].as_u64().unwrap()).collect();
    assert_eq!(depths, [0, 1, 1]);
    assert_eq!((&list[1]["isLast"], &list[2]["isLast"]), (&json!(false), &json!(true)));
    assert_eq!(client.call("sessions/rename", json!({ "sessionId": session, "name": " " }))["name"], Value::Null);

    assert_eq!(
        client.call("sessions/delete", json!({ "sessionId": clone["id"] })),
        json!({ "deleted": true, "path": clone["path"] })
    );
    assert!(!std::path::Path::new(clone["path"].as_str().unwrap()).exists());
    assert_eq!(client.call("sessions/close", of.clone()), json!({ "closed": true }));
    let error = client.refused("runtime/state", of);
    assert_eq!(error["message"], format!("Unknown session: {session}"));
    client.finish();
}

#[test]
fn a_list_has_twenty_or_all() {
    let world = World::new();
    let mut client = world.client();
    for number in 0..25 {
        client.call("sessions/create", json!({ "workspaceRoot": world.work(), "name": format!("{number}") }));
    }
    let mut count = |params: Value| client.call("sessions/list", params)["sessions"].as_array().unwrap().len();
    let root = world.work();
    assert_eq!(count(json!({ "workspaceRoot": root })), 20);
    assert_eq!(count(json!({ "workspaceRoot": root, "limit": 3 })), 3);
    assert_eq!(count(json!({ "workspaceRoot": root, "limit": 100 })), 25);
    // As clients ask that want all of them.
    assert_eq!(count(json!({ "workspaceRoot": root, "currentSessionPath": "/x" })), 25);
    client.finish();
}

#[test]
fn exports_stay_where_they_may() {
    let world = World::new();
    world.file("outside/x", "");
    let mut client = world.client();
    let session = world.session(&mut client);
    world.says(&Reply::text("<b>bold</b>"));
    client.run(&session, "show me");
    let markdown = client.call("sessions/export", json!({ "sessionId": session }));
    assert_eq!(markdown["format"], "markdown");
    assert!(markdown["path"].as_str().unwrap().ends_with(".md"));
    assert!(std::fs::read_to_string(markdown["path"].as_str().unwrap()).unwrap().contains("## User\n\nshow me"));
    let html = client.call("sessions/export", json!({ "sessionId": session, "format": "html", "path": "out.html" }));
    assert_eq!(html["path"], world.work().join("out.html").to_str().unwrap());
    assert!(std::fs::read_to_string(world.work().join("out.html")).unwrap().contains("&lt;b&gt;bold"));
    std::os::unix::fs::symlink(world.root().join("outside"), world.work().join("link")).unwrap();
    std::os::unix::fs::symlink(world.root().join("outside/x"), world.work().join("file-link")).unwrap();
    for path in ["../outside/a.md", "link/a.md", "file-link", "/tmp/kward-export-outside.md", "~/a.md"] {
        let error = client.refused("sessions/export", json!({ "sessionId": session, "path": path }));
        assert_eq!(error["code"], -32602, "{path}");
        assert_eq!(error["message"], format!("export path outside workspace or session directory: {path}"));
    }
    let error = client.refused("sessions/export", json!({ "sessionId": session, "format": "pdf" }));
    assert_eq!(error["message"], "Unsupported export format: pdf");
    let own = client.call("runtime/state", json!({ "sessionId": session }))["sessionFile"].clone();
    client.refused("sessions/export", json!({ "sessionId": session, "path": own }));
    client.finish();
}

#[test]
fn a_model_is_chosen_for_open_sessions_and_for_the_next() {
    let world = World::new();
    let mut client = world.client();
    let session = world.session(&mut client);
    let set = json!({ "sessionId": session, "settingId": "defaultModel", "value": "OpenRouter/vendor/model-x" });
    assert_eq!(
        client.call("runtime/updateSetting", set),
        json!({ "applied": "live", "message": "Model updated for this session." })
    );
    let current = client.call("models/current", json!({}));
    assert_eq!(
        (&current["provider"], &current["id"], &current["model"]),
        (&json!("OpenRouter"), &json!("vendor/model-x"), &json!("vendor/model-x"))
    );
    assert_eq!(client.call("reasoning/set", json!({ "effort": "high" }))["reasoningEffort"], "high");
    let state = client.call("runtime/state", json!({ "sessionId": session }));
    assert_eq!((&state["model"]["id"], &state["thinkingLevel"]), (&json!("vendor/model-x"), &json!("high")));
    let config = client.call("config/read", json!({}))["config"].clone();
    assert_eq!(
        (&config["provider"], &config["openrouter_model"], &config["openrouter_reasoning_effort"]),
        (&json!("openrouter"), &json!("vendor/model-x"), &json!("high"))
    );
    let listed = client.call("models/list", json!({}))["models"].clone();
    assert!(listed.as_array().unwrap().iter().any(|m| m["id"] == "vendor/model-x" && m["current"] == true));
    assert_eq!(client.call("models/set", json!({ "provider": "codex", "model": "gpt-5.4" }))["provider"], "Codex");
    for (setting, value, message) in [
        ("theme", "x", "Unsupported runtime setting: theme"),
        ("defaultModel", "", "Model must be a non-empty string"),
    ] {
        let error = client
            .refused("runtime/updateSetting", json!({ "sessionId": session, "settingId": setting, "value": value }));
        assert_eq!((&error["code"], &error["message"]), (&json!(-32602), &json!(message)));
    }
    assert_eq!(
        client.call("runtime/reload", json!({ "sessionId": session })),
        json!({ "ok": true, "message": "Resources reloaded." })
    );
    client.finish();
}
