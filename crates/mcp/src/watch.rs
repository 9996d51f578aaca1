//! Subscriptions: clients hear that a resource changed, and read it anew. News are put together, at most one a second
//! for each resource, and stop with the token's rights.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::Sessions;
use convoke_api::record::JournalQuery;
use convoke_core::event::Event;
use convoke_core::id::PeerId;
use rmcp::model::{ResourceUpdatedNotificationParam, SubscriptionFilter};
use rmcp::service::{Peer, SubscriptionContext, SubscriptionSink};
use rmcp::{ErrorData, RoleServer};

use super::resources::Name;
use super::server::{McpCaller, protocol_error};
use super::sessions::MAX_SUBSCRIPTIONS;
use super::tool_list;
use convoke_doors::agents::in_reach;
use convoke_doors::journal::journal_page;
use convoke_gate::clock;
use convoke_gate::events::{Missed, Published};
use convoke_gate::hub::Hub;
use convoke_gate::operators::Caller;

/// News are gathered for so long.
const GATHER: Duration = Duration::from_secs(1);
/// Records that are looked at in that time for a caller who may not see all of them.
const LOOKED_AT: u32 = 1000;

/// What of a filter can be had: resources that exist, so many of them.
pub(super) fn accepted(requested: &SubscriptionFilter) -> SubscriptionFilter {
    let known = |uri: &&String| Name::read(uri).is_some();
    let uris = requested.resource_subscriptions.as_ref();
    let uris = uris.map(|uris| uris.iter().filter(known).take(MAX_SUBSCRIPTIONS).cloned().collect::<Vec<_>>());
    let mut filter = SubscriptionFilter::new();
    filter.resource_subscriptions = uris;
    filter.tools_list_changed = requested.tools_list_changed;
    filter
}

/// Whether the caller may have all of what it asks for. Looked at before the SDK acknowledges what it knows of.
pub(super) async fn check_all(hub: &Hub, caller: &Caller, uris: &[String]) -> Result<(), ErrorData> {
    let asker = McpCaller { caller: caller.clone(), session: None };
    for uri in uris.iter().filter(|uri| Name::read(uri).is_some()).take(MAX_SUBSCRIPTIONS) {
        check(hub, &asker, uri).await?;
    }
    Ok(())
}

/// A client of 2026-07-28 listens until it goes away.
pub(super) async fn listen(hub: &Hub, context: SubscriptionContext) -> Result<(), ErrorData> {
    let asker = McpCaller::of(context.request_context())?;
    let Some(_permit) = Sessions::of(hub).listener(asker.caller.token.id) else {
        let message = "this token has reached its limit of streams (mcp.max_sessions_per_token)";
        return Err(ErrorData::invalid_request(message, None));
    };
    let uris: BTreeSet<String> = context.accepted().resource_subscriptions.iter().flatten().cloned().collect();
    for uri in &uris {
        check(hub, &asker, uri).await?;
    }
    let uris = Mutex::new(uris);
    let ear = Ear::Stream(context.sink().clone());
    let of_tools = async {
        match context.accepted().tools_list_changed {
            Some(true) => {
                let shown = tool_list::Shown::now(hub, &asker);
                tool_list::tell(hub, &asker, shown, || context.sink().notify_tool_list_changed()).await;
            }
            _ => std::future::pending().await,
        }
    };
    tokio::select! {
        () = context.cancelled() => {}
        () = hub.stopping.cancelled() => {}
        () = tell(hub, &asker, &uris, &ear) => {}
        () = of_tools => {}
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
pub(super) async fn subscribe(
    hub: &Hub,
    asker: &McpCaller,
    uri: &str,
    peer: Peer<RoleServer>,
) -> Result<(), ErrorData> {
    check(hub, asker, uri).await?;
    let session = asker.session.as_deref().unwrap_or_default();
    let Some((uris, watched)) = Sessions::of(hub).subscriptions(session) else {
        return Err(ErrorData::invalid_request("subscribing needs a session", None));
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
        Sessions::of(hub).watched_by(session, watcher.abort_handle());
    }
    Ok(())
}

/// And no longer.
pub(super) fn unsubscribe(hub: &Hub, asker: &McpCaller, uri: &str) {
    if let Some((uris, _)) = Sessions::of(hub).subscriptions(asker.session.as_deref().unwrap_or_default()) {
        uris.lock().unwrap_or_else(PoisonError::into_inner).remove(uri);
    }
}

/// Whether the caller may read it.
async fn check(hub: &Hub, asker: &McpCaller, uri: &str) -> Result<(), ErrorData> {
    let Some(name) = Name::read(uri) else {
        return Err(ErrorData::resource_not_found("the resource does not exist", None));
    };
    match name.agent() {
        Some(id) => in_reach(hub, &asker.caller, id.as_str()).await.map(drop).map_err(|error| protocol_error(&error)),
        None => Ok(()),
    }
}

/// What is new since the watcher last looked.
#[derive(Default)]
struct Gathered {
    /// Agents that changed and are within reach, or were.
    agents: BTreeSet<PeerId>,
    /// Some events were missed: anything may have changed.
    missed: bool,
    /// Records that the caller may see.
    records: bool,
}

/// Tells of changes until the token lapses or nobody hears any more.
async fn tell(hub: &Hub, asker: &McpCaller, uris: &Mutex<BTreeSet<String>>, ear: &Ear) {
    let mut news = hub.events.subscribe();
    let mut seq = hub.store.stats().journal_seq;
    let mut tick = tokio::time::interval(GATHER);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut gathered = Gathered::default();
    loop {
        tokio::select! {
            heard = news.next(&hub.events) => match heard.as_deref() {
                Ok(Published { event: Event::Agent(about), .. }) => {
                    if reaches(hub, asker, &about.agent, &about.tags_before) {
                        gathered.agents.insert(about.agent.clone());
                    }
                }
                Ok(_) => {}
                Err(Missed) => gathered.missed = true,
            },
            _ = tick.tick() => {
                if !asker.caller.token.is_active(clock::now()) {
                    return;
                }
                gathered.records = new_records(hub, asker, uris, &mut seq).await;
                let due = due(uris, &gathered);
                gathered = Gathered::default();
                for uri in due {
                    if is_reachable(hub, asker, &uri) && !ear.tell(uri).await {
                        return;
                    }
                }
            }
        }
    }
}

/// Whether there are records after this one that the caller may see. A caller whose reach is narrowed is not told of
/// others': that something happened is news, too.
async fn new_records(hub: &Hub, asker: &McpCaller, uris: &Mutex<BTreeSet<String>>, seq: &mut u64) -> bool {
    let stats = hub.store.stats();
    if stats.failing {
        // The newest records may not be in the database yet, where they are looked for.
        return false;
    }
    let now = stats.journal_seq;
    let before = std::mem::replace(seq, now);
    let is_journal = |uri: &String| matches!(Name::read(uri), Some(Name::Journal { .. }));
    let asked = uris.lock().unwrap_or_else(PoisonError::into_inner).iter().any(is_journal);
    let scopes = &asker.caller.token.grant.scopes;
    if before == now || !asked || (scopes.agents.is_none() && scopes.tags.is_none()) {
        return asked && before != now;
    }
    let query = JournalQuery { after: Some(before), limit: Some(LOOKED_AT), ..JournalQuery::default() };
    match journal_page(hub, &asker.caller, query, None).await {
        Ok(page) => {
            // What is left is looked at next time.
            *seq = page.next.unwrap_or(now);
            !page.records.is_empty()
        }
        Err(_) => {
            *seq = before;
            false
        }
    }
}

fn due(uris: &Mutex<BTreeSet<String>>, gathered: &Gathered) -> Vec<String> {
    let uris = uris.lock().unwrap_or_else(PoisonError::into_inner);
    let is_due = |uri: &&String| match Name::read(uri) {
        Some(Name::Journal { .. }) => gathered.records,
        Some(Name::Fleet) => gathered.missed || !gathered.agents.is_empty(),
        Some(name) => gathered.missed || name.agent().is_some_and(|id| gathered.agents.contains(id)),
        None => false,
    };
    uris.iter().filter(is_due).cloned().collect()
}

/// Tags change: what was within reach when it was subscribed to may no longer be.
fn is_reachable(hub: &Hub, asker: &McpCaller, uri: &str) -> bool {
    match Name::read(uri) {
        Some(name) => name.agent().is_none_or(|id| reaches(hub, asker, id, &[])),
        None => false,
    }
}

/// Whether an agent is within the caller's reach, or was with the tags it had.
fn reaches(hub: &Hub, asker: &McpCaller, id: &PeerId, tags_before: &[String]) -> bool {
    let scopes = &asker.caller.token.grant.scopes;
    let tags = hub.agents.find(id.as_str()).map(|a| Arc::clone(&a.state().tags)).unwrap_or_default();
    scopes.reaches(id.as_str(), &tags) || (!tags_before.is_empty() && scopes.reaches(id.as_str(), tags_before))
}
