//! The hub's side of the bridge: Streamable HTTP.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use convoke_api::ClientError;
use convoke_core::secret::SecretText;
use convoke_sse::{Decoder, TooLong};
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt as _, StreamExt as _};
use reqwest::header::HeaderValue;
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::questions::{Answer, Questions};
use crate::connect::{self, HubLocation, NoHub};

/// What the hub says in one reply.
type Events = BoxStream<'static, Event>;

/// One thing that it says.
struct Event {
    /// From where its stream can be resumed.
    id: Option<HeaderValue>,
    /// A message; empty if this is only a place to resume from.
    text: String,
    /// Nothing more comes: the connection broke, and the hub may have more to say.
    is_cut: bool,
}

/// The door.
const MCP: &str = "/mcp";
/// Where a request says which revision it speaks.
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const SUBSCRIBE: &str = "resources/subscribe";
const UNSUBSCRIBE: &str = "resources/unsubscribe";
/// Pauses before the hub's own stream is opened again; the last over and over.
const PAUSES: [Duration; 5] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(30),
];
/// A hub that answers so has no such stream for us. Any other refusal may pass: a token is refused for a while where
/// somebody else guesses at the same address (429).
const NO_SUCH_STREAM: [StatusCode; 5] = [
    StatusCode::BAD_REQUEST,
    StatusCode::UNAUTHORIZED,
    StatusCode::FORBIDDEN,
    StatusCode::METHOD_NOT_ALLOWED,
    StatusCode::NOT_ACCEPTABLE,
];
/// A stream that ends sooner than this without a word was not cut off.
const OVER_WITHIN: Duration = Duration::from_secs(1);
/// Pauses before it is tried to go on with a stream that broke.
const RESUME_PAUSES: [Duration; 6] = [
    Duration::ZERO,
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(3),
    Duration::from_secs(6),
];
/// How long a hub may take to go on with a stream that broke.
const RESUMES: Duration = Duration::from_secs(10);

/// Longest event of the hub's: more than the largest picture it shows.
const MAX_EVENT: usize = 64 * 1024 * 1024;
/// Subscriptions that are asked for again in a new session; the hub takes no more for one.
const MAX_SUBSCRIBED: usize = 100;

/// The hub.
pub(super) struct Hub {
    http: reqwest::Client,
    location: HubLocation,
    token: SecretText,
    out: mpsc::Sender<String>,
    session: Mutex<Option<Arc<Session>>>,
    /// Held while a session is opened again: of many requests that find it gone, one does it.
    renewing: tokio::sync::Mutex<()>,
    /// What the client wants to hear of: a new session starts without.
    subscribed: Mutex<BTreeSet<String>>,
    questions: Questions,
    pub(super) pauses: [Duration; 5],
    pub(super) over_within: Duration,
    pub(super) resume_pauses: [Duration; 6],
}

/// A session of a client that opens one.
struct Session {
    id: String,
    version: String,
    /// How it was opened, so that it can be opened again when the hub has forgotten it.
    opening: Value,
    listening: tokio::task::AbortHandle,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

/// Why a message did not get through, for the client's log.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    #[error(transparent)]
    Away(ClientError),
    #[error(transparent)]
    Nowhere(#[from] NoHub),
    #[error("the hub at {url} refuses this token; give another with CONVOKE_TOKEN or --token")]
    Token { url: String },
    #[error("the hub refused the message ({status}): {said}")]
    Refused { status: u16, said: String },
    #[error("lost the hub before it answered; the request may have been carried out")]
    Lost,
    #[error("the token was revoked or has expired; the request may have been carried out")]
    Revoked,
    #[error("the session has ended and the hub opens no other; restart the client")]
    SessionEnded,
}

impl Trouble {
    /// Codes of JSON-RPC's range for servers.
    pub(super) fn code(&self) -> i64 {
        match self {
            Self::Away(_) | Self::Nowhere(_) | Self::Lost => -32000,
            Self::Token { .. } | Self::Revoked => -32001,
            Self::Refused { .. } => -32002,
            Self::SessionEnded => -32004,
        }
    }
}

impl Hub {
    pub(super) fn new(
        base: &str,
        location: HubLocation,
        token: SecretText,
        out: mpsc::Sender<String>,
    ) -> Result<Self> {
        let mut http = reqwest::Client::builder().connect_timeout(Duration::from_secs(10)).no_proxy();
        if let Some(tls) = connect::tls(base)? {
            http = http.tls_backend_preconfigured(tls);
        }
        let http = http.build().context("cannot make an HTTP client")?;
        Ok(Self {
            http,
            location,
            token,
            out,
            session: Mutex::default(),
            renewing: tokio::sync::Mutex::default(),
            subscribed: Mutex::default(),
            questions: Questions::default(),
            pauses: PAUSES,
            over_within: OVER_WITHIN,
            resume_pauses: RESUME_PAUSES,
        })
    }

    fn session(&self) -> Option<Arc<Session>> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn has_session(&self) -> bool {
        self.session().is_some()
    }

    /// Resolves when the client no longer reads.
    pub(super) fn closed(&self) -> impl Future<Output = ()> + use<> {
        let out = self.out.clone();
        async move { out.closed().await }
    }

    /// A message for the client. JSON has line breaks only between its parts, where a space does as well.
    pub(super) async fn say(&self, message: String) {
        if message.is_empty() {
            return;
        }
        let message = if message.contains(['\n', '\r']) { message.replace(['\n', '\r'], " ") } else { message };
        let _ = self.out.send(message).await;
    }

    /// A message of the hub's, said in this session if in any.
    async fn pass_on(&self, session: Option<&str>, text: String) {
        let text = match session {
            Some(session) => self.questions.pass(session, text),
            None => text,
        };
        self.say(text).await;
    }

    /// Begins a request, if there is somebody to whom it may go.
    fn begin(&self, method: Method, path: &str) -> Result<RequestBuilder, NoHub> {
        let url = format!("{}{path}", self.location.base()?);
        Ok(self.http.request(method, url).bearer_auth(self.token.reveal()))
    }

    fn start(&self, method: Method, session: Option<&Session>) -> Result<RequestBuilder, NoHub> {
        let mut request = self.begin(method, MCP)?;
        if let Some(session) = session {
            request = request.header("mcp-session-id", &session.id).header("mcp-protocol-version", &session.version);
        }
        Ok(request)
    }

    async fn post(&self, message: &Value, session: Option<&Session>) -> Result<Response, Trouble> {
        let version = revision(message);
        // A request that says its own revision stands for itself, session or not.
        let mut request = self.start(Method::POST, session.filter(|_| version.is_none()))?;
        if let Some(version) = version {
            request = request.header("mcp-protocol-version", version);
            request = request.header("mcp-method", message["method"].as_str().unwrap_or_default());
            let name = message.pointer("/params/name").or_else(|| message.pointer("/params/uri"));
            if let Some(name) = name.and_then(Value::as_str) {
                request = request.header("mcp-name", header_text(name));
            }
        }
        let request = request.header("accept", "application/json, text/event-stream").json(message);
        request.send().await.map_err(|why| self.away(&why))
    }

    fn away(&self, why: &reqwest::Error) -> Trouble {
        let url = why.url().map(ToString::to_string).unwrap_or_default();
        Trouble::Away(ClientError::of(&url, why))
    }

    /// Opens the client's session: its answer says which.
    pub(super) async fn initialize(self: &Arc<Self>, message: &Value) -> Result<(), Trouble> {
        let answer = self.open(message).await?;
        self.say(answer.to_string()).await;
        Ok(())
    }

    async fn open(self: &Arc<Self>, message: &Value) -> Result<Value, Trouble> {
        let reply = self.post(message, None).await?;
        let id = reply.headers().get("mcp-session-id").and_then(|v| v.to_str().ok()).map(str::to_owned);
        let answer = self.answer(reply, id.as_deref()).await?;
        if let (Some(id), Some(version)) = (id, answer["result"]["protocolVersion"].as_str()) {
            let listening = tokio::spawn(Arc::clone(self).listen(id.clone(), version.to_owned())).abort_handle();
            let session = Session { id, version: version.to_owned(), opening: message.clone(), listening };
            *self.session.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(session));
        }
        Ok(answer)
    }

    /// The one message that answers a request, of a reply that may be a stream.
    async fn answer(&self, reply: Response, session: Option<&str>) -> Result<Value, Trouble> {
        let mut events = self.read(reply).await?;
        while let Some(Event { text, .. }) = events.next().await {
            match serde_json::from_str::<Value>(&text) {
                Ok(message) if message.get("method").is_none() => return Ok(message),
                _ => self.pass_on(session, text).await,
            }
        }
        Err(Trouble::Lost)
    }

    /// A request: its answer, if it is `wanted` when it comes, and whatever the hub says on the way. `taken` hears when the
    /// hub has it, and says what the hub must be told of it then.
    pub(super) async fn request(
        self: &Arc<Self>,
        message: &Value,
        wanted: impl Fn() -> bool,
        taken: impl FnOnce() -> Option<Value>,
    ) -> Result<(), Trouble> {
        let reply = self.ask(message).await;
        // Also where the reply was lost: the request may have come through.
        if let Some(word) = taken()
            && let Err(trouble) = self.notify(&word).await
        {
            eprintln!("convoke mcp: {trouble}");
        }
        let (reply, session) = reply?;
        let mut events = self.read(reply).await?;
        let mut last = None;
        let mut pauses = self.resume_pauses.iter();
        loop {
            let (mut answered, mut more, mut news, begun) = (false, false, false, Instant::now());
            while let Some(Event { id, text, is_cut }) = events.next().await {
                more |= is_cut || id.is_some();
                news |= !text.is_empty() || (id.is_some() && id != last);
                last = id.or(last);
                if is_answer(&text) {
                    answered = true;
                    self.note_subscription(message, &text);
                    if !wanted() {
                        continue;
                    }
                }
                self.pass_on(session.as_ref().map(|session| session.id.as_str()), text).await;
            }
            if answered || !wanted() {
                return Ok(());
            }
            // The hub goes on though the connection broke, and a call may be silent for longer than what stands between lets
            // a connection be. A stream that ends in order, at once, and brings nothing has nothing more to say.
            let at_once = begun.elapsed() < self.over_within;
            // One that is cut off at once, over and over, and brings nothing new is not asked for without end.
            if news || !at_once {
                pauses = self.resume_pauses.iter();
            }
            let is_over = !more && at_once;
            match self.resumed(session.as_deref(), last.clone().filter(|_| !is_over), &mut pauses).await {
                Some(rest) => events = rest,
                None => return Err(if self.is_refused().await { Trouble::Revoked } else { Trouble::Lost }),
            }
        }
    }

    /// What follows that event. Tried for a while, with what is left of the pauses: what broke one connection may refuse the
    /// next few.
    async fn resumed(
        &self,
        session: Option<&Session>,
        last: Option<HeaderValue>,
        pauses: &mut std::slice::Iter<'_, Duration>,
    ) -> Option<Events> {
        let (Session { id, version, .. }, last) = (session?, last?);
        for pause in pauses {
            tokio::time::sleep(*pause).await;
            let Ok(asked) = self.listening(id, version, Some(&last)) else { continue };
            match tokio::time::timeout(RESUMES, asked.send()).await {
                Ok(Ok(reply)) if reply.status().is_success() => return self.read(reply).await.ok(),
                // What stands before the hub may say that it is not there.
                Ok(Ok(reply)) if !reply.status().is_server_error() => return None,
                _ => {}
            }
        }
        None
    }

    /// Sends a request, in a new session if the hub has forgotten this one. The session that it was sent in, if any.
    async fn ask(self: &Arc<Self>, message: &Value) -> Result<(Response, Option<Arc<Session>>), Trouble> {
        let session = self.session().filter(|_| revision(message).is_none());
        let reply = self.post(message, session.as_deref()).await?;
        match (reply.status(), session) {
            (StatusCode::NOT_FOUND, Some(ended)) => {
                // A hub that was restarted has forgotten its sessions. What was selected in it is gone, so a call that
                // relied on that is refused, not sent elsewhere.
                let session = self.renew(&ended.id).await?;
                Ok((self.post(message, Some(&session)).await?, Some(session)))
            }
            (_, session) => Ok((reply, session)),
        }
    }

    /// Whether the hub is there and does not take the token: it may have been revoked since. A token for assistants is
    /// good at `/mcp` alone.
    async fn is_refused(&self) -> bool {
        let Ok(asked) = self.begin(Method::HEAD, "/mcp") else { return false };
        let reply = asked.timeout(Duration::from_secs(2)).send().await;
        reply.is_ok_and(|reply| reply.status() == StatusCode::UNAUTHORIZED)
    }

    /// Opens a session in place of one that the hub has forgotten, and asks again for what the client subscribed to.
    async fn renew(self: &Arc<Self>, ended: &str) -> Result<Arc<Session>, Trouble> {
        let _one_at_a_time = self.renewing.lock().await;
        let session = self.session().ok_or(Trouble::SessionEnded)?;
        if session.id != ended {
            return Ok(session);
        }
        self.open(&session.opening).await?;
        let session = self.session().filter(|session| session.id != ended).ok_or(Trouble::SessionEnded)?;
        // Nobody waits for an answer to these any more.
        for cancelled in self.questions.end_all_but(&session.id) {
            self.say(cancelled).await;
        }
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        self.post(&ready, Some(&session)).await?;
        let uris: Vec<_> = self.subscribed().iter().cloned().collect();
        for uri in uris {
            // The client has its answer already; what the hub says to this one is ours to hear.
            let again = json!({ "jsonrpc": "2.0", "id": format!("renew {uri}"), "method": SUBSCRIBE, "params": { "uri": uri } });
            let reply = self.post(&again, Some(&session)).await?;
            if let Ok(answer) = self.answer(reply, Some(&session.id)).await
                && !answer["error"].is_null()
            {
                eprintln!("convoke mcp: the hub ended the subscription to {uri}: {}", answer["error"]["message"]);
                self.subscribed().remove(&uri);
            }
        }
        Ok(session)
    }

    fn subscribed(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.subscribed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps in mind what the client subscribed to, once the hub has said yes.
    fn note_subscription(&self, request: &Value, answer: &str) {
        let method = request["method"].as_str();
        let Some(uri) =
            request["params"]["uri"].as_str().filter(|_| method == Some(SUBSCRIBE) || method == Some(UNSUBSCRIBE))
        else {
            return;
        };
        let taken = serde_json::from_str::<Value>(answer).is_ok_and(|answer| answer["error"].is_null());
        let mut subscribed = self.subscribed();
        if method == Some(UNSUBSCRIBE) {
            subscribed.remove(uri);
        } else if taken && subscribed.len() < MAX_SUBSCRIBED {
            subscribed.insert(uri.to_owned());
        }
    }

    /// A notification, or an answer to a question of the hub's.
    pub(super) async fn notify(&self, message: &Value) -> Result<(), Trouble> {
        let session = self.session();
        let id = session.as_ref().map(|session| session.id.as_str());
        let answer = match self.questions.answer(id, message) {
            Answer::To(answer) => Some(answer),
            Answer::None => None,
            Answer::Late => {
                eprintln!("convoke mcp: dropped an answer: its question has been withdrawn");
                return Ok(());
            }
        };
        let reply = self.post(answer.as_ref().unwrap_or(message), session.as_deref()).await?;
        let mut events = self.read(reply).await?;
        while let Some(Event { text, .. }) = events.next().await {
            self.pass_on(id, text).await;
        }
        Ok(())
    }

    /// Reads what the hub says: nothing, one message, or a stream of them.
    async fn read(&self, reply: Response) -> Result<Events, Trouble> {
        let (status, url) = (reply.status(), reply.url().to_string());
        let kind = reply.headers().get("content-type").and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned();
        if status.is_success() && kind.starts_with("text/event-stream") {
            return Ok(events(reply));
        }
        let text = reply.text().await.map_err(|why| self.away(&why))?;
        if status == StatusCode::UNAUTHORIZED {
            return Err(Trouble::Token { url });
        }
        // An error of the protocol is the client's to read, whatever its status.
        let is_message = kind.starts_with("application/json")
            && serde_json::from_str::<Value>(&text).is_ok_and(|v| v["jsonrpc"] == "2.0");
        if is_message {
            return Ok(stream::iter([Event { id: None, text, is_cut: false }]).boxed());
        }
        if status.is_success() {
            return Ok(stream::empty().boxed());
        }
        let said = serde_json::from_str::<Value>(&text).ok();
        let said = said.and_then(|v| v["error"]["message"].as_str().map(str::to_owned));
        let said = said.unwrap_or_else(|| text.chars().take(300).collect());
        Err(Trouble::Refused { status: status.as_u16(), said })
    }

    /// The request for a stream: of what the hub says unasked, or of what follows an event.
    fn listening(&self, id: &str, version: &str, last: Option<&HeaderValue>) -> Result<RequestBuilder, NoHub> {
        let mut request = self.begin(Method::GET, MCP)?;
        request = request.header("mcp-session-id", id).header("mcp-protocol-version", version);
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        Ok(request.header("accept", "text/event-stream"))
    }

    /// The stream of what the hub says unasked; opened again when it breaks, in a new session if the hub has forgotten
    /// this one. (A boxed future: it opens a session, and a session starts it.)
    fn listen(self: Arc<Self>, id: String, version: String) -> BoxFuture<'static, ()> {
        let listening = async move {
            // What the hub said while it had not noticed yet that the stream was dead comes after this.
            let mut last: Option<HeaderValue> = None;
            let mut tries = 0;
            loop {
                let asked = async { self.listening(&id, &version, last.as_ref()).ok()?.send().await.ok() };
                match asked.await {
                    Some(reply) if reply.status().is_success() => {
                        let mut events = self.read(reply).await.unwrap_or_else(|_| stream::empty().boxed());
                        while let Some(Event { id: event, text, .. }) = events.next().await {
                            tries = 0;
                            last = event.or(last);
                            self.pass_on(Some(&id), text).await;
                        }
                    }
                    Some(reply) if reply.status() == StatusCode::NOT_FOUND => {
                        // Opening another ends this one, and this task with it: so another task does it.
                        let (hub, ended) = (Arc::clone(&self), id.clone());
                        if let Ok(Ok(_)) = tokio::spawn(async move { hub.renew(&ended).await }).await {
                            return;
                        }
                    }
                    Some(reply) if NO_SUCH_STREAM.contains(&reply.status()) => return,
                    _ => {}
                }
                tokio::time::sleep(self.pauses[tries]).await;
                tries = (tries + 1).min(self.pauses.len() - 1);
            }
        };
        listening.boxed()
    }

    /// The client is done: so is its session.
    pub(super) async fn end(&self) {
        let session = self.session.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(session) = session
            && let Ok(asked) = self.start(Method::DELETE, Some(&session))
        {
            let _ = asked.timeout(Duration::from_secs(2)).send().await;
        }
    }
}

/// What an event stream says.
fn events(reply: Response) -> Events {
    let state = (reply.bytes_stream().boxed(), Decoder::new(MAX_EVENT), VecDeque::new());
    let events = stream::unfold(state, |(mut bytes, mut decoder, mut ready)| async move {
        loop {
            if let Some(event) = ready.pop_front() {
                return Some((event, (bytes, decoder, ready)));
            }
            let Ok(chunk) = bytes.next().await? else {
                let cut = Event { id: None, text: String::new(), is_cut: true };
                return Some((cut, (stream::empty().boxed(), decoder, ready)));
            };
            let fed: Result<(), TooLong> = decoder.feed(&chunk, |event| {
                let id = HeaderValue::from_str(event.id).ok().filter(|id| !id.is_empty());
                ready.push_back(Event { id, text: event.data.trim().to_owned(), is_cut: false });
                Ok(())
            });
            if let Err(why) = fed {
                eprintln!("convoke mcp: gave up on the hub's stream: {why}");
                return None;
            }
        }
    });
    events.boxed()
}

/// The revision that a message says of itself.
fn revision(message: &Value) -> Option<&str> {
    message.pointer("/params/_meta").and_then(|meta| meta[VERSION].as_str())
}

/// Whether a message answers a request.
fn is_answer(text: &str) -> bool {
    serde_json::from_str::<Value>(text).is_ok_and(|m| m.get("method").is_none() && m.get("id").is_some())
}

/// A text as a header may carry it.
fn header_text(text: &str) -> String {
    let plain = !text.is_empty() && text.trim() == text && text.bytes().all(|b| (0x20..0x7f).contains(&b));
    let wrapped = text.starts_with("=?base64?");
    if plain && !wrapped { text.to_owned() } else { format!("=?base64?{}?=", STANDARD.encode(text)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_carry_any_text() {
        assert_eq!(header_text("fs_read"), "fs_read");
        assert_eq!(header_text("ü"), "=?base64?w7w=?=");
        assert_eq!(header_text(" x"), "=?base64?IHg=?=");
        assert_eq!(header_text("=?base64?eA==?="), "=?base64?PT9iYXNlNjQ/ZUE9PT89?=");
    }

    #[test]
    fn answers_are_told_from_questions() {
        assert!(is_answer(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#));
        assert!(!is_answer(r#"{"jsonrpc":"2.0","id":1,"method":"elicitation/create"}"#));
        assert!(!is_answer(r#"{"jsonrpc":"2.0","method":"notifications/progress"}"#));
    }
}
