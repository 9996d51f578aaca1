//! A future that outlives whoever waits for it.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio_util::task::TaskTracker;

/// Runs where it is awaited, which saves a task and two trips through the scheduler; when whoever awaits it goes
/// away, it goes on as a task of its own.
pub struct Detach<T: 'static> {
    /// Taken out while it is polled: what panicked is not polled again.
    rest: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
}

impl<T: 'static> Detach<T> {
    /// A future that a hub which stops waits for.
    pub(crate) fn new(tasks: &TaskTracker, run: impl Future<Output = T> + Send + 'static) -> Self {
        // Tracked from the beginning, so that a stop waits for it either way.
        Self { rest: Some(Box::pin(tasks.track_future(run))) }
    }
}

impl<T: 'static> fmt::Debug for Detach<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Detach").field("ended", &self.rest.is_none()).finish_non_exhaustive()
    }
}

impl<T: 'static> Future for Detach<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let Some(mut rest) = self.rest.take() else { return Poll::Pending };
        let polled = rest.as_mut().poll(cx);
        if polled.is_pending() {
            self.rest = Some(rest);
        }
        polled
    }
}

impl<T: 'static> Drop for Detach<T> {
    fn drop(&mut self) {
        let Some(rest) = self.rest.take() else { return };
        // Without a runtime there is nobody left to go on.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                rest.await;
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn it_goes_on_when_nobody_waits_any_more() {
        let tasks = TaskTracker::new();
        let (go, going) = oneshot::channel::<()>();
        let (done, ended) = oneshot::channel();
        let run = Detach::new(&tasks, async move {
            going.await.expect("told to go");
            done.send(7).expect("someone looks");
        });
        assert!(tokio::time::timeout(Duration::ZERO, run).await.is_err(), "it waits to be told");
        assert_eq!(tasks.len(), 1, "a stop would wait for it");
        go.send(()).expect("it still runs");
        assert_eq!(ended.await, Ok(7));
        tasks.close();
        tasks.wait().await;
    }

    #[tokio::test]
    async fn where_it_is_awaited_it_ends() {
        let tasks = TaskTracker::new();
        assert_eq!(Detach::new(&tasks, async { 3 }).await, 3);
        assert!(tasks.is_empty());
    }
}
