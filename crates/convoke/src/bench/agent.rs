//! What an agent costs the machine it runs on: memory and CPU at rest, a snapshot, the size of its program.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use convoke_api::Client;
use convoke_core::secret::SecretText;
use convoke_sim::stage::Stage;
use convoke_sim::usage::{cpu_with_children, resident};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use super::plan::Plan;
use super::table::{Goal, Row};

/// The hub of this measurement listens on loopback and lives for a minute: its token may be known.
const TOKEN: &str = "bench-operator-token-0123456789abcdef0123456789abcdef";
const ID: &str = "bench";
/// The time that is compressed.
const TEN_MINUTES: f64 = 600.0;
/// The agent's own intervals, which are shortened by the same factor.
const INTERVALS: [(&str, f64); 2] = [("heartbeat_s", 30.0), ("switch_poll_s", 1.0)];
/// How long something that should happen soon may take.
const PATIENCE: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(50);
/// No query.
const NO_QUERY: [(); 0] = [];
const MEGABYTE: f64 = 1024.0 * 1024.0;

/// Runs a hub and an agent, and looks at the agent.
pub(super) async fn measure(plan: &Plan, stage: &Stage) -> anyhow::Result<Vec<Row>> {
    super::measure::say("an agent at rest");
    let factor = if plan.quick { 120.0 } else { 30.0 };
    let hub = stage.hub("agents-hub", TOKEN, &[]).await?;
    let http = format!("http://{}", hub.address);
    let client = Client::new(&http, SecretText::new(TOKEN))?;
    let (program, is_small) = program()?;
    let state = stage.directory().join("agents-state");
    let child = start(&program, &state, &http, &client, factor).await?;
    let pid = child.id().context("the agent has ended")?;
    until(&client, &format!("/api/agents/{ID}"), |agent| agent["online"] == true).await?;
    until(&client, &format!("/api/agents/{ID}/snapshot"), |snapshot| snapshot.is_object()).await?;
    // Threads that blocked for the first snapshot go after ten seconds without work.
    tokio::time::sleep(if plan.quick { Duration::from_secs(1) } else { Duration::from_secs(12) }).await;

    let memory = resident(pid)? as f64 / MEGABYTE;
    let before = cpu_with_children(pid)?;
    tokio::time::sleep(Duration::from_secs_f64(TEN_MINUTES / factor)).await;
    let idle = cpu_with_children(pid)?.saturating_sub(before).as_secs_f64() / TEN_MINUTES * 100.0;

    super::measure::say("a snapshot of the machine");
    let before = cpu_with_children(pid)?;
    let call = json!({ "tool": "telemetry_collect", "args": {}, "timeout_s": 120 });
    let answer: Value = client.post(&format!("/api/agents/{ID}/call"), &call).await?;
    ensure!(answer["ok"] == true, "the agent did not collect: {answer}");
    let snapshot = cpu_with_children(pid)?.saturating_sub(before).as_secs_f64() * 1000.0;
    let sections = answer["result"].as_object().map_or(0, serde_json::Map::len);
    drop(child);
    hub.stop().await?;

    let size = std::fs::metadata(&program).context("cannot read the size of the program")?.len() as f64 / MEGABYTE;
    let row = |measure: &str, unit, figure, goal, original, note: String| Row {
        measure: format!("agent: {measure}"),
        unit,
        hub: figure,
        forwarder: None,
        goal,
        original,
        note,
    };
    let compressed = format!("ten minutes at {factor} times the speed (shorter intervals), without snapshots");
    Ok(vec![
        row("resident memory at rest", "MB", memory, Goal::at_most(10.0), Some("12–16 MB"), String::new()),
        row("CPU at rest", "% of a core", idle, Goal::at_most(0.05), None, compressed),
        row(
            "CPU of a full snapshot",
            "ms",
            snapshot,
            Goal::NONE,
            None,
            format!("{sections} sections; includes the programs that it runs"),
        ),
        if is_small {
            row("size of the program", "MB", size, Goal::at_most(12.0), Some("6.6 MB"), String::new())
        } else {
            let note = "this is `convoke` with the hub; there is no `convoke-agent` beside it";
            row("size of the program", "MB", size, Goal::NONE, Some("6.6 MB"), note.into())
        },
    ])
}

/// `convoke-agent`, where it is beside this program, else this one; and whether it is the former.
fn program() -> anyhow::Result<(PathBuf, bool)> {
    let own = std::env::current_exe().context("cannot find the path of this program")?;
    let small = own.with_file_name(format!("convoke-agent{}", std::env::consts::EXE_SUFFIX));
    Ok(if small.is_file() { (small, true) } else { (own, false) })
}

async fn start(program: &Path, state: &Path, http: &str, client: &Client, factor: f64) -> anyhow::Result<Child> {
    let token: Value = client.post(&format!("/api/agents/{ID}/token"), &json!({})).await?;
    let text = |name: &str| token[name].as_str().unwrap_or_default().to_owned();
    let mut command = Command::new(program);
    command.args(["agent", "run", "--console", "off", "--until-stdin-closes", "--id", ID, "--hub", http]);
    command.args(["--token", &text("token"), "--hub-key", &text("hub_public_key"), "--state"]).arg(state);
    for (name, seconds) in INTERVALS {
        command.args(["--set", &format!("{name}={}", seconds / factor)]);
    }
    // What is set for another agent of this machine is not meant for this one.
    for (name, _) in std::env::vars_os() {
        if ["CONVOKE_", "KENNY_"].iter().any(|prefix| name.as_encoded_bytes().starts_with(prefix.as_bytes())) {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    command.spawn().context("the agent could not be started")
}

async fn until(client: &Client, path: &str, fits: impl Fn(&Value) -> bool) -> anyhow::Result<()> {
    let asking = async {
        loop {
            if let Ok(answer) = client.get::<_, Value>(path, &NO_QUERY).await
                && fits(&answer)
            {
                return;
            }
            tokio::time::sleep(POLL).await;
        }
    };
    tokio::time::timeout(PATIENCE, asking).await.with_context(|| format!("the agent is not ready ({path})"))
}
