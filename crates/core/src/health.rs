//! How a machine is doing: the hub's verdict on each section of a telemetry snapshot, and on the machine as a whole.
//!
//! An agent grades its own sections, but thresholds belong to the hub: where a rule exists for a section, applies to
//! the agent's system and finds its fields in the payload, the rule's verdict *replaces* the agent's, for better or
//! worse. Everywhere else the agent's own status stands. The machine is as well as its worst section, and a machine
//! that has sent nothing is `unknown`. The rules are a table, in `health/rules.rs`.
//!
//! This runs on every snapshot of every agent, over text that an agent wrote: it builds no tree, skips what no rule
//! reads, and takes a field of the wrong type for one that is not there. Nothing in a payload is an error here.

mod fields;
mod rules;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::time::Timestamp;
use fields::Field;
use rules::{MAX_FIELDS, Reading};

/// Most characters kept of a section's summary.
pub const MAX_SUMMARY: usize = 300;

/// The state of a section. Ordered: `ok` < `warn` < `crit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Nothing to do.
    Ok,
    /// Someone should look at it.
    Warn,
    /// Someone should look at it now.
    Crit,
}

impl Status {
    /// All of them, best first.
    pub const ALL: [Self; 3] = [Self::Ok, Self::Warn, Self::Crit];

    /// The name used on the wire and on every surface.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Crit => "crit",
        }
    }

    /// The status of that name, spelled exactly as on the wire.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.name() == text)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Status {
    type Err = UnknownStatus;

    fn from_str(text: &str) -> Result<Self, UnknownStatus> {
        Self::parse(text).ok_or_else(|| UnknownStatus(text.into()))
    }
}

/// The text names no status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no status: use ok, warn or crit")]
pub struct UnknownStatus(String);

/// The state of a machine. Ordered: `unknown` < `ok` < `warn` < `crit`, so that the worst of a fleet is its maximum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Overall {
    /// It has sent no snapshot.
    #[default]
    Unknown,
    /// Its worst section is `ok`.
    Ok,
    /// Its worst section is `warn`.
    Warn,
    /// Its worst section is `crit`.
    Crit,
}

impl Overall {
    /// The name used on every surface.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Crit => "crit",
        }
    }
}

impl From<Status> for Overall {
    fn from(status: Status) -> Self {
        match status {
            Status::Ok => Self::Ok,
            Status::Warn => Self::Warn,
            Status::Crit => Self::Crit,
        }
    }
}

impl fmt::Display for Overall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The system an agent runs on, which decides where a rule applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Os {
    /// Windows.
    Windows,
    /// Linux.
    Linux,
    /// macOS.
    Macos,
    /// Another one, or not told.
    Other,
}

impl Os {
    /// The name used on every surface.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Windows => "windows",
            Self::Linux => "linux",
            Self::Macos => "macos",
            Self::Other => "other",
        }
    }
}

/// The hub's verdict on one section.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SectionHealth {
    /// The verdict.
    pub status: Status,
    /// The agent's own words, at most [`MAX_SUMMARY`] characters; where its section was malformed, what was wrong.
    pub summary: String,
    /// Whether a rule decided. Otherwise the status is the agent's own.
    pub ruled: bool,
}

/// Judges one section of a snapshot.
///
/// A section that is no object, has no `status` or has one that is none of `ok`, `warn` and `crit` breaks the
/// contract: it is at least `warn`, and its summary says what was wrong before what the agent said. A rule can then
/// only make it worse, because an agent that cannot grade itself deserves a look even where the numbers are fine.
///
/// A section about a part of Windows that an agent of another system sends without any reading in it is `ok`.
pub fn evaluate(section: &str, payload: &RawValue, os: Os, now: Timestamp) -> SectionHealth {
    let rule = rules::rule_for(section, os);

    // One pass over the payload finds the agent's words and the rule's fields together.
    let wanted = rule.map_or(&[][..], |rule| rule.fields);
    let count = 2 + wanted.len();
    let mut names = [""; 2 + MAX_FIELDS];
    names[..2].copy_from_slice(&["status", "summary"]);
    names[2..count].copy_from_slice(wanted);
    let mut found = [Field::ABSENT; 2 + MAX_FIELDS];
    let object = Field::of(payload).pick_into(&names[..count], &mut found[..count]);
    let [status, summary, fields @ ..] = found;

    let claimed = status.text();
    let summary = summary.text().unwrap_or_default();
    let own = claimed.as_deref().and_then(Status::parse);
    let verdict = rule.and_then(|rule| (rule.judge)(&Reading { fields, os, now }));

    if rules::is_foreign(section, os) && says_nothing(payload) {
        return SectionHealth { status: Status::Ok, summary: bounded(&summary).to_owned(), ruled: true };
    }
    if let Some(own) = own {
        return SectionHealth {
            status: verdict.unwrap_or(own),
            summary: bounded(&summary).to_owned(),
            ruled: verdict.is_some(),
        };
    }
    let wrong = match claimed {
        _ if !object => "the section is not a JSON object".to_owned(),
        None => "the section has no status".to_owned(),
        Some(word) => format!("the section's status {:?} is not ok, warn or crit", cut(&word, 40)),
    };
    let told = if summary.is_empty() { wrong } else { format!("{wrong}: {summary}") };
    SectionHealth {
        status: verdict.map_or(Status::Warn, |verdict| verdict.max(Status::Warn)),
        summary: bounded(&told).to_owned(),
        ruled: verdict.is_some_and(|verdict| verdict >= Status::Warn),
    }
}

/// Whether a section has nothing but a status and words.
fn says_nothing(payload: &RawValue) -> bool {
    let Ok(fields) = serde_json::from_str::<BTreeMap<Cow<'_, str>, &RawValue>>(payload.get()) else { return true };
    let is_empty = |value: &RawValue| matches!(value.get(), "null" | "[]" | "{}" | "\"\"");
    fields.iter().all(|(name, value)| matches!(name.as_ref(), "status" | "summary") || is_empty(value))
}

/// The state of a machine: its worst section, or `unknown` when there is none.
pub fn overall<I: IntoIterator<Item = Status>>(sections: I) -> Overall {
    sections.into_iter().max().map_or(Overall::Unknown, Overall::from)
}

fn bounded(text: &str) -> &str {
    cut(text, MAX_SUMMARY)
}

/// The first `chars` characters.
fn cut(text: &str, chars: usize) -> &str {
    // No text has more characters than bytes, and nearly every summary is short.
    if text.len() <= chars {
        return text;
    }
    text.char_indices().nth(chars).map_or(text, |(end, _)| &text[..end])
}

/// A telemetry section as the contract defines it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section {
    /// Its name in a snapshot.
    pub name: &'static str,
    /// Whether every agent sends it.
    pub mandatory: bool,
    /// The group in which the contract lists it.
    pub group: Group,
}

/// The headings under which the contract lists its sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Group {
    /// "Mandatory".
    Mandatory,
    /// "Hardware health".
    Hardware,
    /// "Security & crypto".
    Security,
    /// "Update & stability".
    Updates,
    /// "Operations & daily".
    Operations,
}

impl Group {
    /// The heading as a short name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mandatory => "mandatory",
            Self::Hardware => "hardware",
            Self::Security => "security",
            Self::Updates => "updates",
            Self::Operations => "operations",
        }
    }
}

/// The sections of the contract (kenny v0.8, "Telemetry sections"), in its order. Agents may send others.
pub const SECTIONS: [Section; 25] = [
    section("disk", Group::Mandatory),
    section("peripherals", Group::Mandatory),
    section("network", Group::Mandatory),
    section("routing", Group::Mandatory),
    section("processes", Group::Mandatory),
    section("services", Group::Mandatory),
    section("defender", Group::Mandatory),
    section("win_update", Group::Mandatory),
    section("disk_smart", Group::Hardware),
    section("battery", Group::Hardware),
    section("memory", Group::Hardware),
    section("thermals", Group::Hardware),
    section("firewall", Group::Security),
    section("encryption", Group::Security),
    section("av_thirdparty", Group::Security),
    section("defender_quarantine", Group::Security),
    section("reboot_pending", Group::Updates),
    section("os_support", Group::Updates),
    section("reliability", Group::Updates),
    section("app_updates", Group::Updates),
    section("uptime", Group::Operations),
    section("time_sync", Group::Operations),
    section("printers", Group::Operations),
    section("wifi_quality", Group::Operations),
    section("autostart", Group::Operations),
];

const fn section(name: &'static str, group: Group) -> Section {
    Section { name, mandatory: matches!(group, Group::Mandatory), group }
}
