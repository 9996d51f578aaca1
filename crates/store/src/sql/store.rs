//! The store over a database, and what every database of a hub has.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use convoke_core::confirm::ConfirmRule;
use convoke_core::id::HubId;
use convoke_core::secret::SecretBytes;
use ed25519_dalek::SigningKey;
use zeroize::Zeroizing;

use super::hubs::ClusterSeat;
use super::queue::Queue;
use super::readers::Readers;
use super::{Connection, OptionalExtension as _, people};
use crate::error::StoreError;
use crate::files::Paths;
use crate::postgres::{self, Server};
use crate::seal::{DataKey, random};
use crate::store::now;
use crate::{Result, sqlite};

/// The secret under which the hub's own key is kept.
pub(crate) const HUB_KEY: &str = "hub_key";
/// Its public half, in the open, for exports.
pub(crate) const PUBLIC_KEY: &str = "hub_public_key";
/// Since when the database is of an earlier time, a backup's or one before a damage, and no hub has started on it.
pub(crate) const RESTORED: &str = "restored_at";

/// How to open a store.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// The data directory; made if it is not there.
    pub dir: PathBuf,
    /// The data key, 32 bytes, when it does not come from the file `data.key`. See [`keys::parse`](crate::keys::parse).
    pub data_key: Option<SecretBytes>,
    /// The server that has the database, when it is not in the directory, and the hub's name there.
    pub server: Option<(Server, String)>,
    /// How long the hub's lease is, where several hubs share the server's database. Without one it must be alone there.
    pub lease: Option<Duration>,
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
            server: None,
            lease: None,
            hub_seed: None,
            queue_limit: 4_096,
            readers: 4,
            accept_damaged_log: false,
        }
    }
}

/// The store of a hub.
#[derive(Debug)]
pub struct SqlStore {
    pub(super) hub_id: HubId,
    pub(super) paths: Paths,
    /// The server that has the database, when it is not in the directory.
    pub(super) server: Option<Server>,
    /// Its place among several hubs.
    pub(super) cluster: Option<Arc<ClusterSeat>>,
    pub(super) key: Arc<DataKey>,
    hub_key: SigningKey,
    pub(crate) queue: Queue,
    pub(crate) readers: Readers,
}

impl SqlStore {
    /// Opens the store, makes what is missing, and takes it for this process. Blocks; call it before serving, or on a
    /// blocking thread.
    ///
    /// A store must be closed ([`crate::Store::close`]) before it can be opened again in this process.
    pub fn open(options: OpenOptions) -> Result<Self> {
        match &options.server {
            None => sqlite::open(&options),
            Some((server, name)) => postgres::open(&options, server, name),
        }
    }

    pub(crate) fn new(
        hub_id: HubId,
        paths: Paths,
        server: Option<Server>,
        key: DataKey,
        hub_key: SigningKey,
        queue: Queue,
        readers: Readers,
    ) -> Self {
        Self { hub_id, paths, server, cluster: None, key: Arc::new(key), hub_key, queue, readers }
    }

    /// The same, as one of several hubs.
    pub(crate) fn with_seat(self, seat: ClusterSeat) -> Self {
        Self { cluster: Some(Arc::new(seat)), ..self }
    }

    /// Where its files are.
    pub const fn paths(&self) -> &Paths {
        &self.paths
    }

    /// The hub's own Ed25519 key: agents know the hub by it. It signs the journal's checkpoints, too, unless several hubs share
    /// a database.
    pub fn hub_key(&self) -> &SigningKey {
        &self.hub_key
    }
}

/// A fact about the store itself.
pub(crate) fn meta(conn: &Connection, name: &str) -> Result<Option<String>> {
    conn.query_row("SELECT value FROM meta WHERE name = ?1", [name], |row| row.get(0)).optional()
}

pub(crate) fn set_meta(conn: &Connection, name: &str, value: &str) -> Result<()> {
    let sql = "INSERT INTO meta VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = excluded.value";
    conn.execute(sql, [name, value]).map(drop)
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

/// What every new database starts with.
pub(crate) fn put_defaults(conn: &Connection, key: &DataKey) -> Result<()> {
    set_meta(conn, "key_id", &key.id())?;
    set_meta(conn, "created_at", &now().to_string())?;
    people::put_rule(conn, &ConfirmRule::default_rule())
}

/// A secret by name.
pub(crate) fn secret(conn: &Connection, key: &DataKey, name: &str) -> Result<Option<SecretBytes>> {
    let sealed = people::sealed_secret(conn, name)?;
    sealed.map(|sealed| key.open(&people::secret_purpose(name), &sealed)).transpose()
}

/// A signing key: the one that is kept under this name, or at the first start the one from outside, or a new one. Its public
/// half is noted as `public`, and another never takes its place.
pub(crate) fn own_or_new_key(
    conn: &Connection,
    key: &DataKey,
    name: &str,
    public: &str,
    from_outside: Option<&SecretBytes>,
) -> Result<SigningKey> {
    let known = meta(conn, public)?;
    let kept = secret(conn, key, name)?.map(|seed| signing_key(&seed)).transpose()?;
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
        conn.transaction(|conn| {
            let sealed = key.seal(&people::secret_purpose(name), signer.as_bytes())?;
            people::put_sealed_secret(conn, name, &sealed)?;
            set_meta(conn, public, &public_key)
        })?;
    }
    Ok(signer)
}

fn signing_key(seed: &SecretBytes) -> Result<SigningKey> {
    let seed = <[u8; 32]>::try_from(seed.reveal())
        .map(Zeroizing::new)
        .map_err(|_| StoreError::MalformedKey { from: "the hub's private key".into() })?;
    Ok(SigningKey::from_bytes(&seed))
}
