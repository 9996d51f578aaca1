//! Outgoing frames: one queue, written in order, one whole frame at a time.
//!
//! The reader's thread writes its frames itself, a task does so when the pipe takes a frame without blocking; otherwise
//! the writer's thread is woken. Once [`MAX_WAITING`] bytes wait for a client that does not read, the reader and the
//! streams of models pause; nothing else does.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use convoke_kward::frame;

use crate::redact::Redactor;

/// Bytes that may wait for a client before its requests and streams are held up.
pub(crate) const MAX_WAITING: usize = 8 * 1024 * 1024;

/// How much a ready pipe takes without blocking: `PIPE_BUF`, 4096 on Linux and 512 by POSIX.
const TAKEN_WHEN_READY: usize = if cfg!(target_os = "linux") { 4096 } else { 512 };

/// Where frames go.
pub(crate) trait Pipe: Write + Send {
    /// Whether [`TAKEN_WHEN_READY`] bytes could be written without blocking.
    fn is_ready(&self) -> bool;
}

/// The queue and the pipe behind it.
pub(crate) struct Outbox {
    state: Mutex<State>,
    changed: Condvar,
    redactor: Arc<Redactor>,
    /// Called once when the client has gone.
    gone: Box<dyn Fn() + Send + Sync>,
}

struct State {
    waiting: VecDeque<Vec<u8>>,
    bytes: usize,
    /// The pipe; taken by whoever is writing.
    pipe: Option<Box<dyn Pipe>>,
    is_closed: bool,
    /// Threads that wait for room.
    held_up: usize,
}

impl std::fmt::Debug for Outbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outbox").finish_non_exhaustive()
    }
}

impl Outbox {
    pub(crate) fn new(pipe: Box<dyn Pipe>, redactor: Arc<Redactor>, gone: impl Fn() + Send + Sync + 'static) -> Self {
        let state = State { waiting: VecDeque::new(), bytes: 0, pipe: Some(pipe), is_closed: false, held_up: 0 };
        Self { state: Mutex::new(state), changed: Condvar::new(), redactor, gone: Box::new(gone) }
    }

    /// Removes known secrets.
    pub(crate) fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// Puts a body into the queue for the writer's thread. Never blocks on the client.
    pub(crate) fn send(&self, body: Vec<u8>) {
        if self.put(self.redactor.bytes(body)).is_some() {
            self.changed.notify_all();
        }
    }

    /// The same without removing secrets: the client asked for them.
    pub(crate) fn send_as_it_is(&self, body: Vec<u8>) {
        if self.put(body).is_some() {
            self.changed.notify_all();
        }
    }

    /// Puts a body into the queue and writes the queue on the caller's thread, unless another thread is writing.
    /// Blocks when the client does not read.
    pub(crate) fn send_now(&self, body: Vec<u8>) {
        if let Some(state) = self.put(self.redactor.bytes(body))
            && state.pipe.is_some()
        {
            self.write(state);
        }
    }

    /// The same if that cannot block, otherwise like [`Outbox::send`]. Spares a delta the switch to another thread.
    pub(crate) fn send_soon(&self, body: Vec<u8>) {
        let Some(state) = self.put(self.redactor.bytes(body)) else { return };
        let fits = state.waiting.len() == 1 && state.bytes <= TAKEN_WHEN_READY;
        if fits && state.pipe.as_ref().is_some_and(|pipe| pipe.is_ready()) {
            self.write(state);
        } else {
            drop(state);
            self.changed.notify_all();
        }
    }

    fn put(&self, body: Vec<u8>) -> Option<MutexGuard<'_, State>> {
        let frame = frame::encode(&body);
        let mut state = self.lock();
        if state.is_closed {
            return None;
        }
        state.bytes += frame.len();
        state.waiting.push_back(frame);
        Some(state)
    }

    /// The writer's thread: writes until the queue is closed and empty.
    pub(crate) fn write_until_closed(&self) {
        loop {
            let mut state = self.lock();
            while state.waiting.is_empty() || state.pipe.is_none() {
                if state.is_closed && state.waiting.is_empty() {
                    return;
                }
                state = self.changed.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
            }
            self.write(state);
        }
    }

    /// Takes the pipe, writes all that waits, and gives the pipe back.
    fn write(&self, mut state: MutexGuard<'_, State>) {
        let Some(mut pipe) = state.pipe.take() else { return };
        let frames: Vec<Vec<u8>> = state.waiting.drain(..).collect();
        drop(state);
        let result = match frames.as_slice() {
            [one] => pipe.write_all(one),
            many => pipe.write_all(&many.concat()),
        };
        let failed = result.and_then(|()| pipe.flush()).is_err();
        let mut state = self.lock();
        state.bytes = state.bytes.saturating_sub(frames.iter().map(Vec::len).sum());
        state.pipe = Some(pipe);
        if failed {
            state.is_closed = true;
            state.waiting.clear();
            state.bytes = 0;
        }
        // Frames that were queued meanwhile are left to the writer's thread.
        let is_awaited = !state.waiting.is_empty() || state.held_up > 0 || state.is_closed;
        drop(state);
        if is_awaited {
            self.changed.notify_all();
        }
        if failed {
            (self.gone)();
        }
    }

    /// Whether so much waits that producers should pause.
    pub(crate) fn is_full(&self) -> bool {
        self.lock().bytes > MAX_WAITING
    }

    /// Blocks until there is room again.
    pub(crate) fn wait_for_room(&self) {
        let mut state = self.lock();
        state.held_up += 1;
        while state.bytes > MAX_WAITING && !state.is_closed {
            state = self.changed.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        state.held_up -= 1;
    }

    /// Closes the queue; what waits is still written.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// An outbox that nobody reads, for tests.
#[cfg(test)]
impl Pipe for std::io::Sink {
    fn is_ready(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl Pipe for Shared {
        fn is_ready(&self) -> bool {
            self.0.lock().unwrap().len().is_multiple_of(2)
        }
    }

    #[test]
    fn frames_leave_in_the_order_in_which_they_came() {
        let pipe = Shared::default();
        let outbox = Arc::new(Outbox::new(Box::new(pipe.clone()), Arc::default(), || {}));
        let writer = std::thread::spawn({
            let outbox = outbox.clone();
            move || outbox.write_until_closed()
        });
        for n in 0..1000u32 {
            let body = n.to_string().into_bytes();
            match n % 3 {
                0 => outbox.send(body),
                1 => outbox.send_now(body),
                _ => outbox.send_soon(body),
            }
        }
        outbox.close();
        writer.join().unwrap();
        let mut decoder = frame::Decoder::default();
        decoder.push(&pipe.0.lock().unwrap());
        let bodies: Vec<_> = std::iter::from_fn(|| decoder.next_frame()).map(|body| body.unwrap()).collect();
        let expect: Vec<_> = (0..1000u32).map(|n| n.to_string().into_bytes()).collect();
        assert_eq!(bodies, expect);
    }

    #[test]
    fn a_client_that_has_gone_is_noticed_once_and_holds_nobody_up() {
        struct Broken;
        impl Write for Broken {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                Err(std::io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        impl Pipe for Broken {
            fn is_ready(&self) -> bool {
                false
            }
        }
        static GONE: AtomicBool = AtomicBool::new(false);
        let outbox = Outbox::new(Box::new(Broken), Arc::default(), || GONE.store(true, Ordering::SeqCst));
        outbox.send(vec![b'x'; MAX_WAITING + 1]);
        assert!(outbox.is_full());
        outbox.send_now(b"x".to_vec());
        assert!(GONE.load(Ordering::SeqCst) && !outbox.is_full());
        outbox.send(b"late".to_vec());
        outbox.wait_for_room();
        outbox.write_until_closed();
    }
}
