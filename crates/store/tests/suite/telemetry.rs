use convoke_store::{Before, LogFilter, LogRow, Lossy, Retention, SnapshotRow, Store};
use serde_json::value::RawValue;

use super::agents::{find, mint};
use super::{Backend, at, peer};

pub(crate) fn snapshot(agent: &str, millis: i64) -> SnapshotRow {
    SnapshotRow {
        id: 0,
        agent: peer(agent),
        collected_at: format!("collected {millis}"),
        received_at: at(millis),
        body: format!("{{\"disk\":{{\"n\":{millis}}}}}"),
        health: "{\"disk\":{\"status\":\"ok\"}}".into(),
    }
}

async fn keep(store: &dyn Store, agent: &str, millis: i64) {
    store.enqueue(Lossy::Snapshot(snapshot(agent, millis))).await.expect("takes");
}

/// What was enqueued before is committed once something behind it is.
async fn settle(store: &dyn Store) {
    store.checkpoint(at(0)).await.expect("commits");
}

pub(crate) async fn the_latest_snapshot_and_the_history(backend: &impl Backend) {
    let store = backend.open();
    mint(&*store, "pc-1", "t", false).await;
    mint(&*store, "pc-2", "u", false).await;
    for n in 1..=5 {
        keep(&*store, "pc-1", n * 10).await;
        keep(&*store, "pc-2", n * 10 + 1).await;
    }
    store.close().await.expect("closes");
    let store = backend.open();
    let latest = store.latest_snapshot(&peer("pc-1")).await.expect("reads").expect("there");
    assert_eq!((latest.received_at, latest.body.as_str()), (at(50), "{\"disk\":{\"n\":50}}"));
    let agent = find(&*store, "pc-1").await.expect("there");
    assert_eq!(agent.health.as_deref(), Some("{\"disk\":{\"status\":\"ok\"}}"));
    assert_eq!(agent.collected_at.as_deref(), Some("collected 50"));
    let older = store.snapshots(&peer("pc-1"), Some(Before::Time(at(40))), 2).await.expect("reads");
    assert_eq!(older.iter().map(|s| s.received_at).collect::<Vec<_>>(), [at(30), at(20)]);
    for _ in 0..3 {
        keep(&*store, "pc-2", 60).await;
    }
    settle(&*store).await;
    let (mut seen, mut before) = (Vec::new(), None);
    while let Some(next) = store.snapshots(&peer("pc-2"), before, 1).await.expect("reads").pop() {
        before = Some(Before::Snapshot(next.id));
        seen.push(next.received_at);
    }
    assert_eq!(seen, [60, 60, 60, 51, 41, 31, 21, 11].map(at), "page by page, whatever came in one moment");
    assert_eq!(store.snapshots(&peer("pc-2"), None, 100).await.expect("reads").len(), 8);
}

pub(crate) async fn unknown_agents_are_left_out(backend: &impl Backend) {
    let store = backend.open();
    keep(&*store, "nobody", 1).await;
    store.enqueue(Lossy::Seen { agent: peer("nobody"), at: at(1), hello: None }).await.expect("takes");
    settle(&*store).await;
    assert!(store.latest_snapshot(&peer("nobody")).await.expect("reads").is_none());
    assert!(store.agents().await.expect("reads").is_empty());
    assert!(!store.stats().failing);
}

pub(crate) async fn last_seen_and_meta_are_kept(backend: &impl Backend) {
    let store = backend.open();
    mint(&*store, "pc-1", "t", false).await;
    let meta = RawValue::from_string("{\"os\": \"x\"}".into()).expect("JSON");
    let hello = Some((meta, Some("0.9".to_owned())));
    store.enqueue(Lossy::Seen { agent: peer("pc-1"), at: at(3), hello }).await.expect("takes");
    store.enqueue(Lossy::Seen { agent: peer("pc-1"), at: at(9), hello: None }).await.expect("takes");
    settle(&*store).await;
    let agent = find(&*store, "pc-1").await.expect("there");
    assert_eq!(agent.last_seen, Some(at(9)));
    assert_eq!(agent.meta.as_ref().map(|m| m.get()), Some("{\"os\": \"x\"}"));
    assert_eq!(agent.protocol_version.as_deref(), Some("0.9"));
}

fn line(agent: Option<&str>, level: &str, millis: i64) -> LogRow {
    LogRow {
        id: 0,
        at: format!("time {millis}"),
        received_at: at(millis),
        agent: agent.map(peer),
        source: "agent".into(),
        level: level.into(),
        target: "module".into(),
        message: format!("line {millis}"),
        fields: Some("{\"a\":1}".into()),
    }
}

pub(crate) async fn logs_page_and_filter(backend: &impl Backend) {
    let store = backend.open();
    let lines = vec![
        line(Some("pc-1"), "info", 1),
        line(Some("pc-2"), "error", 2),
        line(None, "warn", 3),
        line(Some("pc-1"), "debug", 4),
        line(Some("pc-1"), "error", 5),
    ];
    store.enqueue(Lossy::Logs(lines)).await.expect("takes");
    settle(&*store).await;
    let read = async |agent: Option<&str>, level: Option<&str>, after, limit| {
        let filter =
            LogFilter { agent: agent.map(peer), level: level.map(Into::into), after, limit, ..LogFilter::default() };
        let lines = store.logs(filter).await.expect("reads");
        lines.into_iter().map(|l| (l.id, l.message)).collect::<Vec<_>>()
    };
    let all = read(None, None, None, 100).await;
    assert_eq!(
        all.iter().map(|(_, m)| m.as_str()).collect::<Vec<_>>(),
        ["line 1", "line 2", "line 3", "line 4", "line 5"]
    );
    assert_eq!(read(None, None, Some(all[1].0), 2).await, all[2..4]);
    assert_eq!(read(Some("pc-1"), None, None, 100).await.len(), 3);
    assert_eq!(read(Some("pc-1"), Some("info"), None, 100).await.len(), 2);
    assert_eq!(read(None, Some("warn"), None, 100).await.len(), 3);
    assert_eq!(read(None, Some("trace"), None, 100).await.len(), 5);
    let searched = async |text: &str, before| {
        let filter = LogFilter { text: Some(text.into()), before, limit: 2, ..LogFilter::default() };
        let lines = store.logs(filter).await.expect("reads");
        lines.into_iter().map(|l| (l.id, l.message)).collect::<Vec<_>>()
    };
    assert_eq!(searched("LINE 4", None).await, all[3..4]);
    assert_eq!(searched("ine", Some(all[3].0)).await, [all[2].clone(), all[1].clone()]);
    let one = store.logs(LogFilter { limit: 1, ..LogFilter::default() }).await.expect("reads").remove(0);
    assert_eq!(one.fields.as_deref(), Some("{\"a\":1}"));
}

pub(crate) async fn pruning_keeps_each_agents_latest_snapshot(backend: &impl Backend) {
    let store = backend.open();
    mint(&*store, "old", "t", false).await;
    mint(&*store, "busy", "u", false).await;
    keep(&*store, "old", 1).await;
    keep(&*store, "old", 2).await;
    for n in 0..500 {
        keep(&*store, "busy", n).await;
    }
    let retention = Retention { telemetry_before: Some(at(490)), ..Retention::default() };
    let pruned = store.prune(retention, at(0)).await.expect("prunes");
    assert_eq!(pruned.snapshots, 1 + 490);
    assert_eq!(store.snapshots(&peer("old"), None, 10).await.expect("reads").len(), 1);
    assert_eq!(store.snapshots(&peer("busy"), None, 1_000).await.expect("reads").len(), 10);
    assert_eq!(store.prune(retention, at(0)).await.expect("prunes").snapshots, 0);
    assert_eq!(store.prune(Retention::default(), at(0)).await.expect("prunes").snapshots, 0);
}

pub(crate) async fn pruning_passes_by_what_a_clock_that_ran_ahead_left(backend: &impl Backend) {
    let store = backend.open();
    mint(&*store, "pc-1", "t", false).await;
    let ahead = 1 << 52;
    for millis in [ahead, 1, 2, 3] {
        keep(&*store, "pc-1", millis).await;
    }
    let lines = [ahead, 1, 2, 3].map(|millis| line(Some("pc-1"), "info", millis)).into();
    store.enqueue(Lossy::Logs(lines)).await.expect("takes");
    let retention = Retention { telemetry_before: Some(at(10)), logs_before: Some(at(10)), ..Retention::default() };
    let pruned = store.prune(retention, at(0)).await.expect("prunes");
    assert_eq!((pruned.snapshots, pruned.logs), (2, 3), "all but the latest snapshot, and all lines");
}

pub(crate) async fn pruning_takes_old_logs_only(backend: &impl Backend) {
    let store = backend.open();
    let lines = (0..1_200).map(|n| line(Some("pc-1"), "info", n)).collect();
    store.enqueue(Lossy::Logs(lines)).await.expect("takes");
    let retention = Retention { logs_before: Some(at(1_100)), ..Retention::default() };
    assert_eq!(store.prune(retention, at(0)).await.expect("prunes").logs, 1_100);
    let all = LogFilter { limit: 10_000, ..LogFilter::default() };
    let left = store.logs(all.clone()).await.expect("reads");
    assert_eq!((left.len(), left[0].message.as_str()), (100, "line 1100"));
    let last = left.last().expect("some").id;
    // Even when all are gone, an id does not come back: readers page by it.
    let retention = Retention { logs_before: Some(at(100_000)), ..Retention::default() };
    store.prune(retention, at(0)).await.expect("prunes");
    store.enqueue(Lossy::Logs(vec![line(None, "info", 1)])).await.expect("takes");
    settle(&*store).await;
    assert_eq!(store.logs(all).await.expect("reads")[0].id, last + 1);
}

pub(crate) async fn what_was_committed_is_told_in_order_with_the_ids_of_lines(backend: &impl Backend) {
    let store = backend.open();
    mint(&*store, "pc-1", "t", false).await;
    let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
    store.on_committed(Box::new(move |item| {
        let _ = told.send(item);
    }));
    store.enqueue(Lossy::Logs(vec![line(Some("pc-1"), "info", 1), line(None, "warn", 2)])).await.expect("takes");
    keep(&*store, "pc-1", 3).await;
    let Some(Lossy::Logs(lines)) = heard.recv().await else { panic!("lines first") };
    let kept = store.logs(LogFilter { limit: 10, ..LogFilter::default() }).await.expect("reads");
    let ids = |rows: &[LogRow]| rows.iter().map(|row| row.id).collect::<Vec<_>>();
    assert_eq!(ids(&lines), ids(&kept), "they can be read under these by now");
    let Some(Lossy::Snapshot(snapshot)) = heard.recv().await else { panic!("then the snapshot") };
    assert!(snapshot.body.is_empty() && store.latest_snapshot(&peer("pc-1")).await.expect("reads").is_some());
}

pub(crate) async fn pruning_bounds_each_agents_bytes(backend: &impl Backend) {
    let store = backend.open();
    mint(&*store, "pc-1", "t", false).await;
    mint(&*store, "pc-2", "u", false).await;
    for n in 1..=10 {
        let large =
            SnapshotRow { body: format!("\"{}\"", "x".repeat(998)), health: String::new(), ..snapshot("pc-1", n) };
        store.enqueue(Lossy::Snapshot(large)).await.expect("takes");
    }
    keep(&*store, "pc-2", 1).await;
    settle(&*store).await;
    let retention = Retention { bytes_per_agent: Some(3_500), ..Retention::default() };
    assert_eq!(store.prune(retention, at(20)).await.expect("prunes").snapshots, 7);
    let left = store.snapshots(&peer("pc-1"), None, 100).await.expect("reads");
    assert_eq!(left.iter().map(|s| s.received_at).collect::<Vec<_>>(), [10, 9, 8].map(at), "the newest stay");
    assert_eq!(store.snapshots(&peer("pc-2"), None, 100).await.expect("reads").len(), 1);
    let retention = Retention { bytes_per_agent: Some(1), ..Retention::default() };
    store.prune(retention, at(20)).await.expect("prunes");
    assert_eq!(store.snapshots(&peer("pc-1"), None, 100).await.expect("reads").len(), 1, "and its latest always");
}
