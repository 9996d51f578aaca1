//! What runbooks gave.

use async_trait::async_trait;
use convoke_core::health::Status;
use convoke_core::id::{RunId, TokenId};
use convoke_core::time::Timestamp;

use super::row::{named, peer, time, uuid};
use super::telemetry::marks;
use super::writer::{SMALL, Tx};
use super::{Connection, OptionalExtension as _, Row, SqlStore, Value, params};
use crate::{RUNS_OF_AGENT, RUNS_OF_ONE, Result, RunFilter, RunRow, Runs};

#[async_trait]
impl Runs for SqlStore {
    async fn put_run(&self, run: RunRow, result: String) -> Result<()> {
        self.queue.run(SMALL + result.len(), move |tx| put(tx.conn, &run, &result)).await
    }

    async fn runs(&self, filter: RunFilter) -> Result<Vec<RunRow>> {
        self.readers.read(move |conn| runs(conn, &filter)).await
    }

    async fn run(&self, id: RunId) -> Result<Option<(RunRow, String)>> {
        self.readers.read(move |conn| one(conn, id)).await
    }
}

/// Most rows one read answers.
const MAX_PAGE: u32 = 2_000;
const COLUMNS: &str = "r.id, a.id, r.runbook, r.caller, r.at, r.status, r.titles, r.summary";

fn put(conn: &Connection, run: &RunRow, result: &str) -> Result<()> {
    let titles = serde_json::to_string(&run.titles).unwrap_or_else(|_| "[]".into());
    let Some((num, _)) = marks(conn, &run.agent)? else { return Ok(()) };
    conn.prepare_cached("INSERT INTO runs VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")?.execute(params![
        run.id.uuid().into_bytes(),
        num,
        run.runbook,
        run.caller.uuid().into_bytes(),
        run.at.millis(),
        run.status.name(),
        titles,
        run.summary,
        result,
    ])?;
    conn.prepare_cached(
        "DELETE FROM runs WHERE id IN (
            SELECT id FROM runs WHERE agent = ?1 AND runbook = ?2 ORDER BY at DESC, id DESC LIMIT 1000 OFFSET ?3)",
    )?
    .execute(params![num, run.runbook, i64::from(RUNS_OF_ONE)])?;
    conn.prepare_cached(
        "DELETE FROM runs WHERE id IN (
            SELECT id FROM runs WHERE agent = ?1 ORDER BY at DESC, id DESC LIMIT 1000 OFFSET ?2)",
    )?
    .execute([num, i64::from(RUNS_OF_AGENT)])?;
    Ok(())
}

fn runs(conn: &Connection, filter: &RunFilter) -> Result<Vec<RunRow>> {
    let mut values = vec![Value::Int(filter.limit.min(MAX_PAGE).into())];
    let mut which = String::from("true");
    let mut also = |clause: &str, value: Value<'static>| {
        values.push(value);
        which += &clause.replace("??", &format!("?{}", values.len()));
    };
    if let Some(agent) = &filter.agent {
        also(" AND a.id = ??", Value::Text(agent.as_str().to_owned().into()));
    }
    if let Some(runbook) = &filter.runbook {
        also(" AND r.runbook = ??", Value::Text(runbook.clone().into()));
    }
    if let Some(since) = filter.since {
        also(" AND r.at >= ??", Value::Int(since.millis()));
    }
    if let Some((at, id)) = filter.before {
        also(" AND (r.at, r.id) < (??, ", Value::Int(at.millis()));
        also("??)", Value::Blob(id.uuid().into_bytes().to_vec().into()));
    }
    if filter.unwell {
        which += " AND r.status <> 'ok' AND NOT EXISTS (
            SELECT 1 FROM runs n WHERE n.agent = r.agent AND n.runbook = r.runbook AND (n.at, n.id) > (r.at, r.id))";
    }
    let mut statement = conn.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM runs r JOIN agents a ON a.num = r.agent WHERE {which} ORDER BY r.at DESC, r.id DESC LIMIT ?1"
    ))?;
    let rows = statement.query_map(&values[..], read)?;
    rows.collect()
}

fn one(conn: &Connection, id: RunId) -> Result<Option<(RunRow, String)>> {
    let mut statement = conn.prepare_cached(&format!(
        "SELECT {COLUMNS}, r.result FROM runs r JOIN agents a ON a.num = r.agent WHERE r.id = ?1"
    ))?;
    statement.query_row(params![id.uuid().into_bytes()], |row| Ok((read(row)?, row.get(8)?))).optional()
}

fn read(row: &Row<'_>) -> Result<RunRow> {
    let titles: String = row.get(6)?;
    Ok(RunRow {
        id: RunId::new(uuid(row, 0)?),
        agent: peer(row, 1)?,
        runbook: row.get(2)?,
        caller: TokenId::new(uuid(row, 3)?),
        at: time(row, 4)?,
        status: named(row, 5, Status::parse)?,
        titles: serde_json::from_str(&titles).unwrap_or_default(),
        summary: row.get(7)?,
    })
}

/// Removes a piece of what lies before the time for which history is kept. Whether there may be more.
pub(super) fn prune(tx: &mut Tx<'_>, before: Timestamp) -> Result<(u64, bool)> {
    const PIECE: i64 = 100;
    let removed = tx
        .conn
        .prepare_cached("DELETE FROM runs WHERE id IN (SELECT id FROM runs WHERE at < ?1 LIMIT ?2)")?
        .execute([before.millis(), PIECE])?;
    Ok((removed as u64, removed as i64 == PIECE))
}
