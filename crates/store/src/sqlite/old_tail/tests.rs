use convoke_core::id::CallId;
use convoke_core::journal::{Chain, Draft, Expected, GENESIS, Kind, Phase};
use convoke_core::secret::SecretBytes;
use convoke_core::time::Timestamp;
use uuid::Uuid;

use super::*;
use crate::audit::{self, Export, Verdict};
use crate::sqlite::{OpenOptions, SqlStore};
use crate::{Calls, Journal, JournalFilter, Store};
use crate::{backup, keys};

const NOW: Timestamp = Timestamp::from_millis(1_780_000_000_000);
const SALT: Salt = [7; 16];

/// A file as version 0.1.0 wrote it.
struct Tail {
    bytes: Vec<u8>,
    chain: Chain,
    sealed: Vec<Sealed>,
}

impl Tail {
    fn new() -> Self {
        Self::behind(Chain::new(HubId::new(Uuid::nil())))
    }

    fn behind(chain: Chain) -> Self {
        let mut bytes = vec![0; LENGTH];
        let page = [&FILE_MARK[..], &SALT].concat();
        bytes[..24].copy_from_slice(&page);
        bytes[24..56].copy_from_slice(&Sha256::digest(&page));
        Self { bytes, chain, sealed: Vec::new() }
    }

    fn seal(&mut self, draft: &Draft) -> Sealed {
        let sealed = self.chain.seal(draft);
        self.sealed.push(sealed.clone());
        sealed
    }

    /// Writes a frame with records of these lengths at a page. Answers the page behind it.
    fn frame(&mut self, page: usize, lengths: &[usize]) -> usize {
        let before = *self.chain.head();
        let records: Vec<Sealed> = lengths
            .iter()
            .map(|length| {
                let who = Some("x".repeat(*length));
                self.seal(&Draft { who, ..Draft::new(NOW, Kind::Hub) })
            })
            .collect();
        self.put(page, &encoded(SALT, before, &records))
    }

    fn put(&mut self, page: usize, frame: &[u8]) -> usize {
        self.bytes[page * PAGE..page * PAGE + frame.len()].copy_from_slice(frame);
        page + frame.len().div_ceil(PAGE)
    }

    fn found(&self) -> Contents {
        Contents::parse(&self.bytes)
    }

    fn following(&self, seq: usize) -> (Vec<Sealed>, Option<String>) {
        let head = seq.checked_sub(1).map_or(GENESIS, |at| self.sealed[at].hash);
        self.found().following((seq as u64, head))
    }

    /// What follows, where nothing is wrong.
    fn whole(&self, seq: usize) -> Vec<Sealed> {
        let (records, damage) = self.following(seq);
        assert_eq!(damage, None);
        records
    }
}

fn encoded(salt: Salt, before: Hash, records: &[Sealed]) -> Vec<u8> {
    let mut bodies = Vec::new();
    for record in records {
        bodies.extend_from_slice(&(record.body.len() as u32).to_le_bytes());
        bodies.extend_from_slice(record.body.as_bytes());
    }
    let (first, count) = (records[0].seq, records.len() as u32);
    [
        &FRAME_MARK[..],
        &salt,
        &first.to_le_bytes(),
        &count.to_le_bytes(),
        &(bodies.len() as u32).to_le_bytes(),
        &before,
        &records[records.len() - 1].hash,
        &bodies,
    ]
    .concat()
}

#[test]
fn what_follows_the_database_is_found_wherever_that_ends() {
    let mut tail = Tail::new();
    let mut page = 1;
    for lengths in [&[10, 5_000, 3][..], &[1], &[4_000, 4_000]] {
        page = tail.frame(page, lengths);
    }
    for end in 0..=6 {
        assert_eq!(tail.whole(end), tail.sealed[end..], "after {end}");
    }
    // The database may be ahead, with records that never were in the file.
    tail.seal(&Draft::new(NOW, Kind::Hub));
    assert!(tail.whole(7).is_empty());
    tail.frame(20, &[9]);
    assert_eq!(tail.whole(7), tail.sealed[7..]);
}

#[test]
fn frames_that_were_written_over_do_not_matter_once_the_database_has_them() {
    let mut tail = Tail::new();
    let next = tail.frame(1, &[9_000]);
    tail.frame(next, &[1]);
    // The first one's pages are used again: its last page is still there.
    tail.frame(1, &[2]);
    assert_eq!(tail.whole(1), tail.sealed[1..]);
    assert_eq!(tail.whole(2), tail.sealed[2..]);
    let (_, damage) = tail.following(0);
    assert!(damage.is_some_and(|why| why.contains("record 1 ") && why.contains("up to 3")));
}

#[test]
fn no_changed_byte_makes_another_record_and_all_but_the_last_frames_are_found_out() {
    let mut tail = Tail::new();
    let second = tail.frame(1, &[40, 5_000]);
    let third = tail.frame(second, &[700]);
    let end = tail.frame(third, &[300, 20]);
    let sealed = tail.sealed.clone();
    let whole = tail.bytes.clone();
    let mut damaged = 0;
    for at in (0..end * PAGE).step_by(3) {
        tail.bytes[at] ^= 1 << (at % 8);
        let (kept, damage) = tail.following(0);
        assert_eq!(*kept, sealed[..kept.len()], "byte {at}");
        match damage {
            None if at >= third * PAGE => assert!([3, 5].contains(&kept.len()), "byte {at}"),
            // In the part of a page that nothing uses.
            None => assert_eq!(kept.len(), 5, "byte {at}"),
            Some(why) => {
                damaged += 1;
                assert!(at < third * PAGE, "byte {at}");
                assert!(why.contains(&format!("record {} ", kept.len() + 1)), "{why}");
            }
        }
        tail.bytes.copy_from_slice(&whole);
    }
    assert!(damaged > 1_900, "{damaged}");
}

#[test]
fn a_frame_that_is_half_written_ends_the_file() {
    let mut tail = Tail::new();
    let second = tail.frame(1, &[10]);
    let end = tail.frame(second, &[5_000, 5_000]);
    let whole = tail.bytes.clone();
    for page in second..end {
        tail.bytes[page * PAGE..(page + 1) * PAGE].fill(0);
        assert_eq!(tail.whole(0), tail.sealed[..1]);
        assert_eq!(tail.found().broken.contains(&2), page > second, "its first page says that it was begun");
        tail.bytes.copy_from_slice(&whole);
    }
}

#[test]
fn a_record_that_looks_like_a_frame_is_none() {
    let mut tail = Tail::new();
    tail.frame(1, &[10]);
    let mut forged = Tail::new();
    forged.frame(1, &[1, 1, 1]);
    // With another salt, since nobody knows the file's; at the start of a page, where a frame would be; and without zeroes,
    // which no text has.
    let mut frame = encoded([8; 16], GENESIS, &forged.sealed);
    for byte in frame.iter_mut().filter(|byte| **byte < b' ') {
        *byte = b' ';
    }
    tail.put(7, &frame);
    assert_eq!(tail.whole(0), tail.sealed);
    assert!(tail.found().broken.is_empty(), "and it is none that was begun");
}

#[test]
fn frames_that_overlap_are_read_without_a_fault() {
    let mut tail = Tail::new();
    tail.frame(1, &[10, 20, 30]);
    let shorter = encoded(SALT, GENESIS, &tail.sealed[..1]);
    tail.put(7, &shorter);
    let mut last = tail.sealed[0].clone();
    last.seq = u64::MAX;
    tail.put(9, &encoded(SALT, GENESIS, &[last]));
    assert_eq!(tail.whole(0), tail.sealed);
}

#[test]
fn lengths_that_lie_are_no_frame() {
    let mut tail = Tail::new();
    tail.frame(1, &[10]);
    let whole = tail.bytes.clone();
    for (at, value) in [(32, u32::MAX), (36, u32::MAX), (104, u32::MAX), (32, 0), (36, 0)] {
        tail.bytes[PAGE + at..PAGE + at + 4].copy_from_slice(&value.to_le_bytes());
        assert!(tail.whole(0).is_empty(), "{at} {value}");
        assert!(tail.found().broken.contains(&1));
        tail.bytes.copy_from_slice(&whole);
    }
    tail.bytes[PAGE + 24..PAGE + 32].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(tail.whole(0).is_empty());
}

#[test]
fn what_continues_the_journal_is_found_without_the_first_page() {
    let mut tail = Tail::new();
    tail.frame(1, &[10, 20]);
    tail.bytes[..56].fill(1);
    assert_eq!(tail.whole(1), tail.sealed[1..]);
    tail.bytes.truncate(3 * PAGE);
    assert_eq!(tail.whole(0), tail.sealed, "cut off");
}

#[cfg(unix)]
#[test]
fn what_is_no_file_is_refused_and_not_waited_for() {
    let dir = tempfile::tempdir().expect("a directory");
    assert!(read_file(dir.path()).is_err());
    let pipe = dir.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("runs").success());
    assert!(read_file(&pipe).is_err());
}

fn open(dir: &Path) -> SqlStore {
    SqlStore::open(OpenOptions::new(dir)).expect("opens")
}

fn outcome(call: u128) -> Draft {
    Draft {
        phase: Some(Phase::Outcome),
        call_id: Some(CallId::new(Uuid::from_u128(call))),
        target: Some(format!("pc-{}", call % 7)),
        ..Draft::new(NOW, Kind::Call)
    }
}

/// The directory of a hub that was killed: the database has the intent of call 1, and the file has a frame of a page for
/// the outcome of each call.
async fn killed_with(calls: u128) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path());
    store.append(Draft { phase: Some(Phase::Intent), ..outcome(1) }).await.expect("appends");
    let hub_id = store.hub_id();
    store.close().await.expect("closes");
    let (chain, _) =
        journal::end(&schema::open_readable(&dir.path().join("hub.db")).expect("opens"), hub_id).expect("reads");
    let mut tail = Tail::behind(chain);
    for call in 1..=calls {
        let before = *tail.chain.head();
        let sealed = tail.seal(&outcome(call));
        tail.put(call as usize, &encoded(SALT, before, &[sealed]));
    }
    write(dir.path(), &tail.bytes);
    dir
}

fn path(dir: &Path) -> std::path::PathBuf {
    dir.join("hub.db-tail")
}

fn write(dir: &Path, bytes: &[u8]) {
    fs::write(path(dir), bytes).expect("writes");
}

fn read(dir: &Path) -> Vec<u8> {
    fs::read(path(dir)).expect("reads")
}

/// Changes a byte in the frame of this call.
fn damage(dir: &Path, call: usize) -> Vec<u8> {
    let mut bytes = read(dir);
    bytes[call * PAGE + 300] ^= 1;
    write(dir, &bytes);
    bytes
}

async fn records(store: &SqlStore) -> usize {
    store.journal(JournalFilter { limit: 10_000, ..JournalFilter::default() }).await.expect("reads").len()
}

fn verified(dir: &Path) -> u64 {
    match audit::verify_dir(dir, Expected::default()).expect("reads") {
        Verdict::Good(summary) => summary.last_seq,
        bad => panic!("{bad:?}"),
    }
}

#[tokio::test]
async fn a_start_joins_the_records_once_and_removes_the_file() {
    let dir = killed_with(20).await;
    let store = open(dir.path());
    assert!(!path(dir.path()).exists());
    assert_eq!(records(&store).await, 21);
    assert!(store.open_intents().await.expect("reads").is_empty(), "the call that was announced has ended");
    let of_one = JournalFilter { agent: Some("pc-3".into()), limit: 100, ..JournalFilter::default() };
    assert_eq!(store.journal(of_one).await.expect("reads").len(), 3, "filters find them");
    assert_eq!(store.append(outcome(99)).await.expect("appends"), 22);
    store.close().await.expect("closes");
    assert_eq!(verified(dir.path()), 22);
}

#[tokio::test]
async fn a_start_that_was_killed_before_the_file_was_removed_is_followed_by_one_that_finds_all() {
    let dir = killed_with(20).await;
    let bytes = read(dir.path());
    // Whole; and cut off, as one that was being made anew.
    for length in [LENGTH, LENGTH, PAGE, 1 << 20] {
        write(dir.path(), &bytes[..length]);
        open(dir.path()).close().await.expect("closes");
        assert_eq!(verified(dir.path()), 21);
    }
}

#[tokio::test]
async fn every_verb_that_needs_no_hub_joins_them_first() {
    let dir = killed_with(20).await;
    assert_eq!(verified(dir.path()), 21);
    assert!(!path(dir.path()).exists());

    let dir = killed_with(20).await;
    let exported = audit::export(dir.path(), Vec::new(), NOW).expect("exports");
    assert_eq!(exported, Export::Written { records: 21 });

    let dir = killed_with(20).await;
    let file = dir.path().join("a.backup");
    assert_eq!(backup::create(dir.path(), &file, None, None).expect("backs up").journal_seq, 21);

    let dir = killed_with(20).await;
    keys::rotate(dir.path(), None, None).expect("rotates");
    assert_eq!(verified(dir.path()), 22, "with the record of the rotation behind them");
}

#[tokio::test]
async fn a_damaged_file_is_refused_and_changes_nothing_until_it_is_accepted() {
    let dir = killed_with(20).await;
    let dir = dir.path();
    let bytes = damage(dir, 5);
    for refused in [
        SqlStore::open(OpenOptions::new(dir)).map(drop),
        keys::rotate(dir, None, None).map(drop),
        backup::create(dir, &dir.join("a.backup"), None, None).map(drop),
        audit::export(dir, Vec::new(), NOW).map(drop),
        audit::verify_dir(dir, Expected::default()).map(drop),
    ] {
        let Err(StoreError::OldTail { why, .. }) = &refused else { panic!("{refused:?}") };
        assert_eq!(why, "record 6 is damaged or missing, and records up to 21 behind it cannot be joined");
        let text = refused.expect_err("refused").to_string();
        assert!(text.contains("hub.db-tail") && text.contains("store.accept_damaged_log=true"), "{text}");
        assert_eq!(read(dir), bytes);
    }
    let accepting = || OpenOptions { accept_damaged_log: true, ..OpenOptions::new(dir) };
    let store = SqlStore::open(accepting()).expect("opens");
    assert_eq!(fs::read(dir.join("hub.db-tail.damaged")).expect("kept"), bytes);
    assert!(!path(dir).exists());
    assert_eq!(records(&store).await, 5, "what stands before the damage");
    assert!(store.is_restored().await.expect("reads"), "and what waited is not taken up");
    store.close().await.expect("closes");
    assert_eq!(verified(dir), 5);
}

#[tokio::test]
async fn a_start_that_accepted_damage_and_was_killed_is_finished_by_the_next() {
    let dir = killed_with(20).await;
    damage(dir.path(), 5);
    fs::write(dir.path().join("hub.db-wal.accepting"), "").expect("writes");
    let store = open(dir.path());
    assert!(store.is_restored().await.expect("reads"));
    assert_eq!(records(&store).await, 5);
    store.close().await.expect("closes");
}

#[tokio::test]
async fn a_last_write_that_is_incomplete_and_another_kind_of_file_are_kept() {
    let dir = killed_with(20).await;
    let bytes = damage(dir.path(), 20);
    let store = open(dir.path());
    assert_eq!(records(&store).await, 20, "all but the last");
    assert_eq!(fs::read(dir.path().join("hub.db-tail.damaged")).expect("kept"), bytes);
    store.close().await.expect("closes");

    write(dir.path(), b"somebody else's");
    open(dir.path()).close().await.expect("closes");
    assert_eq!(fs::read(dir.path().join("hub.db-tail.damaged.2")).expect("kept"), b"somebody else's");
    assert_eq!(verified(dir.path()), 20);
}

#[tokio::test]
async fn a_wrong_key_changes_nothing() {
    let dir = killed_with(20).await;
    let bytes = damage(dir.path(), 20);
    let wrong = SecretBytes::new([9; 32]);
    let refused = SqlStore::open(OpenOptions { data_key: Some(wrong.clone()), ..OpenOptions::new(dir.path()) });
    assert!(matches!(refused, Err(StoreError::WrongKey { .. })), "{:?}", refused.map(drop));
    let refused = keys::rotate(dir.path(), Some(&wrong), None);
    assert!(matches!(refused, Err(StoreError::WrongKey { .. })), "{refused:?}");
    assert_eq!(read(dir.path()), bytes);
}

#[tokio::test]
async fn another_hubs_file_and_one_of_a_newer_database_are_refused() {
    let (dir, other) = (killed_with(3).await, killed_with(9).await);
    fs::copy(path(other.path()), path(dir.path())).expect("copies");
    let refused = SqlStore::open(OpenOptions::new(dir.path())).map(drop);
    assert!(matches!(&refused, Err(StoreError::OldTail { why, .. }) if why.contains("another hub")), "{refused:?}");

    // The database of an earlier day beside it: the frames do not continue it.
    let dir = killed_with(3).await;
    let db = rusqlite::Connection::open(dir.path().join("hub.db")).expect("opens");
    db.execute_batch("DELETE FROM journal").expect("deletes");
    drop(db);
    let refused = SqlStore::open(OpenOptions::new(dir.path())).map(drop);
    assert!(matches!(refused, Err(StoreError::OldTail { .. })), "{refused:?}");
}

#[tokio::test]
async fn a_running_hub_of_that_version_is_left_alone() {
    let dir = killed_with(3).await;
    let lock = DirLock::take(&Paths::new(dir.path())).expect("takes");
    assert_eq!(verified(dir.path()), 1);
    assert!(path(dir.path()).exists());
    drop(lock);
    assert_eq!(verified(dir.path()), 4);
}
