//! Calls under way and lately done: what `GET /api/calls/{id}` and an idempotency key look at. Bounded in number and
//! in bytes; what falls out is still in the journal, without its result.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use convoke_core::call::CallState;
use convoke_core::id::{ApprovalId, CallId, PeerId, TokenId};
use convoke_core::time::Timestamp;
use convoke_store::CallRow;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Most calls remembered.
const MAX_CALLS: usize = 8192;
/// Most bytes of results remembered.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// One call.
#[derive(Debug)]
pub struct Call {
    /// Its id.
    pub id: CallId,
    /// Who asked.
    pub caller: TokenId,
    /// Whom.
    pub target: PeerId,
    /// What.
    pub tool: String,
    state: AtomicU8,
    done: OnceLock<Done>,
    approval: OnceLock<(ApprovalId, Timestamp)>,
    changed: Notify,
    given_up: AtomicBool,
    gave_up: Notify,
}

/// How a call ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Done {
    /// `ok` or the code.
    pub outcome: String,
    /// What the agent answered; absent when it failed or was too large to keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Arc<RawValue>>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// From dispatch to answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Whether the message is the agent's: then it is data, and not the hub's word.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_agent: bool,
}

impl Done {
    /// Whether it succeeded.
    pub fn is_ok(&self) -> bool {
        self.outcome == "ok"
    }
}

impl Call {
    /// A new call.
    pub fn new(id: CallId, caller: TokenId, target: PeerId, tool: String, state: CallState) -> Self {
        Self {
            id,
            caller,
            target,
            tool,
            state: AtomicU8::new(state as u8),
            done: OnceLock::new(),
            approval: OnceLock::new(),
            changed: Notify::new(),
            given_up: AtomicBool::new(false),
            gave_up: Notify::new(),
        }
    }

    /// Where it stands.
    pub fn state(&self) -> CallState {
        match self.state.load(Ordering::Acquire) {
            s if s == CallState::Waiting as u8 => CallState::Waiting,
            s if s == CallState::Running as u8 => CallState::Running,
            _ => CallState::Done,
        }
    }

    /// Moves it; the end is reached by [`Call::finish`] only.
    pub fn set_state(&self, state: CallState) {
        if self.done.get().is_none() {
            self.state.store(state as u8, Ordering::Release);
        }
    }

    /// The approval it waits for, or ran under.
    pub fn approval(&self) -> Option<(ApprovalId, Timestamp)> {
        self.approval.get().copied()
    }

    /// Says which approval it waits for.
    pub fn set_approval(&self, id: ApprovalId, expires_at: Timestamp) {
        let _ = self.approval.set((id, expires_at));
    }

    /// Its end. True for the first one only.
    pub fn finish(&self, done: Done) -> bool {
        let first = self.done.set(done).is_ok();
        self.state.store(CallState::Done as u8, Ordering::Release);
        self.changed.notify_waiters();
        first
    }

    /// How it ended, if it has.
    pub fn done(&self) -> Option<&Done> {
        self.done.get()
    }

    /// Waits for its end.
    pub async fn wait(&self) -> &Done {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Some(done) = self.done.get() {
                return done;
            }
            changed.await;
        }
    }

    /// The caller no longer wants it: it ends as `cancelled`, unless its outcome is there already.
    pub fn cancel(&self) {
        self.given_up.store(true, Ordering::Release);
        self.gave_up.notify_waiters();
    }

    /// Whether the caller no longer wants it.
    pub fn is_cancelled(&self) -> bool {
        self.given_up.load(Ordering::Acquire)
    }

    /// Waits until the caller no longer wants it.
    pub async fn cancelled(&self) {
        loop {
            let gave_up = self.gave_up.notified();
            tokio::pin!(gave_up);
            gave_up.as_mut().enable();
            if self.is_cancelled() {
                return;
            }
            gave_up.await;
        }
    }

    fn bytes(&self) -> usize {
        self.done.get().and_then(|d| d.result.as_ref()).map_or(0, |r| r.get().len())
    }
}

/// The calls that are remembered, and the limits on those under way.
#[derive(Debug)]
pub struct Recent {
    inner: Mutex<Inner>,
    running: Arc<Semaphore>,
    max_running: usize,
    waiting: Mutex<HashMap<ApprovalId, (CallId, Timestamp)>>,
    waiting_count: AtomicUsize,
    max_waiting: usize,
}

#[derive(Debug, Default)]
struct Inner {
    calls: HashMap<CallId, Arc<Call>>,
    order: VecDeque<CallId>,
    bytes: usize,
}

impl Recent {
    /// With these limits.
    pub fn new(max_running: usize, max_waiting: usize) -> Self {
        Self {
            inner: Mutex::default(),
            running: Arc::new(Semaphore::new(max_running)),
            max_running,
            waiting: Mutex::default(),
            waiting_count: AtomicUsize::new(0),
            max_waiting,
        }
    }

    /// A place among the calls under way.
    pub fn try_start(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.running).try_acquire_owned().ok()
    }

    /// Calls under way.
    pub fn running(&self) -> usize {
        self.max_running - self.running.available_permits()
    }

    /// Calls that wait for a person.
    pub fn waiting(&self) -> usize {
        self.waiting_count.load(Ordering::Relaxed)
    }

    /// Whether one more call may wait for a person.
    pub fn may_wait(&self) -> bool {
        self.waiting() < self.max_waiting
    }

    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers a call.
    pub fn remember(&self, call: &Arc<Call>) {
        let mut inner = self.inner();
        if inner.calls.insert(call.id, Arc::clone(call)).is_none() {
            inner.order.push_back(call.id);
        }
        // A call that still runs is never forgotten: it goes to the back and the next one is looked at.
        let mut looked = 0;
        while inner.calls.len() > MAX_CALLS || inner.bytes > MAX_BYTES {
            let Some(oldest) = inner.order.pop_front() else { break };
            looked += 1;
            match inner.calls.get(&oldest) {
                Some(call) if call.done().is_none() && looked <= MAX_CALLS => inner.order.push_back(oldest),
                Some(call) => {
                    inner.bytes = inner.bytes.saturating_sub(call.bytes());
                    inner.calls.remove(&oldest);
                }
                None => {}
            }
            if looked > MAX_CALLS {
                break;
            }
        }
    }

    /// A call has its outcome: counts what it holds.
    pub fn finished(&self, call: &Call) {
        self.inner().bytes += call.bytes();
    }

    /// One call.
    pub fn find(&self, id: CallId) -> Option<Arc<Call>> {
        self.inner().calls.get(&id).cloned()
    }

    /// A call from the store, as it stood.
    pub fn revive(&self, row: &CallRow) -> Arc<Call> {
        let call = Arc::new(Call::new(row.id, row.caller, row.target.clone(), row.tool.clone(), row.state));
        if let Some(done) = row.outcome.as_deref().and_then(|text| serde_json::from_str(text).ok()) {
            call.finish(done);
        }
        self.remember(&call);
        call
    }

    /// A call waits for this approval.
    pub fn wait_for(&self, approval: ApprovalId, call: CallId, expires_at: Timestamp) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.insert(approval, (call, expires_at));
        self.waiting_count.store(waiting.len(), Ordering::Relaxed);
    }

    /// The approval is decided or lapsed.
    pub fn no_longer_waits(&self, approval: ApprovalId) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.remove(&approval);
        self.waiting_count.store(waiting.len(), Ordering::Relaxed);
    }

    /// Approvals whose time has run out.
    pub fn lapsed(&self, now: Timestamp) -> Vec<ApprovalId> {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.iter().filter(|(_, (_, at))| now >= *at).map(|(id, _)| *id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(n: u128) -> Arc<Call> {
        let id = CallId::new(uuid::Uuid::from_u128(n));
        let who = TokenId::new(uuid::Uuid::from_u128(1));
        Arc::new(Call::new(id, who, PeerId::kenny("pc").expect("valid"), "t".into(), CallState::Running))
    }

    fn done(outcome: &str) -> Done {
        Done { outcome: outcome.into(), result: None, message: None, duration_ms: None, by_agent: false }
    }

    #[test]
    fn the_first_outcome_stands() {
        let call = call(1);
        assert!(call.finish(done("ok")));
        assert!(!call.finish(done("timeout")));
        assert_eq!(call.done().map(|d| d.outcome.as_str()), Some("ok"));
        call.set_state(CallState::Running);
        assert_eq!(call.state(), CallState::Done);
    }

    #[test]
    fn old_finished_calls_are_forgotten_and_running_ones_are_not() {
        let recent = Recent::new(10, 10);
        let running = call(0);
        recent.remember(&running);
        for n in 1..=(MAX_CALLS as u128 + 10) {
            let call = call(n);
            call.finish(done("ok"));
            recent.remember(&call);
        }
        assert!(recent.find(running.id).is_some());
        assert!(recent.find(CallId::new(uuid::Uuid::from_u128(1))).is_none());
        assert!(recent.inner().calls.len() <= MAX_CALLS);
    }

    #[tokio::test]
    async fn waiting_sees_an_end_that_came_before_and_one_that_comes_after() {
        let call = call(1);
        let waiting = tokio::spawn({
            let call = Arc::clone(&call);
            async move { call.wait().await.outcome.clone() }
        });
        tokio::task::yield_now().await;
        call.finish(done("ok"));
        assert_eq!(waiting.await.expect("no panic"), "ok");
        assert_eq!(call.wait().await.outcome, "ok");
    }
}
