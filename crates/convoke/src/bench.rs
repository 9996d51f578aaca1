//! `convoke bench`: what a call, a handshake, a snapshot and an idle agent cost this hub, beside what they cost a bare
//! forwarder on the same machine in the same run. `docs/benchmarks.md` says what each line means.
//!
//! Every part is a process of its own: the hub, the forwarder, a swarm of simulated agents for each. This process calls
//! and reads the others' CPU and memory.

mod agent;
mod calls;
#[cfg(target_os = "linux")]
mod cluster;
mod disk;
#[cfg(target_os = "linux")]
mod faults;
mod fleet;
mod mcp;
mod measure;
mod plan;
mod rooms;
mod rpc;
mod rules;
mod sim;
mod sonde;
mod table;
mod target;

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::bail;
use clap::{Args, ValueEnum};

use plan::Plan;

pub(crate) use sim::{SimArgs, run_sim};

/// What to measure, and how much of it.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// Number of agents in the fleet [default: 10000; at each of several hubs 15000]
    #[arg(long, value_parser = clap::value_parser!(u32).range(10..=18_000))]
    agents: Option<u32>,
    /// Length of each load, in seconds
    #[arg(long, default_value_t = 3.0, value_parser = seconds)]
    seconds: f64,
    /// Number of loads of each kind; the median counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    rounds: u32,
    /// Number of reconnections
    #[arg(long, default_value_t = 3000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    handshakes: u32,
    /// Number of snapshots; at least one for each agent
    #[arg(long, default_value_t = 5000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    snapshots: u32,
    /// Make a small run of some ten seconds with rough figures
    #[arg(long, conflicts_with_all = ["agents", "seconds", "rounds", "handshakes", "snapshots"])]
    quick: bool,
    /// Measure only this; repeatable
    #[arg(long, value_enum, value_name = "WHAT")]
    only: Vec<Measure>,
    /// The directory of the hub's data, which decides the disk it commits to [default: the system's
    /// temporary directory]
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// Set one setting of the hub; repeatable
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
}

/// Something that can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Measure {
    /// Durable calls at 1, 8 and 32 callers.
    Calls,
    /// Calls through MCP, beside the HTTP API and the bare SDK.
    Mcp,
    /// A reconnect storm.
    Handshakes,
    /// Snapshots pushed.
    Telemetry,
    /// User memory of idle agents.
    Memory,
    /// The fleet overview.
    Fleet,
    /// Calls with few and with many agents connected.
    Growth,
    /// What the agent itself costs its machine.
    Agent,
    /// The coding backend: requests, deltas, start-up, sessions, memory.
    Rpc,
    /// Yonexus rule messages, beside a bare relay and NATS.
    Rules,
    /// Sonde: probes, registrations, enrolments, memory.
    Sonde,
    /// Rooms: lines on the relay beside a bare fan-out and NATS, participants, data channels.
    Rooms,
    /// Three hubs on PostgreSQL and NATS, beside one on SQLite. Only when it is asked for.
    Cluster,
}

impl Measure {
    /// Those that load a hub.
    const OF_HUB: [Self; 7] =
        [Self::Calls, Self::Mcp, Self::Handshakes, Self::Telemetry, Self::Memory, Self::Fleet, Self::Growth];
}

/// Measures and prints one table. A missed goal is in the table, not in the exit code: machines are noisy.
pub(crate) async fn run(args: BenchArgs, json: bool) -> anyhow::Result<()> {
    let plan = Plan::new(&args);
    let busy = convoke_sim::usage::load_average();
    let rows = tokio::select! {
        rows = measure::all(&plan) => rows?,
        // Returning drops the handles of all children, which ends them.
        () = interrupted() => bail!("interrupted"),
    };
    let text = if json { table::json(&plan, &rows, busy) } else { table::text(&plan, &rows, busy) };
    writeln!(std::io::stdout().lock(), "{text}")?;
    Ok(())
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.1..=600.0).contains(&seconds) => Ok(seconds),
        _ => Err("choose 0.1 to 600 seconds".into()),
    }
}

#[cfg(unix)]
async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    let term = async {
        match signal(SignalKind::terminate()) {
            Ok(mut term) => drop(term.recv().await),
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        () = term => {}
        interrupt = tokio::signal::ctrl_c() => drop(interrupt),
    }
}

#[cfg(not(unix))]
async fn interrupted() {
    drop(tokio::signal::ctrl_c().await);
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        bench: BenchArgs,
    }

    #[test]
    fn nonsense_is_refused() {
        for line in ["bench --agents 0", "bench --seconds nan", "bench --quick --agents 50", "bench --only all"] {
            assert!(Cli::try_parse_from(line.split(' ')).is_err(), "{line}");
        }
        let args = Cli::try_parse_from("bench --only calls --only fleet --seconds 0.5".split(' ')).unwrap().bench;
        assert_eq!(args.only, [Measure::Calls, Measure::Fleet]);
    }
}
