//! `convoke sim cluster`: several hubs in network namespaces, what goes wrong between them, and whether their promises hold.

use std::env;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use convoke_sim::cluster::{self, Config, Kind};

/// Names the directory of the process that is in namespaces of its own.
const APART: &str = "CONVOKE_SIM_APART";
/// How long that process may take to end when it is interrupted.
const GOODBYE: Duration = Duration::from_secs(3);

#[derive(Debug, Args)]
pub(super) struct ClusterArgs {
    /// What goes wrong follows from this number [default: the time]
    #[arg(long)]
    seed: Option<u64>,
    /// How long things go wrong, in minutes
    #[arg(long, default_value_t = 3.0, value_parser = minutes)]
    minutes: f64,
    /// Number of agents
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    agents: u32,
    /// Number of callers at each hub
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1000))]
    callers: u32,
    /// Mean pause of a caller between two calls, in milliseconds
    #[arg(long, default_value_t = 150, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pause_ms: u64,
    /// Number of hubs
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=9))]
    hubs: u8,
    /// The hubs' lease, in seconds
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(5..=60))]
    lease_s: u64,
    /// What may go wrong: one-way, cut, loss, agents, pause, kill, postgres, nats, clock, or none [default: all]
    #[arg(long, value_delimiter = ',', value_name = "FAULT,…")]
    faults: Vec<String>,
    /// Keep logs and data in this new directory, which they otherwise are kept in only if a promise was broken
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

/// Runs it in namespaces of its own: there in this process, otherwise in a child, whose files it cleans up.
pub(super) async fn run(args: ClusterArgs) -> anyhow::Result<()> {
    if let Some(why) = cluster::lacking() {
        bail!("several hubs cannot be tried out here: {why}");
    }
    let program = env::current_exe().context("cannot find the path of this program")?;
    match env::var_os(APART) {
        Some(dir) => apart(&args, program, Path::new(&dir)).await,
        None => in_namespaces(&args, &program).await,
    }
}

async fn apart(args: &ClusterArgs, program: PathBuf, dir: &Path) -> anyhow::Result<()> {
    let config = config(args, program)?;
    let (seed, seconds) = (config.seed, config.time.as_secs_f64());
    eprintln!("seed {seed}, {} hubs, {} agents, {seconds:.0} s", config.hubs, config.agents);
    let report = tokio::select! {
        report = cluster::run(&config, dir) => report.with_context(|| format!("seed {seed}"))?,
        () = super::interrupted() => bail!("interrupted"),
    };
    writeln!(std::io::stdout().lock(), "{:<28}{seed}\n{}", "seed", report.text())?;
    if !report.is_good() {
        bail!("seed {seed} broke promises");
    }
    Ok(())
}

fn config(args: &ClusterArgs, program: PathBuf) -> anyhow::Result<Config> {
    let faults: Vec<&str> = args.faults.iter().map(String::as_str).collect();
    let kinds = match faults.as_slice() {
        [] => Kind::ALL.to_vec(),
        ["none"] => Vec::new(),
        names => {
            let kinds: Result<_, _> = names.iter().map(|name| name.parse()).collect();
            kinds.map_err(|why: String| anyhow::anyhow!("--faults: {why}"))?
        }
    };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Ok(Config {
        program,
        seed: args.seed.unwrap_or(now.as_secs()),
        time: Duration::from_secs_f64(args.minutes * 60.0),
        agents: args.agents as usize,
        callers: args.callers as usize,
        pause: Duration::from_millis(args.pause_ms),
        hubs: args.hubs.into(),
        lease_s: args.lease_s,
        kinds,
    })
}

/// Runs this program again, apart, with a directory that goes away if all went well.
async fn in_namespaces(args: &ClusterArgs, program: &Path) -> anyhow::Result<()> {
    let scratch = match &args.keep {
        Some(dir) => {
            std::fs::create_dir(dir).with_context(|| format!("cannot make {}", dir.display()))?;
            None
        }
        None => Some(tempfile::Builder::new().prefix("convoke-cluster-").tempdir()?),
    };
    let kept = args.keep.clone().unwrap_or_default();
    let dir = scratch.as_ref().map_or(kept, |dir| dir.path().to_owned());
    let mut child = tokio::process::Command::from(cluster::apart(program));
    let mut child = child.args(env::args_os().skip(1)).env(APART, &dir).kill_on_drop(true).spawn()?;
    let status = tokio::select! {
        status = child.wait() => status?,
        () = super::interrupted() => {
            // What was typed at a terminal has reached the child as well; whatever it does, it ends with us.
            let _ = tokio::time::timeout(GOODBYE, child.wait()).await;
            child.kill().await?;
            bail!("interrupted");
        }
    };
    if !status.success() {
        scratch.map(tempfile::TempDir::keep);
        bail!("the run failed; its logs are in {}", dir.display());
    }
    Ok(())
}

fn minutes(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(minutes) if (0.01..=1440.0).contains(&minutes) => Ok(minutes),
        _ => Err("choose 0.01 to 1440 minutes".into()),
    }
}
