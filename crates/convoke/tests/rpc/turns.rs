//! Turns: order, tools, retries, cancelling, questions, plugins.

use std::os::unix::fs::PermissionsExt as _;

use convoke_models::testkit::{Answer, Gate, Reply, Step};
use serde_json::{Value, json};

use crate::client::Client;
use crate::world::{World, answer};

#[test]
fn a_turn_is_told_in_order_and_written_down() {
    let world = World::new();
    let mut client = world.client();
    let session = world.session(&mut client);
    world.says(&Reply::text("Hel").and_text("lo").and_reasoning("thinking").and_usage(100, 40, 7, 3));
    let id = client.send("turns/start", json!({ "sessionId": session, "input": "hi" }));
    let turn = client.answer(id)["result"].clone();
    assert_eq!((&turn["status"], &turn["cancelRequested"]), (&json!("queued"), &json!(false)));
    let turn = turn["id"].as_str().unwrap().to_owned();
    assert_eq!(client.event(&turn, "turnFinished"), json!({ "status": "completed", "error": null }));
    let kinds = client.kinds(&turn);
    assert_eq!(kinds[..2], ["turnQueued", "turnStarted"]);
    assert_eq!(kinds[kinds.len() - 3..], ["assistantMessage", "answer", "turnFinished"]);
    let events = client.events(&turn);
    let numbers: Vec<u64> = events.iter().map(|event| event["sequence"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=events.len() as u64).collect::<Vec<_>>());
    let deltas: String = events
        .iter()
        .filter(|e| e["type"] == "assistantDelta")
        .map(|e| e["payload"]["delta"].as_str().unwrap())
        .collect();
    assert_eq!(deltas, "Hello");
    let later = client.call("turns/events", json!({ "turnId": turn, "afterSequence": events.len() - 1 }));
    assert_eq!(later["events"].as_array().unwrap().len(), 1);
    assert_eq!(later["turn"]["status"], "completed");

    let transcript = client.call("sessions/transcript", json!({ "sessionId": session }));
    assert_eq!(
        transcript["messages"],
        json!([
            { "role": "user", "content": [{ "type": "text", "text": "hi" }] },
            { "role": "assistant", "content": [{ "type": "thinking", "thinking": "thinking" }, { "type": "text", "text": "Hello" }] },
        ])
    );
    let stats = client.call("runtime/stats", json!({ "sessionId": session }));
    assert_eq!(
        (&stats["userMessages"], &stats["assistantMessages"], &stats["totalMessages"]),
        (&json!(1), &json!(1), &json!(2))
    );
    assert_eq!(stats["tokens"], json!({ "input": 60, "output": 7, "cacheRead": 40, "cacheWrite": 0, "total": 107 }));
    client.finish();
    // All of it is in the file, one JSON object a line.
    let path = transcript["session"]["path"].as_str().unwrap();
    let lines: Vec<Value> =
        std::fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["type"], &lines[0]["version"]), (&json!("session"), &json!(1)));
    assert_eq!(lines[1]["message"]["id"], lines[1]["id"]);
    assert_eq!(lines[2]["parentId"], lines[1]["id"]);
}

#[test]
fn tools_are_run_and_told_in_the_clients_words() {
    let world = World::new();
    world.file("work/a.txt", "one\n");
    let mut client = world.client();
    let session = world.session(&mut client);
    world.says(&Reply::text("").and_call("c1", "read_file", &json!({ "path": "a.txt" })));
    let edit = json!({ "path": "a.txt", "edits": [{ "old_text": "one", "new_text": "two" }] });
    world.says(&Reply::text("").and_call("c2", "edit_file", &edit));
    world.says(&Reply::text("").and_call("c3", "run_shell_command", &json!({ "command": "echo out; exit 3" })));
    world.says(&Reply::text("done"));
    let turn = client.turn(&session, "go");
    assert_eq!(client.event(&turn, "turnFinished")["status"], "completed");
    assert_eq!(std::fs::read_to_string(world.work().join("a.txt")).unwrap(), "two\n");
    let events = client.events(&turn);
    let of = |kind: &str, call: &str| -> Value {
        let fits = |e: &&Value| e["type"] == kind && e["payload"]["toolCallId"] == call;
        events.iter().find(fits).unwrap_or_else(|| panic!("{kind} {call}"))["payload"].clone()
    };
    let called = of("toolCall", "c2");
    assert_eq!(called["toolName"], "edit");
    assert_eq!(called["args"], json!({ "path": "a.txt", "edits": [{ "oldText": "one", "newText": "two" }] }));
    assert_eq!(called["tool"]["kind"], "edit");
    assert_eq!(called["rawToolCall"]["function"]["name"], "edit_file");
    assert!(called.get("result").is_none());
    let result = &of("toolResult", "c2")["result"];
    assert_eq!(
        (&result["isError"], &result["changedFiles"], &result["images"]),
        (&json!(false), &json!(["a.txt"]), &json!([]))
    );
    assert!(result["diff"].as_str().unwrap().contains("+two"), "{result}");
    let shell = of("toolResult", "c3");
    assert_eq!(shell["args"], json!({ "command": "echo out; exit 3", "timeout": 30 }));
    assert!(shell["content"].as_str().unwrap().contains("Exit status: 3"));
    assert_eq!(shell["result"]["isError"], false, "a command that fails is no failure of the tool");
    let update = events.iter().find(|e| e["type"] == "toolUpdate").expect("live output");
    assert_eq!(update["payload"]["delta"]["content"], "out\n");
    // The next request carried each result behind its call.
    let asked = world.provider.received();
    let last = asked.last().unwrap().json();
    let roles: Vec<&str> = last["messages"].as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles[roles.len() - 6..], ["assistant", "tool", "assistant", "tool", "assistant", "tool"]);
    client.finish();
}

#[test]
fn a_failing_provider_is_asked_again_and_nothing_is_said_twice() {
    let world = World::new();
    let mut client = world.client();
    let session = world.session(&mut client);
    world.provider.push(Answer::rate_limited("0"));
    // It dies in the middle of a tool call.
    let call = Reply::text("").and_call("c1", "list_directory", &json!({ "path": "." }));
    world.provider.push(answer(&call).only(2, Step::Cut));
    world.says(&Reply::text("fine"));
    let turn = client.turn(&session, "go");
    assert_eq!(client.event(&turn, "turnFinished")["status"], "completed");
    let events = client.events(&turn);
    let retries: Vec<&Value> = events.iter().filter(|e| e["type"] == "modelRetry").map(|e| &e["payload"]).collect();
    assert_eq!(retries.len(), 2);
    assert_eq!(
        (&retries[0]["attempt"], &retries[0]["maxAttempts"], &retries[0]["provider"]),
        (&json!(2), &json!(3), &json!("Local"))
    );
    assert!(events.iter().all(|e| e["type"] != "toolCall"), "a call that was cut off is not run");
    let said: String = events
        .iter()
        .filter(|e| e["type"] == "assistantDelta")
        .map(|e| e["payload"]["delta"].as_str().unwrap())
        .collect();
    assert_eq!(said, "fine");
    client.finish();
}

#[test]
fn without_a_provider_a_turn_says_what_to_set() {
    let world = World::new();
    let mut client = Client::start(&mut world.command());
    let session = world.session(&mut client);
    let turn = client.turn(&session, "hi");
    let end = client.event(&turn, "turnFinished");
    assert_eq!(end["status"], "failed");
    let why = end["error"]["message"].as_str().unwrap();
    for name in ["OPENAI_API_KEY", "OPENROUTER_API_KEY", "LOCAL_BASE_URL", "config.json"] {
        assert!(why.contains(name), "{why}");
    }
    assert_eq!(client.kinds(&turn), ["turnQueued", "turnStarted", "error", "turnFinished"]);
    // What was said is kept, and the session lives.
    let stats = client.call("runtime/stats", json!({ "sessionId": session }));
    assert_eq!(stats["userMessages"], 1);
    client.finish();
}

#[test]
fn a_cancelled_turn_leaves_a_conversation_that_goes_on() {
    let world = World::new();
    let mut client = world.client();
    let session = world.session(&mut client);
    let command = "echo group $$; sh -c 'sleep 1000 & wait'";
    let call =
        Reply::text("").and_call("c1", "run_shell_command", &json!({ "command": command, "timeout_seconds": 900 }));
    world.says(&call.and_call("c2", "list_directory", &json!({ "path": "." })));
    let turn = client.turn(&session, "go");
    client.event(&turn, "toolCall");
    let group = group_of(&mut client, &turn);
    let state = client.call("runtime/state", json!({ "sessionId": session }));
    assert_eq!((&state["isStreaming"], &state["pendingMessageCount"]), (&json!(true), &json!(1)));
    let cancelled = client.call("turns/cancel", json!({ "turnId": turn }));
    assert_eq!(cancelled["cancelRequested"], true);
    assert_eq!(client.event(&turn, "turnFinished"), json!({ "status": "canceled", "error": null }));
    let kinds = client.kinds(&turn);
    assert_eq!(kinds[kinds.len() - 2..], ["turnCancelRequested", "turnFinished"]);
    assert!(!group_lives(&group), "its whole group is gone before its end is told");
    // Again changes nothing.
    client.call("turns/cancel", json!({ "turnId": turn }));
    assert_eq!(client.kinds(&turn), kinds);
    world.says(&Reply::text("fine"));
    assert_eq!(client.run(&session, "and now?")["status"], "completed");
    let asked = world.provider.received().last().unwrap().json();
    let messages = asked["messages"].as_array().unwrap();
    let results: Vec<&str> =
        messages.iter().filter(|m| m["role"] == "tool").map(|m| m["tool_call_id"].as_str().unwrap()).collect();
    assert_eq!(results, ["c1", "c2"], "every call has its result");
    client.finish();
}

#[test]
fn a_cancelled_answer_closes_the_providers_connection() {
    let world = World::new();
    let mut client = world.client();
    let session = world.session(&mut client);
    world.provider.push(answer(&Reply::text("par").and_text("tial")).only(3, Step::Hang));
    let turn = client.turn(&session, "go");
    client.event(&turn, "assistantDelta");
    client.call("turns/cancel", json!({ "turnId": turn }));
    assert_eq!(client.event(&turn, "turnFinished")["status"], "canceled");
    world.hung_up(1);
    client.finish();
}

#[test]
fn a_question_is_put_to_the_person_and_answered() {
    let world = World::new();
    let mut client = world.client();
    let session = world.session(&mut client);
    let questions = json!([{ "question": "Which?", "header": "Pick", "options": [
        { "label": "a", "description": "first" }, { "label": "b", "description": "second" }] }]);
    world.says(&Reply::text("").and_call("c1", "ask_user_question", &json!({ "questions": questions })));
    world.says(&Reply::text("ok"));
    let turn = client.turn(&session, "ask me");
    let asked = client.wait("a question", |frame| frame["method"] == "ui/question")["params"].clone();
    assert_eq!((&asked["sessionId"], &asked["questions"]), (&json!(session), &questions));
    let request = asked["questionRequestId"].clone();
    let wrong = json!({ "sessionId": session, "questionRequestId": "other", "answers": [] });
    assert_eq!(client.call("ui/answerQuestion", wrong), json!({ "ok": true }));
    let answers = json!([{ "question": "Which?", "answer": "something else" }]);
    client
        .call("ui/answerQuestion", json!({ "sessionId": session, "questionRequestId": request, "answers": answers }));
    let result = client.event(&turn, "toolResult");
    assert_eq!(result["content"], "Which?: something else");
    assert_eq!(client.event(&turn, "turnFinished")["status"], "completed");

    // A question that is not to be asked is the model's error, not the person's.
    world.says(&Reply::text("").and_call("c2", "ask_user_question", &json!({ "questions": [] })));
    world.says(&Reply::text("ok"));
    let turn = client.turn(&session, "again");
    assert_eq!(client.event(&turn, "toolResult")["result"]["isError"], true);
    client.event(&turn, "turnFinished");

    // One that waits is released by a cancel.
    world.says(&Reply::text("").and_call("c3", "ask_user_question", &json!({ "questions": questions })));
    let turn = client.turn(&session, "once more");
    client.wait("a question", |frame| frame["method"] == "ui/question");
    client.call("turns/cancel", json!({ "turnId": turn }));
    assert_eq!(client.event(&turn, "turnFinished")["status"], "canceled");
    client.finish();
}

#[test]
fn slash_commands_are_templates_plugins_or_just_text() {
    let world = World::new();
    world.file(
        "home/.kward/prompts/plan.md",
        "---\ndescription: Plan\nargument-hint: <goal>\n---\nMake a plan: $ARGUMENTS\n",
    );
    world.file("home/.kward/skills/tidy/SKILL.md", "---\nname: tidy\ndescription: Tidy up\n---\nTidy well.\n");
    let plugin = world.file(
        "home/.kward/plugins/greet.sh",
        "#!/bin/sh\nread task\necho '{\"type\":\"output\",\"text\":\"hello \"}'\necho \"$task\" | grep -q '\"arguments\":\"you there\"' && echo '{\"type\":\"output\",\"text\":\"you\"}'\necho '{\"type\":\"result\",\"value\":{\"n\":1}}'\n",
    );
    std::fs::set_permissions(&plugin, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut client = world.client();
    let session = world.session(&mut client);
    let of = json!({ "sessionId": session });
    let commands = client.call("commands/list", of.clone())["commands"].clone();
    let names: Vec<&str> = commands.as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["plan", "skill:tidy", "greet"]);
    assert_eq!((&commands[0]["source"], &commands[2]["executable"]), (&json!("prompt"), &json!(true)));
    let startup = client.call("resources/startup", of)["sections"].clone();
    assert_eq!(startup[1], json!({ "name": "Prompts", "items": ["/plan"] }));

    world.says(&Reply::text("ok"));
    assert_eq!(client.run(&session, "/plan fix bug")["status"], "completed");
    let asked = world.provider.received().last().unwrap().json().to_string();
    assert!(asked.contains("Make a plan: fix bug"), "{asked}");
    let shown = client.call("sessions/transcript", json!({ "sessionId": session }))["messages"][0].clone();
    assert_eq!(shown["content"][0]["text"], "/plan fix bug", "the person sees what they typed");

    let before = world.provider.received().len();
    let turn = client.turn(&session, "/greet you there");
    assert_eq!(client.event(&turn, "turnFinished")["status"], "completed");
    assert_eq!(
        client.kinds(&turn),
        ["turnQueued", "turnStarted", "assistantDelta", "assistantDelta", "answer", "turnFinished"]
    );
    assert_eq!(world.provider.received().len(), before, "the model is not asked");
    let ran = client.call("commands/run", json!({ "sessionId": session, "name": "/greet" }));
    assert_eq!(ran, json!({ "command": "greet", "output": ["hello "], "result": { "n": 1 } }));
    let error = client.refused("commands/run", json!({ "sessionId": session, "name": "nope" }));
    assert_eq!((&error["code"], &error["message"]), (&json!(-32602), &json!("Unknown plugin command: nope")));

    world.says(&Reply::text("ok"));
    client.run(&session, "/unknown thing");
    assert!(world.provider.received().last().unwrap().json().to_string().contains("/unknown thing"));
    let expanded = client.call("prompts/expand", json!({ "command": "/plan", "arguments": "x" }));
    assert_eq!(expanded, json!({ "command": "plan", "text": "Make a plan: x" }));
    assert_eq!(
        client.refused("prompts/expand", json!({ "command": "no" }))["message"],
        "Unknown prompt template: no"
    );
    client.finish();
}

#[test]
fn images_reach_the_model_up_to_their_limit() {
    use base64::Engine as _;
    let world = World::new();
    let mut client = world.client();
    let session = world.session(&mut client);
    let encode = |bytes: usize| base64::engine::general_purpose::STANDARD.encode(vec![0u8; bytes]);
    let start = |data: String| json!({ "sessionId": session, "input": "look", "attachments": [{ "type": "image", "data": data, "mimeType": "image/png", "name": "a.png" }] });
    world.says(&Reply::text("nice"));
    let turn = client.call("turns/start", start(encode(10 * 1024 * 1024)));
    let turn = turn["id"].as_str().unwrap().to_owned();
    assert_eq!(client.event(&turn, "turnFinished")["status"], "completed");
    assert!(world.provider.received().last().unwrap().body.len() > 13_000_000);
    let error = client.refused("turns/start", start(encode(10 * 1024 * 1024 + 1)));
    assert_eq!((&error["code"], &error["message"]), (&json!(-32602), &json!("Image attachment is too large")));
    client.finish();
}

#[test]
fn the_end_of_the_process_ends_what_is_at_work() {
    let world = World::new();
    let mut client = world.client();
    let session = world.session(&mut client);
    let gate = Gate::new();
    world.provider.push(Answer::stream(vec![Step::Wait(gate.clone())]));
    let turn = client.turn(&session, "go");
    client.event(&turn, "turnStarted");
    client.hang_up();
    let ended = client.ended();
    assert_eq!(ended.code, Some(0));
    assert!(ended.stdout.contains("\"status\":\"canceled\""), "{}", ended.stdout);
}

#[test]
fn the_end_of_the_process_ends_the_commands_it_started() {
    let end: [fn(&mut Client); 2] = [Client::hang_up, |client| client.terminate()];
    for end in end {
        let world = World::new();
        let mut client = world.client();
        let session = world.session(&mut client);
        let command = json!({ "command": "echo group $$; sh -c 'sleep 1000 & wait'", "timeout_seconds": 900 });
        world.says(&Reply::text("").and_call("c1", "run_shell_command", &command));
        let turn = client.turn(&session, "go");
        let group = group_of(&mut client, &turn);
        assert!(group_lives(&group));
        end(&mut client);
        let ended = client.ended();
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
        assert!(!group_lives(&group), "nothing is left behind");
        assert!(ended.stdout.contains("\"status\":\"canceled\""), "{}", ended.stdout);
        // The next one finds a conversation that a provider accepts.
        let mut client = world.client();
        let last = json!({ "workspaceRoot": world.work(), "resumeLast": true });
        let session = client.call("sessions/create", last)["id"].as_str().unwrap().to_owned();
        world.says(&Reply::text("fine"));
        assert_eq!(client.run(&session, "and now?")["status"], "completed");
        let asked = world.provider.received().last().unwrap().json();
        let roles: Vec<&str> =
            asked["messages"].as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
        assert_eq!(roles[1..], ["user", "assistant", "tool", "user"]);
        client.finish();
    }
}

#[test]
fn a_picture_that_is_named_is_attached() {
    let world = World::new();
    let png = [0x89, b'P', b'N', b'G', 0x0D, 0x0A, 0x1A, 0x0A, 1, 2, 3];
    std::fs::write(world.work().join("shot.png"), png).unwrap();
    let mut client = world.client();
    let session = world.session(&mut client);
    world.says(&Reply::text("nice"));
    client.run(&session, "what is in shot.png?");
    let asked = world.provider.received().last().unwrap().json().to_string();
    assert!(asked.contains("data:image/png;base64,iVBORw0KGgoBAgM="), "{asked}");
    let shown = client.call("sessions/transcript", json!({ "sessionId": session }))["messages"][0].clone();
    assert_eq!(
        shown["content"],
        json!([
            { "type": "text", "text": "what is in shot.png?" },
            { "type": "image", "data": "iVBORw0KGgoBAgM=", "mimeType": "image/png", "alt": "shot.png" },
        ])
    );
    client.call("config/update", json!({ "values": { "attach_image_paths": false } }));
    world.says(&Reply::text("ok"));
    client.run(&session, "and now shot.png?");
    let messages = client.call("sessions/transcript", json!({ "sessionId": session }))["messages"].clone();
    assert_eq!(messages[2]["content"].as_array().unwrap().len(), 1);
    client.finish();
}

/// The group of a command that tells it first of all.
#[track_caller]
fn group_of(client: &mut Client, turn: &str) -> String {
    let said = client.event(turn, "toolUpdate")["delta"]["content"].as_str().expect("text").to_owned();
    said.strip_prefix("group ").unwrap_or_else(|| panic!("{said}")).trim().to_owned()
}

/// Whether a process of this group is there. What has ended and was not waited for yet does not count.
fn group_lives(group: &str) -> bool {
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    processes.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok()).any(|stat| {
        let rest: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        rest.get(2) == Some(&group) && rest.first() != Some(&"Z")
    })
}
