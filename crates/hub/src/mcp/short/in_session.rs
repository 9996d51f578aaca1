//! The short way within a session. Most calls end before the SDK's stream would begin (`held.rs`), and are answered in
//! one piece; to those the SDK contributes nothing but its tasks and channels. So a call begins here, and the SDK hears
//! of it only when it takes longer: then it is handed over as it stands, with the request that asked for it, and is a
//! stream like any other, with progress, that can be resumed.
//!
//! Until then a client can give it up by its request's id, as it can afterwards; one whose connection breaks has not
//! given up, and the call goes on.

use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, Response};
use convoke_kenny::tools::Tool as KennyTool;
use rmcp::RoleServer;
use rmcp::model::{CallToolResult, JsonObject, ProgressToken, RequestId};
use rmcp::service::RequestContext;
use serde::Deserialize;
use serde_json::json;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::super::call;
use super::super::call::Run;
use super::super::held::MOMENT;
use super::super::peek::is_short;
use super::super::server::Asker;
use super::super::sessions::{Begun, Repeated, Turn};
use super::super::{Entry, Need, find};
use super::{Era, METHOD, OF_MCP, ended, placed, reply, takes_either};
use crate::calls::{Call, CancelUnlessDone};
use crate::http::extract::json_bytes;
use crate::hub::Hub;
use crate::operators::Caller;

/// The revisions with sessions whose requests name theirs in a header.
const REVISIONS: [&str; 2] = ["2025-11-25", "2025-06-18"];
const REVISION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// A call that can begin here.
pub(in super::super) struct Plain {
    id: RequestId,
    pub(in super::super) entry: &'static Entry,
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
    #[serde(rename = "_meta", default)]
    meta: Meta,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Meta {
    /// Nothing is told before the SDK has the call.
    #[serde(rename = "progressToken", default)]
    progress: Option<ProgressToken>,
}

/// Reads a session's request that can begin here. Its client must be one that nobody would ask anything.
pub(in super::super) fn read(headers: &HeaderMap, body: &[u8]) -> Option<Plain> {
    let revision = headers.get(REVISION).and_then(|value| value.to_str().ok())?;
    // One each of the two, and no other: what those would mean is the SDK's to say.
    let of_mcp = headers.iter().filter(|(name, _)| name.as_str().starts_with(OF_MCP)).count();
    if !(REVISIONS.contains(&revision) && headers.contains_key(SESSION) && of_mcp == 2 && takes_either(headers)) {
        return None;
    }
    let Message { jsonrpc, id, method, params } = serde_json::from_slice(body).ok()?;
    let entry = find(params.name)?;
    let Need::Call(tool) = entry.need else { return None };
    if !is_short(&id) || params.meta.progress.is_some_and(|token| !is_short(&token.0)) {
        return None;
    }
    let arguments = params.arguments;
    (jsonrpc == "2.0" && method == METHOD).then_some(Plain { id, entry, tool, arguments })
}

impl Plain {
    /// The request's id as it is written.
    pub(in super::super) fn id(&self) -> String {
        super::written(&self.id)
    }

    /// Carries it out, or hands over what has not ended in a moment.
    pub(in super::super) async fn answer(
        self,
        hub: &Hub,
        caller: &Caller,
        session: &str,
    ) -> Result<Response<Body>, Handover> {
        let Self { id, tool, arguments, .. } = self;
        let Ok(turn) = hub.mcp.turn(session, &id) else {
            let error = json!({ "code": -32600, "message": Repeated::MESSAGE });
            let id = super::written(&id);
            return Ok(json_bytes(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{error}}}")));
        };
        // A hub that stops waits for those who are being answered, within its drain time.
        let under_way = hub.tasks.token();
        let asker = Asker { caller: caller.clone(), session: Some(session.to_owned()) };
        let (call, mut run) = match placed(hub, &asker, tool, arguments).await {
            Ok(placed) => placed,
            Err(result) => return Ok(json_bytes(reply(&id, *result, Era::Sessions))),
        };
        let begun = hub.mcp.begun(session, &id, &call);
        match tokio::time::timeout(MOMENT, call::ended(&call, run.as_mut())).await {
            Ok(done) => Ok(json_bytes(ended(hub, caller, &id, &call, done, Era::Sessions).await)),
            Err(_) => {
                let abandoned = CancelUnlessDone::new(&call);
                Err(Handover::new(Running { call, run, abandoned, _begun: begun, _under_way: under_way }, turn))
            }
        }
    }
}

/// A call that the SDK is to go on with. It travels with the request.
#[derive(Clone)]
pub(in super::super) struct Handover(Arc<Mutex<(Option<Running>, Option<Turn>)>>);

struct Running {
    call: Arc<Call>,
    run: Option<Run>,
    /// The session may have ended in that moment: then the SDK takes nothing, and nobody can be answered.
    abandoned: CancelUnlessDone,
    _begun: Begun,
    _under_way: TaskTrackerToken,
}

impl Handover {
    fn new(running: Running, turn: Option<Turn>) -> Self {
        Self(Arc::new(Mutex::new((Some(running), turn))))
    }

    /// The turn of the request that asked for it.
    pub(in super::super) fn turn(&self) -> Option<Turn> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1.take()
    }

    /// Goes on with the call that came with this request, if one did.
    pub(in super::super) async fn go_on(hub: &Hub, context: &RequestContext<RoleServer>) -> Option<CallToolResult> {
        let handover = context.extensions.get::<Parts>()?.extensions.get::<Self>()?;
        let running = handover.0.lock().unwrap_or_else(PoisonError::into_inner).0.take()?;
        // From here on the SDK knows it by its request.
        let Running { call, run, abandoned, _begun: begun, _under_way } = running;
        drop(begun);
        let followed = call::follow(hub, &call, run, context).await;
        drop(abandoned);
        Some(followed)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn message() -> Value {
        json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call",
            "params": { "name": "fs_list", "arguments": { "path": "/", "agent": "pc" } } })
    }

    fn headers(more: &[(&'static str, &'static str)]) -> HeaderMap {
        let usual = [
            ("accept", "application/json, text/event-stream"),
            ("content-type", "application/json"),
            ("mcp-protocol-version", "2025-11-25"),
            ("mcp-session-id", "s"),
        ];
        let mut headers = HeaderMap::new();
        for (name, value) in usual.iter().chain(more) {
            headers.insert(*name, value.parse().expect("a value"));
        }
        headers
    }

    fn is_plain(headers: &HeaderMap, message: &Value) -> bool {
        read(headers, message.to_string().as_bytes()).is_some()
    }

    #[test]
    fn a_plain_call_is_read_whole() {
        let plain = read(&headers(&[]), message().to_string().as_bytes()).expect("plain");
        assert_eq!((plain.id().as_str(), plain.tool.name), ("7", "fs_list"));
        assert_eq!(plain.arguments.map(Value::from), Some(json!({ "path": "/", "agent": "pc" })));
        let mut other = message();
        other["params"]["_meta"] = json!({ "progressToken": "p" });
        assert!(is_plain(&headers(&[("mcp-protocol-version", "2025-06-18")]), &other));
    }

    #[test]
    fn whatever_else_it_carries_makes_it_the_sdks() {
        for (at, key, value) in [
            ("", "id", Value::Null),
            ("", "id", json!("x".repeat(257))),
            ("", "jsonrpc", json!("1.0")),
            ("", "method", json!("tools/list")),
            ("", "extra", json!(1)),
            ("/params", "name", json!("list_agents")),
            ("/params", "name", json!("no_such_tool")),
            ("/params", "arguments", json!([])),
            ("/params", "task", json!({})),
            ("/params", "_meta", Value::Null),
            ("/params", "_meta", json!({ "progressToken": {} })),
            ("/params", "_meta", json!({ "progressToken": "x".repeat(257) })),
            ("/params", "_meta", json!({ "traceparent": "x" })),
        ] {
            let mut message = message();
            message.pointer_mut(at).expect("there")[key] = value;
            assert!(!is_plain(&headers(&[]), &message), "{message}");
        }
        assert!(!is_plain(&headers(&[]), &Value::Array(vec![message()])));
    }

    #[test]
    fn headers_that_say_otherwise_make_it_the_sdks() {
        for other in [
            ("accept", "application/json"),
            ("content-type", "text/plain"),
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-protocol-version", "2025-03-26"),
            ("mcp-method", "tools/call"),
            ("mcp-name", "fs_list"),
        ] {
            assert!(!is_plain(&headers(&[other]), &message()), "{other:?}");
        }
        for missing in ["accept", "content-type", "mcp-protocol-version", "mcp-session-id"] {
            let mut headers = headers(&[]);
            headers.remove(missing);
            assert!(!is_plain(&headers, &message()), "{missing}");
        }
        let mut twice = headers(&[]);
        twice.append("mcp-session-id", "t".parse().expect("a value"));
        assert!(!is_plain(&twice, &message()));
    }
}
