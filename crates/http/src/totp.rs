//! One-time codes over HTTP.

use std::net::IpAddr;

use axum::extract::State;
use axum::http::StatusCode;
use convoke_api::people::{Secret, TotpCode, TotpSecret};
use convoke_core::secret::SecretBytes;
use convoke_store::Ends;
use serde_json::{Value, json};

use convoke_doors::ApiError;
use convoke_doors::extract::{By, Json, PathOf};
use convoke_gate::clock;
use convoke_gate::hub::Hub;
use convoke_gate::people::User;

use crate::passkeys::{own, own_or_managed};
use crate::session::{refused, slowed, tell};
use crate::users::{record, unknown};

#[utoipa::path(post, path = "/api/users/{name}/totp", params(("name" = String, Path)), responses((status = 200, body = TotpSecret), (status = 409)), tag = "people")]
/// Make a secret for one's own one-time codes, shown once. It is in use once a code of it was shown.
pub async fn begin(
    State(hub): State<Hub>,
    By(caller): By,
    PathOf(name): PathOf<String>,
) -> Result<Json<TotpSecret>, ApiError> {
    let user = own(&hub, &caller, &name, "another user's one-time codes").await?;
    if user.totp.is_some() {
        return Err(ApiError::conflict("you use one-time codes already").hint("first turn them off"));
    }
    let made = hub.operators.people.codes.begin(user.principal.id, &name);
    let made = made.ok_or_else(|| ApiError::busy("too many people set up one-time codes at once"))?;
    Ok(Json(TotpSecret { secret: Secret(made.text), uri: Secret(made.uri) }))
}

#[utoipa::path(post, path = "/api/users/{name}/totp/confirm", params(("name" = String, Path)), request_body = TotpCode, responses((status = 200), (status = 401), (status = 429)), tag = "people")]
/// Use one-time codes from now on: show one of the new secret.
pub async fn confirm(
    State(hub): State<Hub>,
    By(caller): By,
    PathOf(name): PathOf<String>,
    Json(body): Json<TotpCode>,
) -> Result<Json<Value>, ApiError> {
    let people = &hub.operators.people;
    let user = own(&hub, &caller, &name, "another user's one-time codes").await?;
    let from = caller.address;
    if let Some(seconds) = people.attempts.blocked_for(&name, from, clock::now()) {
        return Err(slowed(&hub, from, seconds));
    }
    let Some(secret) = people.codes.confirm(user.principal.id, body.code.0.reveal()) else {
        people.attempts.failed(&name, from, clock::now());
        return Err(wrong("the code is wrong, or the secret was made more than ten minutes ago"));
    };
    set(&hub, &name, Some(secret), record(&caller, &name, "one-time codes on", json!({}))).await?;
    Ok(Json(json!({ "ok": true, "name": name })))
}

#[utoipa::path(delete, path = "/api/users/{name}/totp", params(("name" = String, Path)), responses((status = 200), (status = 404)), tag = "people")]
/// Turn one-time codes off: one's own, or anybody's for those who may change users.
pub async fn remove(
    State(hub): State<Hub>,
    By(caller): By,
    PathOf(name): PathOf<String>,
) -> Result<Json<Value>, ApiError> {
    let user = own_or_managed(&hub, &caller, &name, "turning off another user's one-time codes").await?;
    if caller.token.id != user.principal.id {
        let scopes = &user.principal.grant.scopes;
        crate::users::check_hands_on(&hub, &caller, scopes, "changing a user who may approve").await?;
    }
    if caller.session.as_ref().is_some_and(|session| !session.is_stepped_up(clock::now())) {
        return Err(ApiError::step_up());
    }
    set(&hub, &name, None, record(&caller, &name, "one-time codes off", json!({}))).await?;
    hub.operators.people.codes.forget(user.principal.id);
    Ok(Json(json!({ "ok": true, "name": name })))
}

async fn set(
    hub: &Hub,
    name: &str,
    secret: Option<SecretBytes>,
    record: convoke_core::journal::Draft,
) -> Result<(), ApiError> {
    let people = &hub.operators.people;
    let _turn = people.turn.lock().await;
    let mut row = people.find(name).ok_or_else(|| unknown(name))?.row();
    row.totp = secret;
    if !hub.store.set_user(row.clone(), Ends::Nothing, record).await? {
        return Err(unknown(name));
    }
    people.put_user(row);
    tell(hub, name, "changed");
    Ok(())
}

/// Whether the code is right, where the user has codes. The password was.
pub fn check(hub: &Hub, user: &User, code: Option<&Secret>, from: IpAddr) -> Result<(), ApiError> {
    let Some(secret) = &user.totp else { return Ok(()) };
    let people = &hub.operators.people;
    let Some(code) = code else { return Err(wrong("this needs a one-time code, too")) };
    if people.codes.is_right(user.principal.id, secret, code.0.reveal()) {
        return Ok(());
    }
    people.attempts.failed(&user.principal.name, from, clock::now());
    refused(hub, from);
    Err(wrong("the one-time code is wrong or was used"))
}

fn wrong(message: &str) -> ApiError {
    ApiError::new(StatusCode::UNAUTHORIZED, "totp", message)
        .hint("the app shows another code every 30 seconds; who has lost it asks an admin for a one-time link")
}
