//! Readers: a few connections beside the writer, used on blocking threads so that no read holds up the runtime.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Semaphore;

use super::Connection;
use crate::Result;
use crate::error::StoreError;

/// Opens a connection.
pub(crate) type Open = dyn Fn() -> Result<Connection> + Send + Sync;

/// A bounded set of read connections, opened when first needed.
#[derive(Clone)]
pub(crate) struct Readers {
    open: Arc<Open>,
    idle: Arc<Mutex<Vec<Connection>>>,
    permits: Arc<Semaphore>,
}

impl fmt::Debug for Readers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Readers").field("permits", &self.permits).finish_non_exhaustive()
    }
}

impl Readers {
    pub(crate) fn new(open: Arc<Open>, limit: usize) -> Self {
        Self { open, idle: Arc::default(), permits: Arc::new(Semaphore::new(limit.max(1))) }
    }

    /// Runs `work` on a free connection; waits for one when all are in use.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(|_| StoreError::Closed)?;
        let (idle, open) = (Arc::clone(&self.idle), Arc::clone(&self.open));
        let task = tokio::task::spawn_blocking(move || {
            let free = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let conn = free.map_or_else(|| open(), Ok)?;
            let answer = work(&conn);
            if conn.is_usable() {
                idle.lock().unwrap_or_else(PoisonError::into_inner).push(conn);
            }
            drop(permit);
            answer
        });
        task.await.map_err(|_| StoreError::Closed)?
    }

    /// Refuses further reads and closes what is idle.
    pub(crate) fn close(&self) {
        self.permits.close();
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
