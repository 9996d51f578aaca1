//! Enrolment of kenny agents over HTTP: one-time tokens, and the key that an agent binds with one.

use std::net::IpAddr;
use std::sync::Arc;

use crate::Wires;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use convoke_api::agents::{EnrolRequest, EnrolToken, Enrolled};
use convoke_core::door::Door;
use convoke_core::event::AgentChange;
use convoke_core::id::PeerId;
use convoke_core::journal::{Decision, Draft, Kind};
use convoke_core::peer::{Trust, TrustEvent};
use convoke_core::secret::TokenHash;
use convoke_doors::agents::{change_record as record, in_turn};
use convoke_doors::extract::{By, Json, MaybeJson, PathOf};
use convoke_doors::keeper::{bearer, record_refusal};
use convoke_doors::{ApiError, From};
use convoke_gate::agents::AuthWay;
use convoke_gate::agents::budget::Record;
use convoke_gate::clock;
use convoke_gate::link::Close;
use convoke_gate::operators::Caller;
use convoke_store::EnrolOutcome;
use ed25519_dalek::VerifyingKey;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::MAX_CLAIMED;

#[utoipa::path(post, path = "/api/agents/{id}/token", params(("id" = String, Path)), responses((status = 200, body = EnrolToken)), tag = "agents")]
/// Mint a one-time enrolment token. It is shown once.
pub async fn mint_token(
    State(hub): State<Wires>,
    By(caller): By,
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
pub async fn rotate_key(
    State(hub): State<Wires>,
    By(caller): By,
    PathOf(id): PathOf<String>,
) -> Result<Json<EnrolToken>, ApiError> {
    let (agent, _turn) = in_turn(&hub, &caller, &id).await?;
    let trust = agent.state().trust;
    mint(&hub, &caller, &agent.id, trust, true, "key rotation token").await
}

async fn mint(
    hub: &Wires,
    caller: &Caller,
    peer: &PeerId,
    trust: Trust,
    replaces_key: bool,
    what: &str,
) -> Result<Json<EnrolToken>, ApiError> {
    let now = clock::now();
    let token = clock::token("cve_");
    let expires_at = now.after(hub.settings.kenny.enrol_token_ttl_s);
    let hint = (trust == Trust::Trusted && !replaces_key).then(|| {
        "the agent is already enrolled with another key; use a token of `rotate-key` to replace the key".to_owned()
    });
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
pub async fn enrol(
    State(hub): State<Wires>,
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
    if let Some(seconds) = hub.enrolments.blocked_for(address, now) {
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
        hub.enrolments.failed(address, now);
        let claimed: String = id.chars().take(MAX_CLAIMED).collect();
        if hub.strangers.refused(address, Door::Http) {
            tracing::warn!(%address, ?claimed, why, "refused an enrolment; further refusals of this address in this minute are only counted");
        } else {
            tracing::debug!(%address, ?claimed, why, "refused an enrolment");
        }
        ApiError::unauthorized(why).hint("an admin creates an enrolment token with `convoke enroll-token ID`")
    };
    let Some(token) = token else { return Err(refused("enrolment token missing")) };
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
            hub.agents.part(&agent);
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
                .hint("use a token of `convoke agents rotate-key` to replace it"));
        }
        EnrolOutcome::OldKey => {
            record_no(&hub, &peer, &key, address, "the key was revoked or replaced").await;
            let message = "this key was revoked or replaced, or is the one to be replaced; send a new key";
            // Not 409: the field's agents take that for "enrolled already", note it down and never try again.
            return Err(ApiError::new(StatusCode::FORBIDDEN, "old_key", message).hint(
                "remove the agent's key file and kenny-agent.enrolled beside it, so that the agent makes a new key; the token is still valid",
            ));
        }
    }
    hub.events.agent(&peer, AgentChange::Trust);
    Ok(Json(Enrolled { ok: true, agent_id: id }))
}

/// Someone with a good token was not enrolled.
async fn record_no(hub: &Wires, peer: &PeerId, key: &VerifyingKey, address: IpAddr, why: &str) {
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
