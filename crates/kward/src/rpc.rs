//! JSON-RPC 2.0 as the contract has it: one object per frame, no batches, ids that are numbers or strings.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// The standard's codes, and the one for a backend that is full.
pub mod code {
    /// The body is no JSON.
    pub const PARSE_ERROR: i32 = -32700;
    /// The body is JSON but no request.
    pub const INVALID_REQUEST: i32 = -32600;
    /// Nobody answers to this name.
    pub const METHOD_NOT_FOUND: i32 = -32601;
    /// A parameter is missing, of the wrong type or out of bounds.
    pub const INVALID_PARAMS: i32 = -32602;
    /// Something went wrong in the course of it.
    pub const INTERNAL: i32 = -32603;
    /// Too many requests at once. The same request may be sent again.
    pub const OVERLOADED: i32 = -32001;
}

/// The id of a request. A number is answered as that number.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Id {
    /// What the known clients send.
    Number(serde_json::Number),
    /// Allowed by the standard.
    Text(String),
}

/// A request, or a notification when it has no id.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// `None` for a notification: it is carried out and never answered.
    pub id: Option<Id>,
    /// The method's name.
    pub method: String,
    /// An object; absent and null are an empty one.
    pub params: Value,
}

/// Why a request is refused or failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct RpcError {
    /// One of [`code`].
    pub code: i32,
    /// For the person at the client.
    pub message: String,
    /// For the client's developer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl RpcError {
    fn new(code: i32, kind: &str, message: impl Into<String>) -> Self {
        let message = message.into();
        let data = Some(json!({ "code": kind, "message": message }));
        Self { code, message, data }
    }

    /// A parameter is not as it should be.
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(code::INVALID_PARAMS, "InvalidParams", message)
    }

    /// Something did not work out.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(code::INTERNAL, "Failed", message)
    }

    /// Something did not work out, of a kind that a client may tell apart.
    pub fn failed(kind: &str, message: impl Into<String>) -> Self {
        Self::new(code::INTERNAL, kind, message)
    }

    /// No such method.
    pub fn method_not_found(method: &str) -> Self {
        Self::new(code::METHOD_NOT_FOUND, "MethodNotFound", format!("Method not found: {method}"))
    }

    /// The frame itself is wrong.
    pub fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(code::INVALID_REQUEST, "InvalidRequest", message)
    }

    /// Too much at once.
    pub fn overloaded(limit: usize) -> Self {
        let text = format!("More than {limit} requests are in progress. Send this one again when some are answered.");
        Self::new(code::OVERLOADED, "Overloaded", text)
    }
}

/// A body that is no request, and whom to tell.
#[derive(Clone, Debug, PartialEq)]
pub struct Refused {
    /// The id, where one could be read.
    pub id: Option<Id>,
    /// Why.
    pub error: RpcError,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(default, borrow)]
    jsonrpc: Option<&'a RawValue>,
    #[serde(default, borrow)]
    id: Option<&'a RawValue>,
    #[serde(default, borrow)]
    method: Option<&'a RawValue>,
    #[serde(default, borrow)]
    params: Option<&'a RawValue>,
}

/// Reads a request.
pub fn decode(body: &[u8]) -> Result<Request, Box<Refused>> {
    let refuse = |id, error| Err(Box::new(Refused { id, error }));
    let no_json = |why: String| {
        let data = Some(json!({ "code": "ParseError", "message": why }));
        RpcError { code: code::PARSE_ERROR, message: "Parse error".into(), data }
    };
    // JSON is UTF-8; what skips over strings would not notice.
    let body = match std::str::from_utf8(body) {
        Ok(body) => body,
        Err(why) => return refuse(None, no_json(why.to_string())),
    };
    // A list would also fit the envelope, member by member.
    if body.trim_ascii_start().starts_with('[') && is_json(body) {
        let what = "Invalid Request: batches are not supported, send one message per frame";
        return refuse(None, RpcError::invalid_request(what));
    }
    let envelope: Envelope<'_> = match serde_json::from_str(body) {
        Ok(envelope) => envelope,
        Err(_) if is_json(body) => return refuse(None, RpcError::invalid_request("Invalid Request")),
        Err(why) => return refuse(None, no_json(why.to_string())),
    };
    let raw_id = envelope.id.map(RawValue::get).filter(|id| *id != "null");
    let id = match raw_id.map(serde_json::from_str::<Id>) {
        None => None,
        Some(Ok(id)) => Some(id),
        Some(Err(_)) => {
            return refuse(None, RpcError::invalid_request("Invalid Request: an id is a number or a string"));
        }
    };
    if envelope.jsonrpc.map(RawValue::get) != Some("\"2.0\"") {
        return refuse(id, RpcError::invalid_request("Invalid Request: jsonrpc must be \"2.0\""));
    }
    let method = envelope.method.and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
    let Some(method) = method.filter(|method| !method.is_empty()) else {
        return refuse(id, RpcError::invalid_request("Invalid Request: method must be a non-empty string"));
    };
    let params = match envelope.params.map(|raw| serde_json::from_str::<Value>(raw.get())) {
        None | Some(Ok(Value::Null)) => Value::Object(serde_json::Map::new()),
        Some(Ok(params @ Value::Object(_))) => params,
        _ => return refuse(id, RpcError::invalid_params("params must be an object")),
    };
    Ok(Request { id, method, params })
}

fn is_json(body: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(body).is_ok()
}

#[derive(Serialize)]
struct Answer<'a, T: Serialize> {
    jsonrpc: &'static str,
    id: Option<&'a Id>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a RpcError>,
}

#[derive(Serialize)]
struct Notice<'a, T: Serialize> {
    jsonrpc: &'static str,
    method: &'a str,
    params: &'a T,
}

/// The body of a response that worked.
pub fn response<T: Serialize>(id: &Id, result: &T) -> Vec<u8> {
    body(&Answer { jsonrpc: "2.0", id: Some(id), result: Some(result), error: None })
}

/// The body of a response that did not. Without an id the peer's frame could not be read.
pub fn error(id: Option<&Id>, error: &RpcError) -> Vec<u8> {
    body(&Answer::<()> { jsonrpc: "2.0", id, result: None, error: Some(error) })
}

/// The body of a notification.
pub fn notification<T: Serialize>(method: &str, params: &T) -> Vec<u8> {
    body(&Notice { jsonrpc: "2.0", method, params })
}

fn body<T: Serialize>(value: &T) -> Vec<u8> {
    // Only a map with keys that are no text or a failing `Serialize` could be refused, and there is neither here.
    serde_json::to_vec(value).unwrap_or_else(|_| b"{\"jsonrpc\":\"2.0\",\"id\":null}".to_vec())
}

/// For the fuzzer: a body becomes a request with parameters of its method's type, or a clear refusal.
pub fn exercise(body: &[u8]) {
    match decode(body) {
        Ok(request) => {
            let method = crate::methods::Method::of(&request.method);
            if let Some(Err(error)) = method.map(|method| method.check(request.params)) {
                assert_eq!(error.code, code::INVALID_PARAMS);
            }
        }
        Err(refused) => drop(error(refused.id.as_ref(), &refused.error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read() {
        let request = decode(br#"{"jsonrpc":"2.0","id":7,"method":"turns/status","params":{"turnId":"t"}}"#).unwrap();
        assert_eq!(request.id, Some(Id::Number(7.into())));
        assert_eq!(request.params, json!({ "turnId": "t" }));
        let request = decode(br#"{"jsonrpc":"2.0","id":"a","method":"initialize","params":null,"x":1}"#).unwrap();
        assert_eq!(request.id, Some(Id::Text("a".into())));
        assert_eq!(request.params, json!({}));
        for no_id in [r#"{"jsonrpc":"2.0","method":"x"}"#, r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#] {
            assert_eq!(decode(no_id.as_bytes()).unwrap().id, None);
        }
    }

    #[test]
    fn what_is_no_request_is_refused_with_the_right_code() {
        for (body, id, expect) in [
            ("{", None, code::PARSE_ERROR),
            ("", None, code::PARSE_ERROR),
            ("5", None, code::INVALID_REQUEST),
            ("[]", None, code::INVALID_REQUEST),
            (r#"[{"jsonrpc":"2.0","id":1,"method":"x"}]"#, None, code::INVALID_REQUEST),
            (r#"{"id":3,"method":"x"}"#, Some(3), code::INVALID_REQUEST),
            (r#"{"jsonrpc":"1.0","id":3,"method":"x"}"#, Some(3), code::INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":3}"#, Some(3), code::INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":3,"method":""}"#, Some(3), code::INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":3,"method":4}"#, Some(3), code::INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":{},"method":"x"}"#, None, code::INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":3,"method":"x","params":[1]}"#, Some(3), code::INVALID_PARAMS),
            (r#"{"jsonrpc":"2.0","id":3,"method":"x","params":"a"}"#, Some(3), code::INVALID_PARAMS),
        ] {
            let refused = decode(body.as_bytes()).expect_err(body);
            assert_eq!(refused.error.code, expect, "{body}");
            assert_eq!(refused.id, id.map(|id: i32| Id::Number(id.into())), "{body}");
        }
        for body in [&b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}"[..], b"\"\xc3\"", b"[\"\xff\"]"] {
            let refused = decode(body).expect_err("no UTF-8");
            assert_eq!((refused.id, refused.error.code), (None, code::PARSE_ERROR), "{body:?}");
        }
        assert!(decode(b"[]").expect_err("a batch").error.message.contains("batches"));
    }

    #[test]
    fn nesting_has_an_end() {
        let deep =
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{}1{}}}"#, "[".repeat(5000), "]".repeat(5000));
        assert!(decode(deep.as_bytes()).is_err());
    }

    #[test]
    fn answers_have_the_standards_shape() {
        let id = Id::Number(1.into());
        assert_eq!(response(&id, &json!({"ok":true})), br#"{"jsonrpc":"2.0","id":1,"result":{"ok":true}}"#);
        let error = String::from_utf8(super::error(None, &RpcError::method_not_found("x"))).unwrap();
        assert!(
            error.starts_with(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"Method not found: x""#)
        );
    }
}
