//! Users over HTTP.

use std::net::IpAddr;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Response, StatusCode, header};
use axum::response::IntoResponse;
use convoke_api::people::{OneTimeLink, Secret, UserAdded, UserChange, UserList, UserQuery, UserRequest, UserView};
use convoke_core::grant::{Grant, Missing, Right, Role, Scopes};
use convoke_core::id::TokenId;
use convoke_core::journal::{Decision, Draft, Kind};
use convoke_core::secret::SecretText;
use convoke_store::{Ends, LinkRow, PasswordHash, UserRow};
use serde_json::{Value, json};

use convoke_doors::ApiError;
use convoke_doors::cookie::Way;
use convoke_doors::error::clip;
use convoke_doors::extract::{By, Json, PathOf, QueryOf, limit};
use convoke_doors::keeper::record_refusal;
use convoke_doors::page::Page;
use convoke_doors::withdrawn::Stored;
use convoke_gate::calls::{withdraw_of, withdraw_unsent};
use convoke_gate::clock;
use convoke_gate::hub::Hub;
use convoke_gate::operators::Caller;
use convoke_gate::people::passwords::{Busy, MAX_LEN, MIN_LEN};
use convoke_gate::people::{MAX_USERS, NewCookie, People, User, WELCOME};

use crate::session::{busy, tell};
use crate::tokens::{check_scopes, is_name};

/// How long a user's one-time link is good.
const LINK: Duration = Duration::from_secs(24 * 3600);
/// How long the welcome link is good.
pub const WELCOME_LINK: Duration = Duration::from_secs(3600);

#[utoipa::path(get, path = "/api/users", params(UserQuery), responses((status = 200, body = UserList)), tag = "people")]
/// List users by name.
pub async fn list(
    State(hub): State<Hub>,
    _: By,
    QueryOf(query): QueryOf<UserQuery>,
) -> Result<Json<UserList>, ApiError> {
    let limit = limit(query.limit)? as usize;
    let mut left = hub.operators.people.users();
    left.retain(|user| query.after.as_ref().is_none_or(|after| user.principal.name > *after));
    let (users, next) = Page::of(left.iter().map(|user| view(&hub, user)), limit, |user| user.name.clone());
    Ok(Json(UserList { users, next }))
}

#[utoipa::path(post, path = "/api/users", request_body = UserRequest, responses((status = 200, body = UserAdded), (status = 409)), tag = "people")]
/// Add a user. Without a password the answer holds a one-time link, shown once.
pub async fn add(
    State(hub): State<Hub>,
    By(caller): By,
    headers: HeaderMap,
    Json(request): Json<UserRequest>,
) -> Result<Response<Body>, ApiError> {
    let people = &hub.operators.people;
    let mut scopes = request.scopes.unwrap_or_default();
    let mut role = request.role;
    if !is_name(&request.name) || request.name == "hub" || request.name == WELCOME {
        return Err(ApiError::bad_request(
            "`name` must be 1 to 64 letters, digits, '.', '_', '-', '@' or spaces, and not `hub` or `welcome`",
        ));
    }
    check_scopes(&scopes)?;
    if caller.is_welcome() {
        // Whoever started the hub: nobody else could give them a right.
        (role, scopes) = (Role::Admin, Scopes { approve: Some(true), ..Scopes::default() });
    } else {
        check_hands_on(&hub, &caller, &scopes, "adding a user who may approve").await?;
    }
    let password = hashed(&hub, request.password, caller.address).await?;
    let _turn = people.turn.lock().await;
    if caller.is_welcome() && people.count() > 0 {
        return Err(ApiError::conflict("there is a user by now; sign in"));
    }
    if people.count() >= MAX_USERS {
        return Err(ApiError::conflict("the limit of users is reached; remove some"));
    }
    let row = UserRow {
        id: TokenId::new(clock::uuid()),
        name: request.name,
        role,
        scopes,
        password,
        totp: None,
        created_at: clock::now(),
    };
    let (link, row_of_link) = match row.password {
        // Who makes themselves by the welcome link is signed in, and adds a passkey next.
        None if !caller.is_welcome() => {
            let (link, kept) = new_link(&hub, &row);
            (Some(link), Some(kept))
        }
        _ => (None, None),
    };
    let record = record(&caller, &row.name, "added", json!({ "role": row.role, "scopes": row.scopes }));
    hub.store.add_user(row.clone(), row_of_link, record).await?;
    people.put_user(row.clone());
    let user = people.user(row.id).ok_or_else(ApiError::internal)?;
    // Nobody comes by the welcome link any more.
    people.end_welcome(caller.session.as_ref().map(|session| session.id));
    tell(&hub, &row.name, "added");
    let mut response = Json(UserAdded { user: view(&hub, &user), link }).into_response();
    if let Some(session) = caller.session.as_ref().filter(|session| session.user().is_none()) {
        let now = clock::now();
        let NewCookie { value, row } = People::another_cookie(session, true, Some(row.id), now);
        hub.store.put_session(row.clone(), None).await?;
        people.renew(session, &row, now);
        if let Some(cookie) = Way::of(&hub, &headers).set(&value, session.expires_at.since(now)) {
            response.headers_mut().append(header::SET_COOKIE, cookie);
        }
    }
    Ok(response)
}

#[utoipa::path(patch, path = "/api/users/{name}", params(("name" = String, Path)), request_body = UserChange, responses((status = 200, body = UserView), (status = 404), (status = 409)), tag = "people")]
/// Change a user's role, scopes or password; or one's own password.
pub async fn change(
    State(hub): State<Hub>,
    By(caller): By,
    PathOf(name): PathOf<String>,
    Json(change): Json<UserChange>,
) -> Result<Json<Value>, ApiError> {
    let people = &hub.operators.people;
    let own = caller.session.is_some() && caller.token.name == name;
    if !own || change.role.is_some() || change.scopes.is_some() {
        if let Err(missing) = caller.token.grant.check(Right::Users) {
            record_refusal(&hub, &caller, "changing a user", None).await;
            return Err(ApiError::forbidden(&missing));
        }
        let before = people.find(&name).ok_or_else(|| unknown(&name))?;
        // Who sets the password of somebody may do all that they may.
        check_hands_on(&hub, &caller, &before.principal.grant.scopes, "changing a user who may approve").await?;
    }
    if caller.session.as_ref().is_some_and(|session| !session.is_stepped_up(clock::now())) {
        return Err(ApiError::step_up());
    }
    if let Some(scopes) = &change.scopes {
        check_scopes(scopes)?;
        check_hands_on(&hub, &caller, scopes, "letting a user approve").await?;
    }
    let password = hashed(&hub, change.password, caller.address).await?;
    let _turn = people.turn.lock().await;
    let user = people.find(&name).ok_or_else(|| unknown(&name))?;
    let mut row = user.row();
    row.role = change.role.unwrap_or(row.role);
    row.scopes = change.scopes.unwrap_or(row.scopes);
    let grant = Grant { role: row.role, scopes: row.scopes.clone() };
    if !grant.hands_on_everything() {
        stays(&hub, &caller, &user)?;
    }
    let ends = match &password {
        Some(_) => Ends::AllBut(caller.session.as_ref().filter(|_| own).map(|session| session.id)),
        None => Ends::Nothing,
    };
    row.password = password.or(row.password);
    let detail = json!({ "role": row.role, "scopes": row.scopes, "password": matches!(ends, Ends::AllBut(_)) });
    let is_other = grant != user.principal.grant;
    let withdraws = is_other && user.principal.grant.covers(&grant);
    let record = record(&caller, &name, "changed", detail);
    let put = |row: UserRow| {
        people.put_user(row);
        if let Ends::AllBut(kept) = ends {
            people.end_sessions(user.principal.id, kept);
        }
        if is_other || ends != Ends::Nothing {
            hub.events.end_streams(user.principal.id);
        }
    };
    let stored = if withdraws && ends == Ends::Nothing {
        // Less than before is in force before it is kept.
        put(row.clone());
        Stored::of(hub.store.withdraw_from_user(row, ends, record).await)?
    } else {
        if !hub.store.set_user(row.clone(), ends, record).await? {
            return Err(unknown(&name));
        }
        put(row);
        Stored::Yes
    };
    tell(&hub, &name, "changed");
    let user = people.find(&name).ok_or_else(|| unknown(&name))?;
    stored.answer(&view(&hub, &user))
}

#[utoipa::path(delete, path = "/api/users/{name}", params(("name" = String, Path)), responses((status = 200), (status = 404), (status = 409)), tag = "people")]
/// Remove a user: their sessions end and their tokens are revoked at once.
pub async fn remove(
    State(hub): State<Hub>,
    By(caller): By,
    PathOf(name): PathOf<String>,
) -> Result<Json<Value>, ApiError> {
    let people = &hub.operators.people;
    let _turn = people.turn.lock().await;
    let user = people.find(&name).ok_or_else(|| unknown(&name))?;
    stays(&hub, &caller, &user)?;
    let now = clock::now();
    let tokens: Vec<_> = hub.operators.list().into_iter().filter(|t| t.owner.as_deref() == Some(&*name)).collect();
    let active: Vec<_> = tokens.iter().filter(|token| token.is_active(now)).collect();
    let names: Vec<_> = active.iter().map(|token| &token.name).collect();
    let record = record(&caller, &name, "removed", json!({ "tokens": names }));
    // In force before it is kept: what is withdrawn waits for no disk.
    people.remove_user(user.principal.id);
    people.attempts.forget(&name);
    hub.notices.forget(user.principal.id);
    let all: Vec<_> = active.iter().map(|token| token.id).chain([user.principal.id]).collect();
    for &id in &all {
        hub.operators.revoke(id);
        hub.parts.iter().for_each(|part| part.token_revoked(id));
        withdraw_unsent(&hub, id);
        hub.events.end_streams(id);
    }
    let stored = Stored::of(hub.store.remove_user(user.principal.id, now, record).await)?;
    for id in all {
        if let Err(why) = withdraw_of(&hub, &caller, id).await {
            tracing::error!(%why, "cannot end the waiting calls of a removed user");
        }
    }
    tell(&hub, &name, "removed");
    stored.answer(&json!({ "ok": true, "name": name }))
}

#[utoipa::path(post, path = "/api/users/{name}/link", params(("name" = String, Path)), responses((status = 200, body = OneTimeLink), (status = 404)), tag = "people")]
/// Make a one-time link by which a user signs in, and sets a password or passkey. Their earlier link is void.
pub async fn link(
    State(hub): State<Hub>,
    By(caller): By,
    PathOf(name): PathOf<String>,
) -> Result<Json<OneTimeLink>, ApiError> {
    let _turn = hub.operators.people.turn.lock().await;
    let user = hub.operators.people.find(&name).ok_or_else(|| unknown(&name))?;
    // Whoever has the link may do all that they may.
    check_hands_on(&hub, &caller, &user.principal.grant.scopes, "a link for a user who may approve").await?;
    let (link, kept) = new_link(&hub, &user.row());
    let detail = json!({ "expires_at": kept.expires_at });
    hub.store.put_link(kept, record(&caller, &name, "link made", detail)).await?;
    tell(&hub, &name, "link made");
    Ok(Json(link))
}

/// The link behind which the first admin is made, while there is no user. The one before is void.
pub async fn welcome(hub: &Hub) -> Result<Option<SecretText>, convoke_store::StoreError> {
    if hub.operators.people.count() > 0 {
        return Ok(None);
    }
    let secret = clock::token("cvl_");
    let now = clock::now();
    let row = LinkRow { hash: secret.hash(), user: None, expires_at: now.after(WELCOME_LINK) };
    let detail = json!({ "what": "welcome link made", "expires_at": row.expires_at });
    let mut record = Draft::new(now, Kind::User).detail(&detail);
    record.who = Some("hub".into());
    hub.store.put_link(row, record).await?;
    Ok(Some(secret))
}

fn new_link(hub: &Hub, user: &UserRow) -> (OneTimeLink, LinkRow) {
    let secret = clock::token("cvl_");
    let expires_at = clock::now().after(LINK);
    let link = Secret::new(format!("{}/welcome#{}", hub.page_url(), secret.reveal()));
    let row = LinkRow { hash: secret.hash(), user: Some(user.id), expires_at };
    (OneTimeLink { link, link_expires_at: expires_at }, row)
}

/// The answer where there is no user of that name.
pub fn unknown(name: &str) -> ApiError {
    ApiError::not_found(format!("there is no user `{}`", clip(name)))
        .hint("`convoke users list` shows those there are")
}

/// Whoever hands on the right to approve has it; and whoever acts for one person alone makes nobody else.
pub async fn check_hands_on(hub: &Hub, caller: &Caller, scopes: &Scopes, what: &str) -> Result<(), ApiError> {
    if let Some(owner) = &caller.token.owner {
        record_refusal(hub, caller, "changing users with a token of one person's", None).await;
        let message = format!("this token belongs to {owner} and changes no users");
        let hint = format!("{owner} signs in and does it, or a token that belongs to nobody");
        return Err(ApiError::new(StatusCode::FORBIDDEN, "forbidden", message).hint(hint));
    }
    let missing = || -> Result<(), Missing> {
        if scopes.approve == Some(true) { caller.token.grant.check(Right::Approve) } else { Ok(()) }
    };
    if let Err(missing) = missing() {
        record_refusal(hub, caller, what, None).await;
        return Err(ApiError::forbidden(&missing).hint("only who may approve changes users who may"));
    }
    Ok(())
}

/// Refuses to lock everybody out of the page. Who has the operator's token can always make another admin.
fn stays(hub: &Hub, caller: &Caller, user: &User) -> Result<(), ApiError> {
    if caller.session.is_some() && hub.operators.people.is_last_admin(user) {
        let message = "this is the last user who can change users and approve calls";
        return Err(ApiError::conflict(message).hint("first add another one: role admin, no scopes but approve"));
    }
    Ok(())
}

async fn hashed(hub: &Hub, password: Option<Secret>, from: IpAddr) -> Result<Option<PasswordHash>, ApiError> {
    let Some(Secret(password)) = password else { return Ok(None) };
    if !(MIN_LEN..=MAX_LEN).contains(&password.reveal().len()) {
        return Err(ApiError::bad_request(format!("`password` must have {MIN_LEN} to {MAX_LEN} bytes")));
    }
    let hash = hub.operators.people.passwords.hash(password, from).await.map_err(|Busy| busy())?;
    hash.map(Some).ok_or_else(ApiError::internal)
}

/// The record of a change of a user.
pub fn record(caller: &Caller, user: &str, what: &str, mut detail: Value) -> Draft {
    detail["what"] = what.into();
    detail["user"] = user.into();
    let mut record = Draft::new(clock::now(), Kind::User).detail(&detail);
    record.who = Some(caller.token.name.clone());
    record.door = Some(caller.door);
    record.decision = Some(Decision::Allowed);
    record
}

fn view(hub: &Hub, user: &User) -> UserView {
    let people = &hub.operators.people;
    let principal = &user.principal;
    UserView {
        name: principal.name.clone(),
        role: principal.grant.role,
        scopes: principal.grant.scopes.clone(),
        has_password: user.password.is_some(),
        has_totp: user.totp.is_some(),
        passkeys: people.passkeys(principal.id).len(),
        sessions: people.sessions(Some(principal.id), clock::now()).len(),
        created_at: principal.created_at,
    }
}
