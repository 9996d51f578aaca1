//! How agents behave, step by step: actions, states, being held back, the floor, and who is one.

use convoke_kibitz::grant::{Capability, Grant, Hold};
use convoke_kibitz::room::FLOOR_FOR;
use serde_json::{Value, json};

use crate::support::{Key, Stage, at, key_with};

/// An open room with a host, a person and an agent that may say and ask for everything.
fn with_agent() -> (Stage, u64, u64, u64) {
    let key = Key::new();
    let mut stage = Stage::new(|charter| {
        charter.open = true;
        let speaks = [Capability::ReadChat, Capability::ReadRoster, Capability::SendChat, Capability::Act];
        charter.agent_keys = vec![key_with(&key, Some(Grant::of(speaks)))];
    });
    let (host, anna) = (stage.invited("Host", Some("host")), stage.guest("Anna"));
    let agent = stage.agent(&key);
    (stage, host, anna, agent)
}

fn another_agent(stage: &mut Stage, name: &str) -> u64 {
    let conn = stage.open();
    let meta = json!({ "role": "agent" });
    stage.send(conn, json!({ "t": "voice", "on": true, "name": name, "meta": meta }));
    stage.grant(conn, Grant::of([Capability::ReadChat, Capability::ReadRoster, Capability::SendChat]));
    conn
}

fn chat(text: &str) -> Value {
    json!({ "k": "chat", "text": text })
}

fn act(id: Value) -> Value {
    json!({ "k": "app", "data": { "__kib_agent": "act", "action": { "play": "7♠" }, "id": id } })
}

fn acted(stage: &Stage, conn: u64) -> Option<Value> {
    let content = stage.content(conn);
    content.into_iter().map(|payload| payload["data"].clone()).rfind(|data| data["__kib_agent"] == "acted")
}

fn meta(stage: &Stage, conn: u64, of: u64) -> Value {
    let roster = stage.frames(conn, "roster").pop().expect("one");
    let id = stage.id(of);
    roster["members"].as_array().expect("a list").iter().find(|m| m["id"] == id).expect("there")["meta"].clone()
}

#[test]
fn what_became_of_an_action_is_told_under_the_askers_own_id() {
    let (mut stage, host, anna, agent) = with_agent();
    for (to, id) in [(Some("hub"), json!("a-1")), (None, json!(2))] {
        stage.send(agent, json!({ "t": "to", "id": to, "payload": act(id.clone()) }));
        let asked = stage.content(anna).pop().expect("it is heard")["data"].clone();
        assert_eq!((&asked["action"]["play"], &asked["from"]), (&json!("7♠"), &json!(stage.id(agent))));
        let name = asked["id"].clone();
        assert_ne!(name, id, "the hub's own, which nobody else's action has");
        assert_eq!(acted(&stage, agent).filter(|told| told["id"] == id), None);
        // Whoever did not hear it, and who is an agent, does not say what became of it.
        let late = stage.guest("Late");
        let answer = |ok: Value| json!({ "k": "app", "data": { "__kib_agent": "acted", "id": name, "ok": ok, "result": { "n": 1 } } });
        stage.say(late, answer(json!(true)));
        stage.say(agent, answer(json!(true)));
        assert_eq!(stage.frames(late, "refused").pop().expect("told")["reason"], "unknown");
        assert_eq!(stage.frames(agent, "refused").pop().expect("told")["reason"], "view");
        stage.say(anna, answer(json!(true)));
        let told = json!({ "__kib_agent": "acted", "id": id, "ok": true, "result": { "n": 1 } });
        assert_eq!(acted(&stage, agent), Some(told));
        stage.say(host, answer(json!(true)));
        assert_eq!(stage.frames(host, "refused").pop().expect("told")["reason"], "unknown", "the first word counts");
        stage.send(late, json!({ "t": "leave" }));
    }
    stage.say(agent, act(json!("bad")));
    let name = stage.content(anna).pop().expect("heard")["data"]["id"].clone();
    stage.say(
        anna,
        json!({ "k": "app", "data": { "__kib_agent": "acted", "id": name, "ok": false, "error": "not your turn" } }),
    );
    let told = acted(&stage, agent).expect("told");
    assert_eq!((&told["id"], &told["ok"], &told["error"]), (&json!("bad"), &json!(false), &json!("not your turn")));
}

#[test]
fn an_action_that_is_not_granted_or_heard_by_nobody_is_answered_too() {
    let (mut stage, host, anna, agent) = with_agent();
    stage.grant(agent, Grant::of([Capability::ReadChat, Capability::SendChat]));
    stage.say(agent, act(json!("a")));
    let told = acted(&stage, agent).expect("told");
    assert_eq!((&told["ok"], &told["reason"]), (&json!(false), &json!("act")));
    assert!(stage.content(anna).is_empty());
    stage.grant(agent, Grant::of([Capability::SendChat, Capability::Act]));
    for conn in [host, anna] {
        stage.send(conn, json!({ "t": "leave" }));
    }
    stage.say(agent, act(json!("b")));
    let told = acted(&stage, agent).expect("told");
    assert_eq!((&told["id"], &told["reason"]), (&json!("b"), &json!("absent")));
    let anna = stage.guest("Anna");
    for n in 0..17 {
        stage.say(agent, act(json!(n)));
    }
    let told = acted(&stage, agent).expect("told");
    assert_eq!((&told["id"], &told["reason"]), (&json!(16), &json!("busy")), "{told}");
    assert_eq!(stage.content(anna).len(), 16);
}

#[test]
fn a_paused_agent_perceives_nothing_a_silenced_one_says_nothing_and_both_come_back_as_they_were() {
    let (mut stage, host, anna, agent) = with_agent();
    let id = stage.id(agent);
    let caps = |stage: &Stage| {
        let mut all = stage.frames(anna, "from").into_iter().map(|frame| frame["payload"].clone());
        all.rfind(|payload| payload["k"] == "caps").expect("caps")["grants"][&id].clone()
    };
    let before = caps(&stage);
    stage.send(anna, json!({ "t": "mod", "op": "pause", "target": id }));
    assert_eq!(stage.frames(anna, "refused").pop().expect("told")["reason"], "host", "a guest is no host");
    stage.send(host, json!({ "t": "mod", "op": "pause", "target": id }));
    assert_eq!((caps(&stage)["perceive"].clone(), caps(&stage)["act"].clone()), (json!(["read-roster"]), json!([])));
    assert_eq!(meta(&stage, anna, agent)["hold"], "paused");
    let heard = stage.content(agent).len();
    stage.say(anna, chat("among us"));
    stage.say(agent, chat("hello?"));
    assert_eq!(stage.content(agent).len(), heard);
    assert_eq!(stage.last(agent)["reason"], "send-chat");
    stage.send(host, json!({ "t": "mod", "op": "silence", "target": id }));
    stage.say(anna, chat("it listens"));
    stage.say(agent, chat("hello?"));
    assert_eq!(stage.content(agent).len(), heard + 1);
    assert_eq!(stage.content(anna).len(), 0);
    // Whoever comes by the same key is held back, too, also after a restart: it is in the charter.
    assert_eq!(stage.room.charter().hold_of(&id, &[]), Some(Hold::Silenced));
    let grants = stage.frames(host, "host").pop().expect("told")["grants"][&id].clone();
    assert_eq!(grants, before, "hosts see what it will have again");
    stage.send(host, json!({ "t": "mod", "op": "resume", "target": id }));
    assert_eq!(caps(&stage), before);
    stage.say(agent, chat("thank you"));
    assert_eq!(stage.content(anna), [chat("thank you")]);
    assert_eq!(meta(&stage, anna, agent)["hold"], Value::Null);
    assert!(stage.room.charter().held.is_empty() && stage.room.charter().credentials.is_empty());
}

#[test]
fn one_agent_has_the_floor_at_a_time() {
    let (mut stage, host, anna, agent) = with_agent();
    let other = another_agent(&mut stage, "other");
    let floor = |stage: &Stage| stage.frames(anna, "roster").pop().expect("one")["floor"].clone();
    let want = |stage: &mut Stage, conn: u64, on: bool| stage.send(conn, json!({ "t": "floor", "on": on }));
    want(&mut stage, anna, true);
    assert_eq!(stage.last(anna)["reason"], "human");
    want(&mut stage, agent, true);
    want(&mut stage, other, true);
    assert_eq!(floor(&stage), json!(stage.id(agent)));
    stage.say(other, chat("me, me"));
    assert_eq!(stage.last(other)["reason"], "floor");
    let caps = stage.frames(anna, "from").pop().expect("caps")["payload"]["grants"][stage.id(other)]["act"].clone();
    assert_eq!(caps, json!([]), "receivers on the mesh hear nobody else");
    for conn in [agent, anna] {
        stage.say(conn, chat("one at a time"));
    }
    assert_eq!(stage.content(host).len(), 2, "people are always heard");
    want(&mut stage, agent, false);
    assert_eq!(floor(&stage), json!(stage.id(other)));
    stage.say(other, chat("at last"));
    assert_eq!(stage.content(host).len(), 3);
    // Nobody keeps it for ever, and who is held back has none.
    want(&mut stage, agent, true);
    let seconds = i64::try_from(FLOOR_FOR.as_secs()).expect("few");
    stage.tick(seconds);
    assert_eq!(floor(&stage), json!(stage.id(agent)));
    let id = stage.id(agent);
    stage.send(host, json!({ "t": "mod", "op": "silence", "target": id }));
    assert_eq!(floor(&stage), Value::Null);
    stage.say(other, chat("free for all"));
    assert_eq!(stage.content(host).len(), 4);
    want(&mut stage, other, true);
    stage.send(other, json!({ "t": "leave" }));
    assert_eq!(floor(&stage), Value::Null);
}

#[test]
fn agents_say_what_they_do_in_four_words_and_nobody_says_what_only_the_authority_does() {
    let (mut stage, _, anna, agent) = with_agent();
    let announce = |stage: &mut Stage, conn: u64, meta: Value| {
        stage.send(conn, json!({ "t": "voice", "on": true, "meta": meta }))
    };
    announce(&mut stage, agent, json!({ "state": "thinking", "backend": "a model" }));
    let shown = meta(&stage, anna, agent);
    assert_eq!(
        (&shown["state"], &shown["role"], &shown["backend"]),
        (&json!("thinking"), &json!("agent"), &json!("a model"))
    );
    announce(&mut stage, agent, json!({ "state": "sulking", "hold": "paused", "bridged": true, "hub": true }));
    assert_eq!(meta(&stage, anna, agent), json!({ "role": "agent" }));
    announce(&mut stage, anna, json!({ "state": "thinking", "hub": true }));
    assert_eq!(meta(&stage, anna, anna), Value::Null, "people need not say");
    let people = stage.room.people(at(0));
    let id = stage.id(agent);
    assert_eq!(people.iter().find(|p| p.id == id).expect("there").doing, None);
}

#[test]
fn whom_a_host_or_an_invite_calls_an_agent_is_one() {
    let (mut stage, host, anna, _) = with_agent();
    let id = stage.id(anna);
    stage.send(host, json!({ "t": "mod", "op": "agent", "target": id }));
    stage.say(anna, chat("I am a person"));
    assert_eq!(stage.last(anna)["reason"], "send-chat");
    assert_eq!(meta(&stage, anna, anna)["role"], "agent");
    let invited = stage.invited("Bot", Some("agent"));
    stage.say(invited, chat("so am I"));
    assert_eq!(stage.last(invited)["reason"], "send-chat");
    assert_eq!(meta(&stage, anna, invited)["role"], "agent");
    // With an invite, it is whoever comes with it.
    let invite = stage.invite("Cleo", None);
    let one = stage.open();
    stage.send(one, json!({ "t": "voice", "on": true, "jwt": invite }));
    let id = stage.id(one);
    stage.send(host, json!({ "t": "mod", "op": "agent", "target": id }));
    let again = stage.open();
    stage
        .send(again, json!({ "t": "voice", "on": true, "jwt": invite, "token": "new", "meta": { "role": "human" } }));
    assert_eq!(meta(&stage, host, again)["role"], "agent");
}

#[test]
fn hosts_see_who_waits_and_the_log_and_change_grants() {
    let mut stage = Stage::new(|charter| {
        charter.open = true;
        charter.lobby = true;
    });
    let host = stage.invited("Host", Some("host"));
    let anna = stage.open();
    stage.send(anna, json!({ "t": "voice", "on": true, "name": "Anna", "meta": { "role": "agent" } }));
    let waiting = stage.frames(host, "host").pop().expect("told")["waiting"].clone();
    assert_eq!((&waiting[0]["name"], &waiting[0]["kind"]), (&json!("Anna"), &json!("agent")));
    stage.send(host, json!({ "t": "mod", "op": "admit", "target": waiting[0]["id"] }));
    assert_eq!(stage.frames(host, "host").pop().expect("told")["waiting"], json!([]));
    let kinds: Vec<_> = stage
        .frames(host, "log")
        .iter()
        .flat_map(|log| log["lines"].as_array().cloned())
        .flatten()
        .map(|line| line["kind"].clone())
        .collect();
    assert_eq!(kinds, ["joined", "admitted", "joined"]);
    let grant = json!({ "perceive": ["read-chat", "read-roster"], "act": ["send-chat"] });
    let id = stage.id(anna);
    stage.send(host, json!({ "t": "mod", "op": "grant", "target": id, "grant": grant }));
    stage.say(anna, chat("thanks"));
    assert_eq!(stage.content(host), [chat("thanks")]);
    stage.send(anna, json!({ "t": "mod", "op": "grant", "target": id, "grant": grant }));
    assert_eq!(stage.last(anna)["reason"], "host");
    stage.send(host, json!({ "t": "mod", "op": "grant", "target": id }));
    stage.say(anna, chat("again"));
    assert_eq!(stage.last(anna)["reason"], "send-chat");
    assert!(stage.room.charter().grants.is_empty());
    for told in ["host", "log"] {
        assert!(stage.frames(anna, told).is_empty(), "for hosts alone");
    }
}
