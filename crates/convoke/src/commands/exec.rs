//! `convoke exec`: a command on one machine, as if it ran here, or on many, as a table.

use std::ffi::OsString;
use std::time::Duration;

use anyhow::{Result, anyhow};
use clap::Args;
use convoke_api::agents::{Agent, AgentQuery};
use futures_util::{StreamExt as _, stream};
use serde_json::json;

use super::pages::Pages;
use super::remote::{self, End, Ended, Line};
use super::{Verb, prompt, typed};
use crate::complete;
use crate::exit::{Exit, usage};
use crate::parse::{self, AgentName};
use crate::show::{self, clean};
use crate::table::{Field, Grid, Tone};

/// How long a command may take if the person says nothing.
pub(super) const PATIENCE_S: f64 = 600.0;

/// On how many machines a command runs at once.
const AT_ONCE: usize = 16;

#[derive(Debug, Args)]
#[command(
    after_help = "One word after -- is a line for the machine's shell: convoke exec pc-1 -- 'ls | wc -l'. Several are a \
program and its arguments, which no shell takes apart: convoke exec pc-1 -- ls '/tmp/a b'.\n\n\
The exit code is the command's own, and 255 when it did not run or nobody knows. With --query: 0 when every command ended \
with 0, 1 when one did not, 255 when one did not run."
)]
pub(crate) struct ExecArgs {
    /// The machine
    #[arg(value_parser = parse::agent_name, add = complete::machines(), required_unless_present = "query", conflicts_with = "query")]
    machine: Option<AgentName>,
    /// Run on every machine that matches, such as 'tag:lab AND NOT os:windows'
    #[arg(long)]
    query: Option<String>,
    /// End the command after this time
    #[arg(long, value_name = "SECONDS", value_parser = parse::seconds, default_value_t = PATIENCE_S)]
    timeout: f64,
    /// With --query: do not ask before running
    #[arg(long)]
    yes: bool,
    /// The command
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

/// Whether a command line is meant for `exec`: its first word that is no global option.
pub(crate) fn is_meant(args: &[OsString]) -> bool {
    let mut words = args.iter().skip(1);
    while let Some(word) = words.next() {
        match word.to_str() {
            Some("--hub" | "--token" | "--data") => drop(words.next()),
            Some(option) if option.starts_with('-') => {}
            word => return word == Some("exec"),
        }
    }
    false
}

pub(crate) async fn run(verb: Verb<'_>, args: ExecArgs) -> Result<Exit> {
    let client = verb.client()?;
    let timeout = Duration::from_secs_f64(args.timeout);
    let line = Line::of(&args.command);
    let Some(machine) = &args.machine else {
        return on_many(verb, &args, line, timeout).await;
    };
    let agent = remote::find(&client, machine).await?;
    let request = remote::request(&agent, line, timeout)?;
    let ended = remote::run(verb, &client, &agent, &request, true).await?;
    if verb.output.json
        && let Some(json) = &ended.json
    {
        verb.output.raw_json(json)?;
        return Ok(code(&ended.end));
    }
    show(verb, &agent, &ended)
}

/// Shows it as if it had run here.
pub(super) fn show(verb: Verb<'_>, agent: &Agent, ended: &Ended) -> Result<Exit> {
    let output = verb.output;
    match &ended.end {
        End::Ran(ran) => {
            output.raw(&ran.stdout)?;
            if !ran.stderr.is_empty() {
                output.note(ran.stderr.strip_suffix('\n').unwrap_or(&ran.stderr));
            }
            if let Some(cut) = ran.cut(&agent.id) {
                output.note(cut);
            }
            if ran.exit_code.is_none_or(|code| u8::try_from(code).is_err()) {
                let code = ran.exit_code.map_or_else(|| "unknown".into(), |code| code.to_string());
                output.note(format_args!("(exit code {code})"));
            }
        }
        End::Failed(failure) => {
            output.note(format_args!("error: {} ({})", clean(&failure.message), clean(&failure.code)));
            if failure.code == "timeout" {
                output.note("  hint: --timeout SECONDS gives it longer");
            }
        }
        End::LeftAlone => {}
    }
    Ok(code(&ended.end))
}

/// The remote's exit code, or 255.
fn code(end: &End) -> Exit {
    match end {
        End::Ran(ran) => {
            ran.exit_code.and_then(|code| u8::try_from(code).ok()).map_or(Exit::NOT_REMOTE, Exit::Remote)
        }
        End::Failed(_) | End::LeftAlone => Exit::NOT_REMOTE,
    }
}

async fn on_many(verb: Verb<'_>, args: &ExecArgs, line: Line<'_>, timeout: Duration) -> Result<Exit> {
    let output = verb.output;
    let client = verb.client()?;
    let query = AgentQuery { query: args.query.clone(), ..AgentQuery::default() };
    let items = Pages::new(&client, "/api/agents", "agents", &query, None)?.all().await?;
    let agents = items.iter().map(|item| typed(item)).collect::<Result<Vec<Agent>>>()?;
    if agents.is_empty() {
        return Err(anyhow!("no machine matches `{}`", args.query.as_deref().unwrap_or_default()));
    }
    let (online, offline): (Vec<_>, Vec<_>) = agents.iter().partition(|agent| agent.online);
    output.remark(radius(&online, &offline));
    if online.is_empty() {
        return Err(anyhow!("none of the machines is online"));
    }
    let question = format!("Run on {}?", machines(online.len()));
    if !args.yes && !prompt::confirm(&question, "this runs on several machines: add --yes to run without a question")?
    {
        return Err(usage("nothing was run"));
    }
    let runs = online.iter().map(|agent| {
        let client = client.clone();
        async move {
            let ended = match remote::request(agent, line, timeout) {
                Ok(request) => remote::run(verb, &client, agent, &request, false).await,
                Err(why) => Err(why),
            };
            (*agent, ended)
        }
    });
    let mut ended: Vec<_> = stream::iter(runs).buffer_unordered(AT_ONCE).collect().await;
    ended.sort_by(|(a, _), (b, _)| a.id.cmp(&b.id));
    if output.json {
        let rows: Vec<_> = ended.iter().map(|(agent, ended)| as_json(agent, ended)).collect();
        output.json(&json!({ "results": rows }))?;
    } else {
        output.table(&table(&ended), "")?;
        output.note(summary(&ended));
    }
    let codes = ended.iter().map(|(_, ended)| ended.as_ref().map_or(Exit::NOT_REMOTE, |ended| code(&ended.end)));
    Ok(codes
        .map(|code| if let Exit::Remote(0 | 255) = code { code } else { Exit::Remote(1) })
        .max_by_key(|c| c.code())
        .unwrap_or(Exit::NOT_REMOTE))
}

/// Whom it will reach.
fn radius(online: &[&Agent], offline: &[&Agent]) -> String {
    const NAMED: usize = 20;
    let names: Vec<_> = online.iter().take(NAMED).map(|agent| clean(&agent.id)).collect();
    let more = online.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let left_out = match offline.len() {
        0 => String::new(),
        n => format!("; {} offline, left out", machines(n)),
    };
    format!("{}: {}{more}{left_out}", machines(online.len()), names.join(", "))
}

fn machines(n: usize) -> String {
    if n == 1 { "1 machine".into() } else { format!("{n} machines") }
}

/// How many ended how.
fn summary(ended: &[(&Agent, Result<Ended>)]) -> String {
    let ran = |code: fn(i64) -> bool| {
        let is_so = |ended: &Result<Ended>| matches!(ended, Ok(Ended { end: End::Ran(ran), .. }) if ran.exit_code.is_some_and(code));
        ended.iter().filter(|(_, ended)| is_so(ended)).count()
    };
    let (well, badly) = (ran(|code| code == 0), ran(|code| code != 0));
    let not = ended.len() - well - badly;
    let told = [(well, "ended with 0"), (badly, "ended with another code"), (not, "did not run, or nobody knows")];
    let told: Vec<_> = told.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
    told.join(", ")
}

fn table(ended: &[(&Agent, Result<Ended>)]) -> Grid {
    let mut grid = Grid::new(&["MACHINE", "OUTCOME", "EXIT", "MS", "OUTPUT"]);
    for (agent, ended) in ended {
        let last = |text: &str| show::clean(text.trim_end().lines().next_back().unwrap_or_default());
        let (outcome, exit, text) = match ended {
            Ok(Ended { end: End::Ran(ran), .. }) => {
                let ok = ran.exit_code == Some(0);
                let text = if ran.stdout.trim().is_empty() { &ran.stderr } else { &ran.stdout };
                let exit = ran.exit_code.map_or_else(|| "-".into(), |code| code.to_string());
                (Field::new("ran", if ok { Tone::Good } else { Tone::Bad }), exit, last(text))
            }
            Ok(Ended { end: End::Failed(failure), .. }) => {
                (Field::new(&failure.code, Tone::Bad), "-".into(), last(&failure.message))
            }
            Ok(Ended { end: End::LeftAlone, .. }) => (Field::new("unknown", Tone::Warn), "-".into(), String::new()),
            Err(why) => (Field::new("failed", Tone::Bad), "-".into(), last(&format!("{why:#}"))),
        };
        let ms = ended.as_ref().ok().and_then(|ended| ended.duration_ms);
        let ms = ms.map_or_else(|| "-".into(), |ms| ms.to_string());
        grid.row([agent.id.as_str().into(), outcome, exit.into(), ms.into(), text.into()]);
    }
    grid
}

fn as_json(agent: &Agent, ended: &Result<Ended>) -> serde_json::Value {
    match ended {
        Ok(Ended { json: Some(json), .. }) => json!({ "agent": agent.id, "call": json }),
        Ok(_) => json!({ "agent": agent.id }),
        Err(why) => json!({ "agent": agent.id, "error": format!("{why:#}") }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verb_is_found_behind_global_options() {
        let meant = |line: &str| is_meant(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert!(
            meant("convoke exec pc-1")
                && meant("convoke --json --hub http://h exec")
                && meant("convoke --hub=x exec")
        );
        assert!(!meant("convoke agents show exec") && !meant("convoke --data exec call") && !meant("convoke"));
    }
}
