//! Clients hear when their list of tools has changed: another machine, another system, other tags.
//!
//! Every session is told by a task of its own, and calls are many: so one task for all reads the hub's events, and wakes them
//! only when a machine came, went or changed, at most once a second.

use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use convoke_core::event::{AgentChange, Event};
use rmcp::RoleServer;
use rmcp::service::Peer;
use tokio::sync::watch;

use super::server::McpCaller;
use super::sessions::Sessions;
use super::toolset::Tools;
use convoke_gate::clock;
use convoke_gate::events::{Missed, Published};
use convoke_gate::hub::Hub;

/// News are gathered for so long.
const GATHER: Duration = Duration::from_secs(1);

/// When machines came, went or changed.
#[derive(Debug, Default)]
pub(super) struct Machines {
    changes: watch::Sender<()>,
    is_read: AtomicBool,
}

impl Machines {
    /// Their changes from now on.
    fn subscribe(&self, hub: &Hub) -> watch::Receiver<()> {
        if !self.is_read.swap(true, Ordering::Relaxed) {
            tokio::spawn(read(hub.clone()));
        }
        self.changes.subscribe()
    }
}

async fn read(hub: Hub) {
    let mut news = hub.events.subscribe();
    let sessions = Sessions::of(&hub);
    loop {
        let heard = tokio::select! {
            heard = news.next(&hub.events) => heard,
            () = hub.stopping.cancelled() => return,
        };
        let matters = match heard.as_deref() {
            Ok(Published { event: Event::Agent(about), .. }) => {
                matches!(
                    about.change,
                    AgentChange::Online | AgentChange::Tags | AgentChange::Trust | AgentChange::Removed
                )
            }
            Ok(_) => false,
            Err(Missed) => true,
        };
        if matters {
            // What happens meanwhile is looked at with the next news, which there are then.
            tokio::time::sleep(GATHER).await;
            sessions.machines.changes.send_replace(());
        }
    }
}

/// Tells the client of a session from now on. It has just asked for the list.
pub(super) fn watch(hub: &Hub, asker: &McpCaller, peer: &Peer<RoleServer>) {
    let Some(session) = asker.session.as_deref() else { return };
    let sessions = Sessions::of(hub);
    if sessions.has_lister(session) {
        return;
    }
    let (hub, asker, peer, shown) = (hub.clone(), asker.clone(), peer.clone(), Shown::now(hub, asker));
    let id = session.to_owned();
    let telling = async move { tell(&hub, &asker, shown, || peer.notify_tool_list_changed()).await };
    sessions.listed_by(&id, tokio::spawn(telling).abort_handle());
}

/// What a client was shown, and what has changed since.
pub(super) struct Shown {
    names: Vec<String>,
    changes: watch::Receiver<()>,
}

impl Shown {
    pub(super) fn now(hub: &Hub, asker: &McpCaller) -> Self {
        // In this order: what comes in between is news.
        let changes = Sessions::of(hub).machines.subscribe(hub);
        Self { names: names(hub, asker), changes }
    }
}

/// Tells of each change of the list, until the token lapses or nobody hears any more.
pub(super) async fn tell<E: Debug, F: Future<Output = Result<(), E>>>(
    hub: &Hub,
    asker: &McpCaller,
    mut shown: Shown,
    notify: impl Fn() -> F,
) {
    loop {
        tokio::select! {
            changed = shown.changes.changed() => if changed.is_err() { return },
            () = hub.stopping.cancelled() => return,
        }
        if !asker.caller.token.is_active(clock::now()) {
            return;
        }
        let now = names(hub, asker);
        if now != shown.names {
            shown.names = now;
            if notify().await.is_err() {
                return;
            }
        }
    }
}

fn names(hub: &Hub, asker: &McpCaller) -> Vec<String> {
    Tools::of(hub).shown_to(hub, &asker.caller).into_iter().map(|tool| tool.name.into_owned()).collect()
}
