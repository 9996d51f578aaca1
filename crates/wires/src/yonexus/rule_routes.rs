//! Yonexus rules and messages over HTTP.

use std::collections::HashSet;

use axum::body::Body;
use axum::extract::State;
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse;
use convoke_api::calls::CallPending;
use convoke_api::yonexus::{
    MessagePage, MessageQuery, Rule, RuleList, RuleTest, SendMessage, Sent, Target, TestRule, ToClients,
};
use convoke_core::call::code;
use convoke_core::event;
use convoke_core::grant::Right;
use convoke_core::id::PeerId;
use convoke_core::journal::{Draft, Kind};
use convoke_core::secret::SecretBytes;
use convoke_store::RuleRow;
use convoke_yonexus::message::check_registered;
use convoke_yonexus::rules::MAX_RULES;
use serde_json::json;

use crate::Wires;
use crate::yonexus::clients::check_identifier;
use crate::yonexus::messages::{self, SendError};
use crate::yonexus::rules::{MAX_KEEP_S, MAX_TO};
use convoke_doors::ApiError;
use convoke_doors::extract::{By, Json, PathOf, QueryOf, limit};
use convoke_doors::keeper::record_refusal;
use convoke_doors::withdrawn::Stored;
use convoke_gate::calls::{self, Done, Placed};
use convoke_gate::clock;
use convoke_gate::operators::Caller;

/// Longest secret and address of a webhook.
const MAX_TEXT: usize = 2048;

#[utoipa::path(get, path = "/api/rules", responses((status = 200, body = RuleList)), tag = "rules")]
/// The rules in force, in order.
pub async fn list(State(hub): State<Wires>, By(caller): By) -> Json<RuleList> {
    let mut rules = hub.yonexus.rules.list();
    rules.iter_mut().for_each(|rule| as_seen(&caller, &mut rule.target));
    Json(RuleList { rules })
}

/// Leaves of a target what is the caller's to see: the clients within reach, and of a webhook's address the host, unless
/// they may change it. The address of a hook is often all that its service asks for.
fn as_seen(caller: &Caller, target: &mut Target) {
    match target {
        Target::Webhook(to) if caller.token.grant.check(Right::Policy).is_err() => to.url = host_of(&to.url),
        Target::Clients(ToClients { to: Some(names), .. }) => names.retain(|name| reaches(caller, name)),
        Target::Room { room } if !reaches_room(caller, room) => *room = OUT_OF_REACH.into(),
        Target::Inbox {} | Target::Clients(_) | Target::Webhook(_) | Target::Room { .. } => {}
    }
}

/// What is shown in place of a room that is not the caller's to see.
const OUT_OF_REACH: &str = "…";

fn reaches_room(caller: &Caller, room: &str) -> bool {
    caller.token.grant.check_reach::<String>(&crate::rooms::peer(room), &[]).is_ok()
}

fn reaches(caller: &Caller, client: &str) -> bool {
    caller.token.grant.check_reach::<String>(&messages::peer(client), &[]).is_ok()
}

/// An address without what may be a secret in it.
fn host_of(url: &str) -> String {
    let parsed = reqwest::Url::parse(url).ok();
    let host = parsed.as_ref().and_then(|url| Some((url.scheme(), url.host_str()?, url.port())));
    match host {
        Some((scheme, host, Some(port))) => format!("{scheme}://{host}:{port}/…"),
        Some((scheme, host, None)) => format!("{scheme}://{host}/…"),
        None => "…".into(),
    }
}

/// What the journal has of a change. Viewers read it, and it is never pruned.
fn record(caller: &Caller, what: &str, rule: &Rule) -> Draft {
    let mut shown = rule.clone();
    if let Target::Webhook(to) = &mut shown.target {
        to.url = host_of(&to.url);
    }
    let mut draft = Draft::new(clock::now(), Kind::Policy).detail(&json!({ "what": what, "rule": shown }));
    draft.who = Some(caller.token.name.clone());
    draft.door = Some(caller.door);
    draft.rule = Some(rule.rule.clone());
    draft
}

#[utoipa::path(post, path = "/api/rules", request_body = Rule, responses((status = 200, body = Rule), (status = 409)), tag = "rules")]
/// Add a rule, or replace the one of that identifier in its place.
pub async fn put(
    State(hub): State<Wires>,
    By(caller): By,
    Json(mut rule): Json<Rule>,
) -> Result<Json<Rule>, ApiError> {
    check_registered(&rule.rule).map_err(|why| ApiError::bad_request(format!("`rule`: {why}")))?;
    let secret = check_target(&hub, &mut rule.target)?;
    if hub.yonexus.rules.is_programs(&rule.rule) {
        return Err(ApiError::conflict("a program of this hub has registered this rule"));
    }
    let _turn = hub.yonexus.rules.turn().await;
    let known = hub.yonexus.rules.list();
    if known.len() >= MAX_RULES && !known.iter().any(|r| r.rule == rule.rule) {
        return Err(ApiError::conflict(format!("there are already {MAX_RULES} rules, which is the limit")));
    }
    let body = serde_json::to_string(&rule).unwrap_or_default();
    let row = RuleRow { rule: rule.rule.clone(), body, secret };
    hub.store.put_rule(row, record(&caller, "rule put", &rule)).await?;
    put_in_force(&hub).await?;
    hub.events.rule(event::RuleList::Message, &rule.rule, false);
    Ok(Json(rule))
}

/// Checks a target, and takes the secret out of it: that is sealed, and shown to nobody.
fn check_target(hub: &Wires, target: &mut Target) -> Result<Option<SecretBytes>, ApiError> {
    let keep = |keep_s: Option<u64>| match keep_s {
        Some(s) if s == 0 || s > MAX_KEEP_S => {
            Err(ApiError::bad_request(format!("`keep_s` is at least 1 and at most {MAX_KEEP_S}")))
        }
        _ => Ok(()),
    };
    match target {
        Target::Inbox {} => Ok(None),
        Target::Clients(to) => {
            keep(to.keep_s)?;
            if let Some(names) = &mut to.to {
                if names.is_empty() || names.len() > MAX_TO {
                    return Err(ApiError::bad_request(format!(
                        "`to` takes 1 to {MAX_TO} clients; leave it out for all others"
                    )));
                }
                for name in names.iter() {
                    check_identifier(name).map_err(|why| {
                        ApiError::bad_request(format!("`to`: `{}`: {why}", convoke_doors::error::clip(name)))
                    })?;
                }
                // Nobody gets a message twice; the order stays as it was written.
                let mut seen = HashSet::new();
                names.retain(|name| seen.insert(name.clone()));
            }
            if to.with_id && to.keep_s.is_none() {
                return Err(ApiError::bad_request("`with_id` needs `keep_s`: only kept messages have an id"));
            }
            Ok(None)
        }
        Target::Webhook(to) => {
            keep(to.keep_s)?;
            let url = reqwest::Url::parse(&to.url)
                .ok()
                .filter(|url| to.url.len() <= MAX_TEXT && ["http", "https"].contains(&url.scheme()))
                .ok_or_else(|| ApiError::bad_request("`url` must be an http:// or https:// address"))?;
            // The address is shown to whoever lists the rules, and is in the journal for ever.
            if !url.username().is_empty() || url.password().is_some() {
                return Err(ApiError::bad_request(
                    "`url` must not contain a user or a password; use `secret` to authenticate the hub",
                ));
            }
            if to.secret.as_ref().is_some_and(|s| s.is_empty() || s.len() > MAX_TEXT) {
                return Err(ApiError::bad_request(format!("`secret` takes 1 to {MAX_TEXT} bytes")));
            }
            Ok(to.secret.take().map(SecretBytes::new))
        }
        Target::Room { room } => {
            let found = convoke_kibitz::name::normal(room).filter(|name| hub.rooms.find(name).is_some());
            let missing = || {
                let named = convoke_doors::error::clip(room);
                ApiError::bad_request(format!("room `{named}` does not exist, so no rule can post into it"))
                    .hint("`convoke room list` shows all rooms; `convoke room create NAME` creates one")
            };
            *room = found.ok_or_else(missing)?;
            Ok(None)
        }
    }
}

async fn put_in_force(hub: &Wires) -> Result<(), ApiError> {
    // Read back rather than remembered, so that what is in force is what the store has.
    hub.yonexus.rules.set(hub.store.rules().await?);
    Ok(())
}

#[utoipa::path(delete, path = "/api/rules/{rule}", params(("rule" = String, Path)), responses((status = 200), (status = 404)), tag = "rules")]
/// Remove a rule.
pub async fn delete(
    State(hub): State<Wires>,
    By(caller): By,
    PathOf(name): PathOf<String>,
) -> Result<Json<serde_json::Value>, ApiError> {
    let missing = || ApiError::not_found("the rule does not exist");
    let _turn = hub.yonexus.rules.turn().await;
    let mut left = hub.yonexus.rules.list();
    let at = left.iter().position(|rule| rule.rule == name).ok_or_else(missing)?;
    let rule = left.remove(at);
    // In force first: what goes to a place that it should not must stop, whatever the disk says. The store may still have
    // others that are gone.
    let mut rows = hub.store.rules().await?;
    rows.retain(|row| left.iter().any(|rule| rule.rule == row.rule));
    hub.yonexus.rules.set(rows);
    let stored = Stored::of(hub.store.delete_rule(&name, record(&caller, "rule removed", &rule)).await)?;
    hub.events.rule(event::RuleList::Message, &rule.rule, true);
    stored.answer(&json!({ "ok": true, "rule": rule }))
}

#[utoipa::path(post, path = "/api/rules/{rule}/test", params(("rule" = String, Path)), request_body = TestRule, responses((status = 200, body = RuleTest)), tag = "rules")]
/// Show where a message of this rule would go. Nothing is sent.
pub async fn test(
    State(hub): State<Wires>,
    By(caller): By,
    PathOf(rule): PathOf<String>,
    Json(body): Json<TestRule>,
) -> Json<RuleTest> {
    let mut test = messages::test(&hub, &rule, &body);
    if let Some(target) = &mut test.target {
        as_seen(&caller, target);
    }
    match &test.target {
        Some(Target::Clients(_)) => {
            test.online.retain(|name| reaches(&caller, name));
            test.offline.retain(|name| reaches(&caller, name));
        }
        Some(Target::Room { room }) if room == OUT_OF_REACH => {
            test.online.clear();
            test.offline.clear();
        }
        _ => {}
    }
    Json(test)
}

#[utoipa::path(get, path = "/api/messages", params(MessageQuery), responses((status = 200, body = MessagePage)), tag = "rules")]
/// List messages in the inbox, in order of arrival.
pub async fn inbox(
    State(hub): State<Wires>,
    By(caller): By,
    QueryOf(query): QueryOf<MessageQuery>,
) -> Result<Json<MessagePage>, ApiError> {
    let limit = limit(query.limit)?;
    Ok(Json(messages::read(&hub, &caller, query, limit).await?))
}

#[utoipa::path(post, path = "/api/messages", request_body = SendMessage,
    responses((status = 200, body = Sent), (status = 202, body = CallPending), (status = 403), (status = 404)), tag = "rules")]
/// Send a message to clients. Where policy wants a person to say yes first, the answer is 202.
pub async fn send(
    State(hub): State<Wires>,
    By(caller): By,
    Json(body): Json<SendMessage>,
) -> Result<Response<Body>, ApiError> {
    let mut to = body.to.clone();
    let ask = match messages::ask(&hub, &caller, body) {
        Ok(ask) => ask,
        Err(why) => return Err(not_sent(&hub, &caller, why).await),
    };
    match calls::place(&hub, ask).await? {
        Placed::Running(call) => {
            to.sort_unstable();
            to.dedup();
            sent(call.wait().await, to)
        }
        Placed::Pending { call, approval, expires_at } => {
            let approval = convoke_doors::calls::pending(&call, approval, expires_at);
            Ok((StatusCode::ACCEPTED, Json(CallPending { approval, call_id: call.id })).into_response())
        }
    }
}

/// What became of a message that was let through.
fn sent(done: &Done, to: Vec<String>) -> Result<Response<Body>, ApiError> {
    match (&done.result, &*done.outcome) {
        (Some(sent), _) => Ok(Json(sent).into_response()),
        (None, code::OFFLINE) => {
            Ok(Json(Sent { id: None, sent: Vec::new(), kept: Vec::new(), offline: to }).into_response())
        }
        // The gate let it through, and then its sender's token was taken out of force.
        (None, code::DENIED) => Err(ApiError::unauthorized(done.message.as_deref().unwrap_or_default())),
        (None, _) => {
            let why = done.message.clone().unwrap_or_default();
            tracing::error!(outcome = &*done.outcome, why, "cannot send a message");
            Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "not_sent", why))
        }
    }
}

/// Why a message did not get as far as the gate; a refusal is recorded.
pub async fn not_sent(hub: &Wires, caller: &Caller, why: SendError) -> ApiError {
    match why {
        SendError::Forbidden { target, missing } => {
            // What is no id is not written down: anyone with a token could fill the journal with it.
            let target = PeerId::parse(&target).ok();
            record_refusal(hub, caller, "a message to a client", target.as_ref().map(PeerId::as_str)).await;
            ApiError::forbidden(&missing)
        }
        SendError::Unknown(_) => ApiError::not_found(why.to_string()),
        SendError::TooLarge => ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", why.to_string()),
        SendError::Rule(_) | SendError::Recipients | SendError::Keep => ApiError::bad_request(why.to_string()),
    }
}
