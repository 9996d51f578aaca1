//! What waits for a person at the wires: pairings, lobbies, changed attestations.

use convoke_api::inbox::{Inbox, Waiting};
use convoke_core::grant::{Right, Role};
use convoke_gate::hub::Hub;
use convoke_gate::operators::Caller;
use serde_json::json;

use crate::Wires;
use crate::{rooms, yonexus};

/// Adds what a caller may decide.
pub(crate) fn add(hub: &Hub, caller: &Caller, inbox: &mut Inbox) {
    let hub = Wires::of(hub);
    let grant = &caller.token.grant;
    if grant.check(Right::Trust).is_ok() {
        inbox.pairings = yonexus::routes::waiting(&hub, caller);
        inbox.attestation = attestation(&hub, caller);
    }
    if grant.role == Role::Admin {
        inbox.lobby = lobby(&hub, caller);
    }
}

fn attestation(hub: &Wires, caller: &Caller) -> Vec<Waiting> {
    let changed = |agent: &std::sync::Arc<crate::sonde::registry::SondeAgent>| {
        let tags = hub.agents.find(agent.id.as_str()).map(|a| a.state().tags.to_vec()).unwrap_or_default();
        let state = agent.state();
        let changed = state.facts.changed.as_ref()?;
        caller.token.grant.scopes.reaches(agent.id.as_str(), &tags).then(|| Waiting {
            id: agent.id.to_string(),
            subject: agent.name.clone(),
            at: Some(changed.since),
            until: None,
            detail: json!({ "agent": agent.id.as_str(), "changes": changed.changes }),
        })
    };
    hub.sonde.registry.list().iter().filter_map(changed).collect()
}

fn lobby(hub: &Wires, caller: &Caller) -> Vec<Waiting> {
    let now = rooms::now(hub);
    let mut waiting = Vec::new();
    for room in hub.rooms.list(None) {
        if !caller.token.grant.scopes.reaches::<String>(&rooms::peer(&room.name), &[]) {
            continue;
        }
        let people = room.look(|room| room.people(now));
        waiting.extend(people.into_iter().filter(|person| person.standing.name() == "waiting").map(|person| {
            Waiting {
                detail: json!({ "room": room.name, "participant": person.id }),
                id: person.id,
                subject: person.name,
                at: None,
                until: None,
            }
        }));
    }
    waiting
}
