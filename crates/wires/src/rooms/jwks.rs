//! The keys that issuers publish. They are fetched when a token needs them, and kept for an hour; while they are fetched, who
//! came with the token waits.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use convoke_gate::notices::address;
use convoke_kibitz::credential::Jwks;

use crate::Wires;

/// How long keys are taken without having been fetched again.
const KEEP: Duration = Duration::from_secs(3600);
/// After how long they are fetched again beside their use, so that a new key counts soon.
const FRESH: Duration = Duration::from_secs(300);
/// Between tries at one address.
const RETRY: Duration = Duration::from_secs(10);
/// How long an issuer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Largest set of keys.
const MAX_BYTES: usize = 256 * 1024;
/// Addresses that are remembered; beyond it the one goes that was asked for longest ago.
const MAX_ADDRESSES: usize = 1_024;

/// What the hub knows of issuers' keys, by address.
#[derive(Debug, Default)]
pub(super) struct Published(Mutex<HashMap<String, Entry>>);

#[derive(Debug, Default)]
struct Entry {
    keys: Option<(Arc<Jwks>, Duration)>,
    tried: Option<Duration>,
    asked: Duration,
}

impl Published {
    fn known(&self) -> MutexGuard<'_, HashMap<String, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The keys at an address, if they are known; where they are not, or are old, they are fetched.
    pub(super) fn keys(&self, hub: &Wires, address: &str) -> Option<Arc<Jwks>> {
        let now = hub.mono();
        let mut known = self.known();
        if known.len() >= MAX_ADDRESSES && !known.contains_key(address) {
            let oldest = known.iter().min_by_key(|(_, entry)| entry.asked).map(|(address, _)| address.clone());
            if let Some(oldest) = oldest {
                known.remove(&oldest);
            }
        }
        let entry = known.entry(address.to_owned()).or_default();
        entry.asked = now;
        let age = entry.keys.as_ref().map(|(_, at)| now.saturating_sub(*at));
        let is_due = entry.tried.is_none_or(|tried| now.saturating_sub(tried) >= RETRY);
        if is_due && age.is_none_or(|age| age >= FRESH) {
            entry.tried = Some(now);
            let (hub, address) = (hub.clone(), address.to_owned());
            tokio::spawn(async move {
                tokio::select! {
                    () = fetch(&hub, &address) => {}
                    () = hub.stopping.cancelled() => {}
                }
            });
        }
        entry.keys.as_ref().filter(|_| age.is_some_and(|age| age < KEEP)).map(|(keys, _)| Arc::clone(keys))
    }
}

async fn fetch(hub: &Wires, address: &str) {
    let fetched = tokio::time::timeout(PATIENCE, read(hub, address)).await;
    match fetched.unwrap_or_else(|_| Err("it took too long".into())) {
        Ok(keys) => {
            let keys = Some((Arc::new(keys), hub.mono()));
            if let Some(entry) = hub.rooms.published.known().get_mut(address) {
                entry.keys = keys;
            }
        }
        Err(why) => tracing::warn!(address, why, "cannot fetch an issuer's keys; its agents cannot enter rooms"),
    }
}

async fn read(hub: &Wires, address: &str) -> Result<Jwks, String> {
    let (http, url) = address::client(address, &hub.settings.rooms.jwks_hosts).await.map_err(|why| words(&why))?;
    let mut answer = http.get(url).send().await.map_err(|why| why.without_url().to_string())?;
    if !answer.status().is_success() {
        return Err(format!("it answered {}", answer.status().as_u16()));
    }
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(|why| why.without_url().to_string())? {
        if body.len() + chunk.len() > MAX_BYTES {
            return Err(format!("it answered with more than {MAX_BYTES} bytes"));
        }
        body.extend_from_slice(&chunk);
    }
    let keys = std::str::from_utf8(&body).ok().and_then(Jwks::read).ok_or("it answered with no JWK set")?;
    if keys.is_empty() { Err("it has no key for RS256 or ES256".into()) } else { Ok(keys) }
}

/// Why an address is not asked, in words for whoever set it.
pub(super) fn words(why: &address::Forbidden) -> String {
    use address::Forbidden::{Malformed, NotHttps, Private};
    match why {
        Malformed => "it is not an address of the form https://host/…".into(),
        NotHttps => "keys are fetched over https only; rooms.jwks_hosts can list the host".into(),
        Private(host) => format!("{host} is, or stands for, a private address; rooms.jwks_hosts can list it"),
        other => other.to_string(),
    }
}
