//! Opens what a caller named, under rules. Every path that comes from afar is opened here and nowhere else.
//!
//! A name says little: a link leads elsewhere, and what a name stands for can be exchanged between a look and the
//! opening. So a thing is found first, the system says which path it really has, the rules decide on that path, and only
//! then is it read. Nothing but a regular file is ever opened for reading: opening a device can act (a watchdog starts
//! counting), a FIFO waits for its other end.
//!
//! What no path shows is refused by what it is: a hub's data directory and a backup whatever they are called, and a
//! private key in a file of any name. What cannot be seen: a hard link, and a file that is mounted at a second place.

#[cfg(target_os = "linux")]
mod linux;
mod new;
#[cfg(not(target_os = "linux"))]
mod portable;
mod protected;

use std::fmt;
use std::fs::{File, FileType, Metadata, ReadDir};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

#[cfg(target_os = "linux")]
use linux as platform;
#[cfg(not(target_os = "linux"))]
use portable as platform;

pub use new::{NewFile, new_file};

/// What would be shown of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shows {
    /// The names in a folder.
    Names,
    /// What a file holds.
    Contents,
}

/// Decides on real paths.
pub trait Rules: Send + Sync + fmt::Debug {
    /// Why this is not shown, if it is not.
    fn refusal(&self, real: &str, shows: Shows) -> Option<Refused>;
}

/// A rule refuses it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("refused by agent safety policy: {reason} (rule {rule})")]
pub struct Refused {
    /// The rule's id.
    pub rule: String,
    /// Its reason.
    pub reason: String,
}

impl Refused {
    fn new(rule: &str, reason: &str) -> Self {
        Self { rule: rule.into(), reason: reason.into() }
    }
}

/// Why something was not opened or read.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The system says no.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A rule says no.
    #[error(transparent)]
    Refused(#[from] Refused),
}

/// A regular file that may be read.
#[derive(Debug)]
pub struct OpenFile {
    file: File,
    under_rules: bool,
}

/// A folder that may be listed.
#[derive(Debug)]
pub struct OpenFolder {
    /// Held so that what is listed is what was decided on.
    _file: Option<File>,
    /// The path that leads to it and to nothing else.
    path: PathBuf,
}

/// Opens a regular file, if the rules let its contents be shown. Without rules, for paths that no caller chose, nothing
/// is decided.
pub fn file(path: &Path, rules: Option<&dyn Rules>) -> Result<OpenFile, OpenError> {
    let mut file = platform::file(path, |real| decide(rules, real, Shows::Contents))?;
    if rules.is_some() {
        protected::check_end(&mut file)?;
    }
    Ok(OpenFile { file, under_rules: rules.is_some() })
}

/// Opens a folder, if the rules let its names be shown.
pub fn folder(path: &Path, rules: Option<&dyn Rules>) -> Result<OpenFolder, OpenError> {
    let (file, path) = platform::folder(path, |real| decide(rules, real, Shows::Names))?;
    Ok(OpenFolder { _file: file, path })
}

/// Decides on what a name leads to now, for a program that will open it by itself. It may lead elsewhere by then.
pub fn check_named(path: &Path, rules: Option<&dyn Rules>) -> Result<(), OpenError> {
    match path.canonicalize() {
        Ok(real) => decide(rules, &real, Shows::Contents).map_err(OpenError::from),
        Err(_) => Ok(()),
    }
}

fn decide(rules: Option<&dyn Rules>, real: &Path, shows: Shows) -> Result<(), Refused> {
    let Some(rules) = rules else { return Ok(()) };
    protected::check_place(real)?;
    let text = real.to_string_lossy();
    let folder = (shows == Shows::Names).then(|| format!("{text}/"));
    let refused =
        [Some(text.as_ref()), folder.as_deref()].into_iter().flatten().find_map(|text| rules.refusal(text, shows));
    refused.map_or(Ok(()), Err)
}

impl OpenFile {
    /// Its first bytes, at most so many.
    pub fn start(self, most: usize) -> Result<Vec<u8>, OpenError> {
        let mut bytes = Vec::new();
        match self.file.take(most as u64).read_to_end(&mut bytes) {
            // A file of /proc or /sys that has nothing to say just now. What came before counts.
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error.into()),
            _ => {}
        }
        if self.under_rules {
            protected::check_text(&bytes)?;
        }
        Ok(bytes)
    }

    /// Its last bytes, at most so many, and whether they are all there is.
    pub fn end(mut self, most: u64) -> Result<(Vec<u8>, bool), OpenError> {
        let from = self.file.metadata()?.len().saturating_sub(most);
        self.file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        self.file.take(most).read_to_end(&mut bytes)?;
        if self.under_rules {
            protected::check_text(&bytes)?;
        }
        Ok((bytes, from == 0))
    }
}

impl OpenFile {
    /// Reads all of it, a piece at a time, and gives it back at its beginning with its length. Nothing of it may be shown
    /// before that: what is protected may stand at its end.
    pub fn whole(mut self, mut each: impl FnMut(&[u8]) -> io::Result<()>) -> Result<(File, u64), OpenError> {
        let mut buffer = vec![0; protected::OVERLAP + PIECE];
        let (mut kept, mut length) = (0, 0);
        loop {
            let read = match self.file.read(&mut buffer[kept..]) {
                Ok(0) => break,
                Ok(read) => read,
                Err(why) if why.kind() == io::ErrorKind::Interrupted => continue,
                Err(why) => return Err(why.into()),
            };
            each(&buffer[kept..kept + read])?;
            length += read as u64;
            let end = kept + read;
            if self.under_rules {
                protected::check_text(&buffer[..end])?;
            }
            // A key may begin in one piece and go on in the next.
            kept = end.min(protected::OVERLAP);
            buffer.copy_within(end - kept..end, 0);
        }
        self.file.rewind()?;
        Ok((self.file, length))
    }
}

/// How much of a file is read at once.
const PIECE: usize = 256 * 1024;

impl OpenFolder {
    /// What is in it.
    pub fn entries(&self) -> io::Result<ReadDir> {
        std::fs::read_dir(&self.path)
    }
}

fn regular(metadata: &Metadata) -> io::Result<()> {
    if metadata.is_file() {
        return Ok(());
    }
    Err(io::Error::other(format!("is {}, not a regular file", describe(metadata.file_type()))))
}

/// What a file is, in words.
#[cfg(unix)]
fn describe(kind: FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt as _;

    match kind {
        kind if kind.is_dir() => "a directory",
        kind if kind.is_fifo() => "a FIFO",
        kind if kind.is_socket() => "a socket",
        kind if kind.is_block_device() || kind.is_char_device() => "a device",
        kind if kind.is_symlink() => "a symbolic link",
        _ => "something else",
    }
}

#[cfg(not(unix))]
fn describe(kind: FileType) -> &'static str {
    match kind {
        kind if kind.is_dir() => "a directory",
        kind if kind.is_symlink() => "a symbolic link",
        _ => "something else",
    }
}
