//! A connection, from its first byte to its last.

use std::net::IpAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use convoke_kibitz::MAX_FRAME_BEFORE;
use convoke_kibitz::close::{self, Close};
use convoke_kibitz::frame::FromRelay;
use convoke_kibitz::room::{Arrival, Caller as RoomCaller, Conn};
use convoke_socket::drive::Message;

use super::adapter::{act, asker};
use super::connection::{self, Party};
use super::link::RoomLink;
use super::sign::{Desk, operator_in};
use super::{LiveRoom, now};
use crate::Wires;
use crate::ws::{Connection, NO_MEMORY, Socket, Stream};
use convoke_gate::clock;
use convoke_gate::operators::Caller;
use convoke_gate::shares::network;

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
    let arrival = Arrival {
        challenge: clock::random(),
        host: guest.host.clone(),
        certificate: None,
        network: Some(network(guest.address)),
        caller,
    };
    let at = now(&hub);
    room.add(conn, &link, guest.address, arrival, at).settle(&hub, &room).await;
    let mut participant = Participant { hub: &hub, room: &room, conn, guest: &guest };
    let close = connection::run(&hub, &mut socket, &mut participant, &link).await;
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
    guest: &'a Guest,
}

impl Party for Participant<'_> {
    const SILENT: Duration = Duration::from_secs(60);

    async fn on_message(
        &mut self,
        message: Message,
        _: Duration,
        connection: &mut Connection,
    ) -> ControlFlow<Option<Close>> {
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
        super::ops::carry_out(self.hub, room, self.guest.operator.as_ref(), after.take_commands());
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

    fn not_any_more(&self) -> Option<(&'static str, &'static str, Close)> {
        let is_over = self.guest.operator.as_ref().is_some_and(|operator| !operator.is_active(clock::now()));
        is_over.then_some(("revoked", "the participant's token is no longer valid", close::UNVERIFIED))
    }

    fn tell(connection: &mut Connection, code: &str, message: &str) {
        connection.queue_text(&FromRelay::Error { code: code.into(), message: message.into() }.encode());
    }
}
