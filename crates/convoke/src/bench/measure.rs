//! The run: which process does what, in which order.
//!
//! The order matters. Memory comes first, at a hub that has just been started on a data directory in which the agents
//! are enrolled already: what enrolment left in the allocator would hide what a connection takes. Calls come before
//! telemetry, so that they meet a store of the same size in every run. Forwarder and hub take turns wherever one is
//! compared with the other, since a machine that others use is not the same machine a minute later.

use std::env;

use anyhow::Context as _;
use convoke_sim::enrol::enrol;
use convoke_sim::roster::Roster;
use convoke_sim::stage::{Server, Stage};

use super::Measure;
use super::calls::{CallSeries, GrowthSeries};
use super::plan::Plan;
use super::table::{Goal, Row};
use super::target::{Machines, Target};

/// The keys of the simulated agents follow from this.
pub(super) const SEED: &str = "bench";
/// The hubs of a bench listen on loopback, live for minutes and guard simulated agents: their token may be known.
pub(super) const TOKEN: &str = "bench-operator-token-0123456789abcdef0123456789abcdef";
/// Connections over which agents are enrolled.
const ENROL_CONNECTIONS: usize = 32;
/// Callers of a loaded hub.
pub(super) const MANY_CALLERS: usize = 32;

/// Measures everything that the plan wants.
pub(super) async fn all(plan: &Plan) -> anyhow::Result<Vec<Row>> {
    let mut rows = if plan.wants_a_hub() { of_the_hub(plan).await? } else { Vec::new() };
    if plan.wants_a_cluster() {
        rows.extend(of_several_hubs(plan).await?);
    }
    if plan.wants(Measure::Rpc) {
        say("the coding backend");
        rows.extend(tokio::task::block_in_place(|| super::rpc::measure(plan))?);
    }
    Ok(rows)
}

#[cfg(target_os = "linux")]
async fn of_several_hubs(plan: &Plan) -> anyhow::Result<Vec<Row>> {
    super::cluster::measure(plan).await
}

#[cfg(not(target_os = "linux"))]
async fn of_several_hubs(_: &Plan) -> anyhow::Result<Vec<Row>> {
    anyhow::bail!("several hubs are measured on Linux only")
}

async fn of_the_hub(plan: &Plan) -> anyhow::Result<Vec<Row>> {
    let program = env::current_exe().context("cannot find the path of this program")?;
    let stage = Stage::new(program, plan.scratch.as_deref())?;
    let mut bench = Bench { plan, stage: &stage, rows: Vec::new() };
    if Measure::OF_HUB.iter().any(|measure| plan.wants(*measure)) {
        bench.of_hub().await?;
    }
    if plan.wants(Measure::Agent) {
        let rows = super::agent::measure(plan, &stage).await?;
        bench.rows.extend(rows.into_iter().map(|row| (Measure::Agent, row)));
    }
    if plan.wants(Measure::Rules) {
        for row in super::rules::measure(plan, &stage, TOKEN).await? {
            bench.row(Measure::Rules, row);
        }
    }
    if plan.wants(Measure::Sonde) {
        for row in super::sonde::measure(plan, &stage, TOKEN).await? {
            bench.row(Measure::Sonde, row);
        }
    }
    if plan.wants(Measure::Rooms) {
        for row in super::rooms::measure(plan, &stage, TOKEN).await? {
            bench.row(Measure::Rooms, row);
        }
    }
    // In the order of the goals, not in that of the run.
    bench.rows.sort_by_key(|(measure, _)| *measure);
    Ok(bench.rows.into_iter().map(|(_, row)| row).collect())
}

pub(super) struct Bench<'a> {
    pub(super) plan: &'a Plan,
    pub(super) stage: &'a Stage,
    rows: Vec<(Measure, Row)>,
}

impl Bench<'_> {
    /// Everything that loads a hub.
    async fn of_hub(&mut self) -> anyhow::Result<()> {
        let (plan, stage) = (self.plan, self.stage);
        let hub = self.hub("fleet", plan.agents).await?;
        let mut hub = Target::new(stage, plan, hub, Some(TOKEN), SEED)?;
        let mut forwarder = Target::new(stage, plan, stage.forwarder().await?, None, SEED)?;
        if plan.wants(Measure::Memory) {
            self.memory(&mut hub, &mut forwarder).await?;
        }
        if plan.wants(Measure::Handshakes) {
            self.handshakes(&mut hub, &mut forwarder).await?;
        }
        if plan.wants(Measure::Growth) {
            self.growth(&mut hub, &mut forwarder).await?;
        }
        if plan.wants(Measure::Calls) {
            self.calls(&mut hub, &mut forwarder).await?;
        }
        if plan.wants(Measure::Mcp) {
            self.mcp(&mut hub).await?;
        }
        if plan.wants(Measure::Telemetry) {
            self.telemetry(&mut hub, &mut forwarder).await?;
        }
        drop(forwarder);
        if plan.wants(Measure::Fleet) {
            self.fleet(hub).await?;
        }
        Ok(())
    }

    /// A hub, freshly started, that knows `agents` agents.
    pub(super) async fn hub(&self, data: &str, agents: usize) -> anyhow::Result<Server> {
        say(&format!("enrolling {agents} agents"));
        let settings = &self.plan.settings;
        let first = self.stage.hub(data, TOKEN, settings).await?;
        let roster = Roster::new(SEED);
        let enrolled = enrol(first.address, TOKEN, &roster, 0..agents, ENROL_CONNECTIONS).await?;
        say(&format!("  {:.0} a second", enrolled.count as f64 / enrolled.took.as_secs_f64()));
        // Killed, not stopped: what it acknowledged is there all the same, or the next step fails.
        first.stop().await?;
        Ok(self.stage.hub(data, TOKEN, settings).await?)
    }

    async fn memory(&mut self, hub: &mut Target, forwarder: &mut Target) -> anyhow::Result<()> {
        let agents = self.plan.agents;
        say(&format!("memory of {agents} idle agents"));
        let bare = forwarder.memory(self.plan, agents).await? / 1024.0;
        let own = hub.memory(self.plan, agents).await? / 1024.0;
        self.row(
            Measure::Memory,
            Row {
                measure: format!("user memory per idle agent, {agents} agents"),
                unit: "KiB",
                hub: own,
                forwarder: Some(bare),
                goal: Goal::at_most(12.0),
                original: Some("31 kB"),
                note: String::new(),
            },
        );
        Ok(())
    }

    async fn handshakes(&mut self, hub: &mut Target, forwarder: &mut Target) -> anyhow::Result<()> {
        let count = self.plan.handshakes;
        self.connect(hub, forwarder, self.plan.agents).await?;
        say(&format!("{count} reconnects"));
        let (bare, _) = forwarder.handshakes(count).await?;
        let (own, rate) = hub.handshakes(count).await?;
        self.row(
            Measure::Handshakes,
            Row {
                measure: "CPU per mutual-auth handshake".into(),
                unit: "ms",
                hub: own,
                forwarder: Some(bare),
                goal: Goal::at_most(0.25),
                original: Some("1.1 ms"),
                note: format!("{rate:.0}/s, {count} in all; the forwarder signs but does not verify"),
            },
        );
        Ok(())
    }

    /// Two questions. Does it cost a call anything how many agents are connected? For that the same hundred are called,
    /// and nothing else changes. And what do calls to all of them cost? Each agent is called a hundred times less often
    /// then, its memory has left the caches, in the kernel above all, and TCP sends an acknowledgement of its own where the
    /// next call carried it along: the forwarder tells how much of that is the machine's.
    async fn growth(&mut self, hub: &mut Target, forwarder: &mut Target) -> anyhow::Result<()> {
        let Plan { agents, few, .. } = *self.plan;
        let mut own = GrowthSeries::default();
        let mut bare = GrowthSeries::default();
        // In turns, although connecting takes time: two rates a minute apart would compare what else the machine does.
        for _ in 0..self.plan.rounds {
            // One after the other: the heartbeats of another ten thousand would be the machine's work, and nobody's.
            for (target, series) in [(&mut *forwarder, &mut bare), (&mut *hub, &mut own)] {
                say(&format!("calls with {agents} agents connected"));
                target.connect(self.plan, agents).await?;
                series.same.push(target.calls_to(few, self.plan, MANY_CALLERS).await?);
                series.all.push(target.calls(self.plan, MANY_CALLERS).await?);
                say(&format!("calls with {few} agents connected"));
                target.connect(self.plan, few).await?;
                series.few.push(target.calls(self.plan, MANY_CALLERS).await?);
                target.connect(self.plan, 0).await?;
            }
        }
        let row = |measure: String, goal: Goal, many: fn(&GrowthSeries) -> &CallSeries| Row {
            measure,
            unit: "%",
            hub: own.change(many),
            forwarder: Some(bare.change(many)),
            goal,
            original: None,
            note: format!("{}; forwarder {}", own.describe(many), bare.describe(many)),
        };
        let same =
            row(format!("calls/s with {agents} agents connected, against {few}"), Goal::at_least(-10.0), |series| {
                &series.same
            });
        let all = row("the same, calls to all of them in turn".into(), Goal::NONE, |series| &series.all);
        self.row(Measure::Growth, same);
        self.row(Measure::Growth, all);
        Ok(())
    }

    async fn calls(&mut self, hub: &mut Target, forwarder: &mut Target) -> anyhow::Result<()> {
        self.connect(hub, forwarder, self.plan.few).await?;
        let server = self.stage.durable_forwarder().await?;
        let mut durable = Target::new(self.stage, self.plan, server, None, SEED)?;
        durable.connect(self.plan, self.plan.few).await?;
        self.disk(Measure::Calls)?;
        for callers in [1, 8, MANY_CALLERS] {
            say(&format!("calls, {callers} at once"));
            let (mut own, mut bare, mut synced) = <(CallSeries, CallSeries, CallSeries)>::default();
            for _ in 0..self.plan.rounds {
                bare.push(forwarder.calls(self.plan, callers).await?);
                synced.push(durable.calls(self.plan, callers).await?);
                own.push(hub.calls(self.plan, callers).await?);
            }
            let plural = if callers == 1 { "caller" } else { "callers" };
            self.row(
                Measure::Calls,
                Row {
                    measure: format!("CPU per durable call, {callers} {plural}"),
                    unit: "ms",
                    hub: own.cpu_ms(),
                    forwarder: Some(bare.cpu_ms()),
                    goal: match callers {
                        1 => Goal::at_most(0.25),
                        32 => Goal::at_most(0.06),
                        _ => Goal::NONE,
                    },
                    original: Some("2.1 ms"),
                    note: format!("{}; forwarder {}", own.describe(), bare.describe()),
                },
            );
            self.row(
                Measure::Calls,
                Row {
                    measure: "CPU per call of a forwarder that writes and syncs".into(),
                    unit: "ms",
                    hub: synced.cpu_ms(),
                    forwarder: Some(bare.cpu_ms()),
                    goal: Goal::NONE,
                    original: None,
                    note: format!("no hub: a thread writes each call and waits for the disk; {}", synced.describe()),
                },
            );
            if callers == MANY_CALLERS {
                self.row(
                    Measure::Calls,
                    Row {
                        measure: format!("p99 latency, {callers} callers"),
                        unit: "ms",
                        hub: own.p99_ms(),
                        forwarder: Some(bare.p99_ms()),
                        goal: Goal::at_most(10.0),
                        original: Some("182 ms"),
                        note: String::new(),
                    },
                );
            }
        }
        Ok(())
    }

    /// The machine's limit for what is durable, beside what is.
    pub(super) fn disk(&mut self, of: Measure) -> anyhow::Result<()> {
        say("one write and sync");
        let (directory, rounds) = (self.stage.directory(), self.plan.rounds);
        let row = tokio::task::block_in_place(|| super::disk::measure(directory, rounds))?;
        self.row(of, row);
        Ok(())
    }

    async fn telemetry(&mut self, hub: &mut Target, forwarder: &mut Target) -> anyhow::Result<()> {
        let count = self.plan.snapshots;
        self.connect(hub, forwarder, self.plan.agents).await?;
        say(&format!("{count} snapshots"));
        let (bare, _) = forwarder.telemetry(count, Machines::Common).await?;
        let (own, rate) = hub.telemetry(count, Machines::Common).await?;
        self.row(
            Measure::Telemetry,
            Row {
                measure: "CPU per durable snapshot of 6 kB".into(),
                unit: "ms",
                hub: own,
                forwarder: Some(bare),
                goal: Goal::at_most(0.08),
                original: Some("0.40 ms"),
                note: format!("{rate:.0}/s; the forwarder reads them and keeps nothing"),
            },
        );
        Ok(())
    }

    async fn connect(&self, hub: &mut Target, forwarder: &mut Target, agents: usize) -> anyhow::Result<()> {
        forwarder.connect(self.plan, agents).await?;
        hub.connect(self.plan, agents).await
    }

    pub(super) fn row(&mut self, measure: Measure, row: Row) {
        self.rows.push((measure, row));
    }
}

/// Tells whoever waits what is going on.
pub(super) fn say(what: &str) {
    eprintln!("{what}");
}
