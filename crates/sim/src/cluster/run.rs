//! One run, from the first process to the last check.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use convoke_kenny::heartbeat;
use hyper::{Method, StatusCode};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::callers::{self, World};
use super::check::{Promise, Violation, check};
use super::dice::Dice;
use super::faults::{Drops, Fault, Kind, Place, Planned, plan};
use super::fleet::{Clock, Fleet, at_hub};
use super::history::{Disturbance, Log, Record};
use super::net::{self, Ground};
use super::parts::{Parts, Setup};
use super::report::{Reached, Report};
use super::{ClusterError, Config, TOKEN};
use crate::enrol::enrol;
use crate::swarm::SwarmConfig;

const ENROL_CONNECTIONS: usize = 8;
/// How long everything may take to be well again once nothing is wrong any more.
const RECOVERY: Duration = Duration::from_secs(60);
const HEARTBEAT: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(250);
/// Calls under way while it is found out whether every agent is reachable.
const LOOKS: usize = 16;

/// Runs it in `dir`.
pub(super) async fn run(config: &Config, dir: &Path) -> Result<Report, ClusterError> {
    let setup = Setup {
        program: config.program.clone(),
        hubs: config.hubs,
        lease_s: config.lease_s,
        durable: false,
        settings: Vec::new(),
        token: TOKEN.into(),
    };
    let places: Vec<_> = (0..config.hubs).map(Place::Hub).chain([Place::Postgres, Place::Nats]).collect();
    net::make(&places).await?;
    let parts = Parts::new(Ground::Namespaces, setup, dir)?;
    Run::start(config, parts, places).await?.whole().await
}

struct Run<'a> {
    config: &'a Config,
    parts: Parts,
    places: Vec<Place>,
    world: Arc<World>,
    fleet: Fleet,
    log: Arc<Log>,
    clock: Clock,
    drops: Vec<Drops>,
    probes: JoinSet<Reached>,
    report: Report,
}

/// Something that is due.
enum Step {
    Begin(Fault),
    End(Fault),
    Double,
}

impl<'a> Run<'a> {
    /// Starts all parts, and waits until every agent is reachable through every hub.
    async fn start(config: &'a Config, mut parts: Parts, places: Vec<Place>) -> Result<Self, ClusterError> {
        config.say("starting PostgreSQL and NATS");
        parts.start_servers().await?;
        let mut key = None;
        for hub in 0..config.hubs {
            config.say(&format!("starting hub {}", hub + 1));
            key = Some(parts.start_hub(hub).await?);
        }
        let key = key.ok_or_else(|| ClusterError::Odd("a cluster has a hub".into()))?;
        let (roster, all) = (config.roster(), config.agents + config.spare());
        config.say(&format!("enrolling {all} agents"));
        enrol(parts.address(0), TOKEN, &roster, 0..all, ENROL_CONNECTIONS).await?;
        let (log, clock) = (Arc::new(Log::default()), Clock::start());
        let world = World::new(config, parts.addresses(), Arc::clone(&log), clock)?;
        let swarm = SwarmConfig {
            heartbeat: HEARTBEAT,
            concurrency: 32,
            connect_timeout: HEARTBEAT * heartbeat::DEFAULT_MISSED,
            source: parts.ground.source_of_agents(),
            ..SwarmConfig::new(parts.address(0), key, roster)
        };
        let fleet = Fleet::start(all, &parts.addresses(), swarm, &log, clock);
        let mut run = Self {
            config,
            parts,
            places,
            world: Arc::new(world),
            fleet,
            log,
            clock,
            drops: Vec::new(),
            probes: JoinSet::new(),
            report: Report::default(),
        };
        config.say("waiting until every agent is reachable through every hub");
        if !run.is_well(0..all).await? {
            run.report.violations.push(Violation {
                promise: Promise::ComesBack,
                what: "the agents were not reachable through every hub before anything went wrong".into(),
            });
        }
        Ok(run)
    }

    async fn whole(mut self) -> Result<Report, ClusterError> {
        let config = self.config;
        let lease = Duration::from_secs(config.lease_s);
        let kinds: Vec<Kind> =
            config.kinds.iter().copied().filter(|kind| *kind != Kind::Clock || Parts::can_move_clocks()).collect();
        if kinds.len() < config.kinds.len() {
            config.say("libfaketime is not installed: no clock is moved");
        }
        let plan = plan(config.seed, &kinds, config.hubs, lease, config.time);
        let mut callers = callers::start(&self.world, config.callers);
        let began = self.clock.now();
        self.go_wrong(&plan).await?;
        self.report.took = self.clock.now() - began;
        config.say("all is put right; waiting until all is well");
        self.recover().await?;
        self.world.stop();
        while callers.join_next().await.is_some() {}
        while let Some(reached) = self.probes.join_next().await {
            self.report.reached.extend(reached.ok());
        }
        self.no_open_intents().await?;
        self.judge(lease).await?;
        Ok(self.report)
    }

    /// Follows the plan, and has agents make second links meanwhile.
    async fn go_wrong(&mut self, plan: &[Planned]) -> Result<(), ClusterError> {
        let begin = Instant::now();
        let mut steps = Vec::new();
        for planned in plan {
            steps.push((planned.at, Step::Begin(planned.fault)));
            steps.push((planned.at + planned.lasts, Step::End(planned.fault)));
        }
        let mut dice = Dice::new(self.config.seed, "doubles");
        let mut at = Duration::from_secs(1);
        while at < self.config.time {
            steps.push((at, Step::Double));
            at += dice.between(Duration::from_millis(300), Duration::from_secs(2));
        }
        steps.sort_by_key(|(at, _)| *at);
        for (at, step) in steps {
            while Instant::now() < begin + at {
                self.watch_hubs().await?;
                sleep_until((begin + at).min(Instant::now() + POLL)).await;
            }
            match step {
                Step::Begin(fault) => self.begin(fault).await?,
                Step::End(fault) => self.end(fault).await?,
                Step::Double => self.fleet.double(dice.below(self.config.agents), dice.below(self.config.hubs)),
            }
        }
        sleep_until(begin + self.config.time).await;
        Ok(())
    }

    async fn begin(&mut self, fault: Fault) -> Result<(), ClusterError> {
        let now = self.clock.now();
        self.config.say(&format!("{:8.3} s  {fault}", now.as_secs_f64()));
        self.report.faults += 1;
        match fault {
            Fault::Drop(drops) => {
                if [drops.from, drops.to].contains(&Place::Agents) {
                    let open = Disturbance { from: now, to: Duration::MAX };
                    self.log.write(|history| history.disturbances.push(open));
                }
                self.drops.push(drops);
                net::set_drops(&self.places, &self.drops).await
            }
            Fault::Pause(hub) => self.parts.signal(Place::Hub(hub), "STOP").await,
            Fault::Kill(hub) => {
                let agents = at_hub(&self.log, hub);
                self.parts.end(Place::Hub(hub), "KILL").await?;
                self.look_for(hub, agents);
                Ok(())
            }
            Fault::Postgres { hard } => self.parts.end(Place::Postgres, if hard { "KILL" } else { "QUIT" }).await,
            Fault::Nats => self.parts.end(Place::Nats, "KILL").await,
            Fault::Clock { seconds, .. } => self.parts.move_clock(seconds),
        }
    }

    async fn end(&mut self, fault: Fault) -> Result<(), ClusterError> {
        self.config.say(&format!("{:8.3} s    over: {fault}", self.clock.now().as_secs_f64()));
        match fault {
            Fault::Drop(drops) => {
                if let Some(place) = self.drops.iter().position(|other| *other == drops) {
                    self.drops.swap_remove(place);
                }
                let now = self.clock.now();
                if !self.drops.iter().any(|drops| [drops.from, drops.to].contains(&Place::Agents)) {
                    self.log.write(|history| {
                        history.disturbances.iter_mut().for_each(|one| one.to = one.to.min(now));
                    });
                }
                net::set_drops(&self.places, &self.drops).await
            }
            // One that was killed meanwhile is not there to be told.
            Fault::Pause(hub) => self.parts.signal(Place::Hub(hub), "CONT").await,
            Fault::Kill(hub) => self.start_hub(hub),
            Fault::Postgres { .. } => self.parts.start_postgres().await,
            Fault::Nats => self.parts.start_nats().await,
            Fault::Clock { .. } => self.parts.move_clock(0),
        }
    }

    /// Starts a hub, unless it runs; it may not be ready while other things are wrong.
    fn start_hub(&mut self, hub: usize) -> Result<(), ClusterError> {
        if self.parts.is_started(hub) { Ok(()) } else { self.parts.spawn_hub(hub) }
    }

    /// A hub that ends although nobody ended it is a defect. It is started again, as systemd would.
    async fn watch_hubs(&mut self) -> Result<(), ClusterError> {
        for hub in 0..self.config.hubs {
            if let Some(status) = self.parts.ended_by_itself(hub) {
                let now = self.clock.now().as_secs_f64();
                let what =
                    format!("hub {} ended by itself at {now:.3} s ({status}); see hub{}.log", hub + 1, hub + 1);
                self.config.say(&what);
                self.report.violations.push(Violation { promise: Promise::ComesBack, what });
                self.parts.spawn_hub(hub)?;
            }
        }
        Ok(())
    }

    /// Finds out when the agents of a hub that was killed are reachable again through the others.
    fn look_for(&mut self, hub: usize, agents: Vec<usize>) {
        let (world, killed) = (Arc::clone(&self.world), self.clock.now());
        let others: Vec<_> =
            (0..self.config.hubs).filter(|other| *other != hub && self.parts.is_started(*other)).collect();
        if others.is_empty() || agents.is_empty() {
            return;
        }
        let count = agents.len();
        self.probes.spawn(async move {
            let missing = reachable(&world, &others, agents, RECOVERY).await;
            let took = missing.is_empty().then(|| world.clock.now() - killed);
            Reached { hub, agents: count, killed, took }
        });
    }

    async fn recover(&mut self) -> Result<(), ClusterError> {
        self.drops.clear();
        net::set_drops(&self.places, &[]).await?;
        let now = self.clock.now();
        self.log.write(|history| history.disturbances.iter_mut().for_each(|one| one.to = one.to.min(now)));
        for hub in 0..self.config.hubs {
            self.parts.signal(Place::Hub(hub), "CONT").await?;
            self.start_hub(hub)?;
        }
        let begun = Instant::now();
        if !self.is_well(0..self.config.agents).await? {
            let what = format!(
                "not all agents were reachable through every hub {} s after the last fault",
                RECOVERY.as_secs()
            );
            self.report.violations.push(Violation { promise: Promise::ComesBack, what });
        }
        self.report.recovery = begun.elapsed();
        Ok(())
    }

    /// Waits until every hub says that it is ready and every agent is reachable through each, or for too long.
    async fn is_well(&mut self, agents: std::ops::Range<usize>) -> Result<bool, ClusterError> {
        let deadline = Instant::now() + RECOVERY;
        for hub in 0..self.config.hubs {
            loop {
                self.watch_hubs().await?;
                let ready = self.world.ask(hub, Method::GET, "/readyz", &Value::Null).await;
                if matches!(ready, Some((StatusCode::OK, _))) {
                    break;
                }
                if Instant::now() > deadline {
                    self.config.say(&format!("hub {} is not ready: {ready:?}", hub + 1));
                    return Ok(false);
                }
                tokio::time::sleep(POLL).await;
            }
        }
        for hub in 0..self.config.hubs {
            let left = deadline.saturating_duration_since(Instant::now());
            let missing = reachable(&self.world, &[hub], agents.clone().collect(), left).await;
            if !missing.is_empty() {
                self.config.say(&format!("hub {} does not reach the agents {missing:?}", hub + 1));
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Each intent gets its outcome within a while, whoever has left it open.
    async fn no_open_intents(&mut self) -> Result<(), ClusterError> {
        let deadline = Instant::now() + RECOVERY;
        while self.parts.ask("SELECT count(*) FROM open_intents").await? != "0" {
            if Instant::now() > deadline {
                let what = "intents are open long after the last call".into();
                self.report.violations.push(Violation { promise: Promise::OneOutcome, what });
                break;
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    /// Reads the journals, and checks all of it.
    async fn judge(&mut self, lease: Duration) -> Result<(), ClusterError> {
        for hub in 0..self.config.hubs {
            self.parts.end(Place::Hub(hub), "TERM").await?;
        }
        let journal = self.parts.ask("SELECT body FROM journal ORDER BY hub_id, seq").await?;
        let mut history = self.log.take();
        history.records = journal.lines().filter_map(Record::parse).collect();
        self.report.records = journal.lines().count();
        self.report.chains = history.records.iter().map(|record| &record.hub_id).collect::<BTreeSet<_>>().len();
        let io = |why| ClusterError::io("write down the history", why);
        std::fs::write(self.parts.directory().join("journal.jsonl"), journal).map_err(io)?;
        std::fs::write(self.parts.directory().join("history.txt"), history.text()).map_err(io)?;
        let (holds, said) = self.parts.verify().await?;
        if !holds {
            self.report.violations.push(Violation { promise: Promise::ChainHolds, what: said });
        }
        self.report.violations.extend(check(&history, lease));
        self.report.count(&history, self.config.hubs);
        Ok(())
    }
}

/// Calls agents through these hubs until each has answered once; answers those that have not in time.
async fn reachable(world: &Arc<World>, hubs: &[usize], agents: Vec<usize>, within: Duration) -> Vec<usize> {
    use futures_util::StreamExt as _;
    let deadline = Instant::now() + within;
    let missing = futures_util::stream::iter(agents).map(|agent| async move {
        let mut turn = agent;
        while Instant::now() < deadline {
            if callers::call_once(world, hubs[turn % hubs.len()], agent).await {
                return None;
            }
            turn += 1;
            tokio::time::sleep(POLL).await;
        }
        Some(agent)
    });
    missing.buffer_unordered(LOOKS).filter_map(|missing| async move { missing }).collect().await
}
