//! Requests that wait for their answer (contract, "Concurrent Probe Correlation").
//!
//! One table per link, so an answer can only ever meet a request that went out on the very link it came in on: another
//! agent's answer, or one to a request from before a reconnect, finds nothing here.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use uuid::Uuid;

use crate::Mono;

/// Most ended requests that are remembered; the oldest are forgotten first, and their answers then read as strangers'.
pub const LATE_MEMORY: usize = 256;

/// The table. `W` is what waits.
#[derive(Debug)]
pub struct Pending<W> {
    capacity: usize,
    next: u64,
    waiting: BTreeMap<u64, Waiting<W>>,
    by_request: BTreeMap<Uuid, u64>,
    deadlines: BTreeSet<(Mono, u64)>,
    ended: VecDeque<Uuid>,
}

#[derive(Debug)]
struct Waiting<W> {
    request: Uuid,
    probe: Box<str>,
    deadline: Mono,
    waiter: W,
}

/// How an answer matches the pending requests.
#[derive(Debug, PartialEq, Eq)]
pub enum Match<W> {
    /// The answer to a waiting request, which ends with it.
    Answered(Uuid, W),
    /// The answer to a request that ended without one.
    Late(Uuid),
    /// The answer to nothing that was asked on this link.
    Stranger,
}

/// Why a request cannot start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The link has as many in flight as it may.
    #[error("the agent has too many probes in flight")]
    Full,
    /// The id is in flight or has just ended.
    #[error("the request id has been used on this link")]
    Used,
    /// Not registered, or gone.
    #[error("the agent is not connected")]
    NotLive,
}

impl<W> Pending<W> {
    /// An empty table for at most `capacity` requests. Nothing is reserved.
    pub const fn new(capacity: usize) -> Self {
        Self {
            capacity,
            next: 0,
            waiting: BTreeMap::new(),
            by_request: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            ended: VecDeque::new(),
        }
    }

    /// The number of pending requests.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Begins to wait, and gives the waiter back if it cannot.
    pub fn start(&mut self, request: Uuid, probe: &str, deadline: Mono, waiter: W) -> Result<(), (StartError, W)> {
        if self.waiting.len() >= self.capacity {
            return Err((StartError::Full, waiter));
        }
        if self.by_request.contains_key(&request) || self.ended.contains(&request) {
            return Err((StartError::Used, waiter));
        }
        let place = self.next;
        self.next += 1;
        self.by_request.insert(request, place);
        self.deadlines.insert((deadline, place));
        self.waiting.insert(place, Waiting { request, probe: probe.into(), deadline, waiter });
        Ok(())
    }

    /// An answer that names its request.
    pub fn by_id(&mut self, request: Uuid) -> Match<W> {
        if let Some(waiting) = self.by_request.get(&request).copied().and_then(|place| self.take(place)) {
            return Match::Answered(waiting.request, waiting.waiter);
        }
        match self.ended.iter().position(|ended| *ended == request) {
            Some(index) => {
                self.ended.remove(index);
                Match::Late(request)
            }
            None => Match::Stranger,
        }
    }

    /// An answer that names none: the first request for that probe. (The contract takes the agent's first request,
    /// whatever it asked; with two under way that gives one caller the other's result.)
    pub fn first(&mut self, probe: &str) -> Match<W> {
        let place = self.waiting.iter().find(|(_, w)| &*w.probe == probe).map(|(place, _)| *place);
        match place.and_then(|place| self.take(place)) {
            Some(waiting) => Match::Answered(waiting.request, waiting.waiter),
            None => Match::Stranger,
        }
    }

    /// Whether a request for this probe waits.
    pub fn is_asked(&self, probe: &str) -> bool {
        self.waiting.values().any(|w| &*w.probe == probe)
    }

    /// The caller no longer waits. There is no cancel message, so the agent may still answer: that will be late.
    pub fn cancel(&mut self, request: Uuid) -> Option<W> {
        let place = self.by_request.get(&request).copied()?;
        let waiting = self.take(place)?;
        self.remember(request);
        Some(waiting.waiter)
    }

    /// The earliest deadline.
    pub fn next_deadline(&self) -> Option<Mono> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Ends the requests whose deadline has come, earliest first.
    pub fn expire(&mut self, now: Mono) -> Vec<(Uuid, W)> {
        let mut expired = Vec::new();
        while let Some(&(deadline, place)) = self.deadlines.first()
            && deadline <= now
        {
            if let Some(waiting) = self.take(place) {
                self.remember(waiting.request);
                expired.push((waiting.request, waiting.waiter));
            }
        }
        expired
    }

    /// Ends all: the link is gone.
    pub fn drain(&mut self) -> Vec<(Uuid, W)> {
        self.by_request.clear();
        self.deadlines.clear();
        std::mem::take(&mut self.waiting).into_values().map(|w| (w.request, w.waiter)).collect()
    }

    fn take(&mut self, place: u64) -> Option<Waiting<W>> {
        let waiting = self.waiting.remove(&place)?;
        self.by_request.remove(&waiting.request);
        self.deadlines.remove(&(waiting.deadline, place));
        Some(waiting)
    }

    fn remember(&mut self, request: Uuid) {
        if self.ended.len() == LATE_MEMORY {
            self.ended.pop_front();
        }
        self.ended.push_back(request);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn id(n: u128) -> Uuid {
        Uuid::from_u128(n)
    }

    const fn s(seconds: u64) -> Mono {
        Duration::from_secs(seconds)
    }

    #[test]
    fn an_answer_ends_its_request_once() {
        let mut table = Pending::new(8);
        table.start(id(1), "p", s(30), "a").expect("room");
        table.start(id(2), "p", s(30), "b").expect("room");
        assert_eq!(table.by_id(id(2)), Match::Answered(id(2), "b"));
        assert_eq!(table.by_id(id(2)), Match::Stranger);
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn a_late_answer_answers_nobody_else() {
        let mut table = Pending::new(8);
        table.start(id(1), "p", s(10), "a").expect("room");
        table.start(id(2), "p", s(30), "b").expect("room");
        assert_eq!(table.expire(s(10)), [(id(1), "a")]);
        assert_eq!(table.by_id(id(1)), Match::Late(id(1)));
        assert_eq!(table.by_id(id(3)), Match::Stranger);
        assert_eq!(table.len(), 1, "the other still waits");
    }

    #[test]
    fn without_an_id_the_first_request_for_that_probe_is_answered() {
        let mut table = Pending::new(8);
        table.start(id(1), "disk", s(30), "a").expect("room");
        table.start(id(2), "cpu", s(30), "b").expect("room");
        table.start(id(3), "cpu", s(30), "c").expect("room");
        assert!(table.is_asked("disk") && !table.is_asked("memory"));
        assert_eq!(table.first("cpu"), Match::Answered(id(2), "b"));
        assert_eq!(table.first("memory"), Match::Stranger);
        assert_eq!(table.drain(), [(id(1), "a"), (id(3), "c")]);
        assert!(table.is_empty() && table.next_deadline().is_none());
    }

    #[test]
    fn the_table_is_bounded_and_ids_are_used_once() {
        let mut table = Pending::new(2);
        table.start(id(1), "p", s(1), 0).expect("room");
        assert_eq!(table.start(id(1), "p", s(1), 7), Err((StartError::Used, 7)));
        table.start(id(2), "p", s(1), 0).expect("room");
        assert_eq!(table.start(id(3), "p", s(1), 7), Err((StartError::Full, 7)));
        assert_eq!(table.cancel(id(1)), Some(0));
        assert_eq!(table.start(id(1), "p", s(1), 7), Err((StartError::Used, 7)));
        for n in 10..=(10 + LATE_MEMORY as u128) {
            table.start(id(n), "p", s(1), 1).expect("room");
            table.cancel(id(n));
        }
        assert_eq!(table.by_id(id(10)), Match::Stranger, "the oldest is forgotten");
    }
}
