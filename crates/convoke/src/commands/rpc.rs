//! `convoke rpc`: the Kward backend on standard input and output.

use std::io::Write as _;

use anyhow::{Context as _, Result};
use clap::Args;
use convoke_coder::Environment;

use crate::exit::Exit;
use convoke_cli::signals::Signals;

/// How to serve.
#[derive(Debug, Args)]
pub(crate) struct RpcArgs {
    /// Print the JSON Schema of every method and notification, and end
    #[arg(long)]
    schema: bool,
}

/// Serves one client until it goes away. Standard error stays silent: clients show it to the person as an error.
pub(crate) fn run(args: &RpcArgs) -> Result<Exit> {
    if args.schema {
        std::io::stdout().lock().write_all(convoke_kward::schema::text().as_bytes())?;
        return Ok(Exit::Done);
    }
    let signal = async {
        match Signals::listen() {
            Ok(mut signals) => signals.next().await,
            // Without a way to hear of a signal, the system ends the process by itself.
            Err(_) => std::future::pending().await,
        }
    };
    convoke_coder::serve(Environment::of_process(), std::io::stdin(), pipe()?, signal)
        .context("cannot serve on standard input and output")?;
    Ok(Exit::Done)
}

/// Standard output as it is: what the standard library wraps around it looks for line ends in every frame.
#[cfg(unix)]
fn pipe() -> Result<std::fs::File> {
    use std::os::fd::AsFd as _;
    let stdout = std::io::stdout();
    let pipe = stdout.as_fd().try_clone_to_owned().context("cannot open standard output")?;
    Ok(pipe.into())
}

#[cfg(windows)]
fn pipe() -> Result<std::fs::File> {
    use std::os::windows::io::AsHandle as _;
    let stdout = std::io::stdout();
    let pipe = stdout.as_handle().try_clone_to_owned().context("cannot open standard output")?;
    Ok(pipe.into())
}
