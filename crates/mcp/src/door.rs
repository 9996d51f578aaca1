//! The HTTP side of `/mcp`: what is checked before the SDK sees a request.

use std::pin::Pin;

use axum::body::{Body, HttpBody as _};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use axum::response::IntoResponse;
use convoke_core::grant::Missing;
use convoke_core::id::PeerId;
use convoke_core::journal::{Decision, Draft, Kind};
use http_body_util::{BodyExt as _, Full};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::{Value, json};

use super::peek::{Fault, Peek};
use super::server::{Misfit, Server};
use super::sessions::{Sessions, TooMany, Use, Using};
use super::toolset::{Entry, Tools};
use super::{PATH, watch};
use convoke_doors::ApiError;
use convoke_doors::extract::{self, By, Json};
use convoke_gate::clock;
use convoke_gate::hub::Hub;
use convoke_gate::operators::Caller;

/// The header that names a session.
pub(super) const SESSION: &str = "mcp-session-id";

/// `/mcp`.
#[derive(Clone)]
pub struct Door {
    service: StreamableHttpService<Server, Sessions>,
}

impl std::fmt::Debug for Door {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Door")
    }
}

type Answering = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

impl Door {
    /// The door of this hub.
    pub fn new(hub: &Hub) -> Self {
        let mut config = StreamableHttpServerConfig::default()
            .with_json_response(true)
            // Its events would all have one id; ours have their own (`standing.rs`).
            .with_sse_retry(None)
            .with_max_request_body_bytes(hub.settings.hub.max_body_bytes)
            .with_cancellation_token(Sessions::of(hub).ended.clone());
        // The keeper of all doors has checked both, with the hub's own lists (`http/origin.rs`).
        config = config.disable_allowed_hosts().disable_allowed_origins();
        let server = Server::new(hub.clone());
        let factory = move || Ok(server.clone());
        Self { service: StreamableHttpService::new(factory, Sessions::of(hub), config) }
    }

    /// What answers requests.
    pub fn handler(&self) -> impl Fn(State<Hub>, By, Request) -> Answering + Clone + Send + Sync + 'static {
        let door = self.clone();
        move |State(hub), By(caller), request| {
            let door = door.clone();
            Box::pin(async move {
                match door.answer(&hub, &caller, request).await {
                    Ok(response) => response,
                    Err(refused) => refused.into_response(),
                }
            })
        }
    }

    async fn answer(&self, hub: &Hub, caller: &Caller, request: Request) -> Result<Response<Body>, ApiError> {
        let session = request.headers().get(SESSION).map(|v| v.to_str().unwrap_or_default().to_owned());
        let what = if request.method() == Method::POST { Use::Request } else { Use::Stream };
        // To another token it does not exist: 404 tells a client whose session lapsed to open a new one.
        let unknown = || ApiError::not_found("the MCP session does not exist").hint("send `initialize` again");
        let using =
            session.as_deref().map(|id| Sessions::of(hub).using(id, caller.token.id, what).ok_or_else(unknown));
        // From here on until there is an answer; one that comes in pieces uses the session for itself (`sessions.rs`).
        let using = using.transpose()?;
        if what == Use::Stream {
            let is_end = request.method() == Method::DELETE;
            let response = self.service.handle(request).await;
            // The SDK has taken note; it is done all the same, and clients take nothing but 200 and 204 for an end.
            if is_end && response.status() == StatusCode::ACCEPTED {
                return Ok(StatusCode::NO_CONTENT.into_response());
            }
            return Ok(listened(response.map(Body::new), using));
        }
        let (mut parts, body) = request.into_parts();
        if !is_json(&parts.headers) {
            let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            return Err(ApiError::new(status, "bad_request", "`Content-Type` must be application/json"));
        }
        parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
        let body = extract::body(body, &parts.headers, Some(caller), hub).await?;
        let peek = match Peek::at(&body) {
            Ok(peek) => peek,
            Err(fault) => return Ok(malformed(&fault, session.is_some())),
        };
        if let Some(entry) = peek.tool.as_deref().and_then(|name| Tools::of(hub).find(name))
            && let Err(missing) = entry.check(&caller.token.grant)
        {
            return Ok(refuse(hub, caller, &parts.headers, entry, &missing, peek.id).await);
        }
        if session.is_none()
            && let Err(error) = watch::check_all(hub, caller, &peek.listens_to).await
        {
            // As the SDK says it to clients without sessions.
            return Ok(failed(&json!({ "code": -32602, "message": error.message }), peek.id));
        }
        if session.is_some() && peek.is_request {
            let Ok(permit) = Sessions::of(hub).request(caller.token.id, peek.weight) else {
                return Ok(too_many(peek.id));
            };
            // It goes where the request goes.
            parts.extensions.insert(permit);
        }
        let misfit = Misfit::default();
        if session.is_none() {
            parts.extensions.insert(misfit.clone());
        }
        let answering = self.service.handle(Request::from_parts(parts, Full::new(body.clone())));
        let mut response = match session {
            Some(_) => answering.await,
            None => Sessions::of(hub)
                .opening(caller.token.id, answering)
                .await
                .ok_or_else(|| ApiError::busy("the limit of MCP sessions is reached (mcp.max_sessions)"))?,
        };
        if response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE {
            // It finds fault with the media type, in plain text, where a body is none of the protocol's messages.
            return Ok(malformed(&Fault::unreadable(&body, peek.id, ""), false));
        }
        if misfit.is_one() {
            *response.status_mut() = StatusCode::BAD_REQUEST;
        }
        drop(using);
        Ok(response.map(Body::new))
    }
}

/// The session is in use for as long as its client listens.
fn listened(response: Response<Body>, using: Option<Using>) -> Response<Body> {
    // What is in one piece is a refusal.
    let Some(using) = using.filter(|_| response.body().size_hint().exact().is_none()) else { return response };
    response.map(|body| Body::new(body.map_frame(move |frame| (frame, &using).0)))
}

/// The media type of JSON, as the SDK looks for it: it takes whatever begins so, and only in small letters.
const JSON: &str = "application/json";

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().is_some_and(|essence| essence.trim().eq_ignore_ascii_case(JSON))
}

/// An error of the protocol for who has no session.
fn failed(error: &Value, id: &str) -> Response<Body> {
    let mut response = extract::json_bytes(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{error}}}"));
    *response.status_mut() = StatusCode::BAD_REQUEST;
    response
}

/// What JSON-RPC says to a message that has something wrong with it. In a session errors are answers like others.
fn malformed(fault: &Fault, in_session: bool) -> Response<Body> {
    let mut response = failed(&json!({ "code": fault.code, "message": fault.message }), &fault.id);
    if in_session && fault.of_request() {
        *response.status_mut() = StatusCode::OK;
    }
    response
}

/// The answer to a session with too many requests under way.
fn too_many(id: &str) -> Response<Body> {
    let error = json!({ "code": -32000, "message": TooMany::MESSAGE, "data": { "code": "limited" } });
    extract::json_bytes(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{error}}}"))
}

/// 403 with the scope that is missing, and a record of it.
async fn refuse(
    hub: &Hub,
    caller: &Caller,
    headers: &HeaderMap,
    entry: &Entry,
    missing: &Missing,
    id: &str,
) -> Response<Body> {
    record_refusal(hub, caller, entry.name).await;
    let scope = entry.scope(missing);
    let challenge = format!(
        "Bearer realm=\"convoke\", error=\"insufficient_scope\", scope=\"{scope}\", error_description=\"{missing}\", \
         resource_metadata=\"{}\"",
        metadata_url(hub, headers)
    );
    let error =
        json!({ "code": -32003, "message": missing.to_string(), "data": { "code": "forbidden", "scope": scope } });
    let mut response = extract::json_bytes(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{error}}}"));
    *response.status_mut() = StatusCode::FORBIDDEN;
    if let Ok(challenge) = HeaderValue::from_str(&challenge) {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    }
    response
}

/// A known caller asked for a tool it may never use.
pub async fn record_refusal(hub: &Hub, caller: &Caller, tool: &str) {
    record(hub, caller, tool, None, json!({ "what": "tools/call" })).await;
}

/// Machines that a record of a refusal names; the rest are counted.
const MAX_NAMES: usize = 32;

/// A known caller asked for a tool on machines out of its reach.
pub async fn record_out_of_reach(hub: &Hub, caller: &Caller, tool: &str, agents: &[String]) {
    let target = match agents {
        [one] => PeerId::parse(one).ok().map(|id| id.as_str().to_owned()),
        _ => None,
    };
    let named: Vec<_> = agents.iter().filter(|id| PeerId::parse(id).is_ok()).take(MAX_NAMES).collect();
    let detail = json!({ "what": "agents out of reach", "count": agents.len(), "agents": named });
    record(hub, caller, tool, target, detail).await;
}

async fn record(hub: &Hub, caller: &Caller, tool: &str, target: Option<String>, detail: serde_json::Value) {
    let mut record = Draft::new(clock::now(), Kind::Refusal).detail(&detail);
    record.who = Some(caller.token.name.clone());
    record.door = Some(caller.door);
    record.target = target;
    record.tool = Some(tool.into());
    record.decision = Some(Decision::Denied);
    hub.metrics.refused(caller.door.name(), "known");
    if !hub.refusals.count(&caller.token) {
        return;
    }
    if let Err(why) = hub.store.append(record).await {
        tracing::error!(%why, "cannot record a refusal");
    }
}

/// What a caller without a token is told (RFC 9728, 5.1), or with one that is not valid (RFC 6750, 3.1).
pub fn challenge(hub: &Hub, headers: &HeaderMap, has_token: bool) -> String {
    let error = if has_token { " error=\"invalid_token\"," } else { "" };
    format!("Bearer realm=\"convoke\",{error} resource_metadata=\"{}\"", metadata_url(hub, headers))
}

fn metadata_url(hub: &Hub, headers: &HeaderMap) -> String {
    format!("{}/.well-known/oauth-protected-resource{PATH}", reached_at(hub, headers))
}

/// Where this client reaches the hub. The keeper has checked `Host`, so it can only be a name of this hub.
fn reached_at(hub: &Hub, headers: &HeaderMap) -> String {
    let host = headers
        .get(header::HOST)
        .and_then(|v| v.to_str().ok())
        .filter(|host| host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:[]".contains(&b)));
    match (hub.settings.hub.public_url.as_deref(), host) {
        (None, Some(host)) => format!("{}://{host}", if hub.tls { "https" } else { "http" }),
        _ => hub.base_url(),
    }
}

/// The protected resource's metadata (RFC 9728). There is no authorization server: an admin mints tokens.
pub async fn metadata(State(hub): State<Hub>, headers: HeaderMap) -> Response<Body> {
    Json(json!({
        "resource": format!("{}{PATH}", reached_at(&hub, &headers)),
        "resource_name": "Convoke",
        "bearer_methods_supported": ["header"],
        "scopes_supported": ["observe", "interact", "manage"],
    }))
    .into_response()
}
