//! The journal's rows: appending, signing, reading by filter.

use std::borrow::Cow;

use async_trait::async_trait;
use convoke_core::id::HubId;
use convoke_core::journal::{Chain, Checkpoint, Draft, GENESIS, Hash, Kind, Phase, Sealed, shown};
use convoke_core::time::Timestamp;
use ed25519_dalek::SigningKey;
use serde_json::value::RawValue;

use super::row::{blob, time};
use super::writer::SMALL;
use super::{Connection, OptionalExtension as _, Row, SqlStore, Value, params};
use crate::engine;
use crate::error::StoreError;
use crate::{Journal, JournalFilter, JournalRow, Result};

#[async_trait]
impl Journal for SqlStore {
    async fn append(&self, record: Draft) -> Result<u64> {
        self.queue.append(record).await
    }

    async fn journal(&self, filter: JournalFilter) -> Result<Vec<JournalRow>> {
        let hub_id = self.hub_id;
        self.readers.read(move |conn| read(conn, hub_id, &filter)).await
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

/// Records on their way into the table. A server gets those of a transaction in one statement.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    records: Vec<Entry>,
    /// The calls whose intent is among them, and those whose outcome is.
    intents: Vec<(Vec<u8>, i64)>,
    outcomes: Vec<Vec<u8>>,
}

/// A record with the columns that filters use.
#[derive(Debug)]
struct Entry {
    seq: i64,
    hash: Vec<u8>,
    kind: &'static str,
    target: Option<String>,
    tool: Option<String>,
    call_id: Option<Vec<u8>>,
    body: String,
}

/// How far a batch had come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark([usize; 3]);

impl Batch {
    pub(super) fn mark(&self) -> Mark {
        Mark([self.records.len(), self.intents.len(), self.outcomes.len()])
    }

    /// Forgets what came after the mark.
    pub(super) fn back_to(&mut self, Mark([records, intents, outcomes]): Mark) {
        self.records.truncate(records);
        self.intents.truncate(intents);
        self.outcomes.truncate(outcomes);
    }

    fn add(&mut self, sealed: Sealed, draft: &Draft) {
        let (seq, call_id) = (sealed.seq as i64, draft.call_id.map(|id| id.uuid().as_bytes().to_vec()));
        match (draft.phase, &call_id) {
            (Some(Phase::Intent), Some(id)) => self.intents.push((id.clone(), seq)),
            (Some(Phase::Outcome), Some(id)) => self.outcomes.push(id.clone()),
            _ => {}
        }
        let (target, tool) = (draft.target.clone(), draft.tool.clone());
        let hash = sealed.hash.to_vec();
        self.records.push(Entry { seq, hash, kind: draft.kind.name(), target, tool, call_id, body: sealed.body });
    }

    /// Puts the records into the server's table.
    pub(super) fn flush(&mut self, conn: &Connection, hub_id: HubId) -> Result<()> {
        let Some(session) = conn.postgres() else { return Ok(()) };
        if self.records.is_empty() {
            return Ok(());
        }
        let Self { records, intents, outcomes } = std::mem::take(self);
        let hub_id = hub_id.to_string();
        let text = |text: &Option<String>| text.as_deref().map(|text| super::value::escaped(text).into_owned());
        session.insert_records(&Columns {
            hub_id: &hub_id,
            seq: records.iter().map(|record| record.seq).collect(),
            hash: records.iter().map(|record| &record.hash[..]).collect(),
            kind: records.iter().map(|record| record.kind).collect(),
            target: records.iter().map(|record| text(&record.target)).collect(),
            tool: records.iter().map(|record| text(&record.tool)).collect(),
            call_id: records.iter().map(|record| record.call_id.as_deref()).collect(),
            body: records.iter().map(|record| &record.body[..]).collect(),
        })?;
        // Whoever ends in the same transaction never was open.
        let open: Vec<_> = intents.iter().filter(|(id, _)| !outcomes.contains(id)).collect();
        if !open.is_empty() {
            session.open_intents(
                &hub_id,
                &open.iter().map(|(id, _)| &id[..]).collect::<Vec<_>>(),
                &open.iter().map(|(_, seq)| *seq).collect::<Vec<_>>(),
            )?;
        }
        let ended: Vec<_> = outcomes.iter().filter(|id| !intents.iter().any(|(open, _)| open == *id)).collect();
        if !ended.is_empty() {
            session.close_intents(&ended.iter().map(|id| &id[..]).collect::<Vec<_>>())?;
        }
        Ok(())
    }
}

/// Records, column by column.
pub(crate) struct Columns<'a> {
    pub(crate) hub_id: &'a str,
    pub(crate) seq: Vec<i64>,
    pub(crate) hash: Vec<&'a [u8]>,
    pub(crate) kind: Vec<&'a str>,
    pub(crate) target: Vec<Option<String>>,
    pub(crate) tool: Vec<Option<String>>,
    pub(crate) call_id: Vec<Option<&'a [u8]>>,
    pub(crate) body: Vec<&'a str>,
}

/// Puts a sealed record into the table, and keeps the list of open intents true.
pub(super) fn put(conn: &Connection, hub_id: HubId, sealed: Sealed, draft: &Draft, batch: &mut Batch) -> Result<()> {
    if conn.postgres().is_some() {
        batch.add(sealed, draft);
        return Ok(());
    }
    let call_id = draft.call_id.map(|id| id.uuid().into_bytes());
    conn.prepare_cached("INSERT INTO journal VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?.execute(params![
        sealed.seq as i64,
        sealed.hash,
        draft.kind.name(),
        draft.target,
        draft.tool,
        call_id,
        sealed.body,
    ])?;
    match (draft.phase, call_id) {
        (Some(Phase::Intent), Some(id)) => {
            conn.prepare_cached(
                "INSERT INTO open_intents (call_id, seq, hub_id) VALUES (?1, ?2, ?3)
                 ON CONFLICT (call_id) DO UPDATE SET seq = excluded.seq, hub_id = excluded.hub_id",
            )?
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
pub(crate) fn append_alone(conn: &Connection, hub_id: HubId, draft: &Draft) -> Result<u64> {
    let ((mut chain, _), mut batch) = (end(conn, hub_id)?, Batch::default());
    let draft = draft.bounded();
    put(conn, hub_id, chain.seal(&draft), &draft, &mut batch)?;
    batch.flush(conn, hub_id)?;
    Ok(chain.seq())
}

/// Puts sealed records that follow the table's last one into it, in one transaction.
pub(crate) fn join(conn: &Connection, records: &[Sealed]) -> Result<()> {
    if records.is_empty() {
        return Ok(());
    }
    conn.transaction(|conn| {
        let hub_id = super::hub_id(conn)?.ok_or_else(|| StoreError::Corrupt("the hub's id is missing".into()))?;
        let mut batch = Batch::default();
        for sealed in records {
            let draft: Draft = serde_json::from_str(&sealed.body).map_err(|_| damaged(sealed.seq))?;
            put(conn, hub_id, sealed.clone(), &draft, &mut batch)?;
        }
        batch.flush(conn, hub_id)
    })
}

/// Of whose chain a statement speaks. An embedded database has one.
fn of_hub(conn: &Connection, hub_id: HubId) -> String {
    match conn {
        Connection::Sqlite(_) => "true".into(),
        Connection::Postgres(_) => format!("hub_id = '{hub_id}'"),
    }
}

/// Keeps a signed checkpoint of the chain's end.
pub(super) fn sign(conn: &Connection, chain: &Chain, signer: &SigningKey, at: Timestamp) -> Result<()> {
    let checkpoint = Checkpoint::sign(signer, chain.hub_id(), chain.seq(), *chain.head(), at);
    let values = params![
        checkpoint.seq as i64,
        checkpoint.hash,
        at.millis(),
        checkpoint.public_key,
        checkpoint.signature,
        checkpoint.hub_id.to_string()
    ];
    match conn {
        Connection::Sqlite(_) => conn
            .prepare_cached(
                "INSERT INTO checkpoints (seq, hash, at, public_key, signature) VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT (seq) DO UPDATE SET hash = excluded.hash, at = excluded.at,
                    public_key = excluded.public_key, signature = excluded.signature",
            )?
            .execute(&values[..5])?,
        Connection::Postgres(_) => conn
            .prepare_cached(
                "INSERT INTO checkpoints (seq, hash, at, public_key, signature, hub_id) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                 ON CONFLICT (hub_id, seq) DO UPDATE SET hash = excluded.hash, at = excluded.at,
                    public_key = excluded.public_key, signature = excluded.signature",
            )?
            .execute(values)?,
    };
    Ok(())
}

/// The chain's end as it was committed, and the last record that is signed.
pub(crate) fn end(conn: &Connection, hub_id: HubId) -> Result<(Chain, u64)> {
    let ((seq, head), signed) = signed_end(conn, hub_id)?;
    if signed > seq {
        // Going on would bury the evidence under new records.
        return Err(StoreError::Corrupt(format!(
            "the journal ends at record {seq}, but record {signed} was signed; run `convoke audit verify`"
        )));
    }
    Ok((Chain::resume(hub_id, seq, head), signed))
}

/// The last record, and the last one that a checkpoint covers.
fn signed_end(conn: &Connection, hub_id: HubId) -> Result<((u64, Hash), u64)> {
    let sql = format!("SELECT coalesce(max(seq), 0) FROM checkpoints WHERE {}", of_hub(conn, hub_id));
    let signed: i64 = conn.query_row(&sql, [], |row| row.get(0))?;
    Ok((last(conn, hub_id)?, signed as u64))
}

/// The last record's place and hash.
pub(crate) fn last(conn: &Connection, hub_id: HubId) -> Result<(u64, Hash)> {
    let sql = format!("SELECT seq, hash FROM journal WHERE {} ORDER BY seq DESC LIMIT 1", of_hub(conn, hub_id));
    let last = conn.query_row(&sql, [], |row| Ok((row.get::<i64>(0)? as u64, blob(row, 1)?))).optional()?;
    Ok(last.unwrap_or((0, GENESIS)))
}

/// Records in order, by the index of the filter that leaves the fewest.
pub(super) fn read(conn: &Connection, hub_id: HubId, filter: &JournalFilter) -> Result<Vec<JournalRow>> {
    let is_rare_kind = filter.kind.as_deref().is_some_and(|kind| kind != Kind::Call.name());
    let index = match filter {
        JournalFilter { call_id: Some(_), .. } => "INDEXED BY journal_call",
        JournalFilter { agent: Some(_), .. } => "INDEXED BY journal_target",
        JournalFilter { tool: Some(_), .. } => "INDEXED BY journal_tool",
        _ if is_rare_kind => "INDEXED BY journal_kind",
        _ => "NOT INDEXED",
    };
    let after = i64::try_from(filter.after.unwrap_or(0)).unwrap_or(i64::MAX);
    let mut values = vec![Value::Int(after), Value::Int(filter.limit.min(MAX_PAGE).into())];
    let mut sql = format!("SELECT seq, hash, body FROM journal {index} WHERE {} AND seq > ?1", of_hub(conn, hub_id));
    let mut only = |column: &str, value: Value<'static>| {
        values.push(value);
        let place = values.len();
        sql += &format!(" AND {column} = ?{place}");
        if conn.postgres().is_some() && matches!(column, "target" | "tool") {
            // What the index there has of it: what is longer than a page has room for could not be kept.
            sql += &format!(" AND left({column}, 64) = left(?{place}, 64)");
        }
    };
    let text = |text: &String| Value::Text(text.clone().into());
    filter.call_id.iter().for_each(|id| only("call_id", Value::Blob(id.uuid().as_bytes().to_vec().into())));
    filter.agent.iter().for_each(|agent| only("target", text(agent)));
    filter.tool.iter().for_each(|tool| only("tool", text(tool)));
    filter.kind.iter().for_each(|kind| only("kind", text(kind)));
    let mut order = "ASC";
    if let Some(before) = filter.before {
        order = "DESC";
        values.push(Value::Int(i64::try_from(before).unwrap_or(i64::MAX)));
        sql += &format!(" AND seq < ?{}", values.len());
    }
    if is_rare_kind {
        // An index of some rows is used only where the statement itself says that it needs no others.
        sql += " AND kind <> 'call'";
    }
    sql += &format!(" ORDER BY seq {order} LIMIT ?2");
    let rows = conn.prepare_cached(&sql)?.query_map(&values[..], |row| {
        let seq = row.get::<i64>(0)? as u64;
        let body = row.text(2).map_err(|_| damaged(seq))?;
        let json = RawValue::from_string(shown(&body, &blob(row, 1)?)).map_err(|_| damaged(seq))?;
        Ok(JournalRow { seq, json })
    })?;
    super::telemetry::page(rows, |row| row.json.get().len())
}

fn damaged(seq: u64) -> StoreError {
    StoreError::Corrupt(format!("journal record {seq} is no record any more; run `convoke audit verify`"))
}

/// The drafts of this hub's calls that were announced and never ended.
pub(super) fn open_intents(conn: &Connection, hub_id: HubId) -> Result<Vec<Draft>> {
    let same_chain = if conn.postgres().is_some() { " AND j.hub_id = o.hub_id" } else { "" };
    let mut statement = conn.prepare_cached(&format!(
        "SELECT j.seq, j.body FROM open_intents o JOIN journal j ON j.seq = o.seq{same_chain}
         WHERE o.hub_id = ?1 ORDER BY j.seq"
    ))?;
    let rows = statement.query_map([hub_id.to_string()], |row| {
        let draft = row.text(1).ok().and_then(|body| serde_json::from_str(&body).ok());
        draft.ok_or_else(|| damaged(row.get::<i64>(0).unwrap_or(0) as u64))
    })?;
    rows.collect()
}

/// Checkpoints in order, after that of record `after`.
pub(crate) fn checkpoints(conn: &Connection, hub_id: HubId, after: u64, limit: u32) -> Result<Vec<Checkpoint>> {
    let mut statement = conn.prepare_cached(&format!(
        "SELECT seq, hash, at, public_key, signature FROM checkpoints WHERE {} AND seq > ?1 ORDER BY seq LIMIT ?2",
        of_hub(conn, hub_id)
    ))?;
    let rows =
        statement.query_map(params![i64::try_from(after).unwrap_or(i64::MAX), limit.min(MAX_PAGE)], |row| {
            Ok(Checkpoint {
                hub_id,
                seq: row.get::<i64>(0)? as u64,
                hash: blob(row, 1)?,
                at: time(row, 2)?,
                public_key: blob(row, 3)?,
                signature: blob(row, 4)?,
            })
        })?;
    rows.collect()
}

/// The last checkpoint.
pub(crate) fn last_checkpoint(conn: &Connection, hub_id: HubId) -> Result<Option<Checkpoint>> {
    let (_, signed) = signed_end(conn, hub_id)?;
    Ok(checkpoints(conn, hub_id, signed.saturating_sub(1), 1)?.pop())
}

/// Walks all rows in order until `each` says stop.
pub(crate) fn walk(
    conn: &Connection,
    hub_id: HubId,
    each: &mut dyn FnMut(engine::Row<'_>) -> Result<bool>,
) -> Result<()> {
    const PAGE: i64 = 500;
    let mut statement = conn.prepare_cached(&format!(
        "SELECT seq, hash, body, kind, target, tool, call_id FROM journal NOT INDEXED
         WHERE {} AND seq > ?1 ORDER BY seq LIMIT ?2",
        of_hub(conn, hub_id)
    ))?;
    if let Connection::Sqlite(_) = conn {
        // Row by row: where the file is damaged, everything before the damage is looked at.
        return statement.each(params![i64::MIN, i64::MAX], |row| raw(row, each));
    }
    // `each` may read something else meanwhile, which a server's connection does not do.
    let (mut after, mut goes_on) = (i64::MIN, true);
    while goes_on {
        let read =
            |row: &Row<'_>| Ok((row.get::<i64>(0)?, [1, 2, 3, 4, 5, 6].map(|n| row.bytes(n).map(Cow::into_owned))));
        let page: Vec<_> = statement.query_map(params![after, PAGE], read)?.collect::<Result<_>>()?;
        goes_on = page.len() as i64 == PAGE;
        for (seq, [hash, body, kind, target, tool, call_id]) in &page {
            let raw = engine::Row {
                seq: *seq,
                hash: hash.as_deref().unwrap_or_default(),
                body: body.as_deref().unwrap_or_default(),
                kind: kind.as_deref(),
                target: target.as_deref(),
                tool: tool.as_deref(),
                call_id: call_id.as_deref(),
            };
            if !each(raw)? {
                return Ok(());
            }
            after = *seq;
        }
    }
    Ok(())
}

fn raw(row: &Row<'_>, each: &mut dyn FnMut(engine::Row<'_>) -> Result<bool>) -> Result<bool> {
    let [hash, body, kind, target, tool, call_id] = [1, 2, 3, 4, 5, 6].map(|column| row.bytes(column));
    each(engine::Row {
        seq: row.get(0)?,
        hash: hash.as_deref().unwrap_or_default(),
        body: body.as_deref().unwrap_or_default(),
        kind: kind.as_deref(),
        target: target.as_deref(),
        tool: tool.as_deref(),
        call_id: call_id.as_deref(),
    })
}
