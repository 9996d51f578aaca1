//! The ring of Linux.

use std::fs::{File, OpenOptions};
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use io_uring::{IoUring, opcode, types};
use rustix::fs::OFlags;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::pages::{PAGE, Pages};

/// Writes to one file, one write at a time.
#[derive(Debug)]
pub struct Writer {
    ring: AsyncFd<Ring>,
}

impl Writer {
    /// Opens a file that is there. Every write to it is synced before it is done. To be called in a tokio runtime that has its
    /// driver for input and output.
    pub fn open(path: &Path) -> io::Result<Self> {
        let ring = Ring::open(path)?;
        // SAFETY: the descriptor is the ring's own, which it closes when it is dropped and never replaces.
        #[allow(unsafe_code)]
        let ring = unsafe { AsyncFd::register_with_interest(ring, Interest::READABLE)? };
        Ok(Self { ring })
    }

    /// Writes whole pages at `offset`, a multiple of [`PAGE`]. The pages come back, to be used again, if they can be.
    ///
    /// Whoever stops waiting stops nothing: the write goes on, there is none beside it, and who drops the writer waits for
    /// it.
    pub async fn write(&mut self, pages: Pages, offset: u64) -> (Pages, io::Result<()>) {
        let waited = match self.ring.get_mut().submit(pages, offset) {
            Ok(()) => self.finished().await,
            Err(error) => Err(error),
        };
        waited.unwrap_or_else(|error| (Pages::default(), Err(error)))
    }

    /// Waits for the write that is under way.
    async fn finished(&mut self) -> io::Result<(Pages, io::Result<()>)> {
        loop {
            let mut ready = self.ring.readable_mut().await?;
            // Before the look: what is done after it makes it ready once more.
            ready.clear_ready();
            if let Some(done) = ready.get_inner_mut().finish() {
                return Ok(done);
            }
        }
    }
}

/// The ring, the file, and what goes from one to the other. Its descriptor is readable once a write is done.
struct Ring {
    ring: IoUring,
    file: File,
    /// What the kernel reads from at this time.
    in_flight: Option<Pages>,
    /// The kernel did not take what was in the queue. Nothing goes out any more.
    is_broken: bool,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("in_flight", &self.in_flight).finish_non_exhaustive()
    }
}

impl Ring {
    fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::DIRECT.union(OFlags::DSYNC).bits().cast_signed();
        let file = OpenOptions::new().write(true).custom_flags(flags).open(path)?;
        // Nobody shares this ring, so a completion need not interrupt whoever submitted.
        let ring = IoUring::builder().setup_coop_taskrun().build(2).or_else(|_| IoUring::new(2))?;
        Ok(Self { ring, file, in_flight: None, is_broken: false })
    }

    /// Begins to write whole pages. While a write is under way there is no second one.
    fn submit(&mut self, pages: Pages, offset: u64) -> io::Result<()> {
        let length = u32::try_from(pages.pages() * PAGE).ok().filter(|length| *length > 0);
        let length = length.ok_or(io::ErrorKind::InvalidInput)?;
        if self.is_broken || self.is_busy() {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        let pages = self.in_flight.insert(pages);
        let write =
            opcode::Write::new(types::Fd(self.file.as_raw_fd()), pages.start(), length).offset(offset).build();
        // SAFETY: the kernel reads `length` bytes from `start` until the write is done. They are initialised, since `Pages`
        // holds that many, and they stay where they are and as they are: `in_flight` owns them, nothing hands out a
        // reference to it, and it is only emptied in `finish`, once the kernel has said that the write is done, or leaked
        // where it cannot say so any more. The file is open for as long as `self` is.
        #[allow(unsafe_code)]
        let pushed = unsafe { self.ring.submission().push(&write) };
        // One write at a time in a queue for two: there is room.
        let submitted = pushed.map_err(|_| io::ErrorKind::WouldBlock.into()).and_then(|()| self.enter());
        if submitted.is_err() {
            // The kernel may still take it out of the queue.
            self.is_broken = true;
            mem::forget(self.in_flight.take());
        }
        submitted
    }

    /// Tells the kernel.
    fn enter(&self) -> io::Result<()> {
        loop {
            match self.ring.submit() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // It has no memory for it just now.
                Ok(0) => return Err(io::ErrorKind::WouldBlock.into()),
                entered => return entered.map(drop),
            }
        }
    }

    /// The write that was under way, if it is done, and how it ended. A write that ended short is an error.
    fn finish(&mut self) -> Option<(Pages, io::Result<()>)> {
        let done = self.ring.completion().next()?;
        let pages = self.in_flight.take()?;
        let written = match usize::try_from(done.result()) {
            Ok(written) if written == pages.pages() * PAGE => Ok(()),
            Ok(_) => Err(io::ErrorKind::WriteZero.into()),
            Err(_) => Err(io::Error::from_raw_os_error(-done.result())),
        };
        Some((pages, written))
    }

    /// Whether a write is under way.
    const fn is_busy(&self) -> bool {
        self.in_flight.is_some()
    }
}

impl AsRawFd for Ring {
    fn as_raw_fd(&self) -> RawFd {
        self.ring.as_raw_fd()
    }
}

impl Drop for Ring {
    /// Waits for a write that is under way: until it is done its memory is the kernel's.
    fn drop(&mut self) {
        while self.is_busy() && self.finish().is_none() {
            match self.ring.submit_and_wait(1) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                    mem::forget(self.in_flight.take());
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::task::Poll;

    use super::*;

    fn file(pages: usize) -> (tempfile::TempDir, std::path::PathBuf) {
        // Beside the program, since a directory in memory may have no direct writes.
        let here = std::env::current_exe().expect("this program").parent().expect("its directory").to_owned();
        let dir = tempfile::tempdir_in(here).expect("a directory");
        let path = dir.path().join("file");
        fs::write(&path, vec![0; pages * PAGE]).expect("written");
        (dir, path)
    }

    /// None where this machine has no ring.
    fn open(path: &Path) -> Option<Writer> {
        Writer::open(path).inspect_err(|error| eprintln!("no ring here: {error}")).ok()
    }

    fn run(byte: u8, length: usize) -> Pages {
        let mut pages = Pages::default();
        pages.extend(&vec![byte; length]);
        pages
    }

    #[tokio::test]
    async fn what_is_written_is_in_the_file() {
        let (_dir, path) = file(8);
        let Some(mut writer) = open(&path) else { return };
        for (byte, at) in [(7, 2 * PAGE), (8, 5 * PAGE)] {
            let (pages, written) = writer.write(run(byte, 5_000), at as u64).await;
            written.expect("written");
            assert_eq!(pages.len(), 5_000);
            let found = fs::read(&path).expect("read");
            assert_eq!(found.len(), 8 * PAGE);
            assert!(found[at..at + 5_000].iter().all(|b| *b == byte));
            assert!(found[at + 5_000..at + 2 * PAGE].iter().all(|b| *b == 0));
        }
    }

    #[tokio::test]
    async fn a_write_of_nothing_is_refused() {
        let (_dir, path) = file(4);
        let Some(mut writer) = open(&path) else { return };
        let (_, written) = writer.write(Pages::default(), 0).await;
        assert_eq!(written.expect_err("nothing to write").kind(), io::ErrorKind::InvalidInput);
    }

    #[tokio::test]
    async fn a_write_that_fails_says_so_and_the_next_one_works() {
        let (_dir, path) = file(4);
        let Some(mut writer) = open(&path) else { return };
        let (pages, written) = writer.write(run(1, 10), 7).await;
        assert_eq!(written.expect_err("no multiple of a page").kind(), io::ErrorKind::InvalidInput);
        writer.write(pages, 0).await.1.expect("written");
    }

    /// Begins a write and stops waiting for it.
    async fn abandon(writer: &mut Writer, pages: Pages) {
        let mut writing = std::pin::pin!(writer.write(pages, 0));
        let begun = std::future::poll_fn(|context| Poll::Ready(writing.as_mut().poll(context))).await;
        assert!(begun.is_pending() || begun.map(|(_, written)| written.is_ok()) == Poll::Ready(true));
    }

    #[tokio::test]
    async fn beside_a_write_that_nobody_waits_for_there_is_no_second_one() {
        let (_dir, path) = file(64);
        let Some(mut writer) = open(&path) else { return };
        abandon(&mut writer, run(1, 64 * PAGE)).await;
        if writer.ring.get_ref().is_busy() {
            let (_, written) = writer.write(run(2, 10), 0).await;
            assert_eq!(written.expect_err("one is under way").kind(), io::ErrorKind::ResourceBusy);
        }
    }

    #[tokio::test]
    async fn a_writer_that_goes_away_waits_for_its_write() {
        let (_dir, path) = file(64);
        for byte in 1..20 {
            let Some(mut writer) = open(&path) else { return };
            abandon(&mut writer, run(byte, 64 * PAGE)).await;
            drop(writer);
            assert!(fs::read(&path).expect("read").iter().all(|b| *b == byte));
        }
    }

    #[tokio::test]
    async fn a_file_that_is_not_there_is_not_made() {
        let (dir, _) = file(0);
        assert!(Writer::open(&dir.path().join("other")).is_err());
        assert!(!dir.path().join("other").exists());
    }
}
