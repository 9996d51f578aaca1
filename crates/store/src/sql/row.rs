//! Reading columns into the types of the interface. What does not fit is damage, and says which column.

use ::uuid::Uuid;
use convoke_core::id::PeerId;
use convoke_core::time::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::Row;
use crate::Result;

pub(super) fn time(row: &Row<'_>, column: usize) -> Result<Timestamp> {
    row.get(column).map(Timestamp::from_millis)
}

pub(super) fn maybe_time(row: &Row<'_>, column: usize) -> Result<Option<Timestamp>> {
    Ok(row.get::<Option<i64>>(column)?.map(Timestamp::from_millis))
}

pub(super) fn blob<const N: usize>(row: &Row<'_>, column: usize) -> Result<[u8; N]> {
    row.get(column)
}

pub(super) fn maybe_blob<const N: usize>(row: &Row<'_>, column: usize) -> Result<Option<[u8; N]>> {
    row.get(column)
}

pub(super) fn uuid(row: &Row<'_>, column: usize) -> Result<Uuid> {
    blob(row, column).map(Uuid::from_bytes)
}

/// A value that is kept by its name.
pub(super) fn named<T>(row: &Row<'_>, column: usize, parse: impl Fn(&str) -> Option<T>) -> Result<T> {
    parse(&row.text(column)?).ok_or_else(|| row.misfit(column))
}

pub(super) fn peer(row: &Row<'_>, column: usize) -> Result<PeerId> {
    named(row, column, |text| PeerId::parse(text).ok())
}

/// A value that is kept as JSON.
pub(super) fn json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> Result<T> {
    named(row, column, |text| serde_json::from_str(text).ok())
}

pub(super) fn maybe_raw(row: &Row<'_>, column: usize) -> Result<Option<Box<RawValue>>> {
    let text: Option<String> = row.get(column)?;
    text.map(|text| RawValue::from_string(text).map_err(|_| row.misfit(column))).transpose()
}
