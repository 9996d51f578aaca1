//! What a hub among several does by the clock: it renews its lease, and looks after those whose lease is over.

use std::sync::atomic::Ordering;
use std::time::Duration;

use convoke_core::lease::Lease;
use convoke_store::{HubRow, StoreError};

use super::Cluster;
use crate::clock;
use crate::hub::Hub;

/// How often whoever waits for the others looks how far they are.
const LOOK: Duration = Duration::from_millis(10);
/// How many renewals lie between two rounds of tidying.
const TIDY_EVERY: u32 = 20;

/// Renews the lease, for as long as the hub runs.
pub async fn run(hub: Hub) {
    let Some(cluster) = hub.cluster.clone() else { return };
    let every = Lease::renew_every(cluster.length);
    let mut rounds = 0_u32;
    loop {
        renew(&hub, &cluster).await;
        if cluster.fenced.is_cancelled() {
            return;
        }
        if rounds.is_multiple_of(TIDY_EVERY)
            && let Err(why) = hub.store.forget_changes().await
        {
            tracing::debug!(%why, "cannot forget old changes");
        }
        if rounds.is_multiple_of(TIDY_EVERY)
            && let Err(why) = super::look_at_calls(&hub).await
        {
            tracing::debug!(%why, "cannot look after calls at other hubs");
        }
        rounds = rounds.wrapping_add(1);
        if let Err(why) = look_after(&hub).await {
            tracing::debug!(%why, "cannot look after the other hubs");
        }
        tokio::select! {
            () = tokio::time::sleep(every) => {}
            // What is in force is told at once: somebody may wait for it.
            () = cluster.tell.notified() => {}
            () = hub.stopping.cancelled() => return,
        }
    }
}

async fn renew(hub: &Hub, cluster: &Cluster) {
    let asked_at = clock::boot();
    match hub.store.renew(cluster.announced().clone(), cluster.in_force()).await {
        Ok(true) => cluster.granted(asked_at),
        Ok(false) => {
            tracing::error!("another hub has taken this one for gone and ended its calls; starting anew");
            cluster.fenced.cancel();
        }
        Err(why) if cluster.may_act() => tracing::warn!(%why, "cannot renew the lease; trying again"),
        Err(why) => tracing::error!(%why, "the lease is over: this hub takes nothing until it can renew it"),
    }
}

/// Takes the place of hubs whose lease is over: only one does. Agents that were connected there are offline.
async fn look_after(hub: &Hub) -> Result<(), StoreError> {
    let own = hub.store.hub_id();
    for other in hub.store.hubs().await?.into_iter().filter(|other| other.id != own) {
        if other.has_lapsed {
            end(hub, &other).await?;
        }
    }
    Ok(())
}

async fn end(hub: &Hub, other: &HubRow) -> Result<(), StoreError> {
    let _turn = hub.store.turn("end").await?;
    if hub.store.fence(other.id).await? {
        tracing::warn!(hub = other.name, "the lease of a hub is over; it is taken for gone");
        crate::calls::end_open_of(hub, other.id, &other.name).await?;
    }
    Ok(())
}

/// Waits until every hub that lives has in force what was changed by now. One whose lease is over is fenced instead.
pub async fn settled(hub: &Hub) -> Result<(), StoreError> {
    let Some(cluster) = &hub.cluster else { return Ok(()) };
    let own = hub.store.hub_id();
    let until = hub.store.last_change().await?;
    let begun = clock::steady();
    loop {
        let mut waits = false;
        for other in hub.store.hubs().await?.into_iter().filter(|other| other.id != own && other.in_force < until) {
            if other.has_lapsed {
                end(hub, &other).await?;
            }
            waits |= other.is_live;
        }
        if !waits {
            return Ok(());
        }
        if begun.elapsed() > 3 * cluster.length {
            let why = "another hub renews its lease and does not put changes in force";
            return Err(StoreError::Conflict(why.into()));
        }
        tokio::time::sleep(LOOK).await;
    }
}

impl Cluster {
    /// This hub stops: it takes and sends nothing any more.
    pub fn stop(&self) {
        self.acts_until.store(0, Ordering::Release);
    }
}
