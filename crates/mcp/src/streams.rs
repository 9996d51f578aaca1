//! What a session's streams have said, for clients whose connection broke.
//!
//! The SDK keeps the events of a request only until it is answered: who comes back after that would find nothing. So
//! each stream is read here to its end, whether or not its client is still there, and what it said is kept for a while.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt as _, stream};
use rmcp::model::JsonRpcMessage;
use rmcp::transport::streamable_http_server::session::ServerSseMessage;
use tokio::sync::mpsc;

use super::bound;
use super::sessions::{Turn, Using};
use super::standing::RETRY;

/// Streams of one session that have ended and are kept. Those under way are as many as its requests.
const MAX_STREAMS: usize = 32;
/// Events of one stream that are kept; of more, the oldest go, which are progress.
const MAX_EVENTS: usize = 64;
/// Bytes that are kept of all sessions together of what has ended; beyond that the oldest go. What is under way does not
/// count: nobody's kept answers make room for what somebody else has under way, which is bounded by itself, as requests
/// (`quota.rs`) of so many events each.
const MAX_BYTES: usize = 64 << 20;
/// Fewer that have ended are not looked through.
const LEAST_SWEPT: usize = 1024;

/// One session's.
#[derive(Debug, Default)]
pub(super) struct Streams {
    said: Vec<Arc<StreamLog>>,
    /// One more than the SDK's highest number of a stream. It counts them from the session's beginning.
    begun: Arc<AtomicU64>,
}

/// What all sessions keep.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    bytes: AtomicUsize,
    /// How many have ended.
    count: AtomicU64,
    ended: Mutex<Ended>,
}

/// The streams that have ended, whosever they are, oldest first.
#[derive(Debug, Default)]
struct Ended {
    streams: VecDeque<Weak<StreamLog>>,
    /// From this length on, streams that are gone are removed.
    sweep_at: usize,
}

impl Kept {
    fn bytes(&self) -> usize {
        self.0.bytes.load(Ordering::Relaxed)
    }

    /// Counts a change.
    fn changed(&self, by: isize) {
        // Wraps around where the change is negative, which is the same as taking it away.
        self.0.bytes.fetch_add(by.cast_unsigned(), Ordering::Relaxed);
    }

    fn ended(&self) -> MutexGuard<'_, Ended> {
        self.0.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A stream has ended: from now on it may have to go.
    fn has_ended(&self, said: &Arc<StreamLog>) {
        let mut ended = self.ended();
        if ended.streams.len() >= ended.sweep_at {
            ended.streams.retain(|said| said.strong_count() > 0);
            ended.sweep_at = LEAST_SWEPT.max(2 * ended.streams.len());
        }
        ended.streams.push_back(Arc::downgrade(said));
    }

    /// Forgets what the oldest of those that have ended said, until the rest fits.
    fn shed(&self) {
        while self.bytes() > MAX_BYTES {
            let Some(oldest) = self.ended().streams.pop_front() else { return };
            if let Some(oldest) = oldest.upgrade() {
                oldest.forget();
            }
        }
    }
}

/// Where an event is: the SDK names it by its number in its stream, and that stream's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct EventId {
    stream: u64,
    event: u64,
}

impl EventId {
    fn of(id: &str) -> Option<Self> {
        let (event, stream) = id.split_once('/')?;
        Some(Self { stream: stream.parse().ok()?, event: event.parse().ok()? })
    }

    fn of_event(event: &ServerSseMessage) -> Option<Self> {
        event.event_id.as_deref().and_then(Self::of)
    }
}

/// What one stream has said.
#[derive(Debug)]
pub(super) struct StreamLog {
    state: Mutex<State>,
    kept: Kept,
}

#[derive(Debug, Default)]
struct State {
    events: VecDeque<ServerSseMessage>,
    /// What counts of it.
    bytes: usize,
    /// Set once it has ended: its number among all that have.
    ended: Option<u64>,
    /// The client's connection of the moment.
    listener: Option<mpsc::UnboundedSender<ServerSseMessage>>,
}

impl Drop for StreamLog {
    fn drop(&mut self) {
        self.forget();
    }
}

impl Streams {
    /// Reads a stream to its end. What it says comes out here, and can be had again.
    pub(super) fn read(
        &mut self,
        mut events: BoxStream<'static, ServerSseMessage>,
        kept: &Kept,
        using: Option<Using>,
        mut turn: Option<Turn>,
    ) -> impl Stream<Item = ServerSseMessage> + Send + Sync + use<> {
        let said = Arc::new(StreamLog { state: Mutex::default(), kept: kept.clone() });
        self.make_room();
        self.said.push(Arc::clone(&said));
        let begun = Arc::clone(&self.begun);
        let heard = said.after(None);
        tokio::spawn(async move {
            while let Some(event) = events.next().await {
                if is_answer(&event) {
                    // Who has the answer may use the id again.
                    turn = None;
                }
                if let Some(id) = EventId::of_event(&event) {
                    begun.fetch_max(id.stream.saturating_add(1), Ordering::Relaxed);
                }
                said.push(event);
            }
            said.end();
            drop(turn);
            // Until here the session is in use, whether or not anybody is connected: its client may come back.
            drop(using);
            said.kept.has_ended(&said);
            said.kept.shed();
        });
        heard
    }

    /// Of those that have ended, the ones that did so first go.
    fn make_room(&mut self) {
        let mut ended: Vec<_> = self.said.iter().filter_map(|said| said.state().ended).collect();
        if ended.len() < MAX_STREAMS {
            return;
        }
        ended.sort_unstable();
        let last_to_go = ended[ended.len() - MAX_STREAMS];
        self.said.retain(|said| said.state().ended.is_none_or(|at| at > last_to_go));
    }

    /// What follows that event, on its own stream; nothing when it is not known.
    pub(super) fn after(&self, event: &str) -> Option<impl Stream<Item = ServerSseMessage> + Send + Sync + use<>> {
        let id = EventId::of(event)?;
        Some(self.of(id)?.after(Some(id)))
    }

    /// The stream of that event.
    fn of(&self, id: EventId) -> Option<&Arc<StreamLog>> {
        self.said.iter().find(|said| said.stream() == Some(id.stream))
    }

    /// Whether that event is of a stream that has ended, and of which nothing is kept any more.
    pub(super) fn has_forgotten(&self, event: &str) -> bool {
        let begun = self.begun.load(Ordering::Relaxed);
        // Looked for and not listened to: whoever listens takes the place of who did before.
        EventId::of(event).is_some_and(|id| id.stream < begun && self.of(id).is_none())
    }
}

impl StreamLog {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its number among the SDK's, once it has said something.
    fn stream(&self) -> Option<u64> {
        self.state().events.back().and_then(EventId::of_event).map(|id| id.stream)
    }

    fn push(&self, event: ServerSseMessage) {
        let mut state = self.state();
        if let Some(listener) = &state.listener
            && listener.send(event.clone()).is_err()
        {
            state.listener = None;
        }
        state.events.push_back(event);
        if state.events.len() > MAX_EVENTS {
            state.events.pop_front();
        }
    }

    fn forget(&self) {
        let mut state = self.state();
        state.events.clear();
        let bytes = std::mem::take(&mut state.bytes);
        drop(state);
        self.kept.changed(-bytes.cast_signed());
    }

    /// What it said counts from now on.
    fn end(&self) {
        let mut state = self.state();
        state.bytes = state.events.iter().map(size).sum();
        self.kept.changed(state.bytes.cast_signed());
        state.ended = Some(self.kept.0.count.fetch_add(1, Ordering::Relaxed));
        state.listener = None;
    }

    /// Everything after that event, and whatever is still to come. Whoever listened before hears no more.
    fn after(&self, id: Option<EventId>) -> impl Stream<Item = ServerSseMessage> + Send + Sync + use<> {
        let (sender, mut heard) = mpsc::unbounded_channel();
        let mut state = self.state();
        // The event itself may be one of those that went.
        let is_later = |event: &&ServerSseMessage| id.is_none() || EventId::of_event(event) > id;
        if let Some(EventId { stream, event }) = id
            && state.ended.is_none()
        {
            // Begun as any other stream: who is cut off again before there is news must still know where it was.
            let _ = sender.send(ServerSseMessage::priming(format!("{event}/{stream}"), RETRY));
        }
        for event in state.events.iter().filter(is_later) {
            // Its receiver is held here.
            let _ = sender.send(event.clone());
        }
        state.listener = state.ended.is_none().then_some(sender);
        drop(state);
        stream::poll_fn(move |cx| heard.poll_recv(cx))
    }
}

/// Whether it is the answer to a request.
pub(super) fn is_answer(event: &ServerSseMessage) -> bool {
    matches!(event.message.as_deref(), Some(JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_)))
}

/// About what an event takes.
fn size(event: &ServerSseMessage) -> usize {
    128 + event.message.as_ref().map_or(0, |message| bound::written(message.as_ref()).min(MAX_BYTES))
}

#[cfg(test)]
mod tests {
    use rmcp::model::{EmptyResult, RequestId, ServerJsonRpcMessage, ServerResult};

    use super::*;

    fn event(stream: usize, n: usize) -> ServerSseMessage {
        let id = RequestId::Number(i64::try_from(n).expect("small"));
        ServerSseMessage::new(
            format!("{n}/{stream}"),
            ServerJsonRpcMessage::response(ServerResult::EmptyResult(EmptyResult {}), id),
        )
    }

    async fn ids(heard: impl Stream<Item = ServerSseMessage>) -> Vec<String> {
        heard.map(|event| event.event_id.expect("an id")).collect().await
    }

    /// Reads a stream that says these to its end.
    async fn read(streams: &mut Streams, kept: &Kept, stream: usize, events: std::ops::Range<usize>) -> usize {
        let events: Vec<_> = events.map(|n| event(stream, n)).collect();
        let heard = ids(streams.read(stream::iter(events).boxed(), kept, None, None)).await.len();
        tokio::task::yield_now().await;
        heard
    }

    /// A stream of given events.
    fn told() -> (mpsc::UnboundedSender<ServerSseMessage>, BoxStream<'static, ServerSseMessage>) {
        let (say, mut said) = mpsc::unbounded_channel();
        (say, stream::poll_fn(move |cx| said.poll_recv(cx)).boxed())
    }

    #[tokio::test]
    async fn who_comes_back_hears_the_rest_whether_or_not_it_has_ended() {
        let (mut streams, kept) = (Streams::default(), Kept::default());
        let (say, said) = told();
        let first = streams.read(said, &kept, None, None);
        say.send(event(7, 0)).expect("read");
        let mut first = Box::pin(first);
        assert_eq!(first.next().await.and_then(|it| it.event_id).as_deref(), Some("0/7"));
        drop(first);
        let back = streams.after("0/7").expect("known");
        assert!(!streams.has_forgotten("0/7"), "and nobody loses their place by the question");
        say.send(event(7, 1)).expect("read whether or not anybody listens");
        say.send(event(7, 2)).expect("read");
        drop(say);
        assert_eq!(ids(back).await, ["0/7", "1/7", "2/7"], "while it runs, from where it was");
        assert_eq!(ids(streams.after("0/7").expect("known")).await, ["1/7", "2/7"], "and afterwards");
        assert_eq!(ids(streams.after("1/7").expect("known")).await, ["2/7"]);
        assert!(ids(streams.after("2/7").expect("known")).await.is_empty());
        for unknown in ["0/8", "0", "x/7", ""] {
            assert!(streams.after(unknown).is_none(), "{unknown}");
        }
        assert!(kept.bytes() > 0);
        drop(streams);
        tokio::task::yield_now().await;
        assert_eq!(kept.bytes(), 0, "nothing is kept for nobody");
    }

    #[tokio::test]
    async fn what_is_kept_is_bounded() {
        let (mut streams, kept) = (Streams::default(), Kept::default());
        let (say, said) = told();
        let slow = streams.read(said, &kept, None, None);
        say.send(event(0, 0)).expect("read");
        drop(slow);
        for n in 1..3 * MAX_STREAMS {
            assert_eq!(read(&mut streams, &kept, n, 0..1).await, 1);
        }
        assert_eq!(streams.said.len(), MAX_STREAMS + 1, "and what is under way");
        say.send(event(0, 1)).expect("read");
        drop(say);
        assert_eq!(ids(streams.after("0/0").expect("it was under way")).await, ["0/0", "1/0"]);
        for n in 100..100 + MAX_STREAMS {
            assert!(streams.after("0/0").is_some(), "the last that ended, though it began before the others");
            assert_eq!(read(&mut streams, &kept, n, 0..1).await, 1);
        }
        assert_eq!(read(&mut streams, &kept, 200, 0..3 * MAX_EVENTS).await, 3 * MAX_EVENTS, "who listens hears all");
        assert!(streams.after("0/0").is_none() && streams.has_forgotten("0/0"));
        assert!(!streams.has_forgotten("0/200"), "it is kept");
        for unknown in ["0/201", "7", "x/0", ""] {
            assert!(!streams.has_forgotten(unknown), "{unknown}: there never was such a stream");
        }
        let rest = ids(streams.after("0/200").expect("its stream is known")).await;
        assert_eq!(rest.len(), MAX_EVENTS, "the oldest are forgotten, also the one that is named");
        assert_eq!(rest.last(), Some(&format!("{}/200", 3 * MAX_EVENTS - 1)), "and the answer is there");
    }

    #[tokio::test]
    async fn what_is_under_way_takes_no_room_from_what_has_ended() {
        let (mut one, mut other, kept) = (Streams::default(), Streams::default(), Kept::default());
        assert_eq!(read(&mut one, &kept, 1, 0..1).await, 1);
        // As if others kept all that this event leaves.
        kept.changed(MAX_BYTES.cast_signed() - size(&event(0, 0)).cast_signed());
        let (say, said) = told();
        let mut under_way = Box::pin(other.read(said, &kept, None, None));
        for n in 0..MAX_EVENTS {
            say.send(event(2, n)).expect("read");
            assert!(under_way.next().await.is_some());
        }
        assert!(one.after("0/1").is_some(), "it is there for who comes back");
        drop(say);
        while kept.ended().streams.len() > 1 || one.after("0/1").is_some() {
            tokio::task::yield_now().await;
        }
        assert!(kept.bytes() <= MAX_BYTES, "what has ended counts");
    }

    #[tokio::test]
    async fn what_all_sessions_keep_is_bounded_and_the_oldest_goes_first() {
        let kept = Kept::default();
        let mut sessions: Vec<_> = (0..4).map(|_| Streams::default()).collect();
        for (n, streams) in sessions.iter_mut().enumerate() {
            assert_eq!(read(streams, &kept, n, 0..1).await, 1);
        }
        let (say, said) = told();
        let under_way = Box::pin(sessions[0].read(said, &kept, None, None));
        say.send(event(9, 0)).expect("read");
        tokio::task::yield_now().await;
        let known = |sessions: &[Streams]| -> Vec<bool> {
            sessions.iter().enumerate().map(|(n, streams)| streams.after(&format!("0/{n}")).is_some()).collect()
        };
        assert_eq!(known(&sessions), [true; 4]);
        // As if others kept all that these four events leave: two of them have to go when two more come.
        kept.changed(MAX_BYTES.cast_signed() - 4 * size(&event(0, 0)).cast_signed());
        let mut another = Streams::default();
        assert_eq!(read(&mut another, &kept, 5, 0..2).await, 2);
        assert_eq!(known(&sessions), [false, false, true, true], "of whichever session");
        assert!(kept.bytes() <= MAX_BYTES && another.after("0/5").is_some());
        assert!(sessions[0].after("0/9").is_some(), "what is under way stays");
        drop((say, under_way));
        for n in 0..3 * LEAST_SWEPT {
            let mut gone = Streams::default();
            read(&mut gone, &kept, n, 0..1).await;
        }
        assert!(kept.ended().streams.len() <= 2 * LEAST_SWEPT, "{}", kept.ended().streams.len());
    }
}
