//! A hub of its own for each test, and clients for it: an agent that follows the contract, and a bare socket for
//! those that do not.

use std::path::Path;
use std::time::Duration;

use convoke_core::id::PeerId;
use convoke_core::secret::{SecretBytes, SecretText};
use convoke_hub::settings::{Settings, Sources};
use convoke_hub::{HubOptions, Running, StartError, start};
use convoke_kenny::agent::{AgentConfig, AgentEvent, AgentSession};
use convoke_kenny::frame::Meta;
use ed25519_dalek::{SigningKey, VerifyingKey};
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

/// No test waits longer than this for something that should happen at once.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The token every test hub starts with.
pub const TOKEN: &str = "cvk_test-operator-token";

/// A running hub in a directory of its own.
pub struct TestHub {
    pub running: Option<Running>,
    pub http: String,
    pub http_client: reqwest::Client,
    dir: Option<tempfile::TempDir>,
}

/// The answer to a request.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub body: Value,
}

impl TestHub {
    /// A hub with the defaults.
    pub async fn start() -> Self {
        Self::with(&[]).await
    }

    /// A hub with these settings.
    pub async fn with(settings: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let running = run(dir.path(), settings).await;
        Self { http: running.http.clone(), running: Some(running), http_client: client(), dir: Some(dir) }
    }

    /// A hub with these settings and this data key, as hubs that share a database have it.
    pub async fn with_key(settings: &[(&str, &str)], key: [u8; 32]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let running = start_in(dir.path(), settings, Some(SecretBytes::new(key))).await.expect("starts");
        Self { http: running.http.clone(), running: Some(running), http_client: client(), dir: Some(dir) }
    }

    /// The data directory.
    pub fn data(&self) -> &Path {
        self.dir.as_ref().expect("the directory lives as long as the hub").path()
    }

    /// The hub itself.
    pub fn hub(&self) -> &convoke_gate::hub::Hub {
        &self.running.as_ref().expect("runs").hub
    }

    /// Stops the hub and starts it again on the same directory.
    pub async fn restart(&mut self, settings: &[(&str, &str)]) {
        self.stop().await;
        let running = run(self.data(), settings).await;
        self.http.clone_from(&running.http);
        self.running = Some(running);
    }

    /// Stops the hub.
    pub async fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop().await.expect("stops cleanly");
        }
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.request("GET", path, Some(TOKEN), None).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Reply {
        self.request("POST", path, Some(TOKEN), Some(body)).await
    }

    pub async fn post_as(&self, token: &str, path: &str, body: Value) -> Reply {
        self.request("POST", path, Some(token), Some(body)).await
    }

    /// Any request.
    pub async fn request(&self, method: &str, path: &str, token: Option<&str>, body: Option<Value>) -> Reply {
        let method = method.parse().expect("a method");
        let mut request = self.http_client.request(method, format!("{}{path}", self.http));
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request.json(&body);
        }
        let reply = request.send().await.expect("the hub answers");
        let status = reply.status().as_u16();
        let text = reply.text().await.expect("a body");
        Reply { status, body: serde_json::from_str(&text).unwrap_or(Value::String(text)) }
    }

    /// Mints a token with this role and these scopes.
    pub async fn token(&self, name: &str, role: &str, scopes: Value) -> String {
        let body = json!({ "name": name, "role": role, "scopes": scopes });
        let reply = self.post("/api/tokens", body).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.body["token"].as_str().expect("a token").to_owned()
    }

    /// Enrols an agent and returns its key.
    pub async fn enrol(&self, id: &str) -> SigningKey {
        let key = key_of(id);
        let token = self.post(&format!("/api/agents/{id}/token"), json!({})).await;
        assert_eq!(token.status, 200, "{token:?}");
        let token = token.body["token"].as_str().expect("a token").to_owned();
        let reply = self.enrol_with(id, &token, &key).await;
        assert_eq!((reply.status, &reply.body), (200, &json!({ "ok": true, "agent_id": id })));
        key
    }

    /// Presents a key with a token.
    pub async fn enrol_with(&self, id: &str, token: &str, key: &SigningKey) -> Reply {
        let body = json!({ "public_key": base64(key.verifying_key().as_bytes()) });
        self.request("POST", &format!("/api/agents/{id}/enroll"), Some(token), Some(body)).await
    }

    /// An enrolled, connected agent.
    pub async fn agent(&self, id: &str) -> TestAgent {
        let key = self.enrol(id).await;
        self.connect(id, key).await
    }

    /// Connects an enrolled agent.
    pub async fn connect(&self, id: &str, key: SigningKey) -> TestAgent {
        let mut agent = TestAgent::open(self, id, key).await;
        agent.handshake().await.expect("the hub lets it in");
        agent
    }

    /// A bare socket at the agents' door.
    pub async fn socket(&self) -> Bare {
        let url = format!("{}/agent/ws", self.http.replace("http://", "ws://"));
        let (socket, _) = tokio_tungstenite::connect_async(url).await.expect("upgrades");
        Bare(socket)
    }

    /// One whose machine takes little that it does not read.
    pub async fn narrow_socket(&self) -> Bare {
        let url = format!("{}/agent/ws", self.http.replace("http://", "ws://"));
        let (socket, _) = tokio_tungstenite::client_async(url, self.narrow_stream().await).await.expect("upgrades");
        Bare(socket)
    }

    /// The connection of such a machine.
    pub async fn narrow_stream(&self) -> MaybeTlsStream<TcpStream> {
        let stream = tokio::net::TcpSocket::new_v4().expect("a socket");
        stream.set_recv_buffer_size(4096).expect("is set");
        MaybeTlsStream::Plain(stream.connect(self.hub().listen).await.expect("connects"))
    }

    /// From now on the store fails to bring a row of this table into this state.
    pub fn refuse(&self, table: &str, state: &str) {
        let when = format!("BEFORE UPDATE OF state ON {table} WHEN NEW.state = '{state}'");
        self.execute(&format!("CREATE TRIGGER refused {when} BEGIN SELECT RAISE(ABORT, 'refused'); END"));
    }

    /// It no longer fails.
    pub fn refuse_no_more(&self) {
        self.execute("DROP TRIGGER refused");
    }

    /// Nothing can be committed for as long as this is held.
    pub fn hold(&self) -> rusqlite::Connection {
        let database = rusqlite::Connection::open(self.data().join("hub.db")).expect("opens");
        database.execute_batch("BEGIN IMMEDIATE").expect("begins");
        database
    }

    fn execute(&self, sql: &str) {
        let database = rusqlite::Connection::open(self.data().join("hub.db")).expect("opens");
        database.execute_batch(sql).expect("is done");
    }

    /// Journal records that match.
    pub async fn journal(&self, query: &str) -> Vec<Value> {
        let reply = self.get(&format!("/api/journal?limit=1000&{query}")).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.body["records"].as_array().expect("a list").clone()
    }

    /// Waits until an agent is shown as online or not.
    pub async fn until_online(&self, id: &str, online: bool) {
        self.until(&format!("/api/agents/{id}"), |body| body["online"] == online).await;
    }

    /// Asks until the answer fits. What is waited for comes from another task, so asking again is the event.
    pub async fn until(&self, path: &str, fits: impl Fn(&Value) -> bool) -> Value {
        tokio::time::timeout(PATIENCE, async {
            loop {
                let reply = self.get(path).await;
                if fits(&reply.body) {
                    return reply.body;
                }
                tokio::task::yield_now().await;
            }
        })
        .await
        .unwrap_or_else(|_| panic!("{path} never became what was waited for"))
    }
}

async fn run(dir: &Path, settings: &[(&str, &str)]) -> Running {
    start_in(dir, settings, None).await.expect("starts")
}

/// Starts a hub in this directory.
pub async fn start_in(
    dir: &Path,
    settings: &[(&str, &str)],
    data_key: Option<SecretBytes>,
) -> Result<Running, StartError> {
    let mut flags = vec![("hub.listen".to_owned(), "127.0.0.1:0".to_owned())];
    flags.extend(settings.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())));
    let settings = Settings::resolve(&Sources { flags, ..Sources::default() }).expect("valid settings");
    let options = HubOptions {
        data: dir.to_owned(),
        settings,
        data_key,
        hub_seed: None,
        operator_token: Some(SecretText::new(TOKEN)),
    };
    start(options).await
}

fn client() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().expect("a client")
}

pub fn base64(bytes: &[u8]) -> String {
    convoke_kenny::wire_bytes::encode(bytes)
}

/// A key that is the same whenever the same agent asks for it.
pub fn key_of(id: &str) -> SigningKey {
    let mut seed = [7; 32];
    for (i, byte) in id.bytes().enumerate() {
        seed[i % 32] ^= byte;
    }
    SigningKey::from_bytes(&seed)
}

pub fn meta() -> Meta {
    Meta {
        hostname: "TEST".into(),
        os: "linux".into(),
        version: "0.1.0".into(),
        features: vec!["shell_exec".into()],
        ..Meta::default()
    }
}

/// A socket without a protocol.
pub struct Bare(pub WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Bare {
    pub async fn send(&mut self, text: impl Into<String>) {
        self.0.send(Message::text(text.into())).await.expect("sends");
    }

    /// The next text message, or the code the hub closed with.
    pub async fn next(&mut self) -> Result<String, Option<u16>> {
        tokio::time::timeout(PATIENCE, async {
            loop {
                match self.0.next().await {
                    Some(Ok(Message::Text(text))) => return Ok(text.to_string()),
                    Some(Ok(Message::Close(frame))) => return Err(frame.map(|f| f.code.into())),
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return Err(None),
                }
            }
        })
        .await
        .expect("the hub says something")
    }

    /// The code the hub closes with.
    pub async fn closed(&mut self) -> Option<u16> {
        loop {
            if let Err(code) = self.next().await {
                return code;
            }
        }
    }
}

/// An agent that follows the contract.
pub struct TestAgent {
    pub id: String,
    pub socket: Bare,
    session: AgentSession,
}

/// A request as the agent received it.
#[derive(Debug)]
pub struct Request {
    pub id: String,
    pub tool: String,
    pub args: Value,
}

impl TestAgent {
    pub async fn open(hub: &TestHub, id: &str, key: SigningKey) -> Self {
        Self::on(hub.socket().await, hub, id, key)
    }

    /// An agent on this socket.
    pub fn on(socket: Bare, hub: &TestHub, id: &str, key: SigningKey) -> Self {
        let pinned: VerifyingKey = hub.hub().key.verifying_key();
        let config = AgentConfig::new(PeerId::kenny(id).expect("an id"), pinned);
        let mut nonce = [0; 32];
        getrandom::fill(&mut nonce).expect("randomness");
        let session = AgentSession::new(config, key, nonce, Duration::ZERO);
        Self { id: id.to_owned(), socket, session }
    }

    /// Register, challenge, auth; returns the policy, which is the first frame after success.
    pub async fn handshake(&mut self) -> Result<Value, Option<u16>> {
        self.handshake_as("0.8").await
    }

    /// The same as an agent of another version.
    pub async fn handshake_as(&mut self, protocol: &str) -> Result<Value, Option<u16>> {
        self.handshake_with(r#""protocol":"0.8""#, &format!(r#""protocol":"{protocol}""#)).await
    }

    /// The same with something else in place of a part of `register`.
    pub async fn handshake_with(&mut self, ours: &str, theirs: &str) -> Result<Value, Option<u16>> {
        let register = self.session.register_frame(&meta());
        assert!(register.contains(ours), "{register}");
        self.socket.send(register.replace(ours, theirs)).await;
        loop {
            let text = self.socket.next().await?;
            match self.session.on_text(&text, Duration::ZERO) {
                AgentEvent::Auth(frame) => self.socket.send(frame).await,
                AgentEvent::Policy { .. } => return Ok(serde_json::from_str(&text).expect("JSON")),
                other => panic!("unexpected during the handshake: {other:?}"),
            }
        }
    }

    /// The next frame as JSON.
    pub async fn frame(&mut self) -> Value {
        let text = self.socket.next().await.expect("a frame");
        serde_json::from_str(&text).expect("JSON")
    }

    /// The next request; heartbeats are answered meanwhile.
    pub async fn request(&mut self) -> Request {
        loop {
            let frame = self.frame().await;
            match frame["type"].as_str() {
                Some("request") => {
                    let text = |key: &str| frame[key].as_str().expect("a text").to_owned();
                    return Request { id: text("id"), tool: text("tool"), args: frame["args"].clone() };
                }
                Some("ping") => self.socket.send(r#"{"type":"pong"}"#).await,
                other => panic!("unexpected frame {other:?}"),
            }
        }
    }

    pub async fn answer(&mut self, id: &str, result: Value) {
        let frame = json!({ "type": "response", "id": id, "ok": true, "result": result });
        self.socket.send(frame.to_string()).await;
    }

    pub async fn fail(&mut self, id: &str, code: &str) {
        let error = json!({ "code": code, "message": "as it happens" });
        let frame = json!({ "type": "response", "id": id, "ok": false, "error": error });
        self.socket.send(frame.to_string()).await;
    }

    /// Answers every request with its own arguments until the connection ends.
    pub fn echo(mut self) -> tokio::task::JoinHandle<()> {
        tokio::spawn(async move {
            while let Ok(text) = self.socket.next().await {
                let frame: Value = serde_json::from_str(&text).expect("JSON");
                if frame["type"] == "request" {
                    let id = frame["id"].as_str().expect("an id").to_owned();
                    self.answer(&id, json!({ "echo": frame["args"] })).await;
                }
            }
        })
    }
}
