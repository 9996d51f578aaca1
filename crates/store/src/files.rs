//! The files of a data directory, who may read them, and the lock that keeps a second hub out.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::StoreError;

/// Where things are in a data directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// The directory.
    pub dir: PathBuf,
    /// The database (beside it SQLite keeps `hub.db-wal` and `hub.db-shm` while it is open).
    pub db: PathBuf,
    /// The database's write-ahead log.
    pub wal: PathBuf,
    /// The log's index.
    pub shm: PathBuf,
    /// Where version 0.1.0 kept the newest records of the journal; joined to the database by the next start.
    pub tail: PathBuf,
    /// There only while a damaged log is being accepted: what is behind the damage may be gone, and the database does not
    /// say so yet.
    pub accepting: PathBuf,
    /// The data key.
    pub key: PathBuf,
    /// The next data key, only while it is being rotated.
    pub next_key: PathBuf,
    /// The database that a backup is being restored to, until it is whole and checked.
    pub restoring: PathBuf,
    /// The lock; it holds the id of the process that has the directory.
    pub lock: PathBuf,
    /// Space that is freed for withdrawals when the disk is full.
    pub reserve: PathBuf,
    /// Where a running hub says how to reach it. One that was killed leaves it behind.
    pub whereabouts: PathBuf,
}

impl Paths {
    /// The paths in `dir`.
    pub fn new(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            db: dir.join("hub.db"),
            wal: dir.join("hub.db-wal"),
            shm: dir.join("hub.db-shm"),
            tail: dir.join("hub.db-tail"),
            accepting: dir.join("hub.db-wal.accepting"),
            key: dir.join("data.key"),
            next_key: dir.join("data.key.new"),
            restoring: dir.join("hub.db.restoring"),
            lock: dir.join("hub.lock"),
            reserve: dir.join("hub.reserve"),
            whereabouts: dir.join("hub.json"),
        }
    }

    /// Where a data key that was replaced is kept: backups that were made before need it.
    pub fn old_key(&self, id: &str) -> PathBuf {
        self.dir.join(format!("data.key.{id}"))
    }

    /// The paths in `dir`, which must hold a database.
    pub(crate) fn existing(dir: &Path) -> Result<Self, StoreError> {
        let paths = Self::new(dir);
        match fs::metadata(&paths.db) {
            Ok(meta) if meta.len() > 0 => Ok(paths),
            Ok(_) => Err(StoreError::NoData(dir.to_owned())),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Err(StoreError::NoData(dir.to_owned())),
            Err(e) => Err(StoreError::io("read", &paths.db, e)),
        }
    }

    /// Whether a hub belongs here whose database is missing: a restore of it was interrupted; or its key is there, and the
    /// mark of a process that had the directory. To begin anew in its place would look like a hub that forgot everything.
    pub(crate) fn check_not_lost(&self) -> Result<(), StoreError> {
        if fs::metadata(&self.db).is_ok_and(|meta| meta.len() > 0) {
            Ok(())
        } else if self.restoring.exists() {
            Err(StoreError::HalfRestored(self.dir.clone()))
        } else if self.key.exists() && self.lock.exists() {
            Err(StoreError::Lost(self.dir.clone()))
        } else {
            Ok(())
        }
    }
}

/// Makes a directory that only its owner may enter, unless it is there.
pub(crate) fn private_dir(dir: &Path) -> Result<(), StoreError> {
    convoke_files::private_dir(dir).map_err(|e| StoreError::io("make the directory", dir, e))
}

/// Makes a new file that only its owner may read. Fails when it is there.
pub(crate) fn create_private(path: &Path) -> Result<File, StoreError> {
    private(OpenOptions::new().write(true).create_new(true)).open(path).map_err(|e| not_made(path, e))
}

fn not_made(path: &Path, error: std::io::Error) -> StoreError {
    match error.kind() {
        std::io::ErrorKind::AlreadyExists => StoreError::Exists(path.to_owned()),
        _ => StoreError::io("make", path, error),
    }
}

/// Makes sure that the file exists, and that only its owner may read it if it did not.
pub(crate) fn touch_private(path: &Path) -> Result<File, StoreError> {
    private(OpenOptions::new().read(true).write(true).create(true).truncate(false))
        .open(path)
        .map_err(|e| StoreError::io("open", path, e))
}

fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// Writes a new private file so that it is there in full after a power cut, or not at all.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    convoke_files::create(path, bytes).map_err(|e| not_made(path, e))
}

/// Makes a rename or a new file in `path`'s directory survive a power cut.
pub(crate) fn sync_parent(path: &Path) -> Result<(), StoreError> {
    convoke_files::sync_parent(path).map_err(|e| StoreError::io("sync the directory of", path, e))
}

/// How often a directory that is held is tried again, and how long after: somebody may only have looked whether it is.
const LOCK_TRIES: u32 = 5;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Holds a data directory for writing. The system lets go of it when the process ends, however it ends.
#[derive(Debug)]
pub(crate) struct DirLock {
    _file: File,
}

/// Who holds a data directory for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its process; on some systems it cannot be read while it is held.
    pub pid: Option<u32>,
}

/// Who holds this data directory for writing, if anybody does. What else is left there says nothing: who wrote it may be
/// dead, and its id another's.
pub fn holder(dir: &Path) -> Option<Holder> {
    let file = File::open(Paths::new(dir).lock).ok()?;
    // Let go of at once, with the file; whoever wants the directory at that very moment tries again.
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)).then(|| Holder { pid: written_pid(&file) })
}

/// The process that wrote itself into the lock.
fn written_pid(lock: &File) -> Option<u32> {
    let mut text = String::new();
    lock.take(20).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

impl DirLock {
    /// Takes the directory, or says who has it.
    pub(crate) fn take(paths: &Paths) -> Result<Self, StoreError> {
        let mut file = touch_private(&paths.lock)?;
        let mut tries = LOCK_TRIES;
        let locked = loop {
            match file.try_lock() {
                Err(TryLockError::WouldBlock) if tries > 0 => tries -= 1,
                locked => break locked,
            }
            std::thread::sleep(LOCK_PAUSE);
        };
        match locked {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                // The message may have to go without the id.
                let holder =
                    written_pid(&file).map_or_else(|| "another process".into(), |pid| format!("process {pid}"));
                return Err(StoreError::Locked { dir: paths.dir.clone(), holder });
            }
            Err(TryLockError::Error(e)) => return Err(StoreError::io("lock", &paths.lock, e)),
        }
        let pid = format!("{}\n", std::process::id());
        file.set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| file.write_all(pid.as_bytes()))
            .map_err(|e| StoreError::io("write", &paths.lock, e))?;
        // Of whoever was here before: its port may be anybody's by now.
        let _ = fs::remove_file(&paths.whereabouts);
        Ok(Self { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_a_directory_is_its_holder_and_removes_where_the_one_before_was() {
        let dir = tempfile::tempdir().expect("a directory");
        let paths = Paths::new(dir.path());
        fs::write(&paths.whereabouts, "{}").expect("written");
        assert_eq!(holder(dir.path()), None);
        let lock = DirLock::take(&paths).expect("taken");
        assert_eq!(holder(dir.path()), Some(Holder { pid: Some(std::process::id()) }));
        assert!(!paths.whereabouts.exists());
        drop(lock);
        assert_eq!(holder(dir.path()), None);
    }
}
