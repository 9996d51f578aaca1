//! `convoke room`: manage rooms and grants, and take part in rooms.

mod key;
mod mcp;
mod show;
mod take_part;

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use clap::{Args, Subcommand};
use convoke_api::rooms::{
    Admission, Admit, GrantChange, Kick, NewInvite, NewRoom, ParticipantChange, Posts, RoomQuery, RoomView,
};
use serde_json::value::RawValue;

use super::pages::{Pages, joined};
use super::{NO_QUERY, Verb, prompt, typed};
use crate::complete;
use crate::exit::Exit;
use crate::parse;
use crate::when;

const ROOMS: &str = "/api/rooms";

#[derive(Debug, Subcommand)]
pub(crate) enum RoomCommand {
    /// Create a room, and print an invite for its host
    Create(CreateArgs),
    /// List rooms
    List,
    /// Show a room with its participants, grants and manifest
    Show {
        /// The room
        #[arg(add = complete::rooms())]
        room: String,
    },
    /// Delete a room; its participants are told
    Remove {
        /// The room
        #[arg(add = complete::rooms())]
        room: String,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
    /// Join a room: print what is said, say the lines of standard input
    Join(take_part::TakePart),
    /// Print what is said in a room, without saying anything
    Observe(take_part::TakePart),
    /// Say one thing, and exit when the room has accepted it
    Say(take_part::SayArgs),
    /// Ask a room's application for an action, and print what became of it
    Act(take_part::ActArgs),
    /// Take part as an MCP server on standard input and output: join, observe, say, act, leave
    Mcp(take_part::TakePart),
    /// Change a participant's grant
    Grant(GrantArgs),
    /// Revoke a participant's grant; they stay in the room and perceive nothing
    Revoke {
        /// The room
        #[arg(add = complete::rooms())]
        room: String,
        /// The participant's id, from `room show`
        #[arg(allow_hyphen_values = true)]
        participant: String,
    },
    /// Pause an agent: it perceives nothing but who is there, and does nothing, until it is resumed
    Pause(OneArgs),
    /// Silence an agent: it perceives, and says and does nothing until it is resumed
    Silence(OneArgs),
    /// Resume an agent that was paused or silenced, with the grant it has
    Resume(OneArgs),
    /// Treat a participant as an agent from now on, whatever they say of themselves
    MarkAgent(OneArgs),
    /// Remove a participant, and keep them out until they are admitted again
    Kick {
        /// The room
        #[arg(add = complete::rooms())]
        room: String,
        /// The participant's id, from `room show`
        #[arg(allow_hyphen_values = true)]
        participant: String,
    },
    /// Admit a participant who waits in the lobby or was kicked
    Admit {
        /// The room
        #[arg(add = complete::rooms())]
        room: String,
        /// The participant's id, from `room show`
        #[arg(allow_hyphen_values = true)]
        participant: String,
    },
    /// Turn away a participant who waits in the lobby
    Deny {
        /// The room
        #[arg(add = complete::rooms())]
        room: String,
        /// The participant's id, from `room show`
        #[arg(allow_hyphen_values = true)]
        participant: String,
    },
    /// Print a room's standing policies and credits as JSON, or replace them with those of a file
    Admission {
        /// The room
        #[arg(add = complete::rooms())]
        room: String,
        /// The file, `{"issuers":[…],"credits"?:{…}}`; `-` reads standard input
        file: Option<PathBuf>,
    },
    /// Post what happens in the fleet into a room, for all who are in it
    Posts {
        /// The room
        #[arg(add = complete::rooms())]
        room: String,
        /// What to post: findings, approvals, offline; `none` for nothing
        #[arg(required = true, value_parser = ["findings", "approvals", "offline", "none"])]
        topics: Vec<String>,
    },
    /// Create an invite; whoever has it may enter
    Invite(InviteArgs),
    /// Revoke an invite: nobody enters with it, and whoever did is out at once
    RevokeInvite {
        /// The room
        room: String,
        /// The invite, or its id
        invite: String,
    },
    /// Create agents' keys, and choose which ones a room admits
    #[command(subcommand)]
    Key(key::KeyCommand),
}

#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// The room's name; capitals, spaces and the like become hyphens
    name: String,
    /// Let anybody enter
    #[arg(long)]
    open: bool,
    /// Let a host decide about guests
    #[arg(long)]
    lobby: bool,
    /// How content travels: through the hub, or directly between participants (WebRTC)
    #[arg(long, default_value = "relay", value_parser = ["relay", "mesh"])]
    transport: String,
    /// Admit the agent with this key, read-only; repeatable
    #[arg(long = "agent-key", value_name = "FILE")]
    agent_keys: Vec<PathBuf>,
}

/// One participant of a room.
#[derive(Debug, Args)]
pub(crate) struct OneArgs {
    /// The room
    #[arg(add = complete::rooms())]
    room: String,
    /// The participant's id, from `room show`
    #[arg(allow_hyphen_values = true)]
    participant: String,
}

#[derive(Debug, Args)]
pub(crate) struct GrantArgs {
    /// The room
    #[arg(add = complete::rooms())]
    room: String,
    /// The participant's id, from `room show`
    #[arg(allow_hyphen_values = true)]
    participant: String,
    /// What they may perceive: read-chat, read-roster, receive-directed, see-screen, hear-audio; `none` for nothing
    #[arg(long, value_delimiter = ',', value_name = "CAPABILITIES")]
    perceive: Option<Vec<String>>,
    /// What they may do: send-chat, act, speak; `none` for nothing
    #[arg(long, value_delimiter = ',', value_name = "CAPABILITIES")]
    act: Option<Vec<String>>,
    /// How long the grant lasts: 90s, 15m, 12h, 30d [default: for ever]
    #[arg(long = "for", value_name = "SPAN", value_parser = parse::span)]
    span: Option<std::time::Duration>,
    /// Reset to the default grant of their kind
    #[arg(long, conflicts_with_all = ["perceive", "act", "span"], required_unless_present_any = ["perceive", "act", "span"])]
    default: bool,
}

#[derive(Debug, Args)]
pub(crate) struct InviteArgs {
    /// The room
    #[arg(add = complete::rooms())]
    room: String,
    /// The holder's name in the room
    name: String,
    /// Let the holder moderate
    #[arg(long)]
    host: bool,
    /// Treat the holder as an agent, whatever they say of themselves
    #[arg(long, conflicts_with = "host")]
    agent: bool,
    /// How long the invite is valid: 90s, 15m, 12h, 30d [default: a day]
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
        RoomCommand::Act(args) => return take_part::act(verb, args).await,
        RoomCommand::Mcp(args) => return mcp::run(verb, args).await,
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
        RoomCommand::Pause(one) => change(verb, one, hold("paused"), "paused").await?,
        RoomCommand::Silence(one) => change(verb, one, hold("silenced"), "silenced").await?,
        RoomCommand::Resume(one) => change(verb, one, hold("none"), "resumed").await?,
        RoomCommand::MarkAgent(one) => {
            let agent = ParticipantChange { agent: true, ..ParticipantChange::default() };
            change(verb, one, agent, "marked as an agent:").await?
        }
        RoomCommand::Kick { room, participant } => {
            let body = Kick { participant: participant.clone() };
            let json = verb.client()?.post(&format!("{}/kick", path(&room)), &body).await?;
            (json, format!("`{participant}` is out"))
        }
        RoomCommand::Admit { room, participant } => {
            let body = Admit { participant: participant.clone(), admit: true };
            let json = verb.client()?.post(&format!("{}/admit", path(&room)), &body).await?;
            (json, format!("admitted `{participant}`"))
        }
        RoomCommand::Deny { room, participant } => {
            let body = Admit { participant: participant.clone(), admit: false };
            let json = verb.client()?.post(&format!("{}/admit", path(&room)), &body).await?;
            (json, format!("turned away `{participant}`"))
        }
        RoomCommand::Admission { room, file } => return admission(verb, &room, file).await,
        RoomCommand::Posts { room, topics } => {
            let posts: Vec<String> = topics.into_iter().filter(|topic| topic != "none").collect();
            let said = if posts.is_empty() { "nothing".to_owned() } else { posts.join(", ") };
            let json = verb.client()?.post(&format!("{}/posts", path(&room)), &Posts { posts }).await?;
            (json, format!("posted into `{room}` from now on: {said}"))
        }
        RoomCommand::Invite(args) => {
            let expires_in_s = args.expires.map(|span| span.as_secs());
            let body = NewInvite { name: args.name, host: args.host, agent: args.agent, expires_in_s };
            let json: Box<RawValue> = verb.client()?.post(&format!("{}/invites", path(&args.room)), &body).await?;
            let made: convoke_api::rooms::InviteView = typed(&json)?;
            verb.output.note(format_args!(
                "valid until {}; whoever has it may enter. To revoke it: convoke room revoke-invite {} {}",
                made.expires_at, args.room, made.id
            ));
            (json, made.invite)
        }
        RoomCommand::RevokeInvite { room, invite } => {
            let path = format!("{}/invites/{}", path(&room), parse::segment(&invite));
            let json: Box<RawValue> = verb.client()?.delete(&path).await?;
            (json, format!("revoked the invite of room `{room}`"))
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

async fn admission(verb: Verb<'_>, room: &str, file: Option<PathBuf>) -> Result<Exit> {
    let json: Box<RawValue> = match file {
        None => verb.client()?.get(&path(room), &NO_QUERY).await?,
        Some(file) => {
            let text = if file.as_os_str() == "-" {
                std::io::read_to_string(std::io::stdin()).context("cannot read standard input")?
            } else {
                std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?
            };
            let body: Admission = serde_json::from_str(&text).context("this is no admission")?;
            verb.client()?.post(&format!("{}/admission", path(room)), &body).await?
        }
    };
    let room: RoomView = typed(&json)?;
    verb.output.json(&serde_json::to_value(room.admission.unwrap_or_default())?)?;
    Ok(Exit::Done)
}

fn hold(how: &str) -> ParticipantChange {
    ParticipantChange { hold: Some(how.into()), ..ParticipantChange::default() }
}

async fn change(
    verb: Verb<'_>,
    one: OneArgs,
    change: ParticipantChange,
    what: &str,
) -> Result<(Box<RawValue>, String)> {
    let OneArgs { room, participant } = one;
    let path = format!("{}/participants/{}", path(&room), parse::segment(&participant));
    let json: Box<RawValue> = verb.client()?.patch(&path, &change).await?;
    Ok((json, format!("{what} `{participant}`")))
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
    verb.output.text(&format!("created room `{}`: {}", room.name, room.relay))?;
    if let Some(invite) = &room.host_invite {
        verb.output.note("the host's invite, valid for a week and shown only now; whoever has it may moderate:");
        verb.output.text(invite)?;
        if let Some((page, _)) = room.link.as_deref().and_then(|link| link.split_once('#')) {
            verb.output.note(format_args!("in a browser: {page}#invite={invite}"));
        }
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
    verb.output.table(&show::list(&rooms, when::now()), "no rooms; create one with `convoke room create NAME`")?;
    Ok(Exit::Done)
}

async fn remove(verb: Verb<'_>, room: &str, yes: bool) -> Result<Exit> {
    let question = format!("Delete room `{room}` with its keys and grants?");
    if !yes && !prompt::confirm(&question, "give --yes to remove a room without a question")? {
        bail!("nothing was removed");
    }
    let json: Box<RawValue> = verb.client()?.delete(&path(room)).await?;
    if verb.output.json {
        verb.output.raw_json(&json)?;
        return Ok(Exit::Done);
    }
    let answer: serde_json::Value = typed(&json)?;
    verb.output.text(&format!("removed room `{room}`"))?;
    let rules: Vec<&str> =
        answer["rules"].as_array().into_iter().flatten().filter_map(|rule| rule.as_str()).collect();
    if !rules.is_empty() {
        let rules = rules.join("`, `");
        verb.output.note(format_args!("these rules still post into it, and their messages will fail: `{rules}`"));
    }
    Ok(Exit::Done)
}
