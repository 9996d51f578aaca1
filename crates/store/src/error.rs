//! What can go wrong, one variant per thing an operator can act on. No text here carries a secret.

use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why the store could not do what it was asked. `Clone`, because one failed commit answers many callers.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process has the data directory.
    #[error(
        "the data directory {} is in use by {holder}; stop that hub first, or give this one a directory of its own",
        .dir.display()
    )]
    Locked {
        /// The directory.
        dir: PathBuf,
        /// `process <pid>`, as the holder wrote it down.
        holder: String,
    },
    /// The database was written by a newer program.
    #[error("the database has schema {found}, and this program knows {known} at most; run a newer convoke")]
    NewerSchema {
        /// The database's.
        found: u32,
        /// The newest this program knows.
        known: u32,
    },
    /// There is no data directory, or no database in it.
    #[error("there is no hub data at {}", .0.display())]
    NoData(PathBuf),
    /// There is no hub's data in a database.
    #[error("there is no hub's data in {0} (store.url)")]
    NoDataThere(String),
    /// A hub was here, and its database is gone.
    #[error(
        "a hub has used {}, but its database hub.db is missing or empty; put it back or restore a backup into another \
         directory (to begin anew here, remove hub.lock)",
        .0.display()
    )]
    Lost(PathBuf),
    /// A restore was interrupted.
    #[error(
        "a backup was being restored into {}, and that was interrupted; run the same `convoke backup restore` again (to \
         begin anew here, remove hub.db.restoring)",
        .0.display()
    )]
    HalfRestored(PathBuf),
    /// The data key is not the one the database was sealed with.
    #[error(
        "the data key from {from} is not the one this database was sealed with; put the right key there, or restore \
         a backup that has its key"
    )]
    WrongKey {
        /// Where the key came from: a file, or the environment.
        from: String,
    },
    /// The data key is gone.
    #[error(
        "the data key {} is missing, and without it what is sealed in the database cannot be opened; put the file \
         back, or set CONVOKE_DATA_KEY",
        .file.display()
    )]
    KeyMissing {
        /// Where it should be.
        file: PathBuf,
    },
    /// A hub's key from outside that is not this hub's.
    #[error(
        "the key from outside (CONVOKE_KENNY_PRIVATE_KEY) is not that of this data directory's hub, and agents that know \
         that one would refuse another: start without it, or with a new data directory"
    )]
    OtherHubKey,
    /// The hub's key came from outside at the last start, and was not kept then.
    #[error(
        "the hub's key came from outside (CONVOKE_KENNY_PRIVATE_KEY) at the last start, and is not kept in this data \
         directory: set it once more"
    )]
    HubKeyNotKept,
    /// A data key that is no key.
    #[error("the data key from {from} is malformed: it must be 32 bytes in base64")]
    MalformedKey {
        /// Where the key came from.
        from: String,
    },
    /// A passphrase does not open what it should.
    #[error("the passphrase does not open the key in this backup")]
    BadPassphrase,
    /// No space left.
    #[error("the disk is full")]
    DiskFull,
    /// A withdrawal is in force, and is written first when the disk takes something again.
    #[error("what was withdrawn is in force, and is written once the disk has space")]
    Owed,
    /// What was written could not be made to last. It is undone here, but it may stand in the log.
    #[error(
        "the disk did not confirm what was written: it is not in force, but whether it stays so is not known until the \
         hub writes again; a hub that is killed before may find it in its log, and then it holds"
    )]
    NotSynced(#[source] Arc<dyn Error + Send + Sync>),
    /// The database's server cannot be reached.
    #[error("cannot reach the database {server} (store.url)")]
    NoServer {
        /// Which, without its password.
        server: String,
        /// Why not.
        #[source]
        why: Arc<dyn Error + Send + Sync>,
    },
    /// The database's server did not do what it was asked.
    #[error("the database cannot be used")]
    Unreachable(#[source] Arc<dyn Error + Send + Sync>),
    /// The connection broke while something was being committed.
    #[error("the database did not confirm the change: whether it was made is not known")]
    NotConfirmed(#[source] Arc<dyn Error + Send + Sync>),
    /// Another process has the hub's name.
    #[error(
        "another process runs as the hub {0:?} on this database; stop it first, or give this one another name (hub.name)"
    )]
    NameInUse(String),
    /// Another hub uses the database.
    #[error(
        "another hub uses this database, and hubs share one only where each has a bus: set bus.url (and hub.name) for all of them"
    )]
    DatabaseInUse,
    /// Another process has this hub's name now.
    #[error(
        "another hub has ended this one, whose lease was over, or another process has its name (hub.name): this one writes nothing any more, and starts anew"
    )]
    Fenced,
    /// A file could not be read or written.
    #[error("cannot {what}")]
    Io {
        /// What was tried, with the file's name.
        what: String,
        /// Why not.
        #[source]
        source: Arc<dyn Error + Send + Sync>,
    },
    /// What is there is not what was written.
    #[error("the database is damaged: {0}; restore a backup")]
    Corrupt(String),
    /// The write-ahead log is damaged, and opening it would lose what is behind the damage.
    #[error(
        "the write-ahead log {} cannot be read to its end: {damage}; nothing was changed. Restore a backup into another \
         directory; or copy this one elsewhere, and start the hub once with `--set store.accept_damaged_log=true` to go \
         on without those commits",
        .file.display()
    )]
    DamagedLog {
        /// The log.
        file: PathBuf,
        /// What is wrong with it.
        damage: LogDamage,
    },
    /// An earlier version left records for the journal that cannot be joined.
    #[error(
        "an earlier version left records in {}, and they cannot be joined to the database: {why}; nothing was changed. \
         Restore a backup into another directory; or copy this one elsewhere, and start the hub once with \
         `--set store.accept_damaged_log=true` to go on without those records",
        .file.display()
    )]
    OldTail {
        /// The file, `hub.db-tail`.
        file: PathBuf,
        /// Why not.
        why: String,
    },
    /// The change does not fit what is there.
    #[error("{0}")]
    Conflict(String),
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// A backup cannot be used.
    #[error("{} is no usable backup: {why}", .file.display())]
    BadBackup {
        /// The file.
        file: PathBuf,
        /// Why.
        why: String,
    },
    /// A backup is to go where something is.
    #[error("{} is not empty: {found} is there; nothing was changed. Name a directory that is empty or not there", .dir.display())]
    NotEmpty {
        /// The directory.
        dir: PathBuf,
        /// What was found first.
        found: String,
    },
    /// A backup is to go where another data key is.
    #[error(
        "{} is not the data key {key_id} that this backup was sealed with; nothing was changed. Put that one in its place, or \
         name another directory",
        .file.display()
    )]
    OtherKeyThere {
        /// The key's file.
        file: PathBuf,
        /// The backup's.
        key_id: String,
    },
    /// Something is already where a new thing should go.
    #[error("{} is already there; nothing was changed", .0.display())]
    Exists(PathBuf),
    /// Something that should not happen.
    #[error("the database refused a statement")]
    Internal(#[source] Arc<dyn Error + Send + Sync>),
}

impl StoreError {
    /// An error of a file operation.
    pub(crate) fn io(what: &str, path: &Path, source: std::io::Error) -> Self {
        if source.kind() == std::io::ErrorKind::StorageFull {
            return Self::DiskFull;
        }
        Self::Io { what: format!("{what} {}", path.display()), source: Arc::new(source) }
    }

    /// Whether it is about the storage itself and not about the one change: the whole transaction is then lost.
    pub const fn is_of_the_storage(&self) -> bool {
        matches!(
            self,
            Self::DiskFull
                | Self::NotSynced(_)
                | Self::Io { .. }
                | Self::NoServer { .. }
                | Self::Unreachable(_)
                | Self::NotConfirmed(_)
                | Self::Fenced
        )
    }

    /// What became of a withdrawal: the store's answer, or `None` where it is owed.
    pub fn owed<T>(answer: Result<T, Self>) -> Result<Option<T>, Self> {
        match answer {
            Ok(answer) => Ok(Some(answer)),
            Err(Self::Owed) => Ok(None),
            Err(other) => Err(other),
        }
    }

    /// Whether the change it is about is known not to have been made.
    pub const fn has_changed_nothing(&self) -> bool {
        !matches!(self, Self::NotSynced(_) | Self::NotConfirmed(_) | Self::Owed)
    }
}

/// What is wrong with a write-ahead log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogDamage {
    /// The first frame that cannot be read, counted from 1. None where it is the log's header, and so nothing can be read.
    pub frame: Option<u64>,
    /// The commits, from there on, that cannot be read.
    pub commits: u64,
}

impl fmt::Display for LogDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.frame {
            Some(frame) => write!(f, "frame {frame} of it is damaged")?,
            None => write!(f, "its header is damaged")?,
        }
        write!(f, ", so that {} commit", self.commits)?;
        write!(f, "{} from there on cannot be read", if self.commits == 1 { "" } else { "s" })
    }
}
