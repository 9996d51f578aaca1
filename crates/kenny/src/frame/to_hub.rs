//! What an agent writes. Exactly the contract's keys, in its order: the field's servers close the connection over one
//! key more, and only `register.meta` and telemetry sections may hold others.

use std::borrow::Borrow;

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::{ErrorCode, LogLevel, Meta, PROTOCOL_VERSION};
use crate::wire_bytes::{self, NONCE_LEN, SIGNATURE_LEN};

/// The first frame of a session (contract, "register").
pub fn register(agent_id: &str, client_nonce: &[u8; NONCE_LEN], meta: &Meta) -> String {
    #[derive(Serialize)]
    struct Wire<'a> {
        r#type: &'static str,
        agent_id: &'a str,
        protocol: &'static str,
        client_nonce: String,
        meta: &'a Meta,
    }
    let client_nonce = wire_bytes::encode(client_nonce);
    write(&Wire { r#type: "register", agent_id, protocol: PROTOCOL_VERSION, client_nonce, meta })
}

/// The agent's signature (contract, "auth").
pub fn auth(agent_sig: &[u8; SIGNATURE_LEN]) -> String {
    #[derive(Serialize)]
    struct Wire {
        r#type: &'static str,
        agent_sig: String,
    }
    write(&Wire { r#type: "auth", agent_sig: wire_bytes::encode(agent_sig) })
}

/// A tool's result (contract, "response"). The field's servers take an object or `null` here and nothing else.
pub fn response_ok(id: Uuid, result: &RawValue) -> String {
    #[derive(Serialize)]
    struct Wire<'a> {
        r#type: &'static str,
        id: Uuid,
        ok: bool,
        result: &'a RawValue,
    }
    write(&Wire { r#type: "response", id, ok: true, result })
}

/// A tool's failure (contract, "response"). A code outside the contract's set leaves as `internal`.
pub fn response_error(id: Uuid, code: &ErrorCode, message: &str) -> String {
    #[derive(Serialize)]
    struct Inner<'a> {
        code: &'static str,
        message: &'a str,
    }
    #[derive(Serialize)]
    struct Wire<'a> {
        r#type: &'static str,
        id: Uuid,
        ok: bool,
        error: Inner<'a>,
    }
    write(&Wire { r#type: "response", id, ok: false, error: Inner { code: code.in_contract(), message } })
}

/// A pushed snapshot (contract, "telemetry"). Every section must hold `status` and `summary`.
pub fn telemetry<N, R>(agent_id: &str, collected_at: &str, snapshot: &[(N, R)]) -> String
where
    N: AsRef<str>,
    R: Borrow<RawValue>,
{
    #[derive(Serialize)]
    struct Wire<'a, S> {
        r#type: &'static str,
        agent_id: &'a str,
        collected_at: &'a str,
        snapshot: S,
    }
    write(&Wire { r#type: "telemetry", agent_id, collected_at, snapshot: Sections(snapshot) })
}

struct Sections<'a, N, R>(&'a [(N, R)]);

impl<N: AsRef<str>, R: Borrow<RawValue>> Serialize for Sections<'_, N, R> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, payload) in self.0 {
            map.serialize_entry(name.as_ref(), payload.borrow())?;
        }
        map.end()
    }
}

/// A forwarded log event (contract, "log"). `fields` is left out when the event has none.
pub fn log(
    agent_id: &str,
    at: &str,
    level: LogLevel,
    target: &str,
    message: &str,
    fields: Option<&RawValue>,
) -> String {
    #[derive(Serialize)]
    struct Wire<'a> {
        r#type: &'static str,
        agent_id: &'a str,
        at: &'a str,
        level: &'static str,
        target: &'a str,
        message: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        fields: Option<&'a RawValue>,
    }
    write(&Wire { r#type: "log", agent_id, at, level: level.name(), target, message, fields })
}

/// Heartbeat (contract, "ping / pong").
pub fn ping() -> String {
    r#"{"type":"ping"}"#.to_owned()
}

/// Heartbeat reply (contract, "ping / pong").
pub fn pong() -> String {
    r#"{"type":"pong"}"#.to_owned()
}

fn write(wire: &impl Serialize) -> String {
    serde_json::to_string(wire).expect("texts, booleans and raw JSON always serialise")
}
