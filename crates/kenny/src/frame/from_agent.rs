//! Frames that an agent sends and a hub decodes.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::fields::{Fields, Text, text_of};
use super::{
    ErrorCode, FrameError, MAX_ERROR_MESSAGE, MAX_NAME, MAX_SECTION_NAME, MAX_SECTIONS, Register, WireError, clip_cow,
};
use crate::wire_bytes::SIGNATURE_LEN;

/// Longest time text that is taken, in bytes.
const MAX_TIME: usize = 64;

/// A frame from an agent (contract, "Frame envelope"). Unknown keys are gone, an unknown type is a value.
#[derive(Debug)]
pub enum AgentFrame<'a> {
    /// The agent's first frame.
    Register(Box<Register<'a>>),
    /// Its signature over the transcript.
    Auth {
        /// The signature.
        agent_sig: [u8; SIGNATURE_LEN],
    },
    /// The answer to a request.
    Response(Response<'a>),
    /// A pushed snapshot.
    Telemetry(Telemetry<'a>),
    /// A forwarded log event.
    Log(Log<'a>),
    /// Heartbeat.
    Ping,
    /// Heartbeat reply.
    Pong,
    /// A frame of a version that we do not know.
    Unknown {
        /// Its type, cut to [`MAX_NAME`] characters.
        kind: Cow<'a, str>,
    },
}

impl AgentFrame<'_> {
    /// Decodes one text message. A [`FrameError::BadField`] of a `response` should end its call all the same:
    /// [`response_id`] finds which.
    pub fn decode(text: &str) -> Result<AgentFrame<'_>, FrameError> {
        if let Some(response) = Response::quick(text) {
            return Ok(AgentFrame::Response(response));
        }
        let fields = Fields::read(text)?;
        let kind = fields.kind()?;
        Ok(match &*kind {
            "response" => AgentFrame::Response(Response::read(&fields.of("response")?)?),
            "telemetry" => AgentFrame::Telemetry(Telemetry::read(&fields.of("telemetry")?)?),
            "log" => AgentFrame::Log(Log::read(&fields.of("log")?)?),
            "ping" => AgentFrame::Ping,
            "pong" => AgentFrame::Pong,
            "auth" => AgentFrame::Auth { agent_sig: fields.of("auth")?.bytes("agent_sig")? },
            "register" => AgentFrame::Register(Box::new(Register::read(&fields.of("register")?)?)),
            _ => AgentFrame::Unknown { kind: clip_cow(kind, MAX_NAME) },
        })
    }
}

/// The answer to one request (contract, "response").
#[derive(Debug)]
pub struct Response<'a> {
    /// The request's id.
    pub id: Uuid,
    /// Whether the tool succeeded.
    pub ok: bool,
    /// What it returned: always there when `ok` (JSON `null` if the agent sent none).
    pub result: Option<&'a RawValue>,
    /// Why it failed: always there when not `ok`, never when `ok`.
    pub error: Option<WireError<'a>>,
}

impl<'a> Response<'a> {
    /// The answer as one value.
    pub fn outcome(self) -> Result<&'a RawValue, WireError<'a>> {
        if self.ok {
            Ok(self.result.unwrap_or(RawValue::NULL))
        } else {
            Err(self.error.unwrap_or(WireError::UNREADABLE))
        }
    }

    /// A success in the form that agents write it in, in one pass. Anything else takes the longer way, to the same end.
    fn quick(text: &'a str) -> Option<Self> {
        // Other keys, and any given twice, are for the longer way to judge.
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Shape<'a> {
            #[serde(rename = "type")]
            kind: &'a str,
            id: &'a str,
            ok: bool,
            #[serde(borrow)]
            result: &'a RawValue,
            #[serde(borrow)]
            error: Option<&'a RawValue>,
        }
        if !text.starts_with("{\"type\":\"response\"") && !text.starts_with("{\"type\": \"response\"") {
            return None;
        }
        let shape: Shape<'_> = serde_json::from_str(text).ok()?;
        let plain = shape.kind == "response" && shape.ok && shape.error.is_none();
        let id = Uuid::try_parse(shape.id).ok()?;
        plain.then_some(Self { id, ok: true, result: Some(shape.result), error: None })
    }

    fn read(fields: &Fields<'a>) -> Result<Self, FrameError> {
        let id = fields.uuid("id")?;
        let ok = match fields.get("ok").map(RawValue::get) {
            Some("true") => true,
            Some("false") => false,
            _ => return Err(fields.bad("ok", "is neither true nor false")),
        };
        let result = fields.get("result");
        if ok {
            return Ok(Self { id, ok, result: Some(result.unwrap_or(RawValue::NULL)), error: None });
        }
        // A failure stays a failure however its error is spelt: the caller waits for an end, not for good form.
        let error = fields.get("error").and_then(read_error).unwrap_or(WireError::UNREADABLE);
        Ok(Self { id, ok, result, error: Some(error) })
    }
}

fn read_error(raw: &RawValue) -> Option<WireError<'_>> {
    #[derive(serde::Deserialize)]
    struct Shape<'a> {
        #[serde(borrow)]
        code: Option<&'a RawValue>,
        #[serde(borrow)]
        message: Option<&'a RawValue>,
    }
    // What is said in another form is still what the agent says.
    let said = |raw: &'_ RawValue| match raw.get() {
        "null" => None,
        other => Some(Cow::Owned(other.to_owned())),
    };
    let shape: Option<Shape<'_>> = serde_json::from_str(raw.get()).ok();
    let message = shape.as_ref().and_then(|shape| shape.message).and_then(|raw| text_of(raw).or_else(|| said(raw)));
    let (code, message) = match shape.and_then(|shape| shape.code).and_then(text_of) {
        Some(code) => (ErrorCode::parse(&code), message.unwrap_or_default()),
        None => (ErrorCode::Internal, message.or_else(|| text_of(raw)).or_else(|| said(raw))?),
    };
    Some(WireError { code, message: clip_cow(message, MAX_ERROR_MESSAGE) })
}

/// A pushed snapshot (contract, "telemetry"). The sections are not looked into: 0.8 has 25, newer agents more.
#[derive(Debug)]
pub struct Telemetry<'a> {
    /// The agent id that the snapshot claims. A hub accepts it only from that agent.
    pub agent_id: Cow<'a, str>,
    /// When it was collected, as the agent wrote it.
    pub collected_at: Cow<'a, str>,
    /// Section name and payload, in the order they came. Of a name that is given twice the last counts, as for who
    /// reads the body later.
    pub snapshot: Vec<(Cow<'a, str>, &'a RawValue)>,
    /// All sections as they came: what a hub keeps.
    pub body: &'a RawValue,
}

impl<'a> Telemetry<'a> {
    fn read(fields: &Fields<'a>) -> Result<Self, FrameError> {
        let raw = fields.get("snapshot").ok_or_else(|| fields.bad("snapshot", "is missing"))?;
        let sections = serde_json::Deserializer::from_str(raw.get()).deserialize_map(SectionsVisitor);
        let snapshot = match sections.map_err(|_| fields.bad("snapshot", "is not an object of sections"))? {
            Sections::Within(sections) => sections,
            Sections::TooMany => return Err(fields.bad("snapshot", "has more than 128 sections")),
            Sections::LongName => return Err(fields.bad("snapshot", "has a section name of more than 64 characters")),
        };
        Ok(Self {
            agent_id: fields.text("agent_id")?,
            collected_at: time(fields, "collected_at")?,
            snapshot,
            body: raw,
        })
    }
}

fn time<'a>(fields: &Fields<'a>, field: &'static str) -> Result<Cow<'a, str>, FrameError> {
    let text = fields.text(field)?;
    if text.len() > MAX_TIME { Err(fields.bad(field, "is too long for a time")) } else { Ok(text) }
}

enum Sections<'a> {
    Within(Vec<(Cow<'a, str>, &'a RawValue)>),
    TooMany,
    LongName,
}

struct SectionsVisitor;

impl<'de> Visitor<'de> for SectionsVisitor {
    type Value = Sections<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of sections")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Sections<'de>, A::Error> {
        // The contract's 25 sections fit without growing.
        let mut sections = Sections::Within(Vec::with_capacity(32));
        while let Some(Text(name)) = map.next_key()? {
            let Sections::Within(list) = &mut sections else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            if list.len() == MAX_SECTIONS {
                sections = Sections::TooMany;
                map.next_value::<IgnoredAny>()?;
            } else if name.chars().nth(MAX_SECTION_NAME).is_some() {
                sections = Sections::LongName;
                map.next_value::<IgnoredAny>()?;
            } else {
                let payload = map.next_value()?;
                match list.iter_mut().find(|(known, _)| *known == name) {
                    Some(known) => known.1 = payload,
                    None => list.push((name, payload)),
                }
            }
        }
        Ok(sections)
    }
}

/// A forwarded log event (contract, "log").
#[derive(Debug)]
pub struct Log<'a> {
    /// The agent id that the event claims.
    pub agent_id: Cow<'a, str>,
    /// When, as the agent wrote it.
    pub at: Cow<'a, str>,
    /// The log level.
    pub level: LogLevel,
    /// The emitting module; empty if the agent sent none.
    pub target: Cow<'a, str>,
    /// The message.
    pub message: Cow<'a, str>,
    /// Structured values, if the event has any.
    pub fields: Option<&'a RawValue>,
}

impl<'a> Log<'a> {
    fn read(fields: &Fields<'a>) -> Result<Self, FrameError> {
        let level =
            LogLevel::parse(&fields.text("level")?).ok_or_else(|| fields.bad("level", "is not a log level"))?;
        Ok(Self {
            agent_id: fields.text("agent_id")?,
            at: time(fields, "at")?,
            level,
            target: fields.optional_text("target")?.unwrap_or_default(),
            message: fields.text("message")?,
            fields: fields.get("fields").filter(|raw| raw.get().starts_with('{')),
        })
    }
}

/// `level` of a `log` frame, gravest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogLevel {
    /// Something failed.
    Error,
    /// Something is wrong.
    Warn,
    /// Something happened.
    Info,
    /// For whoever debugs the agent.
    Debug,
    /// For whoever debugs it closely.
    Trace,
}

impl LogLevel {
    /// All levels, gravest first.
    pub const ALL: [Self; 5] = [Self::Error, Self::Warn, Self::Info, Self::Debug, Self::Trace];

    /// The level on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }

    /// Reads a level in any case.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|l| l.name().eq_ignore_ascii_case(text))
    }
}

/// The id of a `response` that is too large or too odd to decode, so that its call can end at once instead of timing
/// out. Reads no further than it must (agents write `type` and `id` first) and keeps nothing.
pub fn response_id(text: &str) -> Option<Uuid> {
    let mut found = ResponseId::default();
    // Always an error once both are found: that is how the scan stops early.
    let _ = IdSeed(&mut found).deserialize(&mut serde_json::Deserializer::from_str(text));
    found.id.filter(|_| found.is_response == Some(true))
}

/// The same of a frame of which only the start was kept. One that has an `id` and no `type` yet counts as a response, too: no other
/// frame of an agent has one, and there are programs that write keys by the alphabet.
pub fn response_id_in_start(start: &str) -> Option<Uuid> {
    let mut found = ResponseId::default();
    let _ = IdSeed(&mut found).deserialize(&mut serde_json::Deserializer::from_str(start));
    found.id.filter(|_| found.is_response != Some(false))
}

#[derive(Default)]
struct ResponseId {
    is_response: Option<bool>,
    id: Option<Uuid>,
}

struct IdSeed<'s>(&'s mut ResponseId);

impl<'de> DeserializeSeed<'de> for IdSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for IdSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(Text(key)) = map.next_key()? {
            match &*key {
                "type" => self.0.is_response = Some(map.next_value::<Text<'de>>()?.0 == "response"),
                "id" => self.0.id = Uuid::try_parse(&map.next_value::<Text<'de>>()?.0).ok(),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            if self.0.is_response == Some(true) && self.0.id.is_some() {
                return Err(A::Error::custom("found"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::{select, subsequence};

    use super::*;

    fn long_way(text: &str) -> Result<Response<'_>, FrameError> {
        Response::read(&Fields::read(text)?.of("response")?)
    }

    #[test]
    fn a_usual_success_is_read_in_one_pass() {
        let text = r#"{"type":"response","id":"3f0f5a2e-8d6f-4c5b-9d3c-0a1b2c3d4e5f","ok":true,"result":{"a":[1]}}"#;
        let quick = Response::quick(text).expect("quick");
        assert_eq!(format!("{quick:?}"), format!("{:?}", long_way(text).expect("the same")));
        assert!(Response::quick(&text.replace("true", "false")).is_none());
        assert!(
            Response::quick(&text.replace("{\"a\"", "{\"a\":1,\"a\"")).is_some(),
            "what is inside is the caller's"
        );
    }

    #[test]
    fn what_an_agent_says_of_a_failure_is_kept_however_it_is_spelt() {
        for (error, code, message) in [
            (r#""boom""#, "internal", "boom"),
            (r#"{"code":"weird","message":5}"#, "weird", "5"),
            (r#"{"code":"weird","message":{"a":1}}"#, "weird", r#"{"a":1}"#),
            (r#"{"code":"weird","message":null}"#, "weird", ""),
            (r#"{"message":"no code"}"#, "internal", "no code"),
            (r#"{"reason":"other"}"#, "internal", r#"{"reason":"other"}"#),
            ("true", "internal", "true"),
            ("null", "internal", "the agent reported a failure but gave no readable error"),
        ] {
            let id = "3f0f5a2e-8d6f-4c5b-9d3c-0a1b2c3d4e5f";
            let text = format!(r#"{{"type":"response","id":"{id}","ok":false,"error":{error}}}"#);
            let read = long_way(&text).expect("a response").outcome().expect_err("a failure");
            assert_eq!((read.code.as_str(), &*read.message), (code, message), "{error}");
        }
    }

    proptest! {
        #[test]
        fn both_ways_read_the_same(
            keys in subsequence(
                vec![
                    r#""id":"3f0f5a2e-8d6f-4c5b-9d3c-0a1b2c3d4e5f""#, r#""id":"3F0F5A2E8D6F4C5B9D3C0A1B2C3D4E5F""#,
                    r#""id":7"#, r#""id":"x""#, r#""ok":true"#, r#""ok":false"#, r#""ok":1"#, r#""result":null"#,
                    r#""result":{"a": 1}"#, r#""result":"\u0000""#, r#""error":null"#, r#""error":{"code":"x"}"#,
                    r#""tool":1"#, r#""tool":2"#, r#""other":[]"#, r#""type":"log""#,
                ],
                0..7,
            )
            .prop_shuffle(),
            head in select(&[r#"{"type":"response""#, r#"{"type": "response""#, r#"{"type":"responses""#][..]),
            tail in select(&["}", " }\n", "", "}x"][..]),
        ) {
            let text = keys.iter().fold(head.to_owned(), |text, key| format!("{text},{key}")) + tail;
            if let Some(quick) = Response::quick(&text) {
                let long = long_way(&text);
                prop_assert!(long.is_ok(), "{} {:?}", text, long);
                prop_assert_eq!(format!("{quick:?}"), format!("{:?}", long.expect("just seen")));
            }
        }
    }
}
