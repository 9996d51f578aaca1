//! Sonde: what a probe through its own door costs the hub, a registration, an enrolment with TLS and signatures, and an
//! idle agent.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use convoke_sim::control::{Command, Reply};
use convoke_sim::http::{Client, bearer};
use convoke_sim::load::{LoadConfig, Way};
use convoke_sim::sonde::Fleet;
use convoke_sim::stage::{Server, Stage, SwarmProcess};
use serde::Deserialize;
use tokio::time::Instant;

use super::calls::CallSeries;
use super::measure::say;
use super::plan::Plan;
use super::table::{Goal, Row};
use super::target::{self, value};

/// Agents that are asked for probes.
const ASKED: usize = 200;
/// Callers of a loaded hub.
const MANY_CALLERS: usize = 64;
/// Most tokens that are minted in one command: the hub keeps so many open.
const TOKENS_AT_ONCE: usize = 5000;
/// How long the hub may take to come to rest.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) async fn measure(plan: &Plan, stage: &Stage, token: &str) -> anyhow::Result<Vec<Row>> {
    let mut settings = plan.settings.clone();
    settings.push("sonde.tls_listen=127.0.0.1:0".into());
    let hub = stage.hub("sonde", token, &settings).await?;
    let mut rows = vec![enrolments(plan, stage, &hub, token).await?];
    // Killed, not stopped: what it acknowledged is there all the same, or the next step fails.
    hub.stop().await?;
    let hub = stage.hub("sonde", token, &settings).await?;
    let mut agents = stage.sonde_agents(&hub, token, None)?;
    rows.push(idle(plan, &hub, token, &mut agents).await?);
    rows.push(registrations(plan, &hub, token, &mut agents).await?);
    rows.extend(probes(plan, &hub, token, &mut agents).await?);
    // In the order of the goals.
    rows.rotate_left(3);
    Ok(rows)
}

/// Token enrolments over TLS, with a certificate for the agent's own key and a signed answer; then as many plain ones as
/// the rest takes.
async fn enrolments(plan: &Plan, stage: &Stage, hub: &Server, token: &str) -> anyhow::Result<Row> {
    let address = hub.sonde_tls.context("the hub does not say where Sonde agents come with certificates")?;
    let ca = stage.directory().join("sonde-ca.pem");
    std::fs::write(&ca, authority(hub, token).await?)?;
    let mut agents = stage.sonde_agents(hub, token, Some((address, &ca)))?;
    let count = plan.enrolments;
    say(&format!("{count} enrolments over TLS"));
    tell(&mut agents, Command::Tokens { count: count as u64 }).await?;
    at_rest(hub, token, None).await?;
    let before = hub.usage()?.cpu;
    let reply = tell(&mut agents, Command::Enrol { tls: true }).await?;
    at_rest(hub, token, None).await?;
    let cpu = hub.usage()?.cpu.saturating_sub(before);
    let rate = count as f64 * 1000.0 / reply.took_ms.max(1) as f64;
    let mut left = plan.clients;
    say(&format!("enrolling {left} Sonde agents"));
    while left > 0 {
        let part = left.min(TOKENS_AT_ONCE);
        tell(&mut agents, Command::Tokens { count: part as u64 }).await?;
        tell(&mut agents, Command::Enrol { tls: false }).await?;
        left -= part;
    }
    Ok(Row {
        measure: "Sonde enrolments with TLS and signatures".into(),
        unit: "per second",
        hub: rate,
        forwarder: None,
        goal: Goal::at_least(200.0),
        original: Some("4.9/s"),
        note: format!("CPU {:.2} ms each; the agents' own side runs on the same machine", millis_each(cpu, count)),
    })
}

async fn idle(plan: &Plan, hub: &Server, token: &str, agents: &mut SwarmProcess) -> anyhow::Result<Row> {
    let count = plan.clients;
    say(&format!("memory of {count} idle Sonde agents"));
    let before = settled(plan, hub, token).await?;
    tell(agents, Command::Resize { agents: count as u64 }).await?;
    at_rest(hub, token, Some(count)).await?;
    let after = settled(plan, hub, token).await?;
    Ok(Row {
        measure: format!("user memory per idle Sonde agent, {count} agents"),
        unit: "KiB",
        hub: after.saturating_sub(before) as f64 / 1024.0 / count as f64,
        forwarder: None,
        goal: Goal::at_most(12.0),
        original: Some("12–27 kB"),
        note: String::new(),
    })
}

async fn registrations(plan: &Plan, hub: &Server, token: &str, agents: &mut SwarmProcess) -> anyhow::Result<Row> {
    let count = plan.handshakes;
    say(&format!("{count} registrations"));
    let before = hub.usage()?.cpu;
    let reply = tell(agents, Command::Reconnect { count }).await?;
    at_rest(hub, token, Some(plan.clients)).await?;
    let cpu = hub.usage()?.cpu.saturating_sub(before);
    Ok(Row {
        measure: "CPU per Sonde registration".into(),
        unit: "ms",
        hub: millis_each(cpu, count as usize),
        forwarder: None,
        goal: Goal::at_most(0.2),
        original: Some("1.0 ms"),
        note: format!(
            "{:.0}/s, each with its connection and upgrade",
            count as f64 * 1000.0 / reply.took_ms.max(1) as f64
        ),
    })
}

async fn probes(plan: &Plan, hub: &Server, token: &str, agents: &mut SwarmProcess) -> anyhow::Result<Vec<Row>> {
    let asked = ASKED.min(plan.clients);
    tell(agents, Command::Resize { agents: asked as u64 }).await?;
    at_rest(hub, token, Some(asked)).await?;
    let names: Arc<[String]> = (0..asked).map(Fleet::name).collect();
    let config = LoadConfig { token: Some(token.to_owned()), way: Way::Probe, ..LoadConfig::new(hub.address, names) };
    let mut rows = Vec::new();
    for callers in [1, 16, MANY_CALLERS] {
        say(&format!("probes, {callers} callers"));
        let mut series = CallSeries::default();
        for _ in 0..plan.rounds {
            series.push(target::measure(hub, config.clone(), plan, callers).await?);
        }
        let plural = if callers == 1 { "caller" } else { "callers" };
        rows.push(Row {
            measure: format!("CPU per uncached probe, {callers} {plural}"),
            unit: "ms",
            hub: series.cpu_ms(),
            forwarder: None,
            goal: Goal::at_most(0.15),
            original: Some("0.87 ms"),
            note: series.describe(),
        });
        if callers == MANY_CALLERS {
            rows.push(Row {
                measure: format!("p99 latency of a probe, {callers} callers"),
                unit: "ms",
                hub: series.p99_ms(),
                forwarder: None,
                goal: Goal::at_most(15.0),
                original: Some("364 ms"),
                note: String::new(),
            });
        }
    }
    Ok(rows)
}

async fn tell(agents: &mut SwarmProcess, command: Command) -> anyhow::Result<Reply> {
    let reply = agents.command(command).await?;
    if let Some(problem) = &reply.problem {
        anyhow::bail!("{command:?}: {problem}");
    }
    ensure!(reply.report.lost == 0, "{} agents lost their connection by {command:?}", reply.report.lost);
    Ok(reply)
}

async fn authority(hub: &Server, token: &str) -> anyhow::Result<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Authority {
        ca_cert_pem: String,
    }
    let (status, body) = Client::new(hub.address).get("/api/v1/ca", Some(&bearer(token)?)).await?;
    ensure!(status.is_success(), "GET /api/v1/ca failed: HTTP {status}");
    Ok(serde_json::from_slice::<Authority>(&body)?.ca_cert_pem)
}

/// Waits until everything is committed, and until there are so many links.
async fn at_rest(hub: &Server, token: &str, links: Option<usize>) -> anyhow::Result<()> {
    let mut client = Client::new(hub.address);
    let bearer = bearer(token)?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (_, body) = client.get("/metrics", Some(&bearer)).await?;
        let page = String::from_utf8_lossy(&body);
        let linked = links.is_none_or(|links| value(&page, "convoke_links") == Some(links as u64));
        if linked && value(&page, "convoke_store_queue") == Some(0) {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "the hub is still working after a minute; its metrics:\n{page}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// User memory once it has stopped falling.
async fn settled(plan: &Plan, hub: &Server, token: &str) -> anyhow::Result<u64> {
    let mut lowest = u64::MAX;
    for _ in 0..10 {
        tokio::time::sleep(plan.settle).await;
        // Allocators give back when they are used.
        at_rest(hub, token, None).await?;
        let now = hub.usage()?.user_memory;
        if now >= lowest.saturating_sub(lowest / 100) {
            return Ok(now.min(lowest));
        }
        lowest = now;
    }
    Ok(lowest)
}

fn millis_each(cpu: Duration, count: usize) -> f64 {
    cpu.as_secs_f64() * 1000.0 / count.max(1) as f64
}
