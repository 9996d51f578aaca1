//! An object's fields, not yet interpreted: slices of the message, found by name.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::Malformed;

/// Every key of every frame.
const KEYS: [&str; 22] = [
    "type",
    "requestId",
    "timestamp",
    "payload",
    "identifier",
    "hasSecret",
    "hasKeyPair",
    "publicKey",
    "protocolVersion",
    "nextAction",
    "expiresAt",
    "ttlSeconds",
    "adminNotification",
    "pairingCode",
    "secret",
    "pairedAt",
    "reason",
    "nonce",
    "proofTimestamp",
    "signature",
    "status",
    "authenticatedAt",
];
/// Of `error`, which the contract leaves open.
const ERROR_KEYS: [&str; 2] = ["code", "message"];
const COUNT: usize = KEYS.len() + ERROR_KEYS.len();

fn place(key: &str) -> Option<usize> {
    KEYS.iter().chain(&ERROR_KEYS).position(|known| *known == key)
}

/// The known fields of one object.
pub(super) struct Fields<'a> {
    values: [Option<&'a RawValue>; COUNT],
    twice: Option<&'static str>,
    /// The frame's name in error messages.
    frame: &'static str,
}

impl<'a> Fields<'a> {
    /// Reads an object.
    pub(super) fn read(text: &'a str, frame: &'static str) -> Result<Self, Malformed> {
        if !text.trim_start_matches([' ', '\t', '\n', '\r']).starts_with('{') {
            serde_json::from_str::<IgnoredAny>(text).map_err(not_json)?;
            return Err(Malformed::NotObject);
        }
        let mut fields: Self = serde_json::from_str(text).map_err(not_json)?;
        fields.frame = frame;
        Ok(fields)
    }

    /// No fields: the payload of a frame that has none.
    pub(super) const fn none(frame: &'static str) -> Self {
        Self { values: [None; COUNT], twice: None, frame }
    }

    /// Refuses repeated keys: two readers that choose differently are how a check is passed.
    pub(super) fn once(self) -> Result<Self, Malformed> {
        match self.twice {
            Some(field) => Err(self.bad(field, "is given twice")),
            None => Ok(self),
        }
    }

    /// The field, unless it is absent or null.
    pub(super) fn get(&self, key: &str) -> Option<&'a RawValue> {
        self.values[place(key)?].filter(|raw| raw.get() != "null")
    }

    /// A text that must be there.
    pub(super) fn text(&self, field: &'static str) -> Result<Cow<'a, str>, Malformed> {
        self.optional_text(field)?.ok_or_else(|| self.bad(field, "is missing"))
    }

    /// A text that may be absent, but is nothing else.
    pub(super) fn optional_text(&self, field: &'static str) -> Result<Option<Cow<'a, str>>, Malformed> {
        match self.get(field) {
            None => Ok(None),
            Some(raw) => text_of(raw).map(Some).ok_or_else(|| self.bad(field, "is not text")),
        }
    }

    /// One of a set of words.
    pub(super) fn word<T>(&self, field: &'static str, parse: impl Fn(&str) -> Option<T>) -> Result<T, Malformed> {
        parse(&self.text(field)?).ok_or_else(|| self.bad(field, "is none of the contract's words"))
    }

    /// true or false.
    pub(super) fn flag(&self, field: &'static str) -> Result<bool, Malformed> {
        match self.get(field).map(RawValue::get) {
            Some("true") => Ok(true),
            Some("false") => Ok(false),
            Some(_) => Err(self.bad(field, "is not true or false")),
            None => Err(self.bad(field, "is missing")),
        }
    }

    /// A whole number.
    pub(super) fn number(&self, field: &'static str) -> Result<i64, Malformed> {
        self.optional_number(field)?.ok_or_else(|| self.bad(field, "is missing"))
    }

    /// A whole number that may be absent. A fraction is cut off: JavaScript's clocks have one.
    pub(super) fn optional_number(&self, field: &'static str) -> Result<Option<i64>, Malformed> {
        let Some(raw) = self.get(field) else { return Ok(None) };
        if let Ok(number) = raw.get().parse::<i64>() {
            return Ok(Some(number));
        }
        match serde_json::from_str::<f64>(raw.get()) {
            // Within what a float counts exactly.
            Ok(number) if number.abs() < 9.0e15 => Ok(Some(number.floor() as i64)),
            _ => Err(self.bad(field, "is not a whole number")),
        }
    }

    /// The error for a field of this frame.
    pub(super) const fn bad(&self, field: &'static str, why: &'static str) -> Malformed {
        Malformed::Field { frame: self.frame, field, why }
    }
}

fn not_json(error: serde_json::Error) -> Malformed {
    // Not the error's own text: it quotes what it did not expect.
    Malformed::NotJson { line: error.line(), column: error.column() }
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
        let mut fields = Fields::none("frame");
        while let Some(Text(key)) = map.next_key()? {
            match place(&key) {
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
                Some(index) => {
                    if fields.values[index].replace(map.next_value()?).is_some() {
                        let name = KEYS.iter().chain(&ERROR_KEYS).nth(index).copied();
                        fields.twice = fields.twice.or(name);
                    }
                }
            }
        }
        Ok(fields)
    }
}

/// The text in a raw value, borrowed when it has no escapes.
fn text_of(raw: &RawValue) -> Option<Cow<'_, str>> {
    serde_json::from_str::<Text<'_>>(raw.get()).ok().map(|text| text.0)
}

/// Text that borrows where it can. (serde's own `Cow<str>` always copies.)
struct Text<'a>(Cow<'a, str>);

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
