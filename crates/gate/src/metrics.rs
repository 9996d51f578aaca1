//! Numbers for `/metrics`, in Prometheus' text format. One registry per hub, no global state.

use std::sync::atomic::AtomicU64;

use convoke_core::effect::Effect;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::{encode, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::part::{self, Parts};

/// The outcome of a call that went well.
const OK: &str = "ok";

/// Labels of a call: few and bounded (an agent's own odd codes are counted as `other`).
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct CallLabels {
    /// `ok` or a code.
    pub outcome: &'static str,
    /// `observe`, `interact`, `manage`.
    pub effect: &'static str,
}

/// Labels of something dropped.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct DropLabels {
    /// What.
    pub what: &'static str,
}

/// Labels of a door's refusals.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct RefusalLabels {
    /// Which door.
    pub door: &'static str,
    /// `stranger` or `known`.
    pub caller: &'static str,
}

/// The hub's counters.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// Calls by outcome and effect.
    pub calls: Family<CallLabels, Counter>,
    /// From the door to the answer, in seconds.
    pub call_seconds: Histogram,
    /// Handshakes that succeeded.
    pub handshakes: Counter,
    /// Snapshots taken.
    pub snapshots: Counter,
    /// Log lines taken.
    pub log_lines: Counter,
    /// What was dropped.
    pub drops: Family<DropLabels, Counter>,
    /// What was refused.
    pub refusals: Family<RefusalLabels, Counter>,
    /// Connections accepted.
    pub connections: Counter,
}

/// Numbers that are read when someone asks.
#[derive(Clone, Debug, Default)]
pub struct Gauges {
    /// Agents known.
    pub agents: usize,
    /// Agents with a link.
    pub links: usize,
    /// Calls under way.
    pub calls_running: usize,
    /// Calls that wait for a person.
    pub calls_waiting: usize,
    /// Bytes of large answers that are held.
    pub answer_bytes_held: usize,
    /// Commands that wait on links.
    pub link_queue: usize,
    /// Writes that wait for the disk.
    pub store_queue: usize,
    /// Commits.
    pub store_commits: u64,
    /// Writes in them.
    pub store_writes: u64,
    /// Writes that nobody waited for and that the disk did not take.
    pub store_lost: u64,
    /// Whether the disk takes nothing now.
    pub store_failing: bool,
    /// Last record.
    pub journal_seq: u64,
    /// Open connections.
    pub connections_open: usize,
    /// Those of the parts beside the gate.
    pub parts: Vec<part::Gauge>,
}

impl Metrics {
    /// The gate's counters, and those of the parts beside it.
    pub fn new(parts: &Parts) -> Self {
        let mut registry = Registry::with_prefix("convoke");
        let buckets =
            [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];
        let metrics = Self {
            registry: Registry::default(),
            calls: Family::default(),
            call_seconds: Histogram::new(buckets),
            handshakes: Counter::default(),
            snapshots: Counter::default(),
            log_lines: Counter::default(),
            drops: Family::default(),
            refusals: Family::default(),
            connections: Counter::default(),
        };
        // The page shows these from the start, at zero.
        for effect in Effect::ALL {
            drop(metrics.calls.get_or_create(&CallLabels { outcome: OK, effect: effect.name() }));
        }
        registry.register("calls", "Calls by outcome", metrics.calls.clone());
        registry.register("call_seconds", "Seconds from request to answer", metrics.call_seconds.clone());
        registry.register("handshakes", "Handshakes that succeeded", metrics.handshakes.clone());
        registry.register("snapshots", "Telemetry snapshots accepted", metrics.snapshots.clone());
        registry.register("log_lines", "Log lines accepted", metrics.log_lines.clone());
        registry.register("drops", "Things dropped at a limit", metrics.drops.clone());
        registry.register("refusals", "Requests refused", metrics.refusals.clone());
        registry.register("connections", "Connections accepted", metrics.connections.clone());
        for part in parts.iter() {
            part.register(&mut registry);
        }
        Self { registry, ..metrics }
    }

    /// Counts a call. Codes that agents invent do not become labels.
    pub fn call(&self, outcome: &str, effect: Effect, seconds: f64) {
        const KNOWN: &[&str] = &[
            OK,
            "offline",
            "timeout",
            "disconnected",
            "too_large",
            "busy",
            "blocked",
            "disabled",
            "denied",
            "rejected",
            "expired",
            "interrupted",
            "cancelled",
            "internal",
            "not_found",
            "exec_failed",
            "unsupported",
            "bad_args",
            "paused",
        ];
        self.call_seconds.observe(seconds);
        let outcome = KNOWN.iter().find(|k| **k == outcome).copied().unwrap_or("other");
        self.calls.get_or_create(&CallLabels { outcome, effect: effect.name() }).inc();
    }

    /// Counts something dropped.
    pub fn dropped(&self, what: &'static str, count: u64) {
        self.drops.get_or_create(&DropLabels { what }).inc_by(count);
    }

    /// Counts a refusal.
    pub fn refused(&self, door: &'static str, caller: &'static str) {
        self.refusals.get_or_create(&RefusalLabels { door, caller }).inc();
    }

    /// The whole page.
    pub fn render(&self, gauges: &Gauges) -> String {
        let mut page = String::new();
        // Writing to a String does not fail.
        let _ = encode_registry(&mut page, &gauges.registry());
        let _ = encode(&mut page, &self.registry);
        page
    }
}

impl Gauges {
    fn registry(&self) -> Registry {
        let mut registry = Registry::with_prefix("convoke");
        let size = |value: usize| value as u64;
        let gauges = [
            ("agents", "Agents known", size(self.agents)),
            ("links", "Agents online", size(self.links)),
            ("calls_running", "Calls under way", size(self.calls_running)),
            ("calls_waiting", "Calls that wait for a person", size(self.calls_waiting)),
            (
                "answer_bytes_held",
                "Bytes of large answers in memory (each counted twice), for callers or only kept",
                size(self.answer_bytes_held),
            ),
            ("link_queue", "Frames waiting in links' queues", size(self.link_queue)),
            ("store_queue", "Writes waiting for the disk (journal lag)", size(self.store_queue)),
            ("store_commits", "Transactions committed", self.store_commits),
            ("store_writes", "Writes committed", self.store_writes),
            ("store_lost", "Writes lost because the disk failed", self.store_lost),
            ("store_failing", "1 while the store cannot write", u64::from(self.store_failing)),
            ("journal_seq", "Number of the last journal record", self.journal_seq),
            ("connections_open", "Open connections", size(self.connections_open)),
        ];
        for (name, help, value) in gauges.into_iter().chain(self.parts.iter().copied()) {
            let gauge = Gauge::<u64, AtomicU64>::default();
            gauge.set(value);
            registry.register(name, help, gauge);
        }
        registry
    }
}

/// The same page in Prometheus' older text format, for whoever does not ask for OpenMetrics: there a counter's family has the
/// name that its samples have, and the page has no end mark.
pub fn in_text_format(open_metrics: &str) -> String {
    let mut out = String::with_capacity(open_metrics.len() + 1024);
    let mut help = None;
    for line in open_metrics.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("EOF" | "UNIT"), ..) => {}
            // Its name hangs on the type, which comes after it.
            (Some("#"), Some("HELP"), Some(name), text) => help = Some((name, text.unwrap_or_default())),
            (Some("#"), Some("TYPE"), Some(name), Some(kind)) => {
                let suffix = if kind == "counter" { "_total" } else { "" };
                if let Some((_, text)) = help.take().filter(|(of, _)| *of == name) {
                    out.push_str(&format!("# HELP {name}{suffix} {text}\n"));
                }
                out.push_str(&format!("# TYPE {name}{suffix} {kind}\n"));
            }
            _ => {
                out.push_str(line);
                out.push('\n');
            }
        }
    }
    out
}
