//! The Sonde door: `/ws/agent`, on the main port and on the mutual-TLS listener. Drives
//! [`convoke_sonde::hub::HubSession`] over a socket.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`registry`] | agents by name, key and certificate; enrolment tokens |
//! | [`ca`] | the hub's own CA |
//! | [`admit`] | who may register as whom |
//! | [`change`] | changes of what is known of an agent |
//! | [`live`] | a registered link |
//! | [`cache`] | results for a short while |
//! | [`ask`] | probes for callers |
//! | [`diagnose`] | runbooks for callers |
//! | [`overview`] | what there is to ask |
//! | [`listen`] | the mutual-TLS listener |

pub mod adapter;
mod admit;
pub mod ask;
pub mod ca;
pub mod cache;
pub mod change;
pub mod diagnose;
pub mod listen;
mod live;
pub mod overview;
pub mod registry;
pub mod routes;
pub mod tools;

use std::net::IpAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use convoke_core::door::Door;
use convoke_core::effect::Effect;
use convoke_core::id::PeerId;
use convoke_core::journal::{Draft, Kind};
use convoke_core::peer::Trust;
use convoke_socket::drive::{Lost, Machine, Message, Stop, drive_until};
use convoke_sonde::builtin as packs;
use convoke_sonde::hub::{Close, Event, HubConfig, HubSession, Output, Registration};
use convoke_sonde::register::Dialect;
use serde_json::json;
use tokio::sync::{OnceCell, Semaphore, oneshot};

use crate::Wires;
use crate::tunnel::{self, Entered, Hello, NotEntered, UNAVAILABLE};
use crate::ws::{Connection, Socket, Stream};
use admit::Admitted;
use ca::{Ca, CaError};
use convoke_gate::agents::AuthWay;
use convoke_gate::agents::budget::Record;
use convoke_gate::clock;
use convoke_gate::link::Answer;
use convoke_gate::operators::throttle::Throttle;
use convoke_gate::shares::Share;
use registry::{Registry, SondeAgent};

type Waiter = oneshot::Sender<Answer>;
type Session = HubSession<Waiter>;

/// Keys that are made at once for agents that cannot make their own: each takes a processor for a while.
const KEYS_AT_ONCE: usize = 2;
/// Refused registrations with one enrolment token that are recorded one by one; the rest are counted.
const MAX_TOKEN_REFUSALS: u32 = 20;

/// What the hub knows of Sonde.
#[derive(Debug)]
pub struct Sonde {
    /// Agents and tokens.
    pub registry: Registry,
    /// Results for a short while.
    pub cache: cache::Cache,
    /// Slows who shows wrong keys and tokens.
    pub throttle: Throttle,
    ca: OnceCell<Arc<Ca>>,
    keys: Semaphore,
}

impl Sonde {
    /// From what is stored.
    pub fn new(registry: Registry) -> Self {
        Self {
            registry,
            cache: cache::Cache::default(),
            throttle: Throttle::default(),
            ca: OnceCell::new(),
            keys: Semaphore::new(KEYS_AT_ONCE),
        }
    }

    /// Whether an agent can have a probe of this name, as far as is known of it.
    pub fn check_known(&self, agent: &PeerId, probe: &str) -> Result<(), String> {
        let Some(sonde) = self.registry.find(agent) else { return Ok(()) };
        match sonde.lacks(probe) {
            false => Ok(()),
            true => Err(format!(
                "agent {agent} does not have the pack of `{probe}`; `convoke agents show {agent}` lists its packs"
            )),
        }
    }

    /// What a probe of an agent may do, as far as anyone says.
    pub fn effect_of(&self, agent: &PeerId, probe: &str) -> Effect {
        self.registry.find(agent).map_or(Effect::Manage, |sonde| sonde.effect_of(probe))
    }

    /// The hub's CA: read, or made when it is first needed.
    pub async fn ca(&self, store: &dyn convoke_store::Store) -> Result<Arc<Ca>, CaError> {
        self.ca.get_or_try_init(|| async { Ca::load_or_make(store).await.map(Arc::new) }).await.cloned()
    }
}

/// How someone came to the door.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// From where.
    pub address: IpAddr,
    /// With what.
    pub credential: Credential,
    /// Whether over the mutual-TLS listener.
    pub mutual_tls: bool,
}

/// What someone came with. Nobody gets as far as a socket without one.
#[derive(Clone, Debug)]
pub enum Credential {
    /// A live enrolment token as the bearer.
    Token(convoke_core::secret::TokenHash),
    /// An agent's API key.
    Key(Arc<SondeAgent>),
    /// An agent's certificate.
    Certificate(Arc<SondeAgent>),
}

/// Whether a bearer or a certificate lets someone in, and as what.
pub fn credential(
    hub: &Wires,
    bearer: Option<&convoke_core::secret::SecretText>,
    certificate: Option<[u8; 32]>,
) -> Option<Credential> {
    let trusted = |agent: &Arc<SondeAgent>| {
        hub.agents.find(agent.id.as_str()).is_some_and(|a| a.state().trust == Trust::Trusted)
    };
    if let Some(fingerprint) = certificate {
        // A certificate that is no agent's, or whose agent is revoked, is refused whatever else comes with it.
        return hub.sonde.registry.of_cert(&fingerprint).filter(trusted).map(Credential::Certificate);
    }
    let hash = bearer?.hash();
    if let Some(agent) = hub.sonde.registry.of_key(&hash) {
        return trusted(&agent).then_some(Credential::Key(agent));
    }
    hub.sonde.registry.token_is_live(&hash, clock::now()).then_some(Credential::Token(hash))
}

/// Serves one connection, from its first byte to its last.
pub async fn serve(hub: Wires, io: Stream, read: Vec<u8>, arrival: Arrival, handshake: Share) {
    let config = config(&hub);
    let mut socket = Socket::server(io, &read, config.max_register_frame);
    let mut session = Session::new(config, hub.mono());
    let registered = Box::pin(async {
        let mut registering = Registering { hub: &hub, session: &mut session, arrival: &arrival };
        drive_until(&mut socket, &mut registering, hub.stopping.cancelled(), hub.clock()).await
    })
    .await;
    drop(handshake);
    match registered {
        Ok(admitted) => enter(hub, socket, session, *admitted, arrival).await,
        Err(Ended::Close(close)) => socket.close(close.code(), close.reason()).await,
        Err(Ended::Broken(code)) => socket.close(code, "protocol error").await,
        Err(Ended::Gone) => {}
    }
}

fn config(hub: &Wires) -> HubConfig {
    HubConfig {
        heartbeat: hub.settings.sonde.heartbeat_s,
        max_frame: hub.settings.sonde.max_frame_bytes,
        max_in_flight: hub.settings.sonde.max_in_flight,
        ..HubConfig::default()
    }
}

enum Ended {
    Close(Close),
    Broken(u16),
    Gone,
}

/// A connection before its registration.
struct Registering<'a> {
    hub: &'a Wires,
    session: &'a mut Session,
    arrival: &'a Arrival,
}

impl Machine for Registering<'_> {
    type Command = Stop;
    type End = Result<Box<Admitted>, Ended>;

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
            Message::Binary(bytes) => String::from_utf8(bytes).unwrap_or_default(),
            // A stranger's message is small, and never skipped.
            Message::Pong(_) | Message::Skipped(_) => return ControlFlow::Continue(()),
        };
        let (hub, arrival) = (self.hub, self.arrival);
        match self.session.on_text(&text, now) {
            Event::Register(registration) => {
                let Registration { register, .. } = &*registration;
                let (dialect, name) = (register.dialect, register.name.clone());
                let end = match admit::admit(hub, arrival, *registration).await {
                    Ok(admitted) => Ok(Box::new(admitted)),
                    Err(reason) => {
                        refused(hub, arrival, &name, &reason).await;
                        connection.queue_text(&self.session.refuse(dialect, &reason, clock::uuid(), clock::now()));
                        Err(Ended::Close(Close::Refused))
                    }
                };
                return ControlFlow::Break(end);
            }
            Event::BadRegistration { bare, bad } => {
                refused(hub, arrival, "", &bad.what).await;
                connection.queue_text(&bare);
                if bad.dialect == Dialect::Contract {
                    let reason = format!("Invalid registration data: {}", bad.what);
                    connection.queue_text(&self.session.refuse(bad.dialect, &reason, clock::uuid(), clock::now()));
                }
                return ControlFlow::Break(Err(Ended::Close(Close::Refused)));
            }
            Event::Reply(frame) => connection.queue_text(&frame),
            Event::Close(close) => return ControlFlow::Break(Err(Ended::Close(close))),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    async fn on_command(&mut self, _: Stop, _: Duration, _: &mut Connection) -> ControlFlow<Self::End> {
        ControlFlow::Break(Err(Ended::Close(Close::GoingAway)))
    }

    async fn on_time(&mut self, now: Duration, _: &mut Connection) -> ControlFlow<Self::End> {
        for output in self.session.on_tick(now) {
            if let Output::Close(close) = output {
                return ControlFlow::Break(Err(Ended::Close(close)));
            }
        }
        ControlFlow::Continue(())
    }

    async fn on_lost(&mut self, lost: Lost, _: &mut Connection) -> Self::End {
        Err(match lost {
            Lost::Closed(..) | Lost::Gone(_) => Ended::Gone,
            Lost::Broken(error) => Ended::Broken(error.close_code()),
        })
    }
}

/// A refusal is recorded: nobody gets as far as a registration without a valid token, key or certificate. A token lives
/// for minutes and may be tried again and again, so what one of them leaves behind is bounded.
async fn refused(hub: &Wires, arrival: &Arrival, name: &str, reason: &str) {
    hub.metrics.refused("wire", "known");
    let mut detail = json!({
        "what": "registration", "name": name, "reason": reason, "address": arrival.address.to_string(),
    });
    let mut record = Draft::new(clock::now(), Kind::Refusal);
    record.door = Some(Door::Wire);
    record.decision = Some(convoke_core::journal::Decision::Denied);
    let note = match &arrival.credential {
        Credential::Token(token) => {
            if hub.sonde.registry.token_refused(token) > MAX_TOKEN_REFUSALS {
                hub.metrics.dropped("token_refusals", 1);
                return;
            }
            record.who = Some(format!("enrolment token {}", registry::token_label(token)));
            record.target = hub.sonde.registry.of_name(name).map(|agent| agent.id.as_str().into());
            None
        }
        Credential::Key(agent) | Credential::Certificate(agent) => {
            let Some(note) = hub.budgets.keep(&agent.id, Record::Refusal, record.at.millis()) else {
                hub.metrics.dropped("refusal_records", 1);
                return;
            };
            note.tell(&mut detail);
            record.who = Some(format!("agent:{}", agent.id));
            record.target = Some(agent.id.as_str().into());
            note.words()
        }
    };
    tracing::info!(address = %arrival.address, name, reason, note, "refused a Sonde agent");
    hub.note(record.detail(&detail)).await;
}

/// The agent is who it says: it speaks for its id from now on.
async fn enter(hub: Wires, mut socket: Socket, mut session: Session, admitted: Admitted, arrival: Arrival) {
    let Admitted { sonde, member, ack, version, meta } = admitted;
    // Whoever was let in was known: not found any more means removed meanwhile.
    let Some(agent) = hub.agents.find(sonde.id.as_str()) else {
        socket.close(Close::Revoked.code(), Close::Revoked.reason()).await;
        return;
    };
    let hello = Hello {
        address: arrival.address,
        auth: match arrival.credential {
            Credential::Token(_) => AuthWay::Token,
            Credential::Key(_) => AuthWay::ApiKey,
            Credential::Certificate(_) => AuthWay::Certificate,
        },
        name: Some(&sonde.name),
        meta: Some(meta),
        version: Some(version.clone()),
        detail: json!({ "version": version }),
        max_frame: hub.settings.sonde.max_frame_bytes,
    };
    // A revocation or a new enrolment, which makes a new entry, must not be outrun.
    let entered = tunnel::enter(&hub, &mut socket, &agent, hello, |state| {
        let known = hub.sonde.registry.find(&sonde.id);
        state.trust == Trust::Trusted && known.is_some_and(|known| Arc::ptr_eq(&known, &sonde))
    });
    let Entered { link, held } = match entered.await {
        Ok(entered) => entered,
        Err(NotEntered::Refused) => {
            socket.close(Close::Revoked.code(), Close::Revoked.reason()).await;
            return;
        }
        Err(NotEntered::Unavailable) => {
            socket.close(Close::GoingAway.code(), UNAVAILABLE).await;
            return;
        }
    };
    socket.queue_text(&session.accept(member, &ack, clock::uuid(), clock::now(), hub.mono()));
    let (close, last_seen) = live::run(&hub, &mut socket, session, &agent, &sonde, &link, &version).await;
    tunnel::leave(&hub, &agent, &link, last_seen).await;
    drop(held);
    if let Some((code, reason)) = close {
        socket.close(code, reason).await;
    }
}
