//! Requests on one link that wait for their response (contract, "request" and "response").
//!
//! Each call that was started ends exactly once: answered, expired, cancelled or drained. Whatever waits for it is
//! owned by the table and handed out at that end, so there is no second end to give it to. An id that ended without
//! an answer is remembered for a while, so that the answer that comes after all is told apart from an answer to
//! nothing: the first is recorded as late, the second is an agent that makes ids up.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use convoke_core::id::CallId;

use crate::heartbeat::Mono;

/// Most requests in flight on one link; more are refused at once.
pub const DEFAULT_CAPACITY: usize = 1024;
/// Ended ids that are remembered at the least, and as many as can be in flight: all of them may end at once and be
/// answered late. The oldest are forgotten first, and their answers then read as strangers'.
pub const LATE_MEMORY: usize = 256;

/// The table. `W` is what waits for an answer. (Ordered maps rather than hashed ones: no randomness, and ids chosen by
/// the hub leave an agent nothing to collide.)
#[derive(Debug)]
pub struct InFlight<W> {
    capacity: usize,
    calls: BTreeMap<CallId, (Mono, W)>,
    deadlines: BTreeSet<(Mono, CallId)>,
    ended: VecDeque<CallId>,
}

/// How a response matches the calls in flight.
#[derive(Debug, PartialEq, Eq)]
pub enum Match<W> {
    /// The answer to a waiting call, which ends with it.
    Answered(W),
    /// The answer to a call that has ended without one.
    Late,
    /// The answer to nothing that was asked, or asked on another link.
    Stranger,
}

/// Why a call cannot start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The link has as many requests in flight as it may.
    #[error("the agent has too many calls in flight")]
    Full,
    /// The id is in flight or has just ended: two calls must not share one answer.
    #[error("the call id has been used on this link")]
    Used,
    /// The link is not authenticated, or no longer there.
    #[error("the agent is not connected")]
    NotLive,
}

impl<W> InFlight<W> {
    /// An empty table for at most `capacity` calls. Nothing is reserved: most links are idle most of the time.
    pub const fn new(capacity: usize) -> Self {
        Self { capacity, calls: BTreeMap::new(), deadlines: BTreeSet::new(), ended: VecDeque::new() }
    }

    /// How many calls wait.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Begins to wait, and gives the waiter back if it cannot.
    pub fn start(&mut self, call: CallId, deadline: Mono, waiter: W) -> Result<(), (StartError, W)> {
        if self.calls.len() >= self.capacity {
            return Err((StartError::Full, waiter));
        }
        if self.calls.contains_key(&call) || self.ended.contains(&call) {
            return Err((StartError::Used, waiter));
        }
        self.deadlines.insert((deadline, call));
        self.calls.insert(call, (deadline, waiter));
        Ok(())
    }

    /// A response came in.
    pub fn on_response(&mut self, call: CallId) -> Match<W> {
        if let Some((deadline, waiter)) = self.calls.remove(&call) {
            self.deadlines.remove(&(deadline, call));
            return Match::Answered(waiter);
        }
        match self.ended.iter().position(|ended| *ended == call) {
            Some(index) => {
                self.ended.remove(index);
                Match::Late
            }
            None => Match::Stranger,
        }
    }

    /// The caller no longer waits. There is no cancel frame, so the agent may still answer: that will be late.
    pub fn cancel(&mut self, call: CallId) -> Option<W> {
        let (deadline, waiter) = self.calls.remove(&call)?;
        self.deadlines.remove(&(deadline, call));
        self.remember(call);
        Some(waiter)
    }

    /// The earliest deadline.
    pub fn next_deadline(&self) -> Option<Mono> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Ends the calls whose deadline has come, earliest first.
    pub fn expire(&mut self, now: Mono) -> Vec<(CallId, W)> {
        let mut expired = Vec::new();
        while let Some(&(deadline, call)) = self.deadlines.first()
            && deadline <= now
        {
            expired.extend(self.cancel(call).map(|waiter| (call, waiter)));
        }
        expired
    }

    /// Ends all calls: the link is gone.
    pub fn drain(&mut self) -> Vec<(CallId, W)> {
        self.deadlines.clear();
        std::mem::take(&mut self.calls).into_iter().map(|(call, (_, waiter))| (call, waiter)).collect()
    }

    fn remember(&mut self, call: CallId) {
        if self.ended.len() >= self.capacity.max(LATE_MEMORY) {
            self.ended.pop_front();
        }
        self.ended.push_back(call);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use uuid::Uuid;

    use super::*;

    fn call(n: u128) -> CallId {
        CallId::new(Uuid::from_u128(n))
    }

    const fn s(seconds: u64) -> Mono {
        Duration::from_secs(seconds)
    }

    #[test]
    fn an_answer_ends_its_call_once() {
        let mut table = InFlight::new(8);
        table.start(call(1), s(30), "a").expect("room");
        assert_eq!(table.on_response(call(1)), Match::Answered("a"));
        assert_eq!(table.on_response(call(1)), Match::Stranger);
        assert!(table.is_empty() && table.next_deadline().is_none());
    }

    #[test]
    fn an_answer_after_the_deadline_is_late_once() {
        let mut table = InFlight::new(8);
        table.start(call(1), s(30), "a").expect("room");
        table.start(call(2), s(10), "b").expect("room");
        assert_eq!(table.next_deadline(), Some(s(10)));
        assert_eq!(table.expire(s(9)), []);
        assert_eq!(table.expire(s(30)), [(call(2), "b"), (call(1), "a")]);
        assert_eq!(table.on_response(call(1)), Match::Late);
        assert_eq!(table.on_response(call(1)), Match::Stranger);
    }

    #[test]
    fn a_cancelled_call_may_still_be_answered_late() {
        let mut table = InFlight::new(8);
        table.start(call(1), s(30), "a").expect("room");
        assert_eq!(table.cancel(call(1)), Some("a"));
        assert_eq!(table.cancel(call(1)), None);
        assert_eq!(table.expire(s(99)), []);
        assert_eq!(table.on_response(call(1)), Match::Late);
    }

    #[test]
    fn the_table_is_bounded_and_ids_are_used_once() {
        let mut table = InFlight::new(2);
        table.start(call(1), s(1), "a").expect("room");
        assert_eq!(table.start(call(1), s(1), "again"), Err((StartError::Used, "again")));
        table.start(call(2), s(1), "b").expect("room");
        assert_eq!(table.start(call(3), s(1), "c"), Err((StartError::Full, "c")));
        table.expire(s(1));
        assert_eq!(table.start(call(1), s(2), "reused"), Err((StartError::Used, "reused")));
    }

    #[test]
    fn the_memory_of_ended_calls_is_bounded() {
        for capacity in [8, LATE_MEMORY, 4 * LATE_MEMORY] {
            let mut table = InFlight::new(capacity);
            let memory = capacity.max(LATE_MEMORY) as u128;
            for n in 0..=memory {
                table.start(call(n), s(1), n).expect("room");
                if n % capacity as u128 == capacity as u128 - 1 || n == memory {
                    table.expire(s(1));
                }
            }
            assert_eq!(table.on_response(call(0)), Match::Stranger, "the oldest is forgotten");
            assert_eq!(table.on_response(call(1)), Match::Late, "as many as can be in flight are not");
        }
    }
}
