//! Room on the disk for `hub.db-shm`, the index of the write-ahead log, which every connection has in its memory.
//!
//! SQLite makes the file as long as it must be, and has each page of it begin to exist on the disk; where the file system's
//! blocks are smaller than a page, the rest of the page begins to exist when it is written to. If the disk is full by then, the
//! system has no other way to say so than to end the process. So the hub has the whole file exist before it depends on it.

use std::path::Path;

use crate::Result;
#[cfg(target_os = "linux")]
use crate::error::StoreError;

/// As much as a log of 16,000 pages needs, which is eight times as long as it gets while the database keeps up.
#[cfg(target_os = "linux")]
const ROOM: u64 = 128 * 1024;

/// To be called once the database is open. Where the file system knows nothing of this, everything stays as it is.
#[cfg(target_os = "linux")]
pub(super) fn make_room(shm: &Path) -> Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::Errno;

    let Ok(file) = std::fs::OpenOptions::new().write(true).open(shm) else { return Ok(()) };
    let made = fallocate(&file, FallocateFlags::KEEP_SIZE, 0, ROOM);
    // Whoever closes a file gives up all locks of the process on it, and those on this one are SQLite's: it stays open.
    std::mem::forget(file);
    if made == Err(Errno::NOSPC) { Err(StoreError::DiskFull) } else { Ok(()) }
}

#[cfg(not(target_os = "linux"))]
pub(super) const fn make_room(_: &Path) -> Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    #[cfg(target_os = "linux")]
    #[test]
    fn all_of_the_index_is_on_the_disk_and_the_database_works_on() {
        use std::os::unix::fs::MetadataExt as _;

        use super::{ROOM, make_room};

        let here = std::env::current_exe().expect("this program").parent().expect("its directory").to_owned();
        let dir = tempfile::tempdir_in(here).expect("a directory");
        let db = dir.path().join("x.db");
        let conn = super::super::schema::open_writable(&db).expect("opens");
        conn.execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (1)").expect("is written");
        let shm = dir.path().join("x.db-shm");
        let length = || shm.metadata().expect("is there").len();
        let before = length();
        make_room(&shm).expect("there is room");
        assert_eq!(length(), before);
        assert!(shm.metadata().expect("is there").blocks() * 512 >= ROOM);
        let other = super::super::schema::open_readable(&db).expect("opens");
        assert_eq!(other.query_row("SELECT a FROM t", [], |row| row.get::<i64>(0)).expect("reads"), 1);
        drop(other);
        drop(conn);
        assert!(!shm.exists(), "SQLite removes it as ever");
    }
}
