//! `convoke sim`: the parts of a bench that run in processes of their own, and simulated agents for trying out a hub.

use std::io::{self, BufRead as _, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use convoke_sim::answer::Answer;
use convoke_sim::bare_mcp::BareMcp;
use convoke_sim::control;
use convoke_sim::enrol::enrol;
use convoke_sim::forwarder::Forwarder;
use convoke_sim::roster::Roster;
use convoke_sim::rules::relay::Relay;
use convoke_sim::sonde::{Fleet, FleetConfig};
use convoke_sim::swarm::{Swarm, SwarmConfig};
use serde_json::json;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;

/// What to simulate.
#[derive(Debug, Args)]
pub(crate) struct SimArgs {
    #[command(subcommand)]
    part: Part,
}

#[derive(Debug, Subcommand)]
enum Part {
    /// Simulated agents. Commands come on standard input, one JSON object a line; they leave when it ends.
    Agents(AgentsArgs),
    /// A bare server: HTTP in, WebSocket to the agent and back, HTTP out. It stops when standard input ends.
    Forwarder(ForwarderArgs),
    /// The MCP SDK's server with a tool that answers at once. It stops when standard input ends.
    Mcp(ServerArgs),
    /// Answers every frame on standard input with an empty result.
    Echo,
    /// Simulated Sonde agents. Commands come on standard input, one JSON object a line; they leave when it ends.
    Sonde(SondeArgs),
    /// Several hubs on PostgreSQL and NATS, and faults between them; tells what became of their promises.
    #[cfg(target_os = "linux")]
    Cluster(super::faults::ClusterArgs),
    /// A bare relay: what one WebSocket sends, every other one gets. It stops when standard input ends.
    Relay(ServerArgs),
}

#[derive(Debug, Args)]
struct AgentsArgs {
    /// The hub's address
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    target: SocketAddr,
    /// The hub's public key, base64; agents that are enrolled first learn it then
    #[arg(long, value_name = "KEY")]
    target_key: Option<String>,
    /// Their keys follow from this text
    #[arg(long, default_value = "convoke")]
    seed: String,
    /// The number of the first agent, from 0
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=10_000_000))]
    first: u32,
    /// Connect so many at once, before any command
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    count: u32,
    /// Enrol them first, with the admin's token in CONVOKE_TOKEN
    #[arg(long, requires = "count")]
    enrol: bool,
    /// What they answer: at-once, after:MILLISECONDS, never, large:BYTES or error
    #[arg(long, default_value = "at-once")]
    answer: Answer,
    /// Seconds between their heartbeats
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=3600))]
    heartbeat_s: u32,
    /// Most connections being made at once
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096))]
    concurrency: u32,
    /// Seconds after which an agent that lost its connection tries again; it stays away otherwise
    #[arg(long, overrides_with = "retry_s", value_parser = clap::value_parser!(u32).range(1..=3600))]
    retry_s: Option<u32>,
    /// Another hub, for agents that lost their connection; repeatable
    #[arg(long, value_name = "ADDRESS", requires = "retry_s", value_parser = address)]
    other: Vec<SocketAddr>,
}

#[derive(Debug, Args)]
struct SondeArgs {
    /// The hub's address
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    target: SocketAddr,
    /// The hub's listener for mutual TLS
    #[arg(long, value_name = "ADDRESS", requires = "ca", value_parser = address)]
    tls: Option<SocketAddr>,
    /// The certificate of the hub's authority
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Where the names and API keys of those that enrolled are kept; enrolling takes the admin's token in CONVOKE_TOKEN
    #[arg(long, value_name = "FILE")]
    keys: PathBuf,
}

#[derive(Debug, Args)]
struct ServerArgs {
    /// The address to serve on; port 0 picks a free one
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    listen: SocketAddr,
}

#[derive(Debug, Args)]
struct ForwarderArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Write what is answered to this file, and sync it, before it is answered
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

/// Plays one part until standard input ends.
pub(crate) async fn run_sim(args: SimArgs) -> anyhow::Result<()> {
    // On a runtime of its own: the agents on one thread, because they are many and do little, the forwarder on as many
    // as the hub has.
    let runtime = match args.part {
        // Its children end with the thread that started them.
        #[cfg(target_os = "linux")]
        Part::Cluster(_) => Builder::new_current_thread().enable_all().build()?,
        Part::Agents(_) | Part::Sonde(_) | Part::Echo => Builder::new_current_thread().enable_all().build()?,
        Part::Forwarder(_) | Part::Mcp(_) | Part::Relay(_) => crate::workers::runtime(0)?,
    };
    let (done, outcome) = tokio::sync::oneshot::channel();
    std::thread::Builder::new().name("sim".into()).spawn(move || {
        let outcome = play(&runtime, args.part);
        // Who asked may have stopped waiting.
        let _ = done.send(outcome);
    })?;
    outcome.await.context("the simulation broke off")?
}

fn play(runtime: &Runtime, part: Part) -> anyhow::Result<()> {
    match part {
        Part::Agents(args) => runtime.block_on(agents(args)),
        Part::Forwarder(args) => runtime.block_on(forwarder(args)),
        Part::Mcp(args) => runtime.block_on(bare_mcp(args)),
        Part::Sonde(args) => tokio::task::LocalSet::new().block_on(runtime, sonde(args)),
        #[cfg(target_os = "linux")]
        Part::Cluster(args) => runtime.block_on(super::faults::run(args)),
        Part::Echo => super::rpc::echo(),
        Part::Relay(args) => runtime.block_on(relay(args)),
    }
}

async fn agents(args: AgentsArgs) -> anyhow::Result<()> {
    let roster = Roster::new(args.seed);
    let (first, count) = (args.first as usize, args.count as usize);
    let mut key = args.target_key.as_deref().map(convoke_sim::parse_key).transpose()?;
    if args.enrol {
        let token = std::env::var("CONVOKE_TOKEN").context("set CONVOKE_TOKEN to the token of an admin")?;
        let enrolled = enrol(args.target, &token, &roster, first..first + count, args.concurrency as usize).await?;
        key = key.or(enrolled.hub_key);
    }
    let Some(key) = key else { bail!("the agents must know the hub's key: give --target-key, or --enrol them") };
    let seconds = |s: u32| Duration::from_secs(s.into());
    let mut swarm = Swarm::new(SwarmConfig {
        first,
        answer: args.answer,
        heartbeat: seconds(args.heartbeat_s),
        concurrency: args.concurrency as usize,
        retry: args.retry_s.map(seconds),
        others: args.other,
        ..SwarmConfig::new(args.target, key, roster)
    });
    if count > 0 {
        let command = serde_json::to_string(&control::Command::Resize { agents: count as u64 })?;
        tell(&control::obey(&mut swarm, &command).await)?;
    }
    let mut commands = lines();
    while let Some(line) = commands.recv().await {
        tell(&control::obey(&mut swarm, &line).await)?;
    }
    Ok(())
}

async fn sonde(args: SondeArgs) -> anyhow::Result<()> {
    let mut fleet = Fleet::new(FleetConfig {
        target: args.target,
        tls: args.tls.zip(args.ca),
        operator_token: std::env::var("CONVOKE_TOKEN").ok(),
        keys: args.keys,
    })?;
    let mut commands = lines();
    while let Some(line) = commands.recv().await {
        tell(&fleet.obey(&line).await)?;
    }
    Ok(())
}

async fn forwarder(args: ForwarderArgs) -> anyhow::Result<()> {
    let forwarder =
        Forwarder::start(args.server.listen, Roster::new("forwarder").key(0), args.log.as_deref()).await?;
    tell(&json!({
        "http": format!("http://{}", forwarder.address()),
        "kenny_public_key": convoke_sim::key_text(&forwarder.public_key()),
    }))?;
    let mut input = lines();
    while input.recv().await.is_some() {}
    Ok(())
}

async fn bare_mcp(args: ServerArgs) -> anyhow::Result<()> {
    let server = BareMcp::start(args.listen).await?;
    // It has no key; the parent reads one all the same.
    let key = convoke_sim::key_text(&Roster::new("mcp").key(0).verifying_key());
    tell(&json!({ "http": format!("http://{}", server.address()), "kenny_public_key": key }))?;
    let mut input = lines();
    while input.recv().await.is_some() {}
    Ok(())
}

async fn relay(args: ServerArgs) -> anyhow::Result<()> {
    let relay = Relay::start(args.listen).await?;
    tell(&json!({
        "http": format!("http://{}", relay.address()),
        "kenny_public_key": convoke_sim::key_text(&Roster::new("relay").public_key(0)),
    }))?;
    let mut input = lines();
    while input.recv().await.is_some() {}
    Ok(())
}

/// The lines of standard input, read by a thread that ends with the process.
fn lines() -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

fn tell(what: &impl serde::Serialize) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(what)?)?;
    Ok(out.flush()?)
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let bare = text.trim_start_matches("http://").trim_end_matches('/');
    bare.parse().map_err(|_| "take an IP address with its port, such as 127.0.0.1:7410".to_owned())
}
