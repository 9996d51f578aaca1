//! Events of clients and their pairings.

use convoke_core::event::{ClientEvent, Event, PairingEvent, PairingState};

use super::clients::Client;
use crate::Wires;

/// Something about a client changed.
pub(super) fn client(hub: &Wires, client: &Client, removed: bool) {
    let (liveness, trust) = {
        let state = client.state();
        (state.liveness(), state.record.trust)
    };
    let identifier = client.identifier.to_string();
    hub.events.publish(Event::Client(ClientEvent { id: client.peer(), identifier, liveness, trust, removed }));
}

/// A client's request to be paired is where it is now.
pub(super) fn pairing(hub: &Wires, client: &Client) {
    let state = match &client.state().record.pairing {
        None => PairingState::Ended,
        Some(pairing) if pairing.approved => PairingState::Approved,
        Some(_) => PairingState::Pending,
    };
    let identifier = client.identifier.to_string();
    hub.events.publish(Event::Pairing(PairingEvent { identifier, state, peer: client.peer() }));
}
