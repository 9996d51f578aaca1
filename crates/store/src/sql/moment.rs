//! One moment of a database, as [`View`] asks for it.

use std::borrow::Borrow;

use convoke_core::id::HubId;
use convoke_core::journal::Checkpoint;

use super::{Connection, OptionalExtension as _, hub_public_key, journal, meta};
use crate::engine::{Row, View};
use crate::error::StoreError;
use crate::{Result, postgres, sqlite};

/// The chain of one hub, and what is around it. The connection is in a transaction, or nobody writes.
#[derive(Debug)]
pub(crate) struct Moment<C = Connection> {
    pub(crate) conn: C,
    pub(crate) hub_id: HubId,
}

impl<C: Borrow<Connection>> Moment<C> {
    fn conn(&self) -> &Connection {
        self.conn.borrow()
    }
}

impl<C: Borrow<Connection>> View for Moment<C> {
    fn schema(&self) -> Result<u32> {
        match self.conn() {
            Connection::Sqlite(_) => sqlite::schema::version(self.conn()),
            Connection::Postgres(_) => postgres::schema::version(self.conn()),
        }
    }

    fn hub_id(&self) -> Result<HubId> {
        Ok(self.hub_id)
    }

    fn hub_public_key(&self) -> Result<Option<[u8; 32]>> {
        match self.conn() {
            Connection::Sqlite(_) => hub_public_key(self.conn()),
            Connection::Postgres(_) => {
                let own = "SELECT public_key FROM hubs WHERE id = ?1";
                let key = self.conn().query_row(own, [self.hub_id.to_string()], |row| row.get::<Option<[u8; 32]>>(0));
                Ok(key.optional()?.flatten())
            }
        }
    }

    fn key_id(&self) -> Result<Option<String>> {
        meta(self.conn(), "key_id")
    }

    fn last_seq(&self) -> Result<u64> {
        Ok(journal::last(self.conn(), self.hub_id)?.0)
    }

    fn walk(&self, each: &mut dyn FnMut(Row<'_>) -> Result<bool>) -> Result<()> {
        journal::walk(self.conn(), self.hub_id, each)
    }

    fn checkpoints(&self, after: u64, limit: u32) -> Result<Vec<Checkpoint>> {
        journal::checkpoints(self.conn(), self.hub_id, after, limit)
    }

    fn last_checkpoint(&self) -> Result<Option<Checkpoint>> {
        journal::last_checkpoint(self.conn(), self.hub_id)
    }

    fn integrity(&self) -> Result<Option<String>> {
        // A server looks after its own files.
        if let Connection::Postgres(_) = self.conn() {
            return Ok(None);
        }
        if let Some(why) = crate::sqlite::foreign_part(self.conn())? {
            return Ok(Some(why));
        }
        let found: Result<String> = self.conn().query_row("PRAGMA integrity_check(1)", [], |row| row.get(0));
        match found {
            Ok(text) if text == "ok" => Ok(None),
            Ok(text) | Err(StoreError::Corrupt(text)) => Ok(Some(text)),
            Err(other) => Err(other),
        }
    }
}
