//! Where people's notices go.

use std::sync::Arc;

use async_trait::async_trait;
use convoke_core::id::{ChannelId, TokenId};
use convoke_core::journal::Draft;
use convoke_core::time::Timestamp;
use uuid::Uuid;

use super::row::{time, uuid};
use super::writer::{SMALL, Tx};
use super::{Connection, SqlStore, params};
use crate::seal::DataKey;
use crate::{ChannelRow, Notices, Result};

/// What a channel's target is sealed for.
fn purpose(id: ChannelId) -> String {
    format!("notices:{id}")
}

#[async_trait]
impl Notices for SqlStore {
    async fn channels(&self) -> Result<Vec<ChannelRow>> {
        let key = Arc::clone(&self.key);
        self.readers.read(move |conn| channels(conn, &key)).await
    }

    async fn put_channel(&self, channel: ChannelRow, record: Draft) -> Result<()> {
        let target = self.key.seal(&purpose(channel.id), channel.target.reveal())?;
        self.queue.run(SMALL + target.len(), move |tx| put(tx, &channel, &target, &record)).await
    }

    async fn remove_channel(&self, id: ChannelId, record: Draft) -> Result<bool> {
        self.queue.withdraw(SMALL, move |tx| remove(tx, id, &record)).await
    }

    async fn claim_notice(&self, channel: ChannelId, handle: &str, now: Timestamp) -> Result<bool> {
        let handle = handle.to_owned();
        self.queue.run(SMALL, move |tx| claim(tx.conn, channel, &handle, now)).await
    }
}

pub(super) fn channels(conn: &Connection, key: &DataKey) -> Result<Vec<ChannelRow>> {
    let mut statement = conn.prepare_cached(
        "SELECT id, \"user\", kind, name, target, created_at FROM notice_channels ORDER BY created_at, id",
    )?;
    let rows = statement.query_map([], |row| {
        let id = ChannelId::new(uuid(row, 0)?);
        let sealed: Vec<u8> = row.get(4)?;
        Ok(ChannelRow {
            id,
            user: TokenId::new(uuid(row, 1)?),
            kind: row.get(2)?,
            name: row.get(3)?,
            target: key.open(&purpose(id), &sealed)?,
            created_at: time(row, 5)?,
        })
    })?;
    rows.collect()
}

fn put(tx: &mut Tx<'_>, channel: &ChannelRow, target: &[u8], record: &Draft) -> Result<()> {
    tx.conn.prepare_cached("INSERT INTO notice_channels VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?.execute(params![
        channel.id.uuid().into_bytes(),
        channel.user.uuid().into_bytes(),
        channel.kind,
        channel.name,
        target,
        channel.created_at.millis(),
    ])?;
    tx.append(record).map(drop)
}

fn remove(tx: &mut Tx<'_>, id: ChannelId, record: &Draft) -> Result<bool> {
    let removed = tx
        .conn
        .prepare_cached("DELETE FROM notice_channels WHERE id = ?1")?
        .execute(params![id.uuid().into_bytes()])?;
    if removed > 0 {
        tx.append(record)?;
    }
    Ok(removed > 0)
}

/// Notes it, unless the channel is gone. What a month has passed over is forgotten.
fn claim(conn: &Connection, channel: ChannelId, handle: &str, now: Timestamp) -> Result<bool> {
    const KEPT_MS: i64 = 30 * 86_400_000;
    conn.prepare_cached("DELETE FROM notices_sent WHERE at < ?1")?.execute([now.millis() - KEPT_MS])?;
    let claimed = conn
        .prepare_cached(
            "INSERT INTO notices_sent SELECT id, ?2, ?3 FROM notice_channels WHERE id = ?1 ON CONFLICT DO NOTHING",
        )?
        .execute(params![channel.uuid().into_bytes(), handle, now.millis()])?;
    Ok(claimed > 0)
}

/// Seals the targets anew. Answers how many there were.
pub(super) fn reseal(conn: &Connection, old: &DataKey, new: &DataKey) -> Result<usize> {
    let values: Vec<([u8; 16], Vec<u8>)> = conn
        .prepare_cached("SELECT id, target FROM notice_channels")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_>>()?;
    for (id, sealed) in &values {
        let purpose = purpose(ChannelId::new(Uuid::from_bytes(*id)));
        let value = new.seal(&purpose, old.open(&purpose, sealed)?.reveal())?;
        conn.execute("UPDATE notice_channels SET target = ?2 WHERE id = ?1", params![id, value])?;
    }
    Ok(values.len())
}
