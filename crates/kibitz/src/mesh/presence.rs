//! The authority's side of presence on the mesh. It stands in front of [`Room`], which decides who comes in, who may what
//! and who is kicked, whatever the transport; here is what only the mesh has: ids of media peers, timers, commands that
//! are signed, and rosters in the ids that browsers dial.
//!
//! What is applied to each message, in this order: a sign of life; whoever was kicked stays out; a host's command; then
//! the room's own rules (credential, lock, lobby, roster).

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde_json::value::to_raw_value;

use super::chunk::MAX_MESSAGE;
use super::pack::Value;
use crate::Now;
use crate::admission::HostCommand;
use crate::frame::{Announce, FromParticipant, FromRelay, Member, Moderation, from_participant, from_relay};
use crate::grant::{Capability, Grant};
use crate::key::Verifier;
use crate::room::{Arrival, Conn, HUB, Room};

/// Between rosters and pings to everyone.
const BEAT: Duration = Duration::from_millis(2_500);
/// Without a sign of life for so long a participant is gone.
const SILENT: Duration = Duration::from_secs(12);
/// If the authority itself stood still for so long, nobody is blamed for silence.
const FROZEN: Duration = Duration::from_secs(6);
/// Longest id of a media peer.
const MAX_MEDIA: usize = 100;
/// Commands that are remembered, so that none is followed twice.
const MAX_COMMANDS: usize = 256;

/// What a participant of the mesh sends over its presence connection.
#[derive(Clone, Debug)]
pub enum FromPeer {
    /// It wants in.
    Knock(Box<Announce>),
    /// It is there or goes from the roster.
    Voice {
        /// Whether it is there.
        on: bool,
        /// Whether it shows a camera.
        cam: bool,
        /// What it says about itself.
        announce: Box<Announce>,
        /// The id of its media peer.
        media: Option<String>,
    },
    /// A sign of life.
    Ping,
    /// It goes.
    Leave,
    /// A host's command, with a signature of its own.
    Signed(String),
    /// A host's command on a connection that has proved who it is, as on the relay.
    Mod(Moderation, Option<String>, Option<Grant>),
    /// An agent asks for the floor, or gives it back.
    Floor(bool),
}

/// Reads one message of the presence channel, not in pieces. `None`: nothing that presence knows.
pub fn read(bytes: &[u8]) -> Option<FromPeer> {
    if bytes.len() > MAX_MESSAGE {
        return None;
    }
    read_value(&Value::decode(bytes).ok()?)
}

/// Reads one message of the presence channel.
pub fn read_value(value: &Value) -> Option<FromPeer> {
    let kind = value.at("t").and_then(Value::text)?;
    if let ("mod", Some(token)) = (kind, value.at("token").and_then(Value::text)) {
        return Some(FromPeer::Signed(token.into()));
    }
    let media = value.at("voiceId").and_then(Value::text).filter(|id| is_media(id)).map(str::to_owned);
    let text = value.to_json().to_string();
    Some(match from_participant(&text).ok()? {
        FromParticipant::Knock(announce) => FromPeer::Knock(announce),
        // Without a media peer nobody can talk to it, so it is at the door still.
        FromParticipant::Voice { on: true, announce, .. } if media.is_none() => FromPeer::Knock(announce),
        FromParticipant::Voice { on, cam, announce } => FromPeer::Voice { on, cam, announce, media },
        FromParticipant::Ping => FromPeer::Ping,
        FromParticipant::Leave => FromPeer::Leave,
        FromParticipant::Mod { op, target, grant } => FromPeer::Mod(op, target, grant),
        FromParticipant::Floor { on } => FromPeer::Floor(on),
        FromParticipant::To { .. } => return None,
    })
}

/// Whether a text can be the id of a media peer: as the broker gives them out.
fn is_media(id: &str) -> bool {
    id.len() <= MAX_MEDIA && !id.is_empty() && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_ ".contains(&b))
}

/// Something that goes to a participant of the mesh.
#[derive(Clone, Debug, PartialEq)]
pub enum ToPeer {
    /// Over its presence connection.
    Presence(Value),
    /// Over the data connection between its media peer and the hub's.
    Content(Value),
    /// Over the data connection between its media peer and this one, with which the hub speaks for a participant of the
    /// relay.
    Bridged(String, Value),
}

#[derive(Debug)]
struct Seat {
    heard: Duration,
    fingerprint: String,
    media: Option<String>,
    token: Option<String>,
    /// Who it is, once the room has let it in.
    identity: Option<String>,
    roster: Option<Value>,
    caps: Option<Value>,
}

/// The presence connections of a room.
#[derive(Debug)]
pub struct Presence {
    /// The id of the hub's own media peer, which is listed as the host so that its grants count.
    hub: String,
    seats: BTreeMap<Conn, Seat>,
    commands: VecDeque<String>,
    /// Relay participants that the hub speaks for, by identity, with the id of their media peer.
    bridged: BTreeMap<String, String>,
    ticked: Duration,
    beat: Duration,
}

impl Presence {
    /// With nobody. `hub` is the id of the hub's media peer.
    pub fn new(hub: impl Into<String>, now: Duration) -> Self {
        Self {
            hub: hub.into(),
            seats: BTreeMap::new(),
            commands: VecDeque::new(),
            bridged: BTreeMap::new(),
            ticked: now,
            beat: now,
        }
    }

    /// Whether this is a connection of the mesh.
    pub fn has(&self, conn: Conn) -> bool {
        self.seats.contains_key(&conn)
    }

    /// The media peer of a participant in the roster, and the certificate that its presence connection showed.
    pub fn media(&self, conn: Conn) -> Option<(&str, &str)> {
        let seat = self.seats.get(&conn)?;
        Some((seat.media.as_deref()?, &seat.fingerprint))
    }

    /// Whether the participant came by a key, and so its media peer must show the certificate that the key was asserted for.
    pub fn is_bound(&self, conn: Conn) -> bool {
        let identity = self.seats.get(&conn).and_then(|seat| seat.identity.as_deref());
        identity.is_some_and(|identity| identity.starts_with("agent-"))
    }

    /// The connection whose media peer this is. Who is not let in yet owns none.
    pub fn conn_of(&self, media: &str) -> Option<Conn> {
        let is_it = |seat: &Seat| seat.identity.is_some() && seat.media.as_deref() == Some(media);
        self.seats.iter().find(|(_, seat)| is_it(seat)).map(|(conn, _)| *conn)
    }

    /// From now on the hub speaks for this participant of the relay with this media peer.
    pub fn bridge(&mut self, identity: &str, media: &str) {
        self.bridged.insert(identity.to_owned(), media.to_owned());
    }

    /// It does so no more. Answers with which it did.
    pub fn unbridge(&mut self, identity: &str) -> Option<String> {
        self.bridged.remove(identity)
    }

    /// Those for whom the hub speaks, with their media peers.
    pub const fn bridged(&self) -> &BTreeMap<String, String> {
        &self.bridged
    }

    /// For whom the hub speaks with this media peer.
    pub fn bridged_as(&self, media: &str) -> Option<&str> {
        self.bridged.iter().find(|(_, id)| *id == media).map(|(identity, _)| identity.as_str())
    }

    /// A data channel opened on a connection whose certificate has this fingerprint.
    pub fn open(&mut self, room: &mut Room, conn: Conn, fingerprint: &str, arrival: Arrival, now: Now) {
        let seat = Seat {
            heard: now.mono,
            fingerprint: fingerprint.into(),
            media: None,
            token: None,
            identity: None,
            roster: None,
            caps: None,
        };
        self.seats.insert(conn, seat);
        room.open(conn, Arrival { certificate: Some(fingerprint.into()), ..arrival }, now);
    }

    /// A connection is gone.
    pub fn closed(&mut self, room: &mut Room, conn: Conn, now: Now) {
        if self.seats.remove(&conn).is_some() {
            room.closed(conn, now);
        }
    }

    /// A message came. What the room does about it comes out of [`Room::drain`].
    pub fn on_value(&mut self, room: &mut Room, conn: Conn, value: &Value, verifier: &dyn Verifier, now: Now) {
        let Some(seat) = self.seats.get_mut(&conn) else { return };
        seat.heard = now.mono;
        // What is unknown is ignored, as everywhere in the field.
        let Some(message) = read_value(value) else { return };
        let charter = room.charter();
        let kicked = |media: &Option<String>| media.as_ref().is_some_and(|media| charter.is_media_blocked(media));
        let says = |frame: FromParticipant<'_>, room: &mut Room| room.on_text(conn, &frame.encode(), verifier, now);
        match message {
            FromPeer::Ping => says(FromParticipant::Ping, room),
            FromPeer::Leave => says(FromParticipant::Leave, room),
            FromPeer::Signed(token) => self.command(room, conn, &token, verifier, now),
            FromPeer::Mod(op, target, grant) => {
                let target = target.map(|target| self.identity(&target).unwrap_or(target));
                says(FromParticipant::Mod { op, target, grant }, room);
            }
            FromPeer::Floor(on) => says(FromParticipant::Floor { on }, room),
            FromPeer::Knock(announce) => {
                if holds_credential(room, &announce) {
                    says(FromParticipant::Knock(announce), room);
                }
            }
            FromPeer::Voice { media, .. } if kicked(&media) => room.turn_away(conn, now),
            FromPeer::Voice { on, cam, announce, media } => {
                if !holds_credential(room, &announce) {
                    return;
                }
                if let Some(media) = media.filter(|_| on)
                    && !self.sit(room, conn, media, announce.token.as_deref(), now)
                {
                    return;
                }
                says(FromParticipant::Voice { on, cam, announce }, room);
            }
        }
    }

    /// Gives a connection its media peer. Another's is not somebody's own: first come, first served. One who comes again,
    /// with the same certificate or secret, takes the place of its older connection.
    fn sit(&mut self, room: &mut Room, conn: Conn, media: String, token: Option<&str>, now: Now) -> bool {
        let token = token.filter(|token| !token.is_empty());
        if media == self.hub || self.bridged.values().any(|id| *id == media) {
            return false;
        }
        if let Some(other) = self.conn_of(&media).filter(|other| *other != conn) {
            let (ours, theirs) = (self.seats.get(&conn), self.seats.get(&other));
            let is_same = |ours: &Seat, theirs: &Seat| {
                ours.fingerprint == theirs.fingerprint || (token.is_some() && theirs.token.as_deref() == token)
            };
            if !ours.zip(theirs).is_some_and(|(ours, theirs)| is_same(ours, theirs)) {
                return false;
            }
            room.hang_up(other, now);
        }
        if let Some(seat) = self.seats.get_mut(&conn) {
            room.set_media(conn, &media);
            seat.media = Some(media);
            seat.token = token.map(str::to_owned);
        }
        true
    }

    /// Who the media peer belongs to.
    fn identity(&self, media: &str) -> Option<String> {
        let seat = self.seats.values().find(|seat| seat.media.as_deref() == Some(media));
        seat.and_then(|seat| seat.identity.clone())
            .or_else(|| self.bridged.iter().find(|(_, id)| *id == media).map(|(identity, _)| identity.clone()))
    }

    /// A command that a host signed, for this connection. It counts once.
    fn command(&mut self, room: &mut Room, conn: Conn, token: &str, verifier: &dyn Verifier, now: Now) {
        let Some(seat) = self.seats.get(&conn) else { return };
        let charter = room.charter();
        let print = &seat.fingerprint;
        let found = HostCommand::check(token, &charter.host_keys, &charter.name, print, now.unix(), verifier);
        let Ok(command) = found else { return };
        let seen = command.jti.clone().unwrap_or_else(|| token.to_owned());
        if self.commands.contains(&seen) {
            return;
        }
        if self.commands.len() == MAX_COMMANDS {
            self.commands.pop_front();
        }
        self.commands.push_back(seen);
        let target = command.target.map(|target| self.identity(&target).unwrap_or(target));
        // Nobody of that id: nothing to do, and nobody to tell.
        let _ = room.command(command.op, target.as_deref(), "signed", now);
    }

    /// What the room wants sent to a connection of the mesh, in the mesh's words and ids.
    pub fn outgoing(&mut self, conn: Conn, text: &str, now: Now) -> Vec<ToPeer> {
        let Ok(frame) = from_relay(text) else { return Vec::new() };
        let presence = |value: Value| vec![ToPeer::Presence(value)];
        match frame {
            FromRelay::Id { id, .. } => {
                if let Some(seat) = self.seats.get_mut(&conn) {
                    seat.identity = Some(id);
                }
                Vec::new()
            }
            FromRelay::Lobby(_)
            | FromRelay::Reset
            | FromRelay::Ping
            | FromRelay::Kick
            | FromRelay::Lapsed
            | FromRelay::Log { .. } => Value::from_text(text).map_or_else(Vec::new, presence),
            FromRelay::Roster { members, lobby, locked, floor, .. } => {
                let floor = floor.and_then(|id| self.media_of(&id));
                let members = members.into_iter().filter_map(|member| self.listed(member)).collect();
                let roster = FromRelay::Roster { members, lobby, host: self.hub.clone(), locked, floor }.encode();
                let roster = Value::from_text(&roster);
                if let Some(seat) = self.seats.get_mut(&conn) {
                    seat.roster.clone_from(&roster);
                }
                roster.map_or_else(Vec::new, presence)
            }
            FromRelay::Host { waiting, grants } => {
                let of_media = |(id, grant): (String, Grant)| Some((self.media_of(&id)?, grant));
                let grants = grants.into_iter().filter_map(of_media).collect();
                let host = FromRelay::Host { waiting, grants }.encode();
                Value::from_text(&host).map_or_else(Vec::new, presence)
            }
            FromRelay::From { id, payload } if id == HUB => self.hub_says(conn, payload.get(), now),
            FromRelay::From { id, payload } => match (self.bridged.get(&id), Value::from_text(payload.get())) {
                (Some(media), Some(value)) => vec![ToPeer::Bridged(media.clone(), value)],
                _ => Vec::new(),
            },
            // The relay's own words, and content, which goes between the participants themselves.
            _ => Vec::new(),
        }
    }

    /// What the hub says: grants, in the ids of media peers; lines of rules go as they are.
    fn hub_says(&mut self, conn: Conn, payload: &str, now: Now) -> Vec<ToPeer> {
        #[derive(serde::Deserialize)]
        struct Caps {
            k: String,
            #[serde(default)]
            grants: BTreeMap<String, Grant>,
        }
        let Ok(Caps { k, grants }) = serde_json::from_str(payload) else { return Vec::new() };
        if k != "caps" {
            return Value::from_text(payload).map(ToPeer::Content).into_iter().collect();
        }
        let listed = |(identity, grant): (String, Grant)| Some((self.media_of(&identity)?, grant.at(now.unix())));
        let mut grants: BTreeMap<String, Grant> = grants.into_iter().filter_map(listed).collect();
        // Nothing that is said to all is sent to the hub.
        grants.insert(self.hub.clone(), Grant::of([Capability::ReceiveDirected]));
        let caps = Value::from_json(&serde_json::json!({ "k": "caps", "grants": grants }));
        if let Some(seat) = self.seats.get_mut(&conn) {
            seat.caps = Some(caps.clone());
        }
        vec![ToPeer::Content(caps)]
    }

    fn media_of(&self, identity: &str) -> Option<String> {
        let is_it = |seat: &&Seat| seat.identity.as_deref() == Some(identity);
        let seat = self.seats.values().find(is_it).and_then(|seat| seat.media.clone());
        seat.or_else(|| self.bridged.get(identity).cloned())
    }

    /// A member under the id that others dial. Who has none cannot be talked to, and is not shown.
    fn listed(&self, member: Member) -> Option<Member> {
        if member.id == HUB {
            let meta = to_raw_value(&serde_json::json!({ "role": "kibitzer", "hub": true })).ok();
            return Some(Member { id: self.hub.clone(), meta, ..member });
        }
        Some(Member { id: self.media_of(&member.id)?, ..member })
    }

    /// The latest grants, for a participant whose data connection to the hub has just opened.
    pub fn caps_for(&self, conn: Conn) -> Option<Value> {
        self.seats.get(&conn)?.caps.clone()
    }

    /// Does what is due: drops who is silent, and tells everyone who is there.
    pub fn on_tick(&mut self, room: &mut Room, now: Now) -> Vec<(Conn, Value)> {
        let gap = now.mono.saturating_sub(std::mem::replace(&mut self.ticked, now.mono));
        if gap > FROZEN {
            for seat in self.seats.values_mut() {
                seat.heard = now.mono;
            }
        }
        let silent = |seat: &Seat| now.mono.saturating_sub(seat.heard) >= SILENT;
        let gone: Vec<Conn> = self.seats.iter().filter(|(_, seat)| silent(seat)).map(|(conn, _)| *conn).collect();
        for conn in gone {
            room.hang_up(conn, now);
        }
        if now.mono.saturating_sub(self.beat) < BEAT {
            return Vec::new();
        }
        self.beat = now.mono;
        let ping = Value::from_text(&FromRelay::Ping.encode());
        let mut due = Vec::new();
        for (conn, seat) in &self.seats {
            due.extend(ping.iter().chain(&seat.roster).map(|value| (*conn, value.clone())));
        }
        due
    }
}

/// Whether there is anything to decide on. Who has no credential yet where one is needed waits quietly: they may bring
/// one with a later announcement.
fn holds_credential(room: &Room, announce: &Announce) -> bool {
    let Announce { jwt, agent_assertion, agent_credit, .. } = announce;
    room.charter().open || jwt.is_some() || agent_assertion.is_some() || agent_credit.is_some()
}
