//! Participants that the hub runs for assistants: an assistant asks now and then, and a room wants somebody who is there.
//! Each is an operator of its token, declared to be an agent, so a host's grants decide what it may, as for every agent.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use convoke_core::id::TokenId;
use convoke_kibitz::frame::Lobby;
use convoke_kibitz::participant::{CannotAct, Event, Participant, Profile};
use convoke_kibitz::room::{Act, Arrival, Conn};
use convoke_kibitz::transcript::{Scene, Transcript};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::link::{Out, RoomLink};
use super::live::After;
use super::sign::{Desk, operator_in};
use super::{LiveRoom, now};
use crate::Wires;
use crate::ws::frame_text;
use convoke_doors::ApiError;
use convoke_gate::clock;
use convoke_gate::operators::Caller;
use convoke_gate::shares::network;

/// Rooms that one token's assistant may be in at once, and seats of all.
const MAX_ROOMS: usize = 8;
const MAX_SEATS: usize = 1_000;
/// An assistant that asked for nothing for so long has gone.
const IDLE: Duration = Duration::from_secs(30 * 60);
/// How often that, and its token, are looked at.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// All of them.
#[derive(Debug, Default)]
pub struct Assistants {
    seats: Mutex<HashMap<(TokenId, String), Arc<Seat>>>,
}

/// An assistant's place in a room.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) room: Arc<LiveRoom>,
    caller: Caller,
    conn: Conn,
    link: Arc<RoomLink>,
    state: Mutex<State>,
    /// One thing is said after another, so that a refusal is that of what was said last.
    turn: tokio::sync::Mutex<()>,
    changed: Notify,
    over: CancellationToken,
}

#[derive(Debug)]
struct State {
    participant: Participant,
    transcript: Transcript,
    /// Why what was said last did not go out.
    refused: Option<(String, String)>,
    /// Why it was not let in, or is not there any more.
    ended: Option<String>,
    /// When it was last asked for something.
    used: Duration,
}

impl Assistants {
    fn seats(&self) -> MutexGuard<'_, HashMap<(TokenId, String), Arc<Seat>>> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The place of this token's assistant in a room.
    pub(super) fn find(&self, token: TokenId, room: &str) -> Option<Arc<Seat>> {
        self.seats().get(&(token, room.to_owned())).cloned()
    }

    /// The rooms that this token's assistant is in.
    pub(super) fn rooms_of(&self, token: TokenId) -> Vec<String> {
        let mut rooms: Vec<_> =
            self.seats().keys().filter(|(of, _)| *of == token).map(|(_, room)| room.clone()).collect();
        rooms.sort_unstable();
        rooms
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.seats().len()
    }

    /// A token is out of force: its assistant leaves.
    pub fn token_revoked(&self, token: TokenId) {
        let seats: Vec<_> =
            self.seats().iter().filter(|((of, _), _)| *of == token).map(|(_, s)| Arc::clone(s)).collect();
        seats.iter().for_each(|seat| seat.end("the token is no longer valid"));
    }

    fn take(&self, seat: &Arc<Seat>) -> Result<(), ApiError> {
        let (token, mut seats) = (seat.caller.token.id, self.seats());
        if seats.keys().filter(|(of, _)| *of == token).count() >= MAX_ROOMS {
            let words = format!("a token's assistant may be in {MAX_ROOMS} rooms at once; leave one first");
            return Err(ApiError::limited(words, 1));
        }
        if seats.len() >= MAX_SEATS {
            return Err(ApiError::busy("too many assistants are in rooms"));
        }
        match seats.entry((token, seat.room.name.clone())) {
            Entry::Occupied(_) => Err(ApiError::conflict("the assistant is entering this room already")),
            Entry::Vacant(free) => {
                free.insert(Arc::clone(seat));
                Ok(())
            }
        }
    }

    fn forget(&self, seat: &Arc<Seat>) {
        let key = (seat.caller.token.id, seat.room.name.clone());
        let mut seats = self.seats();
        if seats.get(&key).is_some_and(|held| Arc::ptr_eq(held, seat)) {
            seats.remove(&key);
        }
    }
}

/// Lets an assistant into a room, or finds it there. `name` goes before its token's.
pub(super) async fn join(
    hub: &Wires,
    caller: &Caller,
    room: Arc<LiveRoom>,
    name: Option<String>,
    backend: Option<String>,
) -> Result<Arc<Seat>, ApiError> {
    let assistants = &hub.rooms.assistants;
    if let Some(seat) = assistants.find(caller.token.id, &room.name)
        && !seat.is_over()
    {
        return Ok(seat);
    }
    let backend = backend.unwrap_or_else(|| caller.token.name.clone());
    let profile = Profile {
        name: name.unwrap_or_default(),
        agent: true,
        backend: Some(backend),
        egress: true,
        ..Profile::default()
    };
    let state = State {
        participant: Participant::new(profile, ""),
        transcript: Transcript::default(),
        refused: None,
        ended: None,
        used: hub.mono(),
    };
    let seat = Arc::new(Seat {
        room: Arc::clone(&room),
        caller: caller.clone(),
        conn: Conn(hub.rooms.number()),
        link: RoomLink::new(),
        state: Mutex::new(state),
        turn: tokio::sync::Mutex::default(),
        changed: Notify::new(),
        over: CancellationToken::new(),
    });
    assistants.take(&seat)?;
    let arrival = Arrival {
        challenge: clock::random(),
        host: String::new(),
        certificate: None,
        network: Some(network(caller.address)),
        caller: operator_in(&room.name, &caller.token),
    };
    let at = now(hub);
    let after = room.add(seat.conn, &seat.link, caller.address, arrival, at);
    // From here on its task ends it, whatever becomes of who asked.
    hub.tasks.spawn(run(hub.clone(), Arc::clone(&seat)));
    after.settle(hub, &room).await;
    seat.hear(hub).await;
    let refused = seat.state().ended.clone();
    match refused {
        None => Ok(seat),
        Some(why) => Err(ApiError::conflict(format!("cannot enter room `{}`: {why}", room.name))),
    }
}

/// Keeps an assistant in its room until it is over.
async fn run(hub: Wires, seat: Arc<Seat>) {
    let mut check = tokio::time::interval(CHECK_EVERY);
    while !seat.is_over() {
        tokio::select! {
            () = seat.link.queue.ready() => seat.hear(&hub).await,
            _ = check.tick() => seat.check(&hub),
            () = seat.over.cancelled() => {}
        }
    }
    hub.rooms.assistants.forget(&seat);
    seat.room.gone(seat.conn, now(&hub)).settle(&hub, &seat.room).await;
}

impl Seat {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.over.is_cancelled()
    }

    fn end(&self, why: &str) {
        self.state().ended.get_or_insert_with(|| why.to_owned());
        self.over.cancel();
        self.changed.notify_waiters();
    }

    fn check(&self, hub: &Wires) {
        if !self.caller.is_active(clock::now()) {
            self.end("the token is no longer valid");
        } else if hub.mono().saturating_sub(self.state().used) >= IDLE {
            self.end("the assistant asked for nothing for 30 minutes");
        }
    }

    /// Takes in what the room said.
    async fn hear(&self, hub: &Wires) {
        let afters = {
            let mut state = self.state();
            let mut afters = Vec::new();
            while let Some(out) = self.link.queue.pop() {
                afters.extend(state.on_out(out, |frame| self.put(hub, frame)));
            }
            if state.ended.is_some() {
                self.over.cancel();
            }
            afters
        };
        self.changed.notify_waiters();
        for after in afters {
            Box::pin(after.settle(hub, &self.room)).await;
        }
    }

    fn put(&self, hub: &Wires, frame: &str) -> After {
        let at = now(hub);
        self.room.with(at, |room| room.on_text(self.conn, frame, &Desk(hub), at)).1
    }

    /// Says something. Answers the actions that are to go through the gate.
    pub(super) async fn speak(
        &self,
        hub: &Wires,
        make: impl FnOnce(&mut Participant) -> Result<(u64, String), CannotAct>,
    ) -> Result<Vec<Act>, ApiError> {
        let _turn = self.turn.lock().await;
        let mut after = {
            let mut state = self.state();
            (state.refused, state.used) = (None, hub.mono());
            let (_, frame) = make(&mut state.participant).map_err(|why| ApiError::conflict(why.to_string()))?;
            self.put(hub, &frame)
        };
        let acts = after.take_acts();
        after.settle(hub, &self.room).await;
        self.hear(hub).await;
        let mut state = self.state();
        match (state.refused.take(), &state.ended) {
            (Some((reason, message)), _) => {
                let words = format!("the room refused it ({reason}): {message}");
                let hint = format!("a host or an operator changes the grant: `convoke room show {}`", self.room.name);
                Err(ApiError::new(axum::http::StatusCode::FORBIDDEN, "refused", words).hint(hint))
            }
            (None, Some(why)) => Err(ApiError::conflict(format!("no longer in the room: {why}"))),
            (None, None) => Ok(acts),
        }
    }

    /// An action has ended, or waits for a person: another may be asked for.
    pub(super) async fn acted(&self, hub: &Wires, act: &Act) {
        let ((), after) = self.room.with(now(hub), |room| room.answer_act(act, None));
        after.settle(hub, &self.room).await;
    }

    /// What is new since a look, waiting at most so long for something.
    pub(super) async fn observe(&self, hub: &Wires, after: Option<u64>, limit: usize, wait: Duration) -> Value {
        let give_up = tokio::time::sleep(wait);
        tokio::pin!(give_up);
        loop {
            let changed = self.changed.notified();
            {
                let mut state = self.state();
                state.used = hub.mono();
                let is_new = after.is_none_or(|after| state.transcript.now() > after) || state.ended.is_some();
                if is_new || give_up.is_elapsed() {
                    return state.shown(&self.room.name, after, limit, now(hub).unix());
                }
            }
            tokio::select! {
                () = changed => {}
                () = &mut give_up => {}
                () = hub.stopping.cancelled() => give_up.as_mut().reset(tokio::time::Instant::now()),
            }
        }
    }

    /// Goes.
    pub(super) fn leave(&self) {
        self.end("this participant left");
    }
}

impl State {
    /// Something came from the room. What it wants put to the room in return.
    fn on_out(&mut self, out: Out, mut put: impl FnMut(&str) -> After) -> Vec<After> {
        let frame = match out {
            Out::Frame(frame) => frame,
            Out::Close(close) => {
                self.ended.get_or_insert_with(|| close.reason.to_owned());
                return Vec::new();
            }
        };
        let Some(text) = frame_text(&frame) else { return Vec::new() };
        let mut afters = Vec::new();
        for event in self.participant.on_text(text, None, clock::now().millis().div_euclid(1000)) {
            self.transcript.note(&event);
            match event {
                Event::Send(frame) => afters.push(put(&frame)),
                Event::Refused { reason, message, .. } => self.refused = Some((reason, message)),
                Event::Problem { code, message } if code == "rate" => self.refused = Some((code, message)),
                Event::Problem { message, .. } => drop(self.ended.get_or_insert(message)),
                Event::Kicked => drop(self.ended.get_or_insert_with(|| "removed from the room".into())),
                Event::Lobby(Lobby::Locked) => drop(self.ended.get_or_insert_with(|| "it is locked".into())),
                Event::Lobby(Lobby::Denied) => drop(self.ended.get_or_insert_with(|| "a host said no".into())),
                _ => {}
            }
        }
        afters
    }

    fn shown(&self, room: &str, after: Option<u64>, limit: usize, now: i64) -> Value {
        let news = self.transcript.since(after, limit, Scene::of(&self.participant));
        // Texts, numbers and JSON of others, which are JSON.
        let mut shown = serde_json::to_value(news).unwrap_or_default();
        shown["room"] = room.into();
        shown["id"] = json!(self.participant.id());
        shown["can_act"] = self.participant.can_act(now).into();
        if let Some(why) = &self.ended {
            shown["ended"] = why.as_str().into();
        }
        shown
    }
}
