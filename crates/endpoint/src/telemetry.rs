//! Snapshots for the hub, at the start and on a timer, and the watch over the kill switch, whose change the hub learns by
//! a snapshot with a fresh `agent` section.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use convoke_kenny::frame::{self, RemoteControl};
use convoke_machine::Machine;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior};

use crate::calls::{Out, Reply};
use crate::fit::{UNTOLD_LIMIT, fit};
use crate::logs::Forward;
use crate::status::now;
use crate::switch::Switch;

/// A tunnel that comes back this soon after a snapshot gets no new one: a flapping line must not cost a collection each.
const FRESH: Duration = Duration::from_secs(60);
/// The wall clock ahead of the steady one by this much since the last look: the machine has slept, or its clock was set.
/// Either way it costs nothing to see whether the hub is still there.
const SLEPT: Duration = Duration::from_secs(15);
/// The version on every surface.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What it takes.
#[derive(Debug)]
pub(crate) struct Telemetry {
    pub(crate) id: String,
    pub(crate) machine: Machine,
    pub(crate) own: Own,
    pub(crate) interval: Duration,
    pub(crate) poll: Duration,
    /// The tunnel that the hub has let us in through, if there is one.
    pub(crate) links: watch::Receiver<Option<Reply>>,
}

/// How the agent itself does (our own section).
#[derive(Clone, Debug)]
pub(crate) struct Own {
    pub(crate) switch: Switch,
    pub(crate) logs: Forward,
    pub(crate) started: Instant,
}

impl Own {
    /// Its name in a snapshot.
    pub(crate) const NAME: &str = "agent";

    pub(crate) fn section(&self) -> Value {
        let enabled = self.switch.read().is_enabled();
        let summary = if enabled { "remote control is on" } else { "remote control is switched off at this machine" };
        json!({
            "status": "ok",
            "summary": summary,
            "remote_control": enabled,
            "version": VERSION,
            "uptime_s": self.started.elapsed().as_secs(),
            "log_lines_dropped": self.logs.dropped_ever(),
        })
    }
}

/// The last snapshot.
struct Last {
    at: String,
    collected: Instant,
    sections: Map<String, Value>,
}

impl Telemetry {
    /// Runs until the agent ends and drops it.
    pub(crate) async fn run(mut self) {
        let mut last: Option<Last> = None;
        let mut due = Instant::now();
        let mut known = self.own.switch.read();
        let mut tick = tokio::time::interval(self.poll);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut looked = (Instant::now(), SystemTime::now());
        // Takes seconds, during which the switch is watched all the same.
        let mut collection: Option<JoinHandle<Map<String, Value>>> = None;
        loop {
            let link = self.links.borrow_and_update().clone();
            tokio::select! {
                changed = self.links.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    if last.as_ref().is_none_or(|last| last.collected.elapsed() >= FRESH) {
                        due = Instant::now();
                    }
                }
                () = tokio::time::sleep_until(due), if link.is_some() && collection.is_none() => {
                    let machine = self.machine.clone();
                    collection = Some(tokio::spawn(async move { machine.collect(None).await }));
                }
                sections = ended(&mut collection), if collection.is_some() => {
                    collection = None;
                    due = Instant::now() + self.interval;
                    if let Some(sections) = sections {
                        let kept = last.insert(Last { at: now(), collected: Instant::now(), sections });
                        self.push(&kept.at, &kept.sections).await;
                    }
                }
                _ = tick.tick() => {
                    let slept = has_slept(&mut looked);
                    let stands = self.own.switch.read();
                    if stands != known {
                        known = stands;
                        told(stands);
                        match &last {
                            Some(last) => self.push(&last.at, &last.sections).await,
                            // Nothing collected yet: that alone, since it matters now.
                            None => self.push(&now(), &Map::new()).await,
                        }
                    }
                    if let Some(link) = link.filter(|_| slept) {
                        let _ = link.queue.push(Out::Probe);
                    }
                }
            }
        }
    }

    async fn push(&self, at: &str, sections: &Map<String, Value>) {
        // The tunnel of now, not the one that was there when the collection began.
        let Some(link) = self.links.borrow().clone() else { return };
        let mut sections = sections.clone();
        sections.insert(Own::NAME.to_owned(), self.own.section());
        // Kenny servers of every version drop larger telemetry, even those that take larger answers.
        let limit = link.limit.min(UNTOLD_LIMIT);
        // Room for what stands around the snapshot beyond what stands around a result.
        let Ok(text) = fit(Value::Object(sections), limit.saturating_sub(self.id.len() + 64)) else {
            tracing::warn!("dropped a snapshot that is too large for this hub");
            return;
        };
        let frame = encode(&self.id, at, &text);
        // The tunnel may have ended meanwhile; the next one gets its own.
        let _ = link.queue.send(Out::Frame(frame)).await;
    }
}

/// The end of a collection; nothing if it failed as a whole.
async fn ended(collection: &mut Option<JoinHandle<Map<String, Value>>>) -> Option<Map<String, Value>> {
    match collection {
        Some(running) => running.await.ok(),
        None => std::future::pending().await,
    }
}

fn encode(id: &str, at: &str, snapshot: &str) -> String {
    let parsed: Map<String, Value> = serde_json::from_str(snapshot).unwrap_or_default();
    let raw = |value: &Value| to_raw_value(value).ok();
    let sections: Vec<(&String, Box<RawValue>)> =
        parsed.iter().filter_map(|(name, value)| Some((name, raw(value)?))).collect();
    frame::telemetry(id, at, &sections)
}

fn told(stands: RemoteControl) {
    if stands.is_enabled() {
        tracing::warn!("remote control was switched on at this machine");
    } else {
        tracing::warn!("remote control was switched off at this machine");
    }
}

/// Whether the wall clock has run ahead of the steady one. Set back, it says nothing, and no timer here looks at it.
fn has_slept(looked: &mut (Instant, SystemTime)) -> bool {
    let (steady, wall) = (looked.0.elapsed(), looked.1.elapsed().unwrap_or_default());
    *looked = (Instant::now(), SystemTime::now());
    wall > steady + SLEPT
}

/// Shares the state of the tunnel with whoever sends through it.
#[derive(Debug)]
pub(crate) struct Links {
    sender: Arc<watch::Sender<Option<Reply>>>,
}

impl Links {
    pub(crate) fn new() -> (Self, watch::Receiver<Option<Reply>>) {
        let (sender, receiver) = watch::channel(None);
        (Self { sender: Arc::new(sender) }, receiver)
    }

    /// The hub has let us in.
    pub(crate) fn up(&self, reply: Reply) {
        self.sender.send_replace(Some(reply));
    }

    /// The tunnel is gone.
    pub(crate) fn down(&self) {
        self.sender.send_replace(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleep_is_noticed_and_a_clock_that_is_set_back_is_not_sleep() {
        let hour = Duration::from_secs(3600);
        let looked = |wall: SystemTime| has_slept(&mut (Instant::now(), wall));
        assert!(!looked(SystemTime::now()));
        assert!(looked(SystemTime::now() - hour), "the wall clock went on for an hour, and we did not");
        assert!(!looked(SystemTime::now() + hour), "the clock was set back by an hour");
    }
}
