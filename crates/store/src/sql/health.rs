//! How the fleet's health changed.

use async_trait::async_trait;
use convoke_core::health::Overall;
use convoke_core::id::PeerId;
use convoke_core::time::Timestamp;

use super::row::{named, peer, time};
use super::writer::Tx;
use super::{Connection, SqlStore, Value, params};
use crate::{Health, HealthRow, Result};

#[async_trait]
impl Health for SqlStore {
    async fn health_changes(
        &self,
        agent: Option<&PeerId>,
        from: Timestamp,
        to: Timestamp,
        limit: u32,
    ) -> Result<Vec<HealthRow>> {
        let agent = agent.cloned();
        self.readers.read(move |conn| changes(conn, agent.as_ref(), from, to, limit)).await
    }
}

/// Keeps a change. What is about an agent that is not there is left out.
pub(super) fn keep(conn: &Connection, row: &HealthRow) -> Result<()> {
    conn.prepare_cached(
        "INSERT INTO health_changes (agent, at, overall, sections, since)
         SELECT num, ?2, ?3, ?4, ?5 FROM agents WHERE id = ?1",
    )?
    .execute(params![row.agent.as_str(), row.at.millis(), row.overall.name(), row.sections, row.since])?;
    Ok(())
}

fn changes(
    conn: &Connection,
    agent: Option<&PeerId>,
    from: Timestamp,
    to: Timestamp,
    limit: u32,
) -> Result<Vec<HealthRow>> {
    // By agent through the index: the one that held at the beginning, and what came after it.
    let mut values = vec![Value::Int(from.millis()), Value::Int(to.millis()), Value::Int(limit.into())];
    values.extend(agent.map(|agent| Value::Text(agent.as_str().into())));
    let whose = if agent.is_some() { "a.id = ?4" } else { "true" };
    let mut statement = conn.prepare_cached(&format!(
        "SELECT a.id, h.at, h.overall, h.sections, h.since FROM agents a JOIN health_changes h ON h.agent = a.num
         WHERE {whose} AND h.at <= ?2
            AND h.at >= coalesce((SELECT max(at) FROM health_changes WHERE agent = a.num AND at <= ?1), ?1)
         ORDER BY a.id, h.at, h.id LIMIT ?3"
    ))?;
    let rows = statement.query_map(&values[..], |row| {
        let overall = |text: &str| ALL.into_iter().find(|one| one.name() == text);
        Ok(HealthRow {
            agent: peer(row, 0)?,
            at: time(row, 1)?,
            overall: named(row, 2, overall)?,
            sections: row.get(3)?,
            since: row.get(4)?,
        })
    })?;
    rows.collect()
}

const ALL: [Overall; 4] = [Overall::Unknown, Overall::Ok, Overall::Warn, Overall::Crit];

/// Removes what lies before the time for which history is kept, but for what held then; a piece of it. Whether there may be
/// more.
pub(super) fn prune(tx: &mut Tx<'_>, before: Timestamp) -> Result<(u64, bool)> {
    const PIECE: i64 = 500;
    let removed = tx
        .conn
        .prepare_cached(
            "DELETE FROM health_changes WHERE id IN (
                SELECT h.id FROM health_changes h WHERE h.at < ?1
                    AND EXISTS (SELECT 1 FROM health_changes n WHERE n.agent = h.agent AND n.at > h.at AND n.at < ?1)
                LIMIT ?2)",
        )?
        .execute(params![before.millis(), PIECE])?;
    Ok((removed as u64, removed as i64 == PIECE))
}
