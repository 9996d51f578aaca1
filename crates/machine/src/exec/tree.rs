//! A command and everything it starts.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(super) use unix::{Tree, exit_code};
#[cfg(windows)]
pub(super) use windows::{Tree, exit_code};
