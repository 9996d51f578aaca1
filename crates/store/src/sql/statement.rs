//! Statements and rows.

use std::borrow::Cow;

use super::no_row;
use super::value::{Column, Params, Value, fitting, misfit};
use crate::Result;
use crate::postgres::Session;

/// A statement, ready to run.
pub(crate) enum Statement<'c> {
    Sqlite(rusqlite::CachedStatement<'c>),
    Postgres(&'c Session, ::postgres::Statement),
}

impl Statement<'_> {
    /// Runs it; answers how many rows it changed.
    pub(crate) fn execute(&mut self, params: impl Params) -> Result<usize> {
        let values = params.values();
        match self {
            Self::Sqlite(statement) => Ok(statement.execute(rusqlite::params_from_iter(values))?),
            Self::Postgres(session, statement) => session.execute(statement, &values),
        }
    }

    /// Reads rows until `each` says stop.
    pub(crate) fn each(&mut self, params: impl Params, mut each: impl FnMut(&Row<'_>) -> Result<bool>) -> Result<()> {
        let values = params.values();
        match self {
            Self::Sqlite(statement) => {
                let mut rows = statement.query(rusqlite::params_from_iter(values))?;
                while let Some(row) = rows.next()? {
                    if !each(&Row::Sqlite(row))? {
                        break;
                    }
                }
                Ok(())
            }
            Self::Postgres(session, statement) => session.each(statement, &values, |row| each(&Row::Postgres(row))),
        }
    }

    /// Reads all rows.
    pub(crate) fn query_map<T>(
        &mut self,
        params: impl Params,
        mut read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<std::vec::IntoIter<Result<T>>> {
        let mut found = Vec::new();
        self.each(params, |row| {
            found.push(read(row));
            Ok(true)
        })?;
        Ok(found.into_iter())
    }

    /// Reads the one row that it finds.
    pub(crate) fn query_row<T>(
        &mut self,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<T> {
        let (mut read, mut found) = (Some(read), None);
        self.each(params, |row| {
            found = read.take().map(|read| read(row));
            Ok(false)
        })?;
        found.ok_or_else(no_row)?
    }

    /// Whether it finds a row.
    pub(crate) fn exists(&mut self, params: impl Params) -> Result<bool> {
        let mut is_found = false;
        self.each(params, |_| {
            is_found = true;
            Ok(false)
        })?;
        Ok(is_found)
    }
}

/// A row that was found.
pub(crate) enum Row<'r> {
    Sqlite(&'r rusqlite::Row<'r>),
    Postgres(&'r ::postgres::Row),
}

impl Row<'_> {
    /// A column's value. An error when it does not fit.
    pub(crate) fn get<T: Column>(&self, column: usize) -> Result<T> {
        fitting(self.value(column), || self.name(column))
    }

    /// A column's value as it is there.
    pub(crate) fn value(&self, column: usize) -> Option<Value<'_>> {
        match self {
            Self::Sqlite(row) => row.get_ref(column).ok().and_then(Value::of_sqlite),
            Self::Postgres(row) => row.try_get(column).ok(),
        }
    }

    /// A column's text.
    pub(crate) fn text(&self, column: usize) -> Result<Cow<'_, str>> {
        match self.value(column) {
            Some(Value::Text(text)) => Ok(text),
            _ => Err(self.misfit(column)),
        }
    }

    /// The bytes of a column, text or not, whatever is wrong with it.
    pub(crate) fn bytes(&self, column: usize) -> Option<Cow<'_, [u8]>> {
        if let Self::Sqlite(row) = self {
            return row.get_ref(column).ok()?.as_bytes_or_null().ok().flatten().map(Cow::Borrowed);
        }
        match self.value(column)? {
            Value::Text(Cow::Borrowed(text)) => Some(Cow::Borrowed(text.as_bytes())),
            Value::Text(Cow::Owned(text)) => Some(Cow::Owned(text.into_bytes())),
            Value::Blob(bytes) => Some(bytes),
            Value::Null | Value::Int(_) => None,
        }
    }

    pub(super) fn misfit(&self, column: usize) -> crate::StoreError {
        misfit(&self.name(column))
    }

    fn name(&self, column: usize) -> String {
        match self {
            Self::Sqlite(row) => row.as_ref().column_name(column).unwrap_or("?").to_owned(),
            Self::Postgres(row) => row.columns().get(column).map_or("?", |column| column.name()).to_owned(),
        }
    }
}
