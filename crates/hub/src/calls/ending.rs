//! Who ends a call: the task that reads the agent's answer, or the one that waits for it. The first one does.

use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Done;

/// Shared by the two.
#[derive(Debug, Default)]
pub(super) struct Ending(Mutex<State>);

#[derive(Debug, Default)]
enum State {
    /// There is no end yet.
    #[default]
    Open,
    /// The answer came, after so long; its record is on its way.
    Answered(Done, Duration),
    /// It was ended without an answer, or the answer was taken.
    Closed,
}

impl Ending {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An answer came. Whether it is the call's end: then, and only then, it is to be recorded.
    pub(super) fn answered(&self, done: Done, after: Duration) -> bool {
        let mut state = self.state();
        let first = matches!(*state, State::Open);
        if first {
            *state = State::Answered(done, after);
        }
        first
    }

    /// Whoever waits no longer wants to. Whether that is the call's end: then an answer is none any more.
    pub(super) fn give_up(&self) -> bool {
        let mut state = self.state();
        let first = matches!(*state, State::Open);
        if first {
            *state = State::Closed;
        }
        first
    }

    /// The answer that ended the call. If there is none, there will be none.
    pub(super) fn close(&self) -> Option<(Done, Duration)> {
        match mem::replace(&mut *self.state(), State::Closed) {
            State::Answered(done, after) => Some((done, after)),
            State::Open | State::Closed => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(outcome: &'static str) -> Done {
        Done { outcome: outcome.into(), result: None, message: None, duration_ms: None, by_agent: false }
    }

    #[test]
    fn an_answer_ends_it_once() {
        let ending = Ending::default();
        assert!(ending.answered(done("ok"), Duration::ZERO));
        assert!(!ending.answered(done("timeout"), Duration::ZERO), "it has ended");
        assert!(!ending.give_up(), "too late");
        assert_eq!(ending.close().map(|(done, _)| done.outcome), Some("ok".into()));
        assert!(ending.close().is_none());
    }

    #[test]
    fn an_answer_after_the_end_is_none() {
        for end in [|ending: &Ending| ending.give_up(), |ending: &Ending| ending.close().is_none()] {
            let ending = Ending::default();
            assert!(end(&ending));
            assert!(!ending.answered(done("ok"), Duration::ZERO));
            assert!(ending.close().is_none());
        }
    }
}
