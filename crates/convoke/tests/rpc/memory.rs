//! Memories: on, off, added, found, told, forgotten.

use convoke_models::testkit::Reply;
use serde_json::{Value, json};

use crate::world::World;

#[test]
fn memories_reach_the_model_when_they_are_on() {
    let world = World::new();
    let mut client = world.client();
    let session = world.session(&mut client);
    let status = client.call("memory/status", json!({}));
    assert_eq!((&status["enabled"], &status["autoSummary"]), (&json!(false), &json!(false)));
    assert_eq!(client.call("memory/enable", json!({})), json!({ "enabled": true, "autoSummary": false }));
    let core = client.call("memory/addCore", json!({ "text": "remember that we use tabs", "tags": "style, rust" }));
    assert_eq!((&core["memory"]["id"], &core["memory"]["text"]), (&json!("core_001"), &json!("We use tabs")));
    let soft = client.call("memory/add", json!({ "text": "deploys go out on Friday", "scope": "workspace" }));
    let here = format!("workspace:{}", world.work().display());
    assert_eq!(soft["memory"]["scope"], here, "which workspace is known here");
    client.call("memory/add", json!({ "text": "unrelated thing", "scope": "workspace:/elsewhere" }));
    let list = client.call("memory/list", json!({}));
    let sizes = ["core", "soft", "global_core", "workspace_core", "workspace_soft"]
        .map(|key| list[key].as_array().unwrap().len());
    assert_eq!(sizes, [1, 2, 1, 0, 1]);

    world.says(&Reply::text("ok"));
    client.run(&session, "when do deploys happen?");
    let asked = world.provider.received().last().unwrap().json();
    let system = asked["messages"][0]["content"].to_string();
    assert!(
        system.contains("<kward_memory>")
            && system.contains("[core_001] We use tabs")
            && system.contains("[soft_001]"),
        "{system}"
    );
    assert!(!system.contains("unrelated"));
    let why = client.call("memory/why", json!({ "sessionId": session }));
    assert_eq!(why["reasons"][1]["reasons"], json!(["scope match", "text overlap: deploys", "confidence 0.65"]));
    assert!(why["explanation"].as_str().unwrap().contains("soft_001"));
    assert_eq!(client.call("memory/why", json!({}))["reasons"], why["reasons"]);

    let promoted = client.call("memory/promote", json!({ "id": "soft_001" }));
    assert_eq!(promoted["memory"]["id"], "core_002");
    assert_eq!(client.call("memory/forget", json!({ "id": "core_001" })), json!({ "forgotten": true }));
    assert_eq!(client.call("memory/forget", json!({ "id": "core_001" })), json!({ "forgotten": false }));
    let inspect = client.call("memory/inspect", json!({}));
    assert_eq!(inspect["soft"][0]["text"], "[forgotten]");
    assert_eq!(inspect["core"].as_array().unwrap().len(), 1);
    assert_eq!(client.call("memory/disable", json!({})), json!({ "enabled": false, "autoSummary": false }));
    world.says(&Reply::text("ok"));
    client.run(&session, "when do deploys happen?");
    assert!(!world.provider.received().last().unwrap().json().to_string().contains("kward_memory"));
    client.finish();
}

#[test]
fn a_model_may_word_what_is_kept() {
    let world = World::new();
    world.config(&json!({ "memory": { "enabled": true, "rewrite": true } }));
    let mut client = world.client();
    let session = world.session(&mut client);
    let of = json!({ "sessionId": session });
    world.says(&Reply::text("ok"));
    client.run(&session, "We always run clippy before a commit.");
    world.says(&Reply::text("The team runs clippy before each commit"));
    let made = client.call("memory/summarize", of.clone())["memories"].clone();
    assert_eq!(made[0]["text"], "The team runs clippy before each commit");
    assert_eq!(world.provider.received().last().unwrap().json()["max_tokens"], 100);
    world.says(&Reply::text("The team runs clippy before each commit"));
    assert_eq!(client.call("memory/summarize", of.clone()), json!({ "memories": [] }), "known already");
    // A model that cannot be asked changes nothing: the person's own words are kept.
    let made = client.call("memory/summarize", of)["memories"].clone();
    assert_eq!(made[0]["text"], "We always run clippy before a commit");
    client.finish();
}

#[test]
fn what_a_person_says_about_their_habits_is_kept_when_they_want_it() {
    let world = World::new();
    let mut client = world.client();
    let session = world.session(&mut client);
    world.says(&Reply::text("ok"));
    client.run(&session, "We always run clippy before a commit. What is 2+2?");
    let made = client.call("memory/summarize", json!({ "sessionId": session }));
    assert_eq!(made["memories"][0]["text"], "We always run clippy before a commit");
    assert_eq!(made["memories"][0]["source"], "inferred");
    assert_eq!(
        client.call("memory/summarize", json!({ "sessionId": session })),
        json!({ "memories": [] }),
        "known already"
    );

    client.call("memory/enable", json!({}));
    assert_eq!(client.call("memory/autoSummary/enable", json!({})), json!({ "enabled": true, "autoSummary": true }));
    world.says(&Reply::text("ok"));
    client.run(&session, "We usually deploy from main.");
    // It is quiet, and comes after the turn's end: the end of the process waits for it.
    client.finish();
    let soft = std::fs::read_to_string(world.config_dir().join("memory/soft.jsonl")).unwrap();
    let texts: Vec<Value> =
        soft.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["text"].clone()).collect();
    assert!(texts.contains(&json!("We usually deploy from main")), "{texts:?}");
}
