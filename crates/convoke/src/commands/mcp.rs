//! `convoke mcp`: a bridge for clients that only speak MCP over standard input and output. One JSON message a line goes
//! to the hub's `/mcp` as it is, and every message of the hub's comes back as a line: answers, notifications, and
//! questions of the hub's own. The bridge adds the token and keeps the session; it decides nothing.

mod hub;
mod install;
mod questions;

use std::collections::HashMap;
use std::io::{BufRead, Write as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use self::hub::Hub;
use super::Verb;
use crate::connect::{self, HubLocation};
use crate::exit::Exit;

/// Requests under way; one more waits, and holds up nothing else: what comes after it may be what lets another end.
const AT_ONCE: usize = 64;
/// Requests under way or waiting; one more is refused.
const MAX_REQUESTS: usize = 1024;
/// Messages of all kinds under way or waiting: whoever has no room for another request can still cancel one, and answer
/// what the hub asks.
const MAX_MESSAGES: usize = 2 * MAX_REQUESTS;
/// Messages that wait for a client that reads slowly; past it, the hub's streams wait.
const MAX_WAITING: usize = 256;
/// Longest line a client may send.
const MAX_LINE: usize = 16 * 1024 * 1024;
/// How long answers may take once the client has closed its end.
const FAREWELL: Duration = Duration::from_secs(5);

/// `convoke mcp`, with or without a verb of its own.
#[derive(Debug, Args)]
pub(crate) struct McpArgs {
    #[command(subcommand)]
    command: Option<McpCommand>,
}

#[derive(Debug, Subcommand)]
enum McpCommand {
    /// Write an assistant's configuration, with a token for it, after showing it
    Install(install::InstallArgs),
}

pub(crate) async fn run(verb: Verb<'_>, args: McpArgs) -> Result<Exit> {
    match args.command {
        Some(McpCommand::Install(args)) => install::run(verb, args).await,
        None => bridge(verb).await,
    }
}

async fn bridge(verb: Verb<'_>) -> Result<Exit> {
    let (base, token) = connect::hub(verb.global)?;
    let (out, from_hub) = mpsc::channel(MAX_WAITING);
    let hub = Arc::new(Hub::new(&base, HubLocation::of(verb.global)?, token, out)?);
    let (to_bridge, lines) = mpsc::channel(1);
    // Threads of their own: a read of standard input cannot be called back, and must not hold up the end.
    std::thread::spawn(move || read(std::io::stdin().lock(), &to_bridge));
    let (wrote, written) = oneshot::channel();
    std::thread::spawn(move || {
        write(from_hub);
        let _ = wrote.send(());
    });
    let read = serve(hub, lines, FAREWELL).await;
    let _ = tokio::time::timeout(FAREWELL, written).await;
    read.map(|()| Exit::Done)
}

/// Carries messages to and fro until the client closes its end, or no longer reads. Answers may take `farewell` more.
async fn serve(hub: Arc<Hub>, lines: mpsc::Receiver<std::io::Result<Vec<u8>>>, farewell: Duration) -> Result<()> {
    let closed = hub.closed();
    let through = CancellationToken::new();
    through.cancel();
    let permits = Arc::new(Semaphore::new(AT_ONCE));
    let mut bridge = Bridge { hub, running: Arc::default(), tasks: JoinSet::new(), permits, through };
    let read = tokio::select! {
        read = bridge.take_all(lines) => read,
        // Nobody hears us any more.
        () = closed => Ok(()),
    };
    let _ = tokio::time::timeout(farewell, async { while bridge.tasks.join_next().await.is_some() {} }).await;
    bridge.tasks.shutdown().await;
    bridge.hub.end().await;
    read
}

/// Writes what the hub says, a line each.
fn write(mut messages: mpsc::Receiver<String>) {
    let mut stdout = std::io::stdout().lock();
    while let Some(mut line) = messages.blocking_recv() {
        line.push('\n');
        if stdout.write_all(line.as_bytes()).is_err() || stdout.flush().is_err() {
            return;
        }
    }
}

/// Reads lines until the client closes its end.
fn read(mut stdin: impl BufRead, lines: &mpsc::Sender<std::io::Result<Vec<u8>>>) {
    loop {
        let mut line = Vec::new();
        let read = read_line(&mut stdin, &mut line);
        let end = !matches!(read, Ok(1..));
        if matches!(read, Ok(0)) || lines.blocking_send(read.map(|_| line)).is_err() || end {
            return;
        }
    }
}

/// A request of the client's that has no answer yet.
struct Request {
    task: AbortHandle,
    stand: Arc<Stand>,
}

/// How a request stands. One lock, so that none slips past its cancel: one that is cancelled before it is sent is not sent,
/// and of any other the hub hears once it knows the request.
#[derive(Default)]
struct Stand(Mutex<Standing>);

#[derive(Default)]
struct Standing {
    progress: Progress,
    /// The client wants no answer any more.
    cancelled: bool,
    /// A message about it that waits until the hub has the request.
    to_tell: Option<Value>,
}

/// How far a request is.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Progress {
    /// Nothing of it was sent.
    #[default]
    Waiting,
    /// It is on its way.
    Asked,
    /// The hub has it, or never will.
    Taken,
}

impl Stand {
    fn lock(&self) -> MutexGuard<'_, Standing> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It is sent now. Whether it may be.
    fn ask(&self) -> bool {
        let mut standing = self.lock();
        standing.progress = Progress::Asked;
        !standing.cancelled
    }

    /// The hub has it. What must be told of it by now.
    fn taken(&self) -> Option<Value> {
        let mut standing = self.lock();
        standing.progress = Progress::Taken;
        standing.to_tell.take()
    }

    /// The client cancels it with this message. How far it was.
    fn cancel(&self, message: &Value) -> Progress {
        let mut standing = self.lock();
        standing.cancelled = true;
        if standing.progress == Progress::Asked {
            standing.to_tell = Some(message.clone());
        }
        standing.progress
    }

    fn is_cancelled(&self) -> bool {
        self.lock().cancelled
    }
}

struct Bridge {
    hub: Arc<Hub>,
    running: Arc<Mutex<HashMap<String, Request>>>,
    tasks: JoinSet<()>,
    permits: Arc<Semaphore>,
    /// Cancelled once the last of the messages that go in order is through. What comes after it waits for that, and the
    /// reading goes on: a hub that says nothing must not keep the bridge from seeing that its client is gone.
    through: CancellationToken,
}

impl Bridge {
    /// Takes lines until the client closes its end.
    async fn take_all(&mut self, mut lines: mpsc::Receiver<std::io::Result<Vec<u8>>>) -> Result<()> {
        while let Some(line) = lines.recv().await {
            let line = line.context("cannot read standard input")?;
            while self.tasks.try_join_next().is_some() {}
            if line.trim_ascii().is_empty() {
                continue;
            }
            if line.len() > MAX_LINE {
                let message = format!("a message may have at most {MAX_LINE} bytes");
                self.hub.say(failure(&Value::Null, -32600, &message)).await;
                continue;
            }
            match serde_json::from_slice::<Value>(&line) {
                Ok(message) => self.take(message).await,
                Err(why) => self.hub.say(failure(&Value::Null, -32700, &format!("not JSON: {why}"))).await,
            }
        }
        Ok(())
    }

    async fn take(&mut self, message: Value) {
        let method = message["method"].as_str();
        let id = message.get("id").filter(|_| method.is_some()).cloned();
        // Before the limits: it makes room.
        if method == Some("notifications/cancelled") && id.is_none() && !self.cancel(&message) {
            return;
        }
        if self.tasks.len() >= MAX_MESSAGES || (id.is_some() && self.running().len() >= MAX_REQUESTS) {
            let why = format!("{MAX_REQUESTS} requests have no answer yet; wait for one");
            match id {
                Some(id) => self.hub.say(failure(&id, -32000, &why)).await,
                None => eprintln!("convoke mcp: dropped a message: {why}"),
            }
            return;
        }
        match (method, id) {
            // Everything after it needs what it brings.
            (Some("initialize"), Some(id)) => {
                let hub = Arc::clone(&self.hub);
                self.in_order(async move {
                    if let Err(trouble) = hub.initialize(&message).await {
                        hub.say(failure(&id, trouble.code(), &trouble.to_string())).await;
                    }
                });
            }
            (Some(method), Some(id)) => {
                let at_once = method == "ping";
                self.start(id, at_once, message);
            }
            // Notifications and answers go in order, and nobody waits for what becomes of them.
            _ => self.notify(message),
        }
    }

    fn running(&self) -> MutexGuard<'_, HashMap<String, Request>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notify(&mut self, message: Value) {
        let hub = Arc::clone(&self.hub);
        self.in_order(async move {
            if let Err(trouble) = hub.notify(&message).await {
                eprintln!("convoke mcp: {trouble}");
            }
        });
    }

    /// Does it once what went before is through, and before what comes after.
    fn in_order(&mut self, work: impl Future<Output = ()> + Send + 'static) {
        let through = CancellationToken::new();
        let before = std::mem::replace(&mut self.through, through.clone());
        self.tasks.spawn(async move {
            let _through = through.drop_guard();
            before.cancelled().await;
            work.await;
        });
    }

    /// Sees to it that a request gets no answer. Whether the hub must hear of it now: without a session, going away is how
    /// one is cancelled; what was not sent need not be; and what is on its way could come after its cancel.
    fn cancel(&self, message: &Value) -> bool {
        let id = message["params"]["requestId"].to_string();
        let in_session = self.hub.has_session();
        let mut running = self.running();
        let Some(request) = running.get(&id) else { return in_session };
        match request.stand.cancel(message) {
            Progress::Taken if in_session => true,
            Progress::Asked if in_session => false,
            _ => {
                request.task.abort();
                running.remove(&id);
                false
            }
        }
    }

    /// Sends a request as soon as fewer than the limit are under way.
    fn start(&mut self, id: Value, at_once: bool, message: Value) {
        let key = id.to_string();
        let (hub, running, permits) = (Arc::clone(&self.hub), Arc::clone(&self.running), Arc::clone(&self.permits));
        let (stand, before) = (Arc::<Stand>::default(), self.through.clone());
        let (done, standing) = (key.clone(), Arc::clone(&stand));
        // Held until it is in there: a task that has ended takes itself out.
        let mut list = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let task = self.tasks.spawn(async move {
            before.cancelled().await;
            // The semaphore is never closed.
            let _permit = if at_once { None } else { permits.acquire_owned().await.ok() };
            if !standing.ask() {
                return;
            }
            let outcome = hub.request(&message, || !standing.is_cancelled(), || standing.taken()).await;
            if let Err(trouble) = outcome
                && !standing.is_cancelled()
            {
                hub.say(failure(&id, trouble.code(), &trouble.to_string())).await;
            }
            running.lock().unwrap_or_else(PoisonError::into_inner).remove(&done);
        });
        list.insert(key, Request { task, stand });
    }
}

/// Reads one line; what is over the limit is read and dropped, so that the next line is found.
fn read_line(stdin: &mut impl BufRead, line: &mut Vec<u8>) -> std::io::Result<usize> {
    let mut read = 0;
    loop {
        let chunk = stdin.fill_buf()?;
        if chunk.is_empty() {
            return Ok(read);
        }
        let end = chunk.iter().position(|b| *b == b'\n');
        let take = end.map_or(chunk.len(), |at| at + 1);
        if line.len() <= MAX_LINE {
            line.extend_from_slice(&chunk[..take]);
        }
        read += take;
        stdin.consume(take);
        if end.is_some() {
            return Ok(read);
        }
    }
}

/// An error as the client expects one.
fn failure(id: &Value, code: i64, message: &str) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } }).to_string()
}

#[cfg(test)]
mod tests {
    use convoke_core::secret::SecretText;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    /// A hub that takes every connection, reads what comes, and says nothing; it tells what it was sent.
    async fn silent() -> (String, mpsc::UnboundedReceiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let address = format!("http://{}", listener.local_addr().expect("bound"));
        let (told, heard) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                let told = told.clone();
                tokio::spawn(async move {
                    let mut bytes = [0; 4096];
                    while let Ok(read @ 1..) = socket.read(&mut bytes).await {
                        let _ = told.send(String::from_utf8_lossy(&bytes[..read]).into_owned());
                    }
                });
            }
        });
        (address, heard)
    }

    #[tokio::test]
    async fn a_hub_that_says_nothing_keeps_nobody() {
        let opening = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {} });
        let note = json!({ "jsonrpc": "2.0", "method": "notifications/roots/list_changed" });
        for first in [opening, note] {
            // Only a failure waits for it.
            tokio::time::timeout(Duration::from_secs(60), says_nothing_after(&first)).await.expect("it ends");
        }
    }

    /// Longer than any test.
    const NEVER: Duration = Duration::from_secs(3600);

    /// A client at a hub.
    struct Client {
        to_bridge: mpsc::Sender<std::io::Result<Vec<u8>>>,
        said: mpsc::Receiver<String>,
        bridge: tokio::task::JoinHandle<Result<()>>,
    }

    impl Client {
        fn of(address: &str) -> Self {
            Self::with(address, [NEVER; 5], NEVER)
        }

        fn with(address: &str, pauses: [Duration; 5], over_within: Duration) -> Self {
            let (out, said) = mpsc::channel(MAX_WAITING);
            let mut hub =
                Hub::new(address, HubLocation::named(address), SecretText::new("t"), out).expect("a client");
            (hub.pauses, hub.over_within, hub.resume_pauses) = (pauses, over_within, [Duration::ZERO; 6]);
            let (to_bridge, lines) = mpsc::channel(1);
            Self { to_bridge, said, bridge: tokio::spawn(serve(Arc::new(hub), lines, Duration::ZERO)) }
        }

        async fn say(&self, message: &Value) {
            self.to_bridge.send(Ok(message.to_string().into_bytes())).await.expect("reads");
        }

        /// Opens a session.
        async fn open(&mut self, messages: &mut mpsc::UnboundedReceiver<(Value, oneshot::Sender<String>)>) {
            self.say(&json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {} })).await;
            messages.recv().await.expect("asked").1.send(opened()).expect("waits");
            self.said.recv().await.expect("a session");
        }

        async fn ask(&self, id: usize) {
            self.say(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/list" })).await;
        }

        async fn note(&self, method: &str, params: Value) {
            self.say(&json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
        }

        /// Everything that went before has been taken, and nothing was said to it.
        async fn is_taken(&mut self) {
            self.to_bridge.send(Ok(b"{".to_vec())).await.expect("reads");
            let said = self.said.recv().await.expect("an answer");
            assert!(said.contains("-32700"), "{said}");
        }

        async fn end(self) {
            drop(self.to_bridge);
            self.bridge.await.expect("does not panic").expect("in order");
        }
    }

    async fn says_nothing_after(first: &Value) {
        let (address, mut heard) = silent().await;
        let mut client = Client::of(&address);
        client.say(first).await;
        heard.recv().await.expect("the hub is asked");
        // It goes on reading: more than the channel takes is taken.
        for id in 1..10 {
            client.ask(id).await;
            client.note("notifications/x", json!({})).await;
        }
        client.is_taken().await;
        client.end().await;
    }

    #[tokio::test]
    async fn who_has_no_room_can_make_some_and_says_the_rest() {
        let work = async {
            let (address, mut heard) = silent().await;
            let mut client = Client::of(&address);
            for id in 0..MAX_REQUESTS {
                client.ask(id).await;
            }
            client.is_taken().await;
            client.ask(MAX_REQUESTS).await;
            assert!(client.said.recv().await.is_some_and(|said| said.contains("-32000")), "one too many");
            client.note("notifications/cancelled", json!({ "requestId": MAX_REQUESTS - 1 })).await;
            client.ask(MAX_REQUESTS).await;
            client.note("notifications/x", json!({ "action": "accept" })).await;
            client.is_taken().await;
            while !heard.recv().await.expect("the hub hears it").contains("\"action\"") {}
            client.end().await;
        };
        // Only a failure waits for it.
        tokio::time::timeout(Duration::from_secs(60), work).await.expect("it ends");
    }

    /// A hub that answers as the test says, byte for byte.
    struct Scripted {
        address: String,
        /// Each message that it was sent.
        messages: mpsc::UnboundedReceiver<(Value, oneshot::Sender<String>)>,
        /// The head of each other request; where nobody listens, there is no such thing.
        others: mpsc::UnboundedReceiver<(String, oneshot::Sender<String>)>,
    }

    async fn scripted() -> Scripted {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let address = format!("http://{}", listener.local_addr().expect("bound"));
        let (message, messages) = mpsc::unbounded_channel();
        let (other, others) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(answer_all(socket, message.clone(), other.clone()));
            }
        });
        Scripted { address, messages, others }
    }

    async fn answer_all(
        mut socket: TcpStream,
        messages: mpsc::UnboundedSender<(Value, oneshot::Sender<String>)>,
        others: mpsc::UnboundedSender<(String, oneshot::Sender<String>)>,
    ) {
        let mut bytes = Vec::new();
        while let Ok(1..) = socket.read_buf(&mut bytes).await {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let (to, answer) = oneshot::channel();
            if head.starts_with("POST") {
                // A message is whole when it can be read.
                let Ok(message) = serde_json::from_str(body) else { continue };
                let _ = messages.send((message, to));
            } else {
                let _ = others.send((head.to_lowercase(), to));
            }
            let answer = answer.await.unwrap_or_else(|_| status(405));
            bytes.clear();
            let _ = socket.write_all(answer.as_bytes()).await;
            if answer == cut() {
                return;
            }
        }
    }

    fn status(status: u16) -> String {
        format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n")
    }

    /// A stream that says these, and ends.
    fn broken(events: &str) -> String {
        let length = events.len();
        format!("HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\ncontent-length: {length}\r\n\r\n{events}")
    }

    /// One whose connection breaks.
    fn cut() -> String {
        "HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\ncontent-length: 1\r\n\r\n".to_owned()
    }

    /// The answer that opens a session.
    fn opened() -> String {
        let body = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25"}}"#;
        let head = "HTTP/1.1 200 X\r\ncontent-type: application/json\r\nmcp-session-id: s";
        format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
    }

    #[tokio::test]
    async fn a_stream_that_broke_or_was_refused_for_a_while_is_taken_up_where_it_was() {
        let work = async {
            let Scripted { address, mut messages, mut others } = scripted().await;
            // Only who begins anew after each stream comes back at all.
            let mut client = Client::with(&address, [Duration::ZERO, Duration::ZERO, NEVER, NEVER, NEVER], NEVER);
            client.open(&mut messages).await;
            let mut next = async |answer: String| {
                let (head, say) = others.recv().await.expect("it listens");
                say.send(answer).expect("waits");
                head.lines().find_map(|line| line.strip_prefix("last-event-id: ").map(str::to_owned))
            };
            assert_eq!(next(status(429)).await, None);
            assert_eq!(next(broken("data:\nid: standing/4\n\n")).await, None);
            let news = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n";
            assert_eq!(
                next(broken(&format!("{news}id: standing/5\n\n{news}\n"))).await.as_deref(),
                Some("standing/4")
            );
            for _ in 0..2 {
                client.said.recv().await.expect("news");
            }
            assert_eq!(next(status(503)).await.as_deref(), Some("standing/5"));
            assert_eq!(next(status(405)).await.as_deref(), Some("standing/5"));
            client.is_taken().await;
            drop(others);
            client.end().await;
        };
        // Only a failure waits for it.
        tokio::time::timeout(Duration::from_secs(60), work).await.expect("it ends");
    }

    #[tokio::test]
    async fn an_answer_is_fetched_when_the_connection_broke_that_was_to_bring_it() {
        let work = async {
            let Scripted { address, mut messages, mut others } = scripted().await;
            let mut client = Client::of(&address);
            client.open(&mut messages).await;
            drop(others.recv().await.expect("it listens"));
            client.ask(1).await;
            messages.recv().await.expect("asked").1.send(broken("data:\nid: 0/7\n\n")).expect("waits");
            for (last, events) in [
                ("0/7", "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\nid: 1/7\n\n"),
                ("1/7", "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\nid: 2/7\n\n"),
            ] {
                let (head, say) = others.recv().await.expect("it comes back");
                let named = |line: &str| line == format!("last-event-id: {last}");
                assert!(head.starts_with("get") && head.lines().any(named), "{head}");
                say.send(broken(events)).expect("waits");
                client.said.recv().await.expect("what it brings");
            }
            client.ask(2).await;
            messages.recv().await.expect("asked").1.send(broken("data:\nid: 0/8\n\n")).expect("waits");
            others.recv().await.expect("it comes back").1.send(broken("")).expect("waits");
            let (head, say) = others.recv().await.expect("asks whether its token was revoked");
            assert!(head.starts_with("head /mcp"), "{head}");
            say.send(status(200)).expect("waits");
            let lost = client.said.recv().await.expect("an answer");
            assert!(lost.contains("lost the hub before it answered"), "{lost}");
            drop(others);
            client.end().await;
        };
        // Only a failure waits for it.
        tokio::time::timeout(Duration::from_secs(60), work).await.expect("it ends");
    }

    #[tokio::test]
    async fn a_call_that_is_silent_is_waited_for_over_any_number_of_cuts() {
        let work = async {
            let Scripted { address, mut messages, mut others } = scripted().await;
            let mut client = Client::with(&address, [NEVER; 5], Duration::ZERO);
            client.open(&mut messages).await;
            drop(others.recv().await.expect("it listens"));
            client.ask(1).await;
            messages.recv().await.expect("asked").1.send(broken("data:\nid: 0/7\n\n")).expect("waits");
            for events in ["", "", "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\nid: 1/7\n\n"] {
                let (head, say) = others.recv().await.expect("it comes back");
                assert!(head.lines().any(|line| line == "last-event-id: 0/7"), "{head}");
                say.send(broken(events)).expect("waits");
            }
            assert!(client.said.recv().await.is_some_and(|answer| answer.contains("result")));
            drop(others);
            client.end().await;
        };
        // Only a failure waits for it.
        tokio::time::timeout(Duration::from_secs(60), work).await.expect("it ends");
    }

    #[tokio::test]
    async fn what_broke_is_tried_again_until_it_is_clear_that_there_is_no_more() {
        let work = async {
            let Scripted { address, mut messages, mut others } = scripted().await;
            let mut client = Client::of(&address);
            client.open(&mut messages).await;
            drop(others.recv().await.expect("it listens"));
            client.ask(1).await;
            messages.recv().await.expect("asked").1.send(broken("data:\nid: 0/7\n\n")).expect("waits");
            let answer = broken("data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\nid: 1/7\n\n");
            for reply in [cut(), cut(), status(503), answer] {
                let (head, say) = others.recv().await.expect("it comes back");
                assert!(head.lines().any(|line| line == "last-event-id: 0/7"), "{head}");
                say.send(reply).expect("waits");
            }
            assert!(client.said.recv().await.is_some_and(|answer| answer.contains("result")));
            drop(others);
            client.end().await;
        };
        // Only a failure waits for it.
        tokio::time::timeout(Duration::from_secs(60), work).await.expect("it ends");
    }

    #[tokio::test]
    async fn one_that_breaks_at_once_every_time_is_given_up() {
        let work = async {
            let Scripted { address, mut messages, mut others } = scripted().await;
            let mut client = Client::of(&address);
            client.open(&mut messages).await;
            drop(others.recv().await.expect("it listens"));
            client.ask(1).await;
            messages.recv().await.expect("asked").1.send(broken("data:\nid: 0/7\n\n")).expect("waits");
            let mut tries = 0;
            loop {
                let (head, say) = others.recv().await.expect("it comes back");
                if head.starts_with("head /mcp") {
                    say.send(status(200)).expect("waits");
                    break;
                }
                tries += 1;
                say.send(cut()).expect("waits");
            }
            assert_eq!(tries, 6, "once for each pause");
            let lost = client.said.recv().await.expect("an answer");
            assert!(lost.contains("lost the hub before it answered"), "{lost}");
            drop(others);
            client.end().await;
        };
        // Only a failure waits for it.
        tokio::time::timeout(Duration::from_secs(60), work).await.expect("it ends");
    }

    #[tokio::test]
    async fn a_cancel_comes_after_what_it_cancels() {
        let work = async {
            let Scripted { address, mut messages, others } = scripted().await;
            drop(others);
            let mut client = Client::of(&address);
            let mut next = async || messages.recv().await.expect("the hub is asked");
            let accepted = || "HTTP/1.1 202 X\r\ncontent-length: 0\r\n\r\n".to_owned();
            let stream = "HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\n\r\n".to_owned();

            client.say(&json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {} })).await;
            next().await.1.send(opened()).expect("waits");
            client.said.recv().await.expect("a session");

            client.ask(1).await;
            let (request, take) = next().await;
            assert_eq!(request["id"], 1);
            client.note("notifications/cancelled", json!({ "requestId": 1 })).await;
            client.note("notifications/x", json!({})).await;
            let (note, done) = next().await;
            assert_eq!(
                note["method"], "notifications/x",
                "a hub that has not taken the request yet forgets its cancel"
            );
            done.send(accepted()).expect("waits");
            take.send(stream.clone()).expect("waits");
            let (cancel, done) = next().await;
            assert_eq!(cancel["params"]["requestId"], 1);
            done.send(accepted()).expect("waits");

            client.ask(2).await;
            let event = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\n";
            next().await.1.send(stream + event).expect("waits");
            client.said.recv().await.expect("the hub has it");
            client.note("notifications/cancelled", json!({ "requestId": 2 })).await;
            let (cancel, done) = next().await;
            assert_eq!(cancel["params"]["requestId"], 2, "at once");
            done.send(accepted()).expect("waits");
            client.end().await;
        };
        // Only a failure waits for it.
        tokio::time::timeout(Duration::from_secs(60), work).await.expect("it ends");
    }

    #[test]
    fn nothing_is_sent_once_it_is_cancelled() {
        let stand = Stand::default();
        assert!(stand.cancel(&json!({})) == Progress::Waiting && !stand.ask());
        let stand = Stand::default();
        assert!(stand.ask() && stand.cancel(&json!(1)) == Progress::Asked && stand.is_cancelled());
        assert_eq!((stand.taken(), stand.taken()), (Some(json!(1)), None));
        assert!(stand.cancel(&json!(2)) == Progress::Taken && stand.taken().is_none());
    }
}
