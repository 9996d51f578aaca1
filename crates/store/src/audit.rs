//! Checking and exporting the journal without a hub: on a data directory (in use or not), or on an exported file.

use std::io::{BufRead, Write};
use std::sync::Arc;

use convoke_core::journal::{
    Checkpoint, Draft, Expected, ExportHeader, Finding, Summary, Verifier, checkpoint_line, shown,
};
use convoke_core::time::Timestamp;

use crate::Result;
use crate::engine::{self, Data, Row, View};
use crate::error::{LogDamage, StoreError};

/// Longest line of an export that is looked at. A record is far smaller; more is no export.
const MAX_LINE: u64 = 64 << 20;

/// What a check says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Everything holds.
    Good(Summary),
    /// The first thing that is wrong with the journal.
    Bad(Finding),
    /// The journal could not be read to its end, or the database around it is damaged.
    Damaged {
        /// The last record that still held.
        last_good: u64,
        /// What the engine says.
        why: String,
    },
    /// The write-ahead log cannot be read to its end, and the journal's end is in it.
    DamagedLog(LogDamage),
}

impl Verdict {
    /// Whether everything holds.
    pub const fn is_good(&self) -> bool {
        matches!(self, Self::Good(_))
    }

    fn of(verifier: Verifier) -> Self {
        match verifier.finish() {
            Ok(summary) => Self::Good(summary),
            Err(finding) => Self::Bad(finding),
        }
    }
}

/// Checks the journal in a data directory: chain, hashes, checkpoints, that the columns which filters use agree with
/// the records, and that the database file and its log are sound. Reads only, once what version 0.1.0 left in `hub.db-tail`
/// is joined to the database; a hub may be running.
pub fn verify_dir(data: impl Into<Data>, expected: Expected) -> Result<Verdict> {
    match engine::at(&data.into())?.view().and_then(|view| verify_view(&*view, expected)) {
        // Reading on would end the journal before the damage: a shorter one, which holds.
        Err(StoreError::DamagedLog { damage, .. }) => Ok(Verdict::DamagedLog(damage)),
        Err(StoreError::Corrupt(why)) => Ok(Verdict::Damaged { last_good: 0, why }),
        answer => answer,
    }
}

/// Checks the journal of each hub that keeps its data there. Each with its hub's name, which is empty for a data directory.
pub fn verify_all(data: impl Into<Data>, expected: &Expected) -> Result<Vec<(String, Verdict)>> {
    let data = data.into();
    if data.server.is_none() {
        return Ok(vec![(String::new(), verify_dir(data, expected.clone())?)]);
    }
    let views = engine::at(&data)?.views()?;
    views.into_iter().map(|(name, view)| Ok((name, verify_view(&*view, expected.clone())?))).collect()
}

/// Checks an exported journal.
pub fn verify_export(mut file: impl BufRead, expected: Expected) -> Result<Verdict> {
    let unreadable = |e: std::io::Error| StoreError::Io { what: "read the export".into(), source: Arc::new(e) };
    let mut verifier = Verifier::new(expected);
    let mut line = Vec::new();
    let mut lines = 0_u64;
    while !verifier.settled() {
        line.clear();
        let read = std::io::Read::take(&mut file, MAX_LINE).read_until(b'\n', &mut line).map_err(unreadable)?;
        if read == 0 {
            break;
        }
        lines += 1;
        match line.strip_suffix(b"\n") {
            Some(line) => verifier.line(line),
            None => verifier.malformed("the last line has no end: the file was cut off"),
        }
    }
    if lines == 0 {
        verifier.malformed("the file is empty");
    }
    Ok(Verdict::of(verifier))
}

/// What became of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Export {
    /// It was written.
    Written {
        /// How many records there are.
        records: u64,
    },
    /// The journal does not hold, and nothing was written.
    Refused(Verdict),
}

/// Writes the whole journal of a data directory as an export: a header, the records, and each checkpoint after the
/// record it covers. Reads only; a hub may be running.
///
/// The journal is checked first: an export has no columns and no database around it, and would hold where the
/// directory does not.
pub fn export(data: impl Into<Data>, mut to: impl Write, now: Timestamp) -> Result<Export> {
    let view = engine::at(&data.into())?.view()?;
    match verify_view(&*view, Expected::default()) {
        Ok(Verdict::Good(_)) => {}
        Ok(verdict) => return Ok(Export::Refused(verdict)),
        Err(StoreError::Corrupt(why)) => return Ok(Export::Refused(Verdict::Damaged { last_good: 0, why })),
        Err(other) => return Err(other),
    }
    let mut signed = Signed::new(&*view)?;
    let unwritable = |e: std::io::Error| StoreError::Io { what: "write the export".into(), source: Arc::new(e) };
    let header = ExportHeader::new(view.hub_id()?, last_key(&*view)?, now);
    writeln!(to, "{}", header.line()).map_err(unwritable)?;
    let mut records = 0;
    view.walk(&mut |row| {
        let (Ok(body), Ok(hash)) = (std::str::from_utf8(row.body), row.hash.try_into()) else {
            return Err(StoreError::Corrupt(format!("journal record {} is not a valid record", row.seq)));
        };
        writeln!(to, "{}", shown(body, hash)).map_err(unwritable)?;
        records += 1;
        while let Some(checkpoint) = signed.next_up_to(row.seq as u64)? {
            writeln!(to, "{}", checkpoint_line(&checkpoint)).map_err(unwritable)?;
        }
        Ok(true)
    })?;
    to.flush().map_err(unwritable)?;
    Ok(Export::Written { records })
}

/// Checks one moment of the data.
pub(crate) fn verify_view(view: &dyn View, mut expected: Expected) -> Result<Verdict> {
    expected.hub_id.get_or_insert(view.hub_id()?);
    let mut verifier = Verifier::new(expected);
    let mut signed = Signed::new(view)?;
    let walked = view.walk(&mut |row| {
        let before = verifier.seq();
        verifier.record(row.body, row.hash);
        // The record itself comes first: what is wrong with it says more than what is around it.
        if verifier.seq() > before {
            // Filters would hide the record, or show it for what it is not.
            if let Some(column) = disagreeing_column(&row) {
                verifier.flag(verifier.seq(), format!("the column {column} does not agree with the record"));
            }
        }
        while let Some(checkpoint) = signed.next_up_to(row.seq as u64)? {
            verifier.checkpoint(&checkpoint);
        }
        Ok(!verifier.settled())
    });
    if let Err(error) = walked {
        return Ok(Verdict::Damaged { last_good: verifier.seq(), why: describe(&error) });
    }
    while let Some(checkpoint) = signed.next_up_to(i64::MAX as u64)? {
        verifier.checkpoint(&checkpoint);
    }
    let last_good = verifier.seq();
    let verdict = Verdict::of(verifier);
    if !verdict.is_good() {
        return Ok(verdict);
    }
    // The indexes, too, which filters use.
    match view.integrity()? {
        Some(why) => Ok(Verdict::Damaged { last_good, why }),
        None => Ok(verdict),
    }
}

/// The first column that says something else than the record.
fn disagreeing_column(row: &Row<'_>) -> Option<&'static str> {
    #[derive(serde::Deserialize)]
    struct Numbered {
        seq: i64,
    }
    let (Ok(record), Ok(draft)) =
        (serde_json::from_slice::<Numbered>(row.body), serde_json::from_slice::<Draft>(row.body))
    else {
        return None;
    };
    if record.seq != row.seq {
        Some("seq")
    } else if row.kind != Some(draft.kind.name().as_bytes()) {
        Some("kind")
    } else if row.target != draft.target.as_deref().map(str::as_bytes) {
        Some("target")
    } else if row.tool != draft.tool.as_deref().map(str::as_bytes) {
        Some("tool")
    } else if row.call_id != draft.call_id.map(|id| id.uuid().into_bytes()).as_ref().map(|id| &id[..]) {
        Some("call_id")
    } else {
        None
    }
}

fn describe(error: &StoreError) -> String {
    match error {
        StoreError::Corrupt(why) => why.clone(),
        other => other.to_string(),
    }
}

/// The key of the last checkpoint; the hub's own when there is none yet.
fn last_key(view: &dyn View) -> Result<[u8; 32]> {
    match view.last_checkpoint()? {
        Some(checkpoint) => Ok(checkpoint.public_key),
        None => view.hub_public_key()?.ok_or_else(|| StoreError::Corrupt("the hub's public key is missing".into())),
    }
}

/// The checkpoints, handed out as the records go by.
struct Signed<'v> {
    view: &'v dyn View,
    page: std::collections::VecDeque<Checkpoint>,
    after: u64,
    ended: bool,
}

impl<'v> Signed<'v> {
    fn new(view: &'v dyn View) -> Result<Self> {
        Ok(Self { view, page: view.checkpoints(0, 1_000)?.into(), after: 0, ended: false })
    }

    fn next_up_to(&mut self, seq: u64) -> Result<Option<Checkpoint>> {
        if self.page.is_empty() && !self.ended {
            self.page = self.view.checkpoints(self.after, 1_000)?.into();
            self.ended = self.page.is_empty();
        }
        if self.page.front().is_none_or(|next| next.seq > seq) {
            return Ok(None);
        }
        let next = self.page.pop_front();
        self.after = next.as_ref().map_or(self.after, |checkpoint| checkpoint.seq);
        Ok(next)
    }
}
