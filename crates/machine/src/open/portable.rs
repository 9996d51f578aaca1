//! Elsewhere the real path is resolved, decided on and opened, and resolved once more: a link that was put in its place
//! in between is refused.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::{OpenError, Refused, regular};

pub(super) fn file(path: &Path, decide: impl Fn(&Path) -> Result<(), Refused>) -> Result<File, OpenError> {
    let real = path.canonicalize()?;
    decide(shown(&real))?;
    regular(&real.metadata()?)?;
    let file = File::open(&real)?;
    regular(&file.metadata()?)?;
    unchanged(&real)?;
    Ok(file)
}

pub(super) fn folder(
    path: &Path,
    decide: impl Fn(&Path) -> Result<(), Refused>,
) -> Result<(Option<File>, PathBuf), OpenError> {
    let real = path.canonicalize()?;
    decide(shown(&real))?;
    unchanged(&real)?;
    Ok((None, real))
}

fn unchanged(real: &Path) -> io::Result<()> {
    if real.canonicalize()? == real { Ok(()) } else { Err(io::Error::other("it changed while it was opened")) }
}

/// As people write it: Windows resolves `C:\x` to `\\?\C:\x`.
fn shown(real: &Path) -> &Path {
    real.to_str().and_then(|text| text.strip_prefix(r"\\?\")).map_or(real, Path::new)
}
