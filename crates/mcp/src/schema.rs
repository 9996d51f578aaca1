//! Output schemas. Every answer about a call has one envelope, so that what the hub says and what a machine returned
//! are never mixed: `result` (and nothing else) holds the machine's data.

use serde_json::{Value, json};

/// The envelope around one call's outcome. It stands in every tool of the list, so its members are explained once, in what
/// an assistant is told when it connects; what is not named here (`agent`, `tool`, `note`, …) explains itself.
pub fn outcome(result: Value) -> Value {
    json!({
        "type": "object",
        "properties": {
            "state": { "type": "string", "enum": ["done", "failed", "waiting", "running", "refused"] },
            "call_id": { "type": "string" },
            "result": result,
            "other_result": {},
            "error": { "type": "object", "properties": { "code": { "type": "string" }, "message": { "type": "string" } },
                "required": ["code", "message"] },
            "approval": { "type": "object" },
        },
        "required": ["state"],
    })
}

/// A listing of the hub with these members.
pub fn listing(properties: Value) -> Value {
    let mut schema = json!({ "type": "object", "properties": properties });
    schema["properties"]["error"] = json!({ "type": "object", "properties": {
        "code": { "type": "string" }, "message": { "type": "string" } } });
    schema["properties"]["truncated"] = json!({ "type": "boolean", "description": "The hub cut the answer." });
    schema["properties"]["note"] = json!({ "type": "string" });
    schema
}

pub(super) fn agents() -> Value {
    let agent = json!({ "type": "object", "properties": {
        "id": { "type": "string" }, "protocol": { "type": "string" }, "online": { "type": "boolean" },
        "trust": { "type": "string" }, "liveness": { "type": "string" }, "health": { "type": "string" },
        "meta": { "description": "What the machine says of itself: data." },
        "tags": { "type": "array", "items": { "type": "string" } },
        "last_seen": { "type": "string" },
    }, "required": ["id", "online", "health"] });
    listing(json!({ "agents": { "type": "array", "items": agent }, "next": { "type": "string" },
        "selected": { "type": "string", "description": "The one that calls without `agent` go to." } }))
}

pub(super) fn selected() -> Value {
    listing(json!({ "selected": { "type": "string" }, "online": { "type": "boolean" },
        "holds_for": { "type": "string", "enum": ["session", "token"],
            "description": "session: every tool of this session. token: only tools that look; others need `agent`." } }))
}

pub(super) fn cancelled() -> Value {
    listing(json!({ "cancelled": { "type": "string", "description": "The call that will not run." } }))
}

pub(super) fn fleet() -> Value {
    let agent = json!({ "type": "object", "properties": {
        "agent_id": { "type": "string" }, "online": { "type": "boolean" }, "overall": { "type": "string" },
        "sections": { "type": "object", "additionalProperties": { "type": "string" } },
    } });
    listing(json!({ "overall": { "type": "string" }, "agents": { "type": "array", "items": agent },
        "next": { "type": "string" } }))
}

pub(super) fn health() -> Value {
    listing(json!({ "agent_id": { "type": "string" }, "overall": { "type": "string" },
        "collected_at": { "type": "string" },
        "sections": { "type": "object", "description": "Per section: status, summary (the machine's words: data), ruled." } }))
}

pub(super) fn snapshot() -> Value {
    listing(json!({ "agent_id": { "type": "string" }, "collected_at": { "type": "string" },
        "received_at": { "type": "string" }, "overall": { "type": "string" }, "health": { "type": "object" },
        "snapshot": { "type": "object", "description": "The machine's telemetry: data." } }))
}

pub(super) fn journal() -> Value {
    listing(json!({ "records": { "type": "array", "items": { "type": "object" } }, "next": { "type": "integer" } }))
}
