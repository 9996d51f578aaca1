//! Calls under way and lately done: what `GET /api/calls/{id}` and an idempotency key look at. Bounded in number and
//! in bytes; what falls out is still in the journal, without its result.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use convoke_core::call::CallState;
use convoke_core::id::{ApprovalId, CallId, PeerId, TokenId};
use convoke_core::time::Timestamp;
use convoke_store::CallRow;
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::owed::Owed;
use crate::answers::{self, AnswerText};

/// Most ended calls remembered. Enough for whoever asks again at once; more would only push what is in use out of the
/// processor's caches.
const MAX_CALLS: usize = 1024;
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
    nobody_else: AtomicBool,
    /// Another hub runs it.
    elsewhere: AtomicBool,
    changed: Notify,
    cancel: CancellationToken,
}

/// How a call ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Done {
    /// `ok` or the code.
    pub outcome: Cow<'static, str>,
    /// What the agent answered; absent when it failed or was too large to keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<AnswerText>,
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
    /// An end with this outcome and nothing else.
    pub fn new(outcome: impl Into<Cow<'static, str>>) -> Self {
        Self { outcome: outcome.into(), result: None, message: None, duration_ms: None, by_agent: false }
    }

    /// As the store keeps it.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("texts and JSON that was read before serialise")
    }

    /// Whether it succeeded.
    pub fn is_ok(&self) -> bool {
        // Whatever an agent calls its error: one with a message of the agent's is one.
        self.outcome == "ok" && !self.by_agent
    }

    /// As it is kept when the result is too large for that: whoever asks again must not take it for an empty one.
    pub fn without_result(&self) -> Self {
        let gone = "the result is too large to be kept (calls.max_result_bytes_kept)";
        let message = self.message.clone().or_else(|| self.result.as_ref().map(|_| gone.to_owned()));
        Self { result: None, message, ..self.clone() }
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
            nobody_else: false.into(),
            elsewhere: false.into(),
            changed: Notify::new(),
            cancel: CancellationToken::new(),
        }
    }

    /// Where it stands.
    pub fn state(&self) -> CallState {
        match self.state.load(Ordering::Acquire) {
            // Someone may move it just as another ends it.
            _ if self.done.get().is_some() => CallState::Done,
            s if s == CallState::Waiting as u8 => CallState::Waiting,
            s if s == CallState::Running as u8 => CallState::Running,
            _ => CallState::Done,
        }
    }

    /// Moves it; the end is reached by [`Call::finish`] only.
    pub fn set_state(&self, state: CallState) {
        if self.done.get().is_none() {
            self.state.store(state as u8, Ordering::Release);
            self.changed.notify_waiters();
        }
    }

    /// The approval it waits for, or ran under.
    pub fn approval(&self) -> Option<(ApprovalId, Timestamp)> {
        self.approval.get().copied()
    }

    /// Whether nobody could say yes to it when it was placed.
    pub fn is_in_vain(&self) -> bool {
        self.nobody_else.load(Ordering::Relaxed)
    }

    /// Says that nobody can say yes to it.
    pub(super) fn set_nobody_else(&self) {
        self.nobody_else.store(true, Ordering::Relaxed);
    }

    /// Says that another hub runs it.
    pub(crate) fn set_elsewhere(&self) {
        self.elsewhere.store(true, Ordering::Relaxed);
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
        if let Some(done) = self.done.get() {
            return done;
        }
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

    /// Waits until it no longer waits for a person.
    pub async fn decided(&self) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.state() != CallState::Waiting {
                return;
            }
            changed.await;
        }
    }

    /// The caller no longer wants it: it ends as `cancelled`, unless its outcome is there already.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Whether the caller no longer wants it.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// Waits until the caller no longer wants it.
    pub async fn cancelled(&self) {
        self.cancel.cancelled().await;
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
    waiting: Mutex<Waiting>,
    max_waiting: MaxWaiting,
    /// Outcomes that the store has yet to take.
    pub(super) owed: Owed,
}

/// How many calls may wait for a person.
#[derive(Clone, Copy, Debug)]
pub struct MaxWaiting {
    /// Of all tokens together.
    pub all: usize,
    /// Of one.
    pub of_one: usize,
}

/// Why a call may not wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitRefused {
    /// As many wait as may.
    HubLimit,
    /// As many of this token's wait as may.
    TokenLimit,
}

/// The calls that wait for a person.
#[derive(Debug, Default)]
struct Waiting {
    until: HashMap<ApprovalId, (TokenId, Timestamp)>,
    by_token: HashMap<TokenId, usize>,
}

impl Waiting {
    fn of(&self, token: TokenId) -> usize {
        self.by_token.get(&token).copied().unwrap_or_default()
    }

    fn add(&mut self, approval: ApprovalId, token: TokenId, expires_at: Timestamp) {
        if self.until.insert(approval, (token, expires_at)).is_none() {
            *self.by_token.entry(token).or_default() += 1;
        }
    }

    fn remove(&mut self, approval: ApprovalId) {
        let Some((token, _)) = self.until.remove(&approval) else { return };
        if let Some(count) = self.by_token.get_mut(&token) {
            *count -= 1;
            if *count == 0 {
                self.by_token.remove(&token);
            }
        }
    }
}

#[derive(Debug, Default)]
struct Inner {
    calls: HashMap<CallId, Arc<Call>>,
    /// Those that ended, in that order, each with what its result holds.
    ended: VecDeque<(CallId, usize)>,
    bytes: usize,
}

impl Inner {
    fn ended(&mut self, call: &Call) {
        self.ended.push_back((call.id, call.bytes()));
        self.bytes += call.bytes();
        while self.ended.len() > MAX_CALLS || self.bytes > MAX_BYTES {
            let Some((oldest, bytes)) = self.ended.pop_front() else { break };
            self.bytes -= bytes;
            self.calls.remove(&oldest);
        }
    }
}

impl Recent {
    /// With these limits.
    pub fn new(max_running: usize, max_waiting: MaxWaiting) -> Self {
        Self {
            inner: Mutex::default(),
            running: Arc::new(Semaphore::new(max_running)),
            max_running,
            waiting: Mutex::default(),
            max_waiting,
            owed: Owed::default(),
        }
    }

    /// A permit to run one more call, while fewer than the limit run.
    pub fn try_start(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.running).try_acquire_owned().ok()
    }

    /// Calls under way.
    pub fn running(&self) -> usize {
        self.max_running - self.running.available_permits()
    }

    /// Calls that wait for a person.
    pub fn waiting(&self) -> usize {
        self.lock_waiting().until.len()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers a call that has not ended: it stays for as long as it takes.
    pub fn remember(&self, call: &Arc<Call>) {
        self.inner().calls.insert(call.id, Arc::clone(call));
    }

    /// A call that came to nothing before anybody could know of it.
    pub fn forget(&self, id: CallId) {
        self.inner().calls.remove(&id);
    }

    /// Ends a call: wakes those who wait for it, and forgets the oldest ended calls beyond the limit.
    pub fn finish(&self, call: &Call, done: Done) {
        if call.finish(done) {
            self.inner().ended(call);
        }
    }

    /// Forgets the ended calls with large results, so that the results of others fit into memory.
    pub fn forget_large_results(&self) {
        let mut inner = self.inner();
        let (large, small): (VecDeque<_>, _) = inner.ended.drain(..).partition(|(_, bytes)| *bytes > answers::SMALL);
        inner.ended = small;
        inner.bytes -= large.iter().map(|(_, bytes)| bytes).sum::<usize>();
        let forgotten: Vec<_> = large.iter().filter_map(|(id, _)| inner.calls.remove(id)).collect();
        drop(inner);
        drop(forgotten);
    }

    /// One call.
    pub fn find(&self, id: CallId) -> Option<Arc<Call>> {
        self.inner().calls.get(&id).cloned()
    }

    /// Calls under way and lately done that `is_wanted` picks, the newest first, before `before`.
    pub fn newest(&self, before: Option<CallId>, is_wanted: impl Fn(&Call) -> bool) -> Vec<Arc<Call>> {
        let earlier = |call: &&Arc<Call>| before.is_none_or(|before| call.id < before);
        let mut calls: Vec<_> = self.inner().calls.values().filter(earlier).cloned().collect();
        calls.retain(|call| is_wanted(call));
        // Ids begin with the time at which they were drawn.
        calls.sort_by_key(|call| std::cmp::Reverse(call.id));
        calls
    }

    /// The calls of one token that run: they have not ended, and wait for nobody.
    pub fn under_way(&self, of: TokenId) -> Vec<Arc<Call>> {
        let inner = self.inner();
        let runs = |call: &&Arc<Call>| call.caller == of && call.state() == CallState::Running;
        inner.calls.values().filter(runs).cloned().collect()
    }

    /// A call from the store, as it stood.
    pub fn revive(&self, row: &CallRow) -> Arc<Call> {
        let call = {
            let mut inner = self.inner();
            let new = || Arc::new(Call::new(row.id, row.caller, row.target.clone(), row.tool.clone(), row.state));
            // The one that is there is the one that somebody finishes.
            Arc::clone(inner.calls.entry(row.id).or_insert_with(new))
        };
        if let Some(done) = row.outcome.as_deref().and_then(|text| serde_json::from_str(text).ok()) {
            self.finish(&call, done);
        }
        call
    }

    /// Calls that have not ended and may end at another hub: those that wait for a person, and those that it runs.
    pub(crate) fn elsewhere(&self) -> Vec<Arc<Call>> {
        let ends_elsewhere = |call: &&Arc<Call>| match call.state() {
            CallState::Waiting => true,
            CallState::Running => call.elsewhere.load(Ordering::Relaxed),
            CallState::Done => false,
        };
        self.inner().calls.values().filter(ends_elsewhere).cloned().collect()
    }

    fn lock_waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call of this token is to wait for this approval, if it may. One token cannot use up the limit of all.
    pub fn try_wait_for(
        &self,
        approval: ApprovalId,
        token: TokenId,
        expires_at: Timestamp,
    ) -> Result<(), WaitRefused> {
        let MaxWaiting { all, of_one } = self.max_waiting;
        let mut waiting = self.lock_waiting();
        if waiting.of(token) >= of_one {
            return Err(WaitRefused::TokenLimit);
        }
        if waiting.until.len() >= all {
            return Err(WaitRefused::HubLimit);
        }
        waiting.add(approval, token, expires_at);
        Ok(())
    }

    /// A call of this token waits for this approval, as it did before.
    pub fn wait_for(&self, approval: ApprovalId, token: TokenId, expires_at: Timestamp) {
        self.lock_waiting().add(approval, token, expires_at);
    }

    /// The approval is decided or lapsed.
    pub fn no_longer_waits(&self, approval: ApprovalId) {
        self.lock_waiting().remove(approval);
    }

    /// Approvals whose time has run out.
    pub fn lapsed(&self, now: Timestamp) -> Vec<ApprovalId> {
        let waiting = self.lock_waiting();
        waiting.until.iter().filter(|(_, (_, at))| now >= *at).map(|(id, _)| *id).collect()
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

    fn done(outcome: &'static str) -> Done {
        Done::new(outcome)
    }

    #[test]
    fn the_first_outcome_stands() {
        let call = call(1);
        assert!(call.finish(done("ok")));
        assert!(!call.finish(done("timeout")));
        assert_eq!(call.done().map(|d| &*d.outcome), Some("ok"));
        call.set_state(CallState::Running);
        assert_eq!(call.state(), CallState::Done);
    }

    #[test]
    fn what_waits_for_a_person_is_not_under_way() {
        let recent = Recent::new(10, MaxWaiting { all: 10, of_one: 10 });
        let (runs, waits, ended) = (call(1), call(2), call(3));
        waits.set_state(CallState::Waiting);
        for call in [&runs, &waits, &ended] {
            recent.remember(call);
        }
        recent.finish(&ended, done("ok"));
        let under_way = recent.under_way(runs.caller).iter().map(|call| call.id).collect::<Vec<_>>();
        assert_eq!(under_way, [runs.id]);
    }

    #[test]
    fn calls_are_listed_newest_first() {
        let recent = Recent::new(10, MaxWaiting { all: 10, of_one: 10 });
        for n in [2, 1, 4, 3] {
            recent.remember(&call(n));
        }
        let listed = |before, least| {
            let calls = recent.newest(before, |call| call.id.uuid().as_u128() >= least);
            calls.iter().map(|call| call.id.uuid().as_u128()).collect::<Vec<_>>()
        };
        assert_eq!(listed(None, 2), [4, 3, 2]);
        assert_eq!(listed(Some(call(3).id), 0), [2, 1]);
    }

    #[test]
    fn old_finished_calls_are_forgotten_and_running_ones_are_not() {
        let recent = Recent::new(10, MaxWaiting { all: 10, of_one: 10 });
        let running = call(0);
        recent.remember(&running);
        for n in 1..=(MAX_CALLS as u128 + 10) {
            let call = call(n);
            recent.remember(&call);
            recent.finish(&call, done("ok"));
        }
        let id = |n| CallId::new(uuid::Uuid::from_u128(n));
        assert!(recent.find(running.id).is_some());
        assert!(recent.find(id(10)).is_none());
        assert!(recent.find(id(11)).is_some());
        assert_eq!(recent.inner().calls.len(), MAX_CALLS + 1);
    }

    #[test]
    fn one_token_cannot_take_every_place_of_those_that_wait() {
        let recent = Recent::new(10, MaxWaiting { all: 3, of_one: 2 });
        let (one, two) = (TokenId::new(uuid::Uuid::from_u128(1)), TokenId::new(uuid::Uuid::from_u128(2)));
        let approval = |n| ApprovalId::new(uuid::Uuid::from_u128(n));
        let wait = |n, token| recent.try_wait_for(approval(n), token, Timestamp::from_millis(0));
        assert_eq!((wait(1, one), wait(2, one), wait(3, one)), (Ok(()), Ok(()), Err(WaitRefused::TokenLimit)));
        assert_eq!((wait(4, two), wait(5, two), recent.waiting()), (Ok(()), Err(WaitRefused::HubLimit), 3));
        recent.no_longer_waits(approval(1));
        recent.no_longer_waits(approval(1));
        assert_eq!((wait(6, one), wait(7, one), recent.waiting()), (Ok(()), Err(WaitRefused::TokenLimit), 3));
        for n in [2, 4, 6] {
            recent.no_longer_waits(approval(n));
        }
        assert!(recent.waiting() == 0 && recent.waiting.lock().expect("whole").by_token.is_empty());
    }

    #[test]
    fn large_results_push_older_ones_out() {
        let recent = Recent::new(10, MaxWaiting { all: 10, of_one: 10 });
        let half = serde_json::value::to_raw_value(&"x".repeat(MAX_BYTES / 2)).expect("a text");
        let half: AnswerText = half.into();
        for n in 1..=3 {
            let call = call(n);
            recent.remember(&call);
            recent.finish(&call, Done { result: Some(half.clone()), ..done("ok") });
        }
        let there = |n| recent.find(CallId::new(uuid::Uuid::from_u128(n))).is_some();
        assert_eq!([there(1), there(2), there(3)], [false, false, true]);
        assert!(recent.inner().bytes <= MAX_BYTES);
    }

    #[test]
    fn large_results_are_let_go_and_small_ones_stay() {
        let recent = Recent::new(10, MaxWaiting { all: 10, of_one: 10 });
        for n in 1..=4 {
            let size = if n % 2 == 0 { 1_000_000 } else { 1_000 };
            let result = serde_json::value::to_raw_value(&"x".repeat(size)).expect("a text");
            let call = call(n);
            recent.remember(&call);
            recent.finish(&call, Done { result: Some(result.into()), ..done("ok") });
        }
        recent.forget_large_results();
        let there = |n| recent.find(CallId::new(uuid::Uuid::from_u128(n))).is_some();
        assert_eq!([there(1), there(2), there(3), there(4)], [true, false, true, false]);
        let inner = recent.inner();
        assert_eq!((inner.bytes, inner.ended.len()), (2_004, 2));
    }

    #[tokio::test]
    async fn who_waits_for_a_decision_sees_a_yes_and_an_end() {
        for end in [false, true] {
            let call = call(1);
            call.set_state(CallState::Waiting);
            let waiting = tokio::spawn({
                let call = Arc::clone(&call);
                async move { call.decided().await }
            });
            tokio::task::yield_now().await;
            assert!(!waiting.is_finished());
            if end {
                call.finish(done("rejected"));
            } else {
                call.set_state(CallState::Running);
            }
            waiting.await.expect("no panic");
        }
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
