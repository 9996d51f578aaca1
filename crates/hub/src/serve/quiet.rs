//! One poll fewer for every request that has a body.
//!
//! When hyper's receiving end of a body hands out a part of it, it wakes the sending end to bring more. That end is the
//! connection, which is being polled at that very moment (it is what polls the request's answer), so it would be polled
//! a second time for nothing: with the last part there is no more to bring. Here a wake in that moment is kept back,
//! and passed on only if there is more.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use axum::body::Bytes;
use hyper::body::{Body, Frame, SizeHint};

thread_local! {
    /// Whether a part of a body is being taken on this thread.
    static TAKING: Cell<bool> = const { Cell::new(false) };
    /// The connection that was to be woken meanwhile.
    static KEPT_BACK: RefCell<Option<Arc<Quiet>>> = const { RefCell::new(None) };
}

/// Stands before the waker of a connection's task.
struct Quiet(Waker);

impl Wake for Quiet {
    fn wake(self: Arc<Self>) {
        if TAKING.get() {
            KEPT_BACK.set(Some(self));
        } else {
            self.0.wake_by_ref();
        }
    }
}

/// Ends with the taking, however that ends.
struct Taking;

impl Taking {
    fn begin() -> Self {
        TAKING.set(true);
        Self
    }
}

impl Drop for Taking {
    fn drop(&mut self) {
        TAKING.set(false);
    }
}

/// A connection, polled with a waker that can be kept back.
pub(super) struct QuietTask {
    task: Waker,
    quiet: Waker,
}

impl QuietTask {
    pub(super) fn new() -> Self {
        Self { task: Waker::noop().clone(), quiet: Waker::noop().clone() }
    }

    pub(super) fn poll<F: Future>(&mut self, connection: Pin<&mut F>, cx: &Context<'_>) -> Poll<F::Output> {
        if !self.task.will_wake(cx.waker()) {
            self.task.clone_from(cx.waker());
            self.quiet = Arc::new(Quiet(cx.waker().clone())).into();
        }
        connection.poll(&mut Context::from_waker(&self.quiet))
    }
}

/// A request's body.
pub(super) struct QuietBody<B>(pub(super) B);

impl<B: Body<Data = Bytes> + Unpin> Body for QuietBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let taking = Taking::begin();
        let polled = Pin::new(&mut self.0).poll_frame(cx);
        drop(taking);
        if let Some(connection) = KEPT_BACK.take()
            && !self.0.is_end_stream()
        {
            connection.wake();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::poll_fn;
    use std::pin::pin;

    use axum::http::{Request, Response};
    use http_body_util::{BodyExt as _, Full};
    use hyper::body::Incoming;
    use hyper::server::conn::http1;
    use hyper::service::service_fn;
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// Serves a connection that answers with each request's own body. How often it was polled, and what it answered.
    async fn echo(parts: &[&[u8]], quietly: bool) -> (usize, String) {
        let (mut client, server) = tokio::io::duplex(1 << 20);
        let serving = tokio::spawn(async move {
            let service = service_fn(async |request: Request<Incoming>| {
                let body = QuietBody(request.into_body()).collect().await.expect("whole");
                Ok::<_, Infallible>(Response::new(Full::new(body.to_bytes())))
            });
            let mut connection = pin!(http1::Builder::new().serve_connection(TokioIo::new(server), service));
            let (mut task, mut polls) = (QuietTask::new(), 0);
            let ended = poll_fn(|cx| {
                polls += 1;
                if quietly { task.poll(connection.as_mut(), cx) } else { connection.as_mut().poll(cx) }
            });
            ended.await.expect("no error");
            polls
        });
        for part in parts {
            client.write_all(part).await.expect("it reads");
            tokio::task::yield_now().await;
        }
        client.shutdown().await.expect("open");
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.expect("text");
        let body = answer.split_once("\r\n\r\n").expect("a head").1.to_owned();
        (serving.await.expect("no panic"), body)
    }

    #[tokio::test]
    async fn a_body_in_one_part_takes_a_poll_fewer() {
        let request = [&b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhello"[..]];
        let (quiet, answer) = echo(&request, true).await;
        let (plain, same) = echo(&request, false).await;
        assert_eq!((answer.as_str(), same.as_str()), ("hello", "hello"));
        assert!(quiet < plain, "{quiet} polls and {plain} without");
    }

    #[tokio::test]
    async fn a_body_in_many_parts_comes_whole() {
        let long = "x".repeat(300_000);
        let head = format!("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", long.len());
        let parts: Vec<&[u8]> = [head.as_bytes()].into_iter().chain(long.as_bytes().chunks(7_000)).collect();
        assert_eq!(echo(&parts, true).await.1, long);
        let chunks = b"5\r\nhello\r\n1\r\n \r\n5\r\nthere\r\n0\r\n\r\n";
        let head = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
        let mut whole = head.to_vec();
        whole.extend_from_slice(chunks);
        assert_eq!(echo(&[&whole], true).await.1, "hello there", "in one write");
        let parts: Vec<&[u8]> = [&head[..]].into_iter().chain(chunks.chunks(1)).collect();
        assert_eq!(echo(&parts, true).await.1, "hello there", "byte by byte");
    }
}
