//! What the tunnels of kenny and Sonde agents share: how an agent enters and leaves, and what is recorded of it.

use std::net::IpAddr;
use std::sync::Arc;

use convoke_core::door::Door;
use convoke_core::event::AgentChange;
use convoke_core::id::CallId;
use convoke_core::journal::{Decision, Draft, Kind};
use convoke_core::time::Timestamp;
use convoke_gate::agents::budget::Record;
use convoke_gate::agents::{Agent, AgentState, AuthWay};
use convoke_gate::clock;
use convoke_gate::cluster::Held;
use convoke_gate::cluster::follow::LinkFacts;
use convoke_gate::link::{Answer, Failure, Link};
use convoke_store::Lossy;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use crate::Wires;
use crate::kenny::facts;
use crate::ws::{Socket, WsError};

/// What an agent that has proved itself says of itself, and how it came.
pub(crate) struct Hello<'a> {
    pub(crate) address: IpAddr,
    pub(crate) auth: AuthWay,
    /// Its name, where that is not its id.
    pub(crate) name: Option<&'a str>,
    pub(crate) meta: Option<Box<RawValue>>,
    pub(crate) version: Option<String>,
    /// What its record says beside address and proof.
    pub(crate) detail: Value,
    /// Largest frame that is taken from it.
    pub(crate) max_frame: usize,
}

/// What an agent is told that should come again.
pub(crate) const UNAVAILABLE: &str = "hub unavailable";

/// A link that speaks for an agent.
pub(crate) struct Entered {
    pub(crate) link: Arc<Link>,
    /// What makes it stand for the agent at other hubs, too.
    pub(crate) held: Held,
}

/// Why an agent was not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotEntered {
    /// It is not trusted any more, or a newer connection was faster.
    Refused,
    /// Database or bus cannot be reached: it should come again.
    Unavailable,
}

/// Lets an agent in: it speaks for its id from now on. `is_trusted` looks again, under the lock.
pub(crate) async fn enter(
    hub: &Wires,
    socket: &mut Socket,
    agent: &Arc<Agent>,
    hello: Hello<'_>,
    is_trusted: impl FnOnce(&AgentState) -> bool,
) -> Result<Entered, NotEntered> {
    let Hello { address, auth, name, meta, version, mut detail, max_frame } = hello;
    let unavailable = |why: &dyn std::fmt::Display| {
        if let Some(note) = hub.tells_of(&agent.id) {
            tracing::warn!(agent = %agent.id, %why, note = note.words(), "cannot let an agent in now");
        }
        NotEntered::Unavailable
    };
    let coming = hub.coming(agent.id.as_str()).await.map_err(|why| unavailable(&why))?;
    let link = Link::new(coming.id());
    let shown =
        || LinkFacts { auth: Some(auth.name().into()), meta: meta.clone(), version: version.clone(), listed: None };
    let held = coming.stand(hub, Arc::new(Arc::clone(&link)), shown).await.map_err(|why| unavailable(&why))?;
    let Some(held) = held else { return Err(NotEntered::Refused) };
    let now = clock::now();
    let (mut is_news, mut replaces) = (true, false);
    let entered = hub.agents.linked(
        agent,
        &link,
        |state| {
            let text = |raw: &Option<Box<RawValue>>| raw.as_ref().map(|meta| meta.get().to_owned());
            is_news = text(&state.meta) != text(&meta) || state.protocol_version.as_deref() != version.as_deref();
            state.meta.clone_from(&meta);
            state.protocol_version = version.as_deref().map(Into::into);
            state.take(meta.as_deref().map(facts).unwrap_or_default());
            state.since = Some(now);
            state.last_seen = Some(now);
            state.auth = Some(auth);
        },
        |state| {
            replaces = state.is_online();
            is_trusted(state)
        },
    );
    if !entered {
        return Err(NotEntered::Refused);
    }
    if replaces && let Some(note) = hub.tells_of(&agent.id) {
        let note = note.words();
        tracing::info!(
            agent = %agent.id, name, %address, note,
            "a new connection of the agent replaced an open one; if this repeats, two machines have the same key"
        );
    }
    hub.metrics.handshakes.inc();
    hub.events.agent(&agent.id, AgentChange::Online);
    socket.set_limit(max_frame.saturating_mul(2));
    socket.set_budget(&hub.receive_budget);
    detail["address"] = address.to_string().into();
    detail["auth"] = auth.name().into();
    if let Some(name) = name {
        detail["name"] = name.into();
    }
    if replaces {
        detail["replaced"] = true.into();
    }
    let record = hub.budgets.keep(&agent.id, Record::Connection, now.millis()).map(|note| {
        note.tell(&mut detail);
        let mut record = record(agent, Kind::Auth);
        record.outcome = Some("ok".into());
        Lossy::Record(record.detail(&detail))
    });
    if record.is_none() {
        hub.metrics.dropped("connection_records", 1);
    }
    // An agent that reconnects mostly says what it said before; the time is kept when the link ends.
    let hello = meta.filter(|_| is_news).map(|meta| (meta, version));
    let seen = hello.map(|hello| Lossy::Seen { agent: agent.id.clone(), at: now, hello: Some(hello) });
    for item in [record, seen].into_iter().flatten() {
        if let Err(why) = hub.store.enqueue(item).await {
            tracing::error!(%why, "cannot record a connection");
        }
    }
    Ok(Entered { link, held })
}

/// A tunnel has ended: nothing new is sent through it.
pub(crate) async fn leave(hub: &Wires, agent: &Arc<Agent>, link: &Link, last_seen: Timestamp) {
    if !hub.agents.ended(agent, link.id, Some(last_seen)) {
        return;
    }
    hub.events.agent(&agent.id, AgentChange::Offline);
    let seen = Lossy::Seen { agent: agent.id.clone(), at: last_seen, hello: None };
    if let Err(why) = hub.store.enqueue(seen).await {
        tracing::error!(%why, "cannot record a disconnection");
    }
}

/// Tells every call that waits on a tunnel why it gets no answer: those not sent yet, and those sent.
pub(crate) fn fail_all(
    link: &Link,
    sent: impl IntoIterator<Item = oneshot::Sender<Answer>>,
    why: impl Fn() -> Failure,
) {
    for command in link.queue().end() {
        command.fail(why());
    }
    for waiter in sent {
        let _ = waiter.send(Err(why()));
    }
}

/// A record of something that an agent did.
pub(crate) fn record(agent: &Agent, kind: Kind) -> Draft {
    let mut record = Draft::new(clock::now(), kind);
    record.who = Some(format!("agent:{}", agent.id));
    record.door = Some(Door::Wire);
    record.target = Some(agent.id.as_str().into());
    record
}

/// An agent answered a question that it was not asked. So many are recorded; the rest are counted.
pub(crate) async fn note_odd_answer(hub: &Wires, agent: &Agent, call: Option<CallId>, mut detail: Value) {
    let Some(note) = hub.budgets.keep(&agent.id, Record::OddAnswer, clock::now().millis()) else {
        hub.metrics.dropped("odd_answers", 1);
        return;
    };
    let mut record = record(agent, Kind::Refusal);
    record.call_id = call;
    record.decision = Some(Decision::Denied);
    note.tell(&mut detail);
    hub.note(record.detail(&detail)).await;
}

/// An agent broke the rules of WebSockets.
pub(crate) fn log_broken(hub: &Wires, agent: &Agent, error: &WsError) {
    if let Some(note) = hub.tells_of(&agent.id) {
        let note = note.words();
        tracing::warn!(agent = %agent.id, %error, note, "closed an agent's connection");
    }
}
