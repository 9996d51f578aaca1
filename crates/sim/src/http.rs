//! One keep-alive HTTP/1.1 connection, opened when first needed and again when it has ended.

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

/// Largest answer that is read, in bytes.
const MAX_ANSWER: usize = 128 * 1024 * 1024;

const MCP_SESSION: &str = "mcp-session-id";

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// No connection.
    #[error("could not connect: {0}")]
    Connect(#[from] std::io::Error),
    /// The connection broke, or what came is no HTTP.
    #[error(transparent)]
    Http(#[from] hyper::Error),
    /// The request could not be written down: a bad path or token.
    #[error("not a request: {0}")]
    Request(#[from] hyper::http::Error),
    /// The answer broke off or is too large.
    #[error("the answer could not be read: {0}")]
    Answer(Box<dyn std::error::Error + Send + Sync>),
}

/// A client of one server.
#[derive(Debug)]
pub struct Client {
    target: SocketAddr,
    host: String,
    /// The session of MCP that the server has opened, if it has: every request after that is part of it.
    session: Option<HeaderValue>,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    sender: SendRequest<Full<Bytes>>,
    driver: JoinHandle<()>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Client {
    /// A client of the server at `target`; nothing is opened yet.
    pub fn new(target: SocketAddr) -> Self {
        Self { target, host: target.to_string(), session: None, open: None }
    }

    /// Reads what is at `path`.
    pub async fn get(&mut self, path: &str, bearer: Option<&HeaderValue>) -> Result<(StatusCode, Bytes), HttpError> {
        self.send(Method::GET, path, bearer, Bytes::new()).await
    }

    /// Sends one request and reads the whole answer. When it is cancelled, the next request opens a new connection.
    pub async fn send(
        &mut self,
        method: Method,
        path: &str,
        bearer: Option<&HeaderValue>,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), HttpError> {
        self.send_with(method, path, bearer, &[], body).await
    }

    /// The same with further headers.
    pub async fn send_with(
        &mut self,
        method: Method,
        path: &str,
        bearer: Option<&HeaderValue>,
        headers: &[(&'static str, &'static str)],
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), HttpError> {
        let mut request = Request::builder().method(method).uri(path).header(HOST, &self.host);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(bearer) = bearer {
            request = request.header(AUTHORIZATION, bearer);
        }
        if let Some(session) = &self.session {
            request = request.header(MCP_SESSION, session);
        }
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let request = request.body(Full::new(body))?;
        // Taken out while a request is under way: one that is cancelled leaves no half-read connection behind.
        let mut idle = self.open.take();
        if let Some(open) = &mut idle
            && open.sender.ready().await.is_err()
        {
            idle = None;
        }
        let mut open = match idle {
            Some(open) => open,
            None => connect(self.target).await?,
        };
        let response = open.sender.send_request(request).await?;
        let status = response.status();
        if let Some(session) = response.headers().get(MCP_SESSION) {
            self.session = Some(session.clone());
        }
        let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await.map_err(HttpError::Answer)?;
        self.open = Some(open);
        Ok((status, body.to_bytes()))
    }
}

/// `Authorization` for a token.
pub fn bearer(token: &str) -> Result<HeaderValue, HttpError> {
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(hyper::http::Error::from)?;
    value.set_sensitive(true);
    Ok(value)
}

async fn connect(target: SocketAddr) -> Result<Open, HttpError> {
    let stream = TcpStream::connect(target).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let driver = tokio::spawn(async move {
        // Its failure reaches whoever waits for an answer.
        let _ = connection.await;
    });
    Ok(Open { sender, driver })
}
