//! What the tests left out on this machine, and why: a test that could not run is never counted as one that passed.
//!
//! Tests append a line to a file ([`FILE`] names it, `convoke_testing::skip` writes it). Tests that are not even compiled for
//! this system are found in the source.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::bench;
use crate::tidy::test_files;

/// As in `crates/testing`.
pub(crate) const FILE: &str = "CONVOKE_TESTS_SKIPPED";

/// Something that was not checked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Skipped {
    pub(crate) what: String,
    pub(crate) why: String,
}

/// The list of one run.
#[derive(Debug)]
pub(crate) struct List {
    pub(crate) file: PathBuf,
}

impl List {
    /// An empty list.
    pub(crate) fn begin(root: &Path) -> Result<Self> {
        let folder = bench::target_dir(root)?;
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let file = folder.join("tests-skipped.txt");
        std::fs::write(&file, "").with_context(|| format!("cannot write {}", file.display()))?;
        Ok(Self { file })
    }

    /// What is on it, and what this system excludes.
    pub(crate) fn end(&self, root: &Path) -> Result<Vec<Skipped>> {
        let text =
            std::fs::read_to_string(&self.file).with_context(|| format!("cannot read {}", self.file.display()))?;
        let mut all: Vec<Skipped> = text.lines().map(parse).collect();
        for (path, text) in test_files(root)? {
            let only = system(&text).filter(|system| !is_here(system));
            all.extend(only.map(|system| Skipped { what: path, why: format!("compiled for {system} only") }));
        }
        all.sort();
        all.dedup();
        Ok(all)
    }
}

/// The end of the summary.
pub(crate) fn shown(skipped: &[Skipped]) -> String {
    let lines: String = skipped.iter().map(|Skipped { what, why }| format!("\n  {what}: {why}")).collect();
    if skipped.is_empty() { "0 skipped".to_owned() } else { format!("{} skipped:{lines}", skipped.len()) }
}

fn parse(line: &str) -> Skipped {
    let mut fields = line.split('\t');
    let mut next = || fields.next().unwrap_or_default();
    let (file, test, why) = (next(), next(), next());
    Skipped { what: format!("{file} {test}"), why: why.to_owned() }
}

/// The system that a whole file of tests is for.
fn system(text: &str) -> Option<&str> {
    text.lines().find_map(|line| {
        let condition = line.strip_prefix("#![cfg(")?.strip_suffix(")]")?;
        let named = condition.strip_prefix("target_os = \"").and_then(|name| name.strip_suffix('"'));
        named.or_else(|| ["unix", "windows"].contains(&condition).then_some(condition))
    })
}

fn is_here(system: &str) -> bool {
    [std::env::consts::OS, std::env::consts::FAMILY].contains(&system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_skip_is_named_with_its_reason() {
        let skipped = [parse("crates/a/tests/it.rs\tboots\tneeds root"), parse("b.rs\tc\td")];
        assert_eq!(shown(&skipped), "2 skipped:\n  crates/a/tests/it.rs boots: needs root\n  b.rs c: d");
        assert_eq!(shown(&[]), "0 skipped");
    }

    #[test]
    fn files_for_other_systems_are_known() {
        assert_eq!(system("//! Doc.\n#![cfg(target_os = \"linux\")]\n"), Some("linux"));
        assert_eq!(system("#![cfg(unix)]\n"), Some("unix"));
        assert_eq!(system("#![cfg(test)]\n#![cfg(unix)]\n"), Some("unix"));
        assert_eq!(system("#[cfg(unix)]\nmod a;\n"), None);
        assert!(is_here(std::env::consts::OS) && !is_here("plan9"));
    }
}
