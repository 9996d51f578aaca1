//! Calls over HTTP.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse;
use bytes::Bytes;
use convoke_api::calls::{CallFailure, CallPending, CallReply, CallRequest, CallStatus, PendingApproval, WaitQuery};
use convoke_core::call::CallState;
use convoke_core::grant::Role;
use convoke_core::id::CallId;
use convoke_store::JournalFilter;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::ApiError;
use super::doors::record_refusal;
use super::extract::{Json, PathOf, QueryOf, json_bytes};
use crate::calls::{self, Ask, Call, Done, MAX_IDEMPOTENCY_KEY, PlaceError, Placed};
use crate::hub::Hub;
use crate::operators::Caller;

/// Longest wait on a call.
pub(crate) const MAX_WAIT_S: f64 = 300.0;

/// Where calls are made.
pub(super) const PATH: &str = "/api/agents/{id}/call";

#[utoipa::path(post, path = "/api/agents/{id}/call", request_body = CallRequest, params(("id" = String, Path)),
    responses((status = 200, body = CallReply), (status = 202, body = CallPending), (status = 409)), tag = "calls")]
/// Ask an agent for something.
pub(super) async fn call(
    State(hub): State<Hub>,
    caller: Caller,
    PathOf(id): PathOf<String>,
    Json(request): Json<CallRequest>,
) -> Result<Response<Body>, ApiError> {
    let agent = super::agents::in_reach(&hub, &caller, &id).await?;
    let timeout = request.timeout_s.map(|s| seconds(s, "timeout_s")).transpose()?;
    if request.tool.is_empty() || request.tool.len() > 128 {
        return Err(ApiError::bad_request("`tool` must have 1 to 128 characters"));
    }
    if let Some(key) = &request.idempotency_key
        && (key.is_empty() || key.len() > MAX_IDEMPOTENCY_KEY)
    {
        return Err(ApiError::bad_request("`idempotency_key` must have 1 to 128 characters"));
    }
    let args = match request.args {
        Some(args) => args,
        None => RawValue::from_string("{}".into()).map_err(|_| ApiError::internal())?,
    };
    let ask = Ask { caller, agent, tool: request.tool, args, timeout, idempotency_key: request.idempotency_key };
    place(&hub, ask).await
}

/// Places a call and answers with its end, or with the approval it waits for.
pub(super) async fn place(hub: &Hub, ask: Ask) -> Result<Response<Body>, ApiError> {
    match calls::place_here(hub, ask).await {
        Ok(Placed::Running(call)) => {
            let done = call.wait().await;
            Ok(answered(&call, done))
        }
        Ok(Placed::Pending { call, approval, expires_at }) => {
            let approval = PendingApproval { id: approval, expires_at };
            Ok((StatusCode::ACCEPTED, Json(CallPending { approval, call_id: call.id })).into_response())
        }
        Err(error) => Err(refused(error)),
    }
}

/// Why a call was not placed.
pub(super) fn refused(error: PlaceError) -> ApiError {
    match error {
        PlaceError::Denied(missing) => ApiError::forbidden(&missing),
        PlaceError::NotInForce => ApiError::unauthorized(&error.to_string()),
        PlaceError::BadArgs(why) => ApiError::bad_request(why),
        PlaceError::KeyReused => ApiError::conflict(error.to_string()),
        PlaceError::Busy(why) => ApiError::busy(why),
        PlaceError::Limited { message, retry_after_s } => ApiError::limited(message, retry_after_s),
        PlaceError::Store(error) => error.into(),
    }
}

/// An answer's text around the result.
const AROUND: usize = 128;

fn answered(call: &Call, done: &Done) -> Response<Body> {
    match (done.is_ok() && done.message.is_none(), done.duration_ms) {
        (true, Some(ms)) => {
            let body = succeeded(call.id, done.result.as_deref().unwrap_or(RawValue::NULL), ms);
            json_bytes(body_of(Some(done), body))
        }
        _ => Json(reply(call, done)).into_response(),
    }
}

/// A body with the answer in it.
fn body_of(done: Option<&Done>, body: String) -> Bytes {
    match done.and_then(|done| done.result.as_ref()) {
        Some(told) => told.in_body(body),
        None => body.into(),
    }
}

/// What [`Reply`] is for a call that succeeded. By hand, since every call takes one.
fn succeeded(id: CallId, result: &RawValue, ms: u64) -> String {
    let mut text = String::with_capacity(AROUND + result.get().len());
    text.extend(["{\"ok\":true,\"result\":", result.get(), ",\"call_id\":\""]);
    text.push_str(id.uuid().as_hyphenated().encode_lower(&mut uuid::Uuid::encode_buffer()));
    // Writing to a String cannot fail.
    let _ = write!(text, "\",\"duration_ms\":{ms}}}");
    text
}

/// The answer to a call. The result goes out as the agent's own bytes.
#[derive(Serialize)]
pub(super) struct Reply<'a> {
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

pub(super) fn reply<'a>(call: &Call, done: &'a Done) -> Reply<'a> {
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

#[utoipa::path(get, path = "/api/calls/{id}", params(("id" = String, Path), WaitQuery),
    responses((status = 200, body = CallStatus)), tag = "calls")]
/// Show the state of a call; with `wait_s`, wait for its end.
pub(super) async fn show(
    State(hub): State<Hub>,
    caller: Caller,
    PathOf(id): PathOf<String>,
    QueryOf(query): QueryOf<WaitQuery>,
) -> Result<Response<Body>, ApiError> {
    let unknown = || ApiError::not_found("the call does not exist");
    let id: CallId = id.parse().map_err(|_| unknown())?;
    let wait = query.wait_s.map(|s| seconds(s.clamp(0.0, MAX_WAIT_S), "wait_s")).transpose()?;
    match find(&hub, &caller, id).await? {
        Found::Kept(call) => {
            if let Some(wait) = wait {
                // What runs is waited for at a stop; nobody decides any more on what waits for a person.
                let in_vain = async {
                    hub.stopping.cancelled().await;
                    if call.state() != CallState::Waiting {
                        std::future::pending::<()>().await;
                    }
                };
                tokio::select! {
                    _ = tokio::time::timeout(wait, call.wait()) => {}
                    () = in_vain => {}
                }
            }
            let body = serde_json::to_string(&status(&call)).map_err(|_| ApiError::internal())?;
            Ok(json_bytes(body_of(call.done(), body)))
        }
        Found::Recorded(status) => Ok(Json(*status).into_response()),
    }
}

#[utoipa::path(delete, path = "/api/calls/{id}", params(("id" = String, Path)),
    responses((status = 200, body = CallStatus), (status = 403), (status = 404), (status = 409)), tag = "calls")]
/// Take back a call of one's own that waits for a person. One that is under way cannot be called back.
pub(super) async fn take_back(
    State(hub): State<Hub>,
    caller: Caller,
    PathOf(id): PathOf<String>,
) -> Result<Json<CallStatus>, ApiError> {
    let id: CallId = id.parse().map_err(|_| ApiError::not_found("the call does not exist"))?;
    Ok(Json(status(&taken_back(&hub, &caller, id).await?)))
}

/// Takes back a call that waits, for who asked.
pub(crate) async fn taken_back(hub: &Hub, caller: &Caller, id: CallId) -> Result<Arc<Call>, ApiError> {
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

/// A call that someone asks after.
pub(crate) enum Found {
    /// The hub still has it.
    Kept(Arc<Call>),
    /// It is only in the journal any more: its outcome without its result.
    Recorded(Box<CallStatus>),
}

/// A call that is the caller's to see.
pub(crate) async fn find(hub: &Hub, caller: &Caller, id: CallId) -> Result<Found, ApiError> {
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

/// Whether calls of others to this peer are the caller's to see.
fn sees_others(hub: &Hub, caller: &Caller, target: &str) -> bool {
    let tags = hub.agents.find(target).map(|a| Arc::clone(&a.state().tags)).unwrap_or_default();
    caller.token.grant.role == Role::Admin && caller.token.grant.scopes.reaches(target, &tags)
}

fn status(call: &Arc<Call>) -> CallStatus {
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
            .map(|(id, expires_at)| PendingApproval { id, expires_at }),
    }
}

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

fn seconds(value: f64, name: &str) -> Result<Duration, ApiError> {
    Duration::try_from_secs_f64(value)
        .ok()
        .filter(|d| !d.is_zero() || name == "wait_s")
        .ok_or_else(|| ApiError::bad_request(format!("`{name}` must be a number of seconds above 0 and below 2^64")))
}

#[cfg(test)]
mod tests {
    use convoke_core::id::TokenId;

    use super::*;
    use crate::clock;

    #[test]
    fn a_success_is_written_as_it_serialises() {
        let (id, caller) = (CallId::new(clock::uuid()), TokenId::new(clock::uuid()));
        let call = Call::new(id, caller, "pc".parse().expect("an id"), "fs_list".into(), CallState::Running);
        for result in [r#"{"entries": []}"#, "null", "\"\\u0000\""] {
            let result = RawValue::from_string(result.into()).expect("JSON");
            let written = succeeded(id, &result, 12);
            let done = Done {
                outcome: "ok".into(),
                result: Some(result.into()),
                message: None,
                duration_ms: Some(12),
                by_agent: false,
            };
            assert_eq!(written, serde_json::to_string(&reply(&call, &done)).expect("serialises"));
        }
    }
}
