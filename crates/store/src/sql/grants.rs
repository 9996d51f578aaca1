//! Time-boxed grants.

use async_trait::async_trait;
use convoke_core::id::{GrantId, TokenId};
use convoke_core::journal::Draft;
use convoke_core::time::Timestamp;

use super::row::{peer, time, uuid};
use super::writer::{SMALL, Tx};
use super::{Connection, SqlStore, params};
use crate::{GrantRow, Grants, Result};

#[async_trait]
impl Grants for SqlStore {
    async fn grants(&self, now: Timestamp) -> Result<Vec<GrantRow>> {
        self.queue.run(SMALL, move |tx| grants(tx.conn, now)).await
    }

    async fn put_grant(&self, grant: GrantRow, record: Draft) -> Result<()> {
        self.queue.run(SMALL, move |tx| put(tx, &grant, &record)).await
    }

    async fn end_grant(&self, id: GrantId, record: Draft) -> Result<bool> {
        self.queue.withdraw(SMALL, move |tx| end(tx, id, &record)).await
    }
}

fn grants(conn: &Connection, now: Timestamp) -> Result<Vec<GrantRow>> {
    conn.prepare_cached("DELETE FROM time_boxed_grants WHERE expires_at <= ?1")?.execute([now.millis()])?;
    let mut statement = conn.prepare_cached(
        "SELECT id, assistant, approver, tool, agent, created_at, expires_at FROM time_boxed_grants
         ORDER BY created_at, id",
    )?;
    let rows = statement.query_map([], |row| {
        Ok(GrantRow {
            id: GrantId::new(uuid(row, 0)?),
            assistant: TokenId::new(uuid(row, 1)?),
            approver: TokenId::new(uuid(row, 2)?),
            tool: row.get(3)?,
            agent: peer(row, 4)?,
            created_at: time(row, 5)?,
            expires_at: time(row, 6)?,
        })
    })?;
    rows.collect()
}

fn put(tx: &mut Tx<'_>, grant: &GrantRow, record: &Draft) -> Result<()> {
    tx.conn.prepare_cached("INSERT INTO time_boxed_grants VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?.execute(params![
        grant.id.uuid().into_bytes(),
        grant.assistant.uuid().into_bytes(),
        grant.approver.uuid().into_bytes(),
        grant.tool,
        grant.agent.as_str(),
        grant.created_at.millis(),
        grant.expires_at.millis(),
    ])?;
    tx.append(record).map(drop)
}

fn end(tx: &mut Tx<'_>, id: GrantId, record: &Draft) -> Result<bool> {
    let ended = tx
        .conn
        .prepare_cached("DELETE FROM time_boxed_grants WHERE id = ?1")?
        .execute(params![id.uuid().into_bytes()])?;
    if ended > 0 {
        tx.append(record)?;
    }
    Ok(ended > 0)
}
