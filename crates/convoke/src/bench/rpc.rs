//! `convoke rpc` as a process beside the raw limits of its pipes: requests, deltas, start-up, many sessions, memory.
//!
//! The other end of each comparison is in the same run: a process that answers every frame with an empty result over the
//! same kind of pipes, and a reader of the provider's stream with nothing in between.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use convoke_kward::frame::{self, Decoder};
use convoke_sim::usage::Usage;
use serde_json::{Value, json};

use super::plan::Plan;
use super::table::{Goal, Row};

/// Sessions in a full folder.
const SESSIONS: usize = 1000;
/// Messages in a long one.
const MESSAGES: usize = 10_000;
/// Between two deltas of the provider; enough for each to travel alone.
const BETWEEN_DELTAS: Duration = Duration::from_micros(1500);

/// Measures all five.
pub(super) fn measure(plan: &Plan) -> Result<Vec<Row>> {
    let dir = match &plan.scratch {
        Some(scratch) => tempfile::tempdir_in(scratch),
        None => tempfile::tempdir(),
    };
    let bench = RpcBench { plan, program: std::env::current_exe()?, dir: dir.context("no room for the bench")? };
    for name in ["home/.kward", "work"] {
        std::fs::create_dir_all(bench.dir.path().join(name))?;
    }
    Ok(vec![bench.requests()?, bench.deltas()?, bench.start()?, bench.list()?, bench.open()?, bench.memory()?])
}

struct RpcBench<'a> {
    plan: &'a Plan,
    program: PathBuf,
    dir: tempfile::TempDir,
}

impl RpcBench<'_> {
    fn backend(&self, provider: Option<&str>) -> Result<Pipe> {
        let mut command = Command::new(&self.program);
        command.arg("rpc").env_clear().env("HOME", self.dir.path().join("home")).current_dir(self.dir.path());
        if let Some(url) = provider {
            command.env("KWARD_PROVIDER", "Local").env("LOCAL_BASE_URL", url).env("LOCAL_MODEL", "bench");
        }
        Pipe::start(&mut command)
    }

    fn work(&self) -> Result<PathBuf> {
        Ok(std::fs::canonicalize(self.dir.path().join("work"))?)
    }

    fn row(&self, measure: &str, unit: &'static str, own: f64, raw: Option<f64>, goal: Goal, note: String) -> Row {
        Row { measure: measure.into(), unit, hub: own, forwarder: raw, goal, original: None, note }
    }

    fn requests(&self) -> Result<Row> {
        let mut backend = self.backend(None)?;
        let session = backend.call("sessions/create", json!({ "workspaceRoot": self.work()? }))?;
        let params = json!({ "sessionId": session["id"] });
        let own = backend.rate("runtime/state", &params, self.plan.load)?;
        let mut echo = Pipe::start(Command::new(&self.program).args(["sim", "echo"]))?;
        let raw = echo.rate("runtime/state", &params, self.plan.load)?;
        let note = "one after another; compared with an echo over the same pipes".into();
        Ok(self.row("runtime/state requests", "/s", own, Some(raw), Goal::NONE, note))
    }

    fn deltas(&self) -> Result<Row> {
        let count = if self.plan.quick { 200 } else { 3000 };
        let (url, sent) = provider(count)?;
        let bare = read_stream(&url, &sent)?;
        let mut backend = self.backend(Some(&url))?;
        let session = backend.call("sessions/create", json!({ "workspaceRoot": self.work()? }))?;
        backend.call("turns/start", json!({ "sessionId": session["id"], "input": "go" }))?;
        let mut took = Vec::with_capacity(count);
        loop {
            let frame = backend.next()?;
            let came = Instant::now();
            match frame["params"]["type"].as_str() {
                Some("assistantDelta") => took.push(came.duration_since(sent.recv()?)),
                Some("turnFinished") => break,
                _ => {}
            }
        }
        if took.len() != count {
            bail!("only {} of {count} deltas arrived", took.len());
        }
        let (own, raw) = (p99(took.clone()), p99(bare.clone()));
        let note = format!(
            "p99 {own:.3} ms through the backend, {raw:.3} ms without it; medians {:.3} and {:.3}",
            median(took),
            median(bare)
        );
        Ok(self.row(
            "added latency per streamed delta, p99",
            "ms",
            (own - raw).max(0.0),
            None,
            Goal::at_most(0.2),
            note,
        ))
    }

    fn start(&self) -> Result<Row> {
        let runs = if self.plan.quick { 5 } else { 40 };
        let took: Vec<Duration> = (0..runs)
            .map(|_| {
                let began = Instant::now();
                self.backend(None)?.call("initialize", json!({}))?;
                Ok(began.elapsed())
            })
            .collect::<Result<_>>()?;
        let note = format!("median of {runs}; compared with the start of `convoke sim echo`");
        let raw: Vec<Duration> = (0..runs)
            .map(|_| {
                let began = Instant::now();
                Pipe::start(Command::new(&self.program).args(["sim", "echo"]))?.call("initialize", json!({}))?;
                Ok(began.elapsed())
            })
            .collect::<Result<_>>()?;
        Ok(self.row(
            "start-up to initialize answered",
            "ms",
            median(took),
            Some(median(raw)),
            Goal::at_most(30.0),
            note,
        ))
    }

    fn list(&self) -> Result<Row> {
        let dir = self.sessions()?;
        for number in 0..SESSIONS {
            write_session(&dir.join(format!("2026-01-01T00-00-00.{number:04}Z_{number}.jsonl")), &self.work()?, 6)?;
        }
        let params = json!({ "workspaceRoot": self.work()?, "limit": SESSIONS });
        let look = || -> Result<Duration> {
            let mut backend = self.backend(None)?;
            backend.call("initialize", json!({}))?;
            let began = Instant::now();
            let listed = backend.call("sessions/list", params.clone())?;
            if listed["sessions"].as_array().map(Vec::len) != Some(SESSIONS) {
                bail!("not all sessions were listed");
            }
            Ok(began.elapsed())
        };
        let first = millis(look()?);
        let later = median((0..5).map(|_| look()).collect::<Result<_>>()?);
        let raw = {
            let began = Instant::now();
            for entry in std::fs::read_dir(&dir)? {
                entry?.metadata()?;
            }
            millis(began.elapsed())
        };
        let note = format!(
            "each in a new process; the first took {first:.1} ms; compared with reading the files' metadata alone"
        );
        Ok(self.row("listing 1,000 sessions", "ms", later, Some(raw), Goal::at_most(100.0), note))
    }

    fn open(&self) -> Result<Row> {
        let path = self.sessions()?.join("2026-02-01T00-00-00.000Z_long.jsonl");
        write_session(&path, &self.work()?, MESSAGES)?;
        let mut backend = self.backend(None)?;
        backend.call("initialize", json!({}))?;
        let took: Vec<Duration> = (0..5)
            .map(|_| {
                let began = Instant::now();
                let session = backend.call("sessions/resume", json!({ "path": path }))?;
                let took = began.elapsed();
                backend.call("sessions/close", json!({ "sessionId": session["id"] }))?;
                Ok(took)
            })
            .collect::<Result<_>>()?;
        let began = Instant::now();
        let bytes = std::fs::read(&path)?.len();
        let raw = millis(began.elapsed());
        let note = format!("{} KiB; compared with reading the bytes", bytes / 1024);
        Ok(self.row(
            "opening a session of 10,000 messages",
            "ms",
            median(took),
            Some(raw),
            Goal::at_most(100.0),
            note,
        ))
    }

    fn memory(&self) -> Result<Row> {
        let mut backend = self.backend(None)?;
        backend.call("initialize", json!({}))?;
        backend.call("sessions/create", json!({ "workspaceRoot": self.work()? }))?;
        std::thread::sleep(self.plan.settle);
        let status = std::fs::read_to_string(format!("/proc/{}/status", backend.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib: f64 = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).context("no VmRSS")?;
        let own = Usage::of(backend.child.id())?.user_memory as f64 / 1e6;
        let note = format!("resident; {own:.1} MB of it heap and stacks, the rest the program's file");
        Ok(self.row("memory of an idle backend", "MB", kib * 1024.0 / 1e6, None, Goal::at_most(20.0), note))
    }

    /// Where the backend keeps the workspace's sessions.
    fn sessions(&self) -> Result<PathBuf> {
        let work = self.work()?.to_string_lossy().trim_start_matches('/').replace('/', "-");
        let dir = self.dir.path().join("home/.kward/sessions").join(format!("--{work}--"));
        std::fs::create_dir_all(&dir)?;
        Ok(dir)
    }
}

/// A process behind two pipes. It ends when this is dropped.
struct Pipe {
    child: Child,
    decoder: Decoder,
    buffer: Vec<u8>,
    last_id: u64,
}

impl Pipe {
    fn start(command: &mut Command) -> Result<Self> {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        Ok(Self {
            child: child.context("the program does not start")?,
            decoder: Decoder::default(),
            buffer: vec![0; 65536],
            last_id: 0,
        })
    }

    fn next_body(&mut self) -> Result<Vec<u8>> {
        loop {
            if let Some(body) = self.decoder.next_frame() {
                return Ok(body?);
            }
            let count = self.child.stdout.as_mut().context("no pipe")?.read(&mut self.buffer)?;
            if count == 0 {
                bail!("the backend ended");
            }
            self.decoder.push(&self.buffer[..count]);
        }
    }

    fn next(&mut self) -> Result<Value> {
        Ok(serde_json::from_slice(&self.next_body()?)?)
    }

    fn send(&mut self, method: &str, params: &Value) -> Result<u64> {
        self.last_id += 1;
        let body = json!({ "jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params }).to_string();
        self.child.stdin.as_mut().context("no pipe")?.write_all(&frame::encode(body.as_bytes()))?;
        Ok(self.last_id)
    }

    fn call(&mut self, method: &str, params: Value) -> Result<Value> {
        let id = self.send(method, &params)?;
        loop {
            let mut frame = self.next()?;
            if frame["id"] == id {
                if let Some(error) = frame.get("error") {
                    bail!("{method}: {error}");
                }
                return Ok(frame["result"].take());
            }
        }
    }

    /// Requests a second, one after another.
    fn rate(&mut self, method: &str, params: &Value, load: Duration) -> Result<f64> {
        for _ in 0..200 {
            self.call(method, params.clone())?;
        }
        let (began, mut count) = (Instant::now(), 0u64);
        while began.elapsed() < load {
            self.send(method, params)?;
            self.next_body()?;
            count += 1;
        }
        Ok(count as f64 / began.elapsed().as_secs_f64())
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // A child that has ended already is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `convoke sim echo`: every frame is answered with an empty result. The raw limit of the pipes and of JSON.
pub(super) fn echo() -> Result<()> {
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    let (mut decoder, mut buffer) = (Decoder::default(), vec![0; 65536]);
    loop {
        let count = input.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        decoder.push(&buffer[..count]);
        while let Some(frame) = decoder.next_frame() {
            if let Ok(convoke_kward::rpc::Request { id: Some(id), .. }) = convoke_kward::rpc::decode(&frame?) {
                output.write_all(&frame::encode(&convoke_kward::rpc::response(&id, &json!({}))))?;
                output.flush()?;
            }
        }
    }
}

/// A provider that streams so many deltas, twice, and tells when each was sent.
fn provider(count: usize) -> Result<(String, Receiver<Instant>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}/v1", listener.local_addr()?);
    let (sender, sent) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten().take(2) {
            if serve_deltas(stream, count, &sender).is_err() {
                return;
            }
        }
    });
    Ok((url, sent))
}

fn serve_deltas(mut stream: TcpStream, count: usize, sent: &Sender<Instant>) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut line, mut length) = (String::new(), 0);
    while reader.read_line(&mut line)? > 2 {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse()?;
        }
        line.clear();
    }
    reader.read_exact(&mut vec![0; length])?;
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")?;
    for _ in 0..count {
        let next = Instant::now() + BETWEEN_DELTAS;
        sent.send(Instant::now())?;
        stream.write_all(b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"word \"}}]}\n\n")?;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    stream.write_all(
        b"data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
    )?;
    Ok(())
}

/// The provider's stream, read with nothing in between.
fn read_stream(url: &str, sent: &Receiver<Instant>) -> Result<Vec<Duration>> {
    let host = url.trim_start_matches("http://").trim_end_matches("/v1");
    let mut stream = TcpStream::connect(host)?;
    stream.write_all(
        format!("POST /v1/chat/completions HTTP/1.1\r\nhost: {host}\r\ncontent-length: 2\r\n\r\n{{}}").as_bytes(),
    )?;
    let mut took = Vec::new();
    for line in BufReader::new(stream).lines() {
        if line?.contains("\"content\"") {
            took.push(Instant::now().duration_since(sent.recv()?));
        }
    }
    Ok(took)
}

fn write_session(path: &Path, work: &Path, messages: usize) -> Result<()> {
    let id = path.file_stem().context("a name")?.to_string_lossy();
    let mut text =
        json!({ "type": "session", "version": 1, "id": id, "timestamp": "2026-01-01T00:00:00.000Z", "cwd": work })
            .to_string();
    let mut parent = "null".to_owned();
    for number in 0..messages {
        let role = if number % 2 == 0 { "user" } else { "assistant" };
        let content = "Some forty words of a conversation about a parser and its tests. ".repeat(5);
        write!(
            text,
            "\n{{\"type\":\"message\",\"id\":\"{number:08x}\",\"parentId\":{parent},\"timestamp\":\"2026-01-01T00:00:00.000Z\",\"message\":{{\"role\":\"{role}\",\"content\":\"{content}\",\"id\":\"{number:08x}\"}}}}"
        )?;
        parent = format!("\"{number:08x}\"");
    }
    text.push('\n');
    Ok(std::fs::write(path, text)?)
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

fn median(took: Vec<Duration>) -> f64 {
    quantile(took, 0.5)
}

fn p99(took: Vec<Duration>) -> f64 {
    quantile(took, 0.99)
}

fn quantile(mut took: Vec<Duration>, share: f64) -> f64 {
    took.sort();
    let at = ((took.len() as f64 - 1.0) * share).round().max(0.0) as usize;
    took.get(at).copied().map(millis).unwrap_or_default()
}
