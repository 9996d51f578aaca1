//! The server's side of WebSockets: checking the HTTP request and getting the stream back.

mod upgrade;

pub use convoke_socket::{
    Budget, Connection, Event, NO_MEMORY, Skipped, SocketError, WsError, frame_text, text_frame,
};
pub use upgrade::{Stream, Upgrade, upgrade};

/// A WebSocket of the hub's.
pub type Socket = convoke_socket::Socket<Stream>;
