//! Input while a turn runs, and requests that must not wait.

use convoke_models::testkit::{Answer, Gate, Reply, Step};
use serde_json::json;

use crate::world::{World, answer};

/// An answer that waits before its first word.
fn held(reply: &Reply) -> (Answer, Gate) {
    let gate = Gate::new();
    let mut steps = vec![Step::Wait(gate.clone())];
    steps.extend(
        reply.events(convoke_models::ProviderKind::Local).into_iter().map(|event| Step::Send(event.into_bytes())),
    );
    (Answer::stream(steps), gate)
}

#[test]
fn input_while_busy_steers_the_running_turn() {
    let world = World::new();
    let mut client = world.client();
    let session = world.session(&mut client);
    let (first, gate) = held(&Reply::text("first"));
    world.provider.push(first);
    world.says(&Reply::text("second"));
    let turn = client.turn(&session, "begin");
    client.event(&turn, "turnStarted");
    let steered =
        client.call("turns/start", json!({ "sessionId": session, "input": "more", "streamingBehavior": "steer" }));
    assert_eq!(steered["id"], turn, "no new turn");
    assert_eq!(client.event(&turn, "turnSteered")["input"], "more");
    // Without a word it is the same.
    assert_eq!(client.call("turns/start", json!({ "sessionId": session, "input": "even more" }))["id"], turn);
    gate.open();
    assert_eq!(client.event(&turn, "turnFinished")["status"], "completed");
    assert_eq!(client.events(&turn).iter().find(|e| e["type"] == "steeringApplied").unwrap()["payload"]["count"], 2);
    let asked = world.provider.received().last().unwrap().json();
    let said: Vec<String> = asked["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|m| m["role"] == "user")
        .map(|m| m["content"].to_string())
        .collect();
    assert!(said.len() == 3 && said[2].contains("even more"), "{said:?}");
    client.finish();
}

#[test]
fn follow_ups_wait_in_line_and_can_be_taken_out_of_it() {
    let world = World::new();
    let mut client = world.client();
    let session = world.session(&mut client);
    let (first, gate) = held(&Reply::text("first"));
    world.provider.push(first);
    world.says(&Reply::text("third"));
    let one = client.turn(&session, "one");
    client.event(&one, "turnStarted");
    let queue = |input: &str| json!({ "sessionId": session, "input": input, "streamingBehavior": "followUp" });
    let two = client.call("turns/start", queue("two"))["id"].as_str().unwrap().to_owned();
    let three = client.call("turns/start", queue("three"))["id"].as_str().unwrap().to_owned();
    client.event(&three, "turnQueued");
    assert_eq!(client.call("runtime/state", json!({ "sessionId": session }))["pendingMessageCount"], 3);
    assert_eq!(client.call("turns/cancel", json!({ "turnId": two }))["status"], "canceled");
    assert_eq!(client.kinds(&two), ["turnQueued", "turnCancelRequested", "turnFinished"]);
    assert_eq!(client.call("turns/status", json!({ "turnId": three }))["status"], "queued");
    gate.open();
    assert_eq!(client.event(&one, "turnFinished")["status"], "completed");
    assert_eq!(client.event(&three, "turnFinished")["status"], "completed");
    assert_eq!(world.provider.received().len(), 2);
    client.finish();
}

#[test]
fn steering_without_a_turn_is_refused_in_the_contracts_words() {
    let world = World::new();
    let mut client = world.client();
    let session = world.session(&mut client);
    for behaviour in ["steer", "later"] {
        let error = client
            .refused("turns/start", json!({ "sessionId": session, "input": "x", "streamingBehavior": behaviour }));
        assert_eq!(error["code"], -32602);
        assert_eq!(error["message"], format!("Unsupported streamingBehavior: {behaviour}"));
    }
    client.finish();
}

#[test]
fn a_slow_call_holds_up_nobody() {
    let world = World::new();
    let mut client = world.client();
    let session = world.session(&mut client);
    world.says(&Reply::text("first"));
    client.run(&session, &"long ".repeat(50_000));
    world.says(&Reply::text("second"));
    client.run(&session, "short");
    // The summary is made by a provider that takes its time.
    let (summary, gate) = held(&Reply::text("## Goal\nx"));
    world.provider.push(summary);
    let compacting = client.send("sessions/compact", json!({ "sessionId": session }));
    client.wait("the start", |frame| frame["params"]["type"] == "compactionStart");
    let state = client.call("runtime/state", json!({ "sessionId": session }));
    assert_eq!(state["isCompacting"], true);
    client.call("config/read", json!({}));
    client.call("sessions/list", json!({ "workspaceRoot": world.work() }));
    // What would change the same session waits for its turn.
    let waiting = client.send("sessions/rename", json!({ "sessionId": session, "name": "later" }));
    client.call("initialize", json!({}));
    gate.open();
    assert!(client.answer(compacting).get("result").is_some());
    assert_eq!(client.answer(waiting)["result"]["name"], "later");
    client.finish();
}

#[test]
fn two_sessions_work_at_the_same_time() {
    let world = World::new();
    let mut client = world.client();
    let one = world.session(&mut client);
    let (slow, gate) = held(&Reply::text("slow"));
    world.provider.push(slow);
    let slow_turn = client.turn(&one, "slow");
    client.event(&slow_turn, "turnStarted");
    // The provider has its request before the next session asks.
    world.asked(1);
    let two = world.session(&mut client);
    world.provider.push(answer(&Reply::text("quick")));
    assert_eq!(client.run(&two, "quick")["status"], "completed");
    assert_eq!(client.call("turns/status", json!({ "turnId": slow_turn }))["status"], "running");
    gate.open();
    assert_eq!(client.event(&slow_turn, "turnFinished")["status"], "completed");
    client.finish();
}
