//! A server under measurement, with the swarm of agents that is connected to it: the hub or the bare forwarder. What is
//! done to one is done to the other by the same code.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use convoke_sim::control::{Command, Reply};
use convoke_sim::http::{self, Client};
use convoke_sim::load::{self, LoadConfig, Way};
use convoke_sim::roster::Roster;
use convoke_sim::stage::{Server, Stage, SwarmProcess};
use tokio::time::Instant;

use super::calls::CallPoint;
use super::plan::Plan;

/// How long a caller waits for one answer.
const CALL_PATIENCE: Duration = Duration::from_secs(15);
/// How long a server may take to do what it was given.
const PATIENCE: Duration = Duration::from_secs(180);
/// How many times the memory may fall before it is taken as it is.
const SETTLE_ROUNDS: u32 = 10;
/// How often it is asked whether it has.
const POLL: Duration = Duration::from_millis(20);

/// Whose snapshots agents push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Machines {
    /// Of machines that are well but for what is common.
    Common,
    /// Of machines of which no two are alike.
    Unlike,
}

/// A server and its agents.
#[derive(Debug)]
pub(super) struct Target {
    server: Server,
    swarm: SwarmProcess,
    client: Client,
    token: Option<String>,
    names: Arc<[String]>,
    connected: usize,
}

impl Target {
    /// `server` with a swarm that can have all agents of the plan; none is connected yet.
    pub(super) fn new(
        stage: &Stage,
        plan: &Plan,
        server: Server,
        token: Option<&str>,
        seed: &str,
    ) -> anyhow::Result<Self> {
        let swarm = stage.swarm(&server, seed)?;
        let roster = Roster::new(seed);
        Ok(Self {
            client: Client::new(server.address),
            server,
            swarm,
            token: token.map(Into::into),
            names: (0..plan.agents).map(|index| roster.id(index).to_string()).collect(),
            connected: 0,
        })
    }

    /// Connects agents, or lets some leave, until there are `count`, and waits until all has come to rest.
    pub(super) async fn connect(&mut self, plan: &Plan, count: usize) -> anyhow::Result<()> {
        if count == self.connected {
            return Ok(());
        }
        let reply = self.tell(Command::Resize { agents: count as u64 }).await?;
        let problem = reply.problem.unwrap_or_else(|| "no reason given".into());
        let connected = reply.report.connected;
        ensure!(connected == count as u64, "{connected} of {count} agents are connected: {problem}");
        self.connected = count;
        self.rest(plan).await
    }

    /// User memory of each of `count` idle agents, in bytes. None must be connected before.
    pub(super) async fn memory(&mut self, plan: &Plan, count: usize) -> anyhow::Result<f64> {
        let before = self.settled_memory(plan).await?;
        self.connect(plan, count).await?;
        let after = self.settled_memory(plan).await?;
        Ok((after as f64 - before as f64) / count as f64)
    }

    /// User memory once it has stopped falling: what starting up, or connecting, has used for a moment is given back by
    /// and by, and would count for or against the agents.
    async fn settled_memory(&mut self, plan: &Plan) -> anyhow::Result<u64> {
        let mut lowest = u64::MAX;
        for _ in 0..SETTLE_ROUNDS {
            tokio::time::sleep(plan.settle).await;
            // Allocators give back when they are used.
            self.page().await?;
            let now = self.server.usage()?.user_memory;
            if now >= lowest.saturating_sub(lowest / 100) {
                return Ok(now.min(lowest));
            }
            lowest = now;
        }
        Ok(lowest)
    }

    /// Calls to the connected agents in turn.
    pub(super) async fn calls(&self, plan: &Plan, callers: usize) -> anyhow::Result<CallPoint> {
        self.calls_to(self.connected, plan, callers).await
    }

    /// Calls to the first `few` of the connected agents in turn.
    pub(super) async fn calls_to(&self, few: usize, plan: &Plan, callers: usize) -> anyhow::Result<CallPoint> {
        let called = self.called(few);
        let config = LoadConfig { token: self.token.clone(), ..LoadConfig::new(self.server.address, called) };
        measure(&self.server, config, plan, callers).await
    }

    /// The same through `/mcp`.
    pub(super) async fn mcp_calls(&self, way: Way, plan: &Plan, callers: usize) -> anyhow::Result<CallPoint> {
        mcp_calls(way, &self.server, self.token.clone(), self.called(self.connected), plan, callers).await
    }

    fn called(&self, most: usize) -> Arc<[String]> {
        self.names.iter().take(self.connected.min(most)).cloned().collect()
    }

    /// A storm of `count` reconnections: CPU of each, in milliseconds, and how many a second.
    pub(super) async fn handshakes(&mut self, count: u64) -> anyhow::Result<(f64, f64)> {
        let done = self.metric("convoke_handshakes_total").await? + count;
        let before = self.server.usage()?.cpu;
        let reply = self.tell(Command::Reconnect { count }).await?;
        self.until(|page| value(page, "convoke_handshakes_total") == Some(done)).await?;
        self.at_rest().await?;
        let cpu = self.server.usage()?.cpu.saturating_sub(before);
        Ok((millis_each(cpu, count), per_second(count, &reply)))
    }

    /// `count` snapshots pushed and committed: CPU of each, in milliseconds, and how many a second were sent.
    pub(super) async fn telemetry(&mut self, count: u64, machines: Machines) -> anyhow::Result<(f64, f64)> {
        let done = self.metric("convoke_snapshots_total").await? + count;
        let before = self.server.usage()?.cpu;
        let reply =
            self.tell(Command::Push { count, per_second: None, unlike: machines == Machines::Unlike }).await?;
        self.until(|page| value(page, "convoke_snapshots_total") == Some(done)).await?;
        self.at_rest().await?;
        let cpu = self.server.usage()?.cpu.saturating_sub(before);
        let page = self.page().await?;
        let dropped = value(&page, r#"convoke_drops_total{what="snapshots"}"#).unwrap_or(0);
        ensure!(dropped == 0, "{dropped} of {count} snapshots were dropped");
        Ok((millis_each(cpu, count), per_second(count, &reply)))
    }

    /// `count` overviews of the fleet: CPU of each, in milliseconds, and its size in bytes.
    pub(super) async fn overviews(&mut self, count: u32) -> anyhow::Result<(f64, usize)> {
        let mut size = self.read("/api/fleet").await?.len();
        let before = self.server.usage()?.cpu;
        for _ in 0..count {
            size = self.read("/api/fleet").await?.len();
        }
        let cpu = self.server.usage()?.cpu.saturating_sub(before);
        Ok((millis_each(cpu, count.into()), size))
    }

    /// Waits until nothing is under way, and a while longer.
    async fn rest(&mut self, plan: &Plan) -> anyhow::Result<()> {
        let links = self.connected as u64;
        self.until(|page| value(page, "convoke_links") == Some(links)).await?;
        self.at_rest().await?;
        tokio::time::sleep(plan.settle).await;
        Ok(())
    }

    /// Waits until everything is committed.
    async fn at_rest(&mut self) -> anyhow::Result<()> {
        self.until(|page| value(page, "convoke_store_queue") == Some(0)).await
    }

    async fn tell(&mut self, command: Command) -> anyhow::Result<Reply> {
        let before = self.swarm.command(Command::Report).await?;
        let reply = self.swarm.command(command).await?;
        let lost = reply.report.lost - before.report.lost;
        ensure!(lost == 0, "{lost} agents lost their connection during {command:?}");
        Ok(reply)
    }

    async fn metric(&mut self, name: &str) -> anyhow::Result<u64> {
        let page = self.page().await?;
        value(&page, name).with_context(|| format!("/metrics does not have {name}"))
    }

    async fn until(&mut self, holds: impl Fn(&str) -> bool) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let page = self.page().await?;
            if holds(&page) {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("the server did not finish within {} s; its metrics:\n{page}", PATIENCE.as_secs());
            }
            tokio::time::sleep(POLL).await;
        }
    }

    async fn page(&mut self) -> anyhow::Result<String> {
        Ok(String::from_utf8(self.read("/metrics").await?)?)
    }

    async fn read(&mut self, path: &str) -> anyhow::Result<Vec<u8>> {
        let bearer = self.token.as_deref().map(http::bearer).transpose()?;
        let answer = self.client.get(path, bearer.as_ref());
        let (status, body) = tokio::time::timeout(CALL_PATIENCE, answer).await.context("no answer in time")??;
        ensure!(status.is_success(), "GET {path} failed: HTTP {status}");
        Ok(body.to_vec())
    }
}

/// Calls of a server's MCP tool.
pub(super) async fn mcp_calls(
    way: Way,
    server: &Server,
    token: Option<String>,
    agents: Arc<[String]>,
    plan: &Plan,
    callers: usize,
) -> anyhow::Result<CallPoint> {
    let config = LoadConfig { token, way, ..LoadConfig::new(server.address, agents) };
    measure(server, config, plan, callers).await
}

/// A load, and what it cost the server.
pub(super) async fn measure(
    server: &Server,
    config: LoadConfig,
    plan: &Plan,
    callers: usize,
) -> anyhow::Result<CallPoint> {
    let config = LoadConfig { callers, time: plan.warm_up, timeout: CALL_PATIENCE, ..config };
    load::run_on_own_thread(config.clone()).await?;
    let before = server.usage()?.cpu;
    let report = load::run_on_own_thread(LoadConfig { time: plan.load, ..config }).await?;
    let cpu = server.usage()?.cpu.saturating_sub(before);
    ensure!(
        report.answered > 0,
        "no call succeeded: {} failed, {} were refused, {} timed out, {} broke",
        report.failed,
        report.refused,
        report.timed_out,
        report.broken
    );
    Ok(CallPoint {
        cpu_ms: millis_each(cpu, report.answered + report.errors()),
        rate: report.rate(),
        p50: report.latency.quantile(0.50),
        p99: report.latency.quantile(0.99),
        errors: report.errors(),
    })
}

/// The value of a metric without labels, or with exactly these.
pub(super) fn value(page: &str, name: &str) -> Option<u64> {
    let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    value.trim().parse().ok()
}

fn millis_each(cpu: Duration, count: u64) -> f64 {
    cpu.as_secs_f64() * 1000.0 / count.max(1) as f64
}

fn per_second(count: u64, reply: &Reply) -> f64 {
    count as f64 * 1000.0 / reply.took_ms.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::value;

    #[test]
    fn metrics_are_found_by_their_whole_name() {
        let page =
            "# HELP convoke_links Links.\nconvoke_links_open 9\nconvoke_links 7\nconvoke_drops_total{what=\"x\"} 3\n";
        assert_eq!(value(page, "convoke_links"), Some(7));
        assert_eq!(value(page, "convoke_drops_total{what=\"x\"}"), Some(3));
        assert_eq!(value(page, "convoke_drops_total"), None);
    }
}
