//! Changes that other hubs made: each has a number, and is put in force here by reading what it is about anew.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use convoke_core::id::{PeerId, Protocol, TokenId};
use convoke_core::lease::link_is_replaced;
use convoke_store::{ChangeRow, PeerLink, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::agents::RemoteLink;
use crate::calls::withdraw_unsent;
use crate::clock;
use crate::hub::Hub;
use crate::link::{Close, Command};
use crate::part::Followed;

/// What other hubs show of a link.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LinkFacts {
    /// How it authenticated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<String>,
    /// What the peer said of itself when it came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Box<RawValue>>,
    /// The protocol version that it spoke.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What the peer listed, in its protocol's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listed: Option<String>,
}

impl LinkFacts {
    /// As the store keeps them.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("texts and JSON that was read before serialise")
    }

    /// Reads them; of what cannot be read nothing is shown.
    pub fn read(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_default()
    }
}

/// Puts in force what changed, for as long as the hub runs.
pub async fn run(hub: Hub) {
    let Some(cluster) = hub.cluster.clone() else { return };
    tokio::spawn(super::follow_calls(hub.clone()));
    let wake = Arc::clone(&cluster.changed);
    if let Err(why) = hub.store.on_change(Box::new(move || wake.notify_one())) {
        tracing::warn!(%why, "cannot listen for changes of other hubs; looking for them now and then");
    }
    loop {
        // Also without a word of it: one may be missed while the database is away.
        let due = tokio::time::sleep(convoke_core::lease::Lease::renew_every(cluster.length));
        tokio::select! {
            () = cluster.changed.notified() => {}
            () = due => {}
            () = hub.stopping.cancelled() => return,
        }
        if let Err(why) = catch_up(&hub).await {
            tracing::warn!(%why, "cannot read what other hubs changed; trying again");
        }
    }
}

/// Puts in force all there is by now.
async fn catch_up(hub: &Hub) -> Result<(), StoreError> {
    let Some(cluster) = &hub.cluster else { return Ok(()) };
    let asked = clock::steady();
    let mut last = cluster.caught_up.lock().await;
    // Whoever waited for another that began later than this asked has what it asked for.
    if last.is_some_and(|last| last > asked) {
        return Ok(());
    }
    let begun = clock::steady();
    loop {
        let page = hub.store.changes(cluster.in_force()).await?;
        let Some(num) = page.last().map(|change| change.num) else {
            *last = Some(begun);
            return Ok(());
        };
        apply(hub, page).await?;
        cluster.in_force.store(num, Ordering::Release);
        cluster.tell.notify_one();
    }
}

impl Hub {
    /// Looks for changes of other hubs that have not come yet: somebody shows what is not known here.
    pub async fn catch_up(&self) {
        if let Err(why) = catch_up(self).await {
            tracing::warn!(%why, "cannot read what other hubs changed");
        }
    }
}

async fn apply(hub: &Hub, changes: Vec<ChangeRow>) -> Result<(), StoreError> {
    // What was changed twice is read once.
    let others = changes.into_iter().filter(|change| !change.is_own);
    let others: BTreeSet<(String, String)> = others.map(|change| (change.what, change.id)).collect();
    let named = |what: &str| others.iter().filter(|(of, _)| of == what).map(|(_, id)| id.clone()).collect::<Vec<_>>();
    let is_any = |whats: &[&str]| others.iter().any(|(of, _)| whats.contains(&of.as_str()));
    for id in named("agent") {
        agent(hub, &id).await?;
    }
    if is_any(&["join"]) {
        joins(hub).await?;
    }
    if is_any(&["token", "user"]) {
        tokens(hub).await?;
    }
    if is_any(&["user", "session", "passkey"]) {
        people(hub).await?;
    }
    if is_any(&["policy"]) {
        policy(hub).await?;
    }
    if is_any(&["grant"]) {
        let _turn = hub.grants.turn.lock().await;
        hub.grants.load(hub.store.grants(clock::now()).await?);
    }
    if is_any(&["channel"]) {
        crate::notices::load(hub).await?;
    }
    let links = named("link");
    if !links.is_empty() {
        self::links(hub, Some(links)).await?;
    }
    for (what, id) in &others {
        for part in hub.parts.iter() {
            part.follow(hub, Followed { what, id }).await?;
        }
    }
    Ok(())
}

async fn agent(hub: &Hub, id: &str) -> Result<(), StoreError> {
    let Ok(peer) = PeerId::parse(id) else { return Ok(()) };
    let _turn = hub.agents.turn(id).await;
    match hub.store.agent(&peer).await? {
        Some(row) => drop(hub.agents.follow(row)),
        None => {
            hub.agents.remove(id);
            hub.parts.iter().for_each(|part| part.agent_removed(&peer));
            hub.health.forget(&peer);
        }
    }
    Ok(())
}

/// Which tunnels are one machine.
async fn joins(hub: &Hub) -> Result<(), StoreError> {
    let rows = hub.store.joined().await?;
    for agent in hub.agents.list(None).iter() {
        if agent.state().joining().is_some() && rows.iter().all(|join| join.tunnel != agent.id) {
            hub.agents.part(agent);
        }
    }
    rows.iter().for_each(|join| hub.agents.join(join));
    Ok(())
}

async fn tokens(hub: &Hub) -> Result<(), StoreError> {
    let _turn = hub.operators.revoking.lock().await;
    let (rows, paused) = (hub.store.tokens().await?, hub.store.paused_tokens().await?);
    for id in hub.operators.follow(rows, &paused) {
        no_longer_valid(hub, id);
    }
    Ok(())
}

async fn people(hub: &Hub) -> Result<(), StoreError> {
    let people = &hub.operators.people;
    let _turn = people.turn.lock().await;
    let store = &hub.store;
    let (users, sessions) = (store.users().await?, store.sessions(clock::now()).await?);
    for id in people.follow(users, &sessions, store.passkeys().await?) {
        no_longer_valid(hub, id);
    }
    Ok(())
}

/// A principal is out of force: what it asked for and what has not gone out stays here.
fn no_longer_valid(hub: &Hub, id: TokenId) {
    hub.parts.iter().for_each(|part| part.token_revoked(id));
    withdraw_unsent(hub, id);
    hub.events.end_streams(id);
}

async fn policy(hub: &Hub) -> Result<(), StoreError> {
    let _turn = hub.policy.turn().await;
    hub.policy.set_deny(hub.store.deny_rules().await?);
    hub.policy.set_confirm(hub.store.confirm_rules().await?);
    for link in hub.agents.list(None).iter().filter_map(|agent| agent.link()) {
        let _ = link.push(Command::PolicyChanged);
    }
    Ok(())
}

/// Reads which links stand for these peers, or for all of them.
pub async fn links(hub: &Hub, of: Option<Vec<String>>) -> Result<(), StoreError> {
    let all = of.is_none();
    let standing = hub.store.links(of.clone()).await?;
    for link in &standing {
        stands(hub, &link.peer, Some(link)).await?;
    }
    let mut gone = of.unwrap_or_default();
    if all {
        gone.extend(hub.agents.list(None).iter().filter(|a| a.state().remote().is_some()).map(|a| a.id.to_string()));
    }
    for peer in gone.iter().filter(|peer| standing.iter().all(|link| link.peer != **peer)) {
        stands(hub, peer, None).await?;
    }
    Ok(())
}

/// This link stands for a peer now, or none does.
async fn stands(hub: &Hub, peer: &str, link: Option<&PeerLink>) -> Result<(), StoreError> {
    let Ok(id) = PeerId::parse(peer) else { return Ok(()) };
    if matches!(id.protocol(), Protocol::Kenny | Protocol::Sonde) {
        let agent = match (hub.agents.find(peer), link) {
            (Some(agent), _) => agent,
            (None, Some(_)) => {
                self::agent(hub, peer).await?;
                let Some(agent) = hub.agents.find(peer) else { return Ok(()) };
                agent
            }
            (None, None) => return Ok(()),
        };
        if let Some(held) = agent.link()
            && link_is_replaced(held.id.0, link.map(|link| link.epoch))
        {
            let _ = held.push(Command::Close(Close::Replaced));
            hub.agents.ended(&agent, held.id, None);
        }
        let own = hub.store.hub_id();
        let remote = link.filter(|link| link.hub != own && link.is_live);
        let facts = remote.map(|link| LinkFacts::read(&link.facts)).unwrap_or_default();
        let since = remote.map_or_else(clock::now, |link| link.since);
        let held = remote.map(|link| RemoteLink { epoch: link.epoch, hub: link.hub });
        hub.agents.set_remote(&agent, held, since, facts);
    }
    for part in hub.parts.iter() {
        part.link_stands(hub, &id, link).await?;
    }
    Ok(())
}
