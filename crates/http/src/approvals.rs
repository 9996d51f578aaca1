//! Approvals over HTTP.

use axum::extract::State;
use axum::http::StatusCode;
use convoke_api::approvals::{ApprovalList, ApprovalQuery, Decide, Decided};
use convoke_core::approval::{ApprovalError, ApprovalState};
use convoke_core::grant::{Right, Role};
use convoke_core::id::ApprovalId;
use convoke_store::APPROVALS_BYTES;

use convoke_doors::ApiError;
use convoke_doors::extract::{By, Json, PathOf, QueryOf, limit};
use convoke_doors::keeper::record_refusal;
use convoke_gate::calls::{self, DecideError};
use convoke_gate::hub::Hub;

#[utoipa::path(get, path = "/api/approvals", params(ApprovalQuery), responses((status = 200, body = ApprovalList)), tag = "approvals")]
/// List calls that wait or waited for a person: all within the scopes of those who may approve, else your own.
pub async fn list(
    State(hub): State<Hub>,
    By(caller): By,
    QueryOf(query): QueryOf<ApprovalQuery>,
) -> Result<Json<ApprovalList>, ApiError> {
    let state = match query.state.as_deref() {
        None => Some(ApprovalState::Pending),
        Some("all") => None,
        Some(name) => Some(ApprovalState::parse(name).ok_or_else(|| {
            ApiError::bad_request("`state` must be pending, approved, denied, expired, used or all")
        })?),
    };
    let limit = limit(query.limit)?;
    let grant = &caller.token.grant;
    let sees_all = grant.check(Right::Approve).is_ok() || grant.role == Role::Admin;
    let rows = hub.store.approvals(state, query.after, limit).await?;
    let bytes: usize = rows.iter().map(|(_, row)| row.args_bytes()).sum();
    let is_full = rows.len() == limit as usize || bytes >= APPROVALS_BYTES;
    let next = is_full.then(|| rows.last().map(|(approval, _)| approval.id)).flatten();
    let visible = rows.iter().filter(|(_, row)| {
        row.caller == caller.token.id || (sees_all && calls::check_reach(&hub, &caller.token, row).is_ok())
    });
    Ok(Json(ApprovalList {
        approvals: visible.map(|(a, row)| calls::view(&hub, &caller.token, a, row)).collect(),
        next,
    }))
}

#[utoipa::path(post, path = "/api/approvals/{id}", params(("id" = String, Path)), request_body = Decide,
    responses((status = 200, body = Decided), (status = 403), (status = 404), (status = 409)), tag = "approvals")]
/// Approve or deny someone else's call.
pub async fn decide(
    State(hub): State<Hub>,
    By(caller): By,
    PathOf(id): PathOf<String>,
    Json(body): Json<Decide>,
) -> Result<Json<Decided>, ApiError> {
    let id: ApprovalId = id.parse().map_err(|_| ApiError::not_found("the approval does not exist"))?;
    if body.reason.as_ref().is_some_and(|r| r.len() > 1000) {
        return Err(ApiError::bad_request("`reason` takes at most 1000 characters"));
    }
    match calls::decide(&hub, &caller, id, body.approve, body.reason.as_deref()).await {
        Ok((state, call_id)) => Ok(Json(Decided { id, state: state.name().into(), call_id })),
        Err(DecideError::Unknown) => Err(ApiError::not_found("the approval does not exist")),
        Err(DecideError::NoRight(missing) | DecideError::OutOfReach(missing)) => {
            record_refusal(&hub, &caller, "an approval out of reach", None).await;
            Err(ApiError::forbidden(&missing))
        }
        Err(DecideError::Refused(why @ ApprovalError::OwnCall)) => {
            let refused = ApiError::new(StatusCode::FORBIDDEN, "own_call", why.to_string());
            Err(if body.approve {
                refused
            } else {
                refused.hint("use `convoke calls cancel` to cancel your own call")
            })
        }
        Err(DecideError::Refused(ApprovalError::StepUp)) => Err(ApiError::step_up()),
        Err(DecideError::Refused(why)) => Err(ApiError::conflict(why.to_string())),
        Err(DecideError::Store(why)) => Err(why.into()),
    }
}
