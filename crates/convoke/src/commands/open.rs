//! `convoke open`: a link that opens the page, signed in.

use anyhow::Result;
use clap::Args;
use convoke_api::people::{OneTimeLink, OpenPage};
use serde_json::value::RawValue;

use super::{Verb, typed};
use crate::exit::Exit;
use crate::when;

#[derive(Debug, Args)]
pub(crate) struct OpenArgs {
    /// Sign in as this user [default: the owner of the token]
    #[arg(long)]
    user: Option<String>,
}

pub(crate) async fn run(verb: Verb<'_>, args: OpenArgs) -> Result<Exit> {
    let client = verb.client()?;
    let json: Box<RawValue> = client.post("/api/session/open", &OpenPage { user: args.user }).await?;
    if verb.output.json {
        verb.output.raw_json(&json)?;
        return Ok(Exit::Done);
    }
    let link: OneTimeLink = typed(&json)?;
    verb.output.note(format_args!(
        "Open this link in a browser. It works once, for {}:\n",
        when::relative(link.link_expires_at, when::now()).trim_start_matches("in ")
    ));
    verb.output.text(link.link.0.reveal())?;
    Ok(Exit::Done)
}
