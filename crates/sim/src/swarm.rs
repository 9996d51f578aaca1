//! Many simulated agents, told what to do together.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use convoke_kenny::heartbeat;
use convoke_socket::queue::Queue;
use ed25519_dalek::VerifyingKey;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::MissedTickBehavior;

use crate::agent::{self, Order, Shared};
use crate::answer::Answer;
use crate::roster::Roster;

pub use crate::agent::ConnectError;

/// How long an agent may take over an order.
const ORDER_PATIENCE: Duration = Duration::from_secs(60);

/// How a swarm behaves.
#[derive(Clone, Debug)]
pub struct SwarmConfig {
    /// The hub.
    pub target: SocketAddr,
    /// The hub's public key, which every agent pins.
    pub server_key: VerifyingKey,
    /// Who the agents are.
    pub roster: Roster,
    /// The first agent of the roster; another process may have those before.
    pub first: usize,
    /// What they answer.
    pub answer: Answer,
    /// Their ping interval.
    pub heartbeat: Duration,
    /// Most handshakes, or pushes, under way at once.
    pub concurrency: usize,
    /// How long a connection with its handshake may take.
    pub connect_timeout: Duration,
    /// Agents that share one source address. A pair of addresses has some 28,000 ports on Linux; beyond this many the
    /// next agents come from 127.0.0.2, 127.0.0.3 and so on.
    pub agents_per_source: usize,
    /// The address that agents connect from, where it is not for the system to choose.
    pub source: Option<IpAddr>,
    /// Further hubs: an agent that lost its connection tries one after the other.
    pub others: Vec<SocketAddr>,
    /// The pause after which an agent whose connection failed tries again; without one it stays away.
    pub retry: Option<Duration>,
}

impl SwarmConfig {
    /// The usual behaviour against the hub at `target` that has `server_key`.
    pub fn new(target: SocketAddr, server_key: VerifyingKey, roster: Roster) -> Self {
        Self {
            target,
            server_key,
            roster,
            first: 0,
            answer: Answer::AtOnce,
            heartbeat: heartbeat::DEFAULT_INTERVAL,
            concurrency: 64,
            connect_timeout: Duration::from_secs(20),
            agents_per_source: 20_000,
            source: None,
            others: Vec::new(),
            retry: None,
        }
    }

    /// The hub that agent `index` tries after so many others.
    pub(crate) fn hub(&self, index: usize, tries: usize) -> SocketAddr {
        let hubs = self.others.len() + 1;
        // Not all of them the same one: those of a lost hub share out among the others.
        let nth = if tries == 0 || hubs == 1 { 0 } else { 1 + (index + tries) % (hubs - 1) };
        nth.checked_sub(1).map_or(self.target, |nth| self.others[nth])
    }

    /// The address agent `index` connects from, where it matters.
    pub(crate) fn source(&self, index: usize) -> Option<SocketAddr> {
        if let Some(source) = self.source {
            return Some((source, 0).into());
        }
        let nth = u8::try_from(index / self.agents_per_source.max(1)).unwrap_or(u8::MAX - 1).min(u8::MAX - 2);
        let loopback = self.target.ip() == IpAddr::V4(Ipv4Addr::LOCALHOST);
        (nth > 0 && loopback).then(|| (Ipv4Addr::new(127, 0, 0, nth + 1), 0).into())
    }
}

/// What a swarm has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Agents with an authenticated connection now.
    pub connected: u64,
    /// Handshakes that succeeded.
    pub handshakes: u64,
    /// Connections that did not come about.
    pub refused: u64,
    /// Connections that ended without the swarm's doing.
    pub lost: u64,
    /// Requests answered.
    pub answered: u64,
    /// Snapshots pushed.
    pub pushed: u64,
    /// Frames sent, of all kinds.
    pub frames_sent: u64,
}

/// The agents. They leave when it is dropped.
#[derive(Debug)]
pub struct Swarm {
    shared: Arc<Shared>,
    agents: BTreeMap<usize, Member>,
}

#[derive(Debug)]
struct Member {
    orders: Arc<Queue<Order>>,
    task: JoinHandle<()>,
}

impl Drop for Member {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Swarm {
    /// A swarm of none yet.
    pub fn new(config: SwarmConfig) -> Self {
        Self { shared: Arc::new(Shared::new(config)), agents: BTreeMap::new() }
    }

    /// Connects agents, or lets some leave, until there are `count`. Each missing one is tried once; the last reason
    /// why one stayed away is returned beside the report.
    pub async fn resize(&mut self, count: usize) -> (Report, Option<ConnectError>) {
        let first = self.shared.config.first;
        self.agents.retain(|_, member| !member.task.is_finished());
        let extra = self.agents.split_off(&(first + count));
        leave(extra).await;
        let mut arriving = JoinSet::new();
        for index in (first..first + count).filter(|index| !self.agents.contains_key(index)) {
            let shared = Arc::clone(&self.shared);
            arriving.spawn(async move { (index, agent::connect(&shared, index).await) });
        }
        let mut problem = None;
        while let Some(arrived) = arriving.join_next().await {
            match arrived {
                Ok((index, Ok(link))) => {
                    let orders = Arc::default();
                    let task = tokio::spawn(agent::live(Arc::clone(&self.shared), index, link, Arc::clone(&orders)));
                    self.agents.insert(index, Member { orders, task });
                }
                Ok((_, Err(why))) => problem = Some(why),
                // Neither panics nor is it cancelled while we hold the set.
                Err(_) => {}
            }
        }
        (self.report(), problem)
    }

    /// A reconnect storm: `count` times an agent closes its connection and makes a new one, round robin, as many at
    /// once as the configuration allows.
    pub async fn reconnect(&self, count: u64) -> Report {
        self.order(count, None, |done| Order::Reconnect { done }).await
    }

    /// Pushes `count` snapshots, round robin, at most `per_second` of them a second; of machines of which no two are
    /// alike, if they shall be `unlike`. Returns when all are queued to be written.
    pub async fn push(&self, count: u64, per_second: Option<f64>, unlike: bool) -> Report {
        self.order(count, per_second, |done| Order::Push { unlike, done }).await
    }

    /// What happened so far.
    pub fn report(&self) -> Report {
        let counters = &self.shared.counters;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Report {
            connected: read(&counters.connected),
            handshakes: read(&counters.handshakes),
            refused: read(&counters.refused),
            lost: read(&counters.lost),
            answered: read(&counters.answered),
            pushed: read(&counters.pushed),
            frames_sent: read(&counters.frames_sent),
        }
    }

    /// Every agent closes its connection.
    pub async fn leave(mut self) {
        leave(std::mem::take(&mut self.agents)).await;
    }

    async fn order(
        &self,
        count: u64,
        per_second: Option<f64>,
        make: impl Fn(oneshot::Sender<()>) -> Order,
    ) -> Report {
        let mut pace = per_second.filter(|rate| *rate > 0.0).map(|rate| {
            let mut pace = tokio::time::interval(Duration::from_secs_f64((1.0 / rate).min(3600.0)));
            pace.set_missed_tick_behavior(MissedTickBehavior::Burst);
            pace
        });
        let mut under_way = FuturesUnordered::new();
        for member in self.agents.values().cycle().take(usize::try_from(count).unwrap_or(usize::MAX)) {
            if let Some(pace) = &mut pace {
                pace.tick().await;
            }
            if under_way.len() >= self.shared.config.concurrency {
                under_way.next().await;
            }
            let (done, heard) = oneshot::channel();
            // An agent that is gone, or stuck, does not hold up the others; the report tells.
            let _ = tokio::time::timeout(ORDER_PATIENCE, member.orders.send(make(done))).await;
            under_way.push(tokio::time::timeout(ORDER_PATIENCE, heard));
        }
        while under_way.next().await.is_some() {}
        self.report()
    }
}

async fn leave(members: BTreeMap<usize, Member>) {
    for member in members.values() {
        // One whose task is over has left already.
        let _ = member.orders.push(Order::Leave);
    }
    for (_, mut member) in members {
        let _ = tokio::time::timeout(ORDER_PATIENCE, &mut member.task).await;
    }
}
