//! `cargo xtask page`: the web page's checks, and its tests in a real browser against a real hub.
//!
//! Both take the program as it was built last, and say so where Node or Chromium is not there instead of passing.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::{bench, run};

/// Where the page is.
const FOLDER: &str = "web";

/// How long the tests in a browser may take, whatever hangs.
const MOST_SECONDS: &str = "900";

/// Builds the program and runs the checks, or with `--chromium` the tests in a browser; what follows are their names.
pub(crate) fn run(root: &Path, args: &[&str]) -> Result<()> {
    run::shown(run::cargo(root).args(["build", "--package", "convoke"]))?;
    let skipped = match args {
        [] => check(root)?,
        ["--chromium", names @ ..] => in_chromium(root, names)?,
        [other, ..] => bail!("`cargo xtask page` does not know `{other}`"),
    };
    skipped.map_or(Ok(()), |why| bail!("{why}"))
}

/// Types, unit tests, the build, and whether the API's types are those of the hub. Says why, if it cannot run here.
pub(crate) fn check(root: &Path) -> Result<Option<&'static str>> {
    if let Some(why) = lacks_node(root) {
        return Ok(Some(why));
    }
    run::shown(node(root)?.arg("scripts/build.mjs"))?;
    run::shown(node(root)?.args(["node_modules/svelte-check/bin/svelte-check", "--fail-on-warnings"]))?;
    run::shown(node(root)?.args(["node_modules/vitest/vitest.mjs", "run"]))?;
    run::shown(node(root)?.args(["scripts/types.mjs", "--check"]))?;
    Ok(None)
}

/// The tests in a browser; with names, only those whose files have one of them. Says why, if they cannot run here.
pub(crate) fn in_chromium(root: &Path, names: &[&str]) -> Result<Option<&'static str>> {
    if let Some(why) = lacks_node(root) {
        return Ok(Some(why));
    }
    if run::find_program("chromium").is_none() {
        return Ok(Some("Chromium is not installed (`cargo xtask setup`)"));
    }
    run::shown(node(root)?.arg("scripts/build.mjs"))?;
    run::shown(node(root)?.arg("tests/run.mjs").args(names).env("PAGE_TESTS_MOST_S", MOST_SECONDS))?;
    Ok(None)
}

/// The page's figures in Chromium, against a release build.
pub(crate) fn bench(root: &Path, args: &[&str]) -> Result<()> {
    if let Some(why) = lacks_node(root) {
        bail!("{why}");
    }
    run::shown(run::cargo(root).args(["build", "--release", "--package", "convoke"]))?;
    let program = program(root, "release")?;
    let script = ["--experimental-websocket", "scripts/bench.mjs"];
    run::shown(Command::new("node").current_dir(root.join(FOLDER)).env("CONVOKE", program).args(script).args(args))
}

fn lacks_node(root: &Path) -> Option<&'static str> {
    if run::find_program("node").is_none() {
        return Some("Node is not installed (`cargo xtask setup`)");
    }
    let has_packages = root.join(FOLDER).join("node_modules").is_dir();
    (!has_packages).then_some("the packages of web/ are not installed (`cargo xtask setup`)")
}

/// Node in the page's folder, told which program to test.
fn node(root: &Path) -> Result<Command> {
    let mut node = Command::new("node");
    node.current_dir(root.join(FOLDER)).env("CONVOKE", program(root, "debug")?);
    Ok(node)
}

fn program(root: &Path, profile: &str) -> Result<PathBuf> {
    Ok(bench::target_dir(root)?.join(profile).join(format!("convoke{}", std::env::consts::EXE_SUFFIX)))
}
