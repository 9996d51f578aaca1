//! `cargo xtask bench`: the figures of a release build.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::{page, run};

/// The programs, each with the profile that it is shipped with.
pub(crate) const PROGRAMS: [(&str, &str); 2] = [("convoke-agent", "agent"), ("convoke", "release")];

/// Builds the binaries as they are shipped and hands over to `convoke bench`, which measures the agent beside it.
pub(crate) fn run(root: &Path, args: &[&str]) -> Result<()> {
    if let ["page", rest @ ..] = args {
        return page::bench(root, rest);
    }
    // One by one: together, each would get the other's features.
    for (program, profile) in PROGRAMS {
        run::shown(run::cargo(root).args(["build", "--profile", profile, "--package", program]))?;
    }
    let (target, suffix) = (target_dir(root)?, std::env::consts::EXE_SUFFIX);
    let agent = format!("convoke-agent{suffix}");
    std::fs::copy(target.join("agent").join(&agent), target.join("release").join(&agent))
        .context("cannot put convoke-agent beside convoke")?;
    let binary = target.join("release").join(format!("convoke{suffix}"));
    run::shown(Command::new(binary).arg("bench").args(spelled_out(args)))
}

/// `bench mcp calls --quick` is short for `bench --only mcp --only calls --quick`.
fn spelled_out<'a>(args: &[&'a str]) -> Vec<&'a str> {
    let names = args.iter().take_while(|arg| !arg.starts_with('-')).count();
    let (names, rest) = args.split_at(names);
    names.iter().flat_map(|name| ["--only", name]).chain(rest.iter().copied()).collect()
}

/// Where cargo builds. Asked of cargo, which knows of `CARGO_TARGET_DIR` and of its own configuration.
pub(crate) fn target_dir(root: &Path) -> Result<PathBuf> {
    let metadata = run::output(run::cargo(root).args(["metadata", "--format-version", "1", "--no-deps"]))
        .context("`cargo metadata` failed")?;
    target_directory(&metadata).context("`cargo metadata` names no target_directory")
}

fn target_directory(metadata: &str) -> Option<PathBuf> {
    let metadata: serde_json::Value = serde_json::from_str(metadata).ok()?;
    metadata.get("target_directory")?.as_str().map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_for_what_to_measure() {
        assert_eq!(spelled_out(&["mcp", "--quick"]), ["--only", "mcp", "--quick"]);
        assert_eq!(spelled_out(&["--only", "calls"]), ["--only", "calls"]);
    }

    #[test]
    fn the_target_folder_is_read_from_cargos_answer() {
        assert_eq!(target_directory(r#"{"target_directory":"t"}"#), Some(PathBuf::from("t")));
        assert_eq!(target_directory("{}"), None);
        assert_eq!(target_directory("no JSON"), None);
    }
}
