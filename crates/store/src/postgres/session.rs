//! One connection to a server.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ::postgres::types::ToSql;
use ::postgres::{Client, Row, Statement};
use fallible_iterator::FallibleIterator as _;

use super::error::breaks;
use crate::Result;
use crate::error::StoreError;
use crate::sql::Value;
use crate::sql::journal::Columns;

/// A connection with its statements. It may only be used where blocking is allowed; it can be dropped anywhere.
pub(crate) struct Session {
    /// Only taken out to be closed.
    client: RefCell<Option<Client>>,
    statements: RefCell<HashMap<String, Statement>>,
    is_broken: Cell<bool>,
}

impl Session {
    pub(super) fn new(client: Client) -> Self {
        Self { client: RefCell::new(Some(client)), statements: RefCell::default(), is_broken: Cell::new(false) }
    }

    /// Whether it can be used again.
    pub(crate) fn is_usable(&self) -> bool {
        !self.is_broken.get()
    }

    fn with<T>(&self, work: impl FnOnce(&mut Client) -> std::result::Result<T, ::postgres::Error>) -> Result<T> {
        let mut client = self.client.try_borrow_mut().map_err(|_| busy())?;
        let done = work(client.as_mut().ok_or(StoreError::Closed)?);
        if let Err(error) = &done
            && breaks(error)
        {
            self.is_broken.set(true);
        }
        Ok(done?)
    }

    /// Parses a statement, once for each text.
    pub(crate) fn prepare(&self, sql: &str) -> Result<Statement> {
        if let Some(known) = self.statements.borrow().get(sql) {
            return Ok(known.clone());
        }
        let statement = self.with(|client| client.prepare(&translated(sql)))?;
        self.statements.borrow_mut().insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    pub(crate) fn execute(&self, statement: &Statement, values: &[Value<'_>]) -> Result<usize> {
        let values = fitting(statement, values)?;
        Ok(self.with(|client| client.execute(statement, &values))? as usize)
    }

    /// Reads rows until `each` says stop. `each` cannot use the connection.
    pub(crate) fn each(
        &self,
        statement: &Statement,
        values: &[Value<'_>],
        mut each: impl FnMut(&Row) -> Result<bool>,
    ) -> Result<()> {
        let values = fitting(statement, values)?;
        let mut stopped = Ok(());
        self.with(|client| {
            let mut rows = client.query_raw(statement, values)?;
            while let Some(row) = rows.next()? {
                match each(&row) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(error) => {
                        stopped = Err(error);
                        break;
                    }
                }
            }
            Ok(())
        })?;
        stopped
    }

    /// Runs statements without parameters.
    pub(crate) fn batch(&self, sql: &str) -> Result<()> {
        self.with(|client| client.batch_execute(sql))
    }

    /// Waits for a notification, at most for so long. Whether there was one.
    pub(crate) fn wait_for_notice(&self, patience: Duration) -> Result<bool> {
        self.with(|client| {
            let mut notices = client.notifications();
            let mut has_come = notices.timeout_iter(patience).next()?.is_some();
            // One call stands for all that are there.
            while notices.iter().next()?.is_some() {
                has_come = true;
            }
            Ok(has_come)
        })
    }

    /// Commits. When the connection breaks meanwhile, nobody knows whether it was.
    pub(super) fn commit(&self) -> Result<()> {
        self.batch("COMMIT").map_err(|error| match error {
            StoreError::Unreachable(why) => StoreError::NotConfirmed(why),
            other => other,
        })
    }

    /// Appends records in one statement.
    pub(crate) fn insert_records(&self, records: &Columns<'_>) -> Result<()> {
        let statement = self.prepare(
            "INSERT INTO journal (hub_id, seq, hash, kind, target, tool, call_id, body)
             SELECT $1, * FROM unnest($2::bigint[], $3::bytea[], $4::text[], $5::text[], $6::text[], $7::bytea[], $8::text[])",
        )?;
        let Columns { hub_id, seq, hash, kind, target, tool, call_id, body } = records;
        self.with(|client| client.execute(&statement, &[hub_id, seq, hash, kind, target, tool, call_id, body]))
            .map(drop)
    }

    /// Notes calls that are announced.
    pub(crate) fn open_intents(&self, hub_id: &str, calls: &[&[u8]], seqs: &[i64]) -> Result<()> {
        let statement = self.prepare(
            "INSERT INTO open_intents (call_id, seq, hub_id) SELECT *, $1 FROM unnest($2::bytea[], $3::bigint[])
             ON CONFLICT (call_id) DO UPDATE SET seq = excluded.seq, hub_id = excluded.hub_id",
        )?;
        self.with(|client| client.execute(&statement, &[&hub_id, &calls, &seqs])).map(drop)
    }

    /// Notes calls that have ended.
    pub(crate) fn close_intents(&self, calls: &[&[u8]]) -> Result<()> {
        let statement = self.prepare("DELETE FROM open_intents WHERE call_id = ANY($1::bytea[])")?;
        self.with(|client| client.execute(&statement, &[&calls])).map(drop)
    }
}

impl Drop for Session {
    /// Closing waits for the server, which a thread of a runtime must not.
    fn drop(&mut self) {
        let Some(client) = self.client.get_mut().take() else { return };
        self.statements.get_mut().clear();
        // Without a thread, the process is about to end, and the connection with it.
        let _ = thread::Builder::new().name("store-close".into()).spawn(move || drop(client));
    }
}

fn busy() -> StoreError {
    StoreError::Internal(Arc::new(std::io::Error::other("a connection was used while rows were read from it")))
}

/// The values as parameters. Their number is checked here: the client would panic.
fn fitting<'v>(statement: &Statement, values: &'v [Value<'v>]) -> Result<Vec<&'v (dyn ToSql + Sync)>> {
    if statement.params().len() != values.len() {
        let why = format!("{} parameters for a statement with {}", values.len(), statement.params().len());
        return Err(StoreError::Internal(Arc::new(std::io::Error::other(why))));
    }
    Ok(values.iter().map(|value| value as _).collect())
}

/// A statement in PostgreSQL's words: its parameters, and without what only SQLite is told about indexes.
fn translated(sql: &str) -> String {
    let mut text = String::with_capacity(sql.len());
    let mut rest = sql;
    while let Some(at) = rest.find(['?', 'I', 'N']) {
        let (before, from) = rest.split_at(at);
        text.push_str(before);
        if let Some(after) = from.strip_prefix("INDEXED BY ") {
            rest = after.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
        } else if let Some(after) = from.strip_prefix("NOT INDEXED") {
            rest = after;
        } else {
            let (first, after) = from.split_at(1);
            text.push_str(if first == "?" { "$" } else { first });
            rest = after;
        }
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::translated;

    #[test]
    fn statements_are_put_into_postgresqls_words() {
        for (sqlite, postgres) in [
            ("SELECT 1 FROM a WHERE b = ?1 AND c IN (?2, ?10)", "SELECT 1 FROM a WHERE b = $1 AND c IN ($2, $10)"),
            ("SELECT 1 FROM a INDEXED BY a_b WHERE INTERVAL", "SELECT 1 FROM a  WHERE INTERVAL"),
            ("SELECT 1 FROM a NOT INDEXED\nWHERE NOT b", "SELECT 1 FROM a \nWHERE NOT b"),
        ] {
            assert_eq!(translated(sqlite), postgres);
        }
    }
}
