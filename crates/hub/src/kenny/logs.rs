//! Log lines of agents, and the hub's own lines about them: bounded per agent and minute, with a count of what was
//! dropped.

use convoke_core::redact;
use convoke_kenny::frame::Log;
use convoke_store::{LogRow, Lossy};

use super::live::Tunnel;
use crate::clock;

/// Longest message kept.
const MAX_MESSAGE: usize = 8 * 1024;
/// Largest fields kept.
const MAX_FIELDS: usize = 16 * 1024;

/// How many lines an agent may still log in this minute.
#[derive(Debug)]
pub(super) struct LogBudget {
    per_minute: u64,
    minute: i64,
    used: u64,
}

/// Whether a line is taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Budget {
    /// Yes.
    Take,
    /// No; so many were dropped in the minute so far.
    Drop,
    /// Yes, and first say how many were dropped in the minute before.
    TakeAfter(u64),
}

impl LogBudget {
    pub(super) const fn new(per_minute: u64) -> Self {
        Self { per_minute, minute: i64::MIN, used: 0 }
    }

    pub(super) fn ask(&mut self, now_ms: i64) -> Budget {
        let minute = now_ms.div_euclid(60_000);
        let dropped = if minute == self.minute {
            0
        } else {
            let dropped = self.used.saturating_sub(self.per_minute);
            self.minute = minute;
            self.used = 0;
            dropped
        };
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
        match self.budget.ask(now.millis()) {
            Budget::Drop => {
                self.hub.metrics.dropped("log_lines", 1);
                return;
            }
            Budget::Take => {}
            Budget::TakeAfter(dropped) => {
                let message = format!("{dropped} log lines of the minute before were dropped");
                rows.push(self.line("hub", "warn", &now.to_string(), "convoke::kenny", message, None));
            }
        }
        rows.push(row);
        self.hub.metrics.log_lines.inc_by(rows.len() as u64);
        if let Err(why) = self.hub.store.enqueue(Lossy::Logs(rows)).await {
            self.hub.metrics.dropped("log_lines", 1);
            tracing::error!(agent = %self.agent.id, %why, "a log line was not kept");
        }
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
