//! What other hubs changed of what the wires keep in memory: it is read anew.

use convoke_core::id::{PeerId, Protocol};
use convoke_core::lease::link_is_replaced;
use convoke_gate::cluster::follow::LinkFacts;
use convoke_gate::part::Followed;
use convoke_store::{PeerLink, StoreError};
use convoke_yonexus::reason::Status;
use convoke_yonexus::{answer, close};

use crate::Wires;
use crate::kenny::probes;
use crate::yonexus::{self, pairing};

pub(crate) async fn changed(hub: &Wires, Followed { what, id }: Followed<'_>) -> Result<(), StoreError> {
    match what {
        "sonde" => {
            let _turn = hub.agents.turn(id).await;
            let rows = hub.store.sonde_agents().await?;
            match (rows.into_iter().find(|row| row.id.as_str() == id), PeerId::parse(id)) {
                (Some(row), _) => hub.sonde.registry.follow(row),
                (None, Ok(id)) => hub.sonde.registry.remove(&id),
                (None, Err(_)) => {}
            }
        }
        "sonde_token" => hub.sonde.registry.follow_tokens(hub.store.sonde_tokens().await?),
        "client" => pairing::follow(hub, id).await?,
        "rule" => {
            let _turn = hub.yonexus.rules.turn().await;
            hub.yonexus.rules.set(hub.store.rules().await?);
        }
        _ => {}
    }
    Ok(())
}

/// Which link stands for a peer may have changed.
pub(crate) async fn link_stands(hub: &Wires, peer: &PeerId, link: Option<&PeerLink>) -> Result<(), StoreError> {
    if peer.protocol() == Protocol::Kenny
        && let Some(agent) = hub.agents.find(peer.as_str())
        && agent.state().remote().is_some()
    {
        let listed = link.and_then(|link| LinkFacts::read(&link.facts).listed);
        probes::learn_elsewhere(hub, &agent, listed.as_deref());
    }
    if let Some(identifier) = peer.as_str().strip_prefix("yonexus:")
        && let Some(client) = hub.yonexus.clients.find(identifier)
    {
        let held = client.state().held();
        if held.is_some_and(|held| link_is_replaced(held, link.map(|link| link.epoch))) {
            let notice = answer::disconnect_notice(identifier, "replaced", yonexus::now(hub)).encode();
            hub.yonexus.clients.close_link(&client, vec![notice], close::REPLACED);
        }
        let elsewhere = link.filter(|link| link.is_live && link.hub != hub.store.hub_id()).map(|link| link.epoch);
        if hub.yonexus.clients.stands_elsewhere(&client, elsewhere) {
            let status = if elsewhere.is_some() { Status::Online } else { Status::Offline };
            yonexus::tell_watchers(hub, identifier, status);
        }
    }
    Ok(())
}
