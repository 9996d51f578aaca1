//! Rooms from the command line: what a paired client sends through a rule is seen in the room, and who may not speak does
//! not.

use std::process::Stdio;

use crate::mcp::{Bridge, call};
use crate::support::{Done, Hub, Server, convoke};
use crate::yonexus::{client, pair};

#[test]
fn what_a_client_sends_by_a_rule_is_seen_in_the_room() {
    let hub = Hub::start();
    hub.run(&["rules", "add", "deploy", "--room", "standup"]).code(1).notes("room `standup` does not exist");
    hub.run(&["room", "create", "Standup"]).ok().says("created room `standup`");
    hub.run(&["room", "create", "standup"]).code(1).notes("already");
    hub.run(&["rules", "add", "deploy", "--room", "Standup"]).ok();
    hub.run(&["rules", "list"]).ok().says("room standup");
    pair(&hub, "a", None);
    Done::of(&mut client(&hub, "a", &["client", "send", "deploy", "x"])).code(1).notes("nobody is there");

    let watching = Server::start(&mut hub.verb(&["room", "observe", "--room", "standup", "--name", "watch"]));
    watching.told("in the room as watch (operator)");
    let mut program = hub.verb(&["room", "observe", "--room", "standup", "--json"]);
    let mut program = Server::start(&mut program);
    program.told("in the room");
    Done::of(&mut client(&hub, "a", &["client", "send", "deploy", "built::ok"])).ok();
    assert_eq!(watching.line(), "[deploy] a: built::ok");
    let seen: serde_json::Value = serde_json::from_str(&program.line()).expect("JSON");
    assert_eq!((&seen["rule"], &seen["sender"]), (&"deploy".into(), &"a".into()));
    assert_eq!((&seen["text"], &seen["from"]), (&"built::ok".into(), &"hub".into()));
    hub.run(&["room", "show", "standup"]).ok().says("present");
    hub.run(&["rules", "test", "deploy", "x"]).ok().says("watch");

    program.signal("TERM");
    assert!(program.end().success());
    hub.run(&["room", "remove", "standup", "--yes"]).ok().notes("`deploy`");
    watching.told("the room was removed");
    Done::of(&mut client(&hub, "a", &["client", "send", "deploy", "x"])).code(1).notes("room does not exist");
    hub.run(&["audit", "verify"]).ok();
}

#[test]
fn a_read_only_agent_is_refused_by_the_engine_until_it_is_granted_and_again_after() {
    let hub = Hub::start();
    let (key, other) = (hub.beside("agent.jwk"), hub.beside("other.jwk"));
    let (key, other) = (key.to_str().expect("text"), other.to_str().expect("text"));
    for file in [key, other] {
        Done::of(&mut convoke(["room", "key", "new", file])).ok().says("P-256");
    }
    Done::of(&mut convoke(["room", "key", "new", key])).code(1).notes("cannot make");
    hub.run(&["room", "create", "lab", "--agent-key", key]).ok();
    let hears = Server::start(&mut hub.verb(&["room", "observe", "--room", "lab"]));
    hears.told("in the room");
    // Nothing in this program keeps the agent from trying: it is the hub that refuses.
    let say = ["room", "say", "--room", "lab", "--name", "bot", "--key", key, "hello"];
    hub.run(&say).code(1).notes("send-chat");
    hub.run(&["room", "say", "--room", "lab", "--key", other, "hello"]).code(1).notes("cannot enter room `lab`");
    hub.run(&["room", "say", "--room", "lab", "--guest", "hello"]).code(1).notes("cannot enter room `lab`");
    hub.run(&["room", "say", "--room", "nowhere", "hello"]).code(1).notes("is not a room");

    let shown = hub.run(&["room", "show", "lab", "--json"]).ok().json();
    let id = shown["agent_keys"][0]["participant"].as_str().expect("an id").to_owned();
    let thumbprint = shown["agent_keys"][0]["thumbprint"].as_str().expect("a name").to_owned();
    assert!(shown["audit"].to_string().contains("blocked"));
    hub.run(&["room", "grant", "lab", &id, "--act", "fly"]).code(1).notes("send-chat");
    hub.run(&["room", "grant", "lab", &id, "--act", "send-chat", "--for", "1h"]).ok().says("send-chat");
    hub.run(&say).ok();
    assert_eq!(hears.line(), "<bot> hello");
    for hold in ["silence", "pause"] {
        hub.run(&["room", hold, "lab", &id]).ok().says(&id);
        hub.run(&say).code(1).notes("send-chat");
    }
    hub.run(&["room", "show", "lab"]).ok().says("paused");
    hub.run(&["room", "resume", "lab", &id]).ok().says("resumed");
    hub.run(&say).ok();
    assert_eq!(hears.line(), "<bot> hello");
    assert_eq!(hub.run(&["room", "admission", "lab"]).ok().json(), serde_json::json!({}));
    hub.run(&["room", "revoke", "lab", &id]).ok().says("nothing");
    hub.run(&say).code(1).notes("send-chat");
    hub.run(&["room", "kick", "lab", &id]).ok();
    hub.run(&say).code(1).notes("removed from the room");
    hub.run(&["room", "admit", "lab", &id]).ok();
    hub.run(&["room", "grant", "lab", &id, "--default"]).ok().says("read-chat");
    hub.run(&["room", "key", "remove", "lab", &thumbprint]).ok();
    hub.run(&say).code(1).notes("cannot enter room `lab`");
    hub.run(&["room", "key", "add", "lab", other, "--act", "send-chat", "--label", "scribe"]).ok();
    hub.run(&["room", "say", "--room", "lab", "--key", other, "at once"]).ok();
    assert_eq!(hears.line(), "<scribe> at once");
    let journal = hub.run(&["audit", "list", "--kind", "grant", "--json"]).ok().stdout;
    assert!(journal.contains("key removed") && journal.contains("blocked") && journal.contains("granted"));
}

#[test]
fn people_come_by_invite_through_the_lobby_and_talk() {
    let hub = Hub::start();
    hub.run(&["room", "create", "door", "--lobby"]).ok().notes("shown only now");
    let invite = hub.run(&["room", "invite", "door", "Anna", "--expires", "1h"]).ok().stdout.trim().to_owned();
    let mut join = hub.verb(&["room", "join", "--room", "door"]);
    join.env("CONVOKE_ROOM_INVITE", &invite).stdin(Stdio::piped());
    let mut anna = Server::start(&mut join);
    anna.told("waiting in the lobby");
    let shown = hub.run(&["room", "show", "door", "--json"]).ok().json();
    let id = shown["participants"][0]["id"].as_str().expect("an id").to_owned();
    hub.run(&["room", "admit", "door", &id]).ok();
    anna.told("in the room as Anna");
    hub.run(&["room", "say", "--room", "door", "--name", "Olga", "hello"]).ok();
    assert_eq!(anna.line(), "<Olga (operator)> hello");
    anna.signal("TERM");
    assert!(anna.end().success());
    let used = Done::with_input(&mut hub.verb(&["room", "say", "--room", "door", "-"]), "two\nlines");
    used.ok();
    let mut nobody = convoke(["room", "list"]);
    nobody.arg("--data").arg(hub.beside("nothing"));
    Done::of(&mut nobody).code(2).notes("no hub runs");
}

#[test]
fn an_operator_takes_part_in_a_mesh_room_over_either_way() {
    let hub = Hub::start();
    hub.run(&["room", "create", "lab", "--transport", "mesh"]).ok();
    let hears =
        Server::start(&mut hub.verb(&["room", "observe", "--room", "lab", "--transport", "mesh", "--name", "mesh"]));
    hears.told("in the room as mesh (operator)");
    let relayed = Server::start(&mut hub.verb(&["room", "observe", "--room", "lab", "--name", "relay"]));
    relayed.told("in the room as relay (operator)");
    let shown = hub.run(&["room", "show", "lab", "--json"]).ok().json();
    let mut ways: Vec<_> = shown["participants"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|person| (person["name"].as_str().expect("a text").to_owned(), person["bridged"] == true))
        .collect();
    ways.sort();
    assert_eq!(ways, [("mesh (operator)".to_owned(), false), ("relay (operator)".to_owned(), true)]);
}

/// What a tool answers, and whether it is an error.
fn asked(agent: &mut Bridge, tool: &str, args: serde_json::Value) -> (serde_json::Value, bool) {
    let answer = agent.ask(&call(2, tool, args));
    (answer["result"]["structuredContent"].clone(), answer["result"]["isError"] == true)
}

#[test]
fn an_assistant_takes_part_over_standard_input_and_output() {
    use serde_json::json;
    let hub = Hub::start();
    let key = hub.beside("agent.jwk");
    let key = key.to_str().expect("text");
    Done::of(&mut convoke(["room", "key", "new", key])).ok();
    hub.run(&["room", "create", "lab"]).ok();
    hub.run(&["room", "key", "add", "lab", key, "--act", "send-chat,act", "--label", "scribe"]).ok();
    let hears = Server::start(&mut hub.verb(&["room", "observe", "--room", "lab"]));
    hears.told("in the room");

    let mut agent = Bridge::start(&mut hub.verb(&["room", "mcp", "--room", "lab", "--key", key]));
    agent.open("convoke-room", json!({}));
    let tools = agent.ask(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }));
    let names: Vec<&str> = tools["result"]["tools"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|tool| tool["name"].as_str())
        .collect();
    assert_eq!(names, ["join", "observe", "say", "act", "leave"]);
    assert!(asked(&mut agent, "observe", json!({})).1, "not in yet");
    let (joined, failed) = asked(&mut agent, "join", json!({ "backend": "Mistral" }));
    assert!(!failed && joined["room"] == "lab" && joined["id"].is_string(), "{joined}");
    hub.run(&["room", "say", "--room", "lab", "--name", "Olga", "hello, scribe"]).ok();
    let (news, _) = asked(&mut agent, "observe", json!({ "after": joined["next"], "wait_s": 20 }));
    let mut news = news;
    while news["chat"].as_array().is_none_or(Vec::is_empty) {
        news = asked(&mut agent, "observe", json!({ "after": news["next"], "wait_s": 20 })).0;
    }
    assert_eq!((&news["chat"][0]["text"], &news["can_act"]), (&json!("hello, scribe"), &json!(true)), "{news}");
    assert!(!asked(&mut agent, "say", json!({ "text": "hello, Olga" })).1);
    assert_eq!(hears.line(), "<Olga (operator)> hello, scribe");
    assert_eq!(hears.line(), "<scribe> hello, Olga");
    hub.run(&["room", "act", "--room", "lab", r#"{"next":true}"#]).ok().notes("did not say what became of it");
    hub.run(&["room", "act", "--room", "lab", "next"]).code(2).notes("must be JSON");
    let (left, _) = asked(&mut agent, "leave", json!({}));
    assert_eq!(left["left"], true);
    agent.end();
}
