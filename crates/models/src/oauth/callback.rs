//! The address on this machine that the browser comes back to.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::OAuthError;

/// The largest request head. A browser's is about one KiB.
const HEAD_BYTES: usize = 16 * 1024;
/// How long a visitor may take to say what it wants.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// How many visitors are heard at once; others wait in the system's queue. Browsers open connections ahead of need
/// and say nothing on them.
const VISITORS: usize = 16;

/// The open port.
#[derive(Debug)]
pub(super) struct Callback {
    ipv4: TcpListener,
    /// `localhost` may mean the other family first.
    ipv6: Option<TcpListener>,
    port: u16,
    visitors: JoinSet<Option<Visit>>,
}

/// A browser at the right path.
#[derive(Debug)]
pub(super) struct Visit {
    pub(super) query: Vec<(String, String)>,
    pub(super) reply: Reply,
}

impl Callback {
    /// Opens the wanted port, or any free one if it is taken.
    pub(super) async fn open(wanted: u16) -> Result<Self, OAuthError> {
        let bound = match TcpListener::bind(("127.0.0.1", wanted)).await {
            Ok(listener) => Ok(listener),
            Err(_) => TcpListener::bind(("127.0.0.1", 0)).await,
        };
        let no_port = |why: std::io::Error| OAuthError::NoPort(why.to_string());
        let ipv4 = bound.map_err(no_port)?;
        let port = ipv4.local_addr().map_err(no_port)?.port();
        let ipv6 = TcpListener::bind(("::1", port)).await.ok();
        Ok(Self { ipv4, ipv6, port, visitors: JoinSet::new() })
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// The next visit at the right path. Whatever else comes is answered and forgotten.
    pub(super) async fn next(&mut self) -> Visit {
        loop {
            let has_room = self.visitors.len() < VISITORS;
            let accepted = tokio::select! {
                Some(visit) = self.visitors.join_next() => {
                    if let Ok(Some(visit)) = visit {
                        return visit;
                    }
                    continue;
                }
                accepted = self.ipv4.accept(), if has_room => accepted,
                accepted = accept(self.ipv6.as_ref()), if has_room => accepted,
            };
            match accepted {
                Ok((socket, _)) => drop(self.visitors.spawn(hear(socket))),
                // Out of file descriptors, say: not again at once.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }
}

async fn accept(listener: Option<&TcpListener>) -> std::io::Result<(TcpStream, std::net::SocketAddr)> {
    match listener {
        Some(listener) => listener.accept().await,
        None => std::future::pending().await,
    }
}

async fn hear(mut socket: TcpStream) -> Option<Visit> {
    let head = tokio::time::timeout(HEAD_TIME, read_head(&mut socket)).await.ok().flatten();
    let reply = Reply(socket);
    let head = head?;
    let mut words = head.lines().next().unwrap_or_default().split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    if path != "/auth/callback" {
        reply.send("404 Not Found", "There is nothing here.").await;
        return None;
    }
    if method != "GET" {
        reply.send("405 Method Not Allowed", "This address is for a browser's return.").await;
        return None;
    }
    let query = url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    Some(Visit { query, reply })
}

async fn read_head(socket: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let mut buffer = [0_u8; 2048];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let read = socket.read(&mut buffer).await.ok().filter(|read| *read > 0)?;
        if head.len() + read > HEAD_BYTES {
            return None;
        }
        head.extend_from_slice(&buffer[..read]);
    }
    String::from_utf8(head).ok()
}

/// The browser's connection, to be answered once.
#[derive(Debug)]
pub(super) struct Reply(TcpStream);

impl Reply {
    pub(super) async fn welcome(self) {
        self.send("200 OK", "You are signed in. You can close this page.").await;
    }

    pub(super) async fn refuse(self, why: &'static str) {
        self.send("400 Bad Request", why).await;
    }

    /// Fixed words only: nothing of the request comes back in the page.
    async fn send(mut self, status: &str, words: &'static str) {
        let page = format!(
            "<!doctype html><meta charset=\"utf-8\"><title>Convoke</title>\
             <body style=\"font:16px system-ui;margin:4em auto;max-width:30em\"><p>{words}</p>"
        );
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {}\r\n\
             cache-control: no-store\r\nreferrer-policy: no-referrer\r\n\
             content-security-policy: default-src 'none'; style-src 'unsafe-inline'\r\nconnection: close\r\n\r\n{page}",
            page.len()
        );
        let send = async {
            self.0.write_all(answer.as_bytes()).await?;
            self.0.shutdown().await
        };
        // A browser that went away has nothing to be told.
        let _ = tokio::time::timeout(HEAD_TIME, send).await;
    }
}
