//! Callers that keep a hub busy: each sends a call, waits for its answer, and sends the next, over its own keep-alive
//! connection, to the agents in turn.

mod latency;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::header::HeaderValue;
use hyper::{Method, StatusCode};
use serde::Deserialize;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::http::{self, Client, HttpError};

pub use latency::Latency;

/// What is called, how often and for how long.
#[derive(Clone, Debug)]
pub struct LoadConfig {
    /// The hub, or the forwarder.
    pub target: SocketAddr,
    /// The operator's token, where one is needed.
    pub token: Option<String>,
    /// The agents that are called in turn.
    pub agents: Arc<[String]>,
    /// Callers at once.
    pub callers: usize,
    /// Ends after so many calls,
    pub calls: u64,
    /// or after so long, whichever comes first; calls under way are waited for.
    pub time: Duration,
    /// How long a caller waits for one answer.
    pub timeout: Duration,
    /// What is asked.
    pub body: Bytes,
    /// Through which door.
    pub way: Way,
}

/// The door that calls come through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The HTTP API.
    Http,
    /// Sonde's own: a ping of another host each time, so that no answer serves twice. Agents by name.
    Probe,
    /// MCP, the revision without sessions: the same tool, whatever the body says.
    Mcp,
    /// The same, with the wish to hear of its progress.
    McpWithProgress,
    /// MCP with a session of each caller's own, in the revision before, and the wish to hear of progress: as the
    /// assistants in the field call.
    McpSession,
}

/// What a client of MCP says with each call.
const MCP_HEADERS: &[(&str, &str)] = &[
    ("accept", "application/json, text/event-stream"),
    ("mcp-protocol-version", "2026-07-28"),
    ("mcp-method", "tools/call"),
    ("mcp-name", "fs_list"),
];

/// How a caller opens its session, and how it says that it has.
const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":"open","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const SESSION_HEADERS: &[(&str, &str)] =
    &[("accept", "application/json, text/event-stream"), ("mcp-protocol-version", "2025-11-25")];

fn session_call(turn: usize, agent: &str) -> Bytes {
    Bytes::from(format!(
        r#"{{"jsonrpc":"2.0","id":{turn},"method":"tools/call","params":{{"name":"fs_list","arguments":{{"path":"/","agent":"{agent}"}},"_meta":{{"progressToken":{turn}}}}}}}"#
    ))
}

fn mcp_call(turn: usize, agent: &str, progress: bool) -> Bytes {
    let progress = if progress { r#""progressToken":1,"# } else { "" };
    let meta = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"}"#;
    Bytes::from(format!(
        r#"{{"jsonrpc":"2.0","id":{turn},"method":"tools/call","params":{{"name":"fs_list","arguments":{{"path":"/","agent":"{agent}"}},"_meta":{{{progress}{meta}}}}}}}"#
    ))
}

fn probe(turn: usize, agent: &str) -> Bytes {
    Bytes::from(format!(
        r#"{{"agent":"{agent}","probe":"system.network.ping","params":{{"host":"host-{turn}","count":1}}}}"#
    ))
}

impl LoadConfig {
    /// One caller that lists a directory of `agents` in turn, for three seconds.
    pub fn new(target: SocketAddr, agents: Arc<[String]>) -> Self {
        Self {
            target,
            token: None,
            agents,
            callers: 1,
            calls: u64::MAX,
            time: Duration::from_secs(3),
            timeout: Duration::from_secs(30),
            body: Bytes::from_static(br#"{"tool":"fs_list","args":{"path":"/"}}"#),
            way: Way::Http,
        }
    }
}

/// The result.
#[derive(Clone, Debug, Default)]
pub struct LoadReport {
    /// Calls that were answered with `ok`.
    pub answered: u64,
    /// Calls that were answered with an error of the agent, or of the hub about it.
    pub failed: u64,
    /// Calls that were answered with another status than 200.
    pub refused: u64,
    /// Calls that were not answered in time.
    pub timed_out: u64,
    /// Calls whose connection broke.
    pub broken: u64,
    /// From the first call to the last answer.
    pub elapsed: Duration,
    /// How long the answered ones took.
    pub latency: Latency,
}

impl LoadReport {
    /// Calls that were not answered with `ok`.
    pub const fn errors(&self) -> u64 {
        self.failed + self.refused + self.timed_out + self.broken
    }

    /// Answered calls per second.
    pub fn rate(&self) -> f64 {
        self.answered as f64 / self.elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// Several that ran at the same time, as one.
    pub fn all(reports: &[Self]) -> Self {
        let mut all = Self::default();
        for report in reports {
            all.merge(report);
            all.elapsed = all.elapsed.max(report.elapsed);
        }
        all
    }

    fn merge(&mut self, other: &Self) {
        self.answered += other.answered;
        self.failed += other.failed;
        self.refused += other.refused;
        self.timed_out += other.timed_out;
        self.broken += other.broken;
        self.latency.merge(&other.latency);
    }
}

/// Why there was no load.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The token cannot be sent.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// Its thread could not be started, or broke.
    #[error("the callers' thread failed: {0}")]
    Thread(#[from] io::Error),
}

/// Runs the callers on a thread of their own, so that they are the same callers whatever runtime asks for them. When
/// this is cancelled, the thread goes on until the load's time is up.
pub async fn run_on_own_thread(config: LoadConfig) -> Result<LoadReport, LoadError> {
    let (done, report) = oneshot::channel();
    std::thread::Builder::new().name("callers".into()).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let outcome = runtime.map_err(LoadError::from).and_then(|runtime| runtime.block_on(run(&config)));
        // Who asked may have stopped waiting.
        let _ = done.send(outcome);
    })?;
    report.await.unwrap_or_else(|_| Err(io::Error::other("it ended without a report").into()))
}

/// Runs the callers to their end.
pub async fn run(config: &LoadConfig) -> Result<LoadReport, LoadError> {
    let bearer = config.token.as_deref().map(http::bearer).transpose()?;
    let turn = Arc::new(AtomicU64::new(0));
    let began = Instant::now();
    let mut callers = JoinSet::new();
    for _ in 0..config.callers {
        let caller = Caller {
            client: Client::new(config.target),
            bearer: bearer.clone(),
            config: config.clone(),
            until: began + config.time,
            turn: Arc::clone(&turn),
            report: LoadReport::default(),
        };
        callers.spawn(caller.run());
    }
    let mut report = LoadReport::default();
    while let Some(caller) = callers.join_next().await {
        // A caller neither panics nor is it cancelled while we hold the set.
        if let Ok(part) = caller {
            report.merge(&part);
        }
    }
    report.elapsed = began.elapsed();
    Ok(report)
}

struct Caller {
    client: Client,
    bearer: Option<HeaderValue>,
    config: LoadConfig,
    until: Instant,
    turn: Arc<AtomicU64>,
    report: LoadReport,
}

impl Caller {
    async fn run(mut self) -> LoadReport {
        if self.config.way == Way::McpSession {
            self.open_session().await;
        }
        while Instant::now() < self.until {
            let turn = self.turn.fetch_add(1, Ordering::Relaxed);
            if turn >= self.config.calls || self.config.agents.is_empty() {
                break;
            }
            self.call(turn as usize).await;
        }
        self.report
    }

    /// A session that cannot be opened shows in the calls, which are refused then.
    async fn open_session(&mut self) {
        let bearer = self.bearer.as_ref();
        for message in [INITIALIZE, INITIALIZED] {
            let said = self.client.send_with(Method::POST, "/mcp", bearer, SESSION_HEADERS, message.into());
            if !matches!(tokio::time::timeout(self.config.timeout, said).await, Ok(Ok(_))) {
                return;
            }
        }
    }

    async fn call(&mut self, turn: usize) {
        let agent = &self.config.agents[turn % self.config.agents.len()];
        let (path, headers, body) = match self.config.way {
            Way::Http => (format!("/api/agents/{agent}/call"), [].as_slice(), self.config.body.clone()),
            Way::Mcp => ("/mcp".to_owned(), MCP_HEADERS, mcp_call(turn, agent, false)),
            Way::McpWithProgress => ("/mcp".to_owned(), MCP_HEADERS, mcp_call(turn, agent, true)),
            Way::McpSession => ("/mcp".to_owned(), SESSION_HEADERS, session_call(turn, agent)),
            Way::Probe => ("/api/v1/probe".to_owned(), [].as_slice(), probe(turn, agent)),
        };
        let began = Instant::now();
        let call = self.client.send_with(Method::POST, &path, self.bearer.as_ref(), headers, body);
        match tokio::time::timeout(self.config.timeout, call).await {
            Ok(Ok((StatusCode::OK, answer))) if is_ok(self.config.way, &answer) => {
                self.report.answered += 1;
                self.report.latency.record(began.elapsed());
            }
            Ok(Ok((StatusCode::OK, _))) => self.report.failed += 1,
            Ok(Ok(_)) => self.report.refused += 1,
            Ok(Err(_)) => {
                self.report.broken += 1;
                // A server that is gone would otherwise be knocked at as fast as the machine can.
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Err(_) => self.report.timed_out += 1,
        }
    }
}

fn is_ok(way: Way, answer: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Outcome {
        ok: bool,
    }
    #[derive(Deserialize)]
    struct Probed<'a> {
        status: &'a str,
    }
    #[derive(Deserialize)]
    struct Answer {
        result: ToolResult,
    }
    #[derive(Deserialize)]
    struct ToolResult {
        #[serde(rename = "isError")]
        is_error: bool,
    }
    match way {
        Way::Http => serde_json::from_slice::<Outcome>(answer).is_ok_and(|outcome| outcome.ok),
        Way::Probe => serde_json::from_slice::<Probed<'_>>(answer).is_ok_and(|probed| probed.status == "success"),
        Way::Mcp | Way::McpWithProgress | Way::McpSession => {
            // As it is, or as the last event of a stream.
            let text = str::from_utf8(answer).unwrap_or_default();
            let message = text.lines().rev().find_map(|line| line.strip_prefix("data:")).unwrap_or(text);
            serde_json::from_str::<Answer>(message).is_ok_and(|answer| !answer.result.is_error)
        }
    }
}
