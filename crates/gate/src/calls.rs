//! The gate as it runs: every call, whatever door it came through, goes through [`place`], in one order:
//! authorise → guard → confirm → record → dispatch → record. Nothing reaches a link any other way, and no protocol
//! decides anything after it: a protocol is an [`Adapter`].

pub mod adapter;
mod approve;
mod deciders;
mod dispatch;
mod owed;
mod planned;
mod recent;
mod recover;

use std::sync::Arc;
use std::time::Duration;

use convoke_core::approval::{Approval, ApprovalState};
use convoke_core::call::{CallState, code};
use convoke_core::effect::Effect;
use convoke_core::gate::{Consent, Verdict};
use convoke_core::grant::Missing;
use convoke_core::guard::AppliesTo;
use convoke_core::id::{ApprovalId, GrantId};
use convoke_core::journal::{Decision, Draft, Kind, Phase};
use convoke_core::peer::Trust;
use convoke_core::time::Timestamp;
use convoke_store::{CallRow, Reservation};
use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

pub use adapter::{Adapter, Adapters, Outgoing, Recipient};
pub use approve::{
    DecideError, check_reach, decide, decide_at_client, expire_due, take_back, view, withdraw, withdraw_of,
};
pub use deciders::{may_decide, may_decide_as};
pub use dispatch::withdraw_unsent;
pub use dispatch::{cancelled, not_any_more, reserve_memory};
pub use owed::settle as settle_owed;
pub use recent::{Call, Done, MaxWaiting, Recent, WaitRefused};
pub use recover::{INTERRUPTED, end_open_of, of_row, recover};

use crate::agents::Agent;
use crate::clock;
use crate::hub::Hub;
use crate::operators::budget::{CallPermit, Limits};
use crate::operators::{Caller, Token};
use crate::policy::InForce;
use planned::Planned;

/// How long a call is remembered for its idempotency key or its approval.
pub const KEEP: Duration = Duration::from_secs(24 * 3600);
/// Longest idempotency key.
pub const MAX_IDEMPOTENCY_KEY: usize = 128;
/// The error of a token that is at its own limit of calls at once.
const TOKEN_FULL: &str = "this token has reached its limit of calls at once; wait for one to end";
/// The error when the hub is at its limit.
const HUB_FULL: &str = "the hub has reached its limit of calls at once (calls under way); try again shortly";

/// What a caller asks for.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Who.
    pub caller: Caller,
    /// Whom.
    pub agent: Arc<Agent>,
    /// What.
    pub tool: String,
    /// With what: a JSON object.
    pub args: Box<RawValue>,
    /// Bounds the whole call.
    pub timeout: Option<Duration>,
    /// Makes a repeated request harmless.
    pub idempotency_key: Option<String>,
    /// The runbook that asks; absent for the caller itself.
    pub requested_by: Option<Arc<str>>,
}

/// What a caller learns at once.
#[derive(Debug)]
pub enum Placed {
    /// It is under way or done: wait on it.
    Running(Arc<Call>),
    /// A person must say yes first.
    Pending {
        /// The call.
        call: Arc<Call>,
        /// The approval.
        approval: ApprovalId,
        /// When it lapses.
        expires_at: Timestamp,
    },
}

/// Why a call was not placed.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// The caller has no right to it.
    #[error(transparent)]
    Denied(Missing),
    /// The caller's token was revoked, or has lapsed, since the door let it in.
    #[error("this token is no longer valid; the call was not placed")]
    NotInForce,
    /// The same key was used for something else.
    #[error("this idempotency key was already used for another call")]
    KeyReused,
    /// Arguments that are no object.
    #[error("{0}")]
    BadArgs(String),
    /// The caller's own limit.
    #[error("{message}")]
    Limited {
        /// Which, in words.
        message: String,
        /// When to try again.
        retry_after_s: u32,
    },
    /// Too many calls under way or waiting.
    #[error("{0}")]
    Busy(&'static str),
    /// This hub is one of several, and its lease, the database or the bus is missing.
    #[error("this hub takes no such call now, and nothing was sent: {0}; try again shortly, or at another hub")]
    NotReady(&'static str),
    /// The store failed: nothing was sent.
    #[error("the call could not be recorded, so it was not sent: {0}")]
    Store(#[from] convoke_store::StoreError),
}

impl PlaceError {
    /// The code, as every door names it.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Denied(_) => "forbidden",
            Self::NotInForce => "unauthorized",
            Self::KeyReused => "conflict",
            Self::BadArgs(_) => "bad_args",
            Self::Limited { .. } => "limited",
            Self::Busy(_) => "busy",
            Self::NotReady(_) => "unavailable",
            Self::Store(_) => "store",
        }
    }
}

/// Places a call: decides on it, and sets it going or asks a person. It runs in a task of the hub's, so a caller who goes
/// away takes neither the call nor its record along; wait for its end with [`Call::wait`].
pub async fn place(hub: &Hub, ask: Ask) -> Result<Placed, PlaceError> {
    let (answer, placed) = oneshot::channel();
    let task_hub = hub.clone();
    hub.tasks.spawn(async move {
        match admit(&task_hub, ask).await {
            Ok(Admitted::Runs(running)) => {
                let _ = answer.send(Ok(Placed::Running(Arc::clone(&running.planned.call))));
                running.finish(&task_hub).await;
            }
            Ok(Admitted::Placed(placed)) => drop(answer.send(Ok(placed))),
            Err(refused) => drop(answer.send(Err(refused))),
        }
    });
    placed.await.unwrap_or(Err(PlaceError::Busy("the hub is stopping")))
}

/// What the gate would say to a call.
#[derive(Debug)]
pub struct Tried {
    /// The verdict.
    pub verdict: Verdict,
    /// The time-boxed grant that would stand in for a person's yes.
    pub granted: Option<GrantId>,
    /// What the call would do.
    pub effect: Effect,
    /// The texts that deny rules look at.
    pub texts: Vec<(AppliesTo, String)>,
}

/// Decides on a call that is not made, under these rules in place of those in force. Nothing is recorded, counted or sent.
pub async fn try_out(hub: &Hub, ask: Ask, rules: &Arc<InForce>) -> Result<Tried, PlaceError> {
    let (planned, args, _) = Planned::read(hub, ask)?;
    let verdict = planned.decide(hub, &args, Some(rules), Consent::NotAsked).await;
    let surfaces = planned.adapter.surfaces(&planned.call.tool, &args);
    let texts = surfaces.into_iter().map(|surface| (surface.group, surface.text.into_owned())).collect();
    Ok(Tried { verdict, granted: planned.granted.get().copied(), effect: planned.effect, texts })
}

/// Whether this call would wait for a person if it was placed now. Nothing is recorded, counted or sent.
pub async fn would_ask(hub: &Hub, ask: &Ask) -> bool {
    let Ok((planned, args, _)) = Planned::read(hub, ask.clone()) else { return false };
    let verdict = planned.decide(hub, &args, None, Consent::NotAsked).await;
    planned.token.is_active(clock::now())
        && planned.agent.state().trust != Trust::Revoked
        && matches!(verdict, Verdict::Confirm { .. })
}

/// Runs something to its end in a task of the hub's, whether or not its caller still waits.
pub async fn to_its_end<T: Send + 'static>(hub: &Hub, run: impl Future<Output = T> + Send + 'static) -> T {
    match hub.tasks.spawn(run).await {
        Ok(done) => done,
        Err(failed) => match failed.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime ends: nobody is left to be answered.
            Err(_) => std::future::pending().await,
        },
    }
}

/// Held by whoever answers a caller that takes its calls along when it goes: dropped before the call has ended, it
/// cancels it.
#[derive(Debug)]
pub struct CancelUnlessDone(Option<Arc<Call>>);

impl CancelUnlessDone {
    /// From here on.
    pub fn new(call: &Arc<Call>) -> Self {
        Self(Some(Arc::clone(call)))
    }

    /// The caller was answered without it: it ends by itself.
    pub fn let_go(mut self) {
        self.0 = None;
    }
}

impl Drop for CancelUnlessDone {
    fn drop(&mut self) {
        if let Some(call) = self.0.as_ref().filter(|call| call.done().is_none()) {
            call.cancel();
        }
    }
}

/// What became of an [`Ask`] at the gate.
enum Admitted {
    /// It may run, or its refusal is its outcome.
    Runs(Box<Running>),
    /// It waits for a person, or its idempotency key was used before.
    Placed(Placed),
}

/// A call that waits for nobody.
struct Running {
    planned: Planned,
    verdict: Verdict,
    /// It counts among the token's calls under way, and among the hub's.
    permits: (CallPermit, OwnedSemaphorePermit),
}

impl Running {
    async fn finish(self: Box<Self>, hub: &Hub) {
        let Self { planned, verdict, permits } = *self;
        dispatch::run(hub, planned, verdict).await;
        drop(permits);
    }
}

async fn admit(hub: &Hub, ask: Ask) -> Result<Admitted, PlaceError> {
    if let Some(why) = hub.cannot_call(&ask.agent) {
        return Err(PlaceError::NotReady(why));
    }
    within_rate(hub, &ask.caller).await?;
    let (mut planned, args, idempotency_key) = Planned::read(hub, ask)?;
    let verdict = planned.decide(hub, &args, None, Consent::NotAsked).await;
    let possible = match &verdict {
        Verdict::Confirm { .. } => planned
            .adapter
            .check_possible(hub, &planned.agent, &planned.call.tool, &args)
            .map_err(PlaceError::BadArgs),
        _ => Ok(()),
    };
    drop(args);
    if !planned.token.is_active(clock::now()) {
        // Many calls may be placed, one after another, for one request.
        return Err(refuse(hub, &planned, PlaceError::NotInForce).await);
    }
    if let Verdict::Denied(missing) = verdict {
        return Err(refuse(hub, &planned, PlaceError::Denied(missing)).await);
    }
    // Before any limit: repeating a call that runs or waits adds nothing.
    if let Some(key) = &idempotency_key
        && let Some(row) = hub.store.call_with_key(planned.token.id, key, clock::now()).await?
    {
        return existing(hub, &planned, row).await.map(Admitted::Placed);
    }
    // Nor is anybody asked about what cannot be done.
    possible?;
    // No yes could bring a call to a revoked agent about: nobody is asked.
    if let Verdict::Confirm { rule, second_person } = &verdict
        && planned.agent.state().trust != Trust::Revoked
    {
        return ask_a_person(hub, planned, idempotency_key, rule, *second_person).await.map(Admitted::Placed);
    }
    let permits = enter(hub, &planned.token)?;
    if let Some(key) = idempotency_key {
        planned.kept = true;
        let row = planned.row(Some(key), CallState::Running);
        if let Some(existing) = keep(hub, &planned, row, None, None).await? {
            return Ok(Admitted::Placed(existing));
        }
    } else {
        hub.calls.remember(&planned.call);
    }
    Ok(Admitted::Runs(Box::new(Running { planned, verdict, permits })))
}

/// Permits for one more call: the token's, and the hub's.
fn enter(hub: &Hub, token: &Arc<Token>) -> Result<(CallPermit, OwnedSemaphorePermit), PlaceError> {
    let Some(of_token) = token.enter(limits(hub, token).at_once) else {
        return Err(PlaceError::Limited { message: TOKEN_FULL.into(), retry_after_s: 1 });
    };
    let of_hub = hub.calls.try_start().ok_or(PlaceError::Busy(HUB_FULL))?;
    Ok((of_token, of_hub))
}

/// Records that a call is refused; answers why.
async fn refuse(hub: &Hub, planned: &Planned, why: PlaceError) -> PlaceError {
    if hub.refusals.count(&planned.token) {
        let mut record = planned.record(clock::now(), Phase::Outcome);
        record.decision = Some(Decision::Denied);
        record.outcome = Some(code::DENIED.into());
        if let Err(unrecorded) = hub.store.append(record).await {
            return unrecorded.into();
        }
    }
    hub.metrics.refused(planned.door.name(), "known");
    planned.call.finish(Done::new(code::DENIED));
    hub.events.call(&planned.call, Some(&planned.token.name));
    why
}

/// What a token may use: its scopes say, else the settings.
fn limits(hub: &Hub, token: &Token) -> Limits {
    let scopes = &token.grant.scopes;
    Limits {
        per_minute: scopes.calls_per_minute.unwrap_or(hub.limits.per_minute),
        at_once: scopes.concurrent_calls.unwrap_or(hub.limits.at_once),
    }
}

/// How many calls a token may have under way.
pub fn at_once(hub: &Hub, token: &Token) -> usize {
    match limits(hub, token).at_once {
        0 => usize::MAX,
        limit => limit as usize,
    }
}

/// Counts a call against its caller's minute. Before anything else: what is refused later costs a record, too.
async fn within_rate(hub: &Hub, caller: &Caller) -> Result<(), PlaceError> {
    let per_minute = limits(hub, &caller.token).per_minute;
    let Err(too_fast) = caller.token.budget.take(per_minute) else { return Ok(()) };
    hub.metrics.refused(caller.door.name(), "limited");
    if too_fast.record {
        let mut record = Draft::new(clock::now(), Kind::Refusal)
            .detail(&serde_json::json!({ "what": "more calls than the token may place", "per_minute": per_minute }));
        record.who = Some(caller.token.name.clone());
        record.door = Some(caller.door);
        record.decision = Some(Decision::Denied);
        record.outcome = Some(code::LIMITED.into());
        hub.store.append(record).await?;
    }
    let message = format!("this token may place {per_minute} calls a minute and has used them");
    Err(PlaceError::Limited { message, retry_after_s: too_fast.retry_after_s })
}

/// Keeps the call with an approval that waits for a person.
async fn ask_a_person(
    hub: &Hub,
    mut planned: Planned,
    idempotency_key: Option<String>,
    rule: &str,
    second_person: bool,
) -> Result<Placed, PlaceError> {
    let now = clock::now();
    let expires_at = now.after(hub.settings.approvals.ttl_s);
    let approval = Approval {
        id: ApprovalId::new(clock::uuid()),
        call_id: planned.call.id,
        binding: planned.binding(),
        created_at: now,
        expires_at,
        second_person,
        state: ApprovalState::Pending,
    };
    hub.calls.try_wait_for(approval.id, planned.token.id, expires_at).map_err(|why| match why {
        WaitRefused::HubLimit => PlaceError::Busy("too many calls are waiting for a person"),
        WaitRefused::TokenLimit => {
            let message =
                "this token has reached its limit of calls that wait for a person (approvals.max_waiting_per_token)";
            PlaceError::Limited { message: message.into(), retry_after_s: 30 }
        }
    })?;
    planned.kept = true;
    planned.approval = Some(approval.id);
    planned.call.set_state(CallState::Waiting);
    planned.call.set_approval(approval.id, expires_at);
    if !deciders::is_anybody(hub, &planned, second_person) {
        planned.call.set_nobody_else();
    }
    let mut record = planned.record(now, Phase::Intent);
    record.kind = Kind::Approval;
    record.phase = None;
    record.decision = Some(Decision::Pending);
    record.rule = Some(rule.into());
    let mut row = planned.row(idempotency_key, CallState::Waiting);
    // Who asked can still learn of its end, however long it waited.
    row.keep_until = expires_at.after(KEEP);
    let kept = keep(hub, &planned, row, Some(approval.clone()), Some(record)).await;
    if !matches!(kept, Ok(None)) {
        hub.calls.no_longer_waits(approval.id);
    }
    if let Some(existing) = kept? {
        return Ok(existing);
    }
    hub.events.call(&planned.call, Some(&planned.token.name));
    let row = planned.row(None, CallState::Waiting);
    approve::publish(hub, approval.id, &row, ApprovalState::Pending, None);
    // Whoever revokes a token looks at what waits once it is out of force, and may have looked before this was there.
    if !planned.token.is_active(clock::now()) {
        approve::end_unwanted(hub, &approval, &row).await?;
        return Err(PlaceError::NotInForce);
    }
    Ok(Placed::Pending { call: planned.call, approval: approval.id, expires_at })
}

/// The same key again: the first call, whatever became of it — if it asked for the same thing.
async fn existing(hub: &Hub, planned: &Planned, row: CallRow) -> Result<Placed, PlaceError> {
    let same =
        row.target == planned.agent.id && row.tool == planned.call.tool && row.args_digest == planned.args_digest;
    if !same {
        return Err(PlaceError::KeyReused);
    }
    let call = of_row(hub, row).await?;
    match call.approval() {
        Some((approval, expires_at)) if call.state() == CallState::Waiting => {
            Ok(Placed::Pending { call, approval, expires_at })
        }
        _ => Ok(Placed::Running(call)),
    }
}

/// Keeps the call. If its idempotency key was used before, the call of that time. It is known here before it is
/// kept: another request with the same key may find it in the store at once, and must find the one that runs.
async fn keep(
    hub: &Hub,
    planned: &Planned,
    row: CallRow,
    approval: Option<Approval>,
    record: Option<Draft>,
) -> Result<Option<Placed>, PlaceError> {
    hub.calls.remember(&planned.call);
    let kept = hub.store.put_call(row, approval, record).await;
    if !matches!(kept, Ok(Reservation::Fresh)) {
        hub.calls.forget(planned.call.id);
    }
    match kept? {
        Reservation::Fresh => Ok(None),
        Reservation::Existing(row) => existing(hub, planned, *row).await.map(Some),
    }
}

/// How long calls may take.
#[derive(Clone, Copy, Debug)]
pub struct Deadlines {
    /// When nobody says.
    pub default: Duration,
    /// Added to the agent's own.
    pub grace: Duration,
    /// At most.
    pub max: Duration,
}

impl Deadlines {
    /// The caller's word bounds the whole call; else the agent's own time-out with some grace; else the default. Where the
    /// caller says nothing, it is `least` at least, which the tool needs.
    fn of(&self, asked: Option<Duration>, agents: Option<&serde_json::Value>, least: Duration) -> Duration {
        let agents = agents.and_then(serde_json::Value::as_f64).filter(|s| s.is_finite() && *s > 0.0);
        let chosen = match (asked, agents) {
            (Some(asked), _) => asked,
            (None, Some(seconds)) => {
                Duration::try_from_secs_f64(seconds).unwrap_or(self.max).saturating_add(self.grace).max(least)
            }
            (None, None) => self.default.max(least),
        };
        chosen.min(self.max)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_callers_word_bounds_the_whole_call() {
        let s = Duration::from_secs;
        let deadlines = Deadlines { default: s(30), grace: s(5), max: s(3600) };
        let of = |asked, agents: Option<serde_json::Value>| deadlines.of(asked, agents.as_ref(), Duration::ZERO);
        assert_eq!(of(None, None), s(30));
        assert_eq!(of(None, Some(json!(60))), s(65));
        assert_eq!(of(Some(s(3)), Some(json!(60))), s(3));
        assert_eq!(of(None, Some(json!("soon"))), s(30));
        assert_eq!(of(None, Some(json!(-1))), s(30));
        assert_eq!(of(None, Some(json!(1e300))), s(3600));
    }

    #[test]
    fn what_takes_long_is_waited_for_unless_the_caller_says_otherwise() {
        let s = Duration::from_secs;
        let deadlines = Deadlines { default: s(30), grace: s(5), max: s(3600) };
        for (least, waited) in [(s(120), 120), (Duration::ZERO, 30)] {
            let of = |asked, agents: Option<serde_json::Value>| deadlines.of(asked, agents.as_ref(), least);
            assert_eq!(of(None, None), s(waited));
            assert_eq!(of(None, Some(json!(300))), s(305));
            assert_eq!(of(Some(s(3)), None), s(3));
        }
    }
}
