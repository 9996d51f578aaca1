//! Links of this hub as the others see them: a link has an epoch from the database and a subject on the bus. It is subscribed
//! to before its row is committed, so whoever reads the row finds somebody there.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use convoke_bus::{Message, Subject, Subscription};
use convoke_core::call::code;
use convoke_core::id::LinkId;
use convoke_store::{PeerLink, StoreError};
use tokio::sync::oneshot;

use super::follow::LinkFacts;
use super::forward::{Answered, ToLink, answer_subject};
use super::{Cluster, ClusterError};
use crate::clock;
use crate::hub::Hub;
use crate::link::{Command, Failure, Link, Request};

/// What takes messages of other hubs for a link.
#[async_trait]
pub trait Holder: Send + Sync + fmt::Debug {
    /// Takes one; answers who asked, if anybody waits for an answer.
    async fn take(&self, hub: &Hub, message: ToLink) -> Option<Answered>;
}

/// A link that has an epoch and is subscribed to, and does not stand for its peer yet.
#[derive(Debug)]
pub struct Coming {
    peer: String,
    /// None where this hub is alone: then its number counts here only.
    on_bus: Option<(Subject, Subscription)>,
    id: LinkId,
}

/// A link that stands for its peer, until this is dropped.
#[derive(Debug)]
pub struct Held {
    hub: Hub,
    peer: String,
    epoch: u64,
    /// What other hubs show of it; none where this hub is alone.
    shown: Option<LinkFacts>,
    serving: Option<tokio::task::AbortHandle>,
}

impl Coming {
    /// The number of the link: a later one is greater, at whatever hub.
    pub const fn id(&self) -> LinkId {
        self.id
    }

    /// The link stands for its peer from now on. Nothing when a newer one does. `facts` is what others show of it.
    pub async fn stand(
        self,
        hub: &Hub,
        holder: Arc<dyn Holder>,
        facts: impl FnOnce() -> LinkFacts,
    ) -> Result<Option<Held>, StoreError> {
        let Self { peer, on_bus, id } = self;
        let epoch = id.0;
        let Some((subject, subscription)) = on_bus else {
            return Ok(Some(Held { hub: hub.clone(), peer, epoch, shown: None, serving: None }));
        };
        let since = clock::now();
        let shown = facts();
        let (own, facts) = (hub.store.hub_id(), shown.to_json());
        let row = PeerLink { peer: peer.clone(), epoch, hub: own, since, facts, is_live: true };
        // Served before it is committed: from then on others send.
        let serving = tokio::spawn(serve(hub.clone(), subject, subscription, holder)).abort_handle();
        let held = Held { hub: hub.clone(), peer, epoch, shown: Some(shown), serving: Some(serving) };
        Ok(hub.store.claim_link(row).await?.then_some(held))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let Some(serving) = self.serving.take() else { return };
        serving.abort();
        let (hub, peer, epoch) = (self.hub.clone(), std::mem::take(&mut self.peer), self.epoch);
        tokio::spawn(async move {
            if let Err(why) = hub.store.leave_link(&peer, epoch).await {
                tracing::debug!(peer, %why, "cannot store the end of a link; the next one replaces it");
            }
        });
    }
}

impl Held {
    /// The peer has listed what it can do: other hubs show that, too.
    pub async fn listed(&self, listed: String) {
        let Some(shown) = &self.shown else { return };
        let facts = LinkFacts { listed: Some(listed), ..shown.clone() }.to_json();
        if let Err(why) = self.hub.store.set_link_facts(&self.peer, self.epoch, facts).await {
            tracing::warn!(peer = self.peer, %why, "cannot store what other hubs show of a link");
        }
    }
}

impl Hub {
    /// A link of a peer is coming: it gets its number, and where there are several hubs its subject.
    pub async fn coming(&self, peer: &str) -> Result<Coming, ClusterError> {
        let peer = peer.to_owned();
        let Some(cluster) = &self.cluster else {
            return Ok(Coming { peer, on_bus: None, id: self.agents.next_link() });
        };
        if !cluster.may_act() {
            return Err(ClusterError::NoLease);
        }
        let epoch = self.store.next_link().await?;
        let subject = Subject::of_link(&peer, epoch);
        let subscription = cluster.bus.subscribe(&subject).await?;
        Ok(Coming { peer, on_bus: Some((subject, subscription)), id: LinkId(epoch) })
    }
}

/// Hands over what other hubs send to a link.
async fn serve(hub: Hub, subject: Subject, mut subscription: Subscription, holder: Arc<dyn Holder>) {
    let Some(cluster) = hub.cluster.clone() else { return };
    while let Some(message) = subscription.next().await {
        let Some((_, body)) = cluster.open(&subject, &message.body) else { continue };
        let Ok(request) = serde_json::from_slice::<ToLink>(&body) else {
            tracing::warn!("dropped a message of another hub: it cannot be read");
            continue;
        };
        let (hub, cluster, holder) = (hub.clone(), Arc::clone(&cluster), Arc::clone(&holder));
        let subject = answer_subject(&subject, request.id());
        // A call takes its time; the next one does not wait for it.
        tokio::spawn(async move {
            let request = match request {
                ToLink::Parcel { parcel, .. } => match super::parcels::message(&cluster, &parcel).await {
                    Some(request) => request,
                    None => return,
                },
                small => small,
            };
            let answer = holder.take(&hub, request).await;
            if let Some(answer) = answer {
                reply(&hub, &cluster, &subject, message, answer).await;
            }
        });
    }
}

async fn reply(hub: &Hub, cluster: &Cluster, subject: &Subject, message: Message, answer: Answered) {
    let Some(reply) = message.reply else { return };
    let body = super::forward::packed(hub, cluster, subject, &answer);
    let Some(body) = body else { return };
    if let Err(why) = reply.send(body).await {
        // Whoever asked is told that the answer was lost.
        tracing::warn!(%why, "cannot send an answer to another hub");
    }
}

/// The link of a kenny or Sonde agent.
#[async_trait]
impl Holder for Arc<Link> {
    async fn take(&self, hub: &Hub, message: ToLink) -> Option<Answered> {
        match message {
            ToLink::Call { id, tool, args, requested_by, below, timeout, left } => {
                let (reply, answer) = oneshot::channel();
                let deadline = hub.mono() + left;
                let requested_by = requested_by.into();
                let request = Request { id, tool, args, requested_by, below, timeout, deadline, reply };
                if let Err(refused) = self.push(Command::Call(request)) {
                    return Some(Answered::not_taken(refused));
                }
                Some(Answered::of(answer.await.unwrap_or_else(|_| {
                    Err(Failure::new(code::DISCONNECTED, "the agent disconnected during the call"))
                })))
            }
            ToLink::Forget { id } => {
                let _ = self.push(Command::Forget(id));
                None
            }
            ToLink::Withdraw { id } => {
                let _ = self.push(Command::Withdraw(id, crate::calls::not_any_more()));
                None
            }
            ToLink::Frame { .. } | ToLink::Outbox { .. } | ToLink::Parcel { .. } => None,
        }
    }
}
