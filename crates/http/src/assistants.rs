//! Assistants over HTTP: tokens that were made for one.

use axum::extract::State;
use convoke_api::tokens::TokenChange;
use convoke_core::id::TokenId;
use convoke_core::journal::{Decision, Draft, Kind};
use serde_json::{Value, json};

use convoke_doors::ApiError;
use convoke_doors::extract::{By, Json, PathOf};
use convoke_doors::withdrawn::Stored;
use convoke_gate::clock;
use convoke_gate::hub::Hub;

#[utoipa::path(patch, path = "/api/tokens/{id}", params(("id" = String, Path)), request_body = TokenChange, responses((status = 200), (status = 404), (status = 409)), tag = "tokens")]
/// Pause an assistant: its token is refused until it is let go on. Calls of it that wait stay, and are not run meanwhile.
pub async fn pause(
    State(hub): State<Hub>,
    By(caller): By,
    PathOf(id): PathOf<String>,
    Json(change): Json<TokenChange>,
) -> Result<Json<Value>, ApiError> {
    let unknown = || ApiError::not_found("the token does not exist");
    let id: TokenId = id.parse().map_err(|_| unknown())?;
    let _turn = hub.operators.revoking.lock().await;
    let token = hub.operators.list().into_iter().find(|token| token.id == id).ok_or_else(unknown)?;
    if !token.grant.is_for_assistant() {
        return Err(ApiError::conflict("only an assistant is paused: a token whose `scopes.doors` is `[\"mcp\"]`")
            .hint("revoke another token with `DELETE /api/tokens/{id}`"));
    }
    let paused = change.paused;
    if paused {
        // In force before it is kept: what is withdrawn waits for no disk.
        token.pause(true);
        hub.parts.iter().for_each(|part| part.token_revoked(id));
        hub.events.end_streams(id);
        convoke_gate::calls::withdraw_unsent(&hub, id);
    }
    let what = if paused { "paused" } else { "let go on" };
    let mut record =
        Draft::new(clock::now(), Kind::Token).detail(&json!({ "what": what, "id": id, "name": token.name }));
    record.who = Some(caller.token.name.clone());
    record.door = Some(caller.door);
    record.decision = Some(Decision::Allowed);
    let stored = Stored::of(hub.store.pause_token(id, paused, record).await)?;
    if !paused {
        token.pause(false);
    }
    stored.answer(&json!({ "ok": true, "id": id, "paused": paused }))
}
