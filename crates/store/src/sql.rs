//! The tables, behind one kind of connection: [`Connection`] is SQLite's or PostgreSQL's, and what is here does not ask which.
//!
//! Statements are written once, in words that both engines know: numbered parameters (`?1`), `ON CONFLICT`, `RETURNING`,
//! `IS NOT DISTINCT FROM`. A number, a truth or a time is an integer, everything else is text or bytes.

mod accounts;
pub(crate) mod admin;
mod agents;
mod calls;
mod clients;
mod copy;
mod grants;
mod health;
pub(crate) mod hubs;
mod joined;
pub(crate) mod journal;
mod messages;
mod moment;
mod notices;
mod outbox;
mod peers;
mod people;
pub(crate) mod queue;
pub(crate) mod readers;
pub(crate) mod reseal;
mod rooms;
mod row;
mod runs;
mod sonde;
mod statement;
mod store;
pub(crate) mod telemetry;
mod value;
pub(crate) mod writer;

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use crate::Result;
use crate::error::StoreError;
use crate::postgres::Session;

pub(crate) use copy::{Copying, Table, continue_numbers, copy, count, tables};
pub(crate) use moment::Moment;
pub(crate) use statement::{Row, Statement};
pub(crate) use store::{
    HUB_KEY, PUBLIC_KEY, RESTORED, hub_id, hub_public_key, meta, own_or_new_key, put_defaults, secret, set_meta,
};
pub use store::{OpenOptions, SqlStore};
pub(crate) use value::{Param, Params, Value, params};

/// A connection to a database.
pub(crate) enum Connection {
    Sqlite(rusqlite::Connection),
    Postgres(Box<Session>),
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sqlite(_) => "Sqlite",
            Self::Postgres(_) => "Postgres",
        })
    }
}

impl Connection {
    /// The connection of an embedded database.
    pub(crate) fn sqlite(&self) -> Option<&rusqlite::Connection> {
        match self {
            Self::Sqlite(conn) => Some(conn),
            Self::Postgres(_) => None,
        }
    }

    /// The connection to a server.
    pub(crate) fn postgres(&self) -> Option<&Session> {
        match self {
            Self::Sqlite(_) => None,
            Self::Postgres(session) => Some(session),
        }
    }

    /// A statement that is parsed once for this connection.
    pub(crate) fn prepare_cached(&self, sql: &str) -> Result<Statement<'_>> {
        match self {
            Self::Sqlite(conn) => Ok(Statement::Sqlite(conn.prepare_cached(sql)?)),
            Self::Postgres(session) => Ok(Statement::Postgres(session, session.prepare(sql)?)),
        }
    }

    /// Runs a statement; answers how many rows it changed.
    pub(crate) fn execute(&self, sql: &str, params: impl Params) -> Result<usize> {
        self.prepare_cached(sql)?.execute(params)
    }

    /// Reads the one row that a statement finds.
    pub(crate) fn query_row<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<T> {
        self.prepare_cached(sql)?.query_row(params, read)
    }

    /// Runs statements without parameters.
    pub(crate) fn execute_batch(&self, sql: &str) -> Result<()> {
        match self {
            Self::Sqlite(conn) => Ok(conn.execute_batch(sql)?),
            Self::Postgres(session) => session.batch(sql),
        }
    }

    /// Makes changes in one transaction, or none of them.
    pub(crate) fn transaction<T>(&self, work: impl FnOnce(&Self) -> Result<T>) -> Result<T> {
        self.execute_batch("BEGIN")?;
        let done = work(self).and_then(|done| self.execute_batch("COMMIT").map(|()| done));
        if done.is_err() {
            // It can only fail when there is nothing left to take back.
            let _ = self.execute_batch("ROLLBACK");
        }
        done
    }

    /// Whether it can be used again.
    pub(crate) fn is_usable(&self) -> bool {
        self.postgres().is_none_or(Session::is_usable)
    }
}

/// A statement found no row where it was asked for one.
#[derive(Debug, thiserror::Error)]
#[error("there is no such row")]
struct NoRow;

fn no_row() -> StoreError {
    StoreError::Internal(Arc::new(NoRow))
}

/// Where no row is an answer, too.
pub(crate) trait OptionalExtension<T> {
    fn optional(self) -> Result<Option<T>>;
}

impl<T> OptionalExtension<T> for Result<T> {
    fn optional(self) -> Result<Option<T>> {
        match self {
            Ok(row) => Ok(Some(row)),
            Err(StoreError::Internal(why)) if (&*why as &(dyn Error + 'static)).is::<NoRow>() => Ok(None),
            Err(error) => Err(error),
        }
    }
}
