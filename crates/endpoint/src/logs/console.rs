//! Lines for standard error, written by a thread of its own: logging never waits for a slow reader.
//! A pipe that is full, or a terminal that Ctrl-S has stopped, would otherwise stop the whole process, thread by thread.
//!
//! By hand: `tracing-appender` prints to standard output when a process ends while its queue is full, and waits there for
//! the same reader (`2>&1 | less`).

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};

/// Bytes of lines that wait for a reader, a few thousand lines. What is beyond is dropped and counted.
const MAX_WAITING: usize = 1 << 20;
/// How long the end of the process waits for the last lines to be read.
const FAREWELL: Duration = Duration::from_secs(1);

/// Takes lines and never waits.
#[derive(Clone, Debug)]
pub struct Console(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    lines: Mutex<Lines>,
    max_waiting: usize,
    farewell: Duration,
    /// There is something to write.
    come: Condvar,
    /// Everything is written.
    idle: Condvar,
}

#[derive(Debug, Default)]
struct Lines {
    waiting: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Lines that were dropped since the last that was taken.
    dropped: u64,
    /// One is out of the queue and not written yet.
    is_writing: bool,
}

/// Keep it until the process ends: dropping it writes the last lines, as far as somebody reads them.
#[derive(Debug)]
#[must_use]
pub struct LastLines(Arc<Shared>);

impl Console {
    /// Lines for standard error.
    pub fn stderr() -> (Self, LastLines) {
        Self::new(io::stderr(), MAX_WAITING, FAREWELL)
    }

    fn new(to: impl Write + Send + 'static, max_waiting: usize, farewell: Duration) -> (Self, LastLines) {
        let (lines, come, idle) = Default::default();
        let shared = Arc::new(Shared { lines, max_waiting, farewell, come, idle });
        let writer = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("log".to_owned());
        // A system that has none for this has none for the rest of the process either.
        let _ = thread.spawn(move || writer.write_all(to));
        (Self(Arc::clone(&shared)), LastLines(shared))
    }
}

impl LastLines {
    /// Waits a moment for what was told so far: for who ends the process at once.
    pub fn write(&self) {
        let busy = |lines: &mut Lines| lines.is_writing || lines.has_some();
        drop(self.0.idle.wait_timeout_while(self.0.lock(), self.0.farewell, busy));
    }
}

impl Drop for LastLines {
    fn drop(&mut self) {
        self.write();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, line: &[u8]) {
        let mut lines = self.lock();
        // Once full it is closed until half of it is written: else each line that finds room would come with a count.
        let room = if lines.dropped > 0 { self.max_waiting / 2 } else { self.max_waiting };
        if lines.bytes >= room {
            lines.dropped += 1;
            return;
        }
        lines.count_dropped();
        lines.push(line.to_vec());
        self.come.notify_one();
    }

    /// The thread's work. It ends with the process.
    fn write_all(&self, mut to: impl Write) {
        loop {
            let line = self.next();
            // The reader is gone: the line is lost.
            let _ = to.write_all(&line).and_then(|()| to.flush());
        }
    }

    /// The next line, once there is one.
    fn next(&self) -> Vec<u8> {
        let mut lines = self.lock();
        lines.is_writing = false;
        if !lines.has_some() {
            self.idle.notify_all();
        }
        let mut lines =
            self.come.wait_while(lines, |lines| !lines.has_some()).unwrap_or_else(PoisonError::into_inner);
        if lines.waiting.is_empty() {
            lines.count_dropped();
        }
        let line = lines.waiting.pop_front().unwrap_or_default();
        lines.bytes -= line.len();
        lines.is_writing = true;
        line
    }
}

impl Lines {
    fn has_some(&self) -> bool {
        !self.waiting.is_empty() || self.dropped > 0
    }

    fn push(&mut self, line: Vec<u8>) {
        self.bytes += line.len();
        self.waiting.push_back(line);
    }

    /// Tells in their place how many are missing.
    fn count_dropped(&mut self) {
        let count = std::mem::take(&mut self.dropped);
        if count > 0 {
            let mut line = String::new();
            let _ = SystemTime.format_time(&mut Writer::new(&mut line));
            let _ = writeln!(line, "  WARN convoke: {count} log lines are missing here: the reader was too slow");
            self.push(line.into_bytes());
        }
    }
}

impl<'a> MakeWriter<'a> for Console {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> Self::Writer {
        self
    }
}

impl Write for &Console {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.take(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

    use super::*;

    /// A reader that reads only when told to.
    struct Reader(SyncSender<String>);

    impl Write for Reader {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            let text = String::from_utf8(line.to_vec()).expect("UTF-8");
            self.0.send(text).map_err(|_| io::ErrorKind::BrokenPipe)?;
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A console with room for ten lines of [`tell`], whose end waits for longer than any test.
    fn console() -> (Console, LastLines, Receiver<String>) {
        console_that_waits(Duration::from_secs(3600))
    }

    fn console_that_waits(farewell: Duration) -> (Console, LastLines, Receiver<String>) {
        let (to, from) = sync_channel(0);
        let (console, last) = Console::new(Reader(to), 30, farewell);
        (console, last, from)
    }

    fn tell(mut console: &Console, number: u32) {
        console.write_all(format!("{number:02}\n").as_bytes()).expect("taken");
    }

    #[test]
    fn nobody_waits_for_the_reader_and_what_is_missing_is_counted_in_its_place() {
        let (console, last, read) = console();
        tell(&console, 0);
        // The first is with the reader from here on, and not in the queue.
        while !console.0.lock().is_writing {
            std::thread::yield_now();
        }
        for number in 1..=20 {
            tell(&console, number);
        }
        for number in 0..=5 {
            assert_eq!(read.recv().expect("a line"), format!("{number:02}\n"));
        }
        // Half is read: there is room again.
        while console.0.lock().bytes >= 15 {
            std::thread::yield_now();
        }
        tell(&console, 21);
        for number in 6..=10 {
            assert_eq!(read.recv().expect("a line"), format!("{number:02}\n"));
        }
        let missing = read.recv().expect("a line");
        assert!(missing.contains("10 log lines are missing here"), "{missing}");
        assert_eq!(read.recv().expect("a line"), "21\n");
        drop(last);
    }

    #[test]
    fn what_is_missing_is_told_also_when_nothing_follows() {
        let (console, _last, read) = console();
        (0..30).for_each(|number| tell(&console, number));
        let told: Vec<_> = std::iter::from_fn(|| read.recv().ok()).take_while(|line| line.len() == 3).collect();
        assert!((10..=11).contains(&told.len()), "{told:?}");
    }

    #[test]
    fn the_end_waits_for_the_last_lines() {
        let (console, last, read) = console();
        let reader = std::thread::spawn(move || (0..5).map(|_| read.recv().expect("a line")).collect::<String>());
        (0..5).for_each(|number| tell(&console, number));
        drop(last);
        assert!(!console.0.lock().has_some(), "all is written");
        assert_eq!(reader.join().expect("read"), "00\n01\n02\n03\n04\n");
    }

    #[test]
    fn the_end_does_not_wait_for_a_reader_that_never_comes() {
        let (console, last, read) = console_that_waits(Duration::from_millis(20));
        (0..50).for_each(|number| tell(&console, number));
        // It comes back.
        drop(last);
        assert!(console.0.lock().has_some());
        drop(read);
    }

    #[test]
    fn a_reader_that_is_gone_is_no_reason_to_wait() {
        let (console, last, read) = console();
        drop(read);
        (0..50).for_each(|number| tell(&console, number));
        last.write();
        assert!(!console.0.lock().has_some());
    }
}
