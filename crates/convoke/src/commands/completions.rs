//! `convoke completions`: print the completions for a shell.

use anyhow::Result;
use clap::{Args, Command, CommandFactory as _};
use clap_complete::Shell;

use super::Verb;
use crate::args::Cli;
use crate::exit::Exit;

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell; for bash: convoke completions bash > ~/.local/share/bash-completion/completions/convoke
    shell: Shell,
}

/// Without the verbs that the help does not show: the generators offer them all the same.
fn visible(whole: &Command) -> Command {
    let verbs = whole.get_subcommands().filter(|verb| !verb.is_hide_set());
    Command::new("convoke").args(whole.get_arguments()).subcommands(verbs)
}

pub(crate) fn run(verb: Verb<'_>, args: &CompletionsArgs) -> Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut visible(&Cli::command()), "convoke", &mut script);
    verb.output.raw(&String::from_utf8(script)?)?;
    Ok(Exit::Done)
}
