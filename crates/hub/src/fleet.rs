//! The fleet's health: judged when telemetry comes, kept ready to be shown.
//!
//! Each agent's statuses are kept as the very text a fleet view shows, so that a view of ten thousand agents is a
//! copy of bytes, and its cost grows with the number of agents and nothing else.

use std::collections::BTreeMap;

use convoke_core::health::{self, Os, Overall, Status};
use convoke_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::agents::Agents;
use crate::operators::Caller;

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
    pub sections: Box<str>,
    /// Everything, for the store: `{"disk":{"status","summary","ruled"},…}`.
    pub health: String,
    /// Whether remote control is on, where the section `agent` says so.
    pub remote_control: Option<bool>,
}

/// Judges a snapshot's sections.
pub fn judge<'a>(sections: impl IntoIterator<Item = (&'a str, &'a RawValue)>, os: Os, now: Timestamp) -> Verdict {
    let mut short = String::from("{");
    let mut full = String::from("{");
    let mut worst = Overall::Unknown;
    let mut remote_control = None;
    for (i, (name, payload)) in sections.into_iter().enumerate() {
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
    Verdict { overall: worst, sections: short.into_boxed_str(), health: full, remote_control }
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
pub fn statuses(stored: &str) -> (Overall, Option<Box<str>>) {
    let Ok(sections) = serde_json::from_str::<BTreeMap<String, Judged>>(stored) else {
        return (Overall::Unknown, None);
    };
    let overall = health::overall(sections.values().map(|s| s.status));
    let short: BTreeMap<&str, Status> = sections.iter().map(|(name, s)| (name.as_str(), s.status)).collect();
    (overall, serde_json::to_string(&short).ok().map(String::into_boxed_str))
}

/// The fleet as JSON text, of the agents within the caller's reach.
pub fn overview(agents: &Agents, caller: &Caller, after: Option<&str>, limit: Option<usize>) -> String {
    let list = agents.list(after);
    let scopes = &caller.token.grant.scopes;
    let mut out = String::with_capacity(64 + list.len().min(limit.unwrap_or(usize::MAX)) * 600);
    let mut worst = Overall::Unknown;
    let mut shown = 0;
    let mut next = None;
    out.push_str("{\"agents\":[");
    for agent in &list {
        let state = agent.state();
        if !scopes.reaches(agent.id.as_str(), &state.tags) {
            continue;
        }
        if limit.is_some_and(|limit| shown == limit) {
            next = list.get(..).and_then(|l| l.iter().rev().find(|a| a.id < agent.id));
            break;
        }
        worst = worst.max(state.overall);
        if shown > 0 {
            out.push(',');
        }
        shown += 1;
        out.push_str("{\"agent_id\":");
        push_json_text(&mut out, agent.id.as_str());
        out.push_str(if state.is_online() { ",\"online\":true" } else { ",\"online\":false" });
        out.push_str(",\"overall\":\"");
        out.push_str(state.overall.name());
        out.push_str("\",\"sections\":");
        out.push_str(state.sections.as_deref().unwrap_or("{}"));
        out.push('}');
    }
    out.push_str("],\"overall\":\"");
    out.push_str(worst.name());
    out.push('"');
    if let Some(next) = next {
        out.push_str(",\"next\":");
        push_json_text(&mut out, next.id.as_str());
    }
    out.push('}');
    out
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
        assert_eq!(&*verdict.sections, r#"{"disk":"crit","a \"b\"":"ok"}"#);
        let (overall, sections) = statuses(&verdict.health);
        assert_eq!(overall, Overall::Crit);
        assert_eq!(sections.as_deref(), Some(r#"{"a \"b\"":"ok","disk":"crit"}"#));
    }

    #[test]
    fn the_kill_switch_is_read_from_the_agent_section() {
        let agent = RawValue::from_string(r#"{"status":"ok","summary":"","remote_control":false}"#.into());
        let verdict = judge([("agent", &*agent.expect("JSON"))], Os::Linux, Timestamp::from_millis(0));
        assert_eq!(verdict.remote_control, Some(false));
    }
}
