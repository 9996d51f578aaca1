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
fn processes_that_write_the_same_files_lose_nothing_when_one_is_killed() {
    let world = World::new();
    let mut clients: Vec<_> = (0..3).map(|_| world.client()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        for turn in 0..15 {
            client.send("memory/add", json!({ "text": format!("memory {turn} of process {number}") }));
            client.send("config/update", json!({ "values": { format!("key_{number}_{turn}"): turn } }));
        }
    }
    // One dies in the middle of it; what it was told to be done by then is done.
    let mut killed = clients.remove(0);
    let first = killed.answer(1)["result"]["memory"]["text"].clone();
    killed.kill();
    drop(killed.ended());
    let mut wanted = vec![first];
    for (number, mut client) in clients.into_iter().enumerate() {
        for id in 1..=30 {
            let answer = client.answer(id);
            assert!(answer.get("error").is_none(), "{answer}");
        }
        wanted.extend((0..15).map(|turn| json!(format!("Memory {turn} of process {}", number + 1))));
        client.finish();
    }
    let mut client = world.client();
    let soft = client.call("memory/list", json!({}))["soft"].clone();
    let of =
        |key: &str| -> Vec<Value> { soft.as_array().unwrap().iter().map(|memory| memory[key].clone()).collect() };
    let (texts, mut ids) = (of("text"), of("id"));
    assert!(wanted.iter().all(|text| texts.contains(text)), "{texts:?}");
    let all = ids.len();
    ids.sort_by_key(Value::to_string);
    ids.dedup();
    assert_eq!(ids.len(), all, "every memory has an id of its own");
    let config = client.call("config/read", json!({}))["config"].clone();
    for number in 1..3 {
        assert!((0..15).all(|turn| config[format!("key_{number}_{turn}")] == turn), "{config}");
    }
    client.finish();
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

#[test]
fn turns_of_two_processes_in_one_session_follow_one_another() {
    let world = World::new();
    let mut one = world.client();
    let session = world.session(&mut one);
    world.says(&Reply::text("answer one"));
    one.run(&session, "ask one");
    let path = one.call("runtime/state", json!({ "sessionId": session }))["sessionFile"].clone();
    let mut two = world.client();
    let same = two.call("sessions/resume", json!({ "path": path }))["id"].as_str().unwrap().to_owned();
    // The second process asks while the first is in the middle of its turn, and gets its own turn after that.
    world.says(&Reply::text("").and_call("c1", "list_directory", &json!({ "path": "." })));
    let gate = Gate::new();
    world.provider.push(Answer::stream(vec![Step::Wait(gate.clone())]));
    let waiting = one.turn(&session, "ask two");
    one.event(&waiting, "toolResult");
    let third = two.turn(&same, "ask three");
    two.event(&third, "turnStarted");
    one.call("turns/cancel", json!({ "turnId": waiting }));
    one.event(&waiting, "turnFinished");
    gate.open();
    world.says(&Reply::text("answer three"));
    assert_eq!(two.event(&third, "turnFinished")["status"], "completed");
    let reloaded = two.wait("the news", |frame| frame["params"]["type"] == "conversationReloaded");
    assert_eq!(reloaded["params"]["sessionId"], same);
    world.says(&Reply::text("answer four"));
    assert_eq!(one.run(&session, "ask four")["status"], "completed");
    let all = ["ask one", "ask two", "ask three", "ask four"];
    let said = |client: &mut crate::client::Client, session: &str| -> Vec<&str> {
        let shown = client.call("sessions/transcript", json!({ "sessionId": session }));
        let users = shown["messages"].as_array().unwrap().iter().filter(|message| message["role"] == "user");
        users.flat_map(|message| all.into_iter().filter(|text| message.to_string().contains(text))).collect()
    };
    assert_eq!(said(&mut one, &session), all);
    assert_eq!(said(&mut two, &same), all);
    one.finish();
    two.finish();
    // Whoever opens it next sees all of it, and no lock is left.
    let mut three = world.client();
    let again = three.call("sessions/resume", json!({ "path": path }))["id"].as_str().unwrap().to_owned();
    assert_eq!(said(&mut three, &again), all);
    three.finish();
    let lock = std::path::Path::new(path.as_str().unwrap()).with_extension("turn");
    assert!(!lock.exists());
}
