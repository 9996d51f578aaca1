//! What waits for clients that are away: committed before it counts as accepted, given out in order, and forgotten once
//! the client has read it.
//!
//! **How the hub knows that a client has read it.** The contract has no acknowledgement, WebSockets do: behind the
//! messages goes a ping that names the last of them, and whoever answers it has read everything before it. A connection
//! that ends first leaves them in the outbox for the next one: at least once, never lost.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use convoke_core::id::TokenId;
use convoke_core::time::Timestamp;
use convoke_store::{OutboxRow, OutboxTotal, StoreError};
use convoke_yonexus::message;

use super::link::Out;
use super::rules;
use crate::Wires;
use convoke_gate::clock;
use convoke_gate::cluster::forward;
use convoke_gate::settings::Settings;

/// Messages that go out before the client must have read them.
const BATCH: u32 = 16;
/// What a ping of ours begins with.
const PING: &str = "outbox:";

/// Bounds, and who is being served.
#[derive(Debug)]
pub struct Outbox {
    per_client: u64,
    max_bytes: u64,
    totals: Mutex<Totals>,
    /// Webhooks that a task works on.
    pub(super) busy: Mutex<HashSet<String>>,
}

#[derive(Debug, Default)]
struct Totals {
    by_destination: HashMap<String, (u64, u64)>,
    bytes: u64,
}

/// What became of a message.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Its id, when somebody waits for it.
    pub(super) id: Option<i64>,
    /// For whom it is kept.
    pub(super) taken: Vec<String>,
    /// For whom there was no room.
    pub(super) full: Vec<String>,
    /// The token that asked for it was revoked first: it is kept for nobody.
    pub(super) revoked: bool,
}

impl Outbox {
    pub(super) fn load(settings: &Settings, totals: Vec<OutboxTotal>) -> Self {
        let outbox = Self {
            per_client: settings.yonexus.outbox_max_per_client,
            max_bytes: settings.yonexus.outbox_max_bytes,
            totals: Mutex::default(),
            busy: Mutex::default(),
        };
        outbox.set(totals);
        outbox
    }

    fn totals(&self) -> MutexGuard<'_, Totals> {
        self.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, rows: Vec<OutboxTotal>) {
        let mut totals = self.totals();
        totals.bytes = rows.iter().map(|row| row.bytes).sum();
        totals.by_destination = rows.into_iter().map(|row| (row.destination, (row.count, row.bytes))).collect();
    }

    /// How many messages wait for someone.
    pub fn waiting(&self, destination: &str) -> u64 {
        self.totals().by_destination.get(destination).map_or(0, |(count, _)| *count)
    }

    /// Makes room for a message, where there is any. Answers for whom there is, and for whom there is not.
    fn reserve(&self, destinations: Vec<String>, bytes: u64) -> (Vec<String>, Vec<String>) {
        let mut totals = self.totals();
        destinations.into_iter().partition(|destination| {
            let (count, _) = totals.by_destination.get(destination).copied().unwrap_or_default();
            let fits = count < self.per_client && totals.bytes.saturating_add(bytes) <= self.max_bytes;
            if fits {
                totals.bytes += bytes;
                let entry = totals.by_destination.entry(destination.clone()).or_default();
                entry.0 += 1;
                entry.1 += bytes;
            }
            fits
        })
    }

    /// Gives room back.
    fn release(&self, destination: &str, count: u64, bytes: u64) {
        let mut totals = self.totals();
        totals.bytes = totals.bytes.saturating_sub(bytes);
        if let Some(entry) = totals.by_destination.get_mut(destination) {
            entry.0 = entry.0.saturating_sub(count);
            entry.1 = entry.1.saturating_sub(bytes);
            if entry.0 == 0 {
                totals.by_destination.remove(destination);
            }
        }
    }

    /// A client is gone for good.
    pub(super) fn forget(&self, destination: &str) {
        let mut totals = self.totals();
        if let Some((_, bytes)) = totals.by_destination.remove(destination) {
            totals.bytes = totals.bytes.saturating_sub(bytes);
        }
    }
}

/// Keeps a message for everyone it goes to, and lets those who are there know. It is committed when this answers. One of
/// an operator's is kept only if their token still holds at the commit.
pub(super) async fn keep(
    hub: &Wires,
    row: OutboxRow,
    to: Vec<String>,
    by: Option<TokenId>,
) -> Result<Kept, StoreError> {
    let outbox = &hub.yonexus.outbox;
    let bytes = row.content.len() as u64;
    let (taken, full) = outbox.reserve(to, bytes);
    if taken.is_empty() {
        return Ok(Kept { full, ..Kept::default() });
    }
    let kept = match by {
        Some(by) => hub.store.put_outbox_of(by, row, taken.clone()).await,
        None => hub.store.put_outbox(row, taken.clone()).await.map(Some),
    };
    match kept {
        Ok(Some(id)) => {
            for name in &taken {
                let clients = &hub.yonexus.clients;
                match (clients.link(name), clients.is_elsewhere(name)) {
                    (Some(link), _) => drop(link.push(Out::Outbox)),
                    (None, Some(epoch)) => forward::outbox(hub, &rules::peer_id(name), epoch),
                    (None, None) => {}
                }
            }
            Ok(Kept { id: Some(id), taken, full, revoked: false })
        }
        not_kept => {
            taken.iter().for_each(|name| outbox.release(name, 1, bytes));
            not_kept.map(|_| Kept { revoked: true, ..Kept::default() })
        }
    }
}

/// Removes what nobody needs any more.
pub(super) async fn lapse(hub: &Wires) {
    let now = clock::now();
    let before = match hub.settings.retention.messages_days {
        0 => None,
        days => Some(Timestamp::from_millis(
            now.millis().saturating_sub(i64::try_from(days).unwrap_or(i64::MAX).saturating_mul(86_400_000)),
        )),
    };
    match hub.store.lapse(now, before).await {
        Ok(0) => {}
        Ok(lapsed) => {
            hub.metrics.dropped("yonexus_outbox_expired", lapsed);
            tracing::info!(lapsed, "waiting messages expired");
            match hub.store.outbox_totals().await {
                Ok(totals) => hub.yonexus.outbox.set(totals),
                Err(why) => tracing::error!(%why, "cannot count the outbox"),
            }
        }
        Err(why) => tracing::error!(%why, "cannot delete old messages"),
    }
}

/// What one connection has been given and has not confirmed.
#[derive(Debug, Default)]
pub(super) struct Delivery {
    /// What is passed by: it could not be noted as delivered. Otherwise what was sent is gone from the outbox.
    after: i64,
    /// The messages of the batch under way, and their bytes.
    open: Option<(Vec<i64>, u64)>,
}

impl Delivery {
    /// The next batch as texts, and the ping behind it. Nothing while one is under way: its pong brings the next.
    pub(super) async fn next(&mut self, hub: &Wires, identifier: &str) -> Option<(Vec<String>, Vec<u8>)> {
        if self.open.is_some() {
            return None;
        }
        let rows = match hub.store.outbox(identifier, self.after, BATCH, clock::now()).await {
            Ok(rows) => rows,
            Err(why) => {
                tracing::error!(client = identifier, %why, "cannot read the outbox");
                return None;
            }
        };
        let last = rows.last()?.id;
        let bytes = rows.iter().map(|row| row.content.len() as u64).sum();
        self.open = Some((rows.iter().map(|row| row.id).collect(), bytes));
        Some((rows.iter().map(text).collect(), format!("{PING}{last}").into_bytes()))
    }

    /// A pong came. True when it confirms the batch under way, which is forgotten then.
    pub(super) async fn read(&mut self, hub: &Wires, identifier: &str, payload: &[u8]) -> bool {
        let is_its = |(ids, _): &mut (Vec<i64>, u64)| {
            ids.last().is_some_and(|last| payload == format!("{PING}{last}").as_bytes())
        };
        let Some((ids, bytes)) = self.open.take_if(is_its) else { return false };
        let (count, last) = (ids.len() as u64, ids.last().copied());
        if let Err(why) = hub.store.delivered(identifier, ids).await {
            // It is given out again on the next connection: at least once.
            self.after = last.unwrap_or(self.after);
            tracing::error!(client = identifier, %why, "cannot store a delivery");
            return true;
        }
        hub.yonexus.outbox.release(identifier, count, bytes);
        true
    }
}

/// A message as its client gets it.
fn text(row: &OutboxRow) -> String {
    if row.with_id {
        message::rewritten(&row.rule, &row.id.to_string(), &row.content)
    } else {
        message::encode(&row.rule, &row.content)
    }
}

/// A webhook has taken a message.
pub(super) async fn done(hub: &Wires, destination: &str, row: &OutboxRow) -> Result<(), StoreError> {
    hub.store.delivered(destination, vec![row.id]).await?;
    hub.yonexus.outbox.release(destination, 1, row.content.len() as u64);
    Ok(())
}
