//! One loop that drives a protocol machine over a socket.
//!
//! A machine is a plain struct: it is fed messages, commands and the time, and queues what it sends on the connection.
//! The loop reads, writes, waits, and keeps the bounds: while the peer does not read what it is sent, no more commands
//! are taken.

use std::convert::Infallible;
use std::ops::ControlFlow;
use std::time::Duration;

use convoke_ws::{Event, Skipped, WsError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use crate::queue::{Item, Queue, Rank};
use crate::{Connection, Socket, SocketError};

/// Unsent bytes with which no more commands are taken, unless a machine says something else.
pub const HIGH_WATER: usize = 256 * 1024;

/// A message of the peer.
#[derive(Debug)]
pub enum Message {
    /// Text.
    Text(String),
    /// Bytes.
    Binary(Vec<u8>),
    /// The answer to a ping of ours.
    Pong(Vec<u8>),
    /// A large message for which there was no memory.
    Skipped(Skipped),
}

/// How the peer ended the connection.
#[derive(Debug, thiserror::Error)]
pub enum Lost {
    /// It sent a close frame.
    #[error("the other side closed the connection (code {code}): {1}", code = .0.unwrap_or(1005))]
    Closed(Option<u16>, String),
    /// It broke the rules of WebSockets.
    #[error("the other side broke the WebSocket rules: {0}")]
    Broken(WsError),
    /// The stream failed, or ended without a close frame.
    #[error(transparent)]
    Gone(SocketError),
}

/// One side of a protocol. [`drive`] calls it; what it queues on the connection is written meanwhile.
pub trait Machine: Send {
    /// What its owner asks for.
    type Command: Item + Send;
    /// How it ended.
    type End: Send;

    /// Unsent bytes with which no more commands are taken.
    const HIGH_WATER: usize = HIGH_WATER;

    /// Whether it takes commands now, apart from [`Machine::HIGH_WATER`].
    fn takes_commands(&self) -> bool {
        true
    }

    /// When [`Machine::on_time`] is due; [`Duration::MAX`] is never.
    fn deadline(&mut self, _now: Duration, _connection: &Connection) -> Duration {
        Duration::MAX
    }

    /// A message came.
    fn on_message(
        &mut self,
        message: Message,
        now: Duration,
        connection: &mut Connection,
    ) -> impl Future<Output = ControlFlow<Self::End>> + Send;

    /// A ping came; its pong goes out after this.
    fn on_ping(&mut self, _connection: &mut Connection) -> ControlFlow<Self::End> {
        ControlFlow::Continue(())
    }

    /// Its owner asks for something. A machine that is asked for nothing leaves this out.
    fn on_command(
        &mut self,
        _command: Self::Command,
        _now: Duration,
        _connection: &mut Connection,
    ) -> impl Future<Output = ControlFlow<Self::End>> + Send {
        std::future::ready(ControlFlow::Continue(()))
    }

    /// The deadline has come. It may come too early. A machine without a deadline leaves this out.
    fn on_time(
        &mut self,
        _now: Duration,
        _connection: &mut Connection,
    ) -> impl Future<Output = ControlFlow<Self::End>> + Send {
        std::future::ready(ControlFlow::Continue(()))
    }

    /// The peer ended the connection.
    fn on_lost(&mut self, lost: Lost, connection: &mut Connection) -> impl Future<Output = Self::End> + Send;
}

/// A monotonic clock that counts from a moment.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// A clock that showed zero at `start`.
    pub fn since(start: std::time::Instant) -> Self {
        Self { start: start.into() }
    }

    /// What it shows.
    pub fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn instant(&self, at: Duration) -> Instant {
        self.start.checked_add(at).unwrap_or_else(|| Instant::now() + Duration::from_secs(86_400))
    }
}

/// Drives `machine` until it ends or the peer does. Dropping the future ends nothing: all state is in the socket, the
/// machine and the queue.
pub async fn drive<S, M>(socket: &mut Socket<S>, machine: &mut M, queue: &Queue<M::Command>, clock: Clock) -> M::End
where
    S: AsyncRead + AsyncWrite + Unpin,
    M: Machine,
{
    match run(socket, machine, queue, clock).await {
        ControlFlow::Break(end) => end,
    }
}

async fn run<S, M>(
    socket: &mut Socket<S>,
    machine: &mut M,
    queue: &Queue<M::Command>,
    clock: Clock,
) -> ControlFlow<M::End, Infallible>
where
    S: AsyncRead + AsyncWrite + Unpin,
    M: Machine,
{
    let sleep = tokio::time::sleep_until(Instant::now());
    tokio::pin!(sleep);
    loop {
        let may_send = socket.backlog() < M::HIGH_WATER && machine.takes_commands();
        let mut due = machine.deadline(clock.now(), socket);
        if !may_send && let Some(waiting) = queue.next_deadline() {
            due = due.min(waiting);
        }
        let at = clock.instant(due);
        if sleep.deadline() != at {
            sleep.as_mut().reset(at);
        }
        // Every branch is cancel-safe: the socket and the queue keep their state.
        tokio::select! {
            event = socket.next_or_writable(M::HIGH_WATER) => {
                let (now, connection): (_, &mut Connection) = (clock.now(), socket);
                let message = match event {
                    Ok(None) => continue,
                    Ok(Some(Event::Ping(payload))) => {
                        machine.on_ping(connection)?;
                        connection.queue_pong(&payload);
                        continue;
                    }
                    Ok(Some(Event::Close(code, reason))) => {
                        return ControlFlow::Break(machine.on_lost(Lost::Closed(code, reason), connection).await);
                    }
                    Err(SocketError::Broken(error)) => {
                        return ControlFlow::Break(machine.on_lost(Lost::Broken(error), connection).await);
                    }
                    Err(error) => return ControlFlow::Break(machine.on_lost(Lost::Gone(error), connection).await),
                    Ok(Some(Event::Text(text))) => Message::Text(text),
                    Ok(Some(Event::Binary(bytes))) => Message::Binary(bytes),
                    Ok(Some(Event::Pong(payload))) => Message::Pong(payload),
                    Ok(Some(Event::Skipped(skipped))) => Message::Skipped(skipped),
                };
                machine.on_message(message, now, connection).await?;
            }
            command = queue.next(may_send, due) => {
                let Some(command) = command else { continue };
                machine.on_command(command, clock.now(), socket).await?;
                // What else waits goes out in the same write.
                while socket.backlog() < M::HIGH_WATER && machine.takes_commands() {
                    let Some(command) = queue.pop() else { break };
                    machine.on_command(command, clock.now(), socket).await?;
                }
            }
            () = &mut sleep => machine.on_time(clock.now(), socket).await?,
        }
    }
}

/// The command of a machine that takes no other.
#[derive(Clone, Copy, Debug)]
pub struct Stop;

impl Item for Stop {
    const MAX_MESSAGES: usize = 1;
    const MAX_BYTES: usize = 0;

    fn rank(&self) -> Rank {
        Rank::First
    }

    fn size(&self) -> usize {
        0
    }
}

/// Drives a machine that is told to stop once `stop` is done.
pub async fn drive_until<S, M>(
    socket: &mut Socket<S>,
    machine: &mut M,
    stop: impl Future<Output = ()>,
    clock: Clock,
) -> M::End
where
    S: AsyncRead + AsyncWrite + Unpin,
    M: Machine<Command = Stop>,
{
    let queue = Queue::default();
    let tell = async {
        stop.await;
        let _ = queue.push(Stop);
        std::future::pending().await
    };
    tokio::select! {
        end = drive(socket, machine, &queue, clock) => end,
        never = tell => never,
    }
}

/// Notices a peer that is gone without a word, or does not read what it is sent.
#[derive(Debug)]
pub struct Liveness {
    /// Bytes read when the last message was whole.
    received: u64,
    pings_unanswered: u32,
    /// Bytes written when there was a backlog.
    stalled_at: Option<u64>,
}

/// Why a connection is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unresponsive {
    /// Two pings were not answered.
    #[error("pings were not answered")]
    NoPong,
    /// Nothing of what it was sent was read.
    #[error("nothing of what it sent was read")]
    NotReading,
}

impl Unresponsive {
    /// The reason in the close frame.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::NoPong => "no answer to pings",
            Self::NotReading => "not reading",
        }
    }
}

impl Liveness {
    /// Of a connection that begins now.
    pub const fn of(connection: &Connection) -> Self {
        Self { received: connection.received(), pings_unanswered: 0, stalled_at: None }
    }

    /// A message, a ping or a pong came.
    pub const fn heard(&mut self, connection: &Connection) {
        (self.received, self.pings_unanswered) = (connection.received(), 0);
    }

    /// Whether more of a message came that is not whole yet, as of a large one on a slow line, or one waits for memory:
    /// what is not read cannot be heard.
    pub fn is_receiving(&mut self, connection: &Connection) -> bool {
        let is_receiving = connection.received() != self.received || connection.is_waiting_for_budget();
        if is_receiving {
            self.heard(connection);
        }
        is_receiving
    }

    /// To be called once an interval: sends a ping, unless the peer is unresponsive.
    pub fn ping(&mut self, connection: &mut Connection) -> Result<(), Unresponsive> {
        self.is_receiving(connection);
        if self.pings_unanswered >= 2 {
            return Err(Unresponsive::NoPong);
        }
        if connection.backlog() == 0 {
            self.stalled_at = None;
        } else if self.stalled_at == Some(connection.progress()) {
            return Err(Unresponsive::NotReading);
        } else {
            self.stalled_at = Some(connection.progress());
        }
        self.pings_unanswered += 1;
        connection.queue_ping(b"convoke");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::task::Context;

    use super::*;

    /// Answers what it is sent, and sends what it is asked to; ends when it is told to or the peer is gone.
    struct Echo {
        ticks: u32,
    }

    #[derive(Debug, PartialEq, Eq)]
    enum Ask {
        Send(usize),
        End,
    }

    impl Item for Ask {
        const MAX_MESSAGES: usize = 10;
        const MAX_BYTES: usize = 10_000;

        fn rank(&self) -> Rank {
            match self {
                Self::Send(_) => Rank::Message,
                Self::End => Rank::First,
            }
        }

        fn size(&self) -> usize {
            match self {
                Self::Send(size) => *size,
                Self::End => 0,
            }
        }
    }

    impl Machine for Echo {
        type Command = Ask;
        type End = &'static str;

        const HIGH_WATER: usize = 100;

        fn deadline(&mut self, _: Duration, _: &Connection) -> Duration {
            Duration::from_secs(u64::from(self.ticks) * 60)
        }

        async fn on_message(
            &mut self,
            message: Message,
            _: Duration,
            connection: &mut Connection,
        ) -> ControlFlow<Self::End> {
            if let Message::Text(text) = message {
                connection.queue_text(&text);
            }
            ControlFlow::Continue(())
        }

        async fn on_command(&mut self, ask: Ask, _: Duration, connection: &mut Connection) -> ControlFlow<Self::End> {
            match ask {
                Ask::Send(size) => connection.queue_text(&"x".repeat(size)),
                Ask::End => return ControlFlow::Break("told to"),
            }
            ControlFlow::Continue(())
        }

        async fn on_time(&mut self, _: Duration, _: &mut Connection) -> ControlFlow<Self::End> {
            self.ticks += 1;
            ControlFlow::Continue(())
        }

        async fn on_lost(&mut self, lost: Lost, _: &mut Connection) -> Self::End {
            match lost {
                Lost::Closed(..) => "closed",
                Lost::Broken(_) => "broken",
                Lost::Gone(_) => "gone",
            }
        }
    }

    fn clock() -> Clock {
        Clock::since(std::time::Instant::now())
    }

    #[tokio::test]
    async fn messages_pings_and_commands_are_worked_through_until_the_peer_closes() {
        let (io, peer) = tokio::io::duplex(4096);
        let (mut socket, mut peer) = (Socket::server(io, &[], 1024), Socket::client(peer, &[], 1024));
        let queue = Queue::default();
        queue.push(Ask::Send(3)).expect("space");
        let mut machine = Echo { ticks: 0 };
        let talk = async {
            assert_eq!(peer.next().await.expect("there"), Event::Text("xxx".into()));
            peer.queue_text("hello");
            peer.queue_ping(b"1");
            assert_eq!(peer.next().await.expect("there"), Event::Text("hello".into()));
            assert_eq!(peer.next().await.expect("there"), Event::Pong(b"1".to_vec()));
            peer.close(1000, "").await;
        };
        let work = async {
            let end = drive(&mut socket, &mut machine, &queue, clock()).await;
            socket.close(1000, "").await;
            end
        };
        let (end, ()) = tokio::join!(work, talk);
        assert_eq!(end, "closed");
    }

    #[tokio::test]
    async fn a_peer_that_does_not_read_is_sent_no_more_and_can_be_closed() {
        let (io, _peer) = tokio::io::duplex(64);
        let mut socket = Socket::server(io, &[], 1024);
        let queue = Queue::default();
        for _ in 0..5 {
            queue.push(Ask::Send(90)).expect("space");
        }
        let (mut machine, mut cx) = (Echo { ticks: 1 }, Context::from_waker(std::task::Waker::noop()));
        let mut driving = std::pin::pin!(drive(&mut socket, &mut machine, &queue, clock()));
        for _ in 0..10 {
            assert!(driving.as_mut().poll(&mut cx).is_pending());
        }
        assert_eq!(queue.depth(), 3, "the stream took 64 bytes, and two messages are above the mark");
        queue.push(Ask::End).expect("always taken");
        assert_eq!(driving.await, "told to");
    }

    #[tokio::test]
    async fn a_peer_that_does_not_answer_pings_is_given_up_unless_a_message_comes_in() {
        let (io, mut peer) = tokio::io::duplex(4096);
        let mut socket = Socket::server(io, &[], 1024);
        let mut liveness = Liveness::of(&socket);
        let ping = |liveness: &mut Liveness, socket: &mut Socket<tokio::io::DuplexStream>| {
            let pinged = liveness.ping(socket);
            let mut cx = Context::from_waker(std::task::Waker::noop());
            assert!(std::pin::pin!(socket.next()).poll(&mut cx).is_pending());
            pinged
        };
        assert_eq!(ping(&mut liveness, &mut socket), Ok(()));
        assert_eq!(ping(&mut liveness, &mut socket), Ok(()));
        // Half of a message.
        tokio::io::AsyncWriteExt::write_all(&mut peer, &[0x81, 0x82, 0, 0, 0, 0, b'x']).await.expect("space");
        let mut cx = Context::from_waker(std::task::Waker::noop());
        assert!(std::pin::pin!(socket.next()).poll(&mut cx).is_pending());
        assert!(liveness.is_receiving(&socket) && !liveness.is_receiving(&socket));
        assert_eq!(ping(&mut liveness, &mut socket), Ok(()));
        assert_eq!(ping(&mut liveness, &mut socket), Ok(()));
        assert_eq!(ping(&mut liveness, &mut socket), Err(Unresponsive::NoPong));
    }
}
