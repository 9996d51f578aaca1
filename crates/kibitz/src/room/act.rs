//! Actions (contract, section 3): an agent asks the application for something, the hub decides on it, takes it to the
//! applications, and hands back what became of it. On the wire that is an `act` to the hub, and an `acted` back.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Conn, HUB, Output, Room};
use crate::Now;
use crate::content::app_message;
use crate::frame::{FromRelay, encode_from};
use crate::grant::{Capability, Kind};

/// Actions of one participant that are under way.
const MAX_ACTS: usize = 16;
/// Longest id that a participant gives its action.
const MAX_ID: usize = 128;
/// Longest error of an application that is handed on, in characters.
const MAX_ERROR: usize = 500;

/// An action that a participant asks the application for. Its grant includes it; nobody has heard it yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Act {
    /// Who asks.
    pub participant: String,
    /// Whom alone it is for; absent, it is for all who may read.
    pub to: Option<String>,
    /// The asker's number of the message.
    pub reference: Option<u64>,
    /// The asker's own id of the action, as JSON: with one it is answered.
    pub id: Option<String>,
    /// The envelope as it came, as JSON.
    pub data: String,
}

/// An application said what became of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acted {
    /// The hub's id of the action.
    pub act: String,
    /// The result, as JSON, if there is one; or what went wrong, in the application's words.
    pub outcome: Result<Option<String>, String>,
}

/// Who heard an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// How many.
    pub heard: usize,
    /// Whether any of them may say what became of it: agents may not.
    pub answers: bool,
}

/// Why an action was not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotDelivered {
    /// Who asked has left the room.
    #[error("the participant who asked is not in the room any more")]
    Gone,
    /// The addressee is not there.
    #[error("there is nobody of this id in the room")]
    Unknown,
    /// Nobody is there who would hear it.
    #[error("nobody else is in the room who may hear it")]
    Nobody,
    /// A grant does not include it.
    #[error("the grant does not include `{}`", .0.name())]
    NotGranted(Capability),
}

impl NotDelivered {
    /// The reason, as a refusal on the wire names it.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Gone | Self::Nobody => "absent",
            Self::Unknown => "unknown",
            Self::NotGranted(capability) => capability.name(),
        }
    }
}

impl Room {
    /// A participant who may speak asks for an action.
    pub(super) fn ask_act(
        &mut self,
        conn: Conn,
        to: Option<&str>,
        reference: Option<u64>,
        data: &RawValue,
        missing: Option<Capability>,
        now: Now,
    ) {
        let Some(peer) = self.peers.get_mut(&conn) else { return };
        let id = id_of(data);
        let to = to.filter(|to| *to != HUB).map(str::to_owned);
        let act = Act { participant: peer.id.clone(), to, reference, id, data: data.get().to_owned() };
        if let Some(missing) = missing {
            let words = format!("this participant's grant does not include `{}`", missing.name());
            self.note_blocked(conn, "act", missing.name(), now);
            return self.refuse_act(&act, missing.name(), &words);
        }
        if peer.acting >= MAX_ACTS {
            return self.refuse_act(&act, "busy", "too many actions of this participant wait for an answer");
        }
        peer.acting += 1;
        self.out.push(Output::Act(act));
    }

    /// Delivers an action that was decided on, under this id of the hub's. The sender's grant is looked at again: it may
    /// have changed meanwhile.
    pub fn deliver(&mut self, act: &Act, id: &str, now: Now) -> Result<Delivered, NotDelivered> {
        let sender = self.inside.get(&act.participant).and_then(|conn| Some((*conn, self.peers.get(conn)?)));
        let (conn, sender) = sender.filter(|(_, peer)| peer.present).ok_or(NotDelivered::Gone)?;
        let grant = self.grant_of(sender, now);
        for needed in [Capability::SendChat, Capability::Act] {
            if !grant.allows(needed, now.unix()) {
                return Err(NotDelivered::NotGranted(needed));
            }
        }
        let hearers = match &act.to {
            None => self.hearers(Some(conn), now),
            Some(to) => {
                let found = self.inside.get(to).and_then(|conn| Some((*conn, self.peers.get(conn)?)));
                let (hearer, peer) = found.filter(|(_, peer)| peer.present).ok_or(NotDelivered::Unknown)?;
                if !self.grant_of(peer, now).allows(Capability::ReceiveDirected, now.unix()) {
                    return Err(NotDelivered::NotGranted(Capability::ReceiveDirected));
                }
                vec![hearer]
            }
        };
        if hearers.is_empty() {
            return Err(NotDelivered::Nobody);
        }
        let content = rewritten(&act.data, id, &act.participant).ok_or(NotDelivered::Nobody)?;
        let heard = hearers.len();
        let is_app = |conn: &Conn| self.peers.get(conn).is_some_and(|peer| peer.kind == Kind::Human);
        let apps: BTreeSet<Conn> = hearers.iter().copied().filter(is_app).collect();
        // On the mesh it comes from the hub, as everything does that passed it: acts of others' are past it.
        let (relay, mesh): (Vec<Conn>, Vec<Conn>) = hearers.into_iter().partition(|conn| self.is_relayed(*conn));
        for (to, from) in [(relay, act.participant.as_str()), (mesh, HUB)] {
            if !to.is_empty() {
                self.out.push(Output::Send(to, encode_from(from, &content)));
            }
        }
        let answers = !apps.is_empty();
        if answers {
            self.asked.insert(id.to_owned(), apps);
        }
        Ok(Delivered { heard, answers })
    }

    /// Nobody waits any longer for what became of an action.
    pub fn forget_act(&mut self, id: &str) {
        self.asked.remove(id);
    }

    /// An application says what became of an action.
    pub(super) fn take_acted(&mut self, conn: Conn, data: &RawValue, reference: Option<u64>) {
        #[derive(Deserialize)]
        struct Read<'a> {
            #[serde(default)]
            id: Option<String>,
            #[serde(default)]
            ok: Option<bool>,
            #[serde(default, borrow)]
            result: Option<&'a RawValue>,
            #[serde(default, borrow)]
            error: Option<&'a RawValue>,
        }
        let read = serde_json::from_str::<Read<'_>>(data.get()).ok();
        let Some(Read { id: Some(id), ok: Some(ok), result, error }) = read else {
            let words = "`acted` needs the `id` of the action, a text, and `ok`";
            return self.refuse(conn, "acted", "malformed", words, reference);
        };
        if !self.asked.get(&id).is_some_and(|apps| apps.contains(&conn)) {
            return self.refuse(conn, "acted", "unknown", "no action of this id waits for an answer", reference);
        }
        self.asked.remove(&id);
        let outcome = if ok {
            Ok(result.filter(|result| result.get() != "null").map(|result| result.get().to_owned()))
        } else {
            let words = error.map(|error| serde_json::from_str(error.get()).unwrap_or_else(|_| error.get().into()));
            Err(words.unwrap_or_else(String::new).chars().take(MAX_ERROR).collect())
        };
        self.out.push(Output::Acted(Acted { act: id, outcome }));
    }

    /// Tells a participant what became of its action, if it asked to be told.
    pub fn answer_act(&mut self, act: &Act, result: Option<&RawValue>) {
        let rest = match result {
            Some(result) => format!(r#""ok":true,"result":{result}"#),
            None => r#""ok":true"#.into(),
        };
        self.acted(act, &rest);
        self.end_act(act);
    }

    /// Tells a participant that nothing became of its action.
    pub fn fail_act(&mut self, act: &Act, reason: &str, words: &str) {
        self.refuse_act(act, reason, words);
        self.end_act(act);
    }

    /// Tells a participant that a person must say yes first. It is told the rest then.
    pub fn hold_act(&mut self, act: &Act, approval: &str) {
        let words = format!("a person must approve this action first ({approval})");
        match &act.id {
            None => self.refuse_asker(act, "waiting", &words),
            Some(id) => {
                let data = serde_json::json!({ "__kib_agent": "waiting", "approval": approval });
                self.tell_asker(act, &with_id(&data.to_string(), id));
            }
        }
    }

    fn end_act(&mut self, act: &Act) {
        if let Some(peer) = self.inside.get(&act.participant).and_then(|conn| self.peers.get_mut(conn)) {
            peer.acting = peer.acting.saturating_sub(1);
        }
    }

    /// With an id the answer is an `acted`, otherwise a refusal like that of any content.
    fn refuse_act(&mut self, act: &Act, reason: &str, words: &str) {
        if act.id.is_some() {
            let error = serde_json::json!({ "ok": false, "error": words, "reason": reason }).to_string();
            return self.acted(act, error.trim_start_matches('{').trim_end_matches('}'));
        }
        self.refuse_asker(act, reason, words);
    }

    fn refuse_asker(&mut self, act: &Act, reason: &str, words: &str) {
        if let Some(conn) = self.inside.get(&act.participant).copied() {
            self.refuse(conn, "act", reason, words, act.reference);
        }
    }

    fn acted(&mut self, act: &Act, rest: &str) {
        if let Some(id) = &act.id {
            self.tell_asker(act, &format!(r#"{{"__kib_agent":"acted","id":{id},{rest}}}"#));
        }
    }

    fn tell_asker(&mut self, act: &Act, data: &str) {
        let conn = self.inside.get(&act.participant).copied();
        if let (Some(conn), Ok(data)) = (conn, RawValue::from_string(data.to_owned())) {
            self.out.push(Output::Send(vec![conn], encode_from(HUB, &app_message(&data))));
        }
    }

    /// Tells a participant that content was not handed on.
    pub(super) fn refuse(&mut self, conn: Conn, what: &str, reason: &str, words: &str, reference: Option<u64>) {
        let (what, reason, message) = (what.into(), reason.into(), words.into());
        self.send(conn, &FromRelay::Refused { what, reason, message, reference });
    }
}

fn with_id(data: &str, id: &str) -> String {
    data.strip_suffix('}').map_or_else(|| data.to_owned(), |open| format!(r#"{open},"id":{id}}}"#))
}

/// The id that a participant gave its action: a text or a number. Another is none.
fn id_of(data: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Read<'a> {
        #[serde(default, borrow)]
        id: Option<&'a RawValue>,
    }
    let id = serde_json::from_str::<Read<'_>>(data.get()).ok()?.id?.get();
    let first = id.bytes().next()?;
    (id.len() <= MAX_ID && (first == b'"' || first == b'-' || first.is_ascii_digit())).then(|| id.to_owned())
}

/// The envelope with the hub's id and who asks; everything else as it came.
fn rewritten(data: &str, id: &str, from: &str) -> Option<String> {
    let mut fields: BTreeMap<String, Box<RawValue>> = serde_json::from_str(data).ok()?;
    fields.insert("id".into(), serde_json::value::to_raw_value(id).ok()?);
    fields.insert("from".into(), serde_json::value::to_raw_value(from).ok()?);
    let data = serde_json::value::to_raw_value(&fields).ok()?;
    Some(app_message(&data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_keeps_what_it_says_and_gets_the_hubs_id() {
        let data = r#"{"__kib_agent":"act","action":{"bid":1.50},"id":7,"more":[1]}"#;
        let raw = RawValue::from_string(data.into()).expect("JSON");
        assert_eq!(id_of(&raw).as_deref(), Some("7"));
        let written = rewritten(data, "n-1", "agent-a").expect("an object");
        let expected = r#"{"k":"app","data":{"__kib_agent":"act","action":{"bid":1.50},"from":"agent-a","id":"n-1","more":[1]}}"#;
        assert_eq!(written, expected);
        let raw = RawValue::from_string(r#"{"__kib_agent":"act","id":{"a":1}}"#.into()).expect("JSON");
        assert_eq!(id_of(&raw), None);
    }
}
