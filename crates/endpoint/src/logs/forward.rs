//! Log events on their way to the hub (contract, "log"): best effort, bounded, oldest dropped first and counted.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use convoke_kenny::frame::{self, LogLevel};
use serde_json::value::to_raw_value;
use serde_json::{Map, Value};
use tokio::sync::Notify;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// Most lines that wait for a tunnel.
const MAX_LINES: usize = 256;
/// Longest message and longest text of a field, in characters; a longer one is cut.
const MAX_TEXT: usize = 2000;
/// Most fields of a line; further ones are left out.
const MAX_FIELDS: usize = 32;

/// One event.
#[derive(Clone, Debug)]
pub struct Line {
    at: jiff::Timestamp,
    level: LogLevel,
    target: String,
    message: String,
    fields: Map<String, Value>,
}

/// The buffer between the agent's events and its tunnel. Cheap to clone; clones share it.
#[derive(Clone, Debug)]
pub struct Forward {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    enabled: bool,
    lines: Mutex<Lines>,
    news: Notify,
}

#[derive(Debug, Default)]
struct Lines {
    waiting: VecDeque<Line>,
    /// Dropped since the last line that went out.
    dropped: u64,
    /// Dropped ever.
    dropped_ever: u64,
}

impl Forward {
    /// A buffer; `off` keeps nothing.
    pub fn new(level: &str) -> Self {
        let lines = Mutex::default();
        Self { shared: Arc::new(Shared { enabled: level != "off", lines, news: Notify::new() }) }
    }

    /// What collects events into it.
    pub fn layer(&self) -> ForwardLayer {
        ForwardLayer(self.clone())
    }

    /// The next lines as frames, at most `most`. A frame about lost lines comes before the line that follows the gap.
    pub(crate) fn take(&self, agent: &str, most: usize) -> Vec<String> {
        let mut lines = self.shared.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let mut frames = Vec::new();
        let dropped = std::mem::take(&mut lines.dropped);
        if dropped > 0 {
            let fields = Map::from_iter([("dropped".to_owned(), Value::from(dropped))]);
            let message = "dropped log lines while the tunnel was down".to_owned();
            let at = lines.waiting.front().map_or_else(jiff::Timestamp::now, |line| line.at);
            let gap = Line { at, level: LogLevel::Warn, target: module_path!().into(), message, fields };
            frames.push(gap.frame(agent));
        }
        let count = most.min(lines.waiting.len());
        frames.extend(lines.waiting.drain(..count).map(|line| line.frame(agent)));
        if lines.waiting.is_empty() {
            lines.waiting.shrink_to(0);
        }
        frames
    }

    /// Resolves when there may be something to take. Cancel-safe.
    pub(crate) async fn news(&self) {
        self.shared.news.notified().await;
    }

    /// Has [`Self::news`] resolve once more: not everything was taken.
    pub(crate) fn remind(&self) {
        self.shared.news.notify_one();
    }

    /// How many lines were dropped ever.
    pub(crate) fn dropped_ever(&self) -> u64 {
        self.shared.lines.lock().unwrap_or_else(PoisonError::into_inner).dropped_ever
    }

    fn push(&self, line: Line) {
        {
            let mut lines = self.shared.lines.lock().unwrap_or_else(PoisonError::into_inner);
            if lines.waiting.len() >= MAX_LINES {
                lines.waiting.pop_front();
                lines.dropped += 1;
                lines.dropped_ever += 1;
            }
            lines.waiting.push_back(line);
        }
        self.shared.news.notify_one();
    }
}

impl Line {
    fn frame(&self, agent: &str) -> String {
        let at = self.at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let fields = (!self.fields.is_empty()).then(|| to_raw_value(&self.fields).ok()).flatten();
        frame::log(agent, &at, self.level, &self.target, &self.message, fields.as_deref())
    }
}

/// Collects events.
#[derive(Debug)]
pub struct ForwardLayer(Forward);

impl<S: Subscriber> Layer<S> for ForwardLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if !self.0.shared.enabled {
            return;
        }
        let mut parts = Parts::default();
        event.record(&mut parts);
        let metadata = event.metadata();
        let level = match *metadata.level() {
            tracing::Level::ERROR => LogLevel::Error,
            tracing::Level::WARN => LogLevel::Warn,
            tracing::Level::INFO => LogLevel::Info,
            tracing::Level::DEBUG => LogLevel::Debug,
            tracing::Level::TRACE => LogLevel::Trace,
        };
        let Parts { message, fields } = parts;
        let target = metadata.target().to_owned();
        self.0.push(Line { at: jiff::Timestamp::now(), level, target, message, fields });
    }
}

#[derive(Default)]
struct Parts {
    message: String,
    fields: Map<String, Value>,
}

impl Parts {
    fn add(&mut self, field: &Field, value: Value) {
        if self.fields.len() < MAX_FIELDS {
            self.fields.insert(field.name().to_owned(), value);
        }
    }
}

impl Visit for Parts {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = clip(&format!("{value:?}"));
        if field.name() == "message" { self.message = text } else { self.add(field, text.into()) }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" { self.message = clip(value) } else { self.add(field, clip(value).into()) }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value.into());
    }
}

fn clip(text: &str) -> String {
    text.chars().take(MAX_TEXT).collect()
}

#[cfg(test)]
mod tests {
    use convoke_kenny::frame::AgentFrame;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    fn logged(log: impl FnOnce()) -> Forward {
        let forward = Forward::new("info");
        let subscriber = tracing_subscriber::registry().with(forward.layer());
        tracing::subscriber::with_default(subscriber, log);
        forward
    }

    #[test]
    fn an_event_becomes_the_contracts_frame() {
        let forward = logged(|| tracing::warn!(error = "reset", backoff_secs = 4, "tunnel error; backing off"));
        let frames = forward.take("pc-1", 10);
        let Ok(AgentFrame::Log(log)) = AgentFrame::decode(&frames[0]) else { panic!("{frames:?}") };
        assert_eq!((log.level, &*log.message, &*log.agent_id), (LogLevel::Warn, "tunnel error; backing off", "pc-1"));
        let frame: Value = serde_json::from_str(&frames[0]).expect("JSON");
        assert_eq!(frame["fields"], serde_json::json!({ "error": "reset", "backoff_secs": 4 }));
        let bare = logged(|| tracing::info!("plain")).take("pc-1", 10);
        assert!(!bare[0].contains("fields"), "{bare:?}");
    }

    #[test]
    fn the_oldest_are_dropped_and_the_gap_is_told() {
        let forward = logged(|| {
            for number in 0..MAX_LINES + 10 {
                tracing::info!(number, "event");
            }
        });
        let frames = forward.take("pc-1", 2);
        assert_eq!(frames.len(), 3);
        assert!(frames[0].contains(r#""dropped":10"#), "{}", frames[0]);
        assert!(frames[1].contains(r#""number":10"#), "{}", frames[1]);
        assert_eq!((forward.take("pc-1", 1000).len(), forward.dropped_ever()), (MAX_LINES - 2, 10));
        assert!(forward.take("pc-1", 1000).is_empty());
    }

    #[test]
    fn long_texts_are_cut() {
        let forward = logged(|| tracing::info!(text = "ü".repeat(100_000), "{}", "x".repeat(100_000)));
        assert!(forward.take("pc-1", 1)[0].len() < 8000);
    }
}
