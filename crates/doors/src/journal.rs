//! The journal as every door shows it: the records within the caller's reach.

use std::sync::Arc;

use convoke_api::record::{JournalPage, JournalQuery};
use convoke_core::id::CallId;
use convoke_core::journal::Kind;
use convoke_gate::hub::Hub;
use convoke_gate::operators::Caller;
use convoke_store::JournalFilter;

use crate::ApiError;
use crate::agents::with_id;
use crate::extract::limit;

/// Whether a caller whose reach is narrowed may see what is about this peer. What is about no peer at all (tokens,
/// policy, the hub) is not theirs to see.
pub fn visible(hub: &Hub, caller: &Caller, target: Option<&str>) -> bool {
    let scopes = &caller.token.grant.scopes;
    if scopes.agents.is_none() && scopes.tags.is_none() {
        return true;
    }
    let Some(target) = target else { return false };
    let tags = hub.agents.find(target).map(|a| Arc::clone(&a.state().tags)).unwrap_or_default();
    scopes.reaches(target, &tags)
}

/// Refuses to look for a peer out of the caller's reach: whether there is a next page would tell that it exists.
pub async fn asked_about(hub: &Hub, caller: &Caller, agent: Option<&str>) -> Result<(), ApiError> {
    match agent {
        Some(agent) if !visible(hub, caller, Some(agent)) => with_id(hub, caller, agent).await.map(drop),
        _ => Ok(()),
    }
}

/// The records within a caller's reach that a query asks for, or those of one call.
pub async fn journal_page(
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
    let JournalQuery { after, before, agent, tool, kind, call, .. } = query;
    let filter = JournalFilter { after, before, limit, agent, tool, kind, call_id: call_id.or(call) };
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
