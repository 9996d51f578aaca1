//! The turns of a session, one after another, and the turns that this process still remembers.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use convoke_kward::rpc::RpcError;

use super::turn::Turn;

/// Turns that may wait in a session.
pub(crate) const MAX_WAITING: usize = 100;

/// Turns that have ended and are remembered for replay.
const MAX_ENDED: usize = 64;

/// Most bytes of their events.
const MAX_ENDED_BYTES: usize = 16 * 1024 * 1024;

/// The turns of one session.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    pub(crate) running: Option<Arc<Turn>>,
    pub(crate) waiting: VecDeque<Arc<Turn>>,
    /// A worker is running them.
    pub(crate) has_worker: bool,
    /// No more are taken: the session is being closed.
    pub(crate) is_closed: bool,
}

impl Queue {
    /// The running turn. One whose end was sent does not count, though its worker may still be cleaning up.
    pub(crate) fn at_work(&self) -> Option<&Arc<Turn>> {
        self.running.as_ref().filter(|turn| !turn.status().is_final())
    }

    /// The next turn, for the worker. A turn that the client does not know of yet is left to the task that announces it:
    /// the worker may be faster than the answer. Without a next turn the worker ends.
    pub(crate) fn take(&mut self) -> Option<Arc<Turn>> {
        let is_told = self.waiting.front().is_some_and(|turn| turn.is_told());
        self.running = if is_told { self.waiting.pop_front() } else { None };
        self.has_worker = self.running.is_some();
        self.running.clone()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.at_work().is_none() && self.waiting.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len() + usize::from(self.at_work().is_some())
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Arc<Turn>> {
        self.running.iter().chain(&self.waiting).cloned().collect()
    }
}

/// Every turn that a client may still ask about.
#[derive(Debug, Default)]
pub(crate) struct Turns(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    turns: HashMap<String, Arc<Turn>>,
    ended: VecDeque<String>,
}

impl Turns {
    pub(crate) fn add(&self, turn: Arc<Turn>) {
        self.lock().turns.insert(turn.id.clone(), turn);
    }

    pub(crate) fn find(&self, id: &str) -> Result<Arc<Turn>, RpcError> {
        let found = self.lock().turns.get(id).cloned();
        found.ok_or_else(|| RpcError::failed("UnknownTurn", format!("Unknown turn: {id}")))
    }

    /// A turn has ended: it may be forgotten when newer ones have.
    pub(crate) fn ended(&self, id: &str) {
        let mut known = self.lock();
        known.ended.push_back(id.to_owned());
        let bytes = |known: &Known| -> usize {
            known.ended.iter().filter_map(|id| known.turns.get(id)).map(|turn| turn.event_bytes()).sum()
        };
        while known.ended.len() > 1 && (known.ended.len() > MAX_ENDED || bytes(&known) > MAX_ENDED_BYTES) {
            if let Some(oldest) = known.ended.pop_front() {
                known.turns.remove(&oldest);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::super::turn::{Input, Work};
    use super::*;
    use crate::outbox::Outbox;

    #[test]
    fn a_turn_is_not_begun_before_the_client_has_heard_of_it() {
        let out = Arc::new(Outbox::new(Box::new(std::io::sink()), Arc::default(), || {}));
        let input = Input { content: "x".into(), display: None, text: "x".into() };
        let turn = Arc::new(Turn::new("s", Work::Ask(input), out));
        let mut queue = Queue { has_worker: true, ..Queue::default() };
        queue.waiting.push_back(turn.clone());
        assert!(queue.take().is_none() && !queue.has_worker && !queue.is_empty());
        turn.queued();
        assert!(queue.take().is_some_and(|next| next.id == turn.id) && queue.has_worker);
        turn.request_cancel();
        assert!(queue.take().is_none() && queue.is_empty());
    }

    #[test]
    fn old_turns_are_forgotten_and_the_newest_never() {
        let out = Arc::new(Outbox::new(Box::new(std::io::sink()), Arc::default(), || {}));
        let turns = Turns::default();
        let ids: Vec<String> = (0..MAX_ENDED + 5)
            .map(|_| {
                let input = Input { content: "x".into(), display: None, text: "x".into() };
                let turn = Arc::new(Turn::new("s", Work::Ask(input), out.clone()));
                let id = turn.id.clone();
                turns.add(turn);
                turns.ended(&id);
                id
            })
            .collect();
        assert_eq!(turns.find(&ids[0]).unwrap_err().message, format!("Unknown turn: {}", ids[0]));
        assert!(turns.find(ids.last().unwrap()).is_ok());
    }
}
