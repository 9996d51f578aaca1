//! `convoke mcp`: a bridge for clients that only speak MCP over standard input and output. One JSON message a line goes
//! to the hub's `/mcp` as it is, and every message of the hub's comes back as a line: answers, notifications, and
//! questions of the hub's own. The bridge adds the token and keeps the session; it decides nothing.

mod hub;

use std::collections::HashMap;
use std::io::{BufRead, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};

use self::hub::Hub;
use super::Verb;
use crate::connect;
use crate::exit::Exit;

/// Requests under way; one more waits, and holds up nothing else: what comes after it may be what lets another end.
const AT_ONCE: usize = 64;
/// Requests under way or waiting; one more is refused.
const MAX_REQUESTS: usize = 1024;
/// Messages that wait for a client that reads slowly; past it, the hub's streams wait.
const MAX_WAITING: usize = 256;
/// Longest line a client may send.
const MAX_LINE: usize = 16 * 1024 * 1024;
/// How long answers may take once the client has closed its end.
const FAREWELL: Duration = Duration::from_secs(5);

pub(crate) async fn run(verb: Verb<'_>) -> Result<Exit> {
    let (base, token) = connect::hub(verb.global)?;
    let (out, from_hub) = mpsc::channel(MAX_WAITING);
    let hub = Arc::new(Hub::new(&base, token, out)?);
    let (to_bridge, lines) = mpsc::channel(1);
    // Threads of their own: a read of standard input cannot be called back, and must not hold up the end.
    std::thread::spawn(move || read(std::io::stdin().lock(), &to_bridge));
    let (wrote, written) = oneshot::channel();
    std::thread::spawn(move || {
        write(from_hub);
        let _ = wrote.send(());
    });
    let closed = hub.closed();
    let mut bridge =
        Bridge { hub, running: Arc::default(), tasks: JoinSet::new(), places: Arc::new(Semaphore::new(AT_ONCE)) };
    let read = tokio::select! {
        read = bridge.take_all(lines) => read,
        // Nobody hears us any more.
        () = closed => Ok(()),
    };
    let _ = tokio::time::timeout(FAREWELL, async { while bridge.tasks.join_next().await.is_some() {} }).await;
    bridge.tasks.shutdown().await;
    bridge.hub.end().await;
    drop(bridge);
    let _ = tokio::time::timeout(FAREWELL, written).await;
    read.map(|()| Exit::Done)
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
    /// The hub knows of it.
    sent: Arc<AtomicBool>,
}

struct Bridge {
    hub: Arc<Hub>,
    running: Arc<Mutex<HashMap<String, Request>>>,
    tasks: JoinSet<()>,
    places: Arc<Semaphore>,
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
                let message = format!("a message may have {MAX_LINE} bytes");
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
        match (method, message.get("id")) {
            (Some("initialize"), Some(id)) => {
                // Everything after it needs what it brings.
                if let Err(trouble) = self.hub.initialize(&message).await {
                    self.hub.say(failure(id, trouble.code(), &trouble.to_string())).await;
                }
            }
            (Some(method), Some(id)) => {
                if self.tasks.len() >= MAX_REQUESTS {
                    let why = format!("{MAX_REQUESTS} requests have no answer yet; wait for one");
                    self.hub.say(failure(id, -32000, &why)).await;
                    return;
                }
                let (id, at_once) = (id.clone(), method == "ping");
                self.start(id, at_once, message);
            }
            (Some("notifications/cancelled"), None) => {
                let was_ours = self.give_up(&message["params"]["requestId"].to_string());
                if !was_ours && self.hub.has_session() {
                    self.notify(&message).await;
                }
            }
            // Notifications and answers go in order, and nobody waits for what becomes of them.
            _ => self.notify(&message).await,
        }
    }

    async fn notify(&self, message: &Value) {
        if let Err(trouble) = self.hub.notify(message).await {
            eprintln!("convoke mcp: {trouble}");
        }
    }

    /// Gives up a request that the hub need not hear of: without a session, going away is how one is cancelled, and what
    /// was not sent need not be.
    fn give_up(&self, id: &str) -> bool {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let is_ours = |request: &Request| !self.hub.has_session() || !request.sent.load(Ordering::Acquire);
        if !running.get(id).is_some_and(is_ours) {
            return false;
        }
        if let Some(request) = running.remove(id) {
            request.task.abort();
        }
        true
    }

    /// Sends a request when there is a place for it.
    fn start(&mut self, id: Value, at_once: bool, message: Value) {
        let key = id.to_string();
        let (hub, running, places) = (Arc::clone(&self.hub), Arc::clone(&self.running), Arc::clone(&self.places));
        let sent = Arc::new(AtomicBool::new(false));
        let (done, sending) = (key.clone(), Arc::clone(&sent));
        // Held until it is in there: a task that has ended takes itself out.
        let mut list = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let task = self.tasks.spawn(async move {
            // Never closed, so there is always a place sooner or later.
            let _place = if at_once { None } else { places.acquire_owned().await.ok() };
            sending.store(true, Ordering::Release);
            if let Err(trouble) = hub.request(&message).await {
                hub.say(failure(&id, trouble.code(), &trouble.to_string())).await;
            }
            running.lock().unwrap_or_else(PoisonError::into_inner).remove(&done);
        });
        list.insert(key, Request { task, sent });
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
