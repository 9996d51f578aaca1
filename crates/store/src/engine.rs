//! What [`audit`](crate::audit), [`backup`](crate::backup) and [`keys`](crate::keys) ask of an engine whose hub may not be
//! running. They know nothing else of it.

use std::fmt::Debug;
use std::path::{Path, PathBuf};

use convoke_core::id::HubId;
use convoke_core::journal::{Checkpoint, Draft};

use crate::Result;
use crate::postgres::{Server, ServerData};
use crate::seal::DataKey;
use crate::sqlite::DataDir;

/// The dump in a backup: there is one engine whose dumps are read.
pub(crate) use crate::sqlite::{CURRENT_SCHEMA, mark_restored, open_dump};

/// Where a hub's data is.
#[derive(Clone, Debug)]
pub struct Data {
    /// The data directory: with the database in it, or only the data key.
    pub dir: PathBuf,
    /// The server that has the database.
    pub server: Option<Server>,
}

impl<P: AsRef<Path> + ?Sized> From<&P> for Data {
    fn from(dir: &P) -> Self {
        Self { dir: dir.as_ref().to_owned(), server: None }
    }
}

/// The engine that keeps the data at this place.
pub(crate) fn at(data: &Data) -> Result<Box<dyn Engine>> {
    match &data.server {
        None => Ok(Box::new(DataDir::existing(&data.dir)?)),
        Some(server) => Ok(Box::new(ServerData::existing(server)?)),
    }
}

/// Data of an engine.
pub(crate) trait Engine: Debug {
    /// One moment of the data, whatever a running hub adds meanwhile.
    fn view(&self) -> Result<Box<dyn View>>;
    /// The same of each hub that keeps its data there, by name.
    fn views(&self) -> Result<Vec<(String, Box<dyn View>)>> {
        Ok(vec![(String::new(), self.view()?)])
    }
    /// Writes one moment of the data, without anything deleted, into the file `to`, which is there and empty.
    fn dump(&self, to: &Path) -> Result<()>;
    /// Takes the data for this process. No hub may be running.
    fn take(&self) -> Result<Box<dyn Exclusive>>;
}

/// One moment of the data.
pub(crate) trait View {
    /// The version of the tables.
    fn schema(&self) -> Result<u32>;
    /// Whose data it is.
    fn hub_id(&self) -> Result<HubId>;
    /// The public half of the hub's key, as the last start left it.
    fn hub_public_key(&self) -> Result<Option<[u8; 32]>>;
    /// Which data key the secrets are sealed with.
    fn key_id(&self) -> Result<Option<String>>;
    /// The last record of the journal.
    fn last_seq(&self) -> Result<u64>;
    /// The journal's rows in order, until `each` says stop.
    fn walk(&self, each: &mut dyn FnMut(Row<'_>) -> Result<bool>) -> Result<()>;
    /// Checkpoints in order, after that of record `after`.
    fn checkpoints(&self, after: u64, limit: u32) -> Result<Vec<Checkpoint>>;
    /// The last checkpoint.
    fn last_checkpoint(&self) -> Result<Option<Checkpoint>>;
    /// What the engine finds wrong with its own files.
    fn integrity(&self) -> Result<Option<String>>;
}

/// A row of the journal as it is stored; a damaged one is looked at, not refused.
#[derive(Debug)]
pub(crate) struct Row<'a> {
    pub(crate) seq: i64,
    pub(crate) hash: &'a [u8],
    pub(crate) body: &'a [u8],
    pub(crate) kind: Option<&'a [u8]>,
    pub(crate) target: Option<&'a [u8]>,
    pub(crate) tool: Option<&'a [u8]>,
    pub(crate) call_id: Option<&'a [u8]>,
}

/// Data that nobody else has.
pub(crate) trait Exclusive {
    /// Which data key the secrets are sealed with.
    fn key_id(&self) -> Result<Option<String>>;
    /// Brings the data to the newest schema.
    fn migrate(&mut self) -> Result<()>;
    /// Seals everything anew and appends the record, in one transaction; `record` is given the number of sealed values,
    /// which is answered. Nothing that the old key opens stays on the disk.
    fn reseal(&mut self, old: &DataKey, new: &DataKey, record: &dyn Fn(usize) -> Draft) -> Result<usize>;
}
