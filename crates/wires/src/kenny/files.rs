//! Files that are copied to and from machines: a link for each copy, over which whoever asked and the machine meet.
//!
//! Whoever asks makes a link and names it in a call of `file_get` or `file_put`. The link opens nothing: only when the call
//! goes out, the machine gets another, secret one, good once. Then the body of one request is the answer to the other.
//! Nothing is kept here, and the slower side sets the pace.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use convoke_core::call::code;
use convoke_core::id::TokenId;
use convoke_core::secret::{SecretText, TokenHash};
use convoke_core::time::Timestamp;
use convoke_gate::calls::Outgoing;
use convoke_gate::clock;
use convoke_gate::link::{Answer, Failure};
use futures_util::{StreamExt as _, stream};
use serde_json::value::to_raw_value;
use serde_json::{Map, Value};
use tokio::sync::{oneshot, watch};
use uuid::Uuid;

use crate::Wires;

/// Most links at once, and of one token.
const MAX_LINKS: usize = 512;
const MAX_OF_TOKEN: usize = 32;
/// How long whoever came first waits for the other side.
const MEET: Duration = Duration::from_secs(60);
/// How long a link lives beyond the time in which its call may wait for a person.
const SLACK: Duration = Duration::from_secs(600);
/// Where links lead.
const DOOR: &str = "/d/file/";

/// The links.
#[derive(Debug, Default)]
pub struct Transfers(Mutex<HashMap<Uuid, Arc<Transfer>>>);

/// One copy of a file.
#[derive(Debug)]
pub struct Transfer {
    id: Uuid,
    owner: TokenId,
    expires_at: Timestamp,
    /// Whether the machine has come.
    open: watch::Sender<bool>,
    /// What the machine shows, once its call is out.
    secret: Mutex<Option<TokenHash>>,
    ends: Mutex<Ends>,
}

/// Where both sides meet. Each is taken once.
#[derive(Debug)]
struct Ends {
    source: Option<oneshot::Sender<Source>>,
    sink: Option<oneshot::Receiver<Source>>,
}

/// A file on its way.
#[derive(Debug)]
pub struct Source {
    /// The bytes.
    pub body: Body,
    /// How many.
    pub size: u64,
    taken: oneshot::Sender<()>,
}

/// Why two sides did not meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoMeeting {
    /// Each side comes once.
    #[error("this link was used already")]
    Used,
    /// It took too long, or the call has ended.
    #[error("the other side did not come, or the call has ended")]
    Alone,
    /// Half a file.
    #[error("the other side went away before it had all of it")]
    BrokenOff,
}

/// Why there is no link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMany;

impl Transfers {
    fn list(&self) -> std::sync::MutexGuard<'_, HashMap<Uuid, Arc<Transfer>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, owner: TokenId, now: Timestamp, expires_at: Timestamp) -> Result<Arc<Transfer>, TooMany> {
        let mut list = self.list();
        list.retain(|_, link| now < link.expires_at || link.is_active());
        if list.len() >= MAX_LINKS || list.values().filter(|link| link.owner == owner).count() >= MAX_OF_TOKEN {
            return Err(TooMany);
        }
        let (source, sink) = oneshot::channel();
        let link = Arc::new(Transfer {
            id: clock::uuid(),
            owner,
            expires_at,
            open: watch::Sender::new(false),
            secret: Mutex::default(),
            ends: Mutex::new(Ends { source: Some(source), sink: Some(sink) }),
        });
        list.insert(link.id, Arc::clone(&link));
        Ok(link)
    }

    /// A caller's own link.
    pub fn own(&self, id: &str, owner: TokenId) -> Option<Arc<Transfer>> {
        self.list().get(&id.parse().ok()?).filter(|link| link.owner == owner).cloned()
    }

    /// The link that a machine shows: its id and its secret.
    pub fn shown(&self, text: &str) -> Option<Arc<Transfer>> {
        let (id, secret) = text.split_once('.')?;
        let link = self.list().get(&id.parse().ok()?).cloned()?;
        let known = *link.secret.lock().unwrap_or_else(PoisonError::into_inner);
        known.filter(|known| known.matches(&TokenHash::of(secret))).map(|_| link)
    }

    fn end(&self, id: Uuid) {
        if let Some(link) = self.list().remove(&id) {
            // Whoever waits for the other side learns that it does not come.
            *link.ends() = Ends { source: None, sink: None };
        }
    }
}

impl Transfer {
    fn ends(&self) -> std::sync::MutexGuard<'_, Ends> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_active(&self) -> bool {
        self.secret.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// The machine has come.
    pub fn come(&self) {
        self.open.send_replace(true);
    }

    /// Waits until the machine has come, at most for so long.
    pub async fn is_open(&self, patience: Duration) -> bool {
        let mut open = self.open.subscribe();
        tokio::time::timeout(patience, open.wait_for(|open| *open)).await.is_ok()
    }

    /// Gives the file to the other side, and waits until that has all of it.
    pub async fn give(&self, body: Body, size: u64) -> Result<(), NoMeeting> {
        let source = self.ends().source.take().ok_or(NoMeeting::Used)?;
        let (taken, all) = oneshot::channel();
        source.send(Source { body, size, taken }).map_err(|_| NoMeeting::Alone)?;
        all.await.map_err(|_| NoMeeting::BrokenOff)
    }

    /// Takes the file from the other side.
    pub async fn take(&self) -> Result<Source, NoMeeting> {
        let sink = self.ends().sink.take().ok_or(NoMeeting::Used)?;
        let source = tokio::time::timeout(MEET, sink).await;
        source.ok().and_then(Result::ok).ok_or(NoMeeting::Alone)
    }
}

impl Source {
    /// The body of an answer with the file in it.
    pub fn into_body(self) -> Body {
        let Self { body, size, taken } = self;
        let mut taken = Some(taken);
        if size == 0 {
            // Nobody asks for the end of a body of no bytes.
            let _ = taken.take().map(|taken| taken.send(()));
        }
        let state = (body.into_data_stream(), size, taken);
        Body::from_stream(stream::unfold(state, async |(mut body, left, mut taken)| {
            let piece = match body.next().await? {
                Ok(piece) => piece,
                Err(why) => return Some((Err(why), (body, left, taken))),
            };
            let left = left.saturating_sub(piece.len() as u64);
            if left == 0 {
                let _ = taken.take().map(|taken| taken.send(()));
            }
            Some((Ok(piece), (body, left, taken)))
        }))
    }
}

/// Makes a link for a caller, and answers its id, its address and when it lapses.
pub(super) fn make(hub: &Wires, owner: TokenId) -> Result<(Uuid, String, Timestamp), TooMany> {
    let now = clock::now();
    let expires_at = now.after(hub.settings.approvals.ttl_s.saturating_add(SLACK));
    let link = hub.transfers.add(owner, now, expires_at)?;
    Ok((link.id, format!("{}{DOOR}{}", hub.base_url(), link.id), expires_at))
}

/// The id of a link that this hub may have made.
pub(super) fn id_of(hub: &Wires, url: &str) -> Option<Uuid> {
    url.strip_prefix(&hub.base_url())?.strip_prefix(DOOR)?.parse().ok()
}

/// Sends the call with a link that the machine may use once.
pub(super) async fn send(hub: &Wires, call: &Outgoing<'_>) -> Answer {
    let gone = || Failure::new(code::EXPIRED, "the link of this call is no longer there; copy the file again");
    let mut args: Map<String, Value> = serde_json::from_str(call.args.get()).unwrap_or_default();
    let id = args.get("url").and_then(Value::as_str).and_then(|url| id_of(hub, url)).ok_or_else(gone)?;
    let link = hub.transfers.own(&id.to_string(), call.token.id).ok_or_else(gone)?;
    let secret: SecretText = clock::token("");
    {
        let mut known = link.secret.lock().unwrap_or_else(PoisonError::into_inner);
        if known.is_some() {
            return Err(gone());
        }
        *known = Some(secret.hash());
    }
    let _ended = Ended { hub, id };
    args.insert("url".into(), format!("{}{DOOR}{id}.{}", hub.base_url(), secret.reveal()).into());
    args.insert("timeout_s".into(), call.timeout.as_secs().max(1).into());
    let args = to_raw_value(&args).map_err(|why| Failure::new(code::INTERNAL, why.to_string()))?;
    call.through_link_as(hub, call.timeout, call.call.tool.clone(), args).await
}

/// Ends a link with its call.
struct Ended<'a> {
    hub: &'a Wires,
    id: Uuid,
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.hub.transfers.end(self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link() -> (Transfers, Arc<Transfer>) {
        let links = Transfers::default();
        let now = Timestamp::from_millis(0);
        let link = links.add(TokenId::new(Uuid::from_u128(1)), now, now.after(MEET)).expect("made");
        (links, link)
    }

    #[tokio::test]
    async fn both_sides_meet_whoever_comes_first_and_only_once() {
        let (_links, link) = link();
        let giving = tokio::spawn({
            let link = Arc::clone(&link);
            async move { link.give(Body::from("hello"), 5).await }
        });
        let body = link.take().await.expect("meets").into_body();
        let bytes = axum::body::to_bytes(body, 100).await.expect("reads");
        assert_eq!((&bytes[..], giving.await.expect("ends")), (&b"hello"[..], Ok(())));
        assert_eq!(link.give(Body::empty(), 0).await, Err(NoMeeting::Used));
        assert_eq!(link.take().await.expect_err("used"), NoMeeting::Used);
    }

    #[tokio::test]
    async fn who_waits_is_told_when_the_call_ends_or_the_other_side_goes() {
        let (links, link) = link();
        let taking = tokio::spawn({
            let link = Arc::clone(&link);
            async move { link.take().await.map(drop) }
        });
        tokio::task::yield_now().await;
        links.end(link.id);
        assert_eq!(taking.await.expect("ends"), Err(NoMeeting::Alone));
        let (_links, link) = self::link();
        let giving = tokio::spawn({
            let link = Arc::clone(&link);
            async move { link.give(Body::from("hello"), 5).await }
        });
        drop(link.take().await.expect("meets"));
        assert_eq!(giving.await.expect("ends"), Err(NoMeeting::BrokenOff));
    }

    #[test]
    fn links_are_their_owners_lapse_and_are_few() {
        let (links, link) = link();
        let (owner, other) = (link.owner, TokenId::new(Uuid::from_u128(2)));
        assert!(links.own(&link.id.to_string(), owner).is_some() && links.own(&link.id.to_string(), other).is_none());
        assert!(links.shown(&format!("{}.", link.id)).is_none(), "before its call goes out it opens nothing");
        *link.secret.lock().expect("not poisoned") = Some(TokenHash::of("secret"));
        assert!(links.shown(&format!("{}.secret", link.id)).is_some());
        assert!(links.shown(&format!("{}.other", link.id)).is_none());
        let at = Timestamp::from_millis;
        for _ in 1..MAX_OF_TOKEN {
            assert!(links.add(owner, at(0), at(10)).is_ok());
        }
        assert_eq!(links.add(owner, at(0), at(10)).expect_err("too many"), TooMany);
        assert!(links.add(other, at(0), at(10)).is_ok());
        assert!(links.add(owner, at(10), at(20)).is_ok(), "those before have lapsed");
    }
}
