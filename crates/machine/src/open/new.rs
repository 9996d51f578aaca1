//! A new file where a caller wants one: written beside its place, and put there whole or not at all.
//!
//! The folder is found and held as any that is opened, and the rules decide on the file's real path in it. A link is never
//! followed to where it leads.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::{OpenError, Rules, Shows, decide, describe, platform};

/// A file that is being written. It is gone again unless it is finished.
#[derive(Debug)]
pub struct NewFile {
    /// Held so that the file goes where was decided.
    _folder: Option<File>,
    draft: PathBuf,
    place: PathBuf,
    file: File,
    /// What it replaces.
    before: Option<Metadata>,
    is_placed: bool,
}

/// Begins a file at a path, if the rules let it be there.
pub fn new_file(path: &Path, rules: Option<&dyn Rules>) -> Result<NewFile, OpenError> {
    let invalid = |why: &str| OpenError::Io(io::Error::new(io::ErrorKind::InvalidInput, why.to_owned()));
    let ends_in_separator = path.as_os_str().to_string_lossy().ends_with(std::path::is_separator);
    let (Some(name), Some(folder), false) = (path.file_name(), path.parent(), ends_in_separator) else {
        return Err(invalid("names no file"));
    };
    if !path.is_absolute() {
        return Err(invalid("is no whole path; it must begin at the root"));
    }
    let (handle, folder) = platform::folder(folder, |real| decide(rules, &real.join(name), Shows::Contents))?;
    let place = folder.join(name);
    let before = match fs::symlink_metadata(&place) {
        Ok(before) if before.is_file() => Some(before),
        Ok(before) if before.is_dir() => return Err(invalid("is a directory; name the file in it")),
        Ok(before) => return Err(invalid(&format!("is {}, which is not replaced", describe(before.file_type())))),
        Err(why) if why.kind() == io::ErrorKind::NotFound => None,
        Err(why) => return Err(why.into()),
    };
    let draft = folder.join(OsStr::new(&format!(".convoke-{}", Uuid::new_v4().simple())));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(&draft)?;
    Ok(NewFile { _folder: handle, draft, place, file, before, is_placed: false })
}

impl NewFile {
    /// Puts it in its place, with the rights of what it replaces.
    pub fn finish(mut self) -> io::Result<()> {
        set_rights(&self.file, self.before.as_ref())?;
        self.file.sync_all()?;
        fs::rename(&self.draft, &self.place)?;
        self.is_placed = true;
        Ok(())
    }
}

#[cfg(unix)]
fn set_rights(file: &File, before: Option<&Metadata>) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};
    const USUAL: u32 = 0o644;
    if let Some(before) = before {
        // Only the superuser gives files away; others keep the new one. Before the rights: it takes some of them.
        let _ = fchown(file, Some(before.uid()), Some(before.gid()));
    }
    let mode = before.map_or(USUAL, |before| before.permissions().mode() & 0o777);
    file.set_permissions(fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn set_rights(_: &File, _: Option<&Metadata>) -> io::Result<()> {
    Ok(())
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_placed {
            let _ = fs::remove_file(&self.draft);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::Refused;

    #[derive(Debug)]
    struct NotBelow(PathBuf);

    impl Rules for NotBelow {
        fn refusal(&self, real: &str, _: Shows) -> Option<Refused> {
            Path::new(real).starts_with(&self.0).then(|| Refused::new("test", "no"))
        }
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("reads");
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn a_file_is_there_whole_or_not_at_all() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("x");
        let mut file = new_file(&path, None).expect("begins");
        file.write_all(b"half").expect("writes");
        drop(file);
        assert!(names(dir.path()).is_empty());
        let mut file = new_file(&path, None).expect("begins");
        file.write_all(b"whole").expect("writes");
        file.finish().expect("placed");
        assert_eq!(fs::read(&path).expect("reads"), b"whole");
        assert_eq!(names(dir.path()), ["x"]);
    }

    #[cfg(unix)]
    #[test]
    fn what_is_replaced_gives_its_rights_and_links_are_not_followed() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let dir = tempfile::tempdir().expect("a folder");
        let (file, link) = (dir.path().join("tool"), dir.path().join("link"));
        fs::write(&file, "old").expect("written");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o750)).expect("set");
        new_file(&file, None).expect("begins").finish().expect("placed");
        assert_eq!(file.metadata().expect("is there").permissions().mode() & 0o777, 0o750);
        symlink(&file, &link).expect("linked");
        for (path, expect) in [
            (link, "symbolic link"),
            (dir.path().to_owned(), "directory"),
            (dir.path().join("tool/"), "names no file"),
            (dir.path().join(".."), "names no file"),
            (PathBuf::from("tool"), "whole path"),
        ] {
            let why = new_file(&path, None).expect_err("refused").to_string();
            assert!(why.contains(expect), "{}: {why}", path.display());
        }
    }

    #[cfg(unix)]
    #[test]
    fn the_rules_decide_on_the_real_path() {
        let dir = tempfile::tempdir().expect("a folder");
        let (closed, way) = (dir.path().join("closed"), dir.path().join("way"));
        fs::create_dir(&closed).expect("made");
        std::os::unix::fs::symlink(&closed, &way).expect("linked");
        let rules = NotBelow(closed.canonicalize().expect("is there"));
        assert!(matches!(new_file(&way.join("x"), Some(&rules)), Err(OpenError::Refused(_))));
        assert!(new_file(&dir.path().join("x"), Some(&rules)).is_ok());
    }
}
