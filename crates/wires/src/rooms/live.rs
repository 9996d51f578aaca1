//! A room that runs: the authority under a lock that is never held while anything is waited for, and its connections'
//! queues. What the authority says goes into the queues before the lock is given back, so everyone hears everything in
//! one order.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use convoke_core::door::Door;
use convoke_core::journal::{Decision, Draft, Kind};
use convoke_core::time::Timestamp;
use convoke_kibitz::Now;
use convoke_kibitz::room::{Act, Arrival, Charter, Conn, Event, Limits, Output, Room};
use convoke_store::StoreError;
use serde_json::json;

use super::link::RoomLink;
use super::peer;
use super::sign::RoomKey;
use crate::Wires;
use crate::ws::text_frame;
use convoke_gate::clock;

/// A room that runs.
#[derive(Debug)]
pub struct LiveRoom {
    /// Its name.
    pub name: String,
    /// When it was made.
    pub created_at: Timestamp,
    pub(super) key: RoomKey,
    /// Changes that are kept take turns.
    pub(super) turn: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    room: Room,
    links: HashMap<Conn, (Arc<RoomLink>, IpAddr)>,
}

/// What is left to do once the lock is given back.
#[derive(Debug, Default)]
#[must_use = "records and changes of rooms are waiting to be stored"]
pub struct After {
    events: Vec<Event>,
    acts: Vec<Act>,
    unverified: Vec<IpAddr>,
    changed: bool,
    slow: u64,
}

impl LiveRoom {
    pub(super) fn new(charter: Charter, key: RoomKey, created_at: Timestamp, limits: Limits, now: Now) -> Self {
        let name = charter.name.clone();
        let state = State { room: Room::new(charter, limits, now), links: HashMap::new() };
        Self { name, created_at, key, turn: tokio::sync::Mutex::default(), state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the authority.
    pub fn look<T>(&self, look: impl FnOnce(&Room) -> T) -> T {
        look(&self.state().room)
    }

    /// What is kept of it.
    pub fn charter(&self) -> Charter {
        self.look(|room| room.charter().clone())
    }

    /// How many are in the roster.
    pub fn present(&self) -> usize {
        self.look(Room::present)
    }

    /// Does something with the authority, and what it wants sent and closed.
    pub fn with<T>(&self, now: Now, act: impl FnOnce(&mut Room) -> T) -> (T, After) {
        let mut state = self.state();
        let done = act(&mut state.room);
        let after = state.perform(now);
        (done, after)
    }

    /// A connection was opened: from now on it is among those that hear.
    pub(super) fn add(&self, conn: Conn, link: &Arc<RoomLink>, from: IpAddr, arrival: Arrival, now: Now) -> After {
        let mut state = self.state();
        state.links.insert(conn, (Arc::clone(link), from));
        state.room.open(conn, arrival, now);
        state.perform(now)
    }

    /// A connection is gone.
    pub(super) fn gone(&self, conn: Conn, now: Now) -> After {
        let mut state = self.state();
        state.links.remove(&conn);
        state.room.closed(conn, now);
        state.perform(now)
    }
}

impl State {
    fn perform(&mut self, now: Now) -> After {
        let mut after = After::default();
        loop {
            let outputs = self.room.drain();
            if outputs.is_empty() {
                return after;
            }
            for output in outputs {
                match output {
                    Output::Send(to, text) => {
                        // Made into bytes once, however many get it.
                        let frame = Bytes::from(text_frame(&text));
                        for conn in to {
                            let Some((link, _)) = self.links.get(&conn) else { continue };
                            if link.push(frame.clone()).is_err() {
                                after.slow += 1;
                                self.links.remove(&conn);
                                self.room.closed(conn, now);
                            }
                        }
                    }
                    Output::Close(conn, close) => {
                        if let Some((link, _)) = self.links.remove(&conn) {
                            link.close(close);
                        }
                    }
                    Output::Unverified(conn) => {
                        after.unverified.extend(self.links.get(&conn).map(|(_, from)| *from));
                    }
                    Output::Act(act) => after.acts.push(act),
                    Output::Record(event) => after.events.push(event),
                    Output::Changed => after.changed = true,
                }
            }
        }
    }
}

impl After {
    /// The actions that were asked for: each is to go through the gate.
    pub(super) fn take_acts(&mut self) -> Vec<Act> {
        std::mem::take(&mut self.acts)
    }

    /// Keeps and records what there is.
    pub async fn settle(self, hub: &Wires, room: &LiveRoom) {
        let Self { events, unverified, changed, slow, acts: _ } = self;
        if slow > 0 {
            hub.metrics.dropped("room_slow_participant", slow);
            tracing::info!(room = room.name, slow, "removed participants that do not read their connections");
        }
        for from in unverified {
            hub.strangers.refused(from, Door::Room);
            hub.metrics.refused(Door::Room.name(), "stranger");
            hub.rooms.throttle.failed(from, clock::now());
        }
        if changed {
            keep(hub, room).await;
        }
        for event in events {
            super::events::room(hub, &room.name, event.what, Some(&event.participant));
            // Of guests of an open room there is no end; the room's own log has them.
            if event.via != "open" || event.what == "blocked" {
                hub.note(record(room, event)).await;
            }
        }
    }
}

/// Keeps what a host changed from within the room. It is in force already; a disk that fails is told.
async fn keep(hub: &Wires, room: &LiveRoom) {
    let _turn = room.turn.lock().await;
    let body = serde_json::to_string(&room.charter()).unwrap_or_default();
    match hub.store.withdraw_in_room(&room.name, body, None).await {
        Ok(_) | Err(StoreError::Owed) => {}
        Err(why) => tracing::error!(room = room.name, %why, "cannot store a host's change"),
    }
}

fn record(room: &LiveRoom, event: Event) -> Draft {
    let Event { what, participant, name, via, by, detail } = event;
    let kind = if matches!(what, "joined" | "left") { Kind::Auth } else { Kind::Grant };
    let detail = json!({ "what": what, "participant": participant, "name": name, "via": via, "detail": detail });
    let mut draft = Draft::new(clock::now(), kind).detail(&detail);
    draft.who = Some(by.unwrap_or(participant));
    draft.door = Some(Door::Room);
    draft.target = Some(peer(&room.name));
    draft.decision = (what == "blocked").then_some(Decision::Blocked);
    draft
}
