//! From the decision to the outcome: record the intent, send, wait, record the outcome, answer.

use std::sync::Arc;
use std::time::Instant;

use convoke_core::call::code;
use convoke_core::gate::Verdict;
use convoke_core::id::Protocol;
use convoke_core::journal::{Decision, Phase};
use convoke_kenny::frame::HubFrame;
use convoke_store::Expected;
use tokio::sync::oneshot;

use super::{Done, Planned, message, offline};
use crate::clock;
use crate::hub::Hub;
use crate::link::{Answer, Command, Failure, Probe, Refused};

/// Runs a call that may go out, or ends one that a deny rule refuses. The caller is answered after the outcome is
/// committed, never before.
pub(super) async fn run(hub: &Hub, mut planned: Planned, verdict: Verdict) {
    let started = Instant::now();
    let mut expected = None;
    let (answer, decision, rule) = match verdict {
        Verdict::Blocked(hit) => {
            let message = format!("refused by the hub's safety policy ({}): {}", hit.rule, hit.reason);
            (Err(Failure::new(code::BLOCKED, message)), Some(Decision::Blocked), Some(hit.rule))
        }
        Verdict::Denied(missing) => {
            (Err(Failure::new(code::DENIED, missing.to_string())), Some(Decision::Denied), None)
        }
        // A rule that asks for a person again cannot undo the yes that was given for this very call.
        Verdict::Allowed | Verdict::Confirm { .. } => (send(hub, &planned, &mut expected).await, None, None),
    };
    let duration = started.elapsed();
    let duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let (done, kept_result) = match answer {
        Ok(result) => {
            let result: Arc<serde_json::value::RawValue> = result.into();
            let keep = result.get().len() <= hub.limits.result_kept;
            (
                Done {
                    outcome: "ok".into(),
                    result: Some(result),
                    message: None,
                    duration_ms: Some(duration_ms),
                    by_agent: false,
                },
                keep,
            )
        }
        Err(failure) => {
            let Failure { code, message, by_peer: by_agent } = failure;
            (
                Done {
                    outcome: code.into(),
                    result: None,
                    message: Some(message),
                    duration_ms: Some(duration_ms),
                    by_agent,
                },
                true,
            )
        }
    };
    let detail = message::detail(&planned, &done);
    let mut record = planned.last_record(clock::now());
    if let Some(decision) = decision {
        record.decision = Some(decision);
    }
    record.rule = rule;
    if let Some(detail) = detail {
        record = record.detail(&detail);
    }
    record.outcome = Some(done.outcome.clone());
    record.duration_ms = Some(duration_ms);
    let recorded = if planned.kept {
        let stored = if kept_result { done.clone() } else { Done { result: None, ..done.clone() } };
        let text = serde_json::to_string(&stored).unwrap_or_else(|_| "{}".into());
        hub.store.finish_call(planned.call.id, &text, record).await
    } else if let Some(expected) = expected {
        hub.store.append_expected(record, expected).await.map(drop)
    } else {
        hub.store.append(record).await.map(drop)
    };
    hub.metrics.call(&done.outcome, planned.effect, duration.as_secs_f64());
    let done = match recorded {
        Ok(()) => done,
        Err(why) => {
            // Answering with the result would claim a record that does not exist.
            tracing::error!(call = %planned.call.id, %why, "a call's outcome could not be recorded");
            let mut message = format!("the outcome could not be recorded: {why}");
            // Whether anything was done is what the caller wants to know.
            if let Some(failure) = done.message {
                message = format!("{failure}; {message}");
            }
            Done {
                outcome: code::INTERNAL.into(),
                result: None,
                message: Some(message),
                duration_ms: Some(duration_ms),
                by_agent: false,
            }
        }
    };
    hub.calls.finish(&planned.call, done);
}

impl Planned {
    /// What is asked, whoever asks.
    fn question(&self) -> crate::sonde::cache::Question {
        // Written from a parsed value, so the keys are in a fixed order.
        let params = self.args.get().to_owned();
        crate::sonde::cache::Question { agent: self.agent.id.clone(), probe: self.call.tool.clone(), params }
    }
}

async fn send(hub: &Hub, planned: &Planned, expected: &mut Option<Expected>) -> Answer {
    let protocol = planned.agent.id.protocol();
    if protocol == Protocol::Yonexus {
        return message::send(hub, planned).await;
    }
    if protocol == Protocol::Sonde {
        return crate::sonde::ask::through_cache(hub, planned.question(), planned.timeout, planned.effect, || {
            transmit(hub, planned, expected)
        })
        .await;
    }
    transmit(hub, planned, expected).await
}

async fn transmit(hub: &Hub, planned: &Planned, expected: &mut Option<Expected>) -> Answer {
    // Looked up before the intent is written: a call that cannot go out leaves no intent behind.
    let Some(link) = planned.agent.link() else { return Err(offline(&planned.agent)) };
    if planned.call.is_cancelled() {
        return Err(cancelled());
    }
    record_intent(hub, planned).await?;
    // Most answers come at once; what is kept ends by another way than an append.
    if !planned.kept {
        *expected = Some(hub.store.announce());
    }
    let (reply, mut answer) = oneshot::channel();
    let deadline = hub.mono() + planned.timeout;
    let id = planned.call.id;
    let command = match planned.agent.id.protocol() {
        Protocol::Sonde => Command::Probe(Probe {
            id,
            probe: planned.call.tool.clone(),
            params: planned.args.clone(),
            requested_by: Arc::clone(&planned.requested_by),
            timeout: planned.timeout,
            deadline,
            reply,
        }),
        _ => {
            let tool = planned.call.tool.as_str().into();
            let request = HubFrame::Request { id: id.uuid(), tool, args: std::borrow::Cow::Borrowed(&planned.args) };
            Command::Call { id, frame: request.encode(), deadline, reply }
        }
    };
    match link.push(command) {
        Ok(()) => {}
        Err(Refused::Ended) => return Err(offline(&planned.agent)),
        Err(Refused::Full) => {
            let message = format!("agent {} takes no more calls for now: its queue is full", planned.agent.id);
            return Err(Failure::new(code::BUSY, message));
        }
    }
    let answer = tokio::select! {
        biased;
        answer = &mut answer => answer,
        () = planned.call.cancelled() => {
            // The protocol cannot call a request back: the agent may go on, and its answer will be recorded as late.
            let _ = link.push(Command::Forget(planned.call.id));
            return Err(cancelled());
        }
    };
    match answer {
        Ok(answer) => answer,
        // The link dropped the waiter: it ended.
        Err(_) => {
            Err(Failure::new(code::DISCONNECTED, format!("agent {} disconnected during the call", planned.agent.id)))
        }
    }
}

/// What a call is about to do, committed before it does it.
pub(super) async fn record_intent(hub: &Hub, planned: &Planned) -> Result<(), Failure> {
    if !planned.effect.needs_intent() {
        return Ok(());
    }
    let appended = hub.store.append(planned.record(clock::now(), Phase::Intent)).await;
    appended.map(drop).map_err(|why| {
        Failure::new(code::INTERNAL, format!("the call could not be recorded, so it was not sent: {why}"))
    })
}

pub(super) fn cancelled() -> Failure {
    Failure::new(code::CANCELLED, "the caller stopped waiting; the agent may still have finished")
}
