//! The client's end of a WebSocket. An idle one holds no buffer; what is announced reserves nothing; the limit grows once
//! the hub has proved itself.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use convoke_ws::{Decoder, Event, WsError, apply_mask};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tungstenite::handshake::derive_accept_key;
use tungstenite::protocol::frame::FrameHeader;
use tungstenite::protocol::frame::coding::{Control, Data, OpCode};
use url::Url;

/// Longest answer to the upgrade that is read.
const MAX_HEAD: usize = 8 * 1024;
/// Read at once from the stream, on the stack.
const READ: usize = 4096;
/// Read at once into a large message.
const CHUNK: usize = 64 * 1024;
/// Write buffers up to this size are kept between writes.
const KEEP: usize = 4096;
/// Longest header of a frame that a client sends.
const HEADER: usize = 14;
/// The header by which a hub of ours says how large a frame may be. Others say nothing.
const MAX_FRAME_HEADER: &str = "convoke-max-frame";

/// A WebSocket over any stream.
#[derive(Debug)]
pub(crate) struct Socket<S> {
    io: S,
    decoder: Decoder,
    out: Vec<u8>,
    written: usize,
}

/// Why a connection did not become a WebSocket.
#[derive(Debug, thiserror::Error)]
pub enum UpgradeError {
    /// The stream failed or ended.
    #[error("the connection was lost: {0}")]
    Io(#[from] io::Error),
    /// The server said something else than 101.
    #[error("{0}")]
    Refused(String),
}

/// Why a socket is of no use any more.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The other side broke the rules.
    #[error("the hub violated the WebSocket protocol: {0}")]
    Broken(#[from] WsError),
    /// The stream failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The stream ended without a close frame.
    #[error("the connection ended")]
    Ended,
}

/// What the server said in its answer to the upgrade.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Welcome {
    /// The largest frame it takes, if it told.
    pub(crate) max_frame: Option<usize>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Socket<S> {
    /// Makes a WebSocket of a fresh connection. Only `Host` goes out beside the upgrade itself, as with the agents of
    /// the field.
    pub(crate) async fn upgrade(io: S, url: &Url, limit: usize) -> Result<(Self, Welcome), UpgradeError> {
        Self::upgrade_with(io, url, limit, "").await
    }

    /// The same with more headers: whole lines, each with its end.
    pub(crate) async fn upgrade_with(
        mut io: S,
        url: &Url,
        limit: usize,
        headers: &str,
    ) -> Result<(Self, Welcome), UpgradeError> {
        let mut nonce = [0; 16];
        getrandom::fill(&mut nonce).map_err(io::Error::other)?;
        let key = convoke_kenny::wire_bytes::encode(&nonce);
        let host = match url.port() {
            Some(port) => format!("{}:{port}", url.host_str().unwrap_or_default()),
            None => url.host_str().unwrap_or_default().to_owned(),
        };
        let request = format!(
            "GET {} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n{headers}\r\n",
            url.path()
        );
        io.write_all(request.as_bytes()).await?;
        io.flush().await?;
        let (head, rest) = read_head(&mut io).await?;
        let welcome = check(&head, &derive_accept_key(key.as_bytes()))?;
        let mut decoder = Decoder::client(limit);
        decoder.feed(&rest);
        Ok((Self { io, decoder, out: Vec::new(), written: 0 }, welcome))
    }

    /// Takes messages of at most `limit` bytes from now on.
    pub(crate) const fn set_limit(&mut self, limit: usize) {
        self.decoder.set_limit(limit);
    }

    /// Bytes that wait to be written.
    pub(crate) const fn backlog(&self) -> usize {
        self.out.len() - self.written
    }

    /// Queues a text message; [`Socket::next`] writes it.
    pub(crate) fn queue_text(&mut self, text: &str) {
        self.queue(OpCode::Data(Data::Text), text.as_bytes());
    }

    /// Queues the answer to a ping.
    pub(crate) fn queue_pong(&mut self, payload: &[u8]) {
        self.queue(OpCode::Control(Control::Pong), payload);
    }

    /// Queues a ping.
    pub(crate) fn queue_ping(&mut self) {
        self.queue(OpCode::Control(Control::Ping), b"");
    }

    /// Queues a close frame.
    pub(crate) fn queue_close(&mut self, code: u16) {
        self.queue(OpCode::Control(Control::Close), &code.to_be_bytes());
    }

    fn queue(&mut self, opcode: OpCode, payload: &[u8]) {
        let mut mask = [0; 4];
        // The mask keeps intermediaries from being fooled by bytes that somebody else chose. Without randomness there
        // would have been no handshake; a fixed mask is still a valid frame.
        let _ = getrandom::fill(&mut mask);
        let header = FrameHeader { is_final: true, rsv1: false, rsv2: false, rsv3: false, opcode, mask: Some(mask) };
        self.out.reserve(HEADER + payload.len());
        // Writing to memory does not fail.
        let _ = header.format(payload.len() as u64, &mut self.out);
        let from = self.out.len();
        self.out.extend_from_slice(payload);
        apply_mask(&mut self.out[from..], mask);
    }

    /// The next event; writes what is queued meanwhile. Cancel-safe: all state is in `self`.
    pub(crate) async fn next(&mut self) -> Result<Event, SocketError> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// As [`Socket::next`]; and nothing, when less than `mark` bytes wait after it was more. Whoever holds back what it
    /// would send has to look again then: the hub may have nothing to say for a long time.
    pub(crate) async fn next_or_room(&mut self, mark: usize) -> Result<Option<Event>, SocketError> {
        poll_fn(|cx| {
            let had_room = self.backlog() < mark;
            match self.poll_next(cx) {
                Poll::Pending if !had_room && self.backlog() < mark => Poll::Ready(Ok(None)),
                polled => polled.map_ok(Some),
            }
        })
        .await
    }

    /// Writes all that is queued.
    pub(crate) async fn flush(&mut self) -> io::Result<()> {
        poll_fn(|cx| self.poll_write(cx)).await
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Event, SocketError>> {
        if let Poll::Ready(Err(error)) = self.poll_write(cx) {
            return Poll::Ready(Err(error.into()));
        }
        loop {
            if let Some(event) = self.decoder.next_event()? {
                return Poll::Ready(Ok(event));
            }
            if ready!(self.poll_read(cx))? == 0 {
                return Poll::Ready(Err(SocketError::Ended));
            }
        }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if let Some(buffer) = self.decoder.room(CHUNK) {
            return tokio_util::io::poll_read_buf(Pin::new(&mut self.io), cx, buffer);
        }
        let mut scratch = [0; READ];
        let mut buffer = ReadBuf::new(&mut scratch);
        ready!(Pin::new(&mut self.io).poll_read(cx, &mut buffer))?;
        self.decoder.feed(buffer.filled());
        Poll::Ready(Ok(buffer.filled().len()))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.out.len() {
            let n = ready!(Pin::new(&mut self.io).poll_write(cx, &self.out[self.written..]))?;
            if n == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.written += n;
        }
        self.written = 0;
        if self.out.capacity() > KEEP {
            self.out = Vec::new();
        }
        self.out.clear();
        Pin::new(&mut self.io).poll_flush(cx)
    }
}

/// Reads up to the empty line that ends an HTTP head, and returns what came after it too.
pub(crate) async fn read_head<S: AsyncRead + Unpin>(io: &mut S) -> Result<(String, Vec<u8>), UpgradeError> {
    let mut read = Vec::with_capacity(512);
    loop {
        if let Some(at) = read.windows(4).position(|w| w == b"\r\n\r\n") {
            let rest = read.split_off(at + 4);
            return Ok((String::from_utf8_lossy(&read).into_owned(), rest));
        }
        if read.len() >= MAX_HEAD {
            return Err(UpgradeError::Refused("its answer does not end".into()));
        }
        if io.read_buf(&mut read).await? == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
    }
}

fn check(head: &str, accept: &str) -> Result<Welcome, UpgradeError> {
    let mut lines = head.lines();
    let status = lines.next().unwrap_or_default();
    if status.split(' ').nth(1) != Some("101") {
        let status: String = status.chars().filter(|c| !c.is_control()).take(100).collect();
        return Err(UpgradeError::Refused(format!(
            "it answers `{status}` instead of opening a WebSocket; is this the address of a hub?"
        )));
    }
    let headers: Vec<(&str, &str)> = lines.filter_map(|line| line.split_once(':')).collect();
    let header = |name: &str| headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.trim());
    if header("sec-websocket-accept") != Some(accept) {
        return Err(UpgradeError::Refused("its answer does not match our upgrade request".into()));
    }
    if header("sec-websocket-extensions").is_some() || header("sec-websocket-protocol").is_some() {
        return Err(UpgradeError::Refused("it uses an extension that was not offered".into()));
    }
    Ok(Welcome { max_frame: header(MAX_FRAME_HEADER).and_then(|value| value.parse().ok()) })
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn only_a_101_with_our_key_is_an_upgrade() {
        let good =
            "HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: abc\r\nConvoke-Max-Frame: 8388608\r\n\r\n";
        assert_eq!(check(good, "abc").expect("fits").max_frame, Some(8 << 20));
        for (head, expect) in [
            ("HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: xyz\r\n\r\n", "does not match"),
            ("HTTP/1.1 404 Not Found\r\n\r\n", "404"),
            ("HTTP/1.1 101 x\r\nSec-WebSocket-Accept: abc\r\nSec-WebSocket-Extensions: x\r\n\r\n", "extension"),
            ("SSH-2.0-x\r\n\r\n", "is this the address of a hub"),
        ] {
            let why = check(head, "abc").expect_err(head).to_string();
            assert!(why.contains(expect), "{head}: {why}");
        }
    }
}
