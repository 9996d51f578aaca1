//! `convoke shell`: lines for a machine's shell. Each line is a call: it passes the gate and is in the journal.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use clap::Args;

use super::Verb;
use super::exec::{self, PATIENCE_S};
use super::remote::{self, Line};
use crate::complete;
use crate::exit::Exit;
use crate::parse::{self, AgentName};
use crate::show::clean;

#[derive(Debug, Args)]
pub(crate) struct ShellArgs {
    /// The machine
    #[arg(value_parser = parse::agent_name, add = complete::machines())]
    machine: AgentName,
    /// End each command after this time
    #[arg(long, value_name = "SECONDS", value_parser = parse::seconds, default_value_t = PATIENCE_S)]
    timeout: f64,
}

pub(crate) async fn run(verb: Verb<'_>, args: ShellArgs) -> Result<Exit> {
    let client = verb.client()?;
    let agent = remote::find(&client, &args.machine).await?;
    if !agent.online {
        return Err(anyhow!("machine {} is offline; `convoke agents show {}` says since when", agent.id, agent.id));
    }
    let timeout = Duration::from_secs_f64(args.timeout);
    let is_typed = std::io::stdin().is_terminal();
    if is_typed {
        verb.output.note(format_args!(
            "Each line runs by itself on {} and is recorded; the working directory and variables do not last. Leave with \
             exit or Ctrl-D.",
            clean(&agent.id)
        ));
    }
    let mut last = Exit::Done;
    loop {
        if is_typed {
            write!(std::io::stderr(), "{}> ", clean(&agent.id)).context("cannot write the prompt")?;
        }
        let mut line = String::new();
        if std::io::stdin().lock().read_line(&mut line).context("cannot read the line")? == 0 {
            return Ok(last);
        }
        match line.trim() {
            "" => continue,
            "exit" | "quit" => return Ok(last),
            line => {
                let request = remote::request(&agent, Line::Shell(line), timeout)?;
                last = match remote::run(verb, &client, &agent, &request, true).await {
                    Ok(ended) => exec::show(verb, &agent, &ended)?,
                    // A hub that says no to one line may take the next.
                    Err(why) if is_typed => {
                        verb.output.error(&why);
                        Exit::NOT_REMOTE
                    }
                    Err(why) => return Err(why),
                };
                if is_typed && last.code() != 0 {
                    verb.output.note(format_args!("(exit code {})", last.code()));
                }
            }
        }
    }
}
