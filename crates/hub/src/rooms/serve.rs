//! A connection, from its first byte to its last.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use convoke_core::effect::Effect;
use convoke_core::grant::Role;
use convoke_kibitz::MAX_FRAME_BEFORE;
use convoke_kibitz::close::{self, Close};
use convoke_kibitz::frame::FromRelay;
use convoke_kibitz::room::{Arrival, Caller as RoomCaller, Conn};

use super::link::{Out, RoomLink};
use super::sign::Ecdsa;
use super::{LiveRoom, now, peer};
use crate::clock;
use crate::hub::Hub;
use crate::operators::Caller;
use crate::ws::{Event as WsEvent, NO_ROOM, Socket, SocketError, Stream};

/// Between pings: every WebSocket library answers them, so a participant needs no timer of its own.
const PING_EVERY: Duration = Duration::from_secs(20);
/// Without a sign of life for so long a participant is gone.
const SILENT: Duration = Duration::from_secs(60);
/// Bytes that may wait to be written before no more frames are taken from the queue.
const HIGH_WATER: usize = 256 * 1024;
/// The name under which an operator's speaking in a room is allowed: `scopes.tools` may name it.
const SAY: &str = "room_say";

/// Who knocks, as the door saw them.
#[derive(Debug)]
pub(crate) struct Guest {
    /// Where from.
    pub(crate) address: IpAddr,
    /// The host that they dialled.
    pub(crate) host: String,
    /// The operator, if they showed a token.
    pub(crate) operator: Option<Caller>,
}

/// Serves one connection.
pub(crate) async fn serve(hub: Hub, room: Arc<LiveRoom>, io: Stream, read: Vec<u8>, guest: Guest) {
    let mut socket = Socket::server(io, &read, 2 * MAX_FRAME_BEFORE);
    let conn = Conn(hub.rooms.next.fetch_add(1, Ordering::Relaxed));
    let link = RoomLink::new();
    let caller = caller(&room, guest.operator.as_ref());
    let arrival = Arrival { challenge: clock::random(), host: guest.host, caller };
    let at = now(&hub);
    room.add(conn, &link, guest.address, arrival, at).settle(&hub, &room).await;
    let close = drive(&hub, &room, &mut socket, conn, &link, guest.operator.as_ref()).await;
    room.gone(conn, now(&hub)).settle(&hub, &room).await;
    if let Some(close) = close {
        Box::pin(socket.close(close.code, close.reason)).await;
    }
}

/// What an operator may in a room by their token: looking is everyone's, speaking needs what an `interact` call needs,
/// moderating is an admin's.
fn caller(room: &LiveRoom, operator: Option<&Caller>) -> RoomCaller {
    let Some(operator) = operator else { return RoomCaller::Stranger };
    let grant = &operator.token.grant;
    RoomCaller::Operator {
        id: operator.token.id.to_string(),
        name: operator.token.name.clone(),
        host: grant.role == Role::Admin,
        speaks: grant.check_call::<String>(Effect::Interact, SAY, &peer(&room.name), &[]).is_ok(),
    }
}

/// Runs until the connection ends. Answers what to tell the peer, if it is still there.
async fn drive(
    hub: &Hub,
    room: &LiveRoom,
    socket: &mut Socket,
    conn: Conn,
    link: &RoomLink,
    operator: Option<&Caller>,
) -> Option<Close> {
    let mut heard = hub.mono();
    let mut tick = tokio::time::interval(Duration::from_secs(1));
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut pinged = heard;
    loop {
        tokio::select! {
            event = socket.next_or_room(HIGH_WATER) => {
                let Some(event) = event.transpose() else { continue };
                heard = hub.mono();
                let at = now(hub);
                let after = match event {
                    Ok(WsEvent::Text(text)) => room.with(at, |room| room.on_text(conn, &text, &Ecdsa, at)).1,
                    Ok(WsEvent::Binary(_)) => room.with(at, |room| room.on_binary(conn, at)).1,
                    // Everything before it was handed on or refused: the pong tells the sender.
                    Ok(WsEvent::Ping(payload)) => {
                        // Refusals wait in the queue; they must be there before the pong.
                        while let Some(out) = link.pop() {
                            if let Some(close) = put(out, socket) {
                                return Some(close);
                            }
                        }
                        socket.queue_pong(&payload);
                        continue;
                    }
                    Ok(WsEvent::Pong(_)) => continue,
                    Ok(WsEvent::Close(..)) => return Some(close::LEFT),
                    Ok(WsEvent::Skipped(_)) => {
                        hub.metrics.dropped("arriving_frames", 1);
                        let (code, reason) = NO_ROOM;
                        return Some(Close { code, reason });
                    }
                    Err(SocketError::Broken(error)) => {
                        let code = error.close_code();
                        if code == close::TOO_LARGE.code {
                            say(socket, "too_large", &error.to_string());
                        }
                        return Some(Close { code, reason: "protocol error" });
                    }
                    Err(SocketError::Ended | SocketError::Io(_)) => return None,
                };
                after.settle(hub, room).await;
                let limit = room.look(|room| room.soft_limit(conn));
                if limit > MAX_FRAME_BEFORE {
                    socket.set_limit(2 * limit);
                    socket.set_budget(&hub.arrivals);
                }
            }
            out = link.next(), if socket.backlog() < HIGH_WATER => {
                if let Some(close) = put(out, socket) {
                    return Some(close);
                }
                // What else waits goes out in the same write.
                while socket.backlog() < HIGH_WATER {
                    let Some(out) = link.pop() else { break };
                    if let Some(close) = put(out, socket) {
                        return Some(close);
                    }
                }
            }
            _ = tick.tick() => {
                let at = hub.mono();
                // What is to be written does not go out, and so the close would never be come to.
                if socket.backlog() >= HIGH_WATER
                    && let Some(close) = link.closing()
                {
                    return Some(close);
                }
                if at.saturating_sub(heard) >= SILENT {
                    say(socket, "timeout", "nothing was heard of this participant for too long");
                    return Some(close::TIMEOUT);
                }
                if operator.is_some_and(|operator| !operator.token.is_active(clock::now())) {
                    say(socket, "revoked", "the token that this participant came by is no longer valid");
                    return Some(close::UNVERIFIED);
                }
                if at.saturating_sub(pinged) >= PING_EVERY {
                    pinged = at;
                    socket.queue_ping(b"convoke");
                }
            }
        }
    }
}

fn put(out: Out, socket: &mut Socket) -> Option<Close> {
    match out {
        Out::Frame(frame) => {
            socket.queue_framed(&frame);
            None
        }
        Out::Close(close) => Some(close),
    }
}

fn say(socket: &mut Socket, code: &str, message: &str) {
    socket.queue_text(&FromRelay::Error { code: code.into(), message: message.into() }.encode());
}
