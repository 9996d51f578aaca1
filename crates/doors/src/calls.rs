//! Calls as every door shows them: where one stands, its end, and taking it back.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use convoke_api::calls::{CallFailure, CallList, CallQuery, CallStatus, CallSummary, PendingApproval};
use convoke_core::call::CallState;
use convoke_core::grant::Role;
use convoke_core::id::{ApprovalId, CallId};
use convoke_core::time::Timestamp;
use convoke_gate::calls::{self, Call, Done, PlaceError};
use convoke_gate::hub::Hub;
use convoke_gate::operators::Caller;
use convoke_store::JournalFilter;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::ApiError;
use crate::extract::limit;
use crate::keeper::record_refusal;
use crate::page::Page;

impl From<PlaceError> for ApiError {
    fn from(error: PlaceError) -> Self {
        match error {
            PlaceError::Denied(missing) => Self::forbidden(&missing),
            PlaceError::NotInForce => Self::unauthorized(&error.to_string()),
            PlaceError::BadArgs(why) => Self::bad_request(why),
            PlaceError::KeyReused => Self::conflict(error.to_string()),
            PlaceError::Busy(why) => Self::busy(why),
            PlaceError::Limited { message, retry_after_s } => Self::limited(message, retry_after_s),
            PlaceError::NotReady(_) => Self::unavailable(error.to_string()),
            PlaceError::Store(error) => error.into(),
        }
    }
}

/// Longest wait on a call.
pub const MAX_WAIT_S: f64 = 300.0;

/// The answer to a call. The result goes out as the agent's own bytes.
#[derive(Debug, Serialize)]
pub struct Reply<'a> {
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<CallFailure>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'a str>,
    call_id: CallId,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<u64>,
}

pub fn reply<'a>(call: &Call, done: &'a Done) -> Reply<'a> {
    let ok = done.is_ok();
    Reply {
        ok,
        result: ok.then(|| done.result.as_deref().unwrap_or(RawValue::NULL)),
        error: failure(done),
        note: done.message.as_deref().filter(|_| ok),
        call_id: call.id,
        duration_ms: done.duration_ms,
    }
}

fn failure(done: &Done) -> Option<CallFailure> {
    let message = done.message.clone().unwrap_or_default();
    (!done.is_ok()).then(|| CallFailure { code: done.outcome.clone().into_owned(), message })
}

/// A call that someone asks after.
#[derive(Debug)]
pub enum Found {
    /// The hub still has it.
    Kept(Arc<Call>),
    /// It is only in the journal any more: its outcome without its result.
    Recorded(Box<CallStatus>),
}

/// A call that is the caller's to see.
pub async fn find(hub: &Hub, caller: &Caller, id: CallId) -> Result<Found, ApiError> {
    let unknown = || ApiError::not_found("the call does not exist");
    let call = match hub.calls.find(id) {
        Some(call) => call,
        None => match hub.store.call(id).await? {
            Some(row) => calls::of_row(hub, row).await?,
            None => return from_journal(hub, caller, id).await,
        },
    };
    // The result may hold what only the asker may see; an admin sees all, whoever may approve sees what waits.
    if call.caller != caller.token.id && !sees_others(hub, caller, call.target.as_str()) {
        record_refusal(hub, caller, "another caller's call", Some(call.target.as_str())).await;
        return Err(unknown());
    }
    Ok(Found::Kept(call))
}

/// The calls that are the caller's to see.
pub fn list(hub: &Hub, caller: &Caller, query: &CallQuery) -> Result<CallList, ApiError> {
    let limit = limit(query.limit)? as usize;
    let state = match query.state.as_deref() {
        None => None,
        Some(name) => Some(
            CallState::parse(name)
                .ok_or_else(|| ApiError::bad_request("`state` must be waiting, running or done"))?,
        ),
    };
    let is_wanted = |call: &Call| {
        state.is_none_or(|state| call.state() == state)
            && query.agent.as_ref().is_none_or(|agent| call.target.as_str() == agent)
            && (call.caller == caller.token.id || sees_others(hub, caller, call.target.as_str()))
    };
    let newest = hub.calls.newest(query.after, is_wanted);
    let (calls, next) = Page::of(newest.iter().map(|call| summary(hub, call)), limit, |call| call.call_id);
    Ok(CallList { calls, next })
}

fn summary(hub: &Hub, call: &Arc<Call>) -> CallSummary {
    let CallStatus { call_id, state, outcome, duration_ms, approval, .. } = status(call);
    CallSummary {
        call_id,
        state,
        target: call.target.as_str().into(),
        tool: call.tool.clone(),
        caller: hub.operators.find(call.caller).map(|token| token.name.clone()),
        asked_at: asked_at(call.id),
        outcome,
        duration_ms,
        approval,
    }
}

/// When a call was asked: its id begins with that.
fn asked_at(id: CallId) -> Option<Timestamp> {
    let (s, ns) = id.uuid().get_timestamp()?.to_unix();
    let ms = s.checked_mul(1000)? + u64::from(ns / 1_000_000);
    Some(Timestamp::from_millis(i64::try_from(ms).ok()?))
}

/// Takes back a call that waits, for who asked.
pub async fn taken_back(hub: &Hub, caller: &Caller, id: CallId) -> Result<Arc<Call>, ApiError> {
    let done = || ApiError::conflict("the call is done and cannot be cancelled");
    let Found::Kept(call) = find(hub, caller, id).await? else { return Err(done()) };
    if call.caller != caller.token.id {
        record_refusal(hub, caller, "cancelling another caller's call", Some(call.target.as_str())).await;
        let message = "only its caller can cancel a call; who may approve can deny it";
        return Err(ApiError::new(StatusCode::FORBIDDEN, "forbidden", message));
    }
    if let Some((approval, _)) = call.approval()
        && calls::take_back(hub, caller, approval).await?
    {
        return Ok(call);
    }
    match call.state() {
        CallState::Done => Err(done()),
        _ => Err(ApiError::conflict("the call is running and cannot be stopped")),
    }
}

/// Whether calls of others to this peer are the caller's to see.
fn sees_others(hub: &Hub, caller: &Caller, target: &str) -> bool {
    let tags = hub.agents.find(target).map(|a| Arc::clone(&a.state().tags)).unwrap_or_default();
    caller.token.grant.role == Role::Admin && caller.token.grant.scopes.reaches(target, &tags)
}

pub fn status(call: &Arc<Call>) -> CallStatus {
    let done = call.done();
    CallStatus {
        call_id: call.id,
        state: call.state().name().into(),
        target: Some(call.target.as_str().into()),
        tool: Some(call.tool.clone()),
        outcome: done.map(|d| d.outcome.clone().into_owned()),
        result: done.and_then(|d| d.result.as_deref().map(ToOwned::to_owned)),
        error: done.and_then(failure),
        note: done.filter(|d| d.is_ok()).and_then(|d| d.message.clone()),
        duration_ms: done.and_then(|d| d.duration_ms),
        approval: call
            .approval()
            .filter(|_| call.state() == CallState::Waiting)
            .map(|(id, expires_at)| pending(call, id, expires_at)),
    }
}

/// The approval that a call waits for.
pub fn pending(call: &Call, id: ApprovalId, expires_at: Timestamp) -> PendingApproval {
    PendingApproval { id, expires_at, note: call.is_in_vain().then(|| NOBODY.into()) }
}

/// Said of a call that waits in vain.
pub const NOBODY: &str = "nobody can approve this call as things are: an admin lets another user approve";

/// A call that is only in the journal any more: its outcome without its result.
async fn from_journal(hub: &Hub, caller: &Caller, id: CallId) -> Result<Found, ApiError> {
    #[derive(Deserialize)]
    struct Record {
        who: Option<String>,
        target: Option<String>,
        tool: Option<String>,
        phase: Option<String>,
        outcome: Option<String>,
        duration_ms: Option<u64>,
    }
    let filter = JournalFilter { call_id: Some(id), limit: 100, ..JournalFilter::default() };
    let rows = hub.store.journal(filter).await?;
    let record = rows
        .iter()
        .filter_map(|row| serde_json::from_str::<Record>(row.json.get()).ok())
        .find(|r| r.phase.as_deref() == Some("outcome"));
    let unknown = || ApiError::not_found("the call does not exist");
    let record = record.ok_or_else(unknown)?;
    let target = record.target.as_deref();
    if record.who.as_deref() != Some(caller.token.name.as_str())
        && !sees_others(hub, caller, target.unwrap_or_default())
    {
        record_refusal(hub, caller, "another caller's call", target).await;
        return Err(unknown());
    }
    let failed = record.outcome.as_ref().filter(|o| *o != "ok");
    let error = failed.map(|code| CallFailure { code: code.clone(), message: "see the journal".into() });
    let status = CallStatus {
        call_id: id,
        state: CallState::Done.name().into(),
        target: record.target,
        tool: record.tool,
        error,
        outcome: record.outcome,
        result: None,
        note: None,
        duration_ms: record.duration_ms,
        approval: None,
    };
    Ok(Found::Recorded(Box::new(status)))
}

pub fn seconds(value: f64, name: &str) -> Result<Duration, ApiError> {
    Duration::try_from_secs_f64(value)
        .ok()
        .filter(|d| !d.is_zero() || name == "wait_s")
        .ok_or_else(|| ApiError::bad_request(format!("`{name}` must be a number of seconds above 0 and below 2^64")))
}
