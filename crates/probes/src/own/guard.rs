//! Who can write a file: only what root and the agent's own user alone can change is run.

use std::path::Path;

/// A file or directory that is itself, and lies in directories, that nobody else can change. No link.
pub(super) fn check(path: &Path) -> Result<(), String> {
    let is_link = std::fs::symlink_metadata(path).map_err(|why| why.to_string())?.is_symlink();
    if is_link {
        return Err("it must not be a link".into());
    }
    check_all(path)
}

/// A program: links are followed to what is run.
pub(super) fn check_program(path: &Path) -> Result<(), String> {
    let found = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let is_file = std::fs::metadata(path).map_err(|why| found(&why))?.is_file();
    if !is_file {
        return Err(found(&"it is not a program"));
    }
    check_all(path).map_err(|why| found(&why))
}

#[cfg(unix)]
fn check_all(path: &Path) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt as _;
    const WRITE_BY_OTHERS: u32 = 0o022;
    const STICKY: u32 = 0o1000;
    let me = nix::unistd::geteuid().as_raw();
    let real = path.canonicalize().map_err(|why| why.to_string())?;
    for (depth, part) in real.ancestors().enumerate() {
        let meta = std::fs::metadata(part).map_err(|why| format!("{}: {why}", part.display()))?;
        if meta.uid() != 0 && meta.uid() != me {
            return Err(format!("{} must belong to root or this agent's user", part.display()));
        }
        // In a directory like /tmp others can make files, but not replace this one.
        let guarded = depth > 0 && meta.mode() & STICKY != 0;
        if meta.mode() & WRITE_BY_OTHERS != 0 && !guarded {
            return Err(format!("others than its owner can write {} (chmod go-w)", part.display()));
        }
    }
    Ok(())
}

#[cfg(not(unix))]
fn check_all(_: &Path) -> Result<(), String> {
    Err("packs of your own work on Unix only: this platform does not show who can write a file".into())
}
