//! PostgreSQL: the tables on a server, which several hubs may share. Each has its row in `hubs` and its own chain.

mod data;
mod error;
pub(crate) mod schema;
mod server;
mod session;

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use convoke_core::id::HubId;
use convoke_core::journal::Chain;
use ed25519_dalek::SigningKey;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::error::StoreError;
use crate::files::{DirLock, Paths, private_dir};
use crate::seal::{DataKey, random};
use crate::sql::hubs::ClusterSeat;
use crate::sql::readers::Readers;
use crate::sql::writer::{Guard, Writer};
use crate::sql::{self, Connection, HUB_KEY, OptionalExtension as _, PUBLIC_KEY, SqlStore, journal, meta, params};
use crate::{OpenOptions, Result, keys};

pub(crate) use data::ServerData;
pub use data::{Moved, migrate};
pub use server::{BadUrl, Server};
pub(crate) use session::Session;

/// Opens the store on a server, makes what is missing there, and takes the hub's row for this process.
pub(crate) fn open(options: &OpenOptions, server: &Server, name: &str) -> Result<SqlStore> {
    let paths = Paths::new(&options.dir);
    private_dir(&paths.dir)?;
    let lock = DirLock::take(&paths)?;
    if paths.db.exists() {
        tracing::warn!(
            "the data is on the server {server} (store.url), and {} is not used; `convoke store migrate` moves it there",
            paths.db.display()
        );
    }
    let conn = server.connect()?;
    wait_for_name(&conn, name)?;
    take_database(&conn, options.lease.is_some())?;
    if let Some(lease) = options.lease {
        wait_for_lease(&conn, name, lease)?;
    }
    let (key, hub_key, seat) = schema::locked(&conn, || {
        schema::migrate(&conn)?;
        let key = match meta(&conn, "key_id")? {
            Some(key_id) => keys::load(&paths, options.data_key.as_ref(), &key_id)?,
            None => {
                let key = keys::first(&paths, options.data_key.as_ref())?;
                conn.transaction(|conn| sql::put_defaults(conn, &key))?;
                key
            }
        };
        let hub_key = sql::own_or_new_key(&conn, &key, HUB_KEY, PUBLIC_KEY, options.hub_seed.as_ref())?;
        let seat = Seat::take(&conn, name, options.lease)?;
        Ok((key, hub_key, seat))
    })?;
    let signer = signer(&conn, &key, &hub_key, &seat)?;
    let (chain, signed) = journal::end(&conn, seat.hub_id)?;
    let hub_id = seat.hub_id;
    says_who(&conn, hub_id)?;
    let cluster = options.lease.map(|lease| ClusterSeat::new(server, &seat, lease));
    let guard = Box::new(Member {
        server: server.clone(),
        name: name.to_owned(),
        is_shared: options.lease.is_some(),
        seat,
        lock,
    });
    let writer = Writer { conn, chain, signed, signer: Arc::new(signer), owed: Vec::new(), guard };
    let queue = writer.start(options.queue_limit)?;
    let reading = server.clone();
    let readers = Readers::new(Arc::new(move || reading.connect()), options.readers);
    let store = SqlStore::new(hub_id, paths, Some(server.clone()), key, hub_key, queue, readers);
    Ok(match cluster {
        Some(seat) => store.with_seat(seat),
        None => store,
    })
}

/// How long a start waits for the name: what is left of a hub that was killed goes within a moment.
const NAME_PATIENCE: Duration = Duration::from_secs(10);
const NAME_PAUSE: Duration = Duration::from_millis(50);

/// Takes the hub's name for this connection, which keeps it until it ends.
fn wait_for_name(conn: &Connection, name: &str) -> Result<()> {
    let begun = Instant::now();
    while !take_name(conn, name)? {
        if begun.elapsed() > NAME_PATIENCE {
            return Err(StoreError::NameInUse(name.to_owned()));
        }
        thread::sleep(NAME_PAUSE);
    }
    Ok(())
}

fn take_name(conn: &Connection, name: &str) -> Result<bool> {
    let lock = lock_of("convoke-hub-name-v1", name);
    conn.query_row("SELECT pg_try_advisory_lock(?1)", [lock], |row| row.get(0))
}

/// The number of an advisory lock.
pub(crate) fn lock_of(kind: &str, name: &str) -> i64 {
    let hash = Sha256::new().chain_update(kind).chain_update([0]).chain_update(name).finalize();
    i64::from_be_bytes(std::array::from_fn(|n| hash[n]))
}

/// Takes the database for this connection: for this hub alone, or beside others that share it.
fn take_database(conn: &Connection, is_shared: bool) -> Result<()> {
    let begun = Instant::now();
    let kind = if is_shared { "pg_try_advisory_lock_shared" } else { "pg_try_advisory_lock" };
    let take = format!("SELECT {kind}(?1)");
    while !conn.query_row(&take, [lock_of("convoke-database-v1", "")], |row| row.get(0))? {
        if begun.elapsed() > NAME_PATIENCE {
            return Err(StoreError::DatabaseInUse);
        }
        thread::sleep(NAME_PAUSE);
    }
    Ok(())
}

/// Waits until the lease of whoever had the name before is over: it may still serve, cut off from here.
fn wait_for_lease(conn: &Connection, name: &str, lease: Duration) -> Result<()> {
    let begun = Instant::now();
    loop {
        if schema::version(conn)? < schema::WITH_LEASES {
            return Ok(());
        }
        let left = format!("SELECT lease_until - {NOW} FROM hubs WHERE name = ?1");
        let left: Option<i64> = conn.query_row(&left, [name], |row| row.get(0)).optional()?;
        let Some(left) = left.and_then(|left| u64::try_from(left).ok()).filter(|left| *left > 0) else {
            return Ok(());
        };
        if begun.elapsed() > 2 * lease + NAME_PATIENCE {
            return Err(StoreError::NameInUse(name.to_owned()));
        }
        tracing::info!(name, left_ms = left, "waiting for the lease of this name to end");
        thread::sleep(Duration::from_millis(left).min(lease));
    }
}

/// The server's time in milliseconds.
pub(crate) const NOW: &str = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/// What this connection changes is this hub's.
fn says_who(conn: &Connection, hub_id: HubId) -> Result<()> {
    conn.execute_batch(&format!("SET convoke.hub = '{hub_id}'"))
}

/// The key that signs this hub's chain: the first hub's is the one that agents know, the others have their own.
fn signer(conn: &Connection, key: &DataKey, hub_key: &SigningKey, seat: &Seat) -> Result<SigningKey> {
    let signer = match seat.is_first {
        true => hub_key.clone(),
        false => {
            let name = format!("journal_key:{}", seat.hub_id);
            sql::own_or_new_key(conn, key, &name, &format!("{name}:public"), None)?
        }
    };
    let public_key = signer.verifying_key().to_bytes();
    conn.execute("UPDATE hubs SET public_key = ?2 WHERE id = ?1", params![seat.hub_id.to_string(), public_key])?;
    Ok(signer)
}

/// The row of a hub, as one process has it. Whoever takes it next raises its epoch, and from then on this one writes nothing.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) hub_id: HubId,
    pub(crate) epoch: i64,
    /// Which process it is, by a random number.
    pub(crate) instance: [u8; 16],
    is_first: bool,
    /// The last change when it was taken.
    pub(crate) in_force: i64,
}

impl Seat {
    fn take(conn: &Connection, name: &str, lease: Option<Duration>) -> Result<Self> {
        let instance: [u8; 16] = random()?;
        let id = Uuid::new_v4().to_string();
        let lease = lease.map_or(0, |lease| i64::try_from(lease.as_millis()).unwrap_or(i64::MAX));
        let take = format!(
            "INSERT INTO hubs (id, name, epoch, instance, is_first, since, lease_until, in_force)
             VALUES (?1, ?2, 1, ?3, (SELECT CASE WHEN count(*) = 0 THEN 1 ELSE 0 END FROM hubs), ?4,
                CASE WHEN ?5 = 0 THEN 0 ELSE {NOW} + ?5 END, (SELECT num FROM change_count))
             ON CONFLICT (name) DO UPDATE SET epoch = hubs.epoch + 1, instance = excluded.instance, since = excluded.since,
                lease_until = excluded.lease_until, in_force = excluded.in_force, address = '', pin = NULL
             RETURNING id, epoch, is_first, in_force"
        );
        conn.transaction(|conn| {
            // Whoever writes as this hub holds its row until that is committed.
            conn.prepare_cached("SELECT 1 FROM hubs WHERE name = ?1 FOR UPDATE")?.exists([name])?;
            let values = params![id, name, instance, crate::store::now().millis(), lease];
            let seat = conn.query_row(&take, values, |row| {
                let hub_id = row.text(0)?.parse();
                let hub_id = hub_id.map_err(|_| StoreError::Corrupt("a hub's id is malformed".into()))?;
                Ok(Self { hub_id, epoch: row.get(1)?, instance, is_first: row.get(2)?, in_force: row.get(3)? })
            })?;
            // What it held before, it holds no more.
            conn.execute("DELETE FROM links WHERE hub_id = ?1", [seat.hub_id.to_string()])?;
            Ok(seat)
        })
    }

    /// Makes sure that nothing is written any more by what this process sent over a connection that broke.
    fn raise(&mut self, conn: &Connection) -> Result<()> {
        let raise = "UPDATE hubs SET epoch = epoch + 1 WHERE id = ?1 AND instance = ?2 RETURNING epoch";
        let raised = conn.transaction(|conn| {
            let id = self.hub_id.to_string();
            conn.prepare_cached("SELECT 1 FROM hubs WHERE id = ?1 FOR UPDATE")?.exists([&id])?;
            conn.query_row(raise, params![id, self.instance], |row| row.get(0)).optional()
        });
        match raised? {
            Some(epoch) => self.epoch = epoch,
            None => return Err(StoreError::Fenced),
        }
        Ok(())
    }
}

/// Begins each transaction with the hub's own row, and connects anew when a connection broke.
struct Member {
    server: Server,
    name: String,
    /// Whether others share the database.
    is_shared: bool,
    seat: Seat,
    lock: DirLock,
}

impl Guard for Member {
    fn ready(&mut self, conn: &mut Connection) -> Result<Option<(Chain, u64)>> {
        if conn.is_usable() {
            return Ok(None);
        }
        let new = self.server.connect()?;
        self.seat.raise(&new)?;
        // What is left of the connection that broke may still have it; nobody else can, or there would be another epoch.
        take_name(&new, &self.name)?;
        take_database(&new, self.is_shared)?;
        says_who(&new, self.seat.hub_id)?;
        // A commit that was not confirmed may have been made.
        let end = journal::end(&new, self.seat.hub_id)?;
        *conn = new;
        tracing::info!(server = %self.server, "connected to the database again");
        Ok(Some(end))
    }

    fn begin(&mut self, conn: &Connection) -> Result<()> {
        let Some(session) = conn.postgres() else { return Err(StoreError::Closed) };
        session.batch("BEGIN")?;
        // A renewal of the lease, which changes no key, does not wait for it; who raises the epoch does.
        let own = "SELECT epoch FROM hubs WHERE id = ?1 AND epoch = ?2 FOR KEY SHARE";
        let is_ours = conn.prepare_cached(own)?.exists(params![self.seat.hub_id.to_string(), self.seat.epoch])?;
        if is_ours { Ok(()) } else { Err(StoreError::Fenced) }
    }

    fn commit(&mut self, conn: &Connection) -> Result<()> {
        conn.postgres().map_or(Err(StoreError::Closed), Session::commit)
    }

    fn after_commit(&mut self, _: &Connection, _: usize) {}

    fn close(self: Box<Self>, conn: Connection) {
        drop(conn);
        drop(self.lock);
    }
}
