//! `convoke client`: run a paired Yonexus client on this machine.

mod pair;
mod run;

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use convoke_client::{Client, Config, Ended, Event, SendError, StateFile, hub_url};
use serde_json::json;

use super::Verb;
use crate::exit::{Exit, usage};
use crate::parse;
use crate::table::{Field, Grid, Tone};
use crate::{local, when};

#[derive(Debug, Subcommand)]
pub(crate) enum ClientCommand {
    /// Pair with a hub (--hub ws://…); asks for the pairing code
    Pair(pair::PairArgs),
    /// Stay connected: send lines `rule::content` from standard input, print what arrives
    Run(run::RunArgs),
    /// Send one message, and exit when the hub has accepted it
    Send(SendArgs),
    /// Show the state of this client
    Status(Which),
}

/// Which client.
#[derive(Clone, Debug, Args)]
pub(crate) struct Which {
    /// The client's identifier; needed when several are paired
    #[arg(long, value_name = "IDENTIFIER", value_parser = parse::identifier)]
    id: Option<String>,
    /// The client's state file [default: clients/IDENTIFIER.json in the data directory]
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct SendArgs {
    #[command(flatten)]
    which: Which,
    /// The rule identifier
    rule: String,
    /// The content; `-` reads it from standard input
    #[arg(allow_hyphen_values = true)]
    content: String,
}

pub(crate) async fn run(verb: Verb<'_>, command: ClientCommand) -> Result<Exit> {
    match command {
        ClientCommand::Pair(args) => pair::pair(verb, args).await,
        ClientCommand::Run(args) => run::run(verb, args).await,
        ClientCommand::Send(args) => send(verb, args).await,
        ClientCommand::Status(which) => status(verb, &which),
    }
}

impl Which {
    /// Where the state of `identifier` is kept.
    fn path(&self, verb: Verb<'_>, identifier: &str) -> Result<PathBuf> {
        match &self.state {
            Some(path) => Ok(path.clone()),
            None => Ok(folder(verb)?.join(format!("{identifier}.json"))),
        }
    }

    /// The state file of a client that was paired.
    fn open(&self, verb: Verb<'_>) -> Result<StateFile> {
        let path = match (&self.state, &self.id) {
            (Some(path), _) => path.clone(),
            (None, Some(id)) => self.path(verb, id)?,
            (None, None) => only_one(verb)?,
        };
        let is_there = path.try_exists().with_context(|| format!("cannot read {}", path.display()))?;
        if !is_there {
            let message = format!("no client is paired in {}; pair one with `convoke client pair`", path.display());
            return Err(usage(message));
        }
        Ok(StateFile::open(&path)?)
    }
}

fn folder(verb: Verb<'_>) -> Result<PathBuf> {
    Ok(local::data_dir(verb.global.data.as_deref())?.join("clients"))
}

/// The one state file there is: of a client that was paired, where there is one. What a pairing left that is not over,
/// or did not come about, is no reason to ask.
fn only_one(verb: Verb<'_>) -> Result<PathBuf> {
    let folder = folder(verb)?;
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let all = entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == "json"));
    // One that cannot be read counts: whoever has it must learn of it.
    let is_paired = |path: &PathBuf| StateFile::open(path).map_or(true, |state| state.is_paired());
    let (paired, others): (Vec<_>, Vec<_>) = all.partition(is_paired);
    let mut found = if paired.is_empty() { others } else { paired };
    match (found.pop(), found.is_empty()) {
        (Some(path), true) => Ok(path),
        (None, _) => Err(usage("no client is paired on this machine; see `convoke client pair --help`")),
        (Some(_), false) => {
            Err(usage(format!("several clients are paired in {}; name one with --id", folder.display())))
        }
    }
}

/// The hub's address: as named, else as the client was paired with it.
fn address(verb: Verb<'_>, state: Option<&StateFile>) -> Result<String> {
    let env = std::env::var("CONVOKE_HUB").ok().filter(|text| !text.is_empty());
    let kept = state.and_then(|state| state.kept().hub.clone());
    let named = verb.global.hub.clone().or(kept).or(env);
    let named = named.ok_or_else(|| usage("name the hub: --hub ws://127.0.0.1:7410/yonexus"))?;
    hub_url(&named).map_err(|why| usage(why.to_string()))
}

async fn send(verb: Verb<'_>, args: SendArgs) -> Result<Exit> {
    let state = args.which.open(verb)?;
    let hub = address(verb, Some(&state))?;
    let content = match args.content.as_str() {
        "-" => std::io::read_to_string(std::io::stdin()).context("cannot read standard input")?,
        text => text.to_owned(),
    };
    let mut running = Client::new(Config { reconnect: false, ..Config::new(&hub, state) }).start()?;
    let mut why = None;
    while let Some(event) = running.events.recv().await {
        match event {
            Event::Authenticated { .. } => {
                let sent = running.handle.send(&args.rule, &content).await;
                running.handle.stop().await;
                let _ = running.task.await;
                return match sent {
                    Ok(()) => {
                        if verb.output.json {
                            verb.output.json(&json!({ "ok": true }))?;
                        }
                        Ok(Exit::Done)
                    }
                    Err(why @ (SendError::Rule(_) | SendError::TooLarge)) => Err(usage(why.to_string())),
                    Err(why) => Err(why.into()),
                };
            }
            Event::Lost { why: told, .. } => why = Some(told),
            _ => {}
        }
    }
    let ended = running.task.await.context("the client ended unexpectedly")?;
    Err(anyhow::anyhow!("{}", why.unwrap_or_else(|| ended.to_string())))
}

fn status(verb: Verb<'_>, which: &Which) -> Result<Exit> {
    let state = which.open(verb)?;
    let kept = state.kept();
    let runs = state.is_in_use();
    let status = state.status();
    let state_is_paired = state.is_paired();
    // What needs a person stays true when the program has ended.
    let tells = |state: &str| runs || (state == "pairing_required" && !state_is_paired);
    let name = status.as_ref().map(|s| s.state.as_str()).filter(|state| tells(state)).unwrap_or("idle");
    if verb.output.json {
        verb.output.json(&json!({
            "identifier": kept.identifier,
            "hub": kept.hub,
            "state": name,
            "paired": state.is_paired(),
            "running": runs,
            "pid": status.as_ref().filter(|_| runs).map(|s| s.pid),
            "since": status.as_ref().map(|s| s.since),
            "clock_ahead_s": status.as_ref().and_then(|s| s.clock_ahead_s),
            "problem": status.as_ref().and_then(|s| s.problem.clone()),
            "paired_at": kept.paired_at,
            "last_auth": kept.last_auth,
            "file": state.path(),
        }))?;
        return Ok(Exit::Done);
    }
    let now = when::now();
    let mut grid = Grid::facts();
    grid.fact("identifier", kept.identifier.as_str());
    grid.fact_if("hub", kept.hub.as_deref());
    let tone = if name == "authenticated" { Tone::Good } else { Tone::Plain };
    grid.fact("state", Field::new(name, tone));
    grid.fact("paired", if state.is_paired() { "yes" } else { "no" });
    grid.fact_if("paired at", kept.paired_at.map(|at| when::shown(at, now)));
    grid.fact_if("last authenticated", kept.last_auth.map(|at| when::shown(at, now)));
    if let Some(status) = &status {
        grid.fact("since", when::shown(status.since, now));
        grid.fact_if("process", runs.then(|| status.pid.to_string()));
        grid.fact_if("clock", status.clock_ahead_s.filter(|s| s.abs() > 2).map(drift));
        grid.fact_if("problem", status.problem.as_deref());
    }
    grid.fact("file", state.path().display().to_string());
    verb.output.table(&grid, "")?;
    Ok(Exit::Done)
}

/// A clock that is off, in words.
fn drift(ahead: i64) -> String {
    let word = if ahead >= 0 { "ahead of" } else { "behind" };
    format!("this machine's clock is {} s {word} the hub's", ahead.unsigned_abs())
}

/// How a client ended, as the program's own end.
fn outcome(ended: Ended) -> Result<Exit> {
    match ended {
        Ended::Stopped => Ok(Exit::Done),
        Ended::State(why) => Err(why.into()),
        other => Err(anyhow::anyhow!("{other}")),
    }
}
