//! An agent in a room (contract, section 7): what it perceives is told to whoever asked for it, and what it does is said
//! or refused. A task of its own takes part, so an agent is there whatever the program does meanwhile.
//!
//! The same agent stands over either transport, and over an application of the program's own that tailors what it shows
//! ([`Agent::from_bridge`]).

use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use convoke_kibitz::frame::Member;
use convoke_kibitz::grant::{Capability, Grant};
use convoke_kibitz::participant::{CannotAct, Event, KnownSchema, Said};
use convoke_kibitz::room::HUB;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

pub use convoke_kibitz::rate::Cooldown;

use crate::session::{Config, JoinError, SayError, Session, Utterance, own_token, unix};

/// How long the answer to an action is waited for. A hub answers after ten seconds for an application that stays silent.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);
/// How long where a person must say yes first; the hub says when they did not.
const PERSON_WITHIN: Duration = Duration::from_secs(3_600);
/// Actions that wait for their answers.
const MAX_ACTS: usize = 64;
/// Lines of chat that are kept until somebody listens.
const MAX_EARLY: usize = 100;
/// Things to say that wait.
const MAX_COMMANDS: usize = 64;

/// A cooldown on this program's clock: a gate between unasked remarks. Replies may ignore it.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    gate: Cooldown,
    since: Instant,
}

/// Ready at first, then after every `pause`.
pub fn cooldown(pause: Duration) -> Pace {
    Pace { gate: Cooldown::new(pause), since: Instant::now() }
}

impl Pace {
    /// Whether enough time has passed.
    pub fn ready(&self) -> bool {
        self.gate.ready(self.since.elapsed())
    }

    /// Something was said.
    pub fn stamp(&mut self) {
        self.gate.stamp(self.since.elapsed());
    }
}

/// Why an action was not done.
#[derive(Debug, thiserror::Error)]
pub enum ActError {
    /// It did not go out.
    #[error(transparent)]
    NotSaid(#[from] SayError),
    /// The application, or the hub, said no.
    #[error("the action failed: {0}")]
    Failed(String),
    /// Too many wait for their answers.
    #[error("{MAX_ACTS} actions of this agent wait for their answers")]
    TooMany,
}

/// What became of an action: its result if there is one, or why it was not done.
type Outcome = Result<Option<Box<RawValue>>, ActError>;

enum Command {
    Say(Utterance, oneshot::Sender<Result<(), SayError>>),
    Act(Box<RawValue>, oneshot::Sender<Outcome>),
    Leave(oneshot::Sender<()>),
}

/// What an agent knows.
#[derive(Debug, Default)]
struct Known {
    id: String,
    read_only: bool,
    grant: Option<Grant>,
    view: Option<Box<RawValue>>,
    roster: Vec<Member>,
    schemas: Vec<KnownSchema>,
}

/// Whom to tell. Each is called in the agent's task: it must not block, and says what it has to say in a task of its own.
#[derive(Default)]
struct Listeners {
    view: Vec<Listener<RawValue>>,
    chat: Vec<Listener<Said>>,
    roster: Vec<Listener<[Member]>>,
    schema: Vec<Listener<KnownSchema>>,
    data: Vec<Listener<Data>>,
}

type Listener<T> = Box<dyn FnMut(&T) + Send>;

/// Application data without an envelope.
#[derive(Clone, Debug)]
pub struct Data {
    /// The sender.
    pub from: String,
    /// The data.
    pub data: Box<RawValue>,
}

#[derive(Default)]
struct Shared {
    known: Mutex<Known>,
    listeners: Mutex<Listeners>,
    /// Lines that came before anybody listened.
    early: Mutex<VecDeque<Said>>,
}

/// An agent in a room. Clones are the same agent; it leaves when all are gone, or with [`Agent::leave`].
#[derive(Clone)]
pub struct Agent {
    shared: Arc<Shared>,
    commands: mpsc::Sender<Command>,
    ended: watch::Receiver<Option<String>>,
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent").field("id", &self.id()).finish_non_exhaustive()
    }
}

impl Agent {
    /// Comes in as an agent. With a lobby this waits until a host has decided; `waits` is called when it begins to.
    pub async fn join(mut config: Config, waits: impl FnMut()) -> Result<Self, JoinError> {
        config.profile.agent = true;
        let read_only = config.profile.read_only;
        Ok(Self::over(Session::join(config, waits).await?, read_only))
    }

    /// The same surface for whoever is in a room already, agent or person.
    pub fn over(session: Session, read_only: bool) -> Self {
        let shared = Shared::default();
        shared.known().read_only = read_only;
        shared.look_at(&session);
        Self::start(shared, |shared, commands| over_session(session, shared, commands))
    }

    /// An agent of an application in this program, which shows it what it should see and hears what it says.
    pub fn from_bridge(read_only: bool) -> (Self, Bridge) {
        let (said, heard) = mpsc::channel(MAX_COMMANDS);
        let shared = Shared::default();
        let granted = Some(Grant::of([Capability::SendChat, Capability::Act]));
        *shared.known() = Known { read_only, grant: granted, ..Known::default() };
        let agent = Self::start(shared, |_, commands| over_bridge(said, commands));
        let shared = Arc::clone(&agent.shared);
        (agent, Bridge { shared, heard })
    }

    fn start<F>(shared: Shared, run: impl FnOnce(Arc<Shared>, mpsc::Receiver<Command>) -> F) -> Self
    where
        F: Future<Output = String> + Send + 'static,
    {
        let shared = Arc::new(shared);
        let (commands, asked) = mpsc::channel(MAX_COMMANDS);
        let (end, ended) = watch::channel(None);
        let running = run(Arc::clone(&shared), asked);
        let forgotten = Arc::clone(&shared);
        tokio::spawn(async move {
            let why = running.await;
            // Who listens may hold the agent.
            drop(mem::take(&mut *forgotten.listeners()));
            end.send_replace(Some(why));
        });
        Self { shared, commands, ended }
    }

    /// Its id; empty over a bridge.
    pub fn id(&self) -> String {
        self.shared.known().id.clone()
    }

    /// Whether it may say anything now, as far as it knows. What it may not, everybody else drops.
    pub fn can_act(&self) -> bool {
        let known = self.shared.known();
        !known.read_only && known.grant.as_ref().is_some_and(|grant| grant.allows(Capability::SendChat, unix()))
    }

    /// The current state of the application.
    pub fn view(&self) -> Option<Box<RawValue>> {
        self.shared.known().view.clone()
    }

    /// Who is there.
    pub fn roster(&self) -> Vec<Member> {
        self.shared.known().roster.clone()
    }

    /// Every schema published so far: how to read the view.
    pub fn schemas(&self) -> Vec<KnownSchema> {
        self.shared.known().schemas.clone()
    }

    /// Calls `told` with the state of the application: with what it is now, and whenever it changes.
    pub fn on_view(&self, mut told: impl FnMut(&RawValue) + Send + 'static) {
        if let Some(view) = self.view() {
            told(&view);
        }
        self.shared.listeners().view.push(Box::new(told));
    }

    /// Calls `told` with each line of chat, of people and of agents.
    pub fn on_chat(&self, mut told: impl FnMut(&Said) + Send + 'static) {
        let mut listeners = self.shared.listeners();
        for said in mem::take(&mut *self.shared.early()) {
            told(&said);
        }
        listeners.chat.push(Box::new(told));
    }

    /// Calls `told` with who is there: now, and whenever that or a grant changes.
    pub fn on_roster(&self, mut told: impl FnMut(&[Member]) + Send + 'static) {
        told(&self.roster());
        self.shared.listeners().roster.push(Box::new(told));
    }

    /// Calls `told` with each schema: those there are, and each that comes.
    pub fn on_schema(&self, mut told: impl FnMut(&KnownSchema) + Send + 'static) {
        for schema in self.schemas() {
            told(&schema);
        }
        self.shared.listeners().schema.push(Box::new(told));
    }

    /// Calls `told` with application data that has no envelope.
    pub fn on_data(&self, told: impl FnMut(&Data) + Send + 'static) {
        self.shared.listeners().data.push(Box::new(told));
    }

    /// A line of chat.
    pub async fn say(&self, text: &str) -> Result<(), SayError> {
        self.utter(Utterance::Say(text.into())).await
    }

    /// Application data, to one participant or to all.
    pub async fn send(&self, data: &RawValue, to: Option<&str>) -> Result<(), SayError> {
        self.utter(Utterance::Data { data: data.to_owned(), to: to.map(Into::into) }).await
    }

    /// Asks the application for an action, and waits for what becomes of it. An application that takes it without a word
    /// gives no result.
    pub async fn act(&self, action: &RawValue) -> Outcome {
        let (answer, answered) = oneshot::channel();
        self.put(Command::Act(action.to_owned(), answer)).await?;
        answered.await.unwrap_or_else(|_| Err(lost().into()))
    }

    async fn utter(&self, what: Utterance) -> Result<(), SayError> {
        let (answer, answered) = oneshot::channel();
        self.put(Command::Say(what, answer)).await?;
        answered.await.unwrap_or_else(|_| Err(lost()))
    }

    async fn put(&self, command: Command) -> Result<(), SayError> {
        if self.shared.known().read_only {
            return Err(CannotAct::ReadOnly.into());
        }
        self.commands.send(command).await.map_err(|_| lost())
    }

    /// Goes.
    pub async fn leave(&self) {
        let (answer, answered) = oneshot::channel();
        if self.commands.send(Command::Leave(answer)).await.is_ok() {
            let _ = answered.await;
        }
    }

    /// Whether it is no longer in the room.
    pub fn is_gone(&self) -> bool {
        self.ended.borrow().is_some()
    }

    /// Why it is no longer in the room, if it is not.
    pub fn why_gone(&self) -> Option<String> {
        self.ended.borrow().clone()
    }

    /// Waits until it is no longer in the room, and says why.
    pub async fn ended(&self) -> String {
        let mut ended = self.ended.clone();
        let why = ended.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
        why.unwrap_or_else(|| "the agent ended".into())
    }
}

fn lost() -> SayError {
    SayError::Lost("no longer in the room".into())
}

impl Shared {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listeners(&self) -> MutexGuard<'_, Listeners> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn early(&self) -> MutexGuard<'_, VecDeque<Said>> {
        self.early.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls those who listen, while none of what they may ask for is locked: they may add others.
    fn call<L>(&self, of: impl Fn(&mut Listeners) -> &mut Vec<L>, mut tell: impl FnMut(&mut L)) {
        let mut called = mem::take(of(&mut self.listeners()));
        called.iter_mut().for_each(&mut tell);
        let mut listeners = self.listeners();
        let added = mem::replace(of(&mut listeners), called);
        of(&mut listeners).extend(added);
    }

    /// Takes over who it is and who is there.
    fn look_at(&self, session: &Session) {
        let mut known = self.known();
        known.id = session.id().unwrap_or_default();
        known.grant = session.own_grant();
        known.roster = session.roster();
    }

    fn show(&self, view: Box<RawValue>) {
        self.known().view = Some(view.clone());
        self.call(|l| &mut l.view, |told| told(&view));
    }

    fn say(&self, said: Said) {
        {
            let listeners = self.listeners();
            if listeners.chat.is_empty() {
                let mut early = self.early();
                if early.len() == MAX_EARLY {
                    early.pop_front();
                }
                return early.push_back(said);
            }
        }
        self.call(|l| &mut l.chat, |told| told(&said));
    }
}

/// An action that waits for its answer.
struct Acting {
    id: String,
    /// The number of its frame, by which a refusal names it.
    number: Option<u64>,
    due: Instant,
    answer: oneshot::Sender<Outcome>,
}

/// Takes part until it is over, and says why.
async fn over_session(mut session: Session, shared: Arc<Shared>, mut commands: mpsc::Receiver<Command>) -> String {
    let mut acting: Vec<Acting> = Vec::new();
    loop {
        let due = acting.iter().map(|acting| acting.due).min();
        let next = tokio::select! {
            event = session.next() => match event {
                Ok(event) => {
                    on_event(event, &session, &shared, &mut acting);
                    continue;
                }
                Err(why) => return why,
            },
            command = commands.recv() => command,
            () = tokio::time::sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                let now = Instant::now();
                // It was delivered, and nobody says what became of it.
                for late in acting.extract_if(.., |acting| acting.due <= now) {
                    let _ = late.answer.send(Ok(None));
                }
                continue;
            }
        };
        match next {
            Some(Command::Say(what, answer)) => {
                let said = session.utter(what).await.map(drop);
                let _ = answer.send(said);
            }
            Some(Command::Act(action, answer)) => {
                if acting.len() == MAX_ACTS {
                    let _ = answer.send(Err(ActError::TooMany));
                    continue;
                }
                let id = own_token().unwrap_or_default();
                match session.utter(Utterance::Act { action, id: Some(id.clone()) }).await {
                    Ok(number) => acting.push(Acting { id, number, due: Instant::now() + ANSWER_WITHIN, answer }),
                    Err(why) => drop(answer.send(Err(why.into()))),
                }
            }
            Some(Command::Leave(answer)) => {
                session.leave().await;
                let _ = answer.send(());
                return "this participant left".into();
            }
            None => {
                session.leave().await;
                return "this participant left".into();
            }
        }
    }
}

fn on_event(event: Event, session: &Session, shared: &Shared, acting: &mut Vec<Acting>) {
    match event {
        Event::Joined { .. } => shared.look_at(session),
        Event::Roster => {
            shared.look_at(session);
            let roster = session.roster();
            shared.call(|l| &mut l.roster, |told| told(&roster));
        }
        Event::View => {
            if let Some(view) = session.view() {
                shared.show(view);
            }
        }
        Event::Chat(said) => shared.say(said),
        Event::Schema(schema) => {
            shared.known().schemas = session.schemas();
            shared.call(|l| &mut l.schema, |told| told(&schema));
        }
        Event::Data { from, data } => {
            let data = Data { from, data };
            shared.call(|l| &mut l.data, |told| told(&data));
        }
        // Where there is a hub, it alone says what became of an action.
        Event::Acted { from, id, outcome } if from == HUB || !session.has_hub() => {
            if let Some(at) = acting.iter().position(|acting| acting.id == id) {
                let _ = acting.swap_remove(at).answer.send(outcome.map_err(ActError::Failed));
            }
        }
        Event::Waiting { from, id, .. } if from == HUB => {
            if let Some(waits) = acting.iter_mut().find(|acting| acting.id == id) {
                waits.due = Instant::now() + PERSON_WITHIN;
            }
        }
        Event::Refused { reason, message, reference: Some(number), .. } => {
            if let Some(at) = acting.iter().position(|acting| acting.number == Some(number)) {
                let refused = SayError::Refused { reason, message };
                let _ = acting.swap_remove(at).answer.send(Err(refused.into()));
            }
        }
        _ => {}
    }
}

/// The application's end of [`Agent::from_bridge`].
pub struct Bridge {
    shared: Arc<Shared>,
    heard: mpsc::Receiver<Asked>,
}

impl fmt::Debug for Bridge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bridge").finish_non_exhaustive()
    }
}

/// Something that the agent of a bridge says.
#[derive(Debug)]
pub enum Asked {
    /// A line, or data.
    Said(Utterance),
    /// An action, which is to be answered.
    Act(Box<RawValue>, Answer),
}

/// Who waits for what becomes of an action.
#[derive(Debug)]
pub struct Answer(oneshot::Sender<Outcome>);

impl Answer {
    /// It is done.
    pub fn done(self, result: Option<Box<RawValue>>) {
        let _ = self.0.send(Ok(result));
    }

    /// It is not.
    pub fn failed(self, why: impl Into<String>) {
        let _ = self.0.send(Err(ActError::Failed(why.into())));
    }
}

impl Bridge {
    /// Shows the agent the state of the application, as it should see it.
    pub fn show(&self, view: Box<RawValue>) {
        self.shared.show(view);
    }

    /// Tells the agent a line of chat.
    pub fn chat(&self, said: Said) {
        self.shared.say(said);
    }

    /// What the agent says next; nothing once it left.
    pub async fn next(&mut self) -> Option<Asked> {
        self.heard.recv().await
    }
}

async fn over_bridge(said: mpsc::Sender<Asked>, mut commands: mpsc::Receiver<Command>) -> String {
    loop {
        let (asked, taken) = match commands.recv().await {
            Some(Command::Say(what, answer)) => (Asked::Said(what), Some(answer)),
            Some(Command::Act(action, answer)) => (Asked::Act(action, Answer(answer)), None),
            Some(Command::Leave(answer)) => {
                let _ = answer.send(());
                return "this participant left".into();
            }
            None => return "this participant left".into(),
        };
        if said.send(asked).await.is_err() {
            return "the application ended".into();
        }
        if let Some(taken) = taken {
            let _ = taken.send(Ok(()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.into()).expect("JSON")
    }

    fn line(text: &str) -> Said {
        let (from, name) = ("anna".into(), "Anna".into());
        Said { from, name, text: text.into(), rule: None, sender: None, part: None }
    }

    #[tokio::test]
    async fn an_agent_of_an_application_sees_what_it_is_shown_and_its_acts_are_answered() {
        let (agent, mut app) = Agent::from_bridge(false);
        app.chat(line("early"));
        app.show(raw(r#"{"hand":["7S"]}"#));
        let (seen, mut heard) = mpsc::unbounded_channel::<String>();
        let viewed = seen.clone();
        agent.on_view(move |view| viewed.send(view.get().into()).expect("open"));
        agent.on_chat(move |said| seen.send(said.text.clone()).expect("open"));
        app.chat(line("late"));
        app.show(raw("2"));
        for expected in [r#"{"hand":["7S"]}"#, "early", "late", "2"] {
            assert_eq!(heard.recv().await.expect("told"), expected);
        }
        assert_eq!(agent.view().expect("a view").get(), "2");
        assert!(agent.can_act());

        let plays = async {
            assert_eq!(agent.act(&raw(r#"{"play":"7S"}"#)).await.expect("done").expect("a result").get(), "true");
            let failed = agent.act(&raw(r#"{"play":"8S"}"#)).await.expect_err("no such card");
            assert!(failed.to_string().contains("not in your hand"), "{failed}");
            agent.say("nice lead").await.expect("said");
            agent.leave().await;
            assert_eq!(agent.ended().await, "this participant left");
            assert!(matches!(agent.say("x").await, Err(SayError::Lost(_))));
        };
        let answers = async {
            let Some(Asked::Act(action, answer)) = app.next().await else { panic!("an act") };
            assert_eq!(action.get(), r#"{"play":"7S"}"#);
            answer.done(Some(raw("true")));
            let Some(Asked::Act(_, answer)) = app.next().await else { panic!("an act") };
            answer.failed("not in your hand");
            assert!(matches!(app.next().await, Some(Asked::Said(Utterance::Say(text))) if text == "nice lead"));
            assert!(app.next().await.is_none());
        };
        tokio::join!(plays, answers);
    }

    #[tokio::test]
    async fn a_read_only_agent_says_nothing() {
        let (agent, mut app) = Agent::from_bridge(true);
        assert!(!agent.can_act());
        let read_only = |why: &SayError| matches!(why, SayError::CannotAct(CannotAct::ReadOnly));
        assert!(read_only(&agent.say("x").await.expect_err("read-only")));
        assert!(read_only(&agent.send(&raw("1"), None).await.expect_err("read-only")));
        assert!(matches!(agent.act(&raw("1")).await, Err(ActError::NotSaid(why)) if read_only(&why)));
        drop(agent);
        assert!(app.next().await.is_none(), "and nothing reached the application");
    }

    #[tokio::test]
    async fn whoever_is_told_may_ask_and_add_others() {
        let (agent, app) = Agent::from_bridge(false);
        let (seen, mut heard) = mpsc::unbounded_channel::<&str>();
        let asks = agent.clone();
        agent.on_view(move |_| {
            assert!(asks.view().is_some());
            let told = seen.clone();
            asks.on_chat(move |_| told.send("line").expect("open"));
        });
        app.show(raw("1"));
        app.chat(line("x"));
        assert_eq!(heard.recv().await, Some("line"));
    }
}
