//! What waits for a person, over HTTP.

use std::collections::BTreeMap;

use axum::extract::State;
use convoke_api::inbox::{Inbox, Waiting};
use convoke_core::approval::ApprovalState;
use convoke_core::grant::Right;
use convoke_core::health::Status;
use convoke_core::time::Timestamp;
use serde_json::json;

use convoke_doors::ApiError;
use convoke_doors::extract::{By, Json};
use convoke_gate::calls;
use convoke_gate::clock;
use convoke_gate::hub::Hub;
use convoke_gate::operators::Caller;
use convoke_store::RunFilter;

use crate::fleet_history::sees_agent;

/// Most of each kind that are listed.
const MOST: usize = 100;
/// Most approvals that are looked at for those that may be decided.
const LOOKED_AT: u32 = 1000;

#[utoipa::path(get, path = "/api/inbox", responses((status = 200, body = Inbox)), tag = "people")]
/// List everything that waits for whoever asks: approvals, pairings, lobbies, attestation changes, findings.
pub async fn inbox(State(hub): State<Hub>, By(caller): By) -> Result<Json<Inbox>, ApiError> {
    let mut inbox = Inbox { findings: findings(&hub, &caller).await?, ..Inbox::default() };
    if caller.token.grant.check(Right::Approve).is_ok() {
        let rows = hub.store.approvals(Some(ApprovalState::Pending), None, LOOKED_AT).await?;
        let decidable = rows.iter().filter(|(approval, row)| calls::may_decide(&hub, &caller, approval, row));
        inbox.approvals = decidable.map(|(a, row)| calls::view(&hub, &caller.token, a, row)).collect();
    }
    for part in hub.parts.iter() {
        part.waiting(&hub, &caller, &mut inbox);
    }
    let Inbox { approvals, pairings, lobby, attestation, findings, more } = &mut inbox;
    *more = approvals.len() > MOST;
    approvals.truncate(MOST);
    for list in [pairings, lobby, attestation, findings] {
        *more |= list.len() > MOST;
        list.truncate(MOST);
    }
    Ok(Json(inbox))
}

/// The sections that are not well of agents within reach, and what runbooks found there.
async fn findings(hub: &Hub, caller: &Caller) -> Result<Vec<Waiting>, ApiError> {
    let mut found = Vec::new();
    for agent in hub.agents.list(None).iter() {
        let state = agent.state();
        let reached = caller.token.grant.scopes.reaches(agent.id.as_str(), &state.tags);
        let Some(sections) = state.sections.as_deref().filter(|_| reached) else { continue };
        // Written by the hub itself.
        let sections: BTreeMap<String, Status> = serde_json::from_str(sections).unwrap_or_default();
        found.extend(sections.into_iter().filter(|(_, status)| *status >= Status::Warn).map(|(section, status)| {
            let known = hub.health.unwell(&agent.id, &section);
            let before = known.as_ref().and_then(|known| known.before).map(Status::name);
            let detail =
                json!({ "agent": agent.id.as_str(), "section": section, "status": status.name(), "before": before });
            let at = known.map(|known| Timestamp::from_millis(known.since));
            let waiting = Waiting { id: agent.id.to_string(), subject: section, at, until: None, detail };
            (status, waiting)
        }));
    }
    let day_ago = Timestamp::from_millis(clock::now().millis() - 86_400_000);
    let filter = RunFilter { since: Some(day_ago), unwell: true, limit: u32::MAX, ..RunFilter::default() };
    for run in hub.store.runs(filter).await? {
        if sees_agent(hub, caller, &run.agent) {
            let detail = json!({
                "agent": run.agent.as_str(), "runbook": run.runbook, "status": run.status.name(), "titles": run.titles,
                "run": run.id,
            });
            let id = run.agent.to_string();
            found.push((run.status, Waiting { id, subject: run.runbook, at: Some(run.at), until: None, detail }));
        }
    }
    // What a person had looked for stands before what every machine tells, and is not cut off with the end of the list.
    let is_section = |waiting: &Waiting| waiting.detail.get("section").is_some();
    found.sort_by_cached_key(|(status, waiting)| {
        (std::cmp::Reverse(*status), is_section(waiting), waiting.id.clone())
    });
    Ok(found.into_iter().map(|(_, waiting)| waiting).collect())
}
