//! Connections to a hub: TCP, through a proxy where one is set, with TLS where the address says so. The tunnel, the
//! enrolment and the downloads all go this way, so that `--ca` and the proxy variables mean the same to each.

pub(crate) mod http;
mod proxy;
mod tls;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use convoke_dial::trust;
use convoke_kenny::wire_bytes;
use convoke_socket::upgrade::{Request, Response, UpgradeError, read_head, upgrade};
use ed25519_dalek::VerifyingKey;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;
use url::Url;

use crate::address::bare_host;

pub use proxy::ProxyError;
pub use tls::TlsError;

use proxy::Proxies;

/// How to connect.
#[derive(Clone, Debug)]
pub(crate) struct Dialler {
    /// The only authority whose certificates count; the platform's store without it.
    pub(crate) authority: Option<PathBuf>,
    /// How long each step may take: name and TCP, the proxy, TLS.
    pub(crate) patience: Duration,
    /// The key of the hub, which may show a certificate of its own.
    hub_key: Option<[u8; 32]>,
    /// How TLS is made, where it is not by `authority` and without a certificate of our own.
    pub(crate) tls: Option<Arc<rustls::ClientConfig>>,
    proxies: Proxies,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The name, or TCP.
    #[error("cannot connect to {to}: {why}")]
    Connect {
        /// Host and port.
        to: String,
        /// Why not.
        why: io::Error,
    },
    /// It took too long.
    #[error("{to} did not answer within {}", shown(*patience))]
    TimedOut {
        /// Host and port.
        to: String,
        /// How long we waited.
        patience: Duration,
    },
    /// The variables name no usable proxy.
    #[error(transparent)]
    Proxy(#[from] ProxyError),
    /// The proxy said no.
    #[error("the proxy {proxy} does not connect to {to}: {why}")]
    ProxyRefused {
        /// The proxy's host and port.
        proxy: String,
        /// Host and port.
        to: String,
        /// Its words.
        why: String,
    },
    /// The certificates cannot be checked at all.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The other side's certificate, or TLS itself.
    #[error("cannot open a TLS connection to {to}: {why}")]
    Handshake {
        /// Host and port.
        to: String,
        /// Why not.
        why: String,
    },
}

fn shown(patience: Duration) -> String {
    format!("{} s", patience.as_secs_f64())
}

impl Dialler {
    /// With the proxies that the environment names.
    pub(crate) fn new(authority: Option<PathBuf>, patience: Duration) -> Self {
        Self { authority, patience, hub_key: None, tls: None, proxies: Proxies::from_env() }
    }

    /// One that knows the hub by its key: no authority has to vouch for it then.
    pub(crate) fn knowing(self, hub_key: &VerifyingKey) -> Self {
        Self { hub_key: Some(hub_key.to_bytes()), ..self }
    }

    /// Connects to the host of `url`.
    pub(crate) async fn dial(&self, url: &Url) -> Result<Stream, DialError> {
        let host = bare_host(url).to_owned();
        let port = url.port_or_known_default().unwrap_or(443);
        let to = authority(&host, port);
        let secure = matches!(url.scheme(), "https" | "wss");
        let tcp = match self.proxies.choose(url)? {
            None => {
                self.within(&to, tcp(&host, port)).await?.map_err(|why| DialError::Connect { to: to.clone(), why })?
            }
            Some(proxy) => self.through(&proxy, &to).await?,
        };
        if !secure {
            return Ok(Either::Left(tcp));
        }
        let (authority, hub_key) = (self.authority.clone(), self.hub_key);
        // The platform's store is a directory of files: not on the runtime's thread.
        let config = match &self.tls {
            Some(config) => Arc::clone(config),
            None => {
                let made = tokio::task::spawn_blocking(move || tls::config(authority.as_deref(), hub_key)).await;
                made.map_err(|why| DialError::Handshake { to: to.clone(), why: why.to_string() })??
            }
        };
        let name = tls::server_name(&host)?;
        let shake = TlsConnector::from(config).connect(name, tcp);
        let tls = self.within(&to, shake).await?;
        let tls =
            tls.map_err(|why| DialError::Handshake { to, why: trust::in_words(&why.to_string(), "--ca FILE") })?;
        Ok(Either::Right(Box::new(tls)))
    }

    /// Asks a proxy for a tunnel.
    async fn through(&self, proxy: &Url, to: &str) -> Result<TcpStream, DialError> {
        let host = bare_host(proxy).to_owned();
        let port = proxy.port_or_known_default().unwrap_or(3128);
        let name = authority(&host, port);
        let connected = self.within(&name, tcp(&host, port)).await?;
        let mut io = connected.map_err(|why| DialError::Connect { to: format!("the proxy {name}"), why })?;
        let mut request = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n");
        if let Some(user) = proxy::credentials(proxy) {
            request.push_str(&format!("Proxy-Authorization: Basic {}\r\n", wire_bytes::encode(&user)));
        }
        request.push_str("\r\n");
        let refused = |why: String| DialError::ProxyRefused { proxy: name.clone(), to: to.to_owned(), why };
        let answer = async {
            io.write_all(request.as_bytes()).await?;
            read_head(&mut io).await
        };
        let (head, rest) = self.within(&name, answer).await?.map_err(|why: UpgradeError| refused(why.to_string()))?;
        let status = head.lines().next().unwrap_or_default();
        if !status.split(' ').nth(1).is_some_and(|code| code.starts_with('2')) {
            return Err(refused(format!(
                "it answers `{}`",
                status.chars().filter(|c| !c.is_control()).take(100).collect::<String>()
            )));
        }
        // Whoever is behind the proxy speaks after us, never before.
        if !rest.is_empty() {
            return Err(refused("it sent data before the request".into()));
        }
        Ok(io)
    }

    async fn within<T>(&self, to: &str, step: impl Future<Output = T>) -> Result<T, DialError> {
        let timed_out = |_| DialError::TimedOut { to: to.to_owned(), patience: self.patience };
        tokio::time::timeout(self.patience, step).await.map_err(timed_out)
    }
}

async fn tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let io = TcpStream::connect((host, port)).await?;
    io.set_nodelay(true)?;
    Ok(io)
}

fn authority(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// A connection, without TLS or with it.
pub(crate) type Stream = Either<TcpStream, Box<TlsStream<TcpStream>>>;
/// A WebSocket over it.
pub(crate) type Socket = convoke_socket::Socket<Stream>;

/// Makes a WebSocket of a fresh connection to the host of `url`. `headers` are whole lines, each with its line end.
pub(crate) async fn open_websocket(
    io: Stream,
    url: &Url,
    limit: usize,
    headers: &str,
) -> Result<(Socket, Response), UpgradeError> {
    let host = match url.port() {
        Some(port) => format!("{}:{port}", url.host_str().unwrap_or_default()),
        None => url.host_str().unwrap_or_default().to_owned(),
    };
    upgrade(io, Request { host: &host, path: url.path(), headers, limit }).await
}
