//! A snapshot that an agent pushed: judged, shown, kept.

use std::ops::Range;

use convoke_core::event::Event;
use convoke_core::time::Timestamp;
use convoke_kenny::frame::{AgentFrame, Telemetry};
use convoke_store::{HealthRow, Lossy, SnapshotRow};

use super::live::Tunnel;
use convoke_gate::agents::budget::Taken;
use convoke_gate::clock;
use convoke_gate::fleet;

impl Tunnel<'_> {
    /// Whether one more snapshot is taken in this minute: each is judged and written, and one agent must not keep the
    /// hub busy nor fill its disk.
    pub(super) async fn may_push(&mut self) -> bool {
        let per_minute = self.hub.settings.kenny.snapshots_per_minute;
        let now_ms = clock::now().millis();
        match self.hub.budgets.ask(&self.agent.id, |budget| &mut budget.snapshots, per_minute, now_ms) {
            // How many were dropped is a number of the metrics; that some were was said.
            Taken::Yes | Taken::After(_) => return true,
            Taken::FirstNo => {
                let why = "more snapshots than kenny.snapshots_per_minute; only the newest of this minute is kept";
                self.complain(why.to_owned()).await;
            }
            Taken::No => {}
        }
        false
    }

    /// Holds a frame with a snapshot beyond the limit: it may be the newest for long. The one before it is dropped.
    pub(super) fn hold(&mut self, frame: String) {
        if self.held.replace((minute_of(clock::now()), frame)).is_some() {
            self.hub.metrics.dropped("snapshots", 1);
        }
    }

    /// A newer one was taken.
    pub(super) fn drop_held(&mut self) {
        if self.held.take().is_some() {
            self.hub.metrics.dropped("snapshots", 1);
        }
    }

    /// Takes what is held, once its minute is over, or now because the tunnel ends.
    pub(super) async fn take_held(&mut self, ends: bool) {
        let now = minute_of(clock::now());
        if !self.held.as_ref().is_some_and(|(minute, _)| ends || *minute != now) {
            return;
        }
        // Of the new minute it uses a share; what is held by the end of a tunnel was paid for by a connection.
        if !ends && !self.may_push().await {
            return;
        }
        let Some((_, frame)) = self.held.take() else { return };
        let Ok(AgentFrame::Telemetry(telemetry)) = AgentFrame::decode(&frame) else { return };
        let snapshot = self.judge(&telemetry);
        let body = position(&frame, telemetry.body.get());
        self.keep_snapshot(snapshot, cut(frame, body)).await;
    }

    /// Judges a snapshot and shows what came of it. Answers what is to be kept, but for the body, and how its agent's health
    /// changed.
    pub(super) fn judge(&self, telemetry: &Telemetry<'_>) -> (SnapshotRow, Option<HealthRow>) {
        let now = clock::now();
        let os = self.agent.state().os;
        let verdict = fleet::judge(telemetry.snapshot.iter().map(|(name, raw)| (&**name, *raw)), os, now);
        let changed = self.hub.agents.show(self.agent, &verdict, now);
        let noted = self.hub.health.note(&self.agent.id, verdict.overall, &verdict.sections, changed, now);
        noted.worse.into_iter().for_each(|finding| self.hub.events.publish(Event::Finding(finding)));
        self.hub.metrics.snapshots.inc();
        let snapshot = SnapshotRow {
            id: 0,
            agent: self.agent.id.clone(),
            collected_at: telemetry.collected_at.to_string(),
            received_at: now,
            body: String::new(),
            health: verdict.health,
        };
        (snapshot, noted.row)
    }

    /// Keeps a snapshot; waits while the store has more to write than it can hold.
    pub(super) async fn keep_snapshot(
        &mut self,
        (mut snapshot, health): (SnapshotRow, Option<HealthRow>),
        body: String,
    ) {
        if let Some(health) = health
            && let Err(why) = self.hub.store.enqueue(Lossy::Health(health)).await
        {
            tracing::error!(agent = %self.agent.id, %why, "cannot store a change of health");
        }
        snapshot.body = body;
        if let Err(why) = self.hub.store.enqueue(Lossy::Snapshot(snapshot)).await {
            self.hub.metrics.dropped("snapshots", 1);
            tracing::error!(agent = %self.agent.id, %why, "cannot store a snapshot");
        }
    }
}

fn minute_of(now: Timestamp) -> i64 {
    now.millis().div_euclid(60_000)
}

/// Where in a frame a part of it lies.
pub(super) fn position(frame: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr().addr() - frame.as_ptr().addr();
    start..start + part.len()
}

/// Makes a frame into the part of it at `position`, in the frame's own memory: a fleet that comes back pushes all its
/// snapshots at once, and each of them is held until the store has room for it.
pub(super) fn cut(mut frame: String, position: Range<usize>) -> String {
    frame.truncate(position.end);
    frame.drain(..position.start);
    if frame.capacity() > frame.len() + frame.len() / 4 {
        frame.shrink_to_fit();
    }
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_cut_out_of_its_frame() {
        let frame = format!("{{\"kind\":\"grün\",\"snapshot\":{},\"v\":1}}", "x".repeat(1000));
        let memory = frame.as_ptr();
        let part = &frame[frame.find('x').expect("there")..=frame.rfind('x').expect("there")];
        let position = position(&frame, part);
        let body = cut(frame, position);
        assert_eq!(body, "x".repeat(1000));
        assert_eq!(body.as_ptr(), memory, "nothing was copied elsewhere");
    }

    #[test]
    fn a_small_part_does_not_keep_a_large_frame() {
        let frame = format!("{{}}{}", " ".repeat(1 << 20));
        let position = position(&frame, &frame[..2]);
        let body = cut(frame, position);
        assert_eq!((body.as_str(), body.capacity()), ("{}", 2));
    }
}
