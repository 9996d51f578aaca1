//! Notices: telling people, where they asked to be told, that something waits for them. A notice carries a handle and where to
//! open it, never arguments; it decides nothing. What was handed to a channel is noted first, so that a restart repeats
//! nothing. A channel that does not answer is tried less and less, in a task of its own: nobody else waits for it.

pub mod address;
pub mod push;

use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use convoke_core::approval::ApprovalState;
use convoke_core::event::{Event, FindingSource, PairingState, UserEvent};
use convoke_core::grant::Right;
use convoke_core::health::Status;
use convoke_core::id::{ChannelId, TokenId};
use convoke_core::journal::{Draft, Kind};
use convoke_core::redact::clean_text;
use convoke_core::secret::SecretBytes;
use convoke_core::time::Timestamp;
use convoke_store::{ChannelRow, StoreError};
use reqwest::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::calls;
use crate::clock;
use crate::events::is_visible;
use crate::hub::{Hub, hmac_sha256};
use crate::operators::Token;

/// Most channels of one person.
pub const MAX_CHANNELS: usize = 10;
/// Notices that wait for one channel; more are dropped.
const WAITING: usize = 20;
/// How long one attempt may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// After which pauses a notice is tried again.
const AGAIN: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(15)];
/// A channel that failed so often in a row is dead: it is tried once in [`REST`].
const DEAD: u32 = 3;
const REST: Duration = Duration::from_secs(600);
/// Most approvals that are looked at when the hub starts, or has missed something.
const LOOKED_AT: u32 = 1_000;
/// The secret under which the key of web push is kept.
const VAPID_KEY: &str = "vapid_key";

/// Where a channel goes.
#[derive(Clone, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Target {
    /// A browser's push service.
    Push(push::Subscription),
    /// A topic of an ntfy server.
    Ntfy {
        /// The topic's address.
        url: String,
        /// An access token, where the topic needs one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        token: Option<String>,
    },
    /// An address that takes a JSON body.
    Webhook {
        /// The address.
        url: String,
        /// Signs the body (`X-Convoke-Signature: sha256=…`), where it is there.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        secret: Option<String>,
    },
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The address of a channel lets anyone write to it.
        write!(f, "Target({})", self.kind())
    }
}

impl Target {
    /// `push`, `ntfy` or `webhook`.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Push(_) => "push",
            Self::Ntfy { .. } => "ntfy",
            Self::Webhook { .. } => "webhook",
        }
    }

    /// The address.
    pub fn url(&self) -> &str {
        match self {
            Self::Push(subscription) => &subscription.endpoint,
            Self::Ntfy { url, .. } | Self::Webhook { url, .. } => url,
        }
    }
}

/// One thing to be told.
#[derive(Clone, Debug, Serialize)]
pub struct Notice {
    /// `approval`, `pairing`, `finding` or `test`.
    pub kind: &'static str,
    /// Names what it is about: once per channel.
    pub handle: String,
    /// In a few words.
    pub title: String,
    /// In a sentence.
    pub text: String,
    /// Where it is decided.
    pub url: String,
}

/// A channel at work.
#[derive(Debug)]
pub struct Channel {
    /// As it is kept.
    pub row: ChannelRow,
    /// Where it goes.
    pub target: Target,
    queue: mpsc::Sender<Notice>,
    gone: CancellationToken,
    health: Mutex<Health>,
}

/// How a channel does.
#[derive(Clone, Debug, Default)]
pub struct Health {
    /// How often in a row it failed.
    pub failures: u32,
    /// Why it failed last.
    pub error: Option<String>,
    /// When it was tried last.
    pub at: Option<Timestamp>,
}

impl Channel {
    /// How it does.
    pub fn health(&self) -> Health {
        self.health.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// All channels.
#[derive(Debug, Default)]
pub struct Notices {
    channels: RwLock<Vec<Arc<Channel>>>,
    vapid: OnceLock<push::Vapid>,
    /// The turn of one who changes them.
    pub turn: tokio::sync::Mutex<()>,
}

/// Why a notice was not delivered.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    /// It may not go there.
    #[error(transparent)]
    Address(#[from] address::Forbidden),
    /// Nobody answers, or not in time.
    #[error("no answer: {0}")]
    NoAnswer(String),
    /// It is refused there.
    #[error("the answer was {0}")]
    Status(u16),
    /// The browser, or whoever uses it, has ended its subscription.
    #[error("its push service does not know this browser any more, so it was removed")]
    Gone,
    /// A subscription that is no good.
    #[error(transparent)]
    Push(#[from] push::BadSubscription),
}

impl Notices {
    /// All channels, oldest first.
    pub fn list(&self) -> Vec<Arc<Channel>> {
        self.channels.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A channel by id.
    pub fn find(&self, id: ChannelId) -> Option<Arc<Channel>> {
        self.list().into_iter().find(|channel| channel.row.id == id)
    }

    /// The public half of the key that push services know this hub by.
    pub fn public_key(&self) -> Option<String> {
        self.vapid.get().map(push::Vapid::public_key)
    }

    /// A channel is kept: it is in use from now on.
    pub fn put(&self, hub: &Hub, row: ChannelRow, target: Target) -> Arc<Channel> {
        let (queue, waiting) = mpsc::channel(WAITING);
        let (gone, health) = (CancellationToken::new(), Mutex::default());
        let channel = Arc::new(Channel { row, target, queue, gone, health });
        self.channels.write().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&channel));
        tokio::spawn(work(hub.clone(), Arc::clone(&channel), waiting));
        channel
    }

    /// A channel is no more: what waits for it is not sent.
    pub fn remove(&self, id: ChannelId) {
        self.remove_those(|channel| channel.row.id == id);
    }

    /// A user is no more.
    pub fn forget(&self, user: TokenId) {
        self.remove_those(|channel| channel.row.user == user);
    }

    fn remove_those(&self, which: impl Fn(&Channel) -> bool) {
        self.channels.write().unwrap_or_else(PoisonError::into_inner).retain(|channel| {
            let goes = which(channel);
            if goes {
                channel.gone.cancel();
            }
            !goes
        });
    }
}

/// Starts what was kept.
pub async fn load(hub: &Hub) -> Result<(), StoreError> {
    let kept = hub.store.secret(VAPID_KEY).await?;
    let vapid = match kept.and_then(|key| push::Vapid::read(key.reveal())) {
        Some(vapid) => Some(vapid),
        None => {
            let made = push::Vapid::make();
            if let Some((_, document)) = &made {
                hub.store.put_secret(VAPID_KEY, &SecretBytes::new(document.as_slice())).await?;
            }
            made.map(|(vapid, _)| vapid)
        }
    };
    if let Some(vapid) = vapid {
        let _ = hub.notices.vapid.set(vapid);
    }
    for row in hub.store.channels().await? {
        match serde_json::from_slice(row.target.reveal()) {
            Ok(target) => drop(hub.notices.put(hub, row, target)),
            Err(why) => tracing::error!(channel = %row.id, %why, "ignoring a notice channel that cannot be read"),
        }
    }
    Ok(())
}

/// Tells people what waits for them, until the hub stops.
pub async fn run(hub: Hub) {
    let mut events = hub.events.subscribe();
    catch_up(&hub).await;
    loop {
        let next = tokio::select! {
            next = events.next(&hub.events) => next,
            () = hub.stopping.cancelled() => return,
        };
        match next {
            Ok(published) => about(&hub, &published.event).await,
            // It fell behind: what still waits is found in the store.
            Err(_) => catch_up(&hub).await,
        }
    }
}

/// Looks for what waits and was not told yet.
async fn catch_up(hub: &Hub) {
    if hub.notices.list().is_empty() {
        return;
    }
    match hub.store.approvals(Some(ApprovalState::Pending), None, LOOKED_AT).await {
        Ok(rows) => {
            for (approval, row) in rows {
                let who = |user: &Token| calls::may_decide_as(hub, user, true, &approval, &row);
                tell(hub, &approval_notice(hub, &approval.id.to_string(), &row), who).await;
            }
        }
        Err(why) => tracing::error!(%why, "cannot look for approvals that nobody was told of"),
    }
}

fn approval_notice(hub: &Hub, id: &str, row: &convoke_store::CallRow) -> Notice {
    let asker = hub.operators.find(row.caller).map_or_else(|| "somebody".to_owned(), |token| token.name.clone());
    Notice {
        kind: "approval",
        handle: format!("approval:{id}"),
        title: "A call waits for your answer".into(),
        text: format!("{} asks for {} on {}", clean_text(&asker), clean_text(&row.tool), row.target),
        url: format!("{}/approvals/{id}", hub.page_url()),
    }
}

async fn about(hub: &Hub, event: &Event) {
    if hub.notices.list().is_empty() {
        return;
    }
    match event {
        Event::Approval(event) if event.state == ApprovalState::Pending => {
            let found = hub.store.approval(event.id).await;
            let Ok(Some((approval, row))) = found else { return };
            let who = |user: &Token| calls::may_decide_as(hub, user, true, &approval, &row);
            tell(hub, &approval_notice(hub, &event.id.to_string(), &row), who).await;
        }
        Event::Pairing(pairing) if pairing.state == PairingState::Pending => {
            // A client that asks again within the hour is the same news.
            let hour = clock::now().millis() / 3_600_000;
            let notice = Notice {
                kind: "pairing",
                handle: format!("pairing:{}:{hour}", pairing.identifier),
                title: "A client asks to be paired".into(),
                text: format!("{} asks to be paired", clean_text(&pairing.identifier)),
                url: format!("{}/", hub.page_url()),
            };
            tell(hub, &notice, |user| user.grant.check(Right::Trust).is_ok() && is_visible(hub, user, event)).await;
        }
        Event::Finding(finding) if finding.status == Status::Crit => {
            let what = match finding.source {
                FindingSource::Health => "is critical",
                FindingSource::Runbook => "found something critical",
            };
            let notice = Notice {
                kind: "finding",
                handle: format!("finding:{}:{}:{}", finding.agent, finding.subject, finding.at.millis()),
                title: format!("{} needs a look", finding.agent),
                text: format!("{}: {} {what}", finding.agent, clean_text(&finding.subject)),
                url: match finding.run {
                    Some(run) => format!("{}/probes/runs/{run}", hub.page_url()),
                    None => format!("{}/machines/{}", hub.page_url(), finding.agent),
                },
            };
            tell(hub, &notice, |user| is_visible(hub, user, event)).await;
        }
        _ => {}
    }
}

/// Hands a notice to the channels of those it concerns.
async fn tell(hub: &Hub, notice: &Notice, concerns: impl Fn(&Token) -> bool) {
    for channel in hub.notices.list() {
        let Some(user) = hub.operators.people.user(channel.row.user) else { continue };
        if !concerns(&user.principal) {
            continue;
        }
        match hub.store.claim_notice(channel.row.id, &notice.handle, clock::now()).await {
            Ok(true) => {
                if channel.queue.try_send(notice.clone()).is_err() {
                    tracing::warn!(channel = %channel.row.id, "a notice channel is too slow; a notice is dropped");
                }
            }
            Ok(false) => {}
            Err(why) => tracing::error!(%why, "cannot note that somebody is told; nobody is"),
        }
    }
}

/// Sends what comes to one channel, until it or the hub is gone.
async fn work(hub: Hub, channel: Arc<Channel>, mut waiting: mpsc::Receiver<Notice>) {
    let sending = async {
        while let Some(notice) = waiting.recv().await {
            send(&hub, &channel, &notice).await;
        }
    };
    tokio::select! {
        () = sending => {}
        () = channel.gone.cancelled() => {}
        () = hub.stopping.cancelled() => {}
    }
}

async fn send(hub: &Hub, channel: &Channel, notice: &Notice) {
    let health = channel.health();
    let is_dead = health.failures >= DEAD;
    if is_dead && health.at.is_some_and(|at| clock::now() < at.after(REST)) {
        return;
    }
    let pauses = if is_dead { &[][..] } else { &AGAIN[..] };
    let mut pauses = pauses.iter();
    loop {
        let why = match try_once(hub, channel, notice).await {
            Ok(()) => return,
            Err(why) => why,
        };
        let Some(pause) = pauses.next() else {
            tracing::warn!(channel = %channel.row.id, kind = channel.target.kind(), %why, "a notice was not delivered");
            return;
        };
        tokio::time::sleep(*pause).await;
    }
}

/// Sends a notice once, and notes how the channel does.
pub async fn try_once(hub: &Hub, channel: &Channel, notice: &Notice) -> Result<(), Failed> {
    let outcome = tokio::time::timeout(PATIENCE, deliver(hub, &channel.target, notice)).await;
    let outcome = outcome.unwrap_or_else(|_| Err(Failed::NoAnswer("it took too long".into())));
    if matches!(outcome, Err(Failed::Gone)) {
        forget_gone(hub, channel).await;
    }
    let mut health = channel.health.lock().unwrap_or_else(PoisonError::into_inner);
    health.at = Some(clock::now());
    match &outcome {
        Ok(()) => (health.failures, health.error) = (0, None),
        Err(why) => {
            health.failures = health.failures.saturating_add(1);
            health.error = Some(why.to_string());
        }
    }
    outcome
}

/// Removes a browser that its push service knows no longer: nothing sent there would ever arrive.
async fn forget_gone(hub: &Hub, channel: &Channel) {
    let user = hub.operators.people.user(channel.row.user).map(|user| user.principal.name.clone());
    let what = "notices ended";
    let mut record = Draft::new(clock::now(), Kind::User).detail(&json!({
        "what": what, "user": user, "channel": channel.row.id, "kind": channel.row.kind, "name": channel.row.name,
    }));
    record.who = Some("hub".into());
    if let Err(why) = hub.store.remove_channel(channel.row.id, record).await {
        tracing::error!(%why, channel = %channel.row.id, "cannot remove a notice channel that is gone");
        return;
    }
    // Only now: this ends the task that may be waiting here.
    hub.notices.remove(channel.row.id);
    if let Some(user) = user {
        hub.events.publish(Event::User(UserEvent { user, what: what.into() }));
    }
}

async fn deliver(hub: &Hub, target: &Target, notice: &Notice) -> Result<(), Failed> {
    let (http, url) = address::client(target.url(), &hub.settings.notices.allow_hosts).await?;
    let body = json!({
        "kind": notice.kind, "handle": notice.handle, "title": notice.title, "text": notice.text, "url": notice.url,
    });
    let body = body.to_string();
    let request = match target {
        Target::Push(subscription) => {
            let Some(vapid) = hub.notices.vapid.get() else { return Err(push::BadSubscription.into()) };
            let sealed = push::seal(subscription, body.as_bytes())?;
            let contact = hub.settings.hub.public_url.as_deref();
            let signed = vapid.authorization(&url, contact, clock::now()).ok_or(push::BadSubscription)?;
            http.post(url)
                .header(AUTHORIZATION, signed)
                .header(CONTENT_ENCODING, "aes128gcm")
                .header(CONTENT_TYPE, "application/octet-stream")
                .header("ttl", "900")
                .header("urgency", "high")
                .body(sealed)
        }
        Target::Ntfy { token, .. } => {
            let request = http.post(url).header("title", ascii(&notice.title)).header("click", ascii(&notice.url));
            let request = request.header("tags", notice.kind).body(notice.text.clone());
            match token {
                Some(token) => request.bearer_auth(token),
                None => request,
            }
        }
        Target::Webhook { secret, .. } => {
            let request = http.post(url).header(CONTENT_TYPE, "application/json");
            let request = match secret {
                Some(secret) => {
                    use hmac::Mac as _;
                    let digest = hmac_sha256(secret.as_bytes()).chain_update(body.as_bytes()).finalize();
                    request.header("x-convoke-signature", format!("sha256={}", hex::encode(digest.into_bytes())))
                }
                None => request,
            };
            request.body(body)
        }
    };
    let answer = request.send().await.map_err(|why| Failed::NoAnswer(without_address(&why)))?;
    match answer.status().as_u16() {
        200..=299 => Ok(()),
        // RFC 8030, section 7.3: the subscription has ended.
        404 | 410 if matches!(target, Target::Push(_)) => Err(Failed::Gone),
        status => Err(Failed::Status(status)),
    }
}

/// A header takes nothing else.
fn ascii(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' }).collect()
}

/// The address of a channel is a secret of its user's.
fn without_address(why: &reqwest::Error) -> String {
    if why.is_timeout() {
        "it took too long".into()
    } else if why.is_connect() {
        "it cannot be reached".into()
    } else {
        "the connection broke".into()
    }
}
