//! A data directory without a store open on it: what [`Engine`] asks for.

use std::path::Path;

use convoke_core::id::{CallId, HubId};
use convoke_core::journal::{Checkpoint, Draft};
use rusqlite::{Connection, OpenFlags, params};
use uuid::Uuid;

use super::old_tail::{self, OldTail};
use super::{accounts, calls, clients, damage, journal, notices, outbox, people, rooms, schema};
use crate::Result;
use crate::engine::{Engine, Exclusive, Row, View};
use crate::error::StoreError;
use crate::files::{DirLock, Paths};
use crate::seal::DataKey;

/// A directory that has a database.
#[derive(Debug)]
pub(crate) struct DataDir(Paths);

impl DataDir {
    pub(crate) fn existing(dir: &Path) -> Result<Self> {
        Paths::existing(dir).map(Self)
    }

    pub(super) const fn of(paths: Paths) -> Self {
        Self(paths)
    }

    /// A reader of the database. SQLite would read a damaged log up to the damage and take that for everything, so the log
    /// is looked at first.
    fn reader(&self) -> Result<Connection> {
        damage::refuse(&self.0.wal)?;
        old_tail::join_offline(&self.0)?;
        let conn = schema::open_readable(&self.0.db)?;
        schema::version(&conn)?;
        Ok(conn)
    }
}

impl Engine for DataDir {
    fn view(&self) -> Result<Box<dyn View>> {
        let conn = self.reader()?;
        conn.execute_batch("BEGIN")?;
        Ok(Box::new(conn))
    }

    fn dump(&self, to: &Path) -> Result<()> {
        let text = to.to_str().ok_or_else(|| StoreError::Conflict(format!("{} is not UTF-8", to.display())))?;
        // Without free pages, so that nothing deleted is in it.
        self.reader()?.execute("VACUUM INTO ?1", [text])?;
        Ok(())
    }

    fn take(&self) -> Result<Box<dyn Exclusive>> {
        let lock = DirLock::take(&self.0)?;
        damage::refuse(&self.0.wal)?;
        let conn = schema::open_writable(&self.0.db)?;
        schema::version(&conn)?;
        Ok(Box::new(Taken { conn, paths: self.0.clone(), _lock: lock }))
    }
}

/// Opens a dump, or any database that nobody writes, leaving nothing beside it.
pub(crate) fn open_dump(file: &Path) -> Result<Box<dyn View>> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(schema::immutable_uri(file), flags)?;
    schema::version(&conn)?;
    Ok(Box::new(conn))
}

/// Notes in a dump that it is being restored: the hub that starts there must not take up what waited then.
pub(crate) fn mark_restored(file: &Path) -> Result<()> {
    // What is interrupted is begun again, so nothing needs to be undone, and nothing shall lie beside the file.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(file, flags)?;
    conn.query_row("PRAGMA journal_mode = MEMORY", [], |_| Ok(()))?;
    super::set_meta(&conn, super::RESTORED, &super::now().to_string())
}

impl View for Connection {
    fn schema(&self) -> Result<u32> {
        schema::version(self)
    }

    fn hub_id(&self) -> Result<HubId> {
        super::hub_id(self)?.ok_or_else(|| StoreError::Corrupt("the hub's id is missing".into()))
    }

    fn hub_public_key(&self) -> Result<Option<[u8; 32]>> {
        super::hub_public_key(self)
    }

    fn key_id(&self) -> Result<Option<String>> {
        super::meta(self, "key_id")
    }

    fn last_seq(&self) -> Result<u64> {
        Ok(journal::last(self)?.0)
    }

    fn walk(&self, each: &mut dyn FnMut(Row<'_>) -> Result<bool>) -> Result<()> {
        journal::walk(self, each)
    }

    fn checkpoints(&self, after: u64, limit: u32) -> Result<Vec<Checkpoint>> {
        journal::checkpoints(self, View::hub_id(self)?, after, limit)
    }

    fn last_checkpoint(&self) -> Result<Option<Checkpoint>> {
        let last: i64 = self.query_row("SELECT coalesce(max(seq), 0) FROM checkpoints", [], |row| row.get(0))?;
        Ok(View::checkpoints(self, (last as u64).saturating_sub(1), 1)?.pop())
    }

    fn integrity(&self) -> Result<Option<String>> {
        let found: rusqlite::Result<String> = self.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0));
        match found {
            Ok(text) if text == "ok" => Ok(None),
            Ok(text) => Ok(Some(text)),
            Err(error) => match StoreError::from(error) {
                StoreError::Corrupt(why) => Ok(Some(why)),
                other => Err(other),
            },
        }
    }
}

/// A directory that this process has.
struct Taken {
    conn: Connection,
    paths: Paths,
    _lock: DirLock,
}

impl Exclusive for Taken {
    fn key_id(&self) -> Result<Option<String>> {
        if schema::version(&self.conn)? == 0 { Ok(None) } else { super::meta(&self.conn, "key_id") }
    }

    fn migrate(&mut self) -> Result<()> {
        let tail = OldTail::read(&self.conn, &self.paths, false)?;
        schema::migrate(&mut self.conn)?;
        tail.join(&mut self.conn, &self.paths)
    }

    fn reseal(&mut self, old: &DataKey, new: &DataKey, record: &dyn Fn(usize) -> Draft) -> Result<usize> {
        // What is replaced is wiped in the file: the old key may be known to others, and is kept for backups.
        self.conn.pragma_update(None, "secure_delete", "ON")?;
        let tx = self.conn.transaction()?;
        let values = reseal_secrets(&tx, old, new)?
            + reseal_calls(&tx, old, new)?
            + clients::reseal(&tx, old, new)?
            + notices::reseal(&tx, old, new)?
            + outbox::reseal(&tx, old, new)?
            + rooms::reseal(&tx, old, new)?
            + accounts::reseal(&tx, old, new)?;
        super::set_meta(&tx, "key_id", &new.id())?;
        journal::append_alone(&tx, View::hub_id(&*tx)?, &record(values))?;
        tx.commit()?;
        // The log still has the old pages.
        self.conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(values)
    }
}

fn reseal_secrets(conn: &Connection, old: &DataKey, new: &DataKey) -> Result<usize> {
    let secrets: Vec<(String, Vec<u8>)> = conn
        .prepare("SELECT name, sealed FROM secrets")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    for (name, sealed) in &secrets {
        let purpose = people::secret_purpose(name);
        let value = new.seal(&purpose, old.open(&purpose, sealed)?.reveal())?;
        conn.execute("UPDATE secrets SET sealed = ?2 WHERE name = ?1", params![name, value])?;
    }
    Ok(secrets.len())
}

fn reseal_calls(conn: &Connection, old: &DataKey, new: &DataKey) -> Result<usize> {
    let calls: Vec<([u8; 16], String, String, Vec<u8>)> = conn
        .prepare("SELECT id, target, tool, args FROM calls WHERE args IS NOT NULL")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?
        .collect::<rusqlite::Result<_>>()?;
    for (id, target, tool, sealed) in &calls {
        let purpose = calls::args_purpose(CallId::new(Uuid::from_bytes(*id)), target, tool);
        // What could not be opened before cannot be after.
        let Ok(args) = old.open(&purpose, sealed) else { continue };
        let value = new.seal(&purpose, args.reveal())?;
        conn.execute("UPDATE calls SET args = ?2 WHERE id = ?1", params![id, value])?;
    }
    Ok(calls.len())
}
