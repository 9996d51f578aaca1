//! Summaries in the place of old messages.

use convoke_models::testkit::{Answer, Reply};
use serde_json::{Value, json};

use crate::client::Client;
use crate::world::World;

fn session_event(client: &mut Client, kind: &str) -> Value {
    client.wait(kind, |frame| frame["method"] == "session/event" && frame["params"]["type"] == kind)["params"].clone()
}

#[test]
fn a_conversation_is_compacted_and_survives_a_restart() {
    let world = World::new();
    world.config(&json!({ "compaction": { "keep_recent_tokens": 10 } }));
    world.file("work/a.txt", "x\n");
    let mut client = world.client();
    let session = world.session(&mut client);
    let of = json!({ "sessionId": session });
    assert_eq!(client.refused("sessions/compact", of.clone())["message"], "Nothing to compact");
    world.says(&Reply::text("").and_call("c1", "read_file", &json!({ "path": "a.txt" })));
    world.says(&Reply::text("I read it, and there is not much in it to speak of."));
    client.run(&session, "read a.txt please, and tell me what is in it");
    world.says(&Reply::text("yes"));
    client.run(&session, "sure?");
    world.says(&Reply::text("## Goal\nRead.\n## Files & Code\n### Read\n- wrong\n## Next Steps\nNone"));
    let done =
        client.call("sessions/compact", json!({ "sessionId": session, "customInstructions": "look at names" }));
    assert_eq!(session_event(&mut client, "compactionStart")["payload"], json!({}));
    let end = session_event(&mut client, "compactionEnd");
    assert_eq!(end["payload"], json!({ "result": done, "aborted": false, "willRetry": false, "errorMessage": null }));
    assert_eq!(done["firstKeptEntryId"], "message:4");
    assert_eq!(done["details"], json!({ "read_files": ["a.txt"], "modified_files": [] }));
    assert!(done["tokensBefore"].as_u64().unwrap() > 10);
    assert!(done["summary"].as_str().unwrap().contains("- a.txt"));
    let asked = world.provider.received().last().unwrap().json().to_string();
    assert!(asked.contains("look at names") && asked.contains("what is in it"));
    assert_eq!(client.refused("sessions/compact", of.clone())["message"], "Already compacted");
    let before = client.call("sessions/transcript", of)["messages"].clone();
    let roles: Vec<&str> = before.as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["compactionSummary", "user", "assistant"]);
    let path = client.call("runtime/state", json!({ "sessionId": session }))["sessionFile"].clone();
    client.finish();

    let mut client = world.client();
    let again = client.call("sessions/resume", json!({ "path": path }));
    let after = client.call("sessions/transcript", json!({ "sessionId": again["id"] }))["messages"].clone();
    assert_eq!(after, before);
    // The next request begins with the summary.
    world.says(&Reply::text("ok"));
    client.run(again["id"].as_str().unwrap(), "go on");
    let asked = world.provider.received().last().unwrap().json();
    assert!(asked["messages"][1]["content"].to_string().contains("## Goal"), "{asked}");
    client.finish();
}

#[test]
fn a_summary_that_fails_changes_nothing_and_says_so() {
    let world = World::new();
    world.config(&json!({ "compaction": { "keep_recent_tokens": 1 } }));
    let mut client = world.client();
    let session = world.session(&mut client);
    world.says(&Reply::text("answer"));
    client.run(&session, "question");
    world.says(&Reply::text("  "));
    let error = client.refused("sessions/compact", json!({ "sessionId": session }));
    assert_eq!(error["message"], "Compaction produced an empty summary; context was not changed.");
    let end = session_event(&mut client, "compactionEnd");
    assert_eq!((&end["payload"]["aborted"], &end["payload"]["result"]), (&json!(true), &Value::Null));
    assert_eq!(client.call("runtime/stats", json!({ "sessionId": session }))["totalMessages"], 2);
    client.finish();
}

#[test]
fn a_long_conversation_is_compacted_by_itself_and_told() {
    let world = World::new();
    world.config(&json!({ "compaction": { "keep_recent_tokens": 50, "context_window": 12_100 } }));
    let mut client = world.client();
    let session = world.session(&mut client);
    world.says(&Reply::text("short answer"));
    client.run(&session, &"word ".repeat(500));
    world.says(&Reply::text("## Goal\nx"));
    world.says(&Reply::text("done"));
    assert_eq!(client.run(&session, "next")["status"], "completed");
    assert_eq!(session_event(&mut client, "compactionStart")["payload"]["reason"], "threshold");
    assert_eq!(session_event(&mut client, "compactionEnd")["payload"]["aborted"], false);
    client.finish();
}

#[test]
fn a_conversation_that_the_model_refuses_is_compacted_once_and_sent_again() {
    let world = World::new();
    world.config(&json!({ "compaction": { "keep_recent_tokens": 1 } }));
    let mut client = world.client();
    let session = world.session(&mut client);
    world.says(&Reply::text("first"));
    client.run(&session, "begin");
    world.provider.push(Answer::error(400, "context_length_exceeded", "too long"));
    world.says(&Reply::text("## Goal\nx"));
    world.says(&Reply::text("second"));
    assert_eq!(client.run(&session, "go on")["status"], "completed");
    let end = session_event(&mut client, "compactionEnd");
    assert_eq!((&end["payload"]["willRetry"], &end["payload"]["reason"]), (&json!(false), &json!("overflow")));
    client.finish();
}
