//! What every HTTP door shares: the list of routes with the right each needs, authentication, extractors, the one shape
//! of errors, and the views that the HTTP API and MCP both show.
//!
//! It knows no protocol and no page. A route is opened together with its right, so none can be without one.

pub mod agents;
pub mod calls;
pub mod cookie;
pub mod error;
pub mod extract;
pub mod journal;
pub mod keeper;
pub mod origin;
pub mod page;
pub mod reader;
pub mod telemetry;
pub mod withdrawn;

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Request, Response, header};

pub use error::ApiError;
pub use keeper::{DoorEntry, Doors, Router};

/// What an answer calls its request; errors name it too.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Where a request comes from.
#[derive(Clone, Copy, Debug)]
pub struct From(pub IpAddr);

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
