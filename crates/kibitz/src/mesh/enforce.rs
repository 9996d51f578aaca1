//! A participant's side of the mesh: content goes from one to another, so each one holds the others to their grants
//! (contract, section 4). What a sender may not say is dropped here on its arrival; what a receiver may not see is not
//! sent to it.
//!
//! Who may what is what the authority says, over its own connection, and nobody else's word counts. Until it has said
//! something about somebody, their kind decides.

use std::collections::{BTreeMap, VecDeque};

use serde::Deserialize;
use serde_json::Value as Json;
use serde_json::value::{RawValue, to_raw_value};

use super::pack::Value;
use crate::content::{Content, Envelope};
use crate::frame::{FromRelay, Member, from_relay};
use crate::grant::{Capability, Grant, Kind};

/// Lines of what was held back.
const MAX_AUDIT: usize = 80;

/// Something that came from another participant, and counts.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrived {
    /// Content, as JSON.
    Content(String),
    /// The grants changed.
    Caps,
    /// Nothing that counts.
    Nothing,
    /// Dropped, since its sender may not say it.
    Blocked {
        /// Its kind.
        kind: String,
        /// What is missing: a capability, or `view`.
        missing: &'static str,
    },
}

/// A line about what was held back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Seconds since 1970.
    pub at: i64,
    /// Whose it was.
    pub from: String,
    /// Its kind.
    pub kind: String,
}

/// What one participant holds the others to.
#[derive(Debug, Default)]
pub struct Enforcer {
    me: String,
    host: String,
    members: Vec<Member>,
    grants: BTreeMap<String, Grant>,
    audit: VecDeque<Held>,
}

impl Enforcer {
    /// For the participant whose media peer has this id.
    pub fn new(me: impl Into<String>) -> Self {
        Self { me: me.into(), ..Self::default() }
    }

    /// Who is there.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The host's media peer; empty when there is none.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Whether the authority is a hub.
    pub fn has_hub(&self) -> bool {
        let host = self.members.iter().find(|member| member.id == self.host);
        let meta = host.and_then(|host| serde_json::from_str::<Json>(host.meta.as_deref()?.get()).ok());
        meta.is_some_and(|meta| meta["hub"] == true)
    }

    /// What was held back, oldest first.
    pub fn audit(&self) -> impl Iterator<Item = &Held> {
        self.audit.iter()
    }

    /// The authority said who is there. False if it was no roster.
    pub fn on_roster(&mut self, value: &Value) -> bool {
        let Ok(FromRelay::Roster { members, host, .. }) = from_relay(&value.to_json().to_string()) else {
            return false;
        };
        // Grants of an authority that is gone are nobody's word.
        if host != self.host {
            self.grants.clear();
        }
        self.host = host;
        self.members = members;
        true
    }

    /// The grant of a participant in force.
    pub fn grant(&self, id: &str, now: i64) -> Grant {
        if let Some(grant) = self.grants.get(id) {
            return grant.at(now);
        }
        let member = self.members.iter().find(|member| member.id == id);
        let facts = facts(member.and_then(|member| member.meta.as_deref()));
        Grant::default_of(facts.kind()).disclosing(facts.backend.as_deref(), facts.egress)
    }

    /// The kind of a participant, as the authority lists it.
    pub fn kind(&self, id: &str) -> Kind {
        let member = self.members.iter().find(|member| member.id == id);
        facts(member.and_then(|member| member.meta.as_deref())).kind()
    }

    /// Whether this participant itself may, as far as the authority said.
    pub fn may(&self, capability: Capability, now: i64) -> bool {
        self.grant(&self.me, now).allows(capability, now)
    }

    /// To whom something is sent that is meant for all: those in the roster who may read it.
    pub fn hearers(&self, now: i64) -> Vec<String> {
        let others = self.members.iter().filter(|member| member.id != self.me);
        let hears = |member: &&Member| self.grant(&member.id, now).allows(Capability::ReadChat, now);
        others.filter(hears).map(|member| member.id.clone()).collect()
    }

    /// Whether something may be sent to this one alone.
    pub fn may_receive(&self, id: &str, now: i64) -> bool {
        let is_there = self.members.iter().any(|member| member.id == id);
        is_there && self.grant(id, now).allows(Capability::ReceiveDirected, now)
    }

    /// Whether sound (`true`) or a screen may go to this one; otherwise it gets a placeholder.
    pub fn may_perceive(&self, id: &str, sound: bool, now: i64) -> bool {
        let capability = if sound { Capability::HearAudio } else { Capability::SeeScreen };
        self.grant(id, now).allows(capability, now)
    }

    /// Content came over the data connection of this media peer.
    pub fn on_content(&mut self, from: &str, value: &Value, now: i64) -> Arrived {
        let Ok(raw) = RawValue::from_string(value.to_json().to_string()) else { return Arrived::Nothing };
        let Ok(content) = Content::read(&raw) else { return Arrived::Nothing };
        let is_host = !self.host.is_empty() && from == self.host;
        if let Content::Caps = content {
            return if is_host { self.on_caps(&raw) } else { Arrived::Nothing };
        }
        if let Content::IdToken = content {
            return Arrived::Nothing;
        }
        // Nobody is heard who is not in the roster.
        if !is_host && !self.members.iter().any(|member| member.id == from) {
            return self.block(from, content.kind(), "absent", now);
        }
        let grant = self.grant(from, now);
        let missing = |capability: Capability| (!grant.allows(capability, now)).then_some(capability.name());
        let is = |wanted: Envelope| matches!(&content, Content::App { envelope: Some(e), .. } if *e == wanted);
        // The authority's own words are no participant's.
        let missing = if is_host {
            None
        } else if is(Envelope::Act) && self.has_hub() {
            // A hub takes actions to the applications itself, once they passed its gate.
            Some("hub")
        } else if is(Envelope::View) && self.kind(from) == Kind::Agent {
            Some("view")
        } else if is(Envelope::Act) {
            missing(Capability::SendChat).or_else(|| missing(Capability::Act))
        } else {
            missing(Capability::SendChat)
        };
        match missing {
            Some(missing) => self.block(from, content.kind(), missing, now),
            None => Arrived::Content(if is_host { raw.get().to_owned() } else { content.written() }),
        }
    }

    fn block(&mut self, from: &str, kind: &str, missing: &'static str, now: i64) -> Arrived {
        if self.audit.len() == MAX_AUDIT {
            self.audit.pop_front();
        }
        self.audit.push_back(Held { at: now, from: from.into(), kind: kind.into() });
        Arrived::Blocked { kind: kind.into(), missing }
    }

    fn on_caps(&mut self, raw: &RawValue) -> Arrived {
        #[derive(Deserialize)]
        struct Caps {
            grants: BTreeMap<String, Grant>,
        }
        match serde_json::from_str::<Caps>(raw.get()) {
            Ok(Caps { grants }) => {
                self.grants = grants;
                Arrived::Caps
            }
            Err(_) => Arrived::Nothing,
        }
    }
}

/// What a member's `meta` says that counts here.
#[derive(Default)]
struct Facts {
    is_agent: bool,
    backend: Option<String>,
    egress: bool,
}

impl Facts {
    const fn kind(&self) -> Kind {
        if self.is_agent { Kind::Agent } else { Kind::Human }
    }
}

fn facts(meta: Option<&RawValue>) -> Facts {
    let Some(Json::Object(meta)) = meta.and_then(|meta| serde_json::from_str(meta.get()).ok()) else {
        return Facts::default();
    };
    let text = |key: &str| meta.get(key).and_then(Json::as_str).filter(|text| !text.is_empty());
    Facts {
        is_agent: text("role") == Some("agent"),
        backend: text("backend").map(Into::into),
        egress: meta.get("egress").and_then(Json::as_bool).unwrap_or(false),
    }
}

/// The `meta` by which a participant declares to be an agent.
pub fn agent_meta(read_only: bool, backend: Option<&str>, egress: bool) -> Option<Box<RawValue>> {
    let mut meta = serde_json::json!({ "role": "agent" });
    if read_only {
        meta["readOnly"] = true.into();
    }
    if let Some(backend) = backend {
        meta["backend"] = backend.into();
    }
    if egress || backend.is_some() {
        meta["egress"] = true.into();
    }
    to_raw_value(&meta).ok()
}
