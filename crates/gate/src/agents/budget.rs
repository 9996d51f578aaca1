//! What one agent may still send in this minute, over however many connections.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use convoke_core::id::PeerId;
use serde_json::Value;

/// Records of one kind that an agent may cause in a minute. The journal is never pruned: one more says that what is beyond
/// is only counted, and the first of a later minute how many those were. The same for lines of the hub's own log.
const RECORDS_PER_MINUTE: u64 = 60;

/// What of every agent's allowances is used. Beside the agents, not in them: most send nothing most of the time.
#[derive(Debug, Default)]
pub struct Budgets(Mutex<Used>);

#[derive(Debug, Default)]
pub struct Used {
    of: HashMap<PeerId, Budget>,
    /// When those that are as new were last forgotten.
    tidied: u32,
}

/// What of one agent's allowances is used.
#[derive(Clone, Copy, Debug, Default)]
pub struct Budget {
    pub log_lines: MinuteBudget,
    pub snapshots: MinuteBudget,
    /// Records of connections.
    pub connections: MinuteBudget,
    /// Records of answers to calls that are not the connection's.
    pub odd_answers: MinuteBudget,
    /// Records of what it was refused.
    refusals: MinuteBudget,
    /// Records that it is not what it was.
    attestations: MinuteBudget,
    /// Lines about it in the hub's own log.
    lines_about: MinuteBudget,
}

/// What a record tells of an agent.
#[derive(Clone, Copy, Debug)]
pub enum Record {
    /// It came.
    Connection,
    /// It answered what it was not asked.
    OddAnswer,
    /// It was refused.
    Refusal,
    /// It is not what it was.
    Attestation,
    /// Whatever the hub's own log tells of it.
    LogLine,
}

/// What a record says of those of its kind that were not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Omitted {
    /// There were none.
    Nothing,
    /// So many, before this one.
    Before(u64),
    /// Those that follow in this minute are only counted.
    FromNowOn,
}

impl Omitted {
    /// Writes it into a record's detail.
    pub fn tell(self, detail: &mut Value) {
        match self {
            Self::Nothing | Self::Before(0) => {}
            Self::Before(count) => detail["unrecorded_before"] = count.into(),
            Self::FromNowOn => detail["note"] = "further ones in this minute are only counted".into(),
        }
    }

    /// The same for a line of the log.
    pub fn words(self) -> Option<String> {
        match self {
            Self::Nothing | Self::Before(0) => None,
            Self::Before(count) => Some(format!("{count} earlier lines about it were only counted")),
            Self::FromNowOn => Some("further lines about it in this minute are only counted".to_owned()),
        }
    }
}

impl Budgets {
    /// Whether one more of something is taken.
    pub fn ask(
        &self,
        agent: &PeerId,
        which: fn(&mut Budget) -> &mut MinuteBudget,
        per_minute: u64,
        now_ms: i64,
    ) -> Taken {
        let mut used = self.lock();
        used.tidy(minute(now_ms));
        let budget = match used.of.get_mut(agent) {
            Some(budget) => budget,
            None => used.of.entry(agent.clone()).or_default(),
        };
        which(budget).ask(per_minute, now_ms)
    }

    /// Whether one more record of this kind is kept, and what it says of those that were not.
    pub fn keep(&self, agent: &PeerId, record: Record, now_ms: i64) -> Option<Omitted> {
        let which: fn(&mut Budget) -> &mut MinuteBudget = match record {
            Record::Connection => |budget| &mut budget.connections,
            Record::OddAnswer => |budget| &mut budget.odd_answers,
            Record::Refusal => |budget| &mut budget.refusals,
            Record::Attestation => |budget| &mut budget.attestations,
            Record::LogLine => |budget| &mut budget.lines_about,
        };
        match self.ask(agent, which, RECORDS_PER_MINUTE, now_ms) {
            Taken::Yes => Some(Omitted::Nothing),
            // The first beyond was recorded.
            Taken::After(beyond) => Some(Omitted::Before(beyond - 1)),
            Taken::FirstNo => Some(Omitted::FromNowOn),
            Taken::No => None,
        }
    }

    /// How many log lines were dropped and are not reported yet.
    pub fn lines_dropped(&self, agent: &PeerId, per_minute: u64, now_ms: i64, so_far: bool) -> u64 {
        let mut used = self.lock();
        used.of.get_mut(agent).map_or(0, |budget| budget.log_lines.dropped(per_minute, now_ms, so_far))
    }

    fn lock(&self) -> MutexGuard<'_, Used> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Used {
    /// Once a minute: whoever has sent nothing in it has nothing used, and is forgotten unless something is unreported.
    fn tidy(&mut self, now: u32) {
        if now != self.tidied {
            self.tidied = now;
            self.of.retain(|_, used| {
                let Budget { log_lines, snapshots, connections, odd_answers, refusals, attestations, lines_about } =
                    used;
                let all = [&*log_lines, snapshots, connections, odd_answers, refusals, attestations, lines_about];
                // Of snapshots the agent's log tells, at once.
                let reported_later = [&*log_lines, connections, odd_answers, refusals, attestations, lines_about];
                reported_later.iter().any(|b| b.unreported) || all.iter().any(|b| b.minute >= now)
            });
        }
    }
}

/// Minutes since 1970.
fn minute(now_ms: i64) -> u32 {
    u32::try_from(now_ms.div_euclid(60_000)).unwrap_or_default()
}

/// How much of a minute's allowance is used.
#[derive(Clone, Copy, Debug, Default)]
pub struct MinuteBudget {
    /// Minutes since 1970. Nothing is used in the first one there ever was.
    minute: u32,
    used: u32,
    /// Something was dropped, and how much is not reported yet.
    unreported: bool,
    /// How many were dropped so far was reported in this minute.
    reported: bool,
}

/// Whether something is taken.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken {
    /// Yes.
    Yes,
    /// Yes, and first say how many were dropped in the minute before.
    After(u64),
    /// No, for the first time in this minute.
    FirstNo,
    /// No.
    No,
}

impl MinuteBudget {
    pub fn ask(&mut self, per_minute: u64, now_ms: i64) -> Taken {
        let dropped = self.dropped(per_minute, now_ms, false);
        self.used = self.used.saturating_add(1);
        let over = u64::from(self.used).saturating_sub(per_minute);
        self.unreported = over > 0;
        match (over, dropped) {
            (0, 0) => Taken::Yes,
            (0, dropped) => Taken::After(dropped),
            (1, _) => Taken::FirstNo,
            _ => Taken::No,
        }
    }

    /// How many were dropped and are not reported yet; of this minute only if nothing more is awaited in it, and once: the
    /// report is a line, too.
    pub fn dropped(&mut self, per_minute: u64, now_ms: i64, so_far: bool) -> u64 {
        let minute = minute(now_ms);
        let is_same = minute == self.minute;
        if is_same && (!so_far || self.reported) {
            return 0;
        }
        let dropped = u64::from(self.used).saturating_sub(per_minute);
        // What is reported once is not reported again; the minute's share stays used up.
        let most = u32::try_from(per_minute).unwrap_or(u32::MAX);
        self.used = if is_same { self.used.min(most) } else { 0 };
        self.reported = is_same && dropped > 0;
        self.minute = minute;
        self.unreported = false;
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_over_the_budget_is_counted_and_told_in_the_next_minute() {
        let mut budget = MinuteBudget::default();
        let asked = [0, 1, 2, 3].map(|ms| budget.ask(2, ms));
        assert_eq!(asked, [Taken::Yes, Taken::Yes, Taken::FirstNo, Taken::No]);
        assert_eq!(budget.dropped(2, 8, false), 0, "the minute is not over");
        assert_eq!(budget.ask(2, 60_000), Taken::After(2));
        assert_eq!(budget.ask(2, 120_000), Taken::Yes);
    }

    #[test]
    fn agents_have_their_own_and_those_of_the_past_are_forgotten_unless_something_is_untold() {
        let (budgets, pc) = (Budgets::default(), |n: u32| PeerId::kenny(&format!("pc-{n}")).expect("an id"));
        let ask = |n, ms| budgets.ask(&pc(n), |budget| &mut budget.log_lines, 1, ms);
        assert_eq!([ask(0, 0), ask(0, 1), ask(1, 1)], [Taken::Yes, Taken::FirstNo, Taken::Yes]);
        assert_eq!(budgets.lines_dropped(&pc(2), 1, 2, true), 0, "it has sent nothing");
        assert_eq!(ask(3, 60_000), Taken::Yes);
        assert_eq!(budgets.lock().of.len(), 2, "the new one, and the one with something to tell");
        assert_eq!(budgets.lines_dropped(&pc(0), 1, 120_000, false), 1);
        assert_eq!(ask(3, 180_000), Taken::Yes);
        assert_eq!(budgets.lock().of.len(), 1, "it was told");
    }

    #[test]
    fn records_say_how_many_of_them_are_missing() {
        let pc = PeerId::kenny("pc").expect("an id");
        use Record::{Attestation, Connection, LogLine, OddAnswer, Refusal};
        for kind in [Connection, OddAnswer, Refusal, Attestation, LogLine] {
            let budgets = Budgets::default();
            let keep = |ms| budgets.keep(&pc, kind, ms);
            assert!((0..60).all(|ms| keep(ms) == Some(Omitted::Nothing)));
            assert_eq!([keep(60), keep(61), keep(62)], [Some(Omitted::FromNowOn), None, None]);
            let mut detail = serde_json::json!({});
            let note = keep(60_000).expect("kept");
            assert_eq!(note.words().as_deref(), Some("2 earlier lines about it were only counted"));
            note.tell(&mut detail);
            assert_eq!(detail, serde_json::json!({ "unrecorded_before": 2 }), "{kind:?}");
            assert_eq!(keep(60_001), Some(Omitted::Nothing));
        }
    }

    #[test]
    fn what_is_told_is_told_once_and_stays_used_up() {
        let mut budget = MinuteBudget::default();
        assert_eq!(budget.dropped(2, 0, true), 0, "nothing was sent");
        for n in 0..5 {
            // A connection for each.
            assert_eq!(budget.ask(2, n) == Taken::Yes, n < 2, "line {n}");
            assert_eq!(budget.dropped(2, n, true), u64::from(n == 2), "told at the end of the first link");
        }
        assert_eq!(budget.ask(2, 7), Taken::No);
        assert_eq!(budget.dropped(2, 60_000, false), 3, "told when the minute is over, though nothing more came");
        assert_eq!(budget.ask(2, 60_001), Taken::Yes);
    }
}
