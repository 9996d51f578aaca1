//! `convoke keys`: show the hub's public key, and rotate its data key.

use anyhow::{Context as _, Result};
use clap::Subcommand;
use convoke_store::keys;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::{NO_QUERY, Verb, config, typed};
use crate::exit::Exit;
use crate::local;
use crate::table::Grid;

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Show the hub's public key, which agents pin and which signs the journal
    Show,
    /// Replace the data key and seal all secrets again; stop the hub first
    Rotate,
}

pub(crate) async fn run(verb: Verb<'_>, command: KeysCommand) -> Result<Exit> {
    match command {
        KeysCommand::Show => show(verb).await,
        KeysCommand::Rotate => rotate(verb),
    }
}

async fn show(verb: Verb<'_>) -> Result<Exit> {
    #[derive(Deserialize)]
    struct About {
        hub_id: String,
        http: String,
        kenny_public_key: String,
    }
    let client = verb.client()?;
    let json: Box<RawValue> = client.get("/api/hub", &NO_QUERY).await?;
    let about: About = typed(&json)?;
    if verb.output.json {
        verb.output.json(&json!({ "hub_id": about.hub_id, "kenny_public_key": about.kenny_public_key }))?;
        return Ok(Exit::Done);
    }
    let mut grid = Grid::facts();
    grid.fact("hub", about.hub_id);
    grid.fact("address", about.http);
    grid.fact("public key", about.kenny_public_key);
    verb.output.text(&grid.render_plain())?;
    Ok(Exit::Done)
}

fn rotate(verb: Verb<'_>) -> Result<Exit> {
    verb.only_here("keys rotate")?;
    let data = local::data_dir(verb.global.data.as_deref())?;
    verb.note_directory(&data);
    let current = local::data_key()?;
    let store = config::store(&data);
    let rotated = local::blocking(|| keys::rotate(store, current.as_ref(), None))
        .with_context(|| format!("cannot replace the data key of {}", data.display()))?;
    if verb.output.json {
        verb.output.json(&json!({
            "ok": true, "data": data, "values": rotated.values, "old_key": rotated.old_key,
            "other_key": rotated.other_key,
        }))?;
        return Ok(Exit::Done);
    }
    verb.output.text(&format!("sealed {} values in {} with a new data key", rotated.values, data.display()))?;
    let file = data.join("data.key");
    if current.is_some() {
        verb.output.note(format_args!(
            "The new key is in {}. Unset CONVOKE_DATA_KEY, or set it to the new key and remove the file.",
            file.display()
        ));
    }
    match &rotated.old_key {
        Some(kept) => verb.output.note(format_args!(
            "The old key is kept in {}, for backups made with it. Delete it when no backup needs it.",
            kept.display()
        )),
        None => verb.output.note("Earlier backups need the old key: keep it as long as you keep them."),
    }
    if let Some(kept) = &rotated.other_key {
        verb.output.note(format_args!(
            "{} held another key that was not in use. It is kept in {}, in case a backup needs it.",
            file.display(),
            kept.display()
        ));
    }
    Ok(Exit::Done)
}
