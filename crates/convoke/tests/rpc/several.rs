//! Several processes on one directory, one of them killed.

use convoke_models::testkit::{Answer, Gate, Reply, Step};
use serde_json::{Value, json};

use crate::world::World;

#[test]
fn an_empty_session_of_one_process_survives_the_others() {
    let world = World::new();
    let mut one = world.client();
    let session = world.session(&mut one);
    let mut two = world.client();
    // The other process lists, opens sessions of its own and ends: none of that takes the first one's file.
    two.call("sessions/list", json!({ "workspaceRoot": world.work() }));
    let other = world.session(&mut two);
    let again = world.session(&mut two);
    assert_eq!(
        two.refused("runtime/state", json!({ "sessionId": other }))["message"],
        format!("Unknown session: {other}")
    );
    two.call("sessions/close", json!({ "sessionId": again }));
    two.finish();
    world.says(&Reply::text("ok"));
    assert_eq!(one.run(&session, "hi")["status"], "completed");
    let list = one.call("sessions/list", json!({ "workspaceRoot": world.work() }))["sessions"].clone();
    assert_eq!((list.as_array().unwrap().len(), &list[0]["messageCount"]), (1, &json!(2)));
    one.finish();
}

#[test]
fn one_process_is_killed_and_nothing_that_was_said_is_lost() {
    let world = World::new();
    let mut one = world.client();
    let session = world.session(&mut one);
    world.says(&Reply::text("first answer"));
    one.run(&session, "first");
    let path = one.call("runtime/state", json!({ "sessionId": session }))["sessionFile"].clone();
    // The second process has the same file open while the first dies in the middle of a turn.
    let mut two = world.client();
    let same = two.call("sessions/resume", json!({ "path": path }))["id"].as_str().unwrap().to_owned();
    world.says(&Reply::text("").and_call("c1", "list_directory", &json!({ "path": "." })));
    let gate = Gate::new();
    world.provider.push(Answer::stream(vec![Step::Wait(gate.clone())]));
    let turn = one.turn(&session, "second");
    one.event(&turn, "toolResult");
    one.kill();
    drop(one.ended());
    gate.open();
    world.says(&Reply::text("from two"));
    assert_eq!(two.run(&same, "third")["status"], "completed");
    two.finish();

    let text = std::fs::read_to_string(path.as_str().unwrap()).unwrap();
    assert!(text.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{text}");
    for said in ["first", "first answer", "second", "third", "from two"] {
        assert!(text.contains(&format!("\"{said}\"")), "{said}");
    }
    // Whoever opens it next gets a conversation that a provider accepts.
    let mut three = world.client();
    let again = three.call("sessions/resume", json!({ "path": path }))["id"].as_str().unwrap().to_owned();
    world.says(&Reply::text("ok"));
    assert_eq!(three.run(&again, "fourth")["status"], "completed");
    three.finish();
}
