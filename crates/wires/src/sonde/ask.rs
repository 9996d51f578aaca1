//! Probes for callers: whom, what and with what, through the gate, and back in Sonde's shape.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use convoke_core::call::code;
use convoke_core::effect::Effect;
use convoke_core::grant::{Missing, Role};
use convoke_core::id::{ApprovalId, CallId};
use convoke_core::time::Timestamp;
use convoke_sonde::probe::{Answer as ProbeAnswer, Status};
use convoke_sonde::{builtin, json, params};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::cache::{Asked, Question};
use super::live::{PROBE_ERROR, PROBE_TIMEOUT, PROBE_UNAUTHORIZED};
use super::registry::SondeAgent;
use crate::Wires;
use crate::joined::{is_reached, prober, probers};
use convoke_doors::keeper::record_refusal;
use convoke_gate::agents::Agent;
use convoke_gate::answers::AnswerText;
use convoke_gate::calls::{self, Ask, Call, Outgoing, PlaceError, Placed};
use convoke_gate::link::{Answer, Failure};
use convoke_gate::operators::Caller;
use convoke_gate::resolve::{self, Unresolved, resolve};

/// Added to a waiter's own deadline, so that the link's word on it comes first.
const GRACE: Duration = Duration::from_secs(1);
/// Who asked within it has not waited for another's answer.
const AT_ONCE: Duration = Duration::from_millis(20);

/// A probe that the gate let through: from the cache, or as `transmit` gets it from the agent in the time that is left.
pub async fn cached<F>(hub: &Wires, call: &Outgoing<'_>, transmit: impl FnOnce(Duration) -> F) -> Answer
where
    F: Future<Output = Answer>,
{
    // The arguments were written from a parsed value, so equal ones are equal texts.
    let question = Question {
        agent: call.target.id.clone(),
        probe: call.call.tool.clone(),
        params: call.args.get().to_owned(),
        limited: call.token.grant.role == Role::Viewer,
    };
    let asked = through_cache(hub, question, call.timeout, call.effect, transmit);
    tokio::select! {
        biased;
        answer = asked => answer,
        // A caller can stop waiting even when another caller's request brings the answer.
        () = call.call.cancelled() => Err(calls::cancelled()),
    }
}

/// An agent's answer as callers get it: the whole response of a success, the words of a failure.
pub fn shown(answer: &ProbeAnswer<'_>, request: uuid::Uuid) -> Answer {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Shown<'a> {
        probe: &'a str,
        status: Status,
        #[serde(skip_serializing_if = "Option::is_none")]
        data: Option<&'a RawValue>,
        duration_ms: serde_json::Number,
        request_id: uuid::Uuid,
        #[serde(skip_serializing_if = "Option::is_none")]
        metadata: Option<&'a convoke_sonde::probe::Metadata>,
    }
    if answer.status != Status::Success {
        let code = match answer.status {
            Status::Timeout => PROBE_TIMEOUT,
            Status::Unauthorized => PROBE_UNAUTHORIZED,
            _ => PROBE_ERROR,
        };
        return Err(Failure::of_peer(code, answer.error.clone().unwrap_or_default()));
    }
    let data = answer.data.as_ref().map(|d| json::well_formed(d.get()).into_owned());
    let data = data.and_then(|text| RawValue::from_string(text).ok());
    let shown = Shown {
        probe: &answer.probe,
        status: answer.status,
        data: data.as_deref(),
        duration_ms: whole(answer.duration_ms.unwrap_or_default()),
        request_id: request,
        metadata: answer.metadata.as_ref(),
    };
    serde_json::value::to_raw_value(&shown)
        .map(Into::into)
        .map_err(|why| Failure::new(code::INTERNAL, format!("cannot read the agent's answer: {why}")))
}

/// A number as JavaScript would print it: whole ones without a fraction, which strict readers take for another type.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is whole and within bounds")]
fn whole(number: f64) -> serde_json::Number {
    if number.fract() == 0.0 && (0.0..9e15).contains(&number) {
        return (number as u64).into();
    }
    serde_json::Number::from_f64(number).unwrap_or_else(|| 0.into())
}

/// The answer from the cache, from a request that is under way, or from the agent. Who waited for another's answer that did
/// not come asks with the time that is left, so that the whole takes no longer than the caller's own time.
async fn through_cache<F>(
    hub: &Wires,
    question: Question,
    timeout: Duration,
    effect: Effect,
    transmit: impl FnOnce(Duration) -> F,
) -> Answer
where
    F: Future<Output = Answer>,
{
    let life = hub.settings.sonde.cache_s;
    if effect != Effect::Observe || life.is_zero() {
        return transmit(timeout).await;
    }
    let over =
        Failure::new(code::TIMEOUT, format!("Probe '{}' timed out after {}ms", question.probe, timeout.as_millis()));
    let since = hub.mono();
    let ask = || async {
        let began = hub.mono();
        let waited = began.saturating_sub(since);
        let left = if waited < AT_ONCE { timeout } else { timeout.saturating_sub(waited) };
        // Many whose time is over together do not each ask once more for nothing.
        if left.is_zero() {
            return Asked { answer: Err(over.clone()), in_time: false };
        }
        let answer = transmit(left).await;
        Asked { answer, in_time: hub.mono().saturating_sub(began) < left }
    };
    let answer = hub.sonde.cache.get(question, since, life, ask);
    match tokio::time::timeout(timeout + GRACE, answer).await {
        Ok(answer) => answer,
        Err(_) => Err(over.clone()),
    }
}

/// What a caller asks for.
#[derive(Debug)]
pub struct ProbeAsk<'a> {
    /// By name or id; absent when there is only one that can be meant.
    pub agent: Option<&'a str>,
    /// The full name of the probe.
    pub probe: &'a str,
    /// A JSON object.
    pub params: Option<Box<RawValue>>,
    /// Bounds the whole probe.
    pub timeout: Option<Duration>,
    /// `api`, or the runbook that asks.
    pub requested_by: &'a str,
}

/// A probe that has ended.
#[derive(Debug)]
pub struct ProbeReply {
    /// The call, as the journal knows it; it has ended.
    pub call: Arc<Call>,
    /// The agent.
    pub agent: Arc<SondeAgent>,
    /// Whom and what it was about.
    pub probe: String,
    /// The agent's response, or why there is none.
    pub outcome: Result<AnswerText, Failure>,
    /// From the gate to the answer.
    pub duration_ms: u64,
}

impl ProbeReply {
    /// Whether the agent answered at all, be it with a failure.
    pub fn is_answered(&self) -> bool {
        match &self.outcome {
            Ok(_) => true,
            Err(failure) => {
                let code = failure.code.as_str();
                // Over a kenny tunnel an agent refuses as it refuses its tools.
                [PROBE_ERROR, PROBE_TIMEOUT, PROBE_UNAUTHORIZED].contains(&code)
                    || failure.by_peer && [code::BLOCKED, code::DISABLED].contains(&code)
            }
        }
    }

    /// The response in Sonde's shape, of a failure too.
    pub fn shown(&self) -> Value {
        match &self.outcome {
            Ok(response) => serde_json::from_str(response.get()).unwrap_or_default(),
            Err(failure) => {
                let status = match failure.code.as_str() {
                    PROBE_TIMEOUT | code::TIMEOUT => "timeout",
                    PROBE_UNAUTHORIZED | code::BLOCKED | code::DISABLED => "unauthorized",
                    _ => "error",
                };
                let state = self.agent.state();
                let pack = self.probe.split('.').next().unwrap_or_default();
                let version = state.facts.packs.iter().find(|p| p.name == pack).map(|p| p.version.clone());
                json!({
                    "probe": self.probe, "status": status, "data": { "error": failure.message },
                    "durationMs": self.duration_ms, "requestId": self.call.id,
                    "metadata": {
                        "agentVersion": state.facts.version, "packName": pack,
                        "packVersion": version.unwrap_or_default(), "capabilityLevel": "observe",
                    },
                })
            }
        }
    }
}

/// Why a probe was not asked for.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// No such agent, probe, parameter, runbook.
    #[error("{0}")]
    Bad(String),
    /// A person must say yes first.
    #[error("call {call_id} needs a person's approval ({approval})")]
    Pending {
        /// The call.
        call_id: CallId,
        /// The approval.
        approval: ApprovalId,
        /// When it lapses.
        expires_at: Timestamp,
    },
    /// The gate did not place the call.
    #[error(transparent)]
    Refused(#[from] PlaceError),
}

/// The agent that a caller means, if it is within their reach. Out of a narrowed token's reach is the same as not there:
/// such a token must not learn which other agents exist.
pub async fn find(hub: &Wires, caller: &Caller, name: &str) -> Result<(Arc<SondeAgent>, Arc<Agent>), AskError> {
    let can = |agent: &Agent| prober(hub, &agent.id).is_some();
    match resolve(&hub.agents, caller, name, resolve::By::Name, can) {
        Ok(agent) => {
            let sonde = prober(hub, &agent.id);
            sonde.map(|sonde| (sonde, agent)).ok_or_else(|| not_found(name))
        }
        Err(Unresolved::Several { ids, count }) => {
            Err(AskError::Bad(convoke_doors::error::ambiguous(clip(name), &ids, count)))
        }
        Err(Unresolved::Nobody) => match narrowed(caller) {
            None => Err(not_found(name)),
            Some(missing) => {
                let target = hub.sonde.registry.named(name).map(|sonde| sonde.id.as_str().to_owned());
                record_refusal(hub, caller, "an agent out of reach", target.as_deref()).await;
                Err(PlaceError::Denied(missing).into())
            }
        },
    }
}

fn not_found(name: &str) -> AskError {
    AskError::Bad(format!("Agent '{}' not found or offline", clip(name)))
}

/// Whether a caller may let an agent in under this name, or under any. A token that reaches only some may let in anew
/// whom it reaches: with a name comes the place of whoever has it, and who comes for the first time has an id that
/// nobody knows yet.
pub fn check_admit(hub: &Wires, caller: &Caller, name: Option<&str>) -> Result<(), Missing> {
    let holder = name.and_then(|name| hub.sonde.registry.of_name(name));
    match narrowed(caller) {
        Some(missing) if !holder.is_some_and(|holder| is_reached(hub, caller, &holder)) => Err(missing),
        _ => Ok(()),
    }
}

/// What a token lacks that reaches only some agents.
fn narrowed(caller: &Caller) -> Option<Missing> {
    let scopes = &caller.token.grant.scopes;
    let which = [(scopes.agents.is_some(), "agents"), (scopes.tags.is_some(), "tags")];
    which.into_iter().find(|(narrows, _)| *narrows).map(|(_, scope)| Missing::Scope(scope))
}

/// The one agent that can be meant when none is named: it has these packs.
pub fn only_one(hub: &Wires, caller: &Caller, packs: &[&str]) -> Result<Arc<SondeAgent>, AskError> {
    let can = |agent: &Arc<SondeAgent>| packs.iter().all(|pack| agent.has_pack(pack));
    let mut all: Vec<_> = probers(hub, caller).into_iter().filter(can).collect();
    let what = match packs {
        [one] => format!("the pack '{}'", clip(one)),
        _ => format!("the packs {}", packs.join(", ")),
    };
    match (all.len(), all.pop()) {
        (1, Some(one)) => Ok(one),
        (0, _) => Err(AskError::Bad(format!("no agent has {what}; name one as `agent`"))),
        (n, _) => Err(AskError::Bad(format!("{n} agents have {what}; name one as `agent`"))),
    }
}

fn clip(text: &str) -> &str {
    &text[..text.floor_char_boundary(160)]
}

/// Whom a caller asks, once everything about the question is known to be good.
pub async fn prepare(hub: &Wires, caller: &Caller, ask: ProbeAsk<'_>) -> Result<(Arc<SondeAgent>, Ask), AskError> {
    let (sonde, agent) = match ask.agent {
        Some(name) => find(hub, caller, name).await?,
        None => {
            let one = only_one(hub, caller, &[ask.probe.split('.').next().unwrap_or_default()])?;
            find(hub, caller, &one.wire_id).await?
        }
    };
    if ask.probe.is_empty() || ask.probe.len() > 128 {
        return Err(AskError::Bad("`probe` must have 1 to 128 characters".into()));
    }
    let args = match ask.params {
        Some(params) => params,
        None => RawValue::from_string("{}".into()).map_err(|why| AskError::Bad(why.to_string()))?,
    };
    check(&sonde, ask.probe, args.get())?;
    let placed = Ask {
        caller: caller.clone(),
        agent,
        tool: ask.probe.to_owned(),
        args,
        timeout: ask.timeout,
        idempotency_key: None,
        requested_by: Some(ask.requested_by.into()),
    };
    Ok((sonde, placed))
}

fn running(placed: Result<Placed, PlaceError>) -> Result<Arc<Call>, AskError> {
    match placed {
        Ok(Placed::Running(call)) => Ok(call),
        Ok(Placed::Pending { call, approval, expires_at }) => {
            Err(AskError::Pending { call_id: call.id, approval, expires_at })
        }
        Err(refused) => Err(refused.into()),
    }
}

/// Asks for a probe; whoever asked waits for the call, or leaves it.
pub async fn start(
    hub: &Wires,
    caller: &Caller,
    ask: ProbeAsk<'_>,
) -> Result<(Arc<SondeAgent>, Arc<Call>), AskError> {
    let (sonde, ask) = prepare(hub, caller, ask).await?;
    Ok((sonde, place(hub, ask).await?))
}

/// Places a probe that is prepared.
pub(super) async fn place(hub: &Wires, ask: Ask) -> Result<Arc<Call>, AskError> {
    running(calls::place(hub, ask).await)
}

/// Asks for a probe, and waits for it. A caller who goes away does not take it along.
pub async fn probe(hub: &Wires, caller: &Caller, ask: ProbeAsk<'_>) -> Result<ProbeReply, AskError> {
    let probe = ask.probe.to_owned();
    let (agent, call) = start(hub, caller, ask).await?;
    Ok(ended(agent, probe, call).await)
}

/// The reply to a probe that has ended.
pub async fn ended(agent: Arc<SondeAgent>, probe: String, call: Arc<Call>) -> ProbeReply {
    let done = call.wait().await;
    let outcome = match &done.result {
        Some(result) if done.is_ok() => Ok(result.clone()),
        _ => {
            let message = done.message.clone().unwrap_or_default();
            Err(Failure { by_peer: done.by_agent, ..Failure::new(&done.outcome, message) })
        }
    };
    let duration_ms = done.duration_ms.unwrap_or_default();
    ProbeReply { call, agent, probe, outcome, duration_ms }
}

/// Checks parameters against the manifest that the hub knows; a probe of an unknown pack is the agent's to judge.
fn check(sonde: &SondeAgent, probe: &str, given: &str) -> Result<(), AskError> {
    let state = sonde.state();
    let own = state.facts.manifests.iter().find_map(|m| m.find(probe));
    let Some(spec) = own.or_else(|| builtin::find(probe).map(|(_, spec)| spec)) else { return Ok(()) };
    params::validate(&spec.params, Some(given)).map(drop).map_err(|why| AskError::Bad(format!("{probe}: {why}")))
}
