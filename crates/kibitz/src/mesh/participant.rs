//! A participant's end of the mesh: it announces itself to the authority, dials and answers the others in the roster, and
//! sends each of them what it may. What it knows and what happens is [`Participant`]'s, as on the relay.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value as Json;
use serde_json::value::RawValue;

use super::dials;
use super::enforce::{Arrived, Enforcer};
use super::pack::Value;
use crate::admission::assert;
use crate::frame::{FromParticipant, FromRelay, Lobby, from_participant};
use crate::grant::{Capability, Grant};
use crate::key::Signer;
use crate::participant::{CannotAct, Event, Participant, Profile};
use crate::room::HUB;

/// Between signs of life.
const PING_EVERY: Duration = Duration::from_millis(2_500);
/// When the announcement is repeated, and how often from then on.
const VOICE_AGAIN: [Duration; 2] = [Duration::from_millis(600), Duration::from_millis(1_800)];
const VOICE_EVERY: Duration = Duration::from_secs(3);
/// An authority that is silent for so long is gone.
const SILENT: Duration = Duration::from_secs(12);
/// How old an assertion may become; the authority takes it for five minutes.
const ASSERT_EVERY: i64 = 240;

/// Something for the runtime to do.
#[derive(Clone, Debug)]
pub enum Do {
    /// Send this over the presence connection.
    Presence(Value),
    /// Send this over the data connection to this media peer.
    Content(String, Value),
    /// Open a data connection to this media peer.
    Dial(String),
    /// Close the connection to this media peer: it is not in the roster any more.
    HangUp(String),
    /// The authority is silent: connect again.
    Reconnect,
    /// Tell the program.
    Tell(Event),
}

/// Why something is not said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotSaid {
    /// This participant does not speak, or is not in.
    #[error(transparent)]
    CannotAct(#[from] CannotAct),
    /// Its grant does not include it; everybody else would drop it.
    #[error("this participant's grant does not include `{}`", .0.name())]
    NotGranted(Capability),
    /// The addressee may not receive it.
    #[error("this participant may not receive what is said to it alone")]
    NotForThem,
    /// The addressee is not there.
    #[error("there is nobody of this id in the room")]
    Unknown,
}

impl NotSaid {
    /// The reason, in the words of a refusal on the relay.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::CannotAct(_) => "read_only",
            Self::NotGranted(capability) => capability.name(),
            Self::NotForThem => Capability::ReceiveDirected.name(),
            Self::Unknown => "unknown",
        }
    }
}

/// A participant of the mesh.
#[derive(Debug)]
pub struct MeshParticipant {
    me: String,
    room: String,
    inner: Participant,
    enforcer: Enforcer,
    voice: Json,
    assertion: Option<(String, i64)>,
    fingerprint: String,
    joined: bool,
    connected: BTreeSet<String>,
    dialling: BTreeSet<String>,
    opened: Option<Duration>,
    voiced: usize,
    heard: Duration,
    next_ping: Duration,
    next_voice: Duration,
}

impl MeshParticipant {
    /// One that is about to connect. `me` is the id of its media peer, `fingerprint` its certificate's.
    pub fn new(profile: Profile, me: &str, room: &str, fingerprint: &str) -> Self {
        let mut inner = Participant::new(profile, "");
        // The introduction of the relay, with what the mesh has besides.
        let hello = FromRelay::Hello { relay: 1, room: room.into(), challenge: String::new() }.encode();
        let introduction = inner.on_text(&hello, None, 0).into_iter().find_map(|event| match event {
            Event::Send(text) => serde_json::from_str::<Json>(&text).ok(),
            _ => None,
        });
        let mut voice = introduction.unwrap_or_else(|| serde_json::json!({ "t": "voice", "on": true }));
        voice["voiceId"] = me.into();
        Self {
            me: me.into(),
            room: room.into(),
            inner,
            enforcer: Enforcer::new(me),
            voice,
            assertion: None,
            fingerprint: fingerprint.into(),
            joined: false,
            connected: BTreeSet::new(),
            dialling: BTreeSet::new(),
            opened: None,
            voiced: 0,
            heard: Duration::ZERO,
            next_ping: Duration::MAX,
            next_voice: Duration::MAX,
        }
    }

    /// What it knows: the roster, grants, the latest view, schemas.
    pub const fn known(&self) -> &Participant {
        &self.inner
    }

    /// Whether it may say anything now.
    pub fn can_act(&self, now: i64) -> bool {
        self.joined && !self.inner.is_read_only() && self.enforcer.may(Capability::SendChat, now)
    }

    /// Its own grant, once it is in.
    pub fn own_grant(&self, now: i64) -> Option<Grant> {
        self.joined.then(|| self.enforcer.grant(&self.me, now))
    }

    /// Whether the authority is a hub, which takes actions to the applications and answers for them.
    pub fn has_hub(&self) -> bool {
        self.enforcer.has_hub()
    }

    /// How many of the others in the roster it is connected to, and how many there are.
    pub fn connections(&self) -> (usize, usize) {
        let others = self.enforcer.members().iter().filter(|member| member.id != self.me);
        (others.clone().filter(|member| self.connected.contains(&member.id)).count(), others.count())
    }

    /// When [`MeshParticipant::on_time`] is due next.
    pub fn due(&self) -> Duration {
        let silent = self.opened.map_or(Duration::MAX, |_| self.heard.saturating_add(SILENT));
        self.next_ping.min(self.next_voice).min(silent)
    }

    /// The presence connection is open.
    pub fn presence_open(&mut self, signer: Option<&dyn Signer>, now: i64, mono: Duration) -> Vec<Do> {
        (self.opened, self.heard, self.voiced) = (Some(mono), mono, 0);
        self.next_ping = mono.saturating_add(PING_EVERY);
        vec![self.announce(signer, now, mono)]
    }

    /// The presence connection is gone. Who was there is told anew by whoever is the authority next.
    pub fn presence_closed(&mut self) {
        (self.opened, self.next_ping, self.next_voice) = (None, Duration::MAX, Duration::MAX);
    }

    fn announce(&mut self, signer: Option<&dyn Signer>, now: i64, mono: Duration) -> Do {
        let pause = VOICE_AGAIN.get(self.voiced).copied().unwrap_or(VOICE_EVERY);
        self.voiced += 1;
        self.next_voice = mono.saturating_add(pause);
        if let Some(signer) = signer
            && self.assertion.as_ref().is_none_or(|(_, at)| now - at >= ASSERT_EVERY)
        {
            self.assertion = assert(signer, &self.room, &self.fingerprint, now).map(|assertion| (assertion, now));
        }
        if let Some((assertion, _)) = &self.assertion {
            self.voice["agentAssertion"] = assertion.as_str().into();
        }
        Do::Presence(Value::from_json(&self.voice))
    }

    /// Does what is due.
    pub fn on_time(&mut self, signer: Option<&dyn Signer>, now: i64, mono: Duration) -> Vec<Do> {
        if self.opened.is_none() {
            return Vec::new();
        }
        if mono >= self.heard.saturating_add(SILENT) {
            self.presence_closed();
            return vec![Do::Reconnect];
        }
        let mut todo = Vec::new();
        if mono >= self.next_ping {
            self.next_ping = mono.saturating_add(PING_EVERY);
            todo.extend(Value::from_text(&FromParticipant::Ping.encode()).map(Do::Presence));
        }
        if mono >= self.next_voice {
            todo.push(self.announce(signer, now, mono));
        }
        todo
    }

    /// The authority said something.
    pub fn on_presence(&mut self, value: &Value, mono: Duration) -> Vec<Do> {
        self.heard = mono;
        let text = value.to_json().to_string();
        let mut todo = Vec::new();
        match value.at("t").and_then(Value::text) {
            Some("roster") if self.enforcer.on_roster(value) => {
                let is_listed = self.enforcer.members().iter().any(|member| member.id == self.me);
                if is_listed && !self.joined {
                    self.joined = true;
                    let me = self.enforcer.members().iter().find(|member| member.id == self.me);
                    let name = me.map(|member| member.name.clone()).unwrap_or_default();
                    let kind = self.enforcer.kind(&self.me).name().into();
                    let id = FromRelay::Id { id: self.me.clone(), name, kind }.encode();
                    todo.extend(self.inner.on_text(&id, None, 0).into_iter().map(Do::Tell));
                }
                self.follow_roster(&mut todo);
                todo.extend(self.inner.on_text(&text, None, 0).into_iter().map(Do::Tell));
            }
            Some("lobby" | "kick" | "reset") => {
                let events = self.inner.on_text(&text, None, 0);
                todo.extend(events.into_iter().filter(|event| !matches!(event, Event::Malformed(_))).map(Do::Tell));
            }
            _ => {}
        }
        todo
    }

    /// Of two the smaller dials; who is not in the roster is left.
    fn follow_roster(&mut self, todo: &mut Vec<Do>) {
        let there: BTreeSet<&str> = self.enforcer.members().iter().map(|member| member.id.as_str()).collect();
        let gone = |id: &String| !there.contains(id.as_str());
        todo.extend(self.connected.iter().filter(|id| gone(id)).cloned().map(Do::HangUp));
        self.dialling.retain(|id| !gone(id));
        let wanted = there.into_iter().filter(|id| dials(&self.me, id) && !self.connected.contains(*id));
        let wanted: Vec<String> = wanted.filter(|id| !self.dialling.contains(*id)).map(Into::into).collect();
        for id in wanted {
            self.dialling.insert(id.clone());
            todo.push(Do::Dial(id));
        }
    }

    /// A data connection to a media peer is open.
    pub fn connected(&mut self, peer: &str) {
        self.dialling.remove(peer);
        self.connected.insert(peer.into());
    }

    /// A data connection is gone, or did not open; it is dialled again with the next roster.
    pub fn disconnected(&mut self, peer: &str) {
        self.dialling.remove(peer);
        self.connected.remove(peer);
    }

    /// A media peer said something.
    pub fn on_content(&mut self, from: &str, value: &Value, now: i64) -> Vec<Do> {
        // The relay's own name for the authority: what it alone may say, it alone may say here.
        let from_hub = from == self.enforcer.host();
        let payload = match self.enforcer.on_content(from, value, now) {
            Arrived::Content(payload) => payload,
            Arrived::Caps => value.to_json().to_string(),
            Arrived::Nothing | Arrived::Blocked { .. } => return Vec::new(),
        };
        let Ok(payload) = RawValue::from_string(payload) else { return Vec::new() };
        let id = if from_hub { HUB.to_owned() } else { from.to_owned() };
        let frame = FromRelay::From { id, payload }.encode();
        self.inner.on_text(&frame, None, now).into_iter().map(Do::Tell).collect()
    }

    /// Says something: a frame of [`Participant`]'s, made by `make`. Answers how many it is sent to.
    pub fn say(
        &mut self,
        make: impl FnOnce(&mut Participant) -> Result<(u64, String), CannotAct>,
        now: i64,
    ) -> Result<(usize, Vec<Do>), NotSaid> {
        let (_, frame) = make(&mut self.inner)?;
        let Ok(FromParticipant::To { id, payload, .. }) = from_participant(&frame) else {
            return Ok((0, Vec::new()));
        };
        let mut needed = vec![Capability::SendChat];
        if crate::content::Content::read(payload).is_ok_and(|content| content.kind() == "act") {
            needed.push(Capability::Act);
        }
        if let Some(missing) = needed.into_iter().find(|capability| !self.enforcer.may(*capability, now)) {
            return Err(NotSaid::NotGranted(missing));
        }
        // The relay's name for the authority.
        let id = id.map(|id| if id == HUB { self.enforcer.host().to_owned() } else { id });
        let hearers = match id {
            None => self.enforcer.hearers(now),
            Some(id) if !self.enforcer.members().iter().any(|member| member.id == id) => {
                return Err(NotSaid::Unknown);
            }
            Some(id) if !self.enforcer.may_receive(&id, now) => return Err(NotSaid::NotForThem),
            Some(id) => vec![id],
        };
        let Some(value) = Value::from_text(payload.get()) else { return Ok((0, Vec::new())) };
        let reached: Vec<Do> = hearers
            .into_iter()
            .filter(|id| self.connected.contains(id))
            .map(|id| Do::Content(id, value.clone()))
            .collect();
        Ok((reached.len(), reached))
    }

    /// The farewell.
    pub fn leave(&self) -> Option<Value> {
        Value::from_text(&FromParticipant::Leave.encode())
    }

    /// Whether the authority said no, and what.
    pub const fn refusal(event: &Event) -> Option<Lobby> {
        match event {
            Event::Lobby(lobby @ (Lobby::Denied | Lobby::Locked | Lobby::Unverified)) => Some(*lobby),
            _ => None,
        }
    }
}
