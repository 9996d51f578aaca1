//! A person's answer, and what follows from it.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use convoke_api::approvals::ApprovalView;
use convoke_core::approval::{Approval, ApprovalError, ApprovalState, Asker, Decider, Shown};
use convoke_core::call::{CallState, code};
use convoke_core::effect::Effect;
use convoke_core::event::{ApprovalEvent, Event};
use convoke_core::gate::Consent;
use convoke_core::grant::{Missing, Right};
use convoke_core::id::{ApprovalId, CallId, PeerId, TokenId};
use convoke_core::journal::{Decision, Draft, Kind, Phase};
use convoke_core::redact;
use convoke_core::time::Timestamp;
use convoke_store::{ApprovalMove, CallEnd, CallRow, StoreError};
use serde_json::json;
use serde_json::value::RawValue;

use super::planned::{BY_CALLER, Planned, record_of_row};
use super::{Call, Done, PlaceError, dispatch, to_its_end};
use crate::agents::Agent;
use crate::clock;
use crate::cluster::tell_call;
use crate::hub::Hub;
use crate::operators::{Caller, Token};

/// How long an approved call waits for a store that fails, before it is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// Why a call does not run whose arguments the store does not give back.
const UNREADABLE: &str = "cannot read the call's stored arguments";

/// Why a call does not run whose asker may not ask any more.
const NOT_IN_FORCE: &str = "the token that asked for this call is no longer valid";

/// Why a decision was not taken.
#[derive(Debug, thiserror::Error)]
pub enum DecideError {
    /// The caller may not approve anything.
    #[error(transparent)]
    NoRight(Missing),
    /// No such approval, or none the caller may see.
    #[error("the approval does not exist")]
    Unknown,
    /// The caller's reach does not include the target.
    #[error(transparent)]
    OutOfReach(Missing),
    /// The approval says no.
    #[error(transparent)]
    Refused(#[from] ApprovalError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] convoke_store::StoreError),
}

/// A person decides. The call runs, or ends, before this returns its new state; its outcome comes later.
pub async fn decide(
    hub: &Hub,
    by: &Caller,
    id: ApprovalId,
    approve: bool,
    reason: Option<&str>,
) -> Result<(ApprovalState, CallId), DecideError> {
    let (task_hub, by, reason) = (hub.clone(), by.clone(), reason.map(str::to_owned));
    // Between the yes in the store and the call that follows from it nobody may go away.
    to_its_end(hub, async move { decide_once(&task_hub, &by, id, approve, reason.as_deref()).await }).await
}

async fn decide_once(
    hub: &Hub,
    by: &Caller,
    id: ApprovalId,
    approve: bool,
    reason: Option<&str>,
) -> Result<(ApprovalState, CallId), DecideError> {
    // A door checks it too; one that forgot to would let everybody approve.
    by.token.grant.check(Right::Approve).map_err(DecideError::NoRight)?;
    let Some((mut approval, row)) = hub.store.approval(id).await? else { return Err(DecideError::Unknown) };
    check_reach(hub, &by.token, &row).map_err(DecideError::OutOfReach)?;
    by.token.grant.check_scopes(effect_of(hub, &row), &row.tool).map_err(DecideError::OutOfReach)?;
    let now = clock::now();
    let asker = hub.operators.find(row.caller);
    let asker = Asker {
        person: asker.as_ref().map(|token| token.person()).unwrap_or_default(),
        is_assistant: asker.as_ref().is_some_and(|token| token.grant.is_for_assistant()),
    };
    let by_whom = Decider { token: by.token.id, person: by.token.person(), shown: shown(by, now) };
    if approve && by_whom.shown == Shown::Session && effect_of(hub, &row) == Effect::Manage {
        return Err(ApprovalError::StepUp.into());
    }
    let decided = approval.decide(by_whom, asker, approve, now);
    if decided == Err(ApprovalError::StepUp) {
        // Nothing was decided and nobody was refused: they come back with it.
        return Err(ApprovalError::StepUp.into());
    }
    let call = settle(hub, by, approval.clone(), row, decided, approve, Answered::ByAPerson { reason }).await?;
    Ok((approval.state, call.id))
}

/// What somebody who decides has shown.
fn shown(by: &Caller, now: Timestamp) -> Shown {
    match &by.session {
        None => Shown::Token,
        Some(session) if session.is_stepped_up(now) => Shown::StepUp,
        Some(_) => Shown::Session,
    }
}

/// Whether a token's reach includes everyone whom a call goes to.
pub fn check_reach(hub: &Hub, token: &Token, row: &CallRow) -> Result<(), Missing> {
    let adapter = hub.adapters.of(&row.target);
    let Some(target) = adapter.target(hub, &row.target) else {
        return token.grant.check_reach::<String>(row.target.as_str(), &[]);
    };
    token.grant.check_reach(row.target.as_str(), &target.state().tags)?;
    let recipients = adapter.recipients(&target, &args_of(row));
    recipients.iter().try_for_each(|to| token.grant.check_reach(&to.id, &to.tags))
}

/// A kept call's arguments; nothing where the store gave none back.
fn args_of(row: &CallRow) -> serde_json::Value {
    row.args.as_ref().and_then(|args| serde_json::from_slice(args.reveal()).ok()).unwrap_or_default()
}

/// The person at the asker's own client decides: only where a setting says that this counts.
pub async fn decide_at_client(
    hub: &Hub,
    by: &Caller,
    id: ApprovalId,
    approve: bool,
) -> Result<Arc<Call>, DecideError> {
    if !hub.settings.approvals.elicitation {
        return Err(ApprovalError::OwnCall.into());
    }
    let (task_hub, by) = (hub.clone(), by.clone());
    let deciding = async move {
        let hub = &task_hub;
        let Some((mut approval, row)) = hub.store.approval(id).await? else { return Err(DecideError::Unknown) };
        let decided = approval.decide_at_client(by.token.id, approve, clock::now());
        settle(hub, &by, approval, row, decided, approve, Answered::AtTheClient).await
    };
    to_its_end(hub, deciding).await
}

/// How a decision came.
enum Answered<'a> {
    ByAPerson { reason: Option<&'a str> },
    AtTheClient,
}

impl Answered<'_> {
    fn detail(&self) -> Option<serde_json::Value> {
        match self {
            Self::ByAPerson { reason } => reason.map(|reason| json!({ "reason": redact::clean_text(reason) })),
            Self::AtTheClient => Some(json!({ "how": "elicitation" })),
        }
    }

    fn no(&self, by: &Caller) -> String {
        match self {
            Self::ByAPerson { reason: Some(reason) } => format!("{} said no: {reason}", by.token.name),
            Self::ByAPerson { reason: None } => format!("{} said no", by.token.name),
            Self::AtTheClient => "the person at the client denied it".into(),
        }
    }
}

/// Records a decision and lets the call run, or end.
async fn settle(
    hub: &Hub,
    by: &Caller,
    approval: Approval,
    row: CallRow,
    decided: Result<(), ApprovalError>,
    approve: bool,
    how: Answered<'_>,
) -> Result<Arc<Call>, DecideError> {
    let (now, id) = (clock::now(), approval.id);
    match decided.and_then(|()| if approve && row.args.is_none() { Err(ApprovalError::Unreadable) } else { Ok(()) }) {
        Ok(()) => {}
        Err(ApprovalError::Expired) => {
            expire(hub, &approval, &row, now).await?;
            return Err(ApprovalError::Expired.into());
        }
        // Another was first: nobody is refused, and a record of one would stand behind the yes that holds.
        Err(late @ ApprovalError::NotPending(_)) => return Err(late.into()),
        Err(refused) => {
            let mut record = record_of(&approval, &row, now, by);
            record.decision = Some(Decision::Denied);
            record.outcome = Some(code::DENIED.into());
            hub.store.append(record).await?;
            return Err(refused.into());
        }
    }
    let mut record = record_of(&approval, &row, now, by);
    record.decision = Some(if approve { Decision::Confirmed } else { Decision::Rejected });
    if let Some(detail) = how.detail() {
        record = record.detail(&detail);
    }
    // The store moves it only if it is still pending: of two people who decide at once, one gets `not pending`.
    let decided = || DecideError::from(ApprovalError::NotPending(ApprovalState::Used));
    let (from, to) = (ApprovalState::Pending, approval.state);
    let moved = ApprovalMove { id, from, to, decided_by: Some(by.token.id), record };
    if !approve {
        let call = end_approval(hub, &row, moved, code::REJECTED, how.no(by), Decision::Rejected).await?;
        return call.ok_or_else(decided);
    }
    if !hub.store.move_approval(moved).await? {
        return Err(decided());
    }
    hub.calls.no_longer_waits(id);
    publish(hub, id, &row, to, Some(by.token.id));
    let call = hub.calls.find(row.id).unwrap_or_else(|| hub.calls.revive(&row));
    call.set_state(CallState::Running);
    start(hub, approval, row, Arc::clone(&call));
    Ok(call)
}

/// Sets an approved call going: authorised and guarded again, with what is in force now; its deadline starts now.
pub(super) fn start(hub: &Hub, approval: Approval, row: CallRow, call: Arc<Call>) {
    let task_hub = hub.clone();
    hub.tasks.spawn(async move {
        let hub = task_hub;
        let mut told = false;
        let planned = loop {
            let why = match use_approval(&hub, approval.clone(), &row, &call).await {
                Ok(Some(planned)) => break planned,
                Ok(None) => return,
                Err(why) => why,
            };
            // It is not told to have failed: the store still holds the yes, and the next start would run it.
            if !told {
                tracing::error!(call = %row.id, %why, "cannot run an approved call yet; trying again");
                told = true;
            }
            tokio::select! {
                () = tokio::time::sleep(TRY_AGAIN) => {}
                // The next start picks it up.
                () = hub.stopping.cancelled() => return,
            }
        };
        if let Err(why) = run_approved(&hub, approval.id, &row, planned).await {
            tracing::error!(call = %row.id, %why, "cannot run an approved call");
            let message = format!("cannot run the call: {why}");
            tell_end(&hub, &row, &call, Done { message: Some(message), ..Done::new(code::INTERNAL) });
        }
    });
}

/// Uses the approval up: whoever gets the call runs it, and nobody else does. Nothing when there is nothing to run any
/// more; then the call has its end.
async fn use_approval(
    hub: &Hub,
    mut approval: Approval,
    row: &CallRow,
    call: &Arc<Call>,
) -> Result<Option<Planned>, convoke_store::StoreError> {
    let now = clock::now();
    let approval_id = approval.id;
    let lapsed = Draft { decision: Some(Decision::Expired), ..about(approval_id, row, now) };
    let fail = async |code, message: String, decision| {
        // Nobody may take it for one that can still be used; not even a hub that is started again.
        let (from, to) = (ApprovalState::Approved, ApprovalState::Expired);
        let moved = ApprovalMove { id: approval_id, from, to, decided_by: None, record: lapsed.clone() };
        // If it has moved on, the call is someone else's to end.
        end_approval(hub, row, moved, code, message, decision).await.map(|_| None)
    };
    if row.state == CallState::Done {
        return fail(code::EXPIRED, String::new(), Decision::Expired).await;
    }
    let Some(token) = hub.operators.find(row.caller).filter(|t| t.is_active(now)) else {
        return fail(code::DENIED, NOT_IN_FORCE.into(), Decision::Denied).await;
    };
    let adapter = hub.adapters.of(&row.target);
    let Some(agent) = adapter.target(hub, &row.target) else {
        return fail(code::OFFLINE, format!("agent {} no longer exists", row.target), Decision::Denied).await;
    };
    if is_another(hub, &agent, row) {
        let message = format!("{} was enrolled again after this call was placed; place it again", row.target);
        return fail(code::DENIED, message, Decision::Denied).await;
    }
    let args = row.args.as_ref().and_then(|a| std::str::from_utf8(a.reveal()).ok()).map(str::to_owned);
    let args = args.and_then(|text| RawValue::from_string(text).ok());
    let Some(args) = args else {
        return fail(code::INTERNAL, UNREADABLE.into(), Decision::Denied).await;
    };
    let planned = Planned {
        args_shown: adapter.shown(&args),
        args_digest: hub.digest(args.get().as_bytes()),
        call: Arc::clone(call),
        effect: adapter.effect(hub, &agent, &row.tool),
        requested_by: row.requested_by.as_deref().unwrap_or(BY_CALLER).into(),
        adapter,
        token,
        door: row.door,
        agent,
        args,
        timeout: Duration::from_millis(row.timeout_ms.unwrap_or(30_000)),
        kept: true,
        approval: Some(approval.id),
        granted: OnceLock::new(),
    };
    if let Err(why) = approval.consume(&planned.binding(), now) {
        return fail(code::EXPIRED, why.to_string(), Decision::Expired).await;
    }
    let record = Draft { outcome: Some(ApprovalState::Used.name().into()), ..about(approval.id, row, now) };
    let (from, to) = (ApprovalState::Approved, ApprovalState::Used);
    if !hub.store.move_approval(ApprovalMove { id: approval_id, from, to, decided_by: None, record }).await? {
        // Someone else set it going: it must not go out twice.
        return Ok(None);
    }
    publish(hub, approval_id, row, to, None);
    Ok(Some(planned))
}

/// Does what the store must keep of an approved call, and again for as long as the store fails. What was not sent runs
/// at the next start, so nobody may be told before that how it ended. Nothing when the hub stops first.
pub(super) async fn once_stored<F: Future<Output = Result<(), StoreError>>>(
    hub: &Hub,
    call: CallId,
    keep: impl Fn() -> F,
) -> Option<Result<(), StoreError>> {
    let mut told = false;
    loop {
        let why = match keep().await {
            Err(StoreError::Closed) => return None,
            Err(why) if !matches!(why, StoreError::Conflict(_)) => why,
            settled => return Some(settled),
        };
        if !told {
            tracing::error!(%call, %why, "cannot record an approved call yet; trying again");
            told = true;
        }
        tokio::select! {
            () = tokio::time::sleep(TRY_AGAIN) => {}
            () = hub.stopping.cancelled() => return None,
        }
    }
}

/// Runs a call whose approval is used. From here on no other start will, unless it was not sent.
async fn run_approved(
    hub: &Hub,
    approval: ApprovalId,
    row: &CallRow,
    planned: Planned,
) -> Result<(), convoke_store::StoreError> {
    let Some(started) = once_stored(hub, row.id, || hub.store.start_call(row.id)).await else {
        return Ok(());
    };
    started?;
    let failed = async |code, message: &str| {
        end(hub, row, &planned.call, code, message.to_owned(), Decision::Confirmed, approval).await
    };
    // What the guard cannot read it cannot let pass.
    let Ok(args) = serde_json::from_str(planned.args.get()) else {
        return failed(code::INTERNAL, UNREADABLE).await;
    };
    let verdict = planned.decide(hub, &args, None, Consent::Given).await;
    drop(args);
    let places = match super::enter(hub, &planned.token) {
        Ok(places) => places,
        Err(PlaceError::Limited { message, .. }) => return failed(code::LIMITED, &message).await,
        Err(full) => return failed(code::BUSY, &full.to_string()).await,
    };
    dispatch::run(hub, planned, verdict).await;
    drop(places);
    Ok(())
}

/// Ends a kept call that never went out: its outcome, and the record of it.
fn ending(
    hub: &Hub,
    row: &CallRow,
    code: &'static str,
    message: String,
    decision: Decision,
    approval: ApprovalId,
) -> (Done, CallEnd) {
    let done = Done { message: Some(message), ..Done::new(code) };
    let mut record = record_of_row(hub, row, Kind::Call);
    record.phase = Some(Phase::Outcome);
    record.decision = Some(decision);
    record.approval = Some(approval);
    record.outcome = Some(code.into());
    let outcome = done.to_json();
    (done, CallEnd { id: row.id, outcome, record })
}

/// Ends a kept call whose approval is used.
async fn end(
    hub: &Hub,
    row: &CallRow,
    call: &Call,
    code: &'static str,
    message: String,
    decision: Decision,
    approval: ApprovalId,
) -> Result<(), convoke_store::StoreError> {
    let (done, CallEnd { id, outcome, record }) = ending(hub, row, code, message, decision, approval);
    let finish = || hub.store.finish_call(id, &outcome, record.clone());
    let Some(finished) = once_stored(hub, id, finish).await else { return Ok(()) };
    finished?;
    hub.metrics.call(code, effect_of(hub, row), 0.0);
    tell_end(hub, row, call, done);
    Ok(())
}

/// Ends an approval and its call with it: a hub that is killed has done both, or neither. Nothing when it had moved on.
async fn end_approval(
    hub: &Hub,
    row: &CallRow,
    moved: ApprovalMove,
    code: &'static str,
    message: String,
    decision: Decision,
) -> Result<Option<Arc<Call>>, convoke_store::StoreError> {
    let (id, to, decided_by) = (moved.id, moved.to, moved.decided_by);
    if row.state == CallState::Done {
        // It has its end, and keeps it. The approval must not stay open for that: whatever goes through all that are open
        // would fail at it for ever.
        let has_moved = hub.store.move_approval(moved).await?;
        hub.calls.no_longer_waits(id);
        if has_moved {
            publish(hub, id, row, to, decided_by);
        }
        return Ok(has_moved.then(|| hub.calls.find(row.id).unwrap_or_else(|| hub.calls.revive(row))));
    }
    let (done, end) = ending(hub, row, code, message, decision, id);
    if !hub.store.end_approval(moved, end).await? {
        return Ok(None);
    }
    hub.calls.no_longer_waits(id);
    publish(hub, id, row, to, decided_by);
    hub.metrics.call(code, effect_of(hub, row), 0.0);
    let call = hub.calls.find(row.id).unwrap_or_else(|| hub.calls.revive(row));
    tell_end(hub, row, &call, done);
    Ok(Some(call))
}

/// Tells whoever waits for a kept call that it has ended.
fn tell_end(hub: &Hub, row: &CallRow, call: &Call, done: Done) {
    hub.calls.finish(call, done);
    tell_call(hub, row.id);
    let asker = hub.operators.find(row.caller);
    hub.events.call(call, asker.as_ref().map(|token| token.name.as_str()));
}

/// Publishes where an approval is now.
pub(super) fn publish(hub: &Hub, id: ApprovalId, row: &CallRow, state: ApprovalState, decided_by: Option<TokenId>) {
    if state != ApprovalState::Pending {
        tell_call(hub, row.id);
    }
    let name = |id| hub.operators.find(id).map(|token| token.name.clone());
    let adapter = hub.adapters.of(&row.target);
    let recipients = adapter.target(hub, &row.target).map(|target| adapter.recipients(&target, &args_of(row)));
    hub.events.publish(Event::Approval(ApprovalEvent {
        id,
        call_id: row.id,
        state,
        target: row.target.clone(),
        tool: row.tool.clone(),
        caller: name(row.caller),
        decided_by: decided_by.and_then(name),
        owner: row.caller,
        recipients: recipients.into_iter().flatten().map(|to| to.id.to_string()).collect(),
    }));
}

async fn expire(
    hub: &Hub,
    approval: &Approval,
    row: &CallRow,
    now: Timestamp,
) -> Result<(), convoke_store::StoreError> {
    let record = Draft { decision: Some(Decision::Expired), ..about(approval.id, row, now) };
    let (from, to) = (ApprovalState::Pending, ApprovalState::Expired);
    let moved = ApprovalMove { id: approval.id, from, to, decided_by: None, record };
    let message = "nobody approved the call in time".to_owned();
    end_approval(hub, row, moved, code::EXPIRED, message, Decision::Expired).await?;
    // Also of one that had moved on, or it would be looked at every second.
    hub.calls.no_longer_waits(approval.id);
    Ok(())
}

/// Ends the calls whose approval has lapsed.
pub async fn expire_due(hub: &Hub) {
    let now = clock::now();
    for id in hub.calls.lapsed(now) {
        let outcome = match hub.store.approval(id).await {
            Ok(Some((approval, row))) => expire(hub, &approval, &row, now).await,
            // Nothing removes one that waits; if something did, nobody waits for it any more.
            Ok(None) => {
                hub.calls.no_longer_waits(id);
                Ok(())
            }
            Err(why) => Err(why),
        };
        if let Err(why) = outcome {
            tracing::error!(approval = %id, %why, "cannot record an expired approval; trying again");
        }
    }
}

fn record_of(approval: &Approval, row: &CallRow, at: Timestamp, by: &Caller) -> Draft {
    let mut record = about(approval.id, row, at);
    record.who = Some(by.token.name.clone());
    record.door = Some(by.door);
    record.args_digest = Some(row.args_digest.clone());
    record
}

/// A record about an approval.
fn about(approval: ApprovalId, row: &CallRow, at: Timestamp) -> Draft {
    let mut record = Draft::new(at, Kind::Approval);
    record.target = Some(row.target.as_str().into());
    record.tool = Some(row.tool.clone());
    record.call_id = Some(row.id);
    record.approval = Some(approval);
    record
}

/// What is recorded of an approval that was used for a call which was never sent.
pub(super) fn given_back(hub: &Hub, row: &CallRow) -> Draft {
    let mut record = record_of_row(hub, row, Kind::Approval).detail(&json!({ "what": "not sent: approved again" }));
    record.door = None;
    record.outcome = Some(ApprovalState::Approved.name().into());
    record
}

/// What the call may do, as far as anyone can say now: of an agent that is gone, anything.
pub(super) fn effect_of(hub: &Hub, row: &CallRow) -> Effect {
    let adapter = hub.adapters.of(&row.target);
    adapter.target(hub, &row.target).map_or(Effect::Manage, |target| adapter.effect(hub, &target, &row.tool))
}

/// Whether whoever has the target's name now is not who had it when the call was asked for.
fn is_another(hub: &Hub, agent: &Agent, row: &CallRow) -> bool {
    let since = hub.adapters.of(&row.target).admitted_at(hub, agent, &args_of(row));
    since.is_some_and(|since| since > row.created_at)
}

/// Ends the calls that wait, for a person or their machine, and would go to an agent that is trusted no longer.
pub async fn withdraw(hub: &Hub, by: &Caller, target: &PeerId, why: &str) -> Result<(), StoreError> {
    deny_waiting(hub, by, why, |row| row.target == *target).await
}

/// The same for those that a token asked for which is revoked.
pub async fn withdraw_of(hub: &Hub, by: &Caller, asker: TokenId) -> Result<(), StoreError> {
    deny_waiting(hub, by, "the caller's token was revoked", |row| row.caller == asker).await
}

async fn deny_waiting(hub: &Hub, by: &Caller, why: &str, which: impl Fn(&CallRow) -> bool) -> Result<(), StoreError> {
    for state in OPEN {
        for (approval, row) in super::recover::all(hub, state).await? {
            if which(&row) {
                end_waiting(hub, by, &approval, &row, code::DENIED, why).await?;
            }
        }
    }
    Ok(())
}

/// Ends a call that began to wait when its asker's token was out of force already.
pub(super) async fn end_unwanted(hub: &Hub, approval: &Approval, row: &CallRow) -> Result<(), StoreError> {
    let mut record = about(approval.id, row, clock::now()).detail(&json!({ "reason": NOT_IN_FORCE }));
    record.decision = Some(Decision::Rejected);
    let (from, to) = (ApprovalState::Pending, ApprovalState::Denied);
    let moved = ApprovalMove { id: approval.id, from, to, decided_by: None, record };
    end_approval(hub, row, moved, code::DENIED, NOT_IN_FORCE.into(), Decision::Rejected).await.map(drop)
}

/// Who asked takes a call back that has not gone out. False when it has, or has ended.
pub async fn take_back(hub: &Hub, by: &Caller, id: ApprovalId) -> Result<bool, convoke_store::StoreError> {
    let (task_hub, by) = (hub.clone(), by.clone());
    let taking_back = async move {
        let Some((approval, row)) = task_hub.store.approval(id).await? else { return Ok(false) };
        end_waiting(&task_hub, &by, &approval, &row, code::CANCELLED, "the caller cancelled the call").await
    };
    to_its_end(hub, taking_back).await
}

/// Ends all calls that wait, for a person or their machine; answers how many.
pub(super) async fn end_open(hub: &Hub, why: &str) -> Result<usize, convoke_store::StoreError> {
    let mut ended = 0;
    for from in OPEN {
        for (approval, row) in super::recover::all(hub, from).await? {
            let mut record = about(approval.id, &row, clock::now()).detail(&json!({ "reason": why }));
            record.decision = Some(Decision::Expired);
            let moved = ApprovalMove { id: approval.id, from, to: ApprovalState::Expired, decided_by: None, record };
            let end = end_approval(hub, &row, moved, code::INTERRUPTED, why.to_owned(), Decision::Expired).await?;
            ended += usize::from(end.is_some());
        }
    }
    Ok(ended)
}

/// The states in which an approval's call has not gone out: it waits for a person, or after a stop for its machine.
const OPEN: [ApprovalState; 2] = [ApprovalState::Pending, ApprovalState::Approved];

/// Ends one call that has not gone out. False when it has, or has ended.
async fn end_waiting(
    hub: &Hub,
    by: &Caller,
    approval: &Approval,
    row: &CallRow,
    code: &'static str,
    why: &str,
) -> Result<bool, convoke_store::StoreError> {
    for from in OPEN {
        let mut record = record_of(approval, row, clock::now(), by).detail(&json!({ "reason": why }));
        record.decision = Some(Decision::Rejected);
        let (to, decided_by) = (ApprovalState::Denied, Some(by.token.id));
        let moved = ApprovalMove { id: approval.id, from, to, decided_by, record };
        let ended = end_approval(hub, row, moved, code, why.to_owned(), Decision::Rejected).await?;
        if ended.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// An approval as the API shows it. Who decides, and who asked, sees the arguments as they are: a person must see all of
/// what they allow, and what looks like a secret may be a command. Others see them without secrets.
pub fn view(hub: &Hub, viewer: &Token, approval: &Approval, row: &CallRow) -> ApprovalView {
    let decides = || {
        viewer.grant.check(Right::Approve)?;
        viewer.grant.check_scopes(effect_of(hub, row), &row.tool)?;
        check_reach(hub, viewer, row)
    };
    let exact = row.caller == viewer.id || decides().is_ok();
    let open = matches!(approval.state, ApprovalState::Pending | ApprovalState::Approved);
    let args = row
        .args
        .as_ref()
        .filter(|_| open)
        .and_then(|a| std::str::from_utf8(a.reveal()).ok())
        .and_then(|text| RawValue::from_string(text.to_owned()).ok())
        .map(|raw| if exact { raw } else { redact::args(&raw) });
    let asker = hub.operators.find(row.caller);
    ApprovalView {
        id: approval.id,
        call_id: approval.call_id,
        state: approval.state.name().into(),
        owner: asker.as_ref().and_then(|asker| asker.owner.clone()),
        second_person: approval.second_person || !asker.as_ref().is_some_and(|t| t.grant.is_for_assistant()),
        caller: asker.map_or_else(|| row.caller.to_string(), |asker| asker.name.clone()),
        door: row.door.name().into(),
        target: row.target.as_str().into(),
        tool: row.tool.clone(),
        args,
        args_digest: row.args_digest.clone(),
        created_at: approval.created_at,
        expires_at: approval.expires_at,
    }
}
