//! Agents as every door shows them, and only those within the caller's reach.

use std::sync::Arc;

use convoke_api::agents::{Agent as AgentView, AgentList, AgentQuery, Tunnel as TunnelView};
use convoke_core::id::{PeerId, Protocol};
use convoke_core::journal::{Decision, Draft, Kind};
use convoke_core::query::Query;
use convoke_gate::agents::Agent;
use convoke_gate::clock;
use convoke_gate::hub::Hub;
use convoke_gate::operators::Caller;
use convoke_gate::resolve::{By, Described, Unresolved, is_shown, resolve};
use convoke_store::Joining;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::ApiError;
use crate::extract::limit;
use crate::keeper::record_refusal;
use crate::page::Page;

/// The agent that a caller means by an id or a name, if it is within their reach.
pub async fn in_reach(hub: &Hub, caller: &Caller, text: &str) -> Result<Arc<Agent>, ApiError> {
    in_reach_by(hub, caller, text, By::Name).await
}

/// The same, where a unique beginning may do, too.
pub async fn in_reach_by(hub: &Hub, caller: &Caller, text: &str, by: By) -> Result<Arc<Agent>, ApiError> {
    match resolve(&hub.agents, caller, text, by, |_| true) {
        Ok(agent) => Ok(agent),
        Err(Unresolved::Several { ids, count }) => Err(ApiError::ambiguous(text, &ids, count)),
        Err(Unresolved::Nobody) => with_id(hub, caller, text).await,
    }
}

/// The agent with this very id, if there is one and it is within the caller's reach.
pub async fn with_id(hub: &Hub, caller: &Caller, id: &str) -> Result<Arc<Agent>, ApiError> {
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
pub async fn in_turn<'a>(
    hub: &'a Hub,
    caller: &Caller,
    text: &str,
) -> Result<(Arc<Agent>, tokio::sync::MutexGuard<'a, ()>), ApiError> {
    let meant = in_reach(hub, caller, text).await?;
    let turn = hub.agents.turn(meant.id.as_str()).await;
    Ok((with_id(hub, caller, meant.id.as_str()).await?, turn))
}

/// The agents within a caller's reach that a query asks for.
pub fn page(hub: &Hub, caller: &Caller, query: &AgentQuery) -> Result<AgentList, ApiError> {
    let limit = limit(query.limit)? as usize;
    let protocol = match query.protocol.as_deref() {
        None => None,
        Some(name) => Some(
            Protocol::parse(name)
                .ok_or_else(|| ApiError::bad_request("`protocol` must be kenny, sonde or yonexus"))?,
        ),
    };
    let asked = Query::parse(query.query.as_deref().unwrap_or_default());
    let asked = asked.map_err(|why| ApiError::bad_request(why.to_string()))?;
    let mut agents = Page::new(limit);
    let mut next = None;
    for agent in hub.agents.list(query.after.as_deref()).iter() {
        if !is_shown(&caller.token.grant.scopes, agent) {
            continue;
        }
        let state = agent.state();
        let wanted = protocol.is_none_or(|p| p == agent.id.protocol())
            && query.tag.as_ref().is_none_or(|tag| state.tags.contains(tag))
            && query.online.is_none_or(|online| online == state.is_there())
            && asked.as_ref().is_none_or(|asked| asked.fits(&Described { id: &agent.id, state: &state }));
        drop(state);
        if !wanted {
            continue;
        }
        if agents.is_full() {
            next = agents.last().map(|last: &AgentView| last.id.clone());
            break;
        }
        agents.push(view(agent));
    }
    Ok(AgentList { agents: agents.into_items(), next })
}

pub fn view(agent: &Agent) -> AgentView {
    let state = agent.state();
    AgentView {
        id: agent.id.as_str().into(),
        name: state.name.as_deref().map(Into::into),
        protocol: agent.id.protocol().name().into(),
        online: state.is_there(),
        tunnels: state.tunnel().map(|tunnel| second(&tunnel)).into_iter().collect(),
        trust: state.trust,
        liveness: state.liveness(),
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

/// A machine's second tunnel.
fn second(tunnel: &Agent) -> TunnelView {
    let state = tunnel.state();
    TunnelView {
        id: tunnel.id.as_str().into(),
        name: state.name.as_deref().map(Into::into),
        online: state.is_online(),
        how: state.joining().map(Joining::name).unwrap_or_default().into(),
    }
}

/// A record of a change that an operator made.
pub fn change_record(caller: &Caller, kind: Kind, target: &str, what: &str) -> Draft {
    let mut record = Draft::new(clock::now(), kind).detail(&json!({ "what": what }));
    record.who = Some(caller.token.name.clone());
    record.door = Some(caller.door);
    record.target = Some(target.into());
    record.decision = Some(Decision::Allowed);
    record
}
