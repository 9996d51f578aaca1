//! Moves the write-ahead log into the database beside the writer, so that the writer does not stall on it.
//!
//! A thread of its own copies the bulk while the writer goes on. Under steady load it never quite catches up, so once
//! the log is long the writer copies the small rest between two groups, after which the log starts over.
//!
//! And looks whether the log is still where the next start will look for it. SQLite would write to one that somebody removed
//! for as long as the hub runs, and all of that would be gone with a kill.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;

use super::schema;
use crate::Result;
use crate::error::StoreError;

/// The log is looked at after this much was written.
const LOOK_EVERY_BYTES: usize = 512 << 10;
/// … or after so many commits, which have a page or two each at the least.
const LOOK_EVERY_COMMITS: u32 = 64;
/// Pages not yet in the database that wake the thread (8 MiB).
const WAKE_AT_PAGES: i64 = 1_000;
/// Length of the log at which the writer finishes it off itself (16 MiB). A log that is written over costs less to sync
/// than one that grows, since the file system has no new length to keep; so it should not be long before it is.
const LONG_LOG_PAGES: i64 = 2_000;

#[derive(Debug)]
pub(super) struct WalKeeper {
    thread: Option<JoinHandle<()>>,
    state: Arc<State>,
    bytes: usize,
    commits: u32,
    log: PathBuf,
    /// Which file the log is: its device, and its number there.
    known: Option<(u64, u64)>,
    /// It is not there any more.
    is_gone: bool,
}

#[derive(Debug, Default)]
struct State {
    wanted: AtomicBool,
    ended: AtomicBool,
}

impl WalKeeper {
    pub(super) fn start(db: &Path, log: &Path) -> Result<Self> {
        let conn = schema::open_writable(db)?;
        let state = Arc::new(State::default());
        let thread = thread::Builder::new()
            .name("store-wal".into())
            .spawn({
                let state = Arc::clone(&state);
                move || {
                    while !state.ended.load(Relaxed) {
                        if state.wanted.load(Relaxed) {
                            conn.sqlite().into_iter().for_each(copy);
                            state.wanted.store(false, Relaxed);
                        } else {
                            thread::park();
                        }
                    }
                }
            })
            .map_err(|e| StoreError::Io { what: "start the log's thread".into(), source: Arc::new(e) })?;
        // SQLite makes it when the database is opened.
        let known = which(log);
        Ok(Self { thread: Some(thread), state, bytes: 0, commits: 0, log: log.to_owned(), known, is_gone: false })
    }

    /// Called by the writer between two groups.
    pub(super) fn after_commit(&mut self, conn: &Connection, bytes: usize) {
        self.look_for_log();
        if self.is_gone {
            copy(conn);
            return;
        }
        self.bytes += bytes;
        self.commits += 1;
        if self.bytes < LOOK_EVERY_BYTES && self.commits < LOOK_EVERY_COMMITS {
            return;
        }
        (self.bytes, self.commits) = (0, 0);
        if self.state.wanted.load(Relaxed) {
            return;
        }
        let Ok((pages, copied)) = conn
            .prepare_cached("PRAGMA wal_checkpoint(NOOP)")
            .and_then(|mut s| s.query_row([], |row| Ok((row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))))
        else {
            return;
        };
        if pages - copied >= WAKE_AT_PAGES {
            self.state.wanted.store(true, Relaxed);
            if let Some(thread) = &self.thread {
                thread.thread().unpark();
            }
        } else if pages >= LONG_LOG_PAGES && copied < pages {
            copy(conn);
        }
    }

    fn look_for_log(&mut self) {
        let found = which(&self.log);
        if self.known.is_none() {
            self.known = found;
        } else if self.known != found && !self.is_gone {
            self.is_gone = true;
            tracing::error!(
                log = %self.log.display(),
                "another program removed or replaced the write-ahead log; the hub now copies it into the \
                 database after each commit, which is slow: restart the hub"
            );
        }
    }

    /// Ends the thread.
    pub(super) fn finish(&mut self) {
        self.state.ended.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

impl Drop for WalKeeper {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Which file this is: its device, and its number there.
#[cfg(unix)]
fn which(log: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    log.symlink_metadata().ok().map(|file| (file.dev(), file.ino()))
}

/// Which file this is; nobody can tell here.
#[cfg(not(unix))]
const fn which(_: &Path) -> Option<(u64, u64)> {
    None
}

/// Copies what no reader still needs, and waits for nobody.
fn copy(conn: &Connection) {
    let copied = conn.prepare_cached("PRAGMA wal_checkpoint(PASSIVE)").and_then(|mut s| s.query_row([], |_| Ok(())));
    if let Err(error) = copied {
        // The data is safe in the log; the next look tries again.
        tracing::warn!(error = &error as &dyn std::error::Error, "cannot copy the write-ahead log into the database");
    }
}
