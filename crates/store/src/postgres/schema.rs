//! Which tables there are on the server.

use crate::Result;
use crate::error::StoreError;
use crate::sql::{Connection, OptionalExtension as _};
use crate::sqlite::schema::CURRENT;

/// The steps, each with the version it leads to. The first one makes what SQLite's steps up to there do.
const MIGRATIONS: &[(u32, &str)] = &[
    (9, include_str!("migrations/0009_base.sql")),
    (10, include_str!("migrations/0010_watching.sql")),
    (11, include_str!("migrations/0011_runs.sql")),
    (12, include_str!("migrations/0012_joined.sql")),
    (13, include_str!("migrations/0013_cluster.sql")),
];

/// The version from which on hubs have leases.
pub(super) const WITH_LEASES: u32 = 13;

/// Names the lock under which tables are changed: "convoke" in ASCII.
const LOCK: i64 = 0x0063_6f6e_766f_6b65;

/// Runs `work` while no other hub changes tables or sets up the database.
pub(super) fn locked<T>(conn: &Connection, work: impl FnOnce() -> Result<T>) -> Result<T> {
    // It waits for as long as another hub's migration takes.
    conn.execute_batch("SET statement_timeout = 0")?;
    conn.query_row("SELECT 1 FROM pg_advisory_lock(?1)", [LOCK], |_| Ok(()))?;
    let done = work();
    // With a connection that broke goes its lock.
    let released = conn.query_row("SELECT 1 FROM pg_advisory_unlock(?1)", [LOCK], |_| Ok(()));
    let restored = conn.execute_batch("SET statement_timeout = '30s'");
    let done = done?;
    released.and(restored)?;
    Ok(done)
}

/// The version of the tables; 0 where there are none. An error when it is newer than this program.
pub(crate) fn version(conn: &Connection) -> Result<u32> {
    let is_there = "SELECT 1 FROM information_schema.tables WHERE table_schema = current_schema() AND table_name = 'schema_version'";
    if !conn.prepare_cached(is_there)?.exists([])? {
        return Ok(0);
    }
    let found: Option<i64> = conn.query_row("SELECT version FROM schema_version", [], |row| row.get(0)).optional()?;
    let found = u32::try_from(found.unwrap_or(0)).unwrap_or(u32::MAX);
    if found > CURRENT {
        return Err(StoreError::NewerSchema { found, known: CURRENT });
    }
    Ok(found)
}

/// Brings the tables to the current version, each step in one transaction. Under the lock.
pub(super) fn migrate(conn: &Connection) -> Result<()> {
    let found = version(conn)?;
    for (version, sql) in MIGRATIONS.iter().filter(|(version, _)| *version > found) {
        conn.transaction(|conn| {
            conn.execute_batch(sql)?;
            conn.execute_batch(&format!("DELETE FROM schema_version; INSERT INTO schema_version VALUES ({version})"))
        })?;
        if found > 0 {
            tracing::info!(schema = version, "migrated the database to a newer schema");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steps_lead_to_the_version_of_the_embedded_database() {
        assert!(MIGRATIONS.is_sorted_by_key(|(version, _)| *version));
        assert_eq!(MIGRATIONS.last().map(|(version, _)| *version), Some(CURRENT), "add the step here, too");
    }
}
