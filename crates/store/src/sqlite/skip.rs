//! Finding records without an index: for every block of 512 records a small set of bits says what may be in it.
//!
//! An index on the target would touch a page of its own for nearly every record of a large fleet, which costs more than
//! the record. Instead, the last record of a block writes one row of 2 KiB, and a filtered read passes over every block
//! whose bits say no. The bits can say "maybe" wrongly (one block in some hundreds), never "no" wrongly. They follow from
//! the records, so `convoke audit verify` computes them again and compares.

use convoke_core::id::CallId;
use rusqlite::{Connection, params};

use crate::interface::{JournalFilter, Result};

/// Records in a block. Block `n` has the records `n * 512 + 1` to `(n + 1) * 512`.
pub(super) const BLOCK: u64 = 512;
/// A block has a thousand or so different values; 16 bits for each make a wrong "maybe" rare.
const BYTES: usize = 2_048;

/// A value of a column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Value<'a>(u8, &'a [u8]);

impl<'a> Value<'a> {
    /// The values of a record, as its columns have them.
    pub(crate) fn of(
        kind: Option<&'a [u8]>,
        target: Option<&'a [u8]>,
        tool: Option<&'a [u8]>,
        call_id: Option<&'a [u8]>,
    ) -> impl Iterator<Item = Self> {
        [(b'k', kind), (b't', target), (b'o', tool), (b'c', call_id)]
            .into_iter()
            .filter_map(|(column, value)| value.map(|value| Value(column, value)))
    }

    /// FNV-1a, then a final mix: fixed for ever, since it is on the disk.
    fn hash(self) -> u64 {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for byte in std::iter::once(&self.0).chain(self.1) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        hash ^ (hash >> 33)
    }

    /// Four places among the bits.
    fn places(self) -> impl Iterator<Item = usize> {
        let hash = self.hash();
        (0..4).map(move |n| (hash >> (16 * n)) as usize % (BYTES * 8))
    }
}

/// What may be in a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bits(Vec<u8>);

impl Default for Bits {
    fn default() -> Self {
        Self(vec![0; BYTES])
    }
}

impl Bits {
    pub(crate) fn add(&mut self, value: Value<'_>) {
        for place in value.places() {
            self.0[place / 8] |= 1 << (place % 8);
        }
    }

    pub(crate) fn is(&self, kept: &[u8]) -> bool {
        self.0 == kept
    }
}

fn may_have(bits: &[u8], value: Value<'_>) -> bool {
    // Bits of another length are damage; then nothing is passed over.
    bits.len() != BYTES || value.places().all(|place| bits[place / 8] & (1 << (place % 8)) != 0)
}

/// Keeps the bits of the block that ends with the record `last`. They are read back from the rows, so that nothing has
/// to be carried along, or taken back, between transactions.
pub(super) fn keep(conn: &Connection, last: u64) -> Result<()> {
    let mut bits = Bits::default();
    let mut statement =
        conn.prepare_cached("SELECT kind, target, tool, call_id FROM journal WHERE seq BETWEEN ?1 AND ?2")?;
    let mut rows = statement.query([(last - BLOCK + 1) as i64, last as i64])?;
    while let Some(row) = rows.next()? {
        let column = |at: usize| row.get_ref(at).ok().and_then(|value| value.as_bytes_or_null().ok().flatten());
        Value::of(column(0), column(1), column(2), column(3)).for_each(|value| bits.add(value));
    }
    conn.prepare_cached("INSERT OR REPLACE INTO journal_skips VALUES (?1, ?2)")?
        .execute(params![((last - 1) / BLOCK) as i64, bits.0])?;
    Ok(())
}

/// The ranges of records after `after` in which a record that fits may be, in order, until `each` says stop.
pub(super) fn ranges(
    conn: &Connection,
    filter: &JournalFilter,
    mut each: impl FnMut(u64, u64) -> Result<bool>,
) -> Result<()> {
    let after = filter.after.unwrap_or(0);
    let call_id = filter.call_id.map(|id: CallId| id.uuid().into_bytes());
    let wanted: Vec<Value<'_>> = Value::of(
        filter.kind.as_deref().map(str::as_bytes),
        filter.agent.as_deref().map(str::as_bytes),
        filter.tool.as_deref().map(str::as_bytes),
        call_id.as_ref().map(|id| &id[..]),
    )
    .collect();
    // Everything up to here was looked at or passed over.
    let mut done = after;
    if !wanted.is_empty() {
        let mut statement =
            conn.prepare_cached("SELECT block, bits FROM journal_skips WHERE block >= ?1 ORDER BY block")?;
        let mut rows = statement.query([(after / BLOCK) as i64])?;
        while let Some(row) = rows.next()? {
            let block = row.get::<_, i64>(0)? as u64;
            let bits = row.get_ref(1)?.as_blob().unwrap_or_default();
            let (first, last) = (block * BLOCK, (block + 1) * BLOCK);
            // Where a block has lost its bits, what lies between is looked at too.
            let to = if wanted.iter().all(|value| may_have(bits, *value)) { last } else { first };
            if done < to && !each(done, to)? {
                return Ok(());
            }
            done = last;
        }
    }
    each(done, i64::MAX as u64).map(drop)
}

/// The bits that are kept for a block.
pub(crate) fn kept(conn: &Connection, block: u64) -> Result<Option<Vec<u8>>> {
    use rusqlite::OptionalExtension as _;
    Ok(conn
        .prepare_cached("SELECT bits FROM journal_skips WHERE block = ?1")?
        .query_row([block as i64], |row| row.get(0))
        .optional()?)
}

/// The block that a record ends, if it ends one.
pub(crate) const fn block_ended_by(seq: u64) -> Option<u64> {
    if seq > 0 && seq.is_multiple_of(BLOCK) { Some(seq / BLOCK - 1) } else { None }
}
