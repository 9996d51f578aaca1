//! `convoke`: the command line, nothing else. What the commands do is done by the crates below; here they are parsed,
//! told where their hub is, and what comes back is shown to a person or a program.

mod args;
mod bench;
mod commands;
mod connect;
mod exit;
mod local;
mod logging;
mod output;
mod parse;
mod show;
mod table;
mod when;

use std::process::ExitCode;

use clap::Parser as _;

use crate::args::Cli;
use crate::exit::Exit;
use crate::output::Output;

/// The hub keeps many small, short-lived buffers on many threads; the system's allocator fragments under that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let output = Output::new(cli.global.json);
    match commands::run(cli, &output) {
        Ok(exit) => exit.into(),
        // `convoke audit list | head` is no error: who reads has seen enough.
        Err(error) if output::is_closed_pipe(&error) => Exit::Done.into(),
        Err(error) => {
            output.error(&error);
            exit::of(&error).into()
        }
    }
}
