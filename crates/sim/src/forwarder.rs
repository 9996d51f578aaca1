//! The raw limit of a machine: a bare server on the hub's own stack without the hub's work.
//!
//! HTTP/1.1 in, one WebSocket frame to the agent and one back, HTTP out. The frames are of the size that the hub's are.
//! There is no authentication, no gate, no record, no parsing of what passes through: an agent is taken at its word,
//! and its response frame is the body of the answer. What a hub costs beyond this is what the hub does. With a file to
//! write to, it makes each call durable in the plainest way: that much of a hub's cost is the price of durability.

mod link;
mod log;

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use convoke_socket::queue::Queue;
use ed25519_dalek::{SigningKey, VerifyingKey};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, UPGRADE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tungstenite::handshake::derive_accept_key;

use log::Log;

use crate::server::Server;

/// Largest request that is forwarded, in bytes.
const MAX_BODY: usize = 1024 * 1024;

type Answer = Response<Full<Bytes>>;

/// A running forwarder. It stops when it is dropped.
#[derive(Debug)]
pub struct Forwarder {
    server: Server,
    public_key: VerifyingKey,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    key: SigningKey,
    links: Mutex<HashMap<String, Arc<Queue<link::Command>>>>,
    handshakes: AtomicU64,
    snapshots: AtomicU64,
    log: Option<Log>,
}

impl Forwarder {
    /// Listens at `listen` and proves itself to agents with `key`. What is answered is first written to `log`, if there
    /// is one.
    pub async fn start(listen: SocketAddr, key: SigningKey, log: Option<&Path>) -> io::Result<Self> {
        let public_key = key.verifying_key();
        let log = log.map(Log::start).transpose()?;
        let (links, handshakes, snapshots) = Default::default();
        let shared = Arc::new(Shared { key, links, handshakes, snapshots, log });
        let of_server = Arc::clone(&shared);
        let server = Server::start(listen, move |stream| serve(stream, Arc::clone(&of_server))).await?;
        Ok(Self { server, public_key, shared })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// The key that agents pin.
    pub const fn public_key(&self) -> VerifyingKey {
        self.public_key
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        for (_, queue) in self.shared.links().drain() {
            let _ = queue.push(link::Command::End);
        }
    }
}

impl Shared {
    fn links(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<Queue<link::Command>>>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    let service = service_fn(move |request| {
        let shared = Arc::clone(&shared);
        async move { Ok::<_, Infallible>(answer(&shared, request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .max_buf_size(16 * 1024)
        .half_close(false)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    // A connection that breaks is its client's matter.
    let _ = connection.await;
}

async fn answer(shared: &Arc<Shared>, request: Request<Incoming>) -> Answer {
    let path = request.uri().path();
    if let Some(agent) = path.strip_prefix("/api/agents/").and_then(|rest| rest.strip_suffix("/call")) {
        let queue = shared.links().get(agent).cloned();
        return match queue {
            Some(queue) => {
                forward(shared, &queue, request).await.unwrap_or_else(|status| text(status, String::new()))
            }
            None => text(StatusCode::NOT_FOUND, String::new()),
        };
    }
    match path {
        "/agent/ws" => upgrade(shared, request),
        "/metrics" => text(StatusCode::OK, metrics(shared)),
        _ => text(StatusCode::NOT_FOUND, String::new()),
    }
}

async fn forward(
    shared: &Shared,
    queue: &Queue<link::Command>,
    request: Request<Incoming>,
) -> Result<Answer, StatusCode> {
    let body = Limited::new(request.into_body(), MAX_BODY).collect().await;
    let body = body.map_err(|_| StatusCode::PAYLOAD_TOO_LARGE)?.to_bytes();
    let under_way = shared.log.as_ref().map(Log::under_way);
    let (reply, answered) = oneshot::channel();
    queue.send(link::Command::Forward { body, reply }).await.map_err(|_| StatusCode::BAD_GATEWAY)?;
    let mut frame = answered.await.map_err(|_| StatusCode::BAD_GATEWAY)?;
    if let Some(under_way) = under_way {
        frame = under_way.written(frame).await.ok_or(StatusCode::INTERNAL_SERVER_ERROR)?;
    }
    Ok(text(StatusCode::OK, frame))
}

fn text(status: StatusCode, body: String) -> Answer {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn upgrade(shared: &Arc<Shared>, mut request: Request<Incoming>) -> Answer {
    let accept = request.headers().get(SEC_WEBSOCKET_KEY).map(|key| derive_accept_key(key.as_bytes()));
    let Some(accept) = accept.and_then(|accept| HeaderValue::try_from(accept).ok()) else {
        return text(StatusCode::BAD_REQUEST, String::new());
    };
    let (upgrade, shared) = (hyper::upgrade::on(&mut request), Arc::clone(shared));
    // A task of its own, as in the hub: it outlives the HTTP connection, and is smaller.
    tokio::spawn(async move {
        if let Some((io, read)) = stream(upgrade).await {
            link::run(shared, io, read).await;
        }
    });
    let mut response = text(StatusCode::SWITCHING_PROTOCOLS, String::new());
    let headers = response.headers_mut();
    headers.remove(CONTENT_TYPE);
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    response
}

/// The stream of an upgraded connection and what was read of it already. Hyper's own buffer ends here: an idle link
/// would carry its kilobytes for as long as it lives.
async fn stream(upgrade: hyper::upgrade::OnUpgrade) -> Option<(TcpStream, Vec<u8>)> {
    let parts = upgrade.await.ok()?.downcast::<TokioIo<TcpStream>>().ok()?;
    Some((parts.io.into_inner(), parts.read_buf.to_vec()))
}

/// The hub's names, so that one reader understands both.
fn metrics(shared: &Shared) -> String {
    let (links, handshakes, snapshots) =
        (shared.links().len(), shared.handshakes.load(Ordering::Relaxed), shared.snapshots.load(Ordering::Relaxed));
    format!(
        "convoke_links {links}\nconvoke_handshakes_total {handshakes}\nconvoke_snapshots_total {snapshots}\n\
         convoke_store_queue 0\n"
    )
}
