//! The list of doors. A route is opened together with the right it needs, so that none can be without one; the
//! generated tests walk this very list.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use axum::body::{Body, HttpBody as _};
use axum::extract::Request;
use axum::handler::Handler;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Response, header};
use axum::response::IntoResponse;
use convoke_api::CLIENT_HEADER;
use convoke_core::door::Door;
use convoke_core::grant::{Missing, Right};
use convoke_core::journal::{Decision, Draft, Kind};
use convoke_core::secret::TokenHash;
use convoke_store::Lossy;
use percent_encoding::percent_decode_str;
use serde_json::json;

use crate::cookie::Way;
use crate::error::clip;
use crate::{ApiError, origin};
use convoke_gate::calls::to_its_end;
use convoke_gate::clock;
use convoke_gate::cluster::upkeep;
use convoke_gate::hub::Hub;
use convoke_gate::operators::{AuthError, Caller};
use convoke_gate::shares::Unproven;

/// How the command line makes itself known.
const CLIENT: HeaderName = HeaderName::from_static(CLIENT_HEADER);

/// The path of the door for every address that no other door has.
pub const REST: &str = "/{*rest}";

/// One door.
#[derive(Clone, Debug)]
pub struct DoorEntry {
    /// The method.
    pub method: Method,
    /// The path, with `{names}`.
    pub path: &'static str,
    /// The door that a token must be good at, as the journal names it.
    pub door: Door,
    /// What it needs.
    pub right: Right,
}

/// Doors being opened, for handlers with this state.
#[derive(Debug)]
pub struct Doors<S = Hub> {
    hub: Hub,
    state: S,
    list: Vec<DoorEntry>,
    routes: Vec<Route>,
}

/// Says in a refusal of a stranger how to get a token, as MCP's authorisation demands.
pub type Challenge = fn(&Hub, &HeaderMap, bool) -> String;

/// What is behind one door.
struct Route {
    right: Right,
    door: Door,
    /// Set at the door for assistants.
    challenge: Option<Challenge>,
    /// What was begun here is finished, whether or not its client is still there: a change that is kept and not in
    /// force, or in force and not kept, would stay so until the next start.
    finishes: bool,
    enter: Box<dyn Fn(Request) -> Answering + Send + Sync>,
}

type Answering = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

impl std::fmt::Debug for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Route").field("right", &self.right).finish_non_exhaustive()
    }
}

impl Doors {
    /// None yet.
    pub fn new(hub: Hub) -> Self {
        Self { state: hub.clone(), hub, list: Vec::new(), routes: Vec::new() }
    }
}

impl<S: Clone + Send + Sync + 'static> Doors<S> {
    /// The hub that they belong to.
    pub const fn hub(&self) -> &Hub {
        &self.hub
    }

    /// The doors that are opened next have handlers with this state.
    pub fn with_state<T>(self, state: T) -> Doors<T> {
        let Self { hub, list, routes, .. } = self;
        Doors { hub, state, list, routes }
    }

    /// Opens a door for those who have `right`. A change that is begun there is finished, whether or not its client is
    /// still there.
    #[must_use]
    pub fn open<H, T>(self, method: Method, path: &'static str, right: Right, handler: H) -> Self
    where
        H: Handler<T, S> + Sync,
        T: 'static,
    {
        let finishes = method != Method::GET;
        self.add(DoorEntry { method, path, door: Door::Http, right }, finishes, None, handler)
    }

    /// Opens a door where a client that goes away ends only its own waiting: a call goes on by itself.
    #[must_use]
    pub fn open_for_calls<H, T>(self, method: Method, path: &'static str, right: Right, handler: H) -> Self
    where
        H: Handler<T, S> + Sync,
        T: 'static,
    {
        self.add(DoorEntry { method, path, door: Door::Http, right }, false, None, handler)
    }

    /// Opens the door of a room: it decides itself on who comes without a token.
    #[must_use]
    pub fn open_for_participants<H, T>(self, path: &'static str, handler: H) -> Self
    where
        H: Handler<T, S> + Sync,
        T: 'static,
    {
        self.add(DoorEntry { method: Method::GET, path, door: Door::Room, right: Right::Guest }, false, None, handler)
    }

    /// Opens the door for assistants, where going away is giving up.
    #[must_use]
    pub fn open_for_assistants<H, T>(
        self,
        method: Method,
        path: &'static str,
        right: Right,
        handler: H,
        challenge: Challenge,
    ) -> Self
    where
        H: Handler<T, S> + Sync,
        T: 'static,
    {
        self.add(DoorEntry { method, path, door: Door::Mcp, right }, false, Some(challenge), handler)
    }

    fn add<H, T>(mut self, door: DoorEntry, finishes: bool, challenge: Option<Challenge>, handler: H) -> Self
    where
        H: Handler<T, S> + Sync,
        T: 'static,
    {
        let state = self.state.clone();
        let enter = Box::new(move |request| -> Answering { Box::pin(handler.clone().call(request, state.clone())) });
        self.routes.push(Route { right: door.right, door: door.door, challenge, finishes, enter });
        self.list.push(door);
        self
    }

    /// The list.
    pub fn list(&self) -> &[DoorEntry] {
        &self.list
    }

    /// The router of all doors.
    pub fn router(self) -> Router {
        let mut by_path: Vec<(&'static str, Vec<(Method, Route)>)> = Vec::new();
        for (door, route) in self.list.into_iter().zip(self.routes) {
            match by_path.iter_mut().find(|(path, _)| *path == door.path) {
                Some((_, routes)) => routes.push((door.method, route)),
                None => by_path.push((door.path, vec![(door.method, route)])),
            }
        }
        let rest = by_path.iter().position(|(path, _)| *path == REST).map(|at| by_path.swap_remove(at).1);
        let mut paths = matchit::Router::new();
        for (path, routes) in by_path {
            paths.insert(path, routes).expect("the list's paths do not contradict each other, as every test shows");
        }
        Router(Arc::new(Routes { hub: self.hub, paths, rest: rest.unwrap_or_default() }))
    }
}

/// Finds the door of a request. One look at the path and one at the method; nothing is cloned for it.
#[derive(Clone, Debug)]
pub struct Router(Arc<Routes>);

#[derive(Debug)]
struct Routes {
    hub: Hub,
    paths: matchit::Router<Vec<(Method, Route)>>,
    /// The door for every other address: it takes what it has a method for, and leaves the rest unknown.
    rest: Vec<(Method, Route)>,
}

/// What a handler may know of a request beside its text.
#[derive(Clone, Debug)]
pub struct HttpContext {
    /// Where it comes from.
    pub from: IpAddr,
    /// Who makes it; nobody at a door that asks nobody.
    pub caller: Option<Caller>,
    /// What stands for each `{name}` in the door's path.
    pub names: Vec<String>,
}

impl Router {
    /// Answers a request from that address.
    pub async fn answer(&self, from: IpAddr, request: Request) -> Response<Body> {
        let page = origin::page(&self.0.hub, &request);
        let is_page = page.is_some();
        let mut response = self.enter(from, request, is_page).await;
        if let Some(page) = page {
            origin::share(&mut response, page);
        }
        response
    }

    async fn enter<'a>(&'a self, from: IpAddr, mut request: Request, is_page: bool) -> Response<Body> {
        let Routes { hub, paths, rest } = &*self.0;
        // Whoever may get a thing may ask for its head.
        let head = request.method() == Method::HEAD;
        let method = if head { &Method::GET } else { request.method() };
        let of_method = |routes: &'a [(Method, Route)]| routes.iter().find(|(taken, _)| taken == method);
        let mut names = Vec::new();
        let route = match paths.at(request.uri().path()) {
            Ok(found) => {
                let Some((_, route)) = of_method(found.value) else {
                    let preflight = is_page.then(|| origin::preflight(&request, &taken(found.value)));
                    return preflight.flatten().unwrap_or_else(|| wrong_method(found.value));
                };
                for (_, name) in found.params.iter() {
                    let Ok(name) = percent_decode_str(name).decode_utf8() else {
                        return ApiError::bad_request("the path is not valid UTF-8").into_response();
                    };
                    names.push(name.into_owned());
                }
                route
            }
            Err(_) => match of_method(rest) {
                Some((_, route)) => route,
                None => return ApiError::not_found("no such path").into_response(),
            },
        };
        let response = match keep(hub, route, &mut request, from).await {
            Ok(caller) => {
                // MCP has its own message, and revoking one's own token must still answer that it was done.
                let tells = request.method() != Method::DELETE && route.challenge.is_none();
                let asker = caller.clone().filter(|_| tells && route.right != Right::SignIn);
                request.extensions_mut().insert(HttpContext { from, caller, names });
                let answering = (route.enter)(request);
                let response = match route.finishes {
                    true => to_its_end(hub, in_force_everywhere(hub.clone(), route.right, answering)).await,
                    false => answering.await,
                };
                match asker {
                    Some(asker) if response.status().is_success() && !asker.is_active(clock::now()) => too_late(),
                    _ => response,
                }
            }
            Err(refused) => return refused.into_response(),
        };
        if head { without_body(response) } else { response }
    }
}

/// What was changed is answered once every hub that lives has it in force.
async fn in_force_everywhere(hub: Hub, right: Right, answering: Answering) -> Response<Body> {
    let response = answering.await;
    if hub.cluster.is_none() || right == Right::Call || !response.status().is_success() {
        return response;
    }
    // What is owed to a database that this hub may not write any more is not kept.
    if hub.is_fenced() {
        return ApiError::unavailable("this hub was ended by another one: ask again whether the change is in force")
            .into_response();
    }
    match upkeep::settled(&hub).await {
        Ok(()) => response,
        Err(why) => {
            tracing::error!(%why, "cannot tell whether a change is in force at every hub");
            ApiError::unavailable("the change is in force at this hub, and perhaps not yet at every other")
                .into_response()
        }
    }
}

/// A token that was revoked, or lapsed, while its request was under way: whoever has it hears nothing more.
fn too_late() -> Response<Body> {
    ApiError::unauthorized("this token or session is no longer valid; the journal has the outcome of the request")
        .into_response()
}

/// The methods that are taken here.
fn taken(routes: &[(Method, Route)]) -> String {
    let mut taken: Vec<&str> = routes.iter().map(|(method, _)| method.as_str()).collect();
    if taken.contains(&"GET") {
        taken.push("HEAD");
    }
    taken.join(",")
}

fn wrong_method(routes: &[(Method, Route)]) -> Response<Body> {
    let mut response = ApiError::method_not_allowed().into_response();
    if let Ok(taken) = HeaderValue::try_from(taken(routes)) {
        response.headers_mut().insert(header::ALLOW, taken);
    }
    response
}

/// A head tells the length of what it leaves out.
fn without_body(mut response: Response<Body>) -> Response<Body> {
    if let Some(length) = response.body().size_hint().exact() {
        response.headers_mut().insert(header::CONTENT_LENGTH, length.into());
    }
    *response.body_mut() = Body::empty();
    response
}

/// Stands before every room: authenticates, checks the right, records a refusal of a known caller.
async fn keep(hub: &Hub, route: &Route, request: &mut Request, from: IpAddr) -> Result<Option<Caller>, ApiError> {
    let right = route.right;
    // Agents prove themselves on the door itself and are no browsers: whatever name they reached it by is fine.
    if right == Right::OwnCredential {
        return Ok(None);
    }
    origin::check(hub, request)?;
    if right == Right::Public {
        return Ok(None);
    }
    if right == Right::SignIn && origin::is_own_page(hub, request) == Some(false) {
        // Or a foreign page could sign its reader in as somebody else.
        origin::check_own_page(hub, request)?;
    }
    let caller = match in_session(hub, route, request, from)? {
        Some(caller) => caller,
        None if right == Right::SignIn => return Ok(None),
        None if right == Right::Guest && !shows_a_token(hub, request.headers()) => return Ok(None),
        None => authenticate(hub, route, request, from)?,
    };
    if let Some(unproven) = request.extensions().get::<Unproven>() {
        unproven.proven();
    }
    let grant = &caller.token.grant;
    // Who came by the welcome link may add the first user.
    let has_right = || if right == Right::Users && caller.is_welcome() { Ok(()) } else { grant.check(right) };
    if let Err(missing) = grant.check_door(caller.door).and_then(|()| has_right()) {
        let what = format!("{} {}", request.method(), clip(request.uri().path()));
        record_refusal(hub, &caller, &what, None).await;
        let refused = ApiError::forbidden(&missing);
        return Err(match &grant.scopes.doors {
            Some(doors) if missing == Missing::Scope("doors") => {
                let names: Vec<_> = doors.iter().map(|door| door.name()).collect();
                refused.hint(format!("it is good at these doors: {}", names.join(", ")))
            }
            _ => refused,
        });
    }
    if let Some(session) = &caller.session {
        let changes = request.method() != Method::GET && request.method() != Method::HEAD;
        let is_grave = matches!(right, Right::Policy | Right::Tokens | Right::Trust | Right::Withdraw | Right::Users);
        if changes && is_grave && !session.is_stepped_up(clock::now()) {
            return Err(ApiError::step_up());
        }
        return Ok(Some(caller));
    }
    if caller.token.used(clock::now()) {
        let used = Lossy::TokenUsed(caller.token.id, clock::now());
        if let Err(why) = hub.store.enqueue(used).await {
            tracing::error!(%why, "cannot store when a token was last used");
        }
    }
    Ok(Some(caller))
}

/// Who is signed in, where a request has the cookie of a session and no token. Assistants have tokens.
fn in_session(hub: &Hub, route: &Route, request: &Request, address: IpAddr) -> Result<Option<Caller>, ApiError> {
    let headers = request.headers();
    if route.challenge.is_some() || headers.contains_key(header::AUTHORIZATION) {
        return Ok(None);
    }
    let now = clock::now();
    let mut values = Way::of(hub, headers).values(headers);
    let found = values.find_map(|value| hub.operators.people.by_cookie(TokenHash::of(value), now));
    let Some((session, token)) = found else { return Ok(None) };
    let only_looks = request.method() == Method::GET || request.method() == Method::HEAD;
    if !only_looks || headers.contains_key(header::UPGRADE) {
        origin::check_own_page(hub, request)?;
    }
    let door = if route.door == Door::Http { Door::Page } else { route.door };
    Ok(Some(Caller { token, session: Some(session), door, address }))
}

/// Who makes this request.
fn authenticate(hub: &Hub, route: &Route, request: &Request, address: IpAddr) -> Result<Caller, ApiError> {
    let headers = request.headers();
    let door = match headers.get(&CLIENT) {
        Some(client) if client == "cli" && route.door == Door::Http => Door::Cli,
        _ => route.door,
    };
    match hub.operators.authenticate(bearer(headers).map(TokenHash::of), address, clock::now()) {
        Ok(token) => Ok(Caller::with_token(token, door, address)),
        Err(why) => {
            // Who says that it is the command line has shown nothing yet.
            let at = if door == Door::Cli { Door::Http } else { door };
            hub.strangers.refused(address, at);
            hub.metrics.refused(at.name(), "stranger");
            let has_token = matches!(why, AuthError::Unknown);
            let refused = match why {
                AuthError::Missing => ApiError::unauthorized("token missing"),
                AuthError::Unknown => ApiError::unauthorized("the token is not valid"),
                AuthError::Paused => return Err(ApiError::paused()),
                AuthError::Throttled { seconds } => return Err(ApiError::throttled(seconds)),
            };
            Err(match route.challenge {
                Some(challenge) => refused.challenge(challenge(hub, headers, has_token)),
                None => refused,
            })
        }
    }
}

/// Whether a request has a token of the hub's to be judged by. What looks signed, as an invite, and is no token that is in
/// force is judged behind the door.
fn shows_a_token(hub: &Hub, headers: &HeaderMap) -> bool {
    let is_token =
        |given: &str| !given.contains('.') || hub.operators.is_in_force(TokenHash::of(given), clock::now());
    headers.contains_key(header::AUTHORIZATION) && bearer(headers).is_none_or(is_token)
}

/// The token of `Authorization: Bearer …`, where it lies.
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(one), None) = (given.next(), given.next()) else {
        // Of two, somebody in between may have looked at the other.
        return None;
    };
    let (scheme, token) = one.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// A known caller was refused: recorded one by one up to a number a minute, and committed before the caller is told.
pub async fn record_refusal(hub: &Hub, caller: &Caller, what: &str, target: Option<&str>) {
    hub.metrics.refused(caller.door.name(), "known");
    if !hub.refusals.count(&caller.token) {
        return;
    }
    let mut record = Draft::new(clock::now(), Kind::Refusal).detail(&json!({ "what": what }));
    record.who = Some(caller.token.name.clone());
    record.door = Some(caller.door);
    record.target = target.map(Into::into);
    record.decision = Some(Decision::Denied);
    if let Err(why) = hub.store.append(record).await {
        tracing::error!(%why, "cannot record a refusal");
    }
}
