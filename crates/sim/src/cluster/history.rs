//! What a run has seen: by callers, by agents, and in the journals. Times are those of one clock, since the run began.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::Deserialize;

/// The number that a call carries in its arguments: whoever sees the call sees it.
pub(super) type CallNumber = u64;

/// Whether a call changes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Observe,
    Manage,
}

impl Effect {
    pub(super) const fn tool(self) -> &'static str {
        match self {
            Self::Observe => "fs_list",
            Self::Manage => "powershell_exec",
        }
    }

    pub(super) fn of_tool(tool: &str) -> Option<Self> {
        [Self::Observe, Self::Manage].into_iter().find(|effect| effect.tool() == tool)
    }

    /// The arguments that carry the number.
    pub(super) fn args(self, call: CallNumber) -> serde_json::Value {
        match self {
            Self::Observe => serde_json::json!({ "path": format!("/call/{call}") }),
            Self::Manage => serde_json::json!({ "script": format!("call {call}") }),
        }
    }
}

/// The number in a call's arguments.
pub(super) fn number_in(args: &str) -> Option<CallNumber> {
    #[derive(Deserialize)]
    struct Args<'a> {
        path: Option<&'a str>,
        script: Option<&'a str>,
    }
    let args: Args<'_> = serde_json::from_str(args).ok()?;
    args.path.or(args.script)?.rsplit(['/', ' ']).next()?.parse().ok()
}

/// One request of a caller. A call that was not answered may be asked for again, with the same number.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub(super) call: CallNumber,
    pub(super) hub: usize,
    pub(super) agent: usize,
    /// The number of the token it was asked with; 0 is the one that is never revoked.
    pub(super) token: u64,
    pub(super) began: Duration,
    pub(super) ended: Duration,
    pub(super) answer: Answer,
}

/// What a caller was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// `ok`, and what the result names.
    Ok { call_id: String, call: Option<CallNumber>, agent: Option<usize> },
    /// The call ended in another way.
    Failed { call_id: String, code: String },
    /// The hub did not take it.
    Refused { status: u16, code: String },
    /// The answer did not come, or not whole.
    Lost(String),
}

/// An agent was asked to do something, and did.
#[derive(Clone, Copy, Debug)]
pub(super) struct Execution {
    pub(super) call: CallNumber,
    pub(super) agent: usize,
    pub(super) link: u64,
    pub(super) effect: Effect,
    pub(super) at: Duration,
}

/// A connection of an agent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) number: u64,
    pub(super) agent: usize,
    pub(super) hub: usize,
    pub(super) opened: Duration,
    pub(super) closed: Option<Duration>,
}

/// Something that was withdrawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Withdrawn {
    Token(u64),
    Agent(usize),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Withdrawal {
    pub(super) what: Withdrawn,
    pub(super) hub: usize,
    /// When a hub answered that it is in force.
    pub(super) acknowledged: Duration,
}

/// A time in which agents and a hub could not talk to each other freely.
#[derive(Clone, Copy, Debug)]
pub(super) struct Disturbance {
    pub(super) from: Duration,
    pub(super) to: Duration,
}

/// Which part of a call a journal record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Phase {
    Intent,
    Outcome,
    Late,
}

/// A record of a call, in the journal of some hub.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) hub_id: String,
    pub(super) seq: u64,
    pub(super) phase: Phase,
    pub(super) call_id: String,
    /// The number in its arguments, where it has them.
    pub(super) call: Option<CallNumber>,
    pub(super) outcome: Option<String>,
}

impl Record {
    /// Reads a line of the journal; nothing if it is not about a call.
    pub(super) fn parse(line: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Line<'a> {
            hub_id: String,
            seq: u64,
            phase: Option<Phase>,
            call_id: Option<String>,
            #[serde(borrow)]
            args: Option<&'a serde_json::value::RawValue>,
            outcome: Option<String>,
        }
        let line: Line<'_> = serde_json::from_str(line).ok()?;
        Some(Self {
            hub_id: line.hub_id,
            seq: line.seq,
            phase: line.phase?,
            call_id: line.call_id?,
            call: line.args.and_then(|args| number_in(args.get())),
            outcome: line.outcome,
        })
    }
}

/// All of it.
#[derive(Debug, Default)]
pub(super) struct History {
    pub(super) attempts: Vec<Attempt>,
    pub(super) executions: Vec<Execution>,
    pub(super) links: Vec<Link>,
    pub(super) withdrawals: Vec<Withdrawal>,
    pub(super) disturbances: Vec<Disturbance>,
    pub(super) records: Vec<Record>,
}

impl History {
    /// What callers and agents have seen, a line each, for whoever looks for the reason of something.
    pub(super) fn text(&self) -> String {
        let attempts = self.attempts.iter().map(|one| format!("{one:?}\n"));
        let executions = self.executions.iter().map(|one| format!("{one:?}\n"));
        let links = self.links.iter().map(|one| format!("{one:?}\n"));
        let withdrawals = self.withdrawals.iter().map(|one| format!("{one:?}\n"));
        attempts.chain(executions).chain(links).chain(withdrawals).collect()
    }
}

/// A history that many write.
#[derive(Debug, Default)]
pub(super) struct Log(Mutex<History>);

impl Log {
    pub(super) fn write<T>(&self, change: impl FnOnce(&mut History) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes out what was written.
    pub(super) fn take(&self) -> History {
        self.write(std::mem::take)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_known_by_its_arguments() {
        for effect in [Effect::Observe, Effect::Manage] {
            assert_eq!(number_in(&effect.args(1234).to_string()), Some(1234));
            assert_eq!(Effect::of_tool(effect.tool()), Some(effect));
        }
        for args in ["{}", r#"{"path":"/"}"#, "[]", r#"{"script":"uptime"}"#] {
            assert_eq!(number_in(args), None, "{args}");
        }
    }

    #[test]
    fn records_of_calls_are_read() {
        let line = r#"{"hub_id":"h","seq":7,"at":"2026-01-01T00:00:00.000Z","kind":"call","phase":"outcome","who":"x","target":"sim-00001","tool":"fs_list","call_id":"c","args":{"path":"/call/9"},"outcome":"ok","prev":"00"}"#;
        let record = Record::parse(line).unwrap();
        assert_eq!((record.seq, record.phase, record.call), (7, Phase::Outcome, Some(9)));
        assert_eq!(record.outcome.as_deref(), Some("ok"));
        assert!(Record::parse(r#"{"hub_id":"h","seq":1,"kind":"hub"}"#).is_none());
    }
}
