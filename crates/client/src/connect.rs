//! Opening a connection: `ws` or `wss`, within a bound of time.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::http::Uri;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, Error as WsError};

/// How long a connection may take to open.
const PATIENCE: Duration = Duration::from_secs(15);
/// Where a hub's door is when the address does not say.
const DOOR: &str = "/yonexus";

/// A stream, whatever is underneath.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

pub(crate) type Socket = WebSocketStream<Box<dyn Stream>>;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Not an address.
    #[error("`{0}` is no address of a hub; write it like ws://127.0.0.1:7410/yonexus")]
    Address(String),
    /// Nothing answers.
    #[error("no hub answers at {url}: {why}")]
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
    /// Something answers, but not with a WebSocket.
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

/// A hub's WebSocket address from what a person typed: `ws` and `wss` as they are, `http` and `https` as those, and the
/// door's path when there is none.
pub fn hub_url(text: &str) -> Result<String, ConnectError> {
    let wrong = || ConnectError::Address(text.into());
    let (scheme, rest) = text.trim().split_once("://").ok_or_else(wrong)?;
    let scheme = match scheme {
        "ws" | "http" => "ws",
        "wss" | "https" => "wss",
        _ => return Err(wrong()),
    };
    let url = match rest.split_once('/') {
        None | Some((_, "")) => format!("{scheme}://{}{DOOR}", rest.trim_end_matches('/')),
        Some(_) => format!("{scheme}://{rest}"),
    };
    let uri: Uri = url.parse().map_err(|_| wrong())?;
    uri.host().filter(|host| !host.is_empty()).ok_or_else(wrong)?;
    Ok(url)
}

/// Opens a connection.
pub(crate) async fn open(url: &str) -> Result<Socket, ConnectError> {
    match tokio::time::timeout(PATIENCE, open_unbounded(url)).await {
        Ok(opened) => opened,
        Err(_) => Err(ConnectError::Late(url.into())),
    }
}

async fn open_unbounded(url: &str) -> Result<Socket, ConnectError> {
    let address = || ConnectError::Address(url.into());
    let unreachable = |why| ConnectError::Unreachable { url: url.into(), why };
    let uri: Uri = url.parse().map_err(|_| address())?;
    let secure = uri.scheme_str() == Some("wss");
    let host = uri.host().ok_or_else(address)?.trim_matches(['[', ']']).to_owned();
    let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
    let tcp = TcpStream::connect((host.as_str(), port)).await.map_err(unreachable)?;
    let _ = tcp.set_nodelay(true);
    let stream: Box<dyn Stream> = if secure { Box::new(tls(url, &host, tcp).await?) } else { Box::new(tcp) };
    let request = url.into_client_request().map_err(|_| address())?;
    let config = WebSocketConfig::default()
        .read_buffer_size(16 * 1024)
        .max_message_size(Some(8 * 1024 * 1024))
        .max_frame_size(Some(8 * 1024 * 1024));
    match tokio_tungstenite::client_async_with_config(request, stream, Some(config)).await {
        Ok((socket, _)) => Ok(socket),
        Err(WsError::Http(reply)) => Err(ConnectError::Refused { url: url.into(), why: refusal(&reply) }),
        Err(WsError::Io(why)) => Err(unreachable(why)),
        Err(why) => Err(ConnectError::Refused { url: url.into(), why: format!("is no WebSocket: {why}") }),
    }
}

fn refusal(reply: &tungstenite::http::Response<Option<Vec<u8>>>) -> String {
    match reply.status().as_u16() {
        404 => "has no Yonexus door; is this the right address?".into(),
        429 => "does not listen to this address for a minute: too many failures".into(),
        503 => "is busy; it says to come again".into(),
        status => format!("answered {status} instead of a WebSocket"),
    }
}

async fn tls(
    url: &str,
    host: &str,
    tcp: TcpStream,
) -> Result<tokio_rustls::client::TlsStream<TcpStream>, ConnectError> {
    let wrong = |why: String| ConnectError::Tls { url: url.into(), why };
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|why| wrong(why.to_string()))?;
    let config = builder.with_platform_verifier().map_err(|why| wrong(why.to_string()))?.with_no_client_auth();
    let name =
        rustls::pki_types::ServerName::try_from(host.to_owned()).map_err(|_| ConnectError::Address(url.into()))?;
    let connector = TlsConnector::from(Arc::new(config));
    connector.connect(name, tcp).await.map_err(|why| wrong(why.to_string()))
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
