//! Doors that become WebSockets.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Response, StatusCode, header};
use axum::response::IntoResponse;

use super::{ApiError, From};
use crate::hub::Hub;
use crate::kenny;
use crate::ws;

/// `/agent/ws`: kenny agents. No token here: the handshake on the socket is the credential.
pub(super) async fn kenny(State(hub): State<Hub>, From(address): From, mut request: Request) -> Response<Body> {
    let Ok(place) = Arc::clone(&hub.handshakes).try_acquire_owned() else {
        hub.metrics.dropped("handshakes", 1);
        return ApiError::busy("too many agents are proving themselves at once; come again shortly").into_response();
    };
    match ws::upgrade(&mut request) {
        Ok((mut response, upgrade)) => {
            // Agents cannot ask how large an answer may be; ours read it here, the others skip it.
            let limit = hub.settings.size("kenny.max_frame_bytes");
            response.headers_mut().insert("convoke-max-frame", limit.into());
            let guard = ConnectionGuard::new(&hub);
            tokio::spawn(async move {
                match upgrade.stream().await {
                    Some(ws::Upgraded::Plain(io, read)) => kenny::serve(guard.hub(), io, read, address, place).await,
                    Some(ws::Upgraded::Tls(io, read)) => kenny::serve(guard.hub(), io, read, address, place).await,
                    None => {}
                }
            });
            response
        }
        Err((status, message)) => {
            let code = if status == StatusCode::UPGRADE_REQUIRED { "upgrade_required" } else { "bad_request" };
            let mut response = ApiError::new(status, code, message).into_response();
            if status == StatusCode::UPGRADE_REQUIRED {
                let websocket = axum::http::HeaderValue::from_static("websocket");
                response.headers_mut().insert(header::UPGRADE, websocket);
            }
            response
        }
    }
}

/// An upgraded connection leaves its HTTP task, so it counts itself.
struct ConnectionGuard(Hub);

impl ConnectionGuard {
    fn new(hub: &Hub) -> Self {
        hub.connections.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Self(hub.clone())
    }

    fn hub(&self) -> Hub {
        self.0.clone()
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
    }
}
