//! The tidy checks: what must hold for the source as such. Each check is a pure function from the [`House`] to its
//! [`Finding`]s, so that its tests can make up a house in which it fails.

mod agent;
mod arrows;
mod dependencies;
mod doc_tests;
mod fixtures;
mod fuzz;
mod house;
mod lints;
mod machine;
mod panics;
mod purity;
mod readme;
mod settings;
mod size;
mod source;
mod words;

use std::fmt;
use std::path::Path;

use anyhow::{Result, bail};

use house::House;

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    file: String,
    line: Option<usize>,
    what: String,
}

impl Finding {
    fn in_file(file: &str, what: impl Into<String>) -> Self {
        Self { file: file.into(), line: None, what: what.into() }
    }

    fn at(file: &str, line: usize, what: impl Into<String>) -> Self {
        Self { line: Some(line), ..Self::in_file(file, what) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.what),
            None => write!(f, "{}: {}", self.file, self.what),
        }
    }
}

type Check = fn(&House) -> Vec<Finding>;

const CHECKS: &[Check] = &[
    agent::check,
    arrows::check,
    dependencies::check,
    doc_tests::check,
    fixtures::check,
    fuzz::check,
    lints::check,
    machine::check,
    panics::check,
    purity::check,
    readme::check,
    settings::check,
    size::check,
    words::check,
];

/// The paths and texts of the files that have tests only.
pub(crate) fn test_files(root: &Path) -> Result<Vec<(String, String)>> {
    let files = House::load(root)?.files.into_iter();
    let is_test = |file: &house::File| file.has_extension(&["rs"]) && source::is_test_file(&file.path);
    Ok(files.filter(is_test).map(|file| (file.path, file.text)).collect())
}

/// Runs every check on a checkout.
pub(crate) fn run(root: &Path) -> Result<()> {
    let house = House::load(root)?;
    let mut findings: Vec<Finding> = CHECKS.iter().flat_map(|check| check(&house)).collect();
    findings.sort();
    if findings.is_empty() {
        eprintln!("tidy: {} files, {} checks, nothing found", house.files.len(), CHECKS.len());
        return Ok(());
    }
    for finding in &findings {
        eprintln!("tidy: {finding}");
    }
    bail!("the tidy checks found {} thing(s) to put right", findings.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The checks on this very checkout, so that a plain `cargo test` runs them as well.
    #[test]
    fn the_house_is_tidy() {
        if let Err(why) = run(&crate::root()) {
            panic!("{why}; `cargo xtask tidy` lists them");
        }
    }

    #[test]
    fn an_empty_house_is_not_tidy() {
        let house = House::of(&[]);
        assert!(CHECKS.iter().any(|check| !check(&house).is_empty()), "missing documents are found");
    }
}
