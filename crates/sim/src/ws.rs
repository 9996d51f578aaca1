//! One WebSocket, either side, as thin as it gets: tungstenite's frame header, no buffer while idle, one place that
//! reads and writes. The same shape as the hub's own socket, so that the bare forwarder differs from the hub by the
//! hub's work and not by its plumbing.
//!
//! Messages come in one frame each; kenny's ends do not fragment, and one that does is refused here.

mod upgrade;

use std::future::poll_fn;
use std::io::{self, Cursor};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tungstenite::protocol::frame::FrameHeader;
use tungstenite::protocol::frame::coding::{Control, Data, OpCode};

pub use upgrade::UpgradeError;

/// Largest message that is taken, in bytes.
const MAX_MESSAGE: usize = 64 * 1024 * 1024;
/// Longest header of a frame, in bytes.
const MAX_HEADER: usize = 14;
/// Read at once from the socket, on the stack: an idle socket holds nothing.
const READ: usize = 4096;
/// Read at once into a large message.
const READ_LARGE: usize = 64 * 1024;
/// Write buffers up to this size are kept between writes.
const KEEP: usize = 1024;

/// A WebSocket, over TCP unless something else is said.
#[derive(Debug)]
pub struct Socket<S = TcpStream> {
    io: S,
    side: Side,
    inbox: Vec<u8>,
    /// Where in `inbox` the next frame starts.
    start: usize,
    out: Vec<u8>,
    written: usize,
}

/// Whose end this is.
#[derive(Debug)]
enum Side {
    /// Masks what it sends. The mask keeps old proxies from being fooled by a page's bytes; on loopback there are none,
    /// so any changing value does.
    Client {
        mask: u32,
    },
    Server,
}

/// Something that arrived whole.
#[derive(Debug, PartialEq, Eq)]
pub enum Incoming {
    /// A text message.
    Text(String),
    /// A ping; its answer is queued already.
    Ping,
    /// A pong, or a binary message: a sign of life and nothing else.
    Other,
    /// The other side closes, with its code.
    Close(Option<u16>),
}

/// Why a socket is of no use any more.
#[derive(Debug, thiserror::Error)]
pub enum WsError {
    /// The stream failed or ended.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The other side broke the rules.
    #[error("the other side sent {0}")]
    Protocol(&'static str),
}

impl<S: AsyncRead + AsyncWrite + Unpin> Socket<S> {
    /// The client's end of `io`, on which the upgrade is done and `read` was read beyond it.
    fn client(io: S, read: Vec<u8>, mask: u32) -> Self {
        Self::new(io, read, Side::Client { mask })
    }

    /// The server's end of `io`, on which the upgrade is done and `read` was read beyond it.
    pub fn server(io: S, read: Vec<u8>) -> Self {
        Self::new(io, read, Side::Server)
    }

    fn new(io: S, inbox: Vec<u8>, side: Side) -> Self {
        Self { io, side, inbox, start: 0, out: Vec::new(), written: 0 }
    }

    /// Queues a text message; [`Socket::next`] and [`Socket::flush`] write it.
    pub fn queue_text(&mut self, text: &str) {
        self.queue(OpCode::Data(Data::Text), text.as_bytes());
    }

    /// Queues a normal close.
    pub fn queue_close(&mut self) {
        self.queue(OpCode::Control(Control::Close), &1000u16.to_be_bytes());
    }

    fn queue(&mut self, opcode: OpCode, payload: &[u8]) {
        let mask = match &mut self.side {
            Side::Client { mask } => {
                *mask = mask.wrapping_mul(0x9E37_79B1).wrapping_add(1);
                Some(mask.to_be_bytes())
            }
            Side::Server => None,
        };
        let header = FrameHeader { is_final: true, rsv1: false, rsv2: false, rsv3: false, opcode, mask };
        self.out.reserve(MAX_HEADER + payload.len());
        // Writing to memory does not fail.
        let _ = header.format(payload.len() as u64, &mut self.out);
        let from = self.out.len();
        self.out.extend_from_slice(payload);
        if let Some(mask) = mask {
            apply_mask(&mut self.out[from..], mask);
        }
    }

    /// What comes next; writes what is queued meanwhile. Cancel-safe: all state is in `self`.
    pub async fn next(&mut self) -> Result<Incoming, WsError> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Writes all that is queued.
    pub async fn flush(&mut self) -> io::Result<()> {
        poll_fn(|cx| self.poll_write(cx)).await
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Incoming, WsError>> {
        if let Poll::Ready(Err(error)) = self.poll_write(cx) {
            return Poll::Ready(Err(error.into()));
        }
        loop {
            let missing = match self.decode()? {
                Decoded::Whole(incoming) => return Poll::Ready(Ok(incoming)),
                Decoded::Missing(bytes) => bytes,
            };
            let read = if missing > READ { self.poll_read::<READ_LARGE>(cx) } else { self.poll_read::<READ>(cx) };
            if ready!(read)? == 0 {
                return Poll::Ready(Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()));
            }
        }
    }

    fn poll_read<const N: usize>(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut scratch = [0; N];
        let mut buffer = ReadBuf::new(&mut scratch);
        ready!(Pin::new(&mut self.io).poll_read(cx, &mut buffer))?;
        self.inbox.extend_from_slice(buffer.filled());
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
        self.out.clear();
        if self.out.capacity() > KEEP {
            self.out = Vec::new();
        }
        Poll::Ready(Ok(()))
    }

    fn decode(&mut self) -> Result<Decoded, WsError> {
        let mut cursor = Cursor::new(&self.inbox[self.start..]);
        let parsed = FrameHeader::parse(&mut cursor).map_err(|_| WsError::Protocol("a malformed frame header"))?;
        let Some((header, length)) = parsed else { return Ok(Decoded::Missing(1)) };
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > MAX_MESSAGE {
            return Err(WsError::Protocol("a message that is too large"));
        }
        let from = self.start + usize::try_from(cursor.position()).unwrap_or(usize::MAX);
        let end = from + length;
        if self.inbox.len() < end {
            return Ok(Decoded::Missing(end - self.inbox.len()));
        }
        let payload = &mut self.inbox[from..end];
        if let Some(mask) = header.mask {
            apply_mask(payload, mask);
        }
        let incoming = match header.opcode {
            OpCode::Data(Data::Text) if header.is_final => {
                let text = std::str::from_utf8(payload).map_err(|_| WsError::Protocol("text that is not UTF-8"))?;
                Incoming::Text(text.to_owned())
            }
            OpCode::Data(Data::Binary) if header.is_final => Incoming::Other,
            OpCode::Data(_) => return Err(WsError::Protocol("a message in several frames")),
            OpCode::Control(Control::Ping) => {
                let payload = payload.to_vec();
                self.queue(OpCode::Control(Control::Pong), &payload);
                Incoming::Ping
            }
            OpCode::Control(Control::Close) => {
                Incoming::Close(payload.first_chunk().map(|code| u16::from_be_bytes(*code)))
            }
            OpCode::Control(_) => Incoming::Other,
        };
        self.start = end;
        if self.start == self.inbox.len() {
            self.inbox = Vec::new();
            self.start = 0;
        }
        Ok(Decoded::Whole(incoming))
    }
}

enum Decoded {
    Whole(Incoming),
    /// At least so many bytes are missing.
    Missing(usize),
}

/// Eight bytes at a time: the compiler turns the inner loop into one instruction.
fn apply_mask(payload: &mut [u8], [a, b, c, d]: [u8; 4]) {
    let wide = [a, b, c, d, a, b, c, d];
    let mut chunks = payload.chunks_exact_mut(8);
    for chunk in &mut chunks {
        for (byte, mask) in chunk.iter_mut().zip(wide) {
            *byte ^= mask;
        }
    }
    for (byte, mask) in chunks.into_remainder().iter_mut().zip(wide) {
        *byte ^= mask;
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    async fn pair() -> (Socket, Socket) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (client, server) = tokio::join!(TcpStream::connect(address), listener.accept());
        (Socket::client(client.unwrap(), Vec::new(), 7), Socket::server(server.unwrap().0, Vec::new()))
    }

    #[tokio::test]
    async fn messages_of_any_size_come_out_as_they_were_sent() {
        let (mut client, mut server) = pair().await;
        for length in [0, 1, 7, 125, 126, 5_000, 70_000, 1_000_000] {
            let text: String = ('a'..='z').cycle().take(length).collect();
            client.queue_text(&text);
            let (flushed, there) = tokio::join!(client.flush(), server.next());
            flushed.unwrap();
            assert_eq!(there.unwrap(), Incoming::Text(text.clone()));
            server.queue_text(&text);
            let (flushed, back) = tokio::join!(server.flush(), client.next());
            flushed.unwrap();
            assert_eq!(back.unwrap(), Incoming::Text(text));
        }
        assert_eq!((client.inbox.capacity(), server.inbox.capacity()), (0, 0), "an idle socket holds nothing");
    }

    #[tokio::test]
    async fn several_messages_in_one_packet_come_one_by_one() {
        let (mut client, mut server) = pair().await;
        client.queue_text("one");
        client.queue_text("two");
        client.queue_close();
        client.flush().await.unwrap();
        assert_eq!(server.next().await.unwrap(), Incoming::Text("one".into()));
        assert_eq!(server.next().await.unwrap(), Incoming::Text("two".into()));
        assert_eq!(server.next().await.unwrap(), Incoming::Close(Some(1000)));
    }

    #[tokio::test]
    async fn a_ping_is_answered() {
        let (mut client, mut server) = pair().await;
        server.queue(OpCode::Control(Control::Ping), b"hello");
        server.flush().await.unwrap();
        assert_eq!(client.next().await.unwrap(), Incoming::Ping);
        client.flush().await.unwrap();
        assert_eq!(server.next().await.unwrap(), Incoming::Other);
    }

    #[tokio::test]
    async fn an_end_without_a_close_is_an_error() {
        let (client, mut server) = pair().await;
        drop(client);
        assert!(matches!(server.next().await, Err(WsError::Io(_))));
    }
}
