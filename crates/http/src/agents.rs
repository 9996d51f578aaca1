//! Agents over HTTP: the list, enrolment, trust.

use std::sync::Arc;

use axum::extract::State;
use convoke_api::agents::{Agent as AgentView, AgentList, AgentPatch, AgentQuery, OneAgentQuery};
use convoke_core::event::AgentChange;
use convoke_core::glob;
use convoke_core::grant::Right;
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
    let (agent, _turn) = in_turn(&hub, &caller, &id).await?;
    let id = agent.id.as_str();
    check_rules_hold(&hub, &caller, &agent, &[]).await?;
    // First out of memory: no handshake may succeed between the two.
    revoke_now(&hub, &agent);
    let removed = hub.store.remove_agent(&agent.id, record(&caller, Kind::Trust, id, "removed")).await;
    let Some(removed) = StoreError::owed(removed)? else {
        // Known, and revoked, until it is stored: what is kept of it would otherwise let it in again.
        withdraw(&hub, &caller, &agent, "the agent was removed").await;
        return Stored::Owed.answer(&json!({ "ok": true, "agent_id": id }));
    };
    hub.agents.remove(id);
    hub.parts.iter().for_each(|part| part.agent_removed(&agent.id));
    hub.health.forget(&agent.id);
    let tags = Arc::clone(&agent.state().tags);
    hub.events.agent_had(&agent.id, AgentChange::Removed, &tags);
    withdraw(&hub, &caller, &agent, "the agent was removed").await;
    if removed { Ok(Json(json!({ "ok": true, "agent_id": id }))) } else { Err(ApiError::no_agent(id)) }
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
    hub.agents.close_link(&meant, Close::Revoked);
    let (agent, _turn) = in_turn(&hub, &caller, meant.id.as_str()).await?;
    let id = agent.id.as_str();
    revoke_now(&hub, &agent);
    let record = record(&caller, Kind::Trust, id, "revoked");
    let known = StoreError::owed(hub.store.set_trust(&agent.id, Trust::Revoked, true, record).await)?;
    if known == Some(false) {
        return Err(ApiError::no_agent(id));
    }
    hub.events.agent(&agent.id, AgentChange::Trust);
    withdraw(&hub, &caller, &agent, "the agent was revoked").await;
    let stored = if known.is_some() { Stored::Yes } else { Stored::Owed };
    stored.answer(&view(&agent))
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
