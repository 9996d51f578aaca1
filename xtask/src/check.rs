//! `cargo xtask test`: every check there is, in the order in which a mistake shows soonest.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use crate::skipped::{List, Skipped};
use crate::{bench, conformance, page, run, setup, skipped, tidy};

/// How much to check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Everything.
    All,
    /// What changes most often: without fuzz targets and the MCP suite.
    Fast,
}

/// What a step came to.
enum Outcome {
    Passed,
    /// Not run, and why.
    Skipped(&'static str),
}

/// One step of the whole.
struct Step {
    name: &'static str,
    scope: Scope,
    run: fn(&Path, &List) -> Result<Outcome>,
}

const STEPS: &[Step] = &[
    Step { name: "format", scope: Scope::Fast, run: format },
    Step { name: "tidy", scope: Scope::Fast, run: |root, _| tidy::run(root).map(|()| Outcome::Passed) },
    Step { name: "build and lints", scope: Scope::Fast, run: build },
    Step { name: "page", scope: Scope::Fast, run: |root, _| page::check(root).map(skipped_if) },
    Step { name: "fuzz targets", scope: Scope::All, run: fuzz_targets },
    Step {
        name: "conformance",
        scope: Scope::All,
        run: |root, _| conformance::check(root).map(|()| Outcome::Passed),
    },
    Step { name: "page in Chromium", scope: Scope::All, run: |root, _| page::in_chromium(root, &[]).map(skipped_if) },
    Step { name: "tests", scope: Scope::Fast, run: tests },
];

fn skipped_if(why: Option<&'static str>) -> Outcome {
    why.map_or(Outcome::Passed, Outcome::Skipped)
}

/// Runs the steps; stops at the first that fails.
pub(crate) fn run(root: &Path, scope: Scope) -> Result<()> {
    if setup::is_needed(root) {
        // What is missing costs the tests that need it, which the summary names, and no others.
        if let Err(why) = setup::run(root) {
            eprintln!("setup: {why:#}\nsetup: going on without");
        }
    }
    let list = List::begin(root)?;
    let mut summary = Vec::new();
    let mut steps_skipped = Vec::new();
    let mut failure = None;
    for step in STEPS.iter().filter(|step| scope == Scope::All || step.scope == Scope::Fast) {
        eprintln!("\n==> {}", step.name);
        let started = Instant::now();
        let outcome = (step.run)(root, &list);
        let took = started.elapsed();
        let line = match &outcome {
            Ok(Outcome::Passed) => "passed",
            Ok(Outcome::Skipped(why)) => {
                steps_skipped.push(Skipped { what: step.name.to_owned(), why: (*why).to_owned() });
                "skipped"
            }
            Err(_) => "FAILED",
        };
        eprintln!("<== {}: {line} ({})", step.name, shown(took));
        summary.push(format!("  {:<16} {:>8}  {line}", step.name, shown(took)));
        if let Err(why) = outcome {
            failure = Some(why.context(format!("the step `{}` failed", step.name)));
            break;
        }
    }
    let skipped: Vec<Skipped> = steps_skipped.into_iter().chain(list.end(root)?).collect();
    let heading = if failure.is_none() { "All checks passed:\n" } else { "" };
    eprintln!("\n{heading}{}\n{}", summary.join("\n"), skipped::shown(&skipped));
    failure.map_or(Ok(()), Err)
}

fn format(root: &Path, _: &List) -> Result<Outcome> {
    run::shown(run::cargo(root).args(["fmt", "--all", "--check"])).context("`cargo fmt --all` puts it right")?;
    Ok(Outcome::Passed)
}

/// Compiles the program and all tests with clippy in the compiler's place, so that one build does both.
fn build(root: &Path, _: &List) -> Result<Outcome> {
    run::shown(&mut linting(root, "--no-run"))?;
    Ok(Outcome::Passed)
}

fn tests(root: &Path, list: &List) -> Result<Outcome> {
    run::shown(linting(root, "--no-fail-fast").env(skipped::FILE, &list.file))?;
    Ok(Outcome::Passed)
}

/// Cargo on all tests, as a command that compiles with clippy: what it finds is an error.
fn linting(root: &Path, how: &str) -> Command {
    let mut command = run::cargo(root);
    if run::find_program("cargo-nextest").is_some() {
        command.args(["nextest", "run"]);
    } else {
        eprintln!("cargo-nextest is not installed; using `cargo test`");
        command.args(["test", "--lib", "--bins", "--tests", "--examples"]);
    }
    // With the fixtures of the MCP suite, so that its step needs no build of its own.
    command.args(["--workspace", "--features", "convoke/conformance", how]);
    command.env("RUSTC_WORKSPACE_WRAPPER", clippy_driver()).env("CLIPPY_ARGS", DENY_WARNINGS);
    command
}

/// Clippy's own separator between its arguments.
const DENY_WARNINGS: &str = "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__";

/// The compiler with clippy in it, of the toolchain whose cargo runs us.
fn clippy_driver() -> PathBuf {
    let name = format!("clippy-driver{}", std::env::consts::EXE_SUFFIX);
    let beside = std::env::var_os("CARGO").map(|cargo| Path::new(&cargo).with_file_name(&name));
    beside.filter(|driver| driver.is_file()).unwrap_or_else(|| name.into())
}

/// The fuzz targets are a workspace of their own that needs nightly; nobody notices when they stop compiling unless
/// this does.
fn fuzz_targets(root: &Path, _: &List) -> Result<Outcome> {
    if !root.join("fuzz/Cargo.toml").is_file() {
        return Ok(Outcome::Skipped("there is no fuzz crate"));
    }
    let toolchains = run::output(Command::new("rustup").args(["toolchain", "list"])).unwrap_or_default();
    if !toolchains.lines().any(|line| line.starts_with("nightly")) {
        return Ok(Outcome::Skipped("no nightly toolchain (`rustup toolchain install nightly`)"));
    }
    // A folder of its own: the other toolchain's files would only be in the way.
    let target = bench::target_dir(root)?.join("fuzz");
    let mut check = Command::new("rustup");
    check.current_dir(root).args(["run", "nightly", "cargo", "check", "--manifest-path", "fuzz/Cargo.toml"]);
    run::shown(check.arg("--target-dir").arg(target))?;
    Ok(Outcome::Passed)
}

fn shown(took: Duration) -> String {
    let seconds = took.as_secs();
    if seconds >= 60 {
        format!("{}m{:02}s", seconds / 60, seconds % 60)
    } else {
        format!("{:.1}s", took.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_easily() {
        assert_eq!(shown(Duration::from_millis(1_340)), "1.3s");
        assert_eq!(shown(Duration::from_secs(125)), "2m05s");
    }

    #[test]
    fn fast_is_a_part_of_all() {
        let fast: Vec<_> = STEPS.iter().filter(|s| s.scope == Scope::Fast).map(|s| s.name).collect();
        assert_eq!(fast, ["format", "tidy", "build and lints", "page", "tests"]);
        assert!(STEPS.len() > fast.len());
    }
}
