//! The fleet's health over time, over HTTP.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use convoke_api::fleet::{FleetAt, FleetAtQuery, FleetBucket, FleetHistory, FleetHistoryQuery, FleetThen};
use convoke_core::health::Overall;
use convoke_core::id::PeerId;
use convoke_core::time::Timestamp;
use convoke_store::HealthRow;

use convoke_doors::ApiError;
use convoke_doors::agents::in_reach;
use convoke_doors::extract::{By, Json, QueryOf};
use convoke_gate::clock;
use convoke_gate::hub::Hub;
use convoke_gate::operators::Caller;
use convoke_gate::resolve::is_shown;

/// Most changes of one agent that a history is made from.
const MAX_CHANGES: u32 = 20_000;
/// Most days of a history.
const MAX_DAYS: u32 = 90;
const HOUR_MS: i64 = 3_600_000;

#[utoipa::path(get, path = "/api/fleet/history", params(FleetHistoryQuery), responses((status = 200, body = FleetHistory)), tag = "fleet")]
/// How many agents were well, hour by hour or day by day: each counts with the worst that it was in that time.
pub async fn history(
    State(hub): State<Hub>,
    By(caller): By,
    QueryOf(query): QueryOf<FleetHistoryQuery>,
) -> Result<Json<FleetHistory>, ApiError> {
    let days = query.days.unwrap_or(30);
    if !(1..=MAX_DAYS).contains(&days) {
        return Err(ApiError::bad_request(format!("`days` must be from 1 to {MAX_DAYS}")));
    }
    let step = match query.bucket.as_deref() {
        None | Some("day") => 24 * HOUR_MS,
        Some("hour") => HOUR_MS,
        Some(_) => return Err(ApiError::bad_request("`bucket` must be hour or day")),
    };
    let agents = match &query.agent {
        Some(text) => vec![in_reach(&hub, &caller, text).await?],
        None => hub
            .agents
            .list(None)
            .iter()
            .filter(|agent| is_shown(&caller.token.grant.scopes, agent))
            .cloned()
            .collect(),
    };
    let now = clock::now().millis();
    // Whole ones, and the one that is not over.
    let first = (now - i64::from(days) * 24 * HOUR_MS).div_euclid(step) * step + step;
    let count = usize::try_from((now - first).div_euclid(step) + 1).unwrap_or_default();
    let from = Timestamp::from_millis(first);
    let mut buckets = vec![[0_u32; 4]; count];
    let mut truncated = false;
    // One agent at a time: what a whole fleet kept in months would take too much memory.
    for agent in agents {
        let rows = hub.store.health_changes(Some(&agent.id), from, clock::now(), MAX_CHANGES).await?;
        truncated |= rows.len() == MAX_CHANGES as usize;
        if !rows.is_empty() {
            count_agent(&mut buckets, &rows, first, step);
        }
    }
    let buckets = buckets.iter().zip(0_i64..).map(|([_, ok, warn, crit], n)| FleetBucket {
        at: Timestamp::from_millis(first + n * step),
        ok: *ok,
        warn: *warn,
        crit: *crit,
    });
    Ok(Json(FleetHistory { buckets: buckets.collect(), truncated }))
}

/// Counts one agent's changes, which are in order, into each bucket that it was known in.
fn count_agent(buckets: &mut [[u32; 4]], rows: &[HealthRow], first: i64, step: i64) {
    let mut rows = rows.iter().peekable();
    let mut current = Overall::Unknown;
    for (bucket, n) in buckets.iter_mut().zip(1_i64..) {
        let mut worst = current;
        while let Some(row) = rows.next_if(|row| row.at.millis() < first + n * step) {
            current = row.overall;
            // What held when the first one began is no change in it.
            worst = if row.at.millis() < first { current } else { worst.max(current) };
        }
        bucket[worst as usize] += 1;
    }
}

#[utoipa::path(get, path = "/api/fleet/at", params(FleetAtQuery), responses((status = 200, body = FleetAt)), tag = "fleet")]
/// The fleet's health as it was at a moment.
pub async fn at(
    State(hub): State<Hub>,
    By(caller): By,
    QueryOf(query): QueryOf<FleetAtQuery>,
) -> Result<Json<FleetAt>, ApiError> {
    let at = Timestamp::parse(&query.time)
        .ok_or_else(|| ApiError::bad_request("`time` must be an RFC 3339 time, as 2026-11-19T12:00:00Z"))?;
    // One row for each agent.
    let rows = hub.store.health_changes(None, at, at, u32::MAX).await?;
    let mut overall = Overall::Unknown;
    let mut agents = Vec::new();
    for row in rows.iter().filter(|row| sees_agent(&hub, &caller, &row.agent)) {
        overall = overall.max(row.overall);
        let sections: BTreeMap<String, String> = serde_json::from_str(&row.sections).unwrap_or_default();
        let overall = row.overall.name().into();
        agents.push(FleetThen { agent_id: row.agent.to_string(), since: row.at, overall, sections });
    }
    Ok(Json(FleetAt { at, overall: overall.name().into(), agents }))
}

/// Whether an agent, there or no longer, is within reach.
pub(crate) fn sees_agent(hub: &Hub, caller: &Caller, agent: &PeerId) -> bool {
    let tags = hub.agents.find(agent.as_str()).map(|agent| Arc::clone(&agent.state().tags)).unwrap_or_default();
    caller.token.grant.scopes.reaches(agent.as_str(), &tags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_counts_with_the_worst_that_it_was() {
        let row = |at: i64, overall| HealthRow {
            agent: "pc".parse().expect("an id"),
            at: Timestamp::from_millis(at),
            overall,
            sections: String::new(),
            since: String::new(),
        };
        let mut buckets = vec![[0; 4]; 4];
        let rows = [row(95, Overall::Crit), row(105, Overall::Ok), row(115, Overall::Warn), row(117, Overall::Ok)];
        count_agent(&mut buckets, &rows, 100, 10);
        let worst = |bucket: &[u32; 4]| bucket.iter().position(|n| *n == 1);
        assert_eq!(buckets.iter().map(worst).collect::<Vec<_>>(), [Some(3), Some(2), Some(1), Some(1)]);
        let mut buckets = vec![[0; 4]; 2];
        count_agent(&mut buckets, &rows[2..], 100, 10);
        assert_eq!(buckets.iter().map(worst).collect::<Vec<_>>(), [Some(0), Some(2)], "not known at first");
    }
}
