use std::io::Cursor;

use rusqlite::Connection;

use super::*;

const PAGE: usize = 4096;
const FRAME: usize = FRAME_HEADER + PAGE;

/// A database with an open log, as a kill would leave it: nothing is closed before the log is read.
struct Writer {
    dir: tempfile::TempDir,
    conn: Connection,
}

impl Writer {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let conn = Connection::open(dir.path().join("x.db")).expect("opens");
        conn.execute_batch(
            "PRAGMA page_size = 4096; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
             PRAGMA wal_autocheckpoint = 0; CREATE TABLE t (a INTEGER PRIMARY KEY, b);
             CREATE INDEX i ON t (b); CREATE TABLE large (b);",
        )
        .expect("sets up");
        conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).expect("empties the log");
        Self { dir, conn }
    }

    /// Each has two frames or more: the table and its index.
    fn commit(&self, times: usize) -> &Self {
        for _ in 0..times {
            self.conn.execute("INSERT INTO t (b) VALUES (hex(randomblob(300)))", []).expect("inserts");
        }
        self
    }

    fn start_over(&self) -> &Self {
        self.conn.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(())).expect("copies");
        self
    }

    fn log(&self) -> Vec<u8> {
        std::fs::read(self.dir.path().join("x.db-wal")).expect("reads")
    }
}

fn ten_commits() -> Vec<u8> {
    Writer::new().commit(10).log()
}

/// The places, from 0, of the frames that end a commit.
fn ends(log: &[u8]) -> Vec<usize> {
    let is_end = |n: &usize| word(&log[HEADER + n * FRAME + 4..]) != 0;
    (0..(log.len() - HEADER) / FRAME).filter(is_end).collect()
}

fn seen(log: &[u8]) -> Option<(Option<u64>, u64)> {
    read(Cursor::new(log)).expect("reads").map(|(damage, _)| (damage.frame, damage.commits))
}

fn flipped(log: &[u8], at: usize) -> Vec<u8> {
    let mut log = log.to_vec();
    log[at] ^= 1;
    log
}

#[test]
fn an_untouched_log_is_sound() {
    let log = ten_commits();
    assert_eq!(ends(&log).len(), 10);
    assert_eq!(seen(&log), None);
    assert_eq!(seen(&[]), None);
    assert_eq!(seen(&log[..HEADER]), None);
    assert_eq!(seen(&vec![0; log.len()]), None);
}

#[test]
fn any_byte_before_the_last_commit_is_found_when_it_changes() {
    let log = ten_commits();
    let ends = ends(&log);
    for n in 0..=ends[8] {
        let left = ends.iter().filter(|end| **end >= n).count() as u64;
        let start = HEADER + n * FRAME;
        // In the page number, the salts, the checksum, the page.
        for at in [3, 8, 15, 16, 23, 24, 24 + 2_000, FRAME - 1] {
            assert_eq!(seen(&flipped(&log, start + at)), Some((Some(n as u64 + 1), left)), "frame {n}, byte {at}");
        }
    }
    for at in 0..HEADER {
        assert_eq!(seen(&flipped(&log, at)), Some((None, 10)), "header, byte {at}");
    }
}

#[test]
fn a_commit_mark_that_changes_is_found() {
    let log = ten_commits();
    for n in 0..ends(&log)[7] {
        let found = seen(&flipped(&log, HEADER + n * FRAME + 7)).expect("found");
        assert_eq!(found.0, Some(n as u64 + 1));
    }
}

#[test]
fn a_sector_of_zeroes_and_many_changed_pages_are_found() {
    let log = ten_commits();
    let ends = ends(&log);
    let mut zeroed = log.clone();
    let sector = (HEADER + ends[4] * FRAME) / 512 * 512;
    zeroed[sector..sector + 512].fill(0);
    assert!(seen(&zeroed).is_some());
    let mut first = log.clone();
    first[..512].fill(0);
    assert_eq!(seen(&first).expect("found").0, None);
    // Where every page is changed no frame continues another.
    let mut every = Writer::new().commit(40).log();
    for n in 0..every.len() / FRAME {
        every[HEADER + n * FRAME + 100] ^= 1;
    }
    assert_eq!(seen(&every), Some((Some(1), 40)));
}

#[test]
fn a_last_commit_that_a_power_cut_left_half_written_is_no_damage() {
    let log = ten_commits();
    let ends = ends(&log);
    let last = HEADER + (ends[8] + 1) * FRAME;
    assert!(ends[9] > ends[8] + 1, "of more than one frame");
    for length in [log.len() - 1, log.len() - FRAME, last + FRAME + 10, last + 1] {
        assert_eq!(seen(&log[..length]), None, "cut at {length}");
    }
    for at in (last..log.len() - 512).step_by(512) {
        let mut torn = log.clone();
        torn[at..at + 512].fill(0);
        assert_eq!(seen(&torn), None, "torn at {at}");
    }
}

#[test]
fn frames_that_continue_the_last_commit_prove_that_it_was_whole() {
    let writer = Writer::new();
    writer.commit(3);
    let ends = ends(&writer.log());
    // A transaction that does not fit into memory goes to the log before it is committed.
    let large = "PRAGMA cache_size = 5; BEGIN; INSERT INTO large VALUES (randomblob(200000));";
    writer.conn.execute_batch(large).expect("inserts");
    let log = writer.log();
    assert!((log.len() - HEADER) / FRAME > ends[2] + 2, "some of it is in the log");
    assert_eq!(seen(&log), None);
    assert_eq!(seen(&flipped(&log, HEADER + ends[2] * FRAME + 99)), Some((Some(ends[2] as u64 + 1), 1)));
}

#[test]
fn what_an_older_round_left_is_no_damage_and_does_not_hide_one() {
    let writer = Writer::new();
    let log = writer.commit(20).start_over().commit(10).start_over().commit(4).log();
    let round = ends(&log);
    assert!(round.len() > 10, "older commits are still there");
    assert_eq!(seen(&log), None);
    assert_eq!(seen(&flipped(&log, HEADER + 50)), Some((Some(1), 4)));
    assert_eq!(seen(&flipped(&log, HEADER + round[3] * FRAME + 50)), None, "the last commit");
    assert_eq!(seen(&flipped(&log, HEADER + round[8] * FRAME + 50)), None, "an older one");
    assert_eq!(seen(&flipped(&log, 17)), Some((None, 4)));
}

#[test]
fn what_a_failed_commit_left_is_no_damage() {
    // A large commit whose sync failed, and a small one written over its beginning, in the same round.
    let writer = Writer::new();
    let start = writer.commit(3).log().len();
    let other = tempfile::tempdir().expect("a directory");
    for name in ["x.db", "x.db-wal"] {
        std::fs::copy(writer.dir.path().join(name), other.path().join(name)).expect("copies");
    }
    writer.conn.execute_batch("BEGIN").expect("begins");
    writer.commit(60);
    writer.conn.execute_batch("COMMIT").expect("commits");
    let failed = writer.log();
    let again = Connection::open(other.path().join("x.db")).expect("opens");
    again.execute("INSERT INTO t (b) VALUES (1)", []).expect("inserts");
    let mut log = std::fs::read(other.path().join("x.db-wal")).expect("reads");
    assert_eq!(log[..start], failed[..start]);
    assert!(start < log.len() && log.len() < failed.len());
    log.extend_from_slice(&failed[log.len()..]);
    assert_eq!(seen(&log), None);
}

#[test]
fn what_a_spell_of_failed_commits_left_is_no_damage() {
    // Each of these was written over the beginning of the one before, and all but the shortest left their end.
    let writer = Writer::new();
    writer.commit(3);
    let sizes = (1..=12).rev().map(|n| n * 40);
    let mut log: Vec<u8> = Vec::new();
    let mut last = 0;
    for size in sizes {
        let other = tempfile::tempdir().expect("a directory");
        for name in ["x.db", "x.db-wal"] {
            std::fs::copy(writer.dir.path().join(name), other.path().join(name)).expect("copies");
        }
        let again = Connection::open(other.path().join("x.db")).expect("opens");
        again.execute_batch("BEGIN").expect("begins");
        for _ in 0..size {
            again.execute("INSERT INTO t (b) VALUES (hex(randomblob(300)))", []).expect("inserts");
        }
        again.execute_batch("COMMIT").expect("commits");
        let written = std::fs::read(other.path().join("x.db-wal")).expect("reads");
        if log.is_empty() {
            log.clone_from(&written);
        }
        assert!(written.len() < log.len() || last == 0, "shorter than the one before");
        log[..written.len()].copy_from_slice(&written);
        last = written.len();
    }
    assert!(ends(&log).len() > 3 + 8, "their ends are there");
    assert_eq!(seen(&log), None);
}

#[test]
fn a_log_that_is_being_written_gives_no_false_alarm() {
    let writer = Writer::new();
    let path = writer.dir.path().join("x.db-wal");
    let is_ended = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_ended.load(std::sync::atomic::Ordering::Relaxed) {
                assert_eq!(find(&path).expect("reads"), None);
            }
        });
        writer.conn.execute_batch("PRAGMA synchronous = OFF").expect("sets");
        for _ in 0..40 {
            writer.commit(40).start_over();
        }
        is_ended.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}
