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
use convoke_kibitz::mesh::pack::Value;
use convoke_kibitz::room::{Act, Acted, Arrival, Charter, Command, Conn, Event, Limits, Output, Room, Transport};
use convoke_rtc::LinkId;
use convoke_store::StoreError;
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

use super::adapter::Said;
use super::broker::Signals;
use super::link::RoomLink;
use super::mesh::{MeshSide, Shown, ToLink};
use super::peer;
use super::sign::{Desk, RoomKey};
use crate::Wires;
use crate::ws::text_frame;
use convoke_gate::clock;
use convoke_gate::operators::Caller;

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
    /// The id of the hub's media peer, in a mesh room.
    hub: Option<String>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    room: Room,
    links: HashMap<Conn, (Arc<RoomLink>, IpAddr)>,
    mesh: Option<MeshSide>,
    /// Actions on their way, by the hub's id.
    acting: HashMap<String, Acting>,
    /// Participants without a token, as the callers of their own actions, while they are in the room.
    guests: HashMap<String, Caller>,
}

/// An action on its way.
#[derive(Debug, Default)]
struct Acting {
    delivered: Option<oneshot::Sender<()>>,
    answer: Option<oneshot::Sender<Said>>,
}

/// What is left to do once the lock is given back.
#[derive(Debug, Default)]
#[must_use = "records and changes of rooms are waiting to be stored"]
pub struct After {
    events: Vec<Event>,
    acts: Vec<Act>,
    commands: Vec<Command>,
    unverified: Vec<IpAddr>,
    changed: bool,
    slow: u64,
    lost: u64,
}

impl LiveRoom {
    pub(super) fn new(
        charter: Charter,
        key: RoomKey,
        created_at: Timestamp,
        limits: Limits,
        (signals, sending): (&Arc<dyn Signals>, &mpsc::Sender<ToLink>),
        now: Now,
    ) -> Self {
        let name = charter.name.clone();
        let is_mesh = charter.transport == Transport::Mesh;
        let mesh = is_mesh.then(|| MeshSide::new(Arc::clone(signals), sending.clone(), now.mono));
        let hub = mesh.as_ref().map(|mesh| mesh.hub().to_owned());
        let room = Room::new(charter, limits, now);
        let (acting, guests) = (HashMap::new(), HashMap::new());
        let state = State { room, links: HashMap::new(), mesh, acting, guests };
        Self { name, created_at, key, turn: tokio::sync::Mutex::default(), hub, state: Mutex::new(state) }
    }

    /// Whether content goes directly between the participants.
    pub const fn is_mesh(&self) -> bool {
        self.hub.is_some()
    }

    /// The id of the hub's media peer, in a mesh room.
    pub(super) fn mesh_hub(&self) -> Option<String> {
        self.hub.clone()
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

    /// Does what is due.
    pub(super) fn tick(&self, desk: &Desk<'_>, now: Now) -> After {
        let mut state = self.state();
        state.room.on_tick(now);
        state.room.check(desk, now);
        state.on_mesh(now, |mesh, room| mesh.on_tick(room, now))
    }

    /// A presence connection of the mesh opened.
    pub(super) fn mesh_open(&self, conn: Conn, link: LinkId, from: &Shown, now: Now) -> After {
        self.state().on_mesh(now, |mesh, room| mesh.open(room, conn, link, from, now))
    }

    /// Something came over a presence connection.
    pub(super) fn mesh_value(&self, conn: Conn, value: &Value, desk: &Desk<'_>, now: Now) -> After {
        self.state().on_mesh(now, |mesh, room| mesh.on_value(room, conn, value, desk, now))
    }

    /// A presence connection is gone.
    pub(super) fn mesh_gone(&self, conn: Conn, now: Now) -> After {
        self.state().on_mesh(now, |mesh, room| mesh.gone(room, conn, now))
    }

    /// A data connection to one of the hub's media peers opened. False when it is not the participant's.
    pub(super) fn mesh_content(&self, ends: (&str, &str), link: LinkId, certificate: &str, now: Now) -> bool {
        let mut state = self.state();
        let State { mesh, room, .. } = &mut *state;
        mesh.as_mut().is_some_and(|mesh| mesh.content_open(room, ends, link, certificate, now))
    }

    /// Something came over a data connection to one of the hub's media peers.
    pub(super) fn mesh_said(&self, ends: (&str, &str), value: &Value, now: Now) -> After {
        self.state().on_mesh(now, |mesh, room| mesh.said(room, ends, value, now))
    }

    /// A data connection to one of the hub's media peers is gone.
    pub(super) fn mesh_content_gone(&self, ends: (&str, &str), link: LinkId) {
        if let Some(mesh) = &mut self.state().mesh {
            mesh.content_gone(ends, link);
        }
    }

    /// An action is on its way: `delivered` is told once it was delivered, or dropped.
    pub(super) fn announce_act(&self, act: &str, delivered: oneshot::Sender<()>) {
        self.state().acting.entry(act.to_owned()).or_default().delivered = Some(delivered);
    }

    /// An action was delivered, or waits for a person.
    pub(super) fn delivered(&self, act: &str) {
        let delivered = self.state().acting.get_mut(act).and_then(|acting| acting.delivered.take());
        if let Some(delivered) = delivered {
            let _ = delivered.send(());
        }
    }

    /// What an application says became of an action.
    pub(super) fn await_answer(&self, act: &str) -> oneshot::Receiver<Said> {
        let (answer, said) = oneshot::channel();
        self.state().acting.entry(act.to_owned()).or_default().answer = Some(answer);
        said
    }

    /// An action has ended.
    pub(super) fn forget(&self, act: &str) {
        self.state().acting.remove(act);
    }

    /// A participant without a token as the caller of its own actions, while it is in the room.
    pub(super) fn guest(&self, participant: &str, make: impl FnOnce() -> Caller) -> Option<Caller> {
        let mut state = self.state();
        let is_inside = state.room.is_inside(participant);
        is_inside.then(|| state.guests.entry(participant.to_owned()).or_insert_with(make).clone())
    }

    /// A participant has left, or all have: what they asked for and what waits does not run any more.
    pub(super) fn guests_left(&self, hub: &Wires, participant: Option<&str>) {
        let mut state = self.state();
        let gone = state.guests.extract_if(|id, _| participant.is_none_or(|participant| participant == id));
        for (_, caller) in gone {
            hub.operators.guest_left(caller.token.id);
        }
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
    fn on_mesh(&mut self, now: Now, act: impl FnOnce(&mut MeshSide, &mut Room)) -> After {
        if let Some(mesh) = &mut self.mesh {
            act(mesh, &mut self.room);
        }
        self.perform(now)
    }

    fn perform(&mut self, now: Now) -> After {
        let mut after = After::default();
        loop {
            let outputs = self.room.drain();
            // Before anything names them: whom the hub speaks for is dialled under an id of the hub's.
            if let Some(mesh) = &mut self.mesh {
                mesh.bridge(&self.room);
            }
            if outputs.is_empty() {
                after.lost = self.mesh.as_mut().map_or(0, MeshSide::take_lost);
                return after;
            }
            for output in outputs {
                match output {
                    Output::Send(to, text) => {
                        // Made into bytes once, however many get it.
                        let frame = Bytes::from(text_frame(&text));
                        for conn in to {
                            if let Some(mesh) = self.mesh.as_mut().filter(|mesh| mesh.has(conn)) {
                                mesh.say(conn, &text, now);
                                continue;
                            }
                            let Some((link, _)) = self.links.get(&conn) else { continue };
                            if link.push(frame.clone()).is_err() {
                                after.slow += 1;
                                self.links.remove(&conn);
                                self.room.closed(conn, now);
                            }
                        }
                    }
                    Output::Close(conn, close) => {
                        if let Some(mesh) = self.mesh.as_mut().filter(|mesh| mesh.has(conn)) {
                            mesh.close(&mut self.room, conn, now);
                            continue;
                        }
                        if let Some((link, _)) = self.links.remove(&conn) {
                            link.close(close);
                        }
                    }
                    Output::Unverified(conn) => {
                        after.unverified.extend(self.links.get(&conn).map(|(_, from)| *from));
                    }
                    Output::Act(act) => after.acts.push(act),
                    Output::Command(command) => after.commands.push(command),
                    Output::Acted(Acted { act, outcome }) => {
                        if let Some(answer) = self.acting.get_mut(&act).and_then(|acting| acting.answer.take()) {
                            let _ = answer.send(outcome);
                        }
                    }
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

    /// What operators asked the hub for.
    pub(super) fn take_commands(&mut self) -> Vec<Command> {
        std::mem::take(&mut self.commands)
    }

    /// Whether there is nothing to keep and to record.
    pub(super) fn is_empty(&self) -> bool {
        let Self { events, acts, commands: _, unverified, changed, slow, lost } = self;
        events.is_empty() && acts.is_empty() && unverified.is_empty() && !changed && *slow == 0 && *lost == 0
    }

    /// Keeps and records what there is.
    pub async fn settle(self, hub: &Wires, room: &LiveRoom) {
        let Self { events, unverified, changed, slow, lost, acts: _, commands: _ } = self;
        if lost > 0 {
            hub.metrics.dropped("room_mesh_messages", lost);
        }
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
            if event.what == "left" {
                room.guests_left(hub, Some(&event.participant));
            }
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
