//! `fs_list` and `fs_read`.
//!
//! A path comes from afar and may name anything. Nothing but a regular file is ever opened for reading: opening a
//! device can act (a watchdog starts counting), a FIFO waits for its other end. What is opened is opened without
//! blocking and looked at again, because between the look and the opening it may have been exchanged.

use std::fs::{self, File, FileType, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::path::Path;

use serde_json::{Map, Value, json};

use super::text;
use crate::ToolError;
use crate::facts::Facts;
use crate::text::lossy;

pub(super) fn list(facts: &Facts, args: &Map<String, Value>) -> Result<Value, ToolError> {
    let path = path(args, "path")?;
    let mut entries = Vec::new();
    let mut truncated = false;
    for entry in fs::read_dir(path).map_err(|error| ToolError::io(path.display(), &error))? {
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
    let mut bytes = read_start(path, cap + 1).map_err(|error| ToolError::io(path.display(), &error))?;
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

/// The first `most` bytes of a regular file.
pub(crate) fn read_start(path: &Path, most: usize) -> io::Result<Vec<u8>> {
    regular(&fs::metadata(path)?)?;
    let file = open(path)?;
    regular(&file.metadata()?)?;
    let mut bytes = Vec::new();
    match file.take(most as u64).read_to_end(&mut bytes) {
        Ok(_) => Ok(bytes),
        // A file of /proc or /sys that has nothing to say just now. What came before counts.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(bytes),
        Err(error) => Err(error),
    }
}

#[cfg(unix)]
fn open(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;

    use nix::fcntl::OFlag;

    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)
}

#[cfg(not(unix))]
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).open(path)
}

fn regular(metadata: &Metadata) -> io::Result<()> {
    if metadata.is_file() {
        return Ok(());
    }
    let kind = metadata.file_type().describe();
    Err(io::Error::other(format!("is {kind}, not a regular file")))
}

/// What a file is, in words.
pub(crate) trait KindOfFile {
    fn describe(&self) -> &'static str;
}

impl KindOfFile for FileType {
    #[cfg(unix)]
    fn describe(&self) -> &'static str {
        use std::os::unix::fs::FileTypeExt as _;

        match self {
            kind if kind.is_dir() => "a directory",
            kind if kind.is_fifo() => "a FIFO",
            kind if kind.is_socket() => "a socket",
            kind if kind.is_block_device() || kind.is_char_device() => "a device",
            kind if kind.is_symlink() => "a symbolic link",
            kind if kind.is_file() => "a file",
            _ => "something else",
        }
    }

    #[cfg(not(unix))]
    fn describe(&self) -> &'static str {
        match self {
            kind if kind.is_dir() => "a directory",
            kind if kind.is_symlink() => "a symbolic link",
            kind if kind.is_file() => "a file",
            _ => "something else",
        }
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
