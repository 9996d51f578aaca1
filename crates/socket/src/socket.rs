//! One WebSocket connection over a stream of bytes.

use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use convoke_ws::{Decoder, Event, WsError, apply_mask};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tungstenite::protocol::frame::FrameHeader;
use tungstenite::protocol::frame::coding::{Control, Data, OpCode};

use crate::budget::{self, Budget, Share};

/// Read at once from the stream: on the stack, so that an idle connection holds no buffer.
const READ: usize = 4096;
/// Read at once into a large frame.
const CHUNK: usize = 64 * 1024;

/// With more unsent bytes than this a server reads nothing more: a peer that makes it answer (with pings, say) and does
/// not read the answers would otherwise fill the memory.
const SERVER_BACKLOG: usize = 16 * 1024 * 1024;
/// The same for a client, whose single messages may be larger.
const CLIENT_BACKLOG: usize = 512 * 1024 * 1024;
/// How many messages of full size a peer may send before it is authenticated: proving who one is takes two small ones,
/// and pings and empty fragments cost work and answers, too.
const STRANGER_MESSAGES: u64 = 4;

/// How long a peer may take to answer a close frame.
pub const CLOSE_PATIENCE: Duration = Duration::from_secs(2);

/// The largest header of a frame.
const HEADER: usize = 14;

/// The close of a peer that sent a large message for which there was no memory, where the protocol has no better answer.
pub const NO_MEMORY: (u16, &str) = (1013, "no memory for a message of this size; try again");

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The other side broke the rules.
    #[error("the other side broke the WebSocket rules: {0}")]
    Broken(#[from] WsError),
    /// The stream failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The stream ended without a close frame.
    #[error("the connection ended without a close frame")]
    Ended,
}

/// Whose end of the connection this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Server,
    Client,
}

/// A WebSocket over `S`.
#[derive(Debug)]
pub struct Socket<S> {
    io: S,
    connection: Connection,
}

/// The state of a WebSocket connection, without its stream: what is to be written, and how far reading has come.
#[derive(Debug)]
pub struct Connection {
    role: Role,
    decoder: Decoder,
    /// Memory for large messages, of a peer that may send any.
    share: Option<Share>,
    out: Vec<u8>,
    written: usize,
    max_received: u64,
    progress: u64,
    received: u64,
    close_received: bool,
    /// The last event was a message: whoever asks for the next event is done with it.
    message_delivered: bool,
    is_closing: bool,
}

/// A server's text message as it goes over the wire. A server's frames are not masked, so the same bytes do for any
/// number of receivers.
pub fn text_frame(text: &str) -> Vec<u8> {
    let mut frame = Vec::new();
    write_frame(&mut frame, OpCode::Data(Data::Text), text.as_bytes(), None);
    frame
}

/// The text of such a frame.
pub fn frame_text(frame: &[u8]) -> Option<&str> {
    let header = match frame.get(1)? {
        126 => 4,
        127 => 10,
        _ => 2,
    };
    str::from_utf8(frame.get(header..)?).ok()
}

fn write_frame(out: &mut Vec<u8>, opcode: OpCode, payload: &[u8], mask: Option<[u8; 4]>) {
    let header = FrameHeader { is_final: true, rsv1: false, rsv2: false, rsv3: false, opcode, mask };
    out.reserve(HEADER + payload.len());
    // Writing to memory does not fail.
    let _ = header.format(payload.len() as u64, out);
    let from = out.len();
    out.extend_from_slice(payload);
    if let Some(mask) = mask {
        apply_mask(&mut out[from..], mask);
    }
}

/// The mask keeps intermediaries from being fooled by bytes that somebody else chose. Without randomness there would
/// have been no handshake; a fixed mask is still a valid frame.
fn random_mask() -> [u8; 4] {
    let mut mask = [0; 4];
    let _ = getrandom::fill(&mut mask);
    mask
}

impl Connection {
    fn new(role: Role, read: &[u8], limit: usize) -> Self {
        let (mut decoder, max_received) = match role {
            Role::Server => (Decoder::new(limit), STRANGER_MESSAGES * limit as u64),
            Role::Client => (Decoder::client(limit), u64::MAX),
        };
        decoder.feed(read);
        Self {
            role,
            decoder,
            share: None,
            out: Vec::new(),
            written: 0,
            max_received,
            progress: 0,
            received: read.len() as u64,
            close_received: false,
            message_delivered: false,
            is_closing: false,
        }
    }

    /// Takes messages of at most `limit` bytes from now on, and any number of them: the peer is authenticated.
    pub const fn set_limit(&mut self, limit: usize) {
        self.decoder.set_limit(limit);
        self.max_received = u64::MAX;
    }

    /// Takes memory for large messages from `budget` from now on. A message for which there is none is skipped.
    pub fn set_budget(&mut self, budget: &Arc<Budget>) {
        self.share.get_or_insert_with(|| Share::of(budget));
    }

    /// Bytes that wait to be written.
    pub const fn backlog(&self) -> usize {
        self.out.len() - self.written
    }

    /// Bytes ever written: shows whether a slow reader makes progress.
    pub const fn progress(&self) -> u64 {
        self.progress
    }

    /// Bytes ever read: shows whether a slow writer makes progress.
    pub const fn received(&self) -> u64 {
        self.received
    }

    /// Whether a large message waits for memory, so that nothing is read.
    pub fn is_waiting_for_budget(&self) -> bool {
        self.share.as_ref().is_some_and(Share::is_waiting)
    }

    /// Queues a text message; [`Socket::next`] writes it.
    pub fn queue_text(&mut self, text: &str) {
        self.queue(OpCode::Data(Data::Text), text.as_bytes());
    }

    /// Queues a frame that [`text_frame`] made; for servers.
    pub fn queue_framed(&mut self, frame: &[u8]) {
        debug_assert_eq!(self.role, Role::Server, "a client's frames are masked");
        self.out.extend_from_slice(frame);
    }

    /// Queues a ping. Its pong carries the same payload and means that everything before it was read. At most 125 bytes.
    pub fn queue_ping(&mut self, payload: &[u8]) {
        self.queue(OpCode::Control(Control::Ping), payload);
    }

    /// Queues the answer to a ping.
    pub fn queue_pong(&mut self, payload: &[u8]) {
        self.queue(OpCode::Control(Control::Pong), payload);
    }

    /// Queues a close frame. `reason` is cut to what a close frame holds.
    fn queue_close(&mut self, code: u16, reason: &str) {
        let reason = &reason[..reason.floor_char_boundary(123)];
        let mut payload = Vec::with_capacity(2 + reason.len());
        payload.extend_from_slice(&code.to_be_bytes());
        payload.extend_from_slice(reason.as_bytes());
        self.queue(OpCode::Control(Control::Close), &payload);
    }

    fn queue(&mut self, opcode: OpCode, payload: &[u8]) {
        let mask = (self.role == Role::Client).then(random_mask);
        write_frame(&mut self.out, opcode, payload, mask);
    }

    const fn max_backlog(&self) -> usize {
        match self.role {
            Role::Server => SERVER_BACKLOG,
            Role::Client => CLIENT_BACKLOG,
        }
    }

    /// Whether there is memory for the message under way.
    fn poll_budget(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let Some(share) = &mut self.share else { return Poll::Ready(true) };
        match self.decoder.under_way() {
            Some((here, whole)) if here >= budget::SMALL => {
                // Nobody looks at what comes after our close frame.
                let has_memory = !self.is_closing && ready!(share.poll_memory(here, whole, cx));
                if has_memory {
                    self.decoder.reserve();
                }
                Poll::Ready(has_memory)
            }
            _ => Poll::Ready(true),
        }
    }
}

impl<S> Deref for Socket<S> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl<S> DerefMut for Socket<S> {
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.connection
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Socket<S> {
    /// The server's end of `io`, of which `read` has been read already. The peer is a stranger until
    /// [`Connection::set_limit`] is called: it may send a few messages of at most `limit` bytes.
    pub fn server(io: S, read: &[u8], limit: usize) -> Self {
        Self { io, connection: Connection::new(Role::Server, read, limit) }
    }

    /// The client's end of `io`, of which `read` has been read already. Takes messages of at most `limit` bytes.
    pub fn client(io: S, read: &[u8], limit: usize) -> Self {
        Self { io, connection: Connection::new(Role::Client, read, limit) }
    }

    /// The next event; writes what is queued meanwhile. Cancel-safe: all state is in `self`.
    pub async fn next(&mut self) -> Result<Event, SocketError> {
        // One read may bring a thousand tiny frames: whoever sends such must let others have their turn.
        tokio::task::coop::consume_budget().await;
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// The same, or nothing as soon as fewer than `mark` bytes wait to be written where there were more.
    pub async fn next_or_writable(&mut self, mark: usize) -> Result<Option<Event>, SocketError> {
        tokio::task::coop::consume_budget().await;
        let was_full = self.backlog() >= mark;
        poll_fn(|cx| match self.poll_next(cx) {
            Poll::Pending if was_full && self.backlog() < mark => Poll::Ready(Ok(None)),
            polled => polled.map_ok(Some),
        })
        .await
    }

    /// Writes all that is queued.
    pub async fn flush(&mut self) -> io::Result<()> {
        poll_fn(|cx| self.poll_write(cx)).await
    }

    /// Sends a close frame, waits until the peer closes too, and ends the stream; within [`CLOSE_PATIENCE`].
    pub async fn close(&mut self, code: u16, reason: &str) {
        self.queue_close(code, reason);
        self.is_closing = true;
        if let Some(share) = &mut self.connection.share {
            share.release();
        }
        let closing = async {
            self.flush().await?;
            // Waiting for the peer's close lets it read ours: a reset would discard it. A peer that has sent its close
            // sends no second one, and waits for the end of the stream.
            while !self.close_received && self.next().await.is_ok() {}
            poll_fn(|cx| Pin::new(&mut self.io).poll_shutdown(cx)).await
        };
        let _ = tokio::time::timeout(CLOSE_PATIENCE, closing).await;
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Event, SocketError>> {
        if let Poll::Ready(Err(error)) = self.poll_write(cx) {
            return Poll::Ready(Err(error.into()));
        }
        let connection = &mut self.connection;
        if std::mem::take(&mut connection.message_delivered)
            && let Some(share) = &mut connection.share
        {
            share.release();
        }
        if connection.backlog() > connection.max_backlog() {
            // The write above wakes us.
            return Poll::Pending;
        }
        loop {
            let connection = &mut self.connection;
            if let Some(event) = connection.decoder.next_event()? {
                connection.close_received |= matches!(event, Event::Close(..));
                connection.message_delivered |= matches!(event, Event::Text(_) | Event::Binary(_));
                return Poll::Ready(Ok(event));
            }
            if !ready!(connection.poll_budget(cx)) {
                if let Some(skipped) = connection.decoder.skip() {
                    return Poll::Ready(Ok(Event::Skipped(skipped)));
                }
                continue;
            }
            match ready!(self.poll_read(cx))? {
                0 => return Poll::Ready(Err(SocketError::Ended)),
                read => self.received += read as u64,
            }
            if self.received > self.max_received {
                return Poll::Ready(Err(WsError::Protocol("too much data before authentication").into()));
            }
        }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let Self { io, connection } = self;
        if let Some(buffer) = connection.decoder.buffer(CHUNK) {
            return tokio_util::io::poll_read_buf(Pin::new(io), cx, buffer);
        }
        let mut scratch = [MaybeUninit::uninit(); READ];
        let mut buffer = ReadBuf::uninit(&mut scratch);
        ready!(Pin::new(io).poll_read(cx, &mut buffer))?;
        connection.decoder.feed(buffer.filled());
        Poll::Ready(Ok(buffer.filled().len()))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { io, connection } = self;
        while connection.written < connection.out.len() {
            let n = ready!(Pin::new(&mut *io).poll_write(cx, &connection.out[connection.written..]))?;
            if n == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            connection.written += n;
            connection.progress += n as u64;
        }
        connection.written = 0;
        // An idle connection holds no buffer.
        connection.out = Vec::new();
        Pin::new(io).poll_flush(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// A client's close frame with the code 1000.
    const CLOSE: [u8; 8] = [0x88, 0x82, 0, 0, 0, 0, 0x03, 0xe8];

    #[tokio::test]
    async fn a_peer_that_closed_first_is_not_waited_for() {
        let (io, mut peer) = tokio::io::duplex(256);
        let mut socket = Socket::server(io, &[], 1024);
        peer.write_all(&CLOSE).await.expect("space");
        assert!(matches!(socket.next().await, Ok(Event::Close(..))));
        // All of it is done when it is first polled: nothing is waited for.
        let closing = std::pin::pin!(socket.close(1000, "bye"));
        let waker = std::task::Waker::noop();
        assert!(closing.poll(&mut Context::from_waker(waker)).is_ready());
        let mut said = Vec::new();
        peer.read_to_end(&mut said).await.expect("the connection ends");
        assert_eq!(said, [&[0x88, 5, 0x03, 0xe8][..], b"bye"].concat());
    }

    #[tokio::test]
    async fn next_or_writable_returns_once_when_the_peer_reads() {
        let (io, mut peer) = tokio::io::duplex(64);
        let mut socket = Socket::server(io, &[], 1024);
        socket.queue_text(&"x".repeat(190));
        let waker = std::task::Waker::noop();
        let full = std::pin::pin!(socket.next_or_writable(100)).poll(&mut Context::from_waker(waker));
        assert!(full.is_pending());
        peer.read_exact(&mut [0; 64]).await.expect("there is as much");
        assert!(matches!(socket.next_or_writable(100).await, Ok(None)));
        assert!(socket.backlog() < 100);
        let writable = std::pin::pin!(socket.next_or_writable(100)).poll(&mut Context::from_waker(waker));
        assert!(writable.is_pending(), "it was writable before");
    }

    #[tokio::test]
    async fn a_stranger_may_not_send_much_in_however_small_pieces() {
        let most = STRANGER_MESSAGES * 1024;
        let (io, mut peer) = tokio::io::duplex(1 << 20);
        let mut socket = Socket::server(io, &[], 1024);
        // A message that begins, and empty pieces of it that never end it.
        let mut pieces = vec![0x01, 0x80, 0, 0, 0, 0];
        for _ in 0..most / 6 {
            pieces.extend([0x00, 0x80, 0, 0, 0, 0]);
        }
        peer.write_all(&pieces).await.expect("fits");
        assert!(matches!(socket.next().await, Err(SocketError::Broken(WsError::Protocol(_)))));
        let (io, mut peer) = tokio::io::duplex(1 << 20);
        let mut socket = Socket::server(io, &[], 1024);
        socket.set_limit(1024);
        pieces.extend([0x80, 0x80, 0, 0, 0, 0]);
        peer.write_all(&pieces).await.expect("fits");
        assert!(matches!(socket.next().await, Ok(Event::Text(text)) if text.is_empty()));
    }

    /// A client's text message.
    fn text(message: &[u8]) -> Vec<u8> {
        let mut frame = vec![0x81, 0x80 | 127];
        frame.extend((message.len() as u64).to_be_bytes());
        frame.extend([0; 4]);
        frame.extend(message);
        frame
    }

    #[tokio::test]
    async fn a_large_message_waits_for_memory_and_is_skipped_if_there_is_none() {
        const LARGE: usize = 600_000;
        let opened = |budget| {
            let (io, peer) = tokio::io::duplex(2 * LARGE);
            let mut socket = Socket::server(io, &[], 1024);
            socket.set_limit(LARGE);
            socket.set_budget(budget);
            (socket, peer)
        };
        let budget = Budget::new(1_000_000);
        let [(mut first, mut at_first), (mut second, mut at_second)] = [opened(&budget), opened(&budget)];
        let large = text(&[b'x'; LARGE]);
        at_first.write_all(&large[..LARGE / 2]).await.expect("space");
        let mut cx = Context::from_waker(std::task::Waker::noop());
        assert!(first.poll_next(&mut cx).is_pending());
        assert_eq!(budget.held(), LARGE, "for all of it");
        at_second.write_all(&[large.clone(), text(b"small")].concat()).await.expect("space");
        assert!(second.poll_next(&mut cx).is_pending());
        assert_eq!(budget.waiting(), 1);
        assert!(second.received() < LARGE as u64 / 2, "it is not read meanwhile");

        // In the first one's place once that is whole, and handed on.
        at_first.write_all(&large[LARGE / 2..]).await.expect("space");
        assert!(
            matches!(first.next().await, Ok(Event::Text(text)) if text.len() == LARGE && text.capacity() < LARGE + 4096)
        );
        assert_eq!(budget.waiting(), 1, "it is not done with yet");
        assert!(first.poll_next(&mut cx).is_pending());
        assert!(matches!(second.next().await, Ok(Event::Text(text)) if text.len() == LARGE));
        assert!(matches!(second.next().await, Ok(Event::Text(text)) if text == "small"));
        assert_eq!((budget.held(), budget.waiting()), (0, 0));

        // And not at all while somebody else has it for long.
        let budget = Budget::with(1_000_000, Duration::from_millis(1), Duration::MAX);
        let [(mut first, mut at_first), (mut second, mut at_second)] = [opened(&budget), opened(&budget)];
        at_first.write_all(&large[..LARGE / 2]).await.expect("space");
        assert!(first.poll_next(&mut cx).is_pending());
        at_second.write_all(&[large, text(b"small")].concat()).await.expect("space");
        let Ok(Event::Skipped(skipped)) = second.next().await else { panic!("there is no memory") };
        assert_eq!((skipped.size, &*skipped.start), (LARGE as u64, &[b'x'; convoke_ws::Skipped::KEPT][..]));
        assert!(second.received() < LARGE as u64 / 2, "it is told at once");
        assert!(matches!(second.next().await, Ok(Event::Text(text)) if text == "small"));
        drop(first);
        assert_eq!((budget.held(), budget.waiting()), (0, 0));
    }

    #[tokio::test]
    async fn a_close_is_read_while_a_message_waits_for_memory() {
        const LARGE: usize = 600_000;
        let budget = Budget::new(LARGE);
        let mut all = Share::of(&budget);
        assert!(poll_fn(|cx| all.poll_memory(LARGE, LARGE, cx)).await);
        let (io, mut peer) = tokio::io::duplex(2 * LARGE);
        let mut socket = Socket::server(io, &[], 1024);
        socket.set_limit(LARGE);
        socket.set_budget(&budget);
        peer.write_all(&[&text(&[b'x'; LARGE])[..], &CLOSE].concat()).await.expect("space");
        let mut cx = Context::from_waker(std::task::Waker::noop());
        assert!(socket.poll_next(&mut cx).is_pending() && socket.is_waiting_for_budget());
        // It reads up to the peer's own close. If it waited for memory it would give up on that.
        let closing = tokio::time::timeout(CLOSE_PATIENCE / 2, socket.close(1001, "bye"));
        closing.await.expect("nothing is waited for");
        let mut said = Vec::new();
        peer.read_to_end(&mut said).await.expect("the connection ends");
        assert_eq!(said, [&[0x88, 5, 0x03, 0xe9][..], b"bye"].concat());
    }

    #[tokio::test]
    async fn memory_is_given_back_though_the_next_message_has_begun() {
        const LARGE: usize = 600_000;
        let budget = Budget::new(1_000_000);
        let (io, mut peer) = tokio::io::duplex(2 * LARGE);
        let mut socket = Socket::server(io, &[], 1024);
        socket.set_limit(LARGE);
        socket.set_budget(&budget);
        // The last bytes of the one and the first of the other come in one piece; a piece of a message that goes on.
        let begun = [0x01, 0x81, 0, 0, 0, 0, b'x'];
        peer.write_all(&[&text(&[b'x'; LARGE])[..], &begun].concat()).await.expect("space");
        assert!(matches!(socket.next().await, Ok(Event::Text(text)) if text.len() == LARGE));
        assert_eq!(budget.held(), LARGE);
        let mut cx = Context::from_waker(std::task::Waker::noop());
        assert!(socket.poll_next(&mut cx).is_pending());
        assert_eq!(budget.held(), 0);
        // One in pieces takes all that it may become, at once: whoever waited for more while holding some would wait for others
        // who do the same.
        let piece = [&[0x00, 0x80 | 127][..], &100_000u64.to_be_bytes(), &[0; 4], &[b'x'; 100_000]].concat();
        peer.write_all(&piece).await.expect("space");
        assert!(socket.poll_next(&mut cx).is_pending());
        assert_eq!(budget.held(), LARGE);
        peer.write_all(&[&piece[..], &[0x80, 0x80, 0, 0, 0, 0]].concat()).await.expect("space");
        assert!(matches!(socket.next().await, Ok(Event::Text(text)) if text.len() == 200_001));
        assert!(socket.poll_next(&mut cx).is_pending());
        assert_eq!(budget.held(), 0);
    }

    #[tokio::test]
    async fn the_peers_close_is_awaited() {
        let (io, mut peer) = tokio::io::duplex(256);
        let mut socket = Socket::server(io, &[], 1024);
        let mut closing = std::pin::pin!(socket.close(1001, ""));
        let waker = std::task::Waker::noop();
        assert!(
            closing.as_mut().poll(&mut Context::from_waker(waker)).is_pending(),
            "its own close may be on its way"
        );
        peer.write_all(&CLOSE).await.expect("space");
        closing.await;
        let mut said = Vec::new();
        peer.read_to_end(&mut said).await.expect("the connection ends");
        assert_eq!(said, [0x88, 2, 0x03, 0xe9]);
    }

    #[tokio::test]
    async fn a_stranger_that_pings_and_does_not_read_is_soon_cut_off() {
        const PINGS: usize = 2000;
        let payload = [0; 125];
        let ping = [&[0x89, 0x80 | 125, 0, 0, 0, 0][..], &payload].concat();
        for is_in in [false, true] {
            // All of them fit in on the one way, and few answers on the other.
            let (theirs, ours) = tokio::io::simplex(PINGS * ping.len());
            let (mut pings, mut answers) = (ours, tokio::io::simplex(127));
            pings.write_all(&ping.repeat(PINGS)).await.expect("space");
            let mut socket = Socket::server(tokio::io::join(theirs, &mut answers.1), &[], 1024);
            if is_in {
                socket.set_limit(1024);
            }
            let mut cx = Context::from_waker(std::task::Waker::noop());
            let mut count = 0;
            let end = loop {
                match socket.poll_next(&mut cx) {
                    Poll::Ready(Ok(Event::Ping(_))) => socket.queue_pong(&payload),
                    other => break other,
                }
                count += 1;
            };
            if is_in {
                assert!(end.is_pending() && count == PINGS, "{count} {end:?}");
            } else {
                assert!(matches!(end, Poll::Ready(Err(SocketError::Broken(_)))), "{end:?}");
                assert!(count < 100, "{count}");
            }
        }
    }
}
