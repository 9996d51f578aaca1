//! The data key: where it comes from, and how it is replaced.
//!
//! The database remembers which key it is sealed with (by an id that tells nothing about the key), so that the wrong
//! one is refused at the door and a rotation that a power cut interrupted is finished or undone, never half done.

use std::fs;
use std::path::{Path, PathBuf};

use convoke_core::door::Door;
use convoke_core::journal::{Draft, Kind};
use convoke_core::secret::{SecretBytes, SecretText};
use serde_json::json;

use crate::Result;
use crate::engine::{self, Data};
use crate::error::StoreError;
use crate::files::{Paths, sync_parent, write_private};
use crate::seal::DataKey;
use crate::store::now;

/// Names the environment in messages.
const ENVIRONMENT: &str = "CONVOKE_DATA_KEY";

/// Reads a data key from the base64 text of `CONVOKE_DATA_KEY`.
pub fn parse(text: &SecretText) -> Result<SecretBytes> {
    DataKey::from_text(text.reveal(), ENVIRONMENT).map(|key| SecretBytes::new(*key.bytes()))
}

/// What a rotation did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rotated {
    /// How many sealed values there are.
    pub values: usize,
    /// Whether the new key is in the file `data.key`. If not, it is the one that was passed in.
    pub in_file: bool,
    /// Where the key is kept that was replaced, if it was in `data.key`. Backups made before the rotation need it.
    pub old_key: Option<PathBuf>,
    /// Where another key is kept that was in `data.key`, while the one in force came from outside.
    pub other_key: Option<PathBuf>,
}

/// Seals everything anew. `current` is the key in force when it does not come from the file, `new` the next one when
/// it should not go to the file. The hub must not be running.
pub fn rotate(data: impl Into<Data>, current: Option<&SecretBytes>, new: Option<&SecretBytes>) -> Result<Rotated> {
    let place = data.into();
    let paths = Paths::new(&place.dir);
    let mut data = engine::at(&place)?.take()?;
    let old = load(&paths, current, &data.key_id()?.ok_or_else(|| StoreError::NoData(place.dir.clone()))?)?;
    // What is sealed is where the newest schema has it, and the record of the rotation comes after all others.
    data.migrate()?;
    // Before anything else: whatever happens from here on, what is in the file stays on the disk.
    let (old_key, other_key) = match keep(&paths, current.is_none() || new.is_none())? {
        Some((id, kept)) if id == old.id() => (Some(kept), None),
        other => (None, other.map(|(_, kept)| kept)),
    };
    let next = match new {
        Some(bytes) => DataKey::from_bytes(bytes.reveal(), "the new key")?,
        None => {
            let key = DataKey::generate()?;
            // Before the database names it: a power cut after the commit must not leave sealed values without key.
            write_next(&paths, &key)?;
            key
        }
    };
    let values = data.reseal(&old, &next, &|values| record(&old, &next, values))?;
    if new.is_none() {
        adopt_next(&paths)?;
    } else if current.is_none() {
        // Its values are sealed with the new one now; left behind, it would only be taken for the right key.
        remove(&paths.key)?;
    }
    Ok(Rotated { values, in_file: new.is_none(), old_key, other_key })
}

/// Keeps the key that is in `data.key` under a name of its own, if another is about to take its place; with its id, since
/// it need not be the one in force.
fn keep(paths: &Paths, is_replaced: bool) -> Result<Option<(String, PathBuf)>> {
    if !is_replaced {
        return Ok(None);
    }
    let key = match read_key(&paths.key) {
        Ok(Some(key)) => key,
        // What is no key opens nothing.
        Ok(None) | Err(StoreError::MalformedKey { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let kept = paths.old_key(&key.id());
    // An attempt that was interrupted may have left half of it; the whole is still in `data.key`.
    remove(&kept)?;
    write_key(&kept, &key)?;
    Ok(Some((key.id(), kept)))
}

/// The ids tell nothing about the keys; with them a backup's key is found in the record.
fn record(old: &DataKey, new: &DataKey, values: usize) -> Draft {
    let what = json!({ "what": "data key rotated", "key_id": new.id(), "replaced": old.id(), "values": values });
    let mut record = Draft::new(now(), Kind::Hub).detail(&what);
    record.door = Some(Door::Cli);
    record
}

/// The key of a new store: the given one, or the file, which is made if it is not there.
pub(crate) fn first(paths: &Paths, given: Option<&SecretBytes>) -> Result<DataKey> {
    if let Some(given) = given {
        return DataKey::from_bytes(given.reveal(), ENVIRONMENT);
    }
    if let Some(key) = read_key(&paths.key)? {
        return Ok(key);
    }
    let key = DataKey::generate()?;
    // Under its name only when it is whole: half a key would lock the operator out of a new directory.
    write_next(paths, &key)?;
    adopt_next(paths)?;
    Ok(key)
}

/// The key with this id. Finishes or undoes a rotation that was interrupted.
pub(crate) fn load(paths: &Paths, given: Option<&SecretBytes>, key_id: &str) -> Result<DataKey> {
    if let Some(given) = given {
        let key = DataKey::from_bytes(given.reveal(), ENVIRONMENT)?;
        return if key.id() == key_id { Ok(key) } else { Err(StoreError::WrongKey { from: ENVIRONMENT.into() }) };
    }
    // One that cannot be read was being written when the power went, and nothing is sealed with it.
    if let Ok(Some(next)) = read_key(&paths.next_key)
        && next.id() == key_id
    {
        adopt_next(paths)?;
        return Ok(next);
    }
    match read_key(&paths.key)? {
        Some(key) if key.id() == key_id => {
            // A rotation may have begun that never came to its commit.
            remove(&paths.next_key)?;
            warn_if_open(&paths.key);
            Ok(key)
        }
        Some(_) => Err(StoreError::WrongKey { from: paths.key.display().to_string() }),
        None => Err(StoreError::KeyMissing { file: paths.key.clone() }),
    }
}

/// The key that the database at `paths` is sealed with, changing nothing.
pub(crate) fn peek(paths: &Paths, given: Option<&SecretBytes>, key_id: &str) -> Result<DataKey> {
    if given.is_none()
        && let Ok(Some(next)) = read_key(&paths.next_key)
        && next.id() == key_id
    {
        return Ok(next);
    }
    match (given, read_key(&paths.key)?) {
        (None, Some(key)) if key.id() == key_id => Ok(key),
        (None, Some(_)) => Err(StoreError::WrongKey { from: paths.key.display().to_string() }),
        (None, None) => Err(StoreError::KeyMissing { file: paths.key.clone() }),
        (Some(_), _) => load(paths, given, key_id),
    }
}

/// The key of this id in a directory, in force or replaced.
pub(crate) fn any_in(paths: &Paths, key_id: &str) -> Option<DataKey> {
    let files = [paths.key.clone(), paths.next_key.clone(), paths.old_key(key_id)];
    files.iter().filter_map(|file| read_key(file).ok().flatten()).find(|key| key.id() == key_id)
}

/// Writes the key as the next one.
pub(crate) fn write_next(paths: &Paths, key: &DataKey) -> Result<()> {
    remove(&paths.next_key)?;
    write_key(&paths.next_key, key)
}

fn write_key(path: &Path, key: &DataKey) -> Result<()> {
    let mut text = key.to_text();
    text.push('\n');
    write_private(path, text.as_bytes())
}

fn read_key(path: &Path) -> Result<Option<DataKey>> {
    match fs::read_to_string(path).map(zeroize::Zeroizing::new) {
        Ok(text) => DataKey::from_text(&text, &path.display().to_string()).map(Some),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(StoreError::io("read", path, e)),
    }
}

/// Somebody may have copied the key to where it is, with other rights than it is made with.
fn warn_if_open(path: &Path) {
    #[cfg(unix)]
    if fs::metadata(path).is_ok_and(|file| std::os::unix::fs::PermissionsExt::mode(&file.permissions()) & 0o077 != 0)
    {
        tracing::warn!("others on this machine can read {}; run `chmod 600` on it", path.display());
    }
    #[cfg(not(unix))]
    let _ = path;
}

/// Which key a file holds, if it holds one.
pub(crate) fn id_in(path: &Path) -> Option<String> {
    read_key(path).ok().flatten().map(|key| key.id())
}

/// The next key becomes the key.
pub(crate) fn adopt_next(paths: &Paths) -> Result<()> {
    fs::rename(&paths.next_key, &paths.key).map_err(|e| StoreError::io("rename", &paths.next_key, e))?;
    sync_parent(&paths.key)
}

/// Removes a key's file, if it is there.
fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Ok(()) => sync_parent(path),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(StoreError::io("remove", path, e)),
    }
}
