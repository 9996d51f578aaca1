//! How a section of an agent was over time, thinned out to as much as a chart can show.

use std::collections::BTreeMap;

use axum::extract::State;
use convoke_api::fleet::{SectionHistory, SectionHistoryQuery, SectionSample};
use convoke_core::health::Status;
use convoke_core::json;
use convoke_core::time::Timestamp;
use convoke_store::{HealthRow, SampleFilter, SampleRow};
use serde::Deserialize;

use convoke_doors::ApiError;
use convoke_doors::agents::in_reach;
use convoke_doors::extract::{By, Json, PathOf, QueryOf};
use convoke_doors::telemetry::raw;
use convoke_gate::clock;
use convoke_gate::hub::Hub;

/// Most hours of a history.
const MAX_HOURS: u32 = 720;
/// Most samples of a history.
const SAMPLES: i64 = 288;
/// Most changes of health that verdicts are made from.
const MAX_CHANGES: u32 = 20_000;

#[utoipa::path(get, path = "/api/agents/{id}/history", params(("id" = String, Path), SectionHistoryQuery),
    responses((status = 200, body = SectionHistory)), tag = "fleet")]
/// How one section of an agent was: at most 288 samples over the hours asked for, each the last of its step.
pub async fn history(
    State(hub): State<Hub>,
    By(caller): By,
    PathOf(id): PathOf<String>,
    QueryOf(query): QueryOf<SectionHistoryQuery>,
) -> Result<Json<SectionHistory>, ApiError> {
    let agent = in_reach(&hub, &caller, &id).await?.id.clone();
    let section = query.section.ok_or_else(|| ApiError::bad_request("`section` is missing"))?;
    let hours = query.hours.unwrap_or(24);
    if !(1..=MAX_HOURS).contains(&hours) {
        return Err(ApiError::bad_request(format!("`hours` must be from 1 to {MAX_HOURS}")));
    }
    let now = clock::now();
    let step_ms = i64::from(hours) * 3_600_000 / SAMPLES;
    // On whole steps, so that a chart that is read anew does not waver; the last one is not over.
    let from = Timestamp::from_millis((now.millis().div_euclid(step_ms) + 1 - SAMPLES) * step_ms);
    let changes = hub.store.health_changes(Some(&agent), from, now, MAX_CHANGES).await?;
    let changes: Vec<_> = changes.iter().map(|row| (row.at.millis(), status_of(row, &section))).collect();
    let filter = SampleFilter { agent, section, from, step_ms };
    let (rows, truncated) = hub.store.samples(filter).await?;
    let samples =
        rows.into_iter().map(|row| sample(row, &changes, from.millis(), step_ms)).collect::<Result<_, _>>()?;
    Ok(Json(SectionHistory { step_s: u64::try_from(step_ms / 1000).unwrap_or_default(), samples, truncated }))
}

/// What a section was from a change on.
fn status_of(row: &HealthRow, section: &str) -> Option<Status> {
    let sections: BTreeMap<String, String> = serde_json::from_str(&row.sections).ok()?;
    Status::parse(sections.get(section)?)
}

fn sample(
    row: SampleRow,
    changes: &[(i64, Option<Status>)],
    from: i64,
    step: i64,
) -> Result<SectionSample, ApiError> {
    #[derive(Deserialize)]
    struct Judged {
        status: String,
    }
    let judged = row.health.and_then(|health| serde_json::from_str::<Judged>(&health).ok());
    let own = judged.and_then(|judged| Status::parse(&judged.status));
    let begin = from + (row.at.millis() - from).div_euclid(step) * step;
    let status = own.max(worst_within(changes, begin, begin + step));
    Ok(SectionSample {
        at: row.at,
        status: status.map_or("unknown", Status::name).into(),
        payload: row.body.map(raw).transpose()?.map(json::tamed),
    })
}

/// The worst of what changed within a time, and of what held when it began. `changes` are in order.
fn worst_within(changes: &[(i64, Option<Status>)], begin: i64, end: i64) -> Option<Status> {
    let first = changes.partition_point(|(at, _)| *at <= begin).saturating_sub(1);
    changes[first..].iter().take_while(|(at, _)| *at < end).filter_map(|(_, status)| *status).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_as_bad_as_the_worst_in_it() {
        let changes = [
            (10, Some(Status::Ok)),
            (25, Some(Status::Crit)),
            (26, Some(Status::Warn)),
            (40, None),
            (50, Some(Status::Ok)),
        ];
        for (begin, end, worst) in [
            (0, 10, None),
            (10, 20, Some(Status::Ok)),
            (20, 30, Some(Status::Crit)),
            (30, 40, Some(Status::Warn)),
            (40, 50, None),
            (60, 70, Some(Status::Ok)),
        ] {
            assert_eq!(worst_within(&changes, begin, end), worst, "{begin}");
        }
        assert_eq!(worst_within(&[], 0, 10), None);
    }
}
