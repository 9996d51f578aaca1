//! Agents over HTTP: the list, enrolment, trust.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use convoke_api::agents::{
    Agent as AgentView, AgentList, AgentPatch, AgentQuery, EnrolRequest, EnrolToken, Enrolled,
};
use convoke_core::door::Door;
use convoke_core::event::AgentChange;
use convoke_core::glob;
use convoke_core::grant::Right;
use convoke_core::id::{PeerId, Protocol};
use convoke_core::journal::{Decision, Draft, Kind};
use convoke_core::peer::{Trust, TrustEvent};
use convoke_core::secret::TokenHash;
use convoke_store::EnrolOutcome;
use ed25519_dalek::VerifyingKey;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::doors::{bearer, record_refusal};
use super::extract::{Json, MaybeJson, PathOf, QueryOf, limit};
use super::{ApiError, From};
use crate::agents::budget::Record;
use crate::agents::{Agent, AuthWay};
use crate::calls;
use crate::clock;
use crate::hub::Hub;
use crate::kenny::MAX_CLAIMED;
use crate::link::Close;
use crate::operators::Caller;

/// Most tags of one agent.
const MAX_TAGS: usize = 32;

/// The agent, if there is one and it is within the caller's reach.
pub(crate) async fn in_reach(hub: &Hub, caller: &Caller, id: &str) -> Result<Arc<Agent>, ApiError> {
    let agent = hub.agents.find(id);
    let tags = agent.as_ref().map(|a| Arc::clone(&a.state().tags)).unwrap_or_default();
    // Reach is checked first: a token for one tag must not learn which other agents exist.
    if let Err(missing) = caller.token.grant.check_reach(id, &tags) {
        record_refusal(hub, caller, "an agent out of reach", PeerId::parse(id).is_ok().then_some(id)).await;
        return Err(ApiError::forbidden(&missing));
    }
    agent.ok_or_else(|| ApiError::no_agent(id))
}

/// An agent within a caller's reach, in the turn of who changes it. Looked for when the turn has come: who was before may
/// have removed it, and another may have its name now.
async fn in_turn<'a>(
    hub: &'a Hub,
    caller: &Caller,
    id: &str,
) -> Result<(Arc<Agent>, tokio::sync::MutexGuard<'a, ()>), ApiError> {
    let turn = hub.agents.turn(id).await;
    Ok((in_reach(hub, caller, id).await?, turn))
}

#[utoipa::path(get, path = "/api/agents", params(AgentQuery), responses((status = 200, body = AgentList)), tag = "agents")]
/// The agents.
pub(super) async fn list(
    State(hub): State<Hub>,
    caller: Caller,
    QueryOf(query): QueryOf<AgentQuery>,
) -> Result<Json<AgentList>, ApiError> {
    page(&hub, &caller, &query).map(Json)
}

/// The agents within a caller's reach that a query asks for.
pub(crate) fn page(hub: &Hub, caller: &Caller, query: &AgentQuery) -> Result<AgentList, ApiError> {
    let limit = limit(query.limit)? as usize;
    let protocol = match query.protocol.as_deref() {
        None => None,
        Some(name) => Some(
            Protocol::parse(name)
                .ok_or_else(|| ApiError::bad_request("`protocol` must be kenny, sonde or yonexus"))?,
        ),
    };
    let mut agents = Vec::new();
    let mut next = None;
    for agent in hub.agents.list(query.after.as_deref()).iter() {
        let state = agent.state();
        let wanted = caller.token.grant.scopes.reaches(agent.id.as_str(), &state.tags)
            && protocol.is_none_or(|p| p == agent.id.protocol())
            && query.tag.as_ref().is_none_or(|tag| state.tags.contains(tag))
            && query.online.is_none_or(|online| online == state.is_online());
        drop(state);
        if !wanted {
            continue;
        }
        if agents.len() == limit {
            next = agents.last().map(|last: &AgentView| last.id.clone());
            break;
        }
        agents.push(view(agent));
    }
    Ok(AgentList { agents, next })
}

#[utoipa::path(get, path = "/api/agents/{id}", params(("id" = String, Path)), responses((status = 200, body = AgentView)), tag = "agents")]
/// One agent.
pub(super) async fn show(
    State(hub): State<Hub>,
    caller: Caller,
    PathOf(id): PathOf<String>,
) -> Result<Json<AgentView>, ApiError> {
    Ok(Json(view(&*in_reach(&hub, &caller, &id).await?)))
}

pub(crate) fn view(agent: &Agent) -> AgentView {
    let state = agent.state();
    AgentView {
        id: agent.id.as_str().into(),
        protocol: agent.id.protocol().name().into(),
        online: state.is_online(),
        trust: state.trust,
        liveness: state.presence().liveness(),
        health: state.overall.name().into(),
        meta: state.meta.clone(),
        protocol_version: state.protocol_version.as_deref().map(Into::into),
        remote_control: state.remote_control,
        auth: state.auth.map(|a| a.name().into()),
        tags: state.tags.to_vec(),
        last_seen: state.last_seen(),
        connected_at: state.since.filter(|_| state.is_online()),
        offline_since: state.since.filter(|_| !state.is_online()),
        enrolled_at: state.enrolled_at,
        key_fingerprint: state.public_key.as_ref().map(|key| hex::encode(Sha256::digest(key.as_bytes()))),
    }
}

/// A record of a change that an operator made.
fn record(caller: &Caller, kind: Kind, target: &str, what: &str) -> Draft {
    let mut record = Draft::new(clock::now(), kind).detail(&json!({ "what": what }));
    record.who = Some(caller.token.name.clone());
    record.door = Some(caller.door);
    record.target = Some(target.into());
    record.decision = Some(Decision::Allowed);
    record
}

#[utoipa::path(patch, path = "/api/agents/{id}", params(("id" = String, Path)), request_body = AgentPatch,
    responses((status = 200, body = AgentView)), tag = "agents")]
/// Set an agent's tags.
pub(super) async fn patch(
    State(hub): State<Hub>,
    caller: Caller,
    PathOf(id): PathOf<String>,
    Json(patch): Json<AgentPatch>,
) -> Result<Json<AgentView>, ApiError> {
    let (agent, _turn) = in_turn(&hub, &caller, &id).await?;
    let mut tags = patch.tags;
    tags.sort();
    tags.dedup();
    let well_formed = |tag: &String| {
        (1..=64).contains(&tag.len()) && tag.bytes().all(|b| b.is_ascii_alphanumeric() || b"._:-".contains(&b))
    };
    if tags.len() > MAX_TAGS || !tags.iter().all(well_formed) {
        return Err(ApiError::bad_request(
            "`tags` takes at most 32 tags of 1 to 64 letters, digits, '.', '_', ':' or '-'",
        ));
    }
    if caller.token.grant.check_reach(&id, &tags).is_err() {
        // Taking away the tag that brings an agent into reach would put it out of the caller's own hands.
        return Err(ApiError::bad_request("these tags would put the agent out of this token's own reach"));
    }
    check_rules_hold(&hub, &caller, &agent, &tags).await?;
    let mut draft = record(&caller, Kind::Trust, &id, "tags");
    draft = draft.detail(&json!({ "what": "tags", "tags": &tags }));
    if !hub.store.set_tags(&agent.id, &tags, draft).await? {
        return Err(ApiError::no_agent(&id));
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
    let hint =
        format!("the confirm rule `{}` holds for this agent by a tag; an admin without scopes can do this", rule.id);
    record_refusal(hub, caller, "an agent's tags that a confirm rule names", Some(agent.id.as_str())).await;
    Err(ApiError::forbidden(&missing).hint(hint))
}

#[utoipa::path(delete, path = "/api/agents/{id}", params(("id" = String, Path)), responses((status = 200)), tag = "agents")]
/// Remove an agent: its link is closed, its key, snapshots and logs go. The journal stays.
pub(super) async fn remove(
    State(hub): State<Hub>,
    caller: Caller,
    PathOf(id): PathOf<String>,
) -> Result<Json<serde_json::Value>, ApiError> {
    let (agent, _turn) = in_turn(&hub, &caller, &id).await?;
    check_rules_hold(&hub, &caller, &agent, &[]).await?;
    // First out of memory: no handshake may succeed between the two.
    let before = std::mem::replace(&mut agent.state().trust, Trust::Revoked);
    hub.agents.close_link(&agent, Close::Revoked);
    let removed = hub.store.remove_agent(&agent.id, record(&caller, Kind::Trust, &id, "removed")).await;
    let removed = removed.inspect_err(|_| {
        // Not recorded, so not done: the operator is told and can try again.
        agent.state().trust = before;
    })?;
    hub.agents.remove(&id);
    hub.sonde.registry.remove(&agent.id);
    let tags = Arc::clone(&agent.state().tags);
    hub.events.agent_had(&agent.id, AgentChange::Removed, &tags);
    withdraw(&hub, &caller, &agent, "the agent was removed").await;
    if removed { Ok(Json(json!({ "ok": true, "agent_id": id }))) } else { Err(ApiError::no_agent(&id)) }
}

#[utoipa::path(post, path = "/api/agents/{id}/token", params(("id" = String, Path)), responses((status = 200, body = EnrolToken)), tag = "agents")]
/// Mint a one-time enrolment token. It is shown once.
pub(super) async fn mint_token(
    State(hub): State<Hub>,
    caller: Caller,
    PathOf(id): PathOf<String>,
) -> Result<Json<EnrolToken>, ApiError> {
    let peer = PeerId::kenny(&id).map_err(|why| ApiError::bad_request(why.to_string()))?;
    let known = hub.agents.find(&id);
    let tags = known.as_ref().map(|a| Arc::clone(&a.state().tags)).unwrap_or_default();
    if let Err(missing) = caller.token.grant.check_reach(&id, &tags) {
        record_refusal(&hub, &caller, "an agent out of reach", Some(&id)).await;
        return Err(ApiError::forbidden(&missing));
    }
    let _turn = hub.agents.turn(&id).await;
    let trust = hub.agents.find(&id).map_or(Trust::Unpaired, |a| a.state().trust);
    // A revoked agent is invited anew: its old key is gone, so a new one may be bound.
    mint(&hub, &caller, &peer, trust, trust == Trust::Revoked, "enrolment token").await
}

#[utoipa::path(post, path = "/api/agents/{id}/rotate-key", params(("id" = String, Path)), responses((status = 200, body = EnrolToken)), tag = "agents")]
/// Mint a token with which the agent may bind a new key in place of the old one. The old key holds until then.
pub(super) async fn rotate_key(
    State(hub): State<Hub>,
    caller: Caller,
    PathOf(id): PathOf<String>,
) -> Result<Json<EnrolToken>, ApiError> {
    let (agent, _turn) = in_turn(&hub, &caller, &id).await?;
    let trust = agent.state().trust;
    mint(&hub, &caller, &agent.id, trust, true, "key rotation token").await
}

async fn mint(
    hub: &Hub,
    caller: &Caller,
    peer: &PeerId,
    trust: Trust,
    replaces_key: bool,
    what: &str,
) -> Result<Json<EnrolToken>, ApiError> {
    let now = clock::now();
    let token = clock::token("cve_");
    let expires_at = now.after(hub.settings.kenny.enrol_token_ttl_s);
    let hint = (trust == Trust::Trusted && !replaces_key)
        .then(|| "the agent is enrolled, and this token binds no other key: a token of `rotate-key` does".to_owned());
    let trust = trust.after(TrustEvent::Invited);
    let row = convoke_store::EnrolToken { agent: peer.clone(), hash: token.hash(), expires_at, replaces_key };
    hub.store.mint_enrol_token(row, trust, now, record(caller, Kind::Enrol, peer.as_str(), what)).await?;
    hub.agents.find_or_add(peer).state().trust = trust;
    hub.events.agent(peer, AgentChange::Trust);
    Ok(Json(EnrolToken {
        agent_id: peer.as_str().into(),
        token: token.reveal().into(),
        expires_at,
        hub_public_key: hub.public_key(),
        hint,
    }))
}

#[utoipa::path(post, path = "/api/agents/{id}/enroll", params(("id" = String, Path)), request_body = EnrolRequest,
    responses((status = 200, body = Enrolled), (status = 400), (status = 401), (status = 403), (status = 409), (status = 429)), tag = "agents")]
/// An agent presents its key with its one-time token.
pub(super) async fn enrol(
    State(hub): State<Hub>,
    From(address): From,
    headers: HeaderMap,
    PathOf(id): PathOf<String>,
    MaybeJson(body): MaybeJson<serde_json::Value>,
) -> Result<Json<Enrolled>, ApiError> {
    let now = clock::now();
    let text = |key: &str| body.as_ref().and_then(|b| b.get(key)).and_then(serde_json::Value::as_str);
    let token = bearer(&headers).or_else(|| text("token")).map(TokenHash::of);
    let key = text("public_key").map(|key| convoke_kenny::enrol::parse_public_key(key, &hub.key.verifying_key()));
    let peer = PeerId::kenny(&id);
    if let Some(seconds) = hub.operators.throttle.blocked_for(address, now) {
        // Who has something good need not wait for what others do behind the same address.
        let key = key.as_ref().and_then(|key| key.as_ref().ok()).map(VerifyingKey::to_bytes);
        let is_good = match (&peer, &token) {
            (Ok(peer), Some(token)) => hub.store.enrol_token_valid(peer, token, key, now).await?,
            _ => false,
        };
        if !is_good {
            return Err(ApiError::throttled(seconds));
        }
    }
    let refused = |why: &str| {
        hub.operators.throttle.failed(address, now);
        let claimed: String = id.chars().take(MAX_CLAIMED).collect();
        if hub.strangers.refused(address, Door::Http) {
            tracing::warn!(%address, ?claimed, why, "an enrolment was refused; more of this address in this minute are only counted");
        } else {
            tracing::debug!(%address, ?claimed, why, "an enrolment was refused");
        }
        ApiError::unauthorized(why).hint("an admin mints an enrolment token with `convoke enroll-token ID`")
    };
    let Some(token) = token else { return Err(refused("no enrolment token was given")) };
    let Some(key) = key else {
        return Err(ApiError::bad_request("`public_key` is missing: send the base64 of the agent's 32-byte key"));
    };
    let key = key.map_err(|why| ApiError::bad_request(format!("`public_key` {why}")))?;
    let Ok(peer) = peer else { return Err(refused("this enrolment token is not valid here")) };
    let mut draft = Draft::new(now, Kind::Enrol).detail(&json!({
        "what": "key bound",
        "fingerprint": fingerprint(&key),
        "address": address.to_string(),
    }));
    draft.who = Some(format!("agent:{peer}"));
    draft.door = Some(Door::Http);
    draft.target = Some(peer.as_str().into());
    draft.outcome = Some("ok".into());
    let _turn = hub.agents.turn(peer.as_str()).await;
    let outcome = hub.store.enrol(&peer, &token, key.to_bytes(), now, draft).await?;
    match outcome {
        EnrolOutcome::Bound => {
            let agent = hub.agents.find_or_add(&peer);
            let outdated = {
                let mut state = agent.state();
                state.trust = Trust::Trusted;
                state.enrolled_at = Some(now);
                state.public_key.replace(Arc::new(key)).is_some() || state.auth == Some(AuthWay::Token)
            };
            if outdated {
                // A link under the old key must not outlive it, nor one by a token that is worth nothing beside a key.
                hub.agents.close_link(&agent, Close::Revoked);
            }
        }
        EnrolOutcome::AlreadySame => {
            // As the store has it: whoever is told that they are enrolled must be let in.
            let agent = hub.agents.find_or_add(&peer);
            let mut state = agent.state();
            if state.public_key.as_deref() != Some(&key) {
                state.trust = Trust::Trusted;
                state.public_key = Some(Arc::new(key));
            }
        }
        EnrolOutcome::BadToken => return Err(refused("this enrolment token is not valid here")),
        EnrolOutcome::AlreadyEnrolled => {
            record_no(&hub, &peer, &key, address, "the agent has a key already").await;
            return Err(ApiError::conflict(format!("agent {peer} has a key already"))
                .hint("`convoke agents rotate-key` gives a token that may replace it"));
        }
        EnrolOutcome::OldKey => {
            record_no(&hub, &peer, &key, address, "the key was revoked or replaced").await;
            let message = "this key was revoked or replaced, or is the one to be replaced: a new one is needed";
            // Not 409: the field's agents take that for "enrolled already", note it down and never try again.
            return Err(ApiError::new(StatusCode::FORBIDDEN, "old_key", message).hint(
                "remove the agent's key file, and the file kenny-agent.enrolled beside it if there is one, so that it makes a new key; the token is still good",
            ));
        }
    }
    hub.events.agent(&peer, AgentChange::Trust);
    Ok(Json(Enrolled { ok: true, agent_id: id }))
}

/// Someone with a good token was not enrolled.
async fn record_no(hub: &Hub, peer: &PeerId, key: &VerifyingKey, address: IpAddr, why: &str) {
    let now = clock::now();
    hub.metrics.refused(Door::Http.name(), "known");
    let Some(note) = hub.budgets.keep(peer, Record::Refusal, now.millis()) else {
        hub.metrics.dropped("refusal_records", 1);
        return;
    };
    let mut detail = json!({
        "what": "enrolment", "reason": why, "address": address.to_string(), "fingerprint": fingerprint(key),
    });
    note.tell(&mut detail);
    let mut record = Draft::new(now, Kind::Refusal).detail(&detail);
    record.who = Some(format!("agent:{peer}"));
    record.door = Some(Door::Http);
    record.target = Some(peer.as_str().into());
    record.decision = Some(Decision::Denied);
    hub.note(record).await;
}

fn fingerprint(key: &VerifyingKey) -> String {
    hex::encode(Sha256::digest(key.as_bytes()))
}

#[utoipa::path(post, path = "/api/agents/{id}/revoke", params(("id" = String, Path)), responses((status = 200, body = AgentView)), tag = "agents")]
/// Revoke an agent: its key is refused from now on and its link closed at once.
pub(super) async fn revoke(
    State(hub): State<Hub>,
    caller: Caller,
    PathOf(id): PathOf<String>,
) -> Result<Json<AgentView>, ApiError> {
    // At once, though another's turn may not be over: what that puts in force is taken away again when ours comes.
    hub.agents.close_link(&*in_reach(&hub, &caller, &id).await?, Close::Revoked);
    let (agent, _turn) = in_turn(&hub, &caller, &id).await?;
    let before = {
        let mut state = agent.state();
        (std::mem::replace(&mut state.trust, Trust::Revoked), state.public_key.take())
    };
    hub.agents.close_link(&agent, Close::Revoked);
    let stored =
        hub.store.set_trust(&agent.id, Trust::Revoked, true, record(&caller, Kind::Trust, &id, "revoked")).await;
    match stored {
        Ok(true) => {
            hub.events.agent(&agent.id, AgentChange::Trust);
            withdraw(&hub, &caller, &agent, "the agent was revoked").await;
            Ok(Json(view(&agent)))
        }
        Ok(false) => Err(ApiError::no_agent(&id)),
        Err(why) => {
            // Not recorded, so not done: the operator is told and can try again.
            let mut state = agent.state();
            (state.trust, state.public_key) = before;
            drop(state);
            Err(why.into())
        }
    }
}

/// Ends what waits for a person and would go to this agent. If that fails, it is refused when someone says yes.
async fn withdraw(hub: &Hub, caller: &Caller, agent: &Agent, why: &str) {
    if let Err(why) = calls::withdraw(hub, caller, &agent.id, why).await {
        tracing::error!(agent = %agent.id, %why, "calls that wait for a person were not ended");
    }
}

/// Time-out of a call that updates an agent: it downloads first.
pub(super) const UPDATE_TIMEOUT: Duration = Duration::from_secs(120);
