//! Files and programs below the root.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use super::Facts;
use crate::exec::{Command, ExecError, Output};
use crate::open::{self, OpenError};
use crate::text;

/// Most bytes read of a file of facts. `/proc` and `/sys` have no larger ones that matter, and a larger one of `/etc`
/// is not what it claims to be.
const FILE_CAP: usize = 4 * 1024 * 1024;

/// Most bytes read of a file that is read line by line.
const MAX_LARGE: u64 = 256 * 1024 * 1024;

/// Longest line of such a file; a longer one is skipped.
const MAX_LINE: usize = 16 * 1024;

/// Where programs are. Not `PATH`: a service's may lack the `sbin` folders, and nobody's should decide what runs here.
const FOLDERS: [&str; 6] = ["usr/local/sbin", "usr/local/bin", "usr/sbin", "usr/bin", "sbin", "bin"];

impl Facts {
    /// A path below the root.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.options.root.join(path.trim_start_matches('/'))
    }

    /// The text of a file below the root.
    pub(crate) fn read(&self, path: &str) -> io::Result<String> {
        read_text(&self.path(path), FILE_CAP)
    }

    /// The end of a log below the root, at most `most` bytes of whole lines.
    pub(crate) fn tail(&self, path: &str, most: u64) -> io::Result<String> {
        let mut file = regular(&self.path(path))?;
        let from = file.metadata()?.len().saturating_sub(most);
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes);
        let whole = if from == 0 { &*text } else { text.split_once('\n').map_or("", |(_, rest)| rest) };
        Ok(whole.to_owned())
    }

    /// The lines of a file that may be large, one after the other; none if it cannot be read.
    pub(crate) fn lines(&self, path: &str) -> impl Iterator<Item = String> + use<> {
        let file = regular(&self.path(path)).ok();
        file.into_iter().flat_map(|file| {
            let lines = BufReader::new(file.take(MAX_LARGE)).split(b'\n').map_while(Result::ok);
            lines.filter(|line| line.len() < MAX_LINE).map(|line| String::from_utf8_lossy(&line).into_owned())
        })
    }

    /// The text of a small file, trimmed, where its absence means nothing.
    pub(crate) fn word(&self, path: &str) -> Option<String> {
        self.read(path).ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    /// The number that is a file's whole content, as in `/sys`.
    pub(crate) fn number(&self, path: &str) -> Option<i64> {
        self.word(path)?.parse().ok()
    }

    /// The names in a folder below the root, sorted; none if it is not there.
    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(path)).into_iter().flatten().flatten();
        let mut names: Vec<_> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_unstable();
        names
    }

    /// Whether there is something of that name.
    pub(crate) fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// Where a program is.
    pub(crate) fn program(&self, name: &str) -> Option<PathBuf> {
        FOLDERS.iter().map(|folder| self.path(folder).join(name)).find(|candidate| candidate.is_file())
    }

    /// Runs a program in the plain locale and waits for it. `None` if it is not installed.
    pub(crate) fn command(&self, name: &str, args: &[&str]) -> Option<Result<Output, ExecError>> {
        let program = self.program(name)?;
        let command = Command::new(program).args(args).env("LC_ALL", "C").env("LANG", "C");
        Some(self.exec(command))
    }

    /// What a program prints, if it is installed and succeeds.
    pub(crate) fn output(&self, name: &str, args: &[&str]) -> Option<String> {
        let output = self.command(name, args)?.ok()?;
        output.success().then_some(output.stdout)
    }
}

/// The text of a regular file, at most `cap` bytes of it. Does not hang on what is no regular file.
pub(crate) fn read_text(path: &Path, cap: usize) -> io::Result<String> {
    Ok(text::lossy(&read_start(path, cap)?, cap))
}

/// The first bytes of a regular file that no caller named.
pub(crate) fn read_start(path: &Path, most: usize) -> io::Result<Vec<u8>> {
    match open::file(path, None).and_then(|file| file.start(most)) {
        Ok(bytes) => Ok(bytes),
        Err(OpenError::Io(error)) => Err(error),
        Err(OpenError::Refused(refused)) => Err(io::Error::other(refused)),
    }
}

fn regular(path: &Path) -> io::Result<File> {
    if path.metadata()?.is_file() { File::open(path) } else { Err(io::Error::other("not a regular file")) }
}
