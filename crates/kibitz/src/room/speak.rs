//! Delivers content. This is the only place where content passes between participants.

use std::time::Duration;

use serde_json::value::RawValue;

use super::{Conn, Event, HUB, Output, Room, Transport};
use crate::Now;
use crate::content::{Chat, Content, Envelope, MAX_CHAT};
use crate::frame::encode_from;
use crate::grant::{Capability, Grant, Kind};

/// Schemas of one participant.
const MAX_SCHEMAS_EACH: usize = 25;
/// Schemas of one room; beyond it the oldest goes.
const MAX_SCHEMAS: usize = 200;
/// Bytes of the schemas of one room; beyond it the oldest goes.
const MAX_SCHEMA_BYTES: usize = 4 * 1024 * 1024;
/// How often what one participant is refused goes into the record; the room's own log has all of it.
const NOTE_EVERY: Duration = Duration::from_secs(60);
/// Lines that one post of the hub's may take.
pub const MAX_PARTS: usize = 32;

/// A schema that is kept for who comes later.
#[derive(Debug)]
pub(super) struct KeptSchema {
    pub(super) from: String,
    name: String,
    written: String,
}

/// A line that the hub says in a room, on behalf of a rule.
#[derive(Clone, Copy, Debug)]
pub struct Post<'a> {
    /// The content.
    pub text: &'a str,
    /// By which rule.
    pub rule: &'a str,
    /// The sending client.
    pub sender: &'a str,
}

/// Why a post did not go out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PostError {
    /// Nothing to say.
    #[error("a room takes no empty message")]
    Empty,
    /// More than the lines of a post hold.
    #[error("a room takes at most {} characters at once", MAX_PARTS * MAX_CHAT)]
    TooLong,
    /// No participant that may read it is in the room.
    #[error("nobody is there who may read it")]
    Nobody,
}

impl Room {
    /// An admitted participant says something.
    pub(super) fn speak(
        &mut self,
        conn: Conn,
        to: Option<&str>,
        reference: Option<u64>,
        payload: &RawValue,
        now: Now,
    ) {
        let Some(peer) = self.peers.get(&conn) else { return };
        if !peer.present {
            let words = "announce yourself first (`voice` with `on`): nobody speaks unseen";
            return self.refuse(conn, "content", "absent", words, reference);
        }
        let mut content = match Content::read(payload) {
            Ok(content) => content,
            Err(why) => return self.refuse(conn, "content", "malformed", &why.to_string(), reference),
        };
        let (id, kind) = (peer.id.clone(), peer.kind);
        let (grant, is_hushed) = (self.grant_of(peer, now), self.is_hushed(peer));
        let what = content.kind().to_owned();
        let missing = |capability| (!grant.allows(capability, now.unix())).then_some(capability);
        let unspoken = missing(Capability::SendChat);
        if let Content::App { envelope: Some(Envelope::Act), data } = &content {
            return self.ask_act(conn, to, reference, data, unspoken.or_else(|| missing(Capability::Act)), now);
        }
        if let Some(missing) = unspoken {
            return self.block(conn, &what, missing.name(), reference, now);
        }
        if is_hushed && !matches!(content, Content::Schema(_)) {
            let words = "another agent has the floor; ask for it with `floor`";
            return self.refuse(conn, &what, "floor", words, reference);
        }
        if self.asks_hub(conn, to, reference, &content, now) {
            return;
        }
        match &mut content {
            // Who somebody is, the authority has checked; that peers check it again is for rooms without one.
            Content::IdToken => return,
            Content::Caps => {
                let words = "only the room's authority says who may what";
                return self.refuse(conn, &what, "authority", words, reference);
            }
            Content::App { envelope: Some(Envelope::Acted), data } if kind == Kind::Human => {
                let data = *data;
                return self.take_acted(conn, data, reference);
            }
            Content::App { envelope: Some(Envelope::View | Envelope::Acted), .. } if kind == Kind::Agent => {
                return self.block(conn, &what, "view", reference, now);
            }
            // A line's id is the sender's own: another's would let one overwrite what they said.
            Content::Chat(chat) => chat.mid = chat.mid.take().filter(|mid| is_own(mid, &id)),
            _ => {}
        }
        let written = content.written();
        match to {
            Some(HUB) => self.refuse(conn, &what, "hub", "the hub takes actions and what became of them", reference),
            Some(to) => self.speak_to_one(conn, to, &what, &encode_from(&id, &written), reference, now),
            None => {
                let hearers = self.hearers(Some(conn), now);
                if !hearers.is_empty() {
                    self.out.push(Output::Send(hearers, encode_from(&id, &written)));
                }
                if let Content::Schema(schema) = content {
                    self.keep_schema(KeptSchema { from: id, name: schema.name, written });
                }
            }
        }
    }

    fn speak_to_one(&mut self, conn: Conn, to: &str, what: &str, frame: &str, reference: Option<u64>, now: Now) {
        let found = self.inside.get(to).and_then(|c| self.peers.get(c).map(|peer| (*c, peer)));
        match found.filter(|(_, peer)| peer.present) {
            None => self.refuse(conn, what, "unknown", "there is nobody of this id in the room", reference),
            Some((hearer, peer)) => {
                if self.grant_of(peer, now).allows(Capability::ReceiveDirected, now.unix()) {
                    self.out.push(Output::Send(vec![hearer], frame.to_owned()));
                } else {
                    let capability = Capability::ReceiveDirected.name();
                    let words = "this participant may not receive what is said to it alone";
                    self.refuse(conn, what, capability, words, reference);
                }
            }
        }
    }

    /// A participant of the mesh says something to one whom the hub speaks for there. It may have been said to all or to
    /// them alone, which nothing on the mesh tells apart: who may hear either hears it.
    pub fn speak_over(&mut self, conn: Conn, to: &str, payload: &RawValue, now: Now) {
        self.sweep(now);
        if !self.peers.get_mut(&conn).is_some_and(|peer| peer.over.take(now.mono)) {
            return;
        }
        let Some(peer) = self.peers.get(&conn).filter(|peer| peer.present) else { return };
        let (id, kind, grant) = (peer.id.clone(), peer.kind, self.heard_grant(peer, now));
        let Ok(mut content) = Content::read(payload) else { return };
        match &mut content {
            Content::IdToken | Content::Caps => return,
            // It names the sender's media peer, which nobody on the relay knows.
            Content::Chat(chat) => chat.mid = None,
            _ => {}
        }
        match &content {
            // Past the hub, which nobody honours.
            Content::App { envelope: Some(Envelope::Act | Envelope::Acted), .. } => return,
            _ if !grant.allows(Capability::SendChat, now.unix()) => {
                return self.note_blocked(conn, content.kind(), Capability::SendChat.name(), now);
            }
            Content::App { envelope: Some(Envelope::View), .. } if kind == Kind::Agent => {
                return self.note_blocked(conn, content.kind(), "view", now);
            }
            _ => {}
        }
        let found = self.inside.get(to).and_then(|conn| Some((*conn, self.peers.get(conn)?)));
        let Some((hearer, peer)) = found.filter(|(_, peer)| peer.present && peer.relayed) else { return };
        let hears = self.grant_of(peer, now);
        let may = |capability| hears.allows(capability, now.unix());
        let written = content.written();
        if may(Capability::ReadChat) || may(Capability::ReceiveDirected) {
            self.out.push(Output::Send(vec![hearer], encode_from(&id, &written)));
        }
        if let Content::Schema(schema) = content {
            self.keep_schema(KeptSchema { from: id, name: schema.name, written });
        }
    }

    /// Those who are in the roster of a mesh room over the relay: the hub speaks for each of them there.
    pub fn bridged(&self) -> Vec<String> {
        if self.charter.transport == Transport::Relay {
            return Vec::new();
        }
        self.peers.values().filter(|peer| peer.present && peer.relayed).map(|peer| peer.id.clone()).collect()
    }

    /// What a participant published of its application, as content messages, where this connection may read it.
    pub fn schemas_of(&self, id: &str, conn: Conn, now: Now) -> Vec<String> {
        let of = |conn| self.peers.get(conn).map(|peer| self.grant_of(peer, now));
        let may = |grant: Option<Grant>, what| grant.is_some_and(|grant| grant.allows(what, now.unix()));
        let speaks = may(self.inside.get(id).and_then(of), Capability::SendChat);
        if !speaks || !may(of(&conn), Capability::ReadChat) {
            return Vec::new();
        }
        self.schemas.iter().filter(|kept| kept.from == id).map(|kept| kept.written.clone()).collect()
    }

    /// The pass by which a participant came, if it did.
    pub fn pass_of(&self, id: &str) -> Option<&str> {
        let peer = self.inside.get(id).and_then(|conn| self.peers.get(conn))?;
        peer.pass.as_ref().map(|(operator, _)| operator.as_str())
    }

    /// A participant of the mesh says something to the hub itself.
    pub fn speak_to_hub(&mut self, conn: Conn, payload: &RawValue, now: Now) {
        self.sweep(now);
        if self.counted(conn, now) {
            self.speak(conn, Some(HUB), None, payload, now);
        }
    }

    /// Those within hearing who may read what is said to all.
    pub(super) fn hearers(&self, but: Option<Conn>, now: Now) -> Vec<Conn> {
        let hears = |(conn, peer): &(&Conn, &super::Peer)| {
            Some(**conn) != but && peer.present && self.grant_of(peer, now).allows(Capability::ReadChat, now.unix())
        };
        self.peers.iter().filter(hears).map(|(conn, _)| *conn).collect()
    }

    /// The hub says something to all who may read. Longer texts go out in parts.
    pub fn post(&mut self, post: Post<'_>, now: Now) -> Result<usize, PostError> {
        self.sweep(now);
        if post.text.trim().is_empty() {
            return Err(PostError::Empty);
        }
        let parts = parts(post.text);
        if parts.len() > MAX_PARTS {
            return Err(PostError::TooLong);
        }
        let hearers = self.hearers(None, now);
        if hearers.is_empty() {
            return Err(PostError::Nobody);
        }
        let count = u32::try_from(parts.len()).ok().filter(|n| *n > 1);
        for (part, text) in (1..).zip(parts) {
            let chat = Chat {
                ts: Some(now.wall.millis()),
                rule: Some(post.rule.into()),
                sender: Some(post.sender.into()),
                part: count.map(|_| part),
                parts: count,
                ..Chat::new(text)
            };
            let frame = encode_from(HUB, &Content::Chat(chat).written());
            self.out.push(Output::Send(hearers.clone(), frame));
        }
        Ok(hearers.len())
    }

    fn keep_schema(&mut self, schema: KeptSchema) {
        // The latest of a name counts.
        self.schemas.retain(|kept| kept.from != schema.from || kept.name != schema.name);
        let of_same = self.schemas.iter().filter(|kept| kept.from == schema.from).count();
        if of_same >= MAX_SCHEMAS_EACH
            && let Some(oldest) = self.schemas.iter().position(|kept| kept.from == schema.from)
        {
            self.schemas.remove(oldest);
        }
        self.schemas.push_back(schema);
        let bytes = |room: &Self| room.schemas.iter().map(|kept| kept.written.len()).sum::<usize>();
        while self.schemas.len() > MAX_SCHEMAS || bytes(self) > MAX_SCHEMA_BYTES {
            self.schemas.pop_front();
        }
    }

    /// Sends a new participant the schemas that were published before, of those who may still speak.
    pub(super) fn replay_schemas(&mut self, conn: Conn, now: Now) {
        let Some(peer) = self.peers.get(&conn) else { return };
        if !self.grant_of(peer, now).allows(Capability::ReadChat, now.unix()) {
            return;
        }
        let speaks = |kept: &&KeptSchema| {
            let publisher = self.inside.get(&kept.from).and_then(|conn| self.peers.get(conn));
            publisher.is_some_and(|peer| self.grant_of(peer, now).allows(Capability::SendChat, now.unix()))
        };
        let kept = self.schemas.iter().filter(speaks);
        let frames: Vec<String> = kept.map(|kept| encode_from(&kept.from, &kept.written)).collect();
        for frame in frames {
            self.out.push(Output::Send(vec![conn], frame));
        }
    }

    /// Content was held back because its sender may not: told, logged, and recorded once a minute.
    fn block(&mut self, conn: Conn, what: &str, reason: &str, reference: Option<u64>, now: Now) {
        let words = match reason {
            "view" => "what the application says comes from no agent".to_owned(),
            capability => format!("this participant's grant does not include `{capability}`"),
        };
        self.refuse(conn, what, reason, &words, reference);
        self.note_blocked(conn, what, reason, now);
    }

    /// Logs that content was held back, and records it once a minute.
    pub(super) fn note_blocked(&mut self, conn: Conn, what: &str, reason: &str, now: Now) {
        let Some(peer) = self.peers.get_mut(&conn) else { return };
        let is_due = peer.noted.is_none_or(|at| now.mono.saturating_sub(at) >= NOTE_EVERY);
        if is_due {
            peer.noted = Some(now.mono);
        }
        let (id, name, via) = (peer.id.clone(), peer.name.clone(), peer.via.name());
        if is_due {
            let detail = Some(format!("{what}: {reason}"));
            let event = Event { what: "blocked", participant: id.clone(), name, via, by: None, detail };
            self.out.push(Output::Record(event));
        }
        self.note(&id, "blocked", what.to_owned(), now);
    }
}

fn is_own(mid: &str, id: &str) -> bool {
    mid.strip_prefix(id).is_some_and(|rest| rest.starts_with('#'))
}

/// A text in pieces that each fit a line of chat.
fn parts(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.char_indices().nth(MAX_CHAT).map_or(rest.len(), |(at, _)| at);
        let (part, more) = rest.split_at(end);
        parts.push(part);
        rest = more;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_split_between_characters_and_nothing_is_lost() {
        let text = "ü".repeat(1_001);
        let parts = parts(&text);
        assert_eq!(parts.iter().map(|part| part.chars().count()).collect::<Vec<_>>(), [500, 500, 1]);
        assert_eq!(parts.concat(), text);
    }

    #[test]
    fn a_lines_id_is_the_senders_own() {
        assert!(is_own("guest-1#7", "guest-1"));
        assert!(!is_own("guest-12#7", "guest-1") && !is_own("x#7", "guest-1") && !is_own("guest-1", "guest-1"));
    }
}
