//! Frames (contract, "Frame envelope"): one JSON object per WebSocket text message, told apart by `type`.
//!
//! Decoding borrows: text without escapes and everything whose shape is the endpoint's business (`result`, `args`,
//! `meta`, telemetry sections) is a slice of the message, checked to be JSON but never built into a tree. Such a
//! [`RawValue`](serde_json::value::RawValue) may still be nested deeper than a parser likes or hold unpaired
//! surrogates; whoever parses it on must expect an error.
//!
//! Rules of the decoder, the same for both directions:
//! * keys come in any order; unknown keys are skipped; `null` is the same as absent;
//! * a known key given twice is an error: two readers that choose differently are how a guard is passed;
//! * an error names frame, field and fault in constant words and never quotes the payload, which may hold secrets.

mod error_code;
mod exercise;
mod fields;
mod from_agent;
mod from_hub;
mod register;
mod to_hub;

pub use error_code::{ErrorCode, WireError};
pub use exercise::{exercise_agent_frame, exercise_hub_frame};
pub use from_agent::{AgentFrame, Log, LogLevel, Response, Telemetry, response_id, response_id_in_start};
pub use from_hub::{HubFrame, MAX_RULES};
pub use register::{Meta, Register, RemoteControl};
pub use to_hub::{auth, log, ping, pong, register, response_error, response_ok, telemetry};

/// The version this crate speaks and our agent announces in `register.protocol` (contract, "Versioning").
pub const PROTOCOL_VERSION: &str = "0.8";

/// Most sections in one telemetry snapshot. The contract has 25, the newest agents 35.
pub const MAX_SECTIONS: usize = 128;
/// Longest name of a telemetry section, in characters.
pub const MAX_SECTION_NAME: usize = 64;
/// Longest error message that is kept, in characters; a longer one is cut.
pub const MAX_ERROR_MESSAGE: usize = 4096;
/// Longest name of an unknown frame type or error code that is kept, in characters; a longer one is cut.
pub const MAX_NAME: usize = 64;

/// Why a text is not a frame. The message is bounded and holds nothing of the payload but, at most, the name of an
/// unknown frame type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Not JSON at all, or cut off.
    #[error("the frame is not JSON (line {line}, column {column})")]
    NotJson {
        /// Line of the fault, from 1.
        line: usize,
        /// Column of the fault, from 1.
        column: usize,
    },
    /// JSON, but not an object.
    #[error("the frame is not a JSON object")]
    NotObject,
    /// No text under `type`.
    #[error("the frame has no type")]
    NoType,
    /// A frame type that a hub does not send in any version we know. (From an agent that is a value, not an error.)
    #[error("frame type {kind:?} is not known")]
    UnknownType {
        /// The type, cut to [`MAX_NAME`].
        kind: String,
    },
    /// A known frame with a field that is missing or not what the contract says.
    #[error("{frame}.{field} {why}")]
    BadField {
        /// The frame's type.
        frame: &'static str,
        /// The field.
        field: &'static str,
        /// The error.
        why: &'static str,
    },
}

/// The first `max` characters.
fn clip(text: &str, max: usize) -> &str {
    match text.char_indices().nth(max) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

/// The first `max` characters, still borrowed where it was.
fn clip_cow(text: std::borrow::Cow<'_, str>, max: usize) -> std::borrow::Cow<'_, str> {
    use std::borrow::Cow;
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(clip(text, max)),
        Cow::Owned(mut text) => {
            text.truncate(clip(&text, max).len());
            Cow::Owned(text)
        }
    }
}
