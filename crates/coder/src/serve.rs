//! The pipes: a thread that reads, a thread that writes, tasks in between, and an end that comes quickly.

use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use convoke_kward::frame::Decoder;
use tokio_util::sync::CancellationToken;

use crate::backend::Backend;
use crate::environment::Environment;
use crate::outbox::Pipe;

/// How much is read at once.
const READ: usize = 64 * 1024;

/// How long turns have to come to an end when the process does.
const GRACE: Duration = Duration::from_millis(1500);

/// Why serving ended; each reason is normal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The client closed its end, asked for it, or went away.
    ByClient,
    /// A signal asked for it.
    BySignal,
}

/// Serves one client until it goes away, asks to stop, or `signal` resolves.
pub fn serve(
    environment: Environment,
    input: impl Read + Send + 'static,
    output: File,
    signal: impl Future<Output = ()>,
) -> io::Result<Ended> {
    // Two are enough: what is slow waits for others, and what computes is short.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let end = CancellationToken::new();
    let backend = Backend::new(environment, Box::new(Standard(output)), end.clone(), runtime.handle().clone());
    let (written, all_written) = mpsc::channel();
    std::thread::Builder::new().name("writer".into()).spawn({
        let out = backend.out.clone();
        move || {
            out.write_until_closed();
            // Whoever waits for it may have given up.
            let _ = written.send(());
        }
    })?;
    // The reader is not waited for: it blocks in a read that only the client can end.
    std::thread::Builder::new().name("reader".into()).spawn({
        let (backend, end) = (backend.clone(), end.clone());
        move || {
            read(&backend, input);
            end.cancel();
        }
    })?;
    let ended = runtime.block_on(async {
        let ended = tokio::select! {
            () = end.cancelled() => Ended::ByClient,
            () = signal => Ended::BySignal,
        };
        end.cancel();
        backend.close_all(GRACE).await;
        ended
    });
    backend.out.close();
    // A client that has stopped reading must not keep the process: the last frames get a moment and no more.
    let _ = all_written.recv_timeout(GRACE);
    runtime.shutdown_background();
    Ok(ended)
}

/// Standard output, or whatever stands for it.
struct Standard(File);

impl Write for Standard {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Pipe for Standard {
    #[cfg(unix)]
    fn is_ready(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut pipes = [PollFd::new(&self.0, PollFlags::OUT)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut pipes, Some(&at_once)).is_ok() && pipes[0].revents() == PollFlags::OUT
    }

    #[cfg(not(unix))]
    fn is_ready(&self) -> bool {
        false
    }
}

/// Turns huge pages off: one backend runs per chat and is mostly idle, so pages of two megabytes would waste memory.
/// Called early, since memory that is in use already keeps them.
#[cfg(target_os = "linux")]
pub fn spare_memory() {
    // If the system does not allow it, it takes some megabytes more.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

/// Nothing to do on this system.
#[cfg(not(target_os = "linux"))]
pub fn spare_memory() {}

fn read(backend: &Arc<Backend>, mut input: impl Read) {
    let mut decoder = Decoder::default();
    let mut buffer = vec![0; READ];
    loop {
        let count = match input.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        decoder.push(&buffer[..count]);
        while let Some(frame) = decoder.next_frame() {
            if backend.end.is_cancelled() {
                return;
            }
            // A client that does not read its answers gets no more of them.
            if backend.out.is_full() {
                backend.out.wait_for_room();
            }
            backend.accept(frame);
        }
    }
    if let Err(why) = decoder.finish() {
        backend.accept(Err(why));
    }
}
