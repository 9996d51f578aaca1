//! The kenny door: `/agent/ws`. Drives [`convoke_kenny::hub::HubSession`] over a socket.

pub mod adapter;
pub mod downloads;
pub mod enrol_routes;
pub mod file_routes;
pub mod files;
mod live;
mod logs;
pub(crate) mod probes;
mod telemetry;
pub mod tools;
pub mod update_routes;

use std::net::IpAddr;
use std::ops::ControlFlow;
use std::time::Duration;

use convoke_core::door::Door;
use convoke_core::json;
use convoke_core::peer::Trust;
use convoke_core::secret::SecretText;
use convoke_kenny::frame::Register;
use convoke_kenny::hub::{Accepted, Event, HubConfig, HubSession, MAX_HANDSHAKE_FRAME, Proof, Refusal, Step};
use convoke_socket::drive::{Lost, Machine, Message, Stop, drive_until};
use ed25519_dalek::VerifyingKey;
use serde_json::json;
use serde_json::value::RawValue;

use crate::Wires;
use crate::tunnel::{self, Entered, Hello, NotEntered, UNAVAILABLE};
use crate::ws::{Connection, Socket, Stream};
use convoke_gate::agents::Facts;
use convoke_gate::agents::{Agent, AuthWay};
use convoke_gate::clock;
use convoke_gate::link::Answer;
use convoke_gate::shares::Share;

type Waiter = tokio::sync::oneshot::Sender<Answer>;
type Session = HubSession<Waiter>;

/// Serves one connection, from its first byte to its last.
pub async fn serve(hub: Wires, io: Stream, read: Vec<u8>, address: IpAddr, handshake: Share) {
    let mut socket = Socket::server(io, &read, MAX_HANDSHAKE_FRAME);
    let mut session = Session::new(config(&hub), hub.mono());
    // Boxed, so that the idle task does not carry the handshake's state for as long as it lives.
    let accepted = Box::pin(async {
        let mut handshake = Handshake { hub: &hub, session: &mut session, claimed: None };
        drive_until(&mut socket, &mut handshake, hub.stopping.cancelled(), hub.clock()).await
    })
    .await;
    drop(handshake);
    match accepted {
        Ok(accepted) => enter(hub, socket, session, accepted, address).await,
        Err(Ended::Refused(refusal, claimed)) => {
            let claimed = claimed.unwrap_or_default();
            // Anyone can cause it as often as they like: all are counted, one per address and minute is logged.
            if hub.strangers.refused(address, Door::Wire) {
                tracing::warn!(%address, ?claimed, %refusal, "refused an agent; further refusals of this address in this minute are only counted");
            } else {
                tracing::debug!(%address, ?claimed, %refusal, "refused an agent");
            }
            hub.metrics.refused("wire", "stranger");
            let close = refusal.close();
            socket.close(close.code, close.reason).await;
        }
        Err(Ended::Broken(code)) => {
            hub.strangers.refused(address, Door::Wire);
            hub.metrics.refused("wire", "stranger");
            socket.close(code, "protocol error").await;
        }
        // A farewell is returned.
        Err(Ended::Left(code)) => socket.close(code.unwrap_or(1000), "").await,
        Err(Ended::Gone) => {}
    }
}

fn config(hub: &Wires) -> HubConfig {
    HubConfig {
        heartbeat: hub.settings.kenny.heartbeat_s,
        max_frame_bytes: hub.settings.kenny.max_frame_bytes,
        max_in_flight: hub.settings.kenny.max_in_flight,
        allow_token_auth: hub.settings.kenny.allow_token_auth,
        ..HubConfig::default()
    }
}

/// How much of an unproved id is logged.
pub const MAX_CLAIMED: usize = 64;

enum Ended {
    /// And which agent it says that it is.
    Refused(Refusal, Option<String>),
    Broken(u16),
    /// With this code, if with any.
    Left(Option<u16>),
    Gone,
}

/// A connection before its proof.
struct Handshake<'a> {
    hub: &'a Wires,
    session: &'a mut Session,
    /// Which agent it says that it is.
    claimed: Option<String>,
}

impl Machine for Handshake<'_> {
    type Command = Stop;
    type End = Result<Box<Accepted>, Ended>;

    fn deadline(&mut self, now: Duration, _: &Connection) -> Duration {
        self.session.next_deadline().unwrap_or(now)
    }

    async fn on_message(
        &mut self,
        message: Message,
        now: Duration,
        connection: &mut Connection,
    ) -> ControlFlow<Self::End> {
        let text = match message {
            Message::Text(text) => text,
            // Frames are text: a binary first message is no register.
            Message::Binary(_) => "not a text frame".to_owned(),
            // A stranger's message is small, and never skipped.
            Message::Pong(_) | Message::Skipped(_) => return ControlFlow::Continue(()),
        };
        let step = match self.session.on_text(&text, now) {
            Event::Register(register) => {
                self.claimed = Some(register.agent_id.chars().take(MAX_CLAIMED).collect());
                on_register(self.hub, self.session, &register).await
            }
            Event::Accepted(accepted) => return ControlFlow::Break(Ok(accepted)),
            Event::Close(refusal) => return self.refuse(refusal),
            _ => return ControlFlow::Continue(()),
        };
        match step {
            Step::Challenge(frame) => connection.queue_text(&frame.encode()),
            Step::Accepted(accepted) => return ControlFlow::Break(Ok(accepted)),
            Step::Close(refusal) => return self.refuse(refusal),
            Step::CheckToken { .. } => return self.refuse(Refusal::BadToken),
        }
        ControlFlow::Continue(())
    }

    async fn on_command(&mut self, _: Stop, _: Duration, _: &mut Connection) -> ControlFlow<Self::End> {
        ControlFlow::Break(Err(Ended::Broken(convoke_kenny::close::GOING_AWAY)))
    }

    async fn on_time(&mut self, now: Duration, _: &mut Connection) -> ControlFlow<Self::End> {
        for output in self.session.on_tick(now) {
            if let convoke_kenny::hub::Output::Close(refusal) = output {
                return self.refuse(refusal);
            }
        }
        ControlFlow::Continue(())
    }

    async fn on_lost(&mut self, lost: Lost, _: &mut Connection) -> Self::End {
        Err(match lost {
            Lost::Closed(code, _) => Ended::Left(code),
            Lost::Gone(_) => Ended::Gone,
            Lost::Broken(error) => Ended::Broken(error.close_code()),
        })
    }
}

impl Handshake<'_> {
    fn refuse(&mut self, refusal: Refusal) -> ControlFlow<Result<Box<Accepted>, Ended>> {
        ControlFlow::Break(Err(Ended::Refused(refusal, self.claimed.take())))
    }
}

async fn on_register(hub: &Wires, session: &mut Session, register: &Register<'_>) -> Step {
    let known = || hub.agents.find(&register.agent_id).and_then(|agent| trusted_key(&agent));
    if known().is_none() {
        hub.catch_up().await;
    }
    let stored: Vec<VerifyingKey> = known().into_iter().collect();
    match session.on_register(register, clock::random(), &hub.key, &stored, hub.mono()) {
        Step::CheckToken { agent, token } => {
            let valid = token_is_valid(hub, &agent, &token).await;
            session.on_token_checked(valid, hub.mono())
        }
        step => step,
    }
}

fn trusted_key(agent: &Agent) -> Option<VerifyingKey> {
    let state = agent.state();
    (state.trust == Trust::Trusted).then(|| state.public_key.as_deref().copied()).flatten()
}

/// The legacy path: a token from the settings, or an enrolment token that is still alive.
async fn token_is_valid(hub: &Wires, agent: &convoke_core::id::PeerId, token: &SecretText) -> bool {
    // An agent that has bound a key proves itself by it: a token that lies about somewhere must not do in its place.
    let known = hub.agents.find(agent.as_str());
    if known.is_some_and(|agent| agent.state().trust == Trust::Revoked || agent.state().public_key.is_some()) {
        return false;
    }
    let presented = token.hash();
    let mut listed = hub.settings.kenny.agent_tokens.iter();
    let listed = listed.any(|listed| listed.agent == *agent && listed.token.hash().matches(&presented));
    if listed {
        let _turn = hub.agents.turn(agent.as_str()).await;
        let is_kept = hub.store.ensure_agent(agent, clock::now()).await.is_ok();
        if is_kept {
            hub.agents.find_or_add(agent);
        }
        return is_kept;
    }
    hub.store.enrol_token_valid(agent, &presented, None, clock::now()).await.unwrap_or(false)
}

/// The agent has proved itself: it speaks for its id from now on.
async fn enter(hub: Wires, mut socket: Socket, session: Session, accepted: Box<Accepted>, address: IpAddr) {
    // Whoever was let in was known: not found any more means removed meanwhile.
    let Some(agent) = hub.agents.find(accepted.agent.as_str()) else {
        socket.close(convoke_kenny::close::UNAUTHORIZED, convoke_kenny::close::REVOKED.reason).await;
        return;
    };
    let auth = match accepted.proof {
        Proof::Signature(_) => AuthWay::Signature,
        Proof::Token => AuthWay::Token,
    };
    let version = accepted.protocol.map(|p| p.to_string());
    let hello = Hello {
        address,
        auth,
        name: None,
        // It stands among what others say of themselves, on pages that have to be read.
        meta: accepted.meta_raw.map(json::tamed),
        detail: json!({ "protocol": version }),
        version,
        max_frame: hub.settings.kenny.max_frame_bytes,
    };
    // A revocation during the handshake must not be outrun.
    let entered = tunnel::enter(&hub, &mut socket, &agent, hello, |state| match accepted.proof {
        Proof::Signature(key) => state.trust == Trust::Trusted && state.public_key.as_deref() == Some(&key),
        // And neither must the binding of a key, from which on no bearer stands for the agent.
        Proof::Token => state.trust != Trust::Revoked && state.public_key.is_none(),
    });
    let Entered { link, held } = match entered.await {
        Ok(entered) => entered,
        Err(NotEntered::Refused) => {
            socket.close(convoke_kenny::close::UNAUTHORIZED, convoke_kenny::close::REVOKED.reason).await;
            return;
        }
        Err(NotEntered::Unavailable) => {
            socket.close(convoke_kenny::close::GOING_AWAY, UNAVAILABLE).await;
            return;
        }
    };
    if auth == AuthWay::Token
        && let Some(note) = hub.tells_of(&agent.id)
    {
        tracing::warn!(agent = %agent.id, note = note.words(), "an agent connected with a legacy bearer token; enrol it");
    }
    let run = live::run(&hub, &mut socket, session, &agent, &link, accepted.dialect);
    let ((close, last_seen), ()) = tokio::join!(run, Box::pin(probes::learn(&hub, &agent, &link, &held)));
    tunnel::leave(&hub, &agent, &link, last_seen).await;
    drop((link, held));
    if let Some(close) = close {
        socket.close(close.code, close.reason).await;
    }
}

/// What an agent said of its machine when it registered. Sonde agents' facts are kept in the same shape.
pub fn facts(meta: &RawValue) -> Facts {
    /// What the hub keeps of a Sonde agent's registration.
    #[derive(serde::Deserialize)]
    struct Registered {
        name: String,
    }
    let name = serde_json::from_str::<Registered>(meta.get()).ok().map(|registered| registered.name);
    let convoke_kenny::frame::Meta { os, hostname, version, features, remote_control, .. } =
        convoke_kenny::frame::Meta::read(meta);
    // Sonde agents may add the architecture, and have Node's words for two systems.
    let os = match os.split(' ').next().unwrap_or_default() {
        "darwin" => "macos",
        "win32" => "windows",
        other => other,
    };
    Facts {
        os: os.into(),
        remote_control: remote_control.map(|control| control.is_enabled()),
        name,
        hostname: Some(hostname),
        version: Some(version),
        features,
    }
}
