//! `convoke grants` and `convoke notices`: a yes for a while, and where people are told what waits.

use anyhow::Result;
use clap::Subcommand;
use convoke_api::grants::{GrantList, GrantRequest, GrantView};
use convoke_api::notices::{ChannelList, ChannelQuery, ChannelRequest, ChannelView};
use convoke_api::people::Secret;
use convoke_core::id::{ChannelId, GrantId};
use serde_json::json;
use serde_json::value::RawValue;

use super::{NO_QUERY, Verb, typed};
use crate::exit::Exit;
use crate::show::clean;
use crate::table::Grid;
use crate::when;

const GRANTS: &str = "/api/grants";
const NOTICES: &str = "/api/notices";

#[derive(Debug, Subcommand)]
pub(crate) enum GrantsCommand {
    /// List the grants in force
    List,
    /// Let an assistant call one tool on one machine without asking, for a while
    Give {
        /// The assistant: the name of its token
        assistant: String,
        /// The tool
        tool: String,
        /// The machine
        agent: String,
        /// For how many minutes (at most 480)
        #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=480))]
        minutes: u64,
    },
    /// End a grant
    End {
        /// The grant's id
        id: GrantId,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum NoticesCommand {
    /// List where notices go
    List {
        /// Another user's
        #[arg(long)]
        user: Option<String>,
    },
    /// Send notices to a topic of an ntfy server
    Ntfy {
        /// The topic's address, such as https://ntfy.sh/my-topic
        url: String,
        /// For another user
        #[arg(long)]
        user: Option<String>,
    },
    /// Send notices to an address as JSON
    Webhook {
        /// The address
        url: String,
        /// For another user
        #[arg(long)]
        user: Option<String>,
    },
    /// Send a notice there now
    Test {
        /// The channel's id
        id: ChannelId,
    },
    /// Stop sending notices there
    Remove {
        /// The channel's id
        id: ChannelId,
    },
}

pub(crate) async fn grants(verb: Verb<'_>, command: GrantsCommand) -> Result<Exit> {
    let client = verb.client()?;
    let output = verb.output;
    let (json, said): (Box<RawValue>, String) = match command {
        GrantsCommand::List => {
            let json: Box<RawValue> = client.get(GRANTS, &NO_QUERY).await?;
            if output.json {
                output.raw_json(&json)?;
            } else {
                let GrantList { grants } = typed(&json)?;
                output.table(&grant_table(&grants), "no grants")?;
            }
            return Ok(Exit::Done);
        }
        GrantsCommand::Give { assistant, tool, agent, minutes } => {
            let request = GrantRequest { assistant, tool, agent, for_s: minutes * 60 };
            let json: Box<RawValue> = client.post(GRANTS, &request).await?;
            let given: GrantView = typed(&json)?;
            let until = when::shown(given.expires_at, when::now());
            let said = format!(
                "{} may call {} on {} without asking until {until}",
                clean(&given.assistant),
                clean(&given.tool),
                clean(&given.agent)
            );
            (json, said)
        }
        GrantsCommand::End { id } => (client.delete(&format!("{GRANTS}/{id}")).await?, "the grant has ended".into()),
    };
    if output.json {
        output.raw_json(&json)?;
    } else {
        output.text(&said)?;
    }
    Ok(Exit::Done)
}

pub(crate) async fn notices(verb: Verb<'_>, command: NoticesCommand) -> Result<Exit> {
    let client = verb.client()?;
    let output = verb.output;
    let add = |kind: &str, url: String, user| ChannelRequest {
        kind: kind.into(),
        name: None,
        url: Some(Secret::new(url)),
        token: None,
        secret: None,
        subscription: None,
        user,
    };
    let (json, said): (Box<RawValue>, &str) = match command {
        NoticesCommand::List { user } => {
            let json: Box<RawValue> = client.get(NOTICES, &ChannelQuery { user }).await?;
            if output.json {
                output.raw_json(&json)?;
            } else {
                let ChannelList { channels, .. } = typed(&json)?;
                output.table(&channel_table(&channels), "no notices go anywhere")?;
            }
            return Ok(Exit::Done);
        }
        NoticesCommand::Ntfy { url, user } => {
            (client.post(NOTICES, &add("ntfy", url, user)).await?, "notices go there now")
        }
        NoticesCommand::Webhook { url, user } => {
            (client.post(NOTICES, &add("webhook", url, user)).await?, "notices go there now")
        }
        NoticesCommand::Test { id } => {
            (client.post(&format!("{NOTICES}/{id}/test"), &json!({})).await?, "the notice was taken")
        }
        NoticesCommand::Remove { id } => {
            (client.delete(&format!("{NOTICES}/{id}")).await?, "no more notices go there")
        }
    };
    if output.json {
        output.raw_json(&json)?;
    } else {
        output.text(said)?;
    }
    Ok(Exit::Done)
}

fn grant_table(grants: &[GrantView]) -> Grid {
    let mut grid = Grid::new(&["GRANT", "ASSISTANT", "TOOL", "MACHINE", "BY", "UNTIL"]);
    for grant in grants {
        grid.row([
            grant.id.to_string().into(),
            clean(&grant.assistant).into(),
            clean(&grant.tool).into(),
            clean(&grant.agent).into(),
            clean(&grant.approver).into(),
            when::shown(grant.expires_at, when::now()).into(),
        ]);
    }
    grid
}

fn channel_table(channels: &[ChannelView]) -> Grid {
    let mut grid = Grid::new(&["CHANNEL", "KIND", "NAME", "HOST", "STATE"]);
    for channel in channels {
        let state = channel.error.as_deref().map_or_else(|| "ok".to_owned(), clean_state);
        grid.row([
            channel.id.to_string().into(),
            clean(&channel.kind).into(),
            clean(&channel.name).into(),
            clean(&channel.host).into(),
            state.into(),
        ]);
    }
    grid
}

fn clean_state(error: &str) -> String {
    clean(error).to_string()
}
