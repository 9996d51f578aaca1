//! `convoke`: the command line, nothing else. What the commands do is done by the crates below; here they are parsed,
//! told where their hub is, and what comes back is shown to a person or a program.

mod args;
mod bench;
mod commands;
mod complete;
mod connect;
mod local;
mod logging;
mod parse;
mod workers;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use convoke_api::ClientError;
use convoke_cli::{exit, output, show, table, when};

use crate::args::Cli;
use crate::exit::Exit;
use crate::output::Output;

// The hub keeps many small, short-lived buffers on many threads; the system's allocator fragments under that. Linked in
// where the system's own would be, it also serves SQLite, and takes a third fewer instructions than behind Rust's
// interface, which asks for an alignment every time. Tried on Linux only. It does not ask for huge pages: a hub whose
// agents all push at once would zero two megabytes for every few kilobytes that it comes to use.
#[cfg(target_os = "linux")]
use mimalloc as _;

/// The same, through Rust's interface.
#[cfg(not(target_os = "linux"))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // A shell asks what may stand here.
    clap_complete::CompleteEnv::with_factory(commands::completions::visible).bin("convoke").complete();
    let args = arguments(std::env::args_os());
    // Before the command line is understood: that alone takes some megabytes.
    if args.get(1).is_some_and(|verb| verb == "rpc") {
        convoke_coder::spare_memory();
    }
    // A command that ran ends with its own exit code: what went wrong before must be told apart.
    let is_exec = commands::exec::is_meant(&args);
    let cli: Cli = match convoke_cli::parse::command_line(args, if is_exec { Exit::NOT_REMOTE } else { Exit::Usage })
    {
        Ok(cli) => cli,
        Err(exit) => return exit.into(),
    };
    let output = Output::new(cli.global.json);
    match commands::run(cli, &output) {
        Ok(exit) => exit.into(),
        // `convoke audit list | head` is no error: who reads has seen enough.
        Err(error) if output::is_closed_pipe(&error) => Exit::Done.into(),
        Err(error) => {
            show_error(&output, &error);
            if is_exec { Exit::NOT_REMOTE.into() } else { exit::of(&error).into() }
        }
    }
}

/// Shows what went wrong. A hub's own error goes to a program as the hub sent it.
fn show_error(output: &Output, error: &anyhow::Error) {
    match error.downcast_ref() {
        Some(ClientError::Refused { body, .. }) if output.json => {
            output.note(serde_json::to_string(body).unwrap_or_default());
        }
        Some(ClientError::Unreachable { .. } | ClientError::OtherScheme { .. }) => {
            output.error_as("unreachable", error)
        }
        Some(ClientError::Lost { .. }) => output.error_as("lost", error),
        Some(ClientError::Distrusted { .. }) => output.error_as("distrusted", error),
        Some(ClientError::NotAHub { .. }) => output.error_as("not_a_hub", error),
        _ => output.error(error),
    }
}

/// The command line. Called by the name of an agent, as a link in the original agent's place is, the program is one.
fn arguments(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut args: Vec<OsString> = args.collect();
    let name = args.first().and_then(|name| Path::new(name).file_stem()).and_then(OsStr::to_str);
    let has_word = args.get(1).is_some_and(|word| word == "agent");
    if matches!(name, Some("kenny-agent" | "convoke-agent")) && !has_word {
        args.insert(1, "agent".into());
    }
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agents_name_makes_an_agent() {
        let of = |words: &[&str]| arguments(words.iter().map(OsString::from));
        assert_eq!(of(&["/usr/bin/kenny-agent", "run"]), ["/usr/bin/kenny-agent", "agent", "run"]);
        // As a service or an update starts it, whatever its file is called.
        assert_eq!(of(&["/x/convoke-agent", "agent", "run"]), ["/x/convoke-agent", "agent", "run"]);
        assert_eq!(of(&["kenny-agent.exe"]), ["kenny-agent.exe", "agent"]);
        assert_eq!(of(&["convoke", "up"]), ["convoke", "up"]);
        assert!(of(&[]).is_empty());
    }
}
