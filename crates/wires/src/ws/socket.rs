//! One WebSocket connection: frames in and out of a byte stream.

use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tungstenite::protocol::frame::FrameHeader;
use tungstenite::protocol::frame::coding::{Control, Data, OpCode};

use super::arrivals::{self, Arrivals, Share};
use convoke_ws::{Decoder, Event, WsError};

/// Read at once from the socket: on the stack, so that an idle connection holds nothing.
const READ: usize = 4096;
/// Read at once into a large frame.
const CHUNK: usize = 64 * 1024;
/// Write buffers up to this size are kept between writes while there is something to write.
const KEEP: usize = 16 * 1024;

/// Beyond this much that waits to be written nothing more is read: a peer that makes us answer and does not read the
/// answers (pings, say) would otherwise fill the memory. More than any queue of ours holds.
const MAX_BACKLOG: usize = 16 * 1024 * 1024;
/// All that a stranger may send, in messages of the size that one may have: proving who one is takes two small ones, and
/// pings and empty pieces of a message cost work and answers, too.
const STRANGER_MESSAGES: u64 = 4;

/// How long a peer may take to say goodbye.
const CLOSE_PATIENCE: Duration = Duration::from_secs(2);

/// The largest header of a frame that a server sends.
const HEADER: usize = 10;

/// A connection.
#[derive(Debug)]
pub struct Socket<S> {
    io: S,
    decoder: Decoder,
    /// Room for large messages, of a peer that may send any.
    share: Option<Share>,
    out: Vec<u8>,
    written: usize,
    max_received: u64,
    /// Bytes ever written: the caller sees by it whether a slow reader makes progress.
    progress: u64,
    /// Bytes ever read: the caller sees by it whether a slow writer does.
    received: u64,
    /// The other side has said that it goes.
    heard_close: bool,
    /// A message was handed on: whoever asks for the next event is done with it.
    handed_on: bool,
    /// We have said that we go.
    is_leaving: bool,
}

/// Told to who sent a large message for which there was no room, where nothing can tell them which one it was.
pub const NO_ROOM: (u16, &str) = (1013, "no memory for a message of this size; try again");

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The other side broke the rules.
    #[error(transparent)]
    Broken(#[from] WsError),
    /// The stream failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The stream ended without a close frame.
    #[error("the connection ended without a close frame")]
    Ended,
}

/// A text message as it goes over the wire. A server's frames are not masked, so the same bytes do for any number of
/// receivers.
pub fn text_frame(text: &str) -> Vec<u8> {
    let mut frame = Vec::new();
    write_frame(&mut frame, OpCode::Data(Data::Text), text.as_bytes());
    frame
}

fn write_frame(out: &mut Vec<u8>, opcode: OpCode, payload: &[u8]) {
    let header = FrameHeader { is_final: true, rsv1: false, rsv2: false, rsv3: false, opcode, mask: None };
    out.reserve(HEADER + payload.len());
    // Writing to memory does not fail.
    let _ = header.format(payload.len() as u64, out);
    out.extend_from_slice(payload);
}

impl<S: AsyncRead + AsyncWrite + Unpin> Socket<S> {
    /// A stranger's connection over `io`, of which `read` has been read already.
    pub fn new(io: S, read: &[u8], limit: usize) -> Self {
        let mut decoder = Decoder::new(limit);
        decoder.feed(read);
        Self {
            io,
            decoder,
            share: None,
            out: Vec::new(),
            written: 0,
            max_received: STRANGER_MESSAGES * limit as u64,
            progress: 0,
            received: read.len() as u64,
            heard_close: false,
            handed_on: false,
            is_leaving: false,
        }
    }

    /// The peer is no stranger any more: takes messages of at most `limit` bytes from now on, and any number. A large one for
    /// which there is no room among `arrivals` is skipped.
    pub fn let_in(&mut self, limit: usize, arrivals: &Arc<Arrivals>) {
        self.decoder.set_limit(limit);
        self.max_received = u64::MAX;
        self.share.get_or_insert_with(|| Share::of(arrivals));
    }

    /// Bytes that wait to be written.
    pub const fn backlog(&self) -> usize {
        self.out.len() - self.written
    }

    /// Bytes ever written.
    pub const fn progress(&self) -> u64 {
        self.progress
    }

    /// Whether a large message waits for room, so that nothing is read.
    pub fn is_held_up(&self) -> bool {
        self.share.as_ref().is_some_and(Share::is_waiting)
    }

    /// Bytes ever read.
    pub const fn received(&self) -> u64 {
        self.received
    }

    /// Queues a text message; [`Socket::next`] writes it.
    pub fn queue_text(&mut self, text: &str) {
        self.queue(OpCode::Data(Data::Text), text.as_bytes());
    }

    /// Queues a frame that [`text_frame`] made.
    pub fn queue_framed(&mut self, frame: &[u8]) {
        self.out.extend_from_slice(frame);
    }

    /// Queues a ping.
    pub fn queue_ping(&mut self) {
        self.queue_ping_with(b"convoke");
    }

    /// Queues a ping whose answer can be told apart: its pong means that everything before it was read. At most 125
    /// bytes.
    pub fn queue_ping_with(&mut self, payload: &[u8]) {
        self.queue(OpCode::Control(Control::Ping), payload);
    }

    /// Queues the answer to a ping.
    pub fn queue_pong(&mut self, payload: &[u8]) {
        self.queue(OpCode::Control(Control::Pong), payload);
    }

    /// Queues a close frame. `reason` must be short and is cut to what a close frame holds.
    pub fn queue_close(&mut self, code: u16, reason: &str) {
        let reason = &reason[..reason.floor_char_boundary(123)];
        let mut payload = Vec::with_capacity(2 + reason.len());
        payload.extend_from_slice(&code.to_be_bytes());
        payload.extend_from_slice(reason.as_bytes());
        self.queue(OpCode::Control(Control::Close), &payload);
    }

    fn queue(&mut self, opcode: OpCode, payload: &[u8]) {
        write_frame(&mut self.out, opcode, payload);
    }

    /// The next event; writes what is queued meanwhile. Cancel-safe: all state is in `self`.
    pub async fn next(&mut self) -> Result<Event, SocketError> {
        // One read may bring a thousand tiny frames: whoever sends such must let others have their turn.
        tokio::task::coop::consume_budget().await;
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// The same, or nothing as soon as fewer than `mark` bytes wait to be written where there were more.
    pub async fn next_or_room(&mut self, mark: usize) -> Result<Option<Event>, SocketError> {
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

    /// Writes what is queued and ends the stream.
    pub async fn shutdown(&mut self) -> io::Result<()> {
        self.flush().await?;
        poll_fn(|cx| Pin::new(&mut self.io).poll_shutdown(cx)).await
    }

    /// Sends a close frame and lets the other side go, within a bound.
    pub async fn say_goodbye(mut self, code: u16, reason: &str) {
        self.queue_close(code, reason);
        self.is_leaving = true;
        if let Some(share) = &mut self.share {
            share.release();
        }
        let farewell = async {
            self.flush().await?;
            // Waiting for the other side's close lets it read ours: a reset would discard it. One that has said so before
            // says it no more, and waits for the end of the connection itself.
            while !self.heard_close && self.next().await.is_ok() {}
            self.shutdown().await
        };
        let _ = tokio::time::timeout(CLOSE_PATIENCE, farewell).await;
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Event, SocketError>> {
        if let Poll::Ready(Err(error)) = self.poll_write(cx) {
            return Poll::Ready(Err(error.into()));
        }
        if std::mem::take(&mut self.handed_on)
            && let Some(share) = &mut self.share
        {
            share.release();
        }
        if self.backlog() > MAX_BACKLOG {
            // The write above wakes us.
            return Poll::Pending;
        }
        loop {
            if let Some(event) = self.decoder.next_event()? {
                self.heard_close |= matches!(event, Event::Close(_));
                self.handed_on |= matches!(event, Event::Text(_) | Event::Binary(_));
                return Poll::Ready(Ok(event));
            }
            if !ready!(self.poll_room(cx)) {
                if let Some(skipped) = self.decoder.skip() {
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

    /// Whether there is room for the message under way.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let Some(share) = &mut self.share else { return Poll::Ready(true) };
        match self.decoder.under_way() {
            Some((here, whole)) if here >= arrivals::SMALL => {
                // Nobody will look at what comes after a goodbye.
                let has_room = !self.is_leaving && ready!(share.poll_room(here, whole, cx));
                if has_room {
                    self.decoder.reserve();
                }
                Poll::Ready(has_room)
            }
            _ => Poll::Ready(true),
        }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if let Some(buffer) = self.decoder.room(CHUNK) {
            return tokio_util::io::poll_read_buf(Pin::new(&mut self.io), cx, buffer);
        }
        let mut scratch = [MaybeUninit::uninit(); READ];
        let mut buffer = ReadBuf::uninit(&mut scratch);
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
            self.progress += n as u64;
        }
        self.written = 0;
        if self.out.capacity() > KEEP || self.out.is_empty() {
            self.out = Vec::new();
        }
        self.out.clear();
        Pin::new(&mut self.io).poll_flush(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// A client's close frame with the code 1000.
    const CLOSE: [u8; 8] = [0x88, 0x82, 0, 0, 0, 0, 0x03, 0xe8];

    #[tokio::test]
    async fn one_that_said_goodbye_first_is_not_waited_for() {
        let (io, mut peer) = tokio::io::duplex(256);
        let mut socket = Socket::new(io, &[], 1024);
        peer.write_all(&CLOSE).await.expect("room");
        assert!(matches!(socket.next().await, Ok(Event::Close(_))));
        // All of it is done when it is first polled: nothing is waited for.
        let goodbye = std::pin::pin!(socket.say_goodbye(1000, "bye"));
        let waker = std::task::Waker::noop();
        assert!(goodbye.poll(&mut Context::from_waker(waker)).is_ready());
        let mut said = Vec::new();
        peer.read_to_end(&mut said).await.expect("the connection ends");
        assert_eq!(said, [&[0x88, 5, 0x03, 0xe8][..], b"bye"].concat());
    }

    #[tokio::test]
    async fn who_waits_for_room_is_told_once_when_the_peer_reads() {
        let (io, mut peer) = tokio::io::duplex(64);
        let mut socket = Socket::new(io, &[], 1024);
        socket.queue_text(&"x".repeat(190));
        let waker = std::task::Waker::noop();
        let full = std::pin::pin!(socket.next_or_room(100)).poll(&mut Context::from_waker(waker));
        assert!(full.is_pending());
        peer.read_exact(&mut [0; 64]).await.expect("there is as much");
        assert!(matches!(socket.next_or_room(100).await, Ok(None)));
        assert!(socket.backlog() < 100);
        let room = std::pin::pin!(socket.next_or_room(100)).poll(&mut Context::from_waker(waker));
        assert!(room.is_pending(), "there was room before");
    }

    #[tokio::test]
    async fn a_stranger_may_not_send_much_in_however_small_pieces() {
        let most = STRANGER_MESSAGES * 1024;
        let (io, mut peer) = tokio::io::duplex(1 << 20);
        let mut socket = Socket::new(io, &[], 1024);
        // A message that begins, and empty pieces of it that never end it.
        let mut pieces = vec![0x01, 0x80, 0, 0, 0, 0];
        for _ in 0..most / 6 {
            pieces.extend([0x00, 0x80, 0, 0, 0, 0]);
        }
        peer.write_all(&pieces).await.expect("fits");
        assert!(matches!(socket.next().await, Err(SocketError::Broken(WsError::Protocol(_)))));
        let (io, mut peer) = tokio::io::duplex(1 << 20);
        let mut socket = Socket::new(io, &[], 1024);
        socket.let_in(1024, &Arrivals::new(1 << 20));
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
    async fn a_large_message_waits_for_room_and_is_skipped_if_there_is_none() {
        const LARGE: usize = 600_000;
        let opened = |arrivals| {
            let (io, peer) = tokio::io::duplex(2 * LARGE);
            let mut socket = Socket::new(io, &[], 1024);
            socket.let_in(LARGE, arrivals);
            (socket, peer)
        };
        let arrivals = Arrivals::new(1_000_000);
        let [(mut first, mut at_first), (mut second, mut at_second)] = [opened(&arrivals), opened(&arrivals)];
        let large = text(&[b'x'; LARGE]);
        at_first.write_all(&large[..LARGE / 2]).await.expect("room");
        let mut cx = Context::from_waker(std::task::Waker::noop());
        assert!(first.poll_next(&mut cx).is_pending());
        assert_eq!(arrivals.held(), LARGE, "for all of it");
        at_second.write_all(&[large.clone(), text(b"small")].concat()).await.expect("room");
        assert!(second.poll_next(&mut cx).is_pending());
        assert_eq!(arrivals.waiting(), 1);
        assert!(second.received() < LARGE as u64 / 2, "it is not read meanwhile");

        // In the first one's place once that is whole, and handed on.
        at_first.write_all(&large[LARGE / 2..]).await.expect("room");
        assert!(
            matches!(first.next().await, Ok(Event::Text(text)) if text.len() == LARGE && text.capacity() < LARGE + 4096)
        );
        assert_eq!(arrivals.waiting(), 1, "it is not done with yet");
        assert!(first.poll_next(&mut cx).is_pending());
        assert!(matches!(second.next().await, Ok(Event::Text(text)) if text.len() == LARGE));
        assert!(matches!(second.next().await, Ok(Event::Text(text)) if text == "small"));
        assert_eq!((arrivals.held(), arrivals.waiting()), (0, 0));

        // And not at all while somebody else has it for long.
        let arrivals = Arrivals::with(1_000_000, Duration::from_millis(1), Duration::MAX);
        let [(mut first, mut at_first), (mut second, mut at_second)] = [opened(&arrivals), opened(&arrivals)];
        at_first.write_all(&large[..LARGE / 2]).await.expect("room");
        assert!(first.poll_next(&mut cx).is_pending());
        at_second.write_all(&[large, text(b"small")].concat()).await.expect("room");
        let Ok(Event::Skipped(skipped)) = second.next().await else { panic!("there is no room") };
        assert_eq!((skipped.size, &*skipped.start), (LARGE as u64, &[b'x'; convoke_ws::Skipped::KEPT][..]));
        assert!(second.received() < LARGE as u64 / 2, "it is told at once");
        assert!(matches!(second.next().await, Ok(Event::Text(text)) if text == "small"));
        drop(first);
        assert_eq!((arrivals.held(), arrivals.waiting()), (0, 0));
    }

    #[tokio::test]
    async fn who_waits_for_room_hears_goodbye_too() {
        const LARGE: usize = 600_000;
        let arrivals = Arrivals::new(LARGE);
        let mut all = Share::of(&arrivals);
        assert!(poll_fn(|cx| all.poll_room(LARGE, LARGE, cx)).await);
        let (io, mut peer) = tokio::io::duplex(2 * LARGE);
        let mut socket = Socket::new(io, &[], 1024);
        socket.let_in(LARGE, &arrivals);
        peer.write_all(&[&text(&[b'x'; LARGE])[..], &CLOSE].concat()).await.expect("room");
        let mut cx = Context::from_waker(std::task::Waker::noop());
        assert!(socket.poll_next(&mut cx).is_pending() && socket.is_held_up());
        // It reads up to the peer's own close. If it waited for room it would give up on that.
        let farewell = tokio::time::timeout(CLOSE_PATIENCE / 2, socket.say_goodbye(1001, "bye"));
        farewell.await.expect("nothing is waited for");
        let mut said = Vec::new();
        peer.read_to_end(&mut said).await.expect("the connection ends");
        assert_eq!(said, [&[0x88, 5, 0x03, 0xe9][..], b"bye"].concat());
    }

    #[tokio::test]
    async fn room_is_given_back_though_the_next_message_has_begun() {
        const LARGE: usize = 600_000;
        let arrivals = Arrivals::new(1_000_000);
        let (io, mut peer) = tokio::io::duplex(2 * LARGE);
        let mut socket = Socket::new(io, &[], 1024);
        socket.let_in(LARGE, &arrivals);
        // The last bytes of the one and the first of the other come in one piece; a piece of a message that goes on.
        let begun = [0x01, 0x81, 0, 0, 0, 0, b'x'];
        peer.write_all(&[&text(&[b'x'; LARGE])[..], &begun].concat()).await.expect("room");
        assert!(matches!(socket.next().await, Ok(Event::Text(text)) if text.len() == LARGE));
        assert_eq!(arrivals.held(), LARGE);
        let mut cx = Context::from_waker(std::task::Waker::noop());
        assert!(socket.poll_next(&mut cx).is_pending());
        assert_eq!(arrivals.held(), 0);
        // One in pieces takes all that it may become, at once: whoever waited for more while holding some would wait for others
        // who do the same.
        let piece = [&[0x00, 0x80 | 127][..], &100_000u64.to_be_bytes(), &[0; 4], &[b'x'; 100_000]].concat();
        peer.write_all(&piece).await.expect("room");
        assert!(socket.poll_next(&mut cx).is_pending());
        assert_eq!(arrivals.held(), LARGE);
        peer.write_all(&[&piece[..], &[0x80, 0x80, 0, 0, 0, 0]].concat()).await.expect("room");
        assert!(matches!(socket.next().await, Ok(Event::Text(text)) if text.len() == 200_001));
        assert!(socket.poll_next(&mut cx).is_pending());
        assert_eq!(arrivals.held(), 0);
    }

    #[tokio::test]
    async fn one_that_did_not_is_heard_first() {
        let (io, mut peer) = tokio::io::duplex(256);
        let socket = Socket::new(io, &[], 1024);
        let mut goodbye = std::pin::pin!(socket.say_goodbye(1001, ""));
        let waker = std::task::Waker::noop();
        assert!(
            goodbye.as_mut().poll(&mut Context::from_waker(waker)).is_pending(),
            "its own close may be on its way"
        );
        peer.write_all(&CLOSE).await.expect("room");
        goodbye.await;
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
            pings.write_all(&ping.repeat(PINGS)).await.expect("room");
            let mut socket = Socket::new(tokio::io::join(theirs, &mut answers.1), &[], 1024);
            if is_in {
                socket.let_in(1024, &Arrivals::new(1 << 20));
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
