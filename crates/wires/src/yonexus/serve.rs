//! A connection, from its first byte to its last.

use std::net::IpAddr;

use convoke_core::door::Door;
use convoke_yonexus::MAX_FRAME_BEFORE;
use convoke_yonexus::close::{self, Close};
use convoke_yonexus::server::{ServerConfig, ServerSession};

use super::link::ClientLink;
use super::{handshake, live, now};
use crate::Wires;
use crate::ws::{Socket, Stream};
use convoke_gate::shares::Share;

/// Serves one connection.
pub async fn serve(hub: Wires, io: Stream, read: Vec<u8>, address: IpAddr, handshake: Share) {
    let mut socket = Socket::server(io, &read, 2 * MAX_FRAME_BEFORE);
    let mut session = ServerSession::new(config(&hub), now(&hub));
    let link = ClientLink::new();
    // Boxed, so that the idle task does not carry the handshake's state for as long as it lives.
    let entered = Box::pin(handshake::run(&hub, &mut socket, &mut session, &link, address)).await;
    drop(handshake);
    let close = match entered {
        Ok(client) => live::run(&hub, &mut socket, session, &client, &link).await,
        Err(close) => close,
    };
    link.queue.end();
    link.hold(None);
    if let Some(close) = close {
        Box::pin(socket.close(close.code, close.reason)).await;
    }
}

fn config(hub: &Wires) -> ServerConfig {
    ServerConfig {
        unstable_after: hub.settings.yonexus.unstable_after_s,
        offline_after: hub.settings.yonexus.offline_after_s,
        auth_within: hub.settings.yonexus.auth_timeout_s,
        frames_per_second: hub.settings.yonexus.frames_per_second,
    }
}

/// Counts a stranger's failure against the address it came from.
pub(super) fn failed(hub: &Wires, address: IpAddr) {
    hub.strangers.refused(address, Door::Wire);
    hub.metrics.refused("wire", "stranger");
    hub.yonexus.throttle.failed(address, convoke_gate::clock::now());
}

/// What a broken WebSocket is closed with, and what is said before.
pub(super) fn broken(error: crate::ws::WsError, hub: &Wires) -> (Option<String>, Close) {
    use convoke_yonexus::builtin::Builtin;
    use convoke_yonexus::reason::ErrorCode;
    let code = error.close_code();
    if code == close::TOO_LARGE.code {
        let text = Builtin::error(None, now(hub).unix(), ErrorCode::MalformedMessage, error.to_string());
        return (Some(text.encode()), close::TOO_LARGE);
    }
    (None, Close { code, reason: "protocol error" })
}
