//! Files that are written whole or not at all: into a temporary file beside their place, synced, then renamed into it.
//! Neither a power cut nor a full disk leaves half of one, and a reader sees the old file or the new one.
//!
//! Knows nothing of what is in the files.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use tempfile::NamedTempFile;

/// Who may use a file. Only Unix has modes; elsewhere a file gets the access of its directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Its owner may read and write it (0600).
    Private,
    /// Its owner may write it, everybody may read and run it (0755).
    Program,
}

/// Writes a private file in the place of the one that is there, if there is one.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_with(path, Mode::Private, |file| file.write_all(bytes))
}

/// The same with a mode, and with what `write` puts into the file.
pub fn replace_with(path: &Path, mode: Mode, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    synced(path, mode, write)?.persist(path).map_err(|failed| failed.error)?;
    sync_parent(path)
}

/// Writes a private file that is not there yet; [`io::ErrorKind::AlreadyExists`] if it is.
pub fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = synced(path, Mode::Private, |file| file.write_all(bytes))?;
    file.persist_noclobber(path).map_err(|failed| failed.error)?;
    sync_parent(path)
}

/// Syncs the directory that a file is in: a new or renamed file is there for good once it is.
pub fn sync_parent(path: &Path) -> io::Result<()> {
    sync_dir(folder(path))
}

/// Syncs a directory: a rename in it is durable once it is.
pub fn sync_dir(dir: &Path) -> io::Result<()> {
    // Where a directory cannot be opened or synced at all, as on Windows, the files in it are whole all the same.
    if cfg!(unix)
        && let Ok(dir) = File::open(dir)
        && let Err(why) = dir.sync_all()
        && !matches!(why.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported)
    {
        return Err(why);
    }
    Ok(())
}

/// Makes a directory, and those above it, that only its owner can look into.
pub fn private_dir(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

fn synced(path: &Path, mode: Mode, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<NamedTempFile> {
    let mut prefix = std::ffi::OsString::from(".");
    prefix.push(path.file_name().unwrap_or_default());
    prefix.push(".");
    // A temporary file is made with 0600; nobody reads a secret in it before it has its mode.
    let mut file = tempfile::Builder::new().prefix(&prefix).suffix(".tmp").tempfile_in(folder(path))?;
    write(file.as_file_mut())?;
    #[cfg(unix)]
    if mode == Mode::Program {
        use std::os::unix::fs::PermissionsExt as _;
        file.as_file().set_permissions(fs::Permissions::from_mode(0o755))?;
    }
    #[cfg(not(unix))]
    let _ = mode;
    file.as_file().sync_all()?;
    Ok(file)
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let names = fs::read_dir(dir).expect("readable").map(|entry| entry.expect("an entry").file_name());
        names.map(|name| name.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn a_file_is_replaced_whole_and_nothing_is_left_beside_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("state.json");
        replace(&path, b"one").expect("written");
        replace(&path, b"two").expect("written");
        let failed = replace_with(&path, Mode::Private, |file| {
            file.write_all(b"half")?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert_eq!(failed.expect_err("the disk is full").kind(), io::ErrorKind::StorageFull);
        assert_eq!(fs::read(&path).expect("there"), b"two");
        assert_eq!(names(dir.path()), ["state.json"]);
    }

    #[test]
    fn a_new_file_never_takes_the_place_of_another() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("key");
        create(&path, b"one").expect("written");
        assert_eq!(create(&path, b"two").expect_err("there is one").kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).expect("there"), b"one");
        assert_eq!(names(dir.path()), ["key"]);
    }

    #[cfg(unix)]
    #[test]
    fn files_and_directories_have_their_modes() {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        let dir = tempfile::tempdir().expect("a directory");
        let below = dir.path().join("a/b");
        private_dir(&below).expect("made");
        private_dir(&below).expect("there already");
        replace(&below.join("secret"), b"x").expect("written");
        replace_with(&below.join("program"), Mode::Program, |file| file.write_all(b"x")).expect("written");
        create(&below.join("key"), b"x").expect("written");
        let modes = ["", "secret", "program", "key"].map(|name| mode(&below.join(name)));
        assert_eq!(modes, [0o700, 0o600, 0o755, 0o600]);
    }
}
