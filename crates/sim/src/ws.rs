//! The WebSockets of simulated peers and bare servers: the same connection that the hub uses, so that a bare server
//! differs from the hub by the hub's work alone.

use std::net::SocketAddr;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

pub use convoke_socket::{Event, SocketError, UpgradeError};

/// Largest message that is taken, in bytes.
const MAX_MESSAGE: usize = 64 * 1024 * 1024;

/// A WebSocket, over TCP unless something else is said.
pub type Socket<S = TcpStream> = convoke_socket::Socket<S>;

/// Makes a WebSocket of a fresh connection to `host`, as the agents of the field do it, with a bearer if there is one.
pub async fn open<S>(io: S, host: SocketAddr, path: &str, bearer: Option<&str>) -> Result<Socket<S>, UpgradeError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let headers = bearer.map(|text| format!("Authorization: Bearer {text}\r\n")).unwrap_or_default();
    let host = host.to_string();
    let request = convoke_socket::Request { host: &host, path, headers: &headers, limit: MAX_MESSAGE };
    Ok(convoke_socket::upgrade(io, request).await?.0)
}

/// The server's end of a connection on which the upgrade is done and `read` was read beyond it. Everybody is trusted.
pub fn serve(io: TcpStream, read: &[u8]) -> Socket {
    let mut socket = Socket::server(io, read, MAX_MESSAGE);
    socket.set_limit(MAX_MESSAGE);
    socket
}
