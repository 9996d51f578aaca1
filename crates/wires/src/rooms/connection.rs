//! A connection of `/rooms/<name>/ws` or `/peerjs`: what waits in its queue goes out, pings keep it, silence ends it.

use std::ops::ControlFlow;
use std::time::Duration;

use convoke_kibitz::close::{self, Close};
use convoke_socket::drive::{Lost, Machine, Message, drive};

use super::link::{Out, RoomLink};
use crate::Wires;
use crate::ws::{Connection, Socket};

/// Between pings: every WebSocket library answers them, so the other side needs no timer of its own.
const PING_EVERY: Duration = Duration::from_secs(20);
/// How often silence, a stuck close and what else ends a connection are looked at.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// Who is at the other end.
pub(super) trait Party: Send {
    /// Without a sign of life for so long it is gone.
    const SILENT: Duration;

    /// It said something.
    fn on_message(
        &mut self,
        message: Message,
        now: Duration,
        connection: &mut Connection,
    ) -> impl Future<Output = ControlFlow<Option<Close>>> + Send;

    /// Why it may not stay: a code and words for it, and the close.
    fn not_any_more(&self) -> Option<(&'static str, &'static str, Close)> {
        None
    }

    /// Tells it why it goes. Those whose protocol has no words for that hear the close alone.
    fn tell(_connection: &mut Connection, _code: &str, _message: &str) {}
}

/// Serves a connection to its end; answers with which close, or none where the stream is gone.
pub(super) async fn run<P: Party>(hub: &Wires, socket: &mut Socket, party: &mut P, link: &RoomLink) -> Option<Close> {
    let now = hub.mono();
    let mut connected = Connected { hub, party, link, heard: now, pinged: now, next_check: now };
    drive(socket, &mut connected, &link.queue, hub.clock()).await
}

struct Connected<'a, P> {
    hub: &'a Wires,
    party: &'a mut P,
    link: &'a RoomLink,
    /// When anything at all last came.
    heard: Duration,
    pinged: Duration,
    next_check: Duration,
}

impl<P: Party> Machine for Connected<'_, P> {
    type Command = Out;
    type End = Option<Close>;

    fn deadline(&mut self, _: Duration, _: &Connection) -> Duration {
        self.next_check
    }

    async fn on_message(
        &mut self,
        message: Message,
        now: Duration,
        connection: &mut Connection,
    ) -> ControlFlow<Self::End> {
        self.heard = now;
        match message {
            Message::Pong(_) => ControlFlow::Continue(()),
            message => self.party.on_message(message, now, connection).await,
        }
    }

    /// Everything before a ping was handed on or refused: the pong tells the sender. So refusals that wait in the queue go
    /// out before the pong.
    fn on_ping(&mut self, connection: &mut Connection) -> ControlFlow<Self::End> {
        self.heard = self.hub.mono();
        while let Some(out) = self.link.queue.pop() {
            put(out, connection)?;
        }
        ControlFlow::Continue(())
    }

    async fn on_command(&mut self, out: Out, _: Duration, connection: &mut Connection) -> ControlFlow<Self::End> {
        put(out, connection)
    }

    async fn on_time(&mut self, now: Duration, connection: &mut Connection) -> ControlFlow<Self::End> {
        if now < self.next_check {
            return ControlFlow::Continue(());
        }
        self.next_check = now + CHECK_EVERY;
        // While the other side does not read, nothing is taken from the queue, and so not the close at its end.
        if connection.backlog() >= Self::HIGH_WATER
            && let Some(close) = self.link.closing()
        {
            return ControlFlow::Break(Some(close));
        }
        if now.saturating_sub(self.heard) >= P::SILENT {
            P::tell(connection, "timeout", "the participant sent nothing for too long");
            return ControlFlow::Break(Some(close::TIMEOUT));
        }
        if let Some((code, message, close)) = self.party.not_any_more() {
            P::tell(connection, code, message);
            return ControlFlow::Break(Some(close));
        }
        if now.saturating_sub(self.pinged) >= PING_EVERY {
            self.pinged = now;
            connection.queue_ping(b"convoke");
        }
        ControlFlow::Continue(())
    }

    async fn on_lost(&mut self, lost: Lost, connection: &mut Connection) -> Self::End {
        match lost {
            Lost::Closed(..) => Some(close::LEFT),
            Lost::Gone(_) => None,
            Lost::Broken(error) => {
                let code = error.close_code();
                if code == close::TOO_LARGE.code {
                    P::tell(connection, "too_large", &error.to_string());
                }
                Some(Close { code, reason: "protocol error" })
            }
        }
    }
}

fn put(out: Out, connection: &mut Connection) -> ControlFlow<Option<Close>> {
    match out {
        Out::Frame(frame) => {
            connection.queue_framed(&frame);
            ControlFlow::Continue(())
        }
        Out::Close(close) => ControlFlow::Break(Some(close)),
    }
}
