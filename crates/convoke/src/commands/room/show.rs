//! Rooms as tables.

use anyhow::Result;
use convoke_api::rooms::{ParticipantView, RoomAudit, RoomView};
use convoke_core::time::Timestamp;

use crate::output::Output;
use crate::table::{Field, Grid};
use crate::when;

pub(super) fn list(rooms: &[RoomView], now: Timestamp) -> Grid {
    let mut grid = Grid::new(&["ROOM", "PRESENT", "COMES IN", "KEYS", "MADE"]);
    for room in rooms {
        grid.row([
            room.name.as_str().into(),
            room.present.to_string().into(),
            comes_in(room).into(),
            room.agent_keys.len().to_string().into(),
            when::shown(room.created_at, now).into(),
        ]);
    }
    grid
}

fn comes_in(room: &RoomView) -> String {
    let who = if room.open { "anybody" } else { "by key, invite or token" };
    match (room.locked, room.lobby) {
        (true, _) => format!("nobody new ({who})"),
        (false, true) => format!("{who}, through the lobby"),
        (false, false) => who.into(),
    }
}

pub(super) fn room(output: &Output, room: &RoomView, now: Timestamp) -> Result<()> {
    let mut facts = Grid::facts();
    facts.fact("room", room.name.as_str());
    facts.fact("comes in", comes_in(room));
    facts.fact("relay", room.relay.as_str());
    if !room.posts.is_empty() {
        facts.fact("posts", room.posts.join(", "));
    }
    facts.fact("made", when::shown(room.created_at, now));
    for key in &room.agent_keys {
        facts.fact("agent key", format!("{} {}", key.thumbprint, key.label.as_deref().unwrap_or_default()));
    }
    output.table(&facts, "")?;
    output.text("")?;
    output.table(&people(room.participants.as_deref().unwrap_or_default(), now), "the room is empty")?;
    let log = room.audit.as_deref().unwrap_or_default();
    if !log.is_empty() {
        output.text("")?;
        output.table(&audit(log, now), "")?;
    }
    Ok(())
}

fn people(people: &[ParticipantView], now: Timestamp) -> Grid {
    let mut grid = Grid::new(&["PARTICIPANT", "NAME", "KIND", "CAME BY", "STATE", "MAY", "UNTIL"]);
    for person in people {
        let state = if person.kicked { "kicked" } else { person.hold.as_deref().unwrap_or(&person.state) };
        let kind = if person.host { "host" } else { &person.kind };
        grid.row([
            person.id.as_str().into(),
            person.name.as_str().into(),
            kind.into(),
            person.via.as_str().into(),
            Field::state(state),
            grant(person).into(),
            person.grant.expires_at.map_or_else(|| "-".into(), |at| when::shown(at, now)).into(),
        ]);
    }
    grid
}

/// What somebody may, in the contract's words.
pub(super) fn grant(person: &ParticipantView) -> String {
    let all: Vec<&str> = person.grant.perceive.iter().chain(&person.grant.act).map(String::as_str).collect();
    if all.is_empty() { "nothing".into() } else { all.join(" ") }
}

fn audit(lines: &[RoomAudit], now: Timestamp) -> Grid {
    let mut grid = Grid::new(&["WHEN", "WHAT", "PARTICIPANT", "DETAIL"]);
    for line in lines {
        grid.row([
            when::shown(line.at, now).into(),
            Field::state(&line.kind),
            line.participant.as_str().into(),
            line.detail.as_str().into(),
        ]);
    }
    grid
}
