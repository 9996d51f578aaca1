//! The snapshots that simulated agents push: all 25 sections of the contract, some 6 kB, as a PC sends it that is well
//! but for what PCs commonly have; or of machines of which no two are alike.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::SystemTime;

use convoke_core::time::Timestamp;
use convoke_kenny::frame;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// A snapshot, ready to be framed for any agent.
#[derive(Clone, Debug)]
pub struct Snapshot {
    well: Sections,
    /// The same sections with something to complain of, in the same order.
    unwell: Vec<Box<RawValue>>,
    ailments: Vec<Ailment>,
}

#[derive(Clone, Debug)]
struct Sections(Vec<(String, Box<RawValue>)>);

/// What some machines of a fleet have.
#[derive(Clone, Debug, Deserialize)]
struct Ailment {
    section: String,
    /// One machine in so many has it.
    one_in: u64,
    /// The section of those.
    payload: Box<RawValue>,
}

impl Default for Snapshot {
    fn default() -> Self {
        let well: Sections =
            serde_json::from_str(include_str!("snapshot.json")).expect("the snapshot here is an object");
        let complain = |well: &RawValue| well.get().replacen(r#""status":"ok""#, r#""status":"warn""#, 1);
        let unwell =
            |well: &RawValue| RawValue::from_string(complain(well)).expect("one status for another is still JSON");
        Self {
            unwell: well.0.iter().map(|(_, well)| unwell(well)).collect(),
            well,
            ailments: serde_json::from_str(include_str!("ailments.json")).expect("the ailments here are a list"),
        }
    }
}

impl Ailment {
    /// Whether an agent has it.
    fn befalls(&self, agent_id: &str) -> bool {
        lot(agent_id, &self.section, self.one_in)
    }
}

/// Whether the lot of one in so many falls to an agent: always to the same ones.
fn lot(agent_id: &str, section: &str, one_in: u64) -> bool {
    let mut hasher = DefaultHasher::new();
    (agent_id, section, one_in).hash(&mut hasher);
    hasher.finish().is_multiple_of(one_in)
}

impl Snapshot {
    /// The `telemetry` frame of `agent_id`, collected now.
    pub fn frame(&self, agent_id: &str) -> String {
        frame(
            agent_id,
            self.well.0.iter().map(|(name, well)| {
                let ailment = self.ailments.iter().find(|it| it.section == *name && it.befalls(agent_id));
                (name.as_str(), ailment.map_or(&**well, |it| &*it.payload))
            }),
        )
    }

    /// The frame of an agent that complains of half of its sections, each of others.
    pub fn unlike_frame(&self, agent_id: &str) -> String {
        frame(
            agent_id,
            self.well.0.iter().zip(&self.unwell).map(|((name, well), unwell)| {
                (name.as_str(), if lot(agent_id, name, 2) { &**unwell } else { &**well })
            }),
        )
    }
}

fn frame<'a>(agent_id: &str, sections: impl Iterator<Item = (&'a str, &'a RawValue)>) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let now = Timestamp::from_millis(i64::try_from(now.as_millis()).unwrap_or(i64::MAX));
    frame::telemetry(agent_id, &now.to_string(), &sections.collect::<Vec<_>>())
}

impl<'de> Deserialize<'de> for Sections {
    /// Keeps the sections in their order and as they are written; a map would lose both.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Sections;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object of sections")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Sections, A::Error> {
                let mut sections = Vec::new();
                while let Some(section) = map.next_entry()? {
                    sections.push(section);
                }
                Ok(Sections(sections))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

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

    #[test]
    fn hardly_two_machines_are_alike_if_none_shall_be() {
        let snapshot = Snapshot::default();
        let kinds: BTreeSet<Vec<String>> = (0..1_000)
            .map(|n| {
                let text = snapshot.unlike_frame(&format!("sim-{n:05}"));
                let Ok(AgentFrame::Telemetry(telemetry)) = AgentFrame::decode(&text) else { panic!("not telemetry") };
                let warns = |(_, section): &&(_, &RawValue)| section.get().contains(r#""status":"warn""#);
                telemetry.snapshot.iter().filter(warns).map(|(name, _)| name.to_string()).collect()
            })
            .collect();
        assert!(kinds.len() > 995, "{} kinds of machines", kinds.len());
        let complaints = kinds.iter().map(Vec::len).sum::<usize>() / kinds.len();
        assert!((10..15).contains(&complaints), "{complaints} of 25 sections");
    }

    #[test]
    fn a_fleet_has_what_fleets_have_and_every_machine_always_the_same() {
        let snapshot = Snapshot::default();
        for ailment in &snapshot.ailments {
            assert!(snapshot.well.0.iter().any(|(name, _)| *name == ailment.section), "{}", ailment.section);
            let ill = (0..10_000).filter(|n| ailment.befalls(&format!("sim-{n:05}"))).count() as u64;
            let expected = 10_000 / ailment.one_in;
            assert!((expected / 2..expected * 2).contains(&ill), "{} of {}: {ill}", ailment.section, ailment.one_in);
        }
        let kinds: BTreeSet<Vec<bool>> = (0..10_000)
            .map(|n| snapshot.ailments.iter().map(|it| it.befalls(&format!("sim-{n:05}"))).collect())
            .collect();
        assert!((50..500).contains(&kinds.len()), "{} kinds of machines", kinds.len());
    }
}
