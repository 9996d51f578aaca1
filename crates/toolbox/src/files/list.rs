//! `list_directory`.

use std::collections::BTreeSet;

use super::{FileError, Workspace};
use crate::Outcome;
use crate::arguments::Arguments;
use crate::limits::LIST_ENTRIES;

/// Children of a directory, sorted, directories with a slash.
pub(crate) fn list_directory(workspace: &Workspace, arguments: &Arguments) -> Result<Outcome, String> {
    let path = arguments.optional_text("path")?.unwrap_or(".");
    let (names, total) = names(workspace, path).map_err(|why| why.to_string())?;
    let left_out = total - names.len();
    let mut listing = names.into_iter().collect::<Vec<_>>().join("\n");
    if left_out > 0 {
        listing.push_str(&format!("\n\n[{left_out} more entries. List a subdirectory or use code_search.]"));
    }
    Ok(Outcome::text(listing))
}

/// The first names in order, and how many there are. A directory may have millions; no more than are shown are kept.
fn names(workspace: &Workspace, path: &str) -> Result<(BTreeSet<String>, usize), FileError> {
    let place = workspace.locate(path)?;
    let directory = workspace.directory(&place)?;
    let failed = |why| FileError::Other { path: path.to_owned(), why };
    let (mut names, mut total) = (BTreeSet::new(), 0);
    for entry in directory.entries().map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let kind = entry.file_type();
        let is_directory = match &kind {
            Ok(kind) if kind.is_dir() => true,
            // A link to a directory looks like one; a link that leads out is not followed and stays a name.
            Ok(kind) if kind.is_symlink() => {
                directory.metadata(entry.file_name()).is_ok_and(|target| target.is_dir())
            }
            _ => false,
        };
        names.insert(if is_directory { format!("{name}/") } else { name });
        total += 1;
        if names.len() > LIST_ENTRIES {
            names.pop_last();
        }
    }
    Ok((names, total))
}
