//! Approvals over HTTP.

use axum::extract::State;
use axum::http::StatusCode;
use convoke_api::approvals::{ApprovalDetail, ApprovalList, ApprovalQuery, Decide, Decided, LastTime};
use convoke_core::approval::{ApprovalError, ApprovalState};
use convoke_core::grant::{Right, Role};
use convoke_core::id::{ApprovalId, CallId};
use convoke_core::journal::Kind;
use convoke_store::{APPROVALS_BYTES, JournalFilter};
use serde_json::value::RawValue;

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

/// Most records that the numbers of one approval are counted from.
const LOOKED_AT: u32 = 2_000;

#[utoipa::path(get, path = "/api/approvals/{id}", params(("id" = String, Path)), responses((status = 200, body = ApprovalDetail), (status = 404)), tag = "approvals")]
/// One approval, how often the same was approved and denied before, and what it was last time.
pub async fn show(
    State(hub): State<Hub>,
    By(caller): By,
    PathOf(id): PathOf<String>,
) -> Result<Json<ApprovalDetail>, ApiError> {
    let unknown = || ApiError::not_found("the approval does not exist");
    let id: ApprovalId = id.parse().map_err(|_| unknown())?;
    let (approval, row) = hub.store.approval(id).await?.ok_or_else(unknown)?;
    let grant = &caller.token.grant;
    let sees_all = grant.check(Right::Approve).is_ok() || grant.role == Role::Admin;
    let sees = row.caller == caller.token.id || (sees_all && calls::check_reach(&hub, &caller.token, &row).is_ok());
    if !sees {
        record_refusal(&hub, &caller, "another caller's approval", Some(row.target.as_str())).await;
        return Err(unknown());
    }
    let view = calls::view(&hub, &caller.token, &approval, &row);
    let filter = JournalFilter {
        before: Some(u64::MAX),
        limit: LOOKED_AT,
        agent: Some(view.target.clone()),
        tool: Some(view.tool.clone()),
        kind: Some(Kind::Call.name().into()),
        ..JournalFilter::default()
    };
    let records = hub.store.journal(filter).await?;
    let args_kept = view.args.as_ref().map(|args| hub.adapters.of(&row.target).shown(args));
    let mut detail = ApprovalDetail {
        args_kept,
        approved: 0,
        denied: 0,
        more: records.len() == LOOKED_AT as usize,
        last: None,
        approval: view,
    };
    for record in records {
        let Ok(record) = serde_json::from_str::<Before>(record.json.get()) else { continue };
        if record.who.as_deref() != Some(&*detail.approval.caller) || record.phase.as_deref() != Some("outcome") {
            continue;
        }
        match record.decision.as_deref() {
            // A grant for a time stands for one yes, and not for one each.
            Some("confirmed") if record.approval.is_some() => detail.approved += 1,
            Some("rejected") => detail.denied += 1,
            _ => {}
        }
        if detail.last.is_none() && matches!(record.decision.as_deref(), Some("allowed" | "confirmed")) {
            detail.last = Some(LastTime {
                same_args: record.args_digest.as_deref() == Some(&*row.args_digest),
                call_id: record.call_id,
                at: record.at,
                outcome: record.outcome,
                args: record.args,
            });
        }
    }
    Ok(Json(detail))
}

/// A call of the past, as the journal has it.
#[derive(serde::Deserialize)]
struct Before {
    at: String,
    call_id: CallId,
    phase: Option<String>,
    who: Option<String>,
    decision: Option<String>,
    approval: Option<ApprovalId>,
    outcome: Option<String>,
    args: Option<Box<RawValue>>,
    args_digest: Option<String>,
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
        Err(DecideError::Refused(why @ ApprovalError::OwnCall)) => Err(if body.approve {
            ApiError::new(StatusCode::FORBIDDEN, "own_call", why.to_string())
        } else {
            ApiError::new(
                StatusCode::FORBIDDEN,
                "own_call",
                "you asked for this call yourself, so you cannot deny it",
            )
            .hint("cancel it: `convoke calls list --state waiting`, then `convoke calls cancel CALL`")
        }),
        Err(DecideError::Refused(ApprovalError::StepUp)) => Err(ApiError::step_up()),
        Err(DecideError::Refused(why)) => Err(ApiError::conflict(why.to_string())),
        Err(DecideError::Store(why)) => Err(why.into()),
    }
}
