//! `cargo xtask cluster`: several hubs, and what goes wrong between them. The run itself is `convoke sim cluster`.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::{bench, run};

/// Builds the program with its assertions, and hands over to it.
pub(crate) fn run(root: &Path, args: &[&str]) -> Result<()> {
    run::shown(run::cargo(root).args(["build", "--package", "convoke"]))?;
    let program = bench::target_dir(root)?.join("debug").join(format!("convoke{}", std::env::consts::EXE_SUFFIX));
    run::shown(Command::new(program).args(["sim", "cluster"]).args(args))
}
