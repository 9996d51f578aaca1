//! The HTTP door: one list of routes, each with the right it needs, and everything that stands before them.

pub(crate) mod agents;
mod approvals;
pub(crate) mod calls;
pub mod doors;
mod downloads;
mod error;
mod events;
pub(crate) mod extract;
pub(crate) mod fleet;
mod openapi;
mod operations;
mod origin;
mod policy;
pub(crate) mod record;
mod rooms;
pub(crate) mod rules;
mod tokens;
mod v1;
mod wire;
mod yonexus;

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Method, Request, Response, header};
use convoke_core::grant::Right;

pub use doors::{DoorEntry, Doors, Router};
pub use error::ApiError;
pub(crate) use wire::sonde as sonde_door;

use crate::hub::Hub;

/// What an answer calls its request; errors name it too.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Where a request comes from.
#[derive(Clone, Copy, Debug)]
pub struct From(pub IpAddr);

/// Every route of the hub, with the right it needs. A route that is not opened here does not exist.
#[rustfmt::skip]
pub fn doors(hub: &Hub) -> Doors {
    use Right::{Approve, Call, Guest, OwnCredential, Policy, Public, Tokens, Trust, View};
    let mcp = crate::mcp::Door::new(hub);
    Doors::new(hub.clone())
        .open(Method::GET, "/", Public, operations::front_page)
        .open(Method::GET, "/healthz", Public, operations::healthz)
        .open(Method::GET, "/readyz", Public, operations::readyz)
        .open(Method::GET, "/metrics", View, operations::metrics)
        .open(Method::GET, "/api/openapi.json", Public, openapi::document)
        .open(Method::GET, "/api/hub", View, operations::about)
        .open(Method::GET, "/.well-known/oauth-protected-resource", Public, crate::mcp::metadata)
        .open(Method::GET, "/.well-known/oauth-protected-resource/mcp", Public, crate::mcp::metadata)
        .open(Method::POST, "/mcp", View, mcp.handler())
        .open(Method::GET, "/mcp", View, mcp.handler())
        .open(Method::DELETE, "/mcp", View, mcp.handler())
        .open(Method::GET, "/agent/ws", OwnCredential, wire::kenny)
        .open(Method::GET, "/ws/agent", OwnCredential, wire::sonde)
        .open(Method::POST, "/api/v1/enrollment-tokens", Trust, v1::mint)
        .open(Method::GET, "/api/v1/enrollment-tokens", Trust, v1::tokens)
        .open(Method::POST, "/api/v1/probe", Call, v1::probe)
        .open(Method::POST, "/api/v1/diagnose", Call, v1::diagnose)
        .open(Method::POST, "/api/v1/health-check", Call, v1::health_check)
        .open(Method::GET, "/api/v1/agents", View, v1::agents)
        .open(Method::GET, "/api/v1/agents/{id}", View, v1::agent)
        .open(Method::GET, "/api/v1/packs", View, v1::packs)
        .open(Method::GET, "/api/v1/capabilities", View, v1::capabilities)
        .open(Method::GET, "/api/v1/runbooks", View, v1::runbooks)
        .open(Method::GET, "/api/v1/ca", View, v1::ca)
        .open(Method::POST, "/api/agents/{id}/accept", Trust, v1::accept)
        .open(Method::GET, "/d/binary/{link}", OwnCredential, downloads::binary)
        .open(Method::GET, "/api/agents", View, agents::list)
        .open(Method::GET, "/api/agents/{id}", View, agents::show)
        .open(Method::PATCH, "/api/agents/{id}", Trust, agents::patch)
        .open(Method::DELETE, "/api/agents/{id}", Trust, agents::remove)
        .open(Method::POST, "/api/agents/{id}/token", Trust, agents::mint_token)
        .open(Method::POST, "/api/agents/{id}/enroll", OwnCredential, agents::enrol)
        .open(Method::POST, "/api/agents/{id}/revoke", Trust, agents::revoke)
        .open(Method::POST, "/api/agents/{id}/rotate-key", Trust, agents::rotate_key)
        .open(Method::POST, "/api/agents/{id}/update", Call, downloads::update)
        .open(Method::POST, calls::PATH, Call, calls::call)
        .open(Method::GET, "/api/agents/{id}/snapshot", View, fleet::snapshot)
        .open(Method::GET, "/api/agents/{id}/snapshots", View, fleet::history)
        .open(Method::GET, "/api/agents/{id}/health", View, fleet::health)
        .open(Method::GET, "/api/fleet", View, fleet::overview)
        .open(Method::GET, "/api/calls/{id}", View, calls::show)
        .open(Method::DELETE, "/api/calls/{id}", View, calls::take_back)
        .open(Method::GET, "/api/approvals", View, approvals::list)
        .open(Method::POST, "/api/approvals/{id}", Approve, approvals::decide)
        .open(Method::GET, "/api/policy/rules", View, policy::deny_rules)
        .open(Method::POST, "/api/policy/rules", Policy, policy::put_deny_rule)
        .open(Method::DELETE, "/api/policy/rules/{rule}", Policy, policy::delete_deny_rule)
        .open(Method::GET, "/api/policy/confirm", View, policy::confirm_rules)
        .open(Method::POST, "/api/policy/confirm", Policy, policy::put_confirm_rule)
        .open(Method::DELETE, "/api/policy/confirm/{id}", Policy, policy::delete_confirm_rule)
        .open(Method::GET, "/api/tokens", Tokens, tokens::list)
        .open(Method::POST, "/api/tokens", Tokens, tokens::mint)
        .open(Method::DELETE, "/api/tokens/{id}", Tokens, tokens::revoke)
        .open(Method::GET, "/api/journal", View, record::journal)
        .open(Method::GET, "/api/journal/checkpoints", View, record::checkpoints)
        .open(Method::GET, "/api/logs", View, record::logs)
        .open(Method::GET, "/api/events", View, events::stream)
        .open(Method::GET, "/yonexus", OwnCredential, wire::yonexus)
        .open(Method::GET, "/api/yonexus/clients", View, yonexus::clients)
        .open(Method::POST, "/api/yonexus/clients", Trust, yonexus::allow)
        .open(Method::GET, "/api/yonexus/clients/{identifier}", View, yonexus::client)
        .open(Method::DELETE, "/api/yonexus/clients/{identifier}", Trust, yonexus::remove)
        .open(Method::POST, "/api/yonexus/clients/{identifier}/revoke", Trust, yonexus::revoke)
        .open(Method::POST, "/api/yonexus/clients/{identifier}/rotate-key", Trust, yonexus::rotate_key)
        .open(Method::GET, "/api/yonexus/pairings", View, yonexus::pairings)
        .open(Method::POST, "/api/yonexus/pairings/{identifier}", Approve, yonexus::decide)
        .open(Method::GET, "/api/rules", View, rules::list)
        .open(Method::POST, "/api/rules", Policy, rules::put)
        .open(Method::DELETE, "/api/rules/{rule}", Policy, rules::delete)
        .open(Method::POST, "/api/rules/{rule}/test", View, rules::test)
        .open(Method::GET, "/api/messages", View, rules::inbox)
        .open(Method::POST, "/api/messages", Call, rules::send)
        .open(Method::GET, "/rooms/{room}/ws", Guest, wire::room)
        .open(Method::GET, "/api/rooms", View, rooms::list)
        .open(Method::POST, "/api/rooms", Trust, rooms::create)
        .open(Method::GET, "/api/rooms/{room}", View, rooms::show)
        .open(Method::DELETE, "/api/rooms/{room}", Trust, rooms::remove)
        .open(Method::PATCH, "/api/rooms/{room}/grants/{participant}", Trust, rooms::grant)
        .open(Method::POST, "/api/rooms/{room}/kick", Trust, rooms::kick)
        .open(Method::POST, "/api/rooms/{room}/admit", Trust, rooms::admit)
        .open(Method::POST, "/api/rooms/{room}/invites", Trust, rooms::invite)
        .open(Method::POST, "/api/rooms/{room}/keys", Trust, rooms::add_key)
        .open(Method::DELETE, "/api/rooms/{room}/keys/{key}", Trust, rooms::remove_key)
}

/// Answers one request: the checks that come before any route, the route, and the one shape of errors.
pub async fn answer(router: &Router, from: IpAddr, request: Request<Body>) -> Response<Body> {
    let id = request_id();
    let shape = if request.uri().path().starts_with("/api/v1/") { error::Shape::Sonde } else { error::Shape::Own };
    let mut response = error::finish(router.answer(from, request).await, &id, shape);
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, id);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}

/// Unique within a hub's life.
fn request_id() -> HeaderValue {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    HeaderValue::try_from(format!("req-{number:x}")).unwrap_or(HeaderValue::from_static("req"))
}
