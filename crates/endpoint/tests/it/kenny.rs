//! A kenny server that follows a script: real sockets, real signatures, any misbehaviour. And an agent in a directory of
//! its own to try it on.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use convoke_endpoint::config::{Config, Given};
use convoke_endpoint::logs::Forward;
use convoke_endpoint::policy::Policy;
use convoke_endpoint::run::{Agent, End, RunError};
use convoke_endpoint::state::StateDir;
use convoke_endpoint::switch::Switch;
use convoke_endpoint::update::Supervision;
use convoke_kenny::frame::{AgentFrame, HubFrame};
use convoke_kenny::transcript::Transcript;
use convoke_kenny::wire_bytes;
use ed25519_dalek::{SigningKey, VerifyingKey};
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// No test waits longer than this for something that should happen at once.
pub const PATIENCE: Duration = Duration::from_secs(30);
pub const ID: &str = "pc-1";

pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("{what}: it never happened"))
}

/// A place that a command waits at, or tells that it has come to: a FIFO, which both sides open when they are there.
pub struct Gate(PathBuf);

impl Gate {
    pub fn new(path: PathBuf) -> Self {
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
        Self(path)
    }

    /// What a command runs to wait here.
    pub fn wait(&self) -> String {
        format!(": < {}", self.0.display())
    }

    /// What a command runs to tell that it is here.
    pub fn tell(&self) -> String {
        format!("echo here > {}", self.0.display())
    }

    /// Lets everybody through, those who come later too, for as long as it is held.
    #[must_use]
    pub fn open(&self) -> std::fs::File {
        std::fs::File::options().read(true).write(true).open(&self.0).expect("opened")
    }

    /// Until somebody has told, and nobody holds it any more.
    pub async fn told(&self) {
        let path = self.0.clone();
        let read = tokio::task::spawn_blocking(move || std::fs::read(path));
        soon("somebody tells", read).await.expect("no panic").expect("read");
    }

    pub fn path(&self) -> std::path::Display<'_> {
        self.0.display()
    }
}

/// The server.
pub struct Kenny {
    listener: TcpListener,
    pub key: SigningKey,
}

impl Kenny {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        Self { listener, key: SigningKey::from_bytes(&[11; 32]) }
    }

    pub fn url(&self) -> String {
        format!("ws://{}/agent/ws", self.listener.local_addr().expect("bound"))
    }

    /// The next connection, before a byte of it was read.
    pub async fn connection(&self) -> TcpStream {
        soon("a connection", self.listener.accept()).await.expect("accepted").0
    }

    /// The next connection as a WebSocket.
    pub async fn accept(&self) -> Peer {
        let io = self.connection().await;
        let socket = soon("an upgrade", tokio_tungstenite::accept_async(io)).await.expect("upgraded");
        Peer { socket, register: Value::Null, skipped: Vec::new() }
    }

    /// The next connection, through the whole handshake.
    pub async fn let_in(&self) -> Peer {
        let mut peer = self.accept().await;
        peer.register().await;
        peer.challenge(&self.key).await;
        assert_eq!(peer.next().await.expect("an auth")["type"], "auth");
        peer.send(json!({ "type": "policy", "rules": [] })).await;
        peer
    }
}

/// The server's end of one connection.
pub struct Peer {
    socket: WebSocketStream<TcpStream>,
    pub register: Value,
    /// Telemetry and logs that came between.
    pub skipped: Vec<Value>,
}

impl Peer {
    pub async fn send(&mut self, frame: Value) {
        self.send_text(frame.to_string()).await;
    }

    pub async fn send_text(&mut self, text: String) {
        self.socket.send(Message::text(text)).await.expect("sent");
    }

    pub async fn send_raw(&mut self, message: Message) {
        self.socket.send(message).await.expect("sent");
    }

    /// The next frame; nothing once the agent has closed. What is no contract frame fails the test.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            let message = soon("a frame", self.socket.next()).await;
            match message {
                Some(Ok(Message::Text(text))) => {
                    assert!(AgentFrame::decode(&text).is_ok(), "{text}");
                    return Some(serde_json::from_str(&text).expect("JSON"));
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => return None,
                Some(Ok(_)) => {}
            }
        }
    }

    /// The next frame of that type; others are kept aside.
    pub async fn next_of(&mut self, kind: &str) -> Value {
        loop {
            let frame = self.next().await.expect("the tunnel lives");
            if frame["type"] == kind {
                return frame;
            }
            self.skipped.push(frame);
        }
    }

    pub async fn register(&mut self) {
        self.register = self.next().await.expect("a register");
        assert_eq!(self.register["type"], "register");
    }

    /// Proves itself with that key; what both sides sign.
    pub async fn challenge(&mut self, key: &SigningKey) -> Transcript {
        let nonce: [u8; 32] =
            wire_bytes::decode(self.register["client_nonce"].as_str().expect("a nonce")).expect("32");
        let server_nonce = [5; 32];
        let transcript = Transcript::new(ID, &nonce, &server_nonce);
        let server_sig = transcript.sign(key);
        self.send_text(HubFrame::Challenge { server_nonce, server_sig }.encode()).await;
        transcript
    }

    /// Sends a request and returns its id.
    pub async fn ask(&mut self, tool: &str, args: Value) -> String {
        let id = Uuid::new_v4().to_string();
        self.send(json!({ "type": "request", "id": id, "tool": tool, "args": args })).await;
        id
    }

    /// Calls a tool and waits for the answer.
    pub async fn call(&mut self, tool: &str, args: Value) -> Value {
        let id = self.ask(tool, args).await;
        loop {
            let response = self.next_of("response").await;
            if response["id"] == id.as_str() {
                return response;
            }
            self.skipped.push(response);
        }
    }

    /// Whether the agent has closed without another frame.
    pub async fn is_closed(&mut self) -> bool {
        self.next().await.is_none()
    }
}

/// An agent in a directory of its own.
pub struct Endpoint {
    pub state: StateDir,
    pub policy: Policy,
    dir: tempfile::TempDir,
    url: String,
    hub_key: String,
    settings: Vec<(String, String)>,
}

/// An agent that runs.
pub struct Running {
    stop: CancellationToken,
    task: JoinHandle<Result<End, RunError>>,
}

impl Endpoint {
    /// Not yet running; its key is made, as after an enrolment.
    pub fn new(url: &str, hub_key: &SigningKey) -> Self {
        Self::of(url, &hub_key.verifying_key())
    }

    /// The same, by the public half of the hub's key.
    pub fn of(url: &str, hub_key: &VerifyingKey) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let state = StateDir::new(dir.path().join("state"));
        state.create().expect("made");
        state.key_or_new().expect("a key");
        let hub_key = wire_bytes::encode(hub_key.as_bytes());
        let policy = Policy::new(&state);
        Self { state, policy, dir, url: url.to_owned(), hub_key, settings: Vec::new() }
    }

    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }

    pub fn switch(&self) -> Switch {
        Switch::new(self.state.switch_file())
    }

    pub fn dir(&self) -> &std::path::Path {
        self.dir.path()
    }

    pub fn gate(&self, name: &str) -> Gate {
        Gate::new(self.dir.path().join(name))
    }

    pub fn config(&self) -> Config {
        let mut set = self.settings.clone();
        // Pauses that nobody looks at are short.
        for (name, value) in [("switch_poll_s", "0.05"), ("reconnect_max_s", "0.2")] {
            if !set.iter().any(|(set, _)| set == name) {
                set.push((name.into(), value.into()));
            }
        }
        let given = Given {
            hub: Some(self.url.clone()),
            id: Some(ID.into()),
            hub_key: Some(self.hub_key.clone()),
            set,
            ..Given::default()
        };
        Config::load(&self.state, &given, &BTreeMap::new()).expect("a configuration")
    }

    pub fn run(&self) -> Running {
        self.run_with(Forward::new("off"), Supervision::None)
    }

    pub fn run_with(&self, logs: Forward, supervision: Supervision) -> Running {
        let stop = CancellationToken::new();
        let agent = Agent {
            config: self.config(),
            state: self.state.clone(),
            policy: self.policy.clone(),
            logs,
            supervision,
            collect_with: None,
        };
        let task = tokio::spawn(agent.run(stop.clone()));
        Running { stop, task }
    }
}

impl Running {
    pub async fn stop(self) {
        self.stop.cancel();
        let end = soon("the agent's end", self.task).await.expect("no panic");
        assert_eq!(end.expect("it ran"), End::Stopped);
    }

    /// Waits for it to end by itself.
    pub async fn end(self) -> Result<End, RunError> {
        soon("the agent's end", self.task).await.expect("no panic")
    }
}
