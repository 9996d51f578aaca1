//! A link that opens the page for whoever has a token.

use axum::extract::State;
use convoke_api::people::{OneTimeLink, OpenPage, Secret};
use convoke_core::grant::{Grant, Right};
use convoke_core::journal::{Decision, Draft, Kind};
use convoke_doors::ApiError;
use convoke_doors::extract::{By, Json, MaybeJson};
use convoke_doors::keeper::record_refusal;
use convoke_gate::clock;
use convoke_gate::hub::Hub;
use convoke_gate::people::User;
use serde_json::json;

use crate::users;

#[utoipa::path(post, path = "/api/session/open", request_body = Option<OpenPage>, responses((status = 200, body = OneTimeLink), (status = 403), (status = 409)), tag = "people")]
/// Make a link that signs in the owner of the token, once and within a minute, without step-up.
pub async fn open(
    State(hub): State<Hub>,
    By(caller): By,
    MaybeJson(body): MaybeJson<OpenPage>,
) -> Result<Json<OneTimeLink>, ApiError> {
    if caller.session.is_some() {
        return Err(ApiError::conflict("you are signed in already"));
    }
    let people = &hub.operators.people;
    let named = body.and_then(|body| body.user);
    let owner = caller.token.owner.as_deref();
    let grant = &caller.token.grant;
    let refuse = async |message: &str, hint: &str| {
        record_refusal(&hub, &caller, "opening the page", None).await;
        Err(ApiError::new(axum::http::StatusCode::FORBIDDEN, "forbidden", message).hint(hint))
    };
    let user = match (owner, named.as_deref()) {
        (Some(owner), Some(named)) if owner != named => {
            return refuse("this token opens the page as its owner only", "leave the user out").await;
        }
        (Some(owner), _) => {
            let user = people.find(owner).ok_or_else(|| users::unknown(owner))?;
            if !is_whole(grant, &user) {
                let hint = "its scopes are narrower than what its owner may do; sign in on the page";
                return refuse("this token is no substitute for its owner", hint).await;
            }
            user
        }
        (None, Some(named)) => {
            if let Err(missing) = grant.check(Right::Users) {
                record_refusal(&hub, &caller, "opening the page as a user", None).await;
                return Err(ApiError::forbidden(&missing));
            }
            let user = people.find(named).ok_or_else(|| users::unknown(named))?;
            let scopes = &user.principal.grant.scopes;
            users::check_hands_on(&hub, &caller, scopes, "opening the page as a user who may approve").await?;
            user
        }
        (None, None) => {
            if grant.check(Right::Users).is_ok()
                && let Some(secret) = users::welcome(&hub).await?
            {
                let link = Secret::new(format!("{}/welcome#{}", hub.page_url(), secret.reveal()));
                return Ok(Json(OneTimeLink { link, link_expires_at: clock::now().after(users::WELCOME_LINK) }));
            }
            return Err(ApiError::conflict("this token belongs to nobody, so there is nobody to sign in")
                .hint("name a user, as in `convoke open --user anna`, or use a token with an owner"));
        }
    };
    let (now, name) = (clock::now(), &user.principal.name);
    let mut record = Draft::new(now, Kind::User).detail(&json!({ "what": "page opened", "user": name }));
    record.who = Some(caller.token.name.clone());
    record.door = Some(caller.door);
    record.decision = Some(Decision::Allowed);
    hub.store.append(record).await?;
    let (secret, link_expires_at) = people.openings.add(user.principal.id, now);
    let link = Secret::new(format!("{}/welcome#{}", hub.page_url(), secret.reveal()));
    Ok(Json(OneTimeLink { link, link_expires_at }))
}

/// Whether a token may do all that its owner may: with less, nobody becomes more by way of the page.
fn is_whole(grant: &Grant, user: &User) -> bool {
    let of_user = &user.principal.grant;
    let approves = |grant: &Grant| grant.scopes.approve == Some(true);
    grant.role >= of_user.role
        && (!grant.scopes.narrows() || grant.scopes == of_user.scopes)
        && (approves(grant) || !approves(of_user))
}
