//! Deny rules and confirm rules over HTTP.

use axum::extract::State;
use convoke_api::policy::{ConfirmRuleShape, ConfirmRules, DenyRuleShape, DenyRules};
use convoke_core::confirm::{self, ConfirmRule};
use convoke_core::event::RuleList;
use convoke_core::guard::{self, Guard, Rule};
use convoke_core::journal::{Draft, Kind};
use serde_json::json;

use convoke_doors::ApiError;
use convoke_doors::extract::{By, Json, PathOf};
use convoke_doors::withdrawn::Stored;
use convoke_gate::clock;
use convoke_gate::hub::Hub;
use convoke_gate::link::Command;
use convoke_gate::operators::Caller;

#[utoipa::path(get, path = "/api/policy/rules", responses((status = 200, body = DenyRules)), tag = "policy")]
/// List the deny rules.
pub async fn deny_rules(State(hub): State<Hub>, _: By) -> Json<DenyRules> {
    let operator = hub.policy.current().deny.clone();
    Json(DenyRules { builtin: Guard::builtin_rules().to_vec(), operator })
}

fn record(caller: &Caller, what: &str, rule: &str, body: &serde_json::Value) -> Draft {
    let mut record = Draft::new(clock::now(), Kind::Policy).detail(&json!({ "what": what, "rule": body }));
    record.who = Some(caller.token.name.clone());
    record.door = Some(caller.door);
    record.rule = Some(rule.into());
    record
}

#[utoipa::path(post, path = "/api/policy/rules", request_body = DenyRuleShape, responses((status = 200)), tag = "policy")]
/// Add a deny rule, or replace the rule with the same id. Built-in rules cannot be replaced.
pub async fn put_deny_rule(
    State(hub): State<Hub>,
    By(caller): By,
    Json(rule): Json<Rule>,
) -> Result<Json<serde_json::Value>, ApiError> {
    guard::validate(&rule).map_err(|why| ApiError::bad_request(why.to_string()))?;
    let _turn = hub.policy.turn().await;
    let policy = hub.policy.current();
    let count = policy.deny.len();
    let is_new = !policy.deny.iter().any(|r| r.id == rule.id);
    if count >= guard::MAX_OPERATOR_RULES && is_new {
        return Err(ApiError::conflict(format!("there are already {count} rules, which is the limit")));
    }
    let body = serde_json::to_value(&rule).unwrap_or_default();
    let record = record(&caller, "deny rule put", &rule.id, &body);
    let stored = if is_new {
        // It refuses more than before: in force first, whatever the disk says.
        put_in_force(&hub, policy.deny.iter().cloned().chain([rule.clone()]).collect());
        Stored::of(hub.store.add_deny_rule(&rule, record).await)?
    } else {
        hub.store.put_deny_rule(&rule, record).await?;
        put_in_force(&hub, hub.store.deny_rules().await?);
        Stored::Yes
    };
    hub.events.rule(RuleList::Deny, &rule.id, false);
    stored.answer(&json!({ "ok": true, "rule": rule }))
}

#[utoipa::path(delete, path = "/api/policy/rules/{rule}", params(("rule" = String, Path)), responses((status = 200), (status = 404), (status = 409)), tag = "policy")]
/// Remove an operator's deny rule.
pub async fn delete_deny_rule(
    State(hub): State<Hub>,
    By(caller): By,
    PathOf(id): PathOf<String>,
) -> Result<Json<serde_json::Value>, ApiError> {
    if Guard::builtin_rules().iter().any(|rule| rule.id == id) {
        return Err(ApiError::conflict("built-in rules cannot be removed"));
    }
    let _turn = hub.policy.turn().await;
    let known = hub.policy.current().deny.iter().find(|r| r.id == id).cloned();
    let Some(rule) = known else { return Err(no_rule(&id)) };
    let body = serde_json::to_value(&rule).unwrap_or_default();
    if !hub.store.delete_deny_rule(&id, record(&caller, "deny rule removed", &id, &body)).await? {
        return Err(no_rule(&id));
    }
    put_in_force(&hub, hub.store.deny_rules().await?);
    hub.events.rule(RuleList::Deny, &rule.id, true);
    Ok(Json(json!({ "ok": true, "rule": rule })))
}

/// These rules come into force, here and at every agent. In the turn of whoever changed them.
fn put_in_force(hub: &Hub, rules: Vec<Rule>) {
    hub.policy.set_deny(rules);
    for agent in hub.agents.list(None).iter() {
        if let Some(link) = agent.link() {
            let _ = link.push(Command::PolicyChanged);
        }
    }
}

#[utoipa::path(get, path = "/api/policy/confirm", responses((status = 200, body = ConfirmRules)), tag = "policy")]
/// List the confirm rules.
pub async fn confirm_rules(State(hub): State<Hub>, _: By) -> Json<ConfirmRules> {
    Json(ConfirmRules { rules: hub.policy.current().confirm.clone() })
}

#[utoipa::path(post, path = "/api/policy/confirm", request_body = ConfirmRuleShape, responses((status = 200)), tag = "policy")]
/// Add a confirm rule, or replace the rule with the same id: calls that match it need a person.
pub async fn put_confirm_rule(
    State(hub): State<Hub>,
    By(caller): By,
    Json(rule): Json<ConfirmRule>,
) -> Result<Json<serde_json::Value>, ApiError> {
    rule.validate().map_err(|why| ApiError::bad_request(why.to_string()))?;
    let _turn = hub.policy.turn().await;
    let rules = hub.policy.current().confirm.clone();
    let is_new = !rules.iter().any(|r| r.id == rule.id);
    if rules.len() >= confirm::MAX_RULES && is_new {
        return Err(ApiError::conflict(format!("there are already {} rules, which is the limit", rules.len())));
    }
    let body = serde_json::to_value(&rule).unwrap_or_default();
    let record = record(&caller, "confirm rule put", &rule.id, &body);
    let stored = if is_new {
        hub.policy.set_confirm(rules.into_iter().chain([rule.clone()]).collect());
        Stored::of(hub.store.add_confirm_rule(&rule, record).await)?
    } else {
        hub.store.put_confirm_rule(&rule, record).await?;
        hub.policy.set_confirm(hub.store.confirm_rules().await?);
        Stored::Yes
    };
    hub.events.rule(RuleList::Confirm, &rule.id, false);
    stored.answer(&json!({ "ok": true, "rule": rule }))
}

#[utoipa::path(delete, path = "/api/policy/confirm/{id}", params(("id" = String, Path)), responses((status = 200), (status = 404)), tag = "policy")]
/// Remove a confirm rule.
pub async fn delete_confirm_rule(
    State(hub): State<Hub>,
    By(caller): By,
    PathOf(id): PathOf<String>,
) -> Result<Json<serde_json::Value>, ApiError> {
    let _turn = hub.policy.turn().await;
    let known = hub.policy.current().confirm.iter().find(|r| r.id == id).cloned();
    let Some(rule) = known else { return Err(no_rule(&id)) };
    let body = serde_json::to_value(&rule).unwrap_or_default();
    if !hub.store.delete_confirm_rule(&id, record(&caller, "confirm rule removed", &id, &body)).await? {
        return Err(no_rule(&id));
    }
    hub.policy.set_confirm(hub.store.confirm_rules().await?);
    hub.events.rule(RuleList::Confirm, &rule.id, true);
    Ok(Json(json!({ "ok": true, "rule": rule })))
}

fn no_rule(id: &str) -> ApiError {
    let message = format!("rule `{}` does not exist", convoke_doors::error::clip(id));
    ApiError::not_found(message).hint("`convoke policy list` and `convoke policy confirm list` show all rules")
}
