//! `cargo xtask test`: every check there is, in the order in which a mistake shows soonest.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use crate::{bench, conformance, run, setup, tidy};

/// How much to check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Everything.
    All,
    /// What changes most often: without doc tests, fuzz targets and the MCP suite.
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
    run: fn(&Path) -> Result<Outcome>,
}

const STEPS: &[Step] = &[
    Step { name: "format", scope: Scope::Fast, run: format },
    Step { name: "tidy", scope: Scope::Fast, run: |root| tidy::run(root).map(|()| Outcome::Passed) },
    Step { name: "lints", scope: Scope::Fast, run: lints },
    Step { name: "doc tests", scope: Scope::All, run: doc_tests },
    Step { name: "fuzz targets", scope: Scope::All, run: fuzz_targets },
    Step { name: "conformance", scope: Scope::All, run: |root| conformance::run(root).map(|()| Outcome::Passed) },
    Step { name: "tests", scope: Scope::Fast, run: tests },
];

/// Runs the steps; stops at the first that fails.
pub(crate) fn run(root: &Path, scope: Scope) -> Result<()> {
    if setup::is_needed(root) {
        setup::run(root)?;
    }
    let mut summary = Vec::new();
    for step in STEPS.iter().filter(|step| scope == Scope::All || step.scope == Scope::Fast) {
        eprintln!("\n==> {}", step.name);
        let started = Instant::now();
        let outcome = (step.run)(root);
        let took = started.elapsed();
        let failed = outcome.is_err();
        let line = match &outcome {
            Ok(Outcome::Passed) => "passed".to_owned(),
            Ok(Outcome::Skipped(why)) => format!("skipped: {why}"),
            Err(_) => "FAILED".to_owned(),
        };
        eprintln!("<== {}: {line} ({})", step.name, shown(took));
        summary.push(format!("  {:<14} {:>8}  {line}", step.name, shown(took)));
        if failed {
            eprintln!("\n{}", summary.join("\n"));
        }
        outcome.with_context(|| format!("the step `{}` failed", step.name))?;
    }
    eprintln!("\nAll checks passed:\n{}", summary.join("\n"));
    Ok(())
}

fn format(root: &Path) -> Result<Outcome> {
    run::shown(run::cargo(root).args(["fmt", "--all", "--check"])).context("`cargo fmt --all` puts it right")?;
    Ok(Outcome::Passed)
}

fn lints(root: &Path) -> Result<Outcome> {
    run::shown(run::cargo(root).args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    Ok(Outcome::Passed)
}

fn tests(root: &Path) -> Result<Outcome> {
    if run::find_program("cargo-nextest").is_some() {
        run::shown(run::cargo(root).args(["nextest", "run", "--workspace"]))?;
    } else {
        eprintln!("cargo-nextest is not installed; using `cargo test`");
        // Named by kind, so that the doc tests are left to their own step.
        run::shown(run::cargo(root).args(["test", "--workspace", "--lib", "--bins", "--tests"]))?;
    }
    Ok(Outcome::Passed)
}

fn doc_tests(root: &Path) -> Result<Outcome> {
    run::shown(run::cargo(root).args(["test", "--workspace", "--doc"]))?;
    Ok(Outcome::Passed)
}

/// The fuzz targets are a workspace of their own that needs nightly; nobody notices when they stop compiling unless
/// this does.
fn fuzz_targets(root: &Path) -> Result<Outcome> {
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
        assert_eq!(fast, ["format", "tidy", "lints", "tests"]);
        assert!(STEPS.len() > fast.len());
    }
}
