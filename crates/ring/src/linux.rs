//! The ring of Linux.

use std::fs::OpenOptions;
use std::future::poll_fn;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use a10::io::{ReadBuf, ReadBufPool};
use a10::{Extract as _, Ring};
use rustix::fs::OFlags;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::{MAX_WRITE, PAGE, descriptor};

/// How long the kernel may take to say that something is done which is done already.
const PATIENCE: Duration = Duration::from_secs(5);

/// A write that the kernel has; the buffer comes back with it.
type Write = Pin<Box<dyn Future<Output = io::Result<(ReadBuf, usize)>> + Send>>;

/// Writes to one file, one write at a time.
pub struct Writer {
    /// Readable once the ring has something to say.
    ready: AsyncFd<OwnedFd>,
    file: Arc<a10::AsyncFd>,
    /// Takes everything at once.
    null: a10::AsyncFd,
    /// What the next write is made from. None while one is under way, and after one that failed.
    buffer: Option<ReadBuf>,
    under_way: Option<Write>,
    /// The last field, so that it closes what the others leave to it.
    ring: Ring,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("is_busy", &self.is_busy()).finish_non_exhaustive()
    }
}

impl Writer {
    /// Opens a file that is there. Every write to it is synced before it is done. To be called in a tokio runtime that has its
    /// driver for input and output.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::DIRECT.union(OFlags::DSYNC).bits().cast_signed();
        let file = OpenOptions::new().write(true).custom_flags(flags).open(path)?;
        let null = OpenOptions::new().write(true).open("/dev/null")?;
        let (mut ring, descriptor) = descriptor::of_new(|| Ring::config().with_submission_queue_size(2).build())?;
        let buffer = first_read(&mut ring, &descriptor, PATIENCE)?;
        // Deprecated because a type may lie about its descriptor. This one is the descriptor.
        #[allow(deprecated)]
        let ready = AsyncFd::with_interest(descriptor, Interest::READABLE)?;
        let file = Arc::new(a10::AsyncFd::new(file.into(), ring.sq()));
        let null = a10::AsyncFd::new(null.into(), ring.sq());
        Ok(Self { ready, file, null, buffer: Some(buffer), under_way: None, ring })
    }

    /// Writes bytes at `offset`, a multiple of [`PAGE`], and zeros up to the end of their last page.
    ///
    /// Whoever stops waiting stops nothing: the write goes on, there is none beside it, and who drops the writer waits for
    /// it. After one that failed there is no other.
    pub async fn write(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if bytes.is_empty() || bytes.len() > MAX_WRITE || !offset.is_multiple_of(PAGE as u64) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut buffer = self.buffer.take().ok_or(io::ErrorKind::ResourceBusy)?;
        buffer.clear();
        let zeros = &[0; PAGE][..bytes.len().next_multiple_of(PAGE) - bytes.len()];
        let filled = buffer.extend_from_slice(bytes).and_then(|()| buffer.extend_from_slice(zeros));
        filled.map_err(|()| io::ErrorKind::InvalidInput)?;
        let file = Arc::clone(&self.file);
        self.under_way = Some(Box::pin(async move { file.write(buffer).at(offset).extract().await }));
        match self.submit() {
            Poll::Ready(done) => done,
            Poll::Pending => poll_fn(|context| self.poll_done(context)).await,
        }
    }

    /// Tells the kernel.
    fn submit(&mut self) -> Poll<io::Result<()>> {
        if let Poll::Ready(done) = self.look() {
            return Poll::Ready(done);
        }
        // A ring that is looked at while nothing is done sets a timer, even if it is to wait for no time at all. On a virtual
        // machine that costs as much as everything else here. So something is done.
        let mut nothing = pin!(self.null.write(b".".as_slice()));
        let _ = nothing.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        self.ring.poll(Some(Duration::ZERO))?;
        Poll::Pending
    }

    fn poll_done(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if let Poll::Ready(done) = self.look() {
                return Poll::Ready(done);
            }
            // Before the look: what is done after it makes it ready once more.
            ready!(self.ready.poll_read_ready(context))?.clear_ready();
            self.ring.poll(Some(Duration::ZERO))?;
        }
    }

    /// Whether the write is done, by what the ring was last seen to say.
    fn look(&mut self) -> Poll<io::Result<()>> {
        let Some(write) = &mut self.under_way else { return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())) };
        // Whoever waits waits for the ring, and not for this.
        let done = ready!(write.as_mut().poll(&mut Context::from_waker(Waker::noop())));
        self.under_way = None;
        Poll::Ready(done.and_then(|(buffer, written)| {
            let is_whole = written == buffer.len();
            self.buffer = is_whole.then_some(buffer);
            if is_whole { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
        }))
    }

    /// Whether a write is under way.
    const fn is_busy(&self) -> bool {
        self.under_way.is_some()
    }
}

impl Drop for Writer {
    /// Waits for a write that is under way, so that none comes once this is gone.
    fn drop(&mut self) {
        while self.is_busy() && self.look().is_pending() {
            if self.ring.poll(None).is_err() {
                return;
            }
        }
    }
}

/// A buffer of whole pages, such as direct writes want. The ring gives it for a read, from a pipe here, whose end shows that
/// `descriptor` is this ring's.
fn first_read(ring: &mut Ring, descriptor: &OwnedFd, patience: Duration) -> io::Result<ReadBuf> {
    let (from, mut to) = io::pipe()?;
    let from = a10::AsyncFd::new(from.into(), ring.sq());
    let length = u32::try_from(MAX_WRITE).map_err(|_| io::ErrorKind::InvalidInput)?;
    let pool = ReadBufPool::new(ring.sq(), 1, length)?;
    let mut read = pin!(from.read(pool.get()));
    let mut context = Context::from_waker(Waker::noop());
    if read.as_mut().poll(&mut context).is_pending() {
        ring.poll(Some(Duration::ZERO))?;
        to.write_all(b".")?;
        // Nobody has looked at the ring since.
        if descriptor::is_readable(descriptor, patience)? {
            ring.poll(Some(Duration::ZERO))?;
            if let Poll::Ready(buffer) = read.as_mut().poll(&mut context) {
                return buffer;
            }
        }
    }
    Err(io::Error::new(io::ErrorKind::Unsupported, "the ring does not say when it is done"))
}

#[cfg(test)]
mod tests {
    use std::fs;

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

    #[tokio::test]
    async fn what_is_written_is_in_the_file() {
        let (_dir, path) = file(8);
        let Some(mut writer) = open(&path) else { return };
        for (byte, at) in [(7, 2 * PAGE), (8, 5 * PAGE)] {
            writer.write(&[byte; 5_000], at as u64).await.expect("written");
            let found = fs::read(&path).expect("read");
            assert_eq!(found.len(), 8 * PAGE);
            assert!(found[at..at + 5_000].iter().all(|b| *b == byte));
            assert!(found[at + 5_000..at + 2 * PAGE].iter().all(|b| *b == 0));
        }
    }

    #[tokio::test]
    async fn nothing_of_a_longer_write_is_left_in_a_shorter_one() {
        let (_dir, path) = file(4);
        let Some(mut writer) = open(&path) else { return };
        writer.write(&[9; 2 * PAGE], 0).await.expect("written");
        writer.write(&[7; 10], 0).await.expect("written");
        let found = fs::read(&path).expect("read");
        assert!(found[..10].iter().all(|b| *b == 7) && found[10..PAGE].iter().all(|b| *b == 0));
        assert!(found[PAGE..2 * PAGE].iter().all(|b| *b == 9));
    }

    #[tokio::test]
    async fn the_longest_write_is_made_and_what_does_not_fit_is_refused() {
        let (_dir, path) = file(MAX_WRITE / PAGE);
        let Some(mut writer) = open(&path) else { return };
        for (refused, at) in [(0, 0), (MAX_WRITE + 1, 0), (10, 7)] {
            let written = writer.write(&vec![1; refused], at).await;
            assert_eq!(written.expect_err("refused").kind(), io::ErrorKind::InvalidInput);
        }
        writer.write(&vec![1; MAX_WRITE], 0).await.expect("written");
        assert!(fs::read(&path).expect("read").iter().all(|b| *b == 1));
    }

    #[tokio::test]
    async fn a_write_that_fails_says_so_and_is_the_last() {
        let (_dir, path) = file(4);
        let Some(mut writer) = open(&path) else { return };
        writer.write(&[1; 10], 1 << 62).await.expect_err("no file is as long");
        let written = writer.write(&[1; 10], 0).await;
        assert_eq!(written.expect_err("none after one that failed").kind(), io::ErrorKind::ResourceBusy);
    }

    /// Begins a write and stops waiting for it.
    async fn abandon(writer: &mut Writer, bytes: &[u8]) {
        let mut writing = pin!(writer.write(bytes, 0));
        let begun = poll_fn(|context| Poll::Ready(writing.as_mut().poll(context))).await;
        assert!(begun.map(|written| written.is_ok()) != Poll::Ready(false));
    }

    #[tokio::test]
    async fn beside_a_write_that_nobody_waits_for_there_is_no_second_one() {
        let (_dir, path) = file(64);
        let Some(mut writer) = open(&path) else { return };
        abandon(&mut writer, &[1; 64 * PAGE]).await;
        if writer.is_busy() {
            let written = writer.write(&[2; 10], 0).await;
            assert_eq!(written.expect_err("one is under way").kind(), io::ErrorKind::ResourceBusy);
        }
    }

    #[tokio::test]
    async fn a_writer_that_goes_away_waits_for_its_write() {
        let (_dir, path) = file(64);
        for byte in 1..20 {
            let Some(mut writer) = open(&path) else { return };
            abandon(&mut writer, &[byte; 64 * PAGE]).await;
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

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn writers_that_are_opened_at_once_hear_of_their_own_writes() {
        let (_dir, path) = file(2);
        if open(&path).is_none() {
            return;
        }
        let open_write_and_close = async |byte: u8| {
            let (_dir, path) = file(2);
            let mut writer = Writer::open(&path).expect("opened, as the one before");
            for _ in 0..20 {
                writer.write(&[byte; 100], 0).await.expect("written");
            }
            assert!(fs::read(&path).expect("read")[..100].iter().all(|b| *b == byte));
        };
        let all: Vec<_> = (1..9).map(|byte| tokio::spawn(open_write_and_close(byte))).collect();
        for one in all {
            one.await.expect("no panic");
        }
    }

    #[test]
    fn a_ring_whose_end_is_told_to_another_is_not_used() {
        let make = || Ring::config().with_submission_queue_size(2).build();
        let (Ok((mut one, _)), Ok((_other, others))) = (descriptor::of_new(make), descriptor::of_new(make)) else {
            return;
        };
        let used = first_read(&mut one, &others, Duration::from_millis(1));
        assert_eq!(used.expect_err("not its own").kind(), io::ErrorKind::Unsupported);
    }
}
