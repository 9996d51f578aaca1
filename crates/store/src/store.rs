//! What the hub asks of a store: one small trait per noun, and [`Store`] as their sum. Another engine can be put
//! underneath without touching the callers.
//!
//! Every `async` method that changes something resolves once the change is committed and would survive a power cut. What may
//! be lost with the last moment (logs, telemetry, last-seen times) goes through [`Telemetry::enqueue`], which resolves once
//! the bounded queue has taken it. What withdraws something may answer [`StoreError::Owed`]: it is in force, and is written
//! before anything else when the disk takes something again.

use std::fmt::Debug;
use std::path::Path;

use async_trait::async_trait;
use convoke_core::id::HubId;
use convoke_core::secret::{SecretBytes, SecretText};
use convoke_core::time::Timestamp;

use crate::backup::Manifest;
use crate::{
    Accounts, Calls, Grants, Health, Hubs, Journal, Messages, Notices, Peers, People, Rooms, Runs, StoreError,
    Telemetry,
};

/// Shorthand for what every method answers.
pub type Result<T> = std::result::Result<T, StoreError>;

/// A page that is read ends once its rows have so many bytes: whoever asks for a thousand does not fill the memory. There
/// may be more rows behind one that has.
pub const PAGE_BYTES: usize = 1 << 20;

/// How long things are kept. `None` keeps them for ever.
#[derive(Clone, Copy, Debug, Default)]
pub struct Retention {
    /// Snapshots received before this go, except each agent's latest; the health of then, but for what still held; and runs of runbooks.
    pub telemetry_before: Option<Timestamp>,
    /// Log lines received before this go.
    pub logs_before: Option<Timestamp>,
    /// Of one agent's snapshots and of its log lines so many bytes stay each; the oldest go.
    pub bytes_per_agent: Option<u64>,
}

/// What a round of pruning removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Snapshots.
    pub snapshots: u64,
    /// Log lines.
    pub logs: u64,
    /// Lapsed enrolment tokens and forgotten calls.
    pub other: u64,
}

/// Numbers for `/metrics` and `/readyz`.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoreStats {
    /// Writes waiting for the writer.
    pub queued: usize,
    /// The queue's limit.
    pub queue_limit: usize,
    /// Transactions committed.
    pub commits: u64,
    /// Writes in them.
    pub writes: u64,
    /// What went through [`Telemetry::enqueue`] and was lost because its commit failed.
    pub lost: u64,
    /// Last `seq` of the journal.
    pub journal_seq: u64,
    /// Whether the last commit failed (disk full, …).
    pub failing: bool,
    /// Withdrawals in force that could not be written.
    pub owed: u64,
}

/// The disk that a store is on, as far as it is this machine's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disk {
    /// What the store takes.
    pub used_bytes: Option<u64>,
    /// What is left for it.
    pub free_bytes: Option<u64>,
}

/// Everything the hub keeps, and the store itself.
#[async_trait]
pub trait Store:
    Journal
    + Peers
    + Calls
    + People
    + Accounts
    + Grants
    + Notices
    + Rooms
    + Messages
    + Telemetry
    + Health
    + Runs
    + Hubs
    + Debug
{
    /// The hub's id: made when the data directory was.
    fn hub_id(&self) -> HubId;
    /// Numbers.
    fn stats(&self) -> StoreStats;
    /// The disk it is on. Blocks for a moment.
    fn disk(&self) -> Disk;
    /// Waits until everything taken so far is committed, then stops the writer. Later writes are refused.
    async fn close(&self) -> Result<()>;
    /// A sealed secret by name (the hub's private key, …).
    async fn secret(&self, name: &str) -> Result<Option<SecretBytes>>;
    /// Keeps a secret, sealed.
    async fn put_secret(&self, name: &str, value: &SecretBytes) -> Result<()>;
    /// Tries again what is owed, and makes room for the next time.
    async fn write_owed(&self) -> Result<()> {
        Ok(())
    }
    /// Removes what has been kept long enough; never the journal. In pieces, like [`Peers::sweep`](crate::Peers::sweep).
    async fn prune(&self, retention: Retention, now: Timestamp) -> Result<Pruned>;
    /// Copies the whole store, while it is in use, to a new file; with a passphrase, the data key too.
    async fn backup(&self, to: &Path, passphrase: Option<SecretText>) -> Result<Manifest>;
}

/// The time, for what nobody passed one in for.
pub(crate) fn now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
