//! The agents of a run: each connects to one hub after the other until one lets it in, and keeps what it was asked to do.

use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use convoke_socket::queue::Queue;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinHandle, JoinSet};

use super::history::{CallNumber, Effect, Execution, Link, Log, number_in};
use crate::agent::{self, Asked, Order, Shared};
use crate::swarm::SwarmConfig;

/// The pause before a hub is tried again, or the next one.
const RETRY: Duration = Duration::from_millis(500);
/// Large answers: how many, and their size, which is over what NATS takes.
const ONE_LARGE_IN: CallNumber = 200;
const LARGE: usize = 1536 * 1024;
/// Links of one agent that are open at once.
const MOST_LINKS: usize = 4;

/// The time of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(Instant);

impl Clock {
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    pub(super) fn now(self) -> Duration {
        self.0.elapsed()
    }
}

/// Writes down what agents are asked.
#[derive(Debug)]
struct Recorder {
    log: Arc<Log>,
    clock: Clock,
}

/// What agents answer: which call it was, and who did it. Now and then it is more than the bus takes.
fn result(call: Option<CallNumber>, agent: usize) -> serde_json::Value {
    let size = if call.is_some_and(|call| call % ONE_LARGE_IN == 0) { LARGE } else { 0 };
    serde_json::json!({ "entries": [], "call": call, "agent": agent, "filling": "x".repeat(size) })
}

/// How long an agent takes over a call: mostly nothing, so that a few are under way whatever happens.
fn takes(call: CallNumber) -> Duration {
    Duration::from_millis(match call.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 57 {
        0..=3 => 1500,
        4..=20 => 200,
        _ => 0,
    })
}

impl Asked for Recorder {
    fn answer(&self, agent: usize, link: u64, tool: &str, args: &RawValue) -> (Box<RawValue>, Duration) {
        let call = number_in(args.get());
        if let (Some(call), Some(effect)) = (call, Effect::of_tool(tool)) {
            let at = self.clock.now();
            self.log.write(|history| history.executions.push(Execution { call, agent, link, effect, at }));
        }
        let text = result(call, agent).to_string();
        let result = RawValue::from_string(text).expect("a JSON value's own text is JSON");
        (result, call.map_or(Duration::ZERO, takes))
    }
}

/// The agents. They leave when it is dropped.
#[derive(Debug)]
pub(super) struct Fleet {
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    doubles: mpsc::Sender<usize>,
    task: JoinHandle<()>,
}

impl Drop for Member {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Fleet {
    /// So many agents, the first of the roster, for these hubs; each begins with another one.
    pub(super) fn start(
        count: usize,
        hubs: &[SocketAddr],
        config: SwarmConfig,
        log: &Arc<Log>,
        clock: Clock,
    ) -> Self {
        let recorder = Recorder { log: Arc::clone(log), clock };
        let shared = Arc::new(Shared::with(config, Arc::new(recorder)));
        let members = (0..count).map(|index| {
            let (doubles, orders) = mpsc::channel(1);
            let agent =
                Agent { index, hubs: hubs.to_vec(), shared: Arc::clone(&shared), log: Arc::clone(log), clock };
            Member { doubles, task: tokio::spawn(agent.live(orders)) }
        });
        Self { members: members.collect() }
    }

    /// Has an agent make a second link, to that hub, while the first one lives. One that is busy does not.
    pub(super) fn double(&self, agent: usize, hub: usize) {
        if let Some(member) = self.members.get(agent) {
            let _ = member.doubles.try_send(hub);
        }
    }
}

/// The agents whose newest link is at a hub.
pub(super) fn at_hub(log: &Log, hub: usize) -> Vec<usize> {
    log.write(|history| {
        let mut newest = std::collections::BTreeMap::new();
        for link in &history.links {
            newest.insert(link.agent, (link.hub, link.closed.is_none()));
        }
        newest.into_iter().filter(|(_, at)| *at == (hub, true)).map(|(agent, _)| agent).collect()
    })
}

#[derive(Debug)]
struct Agent {
    index: usize,
    hubs: Vec<SocketAddr>,
    shared: Arc<Shared>,
    log: Arc<Log>,
    clock: Clock,
}

impl Agent {
    async fn live(self, mut doubles: mpsc::Receiver<usize>) {
        let mut links = JoinSet::new();
        let mut current: Option<AbortHandle> = None;
        let mut hub = self.index;
        loop {
            if current.as_ref().is_none_or(AbortHandle::is_finished) {
                // The newest link is gone: the next hub may be better.
                current = self.connect(&mut links, hub % self.hubs.len()).await;
                if current.is_none() {
                    hub += 1;
                    tokio::time::sleep(RETRY).await;
                }
                continue;
            }
            tokio::select! {
                _ = links.join_next() => {}
                Some(other) = doubles.recv() => {
                    if links.len() < MOST_LINKS && let Some(newer) = self.connect(&mut links, other).await {
                        (current, hub) = (Some(newer), other);
                    }
                }
            }
        }
    }

    /// Makes a link, and lets it live beside the others.
    async fn connect(&self, links: &mut JoinSet<()>, hub: usize) -> Option<AbortHandle> {
        let link = agent::connect_to(&self.shared, self.index, self.hubs[hub]).await.ok()?;
        let (number, opened) = (link.number(), self.clock.now());
        let open = Link { number, agent: self.index, hub, opened, closed: None };
        self.log.write(|history| history.links.push(open));
        let end = Closing { number, log: Arc::downgrade(&self.log), clock: self.clock };
        Some(links.spawn(async move {
            let _end = end;
            link.stay(&Queue::<Order>::default()).await;
        }))
    }
}

/// Writes down that a link is closed, however it comes about.
struct Closing {
    number: u64,
    log: Weak<Log>,
    clock: Clock,
}

impl Drop for Closing {
    fn drop(&mut self) {
        let Some(log) = self.log.upgrade() else { return };
        let now = self.clock.now();
        log.write(|history| {
            if let Some(link) = history.links.iter_mut().rev().find(|link| link.number == self.number) {
                link.closed = Some(now);
            }
        });
    }
}
