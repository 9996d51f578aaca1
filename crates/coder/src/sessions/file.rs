//! An open session file. While it is open, a shared lock keeps other processes from removing it as unused. Lines are
//! appended one at a time under the directory's lock.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use convoke_kward::transcript::{Role, Stored};

use super::load::Item;
use super::record::{Header, Line, Record, line};
use crate::clock;
use crate::files::{self, Lock};
use crate::redact::Redactor;

/// The largest file that is read.
pub(crate) const MAX_BYTES: u64 = 512 * 1024 * 1024;

/// The file, and where its chain of entries ends.
#[derive(Debug)]
pub(crate) struct SessionFile {
    path: PathBuf,
    file: File,
    last_entry: Option<String>,
    /// Where the file ended when this process last read it or wrote to it.
    end: u64,
    /// Others have written to it since.
    is_behind: bool,
    first_line: FirstLine,
    redactor: Arc<Redactor>,
}

/// What to do before a line is appended.
#[derive(Debug)]
enum FirstLine {
    /// Nothing. A file that is gone was deleted on purpose and is not made again.
    Kept,
    /// The file has no message yet. Kward removes such files whenever it lists sessions, even open ones; the file is then
    /// made again, so that the first message is not lost.
    Replaceable(Vec<u8>),
    /// The first line is missing. It is appended after the others, where every reader finds it.
    Lost(Vec<u8>),
}

impl SessionFile {
    /// A new file. Fails if there is a file of that name.
    pub(crate) fn create(path: &Path, header: &Header, redactor: Arc<Redactor>) -> io::Result<Self> {
        let dir = dir_of(path);
        files::private_dir(dir)?;
        let _lock = Lock::of_dir(dir)?;
        let header = line(header);
        let file = begin(path, &header)?;
        let end = header.len() as u64;
        let first_line = FirstLine::Replaceable(header);
        Ok(Self { path: path.to_owned(), file, last_entry: None, end, is_behind: false, first_line, redactor })
    }

    /// Opens an existing file and reads it. From here on it cannot be removed as unused.
    pub(crate) fn open(path: &Path, redactor: Arc<Redactor>) -> io::Result<(Self, Vec<u8>)> {
        let _lock = Lock::of_dir(dir_of(path))?;
        let mut file = files::private_options().read(true).append(true).open(path)?;
        let length = file.metadata()?.len();
        if length > MAX_BYTES {
            let why = format!("the session file has {length} bytes, more than {MAX_BYTES}: {}", path.display());
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
        }
        file.lock_shared()?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let (first_line, end) = (FirstLine::Kept, bytes.len() as u64);
        let path = path.to_owned();
        Ok((Self { path, file, last_entry: None, end, is_behind: false, first_line, redactor }, bytes))
    }

    /// Whether another process has written to the file since it was last read here.
    pub(crate) fn is_behind(&self) -> io::Result<bool> {
        Ok(self.is_behind || self.file.metadata()?.len() != self.end)
    }

    /// Reads it once more.
    pub(crate) fn read_again(&mut self) -> io::Result<Vec<u8>> {
        let _lock = Lock::of_dir(dir_of(&self.path))?;
        let mut bytes = Vec::new();
        self.file.seek(SeekFrom::Start(0))?;
        (&self.file).take(MAX_BYTES).read_to_end(&mut bytes)?;
        self.end = bytes.len() as u64;
        self.is_behind = false;
        Ok(bytes)
    }

    /// The file has no message yet; this is its first line.
    pub(crate) fn may_be_made_again(&mut self, header: &Header) {
        self.first_line = FirstLine::Replaceable(line(header));
    }

    /// Its first line is missing; this is what it was.
    pub(crate) fn has_lost(&mut self, header: &Header) {
        self.first_line = FirstLine::Lost(line(header));
    }

    /// Continues after this entry.
    pub(crate) fn continue_after(&mut self, entry: Option<String>) {
        self.last_entry = entry;
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a message; gives back its id.
    pub(crate) fn message(&mut self, message: &mut Stored) -> io::Result<String> {
        self.entry(message, false)
    }

    /// Appends a summary; gives back its id.
    pub(crate) fn compaction(&mut self, message: &mut Stored) -> io::Result<String> {
        self.entry(message, true)
    }

    fn entry(&mut self, message: &mut Stored, is_compaction: bool) -> io::Result<String> {
        let id = clock::entry_id();
        message.0.insert("id".into(), id.clone().into());
        let (parent_id, timestamp) = (self.last_entry.as_deref(), clock::now_text());
        let record = match is_compaction {
            true => Record::Compaction { id: &id, parent_id, timestamp, message },
            false => Record::Message { id: &id, parent_id, timestamp, message },
        };
        let bytes = line(&record);
        let clean = self.redactor.bytes(bytes.clone());
        self.append(&clean)?;
        // A message that could not be written is not part of the conversation, so it is not sent to a model again.
        if clean != bytes {
            let cleaned = Line::parse(&clean).and_then(|line| serde_json::from_str(line.message?.get()).ok());
            *message = cleaned.unwrap_or_default();
        }
        self.last_entry = Some(id.clone());
        self.first_line = FirstLine::Kept;
        Ok(id)
    }

    /// Appends another session's conversation, with ids of its own.
    pub(crate) fn copy(&mut self, items: &[Item]) -> io::Result<Vec<Item>> {
        let mut lines = Vec::new();
        let mut copied = Vec::with_capacity(items.len());
        for item in items {
            let id = clock::entry_id();
            let mut message = item.message.as_ref().clone();
            message.0.insert("id".into(), id.clone().into());
            let (parent_id, timestamp) = (self.last_entry.as_deref(), clock::now_text());
            if message.role() == Role::Summary {
                // The messages that it kept follow it here; the entries that it refers to are in the other file.
                message.0.remove("first_kept_id");
                message.0.remove("first_kept_entry_id");
            }
            // As in Kward's copies a summary is a message here: nothing before it is to be left out.
            lines.extend(line(&Record::Message { id: &id, parent_id, timestamp, message: &message }));
            self.last_entry = Some(id.clone());
            copied.push(Item { id, message: Arc::new(message) });
        }
        if !lines.is_empty() {
            self.append(&lines)?;
            self.first_line = FirstLine::Kept;
        }
        Ok(copied)
    }

    /// Appends a line that is no entry.
    pub(crate) fn note(&mut self, record: &Record<'_>) -> io::Result<()> {
        let clean = self.redactor.bytes(line(record));
        self.append(&clean)
    }

    /// Appends whole lines. A line that a process left unfinished is ended first: readers skip it, and the lines after
    /// it are not lost.
    pub(crate) fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        let _lock = Lock::of_dir(dir_of(&self.path))?;
        if is_deleted(&self.file)? {
            let FirstLine::Replaceable(header) = &self.first_line else {
                let why = format!("the session file was deleted: {}", self.path.display());
                return Err(io::Error::new(io::ErrorKind::NotFound, why));
            };
            self.file = begin(&self.path, header)?;
            self.end = header.len() as u64;
        }
        self.is_behind = self.is_behind()?;
        if !ends_with_a_line(&mut self.file)? {
            self.file.write_all(b"\n")?;
        }
        if let FirstLine::Lost(header) = &self.first_line {
            self.file.write_all(header)?;
            self.first_line = FirstLine::Kept;
        }
        self.file.write_all(lines)?;
        self.end = self.file.metadata()?.len();
        Ok(())
    }

    /// When the file was last written to.
    pub(crate) fn modified_at(&self) -> Option<String> {
        self.file.metadata().and_then(|metadata| metadata.modified()).ok().map(|time| clock::of(time).to_string())
    }

    /// Syncs the file to disk.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// A new file with its first line.
fn begin(path: &Path, header: &[u8]) -> io::Result<File> {
    let mut file = files::private_options().read(true).append(true).create_new(true).open(path)?;
    file.lock_shared()?;
    file.write_all(header)?;
    Ok(file)
}

fn dir_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("."))
}

#[cfg(unix)]
pub(super) fn is_deleted(file: &File) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    Ok(file.metadata()?.nlink() == 0)
}

#[cfg(not(unix))]
pub(super) fn is_deleted(_: &File) -> io::Result<bool> {
    Ok(false)
}

fn ends_with_a_line(file: &mut File) -> io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(true);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

#[cfg(test)]
mod tests {
    use super::super::load::load;
    use super::*;

    fn header() -> Header {
        Header {
            kind: "session",
            version: 1,
            id: "u".into(),
            timestamp: "t".into(),
            cwd: "/w".into(),
            ..Header::default()
        }
    }

    fn said(text: &str) -> Stored {
        Stored::from_value(serde_json::json!({ "role": "user", "content": text }))
    }

    #[test]
    fn a_torn_line_costs_only_itself() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.jsonl");
        let mut file = SessionFile::create(&path, &header(), Arc::default()).unwrap();
        file.message(&mut said("one")).unwrap();
        files::append_private(&path, br#"{"type":"message","mess"#).unwrap();
        file.message(&mut said("two")).unwrap();
        let loaded = load(&std::fs::read(&path).unwrap()).unwrap();
        let texts: Vec<_> = loaded.items.iter().map(|item| item.message.text()).collect();
        assert_eq!(texts, ["one", "two"]);
        assert_eq!(loaded.last_entry.as_deref(), loaded.items[1].message.text_of("id"));
    }

    #[test]
    fn a_file_knows_whether_others_have_written_to_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.jsonl");
        let mut one = SessionFile::create(&path, &header(), Arc::default()).unwrap();
        one.message(&mut said("one")).unwrap();
        let (mut two, _) = SessionFile::open(&path, Arc::default()).unwrap();
        assert!(!one.is_behind().unwrap() && !two.is_behind().unwrap());
        two.message(&mut said("two")).unwrap();
        assert!(one.is_behind().unwrap() && !two.is_behind().unwrap());
        // What it writes itself does not make up for what it has not read.
        one.message(&mut said("three")).unwrap();
        assert!(one.is_behind().unwrap() && two.is_behind().unwrap());
        assert_eq!(one.read_again().unwrap(), std::fs::read(&path).unwrap());
        assert!(!one.is_behind().unwrap());
    }

    #[test]
    fn several_writers_do_not_tear_each_others_lines() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.jsonl");
        drop(SessionFile::create(&path, &header(), Arc::default()).unwrap());
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let path = &path;
                scope.spawn(move || {
                    let (mut file, _) = SessionFile::open(path, Arc::default()).unwrap();
                    for n in 0..50 {
                        file.append(&line(&serde_json::json!({ "type": "x", "writer": writer, "n": n }))).unwrap();
                    }
                });
            }
        });
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 201);
        assert!(text.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));
    }

    #[test]
    fn a_file_that_was_removed_as_empty_is_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.jsonl");
        let mut file = SessionFile::create(&path, &header(), Arc::default()).unwrap();
        std::fs::remove_file(&path).unwrap();
        file.message(&mut said("one")).unwrap();
        file.message(&mut said("two")).unwrap();
        let loaded = load(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!((loaded.header.id.as_str(), loaded.items.len()), ("u", 2));
        assert!(File::open(&path).unwrap().try_lock().is_err(), "others see that it is open");
    }

    #[test]
    fn a_lost_first_line_is_written_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.jsonl");
        std::fs::write(
            &path,
            "{\"type\":\"message\",\"message\":{\"role\":\"user\",\"content\":\"one\"}}\n{\"type\":\"mes",
        )
        .unwrap();
        let (mut file, _) = SessionFile::open(&path, Arc::default()).unwrap();
        file.has_lost(&header());
        file.continue_after(Some("entry-0".into()));
        file.message(&mut said("two")).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.matches("\"type\":\"session\"").count(), 1, "{text}");
        let loaded = load(text.as_bytes()).unwrap();
        assert_eq!((loaded.header.id.as_str(), loaded.items.len()), ("u", 2));
    }

    #[test]
    fn a_deleted_file_is_not_written_to() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.jsonl");
        let mut file = SessionFile::create(&path, &header(), Arc::default()).unwrap();
        file.message(&mut said("w")).unwrap();
        std::fs::remove_file(&path).unwrap();
        let why = file.message(&mut said("x")).unwrap_err().to_string();
        assert!(why.contains("was deleted"), "{why}");
    }
}
