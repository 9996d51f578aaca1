//! The rules in force, and where a message goes (contract, section 8): exact match, in order, the first one wins.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use convoke_api::yonexus::{Rule, Target, ToClients};
use convoke_core::event::{Event, MessageEvent};
use convoke_core::id::PeerId;
use convoke_core::secret::SecretText;
use convoke_kibitz::room::{Post, PostError};
use convoke_store::{MessageRow, OutboxRow, RuleRow, StoreError};
use convoke_yonexus::builtin::Builtin;
use convoke_yonexus::message::{self, RuleMessage};
use convoke_yonexus::reason::ErrorCode;
use convoke_yonexus::rules::{RegisterError, Rules};

use super::link::{ClientLink, Out, Refused};
use super::{now, outbox, tells_of, webhook};
use crate::Wires;
use crate::rooms::{self, NotPosted};
use crate::ws::text_frame;
use convoke_gate::clock;
use convoke_gate::cluster::forward;

/// How long a sender waits for a receiver whose queue is full. Only the sender's own connection waits, and only once:
/// then the receiver counts as slow until it has caught up.
const SLOW_PATIENCE: Duration = Duration::from_secs(1);
/// How long a webhook is tried when its rule does not say.
pub(super) const WEBHOOK_KEEP_S: u64 = 86_400;
/// Longest that a message may be kept.
pub const MAX_KEEP_S: u64 = 30 * 86_400;
/// Most clients that one rule names.
pub const MAX_TO: usize = 1_000;
/// Names in one error to a sender; the rest are counted.
const MAX_NAMES: usize = 5;

/// A program's own processor: it gets `rule::sender::content`.
#[derive(Clone)]
pub struct Processor(Arc<dyn Fn(&str) + Send + Sync>);

impl fmt::Debug for Processor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Processor(…)")
    }
}

/// What a rule does.
#[derive(Clone, Debug)]
pub(super) enum Action {
    Inbox,
    Clients(Arc<ToClients>),
    Webhook { url: String, secret: Option<SecretText>, keep_s: u64 },
    Room(String),
    Program(Processor),
}

/// The rules in force. Readers take a snapshot; changes swap it whole.
#[derive(Debug)]
pub struct RuleBook {
    current: ArcSwap<InForce>,
    turn: tokio::sync::Mutex<()>,
    /// Held by whoever puts other rules in force.
    programs: Mutex<Vec<(String, Processor)>>,
}

/// What is in force at one moment.
#[derive(Debug, Default)]
pub(super) struct InForce {
    rules: Rules<Action>,
    shown: Vec<Rule>,
}

impl RuleBook {
    pub(super) fn load(rows: Vec<RuleRow>) -> Self {
        let book =
            Self { current: ArcSwap::default(), turn: tokio::sync::Mutex::default(), programs: Mutex::default() };
        book.set(rows);
        book
    }

    /// The turn of one who changes rules: two at once could each put in force what they read before the other.
    pub async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    pub(super) fn current(&self) -> Arc<InForce> {
        self.current.load_full()
    }

    /// The operators' rules, in order, without their secrets.
    pub fn list(&self) -> Vec<Rule> {
        self.current().shown.clone()
    }

    /// Puts what is stored in force.
    pub fn set(&self, rows: Vec<RuleRow>) {
        let mut next = InForce::default();
        for row in rows {
            let rule: Rule = match serde_json::from_str(&row.body) {
                Ok(rule) => rule,
                // Rules are checked when they are added; one that no longer reads was written by another version.
                Err(why) => {
                    tracing::error!(rule = row.rule, %why, "ignoring a stored rule that cannot be used");
                    continue;
                }
            };
            let secret = row.secret.map(|s| SecretText::new(String::from_utf8_lossy(s.reveal())));
            let action = match &rule.target {
                Target::Inbox {} => Action::Inbox,
                Target::Clients(to) => Action::Clients(Arc::new(to.clone())),
                Target::Webhook(to) => {
                    let keep_s = to.keep_s.unwrap_or(WEBHOOK_KEEP_S);
                    Action::Webhook { url: to.url.clone(), secret, keep_s }
                }
                Target::Room { room } => Action::Room(room.clone()),
            };
            match next.rules.register(&row.rule, action) {
                Ok(()) => next.shown.push(rule),
                Err(why) => tracing::error!(rule = row.rule, %why, "ignoring a stored rule that cannot be used"),
            }
        }
        let programs = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        for (rule, processor) in programs.iter() {
            if let Err(why) = next.rules.register(rule, Action::Program(processor.clone())) {
                tracing::error!(rule, %why, "ignoring a program's rule");
            }
        }
        self.current.store(Arc::new(next));
    }

    /// Registers a processor of the program that runs this hub, after all other rules. It gets
    /// `rule::sender::content` of every message that matches, on the sender's connection: what takes long belongs in a
    /// task of its own.
    pub fn register(
        &self,
        rule: &str,
        processor: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<(), RegisterError> {
        let processor = Processor(Arc::new(processor));
        let mut programs = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        let current = self.current();
        let mut next = InForce { rules: current.rules.clone(), shown: current.shown.clone() };
        next.rules.register(rule, Action::Program(processor.clone()))?;
        programs.push((rule.into(), processor));
        self.current.store(Arc::new(next));
        Ok(())
    }

    /// Whether a program of this hub has registered this rule.
    pub fn is_programs(&self, rule: &str) -> bool {
        matches!(self.current().rules.find(rule), Some(Action::Program(_)))
    }
}

impl InForce {
    pub(super) fn find(&self, rule: &str) -> Option<&Action> {
        self.rules.find(rule)
    }

    pub(super) fn webhooks(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().filter(|(_, action)| matches!(action, Action::Webhook { .. })).map(|(rule, _)| rule)
    }
}

/// Routes a client's message. Returns the answer to its sender, if there is one.
pub(super) async fn route(
    hub: &Wires,
    sender: &str,
    own: &Arc<ClientLink>,
    message: RuleMessage<'_>,
) -> Option<Builtin> {
    hub.yonexus.metrics.messages.inc();
    let book = hub.yonexus.rules.current();
    let outcome = match book.find(message.rule) {
        None => {
            // Not an error to the sender: the contract says so.
            hub.yonexus.metrics.unmatched.inc();
            tracing::debug!(client = sender, rule = message.rule, "no rule matches a message");
            return None;
        }
        Some(Action::Program(Processor(processor))) => {
            processor(&message::rewritten(message.rule, sender, message.content));
            return None;
        }
        Some(Action::Inbox) => to_inbox(hub, sender, message).await,
        Some(Action::Room(room)) => to_room(hub, room, sender, message).await,
        Some(Action::Webhook { keep_s, .. }) => {
            let to = vec![webhook::destination(message.rule)];
            let row = kept(message.rule, sender, message.content.to_owned(), *keep_s, false);
            let taken = outbox::keep(hub, row, to, None).await;
            if matches!(&taken, Ok(kept) if kept.full.is_empty()) {
                webhook::wake(hub, message.rule);
            }
            told(message.rule, taken)
        }
        Some(Action::Clients(to)) => match to.keep_s {
            Some(keep_s) => {
                let recipients = recipients(hub, sender, to);
                let content = shaped(to, sender, message.content);
                let row = kept(message.rule, sender, content, keep_s, to.with_id);
                told(message.rule, outbox::keep(hub, row, recipients, None).await)
            }
            None => to_live(hub, sender, own, to, message).await,
        },
    };
    outcome.err().map(|(code, words)| Builtin::error(None, now(hub).unix(), code, words))
}

type Outcome = Result<(), (ErrorCode, String)>;

/// Into a room, said by the hub with the rule and the client apart from the content.
async fn to_room(hub: &Wires, room: &str, sender: &str, message: RuleMessage<'_>) -> Outcome {
    let post = Post { text: message.content, rule: message.rule, sender };
    let Err(why) = rooms::post(hub, room, post).await else { return Ok(()) };
    hub.metrics.dropped("yonexus_room", 1);
    let words = format!("cannot post the message of rule `{}` into room `{room}`: {why}", message.rule);
    match why {
        NotPosted::NoRoom => {
            // The rule is the operator's to mend, so they are told, and the sender that it is not their fault.
            if let Some(note) = tells_of(hub, sender) {
                let (rule, note) = (message.rule, note.words());
                tracing::warn!(rule, room, client = sender, note, "a rule posts into a room that does not exist");
            }
            Err((ErrorCode::ClientOffline, words))
        }
        NotPosted::Refused(PostError::Nobody) => Err((ErrorCode::ClientOffline, words)),
        NotPosted::Refused(PostError::Empty | PostError::TooLong) => Err((ErrorCode::MalformedMessage, words)),
    }
}

async fn to_inbox(hub: &Wires, sender: &str, message: RuleMessage<'_>) -> Outcome {
    let row = MessageRow {
        id: 0,
        at: clock::now(),
        rule: message.rule.into(),
        sender: sender.into(),
        content: message.content.into(),
    };
    let stored = hub.store.put_message(row, hub.settings.yonexus.inbox_max).await;
    let id = stored.map_err(|why| not_kept(&why))?;
    let (rule, sender, peer) = (message.rule.into(), sender.to_owned(), super::messages::peer(sender));
    hub.events.publish(Event::Message(MessageEvent { id, rule, sender, peer, read_by: super::messages::READ }));
    Ok(())
}

fn not_kept(why: &StoreError) -> (ErrorCode, String) {
    tracing::error!(%why, "cannot store a message");
    (ErrorCode::InternalError, "the hub could not store this message; send it again".into())
}

/// The answer to the sender of a message that went through the outbox.
fn told(rule: &str, taken: Result<outbox::Kept, StoreError>) -> Outcome {
    match taken {
        Ok(kept) if kept.full.is_empty() => Ok(()),
        Ok(kept) => {
            let words = format!("the outbox for {} is full; dropped the message of rule `{rule}`", names(&kept.full));
            Err((ErrorCode::ClientOffline, words))
        }
        Err(why) => Err(not_kept(&why)),
    }
}

/// Straight to those who are there. One frame, however many get it.
async fn to_live(
    hub: &Wires,
    sender: &str,
    own: &Arc<ClientLink>,
    to: &ToClients,
    message: RuleMessage<'_>,
) -> Outcome {
    let frame = frame(hub, message.rule, &shaped(to, sender, message.content));
    let Some(named) = &to.to else {
        let mut reached = 0;
        for (name, link) in hub.yonexus.clients.links() {
            if *name != *sender && hand(hub, &link, &frame, Some(own)).await {
                reached += 1;
            }
        }
        for (name, epoch) in hub.yonexus.clients.elsewhere() {
            if *name != *sender && forward::frame(hub, &peer_id(&name), epoch, &frame).await {
                reached += 1;
            }
        }
        return if reached > 0 {
            Ok(())
        } else {
            Err((ErrorCode::ClientOffline, "no other client is connected".into()))
        };
    };
    let mut missed = Vec::new();
    for name in named {
        if !hand_to(hub, name, &frame, Some(own)).await {
            missed.push(name.clone());
        }
    }
    if missed.is_empty() {
        return Ok(());
    }
    let words = format!("{} did not get the message of rule `{}`: offline", names(&missed), message.rule);
    Err((ErrorCode::ClientOffline, words))
}

/// A message as a frame.
pub(super) fn frame(hub: &Wires, rule: &str, content: &str) -> Bytes {
    hub.yonexus.metrics.frames.inc();
    Bytes::from(text_frame(&message::encode(rule, content)))
}

/// Hands a frame to a connection. Waits a moment for one that is behind, unless it is the sender's own.
pub(super) async fn hand(hub: &Wires, link: &Arc<ClientLink>, frame: &Bytes, own: Option<&Arc<ClientLink>>) -> bool {
    let mut outcome = link.push(Out::Frame(frame.clone()));
    if outcome == Err(Refused::Full) && own.is_none_or(|own| !Arc::ptr_eq(own, link)) {
        if tokio::time::timeout(SLOW_PATIENCE, link.queue.wait_for_space()).await.is_err() {
            link.queue.set_slow();
        }
        outcome = link.push(Out::Frame(frame.clone()));
    }
    if outcome == Err(Refused::Full) {
        hub.metrics.dropped("yonexus_slow_client", 1);
    }
    if outcome.is_ok() {
        hub.yonexus.metrics.handed.inc();
    }
    outcome.is_ok()
}

/// Hands a frame to a client, at whatever hub it is connected.
pub(super) async fn hand_to(hub: &Wires, name: &str, frame: &Bytes, own: Option<&Arc<ClientLink>>) -> bool {
    if let Some(link) = hub.yonexus.clients.link(name) {
        return hand(hub, &link, frame, own).await;
    }
    match hub.yonexus.clients.is_elsewhere(name) {
        Some(epoch) => forward::frame(hub, &peer_id(name), epoch, frame).await,
        None => false,
    }
}

/// A client as a peer. Its identifier was checked when it was let in.
pub(super) fn peer_id(name: &str) -> PeerId {
    PeerId::parse(&super::messages::peer(name)).expect("the identifier of a client that is there is one")
}

/// Who a rule's messages go to, whether they are there or not.
pub(super) fn recipients(hub: &Wires, sender: &str, to: &ToClients) -> Vec<String> {
    match &to.to {
        Some(named) => named.clone(),
        None => {
            let others = hub.yonexus.clients.list(None).into_iter();
            let paired = others.filter(|client| {
                let state = client.state();
                state.is_allowed() && state.record.secret.is_some()
            });
            paired.map(|client| client.identifier.to_string()).filter(|name| name != sender).collect()
        }
    }
}

/// The content as a rule wants it, but for the id.
pub(super) fn shaped(to: &ToClients, sender: &str, content: &str) -> String {
    if to.with_sender { message::encode(sender, content) } else { content.to_owned() }
}

pub(super) fn kept(rule: &str, sender: &str, content: String, keep_s: u64, with_id: bool) -> OutboxRow {
    let now = clock::now();
    OutboxRow {
        id: 0,
        created_at: now,
        expires_at: now.after(Duration::from_secs(keep_s.min(MAX_KEEP_S))),
        rule: rule.into(),
        sender: sender.into(),
        with_id,
        content,
    }
}

pub(super) fn names(all: &[String]) -> String {
    let shown = all.iter().take(MAX_NAMES).cloned().collect::<Vec<_>>().join(", ");
    match all.len().saturating_sub(MAX_NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
