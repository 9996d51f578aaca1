//! Another program beside a hub that runs: what it does with the database must not cost the hub anything.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;

use convoke_core::journal::{Draft, Kind};
use convoke_core::time::Timestamp;
use convoke_store::{Journal as _, OpenOptions, SqlStore, Store as _, audit};

/// Opens the database for writing, looks at it and closes it, as a person with a database browser does.
const LOOK: &str = "
import sqlite3, sys
conn = sqlite3.connect(sys.argv[1])
print(conn.execute('SELECT count(*) FROM journal').fetchone()[0])
conn.close()
";

fn look(db: &Path) -> u64 {
    let looked = Command::new("python3").args(["-c", LOOK]).arg(db).output().expect("python3 is there");
    assert!(looked.status.success(), "{}", String::from_utf8_lossy(&looked.stderr));
    String::from_utf8_lossy(&looked.stdout).trim().parse().expect("a number")
}

#[tokio::test]
async fn who_looks_into_the_database_of_a_running_hub_does_not_take_its_log_away() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = SqlStore::open(OpenOptions::new(dir.path())).expect("opens");
    let append = async || store.append(Draft::new(Timestamp::from_millis(0), Kind::Hub)).await.expect("appends");
    let id_of = |name: &str| dir.path().join(name).metadata().map(|file| file.ino()).ok();
    for round in 1..=3 {
        append().await;
        let before = ["hub.db-wal", "hub.db-shm"].map(id_of);
        assert!(before.iter().all(Option::is_some));
        assert_eq!(look(&dir.path().join("hub.db")), round);
        assert_eq!(["hub.db-wal", "hub.db-shm"].map(id_of), before);
    }
    append().await;
    assert_eq!(kept_after_a_kill(dir.path()), 4);
    store.close().await.expect("closes");
}

/// The journal's last place in what is there of it on the disk.
fn kept_after_a_kill(dir: &Path) -> u64 {
    let left = tempfile::tempdir().expect("a directory");
    for file in fs::read_dir(dir).expect("is read").flatten() {
        fs::copy(file.path(), left.path().join(file.file_name())).expect("is copied");
    }
    match audit::verify_dir(left.path(), Default::default()).expect("reads") {
        audit::Verdict::Good(summary) => summary.last_seq,
        other => panic!("{other:?}"),
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_log_that_somebody_removed_is_missed_and_nothing_more_depends_on_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = SqlStore::open(OpenOptions::new(dir.path())).expect("opens");
    let append = async || store.append(Draft::new(Timestamp::from_millis(0), Kind::Hub)).await.expect("appends");
    append().await;
    fs::remove_file(dir.path().join("hub.db-wal")).expect("is there");
    for _ in 0..100 {
        append().await;
    }
    // The one before the last has been looked after.
    assert!(kept_after_a_kill(dir.path()) >= 100);
    store.close().await.expect("closes");
    assert_eq!(kept_after_a_kill(dir.path()), 101);
}
