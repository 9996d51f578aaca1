//! Readers: a few connections beside the writer, used on blocking threads so that no read holds up the runtime.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::schema;
use crate::Result;
use crate::error::StoreError;

/// A bounded set of read connections, opened when first needed.
#[derive(Clone, Debug)]
pub(super) struct Readers {
    db: PathBuf,
    idle: Arc<Mutex<Vec<Connection>>>,
    permits: Arc<Semaphore>,
}

impl Readers {
    pub(super) fn new(db: PathBuf, limit: usize) -> Self {
        Self { db, idle: Arc::default(), permits: Arc::new(Semaphore::new(limit.max(1))) }
    }

    /// Runs `work` on a free connection; waits for one when all are in use.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(|_| StoreError::Closed)?;
        let (idle, db) = (Arc::clone(&self.idle), self.db.clone());
        let task = tokio::task::spawn_blocking(move || {
            let free = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let conn = free.map_or_else(|| schema::open_readable(&db), Ok)?;
            let answer = work(&conn);
            idle.lock().unwrap_or_else(PoisonError::into_inner).push(conn);
            drop(permit);
            answer
        });
        task.await.map_err(|_| StoreError::Closed)?
    }

    /// Refuses further reads and closes what is idle.
    pub(super) fn close(&self) {
        self.permits.close();
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
