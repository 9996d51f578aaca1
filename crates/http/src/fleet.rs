//! The fleet's health and snapshots over HTTP.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::State;
use axum::http::Response;
use convoke_api::fleet::{Fleet, FleetQuery, History, HistoryEntry, HistoryQuery, Snapshot, SnapshotQuery};
use convoke_core::json::{self, member};
use convoke_core::time::Timestamp;
use convoke_store::{Before, PAGE_BYTES, SnapshotRow};
use hyper::body::Frame;

use convoke_doors::ApiError;
use convoke_doors::extract::{By, Json, PathOf, QueryOf, json_bytes, limit};
use convoke_doors::telemetry::{latest_health, latest_snapshot, only, raw};
use convoke_gate::fleet;
use convoke_gate::hub::Hub;

#[utoipa::path(get, path = "/api/fleet", params(FleetQuery), responses((status = 200, body = Fleet)), tag = "fleet")]
/// Every agent's health at a glance.
pub async fn overview(
    State(hub): State<Hub>,
    By(caller): By,
    QueryOf(query): QueryOf<FleetQuery>,
) -> Result<Response<Body>, ApiError> {
    if query.limit == Some(0) {
        return Err(ApiError::bad_request("`limit` must be at least 1"));
    }
    let limit = query.limit.map(|n| n as usize);
    let mut overview =
        fleet::Overview::new(&hub.agents, caller.token.grant.scopes.clone(), query.after.as_deref(), limit);
    let first = overview.next().unwrap_or_default();
    if overview.has_ended() {
        return Ok(json_bytes(first));
    }
    Ok(json_bytes(Body::new(Pieces { first: Some(first), rest: overview })))
}

/// A view that is made while it is sent: no faster than whoever asked takes it.
struct Pieces {
    first: Option<String>,
    rest: fleet::Overview,
}

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = self.first.take().or_else(|| self.rest.next());
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece.into()))))
    }
}

#[utoipa::path(get, path = "/api/agents/{id}/snapshot", params(("id" = String, Path), SnapshotQuery),
    responses((status = 200, body = Snapshot)), tag = "fleet")]
/// The latest telemetry of an agent with the hub's verdict; with `section`, that one only.
pub async fn snapshot(
    State(hub): State<Hub>,
    By(caller): By,
    PathOf(id): PathOf<String>,
    QueryOf(query): QueryOf<SnapshotQuery>,
) -> Result<Json<Snapshot>, ApiError> {
    latest_snapshot(&hub, &caller, &id, query.section.as_deref()).await.map(Json)
}

#[utoipa::path(get, path = "/api/agents/{id}/health", params(("id" = String, Path)), responses((status = 200)), tag = "fleet")]
/// Status and summary of each section of an agent.
pub async fn health(
    State(hub): State<Hub>,
    By(caller): By,
    PathOf(id): PathOf<String>,
) -> Result<Json<serde_json::Value>, ApiError> {
    latest_health(&hub, &caller, &id).await.map(Json)
}

#[utoipa::path(get, path = "/api/agents/{id}/snapshots", params(("id" = String, Path), HistoryQuery),
    responses((status = 200, body = History)), tag = "fleet")]
/// An agent's past snapshots, newest first: the verdicts, without payloads.
pub async fn history(
    State(hub): State<Hub>,
    By(caller): By,
    PathOf(id): PathOf<String>,
    QueryOf(query): QueryOf<HistoryQuery>,
) -> Result<Json<History>, ApiError> {
    let agent = convoke_doors::agents::in_reach(&hub, &caller, &id).await?;
    let before = query.before.map(|text| before(&text)).transpose()?;
    let limit = limit(query.limit)?;
    let rows = hub.store.snapshots(&agent.id, before, limit).await?;
    let bytes: usize = rows.iter().map(SnapshotRow::bytes).sum();
    let is_full = rows.len() == limit as usize || bytes >= PAGE_BYTES;
    let next = rows.last().filter(|_| is_full).map(|row| format!("{}{PLACE}{}", row.received_at, row.id));
    let snapshots = rows.into_iter().map(|row| entry(row, query.section.as_deref())).collect::<Result<_, _>>()?;
    Ok(Json(History { snapshots, next }))
}

fn entry(row: SnapshotRow, section: Option<&str>) -> Result<HistoryEntry, ApiError> {
    let (overall, _) = fleet::statuses(&row.health);
    let (health, payload) = match section {
        None => (raw(row.health)?, None),
        Some(section) => (only(&row.health, section)?, member(&row.body, section).map(json::tamed)),
    };
    let (collected_at, received_at) = (row.collected_at, row.received_at.to_string());
    Ok(HistoryEntry { collected_at, received_at, overall: overall.name().into(), health, payload })
}

/// What follows the time in the `next` of a history: which one of that moment it was.
const PLACE: char = '~';

/// Where a history goes on: a time, or the `next` of the page before.
fn before(text: &str) -> Result<Before, ApiError> {
    let (time, place) = text.split_once(PLACE).map_or((text, None), |(time, place)| (time, Some(place)));
    let before = match place {
        None => Timestamp::parse(time).map(Before::Time),
        Some(place) => place.parse().ok().filter(|_| Timestamp::parse(time).is_some()).map(Before::Snapshot),
    };
    before.ok_or_else(|| ApiError::bad_request("`before` must be an RFC 3339 time, or `next` of the previous page"))
}
