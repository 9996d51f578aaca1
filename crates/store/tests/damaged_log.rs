//! A byte that changes in the write-ahead log of a killed hub is found before anything is lost by it.

use std::path::{Path, PathBuf};

use convoke_core::journal::{Draft, Expected, Kind};
use convoke_core::time::Timestamp;
use convoke_store::audit::{self, Verdict};
use convoke_store::{Calls as _, Journal as _, OpenOptions, SqlStore, Store as _, StoreError, backup, keys};

const NOW: Timestamp = Timestamp::from_millis(1_780_000_000_000);
const PAGE: usize = 8192;

/// What a kill leaves of a hub with 40 acknowledged records.
async fn killed() -> tempfile::TempDir {
    killed_after("").await
}

/// The same, where this was done in its database before.
async fn killed_after(sql: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    // Once before, so that nothing but the records is in the log.
    SqlStore::open(OpenOptions::new(dir.path())).expect("opens").close().await.expect("closes");
    execute(dir.path(), sql);
    let store = SqlStore::open(OpenOptions::new(dir.path())).expect("opens");
    append(&store, 40).await;
    let left = as_it_is(dir.path());
    store.close().await.expect("closes");
    left
}

fn execute(dir: &Path, sql: &str) {
    rusqlite::Connection::open(dir.join("hub.db")).expect("opens").execute_batch(sql).expect("is done");
}

/// The files as they are while the hub has them.
fn as_it_is(dir: &Path) -> tempfile::TempDir {
    let left = tempfile::tempdir().expect("a directory");
    for name in ["hub.db", "hub.db-wal", "data.key", "hub.lock"] {
        std::fs::copy(dir.join(name), left.path().join(name)).expect("copies");
    }
    left
}

async fn append(store: &SqlStore, records: usize) {
    for _ in 0..records {
        store.append(Draft::new(NOW, Kind::Hub)).await.expect("appends");
    }
}

fn wal(dir: &Path) -> PathBuf {
    dir.join("hub.db-wal")
}

/// Changes a byte in the middle of the log, and answers what the log is then.
fn damage(dir: &Path) -> Vec<u8> {
    let mut log = std::fs::read(wal(dir)).expect("reads");
    let frames = (log.len() - 32) / (24 + PAGE);
    log[32 + frames / 2 * (24 + PAGE) + 500] ^= 1;
    std::fs::write(wal(dir), &log).expect("writes");
    log
}

fn verify(dir: &Path) -> Verdict {
    audit::verify_dir(dir, Expected::default()).expect("reads")
}

fn records(dir: &Path) -> u64 {
    let Verdict::Good(summary) = verify(dir) else { panic!("{:?}", verify(dir)) };
    summary.last_seq
}

fn accepting(dir: &Path) -> OpenOptions {
    OpenOptions { accept_damaged_log: true, ..OpenOptions::new(dir) }
}

#[tokio::test]
async fn a_killed_hub_verifies_and_opens() {
    let dir = killed().await;
    assert_eq!(records(dir.path()), 40);
    // Where there is no damage, being ready to accept one changes nothing.
    SqlStore::open(accepting(dir.path())).expect("opens").close().await.expect("closes");
    assert_eq!(records(dir.path()), 40);
    assert!(!dir.path().join("hub.db-wal.damaged").exists());
}

#[tokio::test]
async fn verifying_finds_it_and_changes_nothing() {
    let dir = killed().await;
    let log = damage(dir.path());
    let Verdict::DamagedLog(found) = verify(dir.path()) else { panic!("{:?}", verify(dir.path())) };
    assert!(found.frame.is_some_and(|frame| frame > 10) && (10..30).contains(&found.commits), "{found}");
    assert_eq!(std::fs::read(wal(dir.path())).expect("reads"), log);
}

#[tokio::test]
async fn nothing_opens_it_and_the_evidence_stays() {
    let dir = killed().await;
    let log = damage(dir.path());
    let backup = dir.path().join("a.backup");
    for refused in [
        SqlStore::open(OpenOptions::new(dir.path())).map(drop),
        keys::rotate(dir.path(), None, None).map(drop),
        backup::create(dir.path(), &backup, None, None).map(drop),
        audit::export(dir.path(), &mut Vec::new(), NOW).map(drop),
    ] {
        assert!(matches!(refused, Err(StoreError::DamagedLog { .. })), "{refused:?}");
        let text = refused.expect_err("refused").to_string();
        assert!(text.contains("hub.db-wal") && text.contains("store.accept_damaged_log=true"), "{text}");
    }
    assert_eq!(std::fs::read(wal(dir.path())).expect("reads"), log);
}

#[tokio::test]
async fn who_accepts_it_goes_on_with_what_is_before_and_keeps_the_log() {
    let dir = killed().await;
    std::fs::write(dir.path().join("hub.db-wal.damaged"), "of another day").expect("writes");
    let log = damage(dir.path());
    let store = SqlStore::open(accepting(dir.path())).expect("opens");
    assert_eq!(std::fs::read(dir.path().join("hub.db-wal.damaged.2")).expect("reads"), log);
    let left = records(dir.path());
    assert!(0 < left && left < 40, "{left}");
    append(&store, 1).await;
    // Killed once more, it has nothing left of the damage.
    let again = as_it_is(dir.path());
    store.close().await.expect("closes");
    assert_eq!(records(again.path()), left + 1);
    SqlStore::open(OpenOptions::new(again.path())).expect("opens").close().await.expect("closes");
    assert_eq!(std::fs::read(dir.path().join("hub.db-wal.damaged")).expect("reads"), b"of another day");
}

#[tokio::test]
async fn a_log_without_its_header_can_be_accepted_too() {
    let dir = killed().await;
    let mut log = std::fs::read(wal(dir.path())).expect("reads");
    log[5] ^= 1;
    std::fs::write(wal(dir.path()), &log).expect("writes");
    let Verdict::DamagedLog(found) = verify(dir.path()) else { panic!("{:?}", verify(dir.path())) };
    assert_eq!(found.frame, None);
    assert!(matches!(SqlStore::open(OpenOptions::new(dir.path())), Err(StoreError::DamagedLog { .. })));
    let store = SqlStore::open(accepting(dir.path())).expect("opens");
    assert_eq!(records(dir.path()), 0, "they were all in the log");
    store.close().await.expect("closes");
    assert_eq!(std::fs::read(dir.path().join("hub.db-wal.damaged")).expect("reads"), log);
}

#[tokio::test]
async fn what_is_left_is_told_to_be_of_an_earlier_time_until_that_is_settled() {
    let dir = killed().await;
    damage(dir.path());
    let store = SqlStore::open(accepting(dir.path())).expect("opens");
    assert!(store.is_restored().await.expect("reads"));
    assert!(!dir.path().join("hub.db-wal.accepting").exists());
    store.settle_restored(Draft::new(NOW, Kind::Hub)).await.expect("settles");
    store.close().await.expect("closes");
    let store = SqlStore::open(accepting(dir.path())).expect("opens");
    assert!(!store.is_restored().await.expect("reads"));
    store.close().await.expect("closes");
}

#[tokio::test]
async fn a_start_that_ends_when_the_log_is_cut_does_not_hide_that_it_was() {
    let dir = killed_after("CREATE TRIGGER dies BEFORE INSERT ON meta BEGIN SELECT RAISE(ABORT, 'dies'); END").await;
    damage(dir.path());
    SqlStore::open(accepting(dir.path())).expect_err("dies before the mark");
    // The trigger itself is found: it does not belong there.
    assert!(!matches!(verify(dir.path()), Verdict::DamagedLog(_)), "nothing of the damage is left to find");
    execute(dir.path(), "DROP TRIGGER dies");
    let store = SqlStore::open(OpenOptions::new(dir.path())).expect("opens");
    assert!(store.is_restored().await.expect("reads"));
    store.close().await.expect("closes");
}
