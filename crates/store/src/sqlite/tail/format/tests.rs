use convoke_core::id::HubId;
use convoke_core::journal::{Chain, Draft, GENESIS, Kind};
use convoke_core::time::Timestamp;
use uuid::Uuid;

use super::*;

const SALT: Salt = [7; 16];

/// A file with a page of its own and room for frames.
struct Made {
    bytes: Vec<u8>,
    chain: Chain,
    sealed: Vec<Sealed>,
}

impl Made {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("tail");
        let salt = create(&path).expect("made");
        let mut bytes = fs::read(&path).expect("read");
        assert_eq!((bytes.len() as u64, super::salt(&bytes)), (LENGTH, Some(salt)));
        let page = [&FILE_MARK[..], &SALT].concat();
        bytes[..24].copy_from_slice(&page);
        bytes[24..56].copy_from_slice(&Sha256::digest(&page));
        Self { bytes, chain: Chain::new(HubId::new(Uuid::nil())), sealed: Vec::new() }
    }

    fn seal(&mut self, who: &str) -> Sealed {
        let draft = Draft { who: Some(who.into()), ..Draft::new(Timestamp::from_millis(0), Kind::Hub) };
        let sealed = self.chain.seal(&draft);
        self.sealed.push(sealed.clone());
        sealed
    }

    /// A frame with records of these lengths at a page, and where it ends.
    fn frame(&mut self, page: usize, lengths: &[usize]) -> usize {
        let before = *self.chain.head();
        let records: Vec<Sealed> = lengths.iter().map(|length| self.seal(&"x".repeat(*length))).collect();
        let frame = encoded(SALT, before, &records);
        self.bytes[page * PAGE..page * PAGE + frame.len()].copy_from_slice(&frame);
        page + frame.len().div_ceil(PAGE)
    }

    fn found(&self) -> Contents {
        Contents::parse(&self.bytes)
    }

    fn end(&self, seq: usize) -> (u64, Hash) {
        (seq as u64, seq.checked_sub(1).map_or(GENESIS, |at| self.sealed[at].hash))
    }

    fn following(&self, seq: usize) -> Following {
        let (seq, head) = self.end(seq);
        self.found().following(seq, head)
    }
}

fn encoded(salt: Salt, before: Hash, records: &[Sealed]) -> Vec<u8> {
    let bodies: Vec<u8> = records
        .iter()
        .flat_map(|record| {
            let length = (record.body.len() as u32).to_le_bytes();
            length.into_iter().chain(record.body.bytes()).collect::<Vec<_>>()
        })
        .collect();
    let header = FrameHeader {
        salt,
        first: records[0].seq,
        records: records.len() as u32,
        bytes: bodies.len() as u32,
        before,
        last: records[records.len() - 1].hash,
    };
    [&header.encode()[..], &bodies].concat()
}

#[test]
fn what_follows_the_database_is_found_wherever_that_ends() {
    let mut made = Made::new();
    let mut page = 1;
    for lengths in [&[10, 5_000, 3][..], &[1], &[4_000, 4_000]] {
        page = made.frame(page, lengths);
    }
    for end in 0..=6 {
        assert_eq!(made.following(end).expect("holds"), made.sealed[end..], "after {end}");
    }
    assert_eq!(made.found().last(), 6);
    // The database may be ahead, with records that never were in the tail.
    made.seal("the writer's own");
    assert!(made.following(7).expect("holds").is_empty());
    made.frame(20, &[9]);
    assert_eq!(made.following(7).expect("holds"), made.sealed[7..]);
}

#[test]
fn frames_that_were_written_over_do_not_matter_once_the_database_has_them() {
    let mut made = Made::new();
    let next = made.frame(1, &[9_000]);
    made.frame(next, &[1]);
    // The first one's pages are used again: its last page is still there.
    made.frame(1, &[2]);
    assert_eq!(made.following(1).expect("holds"), made.sealed[1..]);
    assert_eq!(made.following(2).expect("holds"), made.sealed[2..]);
    let (_, damage) = made.following(0).expect_err("the first record is not there");
    assert_eq!(damage, TailDamage { record: 1, behind: 2 });
}

#[test]
fn no_changed_byte_makes_another_record_and_all_but_the_last_frames_are_found_out() {
    let mut made = Made::new();
    let second = made.frame(1, &[40, 5_000]);
    let third = made.frame(second, &[700]);
    let end = made.frame(third, &[300, 20]);
    let sealed = made.sealed.clone();
    let whole = made.bytes.clone();
    let mut damaged = 0;
    for at in (0..end * PAGE).step_by(3) {
        made.bytes[at] ^= 1 << (at % 8);
        let found = made.following(0);
        let kept = match &found {
            Ok(kept) | Err((kept, _)) => kept,
        };
        assert_eq!(*kept, sealed[..kept.len()], "byte {at}");
        match &found {
            Ok(kept) if at >= third * PAGE => assert!([3, 5].contains(&kept.len()), "byte {at}"),
            // In the part of a page that nothing uses.
            Ok(kept) => assert_eq!(kept.len(), 5, "byte {at}"),
            Err((kept, damage)) => {
                damaged += 1;
                assert!(at < third * PAGE, "byte {at}");
                assert_eq!(damage.record, kept.len() as u64 + 1);
                assert!(damage.behind >= 2, "byte {at}: {damage}");
            }
        }
        made.bytes.copy_from_slice(&whole);
    }
    assert!(damaged > 1_900, "{damaged}");
}

#[test]
fn a_frame_that_is_half_written_ends_the_tail() {
    let mut made = Made::new();
    let second = made.frame(1, &[10]);
    let end = made.frame(second, &[5_000, 5_000]);
    for page in second..end {
        let mut bytes = made.bytes.clone();
        bytes[page * PAGE..(page + 1) * PAGE].fill(0);
        let contents = Contents::parse(&bytes);
        assert_eq!(contents.following(0, GENESIS).expect("holds"), made.sealed[..1]);
        assert_eq!(contents.is_broken_at(2), page > second, "its first page says that it was begun");
    }
}

#[test]
fn a_record_that_looks_like_a_frame_is_none() {
    let mut made = Made::new();
    made.frame(1, &[10]);
    let mut forged = Made::new();
    forged.frame(1, &[1, 1, 1]);
    // With another salt, since nobody knows the file's; at the start of a page, where a frame would be; and without zeroes,
    // which no text has.
    let mut frame = encoded([8; 16], GENESIS, &forged.sealed);
    for byte in frame.iter_mut().filter(|byte| **byte < b' ') {
        *byte = b' ';
    }
    made.bytes[7 * PAGE..7 * PAGE + frame.len()].copy_from_slice(&frame);
    assert_eq!(made.following(0).expect("holds"), made.sealed);
    assert!(made.found().broken.is_empty(), "and it is none that was begun");
}

#[test]
fn a_tail_that_another_was_copied_over_has_what_continues_the_journal() {
    let mut made = Made::new();
    made.frame(1, &[10]);
    let older = made.bytes.clone();
    // Written by a hub that has the file open, over an older tail with another salt.
    made.frame(2, &[20, 30]);
    made.bytes[..PAGE].copy_from_slice(&older[..PAGE]);
    let page = [&FILE_MARK[..], &[8; 16]].concat();
    made.bytes[..24].copy_from_slice(&page);
    made.bytes[24..56].copy_from_slice(&Sha256::digest(&page));
    assert_eq!(made.following(0).expect("holds"), made.sealed);
    // And where it does not continue it, that is told.
    made.bytes[PAGE..2 * PAGE].fill(0);
    let (_, damage) = made.following(0).expect_err("the first record is not there");
    assert_eq!(damage, TailDamage { record: 1, behind: 2 });
}

#[test]
fn frames_that_overlap_are_counted_without_a_fault() {
    let mut made = Made::new();
    made.frame(1, &[10, 20, 30]);
    let shorter = encoded(SALT, GENESIS, &made.sealed[..1]);
    made.bytes[7 * PAGE..7 * PAGE + shorter.len()].copy_from_slice(&shorter);
    assert_eq!(made.following(0).expect("holds"), made.sealed);
    let mut end = made.sealed.clone();
    end[0].seq = u64::MAX;
    let frame = encoded(SALT, GENESIS, &end[..1]);
    made.bytes[9 * PAGE..9 * PAGE + frame.len()].copy_from_slice(&frame);
    assert_eq!(made.following(0).expect("holds"), made.sealed);
}

#[test]
fn what_continues_another_journal_is_not_joined() {
    let mut made = Made::new();
    made.frame(1, &[10, 20]);
    let found = made.found().following(1, [9; 32]);
    assert_eq!(found.expect_err("another record 1"), (Vec::new(), TailDamage { record: 2, behind: 1 }));
}

#[test]
fn what_continues_the_journal_is_found_without_the_first_page() {
    let mut made = Made::new();
    made.frame(1, &[10, 20]);
    for at in 0..56 {
        made.bytes[at] ^= 1;
        assert_eq!(made.following(1).expect("it continues the journal"), made.sealed[1..]);
        assert!(made.following(2).expect("the database has all").is_empty());
        made.bytes[at] ^= 1;
    }
    made.bytes.truncate(3 * PAGE);
    assert_eq!(made.found().last(), 2, "cut off");
}

#[test]
fn no_file_and_an_empty_one_have_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("tail");
    assert!(Contents::read(&path).expect("reads").following(5, [1; 32]).expect("holds").is_empty());
    fs::write(&path, b"").expect("written");
    assert!(Contents::read(&path).expect("reads").following(5, [1; 32]).expect("holds").is_empty());
    create(&path).expect("made in its place");
    let made = Contents::read(&path).expect("reads");
    assert_eq!((made.last(), made.hub_id()), (0, None));
}

#[cfg(unix)]
#[test]
fn what_is_no_file_is_refused_and_not_waited_for() {
    let dir = tempfile::tempdir().expect("a directory");
    assert!(Contents::read(dir.path()).is_err());
    let pipe = dir.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("runs").success());
    assert!(Contents::read(&pipe).is_err());
}

#[test]
fn lengths_that_lie_are_no_frame() {
    let mut made = Made::new();
    made.frame(1, &[10]);
    let whole = made.bytes.clone();
    for (at, value) in [(32, u32::MAX), (36, u32::MAX), (FRAME_HEADER, u32::MAX), (32, 0), (36, 0)] {
        made.bytes[PAGE + at..PAGE + at + 4].copy_from_slice(&value.to_le_bytes());
        assert!(made.following(0).expect("holds").is_empty(), "{at} {value}");
        assert!(made.found().is_broken_at(1));
        made.bytes.copy_from_slice(&whole);
    }
    made.bytes[PAGE + 24..PAGE + 32].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(made.following(0).expect("holds").is_empty());
}
