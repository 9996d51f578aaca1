//! Files of a workspace: listed, read, written and edited, and never outside of it.

mod diff;
mod edit;
mod list;
mod read;
mod workspace;
mod write;

pub(crate) use edit::edit_file;
pub(crate) use list::list_directory;
pub(crate) use read::{picture_kind, read_file};
pub(crate) use workspace::{FileError, Located, Workspace};
pub(crate) use write::write_file;
