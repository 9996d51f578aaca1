//! Whether a history keeps the promises of several hubs. A pure function: nothing here knows how the history came about.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::time::Duration;

use super::history::{Answer, CallNumber, Disturbance, Effect, Execution, History, Phase, Withdrawn};

/// How late a frame may reach an agent that was written in time, on a network that drops nothing.
const SLACK: Duration = Duration::from_secs(1);
/// How an answer says that the call was not sent to the agent.
const NOT_SENT: &[&str] = &["offline", "denied", "blocked", "busy", "limited", "rejected", "expired", "cancelled"];

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Violation {
    pub(super) promise: Promise,
    pub(super) what: String,
}

/// The promises, in the words of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Promise {
    OneOutcome,
    RunsOnce,
    IntentFirst,
    TrueOk,
    NotSentIsNotRun,
    AnswerIsRecorded,
    WithdrawnStaysOut,
    NewestLink,
    ChainHolds,
    ComesBack,
}

impl Promise {
    pub(super) const ALL: [Self; 10] = [
        Self::OneOutcome,
        Self::RunsOnce,
        Self::IntentFirst,
        Self::TrueOk,
        Self::NotSentIsNotRun,
        Self::AnswerIsRecorded,
        Self::WithdrawnStaysOut,
        Self::NewestLink,
        Self::ChainHolds,
        Self::ComesBack,
    ];
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OneOutcome => "every accepted call has exactly one outcome",
            Self::RunsOnce => "no call runs twice",
            Self::IntentFirst => "the intent is recorded before the call runs",
            Self::TrueOk => "ok means that the agent did it and said so",
            Self::NotSentIsNotRun => "a call that is told as not sent did not run",
            Self::AnswerIsRecorded => "what a caller is told is what the journal says",
            Self::WithdrawnStaysOut => "nothing runs for what was withdrawn",
            Self::NewestLink => "the newest link wins",
            Self::ChainHolds => "every chain verifies",
            Self::ComesBack => "the cluster comes back by itself",
        })
    }
}

/// All that is wrong with a history. `lease` is how long a hub that is cut off may go on.
pub(super) fn check(history: &History, lease: Duration) -> Vec<Violation> {
    let mut found = Found { history, index: Index::new(history), violations: Vec::new() };
    found.outcomes();
    found.executions();
    found.answers();
    found.withdrawals();
    found.links(lease);
    found.violations.sort();
    found.violations
}

/// The history, by call.
struct Index<'a> {
    /// Executions of each call.
    ran: HashMap<CallNumber, Vec<&'a Execution>>,
    /// Outcomes of each call id, over all journals, with where they stand.
    outcomes: HashMap<&'a str, Vec<(String, &'a str)>>,
    intents: HashSet<&'a str>,
    /// The calls that an id stands for, by the arguments in the journals.
    numbers: HashMap<&'a str, CallNumber>,
    with_intent: HashSet<CallNumber>,
}

impl<'a> Index<'a> {
    fn new(history: &'a History) -> Self {
        let mut index = Self {
            ran: HashMap::new(),
            outcomes: HashMap::new(),
            intents: HashSet::new(),
            numbers: HashMap::new(),
            with_intent: HashSet::new(),
        };
        for execution in &history.executions {
            index.ran.entry(execution.call).or_default().push(execution);
        }
        for record in &history.records {
            if let Some(call) = record.call {
                index.numbers.insert(&record.call_id, call);
            }
            match record.phase {
                Phase::Intent => {
                    index.intents.insert(&record.call_id);
                    index.with_intent.extend(record.call);
                }
                Phase::Outcome => {
                    let place = format!("{} seq {}", record.hub_id, record.seq);
                    let outcome = record.outcome.as_deref().unwrap_or("nothing");
                    index.outcomes.entry(&record.call_id).or_default().push((place, outcome));
                }
                Phase::Late => {}
            }
        }
        index
    }

    fn runs(&self, call: CallNumber) -> usize {
        self.ran.get(&call).map_or(0, Vec::len)
    }
}

struct Found<'a> {
    history: &'a History,
    index: Index<'a>,
    violations: Vec<Violation>,
}

impl Found<'_> {
    fn say(&mut self, promise: Promise, what: String) {
        self.violations.push(Violation { promise, what });
    }

    /// One outcome for each id, and what it says is so.
    fn outcomes(&mut self) {
        for (id, outcomes) in self.index.outcomes.clone() {
            if outcomes.len() > 1 {
                self.say(Promise::OneOutcome, format!("call {id} ended {} times: {outcomes:?}", outcomes.len()));
            }
            let Some(&call) = self.index.numbers.get(id) else { continue };
            let runs = self.index.runs(call);
            for (place, outcome) in &outcomes {
                if *outcome == "ok" && runs == 0 {
                    self.say(Promise::TrueOk, format!("call {call} is `ok` at {place}, and no agent ran it"));
                }
                if NOT_SENT.contains(outcome) && runs > 0 && !self.ran_under_another_id(id, call) {
                    self.say(Promise::NotSentIsNotRun, format!("call {call} is `{outcome}` at {place}, and it ran"));
                }
            }
        }
        let open: Vec<_> =
            self.index.intents.iter().filter(|id| !self.index.outcomes.contains_key(*id)).copied().collect();
        for id in open {
            self.say(Promise::OneOutcome, format!("call {id} was announced and has no outcome"));
        }
    }

    /// Whether a call that was asked for more than once was sent by another of the requests.
    fn ran_under_another_id(&self, id: &str, call: CallNumber) -> bool {
        let others = self.index.numbers.iter().filter(|(other, number)| **number == call && **other != id);
        others.flat_map(|(other, _)| self.index.outcomes.get(other)).flatten().any(|(_, o)| !NOT_SENT.contains(o))
    }

    /// Each call at most once, and announced first where it changes something.
    fn executions(&mut self) {
        let mut found = Vec::new();
        for (call, runs) in &self.index.ran {
            if runs.len() > 1 {
                found.push((Promise::RunsOnce, format!("call {call} ran {} times: {runs:?}", runs.len())));
            }
            if runs.iter().any(|run| run.effect == Effect::Manage) && !self.index.with_intent.contains(call) {
                found.push((Promise::IntentFirst, format!("call {call} ran, and no journal announces it: {runs:?}")));
            }
        }
        for (promise, what) in found {
            self.say(promise, what);
        }
    }

    /// What callers were told.
    fn answers(&mut self) {
        for attempt in &self.history.attempts {
            let (id, said) = match &attempt.answer {
                Answer::Ok { call_id, call, agent } => {
                    if *call != Some(attempt.call) || *agent != Some(attempt.agent) {
                        self.say(
                            Promise::TrueOk,
                            format!("call {} was answered with the result of another: {attempt:?}", attempt.call),
                        );
                    } else if self.index.runs(attempt.call) == 0 {
                        self.say(Promise::TrueOk, format!("call {} was told `ok`, and did not run", attempt.call));
                    }
                    (call_id, "ok")
                }
                Answer::Failed { call_id, code } => (call_id, code.as_str()),
                Answer::Refused { .. } | Answer::Lost(_) => continue,
            };
            match self.index.outcomes.get(id.as_str()).map(Vec::as_slice) {
                // The hub said that it could not record it, and may have been killed before it could.
                None | Some([]) if said == "internal" => {}
                None | Some([]) => self.say(
                    Promise::OneOutcome,
                    format!(
                        "call {} ({id}) was told `{said}` by hub {}, and no journal has it",
                        attempt.call,
                        attempt.hub + 1
                    ),
                ),
                // Who was told that the outcome is unknown may find it in the journal.
                Some(outcomes) if outcomes.iter().all(|(_, outcome)| *outcome != said) && said != "internal" => self
                    .say(
                        Promise::AnswerIsRecorded,
                        format!("call {} ({id}) was told `{said}`, and the journal says {outcomes:?}", attempt.call),
                    ),
                Some(_) => {}
            }
        }
    }

    /// Nothing runs for what was withdrawn.
    fn withdrawals(&mut self) {
        let mut attempts: HashMap<CallNumber, Vec<_>> = HashMap::new();
        for attempt in &self.history.attempts {
            attempts.entry(attempt.call).or_default().push(attempt);
        }
        for withdrawal in &self.history.withdrawals {
            let since = withdrawal.acknowledged;
            let concerns = |run: &&Execution| match withdrawal.what {
                Withdrawn::Agent(agent) => run.agent == agent,
                Withdrawn::Token(token) => {
                    attempts.get(&run.call).is_some_and(|all| all.iter().any(|attempt| attempt.token == token))
                }
            };
            let late: Vec<_> = self
                .history
                .executions
                .iter()
                .filter(concerns)
                .filter(|run| {
                    // What was asked for afterwards must not run at all. What was asked before, only while its frame is
                    // under way: the network decides how long that is, and must have been in order.
                    let asked = attempts.get(&run.call);
                    let asked_after = asked.is_some_and(|all| all.iter().all(|attempt| attempt.began > since));
                    let is_late = run.at > since + SLACK && !self.disturbed(since, run.at);
                    run.at > since && (asked_after || is_late)
                })
                .map(|run| run.call)
                .collect();
            if !late.is_empty() {
                self.say(
                    Promise::WithdrawnStaysOut,
                    format!(
                        "{:?} was withdrawn at hub {} at {:.3} s, and afterwards ran the calls {late:?}",
                        withdrawal.what,
                        withdrawal.hub + 1,
                        since.as_secs_f64()
                    ),
                );
            }
            if let Withdrawn::Agent(agent) = withdrawal.what {
                let back = self.history.links.iter().find(|link| link.agent == agent && link.opened > since + SLACK);
                if let Some(link) = back {
                    self.say(Promise::WithdrawnStaysOut, format!("revoked agent {agent} was let in again: {link:?}"));
                }
            }
        }
    }

    /// Whether frames to agents may have been under way for long in that time.
    fn disturbed(&self, from: Duration, to: Duration) -> bool {
        self.history.disturbances.iter().any(|Disturbance { from: begun, to: over }| {
            // What was lost is sent again in growing steps: the last of them may take as long as all before.
            let settled = *over + over.saturating_sub(*begun) + SLACK;
            *begun <= to && settled >= from
        })
    }

    /// Calls go to the newest link.
    fn links(&mut self, lease: Duration) {
        let mut by_agent: HashMap<usize, Vec<_>> = HashMap::new();
        for link in &self.history.links {
            by_agent.entry(link.agent).or_default().push(link);
        }
        let grace = lease + SLACK;
        let mut found = Vec::new();
        for run in &self.history.executions {
            let links = by_agent.get(&run.agent).map(Vec::as_slice).unwrap_or_default();
            let Some(own) = links.iter().find(|link| link.number == run.link) else { continue };
            let newer = links.iter().find(|link| {
                link.opened > own.opened + SLACK
                    && link.opened + grace < run.at
                    && link.closed.is_none_or(|closed| closed > run.at)
            });
            if let Some(newer) = newer
                && !self.disturbed(newer.opened, run.at)
            {
                found.push(format!("call {} ran over {own:?}, long after {newer:?} was opened", run.call));
            }
        }
        for what in found {
            self.say(Promise::NewestLink, what);
        }
    }
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
