//! Machines with two tunnels: a kenny agent, and a Sonde agent that is its second tunnel. They are one if the machine's key
//! signed the Sonde agent's id, or if an admin joined them; never by name. A call is the machine's, with its rights, rules and
//! records; a probe goes out over whichever tunnel has it. Who reaches only the Sonde agent sees only that.

use std::sync::Arc;

use axum::extract::State;
use convoke_api::agents::{Agent as AgentView, AgentJoin};
use convoke_core::effect::Effect;
use convoke_core::event::AgentChange;
use convoke_core::guard::Hit;
use convoke_core::id::{PeerId, Protocol};
use convoke_core::journal::{Draft, Kind};
use convoke_core::peer::Trust;
use convoke_kenny::tools::FEATURE_PROBES;
use convoke_sonde::register::MachineProof;
use convoke_store::{JoinRow, Joining};
use serde_json::json;

use crate::Wires;
use crate::sonde::adapter::changed;
use crate::sonde::registry::SondeAgent;
use convoke_doors::ApiError;
use convoke_doors::agents::{change_record, in_reach, view};
use convoke_doors::extract::{By, Json, PathOf};
use convoke_doors::withdrawn::Stored;
use convoke_gate::agents::Agent;
use convoke_gate::clock;
use convoke_gate::operators::Caller;
use convoke_gate::resolve::{is_shown, machine_of, reaches};

/// What answers probes at a second tunnel of a machine.
pub fn second(hub: &Wires, machine: &Agent) -> Option<Arc<SondeAgent>> {
    let tunnel = machine.state().tunnel()?;
    hub.sonde.registry.find(&tunnel.id)
}

/// What answers an agent's probes: it, or its second tunnel in its name.
pub fn prober(hub: &Wires, id: &PeerId) -> Option<Arc<SondeAgent>> {
    hub.sonde.registry.find(id).or_else(|| {
        let machine = hub.agents.find(id.as_str())?;
        Some(Arc::new(second(hub, &machine)?.standing_for(id)))
    })
}

/// Whatever answers probes within a caller's reach, each machine once.
pub fn probers(hub: &Wires, caller: &Caller) -> Vec<Arc<SondeAgent>> {
    let scopes = &caller.token.grant.scopes;
    let shown = |sonde: Arc<SondeAgent>| {
        let agent = hub.agents.find(sonde.id.as_str())?;
        if is_shown(scopes, &agent) {
            return Some(sonde);
        }
        let machine = machine_of(scopes, &agent);
        // One that answers probes itself comes by itself.
        let is_silent = machine.id != sonde.id && hub.sonde.registry.find(&machine.id).is_none();
        is_silent.then(|| Arc::new(sonde.standing_for(&machine.id)))
    };
    hub.sonde.registry.list().into_iter().filter_map(shown).collect()
}

/// Whether an agent can have a probe of this name over any tunnel, as far as is known of it.
pub fn check_known(hub: &Wires, machine: &Agent, probe: &str) -> Result<(), String> {
    let second = second(hub, machine);
    match second.is_some_and(|second| !second.lacks(probe)) {
        true => Ok(()),
        false => hub.sonde.check_known(&machine.id, probe),
    }
}

/// What a probe may do: the most that it may over any tunnel.
pub fn effect_of(hub: &Wires, machine: &Agent, probe: &str) -> Effect {
    let first = hub.sonde.registry.find(&machine.id).map(|first| first.effect_of(probe));
    let second = second(hub, machine).map(|second| second.effect_of(probe));
    first.max(second).unwrap_or(Effect::Manage)
}

/// Whether the machine's own tunnel is there for a probe.
fn is_first_there(machine: &Agent) -> bool {
    let state = machine.state();
    state.is_online() && state.has_feature(FEATURE_PROBES)
}

/// The second tunnel, where a probe goes over that: the first is not there, or does not have it.
pub fn route(hub: &Wires, machine: &Agent, probe: &str) -> Option<Arc<Agent>> {
    let tunnel = machine.state().tunnel()?;
    let second = hub.sonde.registry.find(&tunnel.id)?;
    let first = hub.sonde.registry.find(&machine.id);
    let better = second.offers(probe) && first.is_some_and(|first| !first.offers(probe));
    let usable =
        machine.state().trust == Trust::Trusted && tunnel.state().is_online() && changed(hub, &second).is_none();
    (usable && (better || !is_first_there(machine))).then_some(tunnel)
}

/// Why no probe may go out: only the second tunnel is there, and its agent is not what it was.
pub fn restriction(hub: &Wires, machine: &Agent) -> Option<Hit> {
    let second = second(hub, machine)?;
    if is_first_there(machine) { None } else { changed(hub, &second) }
}

/// A Sonde agent that was admitted shows that a machine's key signed its id.
pub async fn prove(hub: &Wires, sonde: &SondeAgent, proof: &MachineProof) {
    let Some(machine) = hub.agents.find(&proof.id).filter(|machine| machine.id.protocol() == Protocol::Kenny) else {
        return;
    };
    let _turn = hub.agents.turn(machine.id.as_str()).await;
    let Some(tunnel) = hub.agents.find(sonde.id.as_str()) else { return };
    let (key, other) = {
        let state = machine.state();
        let key = state.public_key.clone().filter(|_| state.trust == Trust::Trusted);
        (key, state.tunnel())
    };
    let holds = key.is_some_and(|key| {
        convoke_kenny::joined::verify(&key, machine.id.as_str(), &sonde.wire_id, &proof.signature)
    });
    if !holds {
        tracing::warn!(agent = %sonde.id, machine = %machine.id, "an agent's proof that it is this machine does not hold");
        return;
    }
    // What an admin said stands, and so does what was proved before.
    let before = tunnel.state().joining();
    let of_admin = other.as_ref().is_some_and(|other| other.state().joining() == Some(Joining::Admin));
    let is_same = other.as_ref().is_some_and(|other| other.id == tunnel.id);
    if is_same || of_admin || matches!(before, Some(Joining::Admin | Joining::Apart)) {
        return;
    }
    let join =
        JoinRow { tunnel: tunnel.id.clone(), machine: machine.id.clone(), how: Joining::Proven, at: clock::now() };
    let mut record = Draft::new(clock::now(), Kind::Trust)
        .detail(&json!({ "what": "joined", "tunnel": tunnel.id, "how": Joining::Proven.name() }));
    record.who = Some(format!("agent:{}", sonde.id));
    record.target = Some(machine.id.as_str().into());
    if let Some(other) = other {
        hub.agents.part(&other);
    }
    match hub.store.put_join(join.clone(), record).await {
        Ok(()) => {
            hub.agents.join(&join);
            hub.events.agent(&machine.id, AgentChange::Trust);
            hub.events.agent(&tunnel.id, AgentChange::Trust);
        }
        Err(why) => tracing::error!(machine = %machine.id, %why, "cannot store that two tunnels are one machine"),
    }
}

#[utoipa::path(post, path = "/api/agents/{id}/join", params(("id" = String, Path)), request_body = AgentJoin,
    responses((status = 200, body = AgentView), (status = 400), (status = 409)), tag = "agents")]
/// Make a Sonde agent the second tunnel of a machine: from then on they are one.
pub async fn join(
    State(hub): State<Wires>,
    By(caller): By,
    PathOf(id): PathOf<String>,
    Json(body): Json<AgentJoin>,
) -> Result<Json<serde_json::Value>, ApiError> {
    let machine = in_reach(&hub, &caller, &id).await?;
    let tunnel = in_reach(&hub, &caller, &body.tunnel).await?;
    let _turn = hub.agents.turn(machine.id.as_str()).await;
    if (machine.id.protocol(), tunnel.id.protocol()) != (Protocol::Kenny, Protocol::Sonde) {
        let message = "a machine is a kenny agent, and its second tunnel a Sonde agent that is not joined yet";
        return Err(ApiError::bad_request(message).hint("convoke agents join my-pc sonde:ID"));
    }
    if let Some(other) = machine.state().tunnel() {
        let message = format!("{} has a second tunnel already, {}", machine.id, other.id);
        return Err(ApiError::conflict(message).hint("`convoke agents split` parts them"));
    }
    if tunnel.state().machine().is_some() {
        return Err(ApiError::conflict(format!("{} is the second tunnel of another machine", tunnel.id)));
    }
    put(&hub, &caller, &machine, &tunnel, Joining::Admin).await?.answer(&view(&machine))
}

#[utoipa::path(post, path = "/api/agents/{id}/split", params(("id" = String, Path)),
    responses((status = 200, body = AgentView), (status = 409)), tag = "agents")]
/// Part a machine from its second tunnel: from then on they are two, whatever is proved.
pub async fn split(
    State(hub): State<Wires>,
    By(caller): By,
    PathOf(id): PathOf<String>,
) -> Result<Json<serde_json::Value>, ApiError> {
    let machine = in_reach(&hub, &caller, &id).await?;
    let _turn = hub.agents.turn(machine.id.as_str()).await;
    let Some(tunnel) = machine.state().tunnel() else {
        return Err(ApiError::conflict(format!("{} has no second tunnel", machine.id)));
    };
    let stored = put(&hub, &caller, &machine, &tunnel, Joining::Apart).await?;
    stored.answer(&view(&machine))
}

/// In force at once where it parts them, and first kept where it joins.
async fn put(
    hub: &Wires,
    caller: &Caller,
    machine: &Arc<Agent>,
    tunnel: &Arc<Agent>,
    how: Joining,
) -> Result<Stored, ApiError> {
    let join = JoinRow { tunnel: tunnel.id.clone(), machine: machine.id.clone(), how, at: clock::now() };
    let what = if how == Joining::Apart { "split" } else { "joined" };
    let record = change_record(caller, Kind::Trust, machine.id.as_str(), what);
    let record = record.detail(&json!({ "what": what, "tunnel": tunnel.id, "how": how.name() }));
    if how == Joining::Apart {
        hub.agents.join(&join);
    }
    let stored = Stored::of(hub.store.put_join(join.clone(), record).await)?;
    hub.agents.join(&join);
    hub.events.agent(&machine.id, AgentChange::Trust);
    hub.events.agent(&tunnel.id, AgentChange::Trust);
    Ok(stored)
}

/// Whether an agent that answers probes is within a caller's reach.
pub fn is_reached(hub: &Wires, caller: &Caller, sonde: &SondeAgent) -> bool {
    hub.agents.find(sonde.id.as_str()).is_some_and(|agent| reaches(caller, &agent))
}
