//! Skills: folders with instructions that a model reads when it needs them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::arguments::Arguments;
use crate::files::Workspace;
use crate::limits::SKILL_BYTES;
use crate::{Outcome, front_matter};

/// The most skills that are taken from one directory, in the order of their folders' names.
const SKILLS: usize = 500;
/// How much of a `SKILL.md` is read for its front matter.
const HEAD_BYTES: u64 = 64 * 1024;

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

/// The skills in a directory (`<directory>/*/SKILL.md`), by name. What cannot be read is left out; of two with one name
/// the first folder counts.
pub fn discover(directory: &Path) -> Vec<Skill> {
    let mut folders: Vec<PathBuf> =
        fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    folders.sort();
    let mut skills: Vec<Skill> = folders.into_iter().filter_map(read).take(SKILLS).collect();
    skills.sort_by(|a, b| a.name.cmp(&b.name));
    skills.dedup_by(|a, b| a.name == b.name);
    skills
}

fn read(folder: PathBuf) -> Option<Skill> {
    let path = folder.join("SKILL.md");
    if !fs::metadata(&path).ok()?.is_file() {
        return None;
    }
    let mut head = Vec::new();
    std::io::Read::read_to_end(&mut std::io::Read::take(fs::File::open(&path).ok()?, HEAD_BYTES), &mut head).ok()?;
    let head = String::from_utf8_lossy(&head);
    let fields = front_matter::parse(&head).map(|(fields, _)| fields).unwrap_or_default();
    let of = |key: &str| fields.get(key).filter(|value| !value.is_empty()).cloned();
    let folder_name = folder.file_name()?.to_string_lossy().into_owned();
    let (name, description) = (of("name").unwrap_or(folder_name), of("description").unwrap_or_default());
    Some(Skill { name, description, folder, path })
}

/// `read_skill`: a file of a skill's folder.
pub(crate) fn read_skill(skills: &[Skill], arguments: &Arguments) -> Result<Outcome, String> {
    let name = arguments.text("name")?;
    let path = arguments.optional_text("path")?.unwrap_or("SKILL.md");
    let Some(skill) = skills.iter().find(|skill| skill.name == name) else {
        let known: Vec<_> = skills.iter().map(|skill| skill.name.as_str()).collect();
        return Err(format!("unknown skill: {name} (known: {})", known.join(", ")));
    };
    let folder = Workspace::open(&skill.folder).map_err(|why| format!("skill {name} cannot be read: {why}"))?;
    let place = folder.locate(path).map_err(|why| why.to_string().replace("outside workspace", "outside skill"))?;
    let (bytes, _) = folder.bytes(&place, SKILL_BYTES).map_err(|why| why.to_string())?;
    if bytes.contains(&0) {
        return Err(format!("not a text file: {path}"));
    }
    Ok(Outcome::text(String::from_utf8_lossy(&bytes)))
}
