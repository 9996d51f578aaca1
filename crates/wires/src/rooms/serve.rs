//! A connection, from its first byte to its last.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use convoke_core::door::Door;
use convoke_core::effect::Effect;
use convoke_core::grant::{Grant, Role, Scopes};
use convoke_kibitz::MAX_FRAME_BEFORE;
use convoke_kibitz::close::{self, Close};
use convoke_kibitz::frame::FromRelay;
use convoke_kibitz::room::{Arrival, Caller as RoomCaller, Conn};

use super::adapter::{ACT, act};
use super::link::{Out, RoomLink};
use super::sign::Ecdsa;
use super::{LiveRoom, now, peer};
use crate::Wires;
use crate::ws::{Event as WsEvent, NO_ROOM, Socket, SocketError, Stream};
use convoke_gate::clock;
use convoke_gate::operators::Caller;

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
pub struct Guest {
    /// Where from.
    pub address: IpAddr,
    /// The host that they dialled.
    pub host: String,
    /// The operator, if they showed a token.
    pub operator: Option<Caller>,
}

/// Serves one connection.
pub async fn serve<S: Stream>(hub: Wires, room: Arc<LiveRoom>, io: S, read: Vec<u8>, guest: Guest) {
    let mut socket = Socket::new(io, &read, 2 * MAX_FRAME_BEFORE);
    let conn = Conn(hub.rooms.next.fetch_add(1, Ordering::Relaxed));
    let link = RoomLink::new();
    let caller = caller(&room, guest.operator.as_ref());
    let arrival = Arrival { challenge: clock::random(), host: guest.host.clone(), caller };
    let at = now(&hub);
    room.add(conn, &link, guest.address, arrival, at).settle(&hub, &room).await;
    let mut asker = guest.operator.clone();
    let close = drive(&hub, &room, &mut socket, conn, &link, &guest, &mut asker).await;
    if let (None, Some(asker)) = (&guest.operator, asker) {
        hub.operators.guest_left(asker.token.id);
    }
    room.gone(conn, now(&hub)).settle(&hub, &room).await;
    if let Some(close) = close {
        Box::pin(socket.say_goodbye(close.code, close.reason)).await;
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

/// A participant without a token as the caller of its own actions: they reach this room and nothing else.
fn guest_of(hub: &Wires, room: &LiveRoom, participant: &str, guest: &Guest) -> Caller {
    let peer = peer(&room.name);
    let name = format!("{peer}/{participant}");
    let scopes = Scopes { tools: Some(vec![ACT.into()]), agents: Some(vec![peer]), ..Scopes::default() };
    let token = hub.operators.guest(name, Grant { role: Role::Operator, scopes }, clock::now());
    Caller { token, door: Door::Room, address: guest.address }
}

/// Runs until the connection ends. Answers what to tell the peer, if it is still there.
async fn drive<S: Stream>(
    hub: &Wires,
    room: &LiveRoom,
    socket: &mut Socket<S>,
    conn: Conn,
    link: &RoomLink,
    guest: &Guest,
    asker: &mut Option<Caller>,
) -> Option<Close> {
    let operator = guest.operator.as_ref();
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
                let mut after = match event {
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
                    Ok(WsEvent::Close(_)) => return Some(close::LEFT),
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
                let acts = after.take_acts();
                after.settle(hub, room).await;
                // One after another, so that a participant is heard in the order in which it speaks.
                for asked in acts {
                    let caller = asker.get_or_insert_with(|| guest_of(hub, room, &asked.participant, guest)).clone();
                    if let Err((reason, words)) = act(hub, &room.name, caller, &asked).await {
                        let at = now(hub);
                        let ((), after) = room.with(at, |room| room.refuse_act(&asked, &reason, &words));
                        after.settle(hub, room).await;
                    }
                }
                let limit = room.look(|room| room.soft_limit(conn));
                if limit > MAX_FRAME_BEFORE {
                    socket.let_in(2 * limit, &hub.arrivals);
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
                    say(socket, "timeout", "the participant sent nothing for too long");
                    return Some(close::TIMEOUT);
                }
                if operator.is_some_and(|operator| !operator.token.is_active(clock::now())) {
                    say(socket, "revoked", "the participant's token is no longer valid");
                    return Some(close::UNVERIFIED);
                }
                if at.saturating_sub(pinged) >= PING_EVERY {
                    pinged = at;
                    socket.queue_ping();
                }
            }
        }
    }
}

fn put<S: Stream>(out: Out, socket: &mut Socket<S>) -> Option<Close> {
    match out {
        Out::Frame(frame) => {
            socket.queue_framed(&frame);
            None
        }
        Out::Close(close) => Some(close),
    }
}

fn say<S: Stream>(socket: &mut Socket<S>, code: &str, message: &str) {
    socket.queue_text(&FromRelay::Error { code: code.into(), message: message.into() }.encode());
}
