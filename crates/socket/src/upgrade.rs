//! The client's side of the HTTP upgrade (RFC 6455, section 4.1).

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tungstenite::handshake::{client::generate_key, derive_accept_key};

use crate::Socket;

/// Longest answer to the upgrade that is read.
const MAX_HEAD: usize = 8 * 1024;

/// What a client asks for.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The `Host` header.
    pub host: &'a str,
    /// Path and query.
    pub path: &'a str,
    /// More headers: whole lines, each with its line end.
    pub headers: &'a str,
    /// Largest message that is taken.
    pub limit: usize,
}

/// The head of the server's answer.
#[derive(Debug)]
pub struct Response {
    head: String,
}

/// Why a connection did not become a WebSocket.
#[derive(Debug, thiserror::Error)]
pub enum UpgradeError {
    /// The stream failed or ended.
    #[error("the connection was lost: {0}")]
    Io(#[from] io::Error),
    /// The server answered with a status other than 101.
    #[error("it answers `{line}` where a hub opens a WebSocket; is the address a hub's?")]
    Status {
        /// The status, if it is one of HTTP.
        status: Option<u16>,
        /// The first line of the answer.
        line: String,
    },
    /// The server's answer breaks RFC 6455.
    #[error("{0}")]
    Refused(&'static str),
}

impl Response {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let headers = self.head.lines().skip(1).filter_map(|line| line.split_once(':'));
        headers.into_iter().find(|(given, _)| given.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }

    fn check(&self, accept: &str) -> Result<(), UpgradeError> {
        let line = self.head.lines().next().unwrap_or_default();
        let status = line.strip_prefix("HTTP/1.").and_then(|rest| rest.split(' ').nth(1)?.parse().ok());
        if status != Some(101) {
            let line = line.chars().filter(|c| !c.is_control()).take(100).collect();
            return Err(UpgradeError::Status { status, line });
        }
        if self.header("sec-websocket-accept") != Some(accept) {
            return Err(UpgradeError::Refused("its answer does not match our upgrade request"));
        }
        if self.header("sec-websocket-extensions").is_some() || self.header("sec-websocket-protocol").is_some() {
            return Err(UpgradeError::Refused("it uses an extension that was not offered"));
        }
        Ok(())
    }
}

/// Makes a WebSocket of a fresh connection. Without further headers, only `Host` goes out beside the upgrade itself, as
/// with the agents of the field.
pub async fn upgrade<S>(mut io: S, request: Request<'_>) -> Result<(Socket<S>, Response), UpgradeError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let Request { host, path, headers, limit } = request;
    let key = generate_key();
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n{headers}\r\n"
    );
    io.write_all(head.as_bytes()).await?;
    io.flush().await?;
    let (head, rest) = read_head(&mut io).await?;
    let response = Response { head };
    response.check(&derive_accept_key(key.as_bytes()))?;
    Ok((Socket::client(io, &rest, limit), response))
}

/// Reads up to the empty line that ends an HTTP head, and returns what came after it too.
pub async fn read_head<S: AsyncRead + Unpin>(io: &mut S) -> Result<(String, Vec<u8>), UpgradeError> {
    let mut read = Vec::with_capacity(512);
    loop {
        if let Some(at) = read.windows(4).position(|w| w == b"\r\n\r\n") {
            let rest = read.split_off(at + 4);
            return Ok((String::from_utf8_lossy(&read).into_owned(), rest));
        }
        if read.len() >= MAX_HEAD {
            return Err(UpgradeError::Refused("its answer has no end"));
        }
        if io.read_buf(&mut read).await? == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Response;

    #[test]
    fn only_a_101_with_our_key_is_an_upgrade() {
        let good =
            "HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: abc\r\nConvoke-Max-Frame: 8388608\r\n\r\n";
        let response = Response { head: good.into() };
        response.check("abc").expect("fits");
        assert_eq!(response.header("convoke-max-frame"), Some("8388608"));
        for (head, expect) in [
            ("HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: xyz\r\n\r\n", "does not match"),
            ("HTTP/1.1 404 Not Found\r\n\r\n", "404"),
            ("HTTP/1.1 101 x\r\nSec-WebSocket-Accept: abc\r\nSec-WebSocket-Extensions: x\r\n\r\n", "extension"),
            ("SSH-2.0-x\r\n\r\n", "is the address a hub"),
        ] {
            let why = Response { head: head.into() }.check("abc").expect_err(head).to_string();
            assert!(why.contains(expect), "{head}: {why}");
        }
    }
}
