//! `convoke store`: move a data directory to a database on a server.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Subcommand;
use convoke_store::{BadUrl, Server};
use serde_json::json;

use super::Verb;
use crate::exit::{Exit, usage};
use crate::local;
use crate::table::Grid;

#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Move a data directory to an empty PostgreSQL database, and check that everything is there; stop the hub first
    Migrate {
        /// The data directory [default: the local hub's]
        #[arg(long, value_name = "DIR")]
        from: Option<PathBuf>,
        /// The database, postgres://user:password@host/database [env: CONVOKE_STORE__URL]
        #[arg(long, value_name = "URL")]
        to: Option<String>,
        /// The name that the hub has there (hub.name)
        #[arg(long, value_name = "NAME", default_value = "hub")]
        name: String,
    },
}

pub(crate) fn run(verb: Verb<'_>, command: StoreCommand) -> Result<Exit> {
    verb.only_here("store migrate")?;
    let StoreCommand::Migrate { from, to, name } = command;
    let data = match from {
        Some(dir) => dir,
        None => local::data_dir(verb.global.data.as_deref())?,
    };
    let to = to.or_else(|| std::env::var("CONVOKE_STORE__URL").ok());
    let to = to.ok_or_else(|| usage("name the database with --to, or in CONVOKE_STORE__URL"))?;
    let server: Server = to.parse().map_err(|why: BadUrl| usage(why.to_string()))?;
    let moved = convoke_store::migrate(&data, &server, &name, local::data_key()?.as_ref())
        .with_context(|| format!("cannot move {} to {server}", data.display()))?;
    let rows: u64 = moved.tables.iter().map(|(_, rows)| rows).sum();
    if verb.output.json {
        let tables: serde_json::Map<_, _> =
            moved.tables.iter().map(|(table, rows)| (table.clone(), json!(rows))).collect();
        verb.output.json(&json!({
            "ok": true, "hub_id": moved.hub_id, "from": data, "to": server.to_string(), "tables": tables,
            "records": moved.records, "secrets": moved.secrets,
        }))?;
        return Ok(Exit::Done);
    }
    verb.output.text(&format!("moved {} to {server}", data.display()))?;
    let mut grid = Grid::facts();
    grid.fact("hub", moved.hub_id.to_string());
    grid.fact("tables", format!("{}, with {rows} rows, as many as before", moved.tables.len()));
    grid.fact("journal", format!("{} records, checked from the first to the last", moved.records));
    grid.fact("secrets", format!("{} opened with the data key", moved.secrets));
    verb.output.table(&grid, "")?;
    verb.output.note(
        "Start the hub with store.url set to this address. The old database is kept as hub.db.moved; data.key stays \
         where it is.",
    );
    Ok(Exit::Done)
}
