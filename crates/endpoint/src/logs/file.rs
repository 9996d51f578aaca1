//! Log files that never grow without end: at a size the present one is put aside, and the oldest goes.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tracing_subscriber::fmt::MakeWriter;

/// A file that is put aside as `NAME.1`, `NAME.2`, … when it has reached a size.
#[derive(Clone, Debug)]
pub struct RotatingFile {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    limit: u64,
    count: usize,
    open: Option<(File, u64)>,
    /// Lines that the disk did not take.
    lost: u64,
}

impl RotatingFile {
    /// At most `count` files of about `limit` bytes each, the newest at `path`.
    pub fn new(path: PathBuf, limit: u64, count: usize) -> Self {
        Self { inner: Arc::new(Mutex::new(Inner { path, limit, count: count.max(1), open: None, lost: 0 })) }
    }

    /// The files there are, oldest first.
    pub fn files(path: &Path, count: usize) -> Vec<PathBuf> {
        let aside = (1..count).rev().map(|n| numbered(path, n));
        aside.chain([path.to_owned()]).filter(|file| file.exists()).collect()
    }
}

fn numbered(path: &Path, number: usize) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{number}"));
    path.with_file_name(name)
}

impl Inner {
    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        if self.open.as_ref().is_some_and(|(_, size)| *size + line.len() as u64 > self.limit) {
            self.put_aside();
        }
        let (file, size) = match &mut self.open {
            Some(open) => open,
            None => {
                let open = open(&self.path)?;
                self.open.insert(open)
            }
        };
        file.write_all(line)?;
        *size += line.len() as u64;
        Ok(())
    }

    fn put_aside(&mut self) {
        self.open = None;
        for number in (1..self.count).rev() {
            let from = if number == 1 { self.path.clone() } else { numbered(&self.path, number - 1) };
            // Absent, or not ours to move: the next write appends to what is there.
            let _ = fs::rename(from, numbered(&self.path, number));
        }
        if self.count == 1 {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn open(path: &Path) -> io::Result<(File, u64)> {
    let mut options = File::options();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    let size = file.metadata()?.len();
    Ok((file, size))
}

/// One line at a time, each whole.
impl Write for RotatingFile {
    /// Never fails: a full disk costs lines, which are counted and told when there is room again, and not the agent.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.lost > 0 {
            let lost = inner.lost;
            if inner.write(format!("({lost} lines were lost: the disk failed)\n").as_bytes()).is_ok() {
                inner.lost = 0;
            }
        }
        if inner.write(line).is_err() {
            inner.lost += 1;
            inner.open = None;
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for RotatingFile {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_files_go_and_no_file_outgrows_its_size() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("agent.log");
        let mut file = RotatingFile::new(path.clone(), 100, 3);
        for number in 0..100 {
            writeln!(file, "line number {number}").expect("never fails");
        }
        let files = RotatingFile::files(&path, 3);
        assert_eq!(files.len(), 3);
        assert_eq!(fs::read_dir(dir.path()).expect("reads").count(), 3);
        let text: String = files.iter().map(|f| fs::read_to_string(f).expect("reads")).collect();
        assert!(text.ends_with("line number 99\n") && !text.contains("line number 50\n"));
        for file in &files {
            assert!(fs::metadata(file).expect("there").len() <= 100);
        }
        // A new start goes on where the last one ended.
        let mut file = RotatingFile::new(path.clone(), 100, 3);
        writeln!(file, "after a restart").expect("never fails");
        assert!(fs::read_to_string(&path).expect("reads").contains("line number 99\nafter"));
    }

    #[test]
    fn a_disk_that_takes_nothing_costs_lines_only() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("missing/agent.log");
        let mut file = RotatingFile::new(path.clone(), 1000, 2);
        writeln!(file, "lost").expect("never fails");
        writeln!(file, "lost too").expect("never fails");
        fs::create_dir(path.parent().expect("a parent")).expect("made");
        writeln!(file, "kept").expect("never fails");
        let text = fs::read_to_string(&path).expect("reads");
        assert!(text.contains("lines were lost") && text.ends_with("kept\n"), "{text}");
    }
}
