//! Finds damage in a write-ahead log before SQLite reads it.
//!
//! SQLite ends a log at the first frame whose checksum does not fit, and takes what is behind for the rest of an older
//! round. After a power cut that is right: the last commit, which nobody was answered for, may be half written. After a
//! changed byte it is not: every commit behind it was synced and answered, and would be gone without a word, and with
//! the next commits written over. This reads the file format (<https://www.sqlite.org/fileformat2.html#walformat>) and
//! nothing else, and tells the two apart:
//!
//! - Frames of an older round have other salts than the log's header.
//! - Checksums are cumulative, so each frame can be checked against what its predecessor says of itself, also behind a
//!   break. A commit is synced before the next frame is written; so a frame that continues a commit proves that this
//!   commit was whole once.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use crate::Result;
use crate::error::{LogDamage, StoreError};

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
const MAGIC: u32 = 0x377f_0682;
const VERSION: u32 = 3_007_000;
/// The sizes that a page can have, as powers of two.
const PAGE_SIZES: std::ops::RangeInclusive<u32> = 9..=16;

/// More commits than this behind a break are damage even where none continues another. A commit whose sync failed may
/// stay behind the end, once its shorter followers have been written over its beginning. What stays of a spell of failures
/// is what was longer than all that came later, and that grows with the logarithm of their number: a million leave 14.
const LEFT_BY_FAILED_SYNCS: u64 = 32;

/// How often damage must be seen before it is reported. A running hub may write the log while it is read: a frame that was
/// not there yet, before frames that already were, looks like damage once, and starting over moves everything.
const READINGS: usize = 3;

/// A damage, and the salts of the log's round: another round is another log.
type Seen = (LogDamage, [u8; 8]);

/// The damage in the write-ahead log at `path`, if there is any. Reads only; a hub may be running.
pub(super) fn find(path: &Path) -> Result<Option<LogDamage>> {
    let mut found = None;
    for reading in 0..READINGS {
        let log = match File::open(path) {
            Ok(log) => log,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(StoreError::io("open", path, e)),
        };
        let Some(seen) = read(BufReader::with_capacity(1 << 17, log)).map_err(|e| StoreError::io("read", path, e))?
        else {
            return Ok(None);
        };
        let is_same = found.is_none_or(|(damage, salts): Seen| (damage.frame, salts) == (seen.0.frame, seen.1));
        if reading > 0 && !is_same {
            return Ok(None);
        }
        found = Some(seen);
    }
    Ok(found.map(|(damage, _)| damage))
}

/// Opening is refused where the log is damaged: SQLite would write over what is behind the damage.
pub(super) fn refuse(path: &Path) -> Result<()> {
    match find(path)? {
        Some(damage) => Err(StoreError::DamagedLog { file: path.to_owned(), damage }),
        None => Ok(()),
    }
}

fn read(mut log: impl Read + Seek) -> io::Result<Option<Seen>> {
    let mut bytes = [0; HEADER];
    if !fill(&mut log, &mut bytes)? {
        return Ok(None);
    }
    match Header::parse(&bytes) {
        Some(header) => behind_a_break(&mut Frames::new(log, header.page_size, header.order), &header),
        None => behind_a_bad_header(log, &bytes),
    }
}

/// Walks to the first frame that cannot be read, and looks whether commits stand behind it that were whole once.
fn behind_a_break(frames: &mut Frames<impl Read>, header: &Header) -> io::Result<Option<Seen>> {
    let mut sum = header.sum;
    let mut at = 0;
    let (mut before, should_be) = loop {
        let Some(frame) = frames.next()? else { return Ok(None) };
        at += 1;
        let should_be = frames.sum(sum);
        if frame.salts != header.salts || frame.sum != should_be {
            break (frame, should_be);
        }
        sum = should_be;
    };
    let is_ours = before.salts == header.salts || before.sum == should_be;
    let mut commits = u64::from(is_ours && before.is_commit);
    let mut is_proven = false;
    // What is damaged in the first bad frame may be its checksum, and then the next one continues what it should be.
    let mut or_else = Some(should_be);
    while let Some(frame) = frames.next()? {
        if frame.salts == header.salts {
            let continues = |sum| frames.sum(sum) == frame.sum;
            is_proven |= before.is_commit && (continues(before.sum) || or_else.is_some_and(continues));
            commits += u64::from(frame.is_commit);
        }
        or_else = None;
        before = frame;
    }
    let is_damage = is_proven || commits > LEFT_BY_FAILED_SYNCS;
    Ok(is_damage.then_some((LogDamage { frame: Some(at), commits }, header.salts)))
}

/// SQLite takes a log with a bad header for an empty one. It is synced before the first frame is written, so that frames
/// which continue each other are a log that was damaged. Of what the header says, nothing can be relied on.
fn behind_a_bad_header(mut log: impl Read + Seek, header: &[u8; HEADER]) -> io::Result<Option<Seen>> {
    for order in [Order::Little, Order::Big] {
        for page_size in PAGE_SIZES.map(|power| 1 << power) {
            log.seek(SeekFrom::Start(HEADER as u64))?;
            let mut frames = Frames::new(&mut log, page_size, order);
            let mut before = Frame { is_commit: false, salts: [0; 8], sum: Sum::parse(&header[24..]) };
            let mut or_else = Some(order.sum(Sum::default(), &header[..24]));
            let mut salts = None;
            let mut commits = 0;
            while let Some(frame) = frames.next()? {
                let continues = |sum| frames.sum(sum) == frame.sum;
                // Zeroes continue zeroes.
                if salts.is_none()
                    && frame.salts != [0; 8]
                    && (continues(before.sum) || or_else.is_some_and(continues))
                {
                    salts = Some(frame.salts);
                    commits = u64::from(before.is_commit);
                }
                commits += u64::from(salts == Some(frame.salts) && frame.is_commit);
                or_else = None;
                before = frame;
            }
            if let Some(salts) = salts.filter(|_| commits > 0) {
                return Ok(Some((LogDamage { frame: None, commits }, salts)));
            }
        }
    }
    Ok(None)
}

struct Header {
    order: Order,
    page_size: usize,
    salts: [u8; 8],
    sum: Sum,
}

impl Header {
    /// What SQLite would accept, and nothing else.
    fn parse(bytes: &[u8; HEADER]) -> Option<Self> {
        let magic = word(&bytes[..4]);
        let order = if magic & 1 == 0 { Order::Little } else { Order::Big };
        let page_size = word(&bytes[8..12]);
        let sum = order.sum(Sum::default(), &bytes[..24]);
        let is_good = magic & !1 == MAGIC
            && word(&bytes[4..8]) == VERSION
            && page_size.is_power_of_two()
            && PAGE_SIZES.contains(&page_size.ilog2())
            && sum == Sum::parse(&bytes[24..]);
        is_good.then(|| Self { order, page_size: page_size as usize, salts: salts(&bytes[16..24]), sum })
    }
}

#[derive(Clone, Copy)]
struct Frame {
    is_commit: bool,
    salts: [u8; 8],
    sum: Sum,
}

/// The frames of a log, one at a time in memory.
struct Frames<R> {
    log: R,
    order: Order,
    bytes: Vec<u8>,
}

impl<R: Read> Frames<R> {
    fn new(log: R, page_size: usize, order: Order) -> Self {
        Self { log, order, bytes: vec![0; FRAME_HEADER + page_size] }
    }

    /// The next frame that is there as a whole.
    fn next(&mut self) -> io::Result<Option<Frame>> {
        if !fill(&mut self.log, &mut self.bytes)? {
            return Ok(None);
        }
        let is_commit = word(&self.bytes[4..8]) != 0;
        Ok(Some(Frame { is_commit, salts: salts(&self.bytes[8..16]), sum: Sum::parse(&self.bytes[16..24]) }))
    }

    /// The checksum of the frame that was read last, if it continues `before`.
    fn sum(&self, before: Sum) -> Sum {
        let sum = self.order.sum(before, &self.bytes[..8]);
        self.order.sum(sum, &self.bytes[FRAME_HEADER..])
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum(u32, u32);

impl Sum {
    fn parse(bytes: &[u8]) -> Self {
        Self(word(&bytes[..4]), word(&bytes[4..8]))
    }
}

/// How the checksum reads its words; everything else is big-endian always.
#[derive(Clone, Copy)]
enum Order {
    Little,
    Big,
}

impl Order {
    fn sum(self, mut sum: Sum, bytes: &[u8]) -> Sum {
        let read = match self {
            Self::Little => u32::from_le_bytes,
            Self::Big => u32::from_be_bytes,
        };
        for &[a, b, c, d, e, f, g, h] in bytes.as_chunks().0 {
            sum.0 = sum.0.wrapping_add(read([a, b, c, d])).wrapping_add(sum.1);
            sum.1 = sum.1.wrapping_add(read([e, f, g, h])).wrapping_add(sum.0);
        }
        sum
    }
}

fn word(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes[..4].try_into().expect("a slice of four bytes"))
}

fn salts(bytes: &[u8]) -> [u8; 8] {
    bytes[..8].try_into().expect("a slice of eight bytes")
}

/// Whether there was enough left to read.
fn fill(log: &mut impl Read, bytes: &mut [u8]) -> io::Result<bool> {
    match log.read_exact(bytes) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests;
