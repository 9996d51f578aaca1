//! A data directory without a store open on it: what [`Engine`] asks for.

use std::path::Path;

use convoke_core::id::HubId;
use convoke_core::journal::Draft;
use rusqlite::OpenFlags;

use super::old_tail::{self, OldTail};
use super::{damage, schema};
use crate::Result;
use crate::engine::{Engine, Exclusive, View};
use crate::error::StoreError;
use crate::files::{DirLock, Paths};
use crate::seal::DataKey;
use crate::sql::{self, Connection, Moment, reseal};
use crate::store::now;

/// A directory that has a database.
#[derive(Debug)]
pub(crate) struct DataDir(Paths);

impl DataDir {
    pub(crate) fn existing(dir: &Path) -> Result<Self> {
        Paths::existing(dir).map(Self)
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
        moment(conn)
    }

    fn dump(&self, to: &Path) -> Result<()> {
        let text = to.to_str().ok_or_else(|| StoreError::Conflict(format!("{} is not UTF-8", to.display())))?;
        // Without free pages, so that nothing deleted is in it.
        self.reader()?.execute("VACUUM INTO ?1", [text]).map(drop)
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
    let conn = Connection::Sqlite(rusqlite::Connection::open_with_flags(schema::immutable_uri(file), flags)?);
    schema::version(&conn)?;
    moment(conn)
}

/// Notes in a dump that it is being restored: the hub that starts there must not take up what waited then.
pub(crate) fn mark_restored(file: &Path) -> Result<()> {
    // What is interrupted is begun again, so nothing needs to be undone, and nothing shall lie beside the file.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::Sqlite(rusqlite::Connection::open_with_flags(file, flags)?);
    conn.query_row("PRAGMA journal_mode = MEMORY", [], |_| Ok(()))?;
    sql::set_meta(&conn, sql::RESTORED, &now().to_string())
}

fn moment(conn: Connection) -> Result<Box<dyn View>> {
    let hub_id = own_id(&conn)?;
    Ok(Box::new(Moment { conn, hub_id }))
}

fn own_id(conn: &Connection) -> Result<HubId> {
    sql::hub_id(conn)?.ok_or_else(|| StoreError::Corrupt("the hub's id is missing".into()))
}

/// A directory that this process has.
struct Taken {
    conn: Connection,
    paths: Paths,
    _lock: DirLock,
}

impl Exclusive for Taken {
    fn key_id(&self) -> Result<Option<String>> {
        if schema::version(&self.conn)? == 0 { Ok(None) } else { sql::meta(&self.conn, "key_id") }
    }

    fn migrate(&mut self) -> Result<()> {
        let tail = OldTail::read(&self.conn, &self.paths, false)?;
        schema::migrate(&self.conn)?;
        tail.join(&self.conn, &self.paths)
    }

    fn reseal(&mut self, old: &DataKey, new: &DataKey, record: &dyn Fn(usize) -> Draft) -> Result<usize> {
        // What is replaced is wiped in the file: the old key may be known to others, and is kept for backups.
        self.conn.query_row("PRAGMA secure_delete = ON", [], |_| Ok(()))?;
        let values = reseal::all(&self.conn, own_id(&self.conn)?, old, new, record)?;
        // The log still has the old pages.
        self.conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(values)
    }
}
