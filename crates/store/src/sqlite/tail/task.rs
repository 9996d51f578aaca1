//! Who writes the frames: a task beside those who wait for them, so that nobody changes threads for it.

use std::io;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use convoke_ring::{MAX_WRITE, PAGE, Writer};

use super::format::{self, Identity, PAGES, Salt};
use super::{GATHER, Tail, Waiting, Way, Writing};
use crate::sqlite::queue::Rounds;

/// Makes the tail's file and lets records be written to it from now on. Whatever is in the way, the journal works without it;
/// then it says why and goes the long way.
pub(in crate::sqlite) fn start(tail: &Arc<Tail>, path: &Path, rounds: Rounds) {
    // Whoever opens a store without a runtime has nobody who could write frames.
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    let salt = match format::create(path) {
        Ok(salt) => salt,
        Err(error) => {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "{} cannot be made; records go into the database at once", path.display());
            return;
        }
    };
    let opened = {
        let _inside = runtime.enter();
        Writer::open(path)
    };
    match opened {
        Ok(file) => {
            let identity = format::identity(path);
            tail.state().way = Way::Open;
            tail.is_open.store(true, Relaxed);
            let (end, ended) = std::sync::mpsc::channel();
            *tail.writing.lock().unwrap_or_else(std::sync::PoisonError::into_inner) =
                Some(Writing { path: path.to_owned(), identity, ended });
            let scribe = Scribe {
                file,
                path: path.to_owned(),
                identity,
                tail: Arc::clone(tail),
                rounds,
                salt,
                spare: Vec::new(),
                under_way: Vec::new(),
                _end: end,
            };
            runtime.spawn(scribe.run());
        }
        // Common in containers, and nothing is lost by it but speed.
        Err(error) => {
            tracing::debug!(%error, "no direct writes here; records go into the database at once");
            let _ = format::remove(path);
        }
    }
}

#[derive(Debug)]
struct Scribe {
    file: Writer,
    path: PathBuf,
    identity: Option<Identity>,
    tail: Arc<Tail>,
    rounds: Rounds,
    salt: Salt,
    /// The memory of the frame before, to be used again.
    spare: Vec<u8>,
    /// Those who wait for the frame that is being written. Here, so that nobody is forgotten if the runtime ends meanwhile.
    under_way: Waiting,
    /// The last field, so that it is dropped once the file is, which waits for a write that is under way.
    _end: std::sync::mpsc::Sender<()>,
}

/// What there is to do.
enum Due {
    Nothing,
    At(Instant),
    Now,
    Ended,
}

/// A frame on its way to the disk.
struct Batch {
    bytes: Vec<u8>,
    offset: u64,
    waiting: Waiting,
}

impl Scribe {
    async fn run(mut self) {
        loop {
            match self.tail.due() {
                Due::Nothing => self.tail.wake.notified().await,
                Due::At(due) => {
                    // Over or not, the next look says what to do.
                    let _ = tokio::time::timeout_at(due.into(), self.tail.wake.notified()).await;
                }
                Due::Now => {
                    if let Err(error) = self.write().await {
                        let error = &error as &dyn std::error::Error;
                        tracing::error!(
                            error,
                            "hub.db-tail cannot be used any more; records go into the database at once"
                        );
                        return;
                    }
                }
                Due::Ended => return,
            }
        }
    }

    /// Writes what has gathered and answers those who wait for it.
    async fn write(&mut self) -> io::Result<()> {
        let Some(Batch { mut bytes, offset, waiting }) = self.tail.batch(self.salt, &mut self.spare) else {
            // No room until the database has caught up, which is asked for here, or no file any more. They wait for that
            // commit, then.
            self.tail.let_commit(self.tail.gathered(), &self.rounds);
            return Ok(());
        };
        self.rounds.next();
        self.under_way = waiting;
        let written = self.file.write(&bytes, offset).await;
        bytes.clear();
        self.spare = bytes;
        // Whether it is on the disk and will be found is not known, and does not matter: they have their place, and the
        // database takes them. They wait for that when this is dropped.
        written.and_then(|()| self.look_after_file())?;
        let waiting = mem::take(&mut self.under_way);
        if let Some((_, last)) = waiting.last() {
            self.rounds.acknowledged(waiting.len(), *last);
        }
        for (reply, seq) in waiting {
            // Whoever has stopped waiting has lost nothing.
            let _ = reply.send(Ok(seq));
        }
        Ok(())
    }

    /// Looks whether the file still has its name. What is written to one that somebody has removed or replaced is not found
    /// again, so nothing may be acknowledged from it.
    fn look_after_file(&self) -> io::Result<()> {
        #[cfg(test)]
        if self.tail.fails_next.swap(false, Relaxed) {
            return Err(io::Error::other("for this test"));
        }
        if format::identity(&self.path) == self.identity {
            return Ok(());
        }
        Err(io::Error::other("it was removed, replaced or cut off while the hub runs"))
    }
}

impl Drop for Scribe {
    /// However it ends, even with its runtime.
    fn drop(&mut self) {
        self.tail.give_up(mem::take(&mut self.under_way), &self.rounds);
    }
}

impl Tail {
    fn due(&self) -> Due {
        let state = self.state();
        let frame = &state.frame;
        if frame.waiting.is_empty() {
            return if state.way == Way::Open { Due::Nothing } else { Due::Ended };
        }
        match frame.since.map(|since| since + GATHER) {
            Some(due) if !frame.is_whole && state.way == Way::Open && due > Instant::now() => Due::At(due),
            _ => Due::Now,
        }
    }

    /// The frame that has gathered, and where it goes. None while there is no room for it.
    fn batch(&self, salt: Salt, spare: &mut Vec<u8>) -> Option<Batch> {
        let mut state = self.state();
        if state.way == Way::Closed {
            return None;
        }
        let (pages, last) = (state.frame.bytes.len().div_ceil(PAGE) as u64, state.frame.waiting.last()?.1);
        let at = state.room.take(pages, last)?;
        let header = state.frame.header(salt).encode();
        let next = super::Frame { bytes: std::mem::take(spare), ..super::Frame::default() };
        let mut frame = std::mem::replace(&mut state.frame, next);
        drop(state);
        frame.bytes[..header.len()].copy_from_slice(&header);
        Some(Batch { bytes: frame.bytes, offset: (1 + at) * PAGE as u64, waiting: frame.waiting })
    }

    /// Those who wait for a frame that is not written.
    fn gathered(&self) -> Waiting {
        let mut state = self.state();
        let waiting = state.frame.give_up();
        state.gap = waiting.last().map_or(state.gap, |(_, seq)| *seq);
        waiting
    }

    /// Nothing is written any more; who still waits waits for the database.
    fn give_up(&self, mut waiting: Waiting, rounds: &Rounds) {
        self.is_open.store(false, Relaxed);
        self.state().way = Way::Closed;
        waiting.append(&mut self.gathered());
        if !waiting.is_empty() {
            self.let_commit(waiting, rounds);
        }
    }

    /// They wait for the next commit of the database, or for the last one.
    fn let_commit(&self, waiting: Waiting, rounds: &Rounds) {
        let mut refused = rounds.commit(waiting);
        if !refused.is_empty() {
            self.state().at_the_end.append(&mut refused);
        }
    }
}

const _: () =
    assert!(2 * super::MAX_FRAME <= MAX_WRITE, "the last record of a frame may be longer than was reckoned");
const _: () = assert!(super::MAX_FRAME + PAGE < PAGES as usize * PAGE / 2, "a frame leaves room for another");
