//! Two ends of a tunnel on one fake clock, and the golden files.

use std::path::{Path, PathBuf};
use std::time::Duration;

use convoke_core::id::{CallId, PeerId};
use convoke_kenny::agent::{AgentConfig, AgentEvent, AgentSession};
use convoke_kenny::frame::Meta;
use convoke_kenny::heartbeat::Mono;
use convoke_kenny::hub::{Event, HubConfig, HubSession, Output, Step};
use convoke_kenny::inflight::Match;
use ed25519_dalek::{SigningKey, VerifyingKey};
use uuid::Uuid;

pub(crate) const AGENT: &str = "example-pc";

pub(crate) fn key(first: u8) -> SigningKey {
    SigningKey::from_bytes(&std::array::from_fn(|i| first + i as u8))
}

/// The golden vectors' keys.
pub(crate) fn server_key() -> SigningKey {
    key(0)
}

pub(crate) fn agent_key() -> SigningKey {
    key(32)
}

pub(crate) const fn s(seconds: u64) -> Mono {
    Duration::from_secs(seconds)
}

pub(crate) fn call(n: u128) -> CallId {
    CallId::new(Uuid::from_u128(n))
}

/// What the hub made of something, without the borrowed parts.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Send(String),
    CheckToken,
    Accepted,
    Answered(u32, bool),
    Late,
    Stranger,
    Expired(u32),
    Telemetry(usize),
    Log,
    Alive,
    Unreadable(Option<u32>),
    Ignored,
    Close(u16),
}

pub(crate) struct Pair {
    pub(crate) now: Mono,
    pub(crate) hub: HubSession<u32>,
    pub(crate) agent: AgentSession,
    /// The keys the hub has stored for any agent that asks.
    pub(crate) stored: Vec<VerifyingKey>,
    pub(crate) server_nonce: [u8; 32],
}

impl Pair {
    /// The golden session: its frames are the files in `fixtures/kenny`.
    pub(crate) fn new() -> Self {
        Self::with(HubConfig::default(), [0xaa; 32], [0xbb; 32])
    }

    pub(crate) fn with(config: HubConfig, client_nonce: [u8; 32], server_nonce: [u8; 32]) -> Self {
        let agent_id = PeerId::kenny(AGENT).expect("an id");
        let agent_config = AgentConfig::new(agent_id, server_key().verifying_key());
        Self {
            now: Mono::ZERO,
            hub: HubSession::new(config, Mono::ZERO),
            agent: AgentSession::new(agent_config, agent_key(), client_nonce, Mono::ZERO),
            stored: vec![agent_key().verifying_key()],
            server_nonce,
        }
    }

    /// After a handshake.
    pub(crate) fn live() -> Self {
        let mut pair = Self::new();
        let seen = pair.handshake();
        assert_eq!(seen, Seen::Accepted);
        pair
    }

    /// Runs the handshake to whatever end it has.
    pub(crate) fn handshake(&mut self) -> Seen {
        let register = self.agent.register_frame(&meta());
        match self.hub_hears(&register) {
            Seen::Send(challenge) => match self.agent.on_text(&challenge, self.now) {
                AgentEvent::Auth(auth) => self.hub_hears(&auth),
                other => panic!("the agent did not answer the challenge: {other:?}"),
            },
            other => other,
        }
    }

    /// Delivers a text to the hub, answering its look-ups.
    pub(crate) fn hub_hears(&mut self, text: &str) -> Seen {
        let event = self.hub.on_text(text, self.now);
        match event {
            Event::Register(register) => {
                let step = self.hub.on_register(&register, self.server_nonce, &server_key(), &self.stored, self.now);
                seen_step(step)
            }
            Event::Accepted(_) => Seen::Accepted,
            Event::Response { response, call } => match call {
                Match::Answered(n) => Seen::Answered(n, response.ok),
                Match::Late => Seen::Late,
                Match::Stranger => Seen::Stranger,
            },
            Event::Telemetry(telemetry) => Seen::Telemetry(telemetry.snapshot.len()),
            Event::Log(_) => Seen::Log,
            Event::Reply(frame) => Seen::Send(frame.encode()),
            Event::Alive => Seen::Alive,
            Event::Unreadable { call, .. } => Seen::Unreadable(match call {
                Some((_, Match::Answered(n))) => Some(n),
                _ => None,
            }),
            Event::Ignored(_) => Seen::Ignored,
            Event::Close(refusal) => Seen::Close(refusal.close().code),
        }
    }

    /// Lets time pass to `now` and does what is due at the hub.
    pub(crate) fn hub_at(&mut self, now: Mono) -> Vec<Seen> {
        self.now = now;
        self.hub.on_tick(now).into_iter().map(seen_output).collect()
    }

    /// Starts call number `n`.
    pub(crate) fn start(&mut self, n: u32, deadline: Mono) {
        self.hub.start(call(n.into()), deadline, n).expect("room for a call");
    }
}

pub(crate) fn seen_step(step: Step) -> Seen {
    match step {
        Step::Challenge(frame) => Seen::Send(frame.encode()),
        Step::CheckToken { .. } => Seen::CheckToken,
        Step::Accepted(_) => Seen::Accepted,
        Step::Close(refusal) => Seen::Close(refusal.close().code),
    }
}

fn seen_output(output: Output<u32>) -> Seen {
    match output {
        Output::Send(frame) => Seen::Send(frame.encode()),
        Output::Expired(_, n) => Seen::Expired(n),
        Output::Close(refusal) => Seen::Close(refusal.close().code),
    }
}

/// The `meta` of the contract's example.
pub(crate) fn meta() -> Meta {
    Meta { hostname: "EXAMPLE-PC".into(), os: "windows".into(), version: "0.1.0".into(), ..Meta::default() }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/kenny")
}

/// A golden file without its final newline.
pub(crate) fn golden(path: &str) -> String {
    let path = root().join(path);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text.strip_suffix('\n').expect("a final newline").to_owned()
}

/// Every golden file of a folder: name without extension, and content.
pub(crate) fn golden_all(folder: &str) -> Vec<(String, String)> {
    convoke_testing::fixtures(&format!("kenny/{folder}"))
}
