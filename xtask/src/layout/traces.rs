//! The runs that the lists are made from: an agent that enrols and rests, one that starts again, one that is called, and
//! a hub that is called. Each under callgrind, against the other side as it is.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::stage::{Client, Hub, Running, until};
use crate::run;

const AGENT: &str = "traced";
/// Calls of each kind to the traced hub: once is not what a call uses when everything is warm.
const ROUNDS: usize = 20;
/// Calls that operators make every day. What fails on this machine is traced as far as it goes.
const CALLS: [(&str, &str); 12] = [
    ("fs_list", r#"{"path":"/etc"}"#),
    ("fs_read", r#"{"path":"/etc/hostname"}"#),
    ("fs_search", r#"{"root":"/etc/default","pattern":"a"}"#),
    ("fs_disk_usage", "{}"),
    ("shell_exec", r#"{"command":"echo traced"}"#),
    ("diag_processes", "{}"),
    ("diag_services", "{}"),
    ("diag_eventlog", r#"{"log":"System","count":3}"#),
    ("diag_autostart", "{}"),
    ("net_config", "{}"),
    ("telemetry_collect", r#"{"sections":["disk","memory"]}"#),
    ("fs_list", r#"{"path":"/does/not/exist"}"#),
];

/// Makes the traces of `list` in `dir`.
pub(super) fn make(list: &str, program: &Path, dir: &Path) -> Result<Vec<PathBuf>> {
    eprintln!("layout: tracing for the list `{list}`");
    match list {
        "agent" => at_rest(program, dir),
        "calls" => called(program, dir),
        _ => hub(program, dir),
    }
}

/// Two lives of an agent: it enrols and sends its first snapshot; it comes back and sends the next.
fn at_rest(program: &Path, dir: &Path) -> Result<Vec<PathBuf>> {
    let hub = Hub::start(&mut Command::new(program), dir)?;
    let client = hub.client()?;
    let mut traces = Vec::new();
    for life in ["first", "second"] {
        let trace = dir.join(format!("{life}.callgrind"));
        let agent = agent(program, dir, &trace, &hub, &client)?;
        wait_for_snapshot(&client, traces.len() + 1)?;
        // Heartbeats come every second, and looks at the kill switch.
        std::thread::sleep(Duration::from_secs(10));
        agent.end()?;
        traces.push(trace);
    }
    hub.stop()?;
    Ok(traces)
}

/// An agent that is called.
fn called(program: &Path, dir: &Path) -> Result<Vec<PathBuf>> {
    let hub = Hub::start(&mut Command::new(program), dir)?;
    let mut client = hub.client()?;
    let trace = dir.join("called.callgrind");
    let agent = agent(program, dir, &trace, &hub, &client)?;
    wait_for_snapshot(&client, 1)?;
    let mut worked = 0;
    for (tool, args) in CALLS {
        let args: Value = serde_json::from_str(args).context("arguments of a call")?;
        let call = json!({ "tool": tool, "args": args, "timeout_s": 120 });
        let answer = client.ask("POST", &format!("/api/agents/{AGENT}/call"), &[], &call)?;
        worked += usize::from(answer["ok"] == true);
    }
    ensure!(worked * 2 > CALLS.len(), "only {worked} of {} calls worked", CALLS.len());
    agent.end()?;
    hub.stop()?;
    Ok(vec![trace])
}

/// A hub that is called over the HTTP API and through MCP, with and without a session.
fn hub(program: &Path, dir: &Path) -> Result<Vec<PathBuf>> {
    let trace = dir.join("hub.callgrind");
    let hub = Hub::start(callgrind(program, &trace).arg("--instr-atstart=no").arg(program), dir)?;
    let swarm = hub.swarm(program, dir)?;
    let mut client = hub.client()?;
    let fleet = client.ask("GET", "/api/agents", &[], &Value::Null)?;
    let agent = fleet.pointer("/agents/0/id").and_then(Value::as_str).context("no agent is there")?.to_owned();
    let call = json!({ "tool": "fs_list", "args": { "path": "/" } });
    let path = format!("/api/agents/{agent}/call");
    // Once before anything is traced: what happens with the first call only is not what a call takes.
    client.ask("POST", &path, &[], &call)?;
    let session = open_session(&mut client)?;
    mcp_calls(&mut client, &agent, &session)?;
    let watch = |on| run::shown(Command::new("callgrind_control").args(["-i", on, &hub.pid().to_string()]));
    watch("on")?;
    for _ in 0..ROUNDS {
        let answer = client.ask("POST", &path, &[], &call)?;
        ensure!(answer["ok"] == true, "a call was not answered: {answer}");
        mcp_calls(&mut client, &agent, &session)?;
    }
    watch("off")?;
    swarm.end()?;
    hub.stop()?;
    Ok(vec![trace])
}

const ACCEPT: (&str, &str) = ("accept", "application/json, text/event-stream");
const SESSIONS: (&str, &str) = ("mcp-protocol-version", "2025-11-25");

/// Opens a session of MCP and answers its id.
fn open_session(client: &mut Client) -> Result<String> {
    let who = json!({ "name": "layout", "version": "1" });
    let params = json!({ "protocolVersion": SESSIONS.1, "capabilities": {}, "clientInfo": who });
    let open = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    client.ask("POST", "/mcp", &[ACCEPT], &open)?;
    let session = client.session().context("no session was opened")?.to_owned();
    let opened = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    client.ask("POST", "/mcp", &[ACCEPT, SESSIONS, ("mcp-session-id", &session)], &opened)?;
    Ok(session)
}

/// One call without a session, one that wants to hear of its progress, and one in a session.
fn mcp_calls(client: &mut Client, agent: &str, session: &str) -> Result<()> {
    let call = |meta: Value| {
        let arguments = json!({ "path": "/", "agent": agent });
        let params = json!({ "name": "fs_list", "arguments": arguments, "_meta": meta });
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params })
    };
    let mut meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "layout", "version": "1" },
    });
    let headers =
        [ACCEPT, ("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "fs_list")];
    let answer = client.ask("POST", "/mcp", &headers, &call(meta.clone()))?;
    ensure!(answer.get("result").is_some(), "a call through MCP was not answered: {answer}");
    meta["progressToken"] = 1.into();
    client.ask("POST", "/mcp", &headers, &call(meta))?;
    let headers = [ACCEPT, SESSIONS, ("mcp-session-id", session)];
    client.ask("POST", "/mcp", &headers, &call(json!({ "progressToken": 1 })))?;
    Ok(())
}

/// An agent of `hub` under callgrind; enrolled by a new token, or as its state says if it is enrolled.
fn agent(program: &Path, dir: &Path, trace: &Path, hub: &Hub, client: &Client) -> Result<Running> {
    let preload = preload(dir)?;
    let state = dir.join("agent");
    let mut command = callgrind(program, trace);
    command.arg(program).args(["agent", "run", "--console", "off", "--until-stdin-closes", "--set", "heartbeat_s=1"]);
    command.arg("--state").arg(&state).env("LD_PRELOAD", preload);
    // As an agent sets them for itself, by starting anew, which valgrind would not follow.
    command.envs([("MIMALLOC_ARENA_EAGER_COMMIT", "0"), ("MIMALLOC_PURGE_DELAY", "0")]);
    if !state.exists() {
        let token = client.again()?.ask("POST", &format!("/api/agents/{AGENT}/token"), &[], &json!({}))?;
        let text = |name: &str| token[name].as_str().unwrap_or_default().to_owned();
        command.args(["--id", AGENT, "--hub", &hub.url(), "--token", &text("token")]);
        command.args(["--hub-key", &text("hub_public_key")]);
    }
    Running::start("the agent", &mut command, dir)
}

fn wait_for_snapshot(client: &Client, count: usize) -> Result<()> {
    let mut client = client.again()?;
    until("the agent's snapshot", || {
        let history = client.ask("GET", &format!("/api/agents/{AGENT}/snapshots"), &[], &Value::Null)?;
        Ok(history["snapshots"].as_array().is_some_and(|list| list.len() >= count))
    })
}

fn callgrind(program: &Path, trace: &Path) -> Command {
    let mut command = Command::new("valgrind");
    command.args(["--quiet", "--tool=callgrind", "--demangle=no"]);
    command.arg(format!("--callgrind-out-file={}", trace.display()));
    command.env("LAYOUT_PROGRAM", program);
    command
}

/// The stand-in for `posix_spawnp`: a program under valgrind does not find itself.
fn preload(dir: &Path) -> Result<PathBuf> {
    let (source, library) = (dir.join("spawn.c"), dir.join("spawn.so"));
    std::fs::write(&source, include_str!("spawn.c")).context("the stand-in cannot be written")?;
    run::shown(Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source))?;
    Ok(library)
}
