//! The shared suite on the embedded engine.

mod suite;

use std::sync::Arc;

use convoke_store::{OpenOptions, SqliteStore, Store};

suite::for_backend!(SqliteBackend);

/// A data directory that lives as long as the test, opened as often as the test likes.
struct SqliteBackend(tempfile::TempDir);

impl suite::Backend for SqliteBackend {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory"))
    }

    fn open(&self) -> Arc<dyn Store> {
        Arc::new(SqliteStore::open(OpenOptions::new(self.0.path())).expect("opens"))
    }
}
