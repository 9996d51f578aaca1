//! `convoke completions`: what a shell needs to complete our command line.

use anyhow::Result;
use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::Verb;
use crate::args::Cli;
use crate::exit::Exit;

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// For bash: convoke completions bash > ~/.local/share/bash-completion/completions/convoke
    shell: Shell,
}

pub(crate) fn run(verb: Verb<'_>, args: &CompletionsArgs) -> Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "convoke", &mut script);
    verb.output.raw(&String::from_utf8(script)?)?;
    Ok(Exit::Done)
}
