//! `write_file`.

use super::diff::change;
use super::{Located, Workspace};
use crate::Outcome;
use crate::arguments::Arguments;
use crate::limits::{FILE_BYTES, WRITE_BYTES};

/// Writes a whole file. An existing one must have been read. Gives the place as well, which counts as read from now on.
pub(crate) fn write_file(
    workspace: &Workspace,
    arguments: &Arguments,
    was_read: impl Fn(&Located) -> bool,
) -> Result<(Outcome, Located), String> {
    let (path, content) = (arguments.text("path")?, arguments.text("content")?);
    if content.len() > WRITE_BYTES {
        return Err(format!("content has {} bytes; limit is {WRITE_BYTES} bytes", content.len()));
    }
    let place = workspace.locate_for_writing(path).map_err(|why| why.to_string())?;
    let old = if place.exists {
        workspace.file(&place).map_err(|why| why.to_string())?;
        if !was_read(&place) {
            return Err(format!("existing file must be read before writing: {path}"));
        }
        // One that has grown beyond what is shown gets no diff.
        workspace.bytes(&place, FILE_BYTES).ok().map(|(bytes, _)| bytes)
    } else {
        None
    };
    workspace.replace(&place, content.as_bytes()).map_err(|why| why.to_string())?;
    let mut outcome = Outcome::text(format!("Wrote {} bytes to {path}", content.len()));
    outcome.changed_files = vec![path.to_owned()];
    match old {
        Some(old) if old != content.as_bytes() => {
            let change = change(path, &old, content.as_bytes());
            outcome.content.push_str(&format!("\n{}", change.diff));
            outcome.first_changed_line = change.first_line;
            outcome.diff = Some(change.diff);
        }
        None if !place.exists => outcome.first_changed_line = Some(1),
        _ => {}
    }
    Ok((outcome, Located { exists: true, ..place }))
}
