//! Views of a room: the roster and the grants for participants, everything for operators.

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::{AuditLine, Charter, Conn, HUB, Output, Peer, Room, Stage, Transport};
use crate::Now;
use crate::frame::{FromRelay, Member, encode_from};
use crate::grant::{Capability, Grant, Hold};

/// The standing of a participant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// In the roster.
    Present,
    /// Let in, and not in the roster.
    In,
    /// A host decides.
    Waiting,
    /// Not here, and known: an agent's key, a grant or a kick is kept for them.
    Away,
}

impl Standing {
    /// The name used on every surface.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Present => "present",
            Self::In => "in",
            Self::Waiting => "waiting",
            Self::Away => "away",
        }
    }
}

/// A participant, as an operator sees them.
#[derive(Clone, Debug)]
pub struct Person {
    /// Their id.
    pub id: String,
    /// The name.
    pub name: String,
    /// `human` or `agent`.
    pub kind: &'static str,
    /// How they got in: `key`, `invite`, `operator`, `open`.
    pub via: &'static str,
    /// The standing.
    pub standing: Standing,
    /// Whether they may moderate.
    pub is_host: bool,
    /// Whether they were kicked.
    pub is_blocked: bool,
    /// The grant, whether or not they are held back now.
    pub grant: Grant,
    /// How a host holds them back.
    pub hold: Option<Hold>,
    /// What they say that they are doing.
    pub doing: Option<String>,
    /// Whether the hub speaks for them to participants of the mesh.
    pub is_bridged: bool,
    /// Whether somebody said so, or it is the default.
    pub is_explicit: bool,
}

/// The grants of everyone, as the authority distributes them.
#[derive(Serialize)]
struct Caps<'a> {
    k: &'static str,
    grants: std::collections::BTreeMap<&'a str, Grant>,
}

impl Room {
    /// Tells everyone in the roster who is there and who may what. Who may not read the roster is told of itself.
    pub(super) fn tell_roster(&mut self, now: Now) {
        let present: Vec<(Conn, &Peer, Grant)> = self
            .peers
            .iter()
            .filter(|(_, peer)| peer.present)
            .map(|(conn, peer)| (*conn, peer, self.heard_grant(peer, now)))
            .collect();
        let hub = Member { id: HUB.into(), name: HUB.into(), cam: false, avatar: None, meta: hub_meta() };
        let roster = |members: Vec<Member>| FromRelay::Roster {
            members,
            lobby: self.charter.lobby,
            host: self.host_id(),
            locked: self.charter.locked,
            floor: self.floor.holder().map(str::to_owned),
        };
        let caps = |of: Vec<&(Conn, &Peer, Grant)>| {
            let grants = of.into_iter().map(|(_, peer, grant)| (peer.id.as_str(), grant.clone())).collect();
            let caps = Caps { k: "caps", grants };
            encode_from(HUB, &serde_json::to_string(&caps).unwrap_or_else(|_| "{}".into()))
        };
        let mut out = Vec::new();
        let may = |grant: &Grant| grant.allows(Capability::ReadRoster, now.unix());
        let readers: Vec<Conn> = present.iter().filter(|(.., g)| may(g)).map(|(conn, ..)| *conn).collect();
        if !readers.is_empty() {
            let members = std::iter::once(hub.clone()).chain(present.iter().map(|(_, peer, _)| self.member(peer)));
            out.push(Output::Send(readers.clone(), roster(members.collect()).encode()));
            out.push(Output::Send(readers, caps(present.iter().collect())));
        }
        for one in present.iter().filter(|(.., grant)| !may(grant)) {
            out.push(Output::Send(vec![one.0], roster(vec![hub.clone(), self.member(one.1)]).encode()));
            out.push(Output::Send(vec![one.0], caps(vec![one])));
        }
        self.out.append(&mut out);
        let present = self.peers.values().filter(|peer| peer.present);
        let grants = present.map(|peer| (peer.id.clone(), self.own_grant(peer, now))).collect();
        (self.desk.grants, self.desk.door_changed) = (grants, true);
    }

    fn is_bridged(&self, peer: &Peer) -> bool {
        peer.relayed && self.charter.transport == Transport::Mesh
    }

    /// Somebody as the roster shows them, with what only the authority says.
    fn member(&self, peer: &Peer) -> Member {
        let hold = self.charter.hold_of(&peer.id, &peer.credentials);
        let mut meta = peer.meta.clone();
        if hold.is_some() || self.is_bridged(peer) {
            let said = meta.and_then(|meta| serde_json::from_str(meta.get()).ok());
            let mut map: serde_json::Map<String, serde_json::Value> = said.unwrap_or_default();
            if let Some(hold) = hold {
                map.insert("hold".into(), hold.name().into());
            }
            if self.is_bridged(peer) {
                map.insert("bridged".into(), true.into());
            }
            meta = to_raw_value(&map).ok();
        }
        let (id, name, avatar) = (peer.id.clone(), peer.name.clone(), peer.avatar.clone());
        Member { id, name, cam: peer.cam, avatar, meta }
    }

    /// The one who claimed to be host and is still there, or else any who may.
    fn host_id(&self) -> String {
        let is_host = |id: &&String| {
            self.inside.get(*id).and_then(|c| self.peers.get(c)).is_some_and(|peer| peer.present && peer.is_host)
        };
        let claimed = self.host.as_ref().filter(is_host);
        claimed.or_else(|| self.inside.keys().find(is_host)).cloned().unwrap_or_default()
    }

    /// Grants whose time has come since the last look are over: everyone is told.
    pub(super) fn sweep(&mut self, now: Now) {
        let until = now.unix();
        if until <= self.swept {
            return;
        }
        let since = std::mem::replace(&mut self.swept, until);
        let lapsed = |grant: &Grant| grant.expires_at.is_some_and(|at| at > since && at <= until);
        let over: Vec<String> = self
            .peers
            .values()
            .filter(|peer| peer.stage == Stage::In)
            .filter(|peer| lapsed(self.charter.granted(&peer.id, &peer.credentials).unwrap_or(&peer.base)))
            .map(|peer| peer.id.clone())
            .collect();
        if over.is_empty() {
            return;
        }
        for id in &over {
            self.note(id, "expired", String::new(), now);
        }
        self.tell_roster(now);
    }

    /// All participants that the room knows, connected ones first.
    pub fn people(&self, now: Now) -> Vec<Person> {
        let blocked = |id: &str| self.charter.blocked.iter().any(|b| b == id);
        let mut people: Vec<Person> = self
            .peers
            .values()
            .filter(|peer| peer.stage != Stage::Fresh)
            .map(|peer| Person {
                id: peer.id.clone(),
                name: peer.name.clone(),
                kind: peer.kind.name(),
                via: peer.via.name(),
                standing: match (peer.stage, peer.present) {
                    (Stage::Waiting, _) => Standing::Waiting,
                    (_, true) => Standing::Present,
                    (_, false) => Standing::In,
                },
                is_host: peer.is_host,
                is_blocked: self.charter.is_blocked(&peer.id, &peer.credentials),
                grant: self.own_grant(peer, now),
                hold: self.charter.hold_of(&peer.id, &peer.credentials),
                doing: doing(peer),
                is_bridged: self.is_bridged(peer),
                is_explicit: self.charter.granted(&peer.id, &peer.credentials).is_some(),
            })
            .collect();
        let mut away = |id: &str, name: &str, kind, via, grant: Grant| {
            if people.iter().any(|person| person.id == id) {
                return;
            }
            let (is_blocked, is_explicit) = (blocked(id), self.charter.grants.contains_key(id));
            let grant = self.charter.grants.get(id).cloned().unwrap_or(grant).at(now.unix());
            let (id, name, standing) = (id.to_owned(), name.to_owned(), Standing::Away);
            let hold = self.charter.held.get(&id).copied();
            people.push(Person {
                id,
                name,
                kind,
                via,
                standing,
                is_host: false,
                is_blocked,
                grant,
                is_explicit,
                hold,
                doing: None,
                is_bridged: false,
            });
        };
        let agent = crate::grant::Kind::Agent;
        for (id, key) in self.key_holders() {
            let grant = key.caps.clone().unwrap_or_else(|| Grant::default_of(agent));
            away(&id, key.label.as_deref().unwrap_or_default(), agent.name(), "key", grant);
        }
        let Charter { grants, blocked, held, agents, .. } = &self.charter;
        let names = grants.keys().chain(blocked).chain(held.keys()).chain(agents);
        for id in names.filter(|name| !super::is_credential(name)) {
            away(id, "", "", "", Grant::none());
        }
        people
    }

    /// The room's own log, oldest first.
    pub fn audit(&self) -> impl Iterator<Item = &AuditLine> {
        self.audit.iter()
    }

    /// The agent that has the floor.
    pub fn floor(&self) -> Option<&str> {
        self.floor.holder()
    }

    /// Whether somebody of this id is in.
    pub fn is_inside(&self, id: &str) -> bool {
        self.inside.contains_key(id)
    }

    /// How many are in the roster.
    pub fn present(&self) -> usize {
        self.peers.values().filter(|peer| peer.present).count()
    }
}

/// What an agent says that it is doing.
fn doing(peer: &Peer) -> Option<String> {
    let meta: serde_json::Value = serde_json::from_str(peer.meta.as_deref()?.get()).ok()?;
    meta.get("state").and_then(serde_json::Value::as_str).map(str::to_owned)
}

/// A grant as the log and the journal name it.
pub(super) fn in_words(grant: Option<&Grant>) -> String {
    match grant {
        Some(grant) => grant.named().map(Capability::name).collect::<Vec<_>>().join(" "),
        None => "default".into(),
    }
}

/// The hub has no tile.
fn hub_meta() -> Option<Box<RawValue>> {
    to_raw_value(&serde_json::json!({ "role": "kibitzer" })).ok()
}
