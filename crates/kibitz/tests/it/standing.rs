//! Agents that somebody outside vouches or pays for, and operators with a pass, step by step.

use std::sync::Arc;

use convoke_kibitz::admission::{Invite, binding_nonce};
use convoke_kibitz::credential::{CreditPolicy, IssuerPolicy, Jwks, Keys};
use convoke_kibitz::grant::{Capability, Grant};
use serde_json::{Value, json};

use crate::support::{Key, OUT, PUBLISHED, START, Stage, at, jwks, jwt, key_with};

const ADDRESS: &str = "https://ci.example/jwks";

fn policy(keys: Keys) -> IssuerPolicy {
    IssuerPolicy {
        issuer: "https://ci.example".into(),
        keys,
        audience: "rooms".into(),
        claims: [("sub".into(), "repo:acme/*".into())].into(),
        bound: false,
        caps: Some(Grant::of([Capability::ReadChat, Capability::SendChat])),
        label: Some("ci".into()),
    }
}

fn pinned() -> Keys {
    Keys { jwks_uri: None, jwks: Some(jwks()) }
}

fn credits() -> CreditPolicy {
    CreditPolicy { issuers: vec!["https://pay.example".into()], keys: pinned(), kind: None }
}

fn workload(sub: &str, exp: i64) -> Value {
    json!({ "iss": "https://ci.example", "sub": sub, "aud": "rooms", "exp": START + exp })
}

fn credit(exp: i64) -> String {
    jwt(&json!({ "iss": "https://pay.example", "sub": "wallet", "room": "standup", "exp": START + exp }))
}

fn voice(stage: &mut Stage, conn: u64, more: Value) {
    let mut frame = json!({ "t": "voice", "on": true });
    frame.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    stage.send(conn, frame);
}

fn join(stage: &mut Stage, more: Value) -> u64 {
    let conn = stage.open();
    voice(stage, conn, more);
    conn
}

fn is_in(stage: &Stage, conn: u64) -> bool {
    !stage.frames(conn, "id").is_empty() && !stage.closed.contains_key(&conn)
}

#[test]
fn an_issuer_vouches_for_agents_and_they_are_agents_whatever_they_say() {
    let mut stage = Stage::new(|charter| charter.issuers = vec![policy(pinned())]);
    let token = jwt(&workload("repo:acme/x", 600));
    let one = join(&mut stage, json!({ "jwt": token, "token": "one", "meta": { "role": "human" } }));
    let two = join(&mut stage, json!({ "jwt": token, "token": "two" }));
    assert!(is_in(&stage, one) && is_in(&stage, two), "two jobs under one subject");
    let person = stage.room.people(at(0)).into_iter().find(|p| p.id == stage.id(one)).expect("there");
    assert_eq!((person.kind, person.via, person.name.as_str()), ("agent", "issuer", "ci"));
    stage.say(one, json!({ "k": "chat", "text": "built" }));
    assert_eq!(stage.content(two).len(), 1);
    for bad in [
        workload("repo:evil/x", 600),
        workload("repo:acme/x", -100),
        json!({ "iss": "https://evil.example", "sub": "repo:acme/x", "aud": "rooms", "exp": START + 600 }),
        json!({ "iss": "https://ci.example", "sub": "repo:acme/x", "aud": "elsewhere", "exp": START + 600 }),
        json!({ "iss": "https://ci.example", "sub": "repo:acme/x", "aud": "rooms", "exp": START + 600, "nonce": binding_nonce("aa:bb", "standup") }),
    ] {
        let conn = join(&mut stage, json!({ "jwt": jwt(&bad) }));
        assert_eq!(stage.last(conn)["status"], "unverified", "{bad}");
    }
    // A kick is the subject's, with whatever secret it comes again.
    let id = stage.id(one);
    stage.room.kick(&id, at(0)).expect("known");
    stage.settle();
    assert!(!is_in(&stage, one) && !is_in(&stage, two));
    let again = join(&mut stage, json!({ "jwt": token, "token": "three" }));
    assert_eq!(stage.last(again), json!({ "t": "kick" }));
}

#[test]
fn who_is_vouched_for_goes_when_the_token_has_run_out_or_the_policy_is_gone() {
    let mut stage = Stage::new(|charter| charter.issuers = vec![policy(pinned())]);
    let agent = join(&mut stage, json!({ "jwt": jwt(&workload("repo:acme/x", 30)), "token": "one" }));
    let renews = join(&mut stage, json!({ "jwt": jwt(&workload("repo:acme/y", 30)), "token": "two" }));
    stage.tick(100);
    // Another's token renews nothing.
    voice(&mut stage, agent, json!({ "jwt": jwt(&workload("repo:acme/y", 600)) }));
    voice(&mut stage, renews, json!({ "jwt": jwt(&workload("repo:acme/y", 600)) }));
    stage.tick(20);
    assert!(!is_in(&stage, agent) && is_in(&stage, renews));
    let lapsed = stage.frames(agent, "kick").pop().expect("told");
    assert_eq!(lapsed["reason"], "lapsed");
    let again = join(&mut stage, json!({ "jwt": jwt(&workload("repo:acme/x", 600)), "token": "one" }));
    assert!(is_in(&stage, again), "nobody is kept out");
    stage.room.set_admission(Vec::new(), None, at(stage.now));
    stage.settle();
    assert!(!is_in(&stage, renews) && !is_in(&stage, again));
}

#[test]
fn who_comes_before_the_issuers_keys_are_known_is_let_in_with_them() {
    let mut stage =
        Stage::new(|charter| charter.issuers = vec![policy(Keys { jwks_uri: Some(ADDRESS.into()), jwks: None })]);
    let waits = join(&mut stage, json!({ "jwt": jwt(&workload("repo:acme/x", 600)) }));
    stage.tick(3);
    assert_eq!(stage.last(waits)["t"], "hello", "neither in nor turned away");
    let keys = Arc::new(Jwks::read(&jwks().to_string()).expect("a set"));
    PUBLISHED.with_borrow_mut(|published| published.insert(ADDRESS.into(), keys));
    stage.tick(1);
    assert!(is_in(&stage, waits));
    let never = Stage::new(|charter| {
        charter.issuers = vec![policy(Keys { jwks_uri: Some("https://gone/".into()), jwks: None })]
    });
    let mut stage = never;
    let waits = join(&mut stage, json!({ "jwt": jwt(&workload("repo:acme/x", 600)) }));
    stage.tick(10);
    assert_eq!(stage.closed.get(&waits), Some(&4408));
}

#[test]
fn agents_pay_for_their_presence_where_the_room_asks_for_that() {
    let key = Key::new();
    let mut stage = Stage::new(|charter| {
        charter.open = true;
        charter.agent_keys = vec![key_with(&key, None)];
        charter.credits = Some(credits());
    });
    let person = stage.guest("Anna");
    let operator = stage.open_as(convoke_kibitz::room::Caller::Operator {
        id: "o".into(),
        name: "o".into(),
        host: true,
        speaks: true,
    });
    voice(&mut stage, operator, json!({ "meta": { "role": "agent" } }));
    assert!(is_in(&stage, person) && is_in(&stage, operator));
    let agent = stage.open();
    let with_key = |stage: &mut Stage, credit: Option<String>| {
        let assertion = stage.assertion(agent, &key);
        voice(stage, agent, json!({ "agentAssertion": assertion, "agentCredit": credit }));
    };
    // However often it asks without one, that is no guess.
    for _ in 0..6 {
        with_key(&mut stage, None);
    }
    assert_eq!(stage.last(agent)["status"], "unverified");
    for bad in
        [credit(-100), jwt(&json!({ "iss": "https://pay.example", "sub": "w", "room": "other", "exp": START + 60 }))]
    {
        with_key(&mut stage, Some(bad));
        assert_eq!(stage.last(agent)["status"], "unverified");
    }
    with_key(&mut stage, Some(credit(60)));
    assert!(is_in(&stage, agent), "{:?}", stage.last(agent));
    stage.tick(100);
    assert!(is_in(&stage, agent));
    voice(&mut stage, agent, json!({ "agentCredit": credit(160) }));
    stage.tick(100);
    assert!(is_in(&stage, agent), "it has brought another one");
    voice(&mut stage, agent, json!({ "agentCredit": credit(60) }));
    stage.tick(50);
    assert!(!is_in(&stage, agent), "90 seconds after the last one that counted");
    assert_eq!(stage.frames(agent, "kick").pop().expect("told")["reason"], "lapsed");
    // Whoever says late that it is an agent pays from then on.
    voice(&mut stage, person, json!({ "meta": { "role": "agent" } }));
    stage.tick(1);
    assert!(is_in(&stage, person) && is_in(&stage, operator));
    stage.tick(90);
    assert!(!is_in(&stage, person) && is_in(&stage, operator));
}

#[test]
fn in_a_closed_room_without_keys_a_credit_lets_agents_in_and_nobody_else() {
    let mut stage = Stage::new(|charter| charter.credits = Some(credits()));
    let agent = join(&mut stage, json!({ "agentCredit": credit(60), "meta": { "role": "agent" } }));
    assert!(is_in(&stage, agent));
    assert_eq!(stage.room.people(at(0))[0].via, "credit");
    let person = join(&mut stage, json!({ "agentCredit": credit(60) }));
    assert_eq!(stage.last(person)["status"], "unverified");
}

#[test]
fn a_pass_is_the_operators_and_ends_with_their_rights() {
    let mut stage = Stage::new(|_| {});
    let pass = |stage: &Stage, operator: &str, exp: i64| {
        let (name, operator) = ("whatever".into(), Some(operator.into()));
        let invite = Invite { name, room: "standup".into(), exp: START + exp, role: Some("host".into()), operator };
        invite.sign(&stage.room_key).expect("signed")
    };
    let (olga, viewer) = (pass(&stage, "Olga", 600), pass(&stage, "viewer", 600));
    let host = join(&mut stage, json!({ "jwt": olga, "token": "a" }));
    let looks = join(&mut stage, json!({ "jwt": viewer, "token": "b", "name": "Vic" }));
    let people = stage.room.people(at(0));
    let facts = |conn: u64| {
        people.iter().find(|p| p.id == stage.id(conn)).map(|p| (p.name.clone(), p.via, p.is_host)).expect("there")
    };
    assert_eq!(facts(host), ("Olga".into(), "operator", true));
    assert_eq!(facts(looks), ("Vic (viewer)".into(), "operator", false), "the hub's word, not the pass's");
    stage.say(looks, json!({ "k": "chat", "text": "x" }));
    assert_eq!(stage.last(looks)["reason"], "send-chat");
    for void in [pass(&stage, "nobody", 600), pass(&stage, "Olga", -1)] {
        let conn = join(&mut stage, json!({ "jwt": void }));
        assert_eq!(stage.last(conn)["status"], "unverified");
    }
    // A grant is theirs, with another pass and another secret, too; a kick as well.
    stage.grant(looks, Grant::of([Capability::ReadChat, Capability::SendChat]));
    let another = pass(&stage, "viewer", 700);
    let again = join(&mut stage, json!({ "jwt": another, "token": "c" }));
    stage.say(again, json!({ "k": "chat", "text": "x" }));
    assert_eq!(stage.content(host).len(), 1);
    OUT.with_borrow_mut(|out| out.push("viewer".into()));
    stage.tick(1);
    assert!(is_in(&stage, host) && !is_in(&stage, looks) && !is_in(&stage, again));
    assert_eq!(stage.frames(looks, "error").pop().expect("told")["code"], "revoked");
}
