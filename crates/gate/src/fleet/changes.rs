//! How the fleet's health changes: which sections are not well and since when, and what is kept of that.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use convoke_core::event::{FindingEvent, FindingSource};
use convoke_core::health::{Overall, Status};
use convoke_core::id::PeerId;
use convoke_core::time::Timestamp;
use convoke_store::HealthRow;
use serde::{Deserialize, Serialize};

/// One change of an agent is kept in so many milliseconds: an agent that goes up and down fills no disk. What it comes to in
/// the end is kept with a later snapshot.
const KEPT_EVERY_MS: i64 = 60_000;
/// Most sections of one agent that are remembered as not well.
const MAX_SECTIONS: usize = 200;

/// A section that is not well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unwell {
    /// How bad it is.
    pub status: Status,
    /// Since when, in milliseconds.
    pub since: i64,
    /// What it was before, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Status>,
}

/// What is known of all agents.
#[derive(Debug, Default)]
pub struct Changes {
    agents: Mutex<HashMap<PeerId, Known>>,
}

#[derive(Debug, Default)]
struct Known {
    unwell: BTreeMap<String, Unwell>,
    /// When a change was kept last.
    kept_at: i64,
    /// Something changed since.
    is_owed: bool,
}

/// What follows from a snapshot.
#[derive(Debug, Default)]
pub struct Noted {
    /// To be kept.
    pub row: Option<HealthRow>,
    /// To be told.
    pub worse: Vec<FindingEvent>,
}

impl Changes {
    /// Starts from what was kept last of each agent.
    pub fn load(&self, rows: Vec<HealthRow>) {
        let mut agents = self.agents();
        for row in rows {
            // Written by the hub itself.
            let unwell = serde_json::from_str(&row.since).unwrap_or_default();
            agents.insert(row.agent, Known { unwell, kept_at: row.at.millis(), is_owed: false });
        }
    }

    fn agents(&self) -> MutexGuard<'_, HashMap<PeerId, Known>> {
        self.agents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A snapshot was judged; `changed` says that its sections are not what they were.
    pub fn note(&self, agent: &PeerId, overall: Overall, sections: &str, changed: bool, now: Timestamp) -> Noted {
        let mut agents = self.agents();
        let is_new = !agents.contains_key(agent);
        if is_new {
            agents.insert(agent.clone(), Known { is_owed: true, kept_at: i64::MIN, ..Known::default() });
        }
        let Some(known) = agents.get_mut(agent) else { return Noted::default() };
        let mut noted = Noted::default();
        if changed || is_new {
            let statuses: BTreeMap<String, Status> = serde_json::from_str(sections).unwrap_or_default();
            noted.worse = known.take(agent, statuses, is_new, now);
            known.is_owed = true;
        }
        if known.is_owed && now.millis() >= known.kept_at.saturating_add(KEPT_EVERY_MS) {
            known.is_owed = false;
            known.kept_at = now.millis();
            noted.row = Some(HealthRow {
                agent: agent.clone(),
                at: now,
                overall,
                sections: sections.to_owned(),
                since: serde_json::to_string(&known.unwell).unwrap_or_else(|_| "{}".into()),
            });
        }
        noted
    }

    /// Since when a section has been as it is, and what it was before.
    pub fn unwell(&self, agent: &PeerId, section: &str) -> Option<Unwell> {
        self.agents().get(agent)?.unwell.get(section).cloned()
    }

    /// An agent was removed.
    pub fn forget(&self, agent: &PeerId) {
        self.agents().remove(agent);
    }
}

impl Known {
    /// Takes over what the sections are now; answers those that turned worse.
    fn take(
        &mut self,
        agent: &PeerId,
        statuses: BTreeMap<String, Status>,
        is_new: bool,
        now: Timestamp,
    ) -> Vec<FindingEvent> {
        let mut worse = Vec::new();
        let before = std::mem::take(&mut self.unwell);
        let unwell = statuses.into_iter().filter(|(_, status)| *status > Status::Ok).take(MAX_SECTIONS);
        for (section, status) in unwell {
            let known = before.get(&section);
            if let Some(same) = known.filter(|known| known.status == status) {
                self.unwell.insert(section, same.clone());
                continue;
            }
            let was = known.map(|known| known.status).or((!is_new).then_some(Status::Ok));
            if was.is_none_or(|was| was < status) {
                worse.push(FindingEvent {
                    agent: agent.clone(),
                    source: FindingSource::Health,
                    subject: section.clone(),
                    status,
                    before: was,
                    run: None,
                    at: now,
                });
            }
            self.unwell.insert(section, Unwell { status, since: now.millis(), before: was });
        }
        worse
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: i64) -> Timestamp {
        Timestamp::from_millis(s * 1000)
    }

    #[test]
    fn what_turns_worse_is_told_once_and_since_when_it_is_known() {
        let changes = Changes::default();
        let pc: PeerId = "pc".parse().expect("an id");
        let note = |sections: &str, s| changes.note(&pc, Overall::Unknown, sections, true, at(s));
        let told = |noted: &Noted| noted.worse.iter().map(|w| (w.status, w.before)).collect::<Vec<_>>();
        let first = note(r#"{"disk":"warn","cpu":"ok"}"#, 0);
        assert_eq!(told(&first), [(Status::Warn, None)]);
        assert!(first.row.is_some());
        let same = changes.note(&pc, Overall::Unknown, r#"{"disk":"warn","cpu":"ok"}"#, false, at(1));
        assert!(same.worse.is_empty() && same.row.is_none());
        let worse = note(r#"{"disk":"crit","cpu":"warn"}"#, 100);
        assert_eq!(told(&worse), [(Status::Warn, Some(Status::Ok)), (Status::Crit, Some(Status::Warn))]);
        let better = note(r#"{"disk":"warn","cpu":"ok"}"#, 200);
        assert!(better.worse.is_empty());
        assert_eq!(changes.unwell(&pc, "disk").map(|u| u.since), Some(200_000));
        assert_eq!(changes.unwell(&pc, "cpu"), None);
        // A hub that starts again goes on where it was.
        let again = Changes::default();
        again.load(vec![better.row.expect("kept")]);
        let unchanged = again.note(&pc, Overall::Unknown, r#"{"disk":"warn","cpu":"ok"}"#, true, at(300));
        assert!(unchanged.worse.is_empty());
        assert_eq!(again.unwell(&pc, "disk").map(|u| u.since), Some(200_000));
    }

    #[test]
    fn one_change_is_kept_a_minute_and_the_last_one_in_the_end() {
        let changes = Changes::default();
        let pc: PeerId = "pc".parse().expect("an id");
        let kept = (0..10).filter(|n| {
            let sections = if n % 2 == 0 { r#"{"disk":"crit"}"# } else { r#"{"disk":"ok"}"# };
            changes.note(&pc, Overall::Crit, sections, true, at(*n)).row.is_some()
        });
        assert_eq!(kept.count(), 1);
        let last = changes.note(&pc, Overall::Ok, r#"{"disk":"ok"}"#, false, at(60));
        assert_eq!(last.row.map(|row| row.sections).as_deref(), Some(r#"{"disk":"ok"}"#));
        assert!(changes.note(&pc, Overall::Ok, r#"{"disk":"ok"}"#, false, at(200)).row.is_none());
    }
}
