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

/// The block that is being filled: its bits as far as they are known. Not known after a start in the middle of it, or
/// after records of it were taken back; then they are read back from the rows when it ends.
#[derive(Debug, Default)]
pub(super) struct Filling(Option<(u64, Bits)>);

impl Filling {
    /// Takes the record `seq` in. The bits of its block, when it ends one of which all is known.
    pub(super) fn add<'a>(&mut self, seq: u64, values: impl Iterator<Item = Value<'a>>) -> Option<Bits> {
        if seq % BLOCK == 1 {
            self.0 = Some((seq, Bits::default()));
        }
        let (next, bits) = self.0.as_mut().filter(|(next, _)| *next == seq)?;
        values.for_each(|value| bits.add(value));
        *next += 1;
        if block_ended_by(seq).is_some() { self.0.take().map(|(_, bits)| bits) } else { None }
    }

    /// Records were taken back, or may have been.
    pub(super) fn forget(&mut self) {
        self.0 = None;
    }
}

/// Keeps the bits of the block that ends with the record `last`; those that are not known are read back from the rows.
pub(super) fn keep(conn: &Connection, last: u64, known: Option<Bits>) -> Result<()> {
    let bits = known.map_or_else(|| read_back(conn, last), Ok)?;
    conn.prepare_cached("INSERT OR REPLACE INTO journal_skips VALUES (?1, ?2)")?
        .execute(params![((last - 1) / BLOCK) as i64, bits.0])?;
    Ok(())
}

fn read_back(conn: &Connection, last: u64) -> Result<Bits> {
    let mut bits = Bits::default();
    let mut statement =
        conn.prepare_cached("SELECT kind, target, tool, call_id FROM journal WHERE seq BETWEEN ?1 AND ?2")?;
    let mut rows = statement.query([(last - BLOCK + 1) as i64, last as i64])?;
    while let Some(row) = rows.next()? {
        let column = |at: usize| row.get_ref(at).ok().and_then(|value| value.as_bytes_or_null().ok().flatten());
        Value::of(column(0), column(1), column(2), column(3)).for_each(|value| bits.add(value));
    }
    Ok(bits)
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
        // Bits of a block that has not ended are nobody's work but a forger's, and would hide the newest records.
        let mut statement = conn.prepare_cached(
            "SELECT block, bits FROM journal_skips
             WHERE block >= ?1 AND block < (SELECT coalesce(max(seq), 0) / ?2 FROM journal) ORDER BY block",
        )?;
        let mut rows = statement.query([(after / BLOCK) as i64, BLOCK as i64])?;
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

/// The first record of a block for which bits are kept though it has not ended with the record `last`.
pub(crate) fn kept_too_soon(conn: &Connection, last: u64) -> Result<Option<u64>> {
    use rusqlite::OptionalExtension as _;
    let block: Option<i64> = conn
        .prepare_cached("SELECT block FROM journal_skips WHERE block < 0 OR block >= ?1 ORDER BY block LIMIT 1")?
        .query_row([(last / BLOCK) as i64], |row| row.get(0))
        .optional()?;
    Ok(block.map(|block| u64::try_from(block).unwrap_or(0).saturating_mul(BLOCK).saturating_add(1)))
}

/// The block that a record ends, if it ends one.
pub(crate) const fn block_ended_by(seq: u64) -> Option<u64> {
    if seq > 0 && seq.is_multiple_of(BLOCK) { Some(seq / BLOCK - 1) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(seq: u64) -> [Vec<u8>; 1] {
        [format!("target-{seq}").into_bytes()]
    }

    fn fill(filling: &mut Filling, seq: u64) -> Option<Bits> {
        let [target] = value(seq);
        filling.add(seq, Value::of(None, Some(&target), None, None))
    }

    fn whole(block: u64) -> Bits {
        let mut bits = Bits::default();
        for seq in block * BLOCK + 1..=(block + 1) * BLOCK {
            let [target] = value(seq);
            Value::of(None, Some(&target), None, None).for_each(|value| bits.add(value));
        }
        bits
    }

    #[test]
    fn a_block_that_was_seen_from_its_first_record_is_known_at_its_last() {
        let mut filling = Filling::default();
        for seq in 1..BLOCK {
            assert_eq!(fill(&mut filling, seq), None);
        }
        assert_eq!(fill(&mut filling, BLOCK), Some(whole(0)));
        for seq in BLOCK + 1..2 * BLOCK {
            assert_eq!(fill(&mut filling, seq), None);
        }
        assert_eq!(fill(&mut filling, 2 * BLOCK), Some(whole(1)), "and nothing of the block before is in it");
    }

    #[test]
    fn a_block_of_which_something_is_missing_is_not_known() {
        // From the middle on, with a gap, and with records that were taken back and came again.
        let mut filling = Filling::default();
        assert!((7..=BLOCK).all(|seq| fill(&mut filling, seq).is_none()));
        let mut filling = Filling::default();
        assert!((1..=BLOCK).filter(|seq| *seq != 9).all(|seq| fill(&mut filling, seq).is_none()));
        let mut filling = Filling::default();
        assert!((1..=20).all(|seq| fill(&mut filling, seq).is_none()));
        filling.forget();
        assert!((15..=BLOCK).all(|seq| fill(&mut filling, seq).is_none()));
        assert!((BLOCK + 1..2 * BLOCK).all(|seq| fill(&mut filling, seq).is_none()));
        assert_eq!(fill(&mut filling, 2 * BLOCK), Some(whole(1)), "the next one is");
    }

    #[test]
    fn a_block_that_begins_again_holds_nothing_of_what_was_taken_back() {
        let mut filling = Filling::default();
        let lost = b"lost".as_slice();
        assert!(filling.add(1, Value::of(None, Some(lost), None, None)).is_none());
        filling.forget();
        assert!((1..BLOCK).all(|seq| fill(&mut filling, seq).is_none()));
        assert_eq!(fill(&mut filling, BLOCK), Some(whole(0)));
    }
}
