//! The client's task: connect, prove, keep alive, try again.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use convoke_dial::backoff::Backoff;
use convoke_socket::drive::{self, Machine, Message as Incoming, drive};
use convoke_socket::queue::Queue;
use convoke_socket::{Connection, SocketError};
use convoke_yonexus::client::{ClientEvent, ClientSession, Incoming as Said, State};
use convoke_yonexus::reason::{AuthFailure, ErrorCode, PairFailure};
use convoke_yonexus::rules::Rules;
use tokio::sync::{mpsc, oneshot};

use crate::clock::{self, Clock};
use crate::config::{Command, Config, Event, Message, Pairing, Processor, SendError};
use crate::connect::{self, ConnectError, Socket};
use crate::state::{Lock, StateError, StateFile, Status};

/// How long the hub may take from `hello` to its answer, and over a ping.
const ANSWER_PATIENCE: Duration = Duration::from_secs(30);
/// Longest pause between two attempts to connect.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Messages that wait for the hub's confirmation; beyond it no more are taken from the program.
const MAX_UNCONFIRMED: usize = 256;

/// How a client ended.
#[derive(Debug)]
pub enum Ended {
    /// Its handle said so, or is gone.
    Stopped,
    /// It has no pairing, and may not begin one.
    NeedsPairing(String),
    /// It was told not to try again.
    Gone(String),
    /// Its secret could not be kept.
    State(StateError),
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Stopped => f.write_str("stopped"),
            Self::NeedsPairing(why) | Self::Gone(why) => f.write_str(why),
            Self::State(why) => write!(f, "{why}"),
        }
    }
}

pub(crate) async fn run(
    config: Config,
    rules: Rules<Mutex<Processor>>,
    commands: Arc<Queue<Command>>,
    events: mpsc::Sender<Event>,
    lock: Lock,
) -> Ended {
    let Config { hub, state, heartbeat, pairing, reconnect } = config;
    let mut identity = state.identity();
    if pairing == Pairing::Anew {
        // Said to have none, so that the hub pairs; the file keeps it, and so does the hub, until there is another.
        identity.secret = None;
    }
    let session = ClientSession::new(identity, heartbeat);
    let mut task = Task {
        hub,
        state,
        pairing,
        rules,
        commands,
        events,
        session,
        clock: Clock::new(),
        shown: None,
        problem: None,
        key_is_known: false,
        unconfirmed: VecDeque::new(),
        pings: 0,
        last_words: None,
        answer_by: Duration::ZERO,
    };
    let ended = task.work(reconnect).await;
    // Who still waits learns that nothing was sent.
    drop(task.commands.end());
    // Who asks for the status later must find what is to be done.
    task.show(if matches!(ended, Ended::NeedsPairing(_)) { State::PairingRequired } else { State::Idle });
    if !task.key_is_known && !task.state.is_paired() {
        task.state.unmake();
    }
    drop(lock);
    ended
}

struct Task {
    hub: String,
    state: StateFile,
    pairing: Pairing,
    rules: Rules<Mutex<Processor>>,
    commands: Arc<Queue<Command>>,
    events: mpsc::Sender<Event>,
    session: ClientSession,
    clock: Clock,
    shown: Option<State>,
    problem: Option<String>,
    /// Whether the hub has a pairing of this key, or one under way.
    key_is_known: bool,
    /// Messages whose ping is not answered yet, oldest first.
    unconfirmed: VecDeque<Unconfirmed>,
    pings: u64,
    /// What the hub said last that tells why a connection ends.
    last_words: Option<String>,
    /// By when the hub must have answered.
    answer_by: Duration,
}

struct Unconfirmed {
    ping: u64,
    reply: oneshot::Sender<Result<(), SendError>>,
    refused: Option<SendError>,
}

/// Why a connection ended.
enum Lost {
    /// It can be tried again.
    Again(String),
    /// It cannot.
    For(Ended),
}

impl Task {
    async fn work(&mut self, reconnect: bool) -> Ended {
        let mut backoff = Backoff::new(LONGEST_PAUSE);
        loop {
            if self.pairing == Pairing::Refused && !self.state.is_paired() {
                return Ended::NeedsPairing("this client is not paired; run `convoke client pair` first".into());
            }
            self.session.connecting();
            self.show(State::Connecting);
            let lost = match connect::open(&self.hub).await {
                Ok(socket) => self.connected(socket).await,
                Err(why @ ConnectError::Address(_)) => Lost::For(Ended::Gone(why.to_string())),
                Err(why) => Lost::Again(why.to_string()),
            };
            for waiting in self.unconfirmed.drain(..) {
                let _ = waiting.reply.send(Err(SendError::Lost));
            }
            let why = match lost {
                Lost::For(ended) => return ended,
                Lost::Again(why) => why,
            };
            let life = self.session.lost(self.clock.now());
            backoff.lived(life);
            let pause = backoff.next(u32::from_le_bytes(clock::random()));
            self.problem = Some(why.clone());
            if !reconnect {
                self.tell(Event::Lost { why: why.clone(), again_in: None }).await;
                return Ended::Gone(why);
            }
            self.show(State::Reconnecting);
            self.tell(Event::Lost { why, again_in: Some(pause) }).await;
            if let Some(ended) = self.pause(pause).await {
                return ended;
            }
        }
    }

    /// Waits; what is to be sent meanwhile is refused.
    async fn pause(&mut self, pause: Duration) -> Option<Ended> {
        let sleep = tokio::time::sleep(pause);
        tokio::pin!(sleep);
        loop {
            tokio::select! {
                () = &mut sleep => return None,
                command = self.commands.next(true, Duration::MAX) => match command {
                    Some(Command::Stop) => return Some(Ended::Stopped),
                    Some(Command::Send { reply, .. }) => drop(reply.send(Err(SendError::NotConnected))),
                    Some(Command::Confirm(_)) | None => {}
                },
            }
        }
    }

    async fn connected(&mut self, mut socket: Socket) -> Lost {
        let now = self.clock.now();
        socket.queue_text(&self.session.hello(now).encode());
        self.show(State::Connected);
        (self.last_words, self.answer_by) = (None, now.mono + ANSWER_PATIENCE);
        let (commands, clock) = (Arc::clone(&self.commands), self.clock.of_connections());
        let lost = drive(&mut socket, self, &commands, clock).await;
        socket.close(1000, "").await;
        lost
    }
}

impl Machine for Task {
    type Command = Command;
    type End = Lost;

    fn takes_commands(&self) -> bool {
        self.unconfirmed.len() < MAX_UNCONFIRMED
    }

    fn deadline(&mut self, _: Duration, _: &Connection) -> Duration {
        let beat = self.session.next_deadline().unwrap_or(Duration::MAX);
        if self.awaits_hub() { beat.min(self.answer_by) } else { beat }
    }

    async fn on_message(
        &mut self,
        message: Incoming,
        _: Duration,
        connection: &mut Connection,
    ) -> ControlFlow<Self::End> {
        match message {
            Incoming::Text(text) => {
                if let Some(lost) = self.on_text(&text, connection).await {
                    return ControlFlow::Break(lost);
                }
            }
            Incoming::Pong(payload) => self.on_pong(&payload),
            Incoming::Binary(_) | Incoming::Skipped(_) => {}
        }
        ControlFlow::Continue(())
    }

    async fn on_command(
        &mut self,
        command: Command,
        _: Duration,
        connection: &mut Connection,
    ) -> ControlFlow<Self::End> {
        match command {
            Command::Stop => return ControlFlow::Break(Lost::For(Ended::Stopped)),
            Command::Confirm(code) => {
                connection.queue_text(&self.session.confirm(code, self.clock.now()).encode());
            }
            Command::Send { reply, .. } if self.session.state() != State::Authenticated => {
                let _ = reply.send(Err(SendError::NotConnected));
            }
            Command::Send { text, reply } => self.send(&text, reply, connection),
        }
        ControlFlow::Continue(())
    }

    async fn on_time(&mut self, now: Duration, connection: &mut Connection) -> ControlFlow<Self::End> {
        if self.awaits_hub() && now >= self.answer_by {
            return ControlFlow::Break(Lost::Again("the hub did not answer in time".into()));
        }
        if let Some(frame) = self.session.on_tick(self.clock.now()) {
            connection.queue_text(&frame.encode());
        }
        ControlFlow::Continue(())
    }

    async fn on_lost(&mut self, lost: drive::Lost, _: &mut Connection) -> Self::End {
        let why = match lost {
            drive::Lost::Closed(code, reason) => {
                code.map_or_else(|| "the hub closed the connection".into(), |code| format!("{reason} ({code})"))
            }
            drive::Lost::Gone(SocketError::Ended) => "the connection ended".into(),
            drive::Lost::Gone(error) => error.to_string(),
            drive::Lost::Broken(error) => SocketError::from(error).to_string(),
        };
        Lost::Again(self.last_words.take().unwrap_or(why))
    }
}

impl Task {
    /// Whether the hub owes an answer. A person may take their time; the hub may not.
    fn awaits_hub(&self) -> bool {
        matches!(self.session.state(), State::Connected | State::Authenticating)
    }

    /// A message, and a ping behind it: its pong means that the hub has worked through the message.
    fn send(&mut self, text: &str, reply: oneshot::Sender<Result<(), SendError>>, connection: &mut Connection) {
        self.pings += 1;
        let ping = self.pings;
        self.unconfirmed.push_back(Unconfirmed { ping, reply, refused: None });
        connection.queue_text(text);
        connection.queue_ping(&ping.to_be_bytes());
    }

    fn on_pong(&mut self, payload: &[u8]) {
        let Some(ping) = payload.first_chunk().map(|bytes| u64::from_be_bytes(*bytes)) else { return };
        while self.unconfirmed.front().is_some_and(|waiting| waiting.ping <= ping) {
            let Some(waiting) = self.unconfirmed.pop_front() else { return };
            let _ = waiting.reply.send(waiting.refused.map_or(Ok(()), Err));
        }
    }

    async fn on_text(&mut self, text: &str, connection: &mut Connection) -> Option<Lost> {
        let before = self.session.state();
        let incoming = self.session.on_text(text, self.clock.now());
        let event = match incoming {
            Said::Rule(message) => {
                let (rule, content) = (message.rule, message.content);
                match self.rules.find(rule) {
                    Some(processor) => {
                        let mut processor = processor.lock().unwrap_or_else(PoisonError::into_inner);
                        (processor.0)(Message { rule, content });
                    }
                    None => self.tell(Event::Message { rule: rule.into(), content: content.into() }).await,
                }
                return None;
            }
            Said::Ignored => None,
            Said::Event(event) => Some(event),
        };
        let state = self.session.state();
        if state != before {
            self.show(state);
            self.tell(Event::State(state)).await;
        }
        if self.pairing == Pairing::Refused && matches!(state, State::PairingRequired | State::PairingPending) {
            let _ = self.state.unpaired(&self.hub);
            let why = "the hub requires this client to pair again; run `convoke client pair`";
            return Some(Lost::For(Ended::NeedsPairing(why.into())));
        }
        if state != before && matches!(state, State::PairingRequired | State::PairingPending) && !self.key_is_known {
            self.key_is_known = true;
            // Whose pairing it is; one that is in force keeps its hub until this one has come about.
            if !self.state.is_paired()
                && let Err(why) = self.state.set_hub(&self.hub)
            {
                return Some(Lost::For(Ended::State(why)));
            }
        }
        match event {
            Some(event) => self.on_event(event, connection).await,
            None => None,
        }
    }

    async fn on_event(&mut self, event: ClientEvent, connection: &mut Connection) -> Option<Lost> {
        match event {
            ClientEvent::AuthRequired => self.authenticate(connection),
            ClientEvent::Paired { secret, .. } => {
                // On disk first: a secret that was used and lost would bother a person again.
                if let Err(why) = self.state.paired(&self.hub, &secret, clock::wall()) {
                    return Some(Lost::For(Ended::State(why)));
                }
                self.tell(Event::Paired).await;
                self.authenticate(connection);
            }
            ClientEvent::CodeWanted { ttl_seconds, notification, .. } => {
                self.tell(Event::CodeWanted { ttl_seconds, notification }).await;
            }
            ClientEvent::PairFailed(reason) => {
                if matches!(reason, PairFailure::Expired | PairFailure::IdentifierNotAllowed) {
                    self.key_is_known = false;
                }
                self.tell(Event::PairFailed(reason)).await;
            }
            ClientEvent::Authenticated { .. } => {
                self.problem = None;
                if let Err(why) = self.state.authenticated(clock::wall()) {
                    self.problem = Some(why.to_string());
                }
                self.show(State::Authenticated);
                self.tell(Event::Authenticated { clock_ahead_s: self.session.clock_ahead() }).await;
            }
            ClientEvent::AuthFailed { reason, explanation } => {
                self.last_words = Some(explanation.clone());
                self.problem = Some(explanation.clone());
                self.tell(Event::AuthFailed { reason, explanation: explanation.clone() }).await;
                let hopeless = matches!(
                    reason,
                    AuthFailure::NotPaired | AuthFailure::InvalidSignature | AuthFailure::InvalidSecret
                );
                if hopeless && self.pairing == Pairing::Refused {
                    return Some(Lost::For(Ended::NeedsPairing(explanation)));
                }
                // `re_pair_required` follows where trust was reset; else another connection, after a pause.
                if !matches!(reason, AuthFailure::NonceCollision | AuthFailure::RateLimited) {
                    return Some(Lost::Again(explanation));
                }
            }
            ClientEvent::RePairRequired(reason) => {
                let _ = self.state.unpaired(&self.hub);
                self.tell(Event::RePairRequired(reason)).await;
                connection.queue_text(&self.session.hello(self.clock.now()).encode());
            }
            ClientEvent::Rejected => {
                self.last_words = Some("the hub refuses this client".into());
                self.tell(Event::Rejected).await;
            }
            ClientEvent::Status { identifier, status, reason } => {
                self.tell(Event::Status { identifier, status, reason }).await;
            }
            ClientEvent::DisconnectNotice(reason) => {
                self.last_words = Some(format!("the hub closed the connection: {reason}"));
                self.tell(Event::Notice(reason)).await;
            }
            ClientEvent::ServerError { code, message } => {
                // What the hub says about a message comes before that message's pong.
                let about = matches!(
                    code,
                    Ok(ErrorCode::ClientOffline
                        | ErrorCode::InternalError
                        | ErrorCode::RateLimited
                        | ErrorCode::MalformedMessage)
                );
                match self.unconfirmed.front_mut().filter(|_| about) {
                    Some(waiting) => waiting.refused = Some(SendError::refused(&code, message.as_deref())),
                    None => {
                        let code = code.map_or_else(|code| code, |code| code.name().to_owned());
                        let words = message.clone().unwrap_or_default();
                        self.last_words = Some(format!("the hub said {code}: {words}"));
                        self.tell(Event::ServerError { code, message }).await;
                    }
                }
            }
            ClientEvent::Malformed(why) => self.tell(Event::Malformed(why.to_string())).await,
        }
        None
    }

    fn authenticate(&mut self, connection: &mut Connection) {
        if let Some(frame) = self.session.authenticate(&clock::random(), self.clock.now()) {
            self.show(State::Authenticating);
            connection.queue_text(&frame.encode());
        }
    }

    async fn tell(&self, event: Event) {
        // A program that does not listen any more still has its connection.
        let _ = self.events.send(event).await;
    }

    /// Shows the state to whoever looks, when it has changed.
    fn show(&mut self, state: State) {
        if self.shown == Some(state) && state != State::Authenticated {
            return;
        }
        self.shown = Some(state);
        self.state.set_status(&Status {
            state: state.name().into(),
            since: clock::wall(),
            pid: std::process::id(),
            clock_ahead_s: self.session.clock_ahead(),
            problem: self.problem.clone(),
        });
    }
}
