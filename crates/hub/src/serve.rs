//! The listener: accepts connections, within a bound, plain or TLS, and serves HTTP/1.1 on them.

pub(crate) mod own;
mod tls;

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::TaskTracker;

pub(crate) use self::tls::tls;

use convoke_doors::reader::Reader;
use convoke_doors::{self as http, Router};
use convoke_gate::hub::Hub;
use convoke_gate::shares::{Share, Unproven};
use convoke_wires::sonde::ca::fingerprint;
use convoke_wires::sonde::listen::Client;

/// How long a client may take over a request's head (the pause between two requests counts), and over a TLS handshake.
const HEAD_PATIENCE: Duration = Duration::from_secs(30);

/// How a listener serves TLS.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) acceptor: TlsAcceptor,
    /// Whether clients may present a certificate, which requests then carry along.
    pub(crate) mutual: bool,
}

/// Accepts until the hub stops, then waits for requests under way, however long those take.
pub(crate) async fn serve(hub: Hub, listener: TcpListener, router: Router, tls: Option<Tls>) {
    let connections = TaskTracker::new();
    let max = hub.settings.hub.max_connections;
    let mut failures = Failures::default();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = hub.stopping.cancelled() => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(why) => {
                // Out of file descriptors, most likely: going on at once would spin.
                if let Some(untold) = failures.tell(hub.mono()) {
                    tracing::error!(%why, untold, "cannot accept a connection; further failures in this minute are only counted");
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let share = hub.share_for_stranger(peer.ip());
        let Some(share) = share.filter(|_| hub.connections.load(Ordering::Relaxed) < max) else {
            hub.metrics.dropped("connections", 1);
            continue;
        };
        hub.metrics.connections.inc();
        let _ = stream.set_nodelay(true);
        let open = OpenConnection::new(&hub, share);
        let (router, from) = (router.clone(), peer.ip());
        match tls.clone() {
            None => connections.spawn(async move { connection(&open, stream, router, from, None).await }),
            Some(tls) => connections.spawn(async move {
                if let Ok(Ok(stream)) = tokio::time::timeout(HEAD_PATIENCE, tls.acceptor.accept(stream)).await {
                    let presented = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
                    let client = tls.mutual.then(|| Client(presented.map(fingerprint)));
                    connection(&open, stream, router, from, client).await;
                }
            }),
        };
    }
    drop(listener);
    connections.close();
    // Whoever stops the hub knows for how long.
    connections.wait().await;
}

/// Connections that could not be accepted. While there are no file descriptors left, each try is one.
#[derive(Debug, Default)]
struct Failures {
    told: Option<Duration>,
    since: u64,
}

impl Failures {
    /// Counts one. Once a minute, returns how many came since the last time.
    fn tell(&mut self, now: Duration) -> Option<u64> {
        if self.told.is_some_and(|told| now < told + Duration::from_secs(60)) {
            self.since += 1;
            return None;
        }
        self.told = Some(now);
        Some(std::mem::take(&mut self.since))
    }
}

/// Serves one connection until it ends, is upgraded, or the hub stops: then the request under way is finished.
async fn connection<S>(open: &OpenConnection, stream: S, router: Router, from: IpAddr, client: Option<Client>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let hub = &open.hub;
    let service = service_fn(|mut request: Request<Incoming>| {
        let router = &router;
        request.extensions_mut().insert(open.unproven.clone());
        if let Some(client) = client {
            request.extensions_mut().insert(client);
        }
        async move { Ok::<_, Infallible>(http::answer(router, from, request.map(Body::new)).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_PATIENCE)
        .max_buf_size(16 * 1024)
        .serve_connection(TokioIo::new(Reader::new(stream)), service)
        .with_upgrades();
    tokio::pin!(connection);
    tokio::select! {
        // A client that breaks off or sends nonsense harms nobody but itself.
        _ = connection.as_mut() => return,
        () = hub.stopping.cancelled() => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}

struct OpenConnection {
    hub: Hub,
    unproven: Unproven,
}

impl OpenConnection {
    fn new(hub: &Hub, share: Share) -> Self {
        hub.connections.fetch_add(1, Ordering::Relaxed);
        Self { hub: hub.clone(), unproven: Unproven::new(share) }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.hub.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_told_once_a_minute_with_their_count() {
        let mut failures = Failures::default();
        let told: Vec<_> = (0..=1300).filter_map(|n| failures.tell(Duration::from_millis(n * 100))).collect();
        assert_eq!(told, [0, 599, 599]);
    }
}
