//! A forwarder and a swarm on it.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use convoke_sim::answer::Answer;
use convoke_sim::forwarder::Forwarder;
use convoke_sim::load::LoadConfig;
use convoke_sim::roster::Roster;
use convoke_sim::swarm::{Swarm, SwarmConfig};

pub(crate) async fn forwarder() -> Forwarder {
    forwarder_with(None).await
}

/// One that writes what is answered to that file.
pub(crate) async fn forwarder_with(log: Option<&Path>) -> Forwarder {
    let key = Roster::new("forwarder").key(0);
    Forwarder::start((Ipv4Addr::LOCALHOST, 0).into(), key, log).await.expect("a free port on loopback")
}

pub(crate) fn config(forwarder: &Forwarder) -> SwarmConfig {
    SwarmConfig::new(forwarder.address(), forwarder.public_key(), Roster::new("test"))
}

/// A swarm of `count` agents that answer like this, all connected.
pub(crate) async fn swarm(forwarder: &Forwarder, count: usize, answer: Answer) -> Swarm {
    let mut swarm = Swarm::new(SwarmConfig { answer, ..config(forwarder) });
    let (report, problem) = swarm.resize(count).await;
    assert!(problem.is_none(), "{problem:?}");
    assert_eq!(report.connected, count as u64);
    swarm
}

/// Calls to `agents` agents, `calls` of them.
pub(crate) fn load(forwarder: &Forwarder, agents: usize, calls: u64) -> LoadConfig {
    let roster = Roster::new("test");
    let agents: Arc<[String]> = (0..agents).map(|index| roster.id(index).to_string()).collect();
    LoadConfig { callers: 8, calls, time: Duration::from_secs(60), ..LoadConfig::new(forwarder.address(), agents) }
}

/// Waits until something is so, within a bound.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}: not within 30 s");
        tokio::task::yield_now().await;
    }
}
