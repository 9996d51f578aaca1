//! Taking part in a room on the mesh: a task of its own holds the connections, since the others expect a sign of life every
//! few seconds, whatever the program does meanwhile.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use convoke_dial::{Ask, ConnectError, Socket, address, open as dial};
use convoke_kibitz::frame::{Lobby, Member};
use convoke_kibitz::grant::Grant;
use convoke_kibitz::key::Signer;
use convoke_kibitz::mesh::participant::{Do, MeshParticipant, NotSaid};
use convoke_kibitz::mesh::room_peer;
use convoke_kibitz::name::normal;
use convoke_kibitz::participant::{Event, KnownSchema, Participant};
use convoke_kibitz::room::HUB;
use convoke_kibitz::signal::{MAX_MESSAGE, Message as Signal};
use convoke_rtc::{Config as Rtc, Endpoint, Event as Happened, LinkId};
use convoke_socket::Connection;
use convoke_socket::drive::{Clock, Lost, Machine, Message, Stop, drive};
use convoke_socket::queue::Queue;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::session::{Config, JoinError, SayError, Utterance, own_token, unix};
use crate::udp::{Datagram, Sockets};

/// How long a room may take to let somebody in; in the lobby there is no limit, since a person decides.
const JOIN_PATIENCE: Duration = Duration::from_secs(15);
/// After the authority went, and between tries to find the next one.
const RETRY: Duration = Duration::from_millis(1_500);
/// How long nobody may hold the room's id until a participant gives up.
const GONE_FOR: Duration = Duration::from_secs(60);
/// Signs of life to the broker.
const HEARTBEAT_EVERY: Duration = Duration::from_secs(5);
/// Events that wait for the program; beyond it the newest are dropped.
const MAX_WAITING: usize = 1_024;
/// Datagrams in a row before anything else has its turn.
const BURST: usize = 64;

enum Command {
    Say(Utterance, oneshot::Sender<Result<(), SayError>>),
    Leave(oneshot::Sender<()>),
}

/// Somebody who is in a room on the mesh.
pub struct MeshSession {
    shared: Arc<Mutex<MeshParticipant>>,
    commands: mpsc::Sender<Command>,
    events: mpsc::Receiver<Event>,
    first: Option<Event>,
    task: JoinHandle<String>,
}

impl std::fmt::Debug for MeshSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MeshSession").field("id", &self.lock().known().id()).finish_non_exhaustive()
    }
}

impl Drop for MeshSession {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl MeshSession {
    /// Comes in. With a lobby this waits until a host has decided; `waits` is called when it begins to.
    pub async fn join(hub: &str, room: &str, config: Config, mut waits: impl FnMut()) -> Result<Self, JoinError> {
        let Config { mut profile, key, .. } = config;
        if profile.token.is_none() {
            profile.token = own_token();
        }
        let room = normal(room).ok_or_else(|| JoinError::Connect(ConnectError::Address(room.into())))?;
        let me = own_id().ok_or(JoinError::Lost)?;
        let query = format!("peerjs?key=peerjs&id={me}&token={}&version=1.5.5", own_id().ok_or(JoinError::Lost)?);
        let url = address(hub, |rest| Some(format!("{}/{query}", rest.trim_end_matches('/'))))?;
        let (broker, host) = dial(&url, Ask { token: None, max_message: MAX_MESSAGE, refusal: |_| None }).await?;
        let mut sockets = Sockets::towards(&host).await.map_err(|_| JoinError::Lost)?;
        let local = sockets.open().map_err(|_| JoinError::Lost)?;
        let config = Rtc { address: local, lite: false, links: (256, 128) };
        let endpoint = Endpoint::new(config).map_err(|_| JoinError::Lost)?;
        let participant = MeshParticipant::new(profile, &me, &room, endpoint.fingerprint());
        let shared = Arc::new(Mutex::new(participant));
        let (commands, asked) = mpsc::channel(64);
        let (events, heard) = mpsc::channel(MAX_WAITING);
        let task = Task {
            shared: Arc::clone(&shared),
            endpoint,
            sockets,
            dialled_from: HashMap::new(),
            me,
            authority: room_peer(&room),
            key,
            presence: None,
            content: HashMap::new(),
            dialling: HashMap::new(),
            links: HashSet::new(),
            events,
            clock: Clock::since(Instant::now()),
            retry: Duration::MAX,
            next_heartbeat: HEARTBEAT_EVERY,
            alone_since: None,
            ended: None,
        };
        let task = tokio::spawn(task.run(broker, asked));
        let mut session = Self { shared, commands, events: heard, first: None, task };
        let mut in_lobby = false;
        loop {
            let next = session.events.recv();
            let event = if in_lobby {
                next.await
            } else {
                tokio::time::timeout(JOIN_PATIENCE, next).await.map_err(|_| JoinError::Late)?
            };
            match event.ok_or(JoinError::Lost)? {
                event @ Event::Joined { .. } => {
                    session.first = Some(event);
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
    }

    fn lock(&self) -> MutexGuard<'_, MeshParticipant> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn look<T>(&self, look: impl FnOnce(&Participant) -> T) -> T {
        look(self.lock().known())
    }

    /// Whether it may say anything now, as far as it knows.
    pub fn can_act(&self) -> bool {
        self.lock().can_act(unix())
    }

    pub(crate) fn own_grant(&self) -> Option<Grant> {
        self.lock().own_grant(unix())
    }

    pub(crate) fn has_hub(&self) -> bool {
        self.lock().has_hub()
    }

    /// How many of the others in the roster it is connected to, and how many there are.
    pub fn connections(&self) -> (usize, usize) {
        self.lock().connections()
    }

    /// What happens next; `Err` with the reason when it is no longer in the room. Cancel-safe.
    pub async fn next(&mut self) -> Result<Event, String> {
        if let Some(event) = self.first.take() {
            return Ok(event);
        }
        match self.events.recv().await {
            Some(event) => Ok(event),
            None => Err((&mut self.task).await.unwrap_or_else(|_| "the connection ended".into())),
        }
    }

    /// Says something; returns once it is sent to everyone who may hear it.
    pub(crate) async fn utter(&mut self, what: Utterance) -> Result<(), SayError> {
        let (answer, answered) = oneshot::channel();
        let lost = || SayError::Lost("no longer in the room".into());
        self.commands.send(Command::Say(what, answer)).await.map_err(|_| lost())?;
        answered.await.map_err(|_| lost())?
    }

    /// Goes.
    pub async fn leave(self) {
        let (answer, answered) = oneshot::channel();
        if self.commands.send(Command::Leave(answer)).await.is_ok() {
            let _ = answered.await;
        }
    }

    pub(crate) fn id(&self) -> Option<String> {
        self.look(|known| known.id().map(Into::into))
    }

    pub(crate) fn roster(&self) -> Vec<Member> {
        self.look(|known| known.roster().to_vec())
    }

    pub(crate) fn view(&self) -> Option<Box<RawValue>> {
        self.look(|known| known.view().map(ToOwned::to_owned))
    }

    pub(crate) fn schemas(&self) -> Vec<KnownSchema> {
        self.look(|known| known.schemas().to_vec())
    }

    pub(crate) fn grant(&self, id: &str) -> Option<Grant> {
        self.look(|known| known.grant(id).cloned())
    }
}

/// A random id, of letters that sort before those of a hub.
fn own_id() -> Option<String> {
    let mut bytes = [0; 16];
    aws_lc_rs::rand::fill(&mut bytes).ok()?;
    Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

struct Task {
    shared: Arc<Mutex<MeshParticipant>>,
    endpoint: Endpoint,
    sockets: Sockets,
    /// Whence each connection was dialled.
    dialled_from: HashMap<LinkId, SocketAddr>,
    me: String,
    authority: String,
    key: Option<Arc<crate::key::AgentKeyFile>>,
    presence: Option<LinkId>,
    content: HashMap<String, LinkId>,
    dialling: HashMap<String, LinkId>,
    links: HashSet<LinkId>,
    events: mpsc::Sender<Event>,
    clock: Clock,
    /// When the authority is dialled again.
    retry: Duration,
    next_heartbeat: Duration,
    alone_since: Option<Duration>,
    ended: Option<String>,
}

impl Task {
    /// Takes part until it is over, and says why.
    async fn run(mut self, mut broker: Socket, mut commands: mpsc::Receiver<Command>) -> String {
        let (mut seat, unasked) = (BrokerSeat, Queue::default());
        loop {
            let due = self.due();
            tokio::select! {
                // Dropping it ends nothing: what was read of the socket is kept in it.
                heard = drive(&mut broker, &mut seat, &unasked, self.clock) => match heard {
                    Ok(signal) => self.on_signal(&signal),
                    Err(why) => self.ended = Some(why),
                },
                Some(datagram) = self.sockets.next() => self.receive(datagram),
                Some(command) = commands.recv() => if let Some(answer) = self.on_command(command) {
                    self.settle(&mut broker);
                    self.transmit();
                    let _ = answer.send(());
                    broker.close(1000, "").await;
                    return "this participant left".into();
                },
                () = tokio::time::sleep_until(due.into()) => {}
            }
            for _ in 0..BURST {
                let Some(datagram) = self.sockets.waiting() else { break };
                self.receive(datagram);
            }
            self.on_time(&mut broker);
            self.settle(&mut broker);
            self.transmit();
            if let Some(why) = self.ended.take() {
                broker.close(1000, "").await;
                return why;
            }
        }
    }

    fn receive(&mut self, Datagram { from, to, bytes }: Datagram) {
        self.endpoint.on_datagram(from, to, &bytes, Instant::now());
    }

    /// Dials from a socket of its own.
    fn dial(&mut self, peer: &str) -> Option<LinkId> {
        let from = self.sockets.open().ok()?;
        let Some(link) = self.endpoint.dial_from(from, &self.me, peer, Instant::now()) else {
            self.sockets.close(from);
            return None;
        };
        self.dialled_from.insert(link, from);
        Some(link)
    }

    fn due(&self) -> Instant {
        let now = self.clock.now();
        let timers = self.lock().due().min(self.retry).min(self.next_heartbeat);
        let timers = Instant::now() + timers.saturating_sub(now).min(Duration::from_secs(5));
        self.endpoint.due().map_or(timers, |due| due.min(timers))
    }

    fn lock(&self) -> MutexGuard<'_, MeshParticipant> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn signer(&self) -> Option<&dyn Signer> {
        self.key.as_deref().map(|key| key as &dyn Signer)
    }

    fn on_signal(&mut self, signal: &Signal) {
        match signal.kind.as_str() {
            "OPEN" => self.retry = Duration::ZERO,
            "ID-TAKEN" | "ERROR" => self.ended = Some("the broker refused this participant".into()),
            _ => self.endpoint.on_signal(signal, Instant::now()),
        }
    }

    fn on_time(&mut self, broker: &mut Socket) {
        let now = self.clock.now();
        self.endpoint.on_time(Instant::now());
        if now >= self.next_heartbeat {
            self.next_heartbeat = now + HEARTBEAT_EVERY;
            broker.queue_text(r#"{"type":"HEARTBEAT"}"#);
        }
        if self.presence.is_none() && now >= self.retry {
            self.retry = Duration::MAX;
            let since = *self.alone_since.get_or_insert(now);
            if now.saturating_sub(since) > GONE_FOR {
                self.ended = Some("the room's authority is gone".into());
                return;
            }
            self.presence = self.dial(&self.authority.clone());
        }
        let todo = self.lock().on_time(self.signer(), unix(), now);
        self.perform(todo);
    }

    /// Something the program asks for. Answers whom to tell once it has left.
    fn on_command(&mut self, command: Command) -> Option<oneshot::Sender<()>> {
        match command {
            Command::Say(what, answer) => {
                let hub = self.lock().has_hub().then_some(HUB);
                let said = self.lock().say(|participant| what.written(participant, hub), unix());
                let told = match said {
                    Ok((_, todo)) => {
                        self.perform(todo);
                        Ok(())
                    }
                    Err(NotSaid::CannotAct(why)) => Err(SayError::CannotAct(why)),
                    Err(why) => Err(SayError::Refused { reason: why.reason().into(), message: why.to_string() }),
                };
                let _ = answer.send(told);
                None
            }
            Command::Leave(answer) => {
                let farewell = self.lock().leave();
                if let Some((link, farewell)) = self.presence.zip(farewell) {
                    self.endpoint.send(link, &farewell, Instant::now());
                }
                for link in self.content.values() {
                    self.endpoint.close(*link, Instant::now());
                }
                Some(answer)
            }
        }
    }

    fn perform(&mut self, todo: Vec<Do>) {
        let at = Instant::now();
        for one in todo {
            match one {
                Do::Presence(value) => {
                    if let Some(link) = self.presence.filter(|link| self.links.contains(link)) {
                        self.endpoint.send(link, &value, at);
                    }
                }
                Do::Content(peer, value) => {
                    if let Some(link) = self.content.get(&peer).copied() {
                        self.endpoint.send(link, &value, at);
                    }
                }
                Do::Dial(peer) => match self.dial(&peer) {
                    Some(link) => drop(self.dialling.insert(peer, link)),
                    None => self.lock().disconnected(&peer),
                },
                Do::HangUp(peer) => {
                    if let Some(link) = self.content.get(&peer).copied() {
                        self.endpoint.close(link, at);
                    }
                }
                Do::Reconnect => {
                    if let Some(link) = self.presence.take() {
                        self.endpoint.abandon(link);
                    }
                    self.retry = self.clock.now() + RETRY;
                }
                Do::Tell(event) => {
                    if matches!(event, Event::Kicked) {
                        self.ended = Some("this participant was removed from the room".into());
                    }
                    // A program that does not listen misses what is new; the state it can always ask for.
                    let _ = self.events.try_send(event);
                }
            }
        }
    }

    /// What happened on the connections.
    fn settle(&mut self, broker: &mut Socket) {
        while let Some(event) = self.endpoint.next_event() {
            let now = self.clock.now();
            match event {
                Happened::Signal(message) => broker.queue_text(&message.write()),
                Happened::Open { link, peer, .. } => {
                    self.links.insert(link);
                    if Some(link) == self.presence {
                        self.alone_since = None;
                        let todo = self.lock().presence_open(self.signer(), unix(), now);
                        self.perform(todo);
                    } else {
                        if let Some(older) = self.content.insert(peer.clone(), link) {
                            self.endpoint.close(older, Instant::now());
                        }
                        self.dialling.remove(&peer);
                        self.lock().connected(&peer);
                    }
                }
                Happened::Message(link, value) => {
                    let todo = if Some(link) == self.presence {
                        self.lock().on_presence(&value, now)
                    } else {
                        let from =
                            self.content.iter().find(|(_, content)| **content == link).map(|(peer, _)| peer.clone());
                        from.map_or_else(Vec::new, |from| self.lock().on_content(&from, &value, unix()))
                    };
                    self.perform(todo);
                }
                Happened::Closed { link, peer, .. } => {
                    self.links.remove(&link);
                    if let Some(from) = self.dialled_from.remove(&link) {
                        self.sockets.close(from);
                    }
                    if Some(link) == self.presence {
                        self.presence = None;
                        self.lock().presence_closed();
                        self.retry = now + RETRY;
                    } else if self.content.get(&peer) == Some(&link) {
                        self.content.remove(&peer);
                        self.lock().disconnected(&peer);
                    } else if self.dialling.get(&peer) == Some(&link) {
                        self.dialling.remove(&peer);
                        self.lock().disconnected(&peer);
                    }
                }
            }
        }
    }

    fn transmit(&mut self) {
        while let Some(datagram) = self.endpoint.next_datagram() {
            self.sockets.send(datagram.from, datagram.to, &datagram.bytes);
        }
    }
}

/// The participant's side of the connection to the broker: each message is handed out.
struct BrokerSeat;

impl Machine for BrokerSeat {
    type Command = Stop;
    type End = Result<Signal, String>;

    async fn on_message(&mut self, message: Message, _: Duration, _: &mut Connection) -> ControlFlow<Self::End> {
        let signal = if let Message::Text(text) = message { Signal::read(&text) } else { None };
        signal.map_or(ControlFlow::Continue(()), |signal| ControlFlow::Break(Ok(signal)))
    }

    async fn on_lost(&mut self, lost: Lost, _: &mut Connection) -> Self::End {
        Err(format!("the connection to the broker ended: {lost}"))
    }
}
