//! Doors that become WebSockets.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Response, StatusCode, header};
use axum::response::IntoResponse;

use convoke_core::door::Door;
use convoke_core::secret::SecretText;

use crate::Wires;
use crate::kenny;
use crate::sonde;
use crate::sonde::listen::Client;
use crate::ws;
use convoke_doors::extract::{MaybeCaller, PathOf};
use convoke_doors::keeper::{bearer, record_refusal};
use convoke_doors::{ApiError, From, origin};
use convoke_gate::clock;

/// `/agent/ws`: kenny agents. No token here: the handshake on the socket is the credential.
pub async fn kenny(State(hub): State<Wires>, From(address): From, mut request: Request) -> Response<Body> {
    let Some(handshake) = hub.handshakes.take(address) else {
        hub.metrics.dropped("handshakes", 1);
        return ApiError::busy("too many agents are authenticating at once; connect again shortly").into_response();
    };
    let mut response = upgraded(&hub, &mut request, move |hub, io, read| async move {
        kenny::serve(hub, io, read, address, handshake).await;
    });
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        // Agents cannot ask how large an answer may be; ours read it here, the others skip it.
        let limit = hub.settings.kenny.max_frame_bytes;
        response.headers_mut().insert("convoke-max-frame", limit.into());
    }
    response
}

/// `/yonexus`: Yonexus clients. No token here: pairing and proof on the socket are the credential.
pub async fn yonexus(State(hub): State<Wires>, From(address): From, mut request: Request) -> Response<Body> {
    let Some(handshake) = hub.yonexus.handshakes.take(address) else {
        hub.metrics.dropped("handshakes", 1);
        return ApiError::busy("too many clients are authenticating at once; connect again shortly").into_response();
    };
    upgraded(&hub, &mut request, move |hub, io, read| async move {
        crate::yonexus::serve(hub, io, read, address, handshake).await;
    })
}

/// `/rooms/<name>/ws`: the relay of a room. An operator's token or session counts here, and so do an agent's key and an invite on the
/// socket itself; an open room takes anybody.
pub async fn room(
    State(hub): State<Wires>,
    From(address): From,
    PathOf(name): PathOf<String>,
    MaybeCaller(operator): MaybeCaller,
    mut request: Request,
) -> Response<Body> {
    // What an agent asserts is bound to the host it dialled, which the doors' check has found to be one of this hub's.
    let host = origin::host(&request).unwrap_or_default().to_ascii_lowercase();
    let room = match crate::rooms::routes::at_door(&hub, address, &name) {
        Ok(room) => room,
        Err(refused) => return refused.into_response(),
    };
    let target = crate::rooms::peer(&room.name);
    let operator = match operator {
        Some(operator) => match operator.token.grant.check_reach::<String>(&target, &[]) {
            Ok(()) => Some(operator),
            // A browser sends the cookie whether or not it helps: what is open to a stranger, or to an invite, is open to them.
            Err(_) if operator.session.is_some() => None,
            Err(missing) => {
                record_refusal(&hub, &operator, "a room out of reach", Some(&target)).await;
                return ApiError::forbidden(&missing).into_response();
            }
        },
        None => None,
    };
    // An open room takes anybody, for as long as they like: of one address not all that there is.
    let share = match &operator {
        Some(_) => None,
        None => match hub.share_for_stranger(address) {
            Some(share) => Some(share),
            None => {
                return ApiError::busy("too many connections of this address; connect again later").into_response();
            }
        },
    };
    let guest = crate::rooms::Guest { address, host, operator };
    upgraded(&hub, &mut request, move |hub, io, read| async move {
        crate::rooms::serve(hub, room, io, read, guest).await;
        drop(share);
    })
}

/// `/peerjs`: the broker. A peer needs no credential to find others: whom a room lets in is the room's to say.
pub async fn peerjs(State(hub): State<Wires>, From(address): From, mut request: Request) -> Response<Body> {
    let Some(share) = hub.share_for_stranger(address) else {
        return ApiError::busy("too many connections of this address; connect again later").into_response();
    };
    let asked = crate::rooms::broker::Asked::read(request.uri().query().unwrap_or_default());
    upgraded(&hub, &mut request, move |hub, io, read| async move {
        crate::rooms::broker::serve(hub, io, read, address, asked).await;
        drop(share);
    })
}

/// Answers the upgrade and serves the stream in a task of its own, or says what is wrong with the request.
fn upgraded<F, Fut>(hub: &Wires, request: &mut Request, serve: F) -> Response<Body>
where
    F: FnOnce(Wires, ws::Stream, Vec<u8>) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + Send,
{
    match ws::upgrade(request) {
        Ok((response, upgrade)) => {
            let guard = ConnectionGuard::new(hub);
            tokio::spawn(async move {
                if let Some((io, read)) = upgrade.stream().await {
                    serve(guard.hub(), io, read).await;
                }
            });
            response
        }
        Err(refused) => not_a_websocket(refused),
    }
}

fn not_a_websocket((status, message): (StatusCode, &'static str)) -> Response<Body> {
    let code = if status == StatusCode::UPGRADE_REQUIRED { "upgrade_required" } else { "bad_request" };
    let mut response = ApiError::new(status, code, message).into_response();
    if status == StatusCode::UPGRADE_REQUIRED {
        let websocket = axum::http::HeaderValue::from_static("websocket");
        response.headers_mut().insert(header::UPGRADE, websocket);
    }
    response
}

/// `/ws/agent`: Sonde agents. The bearer (or `?apiKey=`), or the certificate on the mutual-TLS listener, is the
/// credential; without one there is no socket.
pub async fn sonde(State(hub): State<Wires>, From(address): From, mut request: Request) -> Response<Body> {
    let refused = |message: &str| {
        hub.strangers.refused(address, Door::Wire);
        hub.metrics.refused("wire", "stranger");
        ApiError::unauthorized(message)
            .hint("an admin creates an enrolment token with `POST /api/v1/enrollment-tokens`")
            .into_response()
    };
    let header = bearer(request.headers()).map(SecretText::new);
    let bearer = header.or_else(|| api_key(request.uri().query()));
    let client = request.extensions().get::<Client>().copied();
    let certificate = client.and_then(|Client(fingerprint)| fingerprint);
    let known = || sonde::credential(&hub, bearer.as_ref(), certificate);
    if known().is_none() {
        hub.catch_up().await;
    }
    let Some(credential) = known() else {
        // Only who has nothing good is slowed down: one agent with an old key must not shut out those beside it.
        let now = clock::now();
        if let Some(seconds) = hub.sonde.throttle.blocked_for(address, now) {
            return ApiError::throttled(seconds).into_response();
        }
        if bearer.is_some() {
            hub.sonde.throttle.failed(address, now);
        }
        return match (certificate, bearer) {
            (Some(_), _) => refused("the certificate does not belong to a trusted agent"),
            (None, Some(_)) => refused("the key or token is not valid"),
            (None, None) => refused("key, token or certificate missing"),
        };
    };
    let Some(handshake) = hub.handshakes.take(address) else {
        hub.metrics.dropped("handshakes", 1);
        return ApiError::busy("too many agents are registering at once; connect again shortly").into_response();
    };
    let arrival = sonde::Arrival { address, credential, mutual_tls: client.is_some() };
    upgraded(&hub, &mut request, move |hub, io, read| async move {
        sonde::serve(hub, io, read, arrival, handshake).await;
    })
}

/// The key of `?apiKey=…`. Keys and tokens have no character that a query would have to encode.
fn api_key(query: Option<&str>) -> Option<SecretText> {
    let value = query?.split('&').find_map(|pair| pair.strip_prefix("apiKey="))?;
    (!value.is_empty()).then(|| SecretText::new(value))
}

/// An upgraded connection leaves its HTTP task, so it counts itself.
struct ConnectionGuard(Wires);

impl ConnectionGuard {
    fn new(hub: &Wires) -> Self {
        hub.connections.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Self(hub.clone())
    }

    fn hub(&self) -> Wires {
        self.0.clone()
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
    }
}
