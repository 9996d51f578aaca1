//! Runs of runbooks over HTTP.

use axum::extract::State;
use convoke_api::runs::{RunList, RunQuery, RunShown, RunView};
use convoke_core::grant::Role;
use convoke_core::id::RunId;
use convoke_store::{RunFilter, RunRow};

use convoke_doors::ApiError;
use convoke_doors::agents::in_reach;
use convoke_doors::extract::{By, Json, PathOf, QueryOf, limit};
use convoke_doors::telemetry::raw;
use convoke_gate::hub::Hub;
use convoke_gate::operators::Caller;

use crate::fleet_history::sees_agent;

#[utoipa::path(get, path = "/api/runs", params(RunQuery), responses((status = 200, body = RunList)), tag = "fleet")]
/// List runs of runbooks, newest first.
pub async fn list(
    State(hub): State<Hub>,
    By(caller): By,
    QueryOf(query): QueryOf<RunQuery>,
) -> Result<Json<RunList>, ApiError> {
    let agent = match &query.agent {
        Some(text) => Some(in_reach(&hub, &caller, text).await?.id.clone()),
        None => None,
    };
    let before = match &query.after {
        Some(text) => Some(find(&hub, &caller, text).await.map(|(row, _)| (row.at, row.id))?),
        None => None,
    };
    let limit = limit(query.limit)?;
    let filter = RunFilter { agent, runbook: query.runbook, before, limit, ..RunFilter::default() };
    let rows = hub.store.runs(filter).await?;
    let next = rows.last().filter(|_| rows.len() == limit as usize).map(|row| row.id.to_string());
    let seen = rows.into_iter().filter(|row| sees_agent(&hub, &caller, &row.agent));
    Ok(Json(RunList { runs: seen.map(|row| view(&hub, row)).collect(), next }))
}

#[utoipa::path(get, path = "/api/runs/{id}", params(("id" = String, Path)), responses((status = 200, body = RunShown)), tag = "fleet")]
/// One run of a runbook, with what each probe gave.
pub async fn show(
    State(hub): State<Hub>,
    By(caller): By,
    PathOf(id): PathOf<String>,
) -> Result<Json<RunShown>, ApiError> {
    let (row, result) = find(&hub, &caller, &id).await?;
    let earlier = RunFilter {
        agent: Some(row.agent.clone()),
        runbook: Some(row.runbook.clone()),
        before: Some((row.at, row.id)),
        limit: 1,
        ..RunFilter::default()
    };
    let before = hub.store.runs(earlier).await?.pop().map(|row| row.id);
    let result = if reads(&caller, &row) { Some(raw(result)?) } else { None };
    Ok(Json(RunShown { run: view(&hub, row), result, before }))
}

async fn find(hub: &Hub, caller: &Caller, id: &str) -> Result<(RunRow, String), ApiError> {
    let unknown = || ApiError::not_found("the run does not exist, or is kept no longer");
    let id: RunId = id.parse().map_err(|_| unknown())?;
    let found = hub.store.run(id).await?.filter(|(row, _)| sees_agent(hub, caller, &row.agent));
    found.ok_or_else(unknown)
}

/// Whether somebody may read what the probes gave. It may be more than they could ask for themselves.
fn reads(caller: &Caller, row: &RunRow) -> bool {
    let grant = &caller.token.grant;
    let asks_anything = grant.role > Role::Viewer && grant.scopes.tools.is_none() && grant.scopes.effects.is_none();
    asks_anything || row.caller == caller.token.id
}

fn view(hub: &Hub, row: RunRow) -> RunView {
    RunView {
        id: row.id,
        agent: row.agent.to_string(),
        runbook: row.runbook,
        who: hub.operators.find(row.caller).map(|token| token.name.clone()),
        at: row.at,
        status: row.status.name().into(),
        titles: row.titles,
        summary: row.summary,
    }
}
