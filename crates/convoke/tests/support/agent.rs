//! A kenny agent that enrols, connects and answers.

use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use convoke_api::Client;
use convoke_core::id::PeerId;
use convoke_core::secret::SecretText;
use convoke_kenny::agent::{AgentConfig, AgentEvent, AgentSession};
use convoke_kenny::frame::{self, ErrorCode, LogLevel, Meta};
use convoke_kenny::{enrol, wire_bytes};
use ed25519_dalek::SigningKey;
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio_tungstenite::tungstenite::Message;
use uuid::Uuid;

use super::Hub;

/// A connected agent. It disconnects when dropped.
#[derive(Debug)]
pub(crate) struct Agent {
    asked: mpsc::Receiver<(String, Value)>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Agent {
    /// Invites, enrols and connects an agent; returns once the hub has let it in.
    #[track_caller]
    pub(crate) fn join(hub: &Hub, id: &str) -> Self {
        let invited = hub.run(&["enroll-token", id, "--json"]).ok().json();
        let text = |name: &str| invited[name].as_str().expect("a text").to_owned();
        Self::enrol_and_connect(hub, id, text("token"), &text("hub_public_key"))
    }

    /// Enrols with a token and connects.
    #[track_caller]
    pub(crate) fn enrol_and_connect(hub: &Hub, id: &str, token: String, hub_key: &str) -> Self {
        let key = SigningKey::from_bytes(&std::array::from_fn(|_| Uuid::new_v4().as_bytes()[0]));
        Self::connect(hub, id, key, hub_key, Some(token))
    }

    /// Connects with a key that the hub knows, or binds it first with a token.
    #[track_caller]
    pub(crate) fn connect(hub: &Hub, id: &str, key: SigningKey, hub_key: &str, token: Option<String>) -> Self {
        let server_key = enrol::parse_key(hub_key).expect("the hub's key");
        let config = AgentConfig::new(PeerId::kenny(id).expect("an id"), server_key);
        let http = hub.http().to_owned();
        let id = id.to_owned();
        let (ready, is_ready) = mpsc::channel();
        let (ask, asked) = mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                if let Some(token) = token {
                    enrol_key(&http, &id, token, &key).await;
                }
                let run = Run { id, config, key, ready, ask };
                tokio::select! {
                    () = run.connected(&http) => {}
                    _ = stopped => {}
                }
            });
        });
        is_ready.recv_timeout(Duration::from_secs(60)).expect("the hub lets the agent in");
        Self { asked, stop: Some(stop), thread: Some(thread) }
    }

    /// The next request: its tool and arguments.
    #[track_caller]
    pub(crate) fn asked(&self) -> (String, Value) {
        self.asked.recv_timeout(Duration::from_secs(60)).expect("a request")
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn enrol_key(http: &str, id: &str, token: String, key: &SigningKey) {
    let client = Client::new(http, SecretText::new(token)).expect("a client");
    let body = json!({ "public_key": wire_bytes::encode(key.verifying_key().as_bytes()) });
    let enrolled: Value = client.post(&format!("/api/agents/{id}/enroll"), &body).await.expect("enrolled");
    assert_eq!(enrolled["ok"], true);
}

struct Run {
    id: String,
    config: AgentConfig,
    key: SigningKey,
    ready: mpsc::Sender<()>,
    ask: mpsc::Sender<(String, Value)>,
}

impl Run {
    async fn connected(self, http: &str) {
        let address = format!("{}/agent/ws", http.replacen("http", "ws", 1));
        let (mut socket, _) = tokio_tungstenite::connect_async(address).await.expect("the hub's socket");
        let started = Instant::now();
        let nonce = std::array::from_fn(|_| Uuid::new_v4().as_bytes()[0]);
        let mut session = AgentSession::new(self.config, self.key, nonce, Duration::ZERO);
        let meta = Meta {
            hostname: "TEST-PC".into(),
            os: "linux".into(),
            version: "9.9.9".into(),
            features: vec!["shell_exec".into()],
            ..Meta::default()
        };
        socket.send(Message::text(session.register_frame(&meta))).await.expect("sent");
        while let Some(Ok(message)) = socket.next().await {
            let Message::Text(text) = message else { continue };
            match session.on_text(text.as_str(), started.elapsed()) {
                AgentEvent::Auth(frame) | AgentEvent::Reply(frame) => {
                    socket.send(Message::text(frame)).await.expect("sent");
                }
                // The first frame after the handshake: we are in.
                AgentEvent::Policy { .. } => {
                    for frame in [telemetry(&self.id), log(&self.id)] {
                        socket.send(Message::text(frame)).await.expect("sent");
                    }
                    let _ = self.ready.send(());
                }
                AgentEvent::Request { id, tool, args, .. } => {
                    let args: Value = serde_json::from_str(args.get()).expect("arguments");
                    let _ = self.ask.send((tool.clone().into_owned(), args.clone()));
                    if let Some(frame) = answer(id, &tool, &args) {
                        socket.send(Message::text(frame)).await.expect("sent");
                    }
                }
                AgentEvent::Alive | AgentEvent::Dropped(_) => {}
                AgentEvent::End(why) => panic!("the agent gave up: {why}"),
            }
        }
    }
}

/// What the agent does with a request; nothing at all for `diag_services`.
fn answer(id: Uuid, tool: &str, args: &Value) -> Option<String> {
    let result = match tool {
        "fs_list" => json!({ "entries": [
            { "name": "notes.txt", "is_dir": false, "bytes": 2048 },
            { "name": "photos", "is_dir": true, "bytes": 0 },
        ] }),
        "shell_exec" | "powershell_exec" => {
            json!({ "stdout": format!("ran {}\n", args["command"].as_str().or(args["script"].as_str()).unwrap_or_default()),
                                "stderr": "a warning\n", "exit_code": 3 })
        }
        "net_config" => json!({ "interfaces": [], "dns": ["192.0.2.1"], "domain": "a\u{7f}\u{202e}b" }),
        "diag_services" => return None,
        _ => return Some(frame::response_error(id, &ErrorCode::NotFound, "there is no such thing")),
    };
    Some(frame::response_ok(id, &raw(&result)))
}

fn telemetry(id: &str) -> String {
    let disk = json!({ "status": "ok", "summary": "fine", "volumes": [
        { "mount": "/", "total_bytes": 100, "free_bytes": 3, "percent_used": 97.0 },
    ] });
    frame::telemetry(id, "2026-06-04T18:00:00Z", &[("disk", raw(&disk))])
}

fn log(id: &str) -> String {
    frame::log(
        id,
        "2026-06-04T18:00:00Z",
        LogLevel::Warn,
        "test::disk",
        "almost full",
        Some(&raw(&json!({ "left": 3 }))),
    )
}

fn raw(value: &Value) -> Box<RawValue> {
    to_raw_value(value).expect("serialises")
}
