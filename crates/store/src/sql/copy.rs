//! Copies tables from one database into another of the same schema, whichever engines they are.

use super::{Connection, Param as _, Value, params};
use crate::Result;

/// What other tables refer to, and so is there before them.
const FIRST: [&str; 6] = ["agents", "calls", "clients", "outbox", "tokens", "users"];
/// Rows and bytes in one statement.
const ROWS: usize = 100;
const BYTES: usize = 1 << 20;

/// A table, and its columns.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) name: String,
    pub(crate) columns: Vec<String>,
}

/// The tables of an embedded database, each after those it refers to.
pub(crate) fn tables(embedded: &Connection) -> Result<Vec<Table>> {
    let mut all: Vec<Table> = Vec::new();
    embedded
        .prepare_cached(
            "SELECT t.name, c.name FROM sqlite_schema t, pragma_table_info(t.name) c
             WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%' ORDER BY t.name, c.cid",
        )?
        .each([], |row| {
            let (name, column): (String, String) = (row.get(0)?, row.get(1)?);
            match all.last_mut().filter(|table| table.name == name) {
                Some(table) => table.columns.push(column),
                None => all.push(Table { name, columns: vec![column] }),
            }
            Ok(true)
        })?;
    all.sort_by_key(|table| FIRST.iter().position(|first| *first == table.name).unwrap_or(FIRST.len()));
    Ok(all)
}

/// Which rows of a table, and into which: what a column is for all of them is in one of the two only.
#[derive(Debug, Default)]
pub(crate) struct Copying<'a> {
    /// The table that they go into, if it has another name.
    pub(crate) into: Option<&'a str>,
    /// Only rows with this value in this column, which the other table does not have.
    pub(crate) only: Option<(&'a str, &'a str)>,
    /// A column that the other table has in addition, and its value.
    pub(crate) with: Option<(&'a str, &'a str)>,
}

/// Copies rows. Answers how many there were.
pub(crate) fn copy(from: &Connection, to: &Connection, table: &Table, copying: &Copying<'_>) -> Result<u64> {
    let quoted: Vec<_> = table.columns.iter().map(|column| format!("\"{column}\"")).collect();
    let mut select = format!("SELECT {} FROM {}", quoted.join(", "), table.name);
    let only: Vec<Value<'_>> = copying.only.iter().map(|(_, value)| value.value()).collect();
    if let Some((column, _)) = copying.only {
        select += &format!(" WHERE {column} = ?1");
    }
    let mut columns = quoted;
    columns.extend(copying.with.map(|(column, _)| column.to_owned()));
    let insert = format!("INSERT INTO {} ({}) VALUES ", copying.into.unwrap_or(&table.name), columns.join(", "));
    let (mut values, mut rows, mut bytes, mut count) = (Vec::<Value<'static>>::new(), 0, 0, 0);
    from.prepare_cached(&select)?.each(&only[..], |row| {
        for column in 0..table.columns.len() {
            let value = row.value(column).ok_or_else(|| row.misfit(column))?.into_owned();
            bytes += value.bytes();
            values.push(value);
        }
        values.extend(copying.with.map(|(_, value)| Value::Text(value.to_owned().into())));
        (rows, count) = (rows + 1, count + 1);
        if rows == ROWS || bytes >= BYTES {
            put(to, &insert, columns.len(), &values)?;
            values.clear();
            (rows, bytes) = (0, 0);
        }
        Ok(true)
    })?;
    if rows > 0 {
        put(to, &insert, columns.len(), &values)?;
    }
    Ok(count)
}

fn put(to: &Connection, insert: &str, width: usize, values: &[Value<'_>]) -> Result<()> {
    let rows: Vec<_> = (0..values.len() / width)
        .map(|row| {
            let places: Vec<_> = (1..=width).map(|n| format!("?{}", row * width + n)).collect();
            format!("({})", places.join(", "))
        })
        .collect();
    to.execute(&format!("{insert}{}", rows.join(", ")), values).map(drop)
}

/// Lets a server's tables go on numbering behind what was copied into them.
pub(crate) fn continue_numbers(to: &Connection) -> Result<()> {
    let numbered: Vec<(String, String)> = to
        .prepare_cached(
            "SELECT CAST(table_name AS TEXT), CAST(column_name AS TEXT) FROM information_schema.columns
             WHERE table_schema = current_schema() AND is_identity = 'YES'",
        )?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_>>()?;
    for (table, column) in numbered {
        let set = format!(
            "SELECT setval(pg_get_serial_sequence(?1, ?2), (SELECT coalesce(max(\"{column}\"), 0) + 1 FROM {table}), false)"
        );
        to.query_row(&set, params![table, column], |_| Ok(()))?;
    }
    Ok(())
}

/// How many rows a table has.
pub(crate) fn count(conn: &Connection, table: &str) -> Result<u64> {
    let count: i64 = conn.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0))?;
    Ok(u64::try_from(count).unwrap_or(0))
}
