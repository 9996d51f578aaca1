//! What a swarm does when it is told to.

use std::time::{Duration, Instant};

use convoke_sim::answer::Answer;
use convoke_sim::control;
use convoke_sim::load;
use convoke_sim::roster::Roster;
use convoke_sim::swarm::{ConnectError, Swarm, SwarmConfig};

use crate::support;

#[tokio::test]
async fn grows_and_shrinks() {
    let forwarder = support::forwarder().await;
    let mut swarm = support::swarm(&forwarder, 20, Answer::AtOnce).await;
    assert_eq!(swarm.resize(5).await.0.connected, 5);
    let (report, _) = swarm.resize(12).await;
    assert_eq!((report.connected, report.handshakes, report.lost), (12, 27, 0));
    let calls = load::run(&support::load(&forwarder, 12, 48)).await.unwrap();
    assert_eq!((calls.answered, calls.errors()), (48, 0), "{calls:?}");
}

#[tokio::test]
async fn a_reconnect_storm_leaves_every_agent_connected() {
    let forwarder = support::forwarder().await;
    let swarm = support::swarm(&forwarder, 30, Answer::AtOnce).await;
    let report = swarm.reconnect(75).await;
    assert_eq!((report.connected, report.handshakes, report.refused, report.lost), (30, 105, 0, 0));
    let calls = load::run(&support::load(&forwarder, 30, 90)).await.unwrap();
    assert_eq!((calls.answered, calls.errors()), (90, 0), "{calls:?}");
}

#[tokio::test]
async fn pushes_as_many_snapshots_as_asked_and_not_faster() {
    let forwarder = support::forwarder().await;
    let swarm = support::swarm(&forwarder, 4, Answer::AtOnce).await;
    let began = Instant::now();
    let report = swarm.push(21, Some(100.0), false).await;
    assert_eq!(report.pushed, 21);
    assert!(began.elapsed() >= Duration::from_millis(190), "{:?}", began.elapsed());
    assert_eq!(swarm.push(100, None, true).await.pushed, 121);
}

#[tokio::test]
async fn agents_do_not_talk_to_a_server_with_another_key() {
    let forwarder = support::forwarder().await;
    let config = SwarmConfig { server_key: Roster::new("other").public_key(0), ..support::config(&forwarder) };
    let mut swarm = Swarm::new(config);
    let (report, problem) = swarm.resize(3).await;
    assert_eq!((report.connected, report.refused), (0, 3));
    assert!(matches!(problem, Some(ConnectError::Distrust(_))), "{problem:?}");
}

#[tokio::test]
async fn agents_beyond_a_source_come_from_the_next_address() {
    let forwarder = support::forwarder().await;
    let mut swarm = Swarm::new(SwarmConfig { agents_per_source: 4, ..support::config(&forwarder) });
    let (report, problem) = swarm.resize(10).await;
    assert_eq!((report.connected, report.refused), (10, 0), "{problem:?}");
}

#[tokio::test]
async fn heartbeats_keep_an_idle_swarm_connected() {
    let forwarder = support::forwarder().await;
    let heartbeat = Duration::from_millis(20);
    let mut swarm = Swarm::new(SwarmConfig { heartbeat, ..support::config(&forwarder) });
    let (before, _) = swarm.resize(3).await;
    // Six beats each: twice as long as an agent would wait for a server that does not answer.
    support::until("six beats", || swarm.report().frames_sent >= before.frames_sent + 3 * 6).await;
    let report = swarm.report();
    assert_eq!((report.connected, report.lost), (3, 0));
}

#[tokio::test]
async fn agents_that_lost_their_server_come_back_when_it_does() {
    let first = support::forwarder().await;
    let retry = Some(Duration::from_millis(20));
    let mut swarm = Swarm::new(SwarmConfig { retry, ..support::config(&first) });
    swarm.resize(5).await;
    let address = first.address();
    drop(first);
    support::until("all lost", || swarm.report().lost == 5).await;
    let key = Roster::new("forwarder").key(0);
    // The address is free once the last of the old sockets has ended.
    let again = async {
        loop {
            match convoke_sim::forwarder::Forwarder::start(address, key.clone(), None).await {
                Ok(forwarder) => return forwarder,
                Err(_) => tokio::task::yield_now().await,
            }
        }
    };
    let _second = tokio::time::timeout(Duration::from_secs(30), again).await.expect("the address is free again");
    support::until("all back", || swarm.report().connected == 5).await;
}

#[tokio::test]
async fn obeys_commands_and_explains_what_it_cannot_read() {
    let forwarder = support::forwarder().await;
    let mut swarm = Swarm::new(support::config(&forwarder));
    let reply = control::obey(&mut swarm, r#"{"do":"resize","agents":6}"#).await;
    assert_eq!((reply.report.connected, reply.problem), (6, None));
    let reply = control::obey(&mut swarm, r#"{"do":"reconnect","count":6}"#).await;
    assert_eq!((reply.report.handshakes, reply.report.connected), (12, 6));
    let reply = control::obey(&mut swarm, r#"{"do":"push","count":9}"#).await;
    assert_eq!(reply.report.pushed, 9);
    let reply = control::obey(&mut swarm, "dance").await;
    assert!(reply.problem.is_some_and(|why| why.starts_with("not a command")));
}
