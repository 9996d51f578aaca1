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
    /// Make a key for an agent, in a file that only its owner reads
    New {
        /// The file; it must not be there yet
        file: PathBuf,
    },
    /// The public half of a key, for whoever lets it in
    Show {
        /// The file
        file: PathBuf,
    },
    /// Let the holder of a key into a room
    Add {
        /// The room
        room: String,
        /// The key: the agent's own file, or one with the public half
        file: PathBuf,
        /// What its holder perceives; what every agent does when absent
        #[arg(long, value_delimiter = ',', value_name = "CAPABILITIES")]
        perceive: Option<Vec<String>>,
        /// What its holder may do; nothing when absent
        #[arg(long, value_delimiter = ',', value_name = "CAPABILITIES")]
        act: Option<Vec<String>>,
        /// Whose it is
        #[arg(long)]
        label: Option<String>,
    },
    /// Take a key off a room's list: its holder is out at once
    Remove {
        /// The room
        room: String,
        /// The key's name, as `room show` has it
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
            (json, format!("the holder of {} may come into `{room}`", public(&file)?.thumbprint()))
        }
        KeyCommand::Remove { room, thumbprint } => {
            let path = format!("{}/keys/{}", path(&room), parse::segment(&thumbprint));
            (verb.client()?.delete(&path).await?, format!("the holder of {thumbprint} is out of `{room}`"))
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
