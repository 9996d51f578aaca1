//! `fs_list` and `fs_read`.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::text;
use crate::ToolError;
use crate::facts::Facts;
use crate::open;
use crate::text::lossy;

pub(super) fn list(facts: &Facts, args: &Map<String, Value>) -> Result<Value, ToolError> {
    let path = path(args, "path")?;
    let mut entries = Vec::new();
    let mut truncated = false;
    let failed = |error| ToolError::open(path.display(), &error);
    let folder = open::folder(path, facts.rules.as_deref()).map_err(failed)?;
    for entry in folder.entries().map_err(|error| ToolError::io(path.display(), &error))? {
        if entries.len() >= facts.options.list_cap || facts.stopped() {
            truncated = true;
            break;
        }
        // An entry that vanishes between two looks is no failure of the list.
        let Ok(entry) = entry else { continue };
        let name = entry.file_name().to_string_lossy().into_owned();
        // Of a link, what it is and not what it leads to: that may be gone, or far away.
        let Ok(metadata) = entry.metadata() else { continue };
        let is_dir = metadata.is_dir();
        let mut shown = json!({"name": name, "is_dir": is_dir, "bytes": if is_dir { 0 } else { metadata.len() }});
        if metadata.is_symlink() {
            shown["symlink"] = true.into();
        }
        entries.push((name, shown));
    }
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    let entries: Vec<_> = entries.into_iter().map(|(_, shown)| shown).collect();
    let mut result = json!({"entries": entries});
    if truncated {
        result["truncated"] = true.into();
    }
    Ok(result)
}

pub(super) fn read(facts: &Facts, args: &Map<String, Value>) -> Result<Value, ToolError> {
    let path = path(args, "path")?;
    let cap = facts.options.read_cap;
    // One byte more tells whether there is more; /proc says a length of 0 for everything.
    let file = open::file(path, facts.rules.as_deref());
    let mut bytes =
        file.and_then(|file| file.start(cap + 1)).map_err(|error| ToolError::open(path.display(), &error))?;
    let mut truncated = bytes.len() > cap;
    if truncated {
        bytes.truncate(cap);
        bytes.truncate(whole_characters(&bytes));
    }
    let content = lossy(&bytes, cap);
    // Text grows where bytes are replaced.
    truncated |= content.len() < bytes.len() || String::from_utf8_lossy(&bytes).len() > cap;
    Ok(json!({"content": content, "truncated": truncated}))
}

/// A path among the arguments.
pub(super) fn path<'a>(args: &'a Map<String, Value>, name: &str) -> Result<&'a Path, ToolError> {
    match text(args, name)? {
        "" => Err(ToolError::bad_args(format!("{name} must not be empty"))),
        path if path.contains('\0') => Err(ToolError::bad_args(format!("{name} must not hold a NUL"))),
        path => Ok(Path::new(path)),
    }
}

/// How much of some bytes is left without a character that the end cuts in two.
fn whole_characters(bytes: &[u8]) -> usize {
    let start = bytes.len().saturating_sub(3);
    match bytes[start..].utf8_chunks().last() {
        // Only an end that could go on is cut; what is invalid anyway is shown as such.
        Some(chunk) if !chunk.invalid().is_empty() => {
            let tail = bytes.len() - chunk.invalid().len();
            let needs = match bytes[tail] {
                0xC2..=0xDF => 2,
                0xE0..=0xEF => 3,
                0xF0..=0xF4 => 4,
                _ => 0,
            };
            if chunk.invalid().len() < needs { tail } else { bytes.len() }
        }
        _ => bytes.len(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn cutting_a_text_anywhere_leaves_no_broken_character(text: String, at: prop::sample::Index) {
            let at = at.index(text.len() + 1);
            let whole = whole_characters(&text.as_bytes()[..at]);
            prop_assert!(text.is_char_boundary(whole));
            prop_assert!(at - whole < 4);
        }

        #[test]
        fn any_bytes_are_cut_by_less_than_a_character(bytes: Vec<u8>) {
            let whole = whole_characters(&bytes);
            prop_assert!(whole <= bytes.len() && bytes.len() - whole < 4);
        }
    }
}
