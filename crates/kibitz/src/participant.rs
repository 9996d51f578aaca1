//! A participant's end of the relay (contract, section 7): it introduces itself, remembers who is there, the latest view
//! and the schemas, and knows what it may. What it may not it does not send; the engine would refuse it anyway.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use crate::admission::{assert, relay_fingerprint};
use crate::content::{self, Chat};
use crate::frame::{Announce, FromParticipant, FromRelay, Lobby, Malformed, Member, from_relay};
use crate::grant::{Capability, Grant};
use crate::key::Signer;
use crate::room::HUB;

/// Schemas that are remembered, and their bytes; beyond either the oldest goes.
const MAX_SCHEMAS: usize = 200;
const MAX_SCHEMA_BYTES: usize = 4 * 1024 * 1024;

/// How somebody wants to take part.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// The requested name.
    pub name: String,
    /// Whether it is an agent: then it starts read-only.
    pub agent: bool,
    /// Never say anything, whatever the grant.
    pub read_only: bool,
    /// The model that is told what this agent perceives.
    pub backend: Option<String>,
    /// What it perceives leaves the room.
    pub egress: bool,
    /// A secret by which it is the same one when it comes again.
    pub token: Option<String>,
    /// An invite.
    pub invite: Option<String>,
}

/// An event.
#[derive(Clone, Debug)]
pub enum Event {
    /// Send this.
    Send(String),
    /// It is in.
    Joined {
        /// Under this id.
        id: String,
        /// Under this name.
        name: String,
        /// As `human` or `agent`.
        kind: String,
    },
    /// The state in the lobby.
    Lobby(Lobby),
    /// The roster or the grants changed.
    Roster,
    /// A participant said something.
    Chat(Said),
    /// The application's state changed.
    View,
    /// An agent asks the application for an action.
    Act {
        /// Who asks.
        from: String,
        /// Its id, if an answer is wanted.
        id: Option<String>,
        /// What for.
        action: Box<RawValue>,
    },
    /// What became of an action that was asked for.
    Acted {
        /// Who says so.
        from: String,
        /// The id of the request.
        id: String,
        /// The result, if there is one, or why it failed.
        outcome: Result<Option<Box<RawValue>>, String>,
    },
    /// A person must say yes to an action first.
    Waiting {
        /// Who says so.
        from: String,
        /// The id of the request.
        id: String,
        /// The approval that waits.
        approval: String,
    },
    /// Application data that is no envelope.
    Data {
        /// From whom.
        from: String,
        /// The content.
        data: Box<RawValue>,
    },
    /// The shape of an application's views.
    Schema(KnownSchema),
    /// Content was not forwarded.
    Refused {
        /// The value.
        what: String,
        /// The capability that is missing, or another fixed word.
        reason: String,
        /// In words.
        message: String,
        /// Its number.
        reference: Option<u64>,
    },
    /// Everything that was said is to be cleared.
    Reset,
    /// It was removed.
    Kicked,
    /// An error of the hub.
    Problem {
        /// A fixed word.
        code: String,
        /// In words.
        message: String,
    },
    /// The relay sent what is no frame.
    Malformed(Malformed),
}

/// A line of chat, of people or of agents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// The sender.
    pub from: String,
    /// The name in the roster.
    pub name: String,
    /// The text.
    pub text: String,
    /// The rule that it came by, when the hub says it on behalf of a Yonexus client.
    pub rule: Option<String>,
    /// That client.
    pub sender: Option<String>,
    /// Which part of how many, when it is longer than a line.
    pub part: Option<(u32, u32)>,
}

/// A schema that somebody published.
#[derive(Clone, Debug)]
pub struct KnownSchema {
    /// The sender.
    pub from: String,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The schema.
    pub schema: Box<RawValue>,
}

/// Why something is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CannotAct {
    /// It takes part read-only.
    #[error("this participant is read-only")]
    ReadOnly,
    /// It is not in.
    #[error("this participant is not in the room")]
    NotIn,
}

/// A participant.
#[derive(Debug)]
pub struct Participant {
    profile: Profile,
    dialled: String,
    id: Option<String>,
    members: Vec<Member>,
    room_host: String,
    grants: BTreeMap<String, Grant>,
    view: Option<Box<RawValue>>,
    schemas: Vec<KnownSchema>,
    next: u64,
}

impl Participant {
    /// One that is about to connect. `host` is what it dials, with the port, as it stands in the request.
    pub fn new(profile: Profile, host: impl Into<String>) -> Self {
        Self {
            profile,
            dialled: host.into(),
            id: None,
            members: Vec::new(),
            room_host: String::new(),
            grants: BTreeMap::new(),
            view: None,
            schemas: Vec::new(),
            next: 0,
        }
    }

    /// Its id, once it is in.
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// The roster.
    pub fn roster(&self) -> &[Member] {
        &self.members
    }

    /// The host's id; empty when there is none.
    pub fn room_host(&self) -> &str {
        &self.room_host
    }

    /// The grant of a participant, as the authority says.
    pub fn grant(&self, id: &str) -> Option<&Grant> {
        self.grants.get(id)
    }

    /// The latest state of the application.
    pub fn view(&self) -> Option<&RawValue> {
        self.view.as_deref()
    }

    /// Every schema published so far.
    pub fn schemas(&self) -> &[KnownSchema] {
        &self.schemas
    }

    /// Whether it never says anything, whatever the grant.
    pub const fn is_read_only(&self) -> bool {
        self.profile.read_only
    }

    /// Whether it may say anything at that time (seconds since 1970), as far as it knows.
    pub fn can_act(&self, now: i64) -> bool {
        let granted = self.id.as_ref().and_then(|id| self.grants.get(id));
        !self.profile.read_only && granted.is_some_and(|grant| grant.allows(Capability::SendChat, now))
    }

    /// A text message came. `signer` is the agent's key, if it comes by one; `now` is in seconds since 1970.
    pub fn on_text(&mut self, text: &str, signer: Option<&dyn Signer>, now: i64) -> Vec<Event> {
        match from_relay(text) {
            Ok(frame) => self.on_frame(frame, signer, now),
            Err(why) => vec![Event::Malformed(why)],
        }
    }

    fn on_frame(&mut self, frame: FromRelay, signer: Option<&dyn Signer>, now: i64) -> Vec<Event> {
        match frame {
            FromRelay::Hello { room, challenge, .. } => {
                let fingerprint = relay_fingerprint(&self.dialled, &challenge);
                let assertion = signer.and_then(|signer| assert(signer, &room, &fingerprint, now));
                vec![Event::Send(self.introduction(assertion))]
            }
            FromRelay::Id { id, name, kind } => {
                self.id = Some(id.clone());
                vec![Event::Joined { id, name, kind }]
            }
            FromRelay::Lobby(status) => vec![Event::Lobby(status)],
            FromRelay::Roster { members, host, .. } => {
                self.members = members;
                self.room_host = host;
                vec![Event::Roster]
            }
            FromRelay::Ping | FromRelay::Host { .. } | FromRelay::Log { .. } => Vec::new(),
            FromRelay::Kick | FromRelay::Lapsed => vec![Event::Kicked],
            FromRelay::Reset => vec![Event::Reset],
            FromRelay::From { id, payload } => self.on_content(&id, &payload).into_iter().collect(),
            FromRelay::Refused { what, reason, message, reference } => {
                vec![Event::Refused { what, reason, message, reference }]
            }
            FromRelay::Error { code, message } => vec![Event::Problem { code, message }],
        }
    }

    fn introduction(&self, agent_assertion: Option<String>) -> String {
        let Profile { name, agent, read_only, backend, egress, token, invite } = &self.profile;
        let mut meta = Map::new();
        if *agent {
            meta.insert("role".into(), "agent".into());
        }
        if *read_only {
            meta.insert("readOnly".into(), true.into());
        }
        if let Some(backend) = backend {
            meta.insert("backend".into(), backend.as_str().into());
        }
        if *egress || backend.is_some() {
            meta.insert("egress".into(), true.into());
        }
        let announce = Announce {
            name: Some(name.clone()).filter(|name| !name.is_empty()),
            avatar: None,
            token: token.clone(),
            jwt: invite.clone(),
            agent_assertion,
            agent_credit: None,
            meta: (!meta.is_empty()).then(|| to_raw_value(&Value::Object(meta)).ok()).flatten(),
        };
        FromParticipant::Voice { on: true, cam: false, announce: Box::new(announce) }.encode()
    }

    fn name_of(&self, id: &str) -> String {
        self.members.iter().find(|member| member.id == id).map_or(id, |member| &member.name).to_owned()
    }

    fn on_content(&mut self, from: &str, payload: &RawValue) -> Option<Event> {
        #[derive(Deserialize)]
        struct Peek {
            k: String,
        }
        #[derive(Deserialize)]
        struct Caps {
            grants: BTreeMap<String, Grant>,
        }
        #[derive(Deserialize)]
        struct App {
            data: Box<RawValue>,
        }
        #[derive(Deserialize)]
        struct SchemaRead {
            name: String,
            version: String,
            schema: Box<RawValue>,
        }
        let text = payload.get();
        match serde_json::from_str::<Peek>(text).ok()?.k.as_str() {
            "chat" => {
                let chat: Chat = serde_json::from_str(text).ok()?;
                // Only the hub speaks on behalf of others.
                let is_hub = from == HUB;
                Some(Event::Chat(Said {
                    from: from.into(),
                    name: self.name_of(from),
                    text: chat.text,
                    rule: chat.rule.filter(|_| is_hub),
                    sender: chat.sender.filter(|_| is_hub),
                    part: chat.part.zip(chat.parts).filter(|_| is_hub),
                }))
            }
            "caps" if from == HUB => {
                self.grants = serde_json::from_str::<Caps>(text).ok()?.grants;
                Some(Event::Roster)
            }
            "app" => self.on_app(from, serde_json::from_str::<App>(text).ok()?.data),
            "schema" => {
                let SchemaRead { name, version, schema } = serde_json::from_str(text).ok()?;
                let known = KnownSchema { from: from.into(), name, version, schema };
                self.schemas.retain(|s| s.from != known.from || s.name != known.name);
                self.schemas.push(known.clone());
                while self.schemas.len() > MAX_SCHEMAS || bytes(&self.schemas) > MAX_SCHEMA_BYTES {
                    self.schemas.remove(0);
                }
                Some(Event::Schema(known))
            }
            _ => None,
        }
    }

    fn on_app(&mut self, from: &str, data: Box<RawValue>) -> Option<Event> {
        #[derive(Deserialize)]
        struct Envelope {
            #[serde(rename = "__kib_agent")]
            kind: Option<Value>,
            text: Option<String>,
            view: Option<Box<RawValue>>,
            action: Option<Box<RawValue>>,
            id: Option<Value>,
            ok: Option<bool>,
            result: Option<Box<RawValue>>,
            error: Option<Value>,
            from: Option<String>,
            approval: Option<String>,
        }
        let envelope = serde_json::from_str::<Envelope>(data.get()).ok();
        let kind = envelope.as_ref().and_then(|e| e.kind.as_ref()).and_then(Value::as_str);
        match (kind, envelope.as_ref()) {
            (Some("chat"), Some(Envelope { text: Some(text), .. })) => Some(Event::Chat(Said {
                from: from.into(),
                name: self.name_of(from),
                text: text.clone(),
                rule: None,
                sender: None,
                part: None,
            })),
            (Some("view"), Some(Envelope { view: Some(view), .. })) => {
                self.view = Some(view.clone());
                Some(Event::View)
            }
            (Some("act"), Some(Envelope { action: Some(action), id, from: asker, .. })) => {
                let id = id.as_ref().and_then(Value::as_str).map(Into::into);
                // Only the hub says who asked.
                let asker = asker.as_deref().filter(|_| from == HUB).unwrap_or(from);
                Some(Event::Act { from: asker.into(), id, action: action.clone() })
            }
            (Some("waiting"), Some(Envelope { id: Some(Value::String(id)), approval: Some(approval), .. })) => {
                Some(Event::Waiting { from: from.into(), id: id.clone(), approval: approval.clone() })
            }
            (Some("acted"), Some(Envelope { id: Some(Value::String(id)), ok: Some(ok), result, error, .. })) => {
                let words = |error: &Value| error.as_str().map_or_else(|| error.to_string(), Into::into);
                let failed = || Err(error.as_ref().map_or_else(String::new, words));
                let outcome = if *ok { Ok(result.clone()) } else { failed() };
                Some(Event::Acted { from: from.into(), id: id.clone(), outcome })
            }
            _ => Some(Event::Data { from: from.into(), data }),
        }
    }

    /// A line of the built-in chat.
    pub fn chat(&mut self, text: &str) -> Result<(u64, String), CannotAct> {
        let payload = content::Content::Chat(Chat::new(text)).written();
        self.to(None, &payload)
    }

    /// An agent's line of chat.
    pub fn say(&mut self, text: &str) -> Result<(u64, String), CannotAct> {
        self.to(None, &format!(r#"{{"k":"app","data":{}}}"#, content::say(text)))
    }

    /// A request to the application: of one participant, or of all. With an `id` it is answered.
    pub fn act(&mut self, action: &RawValue, id: Option<&str>, to: Option<&str>) -> Result<(u64, String), CannotAct> {
        self.to(to, &format!(r#"{{"k":"app","data":{}}}"#, content::act(action, id)))
    }

    /// What became of a request, for who made it.
    pub fn acted(
        &mut self,
        to: &str,
        id: &str,
        outcome: Result<Option<&RawValue>, &str>,
    ) -> Result<(u64, String), CannotAct> {
        self.to(Some(to), &format!(r#"{{"k":"app","data":{}}}"#, content::acted(id, outcome)))
    }

    /// The application's state, for agents.
    pub fn show(&mut self, view: &RawValue) -> Result<(u64, String), CannotAct> {
        self.to(None, &format!(r#"{{"k":"app","data":{}}}"#, content::view(view)))
    }

    /// Application data, to one participant or to all.
    pub fn send(&mut self, data: &RawValue, to: Option<&str>) -> Result<(u64, String), CannotAct> {
        self.to(to, &content::app_message(data))
    }

    /// The shape of an application's views.
    pub fn publish(&mut self, name: &str, version: &str, schema: &RawValue) -> Result<(u64, String), CannotAct> {
        let schema = content::Schema { name: name.into(), version: version.into(), schema };
        self.to(None, &schema.written())
    }

    /// The farewell.
    pub fn leave(&self) -> String {
        FromParticipant::Leave.encode()
    }

    /// A frame with content and its number.
    fn to(&mut self, to: Option<&str>, payload: &str) -> Result<(u64, String), CannotAct> {
        if self.profile.read_only {
            return Err(CannotAct::ReadOnly);
        }
        if self.id.is_none() {
            return Err(CannotAct::NotIn);
        }
        self.next += 1;
        // Put together from JSON above.
        let payload = RawValue::from_string(payload.to_owned()).map_err(|_| CannotAct::NotIn)?;
        let id = to.map(Into::into);
        let frame = FromParticipant::To { id, reference: Some(self.next), payload: &payload };
        Ok((self.next, frame.encode()))
    }
}

fn bytes(schemas: &[KnownSchema]) -> usize {
    schemas.iter().map(|known| known.schema.get().len()).sum()
}
