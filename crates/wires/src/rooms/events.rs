//! Events of rooms.

use convoke_core::event::{Event, RoomEvent};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::peer;
use crate::Wires;

/// Something about a room changed.
pub(super) fn room(hub: &Wires, room: &str, what: &str, participant: Option<&str>) {
    let (room, what, peer) = (room.to_owned(), what.to_owned(), peer(room));
    hub.events.publish(Event::Room(RoomEvent { room, what, participant: participant.map(str::to_owned), peer }));
}

/// An operator changed something about a room: the journal's detail says what.
pub(super) fn change(hub: &Wires, name: &str, detail: Option<&RawValue>) {
    #[derive(Deserialize)]
    struct Change {
        what: String,
        participant: Option<String>,
    }
    if let Some(change) = detail.and_then(|detail| serde_json::from_str::<Change>(detail.get()).ok()) {
        room(hub, name, &change.what, change.participant.as_deref());
    }
}
