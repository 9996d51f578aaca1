//! Three hubs on PostgreSQL and NATS: what a call costs at the hub that holds the agent's link and at another, how many are
//! made durable a second, what idle agents take, and how soon those of a lost hub are back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use convoke_sim::VerifyingKey;
use convoke_sim::cluster::{Parts, Setup};
use convoke_sim::control::Command;
use convoke_sim::enrol::enrol;
use convoke_sim::load::{self, LoadConfig, LoadReport};
use convoke_sim::roster::Roster;
use convoke_sim::stage::{Stage, SwarmProcess};

use super::measure::{MANY_CALLERS, SEED, TOKEN, say};
use super::plan::Plan;
use super::table::{Goal, Row};
use super::target;

const HUBS: usize = 3;
const LEASE_S: u64 = 10;
/// Callers whose wait is measured: few enough that they do not wait for each other.
const FEW_CALLERS: usize = 8;
const ENROL_CONNECTIONS: usize = 32;
/// How long the agents of a lost hub may take.
const PATIENCE: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(20);

/// One load, and what each process used for a call, in milliseconds.
struct Point {
    hubs: Vec<f64>,
    postgres: f64,
    nats: f64,
    report: LoadReport,
}

impl Point {
    fn cpu_ms(&self) -> f64 {
        self.hubs.iter().sum()
    }

    fn p99_ms(&self) -> f64 {
        self.report.latency.quantile(0.99).as_secs_f64() * 1000.0
    }

    fn describe(&self) -> String {
        let p50 = self.report.latency.quantile(0.5).as_secs_f64() * 1000.0;
        let mut text = format!("{:.0}/s, p50 {p50:.2} ms, p99 {:.2} ms", self.report.rate(), self.p99_ms());
        text.push_str(&format!("; PostgreSQL {:.3} ms, NATS {:.3} ms", self.postgres, self.nats));
        if self.report.errors() > 0 {
            text.push_str(&format!(", {} ERRORS", self.report.errors()));
        }
        text
    }
}

fn row(measure: &str, unit: &'static str, hub: f64, goal: Goal, note: String) -> Row {
    Row { measure: measure.to_owned(), unit, hub, forwarder: None, goal, original: None, note }
}

pub(super) async fn measure(plan: &Plan) -> anyhow::Result<Vec<Row>> {
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    let stage = Stage::new(program.clone(), plan.scratch.as_deref())?;
    let alone = alone(plan, &stage).await?;

    say("three hubs on PostgreSQL and NATS");
    let dir = stage.directory().join("cluster");
    std::fs::create_dir(&dir)?;
    // PostgreSQL runs as a user of its own, who must get there.
    open_to_all(stage.directory())?;
    let settings = plan.settings.clone();
    let setup = Setup { program, hubs: HUBS, lease_s: LEASE_S, durable: true, settings, token: TOKEN.into() };
    let (mut parts, key) = Parts::on_loopback(setup, &dir).await?;
    let all = plan.at_each * HUBS;
    say(&format!("enrolling {all} agents"));
    let enrolled = enrol(parts.address(0), TOKEN, &Roster::new(SEED), 0..all, ENROL_CONNECTIONS).await?;
    say(&format!("  {:.0} a second", enrolled.count as f64 / enrolled.took.as_secs_f64()));

    let mut swarms = swarms(plan, &stage, &parts, &key)?;
    for swarm in &mut swarms {
        swarm.command(Command::Resize { agents: plan.few as u64 }).await?;
    }
    let mut rows = vec![alone];
    rows.extend(calls(plan, &parts).await?);
    rows.extend(fleet(plan, &mut parts, &mut swarms).await?);
    Ok(rows)
}

/// What a call costs one hub on SQLite.
async fn alone(plan: &Plan, stage: &Stage) -> anyhow::Result<Row> {
    say("one hub on SQLite");
    let hub = stage.hub("alone", TOKEN, &plan.settings).await?;
    enrol(hub.address, TOKEN, &Roster::new(SEED), 0..plan.few, ENROL_CONNECTIONS).await?;
    let mut swarm = stage.swarm(&hub, SEED)?;
    swarm.command(Command::Resize { agents: plan.few as u64 }).await?;
    let config = LoadConfig { token: Some(TOKEN.into()), ..LoadConfig::new(hub.address, names(0, plan.few)) };
    let point = target::measure(&hub, config, plan, FEW_CALLERS).await?;
    let p99 = point.p99.as_secs_f64() * 1000.0;
    let note = format!("{:.0}/s, p50 {:.2} ms, p99 {p99:.2} ms", point.rate, point.p50.as_secs_f64() * 1000.0);
    Ok(row("CPU per call, one hub on SQLite", "ms", point.cpu_ms, Goal::NONE, note))
}

/// A swarm for each hub, whose agents go to the others when it is lost.
fn swarms(plan: &Plan, stage: &Stage, parts: &Parts, key: &VerifyingKey) -> anyhow::Result<Vec<SwarmProcess>> {
    let hubs: Vec<_> = (0..HUBS).map(|hub| parts.address(hub)).collect();
    let swarm = |hub: usize| {
        let mut own = hubs.clone();
        own.rotate_left(hub);
        Ok(stage.swarm_of(&own, key, SEED, hub * plan.at_each)?)
    };
    (0..HUBS).map(swarm).collect()
}

fn names(first: usize, count: usize) -> Arc<[String]> {
    let roster = Roster::new(SEED);
    (first..first + count).map(|index| roster.id(index).to_string()).collect()
}

/// Calls at the hub with the link, and at another one.
async fn calls(plan: &Plan, parts: &Parts) -> anyhow::Result<Vec<Row>> {
    let mut points: [Vec<Point>; 2] = [Vec::new(), Vec::new()];
    for _ in 0..plan.rounds {
        for (way, hub) in [0, 1].into_iter().enumerate() {
            // The agents are at hub 1.
            points[way].push(load(plan, parts, &[hub], FEW_CALLERS).await?);
        }
    }
    let [local, crossing] = points.map(median);
    let added = Goal::at_most(0.15);
    let mut rows = vec![
        row("CPU per call where the link is", "ms", local.cpu_ms(), Goal::NONE, local.describe()),
        row("CPU per call at another hub, both", "ms", crossing.cpu_ms(), Goal::NONE, crossing.describe()),
        row("CPU that crossing adds", "ms", crossing.cpu_ms() - local.cpu_ms(), added, String::new()),
        row("p99 that crossing adds", "ms", crossing.p99_ms() - local.p99_ms(), Goal::at_most(3.0), String::new()),
    ];
    let busy = load(plan, parts, &[0, 1, 2], MANY_CALLERS * 4).await?;
    let goal = Goal::at_least(5000.0);
    rows.push(row("durable calls a second, 3 hubs", "/s", busy.report.rate(), goal, busy.describe()));
    Ok(rows)
}

/// Callers at these hubs, all to agents of hub 1, or each to those of its own if there are several.
async fn load(plan: &Plan, parts: &Parts, hubs: &[usize], callers: usize) -> anyhow::Result<Point> {
    let config = |hub: usize, time: Duration| {
        let agents = if hubs.len() > 1 { names(hub * plan.at_each, plan.few) } else { names(0, plan.few) };
        let token = Some(TOKEN.to_owned());
        LoadConfig { token, callers, time, ..LoadConfig::new(parts.address(hub), agents) }
    };
    let run = async |time: Duration| {
        let all = hubs.iter().map(|hub| load::run_on_own_thread(config(*hub, time)));
        futures_util::future::try_join_all(all).await
    };
    run(plan.warm_up).await?;
    let used = || -> anyhow::Result<_> {
        let hubs: Result<Vec<_>, _> = (0..HUBS).map(|hub| Ok::<_, anyhow::Error>(parts.usage(hub)?.cpu)).collect();
        Ok((hubs?, parts.usage_of_servers()?))
    };
    let (before, servers_before) = used()?;
    let reports = run(plan.load).await?;
    let (after, servers) = used()?;
    let report = LoadReport::all(&reports);
    ensure!(report.answered > 0, "no call was answered with ok: {report:?}");
    let each = |after: Duration, before: Duration| {
        after.saturating_sub(before).as_secs_f64() * 1000.0 / (report.answered + report.errors()) as f64
    };
    Ok(Point {
        hubs: after.iter().zip(&before).map(|(after, before)| each(*after, *before)).collect(),
        postgres: each(servers.0, servers_before.0),
        nats: each(servers.1, servers_before.1),
        report,
    })
}

/// The one with the middle CPU.
fn median(mut points: Vec<Point>) -> Point {
    points.sort_by(|a, b| a.cpu_ms().total_cmp(&b.cpu_ms()));
    let middle = points.len() / 2;
    points.swap_remove(middle)
}

/// All agents connected; then one hub is killed.
async fn fleet(plan: &Plan, parts: &mut Parts, swarms: &mut [SwarmProcess]) -> anyhow::Result<Vec<Row>> {
    say(&format!("connecting {HUBS} × {} agents", plan.at_each));
    let memory =
        |parts: &Parts| -> anyhow::Result<u64> { (0..HUBS).map(|hub| Ok(parts.usage(hub)?.user_memory)).sum() };
    let (before, began) = (memory(parts)?, Instant::now());
    for swarm in swarms.iter_mut() {
        let reply = swarm.command(Command::Resize { agents: plan.at_each as u64 }).await?;
        let connected = reply.report.connected;
        ensure!(connected == plan.at_each as u64, "{connected} agents are connected: {:?}", reply.problem);
    }
    let took = began.elapsed().as_secs_f64();
    tokio::time::sleep(plan.settle).await;
    let new = (plan.at_each - plan.few) * HUBS;
    let kib = memory(parts)?.saturating_sub(before) as f64 / 1024.0 / new.max(1) as f64;
    let note = format!("{new} connected in {took:.1} s");
    let mut rows = vec![row("user memory per idle agent", "KiB", kib, Goal::NONE, note)];

    say("killing a hub");
    let cpu =
        |parts: &Parts| -> anyhow::Result<Duration> { (0..HUBS - 1).map(|hub| Ok(parts.usage(hub)?.cpu)).sum() };
    let (before, began) = (cpu(parts)?, Instant::now());
    parts.kill_hub(HUBS - 1).await?;
    let swarm = swarms.last_mut().context("a swarm for each hub")?;
    let mut gone = false;
    loop {
        let report = swarm.command(Command::Report).await?.report;
        gone |= report.lost > 0;
        if gone && report.connected == plan.at_each as u64 {
            break;
        }
        ensure!(began.elapsed() < PATIENCE, "only {} agents are back", report.connected);
        tokio::time::sleep(POLL).await;
    }
    let took = began.elapsed().as_secs_f64();
    let each = cpu(parts)?.saturating_sub(before).as_secs_f64() * 1000.0 / plan.at_each as f64;
    let note = format!("{} agents, CPU {each:.3} ms each", plan.at_each);
    rows.push(row("until a lost hub's agents are back", "s", took, Goal::NONE, note));
    Ok(rows)
}

fn open_to_all(dir: &std::path::Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o755))
}
