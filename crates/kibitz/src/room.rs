//! The authority of one room on the relay: who is let in, who is there, who may what, and who hears what.
//!
//! ```text
//! Fresh ──knock, voice: a credential that counts──▶ In ──leave, kick, replaced, closed──▶ gone
//!   │                              │                ▲
//!   └─ 10 s, 5 wrong ones ▶ gone   └──lobby──▶ Waiting ──a host decides
//! ```
//!
//! What it promises (contract, section 4; a property test holds it to this):
//! * **Nobody is heard who may not speak.** Content of a participant without `send-chat` goes to nobody, an agent's
//!   `act` needs `act` besides, and a `view` comes from no agent.
//! * **Nothing is delivered that is withheld.** What is said to all goes only to those with `read-chat`, what is said to
//!   one only to who has `receive-directed`, and the roster only to who has `read-roster`; the others see themselves.
//! * **Nobody listens unseen.** Content goes to those in the roster only.
//! * **A kind is never widened.** Who came by an agent's key is an agent whatever it says, and who once said that it is
//!   one stays one.

mod act;
mod admit;
mod agents;
mod charter;
mod command;
mod host;
mod moderate;
mod show;
mod speak;
mod standing;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use convoke_core::time::Timestamp;
use serde_json::value::RawValue;

use crate::admission::{challenge_text, relay_fingerprint};
use crate::close::{self, Close};
use crate::frame::{Announce, FromParticipant, FromRelay, from_participant};
use crate::grant::{Grant, Kind};
use crate::key::Verifier;
use crate::rate::Rate;
use crate::{MAX_FRAME_AFTER, MAX_FRAME_BEFORE, Now, RELAY_VERSION};

pub use act::{Act, Acted, Delivered, NotDelivered};
pub use admit::invite_id;
pub use agents::{FLOOR_FOR, STATES};
pub(crate) use charter::is_credential;
use charter::{CERTIFICATE, INVITE, MEDIA, SUBJECT, TOKEN};
pub use charter::{Charter, Topic, Transport};
pub use command::{Command, Wish};
pub use moderate::{Decision, NoSuch};
pub use show::{Person, Standing};
pub use speak::{Post, PostError};
pub use standing::MAX_ISSUERS;

/// The id under which the hub itself speaks.
pub const HUB: &str = "hub";
/// How long a connection may take to be let in, or to be told to wait.
const ADMIT_WITHIN: Duration = Duration::from_secs(10);
/// Frames on a connection that is not in.
const MAX_FRAMES_BEFORE: u32 = 64;
/// Wrong credentials on one connection.
const MAX_WRONG: u8 = 5;
/// Malformed frames in a row.
const MAX_MALFORMED: u8 = 3;
/// Lines of the room's own log of blocked and granted things.
const MAX_AUDIT: usize = 80;
/// Grants that differ from the default; beyond it one must be taken back first.
pub const MAX_GRANTS: usize = 1_000;
/// Participants that were kicked; beyond it the oldest is forgotten.
pub const MAX_BLOCKED: usize = 1_000;
/// Participants that were in since the hub started; more are strangers to a locked room.
const MAX_SEEN: usize = 4_096;

/// How much there may be in one room.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Participants that are in.
    pub participants: usize,
    /// Connections that wait or are not in yet.
    pub outside: usize,
    /// Frames of one participant a second.
    pub frames_per_second: u32,
    /// Relay participants in a mesh room: the hub speaks for each of them there.
    pub bridged: usize,
}

/// One connection. The runtime chooses the number and never uses it twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Conn(pub u64);

/// The opener of a connection, as far as the hub knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caller {
    /// Nobody it knows.
    Stranger,
    /// An operator with a token of the hub.
    Operator {
        /// Something that tells the token from others and is no secret.
        id: String,
        /// The token's name.
        name: String,
        /// Whether they may moderate.
        host: bool,
        /// Whether they may speak, or only look.
        speaks: bool,
    },
}

/// A connection that was opened.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// Fresh randomness.
    pub challenge: [u8; 32],
    /// The host that it dialled.
    pub host: String,
    /// On the mesh: the fingerprint of the certificate that the other end showed. Assertions are bound to it.
    pub certificate: Option<String>,
    /// The network that it came from, if that is known.
    pub network: Option<IpAddr>,
    /// The opener.
    pub caller: Caller,
}

/// Something for the runtime to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send this text to each of these.
    Send(Vec<Conn>, String),
    /// Close this connection, after what was sent.
    Close(Conn, Close),
    /// Somebody showed a credential that does not count.
    Unverified(Conn),
    /// A participant asks the application for an action: decide on it, hand it to [`Room::deliver`], and tell what became
    /// of it with [`Room::answer_act`] or [`Room::fail_act`].
    Act(Act),
    /// An application says what became of one.
    Acted(Acted),
    /// An operator asks the hub for something: answer with [`Room::answer_command`] or [`Room::refuse_command`].
    Command(Command),
    /// Something for the record.
    Record(Event),
    /// The charter changed by a participant's doing: keep it.
    Changed,
}

/// Something for the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What happened: `joined`, `left`, `blocked`, `kicked`, …
    pub what: &'static str,
    /// To whom.
    pub participant: String,
    /// The name.
    pub name: String,
    /// How they got in; nothing for guests of an open room, of whom there is no end.
    pub via: &'static str,
    /// By whom, when another participant did it.
    pub by: Option<String>,
    /// More.
    pub detail: Option<String>,
}

/// A line of the room's own log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditLine {
    /// When.
    pub at: Timestamp,
    /// About whom.
    pub participant: String,
    /// Their name; empty if they were gone.
    pub name: String,
    /// `blocked`, `granted`, `expired`, `joined`, `left`, `kicked`, `paused`, …
    pub kind: &'static str,
    /// The content.
    pub detail: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Fresh,
    Waiting,
    In,
}

/// How somebody got in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Via {
    Key,
    Invite,
    Operator,
    Issuer,
    Credit,
    Open,
}

impl Via {
    const fn name(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Invite => "invite",
            Self::Operator => "operator",
            Self::Issuer => "issuer",
            Self::Credit => "credit",
            Self::Open => "open",
        }
    }
}

#[derive(Debug)]
struct Peer {
    stage: Stage,
    caller: Caller,
    challenge: String,
    fingerprint: String,
    /// The certificate of the mesh, as a credential.
    certificate: Option<String>,
    network: Option<IpAddr>,
    /// Its media peer on the mesh.
    media: Option<String>,
    deadline: Duration,
    frames: u32,
    wrong: u8,
    malformed: u8,
    rate: Rate,
    told: Option<Duration>,
    noted: Option<Duration>,
    /// Its content goes through the hub.
    relayed: bool,
    /// What comes over the mesh for those whom the hub speaks for: a message to all is one to each of them.
    over: Rate,
    /// Its actions that are under way.
    acting: usize,
    // From here on: what is known once a credential counted.
    id: String,
    /// What they came with, as far as it can be named: an invite, a token.
    credentials: Vec<String>,
    name: String,
    name_is_fixed: bool,
    kind: Kind,
    via: Via,
    is_host: bool,
    base: Grant,
    /// The operator by whose pass they came, and what they might then.
    pass: Option<(String, Caller)>,
    /// What it came with that runs out.
    runs_out: standing::RunsOut,
    /// What it announced when the keys that it takes to decide on that were not known yet.
    later: Option<(Option<(bool, bool)>, Announce)>,
    /// In the roster, and so within hearing.
    present: bool,
    /// Announced itself before it was let in.
    announced: bool,
    cam: bool,
    avatar: Option<String>,
    meta: Option<Box<RawValue>>,
    disclosed: (Option<String>, bool),
}

/// A room.
#[derive(Debug)]
pub struct Room {
    charter: Charter,
    limits: Limits,
    peers: BTreeMap<Conn, Peer>,
    /// The admitted participants, by id.
    inside: BTreeMap<String, Conn>,
    schemas: VecDeque<speak::KeptSchema>,
    audit: VecDeque<AuditLine>,
    seen: BTreeSet<String>,
    /// The credentials of those who were in since the hub started, as many as are remembered.
    came_with: BTreeMap<String, Vec<String>>,
    approved: BTreeSet<String>,
    /// The actions that were delivered and not answered, by the hub's id, with those who may answer.
    asked: BTreeMap<String, BTreeSet<Conn>>,
    floor: agents::Floor,
    host: Option<String>,
    desk: host::Desk,
    /// Until when grants were looked at for their end.
    swept: i64,
    out: Vec<Output>,
}

impl Room {
    /// A room with nobody in it.
    pub fn new(charter: Charter, limits: Limits, now: Now) -> Self {
        Self {
            charter,
            limits,
            peers: BTreeMap::new(),
            inside: BTreeMap::new(),
            schemas: VecDeque::new(),
            audit: VecDeque::new(),
            seen: BTreeSet::new(),
            came_with: BTreeMap::new(),
            approved: BTreeSet::new(),
            asked: BTreeMap::new(),
            floor: agents::Floor::default(),
            host: None,
            desk: host::Desk::default(),
            swept: now.unix(),
            out: Vec::new(),
        }
    }

    /// What is kept of it.
    pub const fn charter(&self) -> &Charter {
        &self.charter
    }

    /// From now on this is posted into it.
    pub fn set_posts(&mut self, posts: BTreeSet<Topic>) {
        self.charter.posts = posts;
    }

    /// What there is to do. Everything else adds to it.
    pub fn drain(&mut self) -> Vec<Output> {
        self.tell_hosts();
        std::mem::take(&mut self.out)
    }

    /// A connection was opened.
    pub fn open(&mut self, conn: Conn, arrival: Arrival, now: Now) {
        let outside = self.peers.values().filter(|peer| peer.stage != Stage::In).count();
        if outside >= self.limits.outside {
            self.error(conn, "full", "too many are at the door of this room; come again shortly");
            self.out.push(Output::Close(conn, close::FULL));
            return;
        }
        let challenge = challenge_text(&arrival.challenge);
        let relayed = arrival.certificate.is_none();
        let bridged = u32::try_from(self.limits.bridged.max(1)).unwrap_or(u32::MAX);
        let over = self.limits.frames_per_second.saturating_mul(bridged);
        let certificate = arrival.certificate.as_ref().map(|print| format!("{CERTIFICATE}{print}"));
        let fingerprint = arrival.certificate.unwrap_or_else(|| relay_fingerprint(&arrival.host, &challenge));
        let hello =
            FromRelay::Hello { relay: RELAY_VERSION, room: self.charter.name.clone(), challenge: challenge.clone() };
        self.send(conn, &hello);
        let peer = Peer {
            stage: Stage::Fresh,
            caller: arrival.caller,
            challenge,
            fingerprint,
            certificate,
            network: arrival.network,
            media: None,
            deadline: now.mono.saturating_add(ADMIT_WITHIN),
            frames: 0,
            wrong: 0,
            malformed: 0,
            rate: Rate::new(self.limits.frames_per_second, now.mono),
            told: None,
            noted: None,
            relayed,
            over: Rate::new(over, now.mono),
            acting: 0,
            id: String::new(),
            credentials: Vec::new(),
            name: String::new(),
            name_is_fixed: false,
            kind: Kind::Agent,
            via: Via::Open,
            is_host: false,
            base: Grant::none(),
            pass: None,
            runs_out: standing::RunsOut::default(),
            later: None,
            present: false,
            announced: false,
            cam: false,
            avatar: None,
            meta: None,
            disclosed: (None, false),
        };
        self.peers.insert(conn, peer);
    }

    /// A connection is gone.
    pub fn closed(&mut self, conn: Conn, now: Now) {
        self.forget(conn, "left", now);
    }

    /// Closes a connection that has gone silent.
    pub fn hang_up(&mut self, conn: Conn, now: Now) {
        self.out.push(Output::Close(conn, close::TIMEOUT));
        self.forget(conn, "left", now);
    }

    /// A participant of the mesh has this media peer.
    pub fn set_media(&mut self, conn: Conn, media: &str) {
        if let Some(peer) = self.peers.get_mut(&conn) {
            peer.media = Some(media.to_owned());
        }
    }

    /// Turns away a connection of somebody who was kicked.
    pub fn turn_away(&mut self, conn: Conn, now: Now) {
        self.send(conn, &FromRelay::Kick);
        self.out.push(Output::Close(conn, close::KICKED));
        self.forget(conn, "left", now);
    }

    /// Largest message that is read from this connection; a larger one is refused, and at twice that it is closed.
    pub fn soft_limit(&self, conn: Conn) -> usize {
        let inside = self.peers.get(&conn).is_some_and(|peer| peer.stage == Stage::In);
        if inside { MAX_FRAME_AFTER } else { MAX_FRAME_BEFORE }
    }

    /// A text message came.
    pub fn on_text(&mut self, conn: Conn, text: &str, verifier: &dyn Verifier, now: Now) {
        self.sweep(now);
        if !self.counted(conn, now) {
            return;
        }
        let limit = self.soft_limit(conn);
        if text.len() > limit {
            let words = format!("a frame of {} bytes is over the limit of {limit}", text.len());
            return self.malformed(conn, "too_large", &words, now);
        }
        let frame = match from_participant(text) {
            Ok(frame) => frame,
            Err(why) => return self.malformed(conn, "malformed", &why.to_string(), now),
        };
        let Some(peer) = self.peers.get_mut(&conn) else { return };
        peer.malformed = 0;
        let stage = peer.stage;
        let is_in = stage == Stage::In;
        match frame {
            FromParticipant::Ping => self.send(conn, &FromRelay::Ping),
            FromParticipant::Leave => {
                self.out.push(Output::Close(conn, close::LEFT));
                self.forget(conn, "left", now);
            }
            FromParticipant::Knock(announce) => self.comes(conn, stage, None, *announce, verifier, now),
            FromParticipant::Voice { on, cam, announce } => {
                self.comes(conn, stage, Some((on, cam)), *announce, verifier, now);
            }
            FromParticipant::To { .. } | FromParticipant::Mod { .. } | FromParticipant::Floor { .. } if !is_in => {
                self.error(conn, "not_admitted", "knock first: nobody hears who is not in");
            }
            FromParticipant::Mod { op, target, grant } => self.moderate(conn, op, target.as_deref(), grant, now),
            FromParticipant::Floor { on } => self.ask_floor(conn, on, now),
            FromParticipant::To { id, reference, payload } => {
                self.speak(conn, id.as_deref(), reference, payload, now);
            }
        }
    }

    /// Somebody knocks or announces itself. Who it is, is settled once per connection.
    fn comes(
        &mut self,
        conn: Conn,
        stage: Stage,
        voice: Option<(bool, bool)>,
        announce: Announce,
        verifier: &dyn Verifier,
        now: Now,
    ) {
        match stage {
            Stage::Fresh => self.knock(conn, voice, announce, verifier, now),
            Stage::Waiting => self.wait_on(conn, voice, announce),
            Stage::In => {
                self.renew(conn, &announce, verifier, now);
                self.announce(conn, voice, announce, now);
            }
        }
    }

    /// A binary message came.
    pub fn on_binary(&mut self, conn: Conn, now: Now) {
        if self.counted(conn, now) {
            self.malformed(conn, "malformed", "frames are texts", now);
        }
    }

    /// Does what is due. Once a second is often enough.
    pub fn on_tick(&mut self, now: Now) {
        self.sweep(now);
        self.mind_floor(now);
        self.admit_unsuspected(now);
        let late = |peer: &Peer| peer.stage == Stage::Fresh && now.mono >= peer.deadline;
        let late: Vec<Conn> = self.peers.iter().filter(|(_, peer)| late(peer)).map(|(conn, _)| *conn).collect();
        for conn in late {
            self.error(conn, "timeout", "nobody was let in on this connection in time");
            self.out.push(Output::Close(conn, close::TIMEOUT));
            self.forget(conn, "left", now);
        }
    }

    /// Everybody is told and closed: the hub stops, or the room is removed.
    pub fn close_all(&mut self, code: &'static str, message: &str, close: Close) {
        for conn in self.peers.keys().copied().collect::<Vec<_>>() {
            self.error(conn, code, message);
            self.out.push(Output::Close(conn, close));
        }
        self.peers.clear();
        self.inside.clear();
        self.schemas.clear();
        self.asked.clear();
        self.floor = agents::Floor::default();
    }

    /// Counts a frame. Before admission there is a most; after it a rate.
    fn counted(&mut self, conn: Conn, now: Now) -> bool {
        let Some(peer) = self.peers.get_mut(&conn) else { return false };
        if peer.stage != Stage::Fresh {
            if peer.rate.take(now.mono) {
                return true;
            }
            if peer.told.is_none_or(|at| now.mono.saturating_sub(at) >= Duration::from_secs(1)) {
                peer.told = Some(now.mono);
                self.error(conn, "rate", "too many frames; some were dropped");
            }
            return false;
        }
        peer.frames += 1;
        if peer.frames <= MAX_FRAMES_BEFORE {
            return true;
        }
        self.error(conn, "rate", "too many frames before admission");
        self.out.push(Output::Close(conn, close::RATE_LIMITED));
        self.forget(conn, "left", now);
        false
    }

    fn malformed(&mut self, conn: Conn, code: &'static str, words: &str, now: Now) {
        let Some(peer) = self.peers.get_mut(&conn) else { return };
        peer.malformed += 1;
        let over = peer.malformed >= MAX_MALFORMED;
        self.error(conn, code, words);
        if over {
            self.out.push(Output::Close(conn, close::MALFORMED));
            self.forget(conn, "left", now);
        }
    }

    /// Takes a connection out of everything. The others are told.
    fn forget(&mut self, conn: Conn, what: &'static str, now: Now) {
        let Some(peer) = self.peers.remove(&conn) else { return };
        self.desk.door_changed |= peer.stage == Stage::Waiting;
        if peer.stage != Stage::In || self.inside.get(&peer.id) != Some(&conn) {
            return;
        }
        self.inside.remove(&peer.id);
        self.schemas.retain(|kept| kept.from != peer.id);
        self.note(&peer.id, what, peer.name.clone(), now);
        self.record(what, &peer, None, None);
        self.mind_floor(now);
        if peer.present {
            self.tell_roster(now);
        }
    }

    /// Whether content of this connection's goes through the hub.
    fn is_relayed(&self, conn: Conn) -> bool {
        self.peers.get(&conn).is_some_and(|peer| peer.relayed)
    }

    fn send(&mut self, conn: Conn, frame: &FromRelay) {
        self.out.push(Output::Send(vec![conn], frame.encode()));
    }

    fn error(&mut self, conn: Conn, code: &str, message: &str) {
        self.send(conn, &FromRelay::Error { code: code.into(), message: message.into() });
    }

    fn note(&mut self, participant: &str, kind: &'static str, detail: String, now: Now) {
        if self.audit.len() == MAX_AUDIT {
            self.audit.pop_front();
        }
        let here = self.peers.values().find(|peer| peer.id == participant).map(|peer| peer.name.clone());
        let name = here.or_else(|| matches!(kind, "joined" | "left").then(|| detail.clone())).unwrap_or_default();
        self.audit.push_back(AuditLine { at: now.wall, participant: participant.into(), name, kind, detail });
        self.desk.fresh_lines += 1;
    }

    fn record(&mut self, what: &'static str, peer: &Peer, by: Option<String>, detail: Option<String>) {
        self.out.push(Output::Record(Event {
            what,
            participant: peer.id.clone(),
            name: peer.name.clone(),
            via: peer.via.name(),
            by,
            detail,
        }));
    }
}
