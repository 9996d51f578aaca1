//! What a view of the whole fleet costs, and whether that grows faster than the fleet.

use super::Measure;
use super::calls::median;
use super::measure::{Bench, SEED, TOKEN, say};
use super::table::{Goal, Row};
use super::target::{Machines, Target};

/// The overview is measured beside that of a half and of a tenth of the fleet: one step, and the way from a fleet that
/// fits the processor's caches to one that does not.
const PARTS: [u32; 2] = [2, 10];

/// A hub with a part of the fleet.
struct Part {
    /// One in so many agents.
    one_in: u32,
    agents: usize,
    target: Target,
}

impl Bench<'_> {
    pub(super) async fn fleet(&mut self, mut hub: Target) -> anyhow::Result<()> {
        let agents = self.plan.agents;
        if !self.plan.wants(Measure::Telemetry) {
            hub.connect(self.plan, agents).await?;
            hub.telemetry(agents as u64, Machines::Common).await?;
        }
        let mut parts = Vec::new();
        for one_in in PARTS {
            let agents = (agents / one_in as usize).max(1);
            let server = self.hub(&format!("fleet-{one_in}"), agents).await?;
            let mut target = Target::new(self.stage, self.plan, server, Some(TOKEN), SEED)?;
            target.connect(self.plan, agents).await?;
            target.telemetry(agents as u64, Machines::Common).await?;
            parts.push(Part { one_in, agents, target });
        }
        let views = format!("CPU per fleet overview, {agents} agents");
        self.overviews(views, Some("59 ms at 200 agents"), &mut hub, &mut parts).await?;
        hub.telemetry(agents as u64, Machines::Unlike).await?;
        for part in &mut parts {
            part.target.telemetry(part.agents as u64, Machines::Unlike).await?;
        }
        self.overviews("the same, no two machines alike".into(), None, &mut hub, &mut parts).await
    }

    async fn overviews(
        &mut self,
        measure: String,
        original: Option<&'static str>,
        hub: &mut Target,
        parts: &mut [Part],
    ) -> anyhow::Result<()> {
        let (agents, views) = (self.plan.agents, self.plan.overviews);
        say(&format!("fleet overviews of {agents} agents and of fewer"));
        let (mut whole, mut bytes) = (Vec::new(), 0);
        let mut of_parts = vec![Vec::new(); parts.len()];
        for _ in 0..self.plan.rounds {
            let (cpu_ms, size) = hub.overviews(views).await?;
            whole.push(cpu_ms);
            bytes = size;
            for (part, taken) in parts.iter_mut().zip(&mut of_parts) {
                // As many more as each is smaller: the same work, and so the same precision.
                taken.push(part.target.overviews(views * part.one_in).await?.0);
            }
        }
        let whole = median(whole);
        let note = format!("{:.1} MB each", bytes as f64 / 1e6);
        let goal = Goal::at_most(10.0);
        self.row(Measure::Fleet, Row { measure, unit: "ms", hub: whole, forwarder: None, goal, original, note });
        for (Part { agents: fewer, .. }, taken) in parts.iter().zip(of_parts) {
            let taken = median(taken);
            self.row(
                Measure::Fleet,
                Row {
                    measure: format!("cost per agent, relative to {fewer} agents"),
                    unit: "×",
                    hub: (whole / agents as f64) / (taken / *fewer as f64),
                    forwarder: None,
                    goal: Goal::at_most(1.25),
                    original: None,
                    note: format!("{taken:.3} ms for {fewer} agents; 1 is linear"),
                },
            );
        }
        Ok(())
    }
}
