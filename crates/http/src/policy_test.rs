//! Trying policy out: on one call that nobody makes, and on the calls that the journal has.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use convoke_api::policy::{PolicyTest, PolicyVerdict, Replay, ReplayRequest, ReplayedCall, TestedText};
use convoke_core::confirm::{ConfirmRule, Facts};
use convoke_core::door::Door;
use convoke_core::gate::Verdict;
use convoke_core::guard::{self, Guard, Rule, Surface};
use convoke_core::id::PeerId;
use convoke_core::journal::Kind;
use convoke_core::redact;
use convoke_store::{JournalFilter, JournalRow};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use convoke_doors::ApiError;
use convoke_doors::agents::in_reach;
use convoke_doors::error::clip;
use convoke_doors::extract::{By, Json};
use convoke_doors::journal::{first_from, visible};
use convoke_gate::calls::{self, Ask, Tried};
use convoke_gate::clock;
use convoke_gate::hub::Hub;
use convoke_gate::operators::Caller;

/// Most calls that are named in a replay.
const MAX_NAMED: usize = 200;
/// How many records are read at a time.
const AT_A_TIME: u32 = 1_000;
/// How long a replay may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most days that are looked back.
const MAX_DAYS: u32 = 90;

#[utoipa::path(post, path = "/api/policy/test", request_body = PolicyTest, responses((status = 200, body = PolicyVerdict), (status = 404)), tag = "policy")]
/// What the gate would say to a call, with the rules in force or with one more. Nothing is called or recorded.
pub async fn test(
    State(hub): State<Hub>,
    By(caller): By,
    Json(test): Json<PolicyTest>,
) -> Result<Json<PolicyVerdict>, ApiError> {
    let agent = in_reach(&hub, &caller, &test.agent).await?;
    let (token, own_door) = match &test.caller {
        None => (Arc::clone(&caller.token), caller.door),
        Some(name) => {
            let found = hub
                .operators
                .named(name)
                .ok_or_else(|| ApiError::not_found(format!("there is no user or token `{}`", clip(name))))?;
            let door = if found.grant.is_for_assistant() { Door::Mcp } else { Door::Http };
            (found, door)
        }
    };
    let door = match test.door.as_deref() {
        None => own_door,
        Some(name) => Door::ALL.into_iter().find(|door| door.name() == name).ok_or_else(|| {
            ApiError::bad_request(format!("`door` must be one of {}", Door::ALL.map(Door::name).join(", ")))
        })?,
    };
    check(test.deny.as_ref(), test.confirm.as_ref())?;
    let args = test.args.unwrap_or_else(|| Value::Object(serde_json::Map::new()));
    let args = serde_json::value::to_raw_value(&args).map_err(|why| ApiError::bad_request(why.to_string()))?;
    let ask = Ask {
        caller: Caller::with_token(token, door, caller.address),
        agent,
        tool: test.tool,
        args,
        timeout: None,
        idempotency_key: None,
        requested_by: None,
    };
    let rules = hub.policy.with(test.deny, test.confirm);
    let Tried { verdict, granted, effect, texts } = calls::try_out(&hub, ask, &rules).await?;
    let texts = texts.into_iter().map(|(group, text)| TestedText { applies_to: group.name().into(), text });
    let (verdict, rule, reason, second_person) = match verdict {
        Verdict::Allowed => ("allowed", granted.map(|grant| format!("grant:{grant}")), None, false),
        Verdict::Denied(missing) => ("denied", None, Some(missing.to_string()), false),
        Verdict::Blocked(hit) => ("blocked", Some(hit.rule), Some(hit.reason), false),
        Verdict::Confirm { rule, second_person } => ("confirm", Some(rule), None, second_person),
    };
    Ok(Json(PolicyVerdict {
        verdict: verdict.into(),
        rule,
        reason,
        second_person,
        effect: effect.name().into(),
        texts: texts.collect(),
    }))
}

fn check(deny: Option<&Rule>, confirm: Option<&ConfirmRule>) -> Result<(), ApiError> {
    if let Some(rule) = deny {
        guard::validate(rule).map_err(|why| ApiError::bad_request(format!("`deny`: {why}")))?;
    }
    if let Some(rule) = confirm {
        rule.validate().map_err(|why| ApiError::bad_request(format!("`confirm`: {why}")))?;
    }
    Ok(())
}

#[utoipa::path(post, path = "/api/policy/replay", request_body = ReplayRequest, responses((status = 200, body = Replay)), tag = "policy")]
/// Which calls of the last days a rule would have refused, or asked a person for. It judges what the journal kept of them.
pub async fn replay(
    State(hub): State<Hub>,
    By(caller): By,
    Json(asked): Json<ReplayRequest>,
) -> Result<Json<Replay>, ApiError> {
    let days = asked.days.unwrap_or(30);
    if !(1..=MAX_DAYS).contains(&days) {
        return Err(ApiError::bad_request(format!("`days` must be from 1 to {MAX_DAYS}")));
    }
    check(asked.deny.as_ref(), asked.confirm.as_ref())?;
    let judge = match (asked.deny, asked.confirm) {
        (Some(rule), None) => {
            let (guard, refused) = Guard::with_operator_rules(std::slice::from_ref(&rule));
            if let Some((_, why)) = refused.into_iter().next() {
                return Err(ApiError::bad_request(format!("`deny`: {why}")));
            }
            Judge::Deny(guard, rule.id)
        }
        (None, Some(rule)) => Judge::Confirm(rule),
        _ => return Err(ApiError::bad_request("give one rule: `deny` or `confirm`")),
    };
    let judge = Arc::new(judge);
    let since = clock::now().millis() - i64::from(days) * 86_400_000;
    let first = first_from(&hub, convoke_core::time::Timestamp::from_millis(since)).await?;
    let begun = clock::steady();
    let mut replay = Replay::default();
    let mut filter = JournalFilter {
        after: Some(first.saturating_sub(1)),
        limit: AT_A_TIME,
        kind: Some(Kind::Call.name().into()),
        ..JournalFilter::default()
    };
    loop {
        let rows = hub.store.journal(filter.clone()).await?;
        let next = rows.last().filter(|_| rows.len() == AT_A_TIME as usize).map(|row| row.seq);
        let (hub, caller, judge) = (hub.clone(), caller.clone(), Arc::clone(&judge));
        let page = tokio::task::spawn_blocking(move || judge.page(&hub, &caller, rows));
        add(&mut replay, page.await.map_err(|_| ApiError::internal())?);
        let Some(next) = next else { break };
        if begun.elapsed() > PATIENCE {
            replay.truncated = true;
            break;
        }
        filter.after = Some(next);
    }
    Ok(Json(replay))
}

fn add(all: &mut Replay, page: Replay) {
    all.judged += page.judged;
    all.incomplete += page.incomplete;
    all.not_judged += page.not_judged;
    all.matched += page.matched;
    let left = MAX_NAMED.saturating_sub(all.calls.len());
    all.calls.extend(page.calls.into_iter().take(left));
}

/// What decides on each call.
enum Judge {
    Deny(Guard, String),
    Confirm(ConfirmRule),
}

/// A call as the journal kept it.
#[derive(Deserialize)]
struct Recorded {
    at: String,
    phase: Option<String>,
    who: Option<String>,
    door: Option<Door>,
    target: Option<String>,
    tool: Option<String>,
    call_id: Option<convoke_core::id::CallId>,
    args: Option<Box<RawValue>>,
    decision: Option<String>,
}

impl Judge {
    fn page(&self, hub: &Hub, caller: &Caller, rows: Vec<JournalRow>) -> Replay {
        let mut replay = Replay::default();
        for row in rows {
            let Ok(call) = serde_json::from_str::<Recorded>(row.json.get()) else { continue };
            // Each call has one; and what was refused then is refused with or without this rule.
            let went_out = call.phase.as_deref() == Some("outcome")
                && matches!(call.decision.as_deref(), Some("allowed" | "confirmed"));
            if !went_out || !visible(hub, caller, call.target.as_deref()) {
                continue;
            }
            match self.matches(hub, &call) {
                None => replay.not_judged += 1,
                Some(matches) => {
                    replay.judged += 1;
                    replay.incomplete +=
                        u64::from(call.args.as_ref().is_some_and(|args| args.get().contains(redact::REMOVED)));
                    if matches {
                        replay.matched += 1;
                        replay.calls.extend(named(row.seq, call));
                    }
                }
            }
        }
        replay
    }

    /// Whether the rule holds for a call; nothing where too little of it was kept, or its machine is gone.
    fn matches(&self, hub: &Hub, call: &Recorded) -> Option<bool> {
        let (target, tool) = (PeerId::parse(call.target.as_deref()?).ok()?, call.tool.as_deref()?);
        let adapter = hub.adapters.of(&target);
        match self {
            Self::Deny(guard, rule) => {
                let args: Value = serde_json::from_str(call.args.as_ref()?.get()).ok()?;
                if args.get("[too large to keep]").is_some() {
                    return None;
                }
                let surfaces: Vec<Surface<'_>> = adapter.surfaces(tool, &args);
                Some(guard.check(&surfaces).is_some_and(|hit| !hit.builtin && hit.rule == *rule))
            }
            Self::Confirm(rule) => {
                let agent = adapter.target(hub, &target)?;
                let tags = Arc::clone(&agent.state().tags);
                let facts = Facts {
                    tool,
                    effect: adapter.effect(hub, &agent, tool),
                    agent: agent.id.as_str(),
                    tags: &tags,
                    caller: call.who.as_deref()?,
                    door: call.door?,
                };
                // Where a person was asked anyway it changes nothing.
                Some(call.decision.as_deref() == Some("allowed") && rule.matches(&facts))
            }
        }
    }
}

fn named(seq: u64, call: Recorded) -> Option<ReplayedCall> {
    Some(ReplayedCall {
        seq,
        call_id: call.call_id?,
        at: call.at,
        who: call.who.unwrap_or_default(),
        target: call.target?,
        tool: call.tool?,
        args: call.args,
    })
}
