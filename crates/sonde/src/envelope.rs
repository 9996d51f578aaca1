//! The envelope around every message (contract, "Message Envelope") and the eight types (contract, "Message Types").

use std::borrow::Cow;
use std::fmt;

use convoke_core::time::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::json;
use crate::sign::Signer;

/// Longest frame on a link, in bytes: a frame of the field's programs is below 1 MiB.
pub const MAX_FRAME: usize = 1024 * 1024 - 1;

/// The type of a message; there are eight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MessageType {
    /// An agent says who it is.
    Register,
    /// An agent lives.
    Heartbeat,
    /// A probe's result.
    ProbeResponse,
    /// A probe's failure.
    ProbeError,
    /// The hub has taken a registration.
    Ack,
    /// The hub has refused one.
    Reject,
    /// The hub asks for a probe.
    ProbeRequest,
    /// There is a newer agent.
    UpdateAvailable,
}

impl MessageType {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Register,
        Self::Ack,
        Self::Reject,
        Self::Heartbeat,
        Self::ProbeRequest,
        Self::ProbeResponse,
        Self::ProbeError,
        Self::UpdateAvailable,
    ];

    /// The name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Register => "agent.register",
            Self::Heartbeat => "agent.heartbeat",
            Self::ProbeResponse => "probe.response",
            Self::ProbeError => "probe.error",
            Self::Ack => "hub.ack",
            Self::Reject => "hub.reject",
            Self::ProbeRequest => "probe.request",
            Self::UpdateAvailable => "hub.update_available",
        }
    }

    /// The type of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|t| t.name() == name)
    }

    /// Whether an agent sends it.
    pub const fn is_from_agent(self) -> bool {
        matches!(self, Self::Register | Self::Heartbeat | Self::ProbeResponse | Self::ProbeError)
    }
}

impl fmt::Display for MessageType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A message that passed the envelope's rules. Its payload is still text: what it must be depends on the type.
#[derive(Clone, Debug)]
pub struct Envelope<'a> {
    /// The message's id.
    pub id: Uuid,
    /// The type.
    pub kind: MessageType,
    /// When it was written, as the sender says. Not checked for freshness: it is not signed.
    pub timestamp: Timestamp,
    /// The id of the sending agent, once it has one.
    pub agent_id: Option<Cow<'a, str>>,
    /// Base64 of the payload's signature; empty when unsigned.
    pub signature: Cow<'a, str>,
    /// The payload, as it came.
    pub payload: &'a RawValue,
}

/// Why a text is no message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// Not JSON, or not the envelope's fields.
    #[error("{0}")]
    Shape(String),
    /// The id is no UUID.
    #[error("`id` is not a UUID")]
    Id,
    /// A type that does not exist.
    #[error("`type` is none of the eight message types")]
    Type,
    /// The time is none.
    #[error("`timestamp` is not an ISO 8601 time")]
    Time,
}

impl<'a> Envelope<'a> {
    /// Reads a message. Unknown fields are skipped.
    pub fn decode(text: &'a str) -> Result<Self, EnvelopeError> {
        #[derive(Deserialize)]
        struct Wire<'a> {
            #[serde(borrow)]
            id: Cow<'a, str>,
            #[serde(borrow, rename = "type")]
            kind: Cow<'a, str>,
            #[serde(borrow)]
            timestamp: Cow<'a, str>,
            #[serde(borrow, default, rename = "agentId", deserialize_with = "present")]
            agent_id: Option<Cow<'a, str>>,
            #[serde(borrow)]
            signature: Cow<'a, str>,
            #[serde(borrow)]
            payload: &'a RawValue,
        }
        /// Absent is fine, `null` is not: the schema says text.
        fn present<'de: 'a, 'a, D: serde::Deserializer<'de>>(d: D) -> Result<Option<Cow<'a, str>>, D::Error> {
            Cow::<'a, str>::deserialize(d).map(Some)
        }
        let wire: Wire<'a> = serde_json::from_str(text).map_err(|why| EnvelopeError::Shape(why.to_string()))?;
        let id = Some(&wire.id).filter(|id| id.len() == 36).and_then(|id| Uuid::try_parse(id).ok());
        Ok(Self {
            id: id.ok_or(EnvelopeError::Id)?,
            kind: MessageType::parse(&wire.kind).ok_or(EnvelopeError::Type)?,
            timestamp: Timestamp::parse(&wire.timestamp).ok_or(EnvelopeError::Time)?,
            agent_id: wire.agent_id,
            signature: wire.signature,
            payload: wire.payload,
        })
    }
}

/// Writes a message: the envelope's fields in the contract's order, the payload in the canonical form, which is also
/// what is signed. `agent_id` is left out when there is none.
pub fn encode(
    id: Uuid,
    kind: MessageType,
    at: Timestamp,
    agent_id: Option<&str>,
    signer: Option<&dyn Signer>,
    payload: &str,
) -> String {
    // Payloads are written by this crate or come from `RawValue`, so they are JSON; nesting beyond the reader's limit
    // can only be another's data, and then goes out as it stands and cannot be verified.
    let payload = json::canonical(payload).unwrap_or_else(|_| payload.to_owned());
    let signature = signer.map(|key| key.sign(payload.as_bytes())).unwrap_or_default();
    let mut out = String::with_capacity(payload.len() + signature.len() + 192);
    out.push_str("{\"id\":\"");
    out.push_str(id.hyphenated().encode_lower(&mut Uuid::encode_buffer()));
    out.push_str("\",\"type\":\"");
    out.push_str(kind.name());
    out.push_str("\",\"timestamp\":\"");
    out.push_str(&at.to_string());
    out.push('"');
    if let Some(agent) = agent_id {
        out.push_str(",\"agentId\":");
        out.push_str(&text(agent));
    }
    out.push_str(",\"signature\":");
    out.push_str(&text(&signature));
    out.push_str(",\"payload\":");
    out.push_str(&payload);
    out.push('}');
    out
}

/// A text as JSON.
pub(crate) fn text(text: &str) -> String {
    // Writing a text as JSON does not fail.
    serde_json::to_string(text).unwrap_or_else(|_| "\"\"".into())
}

/// A bare error frame, as the hub sends it outside any envelope. `error` is one of the field's fixed texts, `detail`
/// says what was wrong.
pub fn error_frame(error: &str, detail: Option<&str>) -> String {
    match detail {
        Some(detail) => format!("{{\"error\":{},\"detail\":{}}}", text(error), text(&clip(detail))),
        None => format!("{{\"error\":{}}}", text(error)),
    }
}

/// The text of a bare error frame.
pub fn read_error_frame(frame: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Bare {
        error: String,
        detail: Option<String>,
    }
    let bare: Bare = serde_json::from_str(frame).ok()?;
    Some(match bare.detail {
        Some(detail) => format!("{} ({detail})", bare.error),
        None => bare.error,
    })
}

/// A peer's words are repeated short.
pub(crate) fn clip(text: &str) -> Cow<'_, str> {
    const LONGEST: usize = 300;
    if text.len() <= LONGEST {
        text.into()
    } else {
        format!("{}…", &text[..text.floor_char_boundary(LONGEST)]).into()
    }
}

/// Feeds a frame to the decoders of what agents send: for fuzzing.
pub fn exercise_agent_frame(bytes: &[u8]) {
    let Some((envelope, payload)) = exercise(bytes) else { return };
    let _ = crate::register::Register::decode(&payload);
    let _ = crate::probe::Answer::decode(&payload, envelope == MessageType::ProbeError);
    let mut hub: crate::hub::HubSession<()> =
        crate::hub::HubSession::new(crate::hub::HubConfig::default(), crate::Mono::ZERO);
    let _ = hub.on_text(&payload, crate::Mono::ZERO);
    crate::scrub::Scrubber::default().text(&payload);
}

/// Feeds a frame to the decoders of what hubs send: for fuzzing.
pub fn exercise_hub_frame(bytes: &[u8]) {
    let Some((_, payload)) = exercise(bytes) else { return };
    let _ = crate::ack::Ack::decode(&payload);
    if let Ok(request) = crate::probe::Request::decode(&payload) {
        assert!(crate::probe::Request::decode(&request.encode()).is_ok(), "what is read is written and read again");
    }
}

/// What both have in common: the canonical form is a fixed point, and an envelope survives.
fn exercise(bytes: &[u8]) -> Option<(MessageType, String)> {
    let frame = std::str::from_utf8(bytes).ok()?;
    let _ = json::well_formed(frame);
    let _ = read_error_frame(frame);
    let envelope = Envelope::decode(frame).ok()?;
    let payload = envelope.payload.get();
    if let Ok(canonical) = json::canonical(payload) {
        assert_eq!(json::canonical(&canonical).as_deref(), Ok(canonical.as_str()));
    }
    let agent = envelope.agent_id.as_deref();
    let again = encode(envelope.id, envelope.kind, envelope.timestamp, agent, None, payload);
    let again = Envelope::decode(&again).map(|e| (e.id, e.kind, e.timestamp));
    assert_eq!(again, Ok((envelope.id, envelope.kind, envelope.timestamp)));
    Some((envelope.kind, payload.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"id":"7f2c1c1e-6a0d-4d8e-9a55-0d6d4b0a9a11","type":"agent.heartbeat","timestamp":"2026-01-02T03:04:05.678Z","agentId":"a","signature":"","payload":{}}"#;

    #[track_caller]
    fn check(from: &str, to: &str, ok: bool) {
        let text = GOOD.replace(from, to);
        assert!(from.is_empty() || text != GOOD, "the replacement does something");
        assert_eq!(Envelope::decode(&text).is_ok(), ok, "{text}: {:?}", Envelope::decode(&text).err());
    }

    #[test]
    fn the_envelopes_rules() {
        check("", "", true);
        check("7f2c1c1e-6a0d-4d8e-9a55-0d6d4b0a9a11", "7F2C1C1E-6A0D-4D8E-9A55-0D6D4B0A9A11", true);
        check("7f2c1c1e-6a0d-4d8e", "0190163d-8694-739b", true);
        check("7f2c1c1e-6a0d-4d8e-9a55-0d6d4b0a9a11", "7f2c1c1e6a0d4d8e9a550d6d4b0a9a11", false);
        check("7f2c1c1e-6a0d-4d8e-9a55-0d6d4b0a9a11", "one", false);
        check("agent.heartbeat", "agent.status", false);
        check("05.678Z", "05Z", true);
        check("05.678Z", "05.678901Z", true);
        check("05.678Z", "05.678+00:00", true);
        check("2026-01-02T03:04:05.678Z", "yesterday", false);
        check(r#""agentId":"a","#, "", true);
        check(r#""agentId":"a""#, r#""agentId":null"#, false);
        check(r#""signature":"","#, "", false);
        check(r#""signature":"""#, r#""signature":null"#, false);
        check(r#","payload":{}"#, "", false);
        check(r#""payload":{}"#, r#""payload":[1],"extra":true"#, true);
    }

    #[test]
    fn what_is_written_reads_back_and_is_canonical() {
        let id = Uuid::from_u128(7);
        let at = Timestamp::from_millis(1_780_596_000_123);
        let text = encode(id, MessageType::Heartbeat, at, Some("a\"b"), None, "{ \"b\":1.0, \"1\":-0 }");
        let expect = r#"{"id":"00000000-0000-0000-0000-000000000007","type":"agent.heartbeat","timestamp":"2026-06-04T18:00:00.123Z","agentId":"a\"b","signature":"","payload":{"1":0,"b":1}}"#;
        assert_eq!(text, expect);
        assert_eq!(Envelope::decode(&text).expect("reads back").agent_id.as_deref(), Some("a\"b"));
        exercise_agent_frame(text.as_bytes());
    }

    #[test]
    fn a_bare_error_reads_back() {
        assert_eq!(error_frame("Agent ID mismatch", None), r#"{"error":"Agent ID mismatch"}"#);
        assert_eq!(read_error_frame(r#"{"error":"x","detail":"y"}"#).as_deref(), Some("x (y)"));
        assert_eq!(read_error_frame(GOOD), None);
    }
}
