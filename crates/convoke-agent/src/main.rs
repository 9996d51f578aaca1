//! `convoke-agent`: the endpoint agent alone, for machines that are only that. Its verbs are those of `convoke agent`.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;
use convoke_cli::agent::{AgentArgs, Verb, run};
use convoke_cli::exit::{self, Exit};
use convoke_cli::output::{self, Output};
use convoke_cli::parse;

/// Make this machine an agent of a hub, and run the agent.
#[derive(Debug, Parser)]
#[command(name = "convoke-agent", version, max_term_width = 110)]
struct Cli {
    /// The hub's address, such as https://hub.example [env: CONVOKE_AGENT_HUB, KENNY_SERVER]
    #[arg(long, global = true, value_name = "URL")]
    hub: Option<String>,
    /// The one-time token to enrol with [env: CONVOKE_AGENT_TOKEN, KENNY_ENROLL_TOKEN]
    #[arg(long, global = true, value_name = "TOKEN", allow_hyphen_values = true)]
    token: Option<String>,
    /// Print JSON instead of tables
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    agent: AgentArgs,
}

fn main() -> ExitCode {
    let args = arguments(std::env::args_os());
    let cli: Cli = match parse::command_line(args, Exit::Usage) {
        Ok(cli) => cli,
        Err(exit) => return exit.into(),
    };
    let output = Output::new(cli.json);
    let verb = Verb {
        output: &output,
        program: "convoke-agent",
        hub: cli.hub.as_deref(),
        token: cli.token.as_deref(),
        hub_data: None,
    };
    match run(verb, cli.agent) {
        Ok(exit) => exit.into(),
        // `convoke-agent logs | head` is no error: the reader has seen enough.
        Err(error) if output::is_closed_pipe(&error) => Exit::Done.into(),
        Err(error) => {
            output.error(&error);
            exit::of(&error).into()
        }
    }
}

/// The command line without the word `agent` before the verb. Services and updates start either program with it, so that
/// one can take the other's place.
fn arguments(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut args: Vec<OsString> = args.collect();
    if args.get(1).is_some_and(|word| word == "agent") {
        args.remove(1);
    }
    args
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_word_agent_changes_nothing() {
        for line in [
            "",
            "run --state d --service --set telemetry_s=60",
            "--server wss://hub.example/agent/ws --agent-id pc",
            "enroll --hub http://127.0.0.1:1 --id pc --token -t --hub-key k --json",
            "enroll --sonde http://h --token t --name web-1",
            "status --state d --json",
            "pause",
            "install --print",
            "packs check f.toml",
            "collect",
            "self-check",
            "recover-update --state d",
        ] {
            let words = |first: &str| arguments(format!("{first} {line}").split_whitespace().map(OsString::from));
            let parse = |first| format!("{:?}", Cli::try_parse_from(words(first)).expect(line));
            assert_eq!(parse("convoke-agent"), parse("convoke-agent agent"), "{line}");
        }
        assert_eq!(arguments(["convoke-agent", "status"].map(OsString::from).into_iter()).len(), 2);
    }
}
