//! The whole contract as one JSON Schema: every method with its parameters and result, every notification.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::events::{LoginFinished, QuestionAsked, SessionEvent, TurnEvent, name};
use crate::methods::{Method, Scope};

/// The document that `convoke rpc --schema` prints.
pub fn document() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let mut methods = Map::new();
    for method in Method::ALL {
        let (params, result) = method.schemas(&mut generator);
        let order = match method.scope() {
            Scope::Free => "waits for nothing",
            Scope::Session => "in order within its session",
            Scope::Sessions => "in order with other changes to the set of sessions",
            Scope::Config => "in order with other changes to the configuration",
            Scope::Memory => "in order with other changes to memories",
        };
        methods.insert(method.name().into(), json!({ "params": params, "result": result, "order": order }));
    }
    let mut notifications = Map::new();
    notifications.insert(name::TURN.into(), json!(generator.subschema_for::<TurnEvent>()));
    notifications.insert(name::SESSION.into(), json!(generator.subschema_for::<SessionEvent>()));
    notifications.insert(name::QUESTION.into(), json!(generator.subschema_for::<QuestionAsked>()));
    notifications.insert(name::LOGIN_FINISHED.into(), json!(generator.subschema_for::<LoginFinished>()));
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Kward RPC, protocol version 1",
        "description": "JSON-RPC 2.0 in Content-Length frames over standard input and output.",
        "methods": methods,
        "notifications": notifications,
        "$defs": generator.take_definitions(true),
    })
}

/// The document as text, as it is committed.
pub fn text() -> String {
    // A `Value` can always be written.
    let mut text = serde_json::to_string_pretty(&document()).unwrap_or_default();
    text.push('\n');
    text
}
