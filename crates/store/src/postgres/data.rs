//! A database on a server without a store open on it: what [`Engine`] asks for, and moving a data directory there.

use std::path::Path;

use convoke_core::door::Door;
use convoke_core::id::HubId;
use convoke_core::journal::{Draft, Expected, Kind};
use convoke_core::secret::SecretBytes;
use serde_json::json;

use super::{Server, schema};
use crate::audit::{self, Verdict};
use crate::engine::{Engine, Exclusive, View};
use crate::error::StoreError;
use crate::files::{Paths, sync_parent};
use crate::seal::{DataKey, random};
use crate::sql::{self, Connection, Copying, Moment, journal, params, reseal};
use crate::sqlite::{self, DataDir};
use crate::store::now;
use crate::{Result, keys};

/// A database that has data.
#[derive(Debug)]
pub(crate) struct ServerData(Server);

/// A hub that has a chain in it.
struct Hub {
    id: HubId,
    name: String,
}

impl ServerData {
    pub(crate) fn existing(server: &Server) -> Result<Self> {
        let conn = server.connect()?;
        if schema::version(&conn)? == 0 || hubs(&conn)?.is_empty() {
            return Err(StoreError::NoDataThere(server.to_string()));
        }
        Ok(Self(server.clone()))
    }

    /// A connection that sees one moment.
    pub(crate) fn reader(&self) -> Result<Connection> {
        let conn = self.0.connect()?;
        conn.execute_batch("SET idle_in_transaction_session_timeout = 0; SET statement_timeout = 0")?;
        conn.execute_batch("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")?;
        Ok(conn)
    }
}

/// All hubs, the first one first.
fn hubs(conn: &Connection) -> Result<Vec<Hub>> {
    let mut statement = conn.prepare_cached("SELECT id, name FROM hubs ORDER BY is_first DESC, name")?;
    let rows = statement.query_map([], |row| {
        let id = row.text(0)?.parse().map_err(|_| StoreError::Corrupt("a hub's id is malformed".into()))?;
        Ok(Hub { id, name: row.get(1)? })
    })?;
    rows.collect()
}

fn first_hub(conn: &Connection) -> Result<HubId> {
    let first = hubs(conn)?.into_iter().next();
    first.map(|hub| hub.id).ok_or_else(|| StoreError::Corrupt("there is no hub".into()))
}

impl Engine for ServerData {
    fn view(&self) -> Result<Box<dyn View>> {
        let conn = self.reader()?;
        let hub_id = first_hub(&conn)?;
        Ok(Box::new(Moment { conn, hub_id }))
    }

    fn views(&self) -> Result<Vec<(String, Box<dyn View>)>> {
        let all = hubs(&self.reader()?)?.into_iter();
        all.map(|hub| Ok((hub.name, Box::new(Moment { conn: self.reader()?, hub_id: hub.id }) as Box<dyn View>)))
            .collect()
    }

    /// Into an embedded database: its journal is the first hub's, and the other hubs' are beside it.
    fn dump(&self, to: &Path) -> Result<()> {
        let from = self.reader()?;
        let all = hubs(&from)?;
        let dump = sqlite::schema::open_new(to)?;
        sqlite::schema::migrate(&dump)?;
        let tables = sql::tables(&dump)?;
        dump.transaction(|dump| {
            for (n, hub) in all.iter().enumerate() {
                let id = hub.id.to_string();
                if n == 0 {
                    sql::set_meta(dump, "hub_id", &id)?;
                }
                for table in tables.iter().filter(|table| is_of_a_chain(table)) {
                    let beside = format!("other_{}", table.name);
                    if n == 0 && all.len() > 1 {
                        dump.execute_batch(&format!(
                            "CREATE TABLE {beside} AS SELECT * FROM {} LIMIT 0",
                            table.name
                        ))?;
                        dump.execute_batch(&format!("ALTER TABLE {beside} ADD COLUMN hub_id TEXT"))?;
                    }
                    let copying = match n {
                        0 => Copying { only: Some(("hub_id", &id)), ..Copying::default() },
                        _ => {
                            Copying { only: Some(("hub_id", &id)), into: Some(&beside), with: Some(("hub_id", &id)) }
                        }
                    };
                    sql::copy(&from, dump, table, &copying)?;
                }
            }
            for table in tables.iter().filter(|table| !is_of_a_chain(table)) {
                sql::copy(&from, dump, table, &Copying::default())?;
            }
            Ok(())
        })
    }

    fn take(&self) -> Result<Box<dyn Exclusive>> {
        Ok(Box::new(Taken(self.0.connect()?)))
    }
}

fn is_of_a_chain(table: &sql::Table) -> bool {
    ["journal", "checkpoints"].contains(&table.name.as_str())
}

/// A database in which no hub writes any more.
struct Taken(Connection);

impl Exclusive for Taken {
    fn key_id(&self) -> Result<Option<String>> {
        sql::meta(&self.0, "key_id")
    }

    fn migrate(&mut self) -> Result<()> {
        schema::locked(&self.0, || schema::migrate(&self.0))
    }

    fn reseal(&mut self, old: &DataKey, new: &DataKey, record: &dyn Fn(usize) -> Draft) -> Result<usize> {
        // A hub that still runs would go on sealing with the old key: from here on it writes nothing.
        let nobody: [u8; 16] = random()?;
        self.0.execute("UPDATE hubs SET epoch = epoch + 1, instance = ?1", [nobody])?;
        reseal::all(&self.0, first_hub(&self.0)?, old, new, record)
    }
}

/// What was moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Whose data it is.
    pub hub_id: HubId,
    /// Each table, and how many rows it has here and there.
    pub tables: Vec<(String, u64)>,
    /// The last record of the journal, which was checked there from its first one on.
    pub records: u64,
    /// How many sealed values were opened there.
    pub secrets: usize,
}

/// Moves a data directory to a server: in one transaction, which is committed once everything was found there. No hub may use
/// the directory, and the database must have no data. The directory's database is kept under another name.
pub fn migrate(from: &Path, to: &Server, hub: &str, data_key: Option<&SecretBytes>) -> Result<Moved> {
    let paths = Paths::new(from);
    let mut taken = DataDir::existing(from)?.take()?;
    taken.migrate()?;
    let source = sqlite::schema::open_readable(&paths.db)?;
    let hub_id = sql::hub_id(&source)?.ok_or_else(|| StoreError::NoData(from.to_owned()))?;
    let view = DataDir::existing(from)?.view()?;
    good(audit::verify_view(&*view, Expected::default())?)?;
    let key_id = taken.key_id()?.ok_or_else(|| StoreError::NoData(from.to_owned()))?;
    let key = keys::peek(&paths, data_key, &key_id)?;
    let target = to.connect()?;
    let moved = schema::locked(&target, || {
        schema::migrate(&target)?;
        if sql::meta(&target, "key_id")?.is_some() || !hubs(&target)?.is_empty() {
            return Err(StoreError::Conflict(format!("{to} has a hub's data already; name an empty database")));
        }
        target.execute_batch("BEGIN")?;
        fill(&source, &target, hub_id, hub, &key)
    })?;
    // Dropped before, the connection would have taken everything back.
    target.execute_batch("COMMIT")?;
    drop((view, source, taken));
    // A hub that started here again would be another with the same name and chain.
    let mut kept = paths.db.clone().into_os_string();
    kept.push(".moved");
    std::fs::rename(&paths.db, &kept).map_err(|e| StoreError::io("rename", &paths.db, e))?;
    sync_parent(&paths.db)?;
    Ok(moved)
}

/// Copies everything, and then looks whether it is there.
fn fill(source: &Connection, target: &Connection, hub_id: HubId, name: &str, key: &DataKey) -> Result<Moved> {
    let id = hub_id.to_string();
    let public_key = sql::hub_public_key(source)?;
    let (instance, since): ([u8; 16], _) = (random()?, now());
    target.execute(
        "INSERT INTO hubs (id, name, epoch, instance, is_first, since, public_key) VALUES (?1, ?2, 1, ?3, 1, ?4, ?5)",
        params![id, name, instance, since.millis(), public_key],
    )?;
    let mut tables = Vec::new();
    for table in sql::tables(source)?.iter().filter(|table| !table.name.starts_with("other_")) {
        let with = is_of_a_chain(table).then_some(("hub_id", id.as_str()));
        let copied = sql::copy(source, target, table, &Copying { with, ..Copying::default() })?;
        let there = sql::count(target, &table.name)?;
        if copied != sql::count(source, &table.name)? || copied != there {
            let why = format!("{} rows of the table {} were copied, and {there} are there", copied, table.name);
            return Err(StoreError::Conflict(why));
        }
        tables.push((table.name.clone(), there));
    }
    target.execute("DELETE FROM meta WHERE name = 'hub_id'", [])?;
    sql::continue_numbers(target)?;
    let what = json!({ "what": "moved to another database", "tables": tables.len() });
    let mut record = Draft::new(since, Kind::Hub).detail(&what);
    record.door = Some(Door::Cli);
    let records = journal::append_alone(target, hub_id, &record)?;
    let secrets = reseal::open_all(target, key)?;
    good(audit::verify_view(&Moment { conn: target, hub_id }, Expected::default())?)?;
    Ok(Moved { hub_id, tables, records, secrets })
}

fn good(verdict: Verdict) -> Result<()> {
    match verdict {
        Verdict::Good(_) => Ok(()),
        other => {
            Err(StoreError::Corrupt(format!("the journal does not hold ({other:?}); run `convoke audit verify`")))
        }
    }
}
