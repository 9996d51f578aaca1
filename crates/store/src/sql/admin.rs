//! The store itself behind [`Store`].

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use async_trait::async_trait;
use convoke_core::id::HubId;
use convoke_core::secret::{SecretBytes, SecretText};
use convoke_core::time::Timestamp;
use tokio::sync::oneshot;

use super::telemetry::Bulk;
use super::writer::{Op, SMALL};
use super::{SqlStore, calls, health, people, runs, telemetry};
use crate::backup::Manifest;
use crate::engine::Data;
use crate::{Disk, Pruned, Result, Retention, Store, StoreError, StoreStats, backup};

/// Rows that one change removes.
const PIECE: usize = 200;

#[async_trait]
impl Store for SqlStore {
    fn hub_id(&self) -> HubId {
        self.hub_id
    }

    fn stats(&self) -> StoreStats {
        let numbers = self.queue.numbers();
        StoreStats {
            queued: self.queue.waiting(),
            queue_limit: self.queue.limit(),
            commits: numbers.commits.load(Relaxed),
            writes: numbers.writes.load(Relaxed),
            lost: numbers.lost.load(Relaxed),
            journal_seq: numbers.journal_seq.load(Relaxed),
            failing: numbers.failing.load(Relaxed),
            owed: numbers.owed.load(Relaxed),
        }
    }

    fn disk(&self) -> Disk {
        if self.server.is_some() {
            return Disk::default();
        }
        let paths = &self.paths;
        let size = |path: &Path| std::fs::metadata(path).map(|file| file.len()).ok();
        let (db, wal) = (size(&paths.db), size(&paths.wal).unwrap_or_default());
        Disk { used_bytes: db.map(|db| db + wal), free_bytes: free_bytes(&paths.dir) }
    }

    async fn close(&self) -> Result<()> {
        let (reply, answer) = oneshot::channel();
        self.queue.send(Op::Stop(reply), 0).await?;
        self.readers.close();
        if let Some(seat) = &self.cluster {
            seat.close();
        }
        answer.await.map_err(|_| StoreError::Closed)?
    }

    async fn secret(&self, name: &str) -> Result<Option<SecretBytes>> {
        let (name, key) = (name.to_owned(), Arc::clone(&self.key));
        self.readers.read(move |conn| super::secret(conn, &key, &name)).await
    }

    async fn put_secret(&self, name: &str, value: &SecretBytes) -> Result<()> {
        let sealed = self.key.seal(&people::secret_purpose(name), value.reveal())?;
        let name = name.to_owned();
        self.queue.run(SMALL + sealed.len(), move |tx| people::put_sealed_secret(tx.conn, &name, &sealed)).await
    }

    async fn write_owed(&self) -> Result<()> {
        self.queue.run(0, |_| Ok(())).await
    }

    async fn prune(&self, retention: Retention, now: Timestamp) -> Result<Pruned> {
        let mut pruned = Pruned::default();
        if let Some(before) = retention.telemetry_before {
            let mut next = Some(0);
            while let Some(from) = next {
                let (removed, more) =
                    self.queue.run(SMALL, move |tx| telemetry::prune_snapshots(tx, before, from)).await?;
                pruned.snapshots += removed;
                next = more;
            }
            let mut more = true;
            while more {
                let removed;
                (removed, more) = self.queue.run(SMALL, move |tx| health::prune(tx, before)).await?;
                pruned.other += removed;
            }
            more = true;
            while more {
                let removed;
                (removed, more) = self.queue.run(SMALL, move |tx| runs::prune(tx, before)).await?;
                pruned.other += removed;
            }
        }
        if let Some(before) = retention.logs_before {
            let mut next = Some(0);
            while let Some(from) = next {
                let (removed, more) =
                    self.queue.run(SMALL, move |tx| telemetry::prune_logs(tx, before, from)).await?;
                pruned.logs += removed;
                next = more;
            }
        }
        if let Some(most) = retention.bytes_per_agent {
            for which in [Bulk::Snapshots, Bulk::Logs] {
                let over = self.readers.read(move |conn| telemetry::beyond(conn, which, most)).await?;
                for piece in over.chunks(PIECE) {
                    let piece = piece.to_vec();
                    let removed = self.queue.run(SMALL, move |tx| telemetry::remove(tx, which, &piece)).await?;
                    match which {
                        Bulk::Snapshots => pruned.snapshots += removed,
                        Bulk::Logs => pruned.logs += removed,
                    }
                }
            }
        }
        let mut more = true;
        while more {
            let removed;
            (removed, more) = self.queue.run(SMALL, move |tx| calls::prune(tx, now)).await?;
            pruned.other += removed;
        }
        Ok(pruned)
    }

    async fn backup(&self, to: &Path, passphrase: Option<SecretText>) -> Result<Manifest> {
        let (data, to) = (Data { dir: self.paths.dir.clone(), server: self.server.clone() }, to.to_owned());
        let key = SecretBytes::new(*self.key.bytes());
        // Its own connection: it reads for as long as the copy takes.
        tokio::task::spawn_blocking(move || backup::create(data, &to, passphrase.as_ref(), Some(&key)))
            .await
            .map_err(|_| StoreError::Closed)?
    }
}

#[cfg(target_os = "linux")]
pub(crate) fn free_bytes(dir: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(dir).ok()?;
    disk.f_bavail.checked_mul(disk.f_frsize)
}

#[cfg(not(target_os = "linux"))]
pub(crate) const fn free_bytes(_: &Path) -> Option<u64> {
    None
}
