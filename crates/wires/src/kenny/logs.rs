//! Log lines of agents, and the hub's own lines about them: bounded per agent and minute, with a count of what was
//! dropped.

use convoke_core::{json, redact};
use convoke_kenny::frame::Log;
use convoke_store::{LogRow, Lossy};
use serde_json::value::RawValue;

use super::live::Tunnel;
use convoke_gate::agents::budget::Taken;
use convoke_gate::clock;

/// Longest message kept.
const MAX_MESSAGE: usize = 8 * 1024;
/// Largest fields kept.
const MAX_FIELDS: usize = 16 * 1024;

impl Tunnel<'_> {
    /// A forwarded log event.
    pub(super) async fn on_log(&mut self, log: &Log<'_>) {
        // Asked first: what is dropped must not cost the search for secrets.
        let Some(mut rows) = self.admit_line() else { return };
        let fields = log.fields.map(fields);
        let message = redact::clean_text(clip(&log.message, MAX_MESSAGE));
        rows.push(self.line("agent", log.level.name(), &log.at, &log.target, message, fields));
        self.keep(rows).await;
    }

    /// The hub's own word about something the agent sent.
    pub(super) async fn complain(&mut self, message: String) {
        let Some(mut rows) = self.admit_line() else { return };
        let at = clock::now().to_string();
        rows.push(self.line("hub", "warn", &at, "convoke::kenny", message, None));
        self.keep(rows).await;
    }

    /// Whether one more line is taken, and what is to be said before it.
    fn admit_line(&self) -> Option<Vec<LogRow>> {
        let (most, now_ms) = (self.log_lines_per_minute(), clock::now().millis());
        match self.hub.budgets.ask(&self.agent.id, |budget| &mut budget.log_lines, most, now_ms) {
            Taken::FirstNo | Taken::No => {
                self.hub.metrics.dropped("log_lines", 1);
                None
            }
            Taken::Yes => Some(Vec::with_capacity(1)),
            Taken::After(dropped) => Some(vec![self.dropped_line(dropped)]),
        }
    }

    async fn keep(&mut self, rows: Vec<LogRow>) {
        self.hub.metrics.log_lines.inc_by(rows.len() as u64);
        if let Err(why) = self.hub.store.enqueue(Lossy::Logs(rows)).await {
            self.hub.metrics.dropped("log_lines", 1);
            tracing::error!(agent = %self.agent.id, %why, "dropped a log line");
        }
    }

    /// Says how many lines were dropped, if any were: of the minutes before, and at the end of a link of this one, too.
    pub(super) async fn tell_dropped(&mut self, so_far: bool) {
        let (most, now_ms) = (self.log_lines_per_minute(), clock::now().millis());
        let dropped = self.hub.budgets.lines_dropped(&self.agent.id, most, now_ms, so_far);
        if dropped > 0 {
            let rows = vec![self.dropped_line(dropped)];
            if let Err(why) = self.hub.store.enqueue(Lossy::Logs(rows)).await {
                tracing::error!(agent = %self.agent.id, %why, "dropped a log line");
            }
        }
    }

    fn log_lines_per_minute(&self) -> u64 {
        self.hub.settings.kenny.log_lines_per_minute
    }

    fn dropped_line(&self, dropped: u64) -> LogRow {
        let message = format!("dropped {dropped} log lines in a minute");
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

/// The fields as they are kept. Looked at before they are searched for secrets, and after: both costs and room are bounded.
fn fields(raw: &RawValue) -> String {
    let size = raw.get().len();
    let kept = (size <= MAX_FIELDS).then(|| redact::args(&json::tamed(raw.to_owned())).get().to_owned());
    kept.filter(|text| text.len() <= MAX_FIELDS).unwrap_or_else(|| {
        let why = format!("fields of {size} bytes, more than {MAX_FIELDS}");
        serde_json::json!({ "left_out": why }).to_string()
    })
}

fn clip(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}
