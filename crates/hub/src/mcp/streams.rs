//! What a session's streams have said, for clients whose connection broke.
//!
//! The SDK keeps the events of a request only until it is answered: who comes back after that would find nothing. So
//! each stream is read here to its end, whether or not its client is still there, and what it said is kept for a while.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt as _, stream};
use rmcp::model::JsonRpcMessage;
use rmcp::transport::streamable_http_server::session::ServerSseMessage;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::bound;
use super::sessions::{Turn, Using};

/// Streams of one session that are kept, ended or not.
const MAX_STREAMS: usize = 32;
/// Events of one stream that are kept; of more, the oldest go, which are progress.
const MAX_EVENTS: usize = 64;
/// Bytes that are kept of all sessions together. Beyond that the oldest that have ended go, and what is under way stays.
const MAX_BYTES: usize = 64 << 20;
/// Fewer that have ended are not looked through.
const LEAST_SWEPT: usize = 1024;

/// One session's.
#[derive(Debug, Default)]
pub(super) struct Streams(VecDeque<Arc<Said>>);

/// What all sessions keep.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    bytes: AtomicUsize,
    ended: Mutex<Ended>,
}

/// The streams that have ended, whosever they are, oldest first.
#[derive(Debug, Default)]
struct Ended {
    streams: VecDeque<Weak<Said>>,
    /// Those that are gone are swept out when there are so many.
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
    fn has_ended(&self, said: &Arc<Said>) {
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

/// What one stream has said.
#[derive(Debug)]
pub(super) struct Said {
    state: Mutex<State>,
    kept: Kept,
}

#[derive(Debug, Default)]
struct State {
    events: VecDeque<ServerSseMessage>,
    bytes: usize,
    ended: bool,
    /// The client's connection of the moment.
    listener: Option<mpsc::UnboundedSender<ServerSseMessage>>,
}

impl Drop for Said {
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
        let said = Arc::new(Said { state: Mutex::default(), kept: kept.clone() });
        while self.0.len() >= MAX_STREAMS {
            self.0.pop_front();
        }
        self.0.push_back(Arc::clone(&said));
        let heard = said.after(None);
        tokio::spawn(async move {
            while let Some(event) = events.next().await {
                if is_answer(&event) {
                    // Who has the answer may use the id again.
                    turn = None;
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

    /// What follows that event, on its own stream; nothing when it is not known.
    pub(super) fn after(&self, event: &str) -> Option<impl Stream<Item = ServerSseMessage> + Send + Sync + use<>> {
        let said = self.0.iter().find(|said| said.position(event).is_some())?;
        Some(said.after(Some(event)))
    }
}

/// Events that wait for a client who does not read them.
const MAX_UNREAD: usize = 64;

/// A stream on which a client listens for whatever comes. The SDK waits for whoever reads it, with all of the session; so
/// it is read here, and a client that does not keep up is no longer told: it can come back for the last of it.
pub(super) fn listened(
    mut events: BoxStream<'static, ServerSseMessage>,
    closed: CancellationToken,
) -> impl Stream<Item = ServerSseMessage> + Send + Sync + use<> {
    let (say, mut heard) = mpsc::channel(MAX_UNREAD);
    tokio::spawn(async move {
        let telling = async {
            while let Some(event) = events.next().await {
                if say.try_send(event).is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            () = telling => {}
            () = say.closed() => {}
            () = closed.cancelled() => {}
        }
    });
    stream::poll_fn(move |cx| heard.poll_recv(cx))
}

impl Said {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn position(&self, event: &str) -> Option<usize> {
        self.state().events.iter().position(|it| it.event_id.as_deref() == Some(event))
    }

    fn push(&self, event: ServerSseMessage) {
        let mut state = self.state();
        if let Some(listener) = &state.listener
            && listener.send(event.clone()).is_err()
        {
            state.listener = None;
        }
        let mut change = size(&event).cast_signed();
        state.events.push_back(event);
        if state.events.len() > MAX_EVENTS
            && let Some(oldest) = state.events.pop_front()
        {
            change -= size(&oldest).cast_signed();
        }
        state.bytes = state.bytes.saturating_add_signed(change);
        drop(state);
        self.kept.changed(change);
        self.kept.shed();
    }

    fn forget(&self) {
        let mut state = self.state();
        state.events.clear();
        let bytes = std::mem::take(&mut state.bytes);
        drop(state);
        self.kept.changed(-bytes.cast_signed());
    }

    fn end(&self) {
        let mut state = self.state();
        state.ended = true;
        state.listener = None;
    }

    /// Everything after that event, and whatever is still to come. Whoever listened before hears no more.
    fn after(&self, event: Option<&str>) -> impl Stream<Item = ServerSseMessage> + Send + Sync + use<> {
        let (sender, mut heard) = mpsc::unbounded_channel();
        let mut state = self.state();
        let from = event.and_then(|event| state.events.iter().position(|it| it.event_id.as_deref() == Some(event)));
        for event in state.events.iter().skip(from.map_or(0, |at| at + 1)) {
            // Its other end is in hand.
            let _ = sender.send(event.clone());
        }
        state.listener = (!state.ended).then_some(sender);
        drop(state);
        stream::poll_fn(move |cx| heard.poll_recv(cx))
    }
}

fn is_answer(event: &ServerSseMessage) -> bool {
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

    fn event(n: usize) -> ServerSseMessage {
        let id = RequestId::Number(i64::try_from(n).expect("small"));
        ServerSseMessage::new(
            n.to_string(),
            ServerJsonRpcMessage::response(ServerResult::EmptyResult(EmptyResult {}), id),
        )
    }

    async fn ids(heard: impl Stream<Item = ServerSseMessage>) -> Vec<String> {
        heard.map(|event| event.event_id.expect("an id")).collect().await
    }

    #[tokio::test]
    async fn who_comes_back_hears_the_rest_whether_or_not_it_has_ended() {
        let (mut streams, kept) = (Streams::default(), Kept::default());
        let (say, mut said) = mpsc::unbounded_channel();
        let first = streams.read(stream::poll_fn(move |cx| said.poll_recv(cx)).boxed(), &kept, None, None);
        say.send(event(0)).expect("read");
        let mut first = Box::pin(first);
        assert_eq!(first.next().await.and_then(|it| it.event_id).as_deref(), Some("0"));
        drop(first);
        let back = streams.after("0").expect("known");
        say.send(event(1)).expect("read whether or not anybody listens");
        say.send(event(2)).expect("read");
        drop(say);
        assert_eq!(ids(back).await, ["1", "2"], "while it runs");
        assert_eq!(ids(streams.after("0").expect("known")).await, ["1", "2"], "and afterwards");
        assert_eq!(ids(streams.after("1").expect("known")).await, ["2"]);
        assert!(ids(streams.after("2").expect("known")).await.is_empty());
        assert!(streams.after("3").is_none());
        assert!(kept.bytes() > 0);
        drop(streams);
        tokio::task::yield_now().await;
        assert_eq!(kept.bytes(), 0, "nothing is kept for nobody");
    }

    #[tokio::test]
    async fn what_is_kept_is_bounded() {
        let (mut streams, kept) = (Streams::default(), Kept::default());
        for n in 0..3 * MAX_STREAMS {
            assert_eq!(ids(streams.read(stream::iter([event(n)]).boxed(), &kept, None, None)).await, [n.to_string()]);
        }
        assert_eq!(streams.0.len(), MAX_STREAMS);
        let long =
            ids(streams.read(stream::iter((1000..1000 + 3 * MAX_EVENTS).map(event)).boxed(), &kept, None, None))
                .await;
        assert_eq!(long.len(), 3 * MAX_EVENTS, "who listens hears all of it");
        assert!(streams.after("1000").is_none(), "the oldest are forgotten");
        assert_eq!(streams.0.back().expect("there").state().events.len(), MAX_EVENTS);
    }

    #[tokio::test]
    async fn what_all_sessions_keep_is_bounded_and_the_oldest_goes_first() {
        let kept = Kept::default();
        let mut sessions: Vec<_> = (0..4).map(|_| Streams::default()).collect();
        for (n, streams) in sessions.iter_mut().enumerate() {
            assert_eq!(ids(streams.read(stream::iter([event(n)]).boxed(), &kept, None, None)).await.len(), 1);
        }
        tokio::task::yield_now().await;
        let (say, mut said) = mpsc::unbounded_channel();
        let under_way =
            Box::pin(sessions[0].read(stream::poll_fn(move |cx| said.poll_recv(cx)).boxed(), &kept, None, None));
        say.send(event(9)).expect("read");
        tokio::task::yield_now().await;
        let known = |sessions: &[Streams]| -> Vec<bool> {
            sessions.iter().enumerate().map(|(n, streams)| streams.after(&n.to_string()).is_some()).collect()
        };
        assert_eq!(known(&sessions), [true; 4]);
        // As if others kept all that these five events leave: two of them have to go when two more come.
        kept.changed(MAX_BYTES.cast_signed() - 5 * size(&event(0)).cast_signed());
        let mut another = Streams::default();
        assert_eq!(ids(another.read(stream::iter([event(5), event(6)]).boxed(), &kept, None, None)).await.len(), 2);
        tokio::task::yield_now().await;
        assert_eq!(known(&sessions), [false, false, true, true], "of whichever session");
        assert!(kept.bytes() <= MAX_BYTES && another.after("5").is_some());
        assert!(sessions[0].after("9").is_some(), "what is under way stays");
        drop((say, under_way));
        for n in 0..3 * LEAST_SWEPT {
            let mut gone = Streams::default();
            let _ = ids(gone.read(stream::iter([event(n)]).boxed(), &kept, None, None)).await;
            tokio::task::yield_now().await;
        }
        assert!(kept.ended().streams.len() <= 2 * LEAST_SWEPT, "{}", kept.ended().streams.len());
    }

    #[tokio::test]
    async fn a_listener_who_does_not_read_holds_up_nobody() {
        let (say, said) = mpsc::channel(1);
        let events = stream::unfold(said, async |mut said| said.recv().await.map(|event| (event, said)));
        let unread = listened(events.boxed(), CancellationToken::new());
        let mut told = 0;
        while say.send(event(told)).await.is_ok() {
            told += 1;
        }
        assert!(told >= MAX_UNREAD, "{told}");
        assert_eq!(ids(unread).await.len(), MAX_UNREAD, "what it was told is still there, and then it ends");
    }

    #[tokio::test]
    async fn a_listeners_stream_ends_with_its_session_and_its_reading_with_the_listener() {
        let (say, closed) = (mpsc::channel::<ServerSseMessage>(1), CancellationToken::new());
        let events = |mut said: mpsc::Receiver<_>| stream::poll_fn(move |cx| said.poll_recv(cx)).boxed();
        let heard = listened(events(say.1), closed.clone());
        closed.cancel();
        assert!(ids(heard).await.is_empty());
        say.0.closed().await;
        let say = mpsc::channel::<ServerSseMessage>(1);
        drop(listened(events(say.1), CancellationToken::new()));
        say.0.closed().await;
    }
}
