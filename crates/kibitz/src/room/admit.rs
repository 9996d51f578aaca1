//! Letting somebody in (contract, section 5).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use sha2::{Digest as _, Sha256};

use super::standing::RunsOut;
use super::{Caller, Conn, INVITE, MAX_SEEN, MAX_WRONG, Output, Peer, Room, STATES, Stage, TOKEN, Transport, Via};
use crate::Now;
use crate::admission::{Invite, MAX_ASSERTION, Refused, check_assertion};
use crate::close;
use crate::credential::{NotYet, is_jwt};
use crate::frame::{Announce, FromRelay, Lobby};
use crate::grant::{Grant, Kind};
use crate::key::Verifier;

/// Longest name of a participant, in characters.
const MAX_NAME: usize = 80;
/// Longest address of a picture.
const MAX_AVATAR: usize = 512;
/// Longest secret by which a guest is the same one again.
const MAX_GUEST_TOKEN: usize = 256;
/// Largest `meta`: it is in every roster.
const MAX_META: usize = 4_096;

/// The identity of a participant.
pub(super) struct Identity {
    pub(super) id: String,
    pub(super) credentials: Vec<String>,
    pub(super) name: Option<String>,
    pub(super) kind: Kind,
    pub(super) via: Via,
    pub(super) is_host: bool,
    pub(super) base: Grant,
    /// The operator whose pass it is, and what they might when it was shown.
    pub(super) pass: Option<(String, Caller)>,
    pub(super) runs_out: RunsOut,
}

impl Room {
    /// A connection asks to enter.
    pub(super) fn knock(
        &mut self,
        conn: Conn,
        voice: Option<(bool, bool)>,
        announce: Announce,
        verifier: &dyn Verifier,
        now: Now,
    ) {
        let Some(peer) = self.peers.get(&conn) else { return };
        let mut identity = match self.identify(peer, &announce, verifier, now) {
            Ok(identity) => identity,
            Err(NotYet::Refused(_)) => return self.unverified(conn, now),
            Err(NotYet::Unknown) => return self.ask_again(conn, voice, announce),
        };
        if self.charter.is_blocked(&identity.id, &identity.credentials) {
            self.send(conn, &FromRelay::Kick);
            self.out.push(Output::Close(conn, close::KICKED));
            return self.forget(conn, "left", now);
        }
        if self.charter.is_agent(&identity.id, &identity.credentials) && identity.kind == Kind::Human {
            identity.kind = Kind::Agent;
            identity.is_host = false;
            identity.base = identity.base.intersect(&Grant::default_of(Kind::Agent));
        }
        match self.paid(&identity, &announce, verifier, now) {
            Ok(paid) => identity.runs_out.credit = paid,
            Err(NotYet::Unknown) => return self.ask_again(conn, voice, announce),
            // It may come with one later: that is no guess.
            Err(NotYet::Refused(_)) if announce.agent_credit.is_none() => {
                return self.send(conn, &FromRelay::Lobby(Lobby::Unverified));
            }
            Err(NotYet::Refused(_)) => return self.unverified(conn, now),
        }
        let is_trusted = identity.is_host || identity.via == Via::Operator;
        if self.charter.locked && !is_trusted && !self.seen.contains(&identity.id) {
            return self.send(conn, &FromRelay::Lobby(Lobby::Locked));
        }
        let is_replacing = self.inside.contains_key(&identity.id);
        if self.inside.len() >= self.limits.participants && !is_replacing {
            self.error(conn, "full", "this room is full");
            self.out.push(Output::Close(conn, close::FULL));
            return self.forget(conn, "left", now);
        }
        let is_mesh = self.charter.transport == Transport::Mesh;
        let bridged = self.inside.values().filter(|conn| self.is_relayed(**conn)).count();
        if is_mesh && self.is_relayed(conn) && bridged >= self.limits.bridged && !is_replacing {
            let words = "this mesh room takes no more participants over the relay (rooms.max_bridged)";
            self.error(conn, "full", words);
            self.out.push(Output::Close(conn, close::FULL));
            return self.forget(conn, "left", now);
        }
        // An agent came by a key that somebody put on the list; a guest waits for a host.
        let is_suspect = identity.via == Via::Open && self.charter.is_suspect(peer.network, now);
        let waits = (is_suspect || self.charter.lobby && matches!(identity.via, Via::Open | Via::Invite))
            && !is_trusted
            && !is_replacing
            && !self.approved.contains(&identity.id);
        let Some(peer) = self.peers.get_mut(&conn) else { return };
        let Identity { id, credentials, name, kind, via, is_host, base, pass, runs_out } = identity;
        (peer.pass, peer.runs_out, peer.later) = (pass, runs_out, None);
        (peer.id, peer.credentials) = (id, credentials);
        peer.name_is_fixed = matches!(via, Via::Invite | Via::Operator);
        peer.name = name.unwrap_or_else(|| "guest".into());
        (peer.kind, peer.via, peer.is_host, peer.base) = (kind, via, is_host, base);
        if let Some((on, cam)) = voice {
            (peer.announced, peer.cam) = (on, cam);
        }
        take_announcement(peer, announce);
        if waits {
            peer.stage = Stage::Waiting;
            self.desk.door_changed = true;
            return self.send(conn, &FromRelay::Lobby(Lobby::Waiting));
        }
        self.enter(conn, now);
    }

    /// A waiting participant announces itself.
    pub(super) fn wait_on(&mut self, conn: Conn, voice: Option<(bool, bool)>, announce: Announce) {
        let Some(peer) = self.peers.get_mut(&conn) else { return };
        if let Some((on, cam)) = voice {
            (peer.announced, peer.cam) = (on, cam);
        }
        take_announcement(peer, announce);
        self.desk.door_changed = true;
        self.send(conn, &FromRelay::Lobby(Lobby::Waiting));
    }

    /// Identifies a participant by its credentials.
    fn identify(
        &self,
        peer: &Peer,
        announce: &Announce,
        verifier: &dyn Verifier,
        now: Now,
    ) -> Result<Identity, NotYet> {
        let room = &self.charter.name;
        let said = announce.name.as_deref().and_then(clean_name);
        let says_agent = facts(announce.meta.as_deref()).role.as_deref() == Some("agent");
        let kind = if says_agent { Kind::Agent } else { Kind::Human };
        // What tells a guest from others: its own secret, or else nothing beyond this connection.
        let token = announce.token.as_deref().filter(|t| !t.is_empty() && t.len() <= MAX_GUEST_TOKEN);
        let guest = token.unwrap_or(&peer.challenge);
        if let Some(text) = announce.agent_assertion.as_deref() {
            if text.len() > MAX_ASSERTION {
                return Err(Refused::Malformed.into());
            }
            let keys = &self.charter.agent_keys;
            let key = check_assertion(text, keys, room, &peer.fingerprint, now.unix(), verifier)?;
            return Ok(Identity {
                id: agent_id(room, &key.key.thumbprint()),
                credentials: Vec::new(),
                name: said.or_else(|| key.label.as_deref().and_then(clean_name)),
                kind: Kind::Agent,
                via: Via::Key,
                is_host: false,
                base: key.caps.clone().unwrap_or_else(|| Grant::default_of(Kind::Agent)),
                pass: None,
                runs_out: RunsOut::default(),
            });
        }
        if let Some(text) = announce.jwt.as_deref().filter(|text| is_jwt(text)) {
            return self.vouched_for(text, peer, guest, said, verifier, now);
        }
        if let Some(text) = announce.jwt.as_deref() {
            let invite = Invite::check(text, &self.charter.key, room, now.unix(), verifier)?;
            let kind = if invite.is_agent() { Kind::Agent } else { kind };
            if let Some(operator) = &invite.operator {
                let caller = verifier.operator(room, operator).ok_or(Refused::Stale)?;
                let mut identity = self.operator(&caller, token, said, kind).ok_or(Refused::Purpose)?;
                identity.credentials.extend(invite_names(text));
                identity.pass = Some((operator.clone(), caller));
                return Ok(identity);
            }
            return Ok(Identity {
                id: id("invited", &[room, text, guest]),
                credentials: invite_names(text),
                name: clean_name(&invite.name),
                kind,
                via: Via::Invite,
                is_host: invite.is_host() && kind == Kind::Human,
                base: Grant::default_of(kind),
                pass: None,
                runs_out: RunsOut::default(),
            });
        }
        if let Some(operator) = self.operator(&peer.caller, token, said.clone(), kind) {
            return Ok(operator);
        }
        if let Some(identity) = self.paying(announce, kind, guest, said.clone(), verifier, now)? {
            return Ok(identity);
        }
        let guest = Identity {
            id: id("guest", &[room, guest]),
            credentials: peer.certificate.iter().cloned().collect(),
            name: said,
            kind,
            via: Via::Open,
            is_host: false,
            base: Grant::default_of(kind),
            pass: None,
            runs_out: RunsOut::default(),
        };
        if self.charter.open { Ok(guest) } else { Err(Refused::UnknownKey.into()) }
    }

    /// An operator of the hub.
    fn operator(&self, caller: &Caller, token: Option<&str>, said: Option<String>, kind: Kind) -> Option<Identity> {
        let Caller::Operator { id: token_id, name, host, speaks } = caller else { return None };
        // One operator may have several programs in a room: each is told from the others by its own secret.
        let own = token.unwrap_or_default();
        let base = Grant::default_of(kind);
        Some(Identity {
            id: id("operator", &[&self.charter.name, token_id, own]),
            credentials: vec![format!("{TOKEN}{token_id}")],
            // Under the token's name, so that the roster says who is responsible; with what they call themselves.
            name: clean_name(&said.map_or_else(|| name.clone(), |said| format!("{said} ({name})"))),
            kind,
            via: Via::Operator,
            is_host: *host && kind == Kind::Human,
            base: if *speaks { base } else { base.intersect(&Grant::onlooker()) },
            pass: None,
            runs_out: RunsOut::default(),
        })
    }

    /// Puts out who came by a pass and is not that operator any more, or may something else now.
    pub(super) fn check_passes(&mut self, verifier: &dyn Verifier, now: Now) {
        let room = &self.charter.name;
        let is_void = |peer: &Peer| {
            let pass = peer.pass.as_ref().filter(|_| peer.stage != Stage::Fresh);
            pass.is_some_and(|(operator, caller)| verifier.operator(room, operator).as_ref() != Some(caller))
        };
        let void: Vec<Conn> = self.peers.iter().filter(|(_, peer)| is_void(peer)).map(|(conn, _)| *conn).collect();
        for conn in void {
            self.error(conn, "revoked", "the participant's token is no longer valid");
            self.out.push(Output::Close(conn, close::UNVERIFIED));
            self.forget(conn, "left", now);
        }
    }

    fn unverified(&mut self, conn: Conn, now: Now) {
        self.out.push(Output::Unverified(conn));
        self.send(conn, &FromRelay::Lobby(Lobby::Unverified));
        let Some(peer) = self.peers.get_mut(&conn) else { return };
        peer.wrong += 1;
        if peer.wrong >= MAX_WRONG {
            self.out.push(Output::Close(conn, close::UNVERIFIED));
            self.forget(conn, "left", now);
        }
    }

    /// Admits a participant and closes its older connection.
    pub(super) fn enter(&mut self, conn: Conn, now: Now) {
        let Some(peer) = self.peers.get_mut(&conn) else { return };
        let waited = peer.stage == Stage::Waiting;
        peer.stage = Stage::In;
        self.desk.door_changed |= waited;
        let id = peer.id.clone();
        let told = FromRelay::Id { id: id.clone(), name: peer.name.clone(), kind: peer.kind.name().into() };
        let announced = peer.announced;
        if let Some(older) = self.inside.insert(id.clone(), conn) {
            self.error(older, "replaced", "a newer connection of this participant was let in");
            self.out.push(Output::Close(older, close::REPLACED));
            self.peers.remove(&older);
            self.schemas.retain(|kept| kept.from != id);
        }
        if self.seen.len() < MAX_SEEN {
            self.seen.insert(id.clone());
            let credentials = self.peers.get(&conn).map(|peer| peer.credentials.clone()).unwrap_or_default();
            if !credentials.is_empty() {
                self.came_with.insert(id.clone(), credentials);
            }
        }
        self.send(conn, &told);
        if waited || self.charter.lobby {
            self.send(conn, &FromRelay::Lobby(Lobby::Admitted));
        }
        if let Some(peer) = self.peers.remove(&conn) {
            self.note(&id, "joined", peer.name.clone(), now);
            self.record("joined", &peer, None, None);
            self.peers.insert(conn, peer);
        }
        if announced {
            self.appear(conn, now);
        }
    }

    /// An admitted participant announces itself. `voice`: whether it is in the roster, and whether it shows a camera.
    pub(super) fn announce(&mut self, conn: Conn, voice: Option<(bool, bool)>, announce: Announce, now: Now) {
        let Some(peer) = self.peers.get_mut(&conn) else { return };
        let before = shown(peer);
        if let Some((_, cam)) = voice {
            peer.cam = cam;
        }
        take_announcement(peer, announce);
        let changed = shown(peer) != before;
        let present = peer.present;
        match voice {
            Some((true, _)) if !present => self.appear(conn, now),
            Some((false, _)) if present => {
                peer.present = false;
                let id = peer.id.clone();
                self.schemas.retain(|kept| kept.from != id);
                self.mind_floor(now);
                self.tell_roster(now);
            }
            // Participants announce themselves every few seconds; only what is new is told.
            _ if changed && present => self.tell_roster(now),
            _ => {}
        }
    }

    /// Adds a participant to the roster.
    fn appear(&mut self, conn: Conn, now: Now) {
        let Some(peer) = self.peers.get_mut(&conn) else { return };
        peer.present = true;
        if peer.is_host {
            self.desk.newcomers.push(conn);
        }
        self.tell_roster(now);
        self.replay_schemas(conn, now);
    }
}

/// The public facts of a participant.
fn shown(peer: &Peer) -> (String, bool, Option<String>, Option<String>, Kind) {
    let meta = peer.meta.as_ref().map(|meta| meta.get().to_owned());
    (peer.name.clone(), peer.cam, peer.avatar.clone(), meta, peer.kind)
}

/// Takes over what somebody says about itself, within what it may say.
fn take_announcement(peer: &mut Peer, announce: Announce) {
    if !peer.name_is_fixed
        && let Some(name) = announce.name.as_deref().and_then(clean_name)
    {
        peer.name = name;
    }
    if let Some(avatar) = announce.avatar.filter(|a| a.len() <= MAX_AVATAR && !a.chars().any(char::is_control)) {
        peer.avatar = Some(avatar);
    }
    let facts = facts(announce.meta.as_deref());
    if facts.role.as_deref() == Some("agent") && peer.kind == Kind::Human {
        // It may make itself less at any time, and never more.
        become_agent(peer);
    }
    if announce.meta.is_some() || peer.meta.is_none() {
        peer.disclosed = (facts.backend, facts.egress);
        peer.meta = meta(announce.meta.as_deref(), peer.kind);
    }
}

/// Makes a person an agent.
pub(super) fn become_agent(peer: &mut Peer) {
    if peer.kind == Kind::Human {
        peer.kind = Kind::Agent;
        peer.is_host = false;
        peer.base = peer.base.intersect(&Grant::default_of(Kind::Agent));
        peer.meta = meta(peer.meta.as_deref(), Kind::Agent);
    }
}

/// The fields of a `meta` that the authority reads.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Facts {
    #[serde(deserialize_with = "text")]
    role: Option<String>,
    #[serde(deserialize_with = "text")]
    backend: Option<String>,
    #[serde(deserialize_with = "flag")]
    egress: bool,
}

fn text<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Ok(value.as_str().filter(|text| !text.is_empty()).map(Into::into))
}

fn flag<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(Value::deserialize(deserializer)?.as_bool().unwrap_or(false))
}

/// Through the same value that is shown, so that a key that stands there twice is one thing to everybody.
fn facts(meta: Option<&RawValue>) -> Facts {
    let value = meta.filter(|m| m.get().len() <= MAX_META).and_then(|m| serde_json::from_str::<Value>(m.get()).ok());
    value.and_then(|value| serde_json::from_value(value).ok()).unwrap_or_default()
}

/// What only the authority says in a `meta`.
const OURS: [&str; 3] = ["hold", "bridged", "hub"];

/// The `meta` that others see: an agent's says so, whatever it said itself. One that is too large is left out.
fn meta(said: Option<&RawValue>, kind: Kind) -> Option<Box<RawValue>> {
    let said = said.filter(|m| m.get().len() <= MAX_META).and_then(|m| serde_json::from_str(m.get()).ok());
    let mut map = match said {
        Some(Value::Object(map)) => map,
        _ => serde_json::Map::new(),
    };
    for word in OURS {
        map.remove(word);
    }
    let is_state = |said: &Value| said.as_str().is_some_and(|said| STATES.contains(&said));
    if kind == Kind::Human || !map.get("state").is_some_and(is_state) {
        map.remove("state");
    }
    if kind == Kind::Agent {
        map.insert("role".into(), "agent".into());
    }
    if map.is_empty() {
        return None;
    }
    to_raw_value(&map).ok()
}

/// A name as it may be shown: one line, no control characters, not too long.
pub(super) fn clean_name(text: &str) -> Option<String> {
    let words: String = text.chars().map(|c| if c.is_control() || is_invisible(c) { ' ' } else { c }).collect();
    let name: String = words.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(MAX_NAME).collect();
    let name = name.trim().to_owned();
    (!name.is_empty()).then_some(name)
}

/// What turns the direction of a line or hides in it: a name with these could look like another's.
const fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// What an invite is named by: the hash of its text, and that of its twin. Whoever holds a signature on this curve can write
/// a second one for the same content, and with it another text.
pub(super) fn invite_names(text: &str) -> Vec<String> {
    let name = |text: &str| format!("{INVITE}{}", invite_id(text));
    std::iter::once(name(text)).chain(twin(text).as_deref().map(name)).collect()
}

/// An invite's id: the SHA-256 of its text, in hex.
pub fn invite_id(text: &str) -> String {
    hex::encode(Sha256::digest(text))
}

/// The same token with the other signature that its content has: `(r, n - s)` for `(r, s)`.
fn twin(text: &str) -> Option<String> {
    /// The order of P-256.
    const N: [u8; 32] = [
        0xff, 0xff, 0xff, 0xff, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xbc, 0xe6,
        0xfa, 0xad, 0xa7, 0x17, 0x9e, 0x84, 0xf3, 0xb9, 0xca, 0xc2, 0xfc, 0x63, 0x25, 0x51,
    ];
    let (signed, signature) = text.rsplit_once('.')?;
    let mut signature: [u8; 64] = URL_SAFE_NO_PAD.decode(signature).ok()?.try_into().ok()?;
    let mut borrow = 0;
    for (s, n) in signature[32..].iter_mut().zip(N).rev() {
        let left = i16::from(n) - i16::from(*s) - borrow;
        borrow = i16::from(left < 0);
        *s = u8::try_from(left.rem_euclid(256)).ok()?;
    }
    Some(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

/// The id of the holder of an agent key: the same whenever it comes.
pub fn agent_id(room: &str, thumbprint: &str) -> String {
    id("agent", &[room, thumbprint])
}

/// An id that tells nothing of the secrets that it is made from.
pub(super) fn id(prefix: &str, parts: &[&str]) -> String {
    let mut hash = Sha256::new_with_prefix(prefix);
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    format!("{prefix}-{}", hex::encode(&hash.finalize()[..10]))
}
