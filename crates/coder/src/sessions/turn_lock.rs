//! One turn at a time in a session, also when several processes have it open: each begins where the one before ended.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::file::is_deleted;
use crate::files::private_options;

/// Held for as long as a turn runs. The system lets go of it with the process, however that ends.
#[derive(Debug)]
pub(crate) struct TurnLock {
    path: PathBuf,
    _file: File,
}

impl TurnLock {
    /// The lock of the session in this file, unless another turn has it.
    pub(crate) fn try_take(session: &Path) -> io::Result<Option<Self>> {
        let path = session.with_extension("turn");
        loop {
            let file = private_options().write(true).create(true).truncate(false).open(&path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(why)) => return Err(why),
            }
            // Whoever had it before has removed it meanwhile.
            if !is_deleted(&file)? {
                return Ok(Some(Self { path, _file: file }));
            }
        }
    }
}

impl Drop for TurnLock {
    fn drop(&mut self) {
        // One that stays is taken by the next turn.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_it_at_a_time_and_nothing_stays() {
        let dir = tempfile::tempdir().unwrap();
        let session = dir.path().join("s.jsonl");
        let lock = TurnLock::try_take(&session).unwrap().unwrap();
        assert!(TurnLock::try_take(&session).unwrap().is_none());
        drop(lock);
        drop(TurnLock::try_take(&session).unwrap().unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
