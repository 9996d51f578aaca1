//! What an operator asks the hub for in a room: a yes or no to a call that waits, or a call of something in the fleet. Who
//! may, and what comes of it, is the hub's to say; here it is only told from what is said to others.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Conn, HUB, Output, Room, Via};
use crate::Now;
use crate::content::{Content, app_message};
use crate::frame::encode_from;
use crate::grant::{Capability, Kind};

/// The key of the hub's own envelope.
const KEY: &str = "__convoke";
/// Longest reason, in characters.
const MAX_REASON: usize = 500;

/// Something that an operator asks the hub for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The connection that it came by.
    pub conn: Conn,
    /// Who asks.
    pub participant: String,
    /// The asker's number of the message.
    pub reference: Option<u64>,
    /// For what.
    pub what: Wish,
}

/// What for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// A person's answer to a call that waits.
    Decide {
        /// The approval's id.
        id: String,
        /// Yes or no.
        approve: bool,
        /// Why.
        reason: Option<String>,
    },
    /// A call.
    Call {
        /// The asker's own id of it, as JSON: with one it is told what became of it.
        id: Option<String>,
        /// The machine.
        agent: String,
        /// The tool.
        tool: String,
        /// Its arguments, as JSON.
        args: String,
    },
}

/// The hub's own envelope in application data.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(rename = "__convoke")]
    kind: String,
    #[serde(default, borrow)]
    id: Option<&'a RawValue>,
    #[serde(default)]
    approve: Option<bool>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    agent: Option<String>,
    #[serde(default)]
    tool: Option<String>,
    #[serde(default, borrow)]
    args: Option<&'a RawValue>,
}

impl Room {
    /// Takes what is meant for the hub out of what is said. True if it was.
    pub(super) fn asks_hub(
        &mut self,
        conn: Conn,
        to: Option<&str>,
        reference: Option<u64>,
        content: &Content<'_>,
        now: Now,
    ) -> bool {
        let Some(peer) = self.peers.get(&conn) else { return false };
        let is_operator = peer.via == Via::Operator;
        let wish = match content {
            // Of anybody else it is a line like others.
            Content::Chat(chat) if is_operator && peer.kind == Kind::Human => spoken(&chat.text),
            Content::App { data, .. } if to == Some(HUB) => written(data),
            _ => None,
        };
        let Some(wish) = wish else { return false };
        let grant = self.grant_of(peer, now);
        let decides = matches!(wish, Wish::Decide { .. });
        let words = if !is_operator {
            Some("only an operator of the hub asks it for this")
        } else if decides && peer.kind == Kind::Agent {
            Some("a person decides, and no agent")
        } else if !decides && !grant.allows(Capability::Act, now.unix()) {
            Some("this participant's grant does not include `act`")
        } else {
            None
        };
        match words {
            Some(words) => self.refuse(conn, "command", "operator", words, reference),
            None => {
                let participant = peer.id.clone();
                self.out.push(Output::Command(Command { conn, participant, reference, what: wish }));
            }
        }
        true
    }

    /// Tells whoever asked that nothing came of it.
    pub fn refuse_command(&mut self, command: &Command, reason: &str, words: &str) {
        if self.peers.contains_key(&command.conn) {
            self.refuse(command.conn, "command", reason, words, command.reference);
        }
    }

    /// Tells whoever asked what came of it, as application data of the hub's.
    pub fn answer_command(&mut self, command: &Command, data: &RawValue) {
        if self.peers.contains_key(&command.conn) {
            self.out.push(Output::Send(vec![command.conn], encode_from(HUB, &app_message(data))));
        }
    }

    /// The hub shows application data of its own to all who may read. Answers how many.
    pub fn show(&mut self, data: &RawValue, now: Now) -> usize {
        self.sweep(now);
        let hearers = self.hearers(None, now);
        let count = hearers.len();
        if count > 0 {
            self.out.push(Output::Send(hearers, encode_from(HUB, &app_message(data))));
        }
        count
    }
}

/// `/approve ID why` and `/deny ID why`.
fn spoken(text: &str) -> Option<Wish> {
    let mut words = text.trim().splitn(3, char::is_whitespace);
    let approve = match words.next()? {
        "/approve" => true,
        "/deny" => false,
        _ => return None,
    };
    let id = words.next().filter(|id| !id.is_empty())?.to_owned();
    Some(Wish::Decide { id, approve, reason: words.next().and_then(reason) })
}

fn reason(text: &str) -> Option<String> {
    let text: String = text.trim().chars().take(MAX_REASON).collect();
    (!text.is_empty()).then_some(text)
}

fn written(data: &RawValue) -> Option<Wish> {
    if !data.get().contains(KEY) {
        return None;
    }
    let Envelope { kind, id, approve, reason: why, agent, tool, args } = serde_json::from_str(data.get()).ok()?;
    match kind.as_str() {
        "decide" => {
            let id = id.and_then(|id| serde_json::from_str::<String>(id.get()).ok())?;
            Some(Wish::Decide { id, approve: approve?, reason: why.as_deref().and_then(reason) })
        }
        "call" => {
            let args = args.map_or("{}", RawValue::get).to_owned();
            Some(Wish::Call { id: id.map(|id| id.get().to_owned()), agent: agent?, tool: tool?, args })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_yes_is_told_from_what_is_said_to_others() {
        let decide = |id: &str, approve, reason: Option<&str>| {
            Some(Wish::Decide { id: id.into(), approve, reason: reason.map(Into::into) })
        };
        assert_eq!(spoken("/approve 7-1"), decide("7-1", true, None));
        assert_eq!(spoken(" /deny 7-1  not now, please "), decide("7-1", false, Some("not now, please")));
        for line in ["/approve", "/approved 7", "I /approve 7", "approve 7"] {
            assert_eq!(spoken(line), None, "{line}");
        }
        let raw = |text: &str| RawValue::from_string(text.into()).expect("JSON");
        let said = |text: &str| written(&raw(text));
        assert_eq!(said(r#"{"__convoke":"decide","id":"7","approve":false}"#), decide("7", false, None));
        let call = said(r#"{"__convoke":"call","id":3,"agent":"pc","tool":"fs_list","args":{"path":"/"}}"#);
        let expected = Wish::Call {
            id: Some("3".into()),
            agent: "pc".into(),
            tool: "fs_list".into(),
            args: r#"{"path":"/"}"#.into(),
        };
        assert_eq!(call, Some(expected));
        for other in [r#"{"__convoke":"decide","id":"7"}"#, r#"{"__convoke":"x"}"#, r#"{"a":"__convoke"}"#, "[]"] {
            assert_eq!(said(other), None, "{other}");
        }
    }
}
