//! Opening a connection to a room's relay.

use convoke_core::secret::SecretText;
use convoke_dial::{Ask, address, open as dial};
pub use convoke_dial::{ConnectError, Socket};
use convoke_kibitz::MAX_FRAME_AFTER;

/// The relay adds its envelope to what another participant sent.
const MAX_MESSAGE: usize = 2 * MAX_FRAME_AFTER;

/// Where a room's relay is at a hub.
pub fn relay_url(hub: &str, room: &str) -> Result<String, ConnectError> {
    address(hub, |rest| {
        let room = convoke_kibitz::name::normal(room)?;
        Some(format!("{}/rooms/{room}/ws", rest.trim_end_matches('/')))
    })
}

/// Opens a connection. Answers it with the host that was dialled, as it stands in the request.
pub(crate) async fn open(url: &str, token: Option<&SecretText>) -> Result<(Socket, String), ConnectError> {
    let refusal = |status| match status {
        401 => Some("refuses this token"),
        403 => Some("is outside this token's scopes"),
        404 => Some("is not a room; `convoke room list` shows all rooms"),
        _ => None,
    };
    dial(url, Ask { token, max_message: MAX_MESSAGE, refusal }).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rooms_relay_is_found_at_its_hub() {
        for (hub, room, url) in [
            ("http://127.0.0.1:7410", "My Lab", "ws://127.0.0.1:7410/rooms/my-lab/ws"),
            ("https://hub.example/", "x", "wss://hub.example/rooms/x/ws"),
            ("ws://[::1]:7410", "x", "ws://[::1]:7410/rooms/x/ws"),
        ] {
            assert_eq!(relay_url(hub, room).expect(hub), url);
        }
        for (hub, room) in [("h:1", "x"), ("ftp://h", "x"), ("http://", "x"), ("http://h", "☕")] {
            assert!(relay_url(hub, room).is_err(), "{hub} {room}");
        }
    }
}
