//! From the decision to the outcome: record the intent, send, wait, record the outcome, answer.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use convoke_core::call::code;
use convoke_core::gate::Verdict;
use convoke_core::id::{Protocol, TokenId};
use convoke_core::journal::{Decision, Draft, Phase};
use convoke_kenny::frame::HubFrame;
use convoke_store::{Expected, StoreError};
use tokio::sync::oneshot;

use super::ending::Ending;
use super::{Course, Done, Planned, approve, message, offline, owed};
use crate::answers::{Room, Told};
use crate::clock;
use crate::downloads;
use crate::hub::Hub;
use crate::link::{Answer, Command, Failure, Link, Probe, Refused, Reply};

/// Runs a call that may go out, or ends one that a deny rule refuses. The caller is answered after the outcome is
/// committed, never before.
pub(super) async fn run(hub: &Hub, planned: Planned, course: Course) {
    let started = Instant::now();
    let mut expected = None;
    let (answer, decision, rule) = match course {
        // Not `allowed`, as a record says that is not told otherwise: a person would have been asked.
        Course::NoWay => (Err(offline(&planned.agent)), Some(Decision::Denied), None),
        Course::Decided(Verdict::Blocked(hit)) => {
            let message = format!("refused by the hub's safety policy ({}): {}", hit.rule, hit.reason);
            (Err(Failure::new(code::BLOCKED, message)), Some(Decision::Blocked), Some(hit.rule))
        }
        Course::Decided(Verdict::Denied(missing)) => {
            (Err(Failure::new(code::DENIED, missing.to_string())), Some(Decision::Denied), None)
        }
        // What is kept ends by another way than an append, and whoever shares a probe's answer must see it.
        Course::Decided(Verdict::Allowed) if !planned.kept && planned.agent.id.protocol() == Protocol::Kenny => {
            match transmit_to_record(hub, &planned, started).await {
                Ok(recorded) => return end(hub, &planned, recorded),
                Err(failure) => (Err(failure), None, None),
            }
        }
        // A rule that asks for a person again cannot undo the yes that was given for this very call.
        Course::Decided(Verdict::Allowed | Verdict::Confirm { .. }) => {
            (send(hub, &planned, &mut expected).await, None, None)
        }
    };
    let answer = match answer {
        Ok(told) => admit(hub, told).await,
        failed => failed,
    };
    let after = started.elapsed();
    let done = done(answer, after);
    let ruling = Ruling { decision, rule };
    let record = outcome_record(&planned, &done, &ruling);
    let committed = if planned.kept {
        let keep_result = done.result.as_ref().is_none_or(|result| result.get().len() <= hub.limits.result_kept);
        let stored = if keep_result { done.clone() } else { done.without_result() };
        let text = serde_json::to_string(&stored).unwrap_or_else(|_| "{}".into());
        let finish = || hub.store.finish_call(planned.call.id, &text, record.clone());
        if planned.approval.is_none() {
            finish().await
        } else {
            match approve::once_stored(hub, planned.call.id, finish).await {
                Some(finished) => finished,
                None => return,
            }
        }
    } else if let Some(expected) = expected {
        let (told, committed) = oneshot::channel();
        hub.store.append_expected(Box::new(record), expected, told);
        committed.await.unwrap_or(Err(StoreError::Closed)).map(drop)
    } else {
        hub.store.append(record).await.map(drop)
    };
    end(hub, &planned, Recorded { done, after, ruling, committed });
}

/// An outcome, and whether its record was committed.
struct Recorded {
    done: Done,
    after: Duration,
    ruling: Ruling,
    committed: Result<(), StoreError>,
}

/// Why the gate did not let a call out, if it did not.
#[derive(Debug, Default)]
struct Ruling {
    decision: Option<Decision>,
    rule: Option<String>,
}

fn outcome_record(planned: &Planned, done: &Done, ruling: &Ruling) -> Draft {
    let mut record = planned.record(clock::now(), Phase::Outcome);
    record.decision = ruling.decision.or(record.decision);
    record.rule.clone_from(&ruling.rule);
    record.outcome = Some(done.outcome.clone());
    record.duration_ms = done.duration_ms;
    match message::detail(planned, done) {
        Some(detail) => record.detail(&detail),
        None => record,
    }
}

fn done(answer: Answer, after: Duration) -> Done {
    let duration_ms = Some(u64::try_from(after.as_millis()).unwrap_or(u64::MAX));
    match answer {
        Ok(result) => {
            Done { outcome: "ok".into(), result: Some(result), message: None, duration_ms, by_agent: false }
        }
        Err(Failure { code, message, by_peer }) => {
            Done { outcome: code.into(), result: None, message: Some(message), duration_ms, by_agent: by_peer }
        }
    }
}

/// Takes an answer in that has no room yet, once there is some.
async fn admit(hub: &Hub, told: Told) -> Answer {
    if !told.needs_room() {
        return Ok(told);
    }
    let room = room_for_answer(hub, told.get().len()).await?;
    Ok(told.with(room))
}

/// Room for an answer. To be had before it is copied: while it waits, it should be there once.
pub(crate) async fn room_for_answer(hub: &Hub, size: usize) -> Result<Room, Failure> {
    if let Some(room) = hub.answers.room(size) {
        return Ok(room);
    }
    // What was told already gives way to what was not.
    hub.calls.let_go_of_large();
    hub.answers.room_in_time(size).await.ok_or_else(|| no_room_for(size))
}

fn no_room_for(size: usize) -> Failure {
    let message = format!(
        "the machine answered, but the hub dropped the answer of {size} bytes: its memory for large answers is full \
         (calls.max_answer_bytes_held)"
    );
    Failure::new(code::BUSY, message)
}

/// Tells whoever waits for the call.
fn end(hub: &Hub, planned: &Planned, recorded: Recorded) {
    let Recorded { done, after, ruling, committed } = recorded;
    hub.metrics.call(&done.outcome, planned.effect, after.as_secs_f64());
    let done = match committed {
        Ok(()) => done,
        Err(why) => {
            // Answering with the result would claim a record that does not exist.
            tracing::error!(call = %planned.call.id, %why, "cannot record a call's outcome");
            let mut message = format!("the outcome could not be recorded: {why}");
            // What is kept is looked after where it is kept.
            if !planned.kept && owed::is_owed(&why) {
                if hub.calls.owed.keep(outcome_record(planned, &done, &ruling)) {
                    message.push_str(
                        "; it will be recorded once the hub can write again, unless the hub is killed before",
                    );
                } else {
                    hub.metrics.dropped("owed_outcomes", 1);
                }
            }
            // Whether anything was done is what the caller wants to know. What a machine said would pass for the hub's
            // own words here.
            match done.message {
                Some(_) if done.by_agent => message = format!("the machine answered with an error; {message}"),
                Some(failure) => message = format!("{failure}; {message}"),
                None => {}
            }
            let outcome = code::INTERNAL.into();
            Done { outcome, result: None, message: Some(message), duration_ms: done.duration_ms, by_agent: false }
        }
    };
    hub.calls.finish(&planned.call, done);
}

impl Planned {
    /// What the agent is sent.
    fn request(&self) -> String {
        let tool = self.call.tool.as_str().into();
        HubFrame::Request { id: self.call.id.uuid(), tool, args: Cow::Borrowed(&self.args) }.encode()
    }

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
        let asked =
            crate::sonde::ask::through_cache(hub, planned.question(), planned.timeout, planned.effect, |left| {
                transmit(hub, planned, left, expected)
            });
        return tokio::select! {
            biased;
            answer = asked => answer,
            // Who waits for an answer that another asked for can stop as well.
            () = planned.call.cancelled() => Err(cancelled()),
        };
    }
    transmit(hub, planned, planned.timeout, expected).await
}

async fn transmit(hub: &Hub, planned: &Planned, timeout: Duration, expected: &mut Option<Expected>) -> Answer {
    let link = way_out(hub, planned).await?;
    // Most answers come at once; what is kept ends by another way than an append.
    if !planned.kept {
        *expected = Some(hub.store.announce());
    }
    let (reply, mut answer) = oneshot::channel();
    let (id, deadline) = (planned.call.id, hub.mono() + timeout);
    let command = match planned.agent.id.protocol() {
        Protocol::Sonde => Command::Probe(Probe {
            id,
            probe: planned.call.tool.clone(),
            params: planned.args.clone(),
            requested_by: Arc::clone(&planned.requested_by),
            timeout,
            deadline,
            reply,
        }),
        _ => Command::Call { id, frame: planned.request(), deadline, reply: Reply::to(reply) },
    };
    push(&link, planned, command)?;
    let answer = tokio::select! {
        biased;
        answer = &mut answer => answer,
        () = planned.call.cancelled() => {
            forget(&link, planned);
            // It may have been told, at the last moment, or that it has not gone out.
            return answer.try_recv().unwrap_or_else(|_| Err(cancelled()));
        }
    };
    // If the link dropped the waiter, it ended.
    answer.unwrap_or_else(|_| Err(disconnected(planned)))
}

/// Sends a call whose outcome is recorded by the task that reads the answer. Whoever waits for it is woken once, when
/// that record is committed, and not for the answer as well.
async fn transmit_to_record(hub: &Hub, planned: &Planned, started: Instant) -> Result<Recorded, Failure> {
    let link = way_out(hub, planned).await?;
    let expected = hub.store.announce();
    let ending = Arc::new(Ending::default());
    let (told, mut committed) = oneshot::channel();
    let mut record = Box::new(planned.record(clock::now(), Phase::Outcome));
    let (hub_of_answer, of_answer) = (hub.clone(), Arc::clone(&ending));
    let reply = Reply::new(move |answer| {
        let after = started.elapsed();
        let done = done(answer, after);
        record.at = clock::now();
        record.outcome = Some(done.outcome.clone());
        record.duration_ms = done.duration_ms;
        if of_answer.answered(done, after) {
            hub_of_answer.store.append_expected(record, expected, told);
        }
    });
    let (id, deadline) = (planned.call.id, hub.mono() + planned.timeout);
    push(&link, planned, Command::Call { id, frame: planned.request(), deadline, reply })?;
    let told = tokio::select! {
        biased;
        told = &mut committed => told,
        () = planned.call.cancelled() => {
            forget(&link, planned);
            if ending.give_up() {
                return Err(cancelled());
            }
            committed.await
        }
    };
    match (ending.close(), told) {
        (Some((done, after)), told) => {
            let committed = told.unwrap_or(Err(StoreError::Closed)).map(drop);
            Ok(Recorded { done, after, ruling: Ruling::default(), committed })
        }
        // The link dropped the reply: it ended.
        (None, _) => Err(disconnected(planned)),
    }
}

/// The link that a call goes out on, once its intent is recorded.
async fn way_out(hub: &Hub, planned: &Planned) -> Result<Arc<Link>, Failure> {
    // Looked up before the intent is written: a call that cannot go out leaves no intent behind.
    let Some(link) = planned.agent.link() else { return Err(offline(&planned.agent)) };
    if planned.call.is_cancelled() {
        return Err(cancelled());
    }
    record_intent(hub, planned).await?;
    check_in_force(planned)?;
    if planned.call.tool == "agent_update"
        && let Ok(args) = serde_json::from_str::<serde_json::Value>(planned.args.get())
        && let Some(address) = args["url"].as_str()
    {
        downloads::enliven(hub, address);
    }
    Ok(link)
}

fn push(link: &Link, planned: &Planned, command: Command) -> Result<(), Failure> {
    link.push(command).map_err(|refused| match refused {
        Refused::Ended => offline(&planned.agent),
        Refused::Full => {
            let message = format!("agent {} takes no more calls now: its queue is full", planned.agent.id);
            Failure::new(code::BUSY, message)
        }
    })?;
    // Looked at when it is in the queue: a revocation from now on finds it there.
    if !planned.token.is_active(clock::now()) {
        let _ = link.push(Command::Withdraw(planned.call.id, not_any_more()));
    }
    Ok(())
}

/// A token was revoked, or has lapsed: what it asked for and what has not gone out yet stays here.
pub fn withdraw_unsent(hub: &Hub, token: TokenId) {
    for call in hub.calls.under_way(token) {
        if let Some(link) = hub.agents.find(call.target.as_str()).and_then(|agent| agent.link()) {
            let _ = link.push(Command::Withdraw(call.id, not_any_more()));
        }
    }
}

/// Looked at once the intent is recorded, which may have taken a while.
pub(super) fn check_in_force(planned: &Planned) -> Result<(), Failure> {
    if planned.token.is_active(clock::now()) { Ok(()) } else { Err(not_any_more()) }
}

pub(super) fn not_any_more() -> Failure {
    Failure::new(code::DENIED, "the caller's token is no longer valid; the call was not sent")
}

/// The protocol cannot call a request back: the agent may go on, and its answer will be recorded as late.
fn forget(link: &Link, planned: &Planned) {
    let _ = link.push(Command::Forget(planned.call.id));
}

fn disconnected(planned: &Planned) -> Failure {
    Failure::new(code::DISCONNECTED, format!("agent {} disconnected during the call", planned.agent.id))
}

/// What a call is about to do, committed before it does it.
pub(super) async fn record_intent(hub: &Hub, planned: &Planned) -> Result<(), Failure> {
    // What was approved has one in any case: without it nobody could tell, after a kill, that it was sent.
    if !planned.effect.needs_intent() && planned.approval.is_none() {
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
