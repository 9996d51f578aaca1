//! What may be lost with the last moment (snapshots, logs, last-seen times), and how long it is kept.

use async_trait::async_trait;
use convoke_core::id::PeerId;
use convoke_core::json;
use convoke_core::time::Timestamp;

use super::row::{peer, time};
use super::writer::{Op, Tx};
use super::{Connection, OptionalExtension as _, Param as _, Row, SqlStore, Value, params};
use crate::{
    Before, LogFilter, LogRow, Lossy, Observer, PAGE_BYTES, Result, SampleFilter, SampleRow, SnapshotRow, Telemetry,
};

#[async_trait]
impl Telemetry for SqlStore {
    fn on_committed(&self, observer: Observer) {
        self.queue.numbers().observed_by(observer);
    }

    async fn latest_snapshot(&self, agent: &PeerId) -> Result<Option<SnapshotRow>> {
        let agent = agent.clone();
        self.readers.read(move |conn| Ok(snapshots(conn, &agent, None, 1)?.pop())).await
    }

    async fn snapshots(&self, agent: &PeerId, before: Option<Before>, limit: u32) -> Result<Vec<SnapshotRow>> {
        let agent = agent.clone();
        self.readers.read(move |conn| snapshots(conn, &agent, before, limit)).await
    }

    async fn samples(&self, filter: SampleFilter) -> Result<(Vec<SampleRow>, bool)> {
        self.readers.read(move |conn| samples(conn, &filter)).await
    }

    async fn logs(&self, filter: LogFilter) -> Result<Vec<LogRow>> {
        self.readers.read(move |conn| logs(conn, &filter)).await
    }

    async fn enqueue(&self, item: Lossy) -> Result<()> {
        let weight = weight(&item);
        self.queue.send(Op::Lossy(Box::new(item)), weight).await
    }
}

/// Most rows one read answers.
const MAX_PAGE: u32 = 10_000;
/// Levels from the worst on.
const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];

/// About how much memory an item holds.
pub(super) fn weight(item: &Lossy) -> usize {
    match item {
        Lossy::Snapshot(snapshot) => 256 + snapshot.body.len() + snapshot.health.len(),
        Lossy::Health(row) => 256 + row.sections.len() + row.since.len(),
        Lossy::Logs(lines) => {
            lines.iter().map(|l| 256 + l.message.len() + l.fields.as_ref().map_or(0, String::len)).sum()
        }
        Lossy::Seen { hello, .. } => 256 + hello.as_ref().map_or(0, |(meta, _)| meta.get().len()),
        Lossy::ClientSeen { identifier, .. } => 64 + identifier.len(),
        Lossy::TokenUsed(..) => 64,
        Lossy::Record(draft) => super::journal::weight(draft),
    }
}

/// Keeps an item. What is about an agent that is not (or no longer) there is left out. Log lines get their ids.
pub(super) fn take(tx: &mut Tx<'_>, item: &mut Lossy) -> Result<()> {
    match item {
        Lossy::Snapshot(snapshot) => keep_snapshot(tx.conn, snapshot),
        Lossy::Health(row) => super::health::keep(tx.conn, row),
        Lossy::Logs(lines) => keep_logs(tx.conn, lines),
        Lossy::Seen { agent, at, hello } => {
            if let Some((meta, version)) = hello {
                tx.conn
                    .prepare_cached("UPDATE agents SET meta = ?2, protocol_version = ?3 WHERE id = ?1")?
                    .execute(params![agent.as_str(), meta.get(), &*version])?;
            }
            tx.conn
                .prepare_cached(
                    "INSERT INTO agent_marks (num, last_seen, hub_id) SELECT num, ?2, ?3 FROM agents WHERE id = ?1
                     ON CONFLICT (num) DO UPDATE SET last_seen = excluded.last_seen, hub_id = excluded.hub_id",
                )?
                .execute(params![agent.as_str(), at.millis(), tx.hub_id().to_string()])?;
            Ok(())
        }
        Lossy::ClientSeen { identifier, liveness, at, authenticated } => {
            super::clients::seen(tx, identifier, *liveness, *at, *authenticated)
        }
        Lossy::TokenUsed(id, at) => {
            tx.conn
                .prepare_cached("UPDATE tokens SET last_used = ?2 WHERE id = ?1 AND coalesce(last_used, 0) < ?2")?
                .execute(params![id.uuid().into_bytes(), at.millis()])?;
            Ok(())
        }
        Lossy::Record(draft) => tx.append(draft).map(drop),
    }
}

pub(crate) const MARKS: &str =
    "SELECT a.num, m.latest_snapshot FROM agents a LEFT JOIN agent_marks m ON m.num = a.num WHERE a.id = ?1";

/// An agent's number and its latest snapshot.
pub(crate) fn marks(conn: &Connection, agent: &PeerId) -> Result<Option<(i64, Option<i64>)>> {
    let found =
        conn.prepare_cached(MARKS)?.query_row([agent.as_str()], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    Ok(found)
}

fn keep_snapshot(conn: &Connection, snapshot: &SnapshotRow) -> Result<()> {
    let Some((num, previous)) = marks(conn, &snapshot.agent)? else { return Ok(()) };
    let id: i64 = conn
        .prepare_cached(
            "INSERT INTO snapshots (agent, previous, received_at, collected_at, health, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             RETURNING id",
        )?
        .query_row(
            params![
                num,
                previous,
                snapshot.received_at.millis(),
                snapshot.collected_at,
                snapshot.health,
                snapshot.body
            ],
            |row| row.get(0),
        )?;
    conn.prepare_cached(
        "INSERT INTO agent_marks (num, latest_snapshot) VALUES (?1, ?2)
         ON CONFLICT (num) DO UPDATE SET latest_snapshot = excluded.latest_snapshot",
    )?
    .execute([num, id])?;
    Ok(())
}

fn keep_logs(conn: &Connection, lines: &mut [LogRow]) -> Result<()> {
    let mut statement = conn.prepare_cached(
        "INSERT INTO logs (received_at, agent, source, level, at, target, message, fields)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) RETURNING id",
    )?;
    for line in lines {
        let values = params![
            line.received_at.millis(),
            line.agent.as_ref().map(PeerId::as_str),
            line.source,
            line.level,
            line.at,
            line.target,
            line.message,
            line.fields,
        ];
        line.id = statement.query_row(values, |row| row.get(0))?;
    }
    Ok(())
}

/// Snapshots of an agent, newest first, from `before` on.
pub(super) fn snapshots(
    conn: &Connection,
    agent: &PeerId,
    before: Option<Before>,
    limit: u32,
) -> Result<Vec<SnapshotRow>> {
    let Some((num, mut next)) = marks(conn, agent)? else { return Ok(Vec::new()) };
    let mut place =
        conn.prepare_cached("SELECT previous, received_at FROM snapshots WHERE id = ?1 AND agent = ?2")?;
    let mut whole =
        conn.prepare_cached("SELECT received_at, collected_at, health, body FROM snapshots WHERE id = ?1")?;
    let mut snapshots = Vec::<SnapshotRow>::new();
    let mut bytes = 0;
    while let Some(id) = next
        && bytes < PAGE_BYTES
        && snapshots.len() < limit.min(MAX_PAGE) as usize
    {
        // Where the list goes on is read first: what is only passed by is not read whole.
        let at: Option<(Option<i64>, i64)> =
            place.query_row([id, num], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        // The rest of the list was pruned.
        let Some((previous, received_at)) = at else { break };
        next = previous;
        let is_before = match before {
            None => true,
            Some(Before::Time(before)) => received_at < before.millis(),
            Some(Before::Snapshot(last)) => id < last,
        };
        if is_before {
            let snapshot = whole.query_row([id], |row| {
                Ok(SnapshotRow {
                    id,
                    agent: agent.clone(),
                    received_at: time(row, 0)?,
                    collected_at: row.get(1)?,
                    health: row.get(2)?,
                    body: row.get(3)?,
                })
            })?;
            bytes += snapshot.bytes();
            snapshots.push(snapshot);
        }
    }
    Ok(snapshots)
}

/// Most snapshots of an agent that are passed by on the way to the beginning of a time.
const MAX_PASSED: usize = 200_000;

/// The last snapshot of each step, oldest first; and whether the way back was too long.
fn samples(conn: &Connection, filter: &SampleFilter) -> Result<(Vec<SampleRow>, bool)> {
    let Some((num, mut next)) = marks(conn, &filter.agent)? else { return Ok((Vec::new(), false)) };
    let mut place =
        conn.prepare_cached("SELECT previous, received_at FROM snapshots WHERE id = ?1 AND agent = ?2")?;
    let mut whole = conn.prepare_cached("SELECT health, body FROM snapshots WHERE id = ?1")?;
    let member = |object: &str| json::member(object, &filter.section).map(|part| part.get().to_owned());
    let (mut samples, mut last_step, mut passed) = (Vec::new(), None, 0);
    while let Some(id) = next {
        passed += 1;
        let at: Option<(Option<i64>, i64)> =
            place.query_row([id, num], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        let Some((previous, received_at)) = at.filter(|(_, at)| *at >= filter.from.millis()) else { break };
        if passed > MAX_PASSED {
            samples.reverse();
            return Ok((samples, true));
        }
        next = previous;
        let step = (received_at - filter.from.millis()).div_euclid(filter.step_ms.max(1));
        if last_step.replace(step) == Some(step) {
            continue;
        }
        let (health, body): (String, String) = whole.query_row([id], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let at = Timestamp::from_millis(received_at);
        samples.push(SampleRow { at, health: member(&health), body: member(&body) });
    }
    samples.reverse();
    Ok((samples, false))
}

/// Log lines in order of arrival.
pub(super) fn logs(conn: &Connection, filter: &LogFilter) -> Result<Vec<LogRow>> {
    let mut values = vec![Value::Int(filter.after.unwrap_or(0)), Value::Int(filter.limit.min(MAX_PAGE).into())];
    let index = if filter.agent.is_some() { "INDEXED BY logs_agent" } else { "NOT INDEXED" };
    // What a removed agent left is not read, though it may not be swept away yet: another may have its name.
    let mut which =
        "id > ?1 AND NOT EXISTS (SELECT 1 FROM sweeps s WHERE s.agent = logs.agent AND logs.id <= s.last_log)"
            .to_owned();
    if let Some(agent) = &filter.agent {
        values.push(agent.as_str().value());
        which =
            "agent = ?3 AND id > ?1 AND id > (SELECT coalesce(max(last_log), 0) FROM sweeps WHERE agent = ?3)".into();
    }
    if let Some(level) = &filter.level {
        // "At or above": everything up to it in the list. A level that is not in the list stands for itself.
        let rank = LEVELS.iter().position(|known| known == level);
        let levels = rank.map_or_else(|| vec![level.as_str()], |rank| LEVELS[..=rank].to_vec());
        let places: Vec<_> = (1..=levels.len()).map(|n| format!("?{}", values.len() + n)).collect();
        which += &format!(" AND level IN ({})", places.join(", "));
        values.extend(levels.into_iter().map(|level| Value::Text(level.into())));
    }
    let mut order = "ASC";
    if let Some(before) = filter.before {
        order = "DESC";
        values.push(Value::Int(before));
        which += &format!(" AND id < ?{}", values.len());
    }
    if let Some(text) = &filter.text {
        let text = text.to_ascii_lowercase().replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
        values.push(Value::Text(format!("%{text}%").into()));
        which += &format!(" AND lower(message) LIKE ?{} ESCAPE '\\'", values.len());
    }
    let mut statement = conn.prepare_cached(&format!(
        "SELECT id, at, received_at, agent, source, level, target, message, fields FROM logs {index}
         WHERE {which} ORDER BY id {order} LIMIT ?2"
    ))?;
    let rows = statement.query_map(&values[..], log_row)?;
    page(rows, LogRow::bytes)
}

/// Rows until they have as many bytes as a page.
pub(super) fn page<T>(rows: impl Iterator<Item = Result<T>>, size: impl Fn(&T) -> usize) -> Result<Vec<T>> {
    let (mut page, mut bytes) = (Vec::new(), 0);
    for row in rows {
        let row = row?;
        bytes += size(&row);
        page.push(row);
        if bytes >= PAGE_BYTES {
            break;
        }
    }
    Ok(page)
}

fn log_row(row: &Row<'_>) -> Result<LogRow> {
    let agent: Option<String> = row.get(3)?;
    Ok(LogRow {
        id: row.get(0)?,
        at: row.get(1)?,
        received_at: time(row, 2)?,
        agent: agent.map(|_| peer(row, 3)).transpose()?,
        source: row.get(4)?,
        level: row.get(5)?,
        target: row.get(6)?,
        message: row.get(7)?,
        fields: row.get(8)?,
    })
}

/// One piece of pruning snapshots: looks at rows after `from` in order of arrival. Answers how many went and where
/// to go on, or no place when the rest is young enough.
pub(super) fn prune_snapshots(tx: &mut Tx<'_>, before: Timestamp, from: i64) -> Result<(u64, Option<i64>)> {
    const PIECE: usize = 200;
    let mut statement = tx.conn.prepare_cached(
        "SELECT s.id, s.received_at, m.latest_snapshot IS NOT DISTINCT FROM s.id FROM snapshots s LEFT JOIN agent_marks m ON m.num = s.agent
         WHERE s.id > ?1 ORDER BY s.id LIMIT ?2",
    )?;
    let rows: Vec<(i64, i64, bool)> = statement
        .query_map(params![from, PIECE as i64], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
        .collect::<Result<_>>()?;
    let mut removed = 0;
    for (id, received_at, latest) in &rows {
        match age(*received_at, before) {
            Age::Young => return Ok((removed, None)),
            Age::NotYet => continue,
            Age::Old => {}
        }
        if !latest {
            removed += tx.conn.prepare_cached("DELETE FROM snapshots WHERE id = ?1")?.execute([id])? as u64;
        }
    }
    let more = if rows.len() == PIECE { rows.last().map(|(id, ..)| *id) } else { None };
    Ok((removed, more))
}

/// One piece of pruning logs, in the same way.
pub(super) fn prune_logs(tx: &mut Tx<'_>, before: Timestamp, from: i64) -> Result<(u64, Option<i64>)> {
    const PIECE: usize = 500;
    let mut statement =
        tx.conn.prepare_cached("SELECT id, received_at FROM logs NOT INDEXED WHERE id > ?1 ORDER BY id LIMIT ?2")?;
    let rows: Vec<(i64, i64)> = statement
        .query_map(params![from, PIECE as i64], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_>>()?;
    let mut removed = 0;
    for (id, received_at) in &rows {
        match age(*received_at, before) {
            Age::Young => return Ok((removed, None)),
            Age::NotYet => {}
            Age::Old => removed += tx.conn.prepare_cached("DELETE FROM logs WHERE id = ?1")?.execute([id])? as u64,
        }
    }
    let more = if rows.len() == PIECE { rows.last().map(|(id, _)| *id) } else { None };
    Ok((removed, more))
}

/// What agents send most of.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bulk {
    Snapshots,
    Logs,
}

impl Bulk {
    const fn table(self) -> &'static str {
        match self {
            Self::Snapshots => "snapshots",
            Self::Logs => "logs",
        }
    }

    /// The size of a row, which the engine knows without reading its texts.
    const fn size(self) -> &'static str {
        match self {
            Self::Snapshots => "octet_length(body) + octet_length(health)",
            Self::Logs => "octet_length(message) + octet_length(target) + coalesce(octet_length(fields), 0)",
        }
    }
}

/// The rows that are older than the newest `most` bytes of their agent, oldest first; not its newest one.
pub(super) fn beyond(conn: &Connection, which: Bulk, most: u64) -> Result<Vec<i64>> {
    /// Most rows of one round.
    const ROUND: i64 = 100_000;
    let (table, size) = (which.table(), which.size());
    let mut statement = conn.prepare_cached(&format!(
        "WITH large AS (SELECT agent FROM {table} GROUP BY agent HAVING sum({size}) > ?1)
         SELECT id FROM (
             SELECT id, sum({size}) OVER newest AS total, row_number() OVER newest AS place
             FROM {table} WHERE agent IN (SELECT agent FROM large)
             WINDOW newest AS (PARTITION BY agent ORDER BY id DESC)
         ) counted WHERE total > ?1 AND place > 1 ORDER BY id LIMIT ?2"
    ))?;
    let rows = statement.query_map(params![i64::try_from(most).unwrap_or(i64::MAX), ROUND], |row| row.get(0))?;
    rows.collect()
}

/// Removes these rows.
pub(super) fn remove(tx: &mut Tx<'_>, which: Bulk, ids: &[i64]) -> Result<u64> {
    let mut statement = tx.conn.prepare_cached(&format!("DELETE FROM {} WHERE id = ?1", which.table()))?;
    let mut removed = 0;
    for id in ids {
        removed += statement.execute([id])? as u64;
    }
    Ok(removed)
}

enum Age {
    Old,
    /// Rows are in order of arrival, so that what comes after it is young too.
    Young,
    /// From a time that has not come: the clock ran ahead once, and what comes after it may be old.
    NotYet,
}

fn age(received_at: i64, before: Timestamp) -> Age {
    if received_at < before.millis() {
        Age::Old
    } else if received_at > crate::store::now().millis() {
        Age::NotYet
    } else {
        Age::Young
    }
}
