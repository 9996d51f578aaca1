//! The fleet's health: judged when telemetry comes, kept ready to be shown.
//!
//! Each agent's statuses are kept as the very text a fleet view shows, so that a view of ten thousand agents is a
//! copy of bytes, and its cost grows with the number of agents and nothing else.

pub mod changes;

use std::collections::BTreeMap;

use convoke_core::grant::Scopes;
use convoke_core::health::{self, Os, Overall, Status};
use convoke_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::agents::{Agents, InOrder};
use crate::resolve::is_shown;

/// One section as it is judged and stored.
#[derive(Debug, Serialize, Deserialize)]
pub struct Judged {
    /// The verdict.
    pub status: Status,
    /// The agent's summary.
    pub summary: String,
    /// Whether a rule of the hub decided.
    pub ruled: bool,
}

/// A snapshot, judged.
#[derive(Debug)]
pub struct Verdict {
    /// The worst of the sections.
    pub overall: Overall,
    /// Status per section: `{"disk":"ok",…}`.
    pub sections: String,
    /// Everything, for the store: `{"disk":{"status","summary","ruled"},…}`.
    pub health: String,
    /// Whether remote control is on, where the section `agent` says so.
    pub remote_control: Option<bool>,
}

/// Judges a snapshot's sections.
pub fn judge<'a>(sections: impl IntoIterator<Item = (&'a str, &'a RawValue)>, os: Os, now: Timestamp) -> Verdict {
    let sections = sections.into_iter();
    // As long as these texts come out for a healthy machine: they are not moved while they grow.
    let mut short = String::with_capacity(20 * (sections.size_hint().0 + 1));
    let mut full = String::with_capacity(64 * (sections.size_hint().0 + 1));
    short.push('{');
    full.push('{');
    let mut worst = Overall::Unknown;
    let mut remote_control = None;
    for (i, (name, payload)) in sections.enumerate() {
        let judged = health::evaluate(name, payload, os, now);
        worst = worst.max(judged.status.into());
        if name == "agent" {
            remote_control = remote_control_of(payload);
        }
        for text in [&mut short, &mut full] {
            if i > 0 {
                text.push(',');
            }
            push_json_text(text, name);
        }
        short.push_str(":\"");
        short.push_str(judged.status.name());
        short.push('"');
        full.push_str(":{\"status\":\"");
        full.push_str(judged.status.name());
        full.push_str("\",\"summary\":");
        push_json_text(&mut full, &judged.summary);
        full.push_str(if judged.ruled { ",\"ruled\":true}" } else { ",\"ruled\":false}" });
    }
    short.push('}');
    full.push('}');
    Verdict { overall: worst, sections: short, health: full, remote_control }
}

/// Our agents tell a changed kill switch in a section of their own.
fn remote_control_of(payload: &RawValue) -> Option<bool> {
    #[derive(Deserialize)]
    struct Section {
        remote_control: Option<bool>,
    }
    serde_json::from_str::<Section>(payload.get()).ok()?.remote_control
}

fn push_json_text(out: &mut String, text: &str) {
    let plain = text.bytes().all(|b| b >= 0x20 && b != b'"' && b != b'\\');
    if plain {
        out.push('"');
        out.push_str(text);
        out.push('"');
    } else {
        // Serialising a text to JSON does not fail.
        out.push_str(&serde_json::to_string(text).unwrap_or_else(|_| "\"\"".into()));
    }
}

/// What a stored verdict says: for the start of a hub.
pub fn statuses(stored: &str) -> (Overall, Option<String>) {
    let Ok(sections) = serde_json::from_str::<BTreeMap<String, Judged>>(stored) else {
        return (Overall::Unknown, None);
    };
    let overall = health::overall(sections.values().map(|s| s.status));
    let short: BTreeMap<&str, Status> = sections.iter().map(|(name, s)| (name.as_str(), s.status)).collect();
    (overall, serde_json::to_string(&short).ok())
}

/// About how long a piece of a fleet view is, so that a view of ten thousand agents is never in memory as a whole.
const PIECE: usize = 60_000;

/// The fleet as JSON text, of the agents within the caller's reach. The text comes in pieces, each made when it is asked
/// for.
#[derive(Debug)]
pub struct Overview {
    agents: InOrder,
    /// How many of them were looked at.
    seen: usize,
    scopes: Scopes,
    limit: usize,
    budget: Option<ByteBudget>,
    /// Where the last one that was shown stands.
    last: Option<usize>,
    shown: usize,
    worst: Overall,
    stage: Stage,
}

/// How much a view may take.
#[derive(Clone, Copy, Debug)]
struct ByteBudget {
    left: usize,
    length: fn(&str) -> usize,
    is_full: bool,
}

/// Kept free for what stands beside the agents.
const BESIDE: usize = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Begin,
    Agents,
    Ended,
}

impl Overview {
    /// A view of those after `after`, at most `limit` of them.
    pub fn new(agents: &Agents, scopes: Scopes, after: Option<&str>, limit: Option<usize>) -> Self {
        Self {
            agents: agents.list(after),
            seen: 0,
            scopes,
            limit: limit.unwrap_or(usize::MAX),
            budget: None,
            last: None,
            shown: 0,
            worst: Overall::Unknown,
            stage: Stage::Begin,
        }
    }

    /// The same with no more agents than so many bytes can show, and one at least; `length` tells how many a text takes.
    /// One that ends before its limit says that it is `truncated`.
    pub fn within(mut self, bytes: usize, length: fn(&str) -> usize) -> Self {
        self.budget = Some(ByteBudget { left: bytes.saturating_sub(BESIDE), length, is_full: false });
        self
    }

    /// Whether all of it was given out.
    pub fn has_ended(&self) -> bool {
        self.stage == Stage::Ended
    }

    /// One more agent; false when there is no more to show.
    fn agent(&mut self, out: &mut String) -> bool {
        let Some(agent) = self.agents.get(self.seen) else { return false };
        if !is_shown(&self.scopes, agent) {
            self.seen += 1;
            return true;
        }
        let state = agent.state();
        if self.shown == self.limit {
            return false;
        }
        let begin = out.len();
        if self.shown > 0 {
            out.push(',');
        }
        out.push_str("{\"agent_id\":");
        push_json_text(out, agent.id.as_str());
        out.push_str(if state.is_there() { ",\"online\":true" } else { ",\"online\":false" });
        out.push_str(",\"overall\":\"");
        out.push_str(state.overall.name());
        out.push_str("\",\"sections\":");
        match &state.sections {
            Some(sections) => out.push_str(sections),
            None => out.push_str("{}"),
        }
        out.push('}');
        if let Some(budget) = &mut self.budget {
            match budget.left.checked_sub((budget.length)(&out[begin..])) {
                Some(left) => budget.left = left,
                None if self.shown > 0 => {
                    out.truncate(begin);
                    budget.is_full = true;
                    return false;
                }
                None => budget.left = 0,
            }
        }
        self.worst = self.worst.max(state.overall);
        self.last = Some(self.seen);
        self.seen += 1;
        self.shown += 1;
        true
    }

    fn end(&self, out: &mut String) {
        out.push_str("],\"overall\":\"");
        out.push_str(self.worst.name());
        out.push('"');
        if self.budget.is_some_and(|budget| budget.is_full) {
            out.push_str(",\"truncated\":true");
        }
        // The last that was shown, unless nobody within reach comes after it: who was looked at since then is none of
        // the caller's business.
        if self.seen < self.agents.len()
            && let Some(last) = self.last.and_then(|at| self.agents.get(at))
        {
            out.push_str(",\"next\":");
            push_json_text(out, last.id.as_str());
        }
        out.push('}');
    }
}

impl Iterator for Overview {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        if self.has_ended() {
            return None;
        }
        let left = (self.agents.len() - self.seen).min(self.limit - self.shown);
        let mut out = String::with_capacity((64 + left.saturating_mul(600)).min(PIECE + 1024));
        if self.stage == Stage::Begin {
            out.push_str("{\"agents\":[");
            self.stage = Stage::Agents;
        }
        while out.len() < PIECE {
            if !self.agent(&mut out) {
                self.end(&mut out);
                self.stage = Stage::Ended;
                break;
            }
        }
        Some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_reads_back_to_what_was_shown() {
        let disk =
            RawValue::from_string(r#"{"status":"ok","summary":"C: \"x\"","volumes":[{"percent_used":96}]}"#.into());
        let odd = RawValue::from_string(r#"{"status":"ok","summary":"fine"}"#.into());
        let (disk, odd) = (disk.expect("JSON"), odd.expect("JSON"));
        let verdict = judge([("disk", &*disk), ("a \"b\"", &*odd)], Os::Windows, Timestamp::from_millis(0));
        assert_eq!(verdict.overall, Overall::Crit);
        assert_eq!(verdict.sections, r#"{"disk":"crit","a \"b\"":"ok"}"#);
        let (overall, sections) = statuses(&verdict.health);
        assert_eq!(overall, Overall::Crit);
        assert_eq!(sections.as_deref(), Some(r#"{"a \"b\"":"ok","disk":"crit"}"#));
    }

    #[test]
    fn a_view_in_pieces_and_a_view_in_pages_show_everyone_once() {
        const MANY: usize = 2_000;
        let agents = Agents::load(Vec::new(), |_| crate::agents::Facts::default());
        for n in 0..MANY {
            let id = format!("pc-{n:04}").parse().expect("an id");
            agents.find_or_add(&id).state().tags = if n % 3 == 0 { ["lab".to_owned()].into() } else { [].into() };
        }
        let ids = |text: &str| -> (Vec<String>, Option<String>) {
            let shown: serde_json::Value = serde_json::from_str(text).expect("JSON");
            let id = |agent: &serde_json::Value| agent["agent_id"].as_str().expect("an id").to_owned();
            (
                shown["agents"].as_array().expect("a list").iter().map(id).collect(),
                shown["next"].as_str().map(Into::into),
            )
        };
        let pieces: Vec<String> = Overview::new(&agents, Scopes::default(), None, None).collect();
        assert!(pieces.len() > 1 && pieces.iter().all(|piece| piece.len() < PIECE + 1024), "{}", pieces.len());
        let (all, next) = ids(&pieces.concat());
        assert_eq!((all.len(), next), (MANY, None));

        let lab = Scopes { tags: Some(vec!["lab".into()]), ..Scopes::default() };
        let (mut seen, mut after) = (Vec::new(), None::<String>);
        loop {
            let text: String = Overview::new(&agents, lab.clone(), after.as_deref(), Some(100)).collect();
            let (page, next) = ids(&text);
            assert!(page.len() <= 100);
            assert!(next.as_ref().is_none_or(|next| page.last() == Some(next)), "it names nobody out of reach");
            seen.extend(page);
            after = next;
            if after.is_none() {
                break;
            }
        }
        let expected: Vec<String> = all.into_iter().step_by(3).collect();
        assert_eq!(seen, expected);

        let (mut seen, mut after) = (Vec::new(), None::<String>);
        loop {
            let page = Overview::new(&agents, lab.clone(), after.as_deref(), Some(1000));
            let text: String = page.within(4096, str::len).collect();
            assert!(text.len() <= 4096);
            let (page, next) = ids(&text);
            assert_eq!(text.contains("\"truncated\":true"), next.is_some());
            seen.extend(page);
            after = next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(seen, expected, "in pages of so many bytes, too");
        let page = Overview::new(&agents, lab, None, Some(1000)).within(0, str::len);
        assert_eq!(ids(&page.collect::<String>()).0.len(), 1, "one at least");
    }

    #[test]
    fn the_kill_switch_is_read_from_the_agent_section() {
        let agent = RawValue::from_string(r#"{"status":"ok","summary":"","remote_control":false}"#.into());
        let verdict = judge([("agent", &*agent.expect("JSON"))], Os::Linux, Timestamp::from_millis(0));
        assert_eq!(verdict.remote_control, Some(false));
    }
}
