//! The journal and the logs over HTTP.

use axum::extract::State;
use convoke_api::record::{CheckpointPage, CheckpointQuery, JournalPage, JournalQuery, LogEntry, LogPage, LogQuery};
use convoke_core::id::PeerId;
use convoke_store::{LogFilter, LogRow, PAGE_BYTES};
use serde_json::value::RawValue;

use convoke_doors::ApiError;
use convoke_doors::extract::{By, Json, QueryOf, limit};
use convoke_doors::journal::{asked_about, journal_page, visible};
use convoke_gate::hub::Hub;

#[utoipa::path(get, path = "/api/journal", params(JournalQuery), responses((status = 200, body = JournalPage)), tag = "record")]
/// The journal, in order.
pub async fn journal(
    State(hub): State<Hub>,
    By(caller): By,
    QueryOf(query): QueryOf<JournalQuery>,
) -> Result<Json<JournalPage>, ApiError> {
    journal_page(&hub, &caller, query, None).await.map(Json)
}

#[utoipa::path(get, path = "/api/journal/checkpoints", params(CheckpointQuery), responses((status = 200, body = CheckpointPage)), tag = "record")]
/// List the signed checkpoints of the journal, in order.
pub async fn checkpoints(
    State(hub): State<Hub>,
    _: By,
    QueryOf(query): QueryOf<CheckpointQuery>,
) -> Result<Json<CheckpointPage>, ApiError> {
    let limit = limit(query.limit)?;
    let checkpoints = hub.store.checkpoints(query.after, limit).await?;
    let next = (checkpoints.len() == limit as usize).then(|| checkpoints.last().map(|c| c.seq)).flatten();
    Ok(Json(CheckpointPage { checkpoints, next }))
}

#[utoipa::path(get, path = "/api/logs", params(LogQuery), responses((status = 200, body = LogPage)), tag = "record")]
/// Log lines, in order of arrival.
pub async fn logs(
    State(hub): State<Hub>,
    By(caller): By,
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
    let filter = LogFilter {
        agent,
        level: query.level,
        text: query.text.filter(|text| !text.is_empty()),
        after: query.after,
        before: query.before,
        limit,
    };
    let rows = hub.store.logs(filter).await?;
    let is_full = rows.len() == limit as usize || rows.iter().map(LogRow::bytes).sum::<usize>() >= PAGE_BYTES;
    let next = is_full.then(|| rows.last().map(|r| r.id)).flatten();
    let entries = rows
        .into_iter()
        .filter(|row| visible(&hub, &caller, row.agent.as_ref().map(PeerId::as_str)))
        .map(entry)
        .collect();
    Ok(Json(LogPage { entries, next }))
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
