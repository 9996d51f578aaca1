//! What is too large for the bus: it stays where it is, and the other hub fetches it over HTTP by a link that is good once. It
//! is sealed like everything between hubs, so who overhears the link gets nothing.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use convoke_bus::Subject;

use super::Cluster;
use super::forward::{Parcel, ToLink};
use crate::answers::Reserved;
use crate::clock;
use crate::hub::Hub;

/// How long one waits to be fetched.
const LIFE: Duration = Duration::from_secs(30);
/// Most that wait at once.
const MOST: usize = 1_000;
/// How long fetching one may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// What waits to be fetched, by its name. Its bytes count among the answers that are held.
#[derive(Debug, Default)]
pub struct Parcels(Mutex<HashMap<String, Waiting>>);

#[derive(Debug)]
struct Waiting {
    body: Vec<u8>,
    since: Instant,
    /// The memory that it takes.
    _reserved: Reserved,
}

impl Parcels {
    /// Leaves something to be fetched. Nothing when there is no room.
    pub(super) fn leave(&self, hub: &Hub, cluster: &Cluster, body: Vec<u8>) -> Option<Parcel> {
        let reserved = hub.answers.reserve(body.len())?;
        let (name, size, now) = (hex::encode(clock::random::<32>()), body.len(), clock::steady());
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, waiting| now.saturating_duration_since(waiting.since) < LIFE);
        if all.len() >= MOST {
            return None;
        }
        all.insert(name.clone(), Waiting { body, since: now, _reserved: reserved });
        let at = cluster.announced();
        Some(Parcel { at: at.address.clone(), name, size })
    }

    fn take(&self, name: &str) -> Option<Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(name).map(|waiting| waiting.body)
    }
}

fn subject(name: &str) -> Option<Subject> {
    Subject::parse(&format!("convoke.parcel.{name}"))
}

/// Gives out what waits under this name, sealed: once.
pub fn give_out(hub: &Hub, name: &str) -> Option<Bytes> {
    let cluster = hub.cluster.as_ref()?;
    let subject = subject(name)?;
    let body = cluster.parcels.take(name)?;
    cluster.envelope.seal(&subject, &body).ok()
}

/// Fetches something from the hub that has it.
pub(super) async fn fetch(cluster: &Cluster, parcel: &Parcel) -> Result<Vec<u8>, String> {
    let subject = subject(&parcel.name).ok_or("its name is none")?;
    let get = async {
        let reply = cluster.http.get(format!("{}/api/hubs/parcels/{}", parcel.at, parcel.name)).send().await?;
        reply.error_for_status()?.bytes().await
    };
    let sealed = match tokio::time::timeout(PATIENCE, get).await {
        Ok(Ok(sealed)) => sealed,
        // The address is this cluster's own; the cause says what to look at.
        Ok(Err(why)) => return Err(format!("the hub at {} cannot be reached: {why}", parcel.at)),
        Err(_) => return Err(format!("the hub at {} does not answer", parcel.at)),
    };
    let opened = cluster.open(&subject, &sealed).ok_or("what came was not sealed by a hub of this cluster")?;
    Ok(opened.1.to_vec())
}

/// Fetches a message for a link.
pub(super) async fn message(cluster: &Cluster, parcel: &Parcel) -> Option<ToLink> {
    let fetched = fetch(cluster, parcel).await;
    match fetched.and_then(|body| serde_json::from_slice(&body).map_err(|_| "it cannot be read".to_owned())) {
        // One parcel in another would go on for ever.
        Ok(ToLink::Parcel { .. }) => None,
        Ok(message) => Some(message),
        Err(why) => {
            tracing::warn!(at = parcel.at, why, "cannot fetch a call from another hub");
            None
        }
    }
}
