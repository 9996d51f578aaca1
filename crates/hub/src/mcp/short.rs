//! The short way of a tool's call. For each request the SDK sets up a small server of its own: three tasks, their
//! channels, a peer to talk back to. A request without a session that asks for one tool of one machine, and neither
//! for progress nor to be asked anything, needs none of it: it is answered in the connection's own task, and a client
//! that goes away is noticed as at every other door.
//!
//! Only what is exactly such a request comes here. Whatever is missing, added, written otherwise or wrong goes to the
//! SDK, which answers it or says what is the matter. So there is nothing to refuse here, and a test holds what both
//! ways answer against each other.

mod done;

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, Response, header};
use axum::response::IntoResponse;
use convoke_kenny::tools::Tool as KennyTool;
use rmcp::model::{CallToolResult, ClientCapabilities, JsonObject, RequestId, ServerResult};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::call::{self, Wanted};
use super::render::Outcome;
use super::server::Asker;
use super::{Entry, Need, find};
use crate::calls::Placed;
use crate::http::extract::{Json, json_bytes};
use crate::hub::Hub;
use crate::operators::Caller;

/// The revision without sessions.
const REVISION: &str = "2026-07-28";
const METHOD: &str = "tools/call";
const HEADERS: [(HeaderName, &str); 2] =
    [(HeaderName::from_static("mcp-protocol-version"), REVISION), (HeaderName::from_static("mcp-method"), METHOD)];
const NAME: HeaderName = HeaderName::from_static("mcp-name");
/// What such a request carries beside `HEADERS` and `NAME` is none of MCP's, or is read by the SDK.
const OF_MCP: &str = "mcp-";

/// A call that can go the short way.
pub(super) struct Plain {
    id: RequestId,
    pub(super) entry: &'static Entry,
    tool: &'static KennyTool,
    arguments: Option<JsonObject>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Message<'a> {
    jsonrpc: &'a str,
    id: RequestId,
    method: &'a str,
    #[serde(borrow)]
    params: Params<'a>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params<'a> {
    name: &'a str,
    #[serde(default)]
    arguments: Option<JsonObject>,
    #[serde(borrow, rename = "_meta")]
    meta: Meta<'a>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Meta<'a> {
    #[serde(rename = "io.modelcontextprotocol/protocolVersion")]
    revision: &'a str,
    #[serde(rename = "io.modelcontextprotocol/clientCapabilities", borrow)]
    capabilities: &'a RawValue,
    /// The SDK takes any.
    #[serde(rename = "io.modelcontextprotocol/clientInfo", default)]
    _client: IgnoredAny,
}

/// Whether a client with these capabilities can be asked something; nothing when these are none.
fn can_be_asked(capabilities: &RawValue) -> Option<bool> {
    if capabilities.get() == "{}" {
        return Some(false);
    }
    let capabilities: ClientCapabilities = serde_json::from_str(capabilities.get()).ok()?;
    Some(capabilities.elicitation.is_some())
}

/// Reads a request that can go the short way. Not so when its client's person may approve calls.
pub(super) fn read(elicitation: bool, headers: &HeaderMap, body: &[u8]) -> Option<Plain> {
    let name = called(headers)?;
    let Message { jsonrpc, id, method, params } = serde_json::from_slice(body).ok()?;
    let Params { name: named, arguments, meta } = params;
    let as_the_headers_say = jsonrpc == "2.0" && method == METHOD && named == name && meta.revision == REVISION;
    let would_be_asked = can_be_asked(meta.capabilities)? && elicitation;
    let entry = find(named)?;
    let Need::Call(tool) = entry.need else { return None };
    (as_the_headers_say && !would_be_asked).then_some(Plain { id, entry, tool, arguments })
}

/// The tool that is called, as the headers of such a request name it.
fn called(headers: &HeaderMap) -> Option<&str> {
    let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    if HEADERS.iter().any(|(name, wanted)| text(name) != Some(wanted)) {
        return None;
    }
    // One each of those, and no other: what those would mean is the SDK's to say.
    if headers.iter().filter(|(name, _)| name.as_str().starts_with(OF_MCP)).count() != HEADERS.len() + 1 {
        return None;
    }
    let accepted = text(&header::ACCEPT)?;
    let takes_either = accepted.contains("application/json") && accepted.contains("text/event-stream");
    let json = text(&header::CONTENT_TYPE)?.starts_with("application/json");
    text(&NAME).filter(|_| takes_either && json)
}

impl Plain {
    /// The request's id as it is written.
    pub(super) fn id(&self) -> String {
        serde_json::to_string(&self.id).unwrap_or_else(|_| "null".into())
    }

    /// Carries it out.
    pub(super) async fn answer(self, hub: &Hub, caller: &Caller) -> Response<Body> {
        #[derive(Serialize)]
        struct Reply {
            jsonrpc: &'static str,
            id: RequestId,
            result: ServerResult,
        }
        let Self { id, tool, arguments, .. } = self;
        // A hub that stops waits for those who are being answered, within its drain time.
        let _under_way = hub.tasks.token();
        let asker = Asker { caller: caller.clone(), session: None };
        let result = match call::want(hub, &asker, tool, arguments.unwrap_or_default()).await {
            Ok(wanted) => match run(hub, &asker, wanted, &id).await {
                Ended::Written(text) => return json_bytes(text),
                Ended::Shown(result) => result,
            },
            Err(refused) => *refused,
        };
        Json(Reply { jsonrpc: "2.0", id, result: ServerResult::CallToolResult(result) }).into_response()
    }
}

/// How a call ended.
enum Ended {
    /// The whole reply.
    Written(String),
    /// Its result.
    Shown(CallToolResult),
}

/// Takes a call to the gate and follows it to its end, or to the person it waits for.
async fn run(hub: &Hub, asker: &Asker, mut wanted: Wanted, id: &RequestId) -> Ended {
    Ended::Shown(match call::place(hub, asker, &mut wanted).await {
        Ok((Placed::Running(call), run)) => {
            // A client that gives up drops what waits here.
            let _abandoned = call::CancelUnlessDone(Arc::clone(&call));
            let done = call::ended(&call, run).await;
            if let Some(text) = done::text(id, &call, done, hub.settings.size("mcp.max_result_bytes")) {
                return Ended::Written(text);
            }
            call::shown(hub, &call, done).await
        }
        Ok((Placed::Pending { call, approval, expires_at }, _)) => {
            Outcome::pending(&call, approval, expires_at, &hub.base_url()).into_result()
        }
        Err(error) => call::refusal(&error, Some(wanted.agent.id.as_str()), wanted.tool).into_result(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn message() -> Value {
        json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {
            "name": "fs_list", "arguments": { "path": "/", "agent": "pc" }, "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" } } } })
    }

    fn headers(more: &[(&'static str, &'static str)]) -> HeaderMap {
        let usual = [
            ("accept", "application/json, text/event-stream"),
            ("content-type", "application/json; charset=utf-8"),
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", "fs_list"),
        ];
        let mut headers = HeaderMap::new();
        for (name, value) in usual.iter().chain(more) {
            headers.insert(*name, value.parse().expect("a value"));
        }
        headers
    }

    fn is_plain(headers: &HeaderMap, message: &Value) -> bool {
        read(true, headers, message.to_string().as_bytes()).is_some()
    }

    #[test]
    fn a_plain_call_is_read_whole() {
        let plain = read(true, &headers(&[]), message().to_string().as_bytes()).expect("plain");
        assert_eq!((plain.id().as_str(), plain.tool.name), ("7", "fs_list"));
        assert_eq!(plain.arguments.map(Value::from), Some(json!({ "path": "/", "agent": "pc" })));
        let mut other = message();
        other["id"] = "a\"b".into();
        other["params"]["arguments"] = Value::Null;
        other["params"]["_meta"].as_object_mut().expect("an object").remove("io.modelcontextprotocol/clientInfo");
        let plain = read(true, &headers(&[]), other.to_string().as_bytes()).expect("plain, too");
        assert_eq!((plain.id().as_str(), plain.arguments), (r#""a\"b""#, None));
    }

    #[test]
    fn whatever_else_it_carries_makes_it_the_sdks() {
        let meta = "/params/_meta";
        for (at, key, value) in [
            ("", "id", Value::Null),
            ("", "id", json!(1.5)),
            ("", "jsonrpc", json!("1.0")),
            ("", "method", json!("tools/list")),
            ("", "extra", json!(1)),
            ("/params", "name", json!("fs_read")),
            ("/params", "arguments", json!([])),
            ("/params", "requestState", json!("x")),
            ("/params", "inputResponses", json!({})),
            (meta, "progressToken", json!(1)),
            (meta, "traceparent", json!("x")),
            (meta, "io.modelcontextprotocol/protocolVersion", json!("2025-11-25")),
            (meta, "io.modelcontextprotocol/clientCapabilities", json!({ "elicitation": {} })),
            (meta, "io.modelcontextprotocol/clientCapabilities", json!("all")),
        ] {
            let mut message = message();
            message.pointer_mut(at).expect("there")[key] = value;
            assert!(!is_plain(&headers(&[]), &message), "{message}");
        }
        for key in ["io.modelcontextprotocol/protocolVersion", "io.modelcontextprotocol/clientCapabilities"] {
            let mut message = message();
            message["params"]["_meta"].as_object_mut().expect("an object").remove(key);
            assert!(!is_plain(&headers(&[]), &message), "{message}");
        }
        assert!(!is_plain(&headers(&[]), &Value::Array(vec![message()])));
        let twice = message().to_string().replacen("{", "{\"id\":8,", 1);
        assert!(read(true, &headers(&[]), twice.as_bytes()).is_none());
        let mut capable = message();
        capable["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({ "elicitation": {} });
        assert!(read(false, &headers(&[]), capable.to_string().as_bytes()).is_some(), "nobody would ask it");
    }

    #[test]
    fn headers_that_say_otherwise_make_it_the_sdks() {
        for other in [
            ("accept", "application/json"),
            ("content-type", "text/plain"),
            ("mcp-protocol-version", "2025-11-25"),
            ("mcp-method", "tools/list"),
            ("mcp-name", "fs_read"),
            ("mcp-name", "=?base64?ZnNfbGlzdA==?="),
            ("mcp-session-id", "x"),
            ("mcp-param-path", "/"),
        ] {
            assert!(!is_plain(&headers(&[other]), &message()), "{other:?}");
        }
        for missing in ["accept", "content-type", "mcp-protocol-version", "mcp-method", "mcp-name"] {
            let mut headers = headers(&[]);
            headers.remove(missing);
            assert!(!is_plain(&headers, &message()), "{missing}");
        }
        let mut twice = headers(&[]);
        twice.append("mcp-name", "fs_list".parse().expect("a value"));
        assert!(!is_plain(&twice, &message()));
    }

    #[test]
    fn a_tool_of_the_hubs_own_is_the_sdks() {
        let mut message = message();
        message["params"]["name"] = "list_agents".into();
        assert!(!is_plain(&headers(&[("mcp-name", "list_agents")]), &message));
    }
}
