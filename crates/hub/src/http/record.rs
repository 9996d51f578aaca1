//! The journal and the logs over HTTP.

use std::sync::Arc;

use axum::extract::State;
use convoke_api::record::{CheckpointPage, CheckpointQuery, JournalPage, JournalQuery, LogEntry, LogPage, LogQuery};
use convoke_core::id::{CallId, PeerId};
use convoke_core::journal::Kind;
use convoke_store::{JournalFilter, LogFilter, LogRow};
use serde_json::value::RawValue;

use super::ApiError;
use super::agents::in_reach;
use super::extract::{Json, QueryOf, limit};
use crate::hub::Hub;
use crate::operators::Caller;

/// Whether a caller whose reach is narrowed may see what is about this peer. What is about no peer at all (tokens,
/// policy, the hub) is not theirs to see.
fn visible(hub: &Hub, caller: &Caller, target: Option<&str>) -> bool {
    let scopes = &caller.token.grant.scopes;
    if scopes.agents.is_none() && scopes.tags.is_none() {
        return true;
    }
    let Some(target) = target else { return false };
    let tags = hub.agents.find(target).map(|a| Arc::clone(&a.state().tags)).unwrap_or_default();
    scopes.reaches(target, &tags)
}

/// Refuses to look for a peer out of the caller's reach: whether there is a next page would tell that it exists.
async fn asked_about(hub: &Hub, caller: &Caller, agent: Option<&str>) -> Result<(), ApiError> {
    match agent {
        Some(agent) if !visible(hub, caller, Some(agent)) => in_reach(hub, caller, agent).await.map(drop),
        _ => Ok(()),
    }
}

#[utoipa::path(get, path = "/api/journal", params(JournalQuery), responses((status = 200, body = JournalPage)), tag = "record")]
/// The journal, in order.
pub(super) async fn journal(
    State(hub): State<Hub>,
    caller: Caller,
    QueryOf(query): QueryOf<JournalQuery>,
) -> Result<Json<JournalPage>, ApiError> {
    journal_page(&hub, &caller, query, None).await.map(Json)
}

/// The records within a caller's reach that a query asks for, or those of one call.
pub(crate) async fn journal_page(
    hub: &Hub,
    caller: &Caller,
    query: JournalQuery,
    call_id: Option<CallId>,
) -> Result<JournalPage, ApiError> {
    #[derive(serde::Deserialize)]
    struct About {
        target: Option<String>,
    }
    let limit = limit(query.limit)?;
    if let Some(kind) = &query.kind
        && Kind::parse(kind).is_none()
    {
        let names: Vec<_> = Kind::ALL.iter().map(|k| k.name()).collect();
        return Err(ApiError::bad_request(format!("`kind` must be one of {}", names.join(", "))));
    }
    asked_about(hub, caller, query.agent.as_deref()).await?;
    let filter =
        JournalFilter { after: query.after, limit, agent: query.agent, tool: query.tool, kind: query.kind, call_id };
    let rows = hub.store.journal(filter).await?;
    let next = (rows.len() == limit as usize).then(|| rows.last().map(|r| r.seq)).flatten();
    let records = rows
        .into_iter()
        .filter(|row| {
            let about = serde_json::from_str::<About>(row.json.get()).ok();
            visible(hub, caller, about.and_then(|a| a.target).as_deref())
        })
        .map(|row| row.json)
        .collect();
    Ok(JournalPage { records, next })
}

#[utoipa::path(get, path = "/api/journal/checkpoints", params(CheckpointQuery), responses((status = 200, body = CheckpointPage)), tag = "record")]
/// List the signed checkpoints of the journal, in order.
pub(super) async fn checkpoints(
    State(hub): State<Hub>,
    _: Caller,
    QueryOf(query): QueryOf<CheckpointQuery>,
) -> Result<Json<CheckpointPage>, ApiError> {
    let limit = limit(query.limit)?;
    let checkpoints = hub.store.checkpoints(query.after, limit).await?;
    let next = (checkpoints.len() == limit as usize).then(|| checkpoints.last().map(|c| c.seq)).flatten();
    Ok(Json(CheckpointPage { checkpoints, next }))
}

#[utoipa::path(get, path = "/api/logs", params(LogQuery), responses((status = 200, body = LogPage)), tag = "record")]
/// Log lines, in order of arrival.
pub(super) async fn logs(
    State(hub): State<Hub>,
    caller: Caller,
    QueryOf(query): QueryOf<LogQuery>,
) -> Result<Json<LogPage>, ApiError> {
    let limit = limit(query.limit)?;
    let agent = query.agent.map(|id| PeerId::parse(&id)).transpose();
    let agent = agent.map_err(|why| ApiError::bad_request(format!("`agent`: {why}")))?;
    const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];
    if query.level.as_deref().is_some_and(|l| !LEVELS.contains(&l)) {
        return Err(ApiError::bad_request("`level` must be error, warn, info, debug or trace"));
    }
    asked_about(&hub, &caller, agent.as_ref().map(PeerId::as_str)).await?;
    let filter = LogFilter { agent, level: query.level, after: query.after, limit };
    let mut rows = hub.store.logs(filter).await?;
    let is_full = rows.len() == limit as usize;
    let is_cut = cut_to_size(&mut rows);
    let next = (is_full || is_cut).then(|| rows.last().map(|r| r.id)).flatten();
    let entries = rows
        .into_iter()
        .filter(|row| visible(&hub, &caller, row.agent.as_ref().map(PeerId::as_str)))
        .map(entry)
        .collect();
    Ok(Json(LogPage { entries, next }))
}

/// A page of log lines ends with so many bytes of them: agents write long ones, and pages that are not read wait in memory.
const PAGE_BYTES: usize = 1 << 20;

/// Leaves as many lines as a page holds, and one at the least. Whether there were more.
fn cut_to_size(rows: &mut Vec<LogRow>) -> bool {
    let mut size = 0;
    let fits = rows.iter().take_while(|row| {
        let before = size;
        size += row.message.len() + row.target.len() + row.fields.as_ref().map_or(0, String::len);
        before == 0 || size <= PAGE_BYTES
    });
    let (count, all) = (fits.count(), rows.len());
    rows.truncate(count);
    count < all
}

fn entry(row: LogRow) -> LogEntry {
    LogEntry {
        id: row.id,
        at: row.at,
        agent: row.agent.map(|a| a.as_str().into()),
        source: row.source,
        level: row.level,
        target: row.target,
        message: row.message,
        fields: row.fields.and_then(|text| RawValue::from_string(text).ok()),
    }
}
