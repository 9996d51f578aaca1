//! Runs a call that may go out, and records how it ended. The caller is answered after the outcome is committed.

use std::time::Duration;

use convoke_core::call::code;
use convoke_core::gate::Verdict;
use convoke_core::id::TokenId;
use convoke_core::journal::{Decision, Phase};
use convoke_store::StoreError;

use super::adapter::{Outgoing, offline};
use super::{Done, Planned, approve, owed};
use crate::answers::{AnswerText, Reserved};
use crate::clock;
use crate::cluster::{forward, tell_call};
use crate::hub::Hub;
use crate::link::{Answer, Command, Failure};

/// Why the gate did not let a call out, if it did not.
#[derive(Debug, Default)]
struct Ruling {
    decision: Option<Decision>,
    rule: Option<String>,
}

/// Runs a call as the gate decided on it.
pub(super) async fn run(hub: &Hub, planned: Planned, verdict: Verdict) {
    let started = hub.mono();
    let (answer, ruling) = match verdict {
        Verdict::Blocked(hit) => {
            let message = format!("refused by the hub's safety policy ({}): {}", hit.rule, hit.reason);
            let ruling = Ruling { decision: Some(Decision::Blocked), rule: Some(hit.rule) };
            (Err(Failure::new(code::BLOCKED, message)), ruling)
        }
        Verdict::Denied(missing) => {
            let ruling = Ruling { decision: Some(Decision::Denied), rule: None };
            (Err(Failure::new(code::DENIED, missing.to_string())), ruling)
        }
        // A person would be asked, but no yes could bring the call about: its agent is revoked.
        Verdict::Confirm { .. } if planned.approval.is_none() => {
            let ruling = Ruling { decision: Some(Decision::Denied), rule: None };
            (Err(offline(&planned.agent)), ruling)
        }
        // A rule that asks for a person again cannot undo the yes that was given for this very call.
        Verdict::Allowed | Verdict::Confirm { .. } => (send(hub, &planned).await, Ruling::default()),
    };
    let answer = match answer {
        Ok(text) => within_memory(hub, text).await,
        failed => failed,
    };
    let after = hub.mono().saturating_sub(started);
    let done = done(answer, after);
    // A hub that stops before it could be stored tells nobody: the next start runs the call, or ends it.
    let Some(stored) = record_outcome(hub, &planned, &done, &ruling).await else { return };
    end(hub, &planned, done, after, &ruling, stored);
}

/// Records the intent where one is needed, and hands the call to its protocol.
async fn send(hub: &Hub, planned: &Planned) -> Answer {
    // An approved call has an intent in any case: without it nobody could tell, after a kill, that it was sent.
    if planned.effect.needs_intent() || planned.approval.is_some() {
        planned.adapter.check_online(hub, &planned.agent, &planned.call.tool)?;
        if planned.call.is_cancelled() {
            return Err(cancelled());
        }
        hub.store.append(planned.record(clock::now(), Phase::Intent)).await.map_err(|why| {
            Failure::new(code::INTERNAL, format!("the call could not be recorded, so it was not sent: {why}"))
        })?;
    }
    // Recording may have taken a while.
    if !hub.may_act() {
        return Err(Hub::no_lease());
    }
    if !planned.token.is_active(clock::now()) {
        return Err(not_any_more());
    }
    if planned.call.is_cancelled() {
        return Err(cancelled());
    }
    hub.events.call(&planned.call, Some(&planned.token.name));
    let outgoing = Outgoing {
        call: &planned.call,
        target: &planned.agent,
        args: &planned.args,
        timeout: planned.timeout,
        effect: planned.effect,
        token: &planned.token,
        requested_by: &planned.requested_by,
    };
    planned.adapter.send(hub, &outgoing).await
}

/// Commits a call's outcome: the one place where this is done. `None` when the hub stopped first.
async fn record_outcome(
    hub: &Hub,
    planned: &Planned,
    done: &Done,
    ruling: &Ruling,
) -> Option<Result<(), StoreError>> {
    let record = outcome_record(planned, done, ruling);
    if !planned.kept {
        return Some(hub.store.append(record).await.map(drop));
    }
    let keep_result = done.result.as_ref().is_none_or(|result| result.get().len() <= hub.limits.result_kept);
    let stored = if keep_result { done.clone() } else { done.without_result() };
    let text = stored.to_json();
    let finish = || hub.store.finish_call(planned.call.id, &text, record.clone());
    if planned.approval.is_some() {
        approve::once_stored(hub, planned.call.id, finish).await
    } else {
        Some(finish().await)
    }
}

fn outcome_record(planned: &Planned, done: &Done, ruling: &Ruling) -> convoke_core::journal::Draft {
    let mut record = planned.record(clock::now(), Phase::Outcome);
    record.decision = ruling.decision.or(record.decision);
    if ruling.rule.is_some() {
        record.rule.clone_from(&ruling.rule);
    }
    record.outcome = Some(done.outcome.clone());
    record.duration_ms = done.duration_ms;
    match done.result.as_ref().and_then(|result| planned.adapter.detail(result)) {
        Some(detail) => record.detail(&detail),
        None => record,
    }
}

fn done(answer: Answer, after: Duration) -> Done {
    let duration_ms = Some(u64::try_from(after.as_millis()).unwrap_or(u64::MAX));
    match answer {
        Ok(result) => Done { result: Some(result), duration_ms, ..Done::new("ok") },
        Err(Failure { code, message, by_peer }) => {
            Done { message: Some(message), duration_ms, by_agent: by_peer, ..Done::new(code) }
        }
    }
}

/// Tells whoever waits for the call.
fn end(hub: &Hub, planned: &Planned, done: Done, after: Duration, ruling: &Ruling, stored: Result<(), StoreError>) {
    hub.metrics.call(&done.outcome, planned.effect, after.as_secs_f64());
    let done = match stored {
        Ok(()) => done,
        Err(why) => unrecorded(hub, planned, done, ruling, &why),
    };
    hub.calls.finish(&planned.call, done);
    if planned.kept {
        tell_call(hub, planned.call.id);
    }
    hub.events.call(&planned.call, Some(&planned.token.name));
}

/// The caller's answer when the outcome could not be recorded: the result itself would claim a record that does not
/// exist.
fn unrecorded(hub: &Hub, planned: &Planned, done: Done, ruling: &Ruling, why: &StoreError) -> Done {
    tracing::error!(call = %planned.call.id, %why, "the outcome of a call could not be recorded");
    let mut message = format!("the outcome could not be recorded: {why}");
    // A kept call is ended by whoever asks for it next.
    if !planned.kept && owed::is_owed(why) {
        if hub.calls.owed.keep(outcome_record(planned, &done, ruling)) {
            message.push_str("; it will be recorded once the hub can write again, unless the hub is killed before");
        } else {
            hub.metrics.dropped("owed_outcomes", 1);
        }
    }
    // The caller wants to know whether anything was done. A machine's words would pass for the hub's own here.
    match done.message {
        Some(_) if done.by_agent => message = format!("the machine answered with an error; {message}"),
        Some(failure) => message = format!("{failure}; {message}"),
        None => {}
    }
    Done { message: Some(message), duration_ms: done.duration_ms, ..Done::new(code::INTERNAL) }
}

/// Reserves memory for an answer that has none yet.
async fn within_memory(hub: &Hub, text: AnswerText) -> Answer {
    if !text.needs_memory() {
        return Ok(text);
    }
    let reserved = reserve_memory(hub, text.get().len()).await?;
    Ok(text.with(reserved))
}

/// Memory for an answer. To be had before it is copied: while it waits, it should be there once.
pub async fn reserve_memory(hub: &Hub, size: usize) -> Result<Reserved, Failure> {
    if let Some(reserved) = hub.answers.reserve(size) {
        return Ok(reserved);
    }
    // Results that were delivered already give way.
    hub.calls.forget_large_results();
    hub.answers.reserve_in_time(size).await.ok_or_else(|| {
        let message = format!(
            "the machine answered, but the hub holds as many large answers as it may \
             (calls.max_answer_bytes_held), and this one of {size} bytes was dropped"
        );
        Failure::new(code::BUSY, message)
    })
}

/// A token was revoked, or has lapsed: what it asked for and what has not gone out yet stays here.
pub fn withdraw_unsent(hub: &Hub, token: TokenId) {
    for call in hub.calls.under_way(token) {
        let Some(target) = hub.agents.find(call.target.as_str()) else { continue };
        // It may stand in the queue of its second tunnel.
        let tunnel = target.state().tunnel();
        for agent in std::iter::once(&target).chain(&tunnel) {
            match agent.link() {
                Some(link) => drop(link.push(Command::Withdraw(call.id, not_any_more()))),
                None => forward::withdraw(hub, agent, call.id),
            }
        }
    }
}

pub fn not_any_more() -> Failure {
    Failure::new(code::DENIED, "the caller's token is no longer valid; the call was not sent")
}

pub fn cancelled() -> Failure {
    Failure::new(code::CANCELLED, "the caller stopped waiting; the agent may still have finished")
}
