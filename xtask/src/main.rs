//! Developer commands: `cargo xtask setup | test | page | conformance | cluster | bench | windows | tidy`.
//!
//! Everything a contributor or a build machine runs goes through here, so that there is one list of what "all checks"
//! means. Messages go to standard error, as cargo's own do.

mod bench;
mod check;
mod cluster;
mod conformance;
mod page;
mod run;
mod setup;
mod skipped;
mod tidy;
mod windows;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;

const USAGE: &str = "\
Usage: cargo xtask <command>

  setup            install what the tests need and this machine lacks
  test [--fast]    format check, tidy checks, lints, the web page, fuzz targets compile, MCP conformance, the page
                   in Chromium, all tests (--fast leaves out the fuzz targets, the conformance and Chromium)
  page [--chromium]
                   the web page's checks alone, or with Chromium its tests in a browser
  conformance      the official MCP suite and Inspector against a hub with the suite's fixtures
  cluster [--seed N] [--minutes M] [--agents N] [--faults a,b,…] [--keep DIR]
                   three hubs with PostgreSQL, NATS and simulated agents in network namespaces, faults from the
                   seed, and a check of what callers, agents and journals have seen (root)
  bench [args]     build the release binaries and run `convoke bench` with these arguments;
                   a name before them, as in `bench mcp`, measures only that
  windows [--check]
                   build the programs for Windows, where the target and mingw are installed, or check them
  tidy [folder]    the tidy checks alone, on this checkout or another";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["setup"] => setup::run(&root()),
        ["test"] => check::run(&root(), check::Scope::All),
        ["test", "--fast"] => check::run(&root(), check::Scope::Fast),
        ["page", rest @ ..] => page::run(&root(), rest),
        ["conformance"] => conformance::run(&root()),
        ["cluster", rest @ ..] => cluster::run(&root(), rest),
        ["bench", rest @ ..] => bench::run(&root(), rest),
        ["windows", rest @ ..] => windows::run(&root(), rest),
        ["tidy"] => tidy::run(&root()),
        ["tidy", folder] => tidy::run(Path::new(folder)),
        ["help" | "--help" | "-h"] => {
            eprintln!("{USAGE}");
            Ok(())
        }
        other => {
            if !other.is_empty() {
                eprintln!("cargo xtask does not know `{}`.\n", other.join(" "));
            }
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    finish(outcome)
}

fn finish(outcome: Result<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("\nxtask: {why:#}");
            ExitCode::FAILURE
        }
    }
}

/// The checkout that this program was built from.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}
