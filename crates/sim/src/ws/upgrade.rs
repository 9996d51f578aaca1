//! The client's side of the HTTP upgrade.

use std::io;
use std::net::SocketAddr;

use convoke_kenny::wire_bytes;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tungstenite::handshake::derive_accept_key;

use super::Socket;

/// Longest answer to the upgrade that is read.
const MAX_HEAD: usize = 8 * 1024;

/// Why a connection did not become a WebSocket.
#[derive(Debug, thiserror::Error)]
pub enum UpgradeError {
    /// The stream failed or ended.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The server said something else than 101.
    #[error("the server does not upgrade: {0}")]
    Refused(String),
}

impl<S: AsyncRead + AsyncWrite + Unpin> Socket<S> {
    /// Makes a WebSocket of a fresh connection to `host`. Only `Host` goes out beside the upgrade itself, as the
    /// agents of the field do it.
    pub async fn upgrade(io: S, host: SocketAddr, path: &str) -> Result<Self, UpgradeError> {
        Self::upgrade_as(io, host, path, None).await
    }

    /// The same, with a bearer.
    pub async fn upgrade_as(
        mut io: S,
        host: SocketAddr,
        path: &str,
        bearer: Option<&str>,
    ) -> Result<Self, UpgradeError> {
        let authorization = bearer.map(|text| format!("Authorization: Bearer {text}\r\n")).unwrap_or_default();
        let mut nonce = [0; 20];
        getrandom::fill(&mut nonce).map_err(io::Error::other)?;
        let (key, mask) = nonce.split_at(16);
        let key = wire_bytes::encode(key);
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n{authorization}\r\n"
        );
        io.write_all(request.as_bytes()).await?;
        let mut read = Vec::with_capacity(512);
        let end = loop {
            if let Some(at) = read.windows(4).position(|w| w == b"\r\n\r\n") {
                break at + 4;
            }
            if read.len() >= MAX_HEAD {
                return Err(UpgradeError::Refused("its answer has no end".into()));
            }
            if io.read_buf(&mut read).await? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
        };
        let rest = if read.len() == end { Vec::new() } else { read[end..].to_vec() };
        check(&String::from_utf8_lossy(&read[..end]), &derive_accept_key(key.as_bytes()))?;
        let mask = mask.first_chunk().map_or(1, |m| u32::from_be_bytes(*m));
        Ok(Self::client(io, rest, mask))
    }
}

fn check(head: &str, accept: &str) -> Result<(), UpgradeError> {
    let mut lines = head.lines();
    let status = lines.next().unwrap_or_default();
    if !status.starts_with("HTTP/1.1 101") {
        return Err(UpgradeError::Refused(status.to_owned()));
    }
    let accepted = lines
        .filter_map(|line| line.split_once(':'))
        .any(|(name, value)| name.eq_ignore_ascii_case("sec-websocket-accept") && value.trim() == accept);
    if accepted { Ok(()) } else { Err(UpgradeError::Refused("it answered another key".into())) }
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn only_a_101_with_our_key_is_an_upgrade() {
        assert!(check("HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: abc\r\n\r\n", "abc").is_ok());
        assert!(check("HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: xyz\r\n\r\n", "abc").is_err());
        let refused = check("HTTP/1.1 404 Not Found\r\n\r\n", "abc").unwrap_err();
        assert!(refused.to_string().contains("404"));
    }
}
