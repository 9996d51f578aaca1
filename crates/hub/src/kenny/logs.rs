//! Log lines of agents, and the hub's own lines about them: bounded per agent and minute, with a count of what was
//! dropped.

use convoke_core::{json, redact};
use convoke_kenny::frame::Log;
use convoke_store::{LogRow, Lossy};

use super::live::Tunnel;
use crate::agents::budget::Taken;
use crate::clock;

/// Longest message kept.
const MAX_MESSAGE: usize = 8 * 1024;
/// Largest fields kept.
const MAX_FIELDS: usize = 16 * 1024;

impl Tunnel<'_> {
    /// A forwarded log event.
    pub(super) async fn on_log(&mut self, log: &Log<'_>) {
        let fields = log.fields.map(|raw| redact::args(&json::tamed(raw.to_owned())).get().to_owned());
        let fields = fields.filter(|text| text.len() <= MAX_FIELDS);
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
        let (most, now_ms) = (self.log_lines_per_minute(), now.millis());
        match self.hub.budgets.ask(&self.agent.id, |budget| &mut budget.log_lines, most, now_ms) {
            Taken::FirstNo | Taken::No => {
                self.hub.metrics.dropped("log_lines", 1);
                return;
            }
            Taken::Yes => {}
            Taken::After(dropped) => {
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
        let (most, now_ms) = (self.log_lines_per_minute(), clock::now().millis());
        let dropped = self.hub.budgets.lines_dropped(&self.agent.id, most, now_ms, so_far);
        if dropped > 0 {
            let rows = vec![self.dropped_line(dropped)];
            if let Err(why) = self.hub.store.enqueue(Lossy::Logs(rows)).await {
                tracing::error!(agent = %self.agent.id, %why, "a log line was not kept");
            }
        }
    }

    fn log_lines_per_minute(&self) -> u64 {
        self.hub.settings.number("kenny.log_lines_per_minute")
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
