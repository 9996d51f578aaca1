//! SQLite: a data directory with an embedded database, and what only that needs.

mod damage;
mod data_dir;
mod error;
mod old_tail;
mod reserve;
pub(crate) mod schema;
mod shm;
mod wal;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use convoke_core::id::HubId;
use convoke_core::journal::Chain;
use convoke_core::secret::SecretBytes;
use ed25519_dalek::SigningKey;
use uuid::Uuid;

use crate::engine::Data;
use crate::error::StoreError;
use crate::files::{DirLock, Paths, create_private, private_dir, sync_parent, touch_private};
use crate::postgres::ServerData;
use crate::seal::DataKey;
use crate::sql::readers::Readers;
use crate::sql::writer::{Guard, Writer};
use crate::sql::{
    self, Connection, HUB_KEY, PUBLIC_KEY, RESTORED, SqlStore, hub_id, journal, meta, own_or_new_key, set_meta,
};
use crate::store::now;
use crate::{OpenOptions, Result, keys};
use old_tail::OldTail;
use reserve::Reserve;
use wal::WalKeeper;

pub(crate) use data_dir::{DataDir, mark_restored, open_dump};
pub(crate) use schema::CURRENT as CURRENT_SCHEMA;
pub(crate) use schema::foreign_part;

/// Opens the data directory, makes what is missing, and takes it for this process.
pub(crate) fn open(options: &OpenOptions) -> Result<SqlStore> {
    let paths = Paths::new(&options.dir);
    private_dir(&paths.dir)?;
    paths.check_not_lost()?;
    let lock = DirLock::take(&paths)?;
    let damage = damage::find(&paths.wal)?;
    if let Some(damage) = damage {
        if !options.accept_damaged_log {
            return Err(StoreError::DamagedLog { file: paths.wal, damage });
        }
        let log = File::open(&paths.wal).map_err(|e| StoreError::io("read", &paths.wal, e))?;
        let kept = set_aside(&paths.wal, log)?;
        tracing::error!(
            kept = %kept.display(),
            commits = damage.commits,
            "the write-ahead log is damaged, and store.accept_damaged_log is on: {damage}, and the hub goes on \
             without them; stop it and check what is left with `convoke audit verify`"
        );
        begin_accepting(&paths)?;
    }
    let conn = schema::open_writable(&paths.db)?;
    shm::make_room(&paths.shm)?;
    if damage.is_some() {
        // What is behind the damage would be found again at the next start, in what was written over it by then.
        conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    }
    let known_key = load_known_key(&conn, &paths, options.data_key.as_ref())?;
    let tail = OldTail::read(&conn, &paths, options.accept_damaged_log)?;
    schema::migrate(&conn)?;
    tail.join(&conn, &paths)?;
    note_accepted(&conn, &paths.accepting)?;
    let key = match known_key {
        Some(key) => key,
        None => keys::first(&paths, options.data_key.as_ref())?,
    };
    let hub_id = match hub_id(&conn)? {
        Some(hub_id) => hub_id,
        None => initialise(&conn, &key)?,
    };
    let signer = signer(&conn, &key, options.hub_seed.as_ref())?;
    let (chain, signed) = journal::end(&conn, hub_id)?;
    let wal = WalKeeper::start(&paths.db, &paths.wal)?;
    let guard = Box::new(Directory { wal, reserve: Reserve::new(paths.reserve.clone()), lock });
    let writer = Writer { conn, chain, signed, signer: Arc::new(signer.clone()), owed: Vec::new(), guard };
    let queue = writer.start(options.queue_limit)?;
    let db = paths.db.clone();
    let readers = Readers::new(Arc::new(move || schema::open_readable(&db)), options.readers);
    Ok(SqlStore::new(hub_id, paths, None, key, signer, queue, readers))
}

/// Keeps other processes out of the directory, and the write-ahead log short.
struct Directory {
    wal: WalKeeper,
    /// Space for what withdraws something.
    reserve: Reserve,
    lock: DirLock,
}

impl Guard for Directory {
    fn ready(&mut self, _: &mut Connection) -> Result<Option<(Chain, u64)>> {
        Ok(None)
    }

    fn begin(&mut self, conn: &Connection) -> Result<()> {
        conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        Ok(())
    }

    fn commit(&mut self, conn: &Connection) -> Result<()> {
        conn.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }

    fn after_commit(&mut self, conn: &Connection, bytes: usize) {
        if let Some(conn) = conn.sqlite() {
            self.wal.after_commit(conn, bytes);
        }
        self.reserve.refill();
    }

    fn free_reserve(&mut self) -> bool {
        self.reserve.free()
    }

    fn fill_reserve(&mut self) {
        self.reserve.fill();
    }

    /// Empties the log and releases the directory.
    fn close(mut self: Box<Self>, conn: Connection) {
        self.wal.finish();
        // Emptied, so that a copy of hub.db alone is whole. A reader that is still there may prevent it; no harm.
        let _ = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        drop(conn);
        drop(self.lock);
    }
}

/// The key that the database is sealed with, if it is. Before anything is changed, so that a wrong one changes nothing.
fn load_known_key(conn: &Connection, paths: &Paths, given: Option<&SecretBytes>) -> Result<Option<DataKey>> {
    let key_id = if schema::version(conn)? == 0 { None } else { meta(conn, "key_id")? };
    key_id.map(|key_id| keys::load(paths, given, &key_id)).transpose()
}

/// What a damaged log loses is about to be lost: a start that is killed from here on may leave nothing of the damage to find.
fn begin_accepting(paths: &Paths) -> Result<()> {
    touch_private(&paths.accepting)?.sync_all().map_err(|e| StoreError::io("write", &paths.accepting, e))?;
    sync_parent(&paths.accepting)
}

/// Keeps a copy of a damaged log, since the log itself is about to be written over. It has its name only once it is whole:
/// half of it would pass for the evidence.
fn set_aside(wal: &Path, mut log: impl std::io::Read) -> Result<PathBuf> {
    let part = named(wal, ".damaged.part");
    // Of a start that was killed here; the directory is ours.
    let _ = std::fs::remove_file(&part);
    let mut copy = create_private(&part)?;
    let kept = damaged_name(wal);
    let copied = std::io::copy(&mut log, &mut copy).and_then(|_| copy.sync_all());
    if let Err(error) = copied.and_then(|()| std::fs::rename(&part, &kept)) {
        let _ = std::fs::remove_file(&part);
        return Err(StoreError::io("write", &kept, error));
    }
    sync_parent(&kept)?;
    Ok(kept)
}

/// The next free name for what is kept of a damaged file.
fn damaged_name(file: &Path) -> PathBuf {
    let mut numbers = 2_u32..;
    let mut kept = named(file, ".damaged");
    while let Some(number) = numbers.next().filter(|_| kept.exists()) {
        kept = named(file, &format!(".damaged.{number}"));
    }
    kept
}

fn named(file: &Path, end: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

/// After a damaged log the database is of an earlier time, as after a restore: a call that waits in it may have run.
fn note_accepted(conn: &Connection, accepting: &Path) -> Result<()> {
    if !accepting.exists() {
        return Ok(());
    }
    set_meta(conn, RESTORED, &now().to_string())?;
    // The mark is synced; if this does not last, the next start makes it once more.
    std::fs::remove_file(accepting).map_err(|e| StoreError::io("remove", accepting, e))?;
    sync_parent(accepting)
}

/// What a new store starts with, in one transaction: after it, the directory belongs to this hub and this key.
fn initialise(conn: &Connection, key: &DataKey) -> Result<HubId> {
    let hub_id = HubId::new(Uuid::new_v4());
    conn.transaction(|conn| {
        set_meta(conn, "hub_id", &hub_id.to_string())?;
        sql::put_defaults(conn, key)
    })?;
    Ok(hub_id)
}

/// The hub's key: the one that is kept, or at the first start the one from outside, or a new one. Agents know the hub by it,
/// so another never takes its place.
fn signer(conn: &Connection, key: &DataKey, from_outside: Option<&SecretBytes>) -> Result<SigningKey> {
    own_or_new_key(conn, key, HUB_KEY, PUBLIC_KEY, from_outside)
}

/// A sealed secret by name, read without taking the directory; a hub may be running.
pub fn peek_secret(data: impl Into<Data>, name: &str, data_key: Option<&SecretBytes>) -> Result<Option<SecretBytes>> {
    let Data { dir, server } = data.into();
    let (paths, conn) = match server {
        None => {
            let paths = Paths::existing(&dir)?;
            let conn = schema::open_readable(&paths.db)?;
            schema::version(&conn)?;
            (paths, conn)
        }
        Some(server) => (Paths::new(&dir), ServerData::existing(&server)?.reader()?),
    };
    let key_id = meta(&conn, "key_id")?.ok_or(StoreError::NoData(dir))?;
    let key = keys::peek(&paths, data_key, &key_id)?;
    sql::secret(&conn, &key, name)
}

#[cfg(test)]
mod tests;
