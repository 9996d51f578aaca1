//! Presence on the mesh, and what participants hold each other to.

use std::collections::{BTreeMap, VecDeque};

use convoke_kibitz::admission::{HostCommand, assert};
use convoke_kibitz::frame::Moderation;
use convoke_kibitz::grant::{Capability, Grant, Kind};
use convoke_kibitz::key::Signer as _;
use convoke_kibitz::mesh::enforce::{Arrived, Enforcer};
use convoke_kibitz::mesh::pack::{Value as Packed, exercise};
use convoke_kibitz::mesh::presence::{Presence, ToPeer};
use convoke_kibitz::room::{Arrival, Caller, Charter, Conn, Output, Room, Transport};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{Checks, Key, START, Stage, at, key_with};

const HUB: &str = "zzhub";

/// A mesh room with participants.
struct Mesh {
    room: Room,
    presence: Presence,
    room_key: Key,
    now: i64,
    heard: BTreeMap<u64, Vec<Value>>,
    caps: BTreeMap<u64, Value>,
    /// What the hub said with other media peers: with which, to whom, what.
    said: Vec<(String, u64, Value)>,
    closed: Vec<u64>,
    bridges: u32,
    next: u64,
}

impl Mesh {
    fn new(change: impl FnOnce(&mut Charter)) -> Self {
        let Stage { room, room_key, .. } = Stage::new(change);
        let presence = Presence::new(HUB, at(0).mono);
        let (heard, caps) = (BTreeMap::new(), BTreeMap::new());
        Self {
            room,
            presence,
            room_key,
            now: 0,
            heard,
            caps,
            said: Vec::new(),
            closed: Vec::new(),
            bridges: 0,
            next: 0,
        }
    }

    fn settle(&mut self) {
        let mut outputs = VecDeque::from(self.room.drain());
        while let Some(output) = outputs.pop_front() {
            // As the runtime does, before anything names them.
            let there = self.room.bridged();
            let gone = self.presence.bridged().keys().filter(|id| !there.contains(id)).cloned().collect::<Vec<_>>();
            gone.iter().for_each(|id| drop(self.presence.unbridge(id)));
            for id in there {
                if !self.presence.bridged().contains_key(&id) {
                    self.presence.bridge(&id, &format!("{HUB}-{}", self.bridges));
                    self.bridges += 1;
                }
            }
            match output {
                Output::Send(to, text) => {
                    for conn in to {
                        if !self.presence.has(conn) {
                            let frame = serde_json::from_str(&text).expect("JSON");
                            self.heard.entry(conn.0).or_default().push(frame);
                            continue;
                        }
                        for sent in self.presence.outgoing(conn, &text, at(self.now)) {
                            match sent {
                                ToPeer::Presence(value) => {
                                    self.heard.entry(conn.0).or_default().push(value.to_json())
                                }
                                ToPeer::Content(value) => drop(self.caps.insert(conn.0, value.to_json())),
                                ToPeer::Bridged(from, value) => self.said.push((from, conn.0, value.to_json())),
                            }
                        }
                    }
                }
                Output::Close(conn, _) => {
                    self.closed.push(conn.0);
                    self.room.closed(conn, at(self.now));
                    self.presence.closed(&mut self.room, conn, at(self.now));
                }
                _ => {}
            }
            outputs.extend(self.room.drain());
        }
    }

    fn open(&mut self) -> u64 {
        self.next += 1;
        let challenge = [u8::try_from(self.next).expect("few"); 32];
        let certificate = print(self.next);
        self.open_with(challenge, &certificate)
    }

    fn open_with(&mut self, challenge: [u8; 32], certificate: &str) -> u64 {
        let (host, caller) = (String::new(), Caller::Stranger);
        let arrival = Arrival { challenge, host, certificate: None, network: None, caller };
        self.presence.open(&mut self.room, Conn(self.next), certificate, arrival, at(self.now));
        self.settle();
        self.next
    }

    fn send(&mut self, conn: u64, frame: Value) {
        let value = Packed::from_json(&frame);
        self.presence.on_value(&mut self.room, Conn(conn), &value, &Checks, at(self.now));
        self.settle();
    }

    fn join(&mut self, media: &str, more: Value) -> u64 {
        let conn = self.open();
        self.voice(conn, media, more);
        conn
    }

    fn voice(&mut self, conn: u64, media: &str, more: Value) {
        // As the field sends it: what is absent is null.
        let mut frame = json!({ "t": "voice", "on": true, "cam": false, "name": media, "voiceId": media, "meta": null, "jwt": null });
        frame.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        self.send(conn, frame);
    }

    fn tick(&mut self, seconds: i64) {
        for _ in 0..seconds {
            self.now += 1;
            for (conn, value) in self.presence.on_tick(&mut self.room, at(self.now)) {
                self.heard.entry(conn.0).or_default().push(value.to_json());
            }
            self.settle();
        }
    }

    fn roster(&self, conn: u64) -> Vec<String> {
        let mut rosters = self.heard.get(&conn).into_iter().flatten().filter(|frame| frame["t"] == "roster");
        let Some(roster) = rosters.next_back() else { return Vec::new() };
        assert_eq!(roster["host"], HUB);
        let members = roster["members"].as_array().expect("a list").iter();
        let mut ids: Vec<String> = members.map(|m| m["id"].as_str().expect("a text").into()).collect();
        ids.retain(|id| id != HUB);
        ids.sort();
        ids
    }

    fn member(&self, conn: u64, id: &str) -> Value {
        let mut rosters = self.heard.get(&conn).into_iter().flatten().filter(|frame| frame["t"] == "roster");
        let members = rosters.next_back().expect("a roster")["members"].clone();
        members.as_array().expect("a list").iter().find(|member| member["id"] == id).expect("listed").clone()
    }

    fn lobby(&self, conn: u64) -> Vec<String> {
        let frames = self.heard.get(&conn).into_iter().flatten().filter(|frame| frame["t"] == "lobby");
        frames.map(|frame| frame["status"].as_str().expect("a text").to_owned()).collect()
    }

    fn kicked(&self, conn: u64) -> bool {
        self.heard.get(&conn).into_iter().flatten().any(|frame| frame["t"] == "kick")
    }
}

fn print(conn: u64) -> String {
    format!("aa:{conn:02x}")
}

#[test]
fn rosters_have_the_ids_that_browsers_dial_and_the_hub_as_host() {
    let mut mesh = Mesh::new(|charter| charter.open = true);
    let anna = mesh.join("anna", json!({}));
    let bert = mesh.join("bert", json!({ "meta": { "role": "agent" } }));
    assert_eq!(mesh.roster(anna), ["anna", "bert"]);
    let grants = &mesh.caps[&bert]["grants"];
    assert_eq!(
        grants[HUB],
        json!({ "perceive": ["receive-directed"], "act": [] }),
        "nothing said to all is for the hub"
    );
    assert_eq!(grants["bert"]["act"], json!([]));
    assert_eq!(grants["anna"]["act"], json!(["send-chat", "speak", "act"]));
    mesh.send(bert, json!({ "t": "leave" }));
    assert_eq!(mesh.roster(anna), ["anna"]);
    mesh.send(anna, json!({ "t": "nonsense" }));
    assert!(mesh.closed.contains(&bert) && !mesh.closed.contains(&anna), "what is unknown is ignored");
}

#[test]
fn an_agent_comes_in_by_a_key_that_is_bound_to_its_certificate() {
    let (key, stranger) = (Key::new(), Key::new());
    let speaks = Grant::of([Capability::ReadChat, Capability::SendChat]);
    let mut mesh = Mesh::new(|charter| charter.agent_keys = vec![key_with(&key, Some(speaks))]);
    let says = |key: &Key, room: &str, conn: u64, age: i64| json!({ "agentAssertion": assert(key, room, &print(conn), START - age).expect("signed") });
    let quiet = mesh.join("quiet", json!({}));
    assert!(mesh.lobby(quiet).is_empty() && mesh.roster(quiet).is_empty(), "without a credential: a quiet hold");
    for (n, bad) in [
        says(&key, "standup", 99, 0),
        says(&key, "other", 2 + 1, 0),
        says(&key, "standup", 2 + 2, 301),
        says(&stranger, "standup", 2 + 3, 0),
        json!({ "agentAssertion": "x".repeat(2_049) }),
    ]
    .into_iter()
    .enumerate()
    {
        let conn = mesh.join("agent", bad);
        assert_eq!(mesh.lobby(conn), ["unverified"], "{n}");
    }
    let agent = mesh.open();
    // It omits its role, and asserts again with each announcement.
    for _ in 0..3 {
        let assertion = says(&key, "standup", agent, 0);
        mesh.voice(agent, "scribe", assertion);
    }
    assert_eq!(mesh.roster(agent), ["scribe"], "without `read-roster` it sees itself");
    assert_eq!(mesh.caps[&agent]["grants"]["scribe"]["act"], json!(["send-chat"]));
    mesh.room.set_keys(Vec::new(), at(mesh.now));
    mesh.settle();
    assert!(mesh.closed.contains(&agent) && mesh.kicked(agent), "revocation is live");
}

#[test]
fn a_media_peer_is_its_owners() {
    let mut mesh = Mesh::new(|charter| charter.open = true);
    let anna = mesh.join("anna", json!({ "token": "secret" }));
    let thief = mesh.join("anna", json!({ "token": "other" }));
    assert_eq!(mesh.roster(thief), Vec::<String>::new());
    assert_eq!(mesh.join(HUB, json!({})), thief + 1);
    assert_eq!(mesh.roster(anna), ["anna"], "nor is the hub's anybody's");
    let again = mesh.join("anna", json!({ "token": "secret" }));
    assert!(mesh.closed.contains(&anna), "who comes again replaces itself");
    assert_eq!(mesh.roster(again), ["anna"]);
}

#[test]
fn who_is_kicked_stays_out_and_a_locked_room_lets_nobody_new_in() {
    let mut mesh = Mesh::new(|charter| charter.open = true);
    let host = mesh.open();
    let invite = convoke_kibitz::admission::Invite {
        name: "Host".into(),
        room: "standup".into(),
        exp: START + 100,
        role: Some("host".into()),
        operator: None,
    };
    let invite = invite.sign(&mesh.room_key).expect("signed");
    mesh.voice(host, "host", json!({ "jwt": invite }));
    let bert = mesh.join("bert", json!({ "token": "b" }));
    mesh.send(bert, json!({ "t": "mod", "op": "kick", "target": "host" }));
    assert_eq!(mesh.roster(host), ["bert", "host"], "a guest is no host");
    mesh.send(host, json!({ "t": "mod", "op": "kick", "target": "bert" }));
    assert!(mesh.kicked(bert) && mesh.closed.contains(&bert));
    // With the same media peer, or with the same secret.
    let same_peer = mesh.join("bert", json!({ "token": "new" }));
    let same_token = mesh.join("other", json!({ "token": "b" }));
    assert!(mesh.kicked(same_peer) && mesh.kicked(same_token));
    // Or with the same certificate.
    mesh.next += 1;
    let same_certificate = mesh.open_with([77; 32], &print(bert));
    mesh.voice(same_certificate, "bert-2", json!({ "token": "newer" }));
    assert!(mesh.kicked(same_certificate));
    // What is kept of the room knows them after a restart, too.
    let kept = serde_json::to_string(mesh.room.charter()).expect("JSON");
    assert!(serde_json::from_str::<Charter>(&kept).expect("a charter").is_media_blocked("bert"));
    let id = mesh.room.charter().blocked[0].clone();
    mesh.room.decide(&id, convoke_kibitz::room::Decision::Admit, at(0)).expect("was kicked");
    assert!(!mesh.room.charter().is_media_blocked("bert"), "who is admitted again is with all of it");
    mesh.send(host, json!({ "t": "mod", "op": "lock" }));
    let late = mesh.join("late", json!({}));
    assert_eq!(mesh.lobby(late), ["locked"]);
}

#[test]
fn a_signed_command_counts_once_in_its_time_and_on_its_connection() {
    let host_key = Key::new();
    let mut mesh = Mesh::new(|charter| {
        charter.open = true;
        charter.host_keys = vec![host_key.public_key()];
    });
    let (anna, bert) = (mesh.join("anna", json!({})), mesh.join("bert", json!({})));
    let command = |key: &Key, room: &str, conn: u64, age: i64, target: &str| {
        let command = HostCommand { op: Moderation::Kick, target: Some(target.into()), jti: Some("1".into()) };
        json!({ "t": "mod", "token": command.sign(key, room, &print(conn), START - age).expect("signed") })
    };
    for bad in [
        command(&Key::new(), "standup", anna, 0, "bert"),
        command(&host_key, "other", anna, 0, "bert"),
        command(&host_key, "standup", bert, 0, "bert"),
        command(&host_key, "standup", anna, 121, "bert"),
        command(&host_key, "standup", anna, -61, "bert"),
    ] {
        mesh.send(anna, bad);
        assert!(!mesh.kicked(bert));
    }
    let kick = command(&host_key, "standup", anna, 0, "bert");
    mesh.send(anna, kick.clone());
    assert!(mesh.kicked(bert));
    let id = mesh.room.charter().blocked[0].clone();
    mesh.room.decide(&id, convoke_kibitz::room::Decision::Admit, at(0)).expect("was kicked");
    mesh.send(anna, kick);
    assert!(mesh.room.charter().blocked.is_empty(), "the same number is not followed twice");
}

#[test]
fn the_lobby_holds_and_the_silent_are_dropped() {
    let mut mesh = Mesh::new(|charter| (charter.open, charter.lobby) = (true, true));
    let anna = mesh.join("anna", json!({ "token": "a" }));
    assert_eq!((mesh.lobby(anna), mesh.roster(anna)), (vec!["waiting".into()], vec![]));
    mesh.room.set_lobby(false, at(0));
    mesh.settle();
    assert_eq!(mesh.roster(anna), ["anna"]);
    let count = mesh.heard[&anna].len();
    mesh.tick(3);
    let beat: Vec<_> = mesh.heard[&anna][count..].iter().map(|frame| frame["t"].clone()).collect();
    assert_eq!(beat, ["ping", "roster"]);
    mesh.send(anna, json!({ "t": "ping" }));
    mesh.tick(11);
    assert!(!mesh.closed.contains(&anna));
    mesh.tick(1);
    assert!(mesh.closed.contains(&anna));
    let bert = mesh.join("bert", json!({}));
    mesh.now += 60;
    mesh.tick(1);
    assert!(!mesh.closed.contains(&bert), "nobody is blamed for the authority's own pause");
}

/// What another one might send, and to whom it pretends to belong.
#[derive(Clone, Debug)]
enum Step {
    Caps(usize, usize, u8, Option<i64>),
    Roster(u8, u8, usize),
    Say(usize, &'static str),
    Wait(i64),
}

const IDS: [&str; 4] = ["agent", "anna", "bert", "hub"];
const KINDS: &[&str] = &["chat", "say", "app", "act", "view", "pay", "ink", "schema", "idtoken", "newer"];

fn step() -> impl Strategy<Value = Step> {
    let who = 0..IDS.len();
    prop_oneof![
        3 => (who.clone(), who.clone(), any::<u8>(), prop::option::of(-2i64..5))
            .prop_map(|(from, of, bits, end)| Step::Caps(from, of, bits, end)),
        1 => (any::<u8>(), any::<u8>(), who.clone()).prop_map(|(there, agents, host)| Step::Roster(there, agents, host)),
        6 => (who, prop::sample::select(KINDS)).prop_map(|(from, kind)| Step::Say(from, kind)),
        1 => (0i64..4).prop_map(Step::Wait),
    ]
}

fn payload(kind: &str) -> Value {
    match kind {
        "say" => json!({ "k": "app", "data": { "__kib_agent": "chat", "text": "x" } }),
        "app" => json!({ "k": "app", "data": [1] }),
        "act" => json!({ "k": "app", "data": { "__kib_agent": "act", "action": 1 } }),
        "view" => json!({ "k": "app", "data": { "__kib_agent": "view", "view": 1 } }),
        "pay" => json!({ "k": "pay", "url": "https://x" }),
        "ink" => json!({ "k": "ink", "e": { "k": "clear" } }),
        "schema" => json!({ "k": "schema", "name": "s", "version": "1", "schema": {} }),
        "idtoken" => json!({ "k": "idtoken", "jwt": "x" }),
        "newer" => json!({ "k": "newer" }),
        _ => json!({ "k": "chat", "text": "x" }),
    }
}

/// What is true, as the authority said it last.
#[derive(Default)]
struct Model {
    host: usize,
    there: Vec<usize>,
    agents: Vec<usize>,
    said: BTreeMap<usize, (u8, Option<i64>)>,
    now: i64,
}

impl Model {
    fn may(&self, who: usize, capability: Capability) -> bool {
        let place = Capability::ALL.iter().position(|c| *c == capability).expect("one of them");
        match self.said.get(&who) {
            Some((bits, end)) => bits & (1 << place) != 0 && end.is_none_or(|end| self.now < end),
            None if self.agents.contains(&who) => Grant::default_of(Kind::Agent).allows(capability, self.now),
            None => true,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn nothing_of_another_counts_that_its_grant_withholds(steps in prop::collection::vec(step(), 1..50)) {
        let mut enforcer = Enforcer::new("anna");
        let mut model = Model { host: usize::MAX, ..Model::default() };
        for step in &steps {
            match *step {
                Step::Wait(seconds) => model.now += seconds,
                Step::Roster(there, agents, host) => {
                    let chosen = |bits: u8| (0..IDS.len()).filter(|n| bits & (1 << n) != 0).collect::<Vec<_>>();
                    if model.host != host {
                        model.said.clear();
                    }
                    (model.there, model.host) = (chosen(there), host);
                    model.agents = chosen(agents & there);
                    let member = |n: &usize| {
                        let meta = if model.agents.contains(n) { json!({ "role": "agent" }) } else { Value::Null };
                        json!({ "id": IDS[*n], "name": IDS[*n], "cam": false, "meta": meta })
                    };
                    let members: Vec<Value> = model.there.iter().map(member).collect();
                    let roster = json!({ "t": "roster", "members": members, "host": IDS[host] });
                    prop_assert!(enforcer.on_roster(&Packed::from_json(&roster)));
                }
                Step::Caps(from, of, bits, end) => {
                    let end = end.map(|seconds| model.now + seconds);
                    let named = Capability::ALL.iter().enumerate().filter(|(n, _)| bits & (1 << n) != 0).map(|(_, c)| *c);
                    let grant = Grant::of(named).until(end);
                    let caps = json!({ "k": "caps", "grants": { IDS[of]: grant } });
                    let arrived = enforcer.on_content(IDS[from], &Packed::from_json(&caps), model.now);
                    prop_assert_eq!(arrived == Arrived::Caps, from == model.host, "only the host says who may what");
                    if from == model.host {
                        model.said = [(of, (bits, end))].into();
                    }
                }
                Step::Say(from, kind) => {
                    let arrived = enforcer.on_content(IDS[from], &Packed::from_json(&payload(kind)), model.now);
                    if from != model.host && let Arrived::Content(_) = &arrived {
                        prop_assert!(model.there.contains(&from), "{step:?}: not in the roster");
                        prop_assert!(model.may(from, Capability::SendChat), "{step:?}");
                        prop_assert!(kind != "act" || model.may(from, Capability::Act), "{step:?}");
                        prop_assert!(kind != "view" || !model.agents.contains(&from), "{step:?}");
                        prop_assert!(kind != "idtoken", "{step:?}");
                    }
                }
            }
            // And what goes out.
            for hearer in enforcer.hearers(model.now) {
                let who = IDS.iter().position(|id| **id == hearer).expect("one of them");
                prop_assert!(model.there.contains(&who) && model.may(who, Capability::ReadChat), "{hearer}");
            }
            for (who, id) in IDS.iter().enumerate() {
                let directed = enforcer.may_receive(id, model.now);
                prop_assert!(!directed || (model.there.contains(&who) && model.may(who, Capability::ReceiveDirected)));
                prop_assert!(!enforcer.may_perceive(id, true, model.now) || model.may(who, Capability::HearAudio));
                prop_assert!(!enforcer.may_perceive(id, false, model.now) || model.may(who, Capability::SeeScreen));
            }
        }
    }

    #[test]
    fn any_bytes_are_a_message_of_the_mesh_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        exercise(&bytes);
    }
}

#[test]
fn the_hub_speaks_for_a_participant_of_the_relay_under_the_same_grants() {
    let mut mesh = Mesh::new(|charter| {
        charter.open = true;
        charter.transport = Transport::Mesh;
    });
    let anna = mesh.join("anna", json!({}));
    let relay = |mesh: &mut Mesh, name: &str| {
        mesh.next += 1;
        let conn = Conn(mesh.next);
        let challenge = [u8::try_from(mesh.next).expect("few"); 32];
        let (host, caller) = ("hub".into(), Caller::Stranger);
        let arrival = Arrival { challenge, host, certificate: None, network: None, caller };
        mesh.room.open(conn, arrival, at(mesh.now));
        let voice = json!({ "t": "voice", "on": true, "name": name, "token": name }).to_string();
        mesh.room.on_text(conn, &voice, &Checks, at(mesh.now));
        mesh.settle();
        conn
    };
    let ben = relay(&mut mesh, "Ben");
    assert_eq!(mesh.roster(anna), ["anna", "zzhub-0"], "under an id of the hub's");
    let member = mesh.member(anna, "zzhub-0");
    assert_eq!((&member["name"], &member["meta"]["bridged"]), (&json!("Ben"), &json!(true)));
    assert_eq!(mesh.caps[&anna]["grants"]["zzhub-0"]["act"], json!(["send-chat", "speak", "act"]));
    assert_eq!(mesh.join("zzhub-0", json!({})), ben.0 + 1);
    assert_eq!(mesh.roster(anna), ["anna", "zzhub-0"], "which is nobody else's");

    let chat = |text: &str| json!({ "k": "chat", "text": text });
    mesh.room.on_text(ben, &json!({ "t": "to", "payload": chat("hello") }).to_string(), &Checks, at(mesh.now));
    mesh.settle();
    assert_eq!(mesh.said, [("zzhub-0".to_owned(), anna, chat("hello"))]);
    let over = |mesh: &mut Mesh, from: u64, payload: Value| {
        let payload = serde_json::value::to_raw_value(&payload).expect("JSON");
        let to = mesh.presence.bridged_as("zzhub-0").expect("bridged").to_owned();
        mesh.room.speak_over(Conn(from), &to, &payload, at(mesh.now));
        mesh.settle();
    };
    over(&mut mesh, anna, json!({ "k": "chat", "text": "hi Ben", "mid": "anna#1" }));
    let heard = mesh.heard[&ben.0].last().expect("something").clone();
    assert_eq!(heard["payload"], chat("hi Ben"));
    assert!(heard["id"].as_str().is_some_and(|id| id.starts_with("guest-")), "{heard}");
    // An agent that says more than it may; actions past the hub; what only the hub says.
    let agent = mesh.join("agent", json!({ "meta": { "role": "agent" } }));
    let before = mesh.heard[&ben.0].len();
    for payload in [
        chat("I am let in everywhere"),
        json!({ "k": "app", "data": { "__kib_agent": "view", "view": { "score": 99 } } }),
        json!({ "k": "caps", "grants": {} }),
    ] {
        over(&mut mesh, agent, payload);
    }
    over(&mut mesh, anna, json!({ "k": "app", "data": { "__kib_agent": "act", "action": 1 } }));
    assert_eq!(mesh.heard[&ben.0].len(), before, "{:?}", &mesh.heard[&ben.0][before..]);
    // What is withheld from who is bridged is not handed on.
    let id = mesh.presence.bridged_as("zzhub-0").expect("bridged").to_owned();
    mesh.room
        .set_grant(&id, Some(Grant::of([Capability::ReadRoster, Capability::SendChat])), at(mesh.now))
        .expect("known");
    mesh.settle();
    let before = mesh.heard[&ben.0].len();
    over(&mut mesh, anna, chat("behind his back"));
    assert_eq!(mesh.heard[&ben.0].len(), before);

    // So many and no more, and when they go their place is free.
    relay(&mut mesh, "Cleo");
    let full = relay(&mut mesh, "Dora");
    assert_eq!(mesh.heard[&full.0].last().expect("told")["code"], "full");
    mesh.room.closed(ben, at(mesh.now));
    mesh.settle();
    assert!(!mesh.roster(anna).contains(&"zzhub-0".to_owned()));
}
