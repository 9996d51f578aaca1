//! Opening a connection to a hub's door for clients.

use convoke_dial::{Ask, address, open as dial};
pub use convoke_dial::{ConnectError, Socket};

/// Where a hub's door is when the address does not say.
const DOOR: &str = "/yonexus";
/// Longest message that is taken.
const MAX_MESSAGE: usize = 8 * 1024 * 1024;

/// A hub's WebSocket address from what a person typed: `ws` and `wss` as they are, `http` and `https` as those, and the
/// door's path when there is none.
pub fn hub_url(text: &str) -> Result<String, ConnectError> {
    address(text, |rest| {
        Some(match rest.split_once('/') {
            None | Some((_, "")) => format!("{}{DOOR}", rest.trim_end_matches('/')),
            Some(_) => rest.to_owned(),
        })
    })
}

/// Opens a connection.
pub(crate) async fn open(url: &str) -> Result<Socket, ConnectError> {
    let refusal = |status| (status == 404).then_some("has no Yonexus endpoint; is this the right address?");
    let (socket, _) = dial(url, Ask { token: None, max_message: MAX_MESSAGE, refusal }).await?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_as_people_write_them() {
        for (text, url) in [
            ("ws://h:1/path", "ws://h:1/path"),
            ("wss://h/x/y", "wss://h/x/y"),
            ("http://127.0.0.1:7410", "ws://127.0.0.1:7410/yonexus"),
            ("https://hub.example/", "wss://hub.example/yonexus"),
            ("ws://[::1]:7410", "ws://[::1]:7410/yonexus"),
        ] {
            assert_eq!(hub_url(text).expect(text), url);
        }
        for bad in ["", "h:1", "ftp://h", "ws://", "ws:///x", "127.0.0.1:7410"] {
            assert!(hub_url(bad).is_err(), "{bad}");
        }
    }
}
