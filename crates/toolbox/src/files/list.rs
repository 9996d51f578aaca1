//! `list_directory`.

use super::{FileError, Workspace};
use crate::Outcome;
use crate::arguments::Arguments;
use crate::limits::LIST_ENTRIES;

/// Children of a directory, sorted, directories with a slash.
pub(crate) fn list_directory(workspace: &Workspace, arguments: &Arguments) -> Result<Outcome, String> {
    let path = arguments.optional_text("path")?.unwrap_or(".");
    let names = names(workspace, path).map_err(|why| why.to_string())?;
    let left_out = names.len().saturating_sub(LIST_ENTRIES);
    let mut listing = names[..names.len() - left_out].join("\n");
    if left_out > 0 {
        listing.push_str(&format!("\n\n[{left_out} more entries. List a subdirectory or use code_search.]"));
    }
    Ok(Outcome::text(listing))
}

fn names(workspace: &Workspace, path: &str) -> Result<Vec<String>, FileError> {
    let place = workspace.locate(path)?;
    let directory = workspace.directory(&place)?;
    let failed = |why| FileError::Other { path: path.to_owned(), why };
    let mut names = Vec::new();
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
        names.push(if is_directory { format!("{name}/") } else { name });
    }
    names.sort();
    Ok(names)
}
