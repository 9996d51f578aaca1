//! What the load generator sees of agents that behave in one way or the other.

use std::time::Duration;

use convoke_sim::answer::Answer;
use convoke_sim::load::{self, LoadConfig};

use crate::support;

#[tokio::test]
async fn five_hundred_calls_to_fifty_agents_are_all_answered() {
    let forwarder = support::forwarder().await;
    let swarm = support::swarm(&forwarder, 50, Answer::AtOnce).await;
    let report = load::run(&support::load(&forwarder, 50, 500)).await.unwrap();
    assert_eq!((report.answered, report.errors()), (500, 0), "{report:?}");
    assert_eq!(report.latency.count(), 500);
    assert!(report.rate() > 0.0);
    assert_eq!(swarm.report().answered, 500);
    swarm.leave().await;
}

#[tokio::test]
async fn a_large_result_comes_through_whole() {
    let forwarder = support::forwarder().await;
    let _swarm = support::swarm(&forwarder, 1, Answer::Large(3_000_000)).await;
    let report = load::run(&support::load(&forwarder, 1, 4)).await.unwrap();
    assert_eq!((report.answered, report.errors()), (4, 0), "{report:?}");
}

#[tokio::test]
async fn an_agent_that_never_answers_costs_the_caller_its_patience() {
    let forwarder = support::forwarder().await;
    let _swarm = support::swarm(&forwarder, 1, Answer::Never).await;
    let patience = Duration::from_millis(150);
    let config = LoadConfig { callers: 2, timeout: patience, ..support::load(&forwarder, 1, 4) };
    let report = load::run(&config).await.unwrap();
    assert_eq!((report.answered, report.timed_out, report.errors()), (0, 4, 4), "{report:?}");
    assert!(report.elapsed >= patience * 2, "each caller waited twice");
}

#[tokio::test]
async fn a_late_answer_is_as_late_as_told() {
    let forwarder = support::forwarder().await;
    let delay = Duration::from_millis(80);
    let _swarm = support::swarm(&forwarder, 2, Answer::After(delay)).await;
    let report = load::run(&support::load(&forwarder, 2, 16)).await.unwrap();
    assert_eq!((report.answered, report.errors()), (16, 0), "{report:?}");
    assert!(report.latency.quantile(0.0) >= delay, "{:?}", report.latency.quantile(0.0));
}

#[tokio::test]
async fn an_error_of_the_agent_is_counted_as_failed() {
    let forwarder = support::forwarder().await;
    let _swarm = support::swarm(&forwarder, 1, Answer::Error).await;
    let report = load::run(&support::load(&forwarder, 1, 10)).await.unwrap();
    assert_eq!((report.answered, report.failed, report.errors()), (0, 10, 10), "{report:?}");
}

#[tokio::test]
async fn an_agent_that_is_not_there_is_a_refusal() {
    let forwarder = support::forwarder().await;
    let report = load::run(&support::load(&forwarder, 1, 5)).await.unwrap();
    assert_eq!((report.refused, report.errors()), (5, 5), "{report:?}");
}

#[tokio::test]
async fn the_load_ends_when_its_time_is_up() {
    let forwarder = support::forwarder().await;
    let _swarm = support::swarm(&forwarder, 1, Answer::AtOnce).await;
    let config = LoadConfig { time: Duration::from_millis(200), ..support::load(&forwarder, 1, u64::MAX) };
    let report = load::run(&config).await.unwrap();
    assert!(report.answered > 0 && report.errors() == 0, "{report:?}");
    assert!(report.elapsed < Duration::from_secs(5), "{report:?}");
}
