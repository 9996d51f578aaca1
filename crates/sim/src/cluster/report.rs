//! What a run came to.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use super::check::{Promise, Violation};
use super::history::{Answer, History};
use crate::load::Latency;

/// After a hub is killed, its agents are reachable again within this.
const GOAL: Duration = Duration::from_secs(15);
/// Broken promises that are shown of each kind.
const SHOWN: usize = 5;

/// How long the agents of a killed hub were away.
#[derive(Clone, Debug)]
pub(super) struct Reached {
    pub(super) hub: usize,
    pub(super) agents: usize,
    pub(super) killed: Duration,
    /// Nothing, if some were away for too long to wait.
    pub(super) took: Option<Duration>,
}

/// The result of a run.
#[derive(Debug, Default)]
pub struct Report {
    pub(super) took: Duration,
    pub(super) faults: usize,
    pub(super) recovery: Duration,
    pub(super) reached: Vec<Reached>,
    pub(super) records: usize,
    pub(super) chains: usize,
    pub(super) violations: Vec<Violation>,
    answers: BTreeMap<String, usize>,
    calls: usize,
    executions: usize,
    links: usize,
    withdrawals: usize,
    unavailable: Vec<usize>,
    seconds: usize,
    latency: Latency,
}

impl Report {
    /// Whether every promise was kept.
    pub fn is_good(&self) -> bool {
        self.violations.is_empty()
    }

    pub(super) fn count(&mut self, history: &History, hubs: usize) {
        for attempt in &history.attempts {
            let name = match &attempt.answer {
                Answer::Ok { .. } => "ok".to_owned(),
                Answer::Failed { code, .. } => code.clone(),
                Answer::Refused { status, code } => format!("{status} {code}"),
                Answer::Lost(why) => format!("lost ({why})"),
            };
            *self.answers.entry(name).or_default() += 1;
            if matches!(attempt.answer, Answer::Ok { .. }) {
                self.latency.record(attempt.ended - attempt.began);
            }
        }
        let mut calls: Vec<_> = history.attempts.iter().map(|attempt| attempt.call).collect();
        calls.sort_unstable();
        calls.dedup();
        self.calls = calls.len();
        (self.executions, self.links) = (history.executions.len(), history.links.len());
        self.withdrawals = history.withdrawals.len();
        self.unavailable = unavailable(history, hubs);
        self.seconds = history.attempts.iter().map(|attempt| attempt.ended.as_secs() as usize + 1).max().unwrap_or(0);
    }

    /// In words.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |what: &str, value: String| {
            let _ = writeln!(text, "{what:<28}{value}");
        };
        line("faults", format!("{} in {:.0} s", self.faults, self.took.as_secs_f64()));
        line(
            "calls",
            format!(
                "{} ({} ran; {} links, {} withdrawals)",
                self.calls, self.executions, self.links, self.withdrawals
            ),
        );
        let answers: Vec<_> = self.answers.iter().map(|(name, count)| format!("{count} {name}")).collect();
        line("answers", answers.join(", "));
        let millis = |share| self.latency.quantile(share).as_secs_f64() * 1000.0;
        line("an ok took", format!("p50 {:.1} ms, p99 {:.1} ms", millis(0.5), millis(0.99)));
        let unavailable: Vec<_> = self.unavailable.iter().map(ToString::to_string).collect();
        line("seconds without an ok", format!("{} of {} at hub 1, 2, …", unavailable.join(", "), self.seconds));
        for Reached { hub, agents, killed, took } in &self.reached {
            let took = took.map_or("not within 60 s".into(), |took| format!("after {:.1} s", took.as_secs_f64()));
            line(
                "a killed hub's agents",
                format!("{agents} of hub {}, killed at {:.0} s, all reachable {took}", hub + 1, killed.as_secs_f64()),
            );
        }
        if let Some(worst) = self.reached.iter().map(|reached| reached.took.unwrap_or(Duration::MAX)).max() {
            let verdict = if worst <= GOAL { "met" } else { "MISSED" };
            line("goal of 15 s", verdict.into());
        }
        line("well again", format!("{:.1} s after the last fault", self.recovery.as_secs_f64()));
        line("journals", format!("{} records in {} chains", self.records, self.chains));
        for promise in Promise::ALL {
            let broken: Vec<_> = self.violations.iter().filter(|violation| violation.promise == promise).collect();
            let verdict =
                if broken.is_empty() { "kept".to_owned() } else { format!("BROKEN {} times", broken.len()) };
            let _ = writeln!(text, "{:<52}{verdict}", promise.to_string());
            for violation in broken.iter().take(SHOWN) {
                let _ = writeln!(text, "    {}", violation.what);
            }
        }
        text
    }
}

/// The seconds in which a hub was asked and answered nothing with `ok`.
fn unavailable(history: &History, hubs: usize) -> Vec<usize> {
    let mut seconds: Vec<BTreeMap<u64, bool>> = vec![BTreeMap::new(); hubs];
    for attempt in &history.attempts {
        let ok = matches!(attempt.answer, Answer::Ok { .. });
        *seconds[attempt.hub].entry(attempt.ended.as_secs()).or_default() |= ok;
        // Whoever waits is not served either.
        for waited in attempt.began.as_secs()..attempt.ended.as_secs() {
            seconds[attempt.hub].entry(waited).or_default();
        }
    }
    seconds.iter().map(|all| all.values().filter(|ok| !**ok).count()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::history::Attempt;
    use super::*;

    #[test]
    fn a_second_without_an_ok_counts() {
        let attempt = |began: u64, ended: u64, ok: bool| Attempt {
            call: 1,
            hub: 0,
            agent: 0,
            token: 0,
            began: Duration::from_secs(began),
            ended: Duration::from_secs(ended),
            answer: if ok {
                Answer::Ok { call_id: String::new(), call: None, agent: None }
            } else {
                Answer::Lost(String::new())
            },
        };
        let attempts = vec![attempt(1, 1, true), attempt(1, 3, false), attempt(4, 4, false), attempt(4, 4, true)];
        let history = History { attempts, ..History::default() };
        assert_eq!(unavailable(&history, 2), [2, 0]);
    }
}
