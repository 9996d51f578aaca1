//! The short way of a tool's call. For each request the SDK sets up a small server of its own: three tasks, their
//! channels, a peer to talk back to. A request without a session that asks for one tool of one machine, and not to be
//! asked anything, needs none of it: it is answered in the connection's own task, and a client that goes away is
//! noticed as at every other door. One that wants to hear of progress is told by `told`. With a session the same holds
//! of a call that ends at once (`in_session`).
//!
//! Only what is exactly such a request comes here. Whatever is missing, added, written otherwise or wrong goes to the
//! SDK, which answers it or says what is the matter. So there is nothing to refuse here, and a test holds what both
//! ways answer against each other.

mod done;
pub(super) mod in_session;
mod told;

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, Response, header};
use convoke_kenny::tools::Tool as KennyTool;
use rmcp::model::{CallToolResult, ClientCapabilities, JsonObject, ProgressToken, RequestId, ServerResult};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::call;
use super::call::Run;
use super::peek::is_short;
use super::render::Outcome;
use super::server::Asker;
use super::{Entry, Need, find};
use crate::calls::{Call, CancelUnlessDone, Done, Placed};
use crate::clock;
use crate::http::extract::json_bytes;
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

/// What kind of revision a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Era {
    /// With sessions. A result does not say that it is complete.
    Sessions,
    /// Without.
    Stateless,
}

/// A call that can go the short way.
pub(super) struct Plain {
    id: RequestId,
    pub(super) entry: &'static Entry,
    tool: &'static KennyTool,
    arguments: Option<JsonObject>,
    /// The client wants to hear of the call's progress under this name.
    progress: Option<ProgressToken>,
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
    #[serde(rename = "progressToken", default)]
    progress: Option<ProgressToken>,
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
    let progress = meta.progress;
    if !is_short(&id) || progress.as_ref().is_some_and(|token| !is_short(&token.0)) {
        return None;
    }
    (as_the_headers_say && !would_be_asked).then_some(Plain { id, entry, tool, arguments, progress })
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
    text(&NAME).filter(|_| takes_either(headers))
}

/// Whether a client sends JSON, and takes JSON as well as a stream.
fn takes_either(headers: &HeaderMap) -> bool {
    let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let accepted = text(&header::ACCEPT);
    accepted.contains("application/json")
        && accepted.contains("text/event-stream")
        && text(&header::CONTENT_TYPE).starts_with("application/json")
}

impl Plain {
    /// The request's id as it is written.
    pub(super) fn id(&self) -> String {
        written(&self.id)
    }

    /// Carries it out.
    pub(super) async fn answer(self, hub: &Hub, caller: &Caller) -> Response<Body> {
        let Self { id, tool, arguments, progress, .. } = self;
        // A hub that stops waits for those who are being answered, within its drain time.
        let under_way = hub.tasks.token();
        let asker = Asker { caller: caller.clone(), session: None };
        let (call, run) = match placed(hub, &asker, tool, arguments).await {
            Ok(placed) => placed,
            Err(result) => return json_bytes(reply(&id, *result, Era::Stateless)),
        };
        let Some(token) = progress else { return json_bytes(end(hub, caller, &id, &call, run).await) };
        let client = told::Client::of(hub, token);
        let (hub, caller, followed) = (hub.clone(), caller.clone(), Arc::clone(&call));
        let ending = async move {
            let _under_way = under_way;
            end(&hub, &caller, &id, &followed, run).await
        };
        client.answer(&call, Box::pin(ending)).await
    }
}

fn written(id: &RequestId) -> String {
    serde_json::to_string(id).unwrap_or_else(|_| "null".into())
}

/// Takes a call to the gate. What does not run, because it waits for a person or was refused, has its result already.
async fn placed(
    hub: &Hub,
    asker: &Asker,
    tool: &'static KennyTool,
    arguments: Option<JsonObject>,
) -> Result<(Arc<Call>, Option<Run>), Box<CallToolResult>> {
    let mut wanted = call::want(hub, asker, tool, arguments.unwrap_or_default()).await?;
    match call::place(hub, asker, &mut wanted).await {
        Ok((Placed::Running(call), run)) => Ok((call, run)),
        Ok((Placed::Pending { call, approval, expires_at }, _)) => {
            Err(Box::new(Outcome::pending(&call, approval, expires_at, &hub.base_url()).into_result()))
        }
        Err(error) => {
            Err(Box::new(call::refusal(&error, Some(wanted.agent.id.as_str()), &wanted.tool).into_result()))
        }
    }
}

/// Follows a call to its end, and writes the reply. A client that gives up drops what waits here.
async fn end(hub: &Hub, caller: &Caller, id: &RequestId, call: &Arc<Call>, run: Option<Run>) -> String {
    let _abandoned = CancelUnlessDone::new(call);
    let done = call::ended(call, run).await;
    ended(hub, caller, id, call, done, Era::Stateless).await
}

/// The reply to a call that has ended.
async fn ended(hub: &Hub, caller: &Caller, id: &RequestId, call: &Arc<Call>, done: &Done, era: Era) -> String {
    if !caller.token.is_active(clock::now()) {
        return reply(id, call::too_late(), era);
    }
    match done::text(id, call, done, hub.settings.mcp.max_result_bytes, era) {
        Some(text) => text,
        None => reply(id, call::shown(hub, call, done).await, era),
    }
}

/// The reply with this result.
fn reply(id: &RequestId, result: CallToolResult, era: Era) -> String {
    #[derive(Serialize)]
    struct Reply<'a> {
        jsonrpc: &'static str,
        id: &'a RequestId,
        result: ServerResult,
    }
    let mut result = ServerResult::CallToolResult(result);
    if era == Era::Sessions {
        result.strip_result_type_for_legacy_peer();
    }
    let reply = Reply { jsonrpc: "2.0", id, result };
    // Names and values of text, numbers and lists: there is nothing in it that JSON could not say.
    serde_json::to_string(&reply).unwrap_or_default()
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
        assert_eq!((plain.id().as_str(), plain.arguments, plain.progress), (r#""a\"b""#, None, None));
        for token in [json!(7), json!("p")] {
            other["params"]["_meta"]["progressToken"] = token.clone();
            let plain = read(true, &headers(&[]), other.to_string().as_bytes()).expect("still plain");
            assert_eq!(serde_json::to_value(plain.progress).ok(), Some(token));
        }
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
            (meta, "progressToken", json!({})),
            (meta, "progressToken", json!("x".repeat(257))),
            ("", "id", json!("x".repeat(257))),
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
