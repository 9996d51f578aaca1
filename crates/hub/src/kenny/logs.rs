//! Log lines of agents, and the hub's own lines about them: bounded per agent and minute, with a count of what was
//! dropped.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use convoke_core::id::PeerId;
use convoke_core::redact;
use convoke_kenny::frame::Log;
use convoke_store::{LogRow, Lossy};
use foldhash::fast::RandomState;

use super::live::Tunnel;
use crate::clock;

/// Longest message kept.
const MAX_MESSAGE: usize = 8 * 1024;
/// Largest fields kept.
const MAX_FIELDS: usize = 16 * 1024;

/// How many lines each agent may still log in this minute, over however many connections.
#[derive(Debug, Default)]
pub struct LogBudgets(Mutex<HashMap<PeerId, LogBudget, RandomState>>);

/// Budgets of which those that are as new are forgotten.
const TIDY_AT: usize = 4096;

impl LogBudgets {
    fn budgets(&self) -> MutexGuard<'_, HashMap<PeerId, LogBudget, RandomState>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(&self, agent: &PeerId, per_minute: u64, now_ms: i64) -> Budget {
        let mut budgets = self.budgets();
        if budgets.len() >= TIDY_AT && !budgets.contains_key(agent) {
            let minute = now_ms.div_euclid(60_000);
            budgets.retain(|_, budget| budget.minute >= minute || budget.used > budget.per_minute);
        }
        budgets.entry(agent.clone()).or_insert_with(|| LogBudget::new(per_minute)).ask(now_ms)
    }

    fn dropped(&self, agent: &PeerId, now_ms: i64, so_far: bool) -> u64 {
        self.budgets().get_mut(agent).map_or(0, |budget| budget.dropped(now_ms, so_far))
    }
}

/// How many lines an agent may still log in this minute.
#[derive(Debug)]
struct LogBudget {
    per_minute: u64,
    minute: i64,
    used: u64,
}

/// Whether a line is taken.
#[derive(Debug, PartialEq, Eq)]
enum Budget {
    /// Yes.
    Take,
    /// No; so many were dropped in the minute so far.
    Drop,
    /// Yes, and first say how many were dropped in the minute before.
    TakeAfter(u64),
}

impl LogBudget {
    const fn new(per_minute: u64) -> Self {
        Self { per_minute, minute: i64::MIN, used: 0 }
    }

    /// How many were dropped and nobody was told; of this minute only if nothing more is awaited in it.
    fn dropped(&mut self, now_ms: i64, so_far: bool) -> u64 {
        let minute = now_ms.div_euclid(60_000);
        if minute == self.minute && !so_far {
            return 0;
        }
        let dropped = self.used.saturating_sub(self.per_minute);
        // What is told once is not told again; the minute's lines stay used up.
        self.used = if minute == self.minute { self.used.min(self.per_minute) } else { 0 };
        self.minute = minute;
        dropped
    }

    fn ask(&mut self, now_ms: i64) -> Budget {
        let dropped = self.dropped(now_ms, false);
        self.used += 1;
        match (self.used > self.per_minute, dropped) {
            (true, _) => Budget::Drop,
            (false, 0) => Budget::Take,
            (false, dropped) => Budget::TakeAfter(dropped),
        }
    }
}

impl Tunnel<'_> {
    /// A forwarded log event.
    pub(super) async fn on_log(&mut self, log: &Log<'_>) {
        let fields = log.fields.map(|raw| redact::args(raw).get().to_owned()).filter(|text| text.len() <= MAX_FIELDS);
        let message = redact::clean_text(clip(&log.message, MAX_MESSAGE));
        let row = self.line("agent", log.level.name(), &log.at, &log.target, message, fields);
        self.keep(row).await;
    }

    /// The hub's own word about something the agent sent.
    pub(super) async fn complain(&mut self, message: String) {
        let at = clock::now().to_string();
        let row = self.line("hub", "warn", &at, "convoke::kenny", message, None);
        self.keep(row).await;
    }

    async fn keep(&mut self, row: LogRow) {
        let now = row.received_at;
        let mut rows = Vec::with_capacity(1);
        let per_minute = self.hub.settings.number("kenny.log_lines_per_minute");
        match self.hub.log_budgets.ask(&self.agent.id, per_minute, now.millis()) {
            Budget::Drop => {
                self.hub.metrics.dropped("log_lines", 1);
                return;
            }
            Budget::Take => {}
            Budget::TakeAfter(dropped) => {
                rows.push(self.dropped_line(dropped));
            }
        }
        rows.push(row);
        self.hub.metrics.log_lines.inc_by(rows.len() as u64);
        if let Err(why) = self.hub.store.enqueue(Lossy::Logs(rows)).await {
            self.hub.metrics.dropped("log_lines", 1);
            tracing::error!(agent = %self.agent.id, %why, "a log line was not kept");
        }
    }

    /// Says how many lines were dropped, if any were: of the minutes before, and at the end of a link of this one, too.
    pub(super) async fn tell_dropped(&self, so_far: bool) {
        let dropped = self.hub.log_budgets.dropped(&self.agent.id, clock::now().millis(), so_far);
        if dropped > 0 {
            let rows = vec![self.dropped_line(dropped)];
            if let Err(why) = self.hub.store.enqueue(Lossy::Logs(rows)).await {
                tracing::error!(agent = %self.agent.id, %why, "a log line was not kept");
            }
        }
    }

    fn dropped_line(&self, dropped: u64) -> LogRow {
        let message = format!("{dropped} log lines of a minute were dropped");
        self.line("hub", "warn", &clock::now().to_string(), "convoke::kenny", message, None)
    }

    fn line(
        &self,
        source: &str,
        level: &str,
        at: &str,
        target: &str,
        message: String,
        fields: Option<String>,
    ) -> LogRow {
        LogRow {
            id: 0,
            at: clip(at, 64).to_owned(),
            received_at: clock::now(),
            agent: Some(self.agent.id.clone()),
            source: source.into(),
            level: level.into(),
            target: clip(target, 256).to_owned(),
            message,
            fields,
        }
    }
}

fn clip(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_the_agents_however_often_it_connects() {
        let (budgets, pc) = (LogBudgets::default(), PeerId::kenny("pc").expect("an id"));
        let other = PeerId::kenny("other").expect("an id");
        assert_eq!(budgets.dropped(&pc, 0, true), 0, "it has logged nothing");
        for n in 0..5 {
            // A connection for each line.
            assert_eq!(budgets.ask(&pc, 2, n) == Budget::Take, n < 2, "line {n}");
            assert_eq!(budgets.dropped(&pc, n, true), u64::from(n >= 2), "told at the end of the link, and once");
        }
        assert_eq!(budgets.ask(&other, 2, 6), Budget::Take, "others have their own");
        assert_eq!(budgets.ask(&pc, 2, 7), Budget::Drop);
        assert_eq!(budgets.dropped(&pc, 8, false), 0, "the minute is not over");
        assert_eq!(budgets.dropped(&pc, 60_000, false), 1, "told when it is, though nothing more was logged");
        assert_eq!(budgets.ask(&pc, 2, 60_001), Budget::Take);
    }

    #[test]
    fn budgets_of_the_past_are_forgotten_unless_something_is_untold() {
        let budgets = LogBudgets::default();
        let id = |n: usize| PeerId::kenny(&format!("pc-{n}")).expect("an id");
        for n in 0..TIDY_AT {
            budgets.ask(&id(n), 1, 0);
        }
        budgets.ask(&id(7), 1, 0);
        budgets.ask(&id(TIDY_AT), 1, 60_000);
        assert_eq!(budgets.budgets().len(), 2, "the new one, and the one with something to tell");
        assert_eq!(budgets.dropped(&id(7), 60_000, false), 1);
    }

    #[test]
    fn what_is_over_the_budget_is_counted_and_told_in_the_next_minute() {
        let mut budget = LogBudget::new(2);
        assert_eq!(
            [budget.ask(0), budget.ask(1), budget.ask(2), budget.ask(3)],
            [Budget::Take, Budget::Take, Budget::Drop, Budget::Drop]
        );
        assert_eq!(budget.ask(60_000), Budget::TakeAfter(2));
        assert_eq!(budget.ask(120_000), Budget::Take);
    }
}
