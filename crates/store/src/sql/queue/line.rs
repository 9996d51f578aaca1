//! A line of items between many threads and the one that takes them, in order and in groups. `tests/line.rs` runs this file
//! under a scheduler that tries many orders of events, so it uses nothing but [`super::sync`].

use std::collections::VecDeque;
use std::mem;
use std::time::Duration;

use super::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// What stands in a line.
pub(super) trait Item {
    /// Whether somebody waits for it.
    fn is_urgent(&self) -> bool;
}

/// The line.
#[derive(Debug)]
pub(super) struct Line<T> {
    state: Mutex<State<T>>,
    arrived: Condvar,
}

#[derive(Debug)]
struct State<T> {
    waiting: VecDeque<T>,
    /// How many of them are urgent.
    urgent: usize,
    closed: bool,
}

impl<T: Item> Line<T> {
    pub(super) fn new() -> Self {
        let state = State { waiting: VecDeque::new(), urgent: 0, closed: false };
        Self { state: Mutex::new(state), arrived: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many items stand in it.
    pub(super) fn len(&self) -> usize {
        self.state().waiting.len()
    }

    /// Adds an item at the end. Gives it back when the line is closed.
    pub(super) fn push(&self, item: T) -> Result<(), T> {
        let mut state = self.state();
        if state.closed {
            return Err(item);
        }
        state.urgent += usize::from(item.is_urgent());
        state.waiting.push_back(item);
        drop(state);
        self.arrived.notify_one();
        Ok(())
    }

    /// Refuses further items. What stands in it can still be taken.
    pub(super) fn close(&self) {
        self.state().closed = true;
        self.arrived.notify_one();
    }

    /// Waits for items and takes them from the front, as long as `fits` says yes. None means that the line is closed
    /// and empty. Where nothing is urgent it waits a little longer, unless `many` are there.
    pub(super) fn take(&self, linger: Duration, many: usize, mut fits: impl FnMut(&T) -> bool) -> Vec<T> {
        let mut state = self.state();
        while state.waiting.is_empty() && !state.closed {
            state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.urgent == 0 {
            let is_small = |state: &mut State<T>| state.urgent == 0 && !state.closed && state.waiting.len() < many;
            let waited = self.arrived.wait_timeout_while(state, linger, is_small);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let mut group = Vec::with_capacity(state.waiting.len().min(many));
        while let Some(next) = state.waiting.pop_front_if(|next| fits(next)) {
            state.urgent -= usize::from(next.is_urgent());
            group.push(next);
        }
        group
    }

    /// Closes the line and answers what still stands in it.
    pub(super) fn end(&self) -> VecDeque<T> {
        let mut state = self.state();
        state.closed = true;
        mem::take(&mut state.waiting)
    }
}
