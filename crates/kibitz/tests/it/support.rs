//! Keys, and a room with participants, without sockets.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, UnparsedPublicKey,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use convoke_core::time::Timestamp;
use convoke_kibitz::Now;
use convoke_kibitz::admission::{AgentKey, Invite, assert, challenge_text, relay_fingerprint};
use convoke_kibitz::credential::Jwks;
use convoke_kibitz::grant::Grant;
use convoke_kibitz::key::{PublicKey, Signer, Verifier};
use convoke_kibitz::room::{Act, Acted, Arrival, Caller, Charter, Conn, Limits, Output, Room};
use serde_json::value::RawValue;
use serde_json::{Value, json};

pub const HOST: &str = "hub.example:7410";
pub const START: i64 = 1_780_000_000;

pub struct Key(EcdsaKeyPair);

impl Key {
    pub fn new() -> Self {
        Self(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key"))
    }

    pub fn from_pkcs8(bytes: &[u8]) -> Self {
        Self(EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, bytes).expect("a key"))
    }
}

impl Signer for Key {
    fn public_key(&self) -> PublicKey {
        PublicKey::from_sec1(self.0.public_key().as_ref()).expect("a point")
    }

    fn sign(&self, bytes: &[u8]) -> Option<[u8; 64]> {
        self.0.sign(&SystemRandom::new(), bytes).expect("signs").as_ref().try_into().ok()
    }
}

pub struct Checks;

impl Verifier for Checks {
    fn verify(&self, key: &PublicKey, bytes: &[u8], signature: &[u8; 64]) -> bool {
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key.sec1()).verify(bytes, signature).is_ok()
    }

    /// An RSA signature is good here if it is the modulus.
    fn verify_rsa(&self, modulus: &[u8], _: &[u8], _: &[u8], signature: &[u8]) -> bool {
        modulus == signature
    }

    fn published(&self, address: &str) -> Option<Arc<Jwks>> {
        PUBLISHED.with_borrow(|published| published.get(address).cloned())
    }

    /// `Olga` may moderate, `viewer` only looks.
    fn operator(&self, _: &str, operator: &str) -> Option<Caller> {
        let is_out = OUT.with_borrow(|out| out.iter().any(|one| one == operator));
        let known = ["Olga", "viewer"].contains(&operator) && !is_out;
        let (id, name, is_host) = (operator.to_owned(), operator.to_owned(), operator == "Olga");
        known.then_some(Caller::Operator { id, name, host: is_host, speaks: is_host })
    }
}

thread_local! {
    /// The keys that issuers have published, by address: for this test alone.
    pub static PUBLISHED: RefCell<BTreeMap<String, Arc<Jwks>>> = const { RefCell::new(BTreeMap::new()) };
    /// Operators that are none any more.
    pub static OUT: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// A JWK set with one RSA key.
pub fn jwks() -> Value {
    json!({ "keys": [{ "kty": "RSA", "n": URL_SAFE_NO_PAD.encode("the key"), "e": "AQAB" }] })
}

/// A JWT under that key.
pub fn jwt(claims: &Value) -> String {
    let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
    format!("{}.{}.{}", part(r#"{"alg":"RS256"}"#), part(&claims.to_string()), part("the key"))
}

pub fn at(seconds: i64) -> Now {
    let mono = Duration::from_secs(u64::try_from(seconds).expect("not before the start"));
    Now { wall: Timestamp::from_millis((START + seconds) * 1000), mono }
}

/// A room, what it sent to whom, and what it closed.
pub struct Stage {
    pub room: Room,
    pub room_key: Key,
    pub now: i64,
    pub heard: BTreeMap<u64, Vec<Value>>,
    pub closed: BTreeMap<u64, u16>,
    pub outputs: Vec<Output>,
    pub acting: Vec<(String, Act)>,
    acts: u32,
    /// Where those who come now come from.
    pub network: Option<std::net::IpAddr>,
    next: u64,
}

impl Stage {
    pub fn new(change: impl FnOnce(&mut Charter)) -> Self {
        Self::with(Limits { participants: 8, outside: 8, frames_per_second: 50, bridged: 2 }, change)
    }

    pub fn with(limits: Limits, change: impl FnOnce(&mut Charter)) -> Self {
        let room_key = Key::new();
        let mut charter = Charter {
            name: "standup".into(),
            transport: convoke_kibitz::room::Transport::Relay,
            open: false,
            lobby: false,
            locked: false,
            key: room_key.public_key(),
            agent_keys: Vec::new(),
            host_keys: Vec::new(),
            posts: std::collections::BTreeSet::new(),
            grants: BTreeMap::new(),
            blocked: Vec::new(),
            credentials: BTreeMap::new(),
            held: BTreeMap::new(),
            agents: std::collections::BTreeSet::new(),
            issuers: Vec::new(),
            credits: None,
            suspects: BTreeMap::new(),
        };
        change(&mut charter);
        let room = Room::new(charter, limits, at(0));
        let (heard, closed) = (BTreeMap::new(), BTreeMap::new());
        Self {
            room,
            room_key,
            now: 0,
            heard,
            closed,
            outputs: Vec::new(),
            network: None,
            acting: Vec::new(),
            acts: 0,
            next: 0,
        }
    }

    pub fn settle(&mut self) {
        let mut outputs = VecDeque::from(self.room.drain());
        while let Some(output) = outputs.pop_front() {
            match &output {
                Output::Send(to, text) => {
                    let frame: Value = serde_json::from_str(text).expect("frames are JSON");
                    for conn in to {
                        self.heard.entry(conn.0).or_default().push(frame.clone());
                    }
                }
                Output::Close(conn, close) => {
                    self.closed.insert(conn.0, close.code);
                    self.room.closed(*conn, at(self.now));
                }
                // A hub without rules lets every action pass.
                Output::Act(act) => {
                    let id = format!("hub-{}", self.acts);
                    self.acts += 1;
                    match self.room.deliver(act, &id, at(self.now)) {
                        Ok(_) => self.acting.push((id, act.clone())),
                        Err(why) => self.room.fail_act(act, why.reason(), &why.to_string()),
                    }
                    outputs.extend(self.room.drain());
                }
                Output::Acted(Acted { act, outcome }) => {
                    let at = self.acting.iter().position(|(id, _)| id == act).expect("it was delivered");
                    let (_, asked) = self.acting.swap_remove(at);
                    match outcome {
                        Ok(result) => {
                            let raw = result.clone().map(|text| RawValue::from_string(text).expect("JSON"));
                            self.room.answer_act(&asked, raw.as_deref());
                        }
                        Err(why) => self.room.fail_act(&asked, "failed", why),
                    }
                    outputs.extend(self.room.drain());
                }
                _ => {}
            }
            self.outputs.push(output);
        }
    }

    /// A connection that has said nothing.
    pub fn open_as(&mut self, caller: Caller) -> u64 {
        self.next += 1;
        let challenge = [u8::try_from(self.next).expect("few"); 32];
        self.room.open(
            Conn(self.next),
            Arrival { challenge, host: HOST.into(), certificate: None, network: self.network, caller },
            at(self.now),
        );
        self.settle();
        self.next
    }

    pub fn open(&mut self) -> u64 {
        self.open_as(Caller::Stranger)
    }

    pub fn send(&mut self, conn: u64, frame: Value) {
        self.send_text(conn, &frame.to_string());
    }

    pub fn send_text(&mut self, conn: u64, text: &str) {
        self.room.on_text(Conn(conn), text, &Checks, at(self.now));
        self.settle();
    }

    pub fn tick(&mut self, seconds: i64) {
        self.now += seconds;
        self.room.on_tick(at(self.now));
        self.room.check(&Checks, at(self.now));
        self.settle();
    }

    pub fn say(&mut self, conn: u64, payload: Value) {
        self.send(conn, json!({ "t": "to", "ref": 7, "payload": payload }));
    }

    /// A guest of an open room, in the roster.
    pub fn guest(&mut self, name: &str) -> u64 {
        let conn = self.open();
        self.send(conn, json!({ "t": "voice", "on": true, "name": name }));
        conn
    }

    /// What this connection would sign.
    pub fn assertion(&self, conn: u64, key: &Key) -> String {
        let challenge = challenge_text(&[u8::try_from(conn).expect("few"); 32]);
        assert(key, "standup", &relay_fingerprint(HOST, &challenge), START + self.now).expect("signed")
    }

    /// The holder of a key, in the roster.
    pub fn agent(&mut self, key: &Key) -> u64 {
        let conn = self.open();
        let assertion = self.assertion(conn, key);
        self.send(conn, json!({ "t": "voice", "on": true, "name": "scribe", "agentAssertion": assertion }));
        conn
    }

    pub fn invite(&self, name: &str, role: Option<&str>) -> String {
        let exp = START + 3600;
        let invite =
            Invite { name: name.into(), room: "standup".into(), exp, role: role.map(Into::into), operator: None };
        invite.sign(&self.room_key).expect("signed")
    }

    /// Somebody with an invite, in the roster.
    pub fn invited(&mut self, name: &str, role: Option<&str>) -> u64 {
        let conn = self.open();
        let invite = self.invite(name, role);
        self.send(conn, json!({ "t": "voice", "on": true, "jwt": invite }));
        conn
    }

    pub fn id(&self, conn: u64) -> String {
        let frame = self.frames(conn, "id").pop().expect("it is in");
        frame["id"].as_str().expect("a text").to_owned()
    }

    /// Frames of a kind that this connection got.
    pub fn frames(&self, conn: u64, t: &str) -> Vec<Value> {
        self.heard.get(&conn).into_iter().flatten().filter(|frame| frame["t"] == t).cloned().collect()
    }

    /// Content from others that this connection got.
    pub fn content(&self, conn: u64) -> Vec<Value> {
        let frames = self.frames(conn, "from").into_iter().map(|frame| frame["payload"].clone());
        frames.filter(|payload| payload["k"] != "caps").collect()
    }

    pub fn last(&self, conn: u64) -> Value {
        self.heard.get(&conn).and_then(|frames| frames.last()).cloned().unwrap_or(Value::Null)
    }

    pub fn grant(&mut self, conn: u64, grant: Grant) {
        let id = self.id(conn);
        self.room.set_grant(&id, Some(grant), at(self.now)).expect("known");
        self.settle();
    }
}

pub fn key_with(key: &Key, caps: Option<Grant>) -> AgentKey {
    AgentKey { key: key.public_key(), caps, label: Some("scribe".into()) }
}
