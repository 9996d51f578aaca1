//! The workspace's root, and the one way to a file in it.
//!
//! A path is resolved twice. First by name, links included: it must end inside the root, or it is refused with a message that
//! reveals nothing of what is outside. Then it is opened below the root's own handle, step by step, by `cap-std`, which
//! lets no link lead out. So a link that is swapped in between the two leads to a refusal, not out of the workspace.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::path::{Component, Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, Metadata, OpenOptions};

/// Why a file cannot be used. Worded for the model that named it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error("path outside workspace: {0}")]
    Outside(String),
    #[error("no such file or directory: {0}")]
    Missing(String),
    #[error("not a file: {0}")]
    NotAFile(String),
    #[error("not a directory: {0}")]
    NotADirectory(String),
    #[error("existing file must be read before writing: {0}")]
    Appeared(String),
    #[error("permission denied: {0}")]
    Denied(String),
    #[error("file too large: {path} is {size} bytes; limit is {limit} bytes")]
    TooLarge { path: String, size: u64, limit: u64 },
    #[error("{path}: {why}")]
    Other { path: String, why: io::Error },
}

impl FileError {
    fn from_io(path: &str, why: io::Error) -> Self {
        match why.kind() {
            ErrorKind::NotFound => Self::Missing(path.to_owned()),
            ErrorKind::PermissionDenied => Self::Denied(path.to_owned()),
            ErrorKind::NotADirectory => Self::NotADirectory(path.to_owned()),
            ErrorKind::IsADirectory => Self::NotAFile(path.to_owned()),
            ErrorKind::AlreadyExists => Self::Appeared(path.to_owned()),
            _ => Self::Other { path: path.to_owned(), why },
        }
    }
}

/// A directory and everything below it.
#[derive(Debug)]
pub(crate) struct Workspace {
    /// Links resolved.
    root: PathBuf,
    /// As it was given, for absolute paths that say it the same way.
    given: PathBuf,
    handle: Dir,
}

/// A place inside the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Located {
    /// Below the root, links resolved; empty for the root itself.
    pub(crate) relative: PathBuf,
    /// As the model named it.
    pub(crate) named: String,
    /// Whether something is there.
    pub(crate) exists: bool,
}

impl Workspace {
    pub(crate) fn open(given: &Path) -> io::Result<Self> {
        let root = std::fs::canonicalize(given)?;
        let handle = Dir::open_ambient_dir(&root, ambient_authority())?;
        Ok(Self { root, given: given.to_owned(), handle })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Where an existing file or directory is.
    pub(crate) fn locate(&self, named: &str) -> Result<Located, FileError> {
        let place = self.locate_for_writing(named)?;
        if place.exists { Ok(place) } else { Err(FileError::Missing(named.to_owned())) }
    }

    /// Where a file is or would be. Its directory must exist.
    pub(crate) fn locate_for_writing(&self, named: &str) -> Result<Located, FileError> {
        let outside = || FileError::Outside(named.to_owned());
        if named.contains('\0') {
            return Err(FileError::Missing(named.replace('\0', "\u{fffd}")));
        }
        let below = self.by_name(Path::new(named)).ok_or_else(outside)?;
        let target = self.root.join(&below);
        match std::fs::canonicalize(&target) {
            Ok(resolved) => {
                let relative = resolved.strip_prefix(&self.root).map_err(|_| outside())?.to_owned();
                Ok(Located { relative, named: named.to_owned(), exists: true })
            }
            Err(why) if why.kind() == ErrorKind::NotFound => {
                // A dangling link: its target may be created outside the workspace later.
                if std::fs::symlink_metadata(&target).is_ok() {
                    return Err(outside());
                }
                let (Some(parent), Some(name)) = (target.parent(), target.file_name()) else {
                    return Err(outside());
                };
                let parent = std::fs::canonicalize(parent).map_err(|why| FileError::from_io(named, why))?;
                let parent = parent.strip_prefix(&self.root).map_err(|_| outside())?;
                Ok(Located { relative: parent.join(name), named: named.to_owned(), exists: false })
            }
            Err(why) => Err(FileError::from_io(named, why)),
        }
    }

    /// The path below the root by its name alone; `None` if it climbs out.
    fn by_name(&self, named: &Path) -> Option<PathBuf> {
        let named = if named.is_absolute() {
            named.strip_prefix(&self.root).or_else(|_| named.strip_prefix(&self.given)).ok()?
        } else {
            named
        };
        let mut below = PathBuf::new();
        for component in named.components() {
            match component {
                Component::Normal(name) => below.push(name),
                Component::CurDir => {}
                Component::ParentDir => {
                    if !below.pop() {
                        return None;
                    }
                }
                Component::RootDir | Component::Prefix(_) => return None,
            }
        }
        Some(below)
    }

    /// A directory's handle.
    pub(crate) fn directory(&self, place: &Located) -> Result<Dir, FileError> {
        let opened = match place.relative.as_os_str().is_empty() {
            true => self.handle.try_clone(),
            false => self.handle.open_dir(&place.relative),
        };
        opened.map_err(|why| FileError::from_io(&place.named, why))
    }

    /// Whether a regular file is there, without links on the way to it that lead out.
    pub(crate) fn has_file(&self, place: &Located) -> bool {
        self.handle.symlink_metadata(&place.relative).is_ok_and(|metadata| metadata.is_file())
    }

    /// Opens a regular file; pipes and devices are refused, since opening one may block.
    pub(crate) fn file(&self, place: &Located) -> Result<(File, Metadata), FileError> {
        if place.relative.as_os_str().is_empty() {
            return Err(FileError::NotAFile(place.named.clone()));
        }
        let mut options = OpenOptions::new();
        options.read(true);
        #[cfg(unix)]
        {
            use cap_std::fs::OpenOptionsExt as _;
            options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
        }
        let opened = self.handle.open_with(&place.relative, &options);
        let file = opened.map_err(|why| FileError::from_io(&place.named, why))?;
        let metadata = file.metadata().map_err(|why| FileError::from_io(&place.named, why))?;
        if !metadata.is_file() {
            return Err(FileError::NotAFile(place.named.clone()));
        }
        Ok((file, metadata))
    }

    /// A whole file up to a limit, whatever its metadata says while it grows.
    pub(crate) fn bytes(&self, place: &Located, limit: u64) -> Result<(Vec<u8>, Metadata), FileError> {
        let (file, metadata) = self.file(place)?;
        let too_large = |size| FileError::TooLarge { path: place.named.clone(), size, limit };
        if metadata.len() > limit {
            return Err(too_large(metadata.len()));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0));
        let read = file.take(limit + 1).read_to_end(&mut bytes);
        read.map_err(|why| FileError::from_io(&place.named, why))?;
        if bytes.len() as u64 > limit {
            return Err(too_large(bytes.len() as u64));
        }
        Ok((bytes, metadata))
    }

    /// Replaces a file atomically: writes a file beside it, then renames that. A reader sees the
    /// old or the new file. The old one's permissions and owner are kept.
    pub(crate) fn replace(&self, place: &Located, bytes: &[u8]) -> Result<(), FileError> {
        let failed = |why: io::Error| FileError::from_io(&place.named, why);
        let Some(name) = place.relative.file_name() else {
            return Err(FileError::NotAFile(place.named.clone()));
        };
        let parent = place.relative.parent().unwrap_or(Path::new(""));
        let directory = match parent.as_os_str().is_empty() {
            true => self.handle.try_clone(),
            false => self.handle.open_dir(parent),
        };
        let directory = directory.map_err(failed)?;
        let old = directory.metadata(name).ok();
        if old.as_ref().is_some_and(|old| !old.is_file()) {
            return Err(FileError::NotAFile(place.named.clone()));
        }
        if old.as_ref().is_some_and(|old| old.permissions().readonly()) {
            return Err(FileError::Denied(place.named.clone()));
        }
        let temporary = temporary_name().map_err(failed)?;
        let written = write_new(&directory, &temporary, bytes, old.as_ref()).and_then(|()| {
            if place.exists {
                return directory.rename(&temporary, &directory, name);
            }
            // Somebody may have put a file there since it was looked for. A link refuses to take its place, where
            // renaming would not; not every file system has links.
            match directory.hard_link(&temporary, &directory, name) {
                Err(why) if why.kind() == ErrorKind::AlreadyExists => Err(why),
                Err(_) => directory.rename(&temporary, &directory, name),
                Ok(()) => Ok(()),
            }
        });
        // Clean up; the first error is the one to report.
        let _ = directory.remove_file(&temporary);
        written.map_err(failed)
    }
}

fn write_new(directory: &Dir, name: &str, bytes: &[u8], old: Option<&Metadata>) -> io::Result<()> {
    let mut file = directory.open_with(name, OpenOptions::new().write(true).create_new(true))?;
    file.write_all(bytes)?;
    if let Some(old) = old {
        keep_owner(&file, old);
        file.set_permissions(old.permissions())?;
    }
    file.sync_all()
}

/// Only root can give files away, and only root needs to.
#[cfg(unix)]
fn keep_owner(file: &File, old: &Metadata) {
    use cap_std::fs::MetadataExt as _;

    let owner = rustix::fs::Uid::from_raw(old.uid());
    let group = rustix::fs::Gid::from_raw(old.gid());
    let _ = rustix::fs::fchown(file, Some(owner), Some(group));
}

#[cfg(not(unix))]
fn keep_owner(_: &File, _: &Metadata) {}

fn temporary_name() -> io::Result<String> {
    let mut random = [0_u8; 8];
    getrandom::fill(&mut random).map_err(|why| io::Error::other(why.to_string()))?;
    Ok(format!(".convoke-{:016x}.tmp", u64::from_le_bytes(random)))
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn workspace() -> (tempfile::TempDir, Workspace) {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("ws/src")).unwrap();
        fs::write(folder.path().join("secret"), "outside").unwrap();
        fs::write(folder.path().join("ws/a.txt"), "inside").unwrap();
        let workspace = Workspace::open(&folder.path().join("ws")).unwrap();
        (folder, workspace)
    }

    #[test]
    fn paths_stay_inside() {
        let (folder, workspace) = workspace();
        symlink("../secret", folder.path().join("ws/link-out")).unwrap();
        symlink(folder.path(), folder.path().join("ws/dir-out")).unwrap();
        symlink("a.txt", folder.path().join("ws/link-in")).unwrap();
        symlink(folder.path().join("ws/a.txt"), folder.path().join("ws/absolute-in")).unwrap();
        symlink("../nowhere", folder.path().join("ws/dangling")).unwrap();
        let inside = |named: &str, relative: &str| {
            assert_eq!(workspace.locate(named).unwrap().relative, Path::new(relative), "{named}");
        };
        inside("a.txt", "a.txt");
        inside("./src/../a.txt", "a.txt");
        inside("link-in", "a.txt");
        inside("absolute-in", "a.txt");
        inside(".", "");
        inside(&folder.path().join("ws/a.txt").display().to_string(), "a.txt");
        for named in [
            "../secret",
            "src/../../secret",
            "link-out",
            "dir-out/secret",
            "dangling",
            "/etc/passwd",
            "/",
            "..",
            "dir-out/new.txt",
        ] {
            let refused = workspace.locate_for_writing(named);
            assert_eq!(refused.unwrap_err().to_string(), format!("path outside workspace: {named}"));
        }
        assert_eq!(workspace.locate("../missing").unwrap_err().to_string(), "path outside workspace: ../missing");
        assert_eq!(workspace.locate("b.txt").unwrap_err().to_string(), "no such file or directory: b.txt");
        let no_parent = workspace.locate_for_writing("x/y.txt").unwrap_err();
        assert_eq!(no_parent.to_string(), "no such file or directory: x/y.txt");
        assert!(workspace.locate("a\0b").is_err());
    }

    #[test]
    fn a_link_that_is_swapped_in_after_the_check_leads_nowhere() {
        let (folder, workspace) = workspace();
        fs::write(folder.path().join("ws/src/f"), "mine").unwrap();
        let place = workspace.locate("src/f").unwrap();
        fs::remove_dir_all(folder.path().join("ws/src")).unwrap();
        fs::create_dir(folder.path().join("evil")).unwrap();
        fs::write(folder.path().join("evil/f"), "outside").unwrap();
        symlink("../evil", folder.path().join("ws/src")).unwrap();
        assert!(workspace.bytes(&place, 100).is_err());
        assert!(workspace.replace(&place, b"overwritten").is_err());
        assert_eq!(fs::read_to_string(folder.path().join("evil/f")).unwrap(), "outside");
    }

    #[test]
    fn replacing_keeps_permissions_follows_links_and_leaves_nothing_behind() {
        let (folder, workspace) = workspace();
        let file = folder.path().join("ws/run.sh");
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o750)).unwrap();
        symlink("run.sh", folder.path().join("ws/link")).unwrap();
        workspace.replace(&workspace.locate("link").unwrap(), b"new").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o750);
        assert!(fs::symlink_metadata(folder.path().join("ws/link")).unwrap().is_symlink());
        fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
        let refused = workspace.replace(&workspace.locate("run.sh").unwrap(), b"x").unwrap_err();
        assert_eq!(refused.to_string(), "permission denied: run.sh");
        let names: Vec<_> = fs::read_dir(folder.path().join("ws")).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert!(!names.iter().any(|name| name.to_string_lossy().contains(".tmp")), "{names:?}");
    }

    #[test]
    fn a_file_that_appears_after_the_check_is_not_replaced() {
        let (folder, workspace) = workspace();
        let place = workspace.locate_for_writing("new.txt").unwrap();
        fs::write(folder.path().join("ws/new.txt"), "somebody's").unwrap();
        let refused = workspace.replace(&place, b"mine").unwrap_err();
        assert_eq!(refused.to_string(), "existing file must be read before writing: new.txt");
        assert_eq!(fs::read_to_string(folder.path().join("ws/new.txt")).unwrap(), "somebody's");
        assert_eq!(fs::read_dir(folder.path().join("ws")).unwrap().count(), 3, "nothing is left beside it");
    }

    #[test]
    fn a_pipe_is_no_file_and_nobody_waits_for_it() {
        let (folder, workspace) = workspace();
        let made = std::process::Command::new("mkfifo").arg(folder.path().join("ws/pipe")).status().unwrap();
        assert!(made.success());
        let place = workspace.locate("pipe").unwrap();
        assert_eq!(workspace.bytes(&place, 10).unwrap_err().to_string(), "not a file: pipe");
    }
}
