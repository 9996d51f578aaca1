//! SQLite behind the interface: one writer thread, a few readers, everything in one data directory.

mod accounts;
mod admin;
mod agents;
mod calls;
mod clients;
mod damage;
mod data_dir;
mod error;
mod grants;
mod health;
mod journal;
mod messages;
mod notices;
mod old_tail;
mod outbox;
mod peers;
mod people;
mod queue;
mod readers;
mod reserve;
mod rooms;
mod row;
mod schema;
mod shm;
mod sonde;
mod telemetry;
mod wal;
mod writer;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use convoke_core::confirm::ConfirmRule;
use convoke_core::id::HubId;
use convoke_core::secret::SecretBytes;
use ed25519_dalek::SigningKey;
use rusqlite::{Connection, OptionalExtension as _, params};
use uuid::Uuid;
use zeroize::Zeroizing;

use crate::Result;
use crate::error::StoreError;
use crate::files::{DirLock, Paths, create_private, private_dir, sync_parent, touch_private};
use crate::keys;
use crate::seal::{DataKey, random};
use crate::store::now;
use old_tail::OldTail;
use queue::Queue;
use readers::Readers;
use reserve::Reserve;
use wal::WalKeeper;
use writer::Writer;

pub(crate) use data_dir::{DataDir, mark_restored, open_dump};
pub(crate) use schema::CURRENT as CURRENT_SCHEMA;

/// The secret under which the hub's own key is kept.
const HUB_KEY: &str = "hub_key";
/// Its public half, in the open, for exports.
const PUBLIC_KEY: &str = "hub_public_key";
/// Since when the database is of an earlier time, a backup's or one before a damage, and no hub has started on it.
const RESTORED: &str = "restored_at";

/// How to open a data directory.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// The directory; made if it is not there.
    pub dir: PathBuf,
    /// The data key, 32 bytes, when it does not come from the file `data.key`. See [`keys::parse`].
    pub data_key: Option<SecretBytes>,
    /// The seed of the hub's Ed25519 key, 32 bytes. Kept at the first start; from then on it must be the same, or absent.
    pub hub_seed: Option<SecretBytes>,
    /// How many changes may wait for the writer; beyond it callers wait.
    pub queue_limit: usize,
    /// How many reads may run at once.
    pub readers: usize,
    /// Whether to start without what cannot be read where the write-ahead log is damaged, rather than refuse.
    pub accept_damaged_log: bool,
}

impl OpenOptions {
    /// The defaults for `dir`: key from its file, 4,096 waiting changes, 4 readers.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            data_key: None,
            hub_seed: None,
            queue_limit: 4_096,
            readers: 4,
            accept_damaged_log: false,
        }
    }
}

/// The embedded store.
#[derive(Debug)]
pub struct SqliteStore {
    hub_id: HubId,
    paths: Paths,
    key: Arc<DataKey>,
    signer: Arc<SigningKey>,
    queue: Queue,
    readers: Readers,
}

impl SqliteStore {
    /// Opens the data directory, makes what is missing, and takes it for this process. Blocks; call it before
    /// serving, or on a blocking thread.
    ///
    /// A store must be closed ([`crate::Store::close`]) before the directory can be opened again in this process.
    pub fn open(options: OpenOptions) -> Result<Self> {
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
        let mut conn = schema::open_writable(&paths.db)?;
        shm::make_room(&paths.shm)?;
        if damage.is_some() {
            // What is behind the damage would be found again at the next start, in what was written over it by then.
            conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        }
        let known_key = load_known_key(&conn, &paths, options.data_key.as_ref())?;
        let tail = OldTail::read(&conn, &paths, options.accept_damaged_log)?;
        schema::migrate(&mut conn)?;
        tail.join(&mut conn, &paths)?;
        note_accepted(&conn, &paths.accepting)?;
        let key = match known_key {
            Some(key) => key,
            None => keys::first(&paths, options.data_key.as_ref())?,
        };
        let hub_id = match hub_id(&conn)? {
            Some(hub_id) => hub_id,
            None => initialise(&mut conn, &key)?,
        };
        let signer = Arc::new(signer(&mut conn, &key, options.hub_seed.as_ref())?);
        let (chain, signed) = journal::end(&conn, hub_id)?;
        let wal = WalKeeper::start(&paths.db, &paths.wal)?;
        let signer_of_writer = Arc::clone(&signer);
        let reserve = Reserve::new(paths.reserve.clone());
        let owed = Vec::new();
        let writer = Writer { conn, chain, signed, signer: signer_of_writer, wal, reserve, owed, lock };
        let queue = writer.start(options.queue_limit)?;
        let readers = Readers::new(paths.db.clone(), options.readers);
        Ok(Self { hub_id, paths, key: Arc::new(key), signer, queue, readers })
    }

    /// The hub's own Ed25519 key: agents know the hub by it, and it signs the journal's checkpoints.
    pub fn hub_key(&self) -> &SigningKey {
        &self.signer
    }

    /// Where its files are.
    pub const fn paths(&self) -> &Paths {
        &self.paths
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

/// A fact about the store itself.
fn meta(conn: &Connection, name: &str) -> Result<Option<String>> {
    Ok(conn.query_row("SELECT value FROM meta WHERE name = ?1", [name], |row| row.get(0)).optional()?)
}

/// Whose directory this is, once a hub has started in it.
fn hub_id(conn: &Connection) -> Result<Option<HubId>> {
    let parsed = meta(conn, "hub_id")?.map(|text| text.parse());
    parsed.transpose().map_err(|_| StoreError::Corrupt("the hub's id is malformed".into()))
}

/// The public half of the hub's key, as the last start left it.
fn hub_public_key(conn: &Connection) -> Result<Option<[u8; 32]>> {
    let mut key = [0; 32];
    let text = meta(conn, PUBLIC_KEY)?;
    Ok(text.and_then(|text| hex::decode_to_slice(text, &mut key).ok()).map(|()| key))
}

fn set_meta(conn: &Connection, name: &str, value: &str) -> Result<()> {
    conn.execute("INSERT OR REPLACE INTO meta VALUES (?1, ?2)", params![name, value])?;
    Ok(())
}

/// What a new store starts with, in one transaction: after it, the directory belongs to this hub and this key.
fn initialise(conn: &mut Connection, key: &DataKey) -> Result<HubId> {
    let hub_id = HubId::new(Uuid::new_v4());
    let tx = conn.transaction()?;
    set_meta(&tx, "hub_id", &hub_id.to_string())?;
    set_meta(&tx, "key_id", &key.id())?;
    set_meta(&tx, "created_at", &now().to_string())?;
    people::put_rule(&tx, &ConfirmRule::default_rule())?;
    tx.commit()?;
    Ok(hub_id)
}

/// The hub's key: the one that is kept, or at the first start the one from outside, or a new one. Agents know the hub by it,
/// so another never takes its place.
fn signer(conn: &mut Connection, key: &DataKey, from_outside: Option<&SecretBytes>) -> Result<SigningKey> {
    let purpose = people::secret_purpose(HUB_KEY);
    let known = meta(conn, PUBLIC_KEY)?;
    let kept = match people::sealed_secret(conn, HUB_KEY)? {
        Some(sealed) => Some(signing_key(&key.open(&purpose, &sealed)?)?),
        None => None,
    };
    let signer = match (from_outside, &kept, &known) {
        (Some(seed), ..) => signing_key(seed)?,
        (None, Some(kept), _) => kept.clone(),
        (None, None, None) => SigningKey::from_bytes(&Zeroizing::new(random::<32>()?)),
        (None, None, Some(_)) => return Err(StoreError::HubKeyNotKept),
    };
    let public_key = hex::encode(signer.verifying_key().to_bytes());
    if known.is_some_and(|known| known != public_key) {
        return Err(if from_outside.is_some() { StoreError::OtherHubKey } else { StoreError::HubKeyNotKept });
    }
    if kept.as_ref() != Some(&signer) {
        let tx = conn.transaction()?;
        people::put_sealed_secret(&tx, HUB_KEY, &key.seal(&purpose, signer.as_bytes())?)?;
        set_meta(&tx, PUBLIC_KEY, &public_key)?;
        tx.commit()?;
    }
    Ok(signer)
}

fn signing_key(seed: &SecretBytes) -> Result<SigningKey> {
    let seed = <[u8; 32]>::try_from(seed.reveal())
        .map(Zeroizing::new)
        .map_err(|_| StoreError::MalformedKey { from: "the hub's private key".into() })?;
    Ok(SigningKey::from_bytes(&seed))
}

/// A sealed secret by name, read without taking the directory; a hub may be running.
pub fn peek_secret(dir: &Path, name: &str, data_key: Option<&SecretBytes>) -> Result<Option<SecretBytes>> {
    let paths = Paths::existing(dir)?;
    let conn = schema::open_readable(&paths.db)?;
    schema::version(&conn)?;
    let key_id = meta(&conn, "key_id")?.ok_or_else(|| StoreError::NoData(dir.to_owned()))?;
    let key = keys::peek(&paths, data_key, &key_id)?;
    match people::sealed_secret(&conn, name)? {
        Some(sealed) => Ok(Some(key.open(&people::secret_purpose(name), &sealed)?)),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests;
