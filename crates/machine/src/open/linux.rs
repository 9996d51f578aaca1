//! On Linux a thing is found without being opened for reading (`O_PATH`); the kernel says where it is, and what was found
//! is opened through that very handle. Links of `/proc` that lead past names (`fd`, `map_files`, `root`, `cwd`, `exe`) are
//! not followed.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat2};

use super::{OpenError, Refused, regular};

/// What the kernel writes after the path of a file that has no name any more.
const DELETED: &[u8] = b" (deleted)";

pub(super) fn file(path: &Path, decide: impl Fn(&Path) -> Result<(), Refused>) -> Result<File, OpenError> {
    let found = find(path, OFlag::empty())?;
    let metadata = found.metadata()?;
    decide_on(&found, metadata.nlink() == 0, decide)?;
    regular(&metadata)?;
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    Ok(OpenOptions::new().read(true).custom_flags(flags.bits()).open(handle(&found))?)
}

pub(super) fn folder(
    path: &Path,
    decide: impl Fn(&Path) -> Result<(), Refused>,
) -> Result<(Option<File>, PathBuf), OpenError> {
    let found = find(path, OFlag::O_DIRECTORY)?;
    decide_on(&found, false, decide)?;
    let through = handle(&found);
    Ok((Some(found), through))
}

fn handle(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

fn find(path: &Path, flags: OFlag) -> Result<File, OpenError> {
    let flags = flags | OFlag::O_PATH | OFlag::O_CLOEXEC;
    let how = OpenHow::new().flags(flags).resolve(ResolveFlag::RESOLVE_NO_MAGICLINKS);
    match openat2(AT_FDCWD, path, how) {
        Ok(found) => Ok(found.into()),
        // Before Linux 5.6, or where a sandbox does not know the call: the real path alone decides.
        Err(Errno::ENOSYS | Errno::EPERM) => {
            Ok(OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)?)
        }
        Err(Errno::ELOOP) if path.metadata().is_ok() => {
            Err(Refused::new("path_process_files", "It leads through a link of /proc to what a process has open.")
                .into())
        }
        Err(why) => Err(io::Error::from(why).into()),
    }
}

fn decide_on(found: &File, nameless: bool, decide: impl Fn(&Path) -> Result<(), Refused>) -> Result<(), OpenError> {
    let real = std::fs::read_link(handle(found))?;
    decide(&real)?;
    if nameless && let Some(name) = real.as_os_str().as_bytes().strip_suffix(DELETED) {
        decide(Path::new(&std::ffi::OsString::from_vec(name.to_owned())))?;
    }
    Ok(())
}
