//! Sessions over HTTP: signing in and out, and showing the password once more.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Response, StatusCode, header};
use axum::response::IntoResponse;
use convoke_api::people::{
    OwnSession, Secret, SessionList, SessionQuery, SessionView, SignIn, SignInByLink, StepUp, Who,
};
use convoke_core::door::Door;
use convoke_core::event::{Event, UserEvent};
use convoke_core::grant::Right;
use convoke_core::id::SessionId;
use convoke_core::journal::{Decision, Draft, Kind};
use convoke_core::redact;
use convoke_core::secret::{SecretText, TokenHash};
use convoke_core::time::Timestamp;
use serde_json::{Value, json};

use convoke_doors::ApiError;
use convoke_doors::From;
use convoke_doors::cookie::Way;
use convoke_doors::extract::{By, Json, MaybeCaller, PathOf, QueryOf, limit};
use convoke_doors::keeper::record_refusal;
use convoke_doors::page::Page;
use convoke_doors::withdrawn::Stored;
use convoke_gate::clock;
use convoke_gate::hub::Hub;
use convoke_gate::operators::Caller;
use convoke_gate::people::passwords::Busy;
use convoke_gate::people::{Arrival, MAX_SESSIONS, NewCookie, People, Session, User, WELCOME};

/// Under which name wrong links are counted; no user has it.
const LINKS: &str = "\0links";
/// Longest name of a browser that is kept.
const MAX_BROWSER: usize = 200;

#[utoipa::path(get, path = "/api/session", responses((status = 200, body = Who)), tag = "people")]
/// Show who makes the request, and their rights.
pub async fn who(State(hub): State<Hub>, By(caller): By, headers: HeaderMap) -> Result<Response<Body>, ApiError> {
    let now = clock::now();
    let due = caller.session.as_ref().filter(|session| session.is_due(now));
    match due {
        Some(session) => {
            let _turn = hub.operators.people.turn.lock().await;
            let cookie = renewed(&hub, session, false, None).await?;
            Ok(answer(&hub, &headers, &caller, Some(&cookie)))
        }
        None => Ok(answer(&hub, &headers, &caller, None)),
    }
}

#[utoipa::path(post, path = "/api/session", request_body = SignIn, responses((status = 200, body = Who), (status = 401), (status = 429)), tag = "people")]
/// Sign in with a password. The answer sets the cookie of a new session.
pub async fn sign_in(
    State(hub): State<Hub>,
    MaybeCaller(before): MaybeCaller,
    From(from): From,
    headers: HeaderMap,
    Json(body): Json<SignIn>,
) -> Result<Response<Body>, ApiError> {
    let people = &hub.operators.people;
    let found = people.find(&body.user);
    check_password(&hub, &body.user, found.as_ref(), body.password, from).await?;
    let Some(user) = found else { return Err(ApiError::internal()) };
    crate::totp::check(&hub, &user, body.totp.as_ref(), from)?;
    people.attempts.succeeded(&body.user, from);
    let _turn = people.turn.lock().await;
    // They may have been removed, or have got another password, while theirs was looked at.
    let user = people.find(&body.user).filter(|now| now.password == user.password).ok_or_else(wrong)?;
    open(&hub, &headers, from, Some(&user), "password", before.as_ref()).await
}

#[utoipa::path(delete, path = "/api/session", responses((status = 200)), tag = "people")]
/// Sign out: the session ends.
pub async fn sign_out(
    State(hub): State<Hub>,
    By(caller): By,
    headers: HeaderMap,
) -> Result<Response<Body>, ApiError> {
    let session = own_session(&caller)?;
    let stored = end(&hub, &caller, session, "signed out").await?;
    let mut response = stored.answer(&json!({ "ok": true }))?.into_response();
    if let Some(cookie) = Way::of(&hub, &headers).clear() {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    Ok(response)
}

#[utoipa::path(post, path = "/api/session/step-up", request_body = StepUp, responses((status = 200, body = Who), (status = 401), (status = 429)), tag = "people")]
/// Show the password once more: for five minutes the session may do what needs it.
pub async fn step_up(
    State(hub): State<Hub>,
    By(caller): By,
    headers: HeaderMap,
    Json(body): Json<StepUp>,
) -> Result<Response<Body>, ApiError> {
    let session = own_session(&caller)?;
    let people = &hub.operators.people;
    let user = session.user().and_then(|id| people.user(id));
    check_password(&hub, &caller.token.name, user.as_ref(), body.password, caller.address).await?;
    stepped_up(&hub, &headers, &caller, session, "password").await
}

#[utoipa::path(post, path = "/api/session/link", request_body = SignInByLink, responses((status = 200, body = Who), (status = 401), (status = 429)), tag = "people")]
/// Sign in by a one-time link.
pub async fn link(
    State(hub): State<Hub>,
    MaybeCaller(before): MaybeCaller,
    From(from): From,
    headers: HeaderMap,
    Json(body): Json<SignInByLink>,
) -> Result<Response<Body>, ApiError> {
    let people = &hub.operators.people;
    let now = clock::now();
    let secret = body.secret.0.reveal();
    let hash = TokenHash::of(secret.rsplit('#').next().unwrap_or(secret));
    let _turn = people.turn.lock().await;
    let unknown = || {
        // The secret has 256 random bits, so this is about noise, and who has a good link is never slowed.
        if let Some(seconds) = people.attempts.blocked_for(LINKS, from, now) {
            return slowed(&hub, from, seconds);
        }
        people.attempts.failed(LINKS, from, now);
        refused(&hub, from);
        ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized", "this link was used, has expired or was replaced")
            .hint("an admin makes a new one with `convoke users link NAME`; the first one comes with the hub's start")
    };
    if let Some(id) = people.openings.take(&hash, now) {
        let user = people.user(id).ok_or_else(unknown)?;
        return opened(&hub, &headers, from, &user, before.as_ref()).await;
    }
    let link = hub.store.link(hash, now).await?.ok_or_else(unknown)?;
    let user = match link.user {
        Some(id) => Some(people.user(id).ok_or_else(unknown)?),
        None => None,
    };
    let NewCookie { value, row } = People::sign_in(&arrival(&hub, &headers, from, user.as_ref()), now);
    let record = signed_in(user.as_ref(), row.id, "link", from);
    if !hub.store.use_link(hash, row.clone(), record).await? {
        return Err(unknown());
    }
    let session = people.admit(&row);
    settle_in(&hub, from, user.as_ref(), session, &value, &headers, before.as_ref()).await
}

#[utoipa::path(get, path = "/api/sessions", params(SessionQuery), responses((status = 200, body = SessionList)), tag = "people")]
/// List the sessions of whoever asks; all of them for those who may change users.
pub async fn list(
    State(hub): State<Hub>,
    By(caller): By,
    QueryOf(query): QueryOf<SessionQuery>,
) -> Result<Json<SessionList>, ApiError> {
    let limit = limit(query.limit)? as usize;
    let people = &hub.operators.people;
    let now = clock::now();
    let asked = query.user.as_deref().map(|name| people.find(name).ok_or_else(|| crate::users::unknown(name)));
    let asked = asked.transpose()?.map(|user| user.principal.id);
    let seen = match caller.token.grant.check(Right::Users) {
        Ok(()) => people.sessions(asked, now),
        Err(_) if asked.is_none_or(|id| id == caller.token.id) => people.sessions(Some(caller.token.id), now),
        Err(missing) => {
            record_refusal(&hub, &caller, "another user's sessions", None).await;
            return Err(ApiError::forbidden(&missing));
        }
    };
    let after = query.after.and_then(|id| seen.iter().position(|session| session.id == id)).map_or(0, |at| at + 1);
    let left = &seen[after..];
    let view = |session: &Arc<Session>| SessionView {
        id: session.id,
        user: session.user().and_then(|id| people.user(id)).map(|user| user.principal.name.clone()),
        current: caller.session.as_ref().is_some_and(|own| own.id == session.id),
        address: session.address.clone(),
        browser: session.browser.clone(),
        created_at: session.created_at,
        last_seen: session.last_seen(),
        expires_at: session.expires_at,
    };
    let (sessions, next) = Page::of(left.iter().map(view), limit, |session| session.id);
    Ok(Json(SessionList { sessions, next }))
}

#[utoipa::path(delete, path = "/api/sessions/{id}", params(("id" = String, Path)), responses((status = 200), (status = 404)), tag = "people")]
/// End a session: one's own, or anybody's for those who may change users.
pub async fn end_one(
    State(hub): State<Hub>,
    By(caller): By,
    PathOf(id): PathOf<String>,
) -> Result<Json<Value>, ApiError> {
    let unknown = || ApiError::not_found("the session does not exist");
    let id: SessionId = id.parse().map_err(|_| unknown())?;
    let session = hub.operators.people.session(id, clock::now()).ok_or_else(unknown)?;
    if session.user() != Some(caller.token.id) && caller.token.grant.check(Right::Users).is_err() {
        record_refusal(&hub, &caller, "ending another user's session", None).await;
        return Err(unknown());
    }
    let stored = end(&hub, &caller, &session, "session ended").await?;
    stored.answer(&json!({ "ok": true, "id": id }))
}

/// The session of who is signed in.
pub fn own_session(caller: &Caller) -> Result<&Arc<Session>, ApiError> {
    caller
        .session
        .as_ref()
        .ok_or_else(|| ApiError::bad_request("this is for a person who is signed in, and the request has a token"))
}

/// The answer to a wrong name or password: it does not say which.
fn wrong() -> ApiError {
    ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized", "the name or the password is wrong")
}

/// A stranger was refused.
pub fn refused(hub: &Hub, from: IpAddr) {
    hub.strangers.refused(from, Door::Page);
    hub.metrics.refused(Door::Page.name(), "stranger");
}

/// Nobody at that address is listened to for so long.
pub fn slowed(hub: &Hub, from: IpAddr, seconds: u32) -> ApiError {
    refused(hub, from);
    ApiError::limited("too many wrong passwords, codes, passkeys or links; try again later", seconds)
}

/// Whether this is the user's password, for whoever may still try.
async fn check_password(
    hub: &Hub,
    name: &str,
    user: Option<&User>,
    password: Secret,
    from: IpAddr,
) -> Result<(), ApiError> {
    let people = &hub.operators.people;
    if let Some(seconds) = people.attempts.blocked_for(name, from, clock::now()) {
        return Err(slowed(hub, from, seconds));
    }
    let kept = user.and_then(|user| user.password.clone());
    let right = people.passwords.is_right(password.0, kept, from).await;
    if right.map_err(|Busy| busy())? {
        return Ok(());
    }
    people.attempts.failed(name, from, clock::now());
    refused(hub, from);
    Err(wrong())
}

/// The answer while too many passwords are looked at.
pub fn busy() -> ApiError {
    ApiError::busy("too many people are signing in at once; try again shortly")
}

fn arrival(hub: &Hub, headers: &HeaderMap, from: IpAddr, user: Option<&User>) -> Arrival {
    let browser = headers.get(header::USER_AGENT).and_then(|name| name.to_str().ok()).unwrap_or_default();
    let browser = redact::clean_text(&browser[..browser.floor_char_boundary(MAX_BROWSER)]);
    let lasts = match user {
        Some(_) => Way::of(hub, headers).lasts(),
        // As long as the link itself would have been good.
        None => Duration::from_secs(3600),
    };
    Arrival { user: user.map(|user| user.principal.id), address: from, browser, lasts }
}

fn signed_in(user: Option<&User>, id: SessionId, how: &str, from: IpAddr) -> Draft {
    let detail = json!({ "what": "signed in", "how": how, "session": id, "address": from.to_string() });
    let mut record = Draft::new(clock::now(), Kind::Auth).detail(&detail);
    record.who = Some(user.map_or_else(|| WELCOME.to_owned(), |user| user.principal.name.clone()));
    record.door = Some(Door::Page);
    record.decision = Some(Decision::Allowed);
    record
}

/// Opens a session for who has shown who they are. In the turn of who changes people.
pub async fn open(
    hub: &Hub,
    headers: &HeaderMap,
    from: IpAddr,
    user: Option<&User>,
    how: &str,
    before: Option<&Caller>,
) -> Result<Response<Body>, ApiError> {
    let NewCookie { value, row } = People::sign_in(&arrival(hub, headers, from, user), clock::now());
    hub.store.put_session(row.clone(), Some(signed_in(user, row.id, how, from))).await?;
    let session = hub.operators.people.admit(&row);
    settle_in(hub, from, user, session, &value, headers, before).await
}

/// Opens a session for whoever has a token of the user's: what needs a step-up needs a password or passkey first.
async fn opened(
    hub: &Hub,
    headers: &HeaderMap,
    from: IpAddr,
    user: &User,
    before: Option<&Caller>,
) -> Result<Response<Body>, ApiError> {
    let NewCookie { value, mut row } = People::sign_in(&arrival(hub, headers, from, Some(user)), clock::now());
    row.stepped_up_at = Timestamp::from_millis(0);
    hub.store.put_session(row.clone(), Some(signed_in(Some(user), row.id, "a token", from))).await?;
    let session = hub.operators.people.admit(&row);
    settle_in(hub, from, Some(user), session, &value, headers, before).await
}

/// A new session is in force: the one that the same browser had ends, and the oldest of too many.
async fn settle_in(
    hub: &Hub,
    from: IpAddr,
    user: Option<&User>,
    session: Arc<Session>,
    value: &SecretText,
    headers: &HeaderMap,
    before: Option<&Caller>,
) -> Result<Response<Body>, ApiError> {
    let people = &hub.operators.people;
    let caller = people.by_cookie(value.hash(), clock::now());
    let (_, token) = caller.ok_or_else(ApiError::internal)?;
    let caller = Caller { token, session: Some(Arc::clone(&session)), door: Door::Page, address: from };
    if let Some(old) = before.and_then(|before| before.session.as_ref()) {
        let _ = end(hub, &caller, old, "session replaced").await?;
    }
    if let Some(user) = user {
        let all = people.sessions(Some(user.principal.id), clock::now());
        let over = all.len().saturating_sub(MAX_SESSIONS);
        for oldest in &all[..over] {
            let _ = end(hub, &caller, oldest, "session replaced").await?;
        }
        tell(hub, &user.principal.name, "signed in");
    }
    Ok(answer(hub, headers, &caller, Some(value)))
}

/// Tells whoever watches that something about a user has changed.
pub fn tell(hub: &Hub, user: &str, what: &str) {
    hub.events.publish(Event::User(UserEvent { user: user.to_owned(), what: what.to_owned() }));
}

/// A session ends, and with it what its user reads.
pub async fn end(hub: &Hub, by: &Caller, session: &Session, what: &str) -> Result<Stored, ApiError> {
    let people = &hub.operators.people;
    let whose = session.user().and_then(|id| people.user(id)).map(|user| user.principal.name.clone());
    let detail = json!({ "what": what, "session": session.id, "user": whose });
    let mut record = Draft::new(clock::now(), Kind::Auth).detail(&detail);
    record.who = Some(by.token.name.clone());
    record.door = Some(by.door);
    record.decision = Some(Decision::Allowed);
    // In force before it is kept: what is withdrawn waits for no disk.
    people.end_session(session.id);
    if let Some(id) = session.user() {
        hub.events.end_streams(id);
    }
    let stored = Stored::of(hub.store.end_session(session.id, record).await)?;
    tell(hub, whose.as_deref().unwrap_or(WELCOME), what);
    Ok(stored)
}

/// Another value for a session's cookie, kept and in force. In the turn of who changes people.
pub async fn renewed(
    hub: &Hub,
    session: &Session,
    stepped_up: bool,
    record: Option<Draft>,
) -> Result<SecretText, ApiError> {
    let now = clock::now();
    let NewCookie { value, row } = People::another_cookie(session, stepped_up, None, now);
    if !session.is_active(now) {
        return Err(ApiError::unauthorized("this session has ended; sign in again"));
    }
    match hub.store.put_session(row.clone(), record).await {
        // Whoever withdraws something shows who they are first, and a full disk must not be in their way. After a restart the
        // session has its older cookie.
        Err(why) if stepped_up && why.is_of_the_storage() => tracing::error!(%why, "cannot store a step-up"),
        kept => kept?,
    }
    hub.operators.people.renew(session, &row, now);
    Ok(value)
}

/// Somebody has shown who they are once more.
pub async fn stepped_up(
    hub: &Hub,
    headers: &HeaderMap,
    caller: &Caller,
    session: &Session,
    how: &str,
) -> Result<Response<Body>, ApiError> {
    let _turn = hub.operators.people.turn.lock().await;
    let detail = json!({ "what": "stepped up", "how": how, "session": session.id });
    let mut record = Draft::new(clock::now(), Kind::Auth).detail(&detail);
    record.who = Some(caller.token.name.clone());
    record.door = Some(caller.door);
    record.decision = Some(Decision::Allowed);
    let cookie = renewed(hub, session, true, Some(record)).await?;
    Ok(answer(hub, headers, caller, Some(&cookie)))
}

/// Who is signed in, with the cookie of their session if it has a new one.
pub fn answer(hub: &Hub, headers: &HeaderMap, caller: &Caller, cookie: Option<&SecretText>) -> Response<Body> {
    let mut response = Json(view(hub, caller)).into_response();
    let way = Way::of(hub, headers);
    let set = cookie
        .zip(caller.session.as_ref())
        .and_then(|(value, session)| way.set(value, session.expires_at.since(clock::now())));
    if let Some(set) = set {
        response.headers_mut().append(header::SET_COOKIE, set);
    }
    response
}

fn view(hub: &Hub, caller: &Caller) -> Who {
    let people = &hub.operators.people;
    let grant = &caller.token.grant;
    let welcome = caller.is_welcome();
    let has = |right: &Right| if welcome { *right == Right::Users } else { grant.check(*right).is_ok() };
    let user = caller.session.as_ref().and_then(|session| people.user(session.user()?));
    Who {
        user: (!welcome).then(|| caller.token.name.clone()),
        role: grant.role,
        rights: Right::HELD.iter().filter(|right| has(right)).map(|right| right.name().to_owned()).collect(),
        scopes: grant.scopes.clone(),
        welcome,
        session: caller.session.as_ref().map(|session| OwnSession {
            id: session.id,
            expires_at: session.expires_at,
            stepped_up_until: session.stepped_up_until(),
            has_password: user.as_ref().is_some_and(|user| user.password.is_some()),
            has_totp: user.as_ref().is_some_and(|user| user.totp.is_some()),
            passkeys: user.as_ref().map_or(0, |user| people.passkeys(user.principal.id).len()),
        }),
    }
}
