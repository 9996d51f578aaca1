//! Passkeys over HTTP: making one, signing in with one, listing and removing them.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Response, StatusCode, header};
use convoke_api::passkeys::{NewPasskey, PasskeyAnswer, PasskeyChallenge, PasskeyList, PasskeySupport, PasskeyView};
use convoke_api::people::Who;
use convoke_core::grant::Right;
use convoke_store::PasskeyRow;
use serde_json::{Value, json};

use convoke_doors::ApiError;
use convoke_doors::From;
use convoke_doors::extract::{By, Json, MaybeCaller, PathOf};
use convoke_doors::keeper::record_refusal;
use convoke_doors::withdrawn::Stored;
use convoke_gate::clock;
use convoke_gate::hub::Hub;
use convoke_gate::operators::Caller;
use convoke_gate::people::User;
use convoke_gate::people::passkeys::{Challenge, MAX_PASSKEYS, Refused, RelyingParty, made_for};

use crate::session::{open, refused, slowed, stepped_up, tell};
use crate::users::{record, unknown};

/// Longest name of a passkey.
const MAX_NAME: usize = 64;

/// Under which name wrong passkeys are counted; no user has it.
const PASSKEYS: &str = "\0passkeys";

#[utoipa::path(get, path = "/api/session/passkey", responses((status = 200, body = PasskeySupport)), tag = "people")]
/// Whether passkeys can be used at the address that the request names, and if not, why.
pub async fn support(State(hub): State<Hub>, headers: HeaderMap) -> Json<PasskeySupport> {
    let reason = party(&hub, &headers).err().map(|(why, _)| why);
    let relying_party = RelyingParty::of(&hub).ok().map(|party| party.id().to_owned());
    let url = relying_party.is_some().then(|| hub.page_url());
    Json(PasskeySupport { available: reason.is_none(), relying_party, reason, url })
}

#[utoipa::path(post, path = "/api/session/passkey/challenge", responses((status = 200, body = PasskeyChallenge), (status = 409), (status = 429)), tag = "people")]
/// Ask for what `navigator.credentials.get` is to answer: to sign in, or in a session to show one's passkey again.
pub async fn challenge(
    State(hub): State<Hub>,
    MaybeCaller(caller): MaybeCaller,
    From(from): From,
    headers: HeaderMap,
) -> Result<Json<PasskeyChallenge>, ApiError> {
    let people = &hub.operators.people;
    let party = party(&hub, &headers).map_err(none_here)?;
    let own = caller.and_then(|caller| caller.session.as_ref()?.user());
    let own = own.map(|id| (id, people.passkeys(id))).filter(|(_, have)| !have.is_empty());
    let made = match own {
        Some((id, have)) => people.challenges.step_up(&party, id, &have),
        None => people.challenges.sign_in(&party, from),
    };
    made.map(view_of_challenge).map_err(not_taken)
}

#[utoipa::path(post, path = "/api/session/passkey", request_body = PasskeyAnswer, responses((status = 200, body = Who), (status = 401), (status = 429)), tag = "people")]
/// Sign in with a passkey; in a session of the same user it counts as a step-up instead.
pub async fn sign_in(
    State(hub): State<Hub>,
    MaybeCaller(before): MaybeCaller,
    From(from): From,
    headers: HeaderMap,
    Json(body): Json<PasskeyAnswer>,
) -> Result<Response<Body>, ApiError> {
    let people = &hub.operators.people;
    // A passkey is not guessed: only who shows a wrong one is slowed.
    let wrong = |why: Refused| {
        if let Some(seconds) = people.attempts.blocked_for(PASSKEYS, from, clock::now()) {
            return slowed(&hub, from, seconds);
        }
        people.attempts.failed(PASSKEYS, from, clock::now());
        refused(&hub, from);
        not_taken(why)
    };
    let party = RelyingParty::of(&hub).map_err(|no| none_here((no.why, None)))?;
    let own = before.as_ref().and_then(|caller| caller.session.as_ref()?.user());
    let found = people.challenges.shown(&party, own, &body.challenge_id, body.credential, |id| people.passkey(id));
    let shown = found.map_err(wrong)?;
    // In this order: whoever removes the passkey meanwhile has the last word.
    let turn = people.turn.lock().await;
    let kept = people.passkey(&shown.row.id).ok_or_else(|| wrong(Refused::Unknown))?;
    let user = people.user(shown.user).ok_or_else(|| wrong(Refused::Unknown))?;
    if kept.body != shown.row.body {
        hub.store.put_passkey(shown.row.clone(), None).await?;
        people.put_passkey(shown.row);
    }
    people.attempts.succeeded(&user.principal.name, from);
    let same = before.as_ref().and_then(|caller| Some((caller, caller.session.as_ref()?)));
    match same.filter(|(_, session)| session.user() == Some(shown.user)) {
        Some((caller, session)) => {
            drop(turn);
            stepped_up(&hub, &headers, caller, session, "passkey").await
        }
        None => open(&hub, &headers, from, Some(&user), "passkey", before.as_ref()).await,
    }
}

#[utoipa::path(get, path = "/api/users/{name}/passkeys", params(("name" = String, Path)), responses((status = 200, body = PasskeyList), (status = 404)), tag = "people")]
/// List a user's passkeys: one's own, or anybody's for those who may change users.
pub async fn list(
    State(hub): State<Hub>,
    By(caller): By,
    PathOf(name): PathOf<String>,
) -> Result<Json<PasskeyList>, ApiError> {
    let user = own_or_managed(&hub, &caller, &name, "another user's passkeys").await?;
    let party = RelyingParty::of(&hub).ok();
    let passkeys = hub.operators.people.passkeys(user.principal.id);
    let passkeys = passkeys.into_iter().map(|row| view(party.as_ref(), row)).collect();
    Ok(Json(PasskeyList { passkeys }))
}

#[utoipa::path(post, path = "/api/users/{name}/passkeys/challenge", params(("name" = String, Path)), responses((status = 200, body = PasskeyChallenge), (status = 409)), tag = "people")]
/// Ask for what `navigator.credentials.create` is to answer: for a passkey of one's own.
pub async fn begin(
    State(hub): State<Hub>,
    By(caller): By,
    PathOf(name): PathOf<String>,
    headers: HeaderMap,
) -> Result<Json<PasskeyChallenge>, ApiError> {
    let user = own(&hub, &caller, &name, "another user's passkey").await?;
    let party = party(&hub, &headers).map_err(none_here)?;
    let people = &hub.operators.people;
    let have = people.passkeys(user.principal.id);
    if have.len() >= MAX_PASSKEYS {
        return Err(ApiError::conflict(format!("a user has at most {MAX_PASSKEYS} passkeys; remove one first")));
    }
    people.challenges.register(&party, &user, &have).map(view_of_challenge).map_err(not_taken)
}

#[utoipa::path(post, path = "/api/users/{name}/passkeys", params(("name" = String, Path)), request_body = NewPasskey, responses((status = 200, body = PasskeyView), (status = 409)), tag = "people")]
/// Keep a passkey that the browser made for the challenge.
pub async fn add(
    State(hub): State<Hub>,
    By(caller): By,
    PathOf(name): PathOf<String>,
    Json(body): Json<NewPasskey>,
) -> Result<Json<PasskeyView>, ApiError> {
    let NewPasskey { challenge_id, name: called, credential } = body;
    let called = called.unwrap_or_else(|| "passkey".into());
    if called.trim().is_empty() || called.chars().count() > MAX_NAME || called.chars().any(char::is_control) {
        return Err(ApiError::bad_request(format!("`name` must be 1 to {MAX_NAME} characters without line breaks")));
    }
    let user = own(&hub, &caller, &name, "another user's passkey").await?;
    let party = RelyingParty::of(&hub).map_err(|no| none_here((no.why, None)))?;
    let people = &hub.operators.people;
    let id = user.principal.id;
    let row = people.challenges.registered(&party, id, &challenge_id, called, credential).map_err(not_taken)?;
    let _turn = people.turn.lock().await;
    if people.user(id).is_none() || people.passkeys(id).len() >= MAX_PASSKEYS {
        return Err(ApiError::conflict(format!("a user has at most {MAX_PASSKEYS} passkeys; remove one first")));
    }
    let detail = json!({ "passkey": row.name, "id": row.id });
    hub.store.put_passkey(row.clone(), Some(record(&caller, &name, "passkey added", detail))).await?;
    people.put_passkey(row.clone());
    tell(&hub, &name, "passkey added");
    Ok(Json(view(Some(&party), row)))
}

#[utoipa::path(delete, path = "/api/users/{name}/passkeys/{key}", params(("name" = String, Path), ("key" = String, Path)), responses((status = 200), (status = 404), (status = 409)), tag = "people")]
/// Remove a passkey: one's own, or anybody's for those who may change users. Sessions that it opened go on.
pub async fn remove(
    State(hub): State<Hub>,
    By(caller): By,
    PathOf((name, key)): PathOf<(String, String)>,
) -> Result<Json<Value>, ApiError> {
    let people = &hub.operators.people;
    let user = own_or_managed(&hub, &caller, &name, "removing another user's passkey").await?;
    if caller.session.as_ref().is_some_and(|session| !session.is_stepped_up(clock::now())) {
        return Err(ApiError::step_up());
    }
    let id = user.principal.id;
    let _turn = people.turn.lock().await;
    let have = people.passkeys(id);
    let row = have.iter().find(|row| row.id == key);
    let row = row.ok_or_else(|| ApiError::not_found("the passkey does not exist"))?;
    let is_own = caller.token.id == id;
    if is_own && have.len() == 1 && people.user(id).is_some_and(|user| user.password.is_none()) {
        let message = "this is your only way to sign in";
        return Err(ApiError::conflict(message).hint("first set a password or add another passkey"));
    }
    // In force before it is kept: what is withdrawn waits for no disk.
    people.remove_passkey(&row.id);
    let detail = json!({ "passkey": row.name, "id": row.id });
    let record = record(&caller, &name, "passkey removed", detail);
    let stored = Stored::of(hub.store.remove_passkey(id, &row.id, record).await)?;
    tell(&hub, &name, "passkey removed");
    stored.answer(&json!({ "ok": true, "id": row.id }))
}

/// Whoever is signed in as this user and has shown who they are just now.
pub async fn own(hub: &Hub, caller: &Caller, name: &str, what: &str) -> Result<User, ApiError> {
    let session = caller.session.as_ref().filter(|_| caller.token.name == name);
    let Some(session) = session else {
        record_refusal(hub, caller, what, None).await;
        let message = "only the user themselves does this, in their own session";
        return Err(ApiError::new(StatusCode::FORBIDDEN, "forbidden", message));
    };
    let user = hub.operators.people.find(name).ok_or_else(|| unknown(name))?;
    if !session.is_stepped_up(clock::now()) {
        return Err(ApiError::step_up());
    }
    Ok(user)
}

/// The user, for themselves and for those who may change users.
pub async fn own_or_managed(hub: &Hub, caller: &Caller, name: &str, what: &str) -> Result<User, ApiError> {
    let own = caller.session.is_some() && caller.token.name == name;
    if !own && let Err(missing) = caller.token.grant.check(Right::Users) {
        record_refusal(hub, caller, what, None).await;
        return Err(ApiError::forbidden(&missing));
    }
    hub.operators.people.find(name).ok_or_else(|| unknown(name))
}

/// For whom a passkey is at the address that a request names, else why there is none, and where there is.
fn party(hub: &Hub, headers: &HeaderMap) -> Result<RelyingParty, (String, Option<String>)> {
    let party = RelyingParty::of(hub).map_err(|no| (no.why, None))?;
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    if name.eq_ignore_ascii_case(party.id()) {
        return Ok(party);
    }
    let url = hub.page_url();
    let why = format!("passkeys of this hub are for the name {}; open {url}, or sign in with a password", party.id());
    Err((why, Some(url)))
}

fn none_here((why, url): (String, Option<String>)) -> ApiError {
    let error = ApiError::new(StatusCode::CONFLICT, "no_passkeys", why);
    match url {
        Some(url) => error.hint(format!("open {url}")),
        None => error.hint("set hub.public_url to an https address with a name"),
    }
}

fn not_taken(why: Refused) -> ApiError {
    match why {
        Refused::Malformed(_) => ApiError::bad_request(why.to_string()),
        Refused::NoChallenge | Refused::Unknown | Refused::Wrong(_) => {
            ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized", why.to_string())
        }
    }
}

fn view_of_challenge(challenge: Challenge) -> Json<PasskeyChallenge> {
    Json(PasskeyChallenge { challenge_id: challenge.id, options: challenge.options })
}

fn view(party: Option<&RelyingParty>, row: PasskeyRow) -> PasskeyView {
    let made_for = made_for(&row);
    PasskeyView {
        usable: made_for.as_deref() == party.map(RelyingParty::id),
        relying_party: made_for,
        id: row.id,
        name: row.name,
        created_at: row.created_at,
    }
}
