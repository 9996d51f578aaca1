//! Checking and exporting the journal without a hub: on a data directory (in use or not), or on an exported file.

use std::io::{BufRead, Write};
use std::path::Path;
use std::sync::Arc;

use convoke_core::id::HubId;
use convoke_core::journal::{
    Checkpoint, Draft, Expected, ExportHeader, Finding, Summary, Verifier, checkpoint_line, shown,
};
use convoke_core::time::Timestamp;
use rusqlite::Connection;

use crate::error::StoreError;
use crate::files::Paths;
use crate::interface::Result;
use crate::sqlite::{
    Bits, LogDamage, Raw, Value, block_ended_by, checkpoints, find_log_damage, hub_public_key, join_old_tail,
    kept_bits, kept_too_soon, meta, open_readable, refuse_damaged_log, schema_version, walk,
};

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
        /// What SQLite says.
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
pub fn verify_dir(dir: &Path, expected: Expected) -> Result<Verdict> {
    let paths = Paths::existing(dir)?;
    // SQLite reads up to the damage and takes that for everything: a shorter journal, which holds.
    if let Some(damage) = find_log_damage(&paths.wal)? {
        return Ok(Verdict::DamagedLog(damage));
    }
    join_old_tail(&paths)?;
    let verified = open_readable(&paths.db).and_then(|conn| {
        schema_version(&conn)?;
        // One view of the database for everything that follows, whatever a running hub adds meanwhile.
        let view = conn.unchecked_transaction()?;
        verify_view(&view, expected)
    });
    match verified {
        Err(StoreError::Corrupt(why)) => Ok(Verdict::Damaged { last_good: 0, why }),
        answer => answer,
    }
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
pub fn export(dir: &Path, mut to: impl Write, now: Timestamp) -> Result<Export> {
    let paths = Paths::existing(dir)?;
    refuse_damaged_log(&paths.wal)?;
    join_old_tail(&paths)?;
    let mut conn = open_readable(&paths.db)?;
    schema_version(&conn)?;
    // One view of the database for the check and for what is written, whatever a running hub adds meanwhile.
    let conn = conn.transaction()?;
    match verify_view(&conn, Expected::default()) {
        Ok(Verdict::Good(_)) => {}
        Ok(verdict) => return Ok(Export::Refused(verdict)),
        Err(StoreError::Corrupt(why)) => return Ok(Export::Refused(Verdict::Damaged { last_good: 0, why })),
        Err(other) => return Err(other),
    }
    let hub_id = hub_id(&conn)?;
    let mut signed = Signed::new(&conn, hub_id)?;
    let unwritable = |e: std::io::Error| StoreError::Io { what: "write the export".into(), source: Arc::new(e) };
    let header = ExportHeader::new(hub_id, signed.last_key()?, now);
    writeln!(to, "{}", header.line()).map_err(unwritable)?;
    let mut records = 0;
    walk(&conn, |row| {
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

/// Checks a database that stands alone.
pub(crate) fn verify_db(conn: &Connection, expected: Expected) -> Result<Verdict> {
    let view = conn.unchecked_transaction()?;
    verify_view(&view, expected)
}

/// Checks what one transaction sees of a database.
fn verify_view(conn: &Connection, mut expected: Expected) -> Result<Verdict> {
    schema_version(conn)?;
    let hub_id = hub_id(conn)?;
    expected.hub_id.get_or_insert(hub_id);
    let mut verifier = Verifier::new(expected);
    let mut signed = Signed::new(conn, hub_id)?;
    let mut bits = Bits::default();
    let walked = walk(conn, |row| {
        let before = verifier.seq();
        verifier.record(row.body, row.hash);
        // The record itself comes first: what is wrong with it says more than what is around it.
        if verifier.seq() > before {
            // Filters would hide the record, or show it for what it is not.
            if let Some(column) = disagreeing_column(&row) {
                verifier.flag(verifier.seq(), format!("the column {column} does not agree with the record"));
            }
            Value::of(row.kind, row.target, row.tool, row.call_id).for_each(|value| bits.add(value));
            if let Some(block) = block_ended_by(verifier.seq()) {
                if !kept_bits(conn, block)?.is_some_and(|kept| bits.is(&kept)) {
                    verifier
                        .flag(verifier.seq(), "what filters use to find records up to here does not agree with them");
                }
                bits = Bits::default();
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
    if let Some(seq) = kept_too_soon(conn, last_good)? {
        let why = "filters would pass over records from here on: there are bits for a block that has not ended";
        return Ok(Verdict::Bad(Finding::Malformed { seq, why: why.into() }));
    }
    match integrity(conn)? {
        Some(why) => Ok(Verdict::Damaged { last_good, why }),
        None => Ok(verdict),
    }
}

/// The first column that says something else than the record.
fn disagreeing_column(row: &Raw<'_>) -> Option<&'static str> {
    #[derive(serde::Deserialize)]
    struct Place {
        seq: i64,
    }
    let (Ok(place), Ok(draft)) =
        (serde_json::from_slice::<Place>(row.body), serde_json::from_slice::<Draft>(row.body))
    else {
        return None;
    };
    if place.seq != row.seq {
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

/// What SQLite finds wrong with its own file.
fn integrity(conn: &Connection) -> Result<Option<String>> {
    let found: rusqlite::Result<String> = conn.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0));
    match found {
        Ok(text) if text == "ok" => Ok(None),
        Ok(text) => Ok(Some(text)),
        Err(error) => match StoreError::from(error) {
            StoreError::Corrupt(why) => Ok(Some(why)),
            other => Err(other),
        },
    }
}

fn hub_id(conn: &Connection) -> Result<HubId> {
    meta(conn, "hub_id")?
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| StoreError::Corrupt("the hub's id is missing or malformed".into()))
}

fn describe(error: &StoreError) -> String {
    match error {
        StoreError::Corrupt(why) => why.clone(),
        other => other.to_string(),
    }
}

/// The checkpoints of a database, handed out as the records go by.
struct Signed<'c> {
    conn: &'c Connection,
    hub_id: HubId,
    page: std::collections::VecDeque<Checkpoint>,
    after: u64,
    ended: bool,
}

impl<'c> Signed<'c> {
    fn new(conn: &'c Connection, hub_id: HubId) -> Result<Self> {
        Ok(Self { conn, hub_id, page: checkpoints(conn, hub_id, 0, 1_000)?.into(), after: 0, ended: false })
    }

    fn next_up_to(&mut self, seq: u64) -> Result<Option<Checkpoint>> {
        if self.page.is_empty() && !self.ended {
            self.page = checkpoints(self.conn, self.hub_id, self.after, 1_000)?.into();
            self.ended = self.page.is_empty();
        }
        if self.page.front().is_none_or(|next| next.seq > seq) {
            return Ok(None);
        }
        let next = self.page.pop_front();
        self.after = next.as_ref().map_or(self.after, |checkpoint| checkpoint.seq);
        Ok(next)
    }

    /// The key of the last checkpoint; the hub's own when there is none yet.
    fn last_key(&self) -> Result<[u8; 32]> {
        let last: i64 = self.conn.query_row("SELECT coalesce(max(seq), 0) FROM checkpoints", [], |row| row.get(0))?;
        let last = checkpoints(self.conn, self.hub_id, (last as u64).saturating_sub(1), 1)?;
        match last.first() {
            Some(checkpoint) => Ok(checkpoint.public_key),
            None => hub_public_key(self.conn)?
                .ok_or_else(|| StoreError::Corrupt("the hub's public key is missing".into())),
        }
    }
}
