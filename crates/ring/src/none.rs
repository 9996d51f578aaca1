//! Systems without a ring.

use std::io;
use std::path::Path;

use crate::pages::Pages;

/// Writes to one file, one write at a time; not on this system.
#[derive(Debug)]
pub enum Writer {}

impl Writer {
    /// Says that there is no ring here.
    pub fn open(_: &Path) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Never called.
    pub async fn write(&mut self, _: Pages, _: u64) -> (Pages, io::Result<()>) {
        match *self {}
    }
}
