//! A connection, from its first byte to its last.

use std::net::IpAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use convoke_kibitz::MAX_FRAME_BEFORE;
use convoke_kibitz::close::{self, Close};
use convoke_kibitz::frame::FromRelay;
use convoke_kibitz::room::{Arrival, Caller as RoomCaller, Conn};
use convoke_socket::drive::{Lost, Machine, Message, drive};

use super::adapter::{act, asker};
use super::link::{Out, RoomLink};
use super::sign::{Desk, operator_in};
use super::{LiveRoom, now};
use crate::Wires;
use crate::ws::{Connection, NO_MEMORY, Socket, Stream};
use convoke_gate::clock;
use convoke_gate::operators::Caller;

/// Between pings: every WebSocket library answers them, so a participant needs no timer of its own.
const PING_EVERY: Duration = Duration::from_secs(20);
/// Without a sign of life for so long a participant is gone.
const SILENT: Duration = Duration::from_secs(60);
/// How often silence, a stuck close and the operator's token are looked at.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// Who knocks, as the door saw them.
#[derive(Debug)]
pub struct Guest {
    /// Where from.
    pub address: IpAddr,
    /// The host that they dialled.
    pub host: String,
    /// The operator, if they showed a token.
    pub operator: Option<Caller>,
}

/// Serves one connection.
pub async fn serve(hub: Wires, room: Arc<LiveRoom>, io: Stream, read: Vec<u8>, guest: Guest) {
    let mut socket = Socket::server(io, &read, 2 * MAX_FRAME_BEFORE);
    let conn = Conn(hub.rooms.number());
    let link = RoomLink::new();
    let caller = guest.operator.as_ref();
    let caller = caller.map_or(RoomCaller::Stranger, |operator| operator_in(&room.name, &operator.token));
    let arrival = Arrival { challenge: clock::random(), host: guest.host.clone(), certificate: None, caller };
    let at = now(&hub);
    room.add(conn, &link, guest.address, arrival, at).settle(&hub, &room).await;
    let mono = hub.mono();
    let mut participant = Participant {
        hub: &hub,
        room: &room,
        conn,
        link: &link,
        guest: &guest,
        heard: mono,
        pinged: mono,
        next_check: mono,
    };
    let close = drive(&mut socket, &mut participant, &link.queue, hub.clock()).await;
    room.gone(conn, now(&hub)).settle(&hub, &room).await;
    if let Some(close) = close {
        Box::pin(socket.close(close.code, close.reason)).await;
    }
}

/// One participant's connection.
struct Participant<'a> {
    hub: &'a Wires,
    room: &'a Arc<LiveRoom>,
    conn: Conn,
    link: &'a RoomLink,
    guest: &'a Guest,
    /// When anything at all last came.
    heard: Duration,
    pinged: Duration,
    next_check: Duration,
}

impl Machine for Participant<'_> {
    type Command = Out;
    type End = Option<Close>;

    fn deadline(&mut self, _: Duration, _: &Connection) -> Duration {
        self.next_check
    }

    async fn on_message(
        &mut self,
        message: Message,
        mono: Duration,
        connection: &mut Connection,
    ) -> ControlFlow<Self::End> {
        self.heard = mono;
        let (room, conn, at) = (self.room, self.conn, now(self.hub));
        let mut after = match message {
            Message::Text(text) => room.with(at, |room| room.on_text(conn, &text, &Desk(self.hub), at)).1,
            Message::Binary(_) => room.with(at, |room| room.on_binary(conn, at)).1,
            Message::Pong(_) => return ControlFlow::Continue(()),
            Message::Skipped(_) => {
                self.hub.metrics.dropped("arriving_frames", 1);
                let (code, reason) = NO_MEMORY;
                return ControlFlow::Break(Some(Close { code, reason }));
            }
        };
        let acts = after.take_acts();
        after.settle(self.hub, room).await;
        // One after another, so that a participant is heard in the order in which it speaks.
        for asked in acts {
            let operator = self.guest.operator.clone();
            let caller = operator.or_else(|| asker(self.hub, self.room, &asked.participant));
            if let Some(caller) = caller {
                // Whether it was delivered or not.
                let _ = act(self.hub, self.room, caller, asked).await;
            }
        }
        let limit = room.look(|room| room.soft_limit(conn));
        if limit > MAX_FRAME_BEFORE {
            connection.set_limit(2 * limit);
            connection.set_budget(&self.hub.receive_budget);
        }
        ControlFlow::Continue(())
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

    async fn on_time(&mut self, mono: Duration, connection: &mut Connection) -> ControlFlow<Self::End> {
        if mono < self.next_check {
            return ControlFlow::Continue(());
        }
        self.next_check = mono + CHECK_EVERY;
        // While the participant does not read, nothing is taken from the queue, and so not the close at its end.
        if connection.backlog() >= Self::HIGH_WATER
            && let Some(close) = self.link.closing()
        {
            return ControlFlow::Break(Some(close));
        }
        if mono.saturating_sub(self.heard) >= SILENT {
            say(connection, "timeout", "the participant sent nothing for too long");
            return ControlFlow::Break(Some(close::TIMEOUT));
        }
        if self.guest.operator.as_ref().is_some_and(|operator| !operator.is_active(clock::now())) {
            say(connection, "revoked", "the participant's token is no longer valid");
            return ControlFlow::Break(Some(close::UNVERIFIED));
        }
        if mono.saturating_sub(self.pinged) >= PING_EVERY {
            self.pinged = mono;
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
                    say(connection, "too_large", &error.to_string());
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

fn say(connection: &mut Connection, code: &str, message: &str) {
    connection.queue_text(&FromRelay::Error { code: code.into(), message: message.into() }.encode());
}
