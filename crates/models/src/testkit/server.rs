//! The server.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

/// What is done to answer, one after the other.
#[derive(Clone, Debug)]
pub enum Step {
    /// Sends these bytes as one chunk of the body.
    Send(Vec<u8>),
    /// Sends these bytes one by one.
    Drip(Vec<u8>),
    /// Waits until the test opens the gate.
    Wait(Gate),
    /// Sends nothing more and waits until the client hangs up.
    Hang,
    /// Hangs up, without the end of the body.
    Cut,
}

/// Holds an answer back until a test opens it.
#[derive(Clone, Debug)]
pub struct Gate(Arc<Semaphore>);

impl Default for Gate {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }
}

impl Gate {
    /// A closed one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets everybody pass from now on.
    pub fn open(&self) {
        self.0.close();
    }

    async fn passed(&self) {
        // It ends with the gate's closing, which is its opening.
        let _ = self.0.acquire().await;
    }
}

/// An answer to one request.
#[derive(Clone, Debug)]
pub struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    steps: Vec<Step>,
}

impl Answer {
    /// A stream of server-sent events.
    pub fn stream(steps: Vec<Step>) -> Self {
        let headers = vec![("content-type".to_owned(), "text/event-stream".to_owned())];
        Self { status: 200, headers, steps }
    }

    /// A stream whose bytes are known, such as a fixture's.
    pub fn events(text: &str) -> Self {
        Self::stream(vec![Step::Send(text.as_bytes().to_vec())])
    }

    /// A JSON document.
    pub fn json(status: u16, body: &Value) -> Self {
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        Self { status, headers, steps: vec![Step::Send(body.to_string().into_bytes())] }
    }

    /// A refusal as OpenAI words it.
    pub fn error(status: u16, code: &str, message: &str) -> Self {
        Self::json(status, &json!({ "error": { "message": message, "type": code, "code": code } }))
    }

    /// A refusal that says when to come back.
    pub fn rate_limited(retry_after: &str) -> Self {
        Self::error(429, "rate_limit_exceeded", "Rate limit reached").header("retry-after", retry_after)
    }

    /// Nothing but bytes.
    pub fn raw(status: u16, kind: &str, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            headers: vec![("content-type".to_owned(), kind.to_owned())],
            steps: vec![Step::Send(body.into())],
        }
    }

    /// The same with a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same with one more step at its end.
    #[must_use]
    pub fn then(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// The same with the body's first `keep` chunks, and then this.
    #[must_use]
    pub fn only(mut self, keep: usize, then: Step) -> Self {
        self.steps.truncate(keep);
        self.then(then)
    }

    /// The same with every chunk dripping byte by byte.
    #[must_use]
    pub fn dripping(mut self) -> Self {
        for step in &mut self.steps {
            if let Step::Send(bytes) = step {
                *step = Step::Drip(std::mem::take(bytes));
            }
        }
        self
    }
}

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Received {
    /// `GET`, `POST`.
    pub method: String,
    /// With its query.
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Received {
    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("the request's body is JSON")
    }
}

/// A server that answers from a script. It ends when it is dropped.
#[derive(Debug)]
pub struct ScriptedServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    _guard: DropGuard,
}

#[derive(Debug, Default)]
struct Shared {
    script: Mutex<VecDeque<Answer>>,
    routes: Mutex<Vec<(String, Answer)>>,
    received: Mutex<Vec<Received>>,
    counts: watch::Sender<Counts>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    requests: usize,
    hung_up: usize,
}

impl ScriptedServer {
    /// Starts on a free port of 127.0.0.1.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port on this machine");
        let address = listener.local_addr().expect("a bound socket has an address");
        let shared = Arc::new(Shared::default());
        let stop = CancellationToken::new();
        let (serving, stopped) = (shared.clone(), stop.clone());
        tokio::spawn(async move {
            loop {
                let accepted = tokio::select! {
                    () = stopped.cancelled() => return,
                    accepted = listener.accept() => accepted,
                };
                let Ok((socket, _)) = accepted else { return };
                let (serving, stopped) = (serving.clone(), stopped.clone());
                tokio::spawn(async move {
                    tokio::select! {
                        () = stopped.cancelled() => {}
                        _ = serve(socket, &serving) => {}
                    }
                });
            }
        });
        Self { address, shared, _guard: stop.drop_guard() }
    }

    /// `http://127.0.0.1:<port>`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Adds an answer to the script.
    pub fn push(&self, answer: Answer) {
        lock(&self.shared.script).push_back(answer);
    }

    /// Answers every request whose path (without its query) ends so, ahead of the script.
    pub fn route(&self, path_end: &str, answer: Answer) {
        lock(&self.shared.routes).push((path_end.to_owned(), answer));
    }

    /// What was asked so far.
    pub fn received(&self) -> Vec<Received> {
        lock(&self.shared.received).clone()
    }

    /// Waits until there were so many requests.
    pub async fn requests(&self, count: usize) -> Vec<Received> {
        let mut counts = self.shared.counts.subscribe();
        counts.wait_for(|counts| counts.requests >= count).await.expect("the server lives as long as this");
        self.received()
    }

    /// Waits until so many clients have hung up in the middle of an answer ([`Step::Hang`]).
    pub async fn hung_up(&self, count: usize) {
        let mut counts = self.shared.counts.subscribe();
        counts.wait_for(|counts| counts.hung_up >= count).await.expect("the server lives as long as this");
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn answer(&self, path: &str) -> Answer {
        let path = path.split('?').next().unwrap_or_default();
        let routed = lock(&self.routes).iter().find(|(end, _)| path.ends_with(end)).map(|(_, answer)| answer.clone());
        let scripted = || lock(&self.script).pop_front();
        routed.or_else(scripted).unwrap_or_else(|| Answer::error(404, "unscripted", "the script has no more answers"))
    }
}

async fn serve(mut socket: TcpStream, shared: &Shared) -> std::io::Result<()> {
    socket.set_nodelay(true)?;
    let mut buffer = Vec::new();
    while let Some(request) = read_request(&mut socket, &mut buffer).await? {
        let answer = shared.answer(&request.path);
        lock(&shared.received).push(request);
        shared.counts.send_modify(|counts| counts.requests += 1);
        let mut head = format!("HTTP/1.1 {} Scripted\r\ntransfer-encoding: chunked\r\n", answer.status);
        for (name, value) in &answer.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        socket.write_all(head.as_bytes()).await?;
        for step in answer.steps {
            match step {
                Step::Send(bytes) => send(&mut socket, &bytes).await?,
                Step::Drip(bytes) => {
                    for byte in bytes {
                        send(&mut socket, &[byte]).await?;
                        tokio::task::yield_now().await;
                    }
                }
                Step::Wait(gate) => gate.passed().await,
                Step::Cut => return Ok(()),
                Step::Hang => {
                    let mut rest = [0_u8; 1024];
                    while matches!(socket.read(&mut rest).await, Ok(read) if read > 0) {}
                    shared.counts.send_modify(|counts| counts.hung_up += 1);
                    return Ok(());
                }
            }
        }
        socket.write_all(b"0\r\n\r\n").await?;
    }
    Ok(())
}

async fn send(socket: &mut TcpStream, bytes: &[u8]) -> std::io::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
    chunk.extend_from_slice(bytes);
    chunk.extend_from_slice(b"\r\n");
    socket.write_all(&chunk).await
}

/// One request: its head, and as much body as `content-length` says.
async fn read_request(socket: &mut TcpStream, buffer: &mut Vec<u8>) -> std::io::Result<Option<Received>> {
    let end = loop {
        if let Some(at) = buffer.windows(4).position(|end| end == b"\r\n\r\n") {
            break at + 4;
        }
        if !more(socket, buffer).await? {
            return Ok(None);
        }
    };
    let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
    let mut lines = head.lines();
    let mut words = lines.next().unwrap_or_default().split(' ').map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let header = |line: &str| line.split_once(':').map(|(k, v)| (k.to_lowercase(), v.trim().to_owned()));
    let headers: Vec<_> = lines.filter_map(header).collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length: usize = length.and_then(|(_, value)| value.parse().ok()).unwrap_or(0);
    while buffer.len() < end + length {
        if !more(socket, buffer).await? {
            return Ok(None);
        }
    }
    let body = buffer[end..end + length].to_vec();
    buffer.drain(..end + length);
    Ok(Some(Received { method, path, headers, body }))
}

async fn more(socket: &mut TcpStream, buffer: &mut Vec<u8>) -> std::io::Result<bool> {
    let mut chunk = [0_u8; 8192];
    let read = socket.read(&mut chunk).await?;
    buffer.extend_from_slice(&chunk[..read]);
    Ok(read > 0)
}
