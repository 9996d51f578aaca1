//! Params that are missing, of the wrong type or unknown; methods that do not exist.

use convoke_kward::frame;
use convoke_kward::methods::Method;
use serde_json::json;

use crate::world::World;

#[test]
fn every_method_says_what_is_wrong_with_its_params() {
    let world = World::new();
    let mut client = world.client();
    for method in Method::ALL.iter().filter(|method| **method != Method::Shutdown) {
        // Wrong in every member that any method has.
        let members = [
            "workspaceRoot",
            "name",
            "path",
            "sessionId",
            "entryId",
            "turnId",
            "questionRequestId",
            "settingId",
            "text",
            "id",
            "model",
            "effort",
            "command",
            "providerId",
            "loginId",
            "includeInactive",
            "range",
            "redacted",
            "timeoutSeconds",
        ];
        let wrong: serde_json::Map<_, _> = members.iter().map(|name| ((*name).to_owned(), json!([1]))).collect();
        let id = client.send(method.name(), json!(wrong));
        let answer = client.answer(id);
        // This one takes nothing and asks a provider that is not there.
        let takes_something = *method != Method::OpenRouterCatalog;
        if let Some(error) = answer.get("error").filter(|_| takes_something) {
            assert_eq!(error["code"], -32602, "{}: {answer}", method.name());
            let text = error["message"].as_str().unwrap();
            assert!(
                text.starts_with("Invalid parameter ") || text.starts_with("Missing required parameter: "),
                "{text}"
            );
        }
        // And missing: what needs something says what.
        let id = client.send(method.name(), json!({ "unknown": true }));
        let answer = client.answer(id);
        if let Some(error) = answer.get("error").filter(|error| error["code"] == -32602) {
            let text = error["message"].as_str().unwrap();
            assert!(
                text.starts_with("Missing required parameter: ") || text.contains("Usage:"),
                "{}: {text}",
                method.name()
            );
        }
        assert_ne!(answer["error"]["message"], format!("{} is carried out nowhere", method.name()));
    }
    client.finish();
}

#[test]
fn unknown_things_are_named() {
    let world = World::new();
    let mut client = world.client();
    let error = client.refused("sessions/import", json!({}));
    assert_eq!((&error["code"], &error["message"]), (&json!(-32601), &json!("Method not found: sessions/import")));
    for (method, params, message) in [
        ("runtime/state", json!({ "sessionId": "x" }), "Unknown session: x"),
        ("turns/start", json!({ "sessionId": "x", "input": "" }), "Unknown session: x"),
        ("turns/status", json!({ "turnId": "x" }), "Unknown turn: x"),
        ("auth/loginStatus", json!({ "loginId": "x" }), "Unknown login: x"),
        ("sessions/resume", json!({ "path": "/no/file" }), "Session file not found: /no/file"),
        ("auth/loginWithApiKey", json!({ "providerId": "x", "apiKey": "k" }), "Unsupported API key provider: x"),
        (
            "auth/loginWithApiKey",
            json!({ "providerId": "openrouter", "apiKey": " " }),
            "API key must be a non-empty string",
        ),
        ("auth/loginWithOAuth", json!({ "providerId": "github" }), "Unsupported OAuth provider: github"),
        ("auth/logoutProvider", json!({ "providerId": "x" }), "Unsupported auth provider: x"),
        ("models/set", json!({ "model": " " }), "Model must be a non-empty string"),
        ("reasoning/set", json!({ "effort": "" }), "Reasoning effort must be a non-empty string"),
        ("config/update", json!({ "values": [] }), "Config values must be an object"),
        ("memory/add", json!({ "text": " " }), "Memory text cannot be empty"),
        ("memory/promote", json!({ "id": "soft_009" }), "Unknown active soft memory: soft_009"),
    ] {
        assert_eq!(client.refused(method, params)["message"], message, "{method}");
    }
    client.finish();
}

#[test]
fn what_is_no_request_is_refused_and_a_notification_is_never_answered() {
    let world = World::new();
    let mut client = world.client();
    for (body, code) in [("{", -32700), ("[]", -32600), ("{\"jsonrpc\":\"2.0\"}", -32600)] {
        client.send_raw(&frame::encode(body.as_bytes()));
        let complaint = client.wait("a complaint", |frame| frame["id"].is_null());
        assert_eq!(complaint["error"]["code"], code, "{body}");
    }
    client.send_raw(&frame::encode(br#"{"jsonrpc":"2.0","id":"text","method":"initialize"}"#));
    assert_eq!(client.wait("an answer", |frame| frame["id"] == "text")["result"]["protocolVersion"], 1);
    client.send_raw(&frame::encode(br#"{"jsonrpc":"2.0","method":"runtime/state","params":{"sessionId":"x"}}"#));
    client.send_raw(&frame::encode(br#"{"jsonrpc":"2.0","method":"no/such"}"#));
    client.call("initialize", json!({}));
    client.hang_up();
    let ended = client.ended();
    assert!(!ended.stdout.contains("Unknown session") && !ended.stdout.contains("no/such"));
}

#[test]
fn a_configuration_that_is_no_json_is_told_and_left_alone() {
    let world = World::new();
    let path = world.file("home/.kward/config.json", "{ oops");
    let mut client = world.client();
    let error = client.refused("config/read", json!({}));
    assert_eq!(error["message"], format!("Invalid Kward config JSON: {}", path.display()));
    client.refused("models/set", json!({ "model": "x" }));
    assert_eq!(std::fs::read_to_string(path).unwrap(), "{ oops");
    let session = world.session(&mut client);
    assert_eq!(client.run(&session, "hi")["status"], "failed");
    client.finish();
}
