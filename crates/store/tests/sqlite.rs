//! The shared suite on the embedded engine.

mod suite;

use std::sync::Arc;

use convoke_store::{OpenOptions, SqlStore, Store};

macro_rules! one_test {
    ($backend:ty; $($module:ident: $($test:ident),* $(,)?;)*) => {
        $($(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                suite::$module::$test(&<$backend as suite::Backend>::new()).await;
            }
        )*)*
    };
}

suite::for_backend!(SqliteBackend, one_test);

/// A data directory that lives as long as the test, opened as often as the test likes.
struct SqliteBackend(tempfile::TempDir);

impl suite::Backend for SqliteBackend {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory"))
    }

    fn open(&self) -> Arc<dyn Store> {
        Arc::new(SqlStore::open(OpenOptions::new(self.0.path())).expect("opens"))
    }
}
