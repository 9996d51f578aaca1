//! A room's link: `https://host/#<room>?<params>`. What stands behind `#` no browser sends, so keys and invites may ride
//! there. Links of the field with the parameters before `#` are read, too.

use std::fmt::Display;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::name;

/// What a browser needs to know of a room.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoomLink {
    /// The room, in its normal form.
    pub room: String,
    /// How one gets in.
    pub gate: Gate,
    /// The key under which invites and the manifest verify: a JWK in base64url (`gk`).
    pub key: Option<String>,
    /// The manifest (`gm`).
    pub manifest: Option<String>,
    /// An invite of the visitor's own (`gt`).
    pub invite: Option<String>,
    /// The host's public key: a JWK in base64url (`gh`).
    pub host_key: Option<String>,
    /// The room starts with a lobby (`gl`).
    pub lobby: bool,
    /// A description (`d`).
    pub description: Option<String>,
}

/// How one gets into a room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gate {
    /// Anybody; what is unknown is this, as in the field: the authority decides, not the link.
    #[default]
    Open,
    /// Who is on a list of names.
    Names,
    /// Who has a code.
    Code,
    /// Who has an address.
    Email,
    /// Who signs in at Google.
    Google,
    /// Who has an invite.
    Invite,
}

impl Gate {
    const ALL: [(Self, &'static str); 6] = [
        (Self::Open, "open"),
        (Self::Names, "names"),
        (Self::Code, "code"),
        (Self::Email, "email"),
        (Self::Google, "google"),
        (Self::Invite, "invite"),
    ];

    /// As a link has it.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(gate, _)| *gate == self).map_or("open", |(_, name)| name)
    }
}

/// Longest link that is read: a manifest of many keys rides in it.
const MAX_LINK: usize = 64 * 1024;

impl RoomLink {
    /// Reads a link. `None` if it names no room.
    pub fn read(link: &str) -> Option<Self> {
        if link.len() > MAX_LINK {
            return None;
        }
        let (before, fragment) = link.split_once('#')?;
        let (room, in_fragment) = fragment.split_once('?').unwrap_or((fragment, ""));
        let in_query = before.split_once('?').map_or("", |(_, query)| query);
        let mut read = Self { room: name::normal(&decoded(room))?, ..Self::default() };
        // The fragment's come last, and win.
        for (key, value) in in_query.split('&').chain(in_fragment.split('&')).filter_map(|pair| pair.split_once('='))
        {
            let value = decoded(value);
            match key {
                "g" => {
                    read.gate =
                        Gate::ALL.iter().find(|(_, name)| *name == value).map_or(Gate::Open, |(gate, _)| *gate)
                }
                "gl" => read.lobby = value == "1",
                "gk" => read.key = Some(value),
                "gm" => read.manifest = Some(value),
                "gt" => read.invite = Some(value),
                "gh" => read.host_key = Some(value),
                "d" => read.description = Some(value),
                _ => {}
            }
        }
        Some(read)
    }

    /// The part behind `#`.
    pub fn fragment(&self) -> String {
        let mut text = format!("{}?g={}", self.room, self.gate.name());
        let optional = [
            ("gk", &self.key),
            ("gm", &self.manifest),
            ("gt", &self.invite),
            ("gh", &self.host_key),
            ("d", &self.description),
        ];
        for (key, value) in optional {
            if let Some(value) = value {
                text.push_str(&format!("&{key}={}", encoded(value)));
            }
        }
        if self.lobby {
            text.push_str("&gl=1");
        }
        text
    }
}

/// What a link leaves as it is (RFC 3986, "unreserved").
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

fn decoded(text: &str) -> String {
    percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned()
}

fn encoded(text: &str) -> impl Display {
    utf8_percent_encode(text, ESCAPED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_read_as_it_was_written() {
        let link = RoomLink {
            room: "standup".into(),
            gate: Gate::Invite,
            key: Some("eyJ9".into()),
            manifest: Some("a-_.b".into()),
            lobby: true,
            description: Some("über & so".into()),
            ..RoomLink::default()
        };
        let fragment = link.fragment();
        assert_eq!(fragment, "standup?g=invite&gk=eyJ9&gm=a-_.b&d=%C3%BCber%20%26%20so&gl=1");
        assert_eq!(RoomLink::read(&format!("https://hub/room/standup#{fragment}")), Some(link));
    }

    #[test]
    fn links_of_the_field_are_read() {
        let read = RoomLink::read("https://x/?g=google&gk=old&d=a+b#My%20Room?gk=new&gx=1").expect("a link");
        assert_eq!((read.room.as_str(), read.gate, read.key.as_deref()), ("my-room", Gate::Google, Some("new")));
        assert_eq!(read.description.as_deref(), Some("a b"));
        assert_eq!(RoomLink::read("https://x/#room?g=newer").map(|link| link.gate), Some(Gate::Open));
        for none in ["https://x/", "https://x/#", "https://x/#?g=open"] {
            assert_eq!(RoomLink::read(none), None, "{none}");
        }
    }
}
