//! Opens a WebSocket to a hub: `ws` or `wss`, within a bound of time, with errors that say what to do.
//!
//! For whoever keeps a connection as a client or a participant. The endpoint agent has its own way: it goes through
//! proxies, pins authorities, and holds no buffer while it rests. Whose certificates count is the same for all ([`trust`]).

pub mod backoff;
pub mod pin;
pub mod trust;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use convoke_core::secret::SecretText;
use convoke_socket::upgrade::{Request, UpgradeError, upgrade};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tungstenite::http::Uri;

use crate::trust::Trust;

/// How long a connection may take to open.
const PATIENCE: Duration = Duration::from_secs(15);

/// A stream, whatever is underneath.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin + std::fmt::Debug {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin + std::fmt::Debug> Stream for T {}

/// An open connection.
pub type Socket = convoke_socket::Socket<Box<dyn Stream>>;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Not an address.
    #[error("`{0}` is not an address of a hub; write it like http://127.0.0.1:7410")]
    Address(String),
    /// Nothing answers.
    #[error("cannot reach the hub at {url}: {why}")]
    Unreachable {
        /// Where.
        url: String,
        /// Why not.
        why: io::Error,
    },
    /// TLS.
    #[error("the hub at {url} could not prove itself: {why}")]
    Tls {
        /// Where.
        url: String,
        /// Why not.
        why: String,
    },
    /// Something answers, but not with what was asked for.
    #[error("{url} {why}")]
    Refused {
        /// Where.
        url: String,
        /// What it said.
        why: String,
    },
    /// It took too long.
    #[error("the hub at {0} did not answer in time")]
    Late(String),
}

/// What is asked for at an address.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// Goes along as the bearer.
    pub token: Option<&'a SecretText>,
    /// Longest message that is taken.
    pub max_message: usize,
    /// What a status means at this door, where it is known; it follows the address in a sentence.
    pub refusal: fn(u16) -> Option<&'static str>,
}

/// The WebSocket address of a door from a hub's address as a person typed it: `ws` and `wss` as they are, `http` and
/// `https` as those. `door` makes the rest of what stands behind `://`.
pub fn address(hub: &str, door: impl FnOnce(&str) -> Option<String>) -> Result<String, ConnectError> {
    let wrong = || ConnectError::Address(hub.into());
    let (scheme, rest) = hub.trim().split_once("://").ok_or_else(wrong)?;
    let scheme = match scheme {
        "ws" | "http" => "ws",
        "wss" | "https" => "wss",
        _ => return Err(wrong()),
    };
    let url = format!("{scheme}://{}", door(rest).ok_or_else(wrong)?);
    let uri: Uri = url.parse().map_err(|_| wrong())?;
    uri.host().filter(|host| !host.is_empty()).ok_or_else(wrong)?;
    Ok(url)
}

/// Opens a connection. Answers it with the host that was dialled, as it stands in the request.
pub async fn open(url: &str, ask: Ask<'_>) -> Result<(Socket, String), ConnectError> {
    match tokio::time::timeout(PATIENCE, open_unbounded(url, ask)).await {
        Ok(opened) => opened,
        Err(_) => Err(ConnectError::Late(url.into())),
    }
}

async fn open_unbounded(url: &str, ask: Ask<'_>) -> Result<(Socket, String), ConnectError> {
    let address = || ConnectError::Address(url.into());
    let unreachable = |why| ConnectError::Unreachable { url: url.into(), why };
    let uri: Uri = url.parse().map_err(|_| address())?;
    let secure = uri.scheme_str() == Some("wss");
    let host = uri.host().ok_or_else(address)?.trim_matches(['[', ']']).to_owned();
    let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
    let tcp = TcpStream::connect((host.as_str(), port)).await.map_err(unreachable)?;
    let _ = tcp.set_nodelay(true);
    let stream: Box<dyn Stream> = if secure { Box::new(tls(url, &host, tcp).await?) } else { Box::new(tcp) };
    let authority = uri.authority().ok_or_else(address)?.as_str();
    let dialled = authority.rsplit('@').next().unwrap_or_default();
    let headers = match ask.token.map(SecretText::reveal) {
        Some(token) if token.chars().any(|c| c.is_control()) => return Err(address()),
        Some(token) => format!("Authorization: Bearer {token}\r\n"),
        None => String::new(),
    };
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    match upgrade(stream, Request { host: dialled, path, headers: &headers, limit: ask.max_message }).await {
        Ok((socket, _)) => Ok((socket, dialled.to_owned())),
        Err(UpgradeError::Status { status: Some(status), .. }) => {
            Err(ConnectError::Refused { url: url.into(), why: refusal(status, ask.refusal) })
        }
        Err(UpgradeError::Io(why)) => Err(unreachable(why)),
        Err(why) => Err(ConnectError::Refused { url: url.into(), why: format!("is not a WebSocket: {why}") }),
    }
}

fn refusal(status: u16, of_door: fn(u16) -> Option<&'static str>) -> String {
    let of_any = match status {
        421 => Some("does not answer to this name; see hub.allowed_hosts and hub.public_url"),
        429 => Some("blocks this address for a minute after too many failures"),
        503 => Some("is busy; try again later"),
        _ => None,
    };
    let known = of_door(status).or(of_any);
    known.map_or_else(|| format!("answered {status} instead of a WebSocket"), Into::into)
}

async fn tls(
    url: &str,
    host: &str,
    tcp: TcpStream,
) -> Result<tokio_rustls::client::TlsStream<TcpStream>, ConnectError> {
    let wrong = |why: String| ConnectError::Tls { url: url.into(), why };
    let config = Trust::platform().and_then(Trust::config).map_err(|why| wrong(why.to_string()))?;
    let name =
        rustls::pki_types::ServerName::try_from(host.to_owned()).map_err(|_| ConnectError::Address(url.into()))?;
    let connector = TlsConnector::from(Arc::new(config));
    connector
        .connect(name, tcp)
        .await
        .map_err(|why| wrong(trust::in_words(&why.to_string(), "SSL_CERT_FILE=cert.pem")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_door_says_more_of_a_status_than_any_hub() {
        let door = |status| (status == 404).then_some("is no room");
        assert_eq!(refusal(404, door), "is no room");
        assert!(refusal(503, door).contains("busy"));
        assert_eq!(refusal(418, door), "answered 418 instead of a WebSocket");
    }
}
