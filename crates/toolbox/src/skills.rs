//! Skills: folders with instructions that a model reads when it needs them.

use std::path::{Path, PathBuf};

/// A skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skill {
    /// Its name: from the front matter, else the folder's.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Its folder.
    pub folder: PathBuf,
    /// Its `SKILL.md`.
    pub path: PathBuf,
}

/// The skills in a directory (`<directory>/*/SKILL.md`), by name. What cannot be read is left out.
pub fn discover(directory: &Path) -> Vec<Skill> {
    let _ = directory;
    Vec::new()
}
