//! `cargo xtask windows`: the programs for Windows, built here.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use crate::{bench, run};

const TARGET: &str = "x86_64-pc-windows-gnu";
const LINKER: &str = "x86_64-w64-mingw32-gcc";

/// Cross-builds the release binaries where the target and its linker are installed; says what to install where not.
pub(crate) fn run(root: &Path, args: &[&str]) -> Result<()> {
    let missing = missing(&installed_targets(), run::find_program(LINKER).is_some());
    if !missing.is_empty() {
        bail!("the programs for Windows cannot be built here yet:\n  {}", missing.join("\n  "));
    }
    let verb = if args == ["--check"] { "check" } else { "build" };
    // One by one: together, each would get the other's features.
    for (program, profile) in bench::PROGRAMS {
        let mut cargo = run::cargo(root);
        cargo.args([verb, "--package", program, "--target", TARGET]);
        if verb == "build" {
            cargo.args(["--profile", profile]);
        }
        run::shown(&mut cargo)?;
        if verb == "build" {
            let built = bench::target_dir(root)?.join(TARGET).join(profile).join(format!("{program}.exe"));
            eprintln!("windows: {}", built.display());
        }
    }
    Ok(())
}

fn installed_targets() -> String {
    run::output(Command::new("rustup").args(["target", "list", "--installed"])).unwrap_or_default()
}

/// What is missing, each with the command that brings it.
fn missing(targets: &str, has_linker: bool) -> Vec<String> {
    let mut missing = Vec::new();
    if !targets.lines().any(|line| line.trim() == TARGET) {
        missing.push(format!("the Rust target: rustup target add {TARGET}"));
    }
    if !has_linker {
        missing.push("the linker and C compiler (Debian): apt-get install gcc-mingw-w64-x86-64-posix".to_owned());
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_told_with_its_command() {
        assert!(missing("x86_64-unknown-linux-gnu\nx86_64-pc-windows-gnu\n", true).is_empty());
        let both = missing("x86_64-unknown-linux-gnu\n", false);
        assert!(both[0].contains("rustup target add") && both[1].contains("mingw"), "{both:?}");
    }
}
