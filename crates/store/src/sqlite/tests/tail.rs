//! Writes to the tail that fail, and a database that fails beside it.

use std::future::Future as _;
use std::path::Path;
use std::pin::pin;
use std::task::Poll;

use convoke_core::guard::{AppliesTo, Rule};

use super::*;

/// The files as a kill would leave them.
fn killed(dir: &Path) -> tempfile::TempDir {
    let left = tempfile::tempdir().expect("a directory");
    for name in ["data.key", "hub.lock", "hub.db", "hub.db-wal", "hub.db-tail"] {
        std::fs::copy(dir.join(name), left.path().join(name)).expect("copies");
    }
    left
}

fn verified(dir: &Path) -> u64 {
    match audit::verify_dir(dir, Default::default()).expect("reads") {
        audit::Verdict::Good(summary) => summary.last_seq,
        bad => panic!("{bad:?}"),
    }
}

/// A store whose writer does not wait for others who write the database; none where this machine has no tail.
async fn impatient(dir: &tempfile::TempDir) -> Option<Arc<SqliteStore>> {
    let store = open(dir);
    let impatient = |tx: &mut writer::Tx<'_>| Ok(tx.conn.execute_batch("PRAGMA busy_timeout = 0")?);
    store.queue.run(0, impatient).await.expect("sets");
    store.stats().tail_open.then_some(store)
}

/// Somebody who writes the database, so that nobody else can.
fn busy(dir: &tempfile::TempDir) -> Connection {
    let other = Connection::open(dir.path().join("hub.db")).expect("opens");
    other.execute_batch("BEGIN IMMEDIATE").expect("begins");
    other
}

/// Appends until the store can write again; the first that comes may be early by a moment.
async fn append_again(store: &SqliteStore) -> u64 {
    loop {
        if let Ok(seq) = store.append(record()).await {
            return seq;
        }
    }
}

/// A frame whose write was told as failed, and which is on the disk all the same.
#[tokio::test]
async fn the_ghost_of_a_failed_write_is_a_record_once_and_in_its_place() {
    for rule_first in [false, true] {
        let dir = tempfile::tempdir().expect("a directory");
        let Some(store) = impatient(&dir).await else { return };
        let other = busy(&dir);
        for seq in 1..=3 {
            assert_eq!(end_call(&store).await.expect("the tail takes it"), seq);
        }
        store.queue.tail().fail_next();
        let told = end_call(&store).await.expect_err("neither the tail nor the database takes it");
        assert!(matches!(told, StoreError::Undecided(_)) && !told.has_changed_nothing(), "{told:?}");
        assert!(!store.stats().tail_open);

        let left = killed(dir.path());
        assert_eq!(
            verified(left.path()),
            4,
            "found by a kill: it may have happened, and nobody was told that it has not"
        );
        let found = open(&left);
        assert_eq!(records(&found).await, 4);
        assert_eq!(end_call(&found).await.expect("goes on"), 5);
        found.close().await.expect("closes");

        other.execute_batch("ROLLBACK").expect("ends");
        let next = if rule_first {
            let (id, pattern, reason) = ("r".into(), "x".into(), "a reason".into());
            let rule = Rule { id, applies_to: AppliesTo::Posix, pattern, reason };
            while store.put_deny_rule(&rule, record()).await.is_err() {}
            6
        } else {
            5
        };
        assert_eq!(append_again(&store).await, next);
        assert_eq!(records(&store).await, next as usize);
        let left = killed(dir.path());
        assert_eq!(verified(left.path()), next, "the frame is still in the file");
        let found = open(&left);
        assert_eq!(records(&found).await, next as usize);
        found.close().await.expect("closes");
        store.close().await.expect("closes");
        assert_eq!(verified(dir.path()), next);
    }
}

#[tokio::test]
async fn a_failed_write_is_answered_by_the_database() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some(store) = impatient(&dir).await else { return };
    end_call(&store).await.expect("appends");
    store.queue.tail().fail_next();
    assert_eq!(end_call(&store).await.expect("by the long way"), 2);
    assert!(!store.stats().tail_open);
    assert_eq!(end_call(&store).await.expect("by the long way"), 3);
    assert_eq!(store.stats().tail_records, 1);
    store.close().await.expect("closes");
    assert_eq!(verified(dir.path()), 3);
}

#[tokio::test]
async fn nothing_is_acknowledged_from_a_tail_that_was_removed_while_the_database_is_busy() {
    let dir = tempfile::tempdir().expect("a directory");
    // Its writer waits, for seconds, within its transaction.
    let store = open(&dir);
    if !store.stats().tail_open {
        return;
    }
    let other = busy(&dir);
    end_call(&store).await.expect("the tail takes it");
    std::fs::remove_file(dir.path().join("hub.db-tail")).expect("removes");
    let (told, mut committed) = tokio::sync::oneshot::channel();
    store.append_expected(Box::new(record()), store.announce(), told);
    while store.stats().tail_open {
        assert!(committed.try_recv().is_err(), "acknowledged from a file that is gone");
        tokio::task::yield_now().await;
    }
    assert!(committed.try_recv().is_err());
    other.execute_batch("ROLLBACK").expect("ends");
    assert_eq!(committed.await.expect("answered").expect("the database takes it"), 2);
    store.close().await.expect("closes");
    assert_eq!(verified(dir.path()), 2);
}

#[tokio::test]
async fn another_file_in_the_tails_place_is_left_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(&dir);
    if !store.stats().tail_open {
        return;
    }
    let tail = dir.path().join("hub.db-tail");
    std::fs::rename(&tail, dir.path().join("moved")).expect("renames");
    std::fs::write(&tail, "somebody else's").expect("writes");
    assert_eq!(end_call(&store).await.expect("by the long way"), 1);
    store.close().await.expect("closes");
    assert_eq!(std::fs::read_to_string(&tail).expect("is there"), "somebody else's");
    // Nor is it lost at the next start, which needs its place.
    let store = open(&dir);
    let kept = dir.path().join("hub.db-tail.damaged");
    assert_eq!(std::fs::read_to_string(&kept).expect("is kept"), "somebody else's");
    store.close().await.expect("closes");
    open(&dir).close().await.expect("closes");
    assert!(!dir.path().join("hub.db-tail.damaged.2").exists(), "its own is not kept");
}

#[tokio::test]
async fn a_tail_that_is_cut_off_is_noticed() {
    for length in [0, 4096, 1 << 20] {
        let dir = tempfile::tempdir().expect("a directory");
        let store = open(&dir);
        if !store.stats().tail_open {
            return;
        }
        let file = std::fs::OpenOptions::new().write(true).open(dir.path().join("hub.db-tail")).expect("opens");
        file.set_len(length).expect("cuts");
        assert_eq!(end_call(&store).await.expect("by the long way"), 1);
        assert!(!store.stats().tail_open && store.stats().tail_records == 0);
        store.close().await.expect("closes");
        assert_eq!(verified(dir.path()), 1);
        open(&dir).close().await.expect("opens and closes");
    }
}

/// The runtime in which the store was opened ends while a frame is on its way to the disk.
#[test]
fn whoever_waits_for_a_write_when_its_runtime_ends_is_answered_by_the_database() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    for _ in 0..20 {
        let dir = tempfile::tempdir().expect("a directory");
        let first = runtime();
        let (store, committed) = first.block_on(async {
            let store = open(&dir);
            let (told, committed) = tokio::sync::oneshot::channel();
            store.append_expected(Box::new(record()), store.announce(), told);
            // The one who writes has its turn, and the write is under way.
            tokio::task::yield_now().await;
            (store, committed)
        });
        drop(first);
        runtime().block_on(async {
            assert_eq!(committed.await.expect("answered").expect("it holds"), 1);
            assert_eq!(records(&store).await, 1);
            store.close().await.expect("closes");
        });
        assert_eq!(verified(dir.path()), 1);
    }
}

/// The last transaction has the record of a write that fails when the writer takes no orders any more.
#[tokio::test]
async fn whoever_waits_for_a_write_that_fails_at_the_very_end_is_told_that_it_holds() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(&dir);
    if !store.stats().tail_open {
        return;
    }
    store.queue.tail().fail_next();
    let (told, committed) = tokio::sync::oneshot::channel();
    store.append_expected(Box::new(record()), store.announce(), told);
    let mut closing = pin!(store.close());
    let begun = std::future::poll_fn(|cx| Poll::Ready(closing.as_mut().poll(cx))).await;
    assert!(begun.is_pending());
    // Whoever writes the tail has no turn before the writer has closed its door: there is one thread, and it is here.
    while !store.queue.is_closed() {
        std::thread::yield_now();
    }
    closing.await.expect("closes");
    assert_eq!(committed.await.expect("answered").expect("it holds"), 1);
    assert_eq!(verified(dir.path()), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_waits_when_the_store_is_closed_is_not_told_that_nothing_was_recorded() {
    for round in 0..40_u64 {
        let dir = tempfile::tempdir().expect("a directory");
        let store = open(&dir);
        let mut calls = tokio::task::JoinSet::new();
        for _ in 0..4 {
            let store = Arc::clone(&store);
            calls.spawn(async move {
                let mut acknowledged = 0;
                loop {
                    let (told, committed) = tokio::sync::oneshot::channel();
                    store.append_expected(Box::new(record()), store.announce(), told);
                    let Ok(Ok(_)) = committed.await else { return acknowledged };
                    acknowledged += 1;
                }
            });
        }
        while store.stats().journal_seq < round {
            tokio::task::yield_now().await;
        }
        store.close().await.expect("closes");
        let acknowledged: u64 = calls.join_all().await.into_iter().sum();
        assert_eq!(verified(dir.path()), acknowledged, "as many as were answered, no fewer and no more");
    }
}
