//! Operator tokens over HTTP.

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use convoke_api::tokens::{TokenList, TokenMinted, TokenQuery, TokenRequest, TokenView};
use convoke_core::glob;
use convoke_core::grant::{Right, Scopes};
use convoke_core::id::TokenId;
use convoke_core::journal::{Draft, Kind};
use convoke_store::TokenRow;
use serde_json::json;

use convoke_doors::ApiError;
use convoke_doors::extract::{By, Json, PathOf, QueryOf, limit};
use convoke_doors::keeper::record_refusal;
use convoke_doors::page::Page;
use convoke_doors::withdrawn::Stored;
use convoke_gate::clock;
use convoke_gate::hub::Hub;

/// Most tokens a hub keeps in force.
const MAX_TOKENS: usize = 10_000;
/// Most entries in one list of a scope.
const MAX_SCOPE_LIST: usize = 100;

#[utoipa::path(get, path = "/api/tokens", params(TokenQuery), responses((status = 200, body = TokenList)), tag = "tokens")]
/// List tokens by name, without their secrets.
pub async fn list(
    State(hub): State<Hub>,
    _: By,
    QueryOf(query): QueryOf<TokenQuery>,
) -> Result<Json<TokenList>, ApiError> {
    let limit = limit(query.limit)? as usize;
    let now = clock::now();
    let view = |token: std::sync::Arc<convoke_gate::operators::Token>| TokenView {
        id: token.id,
        name: token.name.clone(),
        owner: token.owner.clone(),
        role: token.grant.role,
        scopes: token.grant.scopes.clone(),
        state: token.state(now).into(),
        created_at: token.created_at,
        expires_at: token.expires_at,
        last_used: token.last_used(),
    };
    let mut left = hub.operators.list();
    left.retain(|token| query.after.as_ref().is_none_or(|after| token.name > *after));
    let (tokens, next) = Page::of(left.into_iter().map(view), limit, |token| token.name.clone());
    Ok(Json(TokenList { tokens, next }))
}

#[utoipa::path(post, path = "/api/tokens", request_body = TokenRequest, responses((status = 200, body = TokenMinted), (status = 409)), tag = "tokens")]
/// Create a token. It is shown once.
pub async fn mint(
    State(hub): State<Hub>,
    By(caller): By,
    Json(request): Json<TokenRequest>,
) -> Result<Json<TokenMinted>, ApiError> {
    if !is_name(&request.name) {
        return Err(ApiError::bad_request("`name` must be 1 to 64 letters, digits, '.', '_', '-', '@' or spaces"));
    }
    if request.name == "hub" {
        return Err(ApiError::bad_request("`name`: the journal calls the hub itself `hub`"));
    }
    let scopes = request.scopes.unwrap_or_default();
    check_scopes(&scopes)?;
    if scopes.approve == Some(true)
        && let Err(missing) = caller.token.grant.check(Right::Approve)
    {
        record_refusal(&hub, &caller, "minting a token that may approve", None).await;
        return Err(ApiError::forbidden(&missing).hint("only a token that may approve can create one that may"));
    }
    let now = clock::now();
    if hub.operators.count_active(now) >= MAX_TOKENS {
        return Err(ApiError::conflict("the limit of valid tokens is reached; revoke some"));
    }
    let expires_at = match request.expires_in_s {
        Some(0) => return Err(ApiError::bad_request("`expires_in_s` must be at least 1")),
        other => other.map(|s| now.after(Duration::from_secs(s))),
    };
    // Otherwise one that was given for an hour could stay for ever.
    if let Some(end) = caller.token.expires_at.filter(|end| expires_at.is_none_or(|asked| asked > *end)) {
        record_refusal(&hub, &caller, "minting a token that outlives its own", None).await;
        // By the time that it is asked for again it is less.
        let left = (end.millis().saturating_sub(now.millis()) / 1000).saturating_sub(5);
        let message = format!("this token expires at {end}, and tokens that it creates cannot be valid longer");
        let refused = ApiError::new(StatusCode::FORBIDDEN, "forbidden", message);
        return Err(if left > 0 { refused.hint(format!("give `expires_in_s` of at most {left}")) } else { refused });
    }
    // Who mints for themselves alone cannot mint somebody else who approves what they ask for.
    let person = caller.session.is_some().then(|| caller.token.name.clone());
    let owner = match (&caller.token.owner.clone().or(person), request.owner) {
        (Some(own), Some(asked)) if *own != asked => {
            record_refusal(&hub, &caller, "minting a token for somebody else", None).await;
            let message = format!("whoever asks is {own}, and so every token that they create belongs to {own}");
            return Err(ApiError::new(StatusCode::FORBIDDEN, "forbidden", message));
        }
        (Some(own), _) => Some(own.clone()),
        (None, asked) => asked,
    };
    if owner.as_deref().is_some_and(|owner| !is_name(owner)) {
        return Err(ApiError::bad_request("`owner` must be 1 to 64 letters, digits, '.', '_', '-', '@' or spaces"));
    }
    let secret = clock::token("cvk_");
    let row = TokenRow {
        id: TokenId::new(clock::uuid()),
        name: request.name,
        owner,
        hash: secret.hash(),
        role: request.role,
        scopes,
        created_at: now,
        expires_at,
        revoked_at: None,
        last_used: None,
    };
    let mut record = Draft::new(now, Kind::Token).detail(&json!({
        "what": "minted", "id": row.id, "name": row.name, "role": row.role, "scopes": row.scopes,
        "expires_at": row.expires_at, "owner": row.owner,
    }));
    record.who = Some(caller.token.name.clone());
    record.door = Some(caller.door);
    let id = row.id;
    hub.store.put_token(row.clone(), record).await?;
    hub.operators.add(row);
    Ok(Json(TokenMinted { id, token: secret.reveal().into() }))
}

/// Whether this can be the name of a token or a user.
pub fn is_name(text: &str) -> bool {
    (1..=64).contains(&text.chars().count())
        && text.chars().all(|c| c.is_alphanumeric() || "._-@ ".contains(c))
        && text.trim() == text
}

/// Whether these scopes can match anything.
pub fn check_scopes(scopes: &Scopes) -> Result<(), ApiError> {
    for (name, list) in [("tools", &scopes.tools), ("agents", &scopes.agents), ("tags", &scopes.tags)] {
        let Some(list) = list else { continue };
        if list.len() > MAX_SCOPE_LIST || list.iter().any(|g| g.is_empty() || g.len() > 128) {
            let message = format!("`scopes.{name}` takes at most {MAX_SCOPE_LIST} entries of 1 to 128 characters");
            return Err(ApiError::bad_request(message));
        }
        if !list.iter().all(|pattern| glob::is_for_names(pattern)) {
            return Err(ApiError::bad_request(format!(
                "`scopes.{name}` has an entry that never matches: a name has letters, digits, '.', '_', ':' and '-'; \
                 `*` is the wild card; write each name as its own entry"
            )));
        }
    }
    if scopes.doors.as_ref().is_some_and(Vec::is_empty) {
        return Err(ApiError::bad_request(
            "`scopes.doors` is empty, so the token would be good nowhere; leave it out for all doors",
        ));
    }
    for (name, limit) in
        [("calls_per_minute", scopes.calls_per_minute), ("concurrent_calls", scopes.concurrent_calls)]
    {
        if limit == Some(0) {
            return Err(ApiError::bad_request(format!(
                "`scopes.{name}` must be at least 1; leave it out for no limit"
            )));
        }
    }
    Ok(())
}

#[utoipa::path(delete, path = "/api/tokens/{id}", params(("id" = String, Path)), responses((status = 200), (status = 404), (status = 409)), tag = "tokens")]
/// Revoke a token: it is refused at once. The last one that can create tokens and approve cannot be revoked.
pub async fn revoke(
    State(hub): State<Hub>,
    By(caller): By,
    PathOf(id): PathOf<String>,
) -> Result<Json<serde_json::Value>, ApiError> {
    let unknown = || ApiError::not_found("the token does not exist");
    let id: TokenId = id.parse().map_err(|_| unknown())?;
    let _turn = hub.operators.revoking.lock().await;
    let token = hub.operators.list().into_iter().find(|token| token.id == id).ok_or_else(unknown)?;
    let now = clock::now();
    if token.is_revoked() {
        return Err(ApiError::conflict("this token is already revoked"));
    }
    if hub.operators.is_last(&token, now) {
        let message = "this is the last token without expiry that can create tokens and approve calls";
        return Err(ApiError::conflict(message).hint("first create another one: role admin, no scopes but approve"));
    }
    let mut record = Draft::new(now, Kind::Token).detail(&json!({ "what": "revoked", "id": id, "name": token.name }));
    record.who = Some(caller.token.name.clone());
    record.door = Some(caller.door);
    // In force before it is kept: what is withdrawn waits for no disk.
    hub.operators.revoke(id);
    hub.parts.iter().for_each(|part| part.token_revoked(id));
    convoke_gate::calls::withdraw_unsent(&hub, id);
    hub.events.end_streams(id);
    let stored = Stored::of(hub.store.revoke_token(id, now, record).await)?;
    // Revoked all the same if this fails: whoever says yes to one of them learns that it comes to nothing.
    if let Err(why) = convoke_gate::calls::withdraw_of(&hub, &caller, id).await {
        tracing::error!(%why, "cannot end the waiting calls of a revoked token");
    }
    stored.answer(&json!({ "ok": true, "id": id }))
}
