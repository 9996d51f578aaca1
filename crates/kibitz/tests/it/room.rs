//! A room, step by step.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use convoke_kibitz::grant::{Capability, Grant, Kind};
use convoke_kibitz::room::{Caller, Decision, Limits, Output, Post, PostError};
use convoke_kibitz::{MAX_FRAME_AFTER, MAX_FRAME_BEFORE};
use serde_json::{Value, json};

use crate::support::{Key, START, Stage, at, key_with};

fn chat(text: &str) -> Value {
    json!({ "k": "chat", "text": text })
}

fn open() -> Stage {
    Stage::new(|charter| charter.open = true)
}

#[test]
fn people_in_an_open_room_talk_to_all_and_to_one() {
    let mut stage = open();
    let (a, b, c) = (stage.guest("Anna"), stage.guest("Ben"), stage.guest("Cleo"));
    stage.say(a, chat("hello"));
    for conn in [b, c] {
        assert_eq!(stage.content(conn), [chat("hello")]);
        assert_eq!(stage.last(conn)["id"], stage.id(a).as_str());
    }
    assert!(stage.content(a).is_empty(), "nobody hears itself");
    stage.send(a, json!({ "t": "to", "id": stage.id(b), "payload": chat("psst") }));
    assert_eq!((stage.content(b).len(), stage.content(c).len()), (2, 1));
    let roster = stage.frames(c, "roster").pop().expect("one");
    let names: Vec<_> = roster["members"].as_array().expect("a list").iter().map(|m| m["name"].clone()).collect();
    assert_eq!(names, ["hub", "Anna", "Ben", "Cleo"]);
    stage.send(b, json!({ "t": "leave" }));
    assert_eq!(stage.closed.get(&b), Some(&1000));
    let roster = stage.frames(c, "roster").pop().expect("one");
    assert_eq!(roster["members"].as_array().map(Vec::len), Some(3));
    stage.send(a, json!({ "t": "to", "id": "nobody", "ref": 4, "payload": chat("x") }));
    assert_eq!((&stage.last(a)["reason"], &stage.last(a)["ref"]), (&json!("unknown"), &json!(4)));
}

#[test]
fn an_agent_reads_until_a_host_lets_it_speak_and_no_longer() {
    let key = Key::new();
    let mut stage = Stage::new(|charter| {
        charter.open = true;
        charter.agent_keys = vec![key_with(&key, None)];
    });
    let human = stage.guest("Anna");
    let agent = stage.agent(&key);
    stage.say(human, chat("hello"));
    assert_eq!(stage.content(agent), [chat("hello")]);
    for payload in [chat("x"), json!({ "k": "app", "data": { "__kib_agent": "chat", "text": "x" } })] {
        stage.say(agent, payload);
        let refused = stage.last(agent);
        assert_eq!(
            (&refused["t"], &refused["reason"], &refused["ref"]),
            (&json!("refused"), &json!("send-chat"), &json!(7))
        );
    }
    assert!(stage.content(human).is_empty());
    let blocked: Vec<_> = stage.room.audit().filter(|line| line.kind == "blocked").cloned().collect();
    assert_eq!(blocked.len(), 2);
    let recorded = stage.outputs.iter().filter(|o| matches!(o, Output::Record(e) if e.what == "blocked")).count();
    assert_eq!(recorded, 1, "the journal hears of it once a minute");

    let wider = Grant::of([Capability::ReadChat, Capability::SendChat]).until(Some(START + 5));
    stage.grant(agent, wider);
    stage.say(agent, chat("at last"));
    assert_eq!(stage.content(human), [chat("at last")]);
    stage.say(agent, json!({ "k": "app", "data": { "__kib_agent": "act", "action": 1 } }));
    assert_eq!(stage.last(agent)["reason"], "act", "an action needs its own capability");
    stage.tick(5);
    stage.say(agent, chat("still?"));
    assert_eq!(stage.last(agent)["reason"], "send-chat", "its time is over");
    stage.say(human, chat("bye"));
    assert_eq!(stage.content(agent).len(), 1, "and with it what it may read");
    assert!(stage.room.audit().any(|line| line.kind == "expired"));
}

#[test]
fn everyone_is_told_the_grants_and_who_may_not_see_the_others_is_told_its_own() {
    let mut stage = open();
    let (a, b) = (stage.guest("Anna"), stage.guest("Ben"));
    stage.grant(b, Grant::of([Capability::ReadChat]));
    let caps = |stage: &Stage, conn| {
        let mut frames = stage.frames(conn, "from").into_iter().filter(|f| f["payload"]["k"] == "caps");
        let last = frames.next_back().expect("told");
        assert_eq!(last["id"], "hub");
        last["payload"]["grants"].as_object().expect("a map").len()
    };
    assert_eq!((caps(&stage, a), caps(&stage, b)), (2, 1));
    let seen = stage.frames(b, "roster").pop().expect("told");
    assert_eq!(seen["members"].as_array().map(Vec::len), Some(2), "the hub and itself");
    stage.send(a, json!({ "t": "to", "id": stage.id(b), "payload": chat("psst") }));
    assert_eq!(stage.last(a)["reason"], "receive-directed");
}

#[test]
fn only_a_key_on_the_list_for_this_connection_lets_an_agent_in() {
    let (key, other) = (Key::new(), Key::new());
    let mut stage = Stage::new(|charter| charter.agent_keys = vec![key_with(&key, None)]);
    let good = stage.agent(&key);
    assert!(stage.id(good).starts_with("agent-"));
    // Another's assertion, one for another connection, and none.
    let conn = stage.open();
    for assertion in [stage.assertion(conn, &other), stage.assertion(good, &key), "x".repeat(3_000)] {
        stage.send(conn, json!({ "t": "voice", "on": true, "agentAssertion": assertion }));
        assert_eq!(stage.last(conn), json!({ "t": "lobby", "status": "unverified" }));
    }
    stage.send(conn, json!({ "t": "knock", "name": "Anna" }));
    stage.say(conn, chat("x"));
    assert_eq!(stage.last(conn)["code"], "not_admitted");
    stage.send(conn, json!({ "t": "knock", "jwt": "a.b" }));
    assert_eq!(stage.closed.get(&conn), Some(&4401), "five wrong ones are enough");
    let refused = stage.outputs.iter().filter(|o| matches!(o, Output::Unverified(_))).count();
    assert_eq!(refused, 5);
    // A second connection of the same key takes the place of the first.
    let again = stage.agent(&key);
    assert_eq!(stage.closed.get(&good), Some(&4409));
    assert_eq!(stage.frames(good, "error").pop().expect("told")["code"], "replaced");
    // Its key is taken off the list: it is out.
    stage.room.set_keys(Vec::new(), at(0));
    stage.settle();
    assert_eq!(stage.closed.get(&again), Some(&4401));
    let late = stage.agent(&key);
    assert_eq!(stage.last(late)["status"], "unverified");
}

#[test]
fn an_agent_is_an_agent_whatever_it_says() {
    let key = Key::new();
    let mut stage = Stage::new(|charter| {
        charter.open = true;
        charter.agent_keys = vec![key_with(&key, None)];
    });
    let human = stage.guest("Anna");
    let conn = stage.open();
    let assertion = stage.assertion(conn, &key);
    let meta = json!({ "role": "human", "backend": "Claude" });
    stage.send(conn, json!({ "t": "voice", "on": true, "agentAssertion": assertion, "meta": meta }));
    let roster = stage.frames(human, "roster").pop().expect("told");
    assert_eq!(roster["members"][2]["meta"], json!({ "backend": "Claude", "role": "agent" }));
    let person = stage.room.people(at(0)).into_iter().find(|p| p.via == "key").expect("there");
    assert_eq!((person.kind, person.grant.backend.as_deref(), person.grant.egress), ("agent", Some("Claude"), true));
    // A person may call itself an agent, and stays one.
    for role in ["agent", "human"] {
        stage.send(human, json!({ "t": "voice", "on": true, "meta": { "role": role } }));
        stage.say(human, chat("x"));
        assert_eq!(stage.last(human)["reason"], "send-chat");
    }
}

#[test]
fn invites_name_their_holders_and_hosts_moderate() {
    let mut stage = Stage::new(|charter| charter.lobby = true);
    let host = stage.invited("Hana", Some("host"));
    assert!(stage.id(host).starts_with("invited-"), "a host does not wait");
    let guest = stage.invited("Gil", None);
    assert_eq!(stage.last(guest)["status"], "waiting");
    stage.say(guest, chat("x"));
    assert_eq!(stage.last(guest)["code"], "not_admitted");
    let waiting = stage.room.people(at(0)).into_iter().find(|p| p.name == "Gil").expect("waits").id;
    stage.send(guest, json!({ "t": "mod", "op": "admit", "target": waiting }));
    assert_eq!(stage.last(guest)["code"], "not_admitted");
    stage.send(host, json!({ "t": "mod", "op": "admit", "target": waiting }));
    assert_eq!(stage.id(guest), waiting);
    stage.send(guest, json!({ "t": "mod", "op": "kick", "target": stage.id(host) }));
    assert_eq!(stage.last(guest)["reason"], "host");
    assert_eq!(stage.frames(guest, "roster").pop().expect("told")["host"], stage.id(host).as_str());
    stage.send(host, json!({ "t": "mod", "op": "lock" }));
    let late = stage.invited("Lou", None);
    assert_eq!(stage.last(late)["status"], "locked");
    stage.send(host, json!({ "t": "mod", "op": "reset" }));
    assert_eq!(stage.last(guest), json!({ "t": "reset" }));
    stage.send(host, json!({ "t": "mod", "op": "kick", "target": waiting }));
    assert_eq!(stage.closed.get(&guest), Some(&4403));
    assert!(stage.frames(guest, "kick").len() == 1);
    assert_eq!(stage.room.charter().blocked[0], waiting);
    assert!(stage.outputs.contains(&Output::Changed), "what a host changed is kept");
    stage.room.decide(&waiting, Decision::Admit, at(0)).expect("known");
    assert!(stage.room.charter().blocked.is_empty(), "and taken back");
    let turned_away = stage.invited("Theo", None);
    assert_eq!(stage.last(turned_away)["status"], "locked");
    stage.send(host, json!({ "t": "mod", "op": "unlock" }));
    stage.send(turned_away, json!({ "t": "voice", "on": true, "jwt": stage.invite("Theo", None) }));
    let id = stage.room.people(at(0)).into_iter().find(|p| p.name == "Theo").expect("waits").id;
    stage.send(host, json!({ "t": "mod", "op": "deny", "target": id }));
    assert_eq!(stage.closed.get(&turned_away), Some(&4403));
    let last = stage.invited("Uma", None);
    stage.send(host, json!({ "t": "mod", "op": "lobbyoff" }));
    assert!(stage.id(last).starts_with("invited-"), "whoever waits is let in");
}

#[test]
fn a_host_is_told_who_waits_and_what_happens_and_grants_to_others() {
    let mut stage = Stage::new(|charter| (charter.open, charter.lobby) = (true, true));
    let early = stage.guest("Early");
    let host = stage.invited("Hana", Some("host"));
    let waiting = |stage: &Stage| stage.frames(host, "host").pop().expect("a host is told")["waiting"].clone();
    let kinds = |stage: &Stage| -> Vec<Value> {
        let logs = stage.frames(host, "log").into_iter();
        logs.flat_map(|log| log["lines"].as_array().cloned().unwrap_or_default())
            .map(|line| line["kind"].clone())
            .collect()
    };
    assert_eq!(waiting(&stage)[0]["name"], "Early");
    assert_eq!(kinds(&stage), ["joined"]);
    let agent = stage.open();
    stage.send(agent, json!({ "t": "voice", "on": true, "name": "bot", "meta": { "role": "agent" } }));
    assert_eq!((&waiting(&stage)[1]["name"], &waiting(&stage)[1]["kind"]), (&json!("bot"), &json!("agent")));
    let told = stage.frames(host, "host").len();
    stage.send(agent, json!({ "t": "voice", "on": true, "name": "bot", "meta": { "role": "agent" } }));
    assert_eq!(stage.frames(host, "host").len(), told, "only what is new is told");
    for one in [early, agent] {
        let id = waiting(&stage)[0]["id"].clone();
        stage.send(host, json!({ "t": "mod", "op": "admit", "target": id }));
        assert_eq!(stage.id(one), id);
    }
    assert_eq!(waiting(&stage), json!([]));
    stage.say(agent, chat("x"));
    assert_eq!(stage.last(host)["lines"][0]["kind"], "blocked");
    assert_eq!(stage.last(host)["lines"][0]["name"], "bot");
    assert!(stage.frames(early, "host").is_empty() && stage.frames(early, "log").is_empty(), "others are not told");

    let grant = |stage: &mut Stage, by: u64, target: String, grant: Value| {
        stage.send(by, json!({ "t": "mod", "op": "grant", "target": target, "grant": grant }));
    };
    let wider = json!({ "perceive": ["read-chat"], "act": ["send-chat"], "backend": "Other" });
    let (agents, hosts) = (stage.id(agent), stage.id(host));
    grant(&mut stage, early, agents.clone(), wider.clone());
    assert_eq!(stage.last(early)["reason"], "host");
    grant(&mut stage, host, agents.clone(), wider.clone());
    stage.say(agent, chat("thanks"));
    assert_eq!(stage.content(early), [chat("thanks")]);
    let kept = &stage.room.charter().grants[&agents];
    assert_eq!(*kept, Grant::of([Capability::ReadChat, Capability::SendChat]), "no disclosure of a host's making");
    let recorded = stage.outputs.iter().filter(|o| matches!(o, Output::Record(e) if e.what == "grant")).count();
    assert_eq!(recorded, 1);
    grant(&mut stage, host, agents.clone(), Value::Null);
    assert!(stage.room.charter().grants.is_empty(), "back to the default");
    grant(&mut stage, host, "nobody".into(), wider.clone());
    assert_eq!(stage.last(host)["reason"], "unknown");
    grant(&mut stage, host, hosts, wider);
    assert_eq!(stage.last(host)["reason"], "self");
}

/// The same invite with the other signature that its content has.
fn twin(invite: &str) -> String {
    let (signed, signature) = invite.rsplit_once('.').expect("a token");
    let mut signature = URL_SAFE_NO_PAD.decode(signature).expect("base64");
    let order = hex::decode("ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551").expect("hex");
    let mut borrow = 0;
    for (s, n) in signature[32..].iter_mut().zip(order).rev() {
        let left = i32::from(n) - i32::from(*s) - borrow;
        (*s, borrow) = (left.rem_euclid(256) as u8, i32::from(left < 0));
    }
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}

#[test]
fn neither_a_kick_nor_a_grant_is_shed_by_coming_again_as_somebody_else() {
    let mut stage = Stage::new(|_| {});
    let invite = stage.invite("Ines", None);
    let other = twin(&invite);
    let come = |stage: &mut Stage, invite: &str, own: &str| {
        let conn = stage.open();
        stage.send(conn, json!({ "t": "voice", "on": true, "jwt": invite, "token": own }));
        conn
    };
    let first = come(&mut stage, &invite, "a");
    let id = stage.id(first);
    stage.room.set_grant(&id, Some(Grant::of([Capability::ReadRoster])), at(0)).expect("there");
    for (invite, own) in [(&invite, "b"), (&other, "c")] {
        let again = come(&mut stage, invite, own);
        assert_ne!(stage.id(again), id, "another participant");
        stage.say(again, chat("x"));
        assert_eq!(stage.last(again)["reason"], "send-chat", "with the same grant");
    }
    stage.room.kick(&id, at(0)).expect("there");
    stage.settle();
    for (invite, own) in [(&invite, "a"), (&invite, "d"), (&other, "e")] {
        let again = come(&mut stage, invite, own);
        assert_eq!(stage.closed.get(&again), Some(&4403), "{own}");
    }
    let fresh = stage.invite("Ines", None);
    let back = come(&mut stage, &fresh, "a");
    stage.id(back);
    stage.room.revoke_invite(&convoke_kibitz::room::invite_id(&fresh), at(0));
    stage.settle();
    assert_eq!(stage.closed.get(&back), Some(&4403), "a revoked invite's holder is out");
    let late = come(&mut stage, &twin(&fresh), "f");
    assert_eq!(stage.closed.get(&late), Some(&4403));
    stage.room.decide(&id, Decision::Admit, at(0)).expect("was kicked");
    let admitted = come(&mut stage, &invite, "g");
    stage.id(admitted);

    let operator = Caller::Operator { id: "t1".into(), name: "night shift".into(), host: true, speaks: true };
    let conn = stage.open_as(operator.clone());
    stage.send(conn, json!({ "t": "voice", "on": true, "token": "a" }));
    let id = stage.id(conn);
    stage.room.kick(&id, at(0)).expect("there");
    let again = stage.open_as(operator);
    stage.send(again, json!({ "t": "voice", "on": true, "token": "b" }));
    assert_eq!(stage.closed.get(&again), Some(&4403), "a token is a token");
}

#[test]
fn operators_come_by_their_token_under_its_name() {
    let mut stage = Stage::new(|_| {});
    let operator = |speaks, host| Caller::Operator { id: "t1".into(), name: "night shift".into(), host, speaks };
    let conn = stage.open_as(operator(true, true));
    stage.send(conn, json!({ "t": "voice", "on": true, "name": "Olga", "token": "a" }));
    assert_eq!(stage.frames(conn, "id")[0]["name"], "Olga (night shift)");
    stage.send(conn, json!({ "t": "mod", "op": "claim" }));
    assert_eq!(stage.frames(conn, "roster").pop().expect("told")["host"], stage.id(conn).as_str());
    let viewer = stage.open_as(operator(false, false));
    stage.send(viewer, json!({ "t": "voice", "on": true, "token": "b" }));
    stage.say(viewer, chat("x"));
    assert_eq!(stage.last(viewer)["reason"], "send-chat");
    stage.say(conn, chat("hello"));
    assert_eq!(stage.content(viewer), [chat("hello")]);
}

#[test]
fn a_guest_with_a_secret_is_the_same_one_again_and_a_kick_holds() {
    let mut stage = open();
    let come = |stage: &mut Stage, token: &str| {
        let conn = stage.open();
        stage.send(conn, json!({ "t": "voice", "on": true, "token": token }));
        conn
    };
    let first = come(&mut stage, "mine");
    let id = stage.id(first);
    stage.send(first, json!({ "t": "leave" }));
    let second = come(&mut stage, "mine");
    assert_eq!(stage.id(second), id);
    stage.room.kick(&id, at(0)).expect("there");
    stage.settle();
    let third = come(&mut stage, "mine");
    assert_eq!((stage.last(third), stage.closed.get(&third)), (json!({ "t": "kick" }), Some(&4403)));
    assert_ne!(stage.room.kick("nobody", at(0)), Ok(()));
}

#[test]
fn guests_from_where_one_was_kicked_wait_for_an_hour() {
    let mut stage = open();
    let from = |stage: &mut Stage, last: u8| {
        stage.network = Some([192, 0, 2, last].into());
        let conn = stage.open();
        stage.send(conn, json!({ "t": "voice", "on": true }));
        conn
    };
    let (kicked, neighbour) = (from(&mut stage, 1), from(&mut stage, 1));
    let id = stage.id(kicked);
    stage.room.kick(&id, at(0)).expect("there");
    stage.settle();
    assert_eq!(stage.closed.get(&neighbour), None, "who is in stays in");
    let (again, other) = (from(&mut stage, 1), from(&mut stage, 2));
    assert_eq!(stage.last(again), json!({ "t": "lobby", "status": "waiting" }));
    assert!(!stage.frames(other, "id").is_empty(), "from elsewhere nobody waits");
    stage.room.set_lobby(false, at(0));
    stage.settle();
    assert!(stage.frames(again, "id").is_empty(), "a lobby that is off lets them in no sooner");
    stage.tick(3_599);
    assert!(stage.frames(again, "id").is_empty());
    stage.tick(1);
    assert!(!stage.frames(again, "id").is_empty(), "after the hour they are guests like others");
}

#[test]
fn nobody_listens_unseen_and_nobody_speaks_so() {
    let mut stage = open();
    let a = stage.guest("Anna");
    let hidden = stage.open();
    stage.send(hidden, json!({ "t": "knock", "name": "x" }));
    stage.say(a, chat("hello"));
    assert!(stage.content(hidden).is_empty());
    stage.say(hidden, chat("boo"));
    assert_eq!(stage.last(hidden)["reason"], "absent");
    stage.send(hidden, json!({ "t": "voice", "on": true }));
    stage.say(a, chat("hello"));
    assert_eq!(stage.content(hidden).len(), 1);
}

#[test]
fn schemas_wait_for_who_comes_later_and_go_with_who_published_them() {
    let mut stage = open();
    let app = stage.guest("app");
    let schema = |version: &str| json!({ "k": "schema", "name": "whist", "version": version, "schema": { "a": 1 } });
    stage.say(app, schema("1"));
    stage.say(app, schema("2"));
    let late = stage.guest("late");
    assert_eq!(stage.content(late), [schema("2")], "the latest of a name");
    for n in 0..30 {
        stage.say(app, json!({ "k": "schema", "name": format!("s{n}"), "version": "1", "schema": {} }));
    }
    let later = stage.guest("later");
    assert_eq!(stage.content(later).len(), 25, "so many of one participant");
    stage.send(app, json!({ "t": "leave" }));
    let last = stage.guest("last");
    assert!(stage.content(last).is_empty());
}

#[test]
fn the_hub_posts_with_rule_and_sender_apart_and_in_parts() {
    let mut stage = open();
    let post = |stage: &mut Stage, text: &str| {
        let done = stage.room.post(Post { text, rule: "deploy", sender: "client-a" }, at(stage.now));
        stage.settle();
        done
    };
    assert_eq!(post(&mut stage, "built"), Err(PostError::Nobody));
    let (a, b) = (stage.guest("Anna"), stage.guest("Ben"));
    stage.grant(b, Grant::none());
    assert_eq!(post(&mut stage, "built"), Ok(1));
    let expect = json!({ "k": "chat", "text": "built", "ts": START * 1000, "rule": "deploy", "sender": "client-a" });
    assert_eq!(stage.content(a), [expect]);
    assert!(stage.content(b).is_empty(), "who may not read does not");
    let long = "ü".repeat(1_200);
    assert_eq!(post(&mut stage, &long), Ok(1));
    let parts = &stage.content(a)[1..];
    assert_eq!(parts.iter().map(|p| p["part"].clone()).collect::<Vec<_>>(), [json!(1), json!(2), json!(3)]);
    assert_eq!(parts.iter().map(|p| p["text"].as_str().expect("text")).collect::<String>(), long);
    assert_eq!(post(&mut stage, " \n"), Err(PostError::Empty));
    assert_eq!(post(&mut stage, &"x".repeat(16_001)), Err(PostError::TooLong));
}

#[test]
fn limits_hold_one_by_one() {
    let limits = Limits { participants: 2, outside: 2, frames_per_second: 5, bridged: 0 };
    let mut stage = Stage::with(limits, |charter| charter.open = true);
    let (a, _b) = (stage.guest("Anna"), stage.guest("Ben"));
    let c = stage.guest("Cleo");
    assert_eq!((stage.last(c)["code"].as_str(), stage.closed.get(&c)), (Some("full"), Some(&4503)));
    let (x, _y) = (stage.open(), stage.open());
    let z = stage.open();
    assert_eq!(stage.closed.get(&z), Some(&4503));
    for _ in 0..20 {
        stage.say(a, chat("x"));
    }
    let told = stage.frames(a, "error");
    assert_eq!((told.len(), told[0]["code"].as_str()), (1, Some("rate")), "told once a second");
    for _ in 0..65 {
        stage.send(x, json!({ "t": "ping" }));
    }
    assert_eq!(stage.closed.get(&x), Some(&4429));
    stage.tick(10);
    assert!(stage.closed.values().any(|code| *code == 4408), "who is not in in time goes");
    stage.send_text(a, &"x".repeat(MAX_FRAME_AFTER + 1));
    assert_eq!(stage.last(a)["code"], "too_large");
    stage.send_text(a, "{");
    stage.send_text(a, "{");
    assert_eq!(stage.closed.get(&a), Some(&4400));
    let d = stage.open();
    stage.send_text(d, &"x".repeat(MAX_FRAME_BEFORE + 1));
    assert_eq!(stage.last(d)["code"], "too_large");
}

#[test]
fn what_a_participant_says_about_itself_is_bounded_and_cleaned() {
    let mut stage = open();
    let conn = stage.open();
    let meta = json!({ "big": "x".repeat(5_000) });
    let name = format!("a\u{202e}b\nc{}", "x".repeat(200));
    stage.send(conn, json!({ "t": "voice", "on": true, "name": name, "meta": meta, "avatar": "x".repeat(600) }));
    let roster = stage.frames(conn, "roster").pop().expect("told");
    let member = &roster["members"][1];
    assert_eq!(member["name"].as_str().map(|n| (n.chars().count(), n.starts_with("a b c"))), Some((80, true)));
    assert!(member["meta"].is_null() && member["avatar"].is_null());
    let before = stage.heard[&conn].len();
    stage.send(conn, json!({ "t": "voice", "on": true }));
    assert_eq!(stage.heard[&conn].len(), before, "an announcement without news is not told again");
    assert_eq!(Grant::default_of(Kind::Human), stage.room.people(at(0))[0].grant);
}
