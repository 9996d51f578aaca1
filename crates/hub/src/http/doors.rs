//! The list of doors. A route is opened together with the right it needs, so that none can be without one; the
//! generated tests walk this very list.

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::handler::Handler;
use axum::http::{Method, Response, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::IntoResponse;
use axum::routing::{MethodFilter, on};
use convoke_api::CLIENT_HEADER;
use convoke_core::door::Door;
use convoke_core::grant::Right;
use convoke_core::journal::{Decision, Draft, Kind};
use convoke_core::secret::SecretText;
use convoke_store::Lossy;
use serde_json::json;

use super::{ApiError, From, origin};
use crate::clock;
use crate::hub::Hub;
use crate::operators::{AuthError, Caller};

/// One door.
#[derive(Clone, Debug)]
pub struct DoorEntry {
    /// The method.
    pub method: Method,
    /// The path, with `{names}`.
    pub path: &'static str,
    /// What it needs.
    pub right: Right,
}

/// Doors being opened.
#[derive(Debug)]
pub struct Doors {
    hub: Hub,
    router: Router<Hub>,
    list: Vec<DoorEntry>,
}

impl Doors {
    /// None yet.
    pub fn new(hub: Hub) -> Self {
        Self { hub, router: Router::new(), list: Vec::new() }
    }

    /// Opens a door for those who have `right`.
    #[must_use]
    pub fn open<H, T>(mut self, method: Method, path: &'static str, right: Right, handler: H) -> Self
    where
        H: Handler<T, Hub>,
        T: 'static,
    {
        let filter = MethodFilter::try_from(method.clone()).expect("every method in the list is a standard one");
        let keeper = Keeper { hub: self.hub.clone(), right };
        let route = on(filter, handler).route_layer(from_fn_with_state(keeper, keep));
        self.router = self.router.route(path, route);
        self.list.push(DoorEntry { method, path, right });
        self
    }

    /// The list.
    pub fn list(&self) -> &[DoorEntry] {
        &self.list
    }

    /// The router of all doors.
    pub fn router(self) -> Router {
        let fallback = async || ApiError::not_found("there is nothing at this address");
        let wrong_method = async || ApiError::method_not_allowed();
        self.router.fallback(fallback).method_not_allowed_fallback(wrong_method).with_state(self.hub)
    }
}

#[derive(Clone, Debug)]
struct Keeper {
    hub: Hub,
    right: Right,
}

/// Stands before every route: authenticates, checks the right, records a refusal of a known caller.
async fn keep(State(keeper): State<Keeper>, mut request: Request, next: Next) -> Response<Body> {
    let Keeper { hub, right } = keeper;
    // Agents prove themselves on the door itself and are no browsers: whatever name they reached it by is fine.
    if right == Right::OwnCredential {
        return next.run(request).await;
    }
    if let Err(refused) = origin::check(&hub, &request) {
        return refused.into_response();
    }
    if right == Right::Public {
        return next.run(request).await;
    }
    let caller = match authenticate(&hub, &request) {
        Ok(caller) => caller,
        Err(refused) => return refused.into_response(),
    };
    if let Err(missing) = caller.token.grant.check(right) {
        let what = format!("{} {}", request.method(), request.uri().path());
        record_refusal(&hub, &caller, &what, None).await;
        return ApiError::forbidden(&missing).into_response();
    }
    if caller.token.used(clock::now(), caller.address) {
        let used = Lossy::TokenUsed(caller.token.id, clock::now());
        if let Err(why) = hub.store.enqueue(used).await {
            tracing::error!(%why, "a token's use was not noted");
        }
    }
    request.extensions_mut().insert(caller);
    next.run(request).await
}

/// Who makes this request.
pub fn authenticate(hub: &Hub, request: &Request) -> Result<Caller, ApiError> {
    let headers = request.headers();
    let From(address) = *request.extensions().get::<From>().ok_or_else(ApiError::internal)?;
    let door = match headers.get(CLIENT_HEADER) {
        _ if request.uri().path() == crate::mcp::PATH => Door::Mcp,
        Some(client) if client == "cli" => Door::Cli,
        _ => Door::Http,
    };
    let bearer = headers.get(header::AUTHORIZATION).and_then(|v| v.to_str().ok()).and_then(bearer);
    match hub.operators.authenticate(bearer.as_ref(), address, clock::now()) {
        Ok(token) => Ok(Caller { token, door, address }),
        Err(why) => {
            let at = if door == Door::Mcp { Door::Mcp } else { Door::Http };
            hub.strangers.refused(address, at);
            hub.metrics.refused(at.name(), "stranger");
            let refused = match why {
                AuthError::Missing => ApiError::unauthorized("no token was given"),
                AuthError::Unknown => ApiError::unauthorized("this token is not valid here"),
                AuthError::Throttled => return Err(ApiError::throttled()),
            };
            Err(if at == Door::Mcp { refused.challenge(crate::mcp::challenge(hub, headers)) } else { refused })
        }
    }
}

/// The token of `Authorization: Bearer …`.
pub fn bearer(value: &str) -> Option<SecretText> {
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then(|| SecretText::new(token))
}

/// A known caller was refused: recorded one by one, and committed before the caller is told.
pub async fn record_refusal(hub: &Hub, caller: &Caller, what: &str, target: Option<&str>) {
    let mut record = Draft::new(clock::now(), Kind::Refusal).detail(&json!({ "what": what }));
    record.who = Some(caller.token.name.clone());
    record.door = Some(caller.door);
    record.target = target.map(Into::into);
    record.decision = Some(Decision::Denied);
    hub.metrics.refused(caller.door.name(), "known");
    if let Err(why) = hub.store.append(record).await {
        tracing::error!(%why, "a refusal was not recorded");
    }
}
