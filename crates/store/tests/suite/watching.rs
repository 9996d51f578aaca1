//! How the fleet's health changed, time-boxed grants, and where notices go.

use convoke_core::grant::{Role, Scopes};
use convoke_core::health::{Overall, Status};
use convoke_core::id::{ChannelId, GrantId, RunId, TokenId};
use convoke_core::journal::Kind;
use convoke_core::secret::SecretBytes;
use convoke_store::{
    ChannelRow, GrantRow, HealthRow, Lossy, Retention, RunFilter, RunRow, SampleFilter, SampleRow, SnapshotRow,
    UserRow,
};
use uuid::Uuid;

use super::{Backend, at, peer, record, records};

fn health(agent: &str, millis: i64, overall: Overall) -> HealthRow {
    let sections = format!(r#"{{"disk":"{overall}"}}"#);
    HealthRow { agent: peer(agent), at: at(millis), overall, sections, since: "{}".into() }
}

pub(crate) async fn health_is_known_of_each_moment(backend: &impl Backend) {
    let store = backend.open();
    for id in ["a", "b"] {
        store.ensure_agent(&peer(id), at(0)).await.expect("adds");
    }
    let rows = [
        health("a", 10, Overall::Ok),
        health("a", 20, Overall::Crit),
        health("a", 30, Overall::Ok),
        health("b", 25, Overall::Warn),
    ];
    for row in &rows {
        store.enqueue(Lossy::Health(row.clone())).await.expect("takes");
    }
    store.enqueue(Lossy::Health(health("nobody", 1, Overall::Ok))).await.expect("takes");
    store.append(record(Kind::Hub)).await.expect("after them");
    let all = async |agent: Option<&str>, from, to| {
        let agent = agent.map(peer);
        store.health_changes(agent.as_ref(), at(from), at(to), 100).await.expect("reads")
    };
    assert_eq!(all(None, 0, 100).await, rows);
    assert_eq!(all(None, 22, 22).await, [rows[1].clone()], "what held then");
    assert_eq!(all(Some("a"), 20, 29).await, [rows[1].clone()]);
    assert_eq!(all(Some("b"), 0, 24).await, []);
    let kept = Retention { telemetry_before: Some(at(31)), ..Retention::default() };
    store.prune(kept, at(40)).await.expect("prunes");
    assert_eq!(all(None, 0, 100).await, [rows[2].clone(), rows[3].clone()], "what held at the beginning stays");
    store.close().await.expect("closes");
}

pub(crate) async fn the_latest_runs_of_each_runbook_stay(backend: &impl Backend) {
    let store = backend.open();
    store.ensure_agent(&peer("a"), at(0)).await.expect("adds");
    let run = |n: i64, agent: &str, runbook: &str, status| RunRow {
        id: RunId::new(Uuid::from_u128(n as u128)),
        agent: peer(agent),
        runbook: runbook.into(),
        caller: TokenId::new(Uuid::from_u128(7)),
        at: at(n),
        status,
        titles: vec![format!("{n}")],
        summary: "s".into(),
    };
    for n in 1..=7 {
        let status = if n == 7 { Status::Ok } else { Status::Warn };
        store.put_run(run(n, "a", "disk", status), format!("{{\"n\":{n}}}")).await.expect("keeps");
    }
    store.put_run(run(8, "a", "load", Status::Crit), "{}".into()).await.expect("keeps");
    store.put_run(run(9, "nobody", "load", Status::Crit), "{}".into()).await.expect("is left out");
    let ids = async |filter: RunFilter| {
        let runs = store.runs(RunFilter { limit: 100, ..filter }).await.expect("reads");
        runs.iter().map(|run| run.at.millis() - at(0).millis()).collect::<Vec<_>>()
    };
    assert_eq!(ids(RunFilter::default()).await, [8, 7, 6, 5, 4, 3]);
    assert_eq!(
        ids(RunFilter { runbook: Some("disk".into()), since: Some(at(5)), ..RunFilter::default() }).await,
        [7, 6, 5]
    );
    let before = Some((at(5), RunId::new(Uuid::from_u128(5))));
    assert_eq!(ids(RunFilter { agent: Some(peer("a")), before, ..RunFilter::default() }).await, [4, 3]);
    assert_eq!(ids(RunFilter { unwell: true, ..RunFilter::default() }).await, [8], "the latest one of disk was well");
    let one = store.run(RunId::new(Uuid::from_u128(6))).await.expect("reads").expect("is kept");
    assert_eq!(one, (run(6, "a", "disk", Status::Warn), "{\"n\":6}".into()));
    store.prune(Retention { telemetry_before: Some(at(6)), ..Retention::default() }, at(10)).await.expect("prunes");
    assert_eq!(ids(RunFilter::default()).await, [8, 7, 6]);
    store.remove_agent(&peer("a"), record(Kind::Trust)).await.expect("removes");
    assert!(ids(RunFilter::default()).await.is_empty());
    store.close().await.expect("closes");
}

pub(crate) async fn one_snapshot_stands_for_a_step(backend: &impl Backend) {
    let store = backend.open();
    store.ensure_agent(&peer("a"), at(0)).await.expect("adds");
    for n in [5, 12, 18, 31, 32, 39] {
        let snapshot = SnapshotRow {
            id: 0,
            agent: peer("a"),
            collected_at: "x".into(),
            received_at: at(n),
            body: format!("{{\"disk\":{{\"n\":{n}}},\"cpu\":1}}"),
            health: "{\"disk\":{\"status\":\"ok\"}}".into(),
        };
        store.enqueue(Lossy::Snapshot(snapshot)).await.expect("takes");
    }
    store.append(record(Kind::Hub)).await.expect("after them");
    let filter = SampleFilter { agent: peer("a"), section: "disk".into(), from: at(10), step_ms: 10 };
    let (samples, truncated) = store.samples(filter.clone()).await.expect("reads");
    let sample = |n: i64| SampleRow {
        at: at(n),
        health: Some("{\"status\":\"ok\"}".into()),
        body: Some(format!("{{\"n\":{n}}}")),
    };
    assert_eq!((samples, truncated), (vec![sample(18), sample(39)], false), "the last one of each, oldest first");
    let other = SampleFilter { section: "gone".into(), ..filter };
    let (samples, _) = store.samples(other).await.expect("reads");
    assert_eq!(samples.last().map(|last| (&last.health, &last.body)), Some((&None, &None)));
    store.close().await.expect("closes");
}

pub(crate) async fn a_grant_lasts_until_it_lapses_or_ends(backend: &impl Backend) {
    let store = backend.open();
    let id = |n| GrantId::new(Uuid::from_u128(n));
    let grant = |n, until| GrantRow {
        id: id(n),
        assistant: TokenId::new(Uuid::from_u128(7)),
        approver: TokenId::new(Uuid::from_u128(8)),
        tool: "shell_exec".into(),
        agent: peer("pc"),
        created_at: at(i64::try_from(n).expect("small")),
        expires_at: at(until),
    };
    let before = records(&*store).await;
    for grant in [grant(1, 100), grant(2, 200), grant(3, 300)] {
        store.put_grant(grant, record(Kind::Policy)).await.expect("keeps");
    }
    assert!(store.end_grant(id(3), record(Kind::Policy)).await.expect("ends"));
    assert!(!store.end_grant(id(3), record(Kind::Policy)).await.expect("answers"));
    assert_eq!(records(&*store).await, before + 4);
    store.close().await.expect("closes");
    let store = backend.open();
    assert_eq!(store.grants(at(50)).await.expect("reads"), [grant(1, 100), grant(2, 200)]);
    assert_eq!(store.grants(at(100)).await.expect("reads"), [grant(2, 200)]);
    assert_eq!(store.grants(at(0)).await.expect("reads"), [grant(2, 200)], "what has lapsed stays so");
    store.close().await.expect("closes");
}

pub(crate) async fn a_notice_is_claimed_once_per_channel(backend: &impl Backend) {
    let store = backend.open();
    let user = UserRow {
        id: TokenId::new(Uuid::from_u128(1)),
        name: "anna".into(),
        role: Role::Viewer,
        scopes: Scopes::default(),
        password: None,
        totp: None,
        created_at: at(0),
    };
    store.add_user(user.clone(), None, record(Kind::User)).await.expect("adds");
    let channel = |n, millis| ChannelRow {
        id: ChannelId::new(Uuid::from_u128(n)),
        user: user.id,
        kind: "ntfy".into(),
        name: "phone".into(),
        target: SecretBytes::new(*b"{}"),
        created_at: at(millis),
    };
    for channel in [channel(1, 0), channel(2, 1)] {
        store.put_channel(channel, record(Kind::User)).await.expect("keeps");
    }
    let claim = async |n, handle: &str, millis| {
        store.claim_notice(ChannelId::new(Uuid::from_u128(n)), handle, at(millis)).await.expect("answers")
    };
    assert!(claim(1, "a", 0).await && claim(2, "a", 0).await && claim(1, "b", 0).await);
    assert!(!claim(1, "a", 1).await && !claim(3, "a", 0).await);
    assert!(claim(1, "a", 31 * 86_400_000).await, "after a month nobody knows");
    let id = ChannelId::new(Uuid::from_u128(2));
    assert!(store.remove_channel(id, record(Kind::User)).await.expect("removes"));
    assert!(!store.remove_channel(id, record(Kind::User)).await.expect("answers"));
    store.close().await.expect("closes");
    let store = backend.open();
    assert_eq!(store.channels().await.expect("reads"), [channel(1, 0)]);
    store.remove_user(user.id, at(5), record(Kind::User)).await.expect("removes");
    assert_eq!(store.channels().await.expect("reads"), [], "they go with their user");
    store.close().await.expect("closes");
}
