//! Sonde agents, as the gate sees them.

use async_trait::async_trait;
use convoke_core::effect::Effect;
use convoke_core::guard::{AppliesTo, Hit, Surface};
use serde_json::Value;

use super::ask;
use convoke_gate::agents::Agent;
use convoke_gate::calls::{Adapter, Outgoing};
use convoke_gate::hub::Hub;

use crate::Wires;
use convoke_gate::link::Answer;
use convoke_gate::settings::ChangedAgents;

/// The rule that a record names when a changed agent is not asked: the setting.
const CHANGED_AGENTS: &str = "sonde.changed_agents";

/// Probes.
#[derive(Debug)]
pub struct SondeAdapter;

#[async_trait]
impl Adapter for SondeAdapter {
    fn check(&self, target: &Agent, tool: &str) -> Result<(), String> {
        // Nobody's probe is named so: it would wait for a person and then ask the agent for what it cannot know.
        match convoke_kenny::tools::find(tool) {
            None => Ok(()),
            Some(_) => Err(format!(
                "`{tool}` is not a probe, and {} is a Sonde agent; ask it with `probe`, as in system.disk.usage",
                target.id
            )),
        }
    }

    fn effect(&self, hub: &Hub, target: &Agent, probe: &str) -> Effect {
        let hub = &Wires::of(hub);
        hub.sonde.effect_of(&target.id, probe)
    }

    fn surfaces<'a>(&self, _: &str, args: &'a Value) -> Vec<Surface<'a>> {
        surfaces(args)
    }

    fn restriction(&self, hub: &Hub, target: &Agent) -> Option<Hit> {
        let hub = &Wires::of(hub);
        let changed = hub.sonde.registry.find(&target.id).is_some_and(|sonde| sonde.state().facts.changed.is_some());
        (changed && hub.settings.sonde.changed_agents == ChangedAgents::Restrict).then(|| Hit {
            rule: CHANGED_AGENTS.into(),
            builtin: true,
            reason: "the agent's attestation changed; it gets no probes until an operator accepts the change".into(),
        })
    }

    async fn send(&self, hub: &Hub, call: &Outgoing<'_>) -> Answer {
        let hub = &Wires::of(hub);
        ask::cached(hub, call, |left| call.through_link(hub, left)).await
    }
}

/// What the guard must see of a probe's parameters.
pub fn surfaces(args: &Value) -> Vec<Surface<'_>> {
    let paths = ["path", "logPath"].into_iter().filter_map(|name| args.get(name)?.as_str());
    paths.map(|text| Surface { group: AppliesTo::Path, text: text.into() }).collect()
}
