//! The agents the hub knows: who they are, whether they are there, how they do. All in memory, written through to
//! the store, so that a look at the fleet reads no disk.

pub mod budget;

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, Weak};

use convoke_core::health::{Os, Overall};
use convoke_core::id::{HubId, LinkId, PeerId};
use convoke_core::peer::{Liveness, Presence, Trust, TrustEvent};
use convoke_core::time::Timestamp;
use convoke_store::{AgentRow, JoinRow, Joining};
use ed25519_dalek::VerifyingKey;
use serde_json::value::RawValue;

use crate::cluster::follow::LinkFacts;
use crate::fleet::Verdict;
use crate::link::{Close, Command, Link};

/// How a link authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthWay {
    /// Both sides signed.
    Signature,
    /// A bearer token: the legacy one, or one for enrolment.
    Token,
    /// Its own API key.
    ApiKey,
    /// A certificate of the hub's CA.
    Certificate,
}

impl AuthWay {
    /// All of them.
    const ALL: [Self; 4] = [Self::Signature, Self::Token, Self::ApiKey, Self::Certificate];

    /// The way of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|way| way.name() == name)
    }

    /// The name used on every surface.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Signature => "signature",
            Self::Token => "token",
            Self::ApiKey => "api_key",
            Self::Certificate => "certificate",
        }
    }
}

/// A link that another hub holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteLink {
    /// Which.
    pub epoch: u64,
    /// Who holds it.
    pub hub: HubId,
}

/// One agent.
#[derive(Debug)]
pub struct Agent {
    /// Its id.
    pub id: PeerId,
    state: Mutex<AgentState>,
}

/// What changes about an agent.
#[derive(Debug)]
pub struct AgentState {
    /// Status per section as JSON text, ready to be put into a fleet view.
    pub sections: Option<Box<str>>,
    /// The worst of its sections.
    pub overall: Overall,
    /// Whether it has a link, here or at another hub.
    online: bool,
    /// Its link at another hub.
    remote: Option<RemoteLink>,
    /// The name it enrolled with, where that is not its id.
    pub name: Option<Box<str>>,
    /// Its host's name, as it said.
    pub hostname: Option<Box<str>>,
    /// Its version, as it said.
    pub version: Option<Box<str>>,
    /// What it can do beyond its protocol, as it said.
    pub features: Box<[Box<str>]>,
    /// Its system, as it said.
    pub os: Os,
    /// Whether remote control is on at the endpoint, as it said.
    pub remote_control: Option<bool>,
    /// How the present link authenticated.
    pub auth: Option<AuthWay>,
    /// Its trust.
    pub trust: Trust,
    link: Option<Arc<Link>>,
    /// Its second tunnel: another peer that is the same machine.
    tunnel: Option<Arc<Agent>>,
    /// The machine whose second tunnel it is, or which an admin keeps it apart from.
    joined: Option<(Weak<Agent>, Joining)>,
    /// Its tags, sorted.
    pub tags: Arc<[String]>,
    /// Its bound key, unpacked once and not at every handshake.
    pub public_key: Option<Arc<VerifyingKey>>,
    /// What it said of itself.
    pub meta: Option<Box<RawValue>>,
    /// The protocol version it spoke.
    pub protocol_version: Option<Box<str>>,
    /// When its key was bound.
    pub enrolled_at: Option<Timestamp>,
    /// When it was last seen, as far as it was noted: a link that lives knows better ([`Self::last_seen`]).
    pub last_seen: Option<Timestamp>,
    /// Since when it has been linked, or since when not.
    pub since: Option<Timestamp>,
    /// Which link speaks for it.
    presence: Presence,
}

impl Agent {
    /// A peer that is kept elsewhere, as the gate looks at peers: by its id, without tags and without a link.
    pub fn elsewhere(id: PeerId) -> Arc<Self> {
        Arc::new(new_agent(id))
    }

    /// Its state. Never held across an await.
    pub fn state(&self) -> MutexGuard<'_, AgentState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its link, if it has one.
    pub fn link(&self) -> Option<Arc<Link>> {
        self.state().link.clone()
    }
}

impl AgentState {
    /// Which link speaks for the agent.
    pub const fn presence(&self) -> &Presence {
        &self.presence
    }

    /// Whether it has a link, here or at another hub.
    pub const fn is_online(&self) -> bool {
        self.online
    }

    /// Whether it has a link, or its second tunnel has.
    pub fn is_there(&self) -> bool {
        self.online || self.tunnel.as_ref().is_some_and(|tunnel| tunnel.state().online)
    }

    /// Its second tunnel.
    pub fn tunnel(&self) -> Option<Arc<Agent>> {
        self.tunnel.clone()
    }

    /// The machine whose second tunnel it is.
    pub fn machine(&self) -> Option<Arc<Agent>> {
        self.joined.as_ref().filter(|(_, how)| *how != Joining::Apart).and_then(|(machine, _)| machine.upgrade())
    }

    /// How it was joined with a machine, or parted from it.
    pub fn joining(&self) -> Option<Joining> {
        self.joined.as_ref().map(|(_, how)| *how)
    }

    /// Its link at another hub, where it has none here.
    pub fn remote(&self) -> Option<RemoteLink> {
        self.remote.filter(|_| self.link.is_none())
    }

    /// The liveness to show.
    pub fn liveness(&self) -> Liveness {
        match self.remote() {
            Some(_) => Liveness::Online,
            None => self.presence.liveness(),
        }
    }

    /// Takes over what the agent said of its machine.
    pub fn take(&mut self, facts: Facts) {
        let text = |text: Option<String>| text.filter(|text| !text.is_empty()).map(Into::into);
        self.os = os_named(&facts.os);
        self.remote_control = facts.remote_control;
        self.name = text(facts.name);
        self.hostname = text(facts.hostname);
        self.version = text(facts.version);
        self.features = facts.features.into_iter().map(Into::into).collect();
    }

    /// Whether it can do this beyond its protocol.
    pub fn has_feature(&self, feature: &str) -> bool {
        self.features.iter().any(|has| **has == *feature)
    }

    /// When its last frame came.
    pub fn last_seen(&self) -> Option<Timestamp> {
        self.last_seen.max(self.link.as_ref().and_then(|link| link.last_heard()))
    }

    /// Another link, or none any more; answers the one before.
    fn set_link(&mut self, link: Option<Arc<Link>>) -> Option<Arc<Link>> {
        // Of a link at another hub is heard again where it is the newer one.
        self.remote = None;
        self.online = link.is_some();
        std::mem::replace(&mut self.link, link)
    }
}

/// How many agents' trust may change at once, if they are lucky.
const TURNS: usize = 256;

#[derive(Debug)]
struct Turns(Box<[tokio::sync::Mutex<()>]>, RandomState);

impl Default for Turns {
    fn default() -> Self {
        Self(std::iter::repeat_with(tokio::sync::Mutex::default).take(TURNS).collect(), RandomState::new())
    }
}

/// All agents.
#[derive(Debug, Default)]
pub struct Agents {
    known: RwLock<Known>,
    /// Held by whoever changes an agent's trust, from before it is kept until it is in force; by the hash of its id.
    turns: Turns,
    next_link: AtomicU64,
    online: AtomicUsize,
    remote: AtomicUsize,
    facts: OnceLock<ReadFacts>,
}

/// The same agents twice: a call looks one up by its id, a page lists them in order.
#[derive(Debug, Default)]
struct Known {
    by_id: HashMap<PeerId, Arc<Agent>>,
    /// Shared with whoever looks at it, and copied when it changes meanwhile: many look, and hardly anybody comes or goes.
    in_order: Arc<Vec<Arc<Agent>>>,
}

impl Known {
    fn insert(&mut self, agent: &Arc<Agent>) {
        self.by_id.insert(agent.id.clone(), Arc::clone(agent));
        let in_order = Arc::make_mut(&mut self.in_order);
        match position(in_order, agent.id.as_str()) {
            Ok(at) => in_order[at] = Arc::clone(agent),
            Err(at) => in_order.insert(at, Arc::clone(agent)),
        }
    }

    fn remove(&mut self, id: &str) -> Option<Arc<Agent>> {
        if let Ok(at) = position(&self.in_order, id) {
            Arc::make_mut(&mut self.in_order).remove(at);
        }
        self.by_id.remove(id)
    }
}

/// Where an agent is among those in order, or where it belongs.
fn position(in_order: &[Arc<Agent>], id: &str) -> Result<usize, usize> {
    in_order.binary_search_by(|agent| agent.id.as_str().cmp(id))
}

/// Agents by id, as they were when someone asked.
#[derive(Clone, Debug)]
pub struct InOrder {
    all: Arc<Vec<Arc<Agent>>>,
    from: usize,
}

impl Deref for InOrder {
    type Target = [Arc<Agent>];

    fn deref(&self) -> &[Arc<Agent>] {
        &self.all[self.from..]
    }
}

impl Agents {
    /// Starts from what is stored.
    pub fn load(rows: Vec<AgentRow>, facts: ReadFacts) -> Self {
        let agents = Self::default();
        let _ = agents.facts.set(facts);
        {
            let mut known = agents.known.write().unwrap_or_else(PoisonError::into_inner);
            for row in rows {
                known.insert(&Arc::new(from_row(row, facts)));
            }
        }
        agents
    }

    /// The turn of one who changes this agent's trust: what two put into memory must be in the order in which the store
    /// has it.
    pub async fn turn(&self, id: &str) -> tokio::sync::MutexGuard<'_, ()> {
        let Turns(turns, hasher) = &self.turns;
        let at = usize::try_from(hasher.hash_one(id) % TURNS as u64).unwrap_or_default();
        turns[at].lock().await
    }

    /// One agent.
    pub fn find(&self, id: &str) -> Option<Arc<Agent>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).by_id.get(id).cloned()
    }

    /// One agent, made if it is new.
    pub fn find_or_add(&self, id: &PeerId) -> Arc<Agent> {
        if let Some(agent) = self.find(id.as_str()) {
            return agent;
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        // Looked at again under the lock: two handshakes of one new agent must end with the same entry.
        if let Some(agent) = known.by_id.get(id) {
            return Arc::clone(agent);
        }
        let agent = Arc::new(new_agent(id.clone()));
        known.insert(&agent);
        agent
    }

    /// A peer is a machine's second tunnel from now on, or is not. The state of a second tunnel is looked at under that of
    /// its machine, and never the other way round.
    pub fn join(&self, join: &JoinRow) {
        let (Some(machine), Some(tunnel)) = (self.find(join.machine.as_str()), self.find(join.tunnel.as_str()))
        else {
            return;
        };
        self.part(&tunnel);
        tunnel.state().joined = Some((Arc::downgrade(&machine), join.how));
        if join.how != Joining::Apart {
            machine.state().tunnel = Some(tunnel);
        }
    }

    /// An agent is nobody's other half any more: it was enrolled anew, or is gone.
    pub fn part(&self, agent: &Agent) {
        let (tunnel, joined) = {
            let mut state = agent.state();
            (state.tunnel.take(), state.joined.take())
        };
        if let Some(tunnel) = tunnel {
            tunnel.state().joined = None;
        }
        if let Some(machine) = joined.and_then(|(machine, _)| machine.upgrade()) {
            machine.state().tunnel.take_if(|tunnel| tunnel.id == agent.id);
        }
    }

    /// Forgets an agent; its link is closed.
    pub fn remove(&self, id: &str) -> Option<Arc<Agent>> {
        let agent = {
            let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
            known.remove(id)?
        };
        self.part(&agent);
        self.close_link(&agent, Close::Revoked);
        Some(agent)
    }

    /// All agents after `after`, by id.
    pub fn list(&self, after: Option<&str>) -> InOrder {
        let all = Arc::clone(&self.known.read().unwrap_or_else(PoisonError::into_inner).in_order);
        let from = after.map_or(0, |after| position(&all, after).map_or_else(|next| next, |there| there + 1));
        InOrder { all, from }
    }

    /// Shows an agent as its snapshot was judged. Whether its sections are not what they were.
    pub fn show(&self, agent: &Agent, verdict: &Verdict, now: Timestamp) -> bool {
        let mut state = agent.state();
        state.last_seen = Some(now);
        state.overall = verdict.overall;
        state.remote_control = verdict.remote_control.or(state.remote_control);
        let changed = state.sections.as_deref() != Some(&*verdict.sections);
        if changed {
            state.sections = Some(verdict.sections.as_str().into());
        }
        changed
    }

    /// How many agents are known.
    pub fn count(&self) -> usize {
        self.known.read().unwrap_or_else(PoisonError::into_inner).by_id.len()
    }

    /// How many have a link here.
    pub fn online(&self) -> usize {
        self.online.load(Ordering::Relaxed)
    }

    /// How many have a link at another hub.
    pub fn online_elsewhere(&self) -> usize {
        self.remote.load(Ordering::Relaxed)
    }

    /// Takes over what the store has of an agent that another hub changed. Its link is closed where it is trusted no more, or
    /// was let in by another key.
    pub fn follow(&self, row: AgentRow) -> Arc<Agent> {
        let agent = self.find_or_add(&row.id);
        let key = row.public_key.and_then(|key| VerifyingKey::from_bytes(&key).ok()).map(Arc::new);
        let outdated = {
            let mut state = agent.state();
            let is_other_key = state.public_key != key;
            let outdated = (state.trust == Trust::Trusted && row.trust != Trust::Trusted)
                || (is_other_key && (state.public_key.is_some() || state.auth == Some(AuthWay::Token)));
            state.trust = row.trust;
            state.public_key = key;
            state.tags = row.tags.into();
            state.enrolled_at = row.enrolled_at;
            if state.link.is_none() {
                if let (Some(meta), Some(facts)) = (row.meta.as_deref(), self.facts.get()) {
                    state.take(facts(meta));
                }
                state.meta = row.meta;
                state.protocol_version = row.protocol_version.map(Into::into);
                state.last_seen = state.last_seen.max(row.last_seen);
            }
            outdated
        };
        if outdated {
            self.close_link(&agent, Close::Revoked);
        }
        agent
    }

    /// Another hub holds a link of this agent now, or none does any more.
    pub fn set_remote(&self, agent: &Agent, remote: Option<RemoteLink>, since: Timestamp, shown: LinkFacts) {
        let mut state = agent.state();
        if state.link.is_some() || state.remote == remote {
            return;
        }
        match (state.remote.is_some(), remote.is_some()) {
            (false, true) => drop(self.remote.fetch_add(1, Ordering::Relaxed)),
            (true, false) => drop(self.remote.fetch_sub(1, Ordering::Relaxed)),
            _ => {}
        }
        state.remote = remote;
        state.online = remote.is_some();
        state.since = Some(since);
        state.last_seen = state.last_seen.max(Some(since));
        state.auth = shown.auth.as_deref().and_then(AuthWay::parse);
        if let (Some(meta), Some(facts)) = (shown.meta, self.facts.get()) {
            state.take(facts(&meta));
            state.meta = Some(meta);
            state.protocol_version = shown.version.map(Into::into);
        }
    }

    /// An invitation ran out unused.
    pub fn invitation_lapsed(&self, agent: &str) {
        if let Some(agent) = self.find(agent) {
            let mut state = agent.state();
            state.trust = state.trust.after(TrustEvent::Lapsed);
        }
    }

    /// A number for a new link, larger than any before.
    pub fn next_link(&self) -> LinkId {
        LinkId(self.next_link.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// A link has authenticated: it speaks for the agent from now on, and an older one is closed. False when a newer
    /// one already does, or when the agent's trust has gone meanwhile (`check` looks at the state under the lock).
    pub fn linked(
        &self,
        agent: &Agent,
        link: &Arc<Link>,
        update: impl FnOnce(&mut AgentState),
        check: impl FnOnce(&AgentState) -> bool,
    ) -> bool {
        let mut state = agent.state();
        if !check(&state) {
            return false;
        }
        let Ok(replaced) = state.presence.linked(link.id) else { return false };
        if state.remote.is_some() {
            self.remote.fetch_sub(1, Ordering::Relaxed);
        }
        let old = state.set_link(Some(Arc::clone(link)));
        update(&mut state);
        drop(state);
        if replaced.is_none() {
            self.online.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(old) = old {
            let _ = old.push(Command::Close(Close::Replaced));
        }
        true
    }

    /// A link was heard.
    pub fn heard(&self, agent: &Agent, link: LinkId, at: Timestamp) {
        let mut state = agent.state();
        if state.link.as_ref().is_some_and(|present| present.id == link) {
            state.last_seen = state.last_seen.max(Some(at));
        }
    }

    /// A link has ended, and was last heard then. True when it was the present one, so that the agent is offline now.
    pub fn ended(&self, agent: &Agent, link: LinkId, last_seen: Option<Timestamp>) -> bool {
        let mut state = agent.state();
        if !state.presence.ended(link) {
            return false;
        }
        let ended = state.set_link(None);
        state.since = Some(crate::clock::now());
        state.auth = None;
        state.last_seen = state.last_seen.max(last_seen);
        drop(state);
        drop(ended);
        self.online.fetch_sub(1, Ordering::Relaxed);
        true
    }

    /// The link is overdue, or heard again.
    pub fn set_overdue(&self, agent: &Agent, link: LinkId, overdue: bool) {
        agent.state().presence.set_overdue(link, overdue);
    }

    /// Closes an agent's link at once: it is offline from this moment, not when the socket gets around to it.
    pub fn close_link(&self, agent: &Agent, why: Close) {
        let link = agent.state().link.clone();
        if let Some(link) = link {
            let _ = link.push(Command::Close(why));
            self.ended(agent, link.id, None);
        }
    }
}

fn new_agent(id: PeerId) -> Agent {
    let state = AgentState {
        trust: Trust::Unpaired,
        public_key: None,
        tags: Arc::default(),
        meta: None,
        protocol_version: None,
        name: None,
        hostname: None,
        version: None,
        features: Box::default(),
        os: Os::Other,
        remote_control: None,
        enrolled_at: None,
        last_seen: None,
        since: None,
        auth: None,
        presence: Presence::OFFLINE,
        link: None,
        tunnel: None,
        joined: None,
        remote: None,
        online: false,
        overall: Overall::Unknown,
        sections: None,
    };
    Agent { id, state: Mutex::new(state) }
}

fn from_row(row: AgentRow, facts: ReadFacts) -> Agent {
    let agent = new_agent(row.id);
    {
        let mut state = agent.state();
        state.trust = row.trust;
        state.public_key = row.public_key.and_then(|key| VerifyingKey::from_bytes(&key).ok()).map(Arc::new);
        state.tags = row.tags.into();
        if let Some(facts) = row.meta.as_deref().map(facts) {
            state.take(facts);
        }
        state.meta = row.meta;
        state.protocol_version = row.protocol_version.map(Into::into);
        state.enrolled_at = row.enrolled_at;
        state.last_seen = row.last_seen;
        if let Some(health) = row.health {
            let (overall, sections) = crate::fleet::statuses(&health);
            state.overall = overall;
            state.sections = sections.map(Into::into);
        }
    }
    agent
}

/// What the registry keeps of what an agent said of its machine.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The name of its system.
    pub os: String,
    /// Whether remote control is on.
    pub remote_control: Option<bool>,
    /// The name it enrolled with, where that is not its id.
    pub name: Option<String>,
    /// Its host's name.
    pub hostname: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// What it can do beyond its protocol.
    pub features: Vec<String>,
}

/// Reads them from the text that an agent sent: its protocol knows how.
pub type ReadFacts = fn(&RawValue) -> Facts;

/// The system of that name.
pub fn os_named(name: &str) -> Os {
    match name {
        "windows" => Os::Windows,
        "linux" => Os::Linux,
        "macos" => Os::Macos,
        _ => Os::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(agents: &[Arc<Agent>]) -> Vec<&str> {
        agents.iter().map(|agent| agent.id.as_str()).collect()
    }

    #[test]
    fn they_are_listed_in_order_from_anywhere_and_a_list_stays_as_it_was() {
        let agents = Agents::default();
        for id in ["pc-3", "pc-1", "pc-10", "pc-2", "pc-1"] {
            agents.find_or_add(&id.parse().expect("an id"));
        }
        let all = agents.list(None);
        assert_eq!(ids(&all), ["pc-1", "pc-10", "pc-2", "pc-3"]);
        for (after, left) in [("a", 4), ("pc-1", 3), ("pc-11", 2), ("pc-2", 1), ("pc-3", 0), ("z", 0)] {
            assert_eq!(ids(&agents.list(Some(after))), ids(&all)[4 - left..], "{after}");
        }
        assert!(agents.remove("pc-10").is_some() && agents.remove("pc-10").is_none());
        agents.find_or_add(&"pc-0".parse().expect("an id"));
        assert_eq!(ids(&agents.list(None)), ["pc-0", "pc-1", "pc-2", "pc-3"]);
        assert_eq!(ids(&all), ["pc-1", "pc-10", "pc-2", "pc-3"], "whoever looks sees what was there");
        assert_eq!(agents.count(), 4);
    }
}
