//! The database file: how it is opened, and which version its tables have.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::OpenFlags;
use rusqlite::config::DbConfig;

use crate::Result;
use crate::error::StoreError;
use crate::files::create_private;
use crate::sql::Connection;

/// Every step from an empty file on, in order. A step that was released is never changed; a new one is added.
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_base.sql"),
    include_str!("migrations/0002_agent_marks.sql"),
    include_str!("migrations/0003_yonexus.sql"),
    include_str!("migrations/0004_sonde.sql"),
    include_str!("migrations/0005_rooms.sql"),
    include_str!("migrations/0006_retired_keys.sql"),
    include_str!("migrations/0007_hub_id.sql"),
    include_str!("migrations/0008_owners.sql"),
    include_str!("migrations/0009_people.sql"),
    include_str!("migrations/0010_watching.sql"),
    include_str!("migrations/0011_runs.sql"),
    include_str!("migrations/0012_joined.sql"),
    include_str!("migrations/0013_cluster.sql"),
];

/// The schema this program writes.
pub(crate) const CURRENT: u32 = MIGRATIONS.len() as u32;

/// The write-ahead log may be this large on disk once it has been emptied. Twice the length at which it is finished off:
/// under load it gets a little longer than that, and what is cut off must be grown again, at a write of the file's length
/// with every sync.
const WAL_FILE_LIMIT: u32 = 32 << 20;

/// Opens the database for writing, and makes it if it is not there.
pub(super) fn open_writable(path: &Path) -> Result<Connection> {
    // SQLite would make it readable for everyone; the files beside it take over its rights. One that is there is not opened here:
    // whoever closes a file gives up all locks of the process on it, and those of connections that are open already are all
    // that keeps other programs from taking themselves for the last one, and the log away.
    match create_private(path) {
        Ok(_) | Err(StoreError::Exists(_)) => {}
        Err(error) => return Err(error),
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = rusqlite::Connection::open_with_flags(path, flags)?;
    // Pages of 8 KiB: a snapshot of the usual size then lies in one page and not in three.
    conn.execute_batch(&format!(
        "PRAGMA busy_timeout = 10000;
         PRAGMA page_size = 8192;
         PRAGMA journal_mode = WAL;
         PRAGMA synchronous = FULL;
         PRAGMA foreign_keys = ON;
         PRAGMA wal_autocheckpoint = 0;
         PRAGMA journal_size_limit = {WAL_FILE_LIMIT};
         PRAGMA temp_store = MEMORY;
         PRAGMA cache_size = -16384;"
    ))?;
    keep_plans(&conn)?;
    conn.set_prepared_statement_cache_capacity(128);
    Ok(Connection::Sqlite(conn))
}

/// Opens a database that is being made, for a dump: nothing lies beside it.
pub(crate) fn open_new(path: &Path) -> Result<Connection> {
    let conn = rusqlite::Connection::open(path)?;
    conn.execute_batch("PRAGMA page_size = 8192; PRAGMA journal_mode = MEMORY; PRAGMA foreign_keys = ON")?;
    Ok(Connection::Sqlite(conn))
}

/// Opens the database for reading, beside a hub that writes or alone.
pub(crate) fn open_readable(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut conn = rusqlite::Connection::open_with_flags(path, flags)?;
    conn.execute_batch("PRAGMA busy_timeout = 10000")?;
    let is_readable = |conn: &rusqlite::Connection| conn.query_row("PRAGMA user_version", [], |_| Ok(()));
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    if is_readable(&conn).is_err() && !Path::new(&wal).exists() {
        // Reading makes files beside a database with a log of its own, where there is none and none may be made: of a hub
        // that has stopped, on a disk that is only read. Then there is nobody who writes, either.
        conn = rusqlite::Connection::open_with_flags(immutable_uri(path), flags | OpenFlags::SQLITE_OPEN_URI)?;
    }
    conn.execute_batch("PRAGMA temp_store = MEMORY; PRAGMA cache_size = -4096;")?;
    keep_plans(&conn)?;
    conn.set_prepared_statement_cache_capacity(64);
    Ok(Connection::Sqlite(conn))
}

/// Names a database that nobody writes: reading it leaves nothing beside it.
pub(super) fn immutable_uri(path: &Path) -> String {
    let name = path.to_string_lossy().replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    format!("file:{name}?immutable=1")
}

/// Without this SQLite may look at the values that a statement is run with to plan it better, and for that parses it anew
/// for each of them.
fn keep_plans(conn: &rusqlite::Connection) -> Result<()> {
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

/// The schema the database has; 0 for an empty file. An error when it is newer than this program.
pub(crate) fn version(conn: &Connection) -> Result<u32> {
    let found: i64 = conn.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let found = u32::try_from(found).unwrap_or(u32::MAX);
    if found > CURRENT {
        return Err(StoreError::NewerSchema { found, known: CURRENT });
    }
    Ok(found)
}

/// Brings the database to the current schema.
pub(crate) fn migrate(conn: &Connection) -> Result<()> {
    migrate_to(conn, CURRENT)
}

/// What in the database is not of its schema: a trigger that changes records as they come, a table or an index that was
/// replaced. Names the first.
pub(crate) fn foreign_part(conn: &Connection) -> Result<Option<String>> {
    let model = Connection::Sqlite(rusqlite::Connection::open_in_memory()?);
    migrate_to(&model, version(conn)?)?;
    let (Some(found), Some(expected)) = (conn.sqlite(), model.sqlite()) else { return Ok(None) };
    let (found, expected) = (parts(found)?, parts(expected)?);
    let differs = found.iter().find(|(key, sql)| expected.get(*key) != Some(*sql));
    if let Some(((kind, name), _)) = differs {
        let is_known = expected.contains_key(&(kind.clone(), name.clone()));
        let what = if is_known { "was changed" } else { "does not belong there" };
        return Ok(Some(format!("the {kind} `{name}` in the database {what}")));
    }
    let missing = expected.keys().find(|key| !found.contains_key(*key));
    Ok(missing.map(|(kind, name)| format!("the {kind} `{name}` is missing from the database")))
}

/// Tables, indexes, triggers and views by kind and name, each as it was made.
type Parts = BTreeMap<(String, String), Option<String>>;

fn parts(conn: &rusqlite::Connection) -> Result<Parts> {
    let sql = "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite!_%' ESCAPE '!'";
    let mut statement = conn.prepare(sql)?;
    let rows = statement.query_map([], |row| Ok(((row.get(0)?, row.get(1)?), row.get(2)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Each step is one transaction with its version, so that a power cut leaves a whole version.
fn migrate_to(conn: &Connection, target: u32) -> Result<()> {
    let found = version(conn)?;
    for step in found..target {
        conn.transaction(|conn| {
            conn.execute_batch(MIGRATIONS[step as usize])?;
            conn.execute_batch(&format!("PRAGMA user_version = {}", step + 1))
        })?;
        // A new database is not news.
        if found > 0 {
            tracing::info!(schema = step + 1, "migrated the database to a newer schema");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> Connection {
        Connection::Sqlite(rusqlite::Connection::open_in_memory().expect("memory"))
    }

    /// Brings an empty database to the version before `version`, fills it, takes the one step and looks.
    fn check(version: u32, fill: &str, look: &str) {
        let conn = memory();
        migrate_to(&conn, version - 1).expect("earlier steps");
        conn.execute_batch(fill).expect("fills");
        migrate_to(&conn, version).expect("the step");
        assert_eq!(super::version(&conn).expect("readable"), version);
        let good: bool = conn.query_row(look, [], |row| row.get(0)).expect("looks");
        assert!(good, "{look}");
    }

    #[test]
    fn step_1_makes_the_tables() {
        check(1, "", "SELECT count(*) = 16 FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'");
    }

    #[test]
    fn step_2_keeps_the_marks() {
        check(
            2,
            "INSERT INTO agents (id, trust, created_at, last_seen, latest_snapshot)
             VALUES ('a', 'trusted', 1, 5, 7), ('b', 'trusted', 1, 6, NULL), ('c', 'pending', 1, NULL, NULL);",
            "SELECT group_concat(a.id || coalesce(m.last_seen, '-') || coalesce(m.latest_snapshot, '-')) = 'a57,b6-,c--'
             FROM (SELECT * FROM agents ORDER BY id) a LEFT JOIN agent_marks m USING (num)",
        );
    }

    #[test]
    fn step_3_adds_yonexus_and_keeps_what_was_there() {
        check(
            3,
            "INSERT INTO meta VALUES ('hub_id', 'x')",
            "SELECT (SELECT count(*) FROM meta) = 1 AND (SELECT count(*) FROM clients) = 0 AND count(*) = 6
             FROM sqlite_schema
             WHERE name IN ('clients', 'pairings', 'rules', 'messages', 'outbox', 'deliveries')",
        );
    }

    #[test]
    fn step_4_keeps_the_agents_and_takes_sonde_ones() {
        check(
            4,
            "INSERT INTO agents (id, trust, created_at) VALUES ('pc', 'trusted', 1)",
            "SELECT (SELECT count(*) FROM agents) = 1 AND (SELECT count(*) FROM sonde_agents) = 0
                AND (SELECT count(*) FROM sonde_tokens) = 0",
        );
    }

    #[test]
    fn step_5_adds_rooms_and_keeps_what_was_there() {
        check(
            5,
            "INSERT INTO rules (id, body) VALUES ('chat', '{}')",
            "SELECT (SELECT count(*) FROM rules) = 1 AND (SELECT count(*) FROM rooms) = 0",
        );
    }

    #[test]
    fn step_6_adds_retired_keys_and_keeps_the_agents() {
        check(
            6,
            "INSERT INTO agents (id, trust, public_key, created_at) VALUES ('pc', 'trusted', x'01', 1)",
            "SELECT (SELECT count(*) FROM agents WHERE public_key = x'01') = 1
                AND (SELECT count(*) FROM retired_keys) = 0",
        );
    }

    #[test]
    fn step_7_names_the_hub_of_what_was_there() {
        check(
            7,
            "INSERT INTO meta VALUES ('hub_id', 'this one');
             INSERT INTO calls (id, caller, target, tool, args_digest, door, state, created_at, keep_until)
                VALUES (x'01', x'02', 'pc', 'fs_list', '', 'http', 'waiting', 1, 2);
             INSERT INTO open_intents VALUES (x'01', 1);
             INSERT INTO outbox (created_at, expires_at, rule, sender, with_id, content) VALUES (1, 2, 'r', 's', 0, 'c');
             INSERT INTO agents (id, trust, created_at) VALUES ('pc', 'trusted', 1);
             INSERT INTO agent_marks SELECT num, 5, NULL FROM agents;
             INSERT INTO journal VALUES (1, x'00', 'call', 'pc', 'fs_list', x'01', '{}');",
            "SELECT count(*) = 4 AND min(hub_id) = 'this one' AND max(hub_id) = 'this one' FROM
                (SELECT hub_id FROM calls UNION ALL SELECT hub_id FROM open_intents UNION ALL SELECT hub_id FROM outbox
                 UNION ALL SELECT hub_id FROM agent_marks)",
        );
    }

    #[test]
    fn step_8_keeps_tokens_without_an_owner() {
        check(
            8,
            "INSERT INTO tokens VALUES (x'01', 'alex', x'02', 'admin', '{}', 1, NULL, NULL, NULL);",
            "SELECT (SELECT owner IS NULL FROM tokens WHERE name = 'alex')
                AND (SELECT count(requested_by) = 0 FROM calls)",
        );
    }

    #[test]
    fn step_9_adds_people_and_keeps_the_tokens() {
        check(
            9,
            "INSERT INTO tokens VALUES (x'01', 'alex', x'02', 'admin', '{}', 1, NULL, NULL, NULL, 'alex');",
            "SELECT (SELECT count(*) FROM tokens) = 1 AND count(*) = 4 FROM sqlite_schema
             WHERE name IN ('users', 'sessions', 'sign_in_links', 'passkeys')",
        );
    }

    #[test]
    fn step_10_adds_what_is_watched_and_keeps_the_users() {
        check(
            10,
            "INSERT INTO users VALUES (x'01', 'anna', 'admin', '{}', NULL, NULL, 1);",
            "SELECT (SELECT count(*) FROM users) = 1 AND count(*) = 4 FROM sqlite_schema
             WHERE name IN ('health_changes', 'time_boxed_grants', 'notice_channels', 'notices_sent')",
        );
    }

    #[test]
    fn step_11_adds_runs_and_keeps_the_agents() {
        check(
            11,
            "INSERT INTO agents (id, trust, created_at) VALUES ('pc', 'trusted', 1);",
            "SELECT (SELECT count(*) FROM agents) = 1 AND count(*) = 1 FROM sqlite_schema WHERE name = 'runs'",
        );
    }

    #[test]
    fn step_12_adds_what_is_joined_and_keeps_the_clients() {
        check(
            12,
            "INSERT INTO clients (identifier, listed, trust, rotation_until, created_at) VALUES ('c', 1, 'trusted', 9, 1);",
            "SELECT (SELECT rotation_key IS NULL AND rotation_until = 9 FROM clients) AND count(*) = 1 FROM sqlite_schema
             WHERE name = 'joined'",
        );
    }

    #[test]
    fn step_13_is_about_servers_and_keeps_everything() {
        check(
            13,
            "INSERT INTO agents (id, trust, created_at) VALUES ('pc', 'trusted', 1);",
            "SELECT (SELECT count(*) FROM agents) = 1",
        );
    }

    #[test]
    fn every_step_has_a_test() {
        assert_eq!(CURRENT, 13, "a new step: add a check for it above, then raise this number");
    }

    #[test]
    fn a_newer_database_is_refused() {
        let conn = memory();
        conn.execute_batch(&format!("PRAGMA user_version = {}", CURRENT + 1)).expect("sets");
        let error = version(&conn).expect_err("newer");
        assert!(matches!(error, StoreError::NewerSchema { .. }));
        assert!(error.to_string().contains("run a newer convoke"));
    }
}
