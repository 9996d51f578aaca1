//! Who writes the frames: a task beside those who wait for them, so that nobody changes threads for it.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use convoke_ring::{PAGE, Pages, Writer};

use super::format::{self, PAGES, Salt};
use super::{GATHER, Reply, Tail, Way};
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
            if let Some(identity) = format::identity(path) {
                let _ = tail.file.set(identity);
            }
            tail.state().way = Way::Open;
            tail.is_open.store(true, Relaxed);
            let (ended, writing) = std::sync::mpsc::channel();
            *tail.writing.lock().unwrap_or_else(std::sync::PoisonError::into_inner) =
                Some((path.to_owned(), writing));
            let spare = Pages::default();
            let scribe = Scribe { file, tail: Arc::clone(tail), rounds, salt, spare, _ended: ended };
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
    tail: Arc<Tail>,
    rounds: Rounds,
    salt: Salt,
    /// The pages of the frame before, to be used again.
    spare: Pages,
    /// The last field, so that it is dropped once the file is, which waits for a write that is under way.
    _ended: std::sync::mpsc::Sender<()>,
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
    pages: Pages,
    offset: u64,
    waiting: Vec<(Reply, u64)>,
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
                        tracing::error!(error, "hub.db-tail cannot be written; records go into the database at once");
                        return;
                    }
                }
                Due::Ended => return,
            }
        }
    }

    /// Writes what has gathered and answers those who wait for it.
    async fn write(&mut self) -> io::Result<()> {
        let Some(Batch { pages, offset, waiting }) = self.tail.batch(self.salt, &mut self.spare) else {
            // No room until the database has caught up, which is asked for here, or no file any more. They wait for that
            // commit, then.
            self.rounds.commit(self.tail.gathered());
            return Ok(());
        };
        self.rounds.next();
        let (mut pages, written) = self.file.write(pages, offset).await;
        pages.clear();
        self.spare = pages;
        if let Err(error) = written {
            // Whether it is on the disk is not known, and does not matter: they have their place, and the database takes them.
            self.rounds.commit(waiting);
            return Err(error);
        }
        if let Some((_, last)) = waiting.last() {
            self.rounds.acknowledged(waiting.len(), *last);
        }
        for (reply, seq) in waiting {
            // Whoever has stopped waiting has lost nothing.
            let _ = reply.send(Ok(seq));
        }
        Ok(())
    }
}

impl Drop for Scribe {
    /// However it ends, even with its runtime.
    fn drop(&mut self) {
        self.tail.give_up(&self.rounds);
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
    fn batch(&self, salt: Salt, spare: &mut Pages) -> Option<Batch> {
        let mut state = self.state();
        if state.way == Way::Closed {
            return None;
        }
        let (pages, last) = (state.frame.pages.pages() as u64, state.frame.waiting.last()?.1);
        let at = state.room.take(pages, last)?;
        let header = state.frame.header(salt).encode();
        let next = super::Frame { pages: std::mem::take(spare), ..super::Frame::default() };
        let mut frame = std::mem::replace(&mut state.frame, next);
        drop(state);
        frame.pages.overwrite(0, &header);
        Some(Batch { pages: frame.pages, offset: (1 + at) * PAGE as u64, waiting: frame.waiting })
    }

    /// Those who wait for a frame that is not written.
    fn gathered(&self) -> Vec<(Reply, u64)> {
        let mut state = self.state();
        let waiting = state.frame.give_up();
        state.gap = waiting.last().map_or(state.gap, |(_, seq)| *seq);
        waiting
    }

    /// Nothing is written any more; who still waits waits for the database.
    fn give_up(&self, rounds: &Rounds) {
        self.is_open.store(false, Relaxed);
        self.state().way = Way::Closed;
        let waiting = self.gathered();
        if !waiting.is_empty() {
            rounds.commit(waiting);
        }
    }
}

const _: () = assert!(super::MAX_FRAME + PAGE < PAGES as usize * PAGE / 2, "a frame leaves room for another");
