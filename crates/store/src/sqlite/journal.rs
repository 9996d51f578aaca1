//! The journal's rows: appending, signing, reading by filter.

use convoke_core::id::HubId;
use convoke_core::journal::{Chain, Checkpoint, Draft, GENESIS, Hash, Phase, Sealed, shown};
use convoke_core::time::Timestamp;
use ed25519_dalek::SigningKey;
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde_json::value::RawValue;

use super::row::{blob, time};
use super::skip;
use crate::error::StoreError;
use crate::interface::{JournalFilter, JournalRow, Result};

/// Most records one read answers.
const MAX_PAGE: u32 = 10_000;

/// About how much memory a draft holds.
pub(super) fn weight(draft: &Draft) -> usize {
    512 + draft.args.as_ref().map_or(0, |raw| raw.get().len())
        + draft.detail.as_ref().map_or(0, |raw| raw.get().len())
}

/// Puts a sealed record into the table, and keeps the list of open intents true.
pub(super) fn put(conn: &Connection, filling: &mut skip::Filling, sealed: &Sealed, draft: &Draft) -> Result<()> {
    let call_id = draft.call_id.map(|id| id.uuid().into_bytes());
    conn.prepare_cached("INSERT INTO journal VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?.execute(params![
        sealed.seq as i64,
        sealed.hash,
        draft.kind.name(),
        draft.target,
        draft.tool,
        call_id.as_ref().map(|id| &id[..]),
        sealed.body,
    ])?;
    match (draft.phase, call_id) {
        (Some(Phase::Intent), Some(id)) => {
            conn.prepare_cached("INSERT OR REPLACE INTO open_intents VALUES (?1, ?2)")?
                .execute(params![id, sealed.seq as i64])?;
        }
        (Some(Phase::Outcome), Some(id)) => {
            conn.prepare_cached("DELETE FROM open_intents WHERE call_id = ?1")?.execute(params![id])?;
        }
        _ => {}
    }
    let columns = skip::Value::of(
        Some(draft.kind.name().as_bytes()),
        draft.target.as_deref().map(str::as_bytes),
        draft.tool.as_deref().map(str::as_bytes),
        call_id.as_ref().map(|id| &id[..]),
    );
    let known = filling.add(sealed.seq, columns);
    if skip::block_ended_by(sealed.seq).is_some() {
        skip::keep(conn, sealed.seq, known)?;
    }
    Ok(())
}

/// Appends a record where no writer has the directory, in whatever transaction there is.
pub(crate) fn append_alone(conn: &Connection, hub_id: HubId, draft: &Draft) -> Result<u64> {
    let (mut chain, _) = end(conn, hub_id)?;
    let sealed = chain.seal(draft);
    put(conn, &mut skip::Filling::default(), &sealed, draft)?;
    Ok(sealed.seq)
}

/// Puts sealed records that follow the table's last one into it, in one transaction.
pub(super) fn join(conn: &mut Connection, records: &[Sealed]) -> Result<()> {
    if records.is_empty() {
        return Ok(());
    }
    let tx = conn.transaction()?;
    let mut filling = skip::Filling::default();
    for sealed in records {
        let draft: Draft = serde_json::from_str(&sealed.body).map_err(|_| damaged(sealed.seq))?;
        put(&tx, &mut filling, sealed, &draft)?;
    }
    Ok(tx.commit()?)
}

/// Keeps a signed checkpoint of the chain's end.
pub(super) fn sign(conn: &Connection, chain: &Chain, signer: &SigningKey, at: Timestamp) -> Result<()> {
    let checkpoint = Checkpoint::sign(signer, chain.hub_id(), chain.seq(), *chain.head(), at);
    conn.prepare_cached("INSERT OR REPLACE INTO checkpoints VALUES (?1, ?2, ?3, ?4, ?5)")?.execute(params![
        checkpoint.seq as i64,
        checkpoint.hash,
        at.millis(),
        checkpoint.public_key,
        checkpoint.signature,
    ])?;
    Ok(())
}

/// The chain's end as it was committed, and the last record that is signed.
pub(super) fn end(conn: &Connection, hub_id: HubId) -> Result<(Chain, u64)> {
    let (seq, head) = last(conn)?;
    let signed: i64 = conn.query_row("SELECT coalesce(max(seq), 0) FROM checkpoints", [], |row| row.get(0))?;
    if signed as u64 > seq {
        // Going on would bury the evidence under new records.
        return Err(StoreError::Corrupt(format!(
            "the journal ends at record {seq}, but record {signed} was signed; run `convoke audit verify`"
        )));
    }
    Ok((Chain::resume(hub_id, seq, head), signed as u64))
}

/// The last record's place and hash.
pub(crate) fn last(conn: &Connection) -> Result<(u64, Hash)> {
    let last = conn
        .query_row("SELECT seq, hash FROM journal ORDER BY seq DESC LIMIT 1", [], |row| {
            Ok((row.get::<_, i64>(0)? as u64, blob(row, 1)?))
        })
        .optional()?;
    Ok(last.unwrap_or((0, GENESIS)))
}

/// Records in order. With a filter, blocks of records that cannot have what is asked for are passed over.
pub(super) fn read(conn: &Connection, filter: &JournalFilter) -> Result<Vec<JournalRow>> {
    let limit = filter.limit.min(MAX_PAGE) as usize;
    let call_id = filter.call_id.map(|id| id.uuid().into_bytes());
    let mut statement = conn.prepare_cached(
        "SELECT seq, hash, body FROM journal WHERE seq > ?1 AND seq <= ?2 AND (?3 IS NULL OR target = ?3)
         AND (?4 IS NULL OR tool = ?4) AND (?5 IS NULL OR kind = ?5) AND (?6 IS NULL OR call_id = ?6)
         ORDER BY seq LIMIT ?7",
    )?;
    let mut records = Vec::new();
    skip::ranges(conn, filter, |after, last| {
        let mut rows = statement.query(params![
            i64::try_from(after).unwrap_or(i64::MAX),
            i64::try_from(last).unwrap_or(i64::MAX),
            filter.agent,
            filter.tool,
            filter.kind,
            call_id.as_ref().map(|id| &id[..]),
            (limit - records.len()) as i64,
        ])?;
        while let Some(row) = rows.next()? {
            let seq = row.get::<_, i64>(0)? as u64;
            let body = row.get_ref(2)?.as_str().map_err(|_| damaged(seq))?;
            let json = RawValue::from_string(shown(body, &blob(row, 1)?)).map_err(|_| damaged(seq))?;
            records.push(JournalRow { seq, json });
        }
        Ok(records.len() < limit)
    })?;
    Ok(records)
}

fn damaged(seq: u64) -> StoreError {
    StoreError::Corrupt(format!("journal record {seq} is no record any more; run `convoke audit verify`"))
}

/// The drafts of calls that were announced and never ended.
pub(super) fn open_intents(conn: &Connection) -> Result<Vec<Draft>> {
    let mut statement = conn
        .prepare_cached("SELECT j.seq, j.body FROM open_intents o JOIN journal j ON j.seq = o.seq ORDER BY j.seq")?;
    let mut rows = statement.query([])?;
    let mut drafts = Vec::new();
    while let Some(row) = rows.next()? {
        let body = row.get_ref(1)?.as_str().ok();
        let draft = body.and_then(|body| serde_json::from_str(body).ok());
        drafts.push(draft.ok_or_else(|| damaged(row.get::<_, i64>(0).unwrap_or(0) as u64))?);
    }
    Ok(drafts)
}

/// Checkpoints in order, after that of record `after`.
pub(crate) fn checkpoints(conn: &Connection, hub_id: HubId, after: u64, limit: u32) -> Result<Vec<Checkpoint>> {
    let mut statement = conn.prepare_cached(
        "SELECT seq, hash, at, public_key, signature FROM checkpoints WHERE seq > ?1 ORDER BY seq LIMIT ?2",
    )?;
    let rows =
        statement.query_map(params![i64::try_from(after).unwrap_or(i64::MAX), limit.min(MAX_PAGE)], |row| {
            Ok(Checkpoint {
                hub_id,
                seq: row.get::<_, i64>(0)? as u64,
                hash: blob(row, 1)?,
                at: time(row, 2)?,
                public_key: blob(row, 3)?,
                signature: blob(row, 4)?,
            })
        })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// A row as it lies in the table, for whoever checks it.
#[derive(Debug)]
pub(crate) struct Raw<'a> {
    pub(crate) seq: i64,
    pub(crate) hash: &'a [u8],
    pub(crate) body: &'a [u8],
    pub(crate) kind: Option<&'a [u8]>,
    pub(crate) target: Option<&'a [u8]>,
    pub(crate) tool: Option<&'a [u8]>,
    pub(crate) call_id: Option<&'a [u8]>,
}

/// Walks all rows in order until `each` says stop.
pub(crate) fn walk(conn: &Connection, mut each: impl FnMut(Raw<'_>) -> Result<bool>) -> Result<()> {
    let mut statement =
        conn.prepare("SELECT seq, hash, body, kind, target, tool, call_id FROM journal NOT INDEXED ORDER BY seq")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let raw = Raw {
            seq: row.get(0)?,
            hash: bytes(row, 1).unwrap_or_default(),
            body: bytes(row, 2).unwrap_or_default(),
            kind: bytes(row, 3),
            target: bytes(row, 4),
            tool: bytes(row, 5),
            call_id: bytes(row, 6),
        };
        if !each(raw)? {
            break;
        }
    }
    Ok(())
}

/// The bytes of a column, text or not: a damaged row must be looked at, not refused.
fn bytes<'a>(row: &'a Row<'_>, column: usize) -> Option<&'a [u8]> {
    row.get_ref(column).ok()?.as_bytes_or_null().ok().flatten()
}
