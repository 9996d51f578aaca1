//! Sessions of clients that open one (2025-11-25 and before): whose each is, which agent it selected, what it
//! subscribed to. A session is bound to the token that opened it; to any other token it does not exist.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use convoke_core::id::{PeerId, TokenId};
use futures_util::{Stream, StreamExt as _, future, stream};
use rmcp::model::{ClientJsonRpcMessage, ErrorData, RequestId, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, LocalSessionManagerError};
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId, SessionManager};
use tokio::task::{AbortHandle, JoinHandle};
use tokio_util::sync::CancellationToken;

use super::quota::{Quota, QuotaPermit};
use super::standing::{self, Standing};
use super::streams::{Kept, Streams};
use super::tool_list::Machines;
use convoke_gate::hub::Hub;
use convoke_gate::part::Part;
use convoke_gate::settings::Settings;

/// Another request of the session has the id, and is not answered yet. The SDK would give the second one's stream to
/// both, and the first would never end.
#[derive(Debug)]
struct Repeated;

impl Repeated {
    /// The answer to its client.
    const MESSAGE: &str = "another open request of this session has the same id";
}

/// The token has as many requests under way as it may. They go on when their connections break, so that the number of
/// connections does not bound them.
#[derive(Debug)]
pub(super) struct TooMany;

impl TooMany {
    /// The answer to its client.
    pub(super) const MESSAGE: &str =
        "this token has reached its limit of open requests (2000, or 32 MiB together); wait for one, or cancel one";
}

/// Most requests of one token's sessions that are not answered: as many as it may have calls, unless someone says
/// otherwise. One that waits takes some 30 KiB.
const MAX_REQUESTS: usize = 2000;
/// About how many bytes they may take together beside that.
const MAX_REQUESTS_BYTES: usize = 32 << 20;

/// How long the hub's stop waits for the last answers, and for the SDK to end its sessions.
const END_PATIENCE: Duration = Duration::from_secs(2);

/// Most resources one session may subscribe to.
pub(super) const MAX_SUBSCRIPTIONS: usize = 100;

tokio::task_local! {
    /// Whose request without a session the SDK has. It alone knows which of them opens one.
    static OPENING: Opening;
}

#[derive(Debug)]
struct Opening {
    token: TokenId,
    /// There was no room for it.
    full: Arc<AtomicBool>,
}

/// All sessions, and the selections of tokens that use none.
#[derive(Debug)]
pub struct Sessions {
    inner: Arc<LocalSessionManager>,
    open: Mutex<HashMap<SessionId, Session>>,
    selections: Mutex<HashMap<TokenId, PeerId>>,
    /// Streams on which tokens without a session listen.
    listeners: Quota,
    /// Requests of sessions that are not answered.
    requests: Quota,
    kept: Kept,
    /// When machines come, go or change, so that lists of tools may be others.
    pub(super) machines: Machines,
    /// Streams end: the hub has stopped, and what was under way is answered.
    pub(super) ended: CancellationToken,
    max: usize,
    max_per_token: usize,
    /// How long one lives that is not used.
    idle: Duration,
    /// From when uses are timed.
    since: Instant,
}

#[derive(Debug)]
struct Session {
    token: TokenId,
    usage: Arc<Usage>,
    /// What was said in answer to its requests.
    streams: Streams,
    /// What was said besides, once someone has listened.
    standing: Option<Standing>,
    selected: Option<PeerId>,
    subscriptions: Arc<Mutex<BTreeSet<String>>>,
    watcher: Option<AbortHandle>,
    /// Tells its client when its list of tools has changed.
    lister: Option<AbortHandle>,
    /// It has ended, and so has all that its client listens to.
    closed: CancellationToken,
}

/// How a session is used.
#[derive(Debug)]
struct Usage {
    /// Requests that are being answered.
    requests: AtomicUsize,
    /// Streams on which its client listens.
    streams: AtomicUsize,
    /// When the last use ended or began, in milliseconds since the first session could be opened.
    last: AtomicU64,
    since: Instant,
    /// The ids of requests that are not answered yet.
    ids: Mutex<HashSet<RequestId>>,
}

impl Usage {
    fn note(&self) {
        let now = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(now, Ordering::Relaxed);
    }

    /// Whether it is not used, and has not been for so long.
    fn is_idle(&self, idle: Duration, now: Instant) -> bool {
        let unused = [&self.requests, &self.streams].iter().all(|count| count.load(Ordering::Relaxed) == 0);
        let last = self.since + Duration::from_millis(self.last.load(Ordering::Relaxed));
        unused && now.saturating_duration_since(last) >= idle
    }

    fn ids(&self) -> MutexGuard<'_, HashSet<RequestId>> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whoever is least missed has the least: one without a request, without a listener, and of those the one that was used
    /// before the others.
    fn worth(&self) -> (bool, bool, u64) {
        let some = |count: &AtomicUsize| count.load(Ordering::Relaxed) > 0;
        (some(&self.requests), some(&self.streams), self.last.load(Ordering::Relaxed))
    }
}

/// What a session is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// A request, until it is answered.
    Request,
    /// Listening.
    Stream,
}

/// A session that is being used: it is not given up meanwhile.
#[derive(Debug)]
pub(super) struct Using {
    usage: Arc<Usage>,
    what: Use,
}

impl Using {
    fn of(usage: &Arc<Usage>, what: Use) -> Self {
        usage.note();
        let using = Self { usage: Arc::clone(usage), what };
        using.count().fetch_add(1, Ordering::Relaxed);
        using
    }

    fn count(&self) -> &AtomicUsize {
        match self.what {
            Use::Request => &self.usage.requests,
            Use::Stream => &self.usage.streams,
        }
    }
}

impl Drop for Using {
    fn drop(&mut self) {
        self.usage.note();
        self.count().fetch_sub(1, Ordering::Relaxed);
    }
}

/// The id of a request that is not answered yet: no other of its session has it meanwhile.
#[derive(Debug)]
pub(super) struct Turn {
    usage: Arc<Usage>,
    id: RequestId,
}

impl Turn {
    /// None when another has it.
    fn of(usage: &Arc<Usage>, id: &RequestId) -> Option<Self> {
        usage.ids().insert(id.clone()).then(|| Self { usage: Arc::clone(usage), id: id.clone() })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.usage.ids().remove(&self.id);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.closed.cancel();
        for task in self.watcher.iter().chain(&self.lister) {
            task.abort();
        }
    }
}

/// Why a session could not be used.
#[derive(Debug, thiserror::Error)]
pub enum SessionsError {
    /// As many are open as may be.
    #[error("the limit of MCP sessions is reached (mcp.max_sessions)")]
    Full,
    /// Nobody knows what came after that event.
    #[error("nothing is kept of what came after this event")]
    UnknownEvent,
    /// Opened by no request.
    #[error("a session is opened by the request of a token")]
    Nobodys,
    /// The SDK's.
    #[error(transparent)]
    Inner(#[from] LocalSessionManagerError),
}

impl Part for Sessions {
    fn token_revoked(&self, token: TokenId) {
        self.close_token(token);
    }
}

impl Sessions {
    /// Those of this hub.
    pub fn of(hub: &Hub) -> Arc<Self> {
        hub.part()
    }

    /// With the limits of the settings.
    pub fn new(settings: &Settings) -> Self {
        let mut inner = LocalSessionManager::default();
        let idle = settings.mcp.session_idle_s;
        let max_per_token = settings.mcp.max_sessions_per_token;
        // The SDK counts what comes in alone, and would close a session in the middle of a call.
        inner.session_config.keep_alive = None;
        Self {
            inner: Arc::new(inner),
            open: Mutex::default(),
            selections: Mutex::default(),
            listeners: Quota::new(max_per_token, usize::MAX),
            requests: Quota::new(MAX_REQUESTS, MAX_REQUESTS_BYTES),
            kept: Kept::default(),
            machines: Machines::default(),
            ended: CancellationToken::new(),
            max: settings.mcp.max_sessions,
            max_per_token,
            idle,
            since: Instant::now(),
        }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<SessionId, Session>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many are open.
    pub fn count(&self) -> usize {
        self.open().len()
    }

    /// Has the SDK answer a request that names no session. If it opens one, that is this token's from the beginning,
    /// whatever becomes of the connection. Nothing when there was no room for it.
    pub(super) async fn opening<T>(&self, token: TokenId, answering: impl Future<Output = T>) -> Option<T> {
        let full = Arc::new(AtomicBool::new(false));
        let opening = Opening { token, full: Arc::clone(&full) };
        let answer = OPENING.scope(opening, answering).await;
        (!full.load(Ordering::Relaxed)).then_some(answer)
    }

    /// A session has been opened with this token: from now on it is that token's. The one that had to go for it, if any;
    /// an error when there is no room.
    fn bind(&self, id: &SessionId, token: TokenId) -> Result<Option<(SessionId, Session)>, SessionsError> {
        let mut open = self.open();
        let mine = open.iter().filter(|(_, s)| s.token == token);
        let oldest = mine.clone().min_by_key(|(_, s)| s.usage.worth()).map(|(id, _)| id.clone());
        // A token at its own limit gives up its longest unused, so it never takes from another token.
        let displaced = oldest.filter(|_| mine.count() >= self.max_per_token);
        if displaced.is_none() && open.len() >= self.max {
            return Err(SessionsError::Full);
        }
        let usage = Usage {
            requests: AtomicUsize::new(0),
            streams: AtomicUsize::new(0),
            last: AtomicU64::new(0),
            since: self.since,
            ids: Mutex::default(),
        };
        usage.note();
        let session = Session {
            token,
            usage: Arc::new(usage),
            streams: Streams::default(),
            standing: None,
            selected: None,
            subscriptions: Arc::default(),
            watcher: None,
            lister: None,
            closed: CancellationToken::new(),
        };
        let displaced = displaced.and_then(|id| open.remove_entry(&id));
        open.insert(id.clone(), session);
        Ok(displaced)
    }

    /// Uses a session, if it is this token's.
    pub(super) fn using(&self, id: &str, token: TokenId, what: Use) -> Option<Using> {
        let open = self.open();
        open.get(id).filter(|session| session.token == token).map(|session| Using::of(&session.usage, what))
    }

    /// Cancelled when the session ends; one that is gone has ended.
    pub fn closed(&self, id: &str) -> CancellationToken {
        self.open().get(id).map_or_else(
            || {
                let closed = CancellationToken::new();
                closed.cancel();
                closed
            },
            |session| session.closed.clone(),
        )
    }

    /// The turn of a request. One of a session that is gone needs none.
    fn turn(&self, session: &str, id: &RequestId) -> Result<Option<Turn>, Repeated> {
        let open = self.open();
        open.get(session).map(|session| Turn::of(&session.usage, id).ok_or(Repeated)).transpose()
    }

    /// Ends the sessions that were not used for long, and those of tokens that are in force no longer.
    pub fn tidy(&self, in_force: impl FnOnce(&HashSet<TokenId>) -> HashSet<TokenId>) {
        self.tidy_at(Instant::now(), in_force);
    }

    fn tidy_at(&self, now: Instant, in_force: impl FnOnce(&HashSet<TokenId>) -> HashSet<TokenId>) {
        let tokens: HashSet<_> = self.open().values().map(|session| session.token).collect();
        if tokens.is_empty() {
            return;
        }
        let in_force = in_force(&tokens);
        // One that was opened meanwhile is of a token that nobody has asked about yet.
        let lapsed = |token: &_| tokens.contains(token) && !in_force.contains(token);
        self.end(|session| lapsed(&session.token) || session.usage.is_idle(self.idle, now));
    }

    /// Ends the sessions of which this is so, from this moment on. What the SDK has to do with it is not waited for: it
    /// does what a client lets it do.
    fn end(&self, is_over: impl Fn(&Session) -> bool) -> Vec<JoinHandle<()>> {
        let over: Vec<_> = self.open().extract_if(|_, session| is_over(session)).collect();
        self.forget(over)
    }

    fn forget(&self, over: Vec<(SessionId, Session)>) -> Vec<JoinHandle<()>> {
        let forget = |(id, session): (SessionId, Session)| {
            drop(session);
            let inner = Arc::clone(&self.inner);
            tokio::spawn(async move { drop(inner.close_session(&id).await) })
        };
        over.into_iter().map(forget).collect()
    }

    /// The stream of what belongs to no request. Whoever listens first has the SDK begin it.
    fn standing(&self, id: &SessionId) -> Result<Standing, SessionsError> {
        let mut open = self.open();
        let session = open.get_mut(id).ok_or(SessionsError::UnknownEvent)?;
        let is_first = session.standing.is_none();
        let standing = session.standing.get_or_insert_default().clone();
        if is_first {
            let (inner, id) = (Arc::clone(&self.inner), id.clone());
            let begin = async move { Some(inner.create_standalone_stream(&id).await.ok()?.boxed()) };
            standing.read(begin, session.closed.clone());
        }
        Ok(standing)
    }

    /// Selects an agent: for the session, or, without one, for the token.
    pub(super) fn select(&self, session: Option<&str>, token: TokenId, agent: PeerId) {
        match session {
            Some(id) => {
                if let Some(session) = self.open().get_mut(id) {
                    session.selected = Some(agent);
                }
            }
            None => {
                self.selections.lock().unwrap_or_else(PoisonError::into_inner).insert(token, agent);
            }
        }
    }

    /// What is selected.
    pub fn selected(&self, session: Option<&str>, token: TokenId) -> Option<PeerId> {
        match session {
            Some(id) => self.open().get(id).and_then(|s| s.selected.clone()),
            None => self.selections.lock().unwrap_or_else(PoisonError::into_inner).get(&token).cloned(),
        }
    }

    /// What a session is subscribed to, and whether someone already watches for it.
    pub(super) fn subscriptions(&self, id: &str) -> Option<(Arc<Mutex<BTreeSet<String>>>, bool)> {
        self.open().get(id).map(|s| (Arc::clone(&s.subscriptions), s.watcher.is_some()))
    }

    /// Someone watches for a session; ends with it.
    pub(super) fn watched_by(&self, id: &str, watcher: AbortHandle) {
        match self.open().get_mut(id) {
            Some(session) if session.watcher.is_none() => session.watcher = Some(watcher),
            _ => watcher.abort(),
        }
    }

    /// Whether a session has somebody who tells its client when its tools change. One that is gone needs nobody.
    pub(super) fn has_lister(&self, id: &str) -> bool {
        self.open().get(id).is_none_or(|session| session.lister.is_some())
    }

    /// Somebody tells a session's client when its tools change; ends with it.
    pub(super) fn listed_by(&self, id: &str, lister: AbortHandle) {
        // What a client does not listen to must not wait in the SDK.
        let _ = self.standing(&id.into());
        match self.open().get_mut(id) {
            Some(session) if session.lister.is_none() => session.lister = Some(lister),
            _ => lister.abort(),
        }
    }

    /// Ends every session of a token, and forgets what it selected.
    pub fn close_token(&self, token: TokenId) {
        self.selections.lock().unwrap_or_else(PoisonError::into_inner).remove(&token);
        self.end(|session| session.token == token);
    }

    /// A permit to listen without a session; a token has as many as it may have sessions.
    pub(super) fn listener(&self, token: TokenId) -> Option<QuotaPermit> {
        self.listeners.take(token, 0)
    }

    /// A permit for a request of this weight in a session. It is held for as long as anything of the request is held,
    /// whatever becomes of its connection or its session.
    pub(super) fn request(&self, token: TokenId, weight: usize) -> Result<Arc<QuotaPermit>, TooMany> {
        self.requests.take(token, weight).map(Arc::new).ok_or(TooMany)
    }

    /// Ends every session, and with it what its client listens to, once its requests are answered: the hub stops, and
    /// what they asked for has ended.
    pub async fn close_all(&self) {
        let is_answering = || self.open().values().any(|s| s.usage.requests.load(Ordering::Relaxed) > 0);
        let answered = async {
            while is_answering() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let _ = tokio::time::timeout(END_PATIENCE, answered).await;
        let ending = self.end(|_| true);
        let _ = tokio::time::timeout(END_PATIENCE, future::join_all(ending)).await;
    }

    /// Breaks off whatever streams are left.
    pub fn break_off(&self) {
        self.ended.cancel();
    }
}

impl SessionManager for Sessions {
    type Error = SessionsError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), SessionsError> {
        let opening = OPENING.try_with(|opening| (opening.token, Arc::clone(&opening.full)));
        let (token, full) = opening.map_err(|_| SessionsError::Nobodys)?;
        let (id, transport) = self.inner.create_session().await?;
        match self.bind(&id, token) {
            Ok(None) => {}
            Ok(Some(displaced)) => drop(self.forget(vec![displaced])),
            Err(error) => {
                full.store(true, Ordering::Relaxed);
                let _ = self.inner.close_session(&id).await;
                return Err(error);
            }
        }
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, SessionsError> {
        Ok(self.inner.initialize_session(id, message).await?)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, SessionsError> {
        Ok(self.inner.has_session(id).await?)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), SessionsError> {
        self.open().remove(id);
        Ok(self.inner.close_session(id).await?)
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionsError> {
        let turn = match &message {
            ClientJsonRpcMessage::Request(request) => {
                self.turn(id, &request.id).map_err(|Repeated| request.id.clone())
            }
            _ => Ok(None),
        };
        let turn = match turn {
            Ok(turn) => turn,
            Err(request) => {
                let repeated = ErrorData::invalid_request(Repeated::MESSAGE, None);
                let answer = ServerJsonRpcMessage::error(repeated, Some(request));
                return Ok(stream::iter([ServerSseMessage::from_message(answer)]).left_stream());
            }
        };
        let events = self.inner.create_stream(id, message).await?.boxed();
        let mut open = self.open();
        // A session that has been closed meanwhile has nobody who could come back.
        let heard = match open.get_mut(id) {
            Some(session) => {
                let using = Using::of(&session.usage, Use::Request);
                session.streams.read(events, &self.kept, Some(using), turn)
            }
            None => Streams::default().read(events, &self.kept, None, turn),
        };
        Ok(heard.right_stream())
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), SessionsError> {
        Ok(self.inner.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionsError> {
        Ok(self.standing(id)?.listen(None))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionsError> {
        let (known, is_over) = match self.open().get(id) {
            Some(Session { streams, .. }) => (streams.after(&last_event_id), streams.has_forgotten(&last_event_id)),
            None => (None, false),
        };
        if let Some(events) = known {
            return Ok(events.left_stream());
        }
        // Nothing comes on it any more, and what comes on others is not to be told in its place.
        if is_over {
            return Err(SessionsError::UnknownEvent);
        }
        // Whoever comes with an id that no stream here had listens anew. Were the stream to end at once instead, they would
        // come back with the same id for ever, and hear nothing.
        Ok(self.standing(id)?.listen(standing::number(&last_event_id)).right_stream())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use convoke_gate::clock;
    use convoke_gate::settings::Sources;

    fn one_session() -> (Arc<Sessions>, &'static str) {
        let sessions =
            Arc::new(Sessions::new(&Settings::resolve(&Sources::default()).expect("the defaults are good")));
        sessions.bind(&"s".into(), TokenId::new(clock::uuid())).expect("there is room");
        (sessions, "s")
    }

    #[tokio::test]
    async fn a_session_ends_when_it_was_not_used_for_long_and_not_before() {
        let (sessions, id) = one_session();
        let token = sessions.open()[id].token;
        let tidy = async |after: Duration| {
            sessions.tidy_at(Instant::now() + after, HashSet::clone);
            sessions.count()
        };
        let idle = sessions.idle;
        assert_eq!(tidy(idle / 2).await, 1);
        assert!(sessions.using(id, TokenId::new(clock::uuid()), Use::Request).is_none(), "another's");
        for what in [Use::Request, Use::Stream] {
            let using = sessions.using(id, token, what).expect("its own");
            assert_eq!(tidy(2 * idle).await, 1, "it is being used: {what:?}");
            drop(using);
        }
        assert_eq!(tidy(2 * idle).await, 0);
    }

    #[tokio::test]
    async fn a_session_is_in_use_until_its_request_is_answered_whoever_is_connected() {
        let (sessions, id) = one_session();
        let (say, mut said) = tokio::sync::mpsc::unbounded_channel::<ServerSseMessage>();
        let events = futures_util::stream::poll_fn(move |cx| said.poll_recv(cx)).boxed();
        let stream = {
            let mut open = sessions.open();
            let session = open.get_mut(id).expect("is open");
            let using = Using::of(&session.usage, Use::Request);
            session.streams.read(events, &sessions.kept, Some(using), None)
        };
        // The client's connection breaks.
        drop(stream);
        let usage = Arc::clone(&sessions.open()[id].usage);
        assert!(!usage.is_idle(Duration::ZERO, Instant::now()));
        drop(say);
        while usage.requests.load(Ordering::Relaxed) > 0 {
            tokio::task::yield_now().await;
        }
        assert!(usage.is_idle(Duration::ZERO, Instant::now()));
    }

    #[tokio::test]
    async fn a_session_ends_with_its_token() {
        let (sessions, _) = one_session();
        sessions.tidy(HashSet::clone);
        assert_eq!(sessions.count(), 1);
        sessions.tidy(|_| HashSet::new());
        assert_eq!(sessions.count(), 0);
    }

    #[test]
    fn a_session_with_a_request_goes_last() {
        let settings = Settings::resolve(&Sources::default()).expect("the defaults are good");
        let sessions = Sessions { max_per_token: 2, ..Sessions::new(&settings) };
        let token = TokenId::new(clock::uuid());
        for id in ["old", "new"] {
            assert!(sessions.bind(&id.into(), token).expect("there is room").is_none());
        }
        let _using = sessions.using("old", token, Use::Request).expect("its own");
        sessions.open()["new"].usage.last.store(u64::MAX / 2, Ordering::Relaxed);
        let displaced = sessions.bind(&"newest".into(), token).expect("there is room");
        assert_eq!(displaced.map(|(id, _)| id).as_deref(), Some("new"));
    }
}
