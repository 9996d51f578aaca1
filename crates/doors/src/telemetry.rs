//! Telemetry as every door shows it, of agents within the caller's reach.

use convoke_api::fleet::Snapshot;
use convoke_core::id::PeerId;
use convoke_core::json::{self, member};
use convoke_gate::fleet;
use convoke_gate::hub::Hub;
use convoke_gate::operators::Caller;
use convoke_store::SnapshotRow;
use serde_json::value::RawValue;

use crate::ApiError;
use crate::agents::in_reach;
use crate::error::clip;

async fn latest(hub: &Hub, caller: &Caller, text: &str) -> Result<(PeerId, SnapshotRow), ApiError> {
    let id = in_reach(hub, caller, text).await?.id.clone();
    match hub.store.latest_snapshot(&id).await? {
        Some(row) => Ok((id, row)),
        None => Err(ApiError::not_found(format!("agent {id} has not sent telemetry yet"))),
    }
}

/// What an agent wrote, for any program to read.
pub fn raw(text: String) -> Result<Box<RawValue>, ApiError> {
    RawValue::from_string(text).map(json::tamed).map_err(|_| ApiError::internal())
}

/// The latest telemetry of an agent within a caller's reach.
pub async fn latest_snapshot(
    hub: &Hub,
    caller: &Caller,
    agent: &str,
    section: Option<&str>,
) -> Result<Snapshot, ApiError> {
    let (id, row) = latest(hub, caller, agent).await?;
    let (overall, _) = fleet::statuses(&row.health);
    let (body, health) = match section {
        None => (raw(row.body)?, raw(row.health)?),
        Some(section) => {
            let missing = || ApiError::not_found(format!("the latest snapshot has no section `{}`", clip(section)));
            let body = member(&row.body, section).ok_or_else(missing)?;
            let health = member(&row.health, section).ok_or_else(missing)?;
            let name = serde_json::to_string(section).map_err(|_| ApiError::internal())?;
            (raw(format!("{{{name}:{}}}", body.get()))?, raw(format!("{{{name}:{}}}", health.get()))?)
        }
    };
    Ok(Snapshot {
        agent_id: id.as_str().into(),
        collected_at: row.collected_at,
        received_at: row.received_at.to_string(),
        overall: overall.name().into(),
        health,
        snapshot: body,
    })
}

/// One section of a map of sections, still as a map: empty where it is not there.
pub fn only(object: &str, section: &str) -> Result<Box<RawValue>, ApiError> {
    let Some(member) = member(object, section) else { return raw("{}".into()) };
    let name = serde_json::to_string(section).map_err(|_| ApiError::internal())?;
    raw(format!("{{{name}:{}}}", member.get()))
}

/// The latest verdict on an agent within a caller's reach.
pub async fn latest_health(hub: &Hub, caller: &Caller, agent: &str) -> Result<serde_json::Value, ApiError> {
    let (id, row) = latest(hub, caller, agent).await?;
    let (overall, _) = fleet::statuses(&row.health);
    let sections: serde_json::Value = serde_json::from_str(&row.health).map_err(|_| ApiError::internal())?;
    Ok(serde_json::json!({
        "agent_id": id.as_str(),
        "overall": overall.name(),
        "collected_at": row.collected_at,
        "sections": sections,
    }))
}
