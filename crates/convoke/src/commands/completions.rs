//! `convoke completions`: print the completions for a shell.

use anyhow::Result;
use clap::{Args, Command, CommandFactory as _};
use clap_complete::Shell;

use super::Verb;
use crate::args::Cli;
use crate::exit::Exit;

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell; completes names of machines, tools and rooms, too. For bash: convoke completions bash > ~/.local/share/bash-completion/completions/convoke
    shell: Shell,
}

/// Without the verbs that the help does not show: the generators offer them all the same.
pub(crate) fn visible() -> Command {
    let whole = Cli::command();
    let verbs = whole.get_subcommands().filter(|verb| !verb.is_hide_set());
    Command::new("convoke").args(whole.get_arguments()).subcommands(verbs)
}

pub(crate) fn run(verb: Verb<'_>, args: &CompletionsArgs) -> Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut visible(), "convoke", &mut script);
    // Behind it, so that it wins where the shell can run the program: that knows the names of machines, tools and rooms.
    let shells = clap_complete::env::Shells::builtins();
    if let Some(shell) = shells.completer(&args.shell.to_string()) {
        shell.write_registration("COMPLETE", "convoke", "convoke", "convoke", &mut script)?;
    }
    verb.output.raw(&String::from_utf8(script)?)?;
    Ok(Exit::Done)
}
