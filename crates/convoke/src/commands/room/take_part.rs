//! `convoke room join`, `observe` and `say`: a headless participant.

use std::io::{self, BufRead as _, IsTerminal as _};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use clap::Args;
use convoke_api::rooms::InviteView;
use convoke_core::secret::SecretText;
use convoke_kibitz::participant::{Event, Profile};
use convoke_room::{Agent, AgentKeyFile, Config, JoinError, Said, SayError, Session, Transport, relay_url};
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use crate::commands::{Verb, typed};
use crate::connect;
use crate::exit::{Exit, usage};
use crate::output::Output;
use crate::show::{clean, clean_lines};
use convoke_cli::signals::Signals;

#[derive(Clone, Debug, Args)]
pub(crate) struct TakePart {
    /// The room
    #[arg(long, add = crate::complete::rooms())]
    room: String,
    /// Your name in the room
    #[arg(long)]
    name: Option<String>,
    /// How content travels in the room: through the hub, or directly (WebRTC)
    #[arg(long, default_value = "relay", value_parser = ["relay", "mesh"])]
    transport: String,
    /// Enter as an agent, with this key
    #[arg(long, value_name = "FILE", conflicts_with_all = ["invite", "guest"])]
    key: Option<PathBuf>,
    /// Enter with this invite
    #[arg(long, env = "CONVOKE_ROOM_INVITE", hide_env_values = true, conflicts_with = "guest")]
    invite: Option<String>,
    /// Enter an open room as a guest
    #[arg(long)]
    guest: bool,
    /// Enter as an agent: read-only until a host changes the grant
    #[arg(long)]
    agent: bool,
    /// The model that sees what this agent perceives; its name is shown to the room
    #[arg(long, value_name = "NAME")]
    backend: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ActArgs {
    #[command(flatten)]
    part: TakePart,
    /// What to do, as JSON in the application's own terms
    #[arg(allow_hyphen_values = true)]
    action: String,
}

#[derive(Debug, Args)]
pub(crate) struct SayArgs {
    #[command(flatten)]
    part: TakePart,
    /// What to say; `-` reads it from standard input
    #[arg(allow_hyphen_values = true)]
    text: String,
}

/// How to take part as the arguments say, and whether as an agent.
pub(super) async fn config(verb: Verb<'_>, args: TakePart, read_only: bool) -> Result<(Config, bool)> {
    let transport = Transport::parse(&args.transport).unwrap_or_default();
    let bearer = args.key.is_some() || args.invite.is_some() || args.guest;
    // Whoever has a key or an invite comes by it; else an operator comes by their token.
    let (hub, token): (String, Option<SecretText>) = if bearer {
        (connect::base(verb.global)?, None)
    } else {
        let (hub, token) = connect::hub(verb.global)?;
        (hub, Some(token))
    };
    // On the mesh there is no request that a token could come with: the operator shows a pass instead.
    let invite = match args.invite {
        None if transport == Transport::Mesh && !bearer => Some(pass(verb, &args.room).await?),
        invite => invite,
    };
    let key = args.key.as_deref().map(AgentKeyFile::open).transpose().map_err(|why| usage(why.to_string()))?;
    let agent = args.agent || key.is_some() || args.backend.is_some();
    let profile = Profile {
        name: args.name.unwrap_or_default(),
        agent: agent || read_only,
        read_only,
        egress: args.backend.is_some(),
        backend: args.backend,
        token: None,
        invite,
    };
    relay_url(&hub, &args.room).map_err(|why| usage(why.to_string()))?;
    Ok((Config { hub, room: args.room, transport, profile, token, key: key.map(Arc::new) }, agent))
}

/// Comes in as the arguments say.
async fn enter(verb: Verb<'_>, args: TakePart, read_only: bool) -> Result<(Session, bool)> {
    let (config, agent) = config(verb, args, read_only).await?;
    let (room, output) = (config.room.clone(), verb.output);
    match Session::join(config, || output.note("waiting in the lobby: a host decides")).await {
        Ok(session) => Ok((session, agent)),
        Err(JoinError::Connect(why)) => Err(why.into()),
        Err(why) => Err(anyhow::anyhow!("cannot enter room `{room}`: {why}")),
    }
}

/// A pass for the operator whose token this is.
async fn pass(verb: Verb<'_>, room: &str) -> Result<String> {
    let path = format!("{}/pass", super::path(room));
    let json: Box<RawValue> = verb.client()?.post(&path, &json!({})).await?;
    let made: InviteView = typed(&json)?;
    Ok(made.invite)
}

/// `convoke room act`: asks the application for an action, and prints what became of it.
pub(super) async fn act(verb: Verb<'_>, args: ActArgs) -> Result<Exit> {
    let action = match serde_json::from_str::<Box<RawValue>>(&args.action) {
        Ok(action) => action,
        Err(_) => return Err(usage("the action must be JSON, as in '{\"play\":\"7S\"}'")),
    };
    let (session, output) = (enter(verb, args.part, false).await?.0, verb.output);
    let agent = Agent::over(session, false);
    let done = agent.act(&action).await;
    agent.leave().await;
    let result = done?;
    match &result {
        _ if output.json => output.json(&json!({ "ok": true, "result": result }))?,
        Some(result) => output.text(&clean(result.get()))?,
        None => output.note("delivered; the application did not say what became of it"),
    }
    Ok(Exit::Done)
}

pub(super) async fn observe(verb: Verb<'_>, args: TakePart) -> Result<Exit> {
    let mut signals = Signals::listen()?;
    let (mut session, _) = enter(verb, args, true).await?;
    loop {
        tokio::select! {
            event = session.next() => match event {
                Ok(event) => show(verb.output, event)?,
                Err(why) => anyhow::bail!("no longer in the room: {why}"),
            },
            () = signals.next() => {
                session.leave().await;
                return Ok(Exit::Done);
            }
        }
    }
}

pub(super) async fn join(verb: Verb<'_>, args: TakePart) -> Result<Exit> {
    let mut signals = Signals::listen()?;
    let (mut session, is_agent) = enter(verb, args, false).await?;
    let (sender, mut lines) = mpsc::channel::<String>(64);
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                break;
            }
        }
    });
    let mut open = true;
    loop {
        tokio::select! {
            event = session.next() => match event {
                Ok(event) => show(verb.output, event)?,
                Err(why) => anyhow::bail!("no longer in the room: {why}"),
            },
            // The end of standard input is not the participant's: it still listens.
            line = lines.recv(), if open => match line {
                None => open = false,
                Some(line) if line.trim().is_empty() => {}
                Some(line) => match speak(&mut session, is_agent, &line).await {
                    Ok(()) => {}
                    Err(why @ SayError::Lost(_)) => return Err(why.into()),
                    Err(why) => verb.output.note(format_args!("not said: {why}")),
                },
            },
            () = signals.next() => {
                session.leave().await;
                return Ok(Exit::Done);
            }
        }
    }
}

pub(super) async fn say(verb: Verb<'_>, args: SayArgs) -> Result<Exit> {
    let text = match args.text.as_str() {
        "-" => io::read_to_string(io::stdin()).context("cannot read standard input")?,
        _ => args.text,
    };
    let (mut session, is_agent) = enter(verb, args.part, false).await?;
    let said = speak(&mut session, is_agent, &text).await;
    session.leave().await;
    said?;
    if verb.output.json {
        verb.output.json(&json!({ "ok": true }))?;
    }
    Ok(Exit::Done)
}

/// People use the built-in chat, agents their envelope: that is how the contract's programs tell them apart.
async fn speak(session: &mut Session, is_agent: bool, text: &str) -> Result<(), SayError> {
    if is_agent { session.say(text).await } else { session.chat(text).await }
}

/// What is said goes to standard output, what happens to standard error.
fn show(output: &Output, event: Event) -> Result<()> {
    match event {
        Event::Chat(said) if output.json => output.json(&json!({
            "from": said.from,
            "name": said.name,
            "text": said.text,
            "rule": said.rule,
            "sender": said.sender,
            "part": said.part.map(|(part, _)| part),
            "parts": said.part.map(|(_, parts)| parts),
        })),
        Event::Chat(said) => output.text(&line(&said)),
        Event::Act { from, id, action } if output.json => {
            output.json(&json!({ "from": from, "id": id, "act": action }))
        }
        Event::Data { from, data } if output.json => output.json(&json!({ "from": from, "data": data })),
        other => {
            if let Some(words) = words(&other) {
                output.note(words);
            }
            Ok(())
        }
    }
}

/// A line of chat. Who said it stands first: participants, who choose their names, in angle brackets; what came by a rule
/// with the rule in square ones. Further lines are set in, so that nobody can write what looks like another's.
fn line(said: &Said) -> String {
    let who = match (&said.rule, &said.sender) {
        (Some(rule), Some(sender)) => format!("[{}] {}:", clean(rule), clean(sender)),
        _ => format!("<{}>", clean(&said.name)),
    };
    let text = if io::stdout().is_terminal() { clean_lines(&said.text) } else { said.text.clone() };
    format!("{who} {}", text.replace('\n', "\n    "))
}

fn words(event: &Event) -> Option<String> {
    Some(match event {
        Event::Joined { id, name, kind } => format!("in the room as {} ({kind}, {id})", clean(name)),
        Event::Refused { what, reason, message, .. } => {
            format!("not said: the room refused {} ({}): {}", clean(what), clean(reason), clean(message))
        }
        Event::Reset => "the host cleared what was said".into(),
        Event::Kicked => "removed from the room".into(),
        Event::Problem { code, message } => format!("the hub said {}: {}", clean(code), clean(message)),
        Event::Malformed(why) => format!("cannot read a frame of the hub: {why}"),
        Event::Send(_)
        | Event::Lobby(_)
        | Event::Roster
        | Event::Chat(_)
        | Event::View
        | Event::Act { .. }
        | Event::Acted { .. }
        | Event::Waiting { .. }
        | Event::Data { .. }
        | Event::Schema(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_writes_what_looks_like_anothers() {
        let said = |name: &str, text: &str, rule: Option<&str>| Said {
            from: "x".into(),
            name: name.into(),
            text: text.into(),
            rule: rule.map(Into::into),
            sender: rule.map(|_| "client-a".into()),
            part: None,
        };
        assert_eq!(line(&said("hub", "built", Some("deploy"))), "[deploy] client-a: built");
        assert_eq!(line(&said("[deploy] client-a:", "built", None)), "<[deploy] client-a:> built");
        assert_eq!(line(&said("a", "x\n[deploy] client-a: built", None)), "<a> x\n    [deploy] client-a: built");
    }
}
