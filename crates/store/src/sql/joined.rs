//! Which peers are one machine.

use convoke_core::id::PeerId;
use convoke_core::journal::Draft;

use super::row::{named, peer, time};
use super::writer::Tx;
use super::{Connection, params};
use crate::{JoinRow, Joining, Result};

pub(super) fn all(conn: &Connection) -> Result<Vec<JoinRow>> {
    let mut statement = conn.prepare_cached("SELECT tunnel, machine, how, at FROM joined ORDER BY tunnel")?;
    let rows = statement.query_map([], |row| {
        Ok(JoinRow {
            tunnel: peer(row, 0)?,
            machine: peer(row, 1)?,
            how: named(row, 2, Joining::parse)?,
            at: time(row, 3)?,
        })
    })?;
    rows.collect()
}

pub(super) fn put(tx: &mut Tx<'_>, join: &JoinRow, record: &Draft) -> Result<()> {
    tx.conn
        .prepare_cached(
            "INSERT INTO joined (tunnel, machine, how, at) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (tunnel) DO UPDATE SET machine = excluded.machine, how = excluded.how, at = excluded.at",
        )?
        .execute(params![join.tunnel.as_str(), join.machine.as_str(), join.how.name(), join.at.millis()])?;
    tx.append(record).map(drop)
}

/// Whoever is enrolled anew, or gone, is nobody's other half any more.
pub(super) fn forget(tx: &Tx<'_>, agent: &PeerId) -> Result<()> {
    tx.conn.prepare_cached("DELETE FROM joined WHERE tunnel = ?1 OR machine = ?1")?.execute([agent.as_str()])?;
    Ok(())
}
