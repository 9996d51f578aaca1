//! How much of what is measured.

use std::path::PathBuf;
use std::time::Duration;

use super::{BenchArgs, Measure};

/// The sizes of one run.
#[derive(Debug)]
pub(super) struct Plan {
    /// Agents in the fleet.
    pub(super) agents: usize,
    /// Agents at each of several hubs.
    pub(super) at_each: usize,
    /// Agents connected while calls are measured.
    pub(super) few: usize,
    /// Each load.
    pub(super) load: Duration,
    /// Before each load, unmeasured.
    pub(super) warm_up: Duration,
    /// Loads of each kind.
    pub(super) rounds: u32,
    /// Reconnections.
    pub(super) handshakes: u64,
    /// Snapshots.
    pub(super) snapshots: u64,
    /// Overviews of the whole fleet in each round.
    pub(super) overviews: u32,
    /// The time in which a process comes to rest.
    pub(super) settle: Duration,
    /// Where the data goes.
    pub(super) scratch: Option<PathBuf>,
    /// Settings of the hub.
    pub(super) settings: Vec<String>,
    /// Yonexus clients, or Sonde agents, that are connected and idle.
    pub(super) clients: usize,
    /// Sonde enrolments over TLS.
    pub(super) enrolments: usize,
    /// Whether the figures are rough.
    pub(super) quick: bool,
    only: Vec<Measure>,
}

impl Plan {
    pub(super) fn new(args: &BenchArgs) -> Self {
        let size = |full: u32, quick: u32| if args.quick { quick } else { full };
        let agents = size(args.agents.unwrap_or(10_000), 200) as usize;
        let seconds = if args.quick { 0.5 } else { args.seconds };
        Self {
            agents,
            at_each: size(args.agents.unwrap_or(15_000), 100) as usize,
            few: agents.min(if args.quick { 50 } else { 100 }),
            load: Duration::from_secs_f64(seconds),
            warm_up: Duration::from_secs_f64(seconds / 6.0),
            rounds: size(args.rounds, 1),
            handshakes: size(args.handshakes, 200).into(),
            // The overview wants one of each agent.
            snapshots: u64::from(size(args.snapshots, 400)).max(agents as u64),
            overviews: size(300, 10),
            settle: Duration::from_millis(size(2000, 200).into()),
            scratch: args.scratch.clone(),
            // Agents push here as fast as they can; what is asked for comes last and wins.
            settings: ["kenny.snapshots_per_minute=1000000".to_owned()].into_iter().chain(args.set.clone()).collect(),
            clients: agents.min(if args.quick { 50 } else { 2000 }),
            enrolments: size(1000, 50) as usize,
            quick: args.quick,
            only: args.only.clone(),
        }
    }

    /// Whether anything is measured that takes a hub.
    pub(super) fn wants_a_hub(&self) -> bool {
        self.only.is_empty() || self.only.iter().any(|measure| ![Measure::Rpc, Measure::Cluster].contains(measure))
    }

    /// Whether several hubs are measured, which takes what a machine has: only for who names it.
    pub(super) fn wants_a_cluster(&self) -> bool {
        self.only.contains(&Measure::Cluster)
    }

    /// Whether this is measured.
    pub(super) fn wants(&self, measure: Measure) -> bool {
        self.only.is_empty() || self.only.contains(&measure)
    }
}
