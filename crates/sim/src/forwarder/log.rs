//! The least that makes a call durable: what was answered, written to a file and synced before the caller hears of it.
//!
//! One thread writes, as in the hub, and it waits for those who are under way, so that they share a sync. It writes the
//! same few blocks over and over: nothing of it is ever read.

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

/// Length of the file. It has its blocks before the first call: growing would cost more than writing over.
const LENGTH: u64 = 2 << 20;
/// How long the thread waits for those who are under way, as the hub's does.
const GATHER: Duration = Duration::from_millis(2);

/// The way to the thread that writes.
#[derive(Debug)]
pub(super) struct Log(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Calls that have come in and not been answered.
    under_way: usize,
    waiting: Vec<(String, Written)>,
    /// The thread waits for whoever comes first.
    idle: bool,
    closed: bool,
}

/// Hears the text back once it is on the disk; dropped when it could not be written.
type Written = oneshot::Sender<String>;

/// A call that will be written soon, or given up.
#[derive(Debug)]
pub(super) struct UnderWay<'a>(&'a Shared);

impl Log {
    /// Makes the file, and starts the thread.
    pub(super) fn start(path: &Path) -> io::Result<Self> {
        let mut file = File::create(path)?;
        file.write_all(&vec![0; usize::try_from(LENGTH).unwrap_or(usize::MAX)])?;
        file.sync_all()?;
        let shared = Arc::new(Shared::default());
        let (settled, mut arriving) = mpsc::unbounded_channel::<Vec<(String, Written)>>();
        // One wake for a whole group, as in the hub.
        tokio::spawn(async move {
            while let Some(group) = arriving.recv().await {
                for (text, written) in group {
                    // Whoever waited may have given up.
                    let _ = written.send(text);
                }
            }
        });
        let writer = Arc::clone(&shared);
        thread::Builder::new().name("log".into()).spawn(move || {
            let mut at = 0;
            while let Some(group) = writer.next_group() {
                if write(&mut file, &mut at, &group).is_err() || settled.send(group).is_err() {
                    writer.state().closed = true;
                    return;
                }
            }
        })?;
        Ok(Self(shared))
    }

    /// A call has come in.
    pub(super) fn under_way(&self) -> UnderWay<'_> {
        self.0.state().under_way += 1;
        UnderWay(&self.0)
    }
}

impl UnderWay<'_> {
    /// Has the answer written; it comes back when it is on the disk.
    pub(super) async fn written(self, text: String) -> Option<String> {
        let (written, heard) = oneshot::channel();
        {
            let mut state = self.0.state();
            if state.closed {
                return None;
            }
            state.waiting.push((text, written));
        }
        drop(self);
        heard.await.ok()
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.under_way -= 1;
        let wake = (state.under_way == 0 || state.idle) && !state.waiting.is_empty();
        drop(state);
        if wake {
            self.0.arrived.notify_one();
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.0.state().closed = true;
        self.0.arrived.notify_one();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All who have come, once nobody else is under way or enough time has passed.
    fn next_group(&self) -> Option<Vec<(String, Written)>> {
        let gathers = |state: &mut State| !state.closed && (state.under_way > 0 || state.waiting.is_empty());
        let state = self.state();
        let soon = self.arrived.wait_timeout_while(state, GATHER, gathers);
        let mut state = soon.unwrap_or_else(PoisonError::into_inner).0;
        if state.waiting.is_empty() {
            state.idle = true;
            let first = self.arrived.wait_while(state, |state| !state.closed && state.waiting.is_empty());
            state = first.unwrap_or_else(PoisonError::into_inner);
            state.idle = false;
            let whole = self.arrived.wait_timeout_while(state, GATHER, gathers);
            state = whole.unwrap_or_else(PoisonError::into_inner).0;
        }
        let group = std::mem::take(&mut state.waiting);
        (!group.is_empty()).then_some(group)
    }
}

fn write(file: &mut File, at: &mut u64, group: &[(String, Written)]) -> io::Result<()> {
    let bytes: Vec<u8> = group.iter().flat_map(|(text, _)| text.bytes()).collect();
    let length = bytes.len() as u64;
    if *at + length > LENGTH {
        *at = 0;
    }
    file.seek(SeekFrom::Start(*at))?;
    file.write_all(&bytes)?;
    *at += length;
    file.sync_data()
}
