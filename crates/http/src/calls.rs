//! Calls over HTTP.

use axum::body::Body;
use axum::extract::State;
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse;
use bytes::Bytes;
use convoke_api::calls::{CallList, CallPending, CallQuery, CallReply, CallRequest, CallStatus, WaitQuery};
use convoke_core::call::CallState;
use convoke_core::id::CallId;
use serde_json::value::RawValue;

use convoke_doors::ApiError;
use convoke_doors::calls::{Found, MAX_WAIT_S, find, pending, reply, seconds, status, taken_back};
use convoke_doors::extract::{By, Json, PathOf, QueryOf, json_bytes};
use convoke_gate::calls::{self, Ask, Done, MAX_IDEMPOTENCY_KEY, Placed};
use convoke_gate::hub::Hub;

/// Where calls are made.
pub const PATH: &str = "/api/agents/{id}/call";

#[utoipa::path(post, path = "/api/agents/{id}/call", request_body = CallRequest, params(("id" = String, Path)),
    responses((status = 200, body = CallReply), (status = 202, body = CallPending), (status = 409)), tag = "calls")]
/// Ask an agent for something.
pub async fn call(
    State(hub): State<Hub>,
    By(caller): By,
    PathOf(id): PathOf<String>,
    Json(request): Json<CallRequest>,
) -> Result<Response<Body>, ApiError> {
    let agent = convoke_doors::agents::in_reach(&hub, &caller, &id).await?;
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
    let ask = Ask {
        caller,
        agent,
        tool: request.tool,
        args,
        timeout,
        idempotency_key: request.idempotency_key,
        requested_by: None,
    };
    place(&hub, ask).await
}

/// Places a call and answers with its end, or with the approval it waits for.
pub async fn place(hub: &Hub, ask: Ask) -> Result<Response<Body>, ApiError> {
    match calls::place(hub, ask).await {
        Ok(Placed::Running(call)) => {
            let done = call.wait().await;
            let body = serde_json::to_string(&reply(&call, done)).map_err(|_| ApiError::internal())?;
            Ok(json_bytes(body_of(Some(done), body)))
        }
        Ok(Placed::Pending { call, approval, expires_at }) => {
            let approval = pending(&call, approval, expires_at);
            Ok((StatusCode::ACCEPTED, Json(CallPending { approval, call_id: call.id })).into_response())
        }
        Err(error) => Err(error.into()),
    }
}

/// A body with the answer in it.
fn body_of(done: Option<&Done>, body: String) -> Bytes {
    match done.and_then(|done| done.result.as_ref()) {
        Some(told) => told.in_body(body),
        None => body.into(),
    }
}

#[utoipa::path(get, path = "/api/calls", params(CallQuery), responses((status = 200, body = CallList)), tag = "calls")]
/// List calls that wait or run, and the latest that ended.
pub async fn list(
    State(hub): State<Hub>,
    By(caller): By,
    QueryOf(query): QueryOf<CallQuery>,
) -> Result<Json<CallList>, ApiError> {
    convoke_doors::calls::list(&hub, &caller, &query).map(Json)
}

#[utoipa::path(get, path = "/api/calls/{id}", params(("id" = String, Path), WaitQuery),
    responses((status = 200, body = CallStatus)), tag = "calls")]
/// Show the state of a call; with `wait_s`, wait for its end.
pub async fn show(
    State(hub): State<Hub>,
    By(caller): By,
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
pub async fn take_back(
    State(hub): State<Hub>,
    By(caller): By,
    PathOf(id): PathOf<String>,
) -> Result<Json<CallStatus>, ApiError> {
    let id: CallId = id.parse().map_err(|_| ApiError::not_found("the call does not exist"))?;
    Ok(Json(status(&taken_back(&hub, &caller, id).await?)))
}
