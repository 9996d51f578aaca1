//! `convoke room key`: agents' keys.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Subcommand;
use convoke_api::rooms::{GrantChange, NewAgentKey};
use convoke_kibitz::key::{PublicKey, Signer as _};
use convoke_room::AgentKeyFile;
use serde_json::json;
use serde_json::value::RawValue;

use super::{capabilities, path};
use crate::commands::Verb;
use crate::exit::{Exit, usage};
use crate::parse;

#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Create a key for an agent, in a file that only you can read
    New {
        /// The new file
        file: PathBuf,
    },
    /// Print the public half of a key
    Show {
        /// The file
        file: PathBuf,
    },
    /// Admit the holder of a key to a room
    Add {
        /// The room
        room: String,
        /// The key file, or one with only the public half
        file: PathBuf,
        /// What the holder may perceive [default: what every agent may]
        #[arg(long, value_delimiter = ',', value_name = "CAPABILITIES")]
        perceive: Option<Vec<String>>,
        /// What the holder may do [default: nothing]
        #[arg(long, value_delimiter = ',', value_name = "CAPABILITIES")]
        act: Option<Vec<String>>,
        /// A label that says whose key it is
        #[arg(long)]
        label: Option<String>,
    },
    /// Remove a key from a room; its holder is removed at once
    Remove {
        /// The room
        room: String,
        /// The key's thumbprint, from `room show`
        #[arg(allow_hyphen_values = true)]
        thumbprint: String,
    },
}

pub(super) async fn run(verb: Verb<'_>, command: KeyCommand) -> Result<Exit> {
    let (json, said): (Box<RawValue>, String) = match command {
        KeyCommand::New { file } => return told(verb, &AgentKeyFile::create(&file)?.public_key()),
        KeyCommand::Show { file } => return told(verb, &public(&file)?),
        KeyCommand::Add { room, file, perceive, act, label } => {
            let caps =
                GrantChange { perceive: capabilities(perceive), act: capabilities(act), ..GrantChange::default() };
            let caps = (caps != GrantChange::default()).then_some(caps);
            let key = new_key(&file, caps, label)?;
            let json = verb.client()?.post(&format!("{}/keys", path(&room)), &key).await?;
            (json, format!("the holder of key {} may enter room `{room}`", public(&file)?.thumbprint()))
        }
        KeyCommand::Remove { room, thumbprint } => {
            let path = format!("{}/keys/{}", path(&room), parse::segment(&thumbprint));
            (
                verb.client()?.delete(&path).await?,
                format!("removed key {thumbprint} and its holder from room `{room}`"),
            )
        }
    };
    if verb.output.json {
        verb.output.raw_json(&json)?;
    } else {
        verb.output.text(&said)?;
    }
    Ok(Exit::Done)
}

fn told(verb: Verb<'_>, key: &PublicKey) -> Result<Exit> {
    if verb.output.json {
        verb.output.json(&json!({ "thumbprint": key.thumbprint(), "key": key }))?;
    } else {
        verb.output.note(format_args!("{}", key.thumbprint()));
        verb.output.json(key)?;
    }
    Ok(Exit::Done)
}

/// The public half of a key file, whichever half it holds.
fn public(file: &Path) -> Result<PublicKey> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    match PublicKey::from_jwk(&text) {
        Ok(key) => Ok(key),
        Err(_) => AgentKeyFile::open(file).map(|key| key.public_key()).map_err(|why| usage(why.to_string())),
    }
}

/// A key file as the API wants it: the public half and nothing else.
pub(super) fn new_key(file: &Path, caps: Option<GrantChange>, label: Option<String>) -> Result<NewAgentKey> {
    Ok(NewAgentKey { key: serde_json::to_value(public(file)?)?, caps, label })
}
