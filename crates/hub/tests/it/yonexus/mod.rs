//! Yonexus as its users meet it.

mod bad_input;
mod discord;
pub mod fake_http;
mod liveness;
mod messages;
mod outbox;
mod pairing;
mod proofs;
mod sending;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use convoke_core::secret::SecretText;
use convoke_core::time::Timestamp;
use convoke_yonexus::Now;
use convoke_yonexus::builtin::{AuthRequest, Body, Builtin};
use convoke_yonexus::client::{ClientSession, HEARTBEAT, Identity};
use convoke_yonexus::proof;
use serde_json::{Value, json};

use crate::support::{Bare, TOKEN, TestHub, key_of};

pub fn now() -> Now {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    Now { wall: Timestamp::from_millis(since.as_millis() as i64), mono: since }
}

pub fn random() -> [u8; 24] {
    let mut bytes = [0; 24];
    getrandom::fill(&mut bytes).expect("randomness");
    bytes
}

/// A client that follows the contract, step by step.
pub struct TestClient {
    pub socket: Bare,
    pub session: ClientSession,
    pub identifier: String,
    /// Everything the hub ever said.
    pub heard: Vec<String>,
}

impl TestHub {
    /// Lets a client pair.
    pub async fn allow(&self, identifier: &str) {
        let reply = self.post("/api/yonexus/clients", json!({ "identifier": identifier })).await;
        assert_eq!(reply.status, 200, "{reply:?}");
    }

    /// A bare socket at the clients' door.
    pub async fn yonexus_socket(&self) -> Bare {
        let url = format!("{}/yonexus", self.http.replace("http://", "ws://"));
        let (socket, _) = tokio_tungstenite::connect_async(url).await.expect("upgrades");
        Bare(socket)
    }

    /// A client that has connected and said nothing.
    pub async fn client(&self, identifier: &str) -> TestClient {
        self.client_with(identifier, None).await
    }

    /// A client with a secret that has connected and said nothing.
    pub async fn client_with(&self, identifier: &str, secret: Option<SecretText>) -> TestClient {
        let identity = Identity { identifier: identifier.into(), key: key_of(identifier), secret };
        TestClient {
            socket: self.yonexus_socket().await,
            session: ClientSession::new(identity, HEARTBEAT),
            identifier: identifier.into(),
            heard: Vec::new(),
        }
    }

    /// The code of a pairing under way, as an operator sees it.
    pub async fn code(&self, identifier: &str) -> String {
        let pairings = self.get("/api/yonexus/pairings").await.body;
        let all = pairings["pairings"].as_array().expect("a list").clone();
        let one = all.into_iter().find(|p| p["identifier"] == identifier).expect("under way");
        one["pairing_code"].as_str().expect("shown to who may approve").to_owned()
    }

    /// Pairs a client and answers its secret.
    pub async fn pair(&self, identifier: &str) -> SecretText {
        self.allow(identifier).await;
        let mut client = self.client(identifier).await;
        client.hello().await;
        assert_eq!(client.next().await["type"], "hello_ack");
        assert_eq!(client.next().await["type"], "pair_request");
        let code = self.code(identifier).await;
        client.confirm(&code).await;
        let success = client.next().await;
        assert_eq!(success["type"], "pair_success", "{success}");
        SecretText::new(success["payload"]["secret"].as_str().expect("a secret"))
    }

    /// A client that is paired and in.
    pub async fn live(&self, identifier: &str) -> TestClient {
        let secret = self.pair(identifier).await;
        self.enter(identifier, secret).await
    }

    /// Lets a paired client in.
    pub async fn enter(&self, identifier: &str, secret: SecretText) -> TestClient {
        let mut client = self.client_with(identifier, Some(secret)).await;
        client.hello().await;
        let ack = client.next().await;
        assert_eq!(ack["payload"]["nextAction"], "auth_required", "{ack}");
        client.authenticate().await;
        let success = client.next().await;
        assert_eq!(success["type"], "auth_success", "{success}");
        client
    }

    /// Adds a rule.
    pub async fn rule(&self, rule: &str, target: Value) {
        let reply = self.post("/api/rules", json!({ "rule": rule, "target": target })).await;
        assert_eq!(reply.status, 200, "{reply:?}");
    }

    pub async fn client_view(&self, identifier: &str) -> Value {
        self.get(&format!("/api/yonexus/clients/{identifier}")).await.body
    }

    pub async fn until_client(&self, identifier: &str, key: &str, value: &str) {
        self.until(&format!("/api/yonexus/clients/{identifier}"), |body| body[key] == value).await;
    }

    pub async fn delete(&self, path: &str) -> u16 {
        self.request("DELETE", path, Some(TOKEN), None).await.status
    }
}

impl TestClient {
    pub async fn send(&mut self, text: impl Into<String>) {
        self.socket.send(text).await;
    }

    pub async fn hello(&mut self) {
        let frame = self.session.hello(now()).encode();
        self.send(frame).await;
    }

    pub async fn confirm(&mut self, code: &str) {
        let frame = self.session.confirm(SecretText::new(code), now()).encode();
        self.send(frame).await;
    }

    pub async fn authenticate(&mut self) {
        let frame = self.session.authenticate(&random(), now()).expect("a secret").encode();
        self.send(frame).await;
    }

    /// A proof with values of its own.
    pub async fn prove(&mut self, key: &str, secret: &SecretText, nonce: &str, off: i64) {
        let time = now().unix() + off;
        let signature = proof::sign(&key_of(key), secret, nonce, time);
        let request = AuthRequest {
            identifier: self.identifier.clone(),
            nonce: nonce.into(),
            proof_timestamp: time,
            signature,
            public_key: None,
        };
        let frame = Builtin::new(Some("proof".into()), time, Body::AuthRequest(request)).encode();
        self.send(frame).await;
    }

    pub async fn heartbeat(&mut self) {
        let body = Body::Heartbeat { identifier: self.identifier.clone() };
        let frame = Builtin::new(None, now().unix(), body).encode();
        self.send(frame).await;
    }

    /// The next message as it travelled.
    pub async fn text(&mut self) -> String {
        let text = self.socket.next().await.unwrap_or_else(|code| panic!("closed with {code:?}"));
        self.heard.push(text.clone());
        text
    }

    /// The next builtin frame as JSON.
    pub async fn next(&mut self) -> Value {
        let text = self.text().await;
        let json = text.strip_prefix("builtin::").unwrap_or_else(|| panic!("no builtin: {text}"));
        serde_json::from_str(json).expect("JSON")
    }

    /// The next builtin frame's reason or code.
    pub async fn reason(&mut self) -> String {
        let frame = self.next().await;
        let payload = &frame["payload"];
        let word = payload["reason"].as_str().or(payload["code"].as_str());
        word.unwrap_or_else(|| panic!("no reason in {frame}")).to_owned()
    }

    /// The code the hub closes with.
    pub async fn closed(&mut self) -> Option<u16> {
        self.socket.closed().await
    }

    /// Waits until the hub has worked through everything that was sent: pongs come in order.
    pub async fn settled(&mut self) {
        use futures_util::{SinkExt as _, StreamExt as _};
        use tokio_tungstenite::tungstenite::Message;
        self.socket.0.send(Message::Ping(b"settled".as_slice().into())).await.expect("sends");
        let pong = async {
            loop {
                match self.socket.0.next().await {
                    Some(Ok(Message::Pong(payload))) if payload.as_ref() == b"settled" => return,
                    Some(Ok(Message::Text(text))) => self.heard.push(text.to_string()),
                    Some(Ok(_)) => {}
                    other => panic!("{other:?}"),
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(20), pong).await.expect("a pong");
    }
}
