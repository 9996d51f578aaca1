//! Backups: one file, made while the hub runs.
//!
//! A backup is a dump of the engine (a whole database file) with a manifest after it and, at the very end, the
//! manifest's SHA-256, its length and a mark. The manifest has the copy's length and hash, so that a damaged file is
//! found before anything is restored from it. What a hash cannot tell is who made the file: the manifest is authenticated under
//! the data key. The data key is left out unless a passphrase is given; then it is in the manifest, sealed under that
//! passphrase.

mod key;

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use convoke_core::id::HubId;
use convoke_core::journal::{Expected, Summary};
use convoke_core::secret::{SecretBytes, SecretText};
use convoke_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::Result;
use crate::audit::{self, Verdict};
use crate::engine::{self, CURRENT_SCHEMA, Data, Engine, mark_restored, open_dump};
use crate::error::StoreError;
use crate::files::{DirLock, Paths, create_private, private_dir, sync_parent};
use crate::keys;
use crate::seal::DataKey;
use crate::store::now;
use key::WrappedKey;

/// What is wrong with a backup that the data key's holder did not make.
const FORGED: &str = "its manifest was not made with the data key that it names: somebody changed the backup";
/// What is wrong with a backup that nobody can have made for certain.
const UNSIGNED: &str =
    "it has no proof of who made it: an earlier version of convoke made it, or somebody changed it";
/// The version of the format.
const FORMAT: u32 = 1;
/// The last bytes of a backup.
const MARK: &[u8; 16] = b"convoke-backup\r\n";
/// What follows the manifest: its hash, its length, the mark.
const TAIL: u64 = 32 + 4 + MARK.len() as u64;
/// A manifest is far smaller; more is no manifest.
const MAX_MANIFEST: u64 = 64 << 10;

/// What a backup says about itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Manifest {
    convoke_backup: u32,
    /// When it was made.
    pub created_at: Timestamp,
    /// Whose data it is.
    pub hub_id: HubId,
    /// The schema of the database in it.
    pub schema: u32,
    /// The length of the database in it.
    pub db_bytes: u64,
    /// The SHA-256 of the database in it, in hex.
    pub db_sha256: String,
    /// The last record of the journal in it.
    pub journal_seq: u64,
    /// Which data key its secrets are sealed with.
    pub key_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data_key: Option<WrappedKey>,
    /// Authenticates the rest under the data key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seal: Option<String>,
}

/// Whether somebody who has the data key made a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authenticity {
    /// They did.
    Proven,
    /// Nobody can tell without the data key that it names.
    KeyMissing,
    /// It has no proof: an earlier version made it, or somebody took it away.
    Unsigned,
}

impl Manifest {
    /// Whether the data key is in it, under a passphrase.
    pub const fn has_key(&self) -> bool {
        self.data_key.is_some()
    }

    /// Seals it under the data key.
    fn sign(&mut self, key: &DataKey) -> Result<()> {
        self.seal = None;
        self.seal = Some(STANDARD.encode(key.seal(&self.purpose(), b"")?));
        Ok(())
    }

    /// What the seal is for: this very manifest.
    fn purpose(&self) -> String {
        let plain = Self { seal: None, ..self.clone() };
        let bytes = serde_json::to_vec(&plain).expect("plain fields serialise");
        format!("backup:{}", hex::encode(Sha256::digest(bytes)))
    }

    /// Whether who made it had this key.
    fn authenticate(&self, key: Option<&DataKey>, file: &Path) -> Result<Authenticity> {
        let Some(seal) = &self.seal else { return Ok(Authenticity::Unsigned) };
        let Some(key) = key.filter(|key| key.id() == self.key_id) else { return Ok(Authenticity::KeyMissing) };
        let sealed = STANDARD.decode(seal).ok();
        let opened = sealed.and_then(|sealed| key.open(&self.purpose(), &sealed).ok());
        opened.map(|_| Authenticity::Proven).ok_or_else(|| bad(file, FORGED))
    }

    /// The key that it was sealed with, from wherever it can be had: the passphrase, the one given, or a data directory.
    fn key(
        &self,
        passphrase: Option<&SecretText>,
        given: Option<&SecretBytes>,
        dir: Option<&Path>,
    ) -> Result<Option<DataKey>> {
        if let (Some(wrapped), Some(passphrase)) = (&self.data_key, passphrase) {
            return wrapped.open(passphrase, &self.key_id).map(Some);
        }
        if let Some(given) = given {
            let key = DataKey::from_bytes(given.reveal(), "CONVOKE_DATA_KEY")?;
            if key.id() == self.key_id {
                return Ok(Some(key));
            }
        }
        Ok(dir.and_then(|dir| keys::any_in(&Paths::new(dir), &self.key_id)))
    }

    /// Whether this passphrase opens the data key in it. Without one there is nothing to open.
    pub fn check_passphrase(&self, passphrase: &SecretText) -> Result<()> {
        self.data_key.as_ref().map_or(Ok(()), |wrapped| wrapped.open(passphrase, &self.key_id).map(drop))
    }
}

/// Copies a data directory, in use or not, into the new file `to`. With a passphrase the data key goes in too; it is
/// `data_key` when that does not come from the directory's file.
pub fn create(
    data: impl Into<Data>,
    to: &Path,
    passphrase: Option<&SecretText>,
    data_key: Option<&SecretBytes>,
) -> Result<Manifest> {
    let data = data.into();
    let engine = engine::at(&data)?;
    let key_id = engine.view()?.key_id()?.ok_or_else(|| StoreError::NoData(data.dir.clone()))?;
    let key = keys::peek(&Paths::new(&data.dir), data_key, &key_id)?;
    copy(&*engine, to, &key, passphrase)
}

/// Which backups are restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accept {
    /// Those that the data key proves, or could.
    Proven,
    /// Also those of earlier versions, which nothing proves.
    Unsigned,
}

/// A restored data directory.
#[derive(Clone, Debug)]
pub struct Restored {
    /// What the backup said.
    pub manifest: Manifest,
    /// Whether who made it had the data key.
    pub authenticity: Authenticity,
    /// Whether `data.key` was restored too. If not, the operator must put it there before the hub starts.
    pub with_key: bool,
}

/// Puts a backup into `dir`, which must be empty or not there, or hold what an interrupted restore left. The file is checked
/// before, and the result after.
pub fn restore(
    from: &Path,
    dir: &Path,
    passphrase: Option<&SecretText>,
    data_key: Option<&SecretBytes>,
    accept: Accept,
) -> Result<Restored> {
    let (manifest, _) = verify(from)?;
    let key = match (&manifest.data_key, passphrase) {
        (Some(wrapped), Some(passphrase)) => Some(wrapped.open(passphrase, &manifest.key_id)?),
        (None, Some(_)) => {
            return Err(bad(from, "it does not contain a data key"));
        }
        (_, None) => None,
    };
    let known = manifest.key(passphrase, data_key, Some(dir))?;
    let authenticity = manifest.authenticate(known.as_ref(), from)?;
    if authenticity == Authenticity::Unsigned && accept == Accept::Proven {
        return Err(bad(from, UNSIGNED));
    }
    let paths = Paths::new(dir);
    check_free(&paths, &manifest)?;
    private_dir(dir)?;
    let lock = DirLock::take(&paths)?;
    // Under another name until it is whole and checked, so that a hub never starts on half of it.
    let partial = &paths.restoring;
    let _ = fs::remove_file(partial);
    let copied = copy_db(from, partial, &manifest)
        .and_then(|()| check_db(partial, &manifest))
        .and_then(|_| mark_restored(partial));
    if let Err(error) = copied {
        // The directory is as empty as it was, so that it can be tried again.
        let _ = fs::remove_file(partial);
        drop(lock);
        let _ = fs::remove_file(&paths.lock);
        return Err(error);
    }
    if let Some(key) = &key {
        keys::write_next(&paths, key)?;
        keys::adopt_next(&paths)?;
    }
    fs::rename(partial, &paths.db).map_err(|e| StoreError::io("rename", partial, e))?;
    sync_parent(&paths.db)?;
    Ok(Restored { manifest, with_key: key.is_some(), authenticity })
}

/// Whether the directory has nothing but what an interrupted restore of this backup can have left. Anything else is
/// somebody's, and so is a key that is not the backup's.
fn check_free(paths: &Paths, manifest: &Manifest) -> Result<()> {
    let Ok(entries) = fs::read_dir(&paths.dir) else { return Ok(()) };
    let mut other_key = None;
    for entry in entries {
        let found = entry.map_err(|e| StoreError::io("read", &paths.dir, e))?.path();
        let is_ours = if found == paths.key {
            keys::id_in(&found).is_some_and(|id| id == manifest.key_id)
        } else if found == paths.next_key {
            // Half of one is no key.
            keys::id_in(&found).is_none_or(|id| id == manifest.key_id)
        } else {
            found == paths.lock || found == paths.restoring
        };
        if is_ours {
            continue;
        }
        if found == paths.key || found == paths.next_key {
            other_key = Some(found);
            continue;
        }
        let found = found.file_name().unwrap_or_default().to_string_lossy().into_owned();
        return Err(StoreError::NotEmpty { dir: paths.dir.clone(), found });
    }
    // Worth a word only if nothing else is in the way.
    other_key.map_or(Ok(()), |file| Err(StoreError::OtherKeyThere { file, key_id: manifest.key_id.clone() }))
}

/// Checks a backup: that the file is whole and unchanged, that SQLite finds its database sound, and that the journal
/// in it holds.
pub fn verify(file: &Path) -> Result<(Manifest, Summary)> {
    let manifest = read_manifest(file)?;
    let (_, hash) = hash(open(file)?.take(manifest.db_bytes), file)?;
    if hash != manifest.db_sha256 {
        return Err(bad(file, "the file was changed or damaged"));
    }
    let summary = check_db(file, &manifest)?;
    Ok((manifest, summary))
}

/// Who made a backup, as far as the key tells that can be had: by the passphrase, given, or in the data directory.
pub fn authenticity(
    file: &Path,
    passphrase: Option<&SecretText>,
    data_key: Option<&SecretBytes>,
    dir: Option<&Path>,
) -> Result<Authenticity> {
    let manifest = read_manifest(file)?;
    let key = manifest.key(passphrase, data_key, dir)?;
    manifest.authenticate(key.as_ref(), file)
}

/// Dumps an engine's data into the new backup `to`, and checks the result.
pub(crate) fn copy(
    engine: &dyn Engine,
    to: &Path,
    key: &DataKey,
    passphrase: Option<&SecretText>,
) -> Result<Manifest> {
    if to.exists() {
        return Err(StoreError::Exists(to.to_owned()));
    }
    let mut partial = to.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    // What an earlier attempt left behind.
    let _ = fs::remove_file(&partial);
    drop(create_private(&partial)?);
    let made =
        write_backup(engine, &partial, key, passphrase).and_then(|manifest| verify(&partial).map(|_| manifest));
    let manifest = match made {
        Ok(manifest) => manifest,
        Err(error) => {
            let _ = fs::remove_file(&partial);
            return Err(error);
        }
    };
    // A hard link fails when the name is taken, where a rename would replace what is there.
    let placed = fs::hard_link(&partial, to).and_then(|()| fs::remove_file(&partial));
    if let Err(error) = placed {
        if to.exists() {
            return Err(StoreError::Exists(to.to_owned()));
        }
        tracing::debug!(%error, "no hard links here; renaming");
        fs::rename(&partial, to).map_err(|e| StoreError::io("rename", &partial, e))?;
    }
    sync_parent(to)?;
    Ok(manifest)
}

fn write_backup(engine: &dyn Engine, to: &Path, key: &DataKey, passphrase: Option<&SecretText>) -> Result<Manifest> {
    engine.dump(to)?;
    let mut file = OpenOptions::new().read(true).write(true).open(to).map_err(|e| StoreError::io("open", to, e))?;
    let io = |e| StoreError::io("write", to, e);
    let (db_bytes, db_sha256) = hash(&mut file, to)?;
    let dump = open_dump(to)?;
    let key_id = dump.key_id()?.ok_or_else(|| StoreError::Corrupt("the key's id is missing".into()))?;
    if key.id() != key_id {
        return Err(StoreError::WrongKey { from: "the hub".into() });
    }
    let mut manifest = Manifest {
        convoke_backup: FORMAT,
        created_at: now(),
        hub_id: dump.hub_id()?,
        schema: dump.schema()?,
        db_bytes,
        db_sha256,
        journal_seq: dump.last_seq()?,
        data_key: passphrase.map(|passphrase| WrappedKey::seal(key, passphrase, &key_id)).transpose()?,
        key_id,
        seal: None,
    };
    manifest.sign(key)?;
    drop(dump);
    let manifest_bytes = serde_json::to_vec(&manifest).expect("plain fields serialise");
    let length = u32::try_from(manifest_bytes.len()).expect("a manifest is a few hundred bytes");
    file.write_all(&manifest_bytes)
        .and_then(|()| file.write_all(&Sha256::digest(&manifest_bytes)))
        .and_then(|()| file.write_all(&length.to_be_bytes()))
        .and_then(|()| file.write_all(MARK))
        .and_then(|()| file.sync_all())
        .map_err(io)?;
    Ok(manifest)
}

fn read_manifest(path: &Path) -> Result<Manifest> {
    let mut file = open(path)?;
    let io = |e| StoreError::io("read", path, e);
    let length = file.metadata().map_err(io)?.len();
    let no_backup = || bad(path, "it does not end like a backup; it may have been cut off");
    if length < TAIL {
        return Err(no_backup());
    }
    file.seek(SeekFrom::Start(length - TAIL)).map_err(io)?;
    let mut tail = [0; TAIL as usize];
    file.read_exact(&mut tail).map_err(io)?;
    let (hash, rest) = tail.split_first_chunk::<32>().ok_or_else(no_backup)?;
    let (size, mark) = rest.split_first_chunk::<4>().ok_or_else(no_backup)?;
    let size = u64::from(u32::from_be_bytes(*size));
    if mark != MARK || size > MAX_MANIFEST || size + TAIL > length {
        return Err(no_backup());
    }
    file.seek(SeekFrom::Start(length - TAIL - size)).map_err(io)?;
    let mut bytes = Vec::new();
    file.take(size).read_to_end(&mut bytes).map_err(io)?;
    if Sha256::digest(&bytes)[..] != hash[..] {
        return Err(bad(path, "its manifest was changed or damaged"));
    }
    let manifest: Manifest = serde_json::from_slice(&bytes).map_err(|_| bad(path, "its manifest cannot be read"))?;
    if manifest.convoke_backup != FORMAT {
        return Err(bad(path, "it was made by a newer convoke"));
    }
    if manifest.db_bytes != length - TAIL - size {
        return Err(bad(path, "its manifest does not fit its length"));
    }
    if manifest.schema > CURRENT_SCHEMA {
        return Err(StoreError::NewerSchema { found: manifest.schema, known: CURRENT_SCHEMA });
    }
    Ok(manifest)
}

/// Takes the database out of a backup.
fn copy_db(from: &Path, to: &Path, manifest: &Manifest) -> Result<()> {
    let mut source = open(from)?.take(manifest.db_bytes);
    let mut target = create_private(to)?;
    std::io::copy(&mut source, &mut target)
        .and_then(|_| target.sync_all())
        .map_err(|e| StoreError::io("write", to, e))
}

/// Checks the database in `file`, with or without a manifest behind it.
fn check_db(file: &Path, manifest: &Manifest) -> Result<Summary> {
    let dump = open_dump(file)?;
    let expected = Expected { hub_id: Some(manifest.hub_id), ..Expected::default() };
    match audit::verify_view(&*dump, expected)? {
        Verdict::Good(summary) if summary.last_seq == manifest.journal_seq => Ok(summary),
        Verdict::Good(_) => Err(bad(file, "its journal does not end where its manifest says")),
        Verdict::Bad(finding) => Err(bad(file, &format!("its journal does not hold: {finding}"))),
        Verdict::Damaged { why, .. } => Err(bad(file, &why)),
        Verdict::DamagedLog(damage) => Err(bad(file, &damage.to_string())),
    }
}

/// Length and SHA-256 of what is left to read.
fn hash(mut reader: impl std::io::Read, path: &Path) -> Result<(u64, String)> {
    let mut hash = Sha256::new();
    let mut length = 0;
    let mut buffer = vec![0; 1 << 20];
    loop {
        let read = reader.read(&mut buffer).map_err(|e| StoreError::io("read", path, e))?;
        if read == 0 {
            return Ok((length, hex::encode(hash.finalize())));
        }
        hash.update(&buffer[..read]);
        length += read as u64;
    }
}

fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|e| StoreError::io("open", path, e))
}

fn bad(file: &Path, why: &str) -> StoreError {
    StoreError::BadBackup { file: file.to_owned(), why: why.into() }
}
