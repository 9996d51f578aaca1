//! Clients that do not read. What a client is answered waits in memory until it reads it; one that never does would keep
//! it, and its connection, for as long as it likes.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// How long a client may leave what it is sent unread once the system's buffers are full. On a slow line they are small, so
/// that much of them is read by then.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A connection that is given up when its client has read nothing for a while.
#[derive(Debug)]
pub struct Reader<S> {
    stream: S,
    patience: Duration,
    /// Since it could not be written to. Boxed: hardly any connection has one.
    waits: Option<Pin<Box<Sleep>>>,
}

impl<S> Reader<S> {
    pub const fn new(stream: S) -> Self {
        Self { stream, patience: PATIENCE, waits: None }
    }

    /// The connection alone, for who looks after it in another way.
    pub fn into_inner(self) -> S {
        self.stream
    }

    /// Passes on what became of a write; one that waits for too long has failed.
    fn written<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.waits = None;
            return polled;
        }
        let until = Instant::now() + self.patience;
        let waits = self.waits.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
        ready!(waits.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Reader<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Reader<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.written(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.written(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        // A flush is through at once where nothing is held back, whatever a write before it waits for.
        if polled.is_ready() { polled } else { self.written(cx, polled) }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.written(cx, polled)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn a_client_that_does_not_read_is_given_up() {
        let (_client, server) = tokio::io::duplex(64);
        let mut server = Reader { patience: Duration::from_millis(20), ..Reader::new(server) };
        let failed = server.write_all(&[0; 1000]).await.expect_err("nobody reads");
        assert_eq!(failed.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn one_that_reads_little_by_little_gets_all_of_it() {
        let (mut client, server) = tokio::io::duplex(64);
        let mut server = Reader::new(server);
        let reading = tokio::spawn(async move {
            let mut all = Vec::new();
            client.read_to_end(&mut all).await.expect("more comes");
            all.len()
        });
        server.write_all(&[0; 1000]).await.expect("somebody reads");
        assert!(server.waits.is_none(), "each part that is read begins it anew");
        drop(server);
        assert_eq!(reading.await.expect("no panic"), 1000);
    }
}
