//! The journal's rows: appending, signing, reading by filter.

use async_trait::async_trait;
use convoke_core::id::HubId;
use convoke_core::journal::{Chain, Checkpoint, Draft, GENESIS, Hash, Kind, Phase, Sealed, shown};
use convoke_core::time::Timestamp;
use ed25519_dalek::SigningKey;
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde_json::value::RawValue;

use super::SqliteStore;
use super::row::{blob, time};
use super::writer::SMALL;
use crate::engine;
use crate::error::StoreError;
use crate::{Journal, JournalFilter, JournalRow, PAGE_BYTES, Result};

#[async_trait]
impl Journal for SqliteStore {
    async fn append(&self, record: Draft) -> Result<u64> {
        self.queue.append(record).await
    }

    async fn journal(&self, filter: JournalFilter) -> Result<Vec<JournalRow>> {
        self.readers.read(move |conn| read(conn, &filter)).await
    }

    async fn checkpoint(&self, now: Timestamp) -> Result<()> {
        // Goes through the writer even when there is nothing to sign: its commit shows a store that failed and can
        // write again.
        self.queue.run(SMALL, move |tx| tx.sign(now)).await
    }

    async fn checkpoints(&self, after: Option<u64>, limit: u32) -> Result<Vec<Checkpoint>> {
        let hub_id = self.hub_id;
        self.readers.read(move |conn| checkpoints(conn, hub_id, after.unwrap_or(0), limit)).await
    }
}

/// Most records one read answers.
const MAX_PAGE: u32 = 10_000;

/// About how much memory a draft holds.
pub(super) fn weight(draft: &Draft) -> usize {
    512 + draft.args.as_ref().map_or(0, |raw| raw.get().len())
        + draft.detail.as_ref().map_or(0, |raw| raw.get().len())
}

/// Puts a sealed record into the table, and keeps the list of open intents true.
pub(super) fn put(conn: &Connection, hub_id: HubId, sealed: &Sealed, draft: &Draft) -> Result<()> {
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
            conn.prepare_cached("INSERT OR REPLACE INTO open_intents (call_id, seq, hub_id) VALUES (?1, ?2, ?3)")?
                .execute(params![id, sealed.seq as i64, hub_id.to_string()])?;
        }
        (Some(Phase::Outcome), Some(id)) => {
            conn.prepare_cached("DELETE FROM open_intents WHERE call_id = ?1")?.execute(params![id])?;
        }
        _ => {}
    }
    Ok(())
}

/// Appends a record where no writer has the directory, in whatever transaction there is.
pub(super) fn append_alone(conn: &Connection, hub_id: HubId, draft: &Draft) -> Result<u64> {
    let (mut chain, _) = end(conn, hub_id)?;
    let draft = draft.bounded();
    let sealed = chain.seal(&draft);
    put(conn, hub_id, &sealed, &draft)?;
    Ok(sealed.seq)
}

/// Puts sealed records that follow the table's last one into it, in one transaction.
pub(super) fn join(conn: &mut Connection, records: &[Sealed]) -> Result<()> {
    if records.is_empty() {
        return Ok(());
    }
    let tx = conn.transaction()?;
    let hub_id = super::hub_id(&tx)?.ok_or_else(|| StoreError::Corrupt("the hub's id is missing".into()))?;
    for sealed in records {
        let draft: Draft = serde_json::from_str(&sealed.body).map_err(|_| damaged(sealed.seq))?;
        put(&tx, hub_id, sealed, &draft)?;
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
pub(super) fn last(conn: &Connection) -> Result<(u64, Hash)> {
    let last = conn
        .query_row("SELECT seq, hash FROM journal ORDER BY seq DESC LIMIT 1", [], |row| {
            Ok((row.get::<_, i64>(0)? as u64, blob(row, 1)?))
        })
        .optional()?;
    Ok(last.unwrap_or((0, GENESIS)))
}

/// Records in order, by the index of the filter that leaves the fewest.
pub(super) fn read(conn: &Connection, filter: &JournalFilter) -> Result<Vec<JournalRow>> {
    let after = i64::try_from(filter.after.unwrap_or(0)).unwrap_or(i64::MAX);
    let before = filter.before.map(|seq| i64::try_from(seq).unwrap_or(i64::MAX));
    let limit = filter.limit.min(MAX_PAGE);
    let call_id = filter.call_id.map(|id| id.uuid().into_bytes());
    let call_id = call_id.as_ref().map(|id| &id[..]);
    let kind = filter.kind.as_deref();
    let is_rare_kind = kind.is_some_and(|kind| kind != Kind::Call.name());
    let index = match filter {
        JournalFilter { call_id: Some(_), .. } => "INDEXED BY journal_call",
        JournalFilter { agent: Some(_), .. } => "INDEXED BY journal_target",
        JournalFilter { tool: Some(_), .. } => "INDEXED BY journal_tool",
        _ if is_rare_kind => "INDEXED BY journal_kind",
        _ => "NOT INDEXED",
    };
    let mut sql = format!("SELECT seq, hash, body FROM journal {index} WHERE seq > ?");
    let mut values: Vec<&dyn rusqlite::ToSql> = vec![&after];
    if let Some(before) = &before {
        sql.push_str(" AND seq < ?");
        values.push(before);
    }
    let filters: [(bool, &str, &dyn rusqlite::ToSql); 4] = [
        (call_id.is_some(), "call_id", &call_id),
        (filter.agent.is_some(), "target", &filter.agent),
        (filter.tool.is_some(), "tool", &filter.tool),
        (kind.is_some(), "kind", &kind),
    ];
    for (_, column, value) in filters.into_iter().filter(|(is_set, ..)| *is_set) {
        sql.push_str(&format!(" AND {column} = ?"));
        values.push(value);
    }
    if is_rare_kind {
        // An index of some rows is used only where the statement itself says that it needs no others.
        sql.push_str(" AND kind <> 'call'");
    }
    sql.push_str(if before.is_some() { " ORDER BY seq DESC LIMIT ?" } else { " ORDER BY seq LIMIT ?" });
    values.push(&limit);
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query(&values[..])?;
    let mut records = Vec::new();
    let mut bytes = 0;
    while bytes < PAGE_BYTES
        && let Some(row) = rows.next()?
    {
        let seq = row.get::<_, i64>(0)? as u64;
        let body = row.get_ref(2)?.as_str().map_err(|_| damaged(seq))?;
        let json = RawValue::from_string(shown(body, &blob(row, 1)?)).map_err(|_| damaged(seq))?;
        bytes += json.get().len();
        records.push(JournalRow { seq, json });
    }
    Ok(records)
}

fn damaged(seq: u64) -> StoreError {
    StoreError::Corrupt(format!("journal record {seq} is no record any more; run `convoke audit verify`"))
}

/// The drafts of this hub's calls that were announced and never ended.
pub(super) fn open_intents(conn: &Connection, hub_id: HubId) -> Result<Vec<Draft>> {
    let mut statement = conn.prepare_cached(
        "SELECT j.seq, j.body FROM open_intents o JOIN journal j ON j.seq = o.seq WHERE o.hub_id = ?1 ORDER BY j.seq",
    )?;
    let mut rows = statement.query([hub_id.to_string()])?;
    let mut drafts = Vec::new();
    while let Some(row) = rows.next()? {
        let body = row.get_ref(1)?.as_str().ok();
        let draft = body.and_then(|body| serde_json::from_str(body).ok());
        drafts.push(draft.ok_or_else(|| damaged(row.get::<_, i64>(0).unwrap_or(0) as u64))?);
    }
    Ok(drafts)
}

/// Checkpoints in order, after that of record `after`.
pub(super) fn checkpoints(conn: &Connection, hub_id: HubId, after: u64, limit: u32) -> Result<Vec<Checkpoint>> {
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

/// Walks all rows in order until `each` says stop.
pub(super) fn walk(conn: &Connection, each: &mut dyn FnMut(engine::Row<'_>) -> Result<bool>) -> Result<()> {
    let mut statement =
        conn.prepare("SELECT seq, hash, body, kind, target, tool, call_id FROM journal NOT INDEXED ORDER BY seq")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let raw = engine::Row {
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
