//! A small HTTP server that a test answers for, request by request.

use std::collections::HashMap;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::support::PATIENCE;

/// The server.
pub struct FakeHttp {
    address: std::net::SocketAddr,
    requests: mpsc::Receiver<Asked>,
    accepting: tokio::task::JoinHandle<()>,
}

/// A request that waits for its answer.
pub struct Asked {
    pub method: String,
    pub path: String,
    pub body: String,
    headers: HashMap<String, String>,
    stream: TcpStream,
}

impl FakeHttp {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (sender, requests) = mpsc::channel(16);
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let sender = sender.clone();
                tokio::spawn(async move {
                    if let Some(asked) = read(stream).await {
                        let _ = sender.send(asked).await;
                    }
                });
            }
        });
        Self { address, requests, accepting }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The next request.
    pub async fn request(&mut self) -> Asked {
        tokio::time::timeout(PATIENCE, self.requests.recv()).await.expect("a request in time").expect("a request")
    }

    /// The next request, which must be this one, answered with this.
    pub async fn expect(&mut self, method: &str, path: &str, status: u16, body: &str) -> Asked {
        let asked = self.request().await;
        assert_eq!((asked.method.as_str(), asked.path.as_str()), (method, path));
        asked.answer_ref(status, &[], body).await
    }
}

impl Drop for FakeHttp {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn read(mut stream: TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.lines();
    let mut first = lines.next()?.split(' ');
    let (method, path) = (first.next()?.to_owned(), first.next()?.to_owned());
    let headers: HashMap<String, String> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
        .collect();
    let length: usize = headers.get("content-length").and_then(|n| n.parse().ok()).unwrap_or(0);
    while bytes.len() < end + length {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    let body = String::from_utf8_lossy(&bytes[end..end + length]).into_owned();
    Some(Asked { method, path, body, headers, stream })
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    pub async fn answer(self, status: u16, headers: &[(&str, &str)], body: &str) {
        self.answer_ref(status, headers, body).await;
    }

    async fn answer_ref(mut self, status: u16, headers: &[(&str, &str)], body: &str) -> Self {
        let mut head = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n",
            body.len()
        );
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        self.stream.write_all(head.as_bytes()).await.expect("writes");
        self.stream.write_all(body.as_bytes()).await.expect("writes");
        self.stream.flush().await.expect("flushes");
        self
    }
}
