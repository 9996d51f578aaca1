//! The snapshot that simulated agents push: all 25 sections of the contract, some 6 kB, as a healthy PC sends it.

use std::time::SystemTime;

use convoke_core::time::Timestamp;
use convoke_kenny::frame;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// A snapshot, ready to be framed for any agent.
#[derive(Clone, Debug)]
pub struct Snapshot(Vec<(String, Box<RawValue>)>);

impl Default for Snapshot {
    fn default() -> Self {
        serde_json::from_str(include_str!("snapshot.json")).expect("the snapshot in this crate is an object")
    }
}

impl Snapshot {
    /// The `telemetry` frame of `agent_id`, collected now.
    pub fn frame(&self, agent_id: &str) -> String {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now = Timestamp::from_millis(i64::try_from(now.as_millis()).unwrap_or(i64::MAX));
        frame::telemetry(agent_id, &now.to_string(), &self.0)
    }
}

impl<'de> Deserialize<'de> for Snapshot {
    /// Keeps the sections in their order and as they are written; a map would lose both.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Sections;
        impl<'de> Visitor<'de> for Sections {
            type Value = Snapshot;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object of sections")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Snapshot, A::Error> {
                let mut sections = Vec::new();
                while let Some(section) = map.next_entry()? {
                    sections.push(section);
                }
                Ok(Snapshot(sections))
            }
        }
        deserializer.deserialize_map(Sections)
    }
}

#[cfg(test)]
mod tests {
    use convoke_kenny::frame::AgentFrame;

    use super::*;

    #[test]
    fn a_hub_reads_all_25_sections_of_some_6_kilobytes() {
        let text = Snapshot::default().frame("sim-00001");
        assert!((5_700..6_300).contains(&text.len()), "{} bytes", text.len());
        let Ok(AgentFrame::Telemetry(telemetry)) = AgentFrame::decode(&text) else { panic!("not telemetry") };
        assert_eq!(telemetry.agent_id, "sim-00001");
        assert_eq!(telemetry.snapshot.len(), 25);
        assert!(Timestamp::parse(&telemetry.collected_at).is_some());
    }
}
