//! `convoke hubs`: the hubs that share a database.

use anyhow::Result;
use clap::Subcommand;
use convoke_api::hubs::HubList;
use serde_json::value::RawValue;

use super::{Verb, typed};
use crate::exit::Exit;
use crate::show::clean;
use crate::table::{Field, Grid, Tone};
use crate::when;

#[derive(Debug, Subcommand)]
pub(crate) enum HubsCommand {
    /// List the hubs that share this hub's database
    List,
}

pub(crate) async fn run(verb: Verb<'_>, command: HubsCommand) -> Result<Exit> {
    let HubsCommand::List = command;
    let json: Box<RawValue> = verb.client()?.get("/api/hubs", &()).await?;
    if verb.output.json {
        verb.output.raw_json(&json)?;
        return Ok(Exit::Done);
    }
    let list: HubList = typed(&json)?;
    let now = when::now();
    let mut grid = Grid::new(&["NAME", "STATE", "LINKS", "SINCE", "ADDRESS"]);
    for hub in &list.hubs {
        let state = if hub.live { Field::new("live", Tone::Good) } else { Field::new("gone", Tone::Bad) };
        grid.row([
            clean(&hub.name).into(),
            state,
            hub.links.to_string().into(),
            when::shown(hub.since, now).into(),
            clean(&hub.address).into(),
        ]);
    }
    verb.output.table(&grid, "no hubs")?;
    Ok(Exit::Done)
}
