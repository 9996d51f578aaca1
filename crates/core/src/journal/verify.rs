//! Checks a chain from its first record to its last and names the first thing that is wrong.
//!
//! What it cannot find by itself: records cut off the end together with the checkpoints that covered them, and a
//! chain that was written anew from the start and signed with another key. Both need something kept elsewhere: an
//! [`Anchor`] for the first, the hub's public key for the second.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::chain::{HASH_KEY, HASH_SUFFIX, encode};
use super::export::CheckpointLine;
use super::{Chain, Checkpoint, Draft, ExportHeader, FORMAT, GENESIS, Hash, checkpoint_line, record_hash, shown};
use crate::id::HubId;

/// A place in the chain that someone kept elsewhere, written `<seq>:<hash in hex>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// The record.
    pub seq: u64,
    /// Its hash.
    pub hash: Hash,
}

/// The text is no anchor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a kept place in the journal is written <seq>:<64 hex digits>")]
pub struct BadAnchor;

impl FromStr for Anchor {
    type Err = BadAnchor;

    fn from_str(text: &str) -> Result<Self, BadAnchor> {
        let (seq, digits) = text.trim().split_once(':').ok_or(BadAnchor)?;
        let mut hash = [0; 32];
        hex::decode_to_slice(digits, &mut hash).map_err(|_| BadAnchor)?;
        Ok(Self { seq: seq.parse().map_err(|_| BadAnchor)?, hash })
    }
}

impl fmt::Display for Anchor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.seq, hex::encode(self.hash))
    }
}

/// What the caller knows from elsewhere. All fields may be empty.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    /// The hub that the chain must belong to.
    pub hub_id: Option<HubId>,
    /// Keys that may sign checkpoints. Empty: any, and the [`Summary`] says which.
    pub keys: Vec<[u8; 32]>,
    /// Places that must be in the chain.
    pub kept: Vec<Anchor>,
}

/// A chain that holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The hub of the chain; unknown only for an empty chain.
    pub hub_id: Option<HubId>,
    /// Its last record, and so how many there are.
    pub last_seq: u64,
    /// The last record's hash.
    pub last_hash: Hash,
    /// How many checkpoints were checked.
    pub checkpoints: u64,
    /// The last record that a checkpoint covers. What comes after it could have been cut off without a trace.
    pub signed_up_to: u64,
    /// The keys that signed them, the last one's last.
    pub keys: Vec<[u8; 32]>,
}

/// The first thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Finding {
    /// A record's bytes are not the ones that were hashed.
    #[error("record {seq} was changed: its bytes do not have its hash")]
    ChangedRecord {
        /// Which.
        seq: u64,
    },
    /// Records are not there.
    #[error("records {from} to {to} are missing")]
    Missing {
        /// The first one.
        from: u64,
        /// The last one.
        to: u64,
    },
    /// Something stands in another's place: moved, doubled or put in.
    #[error("record {seq} is not in its place: {found} stands there")]
    Reordered {
        /// The expected number.
        seq: u64,
        /// The content found.
        found: String,
    },
    /// A record does not continue the one before it.
    #[error("record {seq} does not continue record {}: one of the two was replaced", seq - 1)]
    BrokenLink {
        /// Which.
        seq: u64,
    },
    /// Another hub's record or checkpoint.
    #[error("at record {seq}: this belongs to the hub {found}, not to {expected}")]
    WrongHub {
        /// Where.
        seq: u64,
        /// The hub of this chain.
        expected: HubId,
        /// The hub of the record found.
        found: HubId,
    },
    /// A checkpoint is not signed by the key it names.
    #[error("the checkpoint at record {seq} has a bad signature")]
    BadCheckpoint {
        /// Where.
        seq: u64,
    },
    /// A checkpoint is signed by a key that was not expected.
    #[error("the checkpoint at record {seq} is signed by another key: {key}")]
    UnknownKey {
        /// Where.
        seq: u64,
        /// The key, in base64.
        key: String,
    },
    /// A key was given, and nothing is signed with it.
    #[error("no checkpoint signs any of the {last} records, so nothing ties them to the key that was given")]
    Unsigned {
        /// The last record.
        last: u64,
    },
    /// A checkpoint, or a place kept elsewhere, says another hash than the record has.
    #[error("record {seq} is not the one that was signed or kept: its hash is another one")]
    CheckpointMismatch {
        /// Which.
        seq: u64,
    },
    /// The chain ends before a record that a checkpoint, or a place kept elsewhere, covers.
    #[error("the journal ends at record {last}, but it once had record {covered}: its end was cut off")]
    Truncated {
        /// The last record that is there.
        last: u64,
        /// The record that was there.
        covered: u64,
    },
    /// The header of an export does not fit the rest.
    #[error("the header names another key than the last checkpoint in the file")]
    WrongHeader,
    /// Not a record, a checkpoint or a header in its one accepted form.
    #[error("at record {seq}: {why}")]
    Malformed {
        /// The record that belongs there.
        seq: u64,
        /// The error.
        why: String,
    },
}

impl Finding {
    /// The record it is about.
    pub const fn seq(&self) -> Option<u64> {
        match *self {
            Self::ChangedRecord { seq }
            | Self::Missing { from: seq, .. }
            | Self::Reordered { seq, .. }
            | Self::BrokenLink { seq }
            | Self::WrongHub { seq, .. }
            | Self::BadCheckpoint { seq }
            | Self::UnknownKey { seq, .. }
            | Self::CheckpointMismatch { seq }
            | Self::Malformed { seq, .. } => Some(seq),
            Self::Truncated { last, .. } => Some(last + 1),
            Self::Unsigned { .. } | Self::WrongHeader => None,
        }
    }
}

/// Feed it everything in order, then ask [`Verifier::finish`].
#[derive(Debug)]
pub struct Verifier {
    expected: Expected,
    hub_id: Option<HubId>,
    seq: u64,
    head: Hash,
    checkpoints: u64,
    signed_up_to: u64,
    keys: Vec<[u8; 32]>,
    header: Option<ExportHeader>,
    finding: Option<Finding>,
}

impl Verifier {
    /// For a chain from its first record.
    pub fn new(expected: Expected) -> Self {
        Self {
            hub_id: expected.hub_id,
            expected,
            seq: 0,
            head: GENESIS,
            checkpoints: 0,
            signed_up_to: 0,
            keys: Vec::new(),
            header: None,
            finding: None,
        }
    }

    /// Whether nothing that is still to come can change the answer.
    pub const fn settled(&self) -> bool {
        match &self.finding {
            None | Some(Finding::Missing { .. } | Finding::Truncated { .. }) => false,
            Some(_) => true,
        }
    }

    /// A line of an export, without its line break.
    pub fn line(&mut self, line: &[u8]) {
        if self.settled() {
            return;
        }
        let Ok(text) = std::str::from_utf8(line) else {
            return self.malformed("the line is not UTF-8");
        };
        if self.header.is_none() {
            self.read_header(text);
        } else if text.starts_with("{\"checkpoint\":") {
            match serde_json::from_str::<CheckpointLine>(text) {
                Ok(read) if checkpoint_line(&read.checkpoint) == text => self.checkpoint(&read.checkpoint),
                _ => self.malformed("the checkpoint is not in its one accepted form"),
            }
        } else {
            match split(text) {
                Some((body, hash)) if shown(&body, &hash) == text => self.record(body.as_bytes(), &hash),
                _ => self.malformed("the line is not a record with its hash at the end"),
            }
        }
    }

    /// A record: its canonical bytes and the hash that is kept with it.
    pub fn record(&mut self, body: &[u8], hash: &[u8]) {
        if self.settled() {
            return;
        }
        if self.finding.is_some() {
            return self.look_for_the_missing(body);
        }
        if let Err(finding) = self.check_record(body, hash) {
            self.finding = Some(finding);
        }
    }

    /// A checkpoint, right after the record it covers; or after the last record, when that one is not there.
    pub fn checkpoint(&mut self, checkpoint: &Checkpoint) {
        if self.finding.is_some() {
            return;
        }
        if let Err(finding) = self.check_checkpoint(checkpoint) {
            self.finding = Some(finding);
        }
    }

    /// Reports an error in the next entry that only the caller can see.
    pub fn malformed(&mut self, why: impl Into<String>) {
        self.flag(self.seq + 1, why);
    }

    /// Something around the record `seq` is wrong in a way that only the caller can see.
    pub fn flag(&mut self, seq: u64, why: impl Into<String>) {
        if self.finding.is_none() {
            self.finding = Some(Finding::Malformed { seq, why: why.into() });
        }
    }

    /// The last record that holds so far.
    pub const fn seq(&self) -> u64 {
        self.seq
    }

    /// The answer.
    pub fn finish(self) -> Result<Summary, Finding> {
        if let Some(finding) = self.finding {
            return Err(finding);
        }
        if let Some(covered) = self.expected.kept.iter().map(|kept| kept.seq).filter(|seq| *seq > self.seq).max() {
            return Err(Finding::Truncated { last: self.seq, covered });
        }
        if !self.expected.keys.is_empty() && self.checkpoints == 0 && self.seq > 0 {
            return Err(Finding::Unsigned { last: self.seq });
        }
        if let (Some(header), Some(last)) = (&self.header, self.keys.last())
            && header.public_key != *last
        {
            return Err(Finding::WrongHeader);
        }
        Ok(Summary {
            hub_id: self.hub_id,
            last_seq: self.seq,
            last_hash: self.head,
            checkpoints: self.checkpoints,
            signed_up_to: self.signed_up_to,
            keys: self.keys,
        })
    }

    fn read_header(&mut self, text: &str) {
        match serde_json::from_str::<ExportHeader>(text) {
            Ok(header) if header.convoke_journal != FORMAT => {
                self.malformed(format!(
                    "the file has format {}, this program reads {FORMAT}",
                    header.convoke_journal
                ));
            }
            Ok(header) if header.line() != text => self.malformed("the header is not in its one accepted form"),
            Ok(header) => match self.same_hub(header.hub_id, 0) {
                Ok(()) => self.header = Some(header),
                Err(finding) => self.finding = Some(finding),
            },
            Err(_) => self.malformed("the file does not begin with the header of a journal export"),
        }
    }

    fn check_record(&mut self, body: &[u8], hash: &[u8]) -> Result<(), Finding> {
        let next = self.seq + 1;
        let malformed = |why: &str| Finding::Malformed { seq: next, why: why.into() };
        if record_hash(body) != hash {
            return Err(Finding::ChangedRecord { seq: next });
        }
        let at: Position = serde_json::from_slice(body).map_err(|_| malformed("this is no journal record"))?;
        self.same_hub(at.hub_id, next)?;
        if at.seq > next {
            return Err(Finding::Missing { from: next, to: at.seq - 1 });
        }
        if at.seq < next {
            return Err(Finding::Reordered { seq: next, found: format!("record {}", at.seq) });
        }
        if at.prev != hex::encode(self.head) {
            return Err(Finding::BrokenLink { seq: next });
        }
        let draft: Draft = serde_json::from_slice(body).map_err(|_| malformed("this is no journal record"))?;
        if encode(at.hub_id, next, &draft, &self.head).as_bytes() != body {
            return Err(malformed("the record is not in its one accepted form"));
        }
        let hash = record_hash(body);
        if self.expected.kept.iter().any(|kept| kept.seq == next && kept.hash != hash) {
            return Err(Finding::CheckpointMismatch { seq: next });
        }
        self.seq = next;
        self.head = hash;
        Ok(())
    }

    fn check_checkpoint(&mut self, checkpoint: &Checkpoint) -> Result<(), Finding> {
        let seq = checkpoint.seq;
        self.same_hub(checkpoint.hub_id, seq)?;
        checkpoint.check().map_err(|_| Finding::BadCheckpoint { seq })?;
        if !self.expected.keys.is_empty() && !self.expected.keys.contains(&checkpoint.public_key) {
            return Err(Finding::UnknownKey { seq, key: STANDARD.encode(checkpoint.public_key) });
        }
        if seq > self.seq {
            return Err(Finding::Truncated { last: self.seq, covered: seq });
        }
        if seq < self.seq || seq <= self.signed_up_to {
            return Err(Finding::Reordered { seq: self.seq + 1, found: format!("the checkpoint at record {seq}") });
        }
        if checkpoint.hash != self.head {
            return Err(Finding::CheckpointMismatch { seq });
        }
        self.checkpoints += 1;
        self.signed_up_to = seq;
        // The last one stays last: the header of an export names it.
        self.keys.retain(|key| *key != checkpoint.public_key);
        self.keys.push(checkpoint.public_key);
        Ok(())
    }

    /// A gap was seen. If what is missing comes later, it was moved and not removed.
    fn look_for_the_missing(&mut self, body: &[u8]) {
        let next = self.seq + 1;
        let Ok(at) = serde_json::from_slice::<Position>(body) else { return };
        match self.finding {
            Some(Finding::Missing { to, .. }) if at.seq == next => {
                self.finding = Some(Finding::Reordered { seq: next, found: format!("record {}", to + 1) });
            }
            Some(Finding::Truncated { covered, .. }) if at.seq == next => {
                let found = format!("the checkpoint at record {covered}");
                self.finding = Some(Finding::Reordered { seq: next, found });
            }
            Some(Finding::Truncated { .. }) if at.seq > next => {
                self.finding = Some(Finding::Missing { from: next, to: at.seq - 1 });
            }
            _ => {}
        }
    }

    fn same_hub(&mut self, found: HubId, seq: u64) -> Result<(), Finding> {
        let expected = *self.hub_id.get_or_insert(found);
        if expected == found { Ok(()) } else { Err(Finding::WrongHub { seq, expected, found }) }
    }
}

impl From<&Chain> for Anchor {
    fn from(chain: &Chain) -> Self {
        Self { seq: chain.seq(), hash: *chain.head() }
    }
}

#[derive(Deserialize)]
struct Position {
    hub_id: HubId,
    seq: u64,
    prev: String,
}

/// Takes a shown record apart into its canonical bytes and its hash.
fn split(text: &str) -> Option<(String, Hash)> {
    let at = text.len().checked_sub(HASH_SUFFIX)?;
    let digits = text.get(at..)?.strip_prefix(HASH_KEY)?.strip_suffix("\"}")?;
    let mut hash = [0; 32];
    hex::decode_to_slice(digits, &mut hash).ok()?;
    let mut body = String::with_capacity(at + 1);
    body.push_str(text.get(..at)?);
    body.push('}');
    Some((body, hash))
}

#[cfg(test)]
mod tests;
