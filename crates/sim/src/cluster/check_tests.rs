use super::super::history::{Attempt, Link, Record, Withdrawal};
use super::*;

const LEASE: Duration = Duration::from_secs(5);

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn attempt(call: CallNumber, at: u64, answer: Answer) -> Attempt {
    let (began, ended) = (s(at), s(at) + Duration::from_millis(10));
    Attempt { call, hub: 0, agent: 1, token: 0, began, ended, answer }
}

fn ok(call: CallNumber) -> Answer {
    Answer::Ok { call_id: format!("id-{call}"), call: Some(call), agent: Some(1) }
}

fn run(call: CallNumber, at: u64) -> Execution {
    Execution { call, agent: 1, link: 1, effect: Effect::Manage, at: s(at) }
}

fn record(call: CallNumber, phase: Phase, outcome: Option<&str>) -> Record {
    let (hub_id, call_id) = ("a".to_owned(), format!("id-{call}"));
    Record { hub_id, seq: call, phase, call_id, call: Some(call), outcome: outcome.map(str::to_owned) }
}

fn recorded(call: CallNumber, outcome: &str) -> Vec<Record> {
    vec![record(call, Phase::Intent, None), record(call, Phase::Outcome, Some(outcome))]
}

/// A call that went well.
fn good() -> History {
    History {
        attempts: vec![attempt(1, 10, ok(1))],
        executions: vec![run(1, 10)],
        links: vec![link(1, 0, None)],
        records: recorded(1, "ok"),
        ..History::default()
    }
}

fn link(number: u64, opened: u64, closed: Option<u64>) -> Link {
    Link { number, agent: 1, hub: 0, opened: s(opened), closed: closed.map(s) }
}

#[track_caller]
fn breaks(promises: &[Promise], change: impl FnOnce(&mut History)) {
    let mut history = good();
    change(&mut history);
    let found: Vec<_> = check(&history, LEASE).into_iter().map(|violation| violation.promise).collect();
    assert_eq!(found, promises);
}

#[test]
fn what_went_well_breaks_nothing() {
    breaks(&[], |_| {});
}

#[test]
fn a_call_ends_once() {
    breaks(&[Promise::OneOutcome], |history| history.records.push(record(1, Phase::Outcome, Some("ok"))));
    breaks(&[Promise::OneOutcome], |history| history.records.push(record(2, Phase::Intent, None)));
    breaks(&[Promise::OneOutcome, Promise::OneOutcome], |history| {
        history.records.retain(|record| record.phase == Phase::Intent);
    });
    breaks(&[], |history| history.records.push(record(1, Phase::Late, Some("ok"))));
}

#[test]
fn a_call_runs_once() {
    breaks(&[Promise::RunsOnce], |history| history.executions.push(run(1, 11)));
}

#[test]
fn what_changes_something_is_announced() {
    breaks(&[Promise::IntentFirst], |history| history.records.retain(|record| record.phase != Phase::Intent));
}

#[test]
fn ok_is_what_the_agent_said() {
    breaks(&[Promise::TrueOk, Promise::TrueOk], |history| history.executions.clear());
    let other = Answer::Ok { call_id: "id-1".into(), call: Some(7), agent: Some(1) };
    breaks(&[Promise::TrueOk], |history| history.attempts = vec![attempt(1, 10, other)]);
}

#[test]
fn what_was_not_sent_did_not_run() {
    let offline = || Answer::Failed { call_id: "id-1".into(), code: "offline".into() };
    breaks(&[Promise::NotSentIsNotRun], |history| {
        history.records = recorded(1, "offline");
        history.attempts = vec![attempt(1, 10, offline())];
    });
    // Asked for again, and sent then.
    breaks(&[], |history| {
        history.records.push(Record { call_id: "first".into(), ..record(1, Phase::Outcome, Some("offline")) });
    });
    breaks(&[], |history| {
        history.records = recorded(1, "interrupted");
        history.attempts = vec![attempt(1, 10, Answer::Lost("gone".into()))];
    });
}

#[test]
fn a_caller_is_told_what_is_recorded() {
    breaks(&[Promise::AnswerIsRecorded], |history| {
        let code = "timeout".into();
        history.attempts = vec![attempt(1, 10, Answer::Failed { call_id: "id-1".into(), code })];
    });
}

#[test]
fn nothing_runs_for_what_was_withdrawn() {
    let withdraw = |history: &mut History, at: u64| {
        history.attempts[0].token = 3;
        history.withdrawals = vec![Withdrawal { what: Withdrawn::Token(3), hub: 1, acknowledged: s(at) }];
    };
    breaks(&[], |history| withdraw(history, 11));
    breaks(&[Promise::WithdrawnStaysOut], |history| withdraw(history, 9));
    // Asked before, sent by a hub that had slept meanwhile.
    breaks(&[Promise::WithdrawnStaysOut], |history| {
        withdraw(history, 11);
        history.executions = vec![run(1, 20)];
    });
    // The network held it up.
    breaks(&[], |history| {
        withdraw(history, 11);
        history.executions = vec![run(1, 20)];
        history.disturbances = vec![Disturbance { from: s(8), to: s(15) }];
    });
    let agent = Withdrawal { what: Withdrawn::Agent(1), hub: 1, acknowledged: s(11) };
    breaks(&[Promise::WithdrawnStaysOut], |history| {
        history.withdrawals = vec![agent];
        history.links.push(link(2, 13, None));
    });
}

#[test]
fn the_newest_link_has_the_calls() {
    breaks(&[Promise::NewestLink], |history| {
        history.links = vec![link(1, 0, None), link(2, 3, None)];
    });
    breaks(&[], |history| history.links = vec![link(1, 0, None), link(2, 3, Some(8))]);
    breaks(&[], |history| history.links = vec![link(1, 0, None), link(2, 6, None)]);
    breaks(&[], |history| history.links = vec![link(1, 3, None), link(2, 0, None)]);
}

#[test]
fn every_promise_has_words_of_its_own() {
    let words: HashSet<String> = Promise::ALL.iter().map(ToString::to_string).collect();
    assert_eq!(words.len(), Promise::ALL.len());
}
