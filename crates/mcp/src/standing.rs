//! The stream on which a session's client hears what belongs to none of its requests.
//!
//! The SDK has one for each session. It waits for whoever reads it, with all of the session, and leaves it to the first
//! connection for as long as that seems to live: a client whose network has changed would hear nothing on its second. So
//! the hub reads it, keeps the last of it, and tells the newest connection. Older ones stay open, because clients would
//! open them again, and are told when the newer ones are gone.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt as _, stream};
use rmcp::transport::streamable_http_server::session::ServerSseMessage;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::streams::is_answer;

/// Events that are kept for a client that comes back.
const MAX_EVENTS: usize = 64;
/// Events beyond those that may wait for a client to read them.
const MAX_UNREAD: usize = 64;
/// Connections of one session that listen.
const MAX_LISTENERS: usize = 8;
/// After how long a client is to come back.
pub(super) const RETRY: Duration = Duration::from_secs(3);
/// What the ids of these events begin with; those of requests are numbers.
const ID: &str = "standing/";

/// One session's.
#[derive(Clone, Debug, Default)]
pub(super) struct Standing(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    events: VecDeque<(u64, ServerSseMessage)>,
    /// The number of the last event.
    said: u64,
    /// The number of the last one that some connection was told.
    heard: u64,
    /// The newest last.
    listeners: Vec<mpsc::Sender<ServerSseMessage>>,
    ended: bool,
}

/// The number of an event of this stream.
pub(super) fn number(event: &str) -> Option<u64> {
    event.strip_prefix(ID)?.parse().ok()
}

impl Standing {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the SDK begin its stream, and reads it for as long as there is the session; whether or not the client that asked
    /// for it is still there.
    pub(super) fn read(
        &self,
        events: impl Future<Output = Option<BoxStream<'static, ServerSseMessage>>> + Send + 'static,
        closed: CancellationToken,
    ) {
        let standing = self.clone();
        tokio::spawn(async move {
            let reading = async {
                let Some(mut events) = events.await else { return };
                while let Some(event) = events.next().await {
                    standing.push(event);
                }
            };
            tokio::select! {
                () = reading => {}
                () = closed.cancelled() => {}
            }
            let mut state = standing.state();
            state.ended = true;
            state.listeners.clear();
        });
    }

    fn push(&self, mut event: ServerSseMessage) {
        // An answer that nobody waits for any more has no place here, says the specification.
        if event.message.is_none() || is_answer(&event) {
            return;
        }
        let mut state = self.state();
        state.said += 1;
        event.event_id = Some(format!("{ID}{}", state.said));
        let said = state.said;
        state.events.push_back((said, event.clone()));
        if state.events.len() > MAX_EVENTS {
            state.events.pop_front();
        }
        while let Some(newest) = state.listeners.last() {
            if newest.try_send(event.clone()).is_ok() {
                state.heard = state.said;
                return;
            }
            // It is gone, or does not read: it can come back for the rest.
            state.listeners.pop();
        }
    }

    /// A connection listens: to what came after that event, or after all that others were told, and from now on.
    pub(super) fn listen(&self, after: Option<u64>) -> impl Stream<Item = ServerSseMessage> + Send + Sync + use<> {
        let (say, mut told) = mpsc::channel(1 + MAX_EVENTS + MAX_UNREAD);
        let mut state = self.state();
        let after = after.map_or(state.heard, |after| after.min(state.said));
        let first = ServerSseMessage::priming(format!("{ID}{after}"), RETRY);
        let missed = state.events.iter().filter(|(number, _)| *number > after).map(|(_, event)| event.clone());
        for event in std::iter::once(first).chain(missed) {
            // There is room for all that is kept, and its other end is in hand.
            let _ = say.try_send(event);
        }
        state.heard = state.said;
        if !state.ended {
            state.listeners.push(say);
            if state.listeners.len() > MAX_LISTENERS {
                state.listeners.remove(0);
            }
        }
        drop(state);
        stream::poll_fn(move |cx| told.poll_recv(cx))
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::{
        EmptyResult, RequestId, ResourceUpdatedNotificationParam, ServerJsonRpcMessage, ServerNotification,
        ServerResult,
    };

    use super::*;

    fn news() -> ServerSseMessage {
        let news = ResourceUpdatedNotificationParam::new("convoke://journal");
        let news = ServerNotification::ResourceUpdatedNotification(rmcp::model::Notification::new(news));
        ServerSseMessage::from_message(ServerJsonRpcMessage::notification(news))
    }

    /// What has come in, without its priming.
    async fn heard(from: &mut (impl Stream<Item = ServerSseMessage> + Unpin)) -> Vec<u64> {
        let mut ids = Vec::new();
        while let Ok(Some(event)) = tokio::time::timeout(Duration::ZERO, from.next()).await {
            if event.message.is_some() {
                ids.push(number(event.event_id.as_deref().expect("an id")).expect("one of these"));
            }
        }
        ids
    }

    #[tokio::test]
    async fn the_newest_connection_is_told_and_an_older_one_when_that_is_gone() {
        let standing = Standing::default();
        standing.push(news());
        let mut first = Box::pin(standing.listen(None));
        assert_eq!(heard(&mut first).await, [1], "nobody had been told");
        let mut second = Box::pin(standing.listen(None));
        standing.push(news());
        assert_eq!((heard(&mut first).await, heard(&mut second).await), (vec![], vec![2]));
        drop(second);
        standing.push(news());
        assert_eq!(heard(&mut first).await, [3]);
        let mut back = Box::pin(standing.listen(number("standing/1")));
        assert_eq!(heard(&mut back).await, [2, 3]);
        assert_eq!(heard(&mut Box::pin(standing.listen(Some(99)))).await, [0; 0]);
    }

    #[tokio::test]
    async fn an_answer_is_not_told_here() {
        let standing = Standing::default();
        let answer = ServerJsonRpcMessage::response(ServerResult::EmptyResult(EmptyResult {}), RequestId::Number(1));
        standing.push(ServerSseMessage::from_message(answer));
        assert_eq!(heard(&mut Box::pin(standing.listen(None))).await, [0; 0]);
    }

    #[tokio::test]
    async fn a_listener_who_does_not_read_holds_up_nobody() {
        let (say, said) = mpsc::channel(1);
        let events = stream::unfold(said, async |mut said| said.recv().await.map(|event| (event, said))).boxed();
        let (standing, closed) = (Standing::default(), CancellationToken::new());
        standing.read(std::future::ready(Some(events)), closed.clone());
        let mut unread = Box::pin(standing.listen(None));
        for _ in 0..1000 {
            say.send(news()).await.expect("is read");
        }
        let told = heard(&mut unread).await.len();
        assert!((MAX_EVENTS..1000).contains(&told), "{told}");
        assert!(unread.next().await.is_none(), "it was not told the rest");
        let mut back = Box::pin(standing.listen(Some(0)));
        assert_eq!(heard(&mut back).await.len(), MAX_EVENTS, "the last of it");
        closed.cancel();
        assert!(back.next().await.is_none(), "it ends with the session");
        say.closed().await;
    }

    #[tokio::test]
    async fn connections_are_bounded_and_the_oldest_go() {
        let standing = Standing::default();
        let mut all: Vec<_> = (0..=MAX_LISTENERS).map(|_| Box::pin(standing.listen(None))).collect();
        let mut rest = Vec::new();
        while let Ok(Some(event)) = tokio::time::timeout(Duration::from_secs(5), all[0].next()).await {
            rest.push(event);
        }
        assert_eq!(rest.len(), 1, "its priming, and then the end");
        assert_eq!(standing.state().listeners.len(), MAX_LISTENERS);
    }
}
