//! Records that are acknowledged from the tail are there after a kill, wherever one looks.

use std::path::Path;
use std::sync::Arc;

use convoke_core::guard::{AppliesTo, Rule};
use convoke_core::id::CallId;
use convoke_core::journal::{Draft, Expected, Kind, Phase};
use convoke_core::secret::SecretBytes;
use convoke_core::time::Timestamp;
use convoke_store::audit::{self, Export, Verdict};
use convoke_store::{JournalFilter, OpenOptions, SqliteStore, Store, StoreError, backup, keys};
use tokio::sync::oneshot;
use uuid::Uuid;

const NOW: Timestamp = Timestamp::from_millis(1_780_000_000_000);

fn open(dir: &Path) -> SqliteStore {
    SqliteStore::open(OpenOptions::new(dir)).expect("opens")
}

fn outcome(call: u128) -> Draft {
    Draft {
        phase: Some(Phase::Outcome),
        call_id: Some(CallId::new(Uuid::from_u128(call))),
        target: Some(format!("pc-{}", call % 7)),
        ..Draft::new(NOW, Kind::Call)
    }
}

/// Appends as a call does, and waits until it is acknowledged.
async fn end_call(store: &dyn Store, draft: Draft) -> u64 {
    let expected = store.announce();
    let (told, committed) = oneshot::channel();
    store.append_expected(Box::new(draft), expected, told);
    committed.await.expect("answered").expect("appended")
}

/// Whether this machine can write to the tail; where it cannot there is nothing to look at.
fn has_tail(store: &SqliteStore) -> bool {
    let has = store.stats().tail_open;
    if !has {
        eprintln!("no direct writes here");
    }
    has
}

/// The files as they are while the hub has them: what a kill leaves.
fn killed(dir: &Path) -> tempfile::TempDir {
    let left = tempfile::tempdir().expect("a directory");
    // The tail last: what is in it by then may be in the database as well, and not the other way round.
    for name in ["data.key", "hub.lock", "hub.db", "hub.db-wal", "hub.db-tail"] {
        std::fs::copy(dir.join(name), left.path().join(name)).expect("copies");
    }
    left
}

/// A hub that was killed with `calls` in its tail, of which the database has none.
async fn killed_with(calls: u128) -> Option<tempfile::TempDir> {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path());
    if !has_tail(&store) {
        return None;
    }
    let intent = Draft { phase: Some(Phase::Intent), ..outcome(1) };
    store.append(intent).await.expect("appended");
    assert_eq!(records(&store).await, 1, "the database has this one");
    // Nothing comes into the database while somebody else writes it.
    let other = rusqlite::Connection::open(dir.path().join("hub.db")).expect("opens");
    other.execute_batch("BEGIN IMMEDIATE").expect("begins");
    for call in 1..=calls {
        end_call(&store, outcome(call)).await;
    }
    assert_eq!(store.stats().tail_records, 1 + calls as u64);
    let left = killed(dir.path());
    other.execute_batch("ROLLBACK").expect("ends");
    drop(other);
    store.close().await.expect("closes");
    Some(left)
}

async fn records(store: &dyn Store) -> usize {
    store.journal(JournalFilter { limit: 10_000, ..JournalFilter::default() }).await.expect("reads").len()
}

fn verified(dir: &Path) -> u64 {
    match audit::verify_dir(dir, Expected::default()).expect("reads") {
        Verdict::Good(summary) => summary.last_seq,
        bad => panic!("{bad:?}"),
    }
}

#[tokio::test]
async fn a_killed_hub_has_what_it_acknowledged() {
    let Some(left) = killed_with(20).await else { return };
    assert_eq!(verified(left.path()), 21, "before anything is repaired");
    let store = open(left.path());
    assert_eq!(records(&store).await, 21);
    assert!(store.open_intents().await.expect("reads").is_empty(), "the call that was announced has ended");
    let of_one = JournalFilter { agent: Some("pc-3".into()), limit: 100, ..JournalFilter::default() };
    assert_eq!(store.journal(of_one).await.expect("reads").len(), 3, "filters find them");
    end_call(&store, outcome(99)).await;
    assert_eq!(records(&store).await, 22, "and it goes on from there");
    store.close().await.expect("closes");
    assert_eq!(verified(left.path()), 22);
}

#[tokio::test]
async fn an_export_and_a_backup_of_a_killed_hub_have_it_too() {
    let Some(left) = killed_with(20).await else { return };
    let mut export = Vec::new();
    let written = audit::export(left.path(), &mut export, NOW).expect("exports");
    assert_eq!(written, Export::Written { records: 21 });
    assert!(audit::verify_export(&export[..], Expected::default()).expect("reads").is_good());
    let file = left.path().join("a.backup");
    assert_eq!(backup::create(left.path(), &file, None, None).expect("backs up").journal_seq, 21);
    assert_eq!(verified(left.path()), 21);
}

#[tokio::test]
async fn a_new_key_for_a_killed_hub_is_recorded_behind_it() {
    let Some(left) = killed_with(5).await else { return };
    keys::rotate(left.path(), None, None).expect("rotates");
    assert_eq!(verified(left.path()), 7);
    let store = open(left.path());
    assert_eq!(records(&store).await, 7);
    store.close().await.expect("closes");
}

#[tokio::test]
async fn what_was_acknowledged_is_read_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path());
    for call in 1..=50 {
        let seq = end_call(&store, outcome(call)).await;
        assert_eq!((seq, store.stats().journal_seq), (call as u64, call as u64));
        assert_eq!(records(&store).await, call as usize);
    }
    // Beside the running hub, by another program.
    end_call(&store, outcome(51)).await;
    assert_eq!(verified(dir.path()), 51);
    end_call(&store, outcome(52)).await;
    let mut export = Vec::new();
    let written = audit::export(dir.path(), &mut export, NOW).expect("exports");
    assert_eq!(written, Export::Written { records: 52 });
    end_call(&store, outcome(53)).await;
    let file = dir.path().join("a.backup");
    assert_eq!(backup::create(dir.path(), &file, None, None).expect("backs up").journal_seq, 53);
    end_call(&store, outcome(54)).await;
    store.backup(&dir.path().join("b.backup")).await.expect("backs up");
    assert_eq!(backup::verify(&dir.path().join("b.backup")).expect("holds").0.journal_seq, 54);
    store.close().await.expect("closes");
}

fn rule(number: u128) -> Rule {
    let (id, pattern, reason) = (format!("r{number}"), "x".into(), "a reason".into());
    Rule { id, applies_to: AppliesTo::Posix, pattern, reason }
}

#[tokio::test]
async fn records_of_both_ways_stand_in_one_chain_in_the_order_of_their_numbers() {
    let dir = tempfile::tempdir().expect("a directory");
    let store: Arc<dyn Store> = Arc::new(open(dir.path()));
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..12 {
        let store = Arc::clone(&store);
        tasks.spawn(async move {
            let mut numbers = Vec::new();
            for call in 0..100 {
                let draft = outcome(task * 1_000 + call);
                match (task * 31 + call) % 13 {
                    0 => store.put_deny_rule(&rule(task * 1_000 + call), draft).await.expect("kept"),
                    1 => numbers.push(store.append(draft).await.expect("appended")),
                    _ => numbers.push(end_call(&*store, draft).await),
                }
            }
            numbers
        });
    }
    let mut numbers: Vec<u64> = tasks.join_all().await.concat();
    numbers.sort_unstable();
    assert!(numbers.is_sorted_by(|a, b| a < b) && numbers.len() > 1_000, "no place is given twice");
    let stats = store.stats();
    assert!(!stats.tail_open || stats.tail_records > 300, "{stats:?}");
    assert_eq!(records(&*store).await, 1_200);
    store.close().await.expect("closes");
    assert_eq!(verified(dir.path()), 1_200);
    let store = open(dir.path());
    assert_eq!(records(&store).await, 1_200);
    store.close().await.expect("closes");
}

#[tokio::test]
async fn a_tail_that_is_full_lets_the_rest_wait_for_the_database() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Arc::new(open(dir.path()));
    if !has_tail(&store) {
        return;
    }
    let other = rusqlite::Connection::open(dir.path().join("hub.db")).expect("opens");
    other.execute_batch("BEGIN IMMEDIATE").expect("begins");
    // A frame each, and 1,024 pages; then the database has to catch up.
    let mut waiting = None;
    for call in 1..=1_025 {
        let (store, expected) = (Arc::clone(&store), store.announce());
        let (told, mut committed) = oneshot::channel();
        store.append_expected(Box::new(outcome(call)), expected, told);
        let answered = tokio::time::timeout(std::time::Duration::from_millis(400), &mut committed).await;
        if answered.is_err() {
            waiting = Some((call, committed));
            break;
        }
    }
    let (call, committed) = waiting.expect("one had to wait");
    assert!(call > 900, "{call}");
    let left = killed(dir.path());
    assert_eq!(verified(left.path()), call as u64 - 1, "what was acknowledged is there, and no more");
    other.execute_batch("ROLLBACK").expect("ends");
    committed.await.expect("answered").expect("appended");
    let before = store.stats().tail_records;
    end_call(&*store, outcome(2_000)).await;
    end_call(&*store, outcome(2_001)).await;
    assert!(store.stats().tail_records > before, "and then there is room again");
    assert_eq!(records(&*store).await, call as usize + 2);
    store.close().await.expect("closes");
    assert_eq!(verified(dir.path()), call as u64 + 2);
}

#[tokio::test]
async fn a_damaged_tail_is_refused_and_changes_nothing() {
    let Some(left) = killed_with(20).await else { return };
    let dir = left.path();
    let mut tail = std::fs::read(dir.join("hub.db-tail")).expect("reads");
    // In the fifth of the twenty frames, of a page each; the announcement's is before them.
    tail[6 * 4_096 + 300] ^= 1;
    std::fs::write(dir.join("hub.db-tail"), &tail).expect("writes");
    let Verdict::DamagedTail(damage) = audit::verify_dir(dir, Expected::default()).expect("reads") else {
        panic!("it is damaged");
    };
    assert_eq!((damage.record, damage.behind), (6, 15));
    for refused in [
        SqliteStore::open(OpenOptions::new(dir)).map(drop),
        keys::rotate(dir, None, None).map(drop),
        backup::create(dir, &dir.join("a.backup"), None, None).map(drop),
    ] {
        assert!(matches!(refused, Err(StoreError::DamagedTail { .. })), "{refused:?}");
    }
    let exported = audit::export(dir, Vec::new(), NOW).expect("reads");
    assert_eq!(exported, Export::Refused(Verdict::DamagedTail(damage)));
    assert_eq!(std::fs::read(dir.join("hub.db-tail")).expect("reads"), tail);

    let accepting = OpenOptions { accept_damaged_log: true, ..OpenOptions::new(dir) };
    let store = SqliteStore::open(accepting).expect("opens");
    assert_eq!(std::fs::read(dir.join("hub.db-tail.damaged")).expect("kept"), tail);
    assert_eq!(records(&store).await, 5, "what stands before the damage");
    assert!(store.is_restored().await.expect("reads"), "and what waited is not taken up");
    end_call(&store, outcome(1)).await;
    let after = killed(dir);
    store.close().await.expect("closes");
    assert_eq!(verified(after.path()), 6);
    let store = open(after.path());
    assert_eq!(records(&store).await, 6, "what is behind the damage is not found again");
    store.close().await.expect("closes");
}

#[tokio::test]
async fn an_older_database_beside_a_newer_tail_is_found() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path());
    if !has_tail(&store) {
        return;
    }
    end_call(&store, outcome(1)).await;
    store.close().await.expect("closes");
    let older = std::fs::read(dir.path().join("hub.db")).expect("reads");
    let store = open(dir.path());
    for call in 2..=9 {
        end_call(&store, outcome(call)).await;
        store.put_deny_rule(&rule(call), outcome(call + 100)).await.expect("kept");
    }
    let left = killed(dir.path());
    store.close().await.expect("closes");
    assert!(!dir.path().join("hub.db-tail").exists(), "after an orderly end the database is all there is");
    std::fs::remove_file(left.path().join("hub.db-wal")).expect("removes");
    std::fs::write(left.path().join("hub.db"), older).expect("writes");
    let refused = SqliteStore::open(OpenOptions::new(left.path()));
    assert!(matches!(refused, Err(StoreError::DamagedTail { .. })), "{:?}", refused.map(drop));
}

#[tokio::test]
async fn another_hubs_tail_is_not_taken_for_its_own() {
    let (Some(left), Some(other)) = (killed_with(3).await, killed_with(9).await) else { return };
    for (dir, tail) in [(&left, &other), (&other, &left)] {
        let own = std::fs::read(dir.path().join("hub.db-tail")).expect("reads");
        std::fs::copy(tail.path().join("hub.db-tail"), dir.path().join("hub.db-tail")).expect("copies");
        let refused = SqliteStore::open(OpenOptions::new(dir.path())).map(drop);
        assert!(matches!(refused, Err(StoreError::OtherTail { .. })), "{refused:?}");
        let refused = audit::verify_dir(dir.path(), Expected::default());
        assert!(matches!(refused, Err(StoreError::OtherTail { .. })), "{refused:?}");
        std::fs::write(dir.path().join("hub.db-tail"), own).expect("writes");
    }
    assert_eq!((verified(left.path()), verified(other.path())), (4, 10));
}

#[tokio::test]
async fn a_tail_that_is_removed_is_noticed_and_nothing_is_acknowledged_from_it_then() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path());
    if !has_tail(&store) {
        return;
    }
    end_call(&store, outcome(1)).await;
    std::fs::remove_file(dir.path().join("hub.db-tail")).expect("removes");
    let mut calls = 1;
    while store.stats().tail_open {
        calls += 1;
        end_call(&store, outcome(calls)).await;
    }
    let before = store.stats().tail_records;
    end_call(&store, outcome(calls + 1)).await;
    assert_eq!(store.stats().tail_records, before);
    let left = tempfile::tempdir().expect("a directory");
    for name in ["data.key", "hub.lock", "hub.db", "hub.db-wal"] {
        std::fs::copy(dir.path().join(name), left.path().join(name)).expect("copies");
    }
    assert_eq!(verified(left.path()), calls as u64 + 1, "all of it is in the database");
    store.close().await.expect("closes");
}

#[tokio::test]
async fn without_the_tail_everything_is_in_the_database_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let without = OpenOptions { tail: false, ..OpenOptions::new(dir.path()) };
    let store = SqliteStore::open(without).expect("opens");
    end_call(&store, outcome(1)).await;
    let stats = store.stats();
    assert_eq!((stats.tail_records, stats.tail_open, stats.writes), (0, false, 1));
    assert!(!dir.path().join("hub.db-tail").exists());
    store.close().await.expect("closes");
}

/// Changes a byte in the last of the twenty frames, of a page each; the announcement's is before them.
fn break_last_frame(dir: &Path) -> Vec<u8> {
    let mut tail = std::fs::read(dir.join("hub.db-tail")).expect("reads");
    tail[21 * 4_096 + 300] ^= 1;
    std::fs::write(dir.join("hub.db-tail"), &tail).expect("writes");
    tail
}

#[tokio::test]
async fn a_last_write_that_does_not_hold_is_kept_and_a_wrong_key_changes_nothing() {
    let Some(left) = killed_with(20).await else { return };
    let dir = left.path();
    let tail = break_last_frame(dir);
    let key = std::fs::read(dir.join("data.key")).expect("reads");
    let wrong = SecretBytes::new([9; 32]);
    for _ in 0..2 {
        let refused = SqliteStore::open(OpenOptions { data_key: Some(wrong.clone()), ..OpenOptions::new(dir) });
        assert!(matches!(refused, Err(StoreError::WrongKey { .. })), "{:?}", refused.map(drop));
        let refused = keys::rotate(dir, Some(&wrong), None);
        assert!(matches!(refused, Err(StoreError::WrongKey { .. })), "{refused:?}");
        assert_eq!(std::fs::read(dir.join("hub.db-tail")).expect("is there"), tail);
        assert_eq!(std::fs::read(dir.join("data.key")).expect("is there"), key);
    }
    let store = open(dir);
    assert_eq!(records(&store).await, 20, "all but the last");
    assert_eq!(std::fs::read(dir.join("hub.db-tail.damaged")).expect("kept"), tail);
    store.close().await.expect("closes");
    assert_eq!(verified(dir), 20);
}

#[tokio::test]
async fn a_rotation_keeps_a_last_write_that_does_not_hold_too() {
    let Some(left) = killed_with(20).await else { return };
    let tail = break_last_frame(left.path());
    keys::rotate(left.path(), None, None).expect("rotates");
    assert_eq!(std::fs::read(left.path().join("hub.db-tail.damaged")).expect("kept"), tail);
    assert_eq!(verified(left.path()), 21, "all but the last, and the rotation");
}

#[tokio::test]
async fn a_start_that_is_killed_before_the_tail_is_away_is_followed_by_one_that_finds_all() {
    let Some(left) = killed_with(20).await else { return };
    let path = left.path().join("hub.db-tail");
    let tail = std::fs::read(&path).expect("reads");
    for _ in 0..3 {
        // Joined, and the tail is still there.
        open(left.path()).close().await.expect("closes");
        std::fs::write(&path, &tail).expect("writes");
        assert_eq!(verified(left.path()), 21);
    }
    // A new one that was not finished.
    for length in [4_096, 1 << 20] {
        std::fs::write(&path, &tail[..length]).expect("writes");
        let store = open(left.path());
        assert_eq!(records(&store).await, 21);
        store.close().await.expect("closes");
    }
    assert_eq!(verified(left.path()), 21);
}

#[tokio::test]
async fn many_rounds_through_the_file_leave_what_is_newest() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path());
    if !has_tail(&store) {
        return;
    }
    let mut calls = 0;
    // A page each, of 1,024.
    for _ in 0..4 {
        for _ in 0..600 {
            calls += 1;
            end_call(&store, outcome(calls)).await;
        }
        assert_eq!(records(&store).await, calls as usize);
    }
    let other = rusqlite::Connection::open(dir.path().join("hub.db")).expect("opens");
    other.execute_batch("BEGIN IMMEDIATE").expect("begins");
    for _ in 0..900 {
        calls += 1;
        end_call(&store, outcome(calls)).await;
    }
    let left = killed(dir.path());
    other.execute_batch("ROLLBACK").expect("ends");
    store.close().await.expect("closes");
    assert_eq!((verified(dir.path()), verified(left.path())), (calls as u64, calls as u64));
    let store = open(left.path());
    assert_eq!(records(&store).await, calls as usize);
    store.close().await.expect("closes");
}

/// Reads the journal in every way beside hubs that start, append and stop.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_reads_beside_hubs_that_come_and_go_finds_no_damage() {
    let dir = tempfile::tempdir().expect("a directory");
    open(dir.path()).close().await.expect("closes");
    let at = dir.path().to_owned();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let reader = std::thread::spawn(move || {
        let mut looks = 0_u64;
        while stopped.try_recv() != Err(std::sync::mpsc::TryRecvError::Disconnected) {
            verified(&at);
            let exported = audit::export(&at, Vec::new(), NOW).expect("exports");
            assert!(matches!(exported, Export::Written { .. }), "{exported:?}");
            let file = at.join(format!("{looks}.backup"));
            backup::create(&at, &file, None, None).expect("backs up");
            std::fs::remove_file(&file).expect("removes");
            looks += 1;
        }
        looks
    });
    let mut calls = 0;
    for _ in 0..15 {
        let store: Arc<dyn Store> = Arc::new(open(dir.path()));
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..4 {
            let store = Arc::clone(&store);
            tasks.spawn(async move {
                for call in 0..40 {
                    end_call(&*store, outcome(call)).await;
                }
            });
        }
        tasks.join_all().await;
        calls += 160;
        store.close().await.expect("closes");
    }
    drop(stop);
    assert!(reader.join().expect("no damage") > 0);
    assert_eq!(verified(dir.path()), calls);
}
