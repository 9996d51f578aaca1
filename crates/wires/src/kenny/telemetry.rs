//! A snapshot that an agent pushed: judged, shown, kept.

use std::ops::Range;

use convoke_core::event::Event;
use convoke_kenny::frame::Telemetry;
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
                let why = "more snapshots than kenny.snapshots_per_minute; dropping the rest of this minute";
                self.complain(why.to_owned()).await;
            }
            Taken::No => {}
        }
        self.hub.metrics.dropped("snapshots", 1);
        false
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
