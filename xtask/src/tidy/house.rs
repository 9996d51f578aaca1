//! The files that belong to the project, in memory.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::run;

/// A text file.
#[derive(Clone, Debug)]
pub(super) struct File {
    /// From the checkout's root, with `/` between folders.
    pub(super) path: String,
    /// What it says.
    pub(super) text: String,
}

impl File {
    pub(super) fn has_extension(&self, extensions: &[&str]) -> bool {
        self.path.rsplit_once('.').is_some_and(|(_, extension)| extensions.contains(&extension))
    }

    /// Written by us as source, in a language that the checks read.
    pub(super) fn is_source(&self) -> bool {
        self.has_extension(&["rs", "ts", "svelte", "js", "mjs", "css", "html", "sql", "sh"])
    }

    /// Its lines, counted from 1.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(i, line)| (i + 1, line))
    }
}

/// All text files.
#[derive(Debug)]
pub(super) struct House {
    pub(super) files: Vec<File>,
}

impl House {
    /// Reads a checkout. Files that are no UTF-8 (pictures) are left out.
    pub(super) fn load(root: &Path) -> Result<Self> {
        let mut files = Vec::new();
        for path in list(root)? {
            match std::fs::read(root.join(&path)) {
                Ok(bytes) => files.extend(String::from_utf8(bytes).ok().map(|text| File { path, text })),
                // Deleted, and git does not know it yet.
                Err(why) if why.kind() == std::io::ErrorKind::NotFound => {}
                Err(why) => return Err(why).with_context(|| format!("cannot read {path}")),
            }
        }
        Ok(Self { files })
    }

    /// A made-up house.
    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let file = |(path, text): &(&str, &str)| File { path: (*path).into(), text: (*text).into() };
        Self { files: files.iter().map(file).collect() }
    }

    /// One file.
    pub(super) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Manifests of the crates, with their parsed content: the root's and unreadable ones are left out (cargo itself
    /// complains about the latter).
    pub(super) fn manifests(&self) -> impl Iterator<Item = (&File, toml::Table)> {
        self.files
            .iter()
            .filter(|file| file.path.ends_with("/Cargo.toml"))
            .filter_map(|file| Some((file, file.text.parse().ok()?)))
    }

    /// The root's manifest.
    pub(super) fn workspace(&self) -> Option<toml::Table> {
        self.file("Cargo.toml")?.text.parse().ok()
    }
}

/// The files that git has or would take; every file, where there is no git.
fn list(root: &Path) -> Result<Vec<String>> {
    let mut git = Command::new("git");
    git.current_dir(root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    if let Some(listed) = run::output(&mut git) {
        return Ok(listed.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect());
    }
    let mut found = Vec::new();
    walk(root, "", &mut found)?;
    found.sort();
    Ok(found)
}

fn walk(root: &Path, below: &str, found: &mut Vec<String>) -> Result<()> {
    for entry in std::fs::read_dir(root.join(below)).with_context(|| format!("cannot list `{below}`"))? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
        let kind = entry.file_type()?;
        if kind.is_dir() {
            if !["target", "node_modules", ".git"].contains(&name.as_str()) {
                walk(root, &path, found)?;
            }
        } else if kind.is_file() {
            found.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_and_a_walk_find_the_same_source() {
        let root = crate::root();
        let mut walked = Vec::new();
        walk(&root.join("xtask/src"), "", &mut walked).expect("the folder is there");
        let listed = list(&root).expect("lists");
        for path in walked {
            assert!(listed.contains(&format!("xtask/src/{path}")), "{path}");
        }
    }
}
