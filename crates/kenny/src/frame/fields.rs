//! The first pass over a frame: which known key holds which slice of the message.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::FrameError;

/// Every key of every frame (contract, all frames; `shell` is the field's, `below` ours). One list for both directions, so that a key means one thing.
const KEYS: [&str; 25] = [
    "type",
    "id",
    "ok",
    "result",
    "error",
    "agent_id",
    "collected_at",
    "snapshot",
    "tool",
    "args",
    "at",
    "level",
    "target",
    "message",
    "fields",
    "protocol",
    "client_nonce",
    "token",
    "meta",
    "server_nonce",
    "server_sig",
    "agent_sig",
    "rules",
    "shell",
    "below",
];

/// The known fields of one frame, not yet interpreted.
pub(super) struct Fields<'a> {
    values: [Option<&'a RawValue>; KEYS.len()],
    twice: Option<&'static str>,
    /// The frame's name in error messages, set once the type is known.
    frame: &'static str,
}

impl<'a> Fields<'a> {
    /// Reads the whole text once.
    pub(super) fn read(text: &'a str) -> Result<Self, FrameError> {
        if !text.trim_start_matches([' ', '\t', '\n', '\r']).starts_with('{') {
            // Worth telling apart for whoever debugs a peer; the scan builds nothing.
            serde_json::from_str::<IgnoredAny>(text).map_err(not_json)?;
            return Err(FrameError::NotObject);
        }
        serde_json::from_str(text).map_err(not_json)
    }

    /// The value of `type`.
    pub(super) fn kind(&self) -> Result<Cow<'a, str>, FrameError> {
        self.get("type").and_then(text_of).ok_or(FrameError::NoType)
    }

    /// Names the frame for error messages and refuses repeated keys, now that there is a name to say it with.
    pub(super) fn of(mut self, frame: &'static str) -> Result<Self, FrameError> {
        self.frame = frame;
        match self.twice {
            Some(field) => Err(self.bad(field, "is given twice")),
            None => Ok(self),
        }
    }

    /// The field, unless it is absent or null.
    pub(super) fn get(&self, key: &str) -> Option<&'a RawValue> {
        let index = KEYS.iter().position(|k| *k == key)?;
        self.values[index].filter(|raw| raw.get() != "null")
    }

    /// A text that must be there.
    pub(super) fn text(&self, field: &'static str) -> Result<Cow<'a, str>, FrameError> {
        self.optional_text(field)?.ok_or_else(|| self.bad(field, "is missing"))
    }

    /// A text that may be absent, but is nothing else.
    pub(super) fn optional_text(&self, field: &'static str) -> Result<Option<Cow<'a, str>>, FrameError> {
        match self.get(field) {
            None => Ok(None),
            Some(raw) => text_of(raw).map(Some).ok_or_else(|| self.bad(field, "is not text")),
        }
    }

    /// Base64 of exactly `N` bytes.
    pub(super) fn bytes<const N: usize>(&self, field: &'static str) -> Result<[u8; N], FrameError> {
        crate::wire_bytes::decode(&self.text(field)?).map_err(|e| self.bad(field, e.why()))
    }

    /// A UUID.
    pub(super) fn uuid(&self, field: &'static str) -> Result<uuid::Uuid, FrameError> {
        uuid::Uuid::try_parse(&self.text(field)?).map_err(|_| self.bad(field, "is not a UUID"))
    }

    /// The error for a field of this frame.
    pub(super) fn bad(&self, field: &'static str, why: &'static str) -> FrameError {
        FrameError::BadField { frame: self.frame, field, why }
    }
}

fn not_json(error: serde_json::Error) -> FrameError {
    // Not the error's own text: it quotes what it did not expect.
    FrameError::NotJson { line: error.line(), column: error.column() }
}

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
        let mut fields = Fields { values: [None; KEYS.len()], twice: None, frame: "frame" };
        while let Some(Text(key)) = map.next_key()? {
            match KEYS.iter().position(|k| *k == key) {
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
                Some(index) => {
                    if fields.values[index].replace(map.next_value()?).is_some() {
                        fields.twice.get_or_insert(KEYS[index]);
                    }
                }
            }
        }
        Ok(fields)
    }
}

/// The text in a raw value, borrowed when it has no escapes; `None` when it is not text, or text that is no Unicode.
pub(super) fn text_of(raw: &RawValue) -> Option<Cow<'_, str>> {
    serde_json::from_str::<Text<'_>>(raw.get()).ok().map(|text| text.0)
}

/// Text that borrows where it can. (serde's own `Cow<str>` always copies.)
pub(super) struct Text<'a>(pub(super) Cow<'a, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }
}
