//! Time-boxed grants over HTTP.

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use convoke_api::grants::{GrantList, GrantRequest, GrantView};
use convoke_core::event::{Event, PolicyEvent, RuleList};
use convoke_core::grant::Right;
use convoke_core::id::GrantId;
use convoke_store::{GrantRow, StoreError};
use serde_json::{Value, json};

use convoke_doors::ApiError;
use convoke_doors::agents::in_reach;
use convoke_doors::error::clip;
use convoke_doors::extract::{By, Json, PathOf};
use convoke_doors::keeper::record_refusal;
use convoke_doors::withdrawn::Stored;
use convoke_gate::clock;
use convoke_gate::grants::{self, MAX_GRANTS, MAX_TIME};
use convoke_gate::hub::Hub;
use convoke_gate::operators::{Caller, Token};

#[utoipa::path(get, path = "/api/grants", responses((status = 200, body = GrantList)), tag = "approvals")]
/// List the time-boxed grants in force: all for those who may approve, else those of one's own assistants.
pub async fn list(State(hub): State<Hub>, By(caller): By) -> Json<GrantList> {
    let seen = hub.grants.list().into_iter().filter(|grant| sees(&hub, &caller, grant));
    Json(GrantList { grants: seen.map(|grant| view(&hub, &grant)).collect() })
}

#[utoipa::path(post, path = "/api/grants", request_body = GrantRequest, responses((status = 200, body = GrantView), (status = 409)), tag = "approvals")]
/// Say yes for a while: this assistant, this tool, this machine. Deny rules and rights hold as ever.
pub async fn give(
    State(hub): State<Hub>,
    By(caller): By,
    Json(asked): Json<GrantRequest>,
) -> Result<Json<GrantView>, ApiError> {
    let now = clock::now();
    let time = Duration::from_secs(asked.for_s);
    if time.is_zero() || time > MAX_TIME {
        let message = format!("`for_s` must be from 1 to {} (8 hours)", MAX_TIME.as_secs());
        return Err(ApiError::bad_request(message));
    }
    let assistant = assistant(&hub, &asked.assistant)?;
    let agent = in_reach(&hub, &caller, &asked.agent).await?;
    let adapter = hub.adapters.of(&agent.id);
    adapter.check(&agent, &asked.tool).map_err(ApiError::bad_request)?;
    let effect = adapter.effect(&hub, &agent, &asked.tool);
    if let Err(missing) = caller.token.grant.check_scopes(effect, &asked.tool) {
        record_refusal(&hub, &caller, "a grant for a tool out of scope", Some(agent.id.as_str())).await;
        return Err(ApiError::forbidden(&missing));
    }
    if let Err(missing) = assistant.grant.check_call(effect, &asked.tool, agent.id.as_str(), &agent.state().tags) {
        let message = format!("the assistant could not make this call anyway: {missing}");
        return Err(ApiError::conflict(message));
    }
    whose_yes(&hub, &caller, &assistant).await?;
    let row = GrantRow {
        id: GrantId::new(clock::uuid()),
        assistant: assistant.id,
        approver: caller.token.id,
        tool: asked.tool,
        agent: agent.id.clone(),
        created_at: now,
        expires_at: now.after(time),
    };
    let mut record = grants::record(&row, "grant given");
    record.who = Some(caller.token.name.clone());
    record.door = Some(caller.door);
    let turn = hub.grants.turn.lock().await;
    if hub.grants.list().len() >= MAX_GRANTS {
        return Err(ApiError::conflict("there are as many grants as there may be; end some"));
    }
    hub.store.put_grant(row.clone(), record).await?;
    hub.grants.put(row.clone());
    drop(turn);
    let told = PolicyEvent { list: RuleList::Grant, rule: row.id.to_string(), removed: false };
    hub.events.publish(Event::Policy(told));
    Ok(Json(view(&hub, &row)))
}

/// The yes that counts here is the one that counts for a call: not the asker's own, and their owner's only in a session with
/// a step-up.
async fn whose_yes(hub: &Hub, caller: &Caller, assistant: &Token) -> Result<(), ApiError> {
    match &caller.session {
        Some(session) if !session.is_stepped_up(clock::now()) => Err(ApiError::step_up()),
        None if caller.token.person() == assistant.person() => {
            record_refusal(hub, caller, "a grant for one's own assistant with a token", None).await;
            let message = "the owner of an assistant says yes only in a signed-in session, never with a token";
            Err(ApiError::new(StatusCode::FORBIDDEN, "own_call", message))
        }
        _ => Ok(()),
    }
}

#[utoipa::path(delete, path = "/api/grants/{id}", params(("id" = String, Path)), responses((status = 200), (status = 404)), tag = "approvals")]
/// End a grant at once: for those who may approve, and for the owner of the assistant.
pub async fn end(
    State(hub): State<Hub>,
    By(caller): By,
    PathOf(id): PathOf<String>,
) -> Result<Json<Value>, ApiError> {
    let unknown = || ApiError::not_found("the grant does not exist, or has ended");
    let id: GrantId = id.parse().map_err(|_| unknown())?;
    let grant = hub.grants.list().into_iter().find(|grant| grant.id == id);
    if !grant.is_some_and(|grant| sees(&hub, &caller, &grant)) {
        return Err(unknown());
    }
    let ended = grants::end(&hub, id, &caller.token.name, Some(caller.door), "somebody ended it").await;
    let stored = match StoreError::owed(ended)? {
        Some(true) => Stored::Yes,
        Some(false) => return Err(unknown()),
        None => Stored::Owed,
    };
    stored.answer(&json!({ "ok": true, "id": id }))
}

fn assistant(hub: &Hub, text: &str) -> Result<std::sync::Arc<Token>, ApiError> {
    let tokens = hub.operators.list();
    let found = tokens.into_iter().find(|token| token.name == text || token.id.to_string() == text);
    let token = found.filter(|token| token.is_active(clock::now())).ok_or_else(|| {
        ApiError::not_found(format!("there is no assistant `{}`", clip(text)))
            .hint("`convoke tokens list` shows those there are")
    })?;
    if !token.grant.is_for_assistant() {
        let message = "grants are for assistants: tokens whose `scopes.doors` is `[\"mcp\"]`";
        return Err(ApiError::conflict(message));
    }
    Ok(token)
}

fn sees(hub: &Hub, caller: &Caller, grant: &GrantRow) -> bool {
    let tags = hub.agents.find(grant.agent.as_str()).map(|agent| agent.state().tags.to_vec()).unwrap_or_default();
    let approves = caller.token.grant.check(Right::Approve).is_ok()
        && caller.token.grant.check_reach(grant.agent.as_str(), &tags).is_ok();
    let assistant = hub.operators.find(grant.assistant);
    approves || assistant.is_some_and(|assistant| assistant.person() == caller.token.person())
}

fn view(hub: &Hub, grant: &GrantRow) -> GrantView {
    let name = |id| hub.operators.find(id).map(|token| token.name.clone());
    GrantView {
        id: grant.id,
        assistant: name(grant.assistant).unwrap_or_else(|| grant.assistant.to_string()),
        approver: name(grant.approver).unwrap_or_else(|| grant.approver.to_string()),
        tool: grant.tool.clone(),
        agent: grant.agent.to_string(),
        created_at: grant.created_at,
        expires_at: grant.expires_at,
    }
}
