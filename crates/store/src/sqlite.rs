//! SQLite behind the interface: one writer thread, a few readers, everything in one data directory.

mod agents;
mod calls;
mod clients;
mod damage;
mod journal;
mod messages;
mod methods;
mod operators;
mod queue;
mod readers;
mod rooms;
mod row;
mod schema;
mod shm;
mod skip;
mod sonde;
mod tail;
mod telemetry;
mod wal;
mod writer;
mod yonexus;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use convoke_core::confirm::ConfirmRule;
use convoke_core::id::HubId;
use convoke_core::journal::Sealed;
use convoke_core::secret::SecretBytes;
use convoke_core::time::Timestamp;
use ed25519_dalek::SigningKey;
use rusqlite::{Connection, OptionalExtension as _, params};
use uuid::Uuid;
use zeroize::Zeroizing;

use crate::error::StoreError;
use crate::files::{DirLock, Paths, create_private, holder, private_dir, sync_parent, touch_private};
use crate::interface::Result;
use crate::keys;
use crate::seal::{DataKey, random};
use queue::Queue;
use readers::Readers;
use skip::Filling;
use tail::Tail;
use wal::WalKeeper;
use writer::Writer;

pub use damage::LogDamage;
pub use tail::TailDamage;

pub(crate) use calls::args_purpose;
pub(crate) use clients::reseal as reseal_clients;
pub(crate) use damage::{find as find_log_damage, refuse as refuse_damaged_log};
pub(crate) use journal::{Raw, append_alone, checkpoints, join as join_records, last as last_record, walk};
pub(crate) use messages::reseal as reseal_rules;
pub(crate) use operators::secret_purpose;
pub(crate) use rooms::reseal as reseal_rooms;
pub(crate) use schema::{CURRENT as CURRENT_SCHEMA, open_readable, open_writable, version as schema_version};
pub(crate) use skip::{Bits, Value, block_ended_by, kept as kept_bits, kept_too_soon};
pub(crate) use tail::{Contents as TailContents, Following};

/// The secret under which the hub's own key is kept.
const HUB_KEY: &str = "hub_key";
/// Its public half, in the open, for exports.
const PUBLIC_KEY: &str = "hub_public_key";
/// Since when the database is of an earlier time, a backup's or one before a damage, and no hub has started on it.
pub(crate) const RESTORED: &str = "restored_at";

/// How long a running hub is waited for, and how often it is looked at meanwhile.
const TAIL_SETTLES: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// How often damage is looked at again before it is told.
const READ_AGAIN: u32 = 2;

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
    /// Whether to go on with what is before the damage where the write-ahead log or the tail is damaged, rather than refuse.
    pub accept_damaged_log: bool,
    /// Whether records may be acknowledged once they are in the tail, where the system has what that takes.
    pub tail: bool,
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
            tail: true,
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
        let contents = read_own_tail(&conn, &paths)?;
        let (contents, newer) = match newer_records(&conn, &contents)? {
            Ok(newer) => (contents, newer),
            // A start that accepted it and was killed has left the mark.
            Err((newer, damage)) if options.accept_damaged_log || paths.accepting.exists() => {
                let file = File::open(&paths.tail).map_err(|e| StoreError::io("read", &paths.tail, e))?;
                let kept = set_aside(&paths.tail, file)?;
                tracing::error!(
                    kept = %kept.display(),
                    records = damage.behind,
                    "the journal's tail is damaged, and store.accept_damaged_log is on: {damage}, and the hub goes on \
                     without them"
                );
                begin_accepting(&paths)?;
                // A copy is kept.
                (TailContents::default(), newer)
            }
            Err((_, damage)) => return Err(damaged_tail(&paths, damage)),
        };
        schema::migrate(&mut conn)?;
        join(&mut conn, &contents, &newer, &paths)?;
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
        let open_intents = journal::open_count(&conn)?;
        let writer = Writer {
            conn,
            tail: Tail::new(chain),
            signed,
            open_intents,
            filling: Filling::default(),
            signer: Arc::clone(&signer),
            wal,
            has_failed: false,
            lock,
        };
        let queue = writer.start(options.queue_limit, options.tail.then_some(paths.tail.as_path()))?;
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

/// What stands in the tail, if it is this hub's.
fn read_own_tail(conn: &Connection, paths: &Paths) -> Result<TailContents> {
    let contents = TailContents::read(&paths.tail)?;
    let own = if schema::version(conn)? == 0 { None } else { hub_id(conn)? };
    match contents.hub_id() {
        Some(other) if own.is_some_and(|own| own != other) => {
            Err(StoreError::OtherTail { file: paths.tail.clone(), hub_id: other })
        }
        _ => Ok(contents),
    }
}

/// The records in the tail that the database does not have yet.
fn newer_records(conn: &Connection, contents: &TailContents) -> Result<Following> {
    if schema::version(conn)? == 0 {
        // It has no journal yet, so this is another's.
        let behind = contents.last();
        return Ok(if behind == 0 { Ok(Vec::new()) } else { Err((Vec::new(), TailDamage { record: 1, behind })) });
    }
    let (seq, head) = journal::last(conn)?;
    Ok(contents.following(seq, head))
}

/// Brings a killed hub's database to the current schema and puts the records of its tail into it. Whoever calls it holds the
/// directory.
pub(crate) fn join_tail(conn: &mut Connection, paths: &Paths) -> Result<()> {
    let contents = read_own_tail(conn, paths)?;
    let newer = newer_records(conn, &contents)?.map_err(|(_, damage)| damaged_tail(paths, damage))?;
    schema::migrate(conn)?;
    join(conn, &contents, &newer, paths)
}

/// Puts records of the tail into the database, and the tail away. A file of its own for each start: what a killed hub still
/// had under way to the disk lands in the one that is gone.
fn join(conn: &mut Connection, contents: &TailContents, newer: &[Sealed], paths: &Paths) -> Result<()> {
    journal::join(conn, newer)?;
    let next = journal::last(conn)?.0 + 1;
    let is_broken = contents.is_broken_at(next);
    if !is_broken && !contents.is_foreign() {
        return tail::remove(&paths.tail);
    }
    let kept = damaged_name(&paths.tail);
    std::fs::rename(&paths.tail, &kept).map_err(|e| StoreError::io("rename", &paths.tail, e))?;
    sync_parent(&kept)?;
    let why = if is_broken {
        "the last write to hub.db-tail does not hold. A power cut leaves that, and then nobody was answered for it; if there \
         was none, the file is damaged, and the last records may be missing"
    } else {
        "hub.db-tail was no tail of a journal. If another file was put in its place, the last records may be missing"
    };
    tracing::warn!(record = next, kept = %kept.display(), "{why}");
    Ok(())
}

pub(crate) fn damaged_tail(paths: &Paths, damage: TailDamage) -> StoreError {
    StoreError::DamagedTail { file: paths.tail.clone(), damage }
}

/// Reads the tail for whoever looks at a database that a running hub may be writing. That puts into its database what stands
/// in its tail within a moment, which is waited for; one that cannot write is not waited for for long.
pub(crate) fn read_tail(conn: &Connection, paths: &Paths) -> Result<std::result::Result<TailContents, TailDamage>> {
    if schema::version(conn)? == 0 {
        return Ok(Ok(TailContents::default()));
    }
    let until = std::time::Instant::now() + TAIL_SETTLES;
    let mut damaged = 0;
    loop {
        let contents = read_own_tail(conn, paths)?;
        while journal::last(conn)?.0 < contents.last()
            && holder(&paths.dir).is_some()
            && std::time::Instant::now() < until
        {
            std::thread::sleep(LOOK_AGAIN);
        }
        let (seq, head) = journal::last(conn)?;
        match contents.following(seq, head) {
            Ok(_) => return Ok(Ok(contents)),
            // A frame that was written while the file was read may be missing before the next one, once.
            Err(_) if damaged < READ_AGAIN => damaged += 1,
            Err((_, damage)) => return Ok(Err(damage)),
        }
        std::thread::sleep(LOOK_AGAIN);
    }
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
pub(crate) fn meta(conn: &Connection, name: &str) -> Result<Option<String>> {
    Ok(conn.query_row("SELECT value FROM meta WHERE name = ?1", [name], |row| row.get(0)).optional()?)
}

/// Whose directory this is, once a hub has started in it.
pub(crate) fn hub_id(conn: &Connection) -> Result<Option<HubId>> {
    let parsed = meta(conn, "hub_id")?.map(|text| text.parse());
    parsed.transpose().map_err(|_| StoreError::Corrupt("the hub's id is malformed".into()))
}

/// The public half of the hub's key, as the last start left it.
pub(crate) fn hub_public_key(conn: &Connection) -> Result<Option<[u8; 32]>> {
    let mut key = [0; 32];
    let text = meta(conn, PUBLIC_KEY)?;
    Ok(text.and_then(|text| hex::decode_to_slice(text, &mut key).ok()).map(|()| key))
}

pub(crate) fn set_meta(conn: &Connection, name: &str, value: &str) -> Result<()> {
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
    operators::put_rule(&tx, &ConfirmRule::default_rule())?;
    tx.commit()?;
    Ok(hub_id)
}

/// The hub's key: the one that is kept, or at the first start the one from outside, or a new one. Agents know the hub by it,
/// so another never takes its place.
fn signer(conn: &mut Connection, key: &DataKey, from_outside: Option<&SecretBytes>) -> Result<SigningKey> {
    let purpose = secret_purpose(HUB_KEY);
    let known = meta(conn, PUBLIC_KEY)?;
    let kept = match operators::sealed_secret(conn, HUB_KEY)? {
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
        operators::put_sealed_secret(&tx, HUB_KEY, &key.seal(&purpose, signer.as_bytes())?)?;
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

/// The time, for what nobody passed one in for.
pub(crate) fn now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// A sealed secret by name, read without taking the directory; a hub may be running.
pub fn peek_secret(dir: &Path, name: &str, data_key: Option<&SecretBytes>) -> Result<Option<SecretBytes>> {
    let paths = Paths::existing(dir)?;
    let conn = schema::open_readable(&paths.db)?;
    schema::version(&conn)?;
    let key_id = meta(&conn, "key_id")?.ok_or_else(|| StoreError::NoData(dir.to_owned()))?;
    let key = keys::peek(&paths, data_key, &key_id)?;
    match operators::sealed_secret(&conn, name)? {
        Some(sealed) => Ok(Some(key.open(&secret_purpose(name), &sealed)?)),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests;
