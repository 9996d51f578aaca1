//! Rooms.

use std::sync::Arc;

use async_trait::async_trait;
use convoke_core::journal::Draft;

use super::row::time;
use super::writer::{SMALL, Tx};
use super::{Connection, SqlStore, params};
use crate::Result;
use crate::seal::DataKey;
use crate::{RoomRow, Rooms};

/// What a room's key is sealed for.
fn purpose(room: &str) -> String {
    format!("room:{room}")
}

#[async_trait]
impl Rooms for SqlStore {
    async fn rooms(&self) -> Result<Vec<RoomRow>> {
        let key = Arc::clone(&self.key);
        self.readers.read(move |conn| all(conn, &key)).await
    }

    async fn add_room(&self, room: RoomRow, record: Draft) -> Result<bool> {
        let sealed = self.key.seal(&purpose(&room.name), room.key.reveal())?;
        let weight = SMALL + room.body.len();
        self.queue.run(weight, move |tx| add(tx, &room, &sealed, &record)).await
    }

    async fn set_room(&self, name: &str, body: String, record: Option<Draft>) -> Result<bool> {
        let name = name.to_owned();
        self.queue.run(SMALL + body.len(), move |tx| set(tx, &name, &body, record.as_ref())).await
    }

    async fn withdraw_in_room(&self, name: &str, body: String, record: Option<Draft>) -> Result<bool> {
        let name = name.to_owned();
        self.queue.withdraw(SMALL + body.len(), move |tx| set(tx, &name, &body, record.as_ref())).await
    }

    async fn remove_room(&self, name: &str, record: Draft) -> Result<bool> {
        let name = name.to_owned();
        self.queue.withdraw(SMALL, move |tx| remove(tx, &name, &record)).await
    }
}

pub(super) fn all(conn: &Connection, key: &DataKey) -> Result<Vec<RoomRow>> {
    let mut statement = conn.prepare_cached("SELECT name, body, key, created_at FROM rooms ORDER BY name")?;
    let rows = statement.query_map([], |row| {
        let name: String = row.get(0)?;
        Ok((name, row.get::<String>(1)?, row.get::<Vec<u8>>(2)?, time(row, 3)?))
    })?;
    rows.map(|row| {
        let (name, body, sealed, created_at) = row?;
        let key = key.open(&purpose(&name), &sealed)?;
        Ok(RoomRow { name, body, key, created_at })
    })
    .collect()
}

fn add(tx: &mut Tx<'_>, room: &RoomRow, sealed: &[u8], record: &Draft) -> Result<bool> {
    let added = tx
        .conn
        .prepare_cached(
            "INSERT INTO rooms (name, body, key, created_at) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING",
        )?
        .execute(params![room.name, room.body, sealed, room.created_at.millis()])?;
    if added > 0 {
        tx.append(record)?;
    }
    Ok(added > 0)
}

fn set(tx: &mut Tx<'_>, name: &str, body: &str, record: Option<&Draft>) -> Result<bool> {
    let changed =
        tx.conn.prepare_cached("UPDATE rooms SET body = ?2 WHERE name = ?1")?.execute(params![name, body])?;
    if let (true, Some(record)) = (changed > 0, record) {
        tx.append(record)?;
    }
    Ok(changed > 0)
}

fn remove(tx: &mut Tx<'_>, name: &str, record: &Draft) -> Result<bool> {
    let gone = tx.conn.prepare_cached("DELETE FROM rooms WHERE name = ?1")?.execute([name])?;
    if gone > 0 {
        tx.append(record)?;
    }
    Ok(gone > 0)
}

/// Seals the rooms' keys anew. Answers how many there were.
pub(super) fn reseal(conn: &Connection, old: &DataKey, new: &DataKey) -> Result<usize> {
    let values: Vec<(String, Vec<u8>)> = conn
        .prepare_cached("SELECT name, key FROM rooms")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_>>()?;
    for (room, sealed) in &values {
        let value = new.seal(&purpose(room), old.open(&purpose(room), sealed)?.reveal())?;
        conn.execute("UPDATE rooms SET key = ?2 WHERE name = ?1", params![room, value])?;
    }
    Ok(values.len())
}
