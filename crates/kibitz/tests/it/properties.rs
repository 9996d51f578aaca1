//! Whatever frames come, in whatever order: nobody is heard who may not speak, and nothing is delivered that is withheld.
//! The grants that count are kept beside the room by a model that knows nothing of it.

use std::collections::BTreeMap;

use convoke_kibitz::admission;
use convoke_kibitz::frame::exercise;
use convoke_kibitz::grant::{Capability, Grant, Kind};
use convoke_kibitz::room::Output;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{Key, START, Stage, at, key_with};

/// Who takes part: two people, an agent that says so itself, two with keys of which the second may speak.
const ACTORS: usize = 5;

#[derive(Clone, Debug)]
enum Step {
    Join(usize),
    Leave(usize),
    Voice(usize, bool, Option<&'static str>),
    Say(usize, &'static str, Option<usize>),
    Grant(usize, u8, Option<i64>),
    Default(usize),
    Tick(i64),
    Raw(usize, String),
}

const KINDS: &[&str] = &["chat", "say", "app", "act", "view", "pay", "ink", "schema", "caps", "idtoken", "newer"];

fn step() -> impl Strategy<Value = Step> {
    let actor = 0..ACTORS;
    let word = prop::sample::select(vec!["to", "voice", "knock", "mod", "leave", "ping", "from", "roster"]);
    let role = prop::sample::select(vec![None, Some("agent"), Some("human"), Some("kibitzer")]);
    prop_oneof![
        3 => actor.clone().prop_map(Step::Join),
        1 => actor.clone().prop_map(Step::Leave),
        2 => (actor.clone(), any::<bool>(), role).prop_map(|(a, on, role)| Step::Voice(a, on, role)),
        12 => (actor.clone(), prop::sample::select(KINDS), prop::option::of(actor.clone()))
            .prop_map(|(a, kind, to)| Step::Say(a, kind, to)),
        5 => (actor.clone(), any::<u8>(), prop::option::of(-2i64..5)).prop_map(|(a, bits, s)| Step::Grant(a, bits, s)),
        1 => actor.clone().prop_map(Step::Default),
        2 => (0i64..4).prop_map(Step::Tick),
        3 => (actor, word, ".{0,20}").prop_map(|(a, word, text)| {
            Step::Raw(a, json!({ "t": word, "on": true, "op": text, "payload": { "k": text, "text": text } }).to_string())
        }),
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
        "caps" => json!({ "k": "caps", "grants": { "x": { "act": ["send-chat"] } } }),
        "idtoken" => json!({ "k": "idtoken", "jwt": "x" }),
        "newer" => json!({ "k": "newer", "x": 1 }),
        _ => json!({ "k": "chat", "text": "x" }),
    }
}

/// What the model knows of an actor.
#[derive(Clone, Debug)]
struct Known {
    conn: u64,
    id: String,
    is_agent: bool,
    base: Grant,
    present: bool,
}

struct World {
    stage: Stage,
    keys: Vec<Key>,
    here: BTreeMap<usize, Known>,
    explicit: BTreeMap<String, Grant>,
}

impl World {
    fn new() -> Self {
        let keys = vec![Key::new(), Key::new()];
        let speaks = Grant::of([Capability::ReadChat, Capability::ReadRoster, Capability::SendChat]);
        let stage = Stage::new(|charter| {
            charter.open = true;
            charter.agent_keys = vec![key_with(&keys[0], None), key_with(&keys[1], Some(speaks.clone()))];
        });
        Self { stage, keys, here: BTreeMap::new(), explicit: BTreeMap::new() }
    }

    fn join(&mut self, actor: usize) {
        if let Some(known) = self.here.remove(&actor) {
            self.stage.send(known.conn, json!({ "t": "leave" }));
        }
        let conn = self.stage.open();
        let token = format!("secret of {actor}");
        let (frame, base, is_agent) = match actor {
            2 | 3 => {
                let key = actor - 2;
                let assertion = self.stage.assertion(conn, &self.keys[key]);
                // It says that it is a person; that must not help.
                let frame =
                    json!({ "t": "voice", "on": true, "agentAssertion": assertion, "meta": { "role": "human" } });
                let speaks = Grant::of([Capability::ReadChat, Capability::ReadRoster, Capability::SendChat]);
                (frame, if key == 1 { speaks } else { Grant::default_of(Kind::Agent) }, true)
            }
            4 => (
                json!({ "t": "voice", "on": true, "token": token, "meta": { "role": "agent" } }),
                Grant::default_of(Kind::Agent),
                true,
            ),
            _ => (json!({ "t": "voice", "on": true, "token": token }), Grant::default_of(Kind::Human), false),
        };
        self.stage.send(conn, frame);
        let id = self.stage.id(conn);
        self.here.insert(actor, Known { conn, id, is_agent, base, present: true });
    }

    fn may(&self, known: &Known, capability: Capability) -> bool {
        let grant = self.explicit.get(&known.id).unwrap_or(&known.base);
        grant.allows(capability, START + self.stage.now)
    }

    /// Every piece of content that went out since the last look must have been allowed.
    fn check(&mut self, step: &Step) -> Result<(), TestCaseError> {
        for output in std::mem::take(&mut self.stage.outputs) {
            let Output::Send(to, text) = output else { continue };
            let frame: Value = serde_json::from_str(&text).expect("JSON");
            let hearers: Vec<&Known> =
                to.iter().filter_map(|conn| self.here.values().find(|known| known.conn == conn.0)).collect();
            if frame["t"] == "roster" {
                let ids = frame["members"].as_array().expect("a list");
                for hearer in &hearers {
                    let others = ids.iter().any(|m| m["id"] != "hub" && m["id"] != hearer.id.as_str());
                    prop_assert!(!others || self.may(hearer, Capability::ReadRoster), "{step:?}: {frame}");
                }
            }
            if frame["t"] != "from" || frame["id"] == "hub" {
                continue;
            }
            let Some(sender) = self.here.values().find(|known| frame["id"] == known.id.as_str()) else {
                return Err(TestCaseError::fail(format!("{step:?}: from somebody who is not there: {frame}")));
            };
            let payload = &frame["payload"];
            prop_assert!(self.may(sender, Capability::SendChat), "{step:?}: {frame}");
            prop_assert!(sender.present, "{step:?}: spoke unseen: {frame}");
            prop_assert!(payload["k"] != "caps" && payload["k"] != "idtoken", "{step:?}: {frame}");
            match payload["data"]["__kib_agent"].as_str() {
                Some("act") => prop_assert!(self.may(sender, Capability::Act), "{step:?}: {frame}"),
                Some("view") => prop_assert!(!sender.is_agent, "{step:?}: {frame}"),
                _ => {}
            }
            let directed = matches!(step, Step::Say(_, _, Some(_)));
            let needed = if directed { Capability::ReceiveDirected } else { Capability::ReadChat };
            for hearer in &hearers {
                prop_assert!(self.may(hearer, needed), "{step:?}: {} heard {frame}", hearer.id);
                prop_assert!(hearer.present, "{step:?}: {} listened unseen: {frame}", hearer.id);
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn nobody_is_heard_who_may_not_speak_and_nothing_withheld_is_delivered(steps in prop::collection::vec(step(), 1..60)) {
        let mut world = World::new();
        for step in &steps {
            match step {
                // Connections are counted in a byte here.
                Step::Join(actor) if world.stage.heard.len() < 200 => world.join(*actor),
                Step::Join(_) => {}
                Step::Leave(actor) => {
                    if let Some(known) = world.here.remove(actor) {
                        world.stage.send(known.conn, json!({ "t": "leave" }));
                    }
                }
                Step::Voice(actor, on, role) => {
                    if let Some(known) = world.here.get_mut(actor) {
                        known.present = *on;
                        if *role == Some("agent") && !known.is_agent {
                            known.is_agent = true;
                            known.base = known.base.intersect(&Grant::default_of(Kind::Agent));
                        }
                        let conn = known.conn;
                        world.stage.send(conn, json!({ "t": "voice", "on": on, "meta": { "role": role } }));
                    }
                }
                Step::Say(actor, kind, to) => {
                    let to = to.and_then(|to| world.here.get(&to)).map(|known| known.id.clone());
                    // Whoever is meant may not be there; then it is said to nobody.
                    let to = match (step, to) { (Step::Say(.., Some(_)), None) => Some("nobody".into()), (_, to) => to };
                    if let Some(known) = world.here.get(actor) {
                        let conn = known.conn;
                        world.stage.send(conn, json!({ "t": "to", "id": to, "payload": payload(kind) }));
                    }
                }
                Step::Grant(actor, bits, seconds) => {
                    if let Some(known) = world.here.get(actor) {
                        let capabilities = Capability::ALL.iter().enumerate().filter(|(n, _)| bits & (1 << n) != 0);
                        let expires_at = seconds.map(|s| START + world.stage.now + s);
                        let grant = Grant::of(capabilities.map(|(_, c)| *c)).until(expires_at);
                        world.explicit.insert(known.id.clone(), grant.clone());
                        let conn = known.conn;
                        world.stage.grant(conn, grant);
                    }
                }
                Step::Default(actor) => {
                    if let Some(known) = world.here.get(actor) {
                        world.explicit.remove(&known.id);
                        let now = at(world.stage.now);
                        world.stage.room.set_grant(&known.id, None, now).expect("known");
                        world.stage.settle();
                    }
                }
                Step::Tick(seconds) => world.stage.tick(*seconds),
                Step::Raw(actor, text) => {
                    if let Some(known) = world.here.get_mut(actor) {
                        let conn = known.conn;
                        if text.contains(r#""voice""#) {
                            known.present = true;
                        }
                        world.stage.send_text(conn, text);
                    }
                }
            }
            world.check(step)?;
            // Who was closed is gone.
            let closed = &world.stage.closed;
            world.here.retain(|_, known| !closed.contains_key(&known.conn));
        }
    }

    #[test]
    fn any_bytes_are_a_frame_or_told_why_not(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        exercise(&bytes);
        admission::exercise(&bytes);
    }

    #[test]
    fn any_credential_is_read_or_refused(word in ".{0,4}", time in any::<i64>()) {
        let shown = json!({
            "k": "kbz-agent-key.v1", "room": "room", "fp": "", "iat": time, "exp": time, "name": word, "role": "host",
            "mode": "invite", "members": [word],
        });
        admission::exercise(shown.to_string().as_bytes());
    }

    #[test]
    fn anything_shaped_like_a_frame_is_read_the_same_twice(
        word in prop::sample::select(vec!["to", "voice", "knock", "mod", "from", "roster", "hello", "lobby", "refused"]),
        kind in prop::sample::select(KINDS),
        text in ".{0,40}",
        more in "[a-z\"{}:,\\[\\]]{0,30}",
    ) {
        let frame = json!({
            "t": word, "on": true, "name": text, "op": "kick", "target": text, "id": text, "ref": 3,
            "payload": payload(kind), "members": [{ "id": text }], "relay": 1, "room": text, "challenge": text,
            "status": "waiting", "reason": text,
        });
        exercise(frame.to_string().as_bytes());
        exercise(format!(r#"{{"t":"{word}","payload":{{"k":"{kind}",{more}}}}}"#).as_bytes());
    }
}
