//! A turn. Its events are numbered and sent under one lock, so that a client sees them in the order of their numbers.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use convoke_kward::capabilities::REPLAY_LIMIT;
use convoke_kward::events::{TurnEvent, TurnHappening, name};
use convoke_kward::results::{self, TurnError, TurnStatus};
use convoke_kward::rpc;
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::held::Held;
use crate::clock;
use crate::outbox::Outbox;

/// Bytes of events that are kept per turn; beyond them the oldest go first.
const REPLAY_BYTES: usize = 4 * 1024 * 1024;

/// Inputs that may wait for a running turn.
pub(crate) const MAX_STEERED: usize = 64;

/// What a turn has to do.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    /// Ask the model.
    Ask(Input),
    /// Run a plugin's command.
    Plugin { name: String, arguments: String },
}

/// What a person said.
#[derive(Clone, Debug)]
pub(crate) struct Input {
    /// As a message stores it: text, or parts.
    pub(crate) content: serde_json::Value,
    /// What was typed, where that differs.
    pub(crate) display: Option<String>,
    /// The text alone.
    pub(crate) text: String,
}

/// A turn.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) id: String,
    pub(crate) session_id: String,
    pub(crate) work: Work,
    /// Fired when the person cancels it.
    pub(crate) cancel: CancellationToken,
    out: Arc<Outbox>,
    state: Mutex<State>,
    finished: watch::Sender<bool>,
}

#[derive(Debug)]
struct State {
    status: TurnStatus,
    is_cancel_requested: bool,
    created_at: String,
    started_at: Option<String>,
    finished_at: Option<String>,
    error: Option<TurnError>,
    events: VecDeque<(u64, Arc<RawValue>)>,
    event_bytes: usize,
    last_sequence: u64,
    steered: Vec<Input>,
    held: Held,
    /// No more input is taken up: the turn is about to end.
    is_closing: bool,
}

impl Turn {
    pub(crate) fn new(session_id: &str, work: Work, out: Arc<Outbox>) -> Self {
        Self {
            id: clock::unique_id(),
            session_id: session_id.to_owned(),
            work,
            cancel: CancellationToken::new(),
            out,
            state: Mutex::new(State {
                status: TurnStatus::Queued,
                is_cancel_requested: false,
                created_at: clock::now_text(),
                started_at: None,
                finished_at: None,
                error: None,
                events: VecDeque::new(),
                event_bytes: 0,
                last_sequence: 0,
                steered: Vec::new(),
                held: Held::default(),
                is_closing: false,
            }),
            finished: watch::Sender::new(false),
        }
    }

    /// Its state, as clients see it.
    pub(crate) fn shown(&self) -> results::Turn {
        let state = self.lock();
        results::Turn {
            id: self.id.clone(),
            session_id: self.session_id.clone(),
            status: state.status,
            cancel_requested: state.is_cancel_requested,
            created_at: state.created_at.clone(),
            started_at: state.started_at.clone(),
            finished_at: state.finished_at.clone(),
            error: state.error.clone(),
        }
    }

    pub(crate) fn status(&self) -> TurnStatus {
        self.lock().status
    }

    pub(crate) fn is_cancel_requested(&self) -> bool {
        self.lock().is_cancel_requested
    }

    /// The events that are still kept, after a number.
    pub(crate) fn events_after(&self, sequence: u64) -> Vec<Arc<RawValue>> {
        self.lock().events.iter().filter(|(number, _)| *number > sequence).map(|(_, event)| event.clone()).collect()
    }

    /// How much memory its events take.
    pub(crate) fn event_bytes(&self) -> usize {
        self.lock().event_bytes
    }

    /// Sends an event. After a cancel only the turn's end is sent.
    pub(crate) fn emit(&self, what: TurnHappening) {
        let mut state = self.lock();
        if !state.status.is_final() && !state.is_cancel_requested {
            for what in state.held.pass(self.out.redactor(), what) {
                self.tell(&mut state, what);
            }
        }
    }

    /// It waits for its turn.
    pub(crate) fn queued(&self) {
        self.emit(TurnHappening::TurnQueued { status: TurnStatus::Queued });
    }

    /// Whether any event of it was sent; the first says that it waits.
    pub(crate) fn is_told(&self) -> bool {
        self.lock().last_sequence > 0
    }

    /// It begins, unless it has ended already.
    pub(crate) fn start(&self) -> bool {
        let mut state = self.lock();
        if state.status != TurnStatus::Queued {
            return false;
        }
        state.status = TurnStatus::Running;
        state.started_at = Some(clock::now_text());
        self.tell(&mut state, TurnHappening::TurnStarted { status: TurnStatus::Running });
        true
    }

    /// Cancels it. A waiting turn ends at once; one that has ended stays as it is.
    pub(crate) fn request_cancel(&self) {
        let mut state = self.lock();
        if state.status.is_final() || state.is_cancel_requested {
            return;
        }
        self.tell(&mut state, TurnHappening::TurnCancelRequested {});
        state.is_cancel_requested = true;
        if state.status == TurnStatus::Queued {
            self.end(&mut state, TurnStatus::Canceled, None);
        }
        drop(state);
        self.cancel.cancel();
    }

    /// Ends it; the first end counts.
    pub(crate) fn finish(&self, outcome: Result<(), TurnError>) {
        let mut state = self.lock();
        if state.status.is_final() {
            return;
        }
        match outcome {
            _ if state.is_cancel_requested => self.end(&mut state, TurnStatus::Canceled, None),
            Ok(()) => self.end(&mut state, TurnStatus::Completed, None),
            Err(error) => {
                for what in state.held.rest(self.out.redactor()) {
                    self.tell(&mut state, what);
                }
                self.tell(&mut state, TurnHappening::Error(error.clone()));
                self.end(&mut state, TurnStatus::Failed, Some(error));
            }
        }
    }

    fn end(&self, state: &mut State, status: TurnStatus, error: Option<TurnError>) {
        state.status = status;
        state.is_closing = true;
        state.finished_at = Some(clock::now_text());
        state.error = error.clone();
        self.tell(state, TurnHappening::TurnFinished { status, error });
        self.finished.send_replace(true);
    }

    /// Waits for its end.
    pub(crate) async fn ended(&self) {
        let mut finished = self.finished.subscribe();
        // The sender lives as long as this turn does.
        let _ = finished.wait_for(|finished| *finished).await;
    }

    /// Adds input while it runs. Gives it back when it is too late, or when too much waits.
    pub(crate) fn steer(&self, input: Input) -> Result<(), Input> {
        let mut state = self.lock();
        let takes = state.status == TurnStatus::Running && !state.is_closing && !state.is_cancel_requested;
        if !takes || matches!(self.work, Work::Plugin { .. }) || state.steered.len() >= MAX_STEERED {
            return Err(input);
        }
        let told = input.display.clone().unwrap_or_else(|| input.text.clone());
        state.steered.push(input);
        self.tell(&mut state, TurnHappening::TurnSteered { input: told, created_at: clock::now_text() });
        Ok(())
    }

    /// What was added since it was last asked.
    pub(crate) fn take_steered(&self) -> Vec<Input> {
        std::mem::take(&mut self.lock().steered)
    }

    /// The same; if there is none, closes the turn for input, so that no input is lost between two turns.
    pub(crate) fn take_steered_or_close(&self) -> Vec<Input> {
        let mut state = self.lock();
        let steered = std::mem::take(&mut state.steered);
        state.is_closing = steered.is_empty();
        steered
    }

    fn tell(&self, state: &mut State, what: TurnHappening) {
        state.last_sequence += 1;
        let event = TurnEvent {
            sequence: state.last_sequence,
            timestamp: clock::now_text(),
            session_id: self.session_id.clone(),
            turn_id: self.id.clone(),
            what,
        };
        // An event has text keys only, so it can always be written.
        let Ok(event) = serde_json::value::to_raw_value(&event) else { return };
        self.out.send_soon(rpc::notification(name::TURN, &event));
        state.event_bytes += event.get().len();
        state.events.push_back((state.last_sequence, Arc::from(event)));
        while state.events.len() > REPLAY_LIMIT || state.event_bytes > REPLAY_BYTES {
            let Some((_, oldest)) = state.events.pop_front() else { break };
            state.event_bytes -= oldest.get().len();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn input() -> Input {
        Input { content: "x".into(), display: None, text: "x".into() }
    }

    fn turn() -> Turn {
        let out = Arc::new(Outbox::new(Box::new(std::io::sink()), Arc::default(), || {}));
        Turn::new("s", Work::Ask(input()), out)
    }

    fn events(turn: &Turn) -> Vec<Value> {
        turn.events_after(0).iter().map(|event| serde_json::from_str(event.get()).unwrap()).collect()
    }

    fn kinds(turn: &Turn) -> Vec<String> {
        events(turn).iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn a_turn_that_waits_is_cancelled_without_having_begun() {
        let turn = turn();
        turn.queued();
        turn.request_cancel();
        assert!(!turn.start());
        assert_eq!(kinds(&turn), ["turnQueued", "turnCancelRequested", "turnFinished"]);
        assert_eq!(turn.status(), TurnStatus::Canceled);
    }

    #[test]
    fn after_a_cancel_nothing_is_told_but_the_end() {
        let turn = turn();
        turn.queued();
        assert!(turn.start());
        turn.request_cancel();
        turn.emit(TurnHappening::AssistantDelta { delta: "late".into() });
        turn.finish(Ok(()));
        turn.request_cancel();
        assert_eq!(kinds(&turn), ["turnQueued", "turnStarted", "turnCancelRequested", "turnFinished"]);
    }

    #[test]
    fn memory_for_events_is_bounded() {
        let turn = turn();
        turn.start();
        for _ in 0..REPLAY_LIMIT + 10 {
            turn.emit(TurnHappening::AssistantDelta { delta: "x".into() });
        }
        assert_eq!(turn.events_after(0).len(), REPLAY_LIMIT);
        turn.emit(TurnHappening::Answer { content: "x".repeat(REPLAY_BYTES) });
        assert!(turn.event_bytes() <= REPLAY_BYTES);
    }

    #[test]
    fn a_secret_in_two_pieces_is_told_in_none() {
        let redactor = Arc::new(crate::redact::Redactor::default());
        redactor.learn("canary-0123456789");
        let out = Arc::new(Outbox::new(Box::new(std::io::sink()), redactor, || {}));
        let turn = Turn::new("s", Work::Ask(input()), out);
        turn.start();
        let text = |delta: &str| turn.emit(TurnHappening::AssistantDelta { delta: delta.into() });
        text("It is can");
        // Neither another stream nor more input gives the beginning away.
        turn.emit(TurnHappening::ReasoningDelta { delta: "hm".into() });
        assert!(turn.steer(input()).is_ok());
        text("ary-0123456789.");
        text(" And can");
        turn.finish(Err(TurnError { message: "m".into(), code: "c".into(), fatal: false }));
        let said: String = events(&turn)
            .iter()
            .filter(|event| event["type"] == "assistantDelta")
            .map(|event| event["payload"]["delta"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(said, "It is [REDACTED]. And can");
    }

    proptest! {
        /// Whatever happens in whatever order: numbers without gaps, one end, nothing after it.
        #[test]
        fn every_turn_has_exactly_one_end(steps in prop::collection::vec(0u8..6, 0..30)) {
            let turn = turn();
            turn.queued();
            for step in steps {
                match step {
                    0 => { turn.start(); }
                    1 => turn.request_cancel(),
                    2 => turn.finish(Ok(())),
                    3 => turn.finish(Err(TurnError { message: "m".into(), code: "c".into(), fatal: false })),
                    4 => turn.emit(TurnHappening::AssistantDelta { delta: "d".into() }),
                    _ => drop(turn.steer(input())),
                }
            }
            turn.finish(Ok(()));
            let events = events(&turn);
            let numbers: Vec<u64> = events.iter().map(|event| event["sequence"].as_u64().unwrap()).collect();
            prop_assert_eq!(numbers, (1..=events.len() as u64).collect::<Vec<_>>());
            let ends = events.iter().filter(|event| event["type"] == "turnFinished").count();
            prop_assert_eq!(ends, 1);
            prop_assert_eq!(&events.last().unwrap()["type"], "turnFinished");
            prop_assert!(turn.status().is_final());
        }
    }
}
