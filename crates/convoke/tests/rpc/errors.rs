//! Params that are missing, of the wrong type or unknown; methods that do not exist.

use convoke_kward::frame;
use convoke_kward::methods::Method;
use serde_json::{Map, Value, json};

use crate::world::World;

/// What is asked of a method's params, from the committed schema.
struct Wanted {
    name: &'static str,
    properties: Map<String, Value>,
    required: Vec<String>,
}

fn wanted() -> Vec<Wanted> {
    let schema: Value = serde_json::from_str(include_str!("../../../../docs/kward-rpc.schema.json")).expect("JSON");
    let methods = Method::ALL.iter().filter(|method| **method != Method::Shutdown);
    let of = |method: &Method| {
        let params = &schema["methods"][method.name()]["params"];
        let definition = match params["$ref"].as_str() {
            Some(name) => &schema["$defs"][name.rsplit('/').next().expect("a name")],
            None => params,
        };
        assert!(definition.is_object(), "{} is in the schema", method.name());
        Wanted {
            name: method.name(),
            properties: definition["properties"].as_object().cloned().unwrap_or_default(),
            required: serde_json::from_value(definition["required"].clone()).unwrap_or_default(),
        }
    };
    methods.map(of).collect()
}

/// The types that a property may have; none if any will do.
fn types(property: &Value) -> Vec<&str> {
    match &property["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn fits(value: &Value, types: &[&str]) -> bool {
    let name = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    types.is_empty() || types.contains(&name)
}

impl Wanted {
    /// Something for each required parameter. What it speaks of does not exist.
    fn enough(&self) -> Map<String, Value> {
        let samples = [json!("x"), json!([]), json!(1), json!(true), json!({})];
        let sample = |name: &String| {
            let types = types(&self.properties[name]);
            (name.clone(), samples.iter().find(|sample| fits(sample, &types)).cloned().unwrap_or_default())
        };
        self.required.iter().map(sample).collect()
    }
}

#[test]
fn every_method_says_what_is_wrong_with_its_params() {
    let world = World::new();
    let mut client = world.client();
    for method in wanted() {
        for missing in &method.required {
            let mut params = method.enough();
            params.remove(missing);
            let error = client.refused(method.name, json!(params));
            assert_eq!(error["code"], -32602, "{} without {missing}: {error}", method.name);
            assert_eq!(error["message"], format!("Missing required parameter: {missing}"), "{}", method.name);
        }
        for (name, property) in &method.properties {
            let types = types(property);
            for value in [json!(null), json!(true), json!(1.5), json!("text"), json!([]), json!({})] {
                if fits(&value, &types) {
                    continue;
                }
                let mut params = method.enough();
                params.insert(name.clone(), value.clone());
                let error = client.refused(method.name, json!(params));
                assert_eq!(error["code"], -32602, "{} with {name}: {value}: {error}", method.name);
                assert!(error["message"].as_str().unwrap().contains(name.as_str()), "{}: {error}", method.name);
            }
        }
    }
    client.finish();
}

#[test]
fn unknown_params_change_nothing_and_no_params_break_anything() {
    let world = World::new();
    let mut client = world.client();
    for method in wanted() {
        let mut codes = Vec::new();
        for extra in [Map::new(), Map::from_iter([("unknown".to_owned(), json!({ "deep": [1] }))])] {
            let mut params = method.enough();
            params.extend(extra);
            let id = client.send(method.name, json!(params));
            codes.push(client.answer(id)["error"]["code"].clone());
        }
        assert_eq!(codes[0], codes[1], "{}", method.name);
        // Whatever else may stand there is answered, one way or the other.
        for params in [json!(null), json!([]), json!([{}]), json!("text"), json!(5), json!(false)] {
            let id = client.send(method.name, params.clone());
            let answer = client.answer(id);
            let code = answer["error"]["code"].as_i64();
            let is_right = match (&params, method.required.is_empty()) {
                (Value::Null, true) => true,
                _ => matches!(code, Some(-32602)),
            };
            assert!(is_right, "{} with {params}: {answer}", method.name);
            assert_ne!(answer["error"]["message"], format!("{} is not implemented", method.name));
        }
    }
    client.call("initialize", json!({}));
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
