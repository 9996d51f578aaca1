//! The tail's file: a page that says whose it is, then frames of records, each in pages of its own.
//!
//! ```text
//! page 0    "cvktail0", salt (16), SHA-256 of both
//! a frame   "cvktailF", salt (16), its first record's place (8), how many records (4), their bytes (4),
//!           the hash of the record before them, the hash of the last one; then each record: length (4), body
//! ```
//!
//! Numbers are little-endian. A record's body has the hash of the one before it at its end, and its own hash follows from
//! it; so a frame proves itself, and says which record it continues. The salt keeps the bytes of a record, which others
//! choose, from passing for a frame that was begun where they happen to begin a page.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use convoke_core::id::HubId;
use convoke_core::journal::{Hash, Sealed, record_hash};
use convoke_ring::PAGE;
use sha2::{Digest as _, Sha256};

use crate::error::StoreError;
use crate::files::{create_private, sync_parent};
use crate::interface::Result;
use crate::seal::random;

const FILE_MARK: &[u8; 8] = b"cvktail0";
const FRAME_MARK: &[u8; 8] = b"cvktailF";
/// Pages for frames (4 MiB). The database is asked to catch up long before they are used up, see `SETTLE_AT` in `queue.rs`.
pub(super) const PAGES: u64 = 1_024;
/// The length of the file.
const LENGTH: u64 = (1 + PAGES) * PAGE as u64;

pub(super) type Salt = [u8; 16];

/// What stands before a frame's records.
pub(super) const FRAME_HEADER: usize = 104;

/// The bytes before the records of a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameHeader {
    pub(super) salt: Salt,
    pub(super) first: u64,
    pub(super) records: u32,
    pub(super) bytes: u32,
    pub(super) before: Hash,
    pub(super) last: Hash,
}

impl FrameHeader {
    pub(super) fn encode(&self) -> [u8; FRAME_HEADER] {
        let mut bytes = [0; FRAME_HEADER];
        bytes[..8].copy_from_slice(FRAME_MARK);
        bytes[8..24].copy_from_slice(&self.salt);
        bytes[24..32].copy_from_slice(&self.first.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.records.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[40..72].copy_from_slice(&self.before);
        bytes[72..].copy_from_slice(&self.last);
        bytes
    }

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

/// Makes the file anew, empty. Its pages are all written, so that what is written over them later needs nothing of the file
/// system but the pages themselves.
pub(super) fn create(path: &Path) -> Result<Salt> {
    let salt = random::<16>()?;
    let mut bytes = vec![0; LENGTH as usize];
    let page = [&FILE_MARK[..], &salt].concat();
    bytes[..page.len()].copy_from_slice(&page);
    bytes[page.len()..page.len() + 32].copy_from_slice(&Sha256::digest(&page));
    remove(path)?;
    let mut file = create_private(path)?;
    let written = file.write_all(&bytes).and_then(|()| file.sync_all());
    if let Err(error) = written {
        // Half of it would only take space.
        let _ = fs::remove_file(path);
        return Err(StoreError::io("write", path, error));
    }
    sync_parent(path)?;
    Ok(salt)
}

/// Removes the file, if it is there.
pub(in crate::sqlite) fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Ok(()) => sync_parent(path),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(StoreError::io("remove", path, e)),
    }
}

/// What is wrong with a tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TailDamage {
    /// The first record that is missing or damaged.
    pub record: u64,
    /// The records behind it that are there, and cannot follow what is before it.
    pub behind: u64,
}

impl fmt::Display for TailDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { record, behind } = self;
        let s = if *behind == 1 { "" } else { "s" };
        write!(
            f,
            "record {record} is damaged in it or missing, and {behind} record{s} behind that cannot be joined on"
        )
    }
}

/// The records that follow others; or those that do up to a damage, and the damage.
pub(crate) type Following = std::result::Result<Vec<Sealed>, (Vec<Sealed>, TailDamage)>;

/// What stands in a tail.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    frames: Vec<Frame>,
    /// The first records of frames that are begun and do not hold.
    broken: Vec<u64>,
    /// It is something else: neither a tail, nor one that was not finished.
    is_foreign: bool,
}

#[derive(Debug)]
struct Frame {
    first: u64,
    before: Hash,
    records: Vec<Sealed>,
}

impl Frame {
    fn last(&self) -> u64 {
        // There is one at the least.
        self.first + (self.records.len() as u64 - 1)
    }
}

impl Contents {
    /// Reads the file; a hub may be writing it.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        match fs::metadata(path) {
            Ok(found) if found.is_file() => {}
            // Opening a pipe would wait for somebody to write into it.
            Ok(_) => return Err(StoreError::io("read", path, io::Error::other("it is no file"))),
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(e) => return Err(StoreError::io("read", path, e)),
        }
        let file = match File::open(path) {
            Ok(file) => file,
            // Its hub has just stopped, and the database has all of it.
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(e) => return Err(StoreError::io("open", path, e)),
        };
        let mut bytes = Vec::new();
        file.take(LENGTH).read_to_end(&mut bytes).map_err(|e| StoreError::io("read", path, e))?;
        Ok(Self::parse(&bytes))
    }

    fn parse(bytes: &[u8]) -> Self {
        let salt = salt(bytes).filter(|_| bytes.len() as u64 == LENGTH);
        let mut found = Self::default();
        for at in (PAGE..bytes.len()).step_by(PAGE) {
            let Some((header, rest)) = FrameHeader::parse(&bytes[at..]) else { continue };
            match records(&header, rest) {
                // Whatever its salt, which is another where somebody has copied another tail over this one: a record's text
                // has no zeroes, so it cannot pass for a frame that holds.
                Some(records) => {
                    found.frames.push(Frame { first: header.first, before: header.before, records });
                }
                // Without the file's salt every frame may be one: better to find damage that is none than to miss it.
                None if salt.is_none_or(|salt| salt == header.salt) => found.broken.push(header.first),
                None => {}
            }
        }
        found.frames.sort_by_key(|frame| frame.first);
        let is_begun = bytes.starts_with(FILE_MARK) || bytes.iter().take(PAGE).all(|byte| *byte == 0);
        found.is_foreign = !is_begun && found.frames.is_empty() && found.broken.is_empty();
        found
    }

    /// Whose records stand here, if any do.
    pub(crate) fn hub_id(&self) -> Option<HubId> {
        #[derive(serde::Deserialize)]
        struct Owner {
            hub_id: HubId,
        }
        let body = &self.frames.last()?.records.first()?.body;
        serde_json::from_str::<Owner>(body).ok().map(|owner| owner.hub_id)
    }

    /// The last record that stands here.
    pub(crate) fn last(&self) -> u64 {
        self.frames.iter().map(Frame::last).max().unwrap_or(0)
    }

    /// The records that follow record `seq` with the hash `head`. What is at or before it is in the database already.
    ///
    /// One frame is written at a time and the next only once it is on the disk. So where the last frame does not hold, the
    /// power went while it was written, and nobody was answered for it; but where one is missing and others are behind it,
    /// it was there.
    pub(crate) fn following(&self, seq: u64, head: Hash) -> Following {
        let (mut seq, mut head) = (seq, head);
        let mut following = Vec::new();
        let newer: Vec<&Frame> = self.frames.iter().filter(|frame| frame.last() > seq).collect();
        for (at, frame) in newer.iter().enumerate() {
            // Of records that have come already, where the file was meddled with.
            if frame.last() <= seq {
                continue;
            }
            let known = (seq + 1).checked_sub(frame.first).and_then(|known| usize::try_from(known).ok());
            let continued = known.and_then(|known| match known.checked_sub(1) {
                None => Some(frame.before),
                Some(last) => frame.records.get(last).map(|record| record.hash),
            });
            let (Some(known), true) = (known, continued == Some(head)) else {
                // Frames may overlap where the file was meddled with.
                let behind = newer[at..]
                    .iter()
                    .map(|frame| frame.last().saturating_sub(seq.max(frame.first.saturating_sub(1))))
                    .sum();
                return Err((following, TailDamage { record: seq + 1, behind }));
            };
            following.extend_from_slice(&frame.records[known..]);
            if let Some(last) = following.last() {
                (seq, head) = (last.seq, last.hash);
            }
        }
        Ok(following)
    }

    /// Whether it is no tail at all.
    pub(crate) const fn is_foreign(&self) -> bool {
        self.is_foreign
    }

    /// Whether a frame that begins with this record was begun, and does not hold.
    pub(crate) fn is_broken_at(&self, seq: u64) -> bool {
        self.broken.contains(&seq)
    }
}

/// Which file something is: its device, its number there, and its length, which nobody has any business to change.
pub(in crate::sqlite) type Identity = (u64, u64, u64);

/// Which file this is, under whatever name. Without a look at its times: Linux notes that somebody has seen them, and makes every
/// write after that keep new ones, which costs more than the write.
#[cfg(target_os = "linux")]
pub(in crate::sqlite) fn identity(path: &Path) -> Option<Identity> {
    use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
    let found = statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::INO | StatxFlags::SIZE).ok()?;
    let device = u64::from(found.stx_dev_major) << 32 | u64::from(found.stx_dev_minor);
    Some((device, found.stx_ino, found.stx_size))
}

/// Which file this is; nobody can tell here.
#[cfg(not(target_os = "linux"))]
pub(in crate::sqlite) fn identity(_: &Path) -> Option<Identity> {
    None
}

/// The salt of a file that was finished.
fn salt(bytes: &[u8]) -> Option<Salt> {
    let (page, rest) = bytes.split_at_checked(FILE_MARK.len() + size_of::<Salt>())?;
    let sum = rest.get(..32)?;
    let salt = page.strip_prefix(FILE_MARK)?;
    if Sha256::digest(page)[..] == *sum { salt.try_into().ok() } else { None }
}

/// The records of a frame, if it holds from its first to its last byte.
fn records(header: &FrameHeader, bytes: &[u8]) -> Option<Vec<Sealed>> {
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

/// Whether a body says of itself that it is this record, and what stands before it.
fn continues(body: &str, seq: u64, before: &Hash) -> bool {
    #[derive(serde::Deserialize)]
    struct Place<'a> {
        seq: u64,
        prev: &'a str,
    }
    let place = serde_json::from_str::<Place<'_>>(body);
    place.is_ok_and(|place| place.seq == seq && place.prev == hex::encode(before))
}

#[cfg(test)]
mod tests;
