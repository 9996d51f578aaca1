//! Joins `hub.db-tail`, where version 0.1.0 kept the newest records of the journal before the database had them.
//!
//! ```text
//! page 0    "cvktail0", salt (16), SHA-256 of both
//! a frame   at the start of a page: "cvktailF", salt (16), number of its first record (8), how many records (4),
//!           their bytes (4), hash of the record before them, hash of the last one; then each record: length (4), body
//! ```
//!
//! Numbers are little-endian. A record carries the hash of the one before it, so a frame proves itself and says which
//! record it continues. The salt tells a frame from the bytes of a record that happen to look like one.

use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use convoke_core::id::HubId;
use convoke_core::journal::{Hash, Sealed, record_hash};
use sha2::{Digest as _, Sha256};

use super::{begin_accepting, damage, damaged_name, schema};
use crate::Result;
use crate::error::StoreError;
use crate::files::{DirLock, Paths, sync_parent};
use crate::sql::{Connection, hub_id, journal};

const FILE_MARK: &[u8; 8] = b"cvktail0";
const FRAME_MARK: &[u8; 8] = b"cvktailF";
const PAGE: usize = 4_096;
/// The length of a whole file: its first page, and 1,024 for frames.
const LENGTH: usize = 1_025 * PAGE;

/// What an earlier version left for the journal.
#[derive(Debug, Default)]
pub(super) struct OldTail {
    /// The records that the database does not have yet.
    records: Vec<Sealed>,
    /// What becomes of the file.
    file: Leftover,
}

#[derive(Debug, Default)]
enum Leftover {
    /// There is none.
    #[default]
    Absent,
    /// All of it is joined: it is removed.
    Whole,
    /// Its last write does not hold, or it is something else: it is kept under another name.
    Broken(&'static str),
    /// Records in it are lost, and the operator has accepted that: it is kept under another name.
    Accepted(String),
}

impl OldTail {
    /// Reads the file and changes nothing. Damage is an error, unless the operator accepts it.
    pub(super) fn read(conn: &Connection, paths: &Paths, accept_damage: bool) -> Result<Self> {
        let Some(bytes) = read_file(&paths.tail)? else { return Ok(Self::default()) };
        let (own, end) = match schema::version(conn)? {
            0 => (None, (0, [0; 32])),
            _ => match hub_id(conn)? {
                Some(own) => (Some(own), journal::last(conn, own)?),
                None => (None, (0, [0; 32])),
            },
        };
        let contents = Contents::parse(&bytes);
        let (records, damage) = match contents.hub_id() {
            Some(other) if own != Some(other) => {
                (Vec::new(), Some(format!("it has records of another hub ({other})")))
            }
            _ => contents.following(end),
        };
        // A start that accepted the damage and was killed has left the mark.
        let is_accepted = accept_damage || paths.accepting.exists();
        let next = end.0 + records.len() as u64 + 1;
        let file = match damage {
            Some(why) if is_accepted => Leftover::Accepted(why),
            Some(why) => return Err(StoreError::OldTail { file: paths.tail.clone(), why }),
            None if contents.broken.contains(&next) => Leftover::Broken(
                "its last write is incomplete; a power cut leaves that, and then nobody was answered for it",
            ),
            None if contents.is_foreign => Leftover::Broken("it is another kind of file"),
            None => Leftover::Whole,
        };
        Ok(Self { records, file })
    }

    /// Commits the records to the journal, and only then removes the file, or keeps it under another name.
    pub(super) fn join(self, conn: &Connection, paths: &Paths) -> Result<()> {
        if let Leftover::Accepted(_) = &self.file {
            begin_accepting(paths)?;
        }
        journal::join(conn, &self.records)?;
        let why = match self.file {
            Leftover::Absent => return Ok(()),
            Leftover::Whole => {
                fs::remove_file(&paths.tail).map_err(|e| StoreError::io("remove", &paths.tail, e))?;
                tracing::info!(records = self.records.len(), "the records of hub.db-tail are in the database now");
                return sync_parent(&paths.tail);
            }
            Leftover::Broken(why) => why.to_owned(),
            Leftover::Accepted(why) => {
                format!("store.accept_damaged_log is on, and the hub starts without them: {why}")
            }
        };
        let kept = damaged_name(&paths.tail);
        fs::rename(&paths.tail, &kept).map_err(|e| StoreError::io("rename", &paths.tail, e))?;
        tracing::error!(kept = %kept.display(), "records of hub.db-tail may be missing: {why}");
        sync_parent(&kept)
    }
}

/// Joins the file of a hub that was stopped, before somebody reads its database without starting a hub.
pub(super) fn join_offline(paths: &Paths) -> Result<()> {
    if !paths.tail.exists() {
        return Ok(());
    }
    let _lock = match DirLock::take(paths) {
        // A running hub of the earlier version puts its records into the database itself.
        Err(StoreError::Locked { .. }) => return Ok(()),
        lock => lock?,
    };
    damage::refuse(&paths.wal)?;
    let conn = schema::open_writable(&paths.db)?;
    let tail = OldTail::read(&conn, paths, false)?;
    schema::migrate(&conn)?;
    tail.join(&conn, paths)
}

fn read_file(path: &Path) -> Result<Option<Vec<u8>>> {
    let file = match fs::metadata(path) {
        Ok(found) if found.is_file() => fs::File::open(path),
        // Opening a pipe would wait for a writer.
        Ok(_) => Err(io::Error::other("it is no file")),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => Err(e),
    };
    let mut bytes = Vec::new();
    file.and_then(|file| file.take(LENGTH as u64).read_to_end(&mut bytes))
        .map_err(|e| StoreError::io("read", path, e))?;
    Ok(Some(bytes))
}

/// The frames of a file.
#[derive(Debug, Default)]
struct Contents {
    /// In the order of their records.
    frames: Vec<Frame>,
    /// The first records of frames that are begun and do not hold.
    broken: Vec<u64>,
    is_foreign: bool,
}

#[derive(Debug)]
struct Frame {
    first: u64,
    before: Hash,
    /// At least one.
    records: Vec<Sealed>,
}

impl Frame {
    fn last(&self) -> u64 {
        self.first + (self.records.len() as u64 - 1)
    }
}

impl Contents {
    fn parse(bytes: &[u8]) -> Self {
        let salt = salt(bytes).filter(|_| bytes.len() == LENGTH);
        let mut found = Self::default();
        for at in (PAGE..bytes.len()).step_by(PAGE) {
            let Some((header, rest)) = Header::parse(&bytes[at..]) else { continue };
            match records(&header, rest) {
                // Whatever its salt: a record's text has no zeroes, so it cannot pass for a frame that holds.
                Some(records) => {
                    found.frames.push(Frame { first: header.first, before: header.before, records });
                }
                // Without the file's salt every frame may be one: false alarms are better than missed damage.
                None if salt.is_none_or(|salt| salt == header.salt) => found.broken.push(header.first),
                None => {}
            }
        }
        found.frames.sort_by_key(|frame| frame.first);
        let is_begun = bytes.starts_with(FILE_MARK) || bytes.iter().take(PAGE).all(|byte| *byte == 0);
        found.is_foreign = !is_begun && found.frames.is_empty() && found.broken.is_empty();
        found
    }

    /// Whose records these are.
    fn hub_id(&self) -> Option<HubId> {
        #[derive(serde::Deserialize)]
        struct Owner {
            hub_id: HubId,
        }
        let body = &self.frames.last()?.records.first()?.body;
        serde_json::from_str::<Owner>(body).ok().map(|owner| owner.hub_id)
    }

    /// The records that follow record `seq` with the hash `head`, and what is wrong if others are behind a gap.
    ///
    /// One frame was written at a time, and the next only once it was on the disk. So a last frame that does not hold was cut
    /// off by a power cut, and nobody was answered for it; but a frame that is missing before others was there.
    fn following(&self, (mut seq, mut head): (u64, Hash)) -> (Vec<Sealed>, Option<String>) {
        let mut following: Vec<Sealed> = Vec::new();
        for (at, frame) in self.frames.iter().enumerate() {
            if frame.last() <= seq {
                continue;
            }
            let known = (seq + 1).checked_sub(frame.first).and_then(|known| usize::try_from(known).ok());
            let continued = known.and_then(|known| match known.checked_sub(1) {
                None => Some(frame.before),
                Some(last) => frame.records.get(last).map(|record| record.hash),
            });
            let (Some(known), true) = (known, continued == Some(head)) else {
                let last = self.frames[at..].iter().map(Frame::last).max().unwrap_or(seq);
                let why = format!(
                    "record {} is damaged or missing, and records up to {last} behind it cannot be joined",
                    seq + 1
                );
                return (following, Some(why));
            };
            following.extend_from_slice(&frame.records[known..]);
            if let Some(last) = following.last() {
                (seq, head) = (last.seq, last.hash);
            }
        }
        (following, None)
    }
}

type Salt = [u8; 16];

/// The bytes before the records of a frame.
struct Header {
    salt: Salt,
    first: u64,
    records: u32,
    bytes: u32,
    before: Hash,
    last: Hash,
}

impl Header {
    fn parse(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let rest = bytes.strip_prefix(FRAME_MARK)?;
        let (&salt, rest) = rest.split_first_chunk()?;
        let (&first, rest) = rest.split_first_chunk()?;
        let (&records, rest) = rest.split_first_chunk()?;
        let (&length, rest) = rest.split_first_chunk()?;
        let (&before, rest) = rest.split_first_chunk()?;
        let (&last, rest) = rest.split_first_chunk()?;
        let (first, records) = (u64::from_le_bytes(first), u32::from_le_bytes(records));
        Some((Self { salt, first, records, bytes: u32::from_le_bytes(length), before, last }, rest))
    }
}

/// The salt of a file whose first page holds.
fn salt(bytes: &[u8]) -> Option<Salt> {
    let (page, rest) = bytes.split_at_checked(FILE_MARK.len() + size_of::<Salt>())?;
    let salt = page.strip_prefix(FILE_MARK)?;
    if Sha256::digest(page)[..] == *rest.get(..32)? { salt.try_into().ok() } else { None }
}

/// The records of a frame, if it holds from its first to its last byte.
fn records(header: &Header, bytes: &[u8]) -> Option<Vec<Sealed>> {
    let mut rest = bytes.get(..header.bytes as usize)?;
    let mut before = header.before;
    let mut records = Vec::new();
    for at in 0..u64::from(header.records) {
        let (length, following) = rest.split_first_chunk::<4>()?;
        let (body, following) = following.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        let body = std::str::from_utf8(body).ok()?;
        let seq = header.first.checked_add(at)?;
        if !continues(body, seq, &before) {
            return None;
        }
        before = record_hash(body.as_bytes());
        records.push(Sealed { seq, body: body.to_owned(), hash: before });
        rest = following;
    }
    (rest.is_empty() && !records.is_empty() && before == header.last).then_some(records)
}

/// Whether a body says that it is this record, and that `before` is the hash of the one before it.
fn continues(body: &str, seq: u64, before: &Hash) -> bool {
    #[derive(serde::Deserialize)]
    struct Linked<'a> {
        seq: u64,
        prev: &'a str,
    }
    let record = serde_json::from_str::<Linked<'_>>(body);
    record.is_ok_and(|record| record.seq == seq && record.prev == hex::encode(before))
}

#[cfg(test)]
mod tests;
