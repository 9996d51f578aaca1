//! The HTTP side of a WebSocket: checking the request, answering 101, and getting the stream back.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;
use tungstenite::handshake::derive_accept_key;

use convoke_doors::reader::Reader;

/// The stream of an upgraded connection: TCP as it is, since a boxed stream costs memory for each of ten thousand agents,
/// or TLS.
pub type Stream = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// A request that may become a WebSocket.
#[derive(Debug)]
pub struct Upgrade {
    on: hyper::upgrade::OnUpgrade,
}

/// Answers a WebSocket request: with 101 and the connection to come, or with what is wrong with it.
pub fn upgrade(request: &mut Request<Body>) -> Result<(Response<Body>, Upgrade), (StatusCode, &'static str)> {
    // Whatever answers to GET answers to HEAD.
    if request.method() != Method::GET {
        return Err((StatusCode::BAD_REQUEST, "open a WebSocket with GET"));
    }
    let headers = request.headers();
    let has = |name, word: &str| {
        headers.get_all(name).iter().any(|value: &HeaderValue| {
            value.to_str().is_ok_and(|v| v.split(',').any(|part| part.trim().eq_ignore_ascii_case(word)))
        })
    };
    if !has(header::CONNECTION, "upgrade") || !has(header::UPGRADE, "websocket") {
        return Err((StatusCode::UPGRADE_REQUIRED, "this path accepts only WebSocket connections"));
    }
    if headers.get(header::SEC_WEBSOCKET_VERSION).is_none_or(|v| v != "13") {
        return Err((StatusCode::BAD_REQUEST, "Sec-WebSocket-Version must be 13"));
    }
    let key = single(headers, &header::SEC_WEBSOCKET_KEY).filter(|key| key.len() == 24);
    let Some(key) = key else {
        return Err((StatusCode::BAD_REQUEST, "Sec-WebSocket-Key is missing or malformed"));
    };
    let accept = derive_accept_key(key.as_bytes());
    let Some(on) = request.extensions_mut().remove::<hyper::upgrade::OnUpgrade>() else {
        return Err((StatusCode::UPGRADE_REQUIRED, "this connection cannot become a WebSocket; use HTTP/1.1"));
    };
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    if let Ok(accept) = HeaderValue::from_str(&accept) {
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    }
    Ok((response, Upgrade { on }))
}

fn single<'a>(headers: &'a HeaderMap, name: &header::HeaderName) -> Option<&'a str> {
    let mut all = headers.get_all(name).iter();
    match (all.next(), all.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

impl Upgrade {
    /// The stream, once the 101 is out, and what was read of it already.
    pub async fn stream(self) -> Option<(Stream, Vec<u8>)> {
        let upgraded = self.on.await.ok()?;
        // Links notice by themselves when a peer does not read.
        match upgraded.downcast::<TokioIo<Reader<TcpStream>>>() {
            Ok(parts) => Some((Either::Left(parts.io.into_inner().into_inner()), parts.read_buf.to_vec())),
            Err(upgraded) => {
                let parts = upgraded.downcast::<TokioIo<Reader<TlsStream<TcpStream>>>>().ok()?;
                Some((Either::Right(Box::new(parts.io.into_inner().into_inner())), parts.read_buf.to_vec()))
            }
        }
    }
}
