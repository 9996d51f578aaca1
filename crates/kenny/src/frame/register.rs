//! The first frame of a session (contract, "register").

use std::borrow::Cow;

use convoke_core::secret::SecretText;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::fields::Fields;
use super::{FrameError, clip};
use crate::version::{BadVersion, ProtocolVersion};
use crate::wire_bytes::{self, BadBytes, NONCE_LEN};

/// Longest text of `meta` that is kept, in characters.
const MAX_META_TEXT: usize = 256;
/// Most features an agent can announce.
const MAX_FEATURES: usize = 64;

/// An agent says who it is. Nothing in here is proven yet.
#[derive(Debug)]
pub struct Register<'a> {
    /// The claimed id; the session checks its form.
    pub agent_id: Cow<'a, str>,
    /// The agent's protocol version; absent in agents from before 0.8.
    pub protocol: Option<Result<ProtocolVersion, BadVersion>>,
    /// 32 fresh bytes for the hub to sign. Kept with its fault when it has one, because the contract's answer to that
    /// (4401) differs from the one to a malformed frame.
    pub client_nonce: Option<Result<[u8; NONCE_LEN], BadBytes>>,
    /// The legacy bearer token.
    pub token: Option<SecretText>,
    /// `meta` as it came, for the record.
    pub meta_raw: Option<&'a RawValue>,
    /// `meta` as far as we know it.
    pub meta: Meta,
}

impl<'a> Register<'a> {
    pub(super) fn read(fields: &Fields<'a>) -> Result<Self, FrameError> {
        let meta_raw = fields.get("meta");
        Ok(Self {
            agent_id: fields.text("agent_id")?,
            protocol: fields.optional_text("protocol")?.map(|text| text.parse()),
            client_nonce: fields.optional_text("client_nonce")?.map(|text| wire_bytes::decode(&text)),
            token: fields.optional_text("token")?.map(|text| SecretText::new(text.into_owned())),
            meta_raw,
            meta: meta_raw.map(Meta::read).unwrap_or_default(),
        })
    }
}

/// Facts that an agent reports. `hostname`, `os` and `version` are the contract's; newer agents add the rest,
/// and this is the one place of a `register` where the field's servers tolerate additions. Reading is lenient: a value
/// of another type counts as absent, so that a curious `meta` never costs an agent its tunnel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Meta {
    /// The machine's name.
    pub hostname: String,
    /// `windows`, `linux` or `macos` in the contract; whatever the agent said here.
    pub os: String,
    /// The agent's own version.
    pub version: String,
    /// `x86_64`, `aarch64` (since 0.11).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arch: Option<String>,
    /// `stable`, `dev` (since 0.17).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// Features beyond the protocol version (our own addition).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
    /// The kill switch as it stood at connect (our own addition).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote_control: Option<RemoteControl>,
}

/// The local kill switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteControl {
    /// Mutating tools run.
    Enabled,
    /// Mutating tools are refused with `disabled`.
    Disabled,
}

impl RemoteControl {
    /// Whether mutating tools run.
    pub const fn is_enabled(self) -> bool {
        matches!(self, Self::Enabled)
    }

    fn read(value: &Value) -> Option<Self> {
        match value {
            Value::Bool(true) => Some(Self::Enabled),
            Value::Bool(false) => Some(Self::Disabled),
            Value::String(text) => match text.as_str() {
                "enabled" | "on" => Some(Self::Enabled),
                "disabled" | "off" | "paused" => Some(Self::Disabled),
                _ => None,
            },
            _ => None,
        }
    }
}

impl Serialize for RemoteControl {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bool(self.is_enabled())
    }
}

impl Meta {
    /// Reads what an agent told about its machine.
    pub fn read(raw: &RawValue) -> Self {
        // A tree is fine here: once per connection, and the handshake's frames are small.
        let Ok(map) = serde_json::from_str::<Map<String, Value>>(raw.get()) else { return Self::default() };
        let text = |key: &str| map.get(key).and_then(Value::as_str).map(|t| clip(t, MAX_META_TEXT).to_owned());
        let features = match map.get("features") {
            Some(Value::Array(list)) => {
                let texts = list.iter().filter_map(Value::as_str);
                texts.take(MAX_FEATURES).map(|t| clip(t, MAX_META_TEXT).to_owned()).collect()
            }
            _ => Vec::new(),
        };
        Self {
            hostname: text("hostname").unwrap_or_default(),
            os: text("os").unwrap_or_default(),
            version: text("version").unwrap_or_default(),
            arch: text("arch"),
            channel: text("channel"),
            features,
            remote_control: map.get("remote_control").and_then(RemoteControl::read),
        }
    }
}
