//! Subscriptions: clients hear that a resource changed, and read it anew. News are put together, at most one a second
//! for each resource, and stop with the token's rights.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use convoke_core::id::PeerId;
use rmcp::model::{ResourceUpdatedNotificationParam, SubscriptionFilter};
use rmcp::service::{Peer, SubscriptionContext, SubscriptionSink};
use rmcp::{ErrorData, RoleServer};
use tokio::sync::broadcast::error::RecvError;

use super::resources::Name;
use super::server::{Asker, protocol_error};
use super::sessions::MAX_SUBSCRIPTIONS;
use crate::clock;
use crate::http::agents::in_reach;
use crate::hub::Hub;

/// News are gathered for so long.
const GATHER: Duration = Duration::from_secs(1);

/// What of a filter can be had: resources that exist, so many of them.
pub(super) fn accepted(requested: &SubscriptionFilter) -> SubscriptionFilter {
    let known = |uri: &&String| Name::read(uri).is_some();
    let uris = requested.resource_subscriptions.as_ref();
    let uris = uris.map(|uris| uris.iter().filter(known).take(MAX_SUBSCRIPTIONS).cloned().collect::<Vec<_>>());
    let mut filter = SubscriptionFilter::new();
    filter.resource_subscriptions = uris;
    filter
}

/// A client of 2026-07-28 listens until it goes away.
pub(super) async fn listen(hub: &Hub, context: SubscriptionContext) -> Result<(), ErrorData> {
    let asker = Asker::of(context.request_context())?;
    let Some(_place) = hub.mcp.listener(asker.caller.token.id) else {
        let message = "this token listens on as many streams as it may (mcp.max_sessions_per_token)";
        return Err(ErrorData::invalid_request(message, None));
    };
    let uris: BTreeSet<String> = context.accepted().resource_subscriptions.iter().flatten().cloned().collect();
    for uri in &uris {
        check(hub, &asker, uri).await?;
    }
    let uris = Mutex::new(uris);
    let ear = Ear::Stream(context.sink().clone());
    tokio::select! {
        () = context.cancelled() => {}
        () = hub.stopping.cancelled() => {}
        () = tell(hub, &asker, &uris, &ear) => {}
    }
    Ok(())
}

/// Who hears the news.
enum Ear {
    Stream(SubscriptionSink),
    Session(Peer<RoleServer>),
}

impl Ear {
    /// False when nobody hears any more.
    async fn tell(&self, uri: String) -> bool {
        match self {
            Self::Stream(sink) => sink.notify_resource_updated(uri).await.is_ok(),
            Self::Session(peer) => {
                peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri)).await.is_ok()
            }
        }
    }
}

/// A client with a session subscribes.
pub(super) async fn subscribe(hub: &Hub, asker: &Asker, uri: &str, peer: Peer<RoleServer>) -> Result<(), ErrorData> {
    check(hub, asker, uri).await?;
    let session = asker.session.as_deref().unwrap_or_default();
    let Some((uris, watched)) = hub.mcp.subscriptions(session) else {
        return Err(ErrorData::invalid_request("there is no session to subscribe in", None));
    };
    {
        let mut uris = uris.lock().unwrap_or_else(PoisonError::into_inner);
        if uris.len() >= MAX_SUBSCRIPTIONS && !uris.contains(uri) {
            let message = format!("a session may subscribe to {MAX_SUBSCRIPTIONS} resources");
            return Err(ErrorData::invalid_request(message, None));
        }
        uris.insert(uri.to_owned());
    }
    if !watched {
        let (task_hub, task_asker) = (hub.clone(), asker.clone());
        let watcher = tokio::spawn(async move {
            let ear = Ear::Session(peer);
            tokio::select! {
                () = task_hub.stopping.cancelled() => {}
                () = tell(&task_hub, &task_asker, &uris, &ear) => {}
            }
        });
        hub.mcp.watched_by(session, watcher.abort_handle());
    }
    Ok(())
}

/// And no longer.
pub(super) fn unsubscribe(hub: &Hub, asker: &Asker, uri: &str) {
    if let Some((uris, _)) = hub.mcp.subscriptions(asker.session.as_deref().unwrap_or_default()) {
        uris.lock().unwrap_or_else(PoisonError::into_inner).remove(uri);
    }
}

/// Whether the caller may read it.
async fn check(hub: &Hub, asker: &Asker, uri: &str) -> Result<(), ErrorData> {
    let Some(name) = Name::read(uri) else {
        return Err(ErrorData::resource_not_found("there is no such resource", None));
    };
    match name.agent() {
        Some(id) => in_reach(hub, &asker.caller, id.as_str()).await.map(drop).map_err(|error| protocol_error(&error)),
        None => Ok(()),
    }
}

/// Tells of changes until the token lapses or nobody hears any more.
async fn tell(hub: &Hub, asker: &Asker, uris: &Mutex<BTreeSet<String>>, ear: &Ear) {
    let mut news = hub.changes.watch();
    let mut seq = hub.store.stats().journal_seq;
    let mut tick = tokio::time::interval(GATHER);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let (mut changed, mut missed) = (BTreeSet::new(), false);
    loop {
        tokio::select! {
            heard = news.recv() => match heard {
                Ok(agent) => drop(changed.insert(agent)),
                Err(RecvError::Lagged(_)) => missed = true,
                Err(RecvError::Closed) => return,
            },
            _ = tick.tick() => {
                if !asker.caller.token.is_active(clock::now()) {
                    return;
                }
                let now = hub.store.stats().journal_seq;
                let recorded = std::mem::replace(&mut seq, now) != now;
                let due = due(uris, &changed, missed, recorded);
                (changed, missed) = (BTreeSet::new(), false);
                for uri in due {
                    if is_reachable(hub, asker, &uri) && !ear.tell(uri).await {
                        return;
                    }
                }
            }
        }
    }
}

fn due(uris: &Mutex<BTreeSet<String>>, changed: &BTreeSet<PeerId>, missed: bool, recorded: bool) -> Vec<String> {
    let uris = uris.lock().unwrap_or_else(PoisonError::into_inner);
    let is_due = |uri: &&String| match Name::read(uri) {
        Some(Name::Journal { .. }) => recorded,
        Some(Name::Fleet) => missed || !changed.is_empty(),
        Some(name) => missed || name.agent().is_some_and(|id| changed.contains(id)),
        None => false,
    };
    uris.iter().filter(is_due).cloned().collect()
}

/// Tags change: what was within reach when it was subscribed to may no longer be.
fn is_reachable(hub: &Hub, asker: &Asker, uri: &str) -> bool {
    let Some(name) = Name::read(uri) else { return false };
    let Some(id) = name.agent() else { return true };
    let tags = hub.agents.find(id.as_str()).map(|a| Arc::clone(&a.state().tags)).unwrap_or_default();
    asker.caller.token.grant.scopes.reaches(id.as_str(), &tags)
}
