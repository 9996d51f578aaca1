//! Agents over HTTP: the list, enrolment, trust.

use std::sync::Arc;

use axum::extract::State;
use convoke_api::agents::{Agent as AgentView, AgentList, AgentPatch, AgentQuery, OneAgentQuery};
use convoke_core::event::AgentChange;
use convoke_core::glob;
use convoke_core::grant::Right;
use convoke_core::id::PeerId;
use convoke_core::journal::Kind;
use convoke_core::peer::Trust;
use serde_json::json;

use convoke_doors::ApiError;
use convoke_doors::agents::{change_record as record, in_reach, in_reach_by, in_turn, page, view};
use convoke_doors::extract::{By, Json, PathOf, QueryOf};
use convoke_doors::keeper::record_refusal;
use convoke_doors::withdrawn::Stored;
use convoke_gate::agents::Agent;
use convoke_gate::calls;
use convoke_gate::hub::Hub;
use convoke_gate::link::Close;
use convoke_gate::operators::Caller;
use convoke_gate::resolve;
use convoke_store::StoreError;

/// Most tags of one agent.
const MAX_TAGS: usize = 32;

#[utoipa::path(get, path = "/api/agents", params(AgentQuery), responses((status = 200, body = AgentList)), tag = "agents")]
/// The agents.
pub async fn list(
    State(hub): State<Hub>,
    By(caller): By,
    QueryOf(query): QueryOf<AgentQuery>,
) -> Result<Json<AgentList>, ApiError> {
    page(&hub, &caller, &query).map(Json)
}

#[utoipa::path(get, path = "/api/agents/{id}", params(("id" = String, Path), OneAgentQuery),
    responses((status = 200, body = AgentView), (status = 409)), tag = "agents")]
/// One agent, by its id or a name that only one has; with `prefix`, also by the unique beginning of either.
pub async fn show(
    State(hub): State<Hub>,
    By(caller): By,
    PathOf(id): PathOf<String>,
    QueryOf(query): QueryOf<OneAgentQuery>,
) -> Result<Json<AgentView>, ApiError> {
    let by = if query.prefix == Some(true) { resolve::By::Beginning } else { resolve::By::Name };
    Ok(Json(view(&*in_reach_by(&hub, &caller, &id, by).await?)))
}

#[utoipa::path(patch, path = "/api/agents/{id}", params(("id" = String, Path)), request_body = AgentPatch,
    responses((status = 200, body = AgentView)), tag = "agents")]
/// Set an agent's tags.
pub async fn patch(
    State(hub): State<Hub>,
    By(caller): By,
    PathOf(id): PathOf<String>,
    Json(patch): Json<AgentPatch>,
) -> Result<Json<AgentView>, ApiError> {
    let (agent, _turn) = in_turn(&hub, &caller, &id).await?;
    let id = agent.id.as_str();
    let mut tags = patch.tags;
    tags.sort();
    tags.dedup();
    let well_formed = |tag: &String| {
        (1..=64).contains(&tag.len()) && tag.bytes().all(|b| b.is_ascii_alphanumeric() || b"._:-".contains(&b))
    };
    if tags.len() > MAX_TAGS || !tags.iter().all(well_formed) {
        return Err(ApiError::bad_request(
            "`tags` takes at most 32 tags of 1 to 64 letters, digits, '.', '_', ':' and '-'",
        ));
    }
    if caller.token.grant.check_reach(id, &tags).is_err() {
        // Taking away the tag that brings an agent into reach would put it out of the caller's own hands.
        return Err(ApiError::bad_request("with these tags the agent would be outside this token's scopes"));
    }
    check_rules_hold(&hub, &caller, &agent, &tags).await?;
    let mut draft = record(&caller, Kind::Trust, id, "tags");
    draft = draft.detail(&json!({ "what": "tags", "tags": &tags }));
    if !hub.store.set_tags(&agent.id, &tags, draft).await? {
        return Err(ApiError::no_agent(id));
    }
    let before = std::mem::replace(&mut agent.state().tags, tags.into());
    hub.events.agent_had(&agent.id, AgentChange::Tags, &before);
    Ok(Json(view(&agent)))
}

/// Confirm rules may hang on tags: who cannot change the rules cannot take an agent out from under one either, neither by
/// other tags nor by removing it, for it may be enrolled again.
async fn check_rules_hold(hub: &Hub, caller: &Caller, agent: &Agent, tags: &[String]) -> Result<(), ApiError> {
    let Err(missing) = caller.token.grant.check(Right::Policy) else { return Ok(()) };
    let before = Arc::clone(&agent.state().tags);
    let names = |globs: &[String], tags: &[String]| tags.iter().any(|tag| glob::any_matches(globs, tag));
    let policy = hub.policy.current();
    let lifted = policy.confirm.iter().find(|rule| {
        let is_lifted = |globs: &Vec<String>| names(globs, &before) && !names(globs, tags);
        // Each list narrows: a rule for other agents never held for this one.
        let names_it = rule.agents.as_ref().is_none_or(|globs| glob::any_matches(globs, agent.id.as_str()));
        names_it && rule.tags.as_ref().is_some_and(is_lifted)
    });
    let Some(rule) = lifted else { return Ok(()) };
    let hint = format!(
        "confirm rule `{}` applies to this agent by a tag; only an admin without scopes can change that",
        rule.id
    );
    record_refusal(hub, caller, "an agent's tags that a confirm rule names", Some(agent.id.as_str())).await;
    Err(ApiError::forbidden(&missing).hint(hint))
}

#[utoipa::path(delete, path = "/api/agents/{id}", params(("id" = String, Path)), responses((status = 200)), tag = "agents")]
/// Delete an agent: closes its link, deletes its key, snapshots and logs. The journal stays.
pub async fn remove(
    State(hub): State<Hub>,
    By(caller): By,
    PathOf(id): PathOf<String>,
) -> Result<Json<serde_json::Value>, ApiError> {
    let meant = in_reach(&hub, &caller, &id).await?;
    // A machine goes with its second tunnel; first that, since it is no part of anything once the machine is gone.
    let tunnel = meant.state().tunnel();
    for agent in tunnel.iter().chain([&meant]) {
        check_rules_hold(&hub, &caller, agent, &[]).await?;
    }
    let mut stored = Stored::Yes;
    for id in tunnel.iter().chain([&meant]).map(|agent| &agent.id) {
        stored = stored.and(remove_one(&hub, &caller, id).await?);
    }
    stored.answer(&json!({ "ok": true, "agent_id": meant.id }))
}

async fn remove_one(hub: &Hub, caller: &Caller, id: &PeerId) -> Result<Stored, ApiError> {
    let _turn = hub.agents.turn(id.as_str()).await;
    let agent = hub.agents.find(id.as_str()).ok_or_else(|| ApiError::no_agent(id.as_str()))?;
    // First out of memory: no handshake may succeed between the two.
    revoke_now(hub, &agent);
    let removed = hub.store.remove_agent(id, record(caller, Kind::Trust, id.as_str(), "removed")).await;
    let Some(removed) = StoreError::owed(removed)? else {
        // Known, and revoked, until it is stored: what is kept of it would otherwise let it in again.
        withdraw(hub, caller, &agent, "the agent was removed").await;
        return Ok(Stored::Owed);
    };
    hub.agents.remove(id.as_str());
    hub.parts.iter().for_each(|part| part.agent_removed(id));
    hub.health.forget(id);
    let tags = Arc::clone(&agent.state().tags);
    hub.events.agent_had(id, AgentChange::Removed, &tags);
    withdraw(hub, caller, &agent, "the agent was removed").await;
    if removed { Ok(Stored::Yes) } else { Err(ApiError::no_agent(id.as_str())) }
}

#[utoipa::path(post, path = "/api/agents/{id}/revoke", params(("id" = String, Path)), responses((status = 200, body = AgentView)), tag = "agents")]
/// Revoke an agent: its key is refused from now on and its link closed at once.
pub async fn revoke(
    State(hub): State<Hub>,
    By(caller): By,
    PathOf(id): PathOf<String>,
) -> Result<Json<serde_json::Value>, ApiError> {
    // At once, though another's turn may not be over: what that puts in force is taken away again when ours comes.
    let meant = in_reach(&hub, &caller, &id).await?;
    // A machine is revoked with its second tunnel.
    let tunnel = meant.state().tunnel();
    let mut stored = Stored::Yes;
    for agent in [&meant].into_iter().chain(&tunnel) {
        hub.agents.close_link(agent, Close::Revoked);
    }
    for id in [&meant].into_iter().chain(&tunnel).map(|agent| &agent.id) {
        stored = stored.and(revoke_one(&hub, &caller, id).await?);
    }
    stored.answer(&view(&meant))
}

async fn revoke_one(hub: &Hub, caller: &Caller, id: &PeerId) -> Result<Stored, ApiError> {
    let _turn = hub.agents.turn(id.as_str()).await;
    let agent = hub.agents.find(id.as_str()).ok_or_else(|| ApiError::no_agent(id.as_str()))?;
    revoke_now(hub, &agent);
    let record = record(caller, Kind::Trust, id.as_str(), "revoked");
    let known = StoreError::owed(hub.store.set_trust(id, Trust::Revoked, true, record).await)?;
    if known == Some(false) {
        return Err(ApiError::no_agent(id.as_str()));
    }
    hub.events.agent(id, AgentChange::Trust);
    withdraw(hub, caller, &agent, "the agent was revoked").await;
    Ok(if known.is_some() { Stored::Yes } else { Stored::Owed })
}

/// Its key is refused from this moment on, whatever the disk does.
fn revoke_now(hub: &Hub, agent: &Agent) {
    {
        let mut state = agent.state();
        state.trust = Trust::Revoked;
        state.public_key = None;
    }
    hub.agents.close_link(agent, Close::Revoked);
}

/// Ends what waits for a person and would go to this agent. If that fails, it is refused when someone says yes.
async fn withdraw(hub: &Hub, caller: &Caller, agent: &Agent, why: &str) {
    if let Err(why) = calls::withdraw(hub, caller, &agent.id, why).await {
        tracing::error!(agent = %agent.id, %why, "cannot end the calls that wait for a person");
    }
}
