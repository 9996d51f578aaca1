//! Both ends on a fake clock: a server of one allowed client, and connections to it.

use std::time::Duration;

use convoke_core::secret::SecretText;
use convoke_core::time::Timestamp;
use convoke_yonexus::Now;
use convoke_yonexus::answer::{self, Answer};
use convoke_yonexus::builtin::{AuthRequest, Body, Builtin, Hello};
use convoke_yonexus::client::{ClientSession, HEARTBEAT, Identity};
use convoke_yonexus::close::Close;
use convoke_yonexus::code::{PairingCode, RANDOM};
use convoke_yonexus::message::{Message, split};
use convoke_yonexus::reason::Status;
use convoke_yonexus::record::{Greeting, HelloOutcome, HelloRefusal, Notification, Record};
use convoke_yonexus::server::{Event, Output, ServerConfig, ServerSession};
use convoke_yonexus::{key, proof};
use ed25519_dalek::SigningKey;

pub const TTL: Duration = Duration::from_secs(300);
pub const ALLOWED: &str = "client-a";

/// A moment, in seconds after the start.
pub fn at(seconds: u64) -> Now {
    Now {
        wall: Timestamp::from_millis(1_711_886_400_000 + 1000 * seconds as i64),
        mono: Duration::from_secs(seconds),
    }
}

pub fn key_of(n: u8) -> SigningKey {
    SigningKey::from_bytes(&[n; 32])
}

pub fn client(n: u8, secret: Option<SecretText>) -> ClientSession {
    let identity = Identity { identifier: ALLOWED.into(), key: key_of(n), secret };
    ClientSession::new(identity, HEARTBEAT)
}

pub fn hello(n: u8, has_secret: bool) -> String {
    hello_as(ALLOWED, n, has_secret)
}

pub fn hello_as(identifier: &str, n: u8, has_secret: bool) -> String {
    let hello = Hello {
        identifier: identifier.into(),
        has_secret,
        has_key_pair: true,
        public_key: Some(key::encode(&key_of(n).verifying_key())),
        protocol_version: "1".into(),
    };
    Builtin::new(Some("h".into()), 0, Body::Hello(hello)).encode()
}

pub fn confirm(code: &str) -> String {
    let body = Body::PairConfirm { identifier: ALLOWED.into(), pairing_code: SecretText::new(code) };
    Builtin::new(Some("c".into()), 0, body).encode()
}

pub fn auth(n: u8, secret: &SecretText, nonce: u8, time: i64) -> String {
    let nonce = proof::nonce(&[nonce; 24]);
    let signature = proof::sign(&key_of(n), secret, &nonce, time);
    let request =
        AuthRequest { identifier: ALLOWED.into(), nonce, proof_timestamp: time, signature, public_key: None };
    Builtin::new(Some("a".into()), 0, Body::AuthRequest(request)).encode()
}

pub fn heartbeat() -> String {
    Builtin::new(None, 0, Body::Heartbeat { identifier: ALLOWED.into() }).encode()
}

/// A server with one client on its allow-list.
pub struct Server {
    pub record: Record,
    /// Whether the administrator can be told.
    pub reachable: bool,
    codes: u8,
    secrets: u8,
}

/// One connection to it.
pub struct Connection {
    pub session: ServerSession,
    /// Everything the server ever said on it, as it travels.
    pub said: Vec<String>,
    pub closed: Option<Close>,
    pub status: Option<Status>,
    pub rules: Vec<String>,
}

impl Connection {
    pub fn open(now: Now) -> Self {
        let session = ServerSession::new(ServerConfig::default(), now);
        Self { session, said: Vec::new(), closed: None, status: None, rules: Vec::new() }
    }

    fn say(&mut self, frames: impl IntoIterator<Item = Builtin>) {
        self.said.extend(frames.into_iter().map(|frame| frame.encode()));
    }

    fn answer(&mut self, answer: Answer) {
        self.say(answer.frames);
        if let Some(close) = answer.close {
            self.session.end();
            self.closed = Some(close);
        }
    }

    /// What the server last said, as JSON.
    pub fn last(&self) -> serde_json::Value {
        let text = self.said.last().expect("it said something");
        let Ok(Message::Builtin(json)) = split(text) else { panic!("{text}") };
        serde_json::from_str(json).expect("JSON")
    }

    /// The types of all frames so far.
    pub fn kinds(&self) -> Vec<String> {
        let kind = |text: &String| {
            let Ok(Message::Builtin(json)) = split(text) else { return "rule".to_owned() };
            serde_json::from_str::<serde_json::Value>(json).expect("JSON")["type"].as_str().expect("text").to_owned()
        };
        self.said.iter().map(kind).collect()
    }

    pub fn tick(&mut self, now: Now) {
        match self.session.on_tick(now) {
            Some(Output::Status(status, reason)) => {
                self.status = Some(status);
                if status == Status::Offline {
                    self.say([answer::disconnect_notice(ALLOWED, &reason, now)]);
                    self.session.end();
                    self.closed = Some(convoke_yonexus::close::TIMEOUT);
                } else {
                    self.say([answer::status_update(ALLOWED, status, Some(reason), now)]);
                }
            }
            Some(Output::Close(frames, close)) => {
                self.say(frames);
                self.closed = Some(close);
            }
            None => {}
        }
    }
}

impl Server {
    pub fn new() -> Self {
        Self { record: Record::new(ALLOWED), reachable: true, codes: 0, secrets: 0 }
    }

    pub fn code(&self) -> String {
        self.record.pairing.as_ref().expect("a pairing").code.reveal().to_owned()
    }

    pub fn secret(&self) -> SecretText {
        self.record.secret.clone().expect("paired")
    }

    /// Pairs and answers the secret.
    pub fn pair(&mut self, n: u8, now: Now) -> SecretText {
        let mut connection = Connection::open(now);
        self.hear(&mut connection, &hello(n, false), now);
        let code = self.code();
        self.hear(&mut connection, &confirm(&code), now);
        self.secret()
    }

    fn fresh_secret(&mut self) -> SecretText {
        self.secrets += 1;
        SecretText::new(format!("secret-{}", self.secrets))
    }

    /// A text comes in on a connection.
    pub fn hear(&mut self, connection: &mut Connection, text: &str, now: Now) {
        match connection.session.on_text(text, now) {
            Event::Hello { request_id, hello, key } => {
                if hello.protocol_version != "1" {
                    connection.answer(answer::unsupported_version(&hello.identifier, request_id, now));
                    return;
                }
                if hello.identifier != ALLOWED {
                    let refusal = HelloRefusal::NotAllowed;
                    connection.answer(answer::refused_hello(&hello.identifier, refusal, request_id, now));
                    return;
                }
                self.codes = self.codes.wrapping_add(1);
                let seed = self.codes;
                let greeting = Greeting { key: key.as_ref(), has_secret: hello.has_secret };
                let outcome = self.record.hello(greeting, now, TTL, || Some(PairingCode::new(&[seed % 239; RANDOM])));
                if outcome == HelloOutcome::Started {
                    let told = if self.reachable { Notification::Sent } else { Notification::Failed };
                    self.record.pairing.as_mut().expect("just begun").notification = told;
                }
                if !matches!(outcome, HelloOutcome::Rejected(_) | HelloOutcome::NoKey) {
                    connection.session.greeted(ALLOWED, key, Some(TTL), now);
                }
                connection.answer(answer::hello(&self.record, outcome, request_id.clone(), now));
                if outcome == HelloOutcome::Approved {
                    let secret = self.fresh_secret();
                    let key = key.expect("an approved pairing has one");
                    if self.record.complete(&key, secret, now) {
                        connection.say(answer::pair_success(&self.record, request_id, now));
                    }
                }
            }
            Event::PairConfirm { request_id, code, key } => {
                let secret = self.fresh_secret();
                match self.record.confirm(&code, &key.expect("pairing has a key"), secret, now) {
                    Ok(()) => {
                        connection.session.paired(now);
                        connection.say(answer::pair_success(&self.record, request_id, now));
                    }
                    Err(why) => connection.say([answer::pair_failed(ALLOWED, why, request_id, now)]),
                }
            }
            Event::AuthRequest { request_id, request } => match self.record.authenticate(&request, now) {
                Ok(accepted) => {
                    connection.session.accept(&accepted, now);
                    connection.status = Some(Status::Online);
                    connection.say([answer::auth_success(ALLOWED, request_id, now)]);
                }
                Err(refusal) => connection.say(answer::auth_failed(ALLOWED, refusal, request_id, now)),
            },
            Event::Heartbeat { recovered } => {
                if recovered {
                    connection.status = Some(Status::Online);
                    connection.say([answer::status_update(ALLOWED, Status::Online, None, now)]);
                }
            }
            Event::Rule(rule) => connection.rules.push(rule.content.to_owned()),
            Event::Reply(frame) => connection.say([frame]),
            Event::Dropped(frame) => connection.say(frame),
            Event::Close(frames, close) => {
                connection.say(frames);
                connection.closed = Some(close);
            }
            Event::Ignored => {}
        }
    }
}
