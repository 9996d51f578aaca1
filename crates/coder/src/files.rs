//! Files of one user that several processes share: private, replaced whole, and locked against concurrent changes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

pub(crate) use convoke_files::private_dir;

/// Options for a private file: it has mode 0600 from the moment it is made.
pub(crate) fn private_options() -> OpenOptions {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "only modes are set on it"))]
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    options
}

/// Replaces a file: a reader sees the old or the new one, never half of it, also after a crash.
pub(crate) fn replace_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    private_dir(path.parent().unwrap_or(Path::new(".")))?;
    // A link to elsewhere (dotfiles in a repository) stays one: its target is what is replaced.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    convoke_files::replace(&target, bytes)
}

/// Appends to a private file, whole lines at once.
pub(crate) fn append_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(dir) = path.parent() {
        private_dir(dir)?;
    }
    private_options().append(true).create(true).open(path)?.write_all(bytes)
}

/// A lock that other processes respect. The system releases it with the process, however that ends.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "it is there to be dropped")] File);

impl Lock {
    /// Waits until nobody else has the directory.
    pub(crate) fn of_dir(dir: &Path) -> io::Result<Self> {
        Self::of(&dir.join(".lock"))
    }

    /// Waits until nobody else has the lock file.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        if let Some(dir) = path.parent() {
            private_dir(dir)?;
        }
        let file = private_options().write(true).create(true).truncate(false).open(path)?;
        file.lock()?;
        Ok(Self(file))
    }
}

/// Reads a text up to a limit; the rest, and what is not text, is left out.
pub(crate) fn read_text_up_to(path: &Path, limit: u64) -> Option<String> {
    use std::io::Read as _;
    // Opening a pipe of that name would block.
    if !path.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(limit).read_to_end(&mut bytes).ok()?;
    Some(match String::from_utf8(bytes) {
        Ok(text) => text,
        // The limit may have cut a character in two.
        Err(error) => {
            let valid = error.utf8_error().valid_up_to();
            let mut bytes = error.into_bytes();
            bytes.truncate(valid);
            String::from_utf8(bytes).unwrap_or_default()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn files_and_directories_are_the_owners_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a/b/config.json");
        replace_private(&file, b"one").unwrap();
        replace_private(&file, b"two").unwrap();
        append_private(&file.with_extension("jsonl"), b"x\n").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(fs::read(&file).unwrap(), b"two");
        assert_eq!(mode(&file), 0o600);
        assert_eq!(mode(&file.with_extension("jsonl")), 0o600);
        assert_eq!(mode(file.parent().unwrap()), 0o700);
    }

    #[cfg(unix)]
    #[test]
    fn a_linked_file_stays_linked() {
        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("real"), dir.path().join("link"));
        fs::write(&real, "one").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        replace_private(&link, b"two").unwrap();
        assert_eq!(fs::read(&real).unwrap(), b"two");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }

    #[test]
    fn a_lock_is_had_by_one_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let lock = Lock::of_dir(dir.path()).unwrap();
        let other = File::open(dir.path().join(".lock")).unwrap();
        assert!(other.try_lock().is_err());
        drop(lock);
        assert!(other.try_lock().is_ok());
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("t");
        fs::write(&file, "aé").unwrap();
        assert_eq!(read_text_up_to(&file, 2).as_deref(), Some("a"));
        assert_eq!(read_text_up_to(&file, 3).as_deref(), Some("aé"));
    }
}
