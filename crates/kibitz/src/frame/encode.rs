//! Frames to text: exactly the keys that they have, in one order.

use serde::Serialize;
use serde_json::value::RawValue;

use super::{Announce, FromParticipant, FromRelay, LAPSED, Member};

/// An object being written.
struct Object(String);

impl Object {
    fn frame(t: &str) -> Self {
        Self(format!(r#"{{"t":"{t}""#))
    }

    const fn bare() -> Self {
        Self(String::new())
    }

    fn json(mut self, key: &str, value: &str) -> Self {
        self.0.push(if self.0.is_empty() { '{' } else { ',' });
        self.0.push('"');
        self.0.push_str(key);
        self.0.push_str("\":");
        self.0.push_str(value);
        self
    }

    fn text(self, key: &str, value: &str) -> Self {
        // Any text can be written as JSON.
        self.json(key, &serde_json::to_string(value).unwrap_or_default())
    }

    fn maybe(self, key: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.text(key, value),
            None => self,
        }
    }

    fn maybe_json(self, key: &str, value: Option<&RawValue>) -> Self {
        match value {
            Some(value) => self.json(key, value.get()),
            None => self,
        }
    }

    fn flag(self, key: &str, value: bool) -> Self {
        self.json(key, if value { "true" } else { "false" })
    }

    fn end(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

fn announced(object: Object, announce: &Announce) -> Object {
    object
        .maybe("name", announce.name.as_deref())
        .maybe("avatar", announce.avatar.as_deref())
        .maybe("token", announce.token.as_deref())
        .maybe("jwt", announce.jwt.as_deref())
        .maybe("agentAssertion", announce.agent_assertion.as_deref())
        .maybe("agentCredit", announce.agent_credit.as_deref())
        .maybe_json("meta", announce.meta.as_deref())
}

/// Texts, numbers and flags under fixed names: nothing that could fail to be written.
fn written(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

impl FromParticipant<'_> {
    /// As it travels.
    pub fn encode(&self) -> String {
        match self {
            Self::Knock(announce) => announced(Object::frame("knock"), announce).end(),
            Self::Voice { on, cam, announce } => {
                announced(Object::frame("voice").flag("on", *on).flag("cam", *cam), announce).end()
            }
            Self::Ping => Object::frame("ping").end(),
            Self::Leave => Object::frame("leave").end(),
            Self::Mod { op, target, grant } => {
                let object = Object::frame("mod").text("op", op.name()).maybe("target", target.as_deref());
                match grant {
                    Some(grant) => object.json("grant", &written(grant)).end(),
                    None => object.end(),
                }
            }
            Self::Floor { on } => Object::frame("floor").flag("on", *on).end(),
            Self::To { id, reference, payload } => {
                let object = Object::frame("to").maybe("id", id.as_deref());
                let object = match reference {
                    Some(number) => object.json("ref", &number.to_string()),
                    None => object,
                };
                object.json("payload", payload.get()).end()
            }
        }
    }
}

impl Member {
    fn written(&self) -> String {
        Object::bare()
            .text("id", &self.id)
            .text("name", &self.name)
            .flag("cam", self.cam)
            .maybe("avatar", self.avatar.as_deref())
            .maybe_json("meta", self.meta.as_deref())
            .end()
    }
}

impl FromRelay {
    /// As it travels.
    pub fn encode(&self) -> String {
        match self {
            Self::Hello { relay, room, challenge } => {
                let object = Object::frame("hello").json("relay", &relay.to_string());
                object.text("room", room).text("challenge", challenge).end()
            }
            Self::Id { id, name, kind } => {
                Object::frame("id").text("id", id).text("name", name).text("kind", kind).end()
            }
            Self::Lobby(status) => Object::frame("lobby").text("status", status.name()).end(),
            Self::Roster { members, lobby, host, locked, floor } => {
                let members: Vec<String> = members.iter().map(Member::written).collect();
                let object = Object::frame("roster").json("members", &format!("[{}]", members.join(",")));
                let object = object.flag("lobby", *lobby).text("host", host).flag("locked", *locked);
                object.maybe("floor", floor.as_deref()).end()
            }
            Self::Ping => Object::frame("ping").end(),
            Self::Kick => Object::frame("kick").end(),
            Self::Lapsed => Object::frame("kick").text("reason", LAPSED).end(),
            Self::Reset => Object::frame("reset").end(),
            Self::From { id, payload } => from(id, payload.get()),
            Self::Host { waiting, grants } => {
                Object::frame("host").json("waiting", &written(waiting)).json("grants", &written(grants)).end()
            }
            Self::Log { lines } => Object::frame("log").json("lines", &written(lines)).end(),
            Self::Refused { what, reason, message, reference } => {
                let object = Object::frame("refused").text("what", what).text("reason", reason);
                let object = object.text("message", message);
                match reference {
                    Some(number) => object.json("ref", &number.to_string()).end(),
                    None => object.end(),
                }
            }
            Self::Error { code, message } => Object::frame("error").text("code", code).text("message", message).end(),
        }
    }
}

/// Content as the relay hands it on; `payload` is JSON.
pub(crate) fn from(id: &str, payload: &str) -> String {
    Object::frame("from").text("id", id).json("payload", payload).end()
}
