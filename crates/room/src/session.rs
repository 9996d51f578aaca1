//! Taking part in a room, over the relay or the mesh: what happens comes out of [`Session::next`], and what is said is
//! either handed on or refused by the time that saying it returns.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use convoke_core::secret::SecretText;
use convoke_kibitz::frame::{Lobby, Member};
use convoke_kibitz::grant::Grant;
use convoke_kibitz::key::Signer;
use convoke_kibitz::participant::{CannotAct, Event, KnownSchema, Participant, Profile};
use convoke_kibitz::room::Transport;
use convoke_socket::drive::{Clock, Lost, Machine, Message, Stop, drive};
use convoke_socket::queue::Queue;
use convoke_socket::{Connection, SocketError};
use serde_json::value::RawValue;

use crate::connect::{self, ConnectError, Socket};
use crate::key::AgentKeyFile;
use crate::mesh::MeshSession;

pub use convoke_kibitz::participant::Said;

/// How long a hub may take to let somebody in; in the lobby there is no limit, since a person decides.
const JOIN_PATIENCE: Duration = Duration::from_secs(15);
/// How long a hub may take over something that was said.
const SAY_PATIENCE: Duration = Duration::from_secs(15);
/// Events that wait while something is being said; beyond it the oldest go.
const MAX_WAITING: usize = 1_024;

/// How to take part.
#[derive(Clone, Debug)]
pub struct Config {
    /// The hub's address, as a person types it.
    pub hub: String,
    /// The room.
    pub room: String,
    /// How content travels there.
    pub transport: Transport,
    /// As whom.
    pub profile: Profile,
    /// An operator's token.
    pub token: Option<SecretText>,
    /// An agent's own key.
    pub key: Option<Arc<AgentKeyFile>>,
}

/// Why somebody is not in.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// There is no connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The room does not know this key, invite or token.
    #[error("the room refuses this participant: it has no valid key, invite or token")]
    Unverified,
    /// Nobody new is let in.
    #[error("the room is locked")]
    Locked,
    /// A host said no.
    #[error("a host of the room denied entry")]
    Denied,
    /// They were removed before.
    #[error("this participant was removed from the room")]
    Kicked,
    /// The hub said why.
    #[error("the hub said {code}: {message}")]
    Refused {
        /// A fixed word.
        code: String,
        /// In words.
        message: String,
    },
    /// The connection ended.
    #[error("the connection ended before this participant was admitted")]
    Lost,
    /// It took too long.
    #[error("the hub did not answer in time")]
    Late,
}

/// Why something that was said did not go out.
#[derive(Debug, thiserror::Error)]
pub enum SayError {
    /// This participant does not speak.
    #[error(transparent)]
    CannotAct(#[from] CannotAct),
    /// The room's engine refused it.
    #[error("the room refused it ({reason}): {message}")]
    Refused {
        /// The capability that is missing, or another fixed word.
        reason: String,
        /// In words.
        message: String,
    },
    /// The connection ended.
    #[error("the connection ended: {0}")]
    Lost(String),
    /// It took too long.
    #[error("the hub did not answer in time")]
    Late,
}

/// Something that a participant says.
#[derive(Clone, Debug)]
pub enum Utterance {
    /// A line of the built-in chat.
    Chat(String),
    /// An agent's line of chat.
    Say(String),
    /// A request to the application.
    Act {
        /// What for.
        action: Box<RawValue>,
        /// Its id, if an answer is wanted.
        id: Option<String>,
    },
    /// What became of a request to this application.
    Acted {
        /// Who asked.
        to: String,
        /// The id of the request.
        id: String,
        /// The result, if there is one, or why it failed.
        outcome: Result<Option<Box<RawValue>>, String>,
    },
    /// The application's state, for agents.
    View(Box<RawValue>),
    /// The shape of an application's views.
    Schema {
        /// Its name.
        name: String,
        /// Its version.
        version: String,
        /// The schema.
        schema: Box<RawValue>,
    },
    /// Application data, to one participant or to all.
    Data {
        /// The data.
        data: Box<RawValue>,
        /// To whom alone.
        to: Option<String>,
    },
}

impl Utterance {
    /// As a frame, with its number. Actions, and what became of them, go to `hub` alone where there is one.
    pub(crate) fn written(
        &self,
        participant: &mut Participant,
        hub: Option<&str>,
    ) -> Result<(u64, String), CannotAct> {
        match self {
            Self::Chat(text) => participant.chat(text),
            Self::Say(text) => participant.say(text),
            Self::Act { action, id } => participant.act(action, id.as_deref(), hub),
            Self::Acted { to, id, outcome } => {
                let outcome = outcome.as_ref().map(Option::as_deref).map_err(String::as_str);
                participant.acted(hub.unwrap_or(to), id, outcome)
            }
            Self::View(view) => participant.show(view),
            Self::Schema { name, version, schema } => participant.publish(name, version, schema),
            Self::Data { data, to } => participant.send(data, to.as_deref()),
        }
    }
}

/// Somebody who is in a room, whatever the transport.
#[derive(Debug)]
pub enum Session {
    /// Through the hub.
    Relay(Box<RelaySession>),
    /// Directly.
    Mesh(Box<MeshSession>),
}

impl Session {
    /// Comes in. With a lobby this waits until a host has decided; `waits` is called when it begins to.
    pub async fn join(config: Config, waits: impl FnMut()) -> Result<Self, JoinError> {
        match config.transport {
            Transport::Relay => RelaySession::join(config, waits).await.map(|session| Self::Relay(Box::new(session))),
            Transport::Mesh => {
                let (hub, room) = (config.hub.clone(), config.room.clone());
                let session = MeshSession::join(&hub, &room, config, waits).await?;
                Ok(Self::Mesh(Box::new(session)))
            }
        }
    }

    /// Its id.
    pub fn id(&self) -> Option<String> {
        match self {
            Self::Relay(session) => session.participant().id().map(Into::into),
            Self::Mesh(session) => session.id(),
        }
    }

    /// The roster.
    pub fn roster(&self) -> Vec<Member> {
        match self {
            Self::Relay(session) => session.participant().roster().to_vec(),
            Self::Mesh(session) => session.roster(),
        }
    }

    /// The latest state of the application.
    pub fn view(&self) -> Option<Box<RawValue>> {
        match self {
            Self::Relay(session) => session.participant().view().map(ToOwned::to_owned),
            Self::Mesh(session) => session.view(),
        }
    }

    /// Every schema published so far.
    pub fn schemas(&self) -> Vec<KnownSchema> {
        match self {
            Self::Relay(session) => session.participant().schemas().to_vec(),
            Self::Mesh(session) => session.schemas(),
        }
    }

    /// The grant of a participant, as the authority says.
    pub fn grant(&self, id: &str) -> Option<Grant> {
        match self {
            Self::Relay(session) => session.participant().grant(id).cloned(),
            Self::Mesh(session) => session.grant(id),
        }
    }

    /// Its own grant.
    pub(crate) fn own_grant(&self) -> Option<Grant> {
        match self {
            Self::Relay(session) => {
                session.participant().id().and_then(|id| session.participant().grant(id)).cloned()
            }
            Self::Mesh(session) => session.own_grant(),
        }
    }

    /// Whether it may say anything now, as far as it knows.
    pub fn can_act(&self) -> bool {
        match self {
            Self::Relay(session) => session.can_act(),
            Self::Mesh(session) => session.can_act(),
        }
    }

    /// What happens next; `Err` with the reason when it is no longer in the room. Cancel-safe.
    pub async fn next(&mut self) -> Result<Event, String> {
        match self {
            Self::Relay(session) => session.next().await,
            Self::Mesh(session) => session.next().await,
        }
    }

    /// Whether the authority takes actions to the applications and answers for them, as a hub does.
    pub fn has_hub(&self) -> bool {
        match self {
            Self::Relay(_) => true,
            Self::Mesh(session) => session.has_hub(),
        }
    }

    /// A line of the built-in chat.
    pub async fn chat(&mut self, text: &str) -> Result<(), SayError> {
        self.utter(Utterance::Chat(text.into())).await.map(drop)
    }

    /// An agent's line of chat.
    pub async fn say(&mut self, text: &str) -> Result<(), SayError> {
        self.utter(Utterance::Say(text.into())).await.map(drop)
    }

    /// A request to the application, without waiting for what becomes of it; [`crate::Agent::act`] waits.
    pub async fn act(&mut self, action: &RawValue) -> Result<(), SayError> {
        self.utter(Utterance::Act { action: action.to_owned(), id: None }).await.map(drop)
    }

    /// What became of a request to this application ([`Event::Act`]).
    pub async fn acted(
        &mut self,
        to: &str,
        id: &str,
        outcome: Result<Option<Box<RawValue>>, String>,
    ) -> Result<(), SayError> {
        self.utter(Utterance::Acted { to: to.into(), id: id.into(), outcome }).await.map(drop)
    }

    /// The application's state, for agents.
    pub async fn show(&mut self, view: &RawValue) -> Result<(), SayError> {
        self.utter(Utterance::View(view.to_owned())).await.map(drop)
    }

    /// The shape of an application's views.
    pub async fn publish(&mut self, name: &str, version: &str, schema: &RawValue) -> Result<(), SayError> {
        let (name, version, schema) = (name.into(), version.into(), schema.to_owned());
        self.utter(Utterance::Schema { name, version, schema }).await.map(drop)
    }

    /// Application data, to one participant or to all.
    pub async fn send(&mut self, data: &RawValue, to: Option<&str>) -> Result<(), SayError> {
        self.utter(Utterance::Data { data: data.to_owned(), to: to.map(Into::into) }).await.map(drop)
    }

    /// Says something. Answers the number by which a later refusal names it, where there is one.
    pub(crate) async fn utter(&mut self, what: Utterance) -> Result<Option<u64>, SayError> {
        match self {
            Self::Relay(session) => {
                let (number, frame) = what.written(&mut session.seat.participant, None)?;
                session.deliver(number, frame).await.map(|()| Some(number))
            }
            Self::Mesh(session) => session.utter(what).await.map(|()| None),
        }
    }

    /// Goes.
    pub async fn leave(self) {
        match self {
            Self::Relay(session) => session.leave().await,
            Self::Mesh(session) => session.leave().await,
        }
    }
}

/// Somebody who is in a room on the relay.
pub struct RelaySession {
    socket: Socket,
    clock: Clock,
    seat: Seat,
    pings: u64,
}

impl std::fmt::Debug for RelaySession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RelaySession").field("id", &self.participant().id()).finish_non_exhaustive()
    }
}

impl RelaySession {
    /// Comes in. With a lobby this waits until a host has decided; `waits` is called when it begins to.
    async fn join(config: Config, mut waits: impl FnMut()) -> Result<Self, JoinError> {
        let Config { hub, room, mut profile, token, key, .. } = config;
        let url = connect::relay_url(&hub, &room)?;
        if profile.token.is_none() {
            // Two programs of one person are two participants.
            profile.token = own_token();
        }
        let (socket, host) = connect::open(&url, token.as_ref()).await?;
        let participant = Participant::new(profile, host);
        let seat = Seat { participant, key, waiting: VecDeque::new(), last_words: None };
        let mut session = Self { socket, clock: Clock::since(Instant::now()), seat, pings: 0 };
        let mut in_lobby = false;
        loop {
            let step = session.step();
            let stepped = if in_lobby {
                step.await
            } else {
                tokio::time::timeout(JOIN_PATIENCE, step).await.map_err(|_| JoinError::Late)?
            };
            let ended = stepped.is_err();
            while let Some(event) = session.seat.waiting.pop_front() {
                match event {
                    Event::Joined { .. } => {
                        session.seat.waiting.push_front(event);
                        return Ok(session);
                    }
                    Event::Lobby(Lobby::Waiting) if !in_lobby => {
                        in_lobby = true;
                        waits();
                    }
                    Event::Lobby(Lobby::Unverified) => return Err(JoinError::Unverified),
                    Event::Lobby(Lobby::Locked) => return Err(JoinError::Locked),
                    Event::Lobby(Lobby::Denied) => return Err(JoinError::Denied),
                    Event::Kicked => return Err(JoinError::Kicked),
                    Event::Problem { code, message } => return Err(JoinError::Refused { code, message }),
                    _ => {}
                }
            }
            if ended {
                return Err(JoinError::Lost);
            }
        }
    }

    /// What it knows: the roster, grants, the latest view, schemas.
    const fn participant(&self) -> &Participant {
        &self.seat.participant
    }

    /// Whether it may say anything now, as far as it knows.
    fn can_act(&self) -> bool {
        self.seat.participant.can_act(unix())
    }

    /// What happens next; `Err` with the reason when the connection has ended. Cancel-safe: what was read is kept.
    async fn next(&mut self) -> Result<Event, String> {
        loop {
            if let Some(event) = self.seat.waiting.pop_front() {
                return Ok(event);
            }
            self.step().await?;
        }
    }

    /// Goes.
    async fn leave(mut self) {
        self.socket.queue_text(&self.seat.participant.leave());
        self.socket.close(1000, "").await;
    }

    /// Something, and a ping behind it: its pong means that the room has worked through it, and a refusal comes before.
    async fn deliver(&mut self, number: u64, frame: String) -> Result<(), SayError> {
        self.pings += 1;
        let ping = self.pings;
        self.socket.queue_text(&frame);
        self.socket.queue_ping(&ping.to_be_bytes());
        let answered = async {
            loop {
                let heard = self.step().await.map_err(SayError::Lost)?;
                let about =
                    |event: &Event| matches!(event, Event::Refused { reference: Some(n), .. } if *n == number);
                if let Some(at) = self.seat.waiting.iter().position(about)
                    && let Some(Event::Refused { reason, message, .. }) = self.seat.waiting.remove(at)
                {
                    return Err(SayError::Refused { reason, message });
                }
                // Too many frames are dropped without their number.
                let dropped = |event: &Event| matches!(event, Event::Problem { code, .. } if code == "rate");
                if let Some(at) = self.seat.waiting.iter().position(dropped)
                    && let Some(Event::Problem { code, message }) = self.seat.waiting.remove(at)
                {
                    return Err(SayError::Refused { reason: code, message });
                }
                if matches!(heard, Heard::Pong(number) if number >= ping) {
                    return Ok(());
                }
            }
        };
        tokio::time::timeout(SAY_PATIENCE, answered).await.unwrap_or(Err(SayError::Late))
    }

    /// Reads until something happens, which is put behind what waits; `Err` with the reason when the connection has ended.
    async fn step(&mut self) -> Result<Heard, String> {
        let heard = drive(&mut self.socket, &mut self.seat, &Queue::default(), self.clock).await;
        if heard.is_err() {
            self.socket.close(1000, "").await;
        }
        heard
    }
}

/// What [`Session::step`] waits for.
enum Heard {
    Events,
    /// The answer to the ping of this number.
    Pong(u64),
}

/// The participant's side of the connection.
struct Seat {
    participant: Participant,
    key: Option<Arc<AgentKeyFile>>,
    /// What happened and was not asked for yet.
    waiting: VecDeque<Event>,
    /// Why the hub is about to close the connection, as far as it said.
    last_words: Option<String>,
}

impl Machine for Seat {
    type Command = Stop;
    type End = Result<Heard, String>;

    async fn on_message(
        &mut self,
        message: Message,
        _: Duration,
        connection: &mut Connection,
    ) -> ControlFlow<Self::End> {
        match message {
            Message::Text(text) => self.on_text(&text, connection),
            Message::Pong(payload) => {
                let number = payload.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
                ControlFlow::Break(Ok(Heard::Pong(number)))
            }
            Message::Binary(_) | Message::Skipped(_) => ControlFlow::Continue(()),
        }
    }

    async fn on_lost(&mut self, lost: Lost, _: &mut Connection) -> Self::End {
        let said = match lost {
            Lost::Closed(code, reason) => code.map(|code| format!("{reason} ({code})")),
            Lost::Gone(SocketError::Ended) => None,
            why => Some(why.to_string()),
        };
        Err(self.last_words.take().or(said).unwrap_or_else(|| "the hub closed the connection".into()))
    }
}

impl Seat {
    fn on_text(&mut self, text: &str, connection: &mut Connection) -> ControlFlow<Result<Heard, String>> {
        let signer = self.key.as_deref().map(|key| key as &dyn Signer);
        for event in self.participant.on_text(text, signer, unix()) {
            match &event {
                Event::Send(frame) => {
                    connection.queue_text(frame);
                    continue;
                }
                Event::Problem { message, .. } => self.last_words = Some(message.clone()),
                Event::Kicked => self.last_words = Some("this participant was removed from the room".into()),
                _ => {}
            }
            if self.waiting.len() == MAX_WAITING {
                self.waiting.pop_front();
            }
            self.waiting.push_back(event);
        }
        if self.waiting.is_empty() { ControlFlow::Continue(()) } else { ControlFlow::Break(Ok(Heard::Events)) }
    }
}

/// A secret of this process's own.
pub(crate) fn own_token() -> Option<String> {
    let mut bytes = [0; 16];
    aws_lc_rs::rand::fill(&mut bytes).ok()?;
    Some(URL_SAFE_NO_PAD.encode(bytes))
}

/// Seconds since 1970.
pub(crate) fn unix() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
