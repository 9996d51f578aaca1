//! Text to frames.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Announce, FromParticipant, FromRelay, Knocker, LAPSED, Lobby, LogLine, Member, Moderation};
use crate::grant::Grant;

/// Longest part of a stranger's text that is repeated.
const MAX_SHOWN: usize = 40;

/// Why a text is no frame, in words for who sent it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Not JSON of the right shape.
    #[error("a frame is a JSON object with a text `t` and the fields of that frame, each once and of its type: {0}")]
    Shape(String),
    /// Not one of the frames.
    #[error("there is no frame `{0}`")]
    Unknown(String),
    /// A field that the frame needs.
    #[error("`{frame}` needs `{field}`")]
    Missing {
        /// The frame.
        frame: &'static str,
        /// The field.
        field: &'static str,
    },
    /// A word that is none of those that a field takes.
    #[error("`{field}` of `{frame}` cannot be `{value}`")]
    Word {
        /// The frame.
        frame: &'static str,
        /// The field.
        field: &'static str,
        /// The value.
        value: String,
    },
}

fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(MAX_SHOWN).collect()
}

fn shape(why: &serde_json::Error) -> Malformed {
    // serde quotes what it met; a place and a type are enough.
    Malformed::Shape(format!("line {}, column {}", why.line(), why.column()))
}

/// An array would be read as a struct's fields in their order, and no other program reads it so.
fn object(text: &str) -> Result<&str, Malformed> {
    let starts = text.trim_start_matches([' ', '\t', '\r', '\n']).starts_with('{');
    if starts { Ok(text) } else { Err(Malformed::Shape("it is no object".into())) }
}

/// Every field of every frame of a participant's. One pass; what is opaque stays text.
#[derive(Deserialize)]
struct Read<'a> {
    #[serde(default)]
    t: Option<String>,
    #[serde(default)]
    on: Option<bool>,
    #[serde(default)]
    cam: Option<bool>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    avatar: Option<String>,
    #[serde(default)]
    token: Option<String>,
    #[serde(default)]
    jwt: Option<String>,
    #[serde(default, rename = "agentAssertion")]
    agent_assertion: Option<String>,
    #[serde(default, rename = "agentCredit")]
    agent_credit: Option<String>,
    #[serde(default, borrow)]
    meta: Option<&'a RawValue>,
    #[serde(default)]
    op: Option<String>,
    #[serde(default)]
    target: Option<String>,
    #[serde(default)]
    grant: Option<Grant>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default, rename = "ref")]
    reference: Option<u64>,
    #[serde(default, borrow)]
    payload: Option<&'a RawValue>,
}

/// Reads what a participant sent.
pub fn from_participant(text: &str) -> Result<FromParticipant<'_>, Malformed> {
    let mut read: Read<'_> = serde_json::from_str(object(text)?).map_err(|why| shape(&why))?;
    let t = read.t.take().ok_or_else(|| Malformed::Shape("there is no `t`".into()))?;
    Ok(match t.as_str() {
        "knock" => FromParticipant::Knock(announce(read)),
        "voice" => {
            let on = read.on.ok_or(Malformed::Missing { frame: "voice", field: "on" })?;
            FromParticipant::Voice { on, cam: read.cam.unwrap_or(false), announce: announce(read) }
        }
        "ping" => FromParticipant::Ping,
        "leave" => FromParticipant::Leave,
        "mod" => {
            let op = read.op.ok_or(Malformed::Missing { frame: "mod", field: "op" })?;
            let unknown = || Malformed::Word { frame: "mod", field: "op", value: shown(&op) };
            let op = Moderation::parse(&op).ok_or_else(unknown)?;
            FromParticipant::Mod { op, target: read.target, grant: read.grant }
        }
        "floor" => FromParticipant::Floor { on: read.on.ok_or(Malformed::Missing { frame: "floor", field: "on" })? },
        "to" => {
            let payload = read.payload.ok_or(Malformed::Missing { frame: "to", field: "payload" })?;
            FromParticipant::To { id: read.id, reference: read.reference, payload }
        }
        other => return Err(Malformed::Unknown(shown(other))),
    })
}

fn announce(read: Read<'_>) -> Box<Announce> {
    Box::new(Announce {
        name: read.name,
        avatar: read.avatar,
        token: read.token,
        jwt: read.jwt,
        agent_assertion: read.agent_assertion,
        agent_credit: read.agent_credit,
        meta: read.meta.map(ToOwned::to_owned),
    })
}

#[derive(Deserialize)]
struct ReadMember {
    id: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    cam: Option<bool>,
    #[serde(default)]
    avatar: Option<String>,
    #[serde(default)]
    meta: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct ReadRelay<'a> {
    #[serde(default)]
    t: Option<String>,
    #[serde(default)]
    relay: Option<u32>,
    #[serde(default)]
    room: Option<String>,
    #[serde(default)]
    challenge: Option<String>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    members: Option<Vec<ReadMember>>,
    #[serde(default)]
    lobby: Option<bool>,
    #[serde(default)]
    host: Option<String>,
    #[serde(default)]
    locked: Option<bool>,
    #[serde(default)]
    floor: Option<String>,
    #[serde(default)]
    grants: Option<BTreeMap<String, Grant>>,
    #[serde(default, borrow)]
    payload: Option<&'a RawValue>,
    #[serde(default)]
    waiting: Option<Vec<Knocker>>,
    #[serde(default)]
    lines: Option<Vec<LogLine>>,
    #[serde(default)]
    what: Option<String>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    message: Option<String>,
    #[serde(default, rename = "ref")]
    reference: Option<u64>,
    #[serde(default)]
    code: Option<String>,
}

/// Reads what the relay sent.
pub fn from_relay(text: &str) -> Result<FromRelay, Malformed> {
    let read: ReadRelay<'_> = serde_json::from_str(object(text)?).map_err(|why| shape(&why))?;
    let t = read.t.ok_or_else(|| Malformed::Shape("there is no `t`".into()))?;
    let need = |frame, field, value: Option<String>| value.ok_or(Malformed::Missing { frame, field });
    Ok(match t.as_str() {
        "hello" => FromRelay::Hello {
            relay: read.relay.ok_or(Malformed::Missing { frame: "hello", field: "relay" })?,
            room: need("hello", "room", read.room)?,
            challenge: need("hello", "challenge", read.challenge)?,
        },
        "id" => FromRelay::Id {
            id: need("id", "id", read.id)?,
            name: read.name.unwrap_or_default(),
            kind: read.kind.unwrap_or_default(),
        },
        "lobby" => {
            let status = need("lobby", "status", read.status)?;
            let unknown = || Malformed::Word { frame: "lobby", field: "status", value: shown(&status) };
            FromRelay::Lobby(Lobby::parse(&status).ok_or_else(unknown)?)
        }
        "roster" => {
            let members = read.members.ok_or(Malformed::Missing { frame: "roster", field: "members" })?;
            let member = |m: ReadMember| Member {
                name: m.name.unwrap_or_else(|| m.id.clone()),
                id: m.id,
                cam: m.cam.unwrap_or(false),
                avatar: m.avatar,
                meta: m.meta,
            };
            FromRelay::Roster {
                members: members.into_iter().map(member).collect(),
                lobby: read.lobby.unwrap_or(false),
                host: read.host.unwrap_or_default(),
                locked: read.locked.unwrap_or(false),
                floor: read.floor,
            }
        }
        "ping" => FromRelay::Ping,
        "kick" if read.reason.as_deref() == Some(LAPSED) => FromRelay::Lapsed,
        "kick" => FromRelay::Kick,
        "reset" => FromRelay::Reset,
        "from" => FromRelay::From {
            id: need("from", "id", read.id)?,
            payload: read.payload.ok_or(Malformed::Missing { frame: "from", field: "payload" })?.to_owned(),
        },
        "host" => {
            let waiting = read.waiting.ok_or(Malformed::Missing { frame: "host", field: "waiting" })?;
            FromRelay::Host { waiting, grants: read.grants.unwrap_or_default() }
        }
        "log" => FromRelay::Log { lines: read.lines.ok_or(Malformed::Missing { frame: "log", field: "lines" })? },
        "refused" => FromRelay::Refused {
            what: read.what.unwrap_or_default(),
            reason: need("refused", "reason", read.reason)?,
            message: read.message.unwrap_or_default(),
            reference: read.reference,
        },
        "error" => {
            FromRelay::Error { code: need("error", "code", read.code)?, message: read.message.unwrap_or_default() }
        }
        other => return Err(Malformed::Unknown(shown(other))),
    })
}

/// The body of the fuzz target, here so that a property test on a stable toolchain runs the same code.
pub fn exercise(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match from_participant(text) {
        Ok(frame) => {
            let written = frame.encode();
            let again = from_participant(&written).expect("what the encoder writes, the decoder reads");
            assert_eq!(again.encode(), written);
            if let FromParticipant::To { payload, .. } = frame
                && let Ok(content) = crate::content::Content::read(payload)
            {
                let written = RawValue::from_string(content.written()).expect("content is handed on as JSON");
                let again = crate::content::Content::read(&written);
                assert!(
                    again.is_ok_and(|again| again.kind() == content.kind()),
                    "content stays what it was: {written}"
                );
            }
        }
        Err(error) => assert!(error.to_string().len() <= 1024),
    }
    match from_relay(text) {
        Ok(frame) => {
            let written = frame.encode();
            let again = from_relay(&written).expect("what the encoder writes, the decoder reads");
            assert_eq!(again.encode(), written);
        }
        Err(error) => assert!(error.to_string().len() <= 1024),
    }
}
