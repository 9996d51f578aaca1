//! `convoke room`: rooms, who may what in them, and taking part.

mod key;
mod show;
mod take_part;

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use convoke_api::rooms::{Admit, GrantChange, Kick, NewInvite, NewRoom, RoomQuery, RoomView};
use serde_json::value::RawValue;

use super::pages::{Pages, joined};
use super::{NO_QUERY, Verb, prompt, typed};
use crate::exit::Exit;
use crate::parse;
use crate::when;

const ROOMS: &str = "/api/rooms";

#[derive(Debug, Subcommand)]
pub(crate) enum RoomCommand {
    /// Make a room; prints an invite for its host
    Create(CreateArgs),
    /// The rooms
    List,
    /// Who is in a room, who may what, and what happened
    Show {
        /// The room
        room: String,
    },
    /// Remove a room; everybody in it is told
    Remove {
        /// The room
        room: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Take part: what is said is written, lines of standard input are said
    Join(take_part::TakePart),
    /// Take part without a word: what is said is written
    Observe(take_part::TakePart),
    /// Say one thing, and end once the room has taken it
    Say(take_part::SayArgs),
    /// Set what somebody may
    Grant(GrantArgs),
    /// Take everything from somebody; they stay in the room and perceive nothing
    Revoke {
        /// The room
        room: String,
        /// Their id, as `room show` has it
        #[arg(allow_hyphen_values = true)]
        participant: String,
    },
    /// Remove somebody, and keep them out until they are admitted again
    Kick {
        /// The room
        room: String,
        /// Their id, as `room show` has it
        #[arg(allow_hyphen_values = true)]
        participant: String,
    },
    /// Let in who waits in the lobby, or was kicked
    Admit {
        /// The room
        room: String,
        /// Their id, as `room show` has it
        #[arg(allow_hyphen_values = true)]
        participant: String,
    },
    /// Turn away who waits in the lobby
    Deny {
        /// The room
        room: String,
        /// Their id, as `room show` has it
        #[arg(allow_hyphen_values = true)]
        participant: String,
    },
    /// Make an invite: whoever has it gets in
    Invite(InviteArgs),
    /// Agents' keys: make one, and say which a room lets in
    #[command(subcommand)]
    Key(key::KeyCommand),
}

#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// Its name; capitals, spaces and the like become hyphens
    name: String,
    /// Anybody may come in
    #[arg(long)]
    open: bool,
    /// A host decides about guests
    #[arg(long)]
    lobby: bool,
    /// How content travels: `relay`, through the hub; the only one there is so far
    #[arg(long, default_value = "relay", value_parser = ["relay", "mesh"])]
    transport: String,
    /// An agent's key that may come in, read-only; may be given again
    #[arg(long = "agent-key", value_name = "FILE")]
    agent_keys: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct GrantArgs {
    /// The room
    room: String,
    /// Their id, as `room show` has it
    #[arg(allow_hyphen_values = true)]
    participant: String,
    /// What they perceive, of read-chat, read-roster, receive-directed, see-screen, hear-audio; `none` for nothing
    #[arg(long, value_delimiter = ',', value_name = "CAPABILITIES")]
    perceive: Option<Vec<String>>,
    /// What they may do, of send-chat, act, speak; `none` for nothing
    #[arg(long, value_delimiter = ',', value_name = "CAPABILITIES")]
    act: Option<Vec<String>>,
    /// For so long, after which nothing of it is left: 90s, 15m, 12h, 30d
    #[arg(long = "for", value_name = "SPAN", value_parser = parse::span)]
    span: Option<std::time::Duration>,
    /// Go back to what everybody of their kind may
    #[arg(long, conflicts_with_all = ["perceive", "act", "span"], required_unless_present_any = ["perceive", "act", "span"])]
    default: bool,
}

#[derive(Debug, Args)]
pub(crate) struct InviteArgs {
    /// The room
    room: String,
    /// What its holder is called
    name: String,
    /// Its holder may moderate
    #[arg(long)]
    host: bool,
    /// How long it is good for: 90s, 15m, 12h, 30d [default: a day]
    #[arg(long, value_name = "SPAN", value_parser = parse::span)]
    expires: Option<std::time::Duration>,
}

/// A room's address in the API.
fn path(room: &str) -> String {
    format!("{ROOMS}/{}", parse::segment(room))
}

/// A list of capabilities as it was typed: `none` is nothing.
fn capabilities(list: Option<Vec<String>>) -> Option<Vec<String>> {
    list.map(|list| list.into_iter().filter(|name| name != "none").collect())
}

pub(crate) async fn run(verb: Verb<'_>, command: RoomCommand) -> Result<Exit> {
    let (json, said): (Box<RawValue>, String) = match command {
        RoomCommand::Join(args) => return take_part::join(verb, args).await,
        RoomCommand::Observe(args) => return take_part::observe(verb, args).await,
        RoomCommand::Say(args) => return take_part::say(verb, args).await,
        RoomCommand::Key(command) => return key::run(verb, command).await,
        RoomCommand::Create(args) => return create(verb, args).await,
        RoomCommand::List => return list(verb).await,
        RoomCommand::Show { room } => {
            let json: Box<RawValue> = verb.client()?.get(&path(&room), &NO_QUERY).await?;
            if verb.output.json {
                verb.output.raw_json(&json)?;
            } else {
                show::room(verb.output, &typed(&json)?, when::now())?;
            }
            return Ok(Exit::Done);
        }
        RoomCommand::Remove { room, yes } => return remove(verb, &room, yes).await,
        RoomCommand::Grant(args) => {
            let GrantArgs { room, participant, perceive, act, span, default } = args;
            let change = GrantChange {
                perceive: capabilities(perceive),
                act: capabilities(act),
                expires_at: span.map(|span| when::now().after(span)),
                default,
            };
            grant(verb, &room, &participant, change).await?
        }
        RoomCommand::Revoke { room, participant } => {
            let nothing = GrantChange { perceive: Some(Vec::new()), act: Some(Vec::new()), ..GrantChange::default() };
            grant(verb, &room, &participant, nothing).await?
        }
        RoomCommand::Kick { room, participant } => {
            let body = Kick { participant: participant.clone() };
            let json = verb.client()?.post(&format!("{}/kick", path(&room)), &body).await?;
            (json, format!("`{participant}` is out"))
        }
        RoomCommand::Admit { room, participant } => {
            let body = Admit { participant: participant.clone(), admit: true };
            let json = verb.client()?.post(&format!("{}/admit", path(&room)), &body).await?;
            (json, format!("`{participant}` may come in"))
        }
        RoomCommand::Deny { room, participant } => {
            let body = Admit { participant: participant.clone(), admit: false };
            let json = verb.client()?.post(&format!("{}/admit", path(&room)), &body).await?;
            (json, format!("`{participant}` was turned away"))
        }
        RoomCommand::Invite(args) => {
            let expires_in_s = args.expires.map(|span| span.as_secs());
            let body = NewInvite { name: args.name, host: args.host, expires_in_s };
            let json: Box<RawValue> = verb.client()?.post(&format!("{}/invites", path(&args.room)), &body).await?;
            let made: convoke_api::rooms::InviteView = typed(&json)?;
            verb.output.note(format_args!("good until {}; whoever has it gets in:", made.expires_at));
            (json, made.invite)
        }
    };
    if verb.output.json {
        verb.output.raw_json(&json)?;
    } else {
        verb.output.text(&said)?;
    }
    Ok(Exit::Done)
}

async fn grant(
    verb: Verb<'_>,
    room: &str,
    participant: &str,
    change: GrantChange,
) -> Result<(Box<RawValue>, String)> {
    let path = format!("{}/grants/{}", path(room), parse::segment(participant));
    let json: Box<RawValue> = verb.client()?.patch(&path, &change).await?;
    let said = format!("`{participant}` may now {}", show::grant(&typed(&json)?));
    Ok((json, said))
}

async fn create(verb: Verb<'_>, args: CreateArgs) -> Result<Exit> {
    let agent_keys = args.agent_keys.iter().map(|file| key::new_key(file, None, None)).collect::<Result<Vec<_>>>()?;
    let body = NewRoom {
        name: args.name,
        transport: Some(args.transport),
        open: Some(args.open),
        lobby: Some(args.lobby),
        agent_keys,
    };
    let json: Box<RawValue> = verb.client()?.post(ROOMS, &body).await?;
    if verb.output.json {
        verb.output.raw_json(&json)?;
        return Ok(Exit::Done);
    }
    let room: RoomView = typed(&json)?;
    verb.output.text(&format!("the room `{}` is there: {}", room.name, room.relay))?;
    if let Some(invite) = &room.host_invite {
        verb.output.note("an invite for its host, good for a week and shown once; whoever has it may moderate:");
        verb.output.text(invite)?;
    }
    Ok(Exit::Done)
}

async fn list(verb: Verb<'_>) -> Result<Exit> {
    let client = verb.client()?;
    let items = Pages::new(&client, ROOMS, "rooms", &RoomQuery::default(), None)?.all().await?;
    if verb.output.json {
        verb.output.json(&joined("rooms", &items))?;
        return Ok(Exit::Done);
    }
    let rooms = items.iter().map(|item| typed(item)).collect::<Result<Vec<RoomView>>>()?;
    verb.output
        .table(&show::list(&rooms, when::now()), "there are no rooms; make one with `convoke room create NAME`")?;
    Ok(Exit::Done)
}

async fn remove(verb: Verb<'_>, room: &str, yes: bool) -> Result<Exit> {
    let question = format!("Remove the room `{room}`, with its keys and grants?");
    if !yes && !prompt::confirm(&question, "give --yes to remove a room without being asked")? {
        bail!("nothing was removed");
    }
    let json: Box<RawValue> = verb.client()?.delete(&path(room)).await?;
    if verb.output.json {
        verb.output.raw_json(&json)?;
        return Ok(Exit::Done);
    }
    let answer: serde_json::Value = typed(&json)?;
    verb.output.text(&format!("the room `{room}` is gone"))?;
    let rules: Vec<&str> =
        answer["rules"].as_array().into_iter().flatten().filter_map(|rule| rule.as_str()).collect();
    if !rules.is_empty() {
        let rules = rules.join("`, `");
        verb.output.note(format_args!(
            "these rules still post into it, and who sends by them is told that it is gone: `{rules}`"
        ));
    }
    Ok(Exit::Done)
}
