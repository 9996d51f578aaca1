//! kenny agents, as the gate sees them.

use std::time::Duration;

use async_trait::async_trait;
use convoke_core::effect::Effect;
use convoke_core::guard::{AppliesTo, Surface};
use convoke_kenny::tools;
use serde_json::Value;

use crate::kenny::{downloads, probes};
use convoke_gate::agents::Agent;
use convoke_gate::calls::{Adapter, Outgoing};
use convoke_gate::hub::Hub;

use crate::Wires;
use convoke_gate::link::Answer;

/// The tools of the catalogue.
#[derive(Debug)]
pub struct KennyAdapter;

#[async_trait]
impl Adapter for KennyAdapter {
    fn check(&self, target: &Agent, tool: &str) -> Result<(), String> {
        probes::check(target, tool)?;
        // Frames of other names would only come back as errors.
        let is_name = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-' || b == b'.';
        match tool.bytes().all(is_name) {
            true => Ok(()),
            false => Err("`tool` of a kenny agent takes letters, digits, `_` and `-`, as in fs_list".into()),
        }
    }

    fn effect(&self, hub: &Hub, target: &Agent, tool: &str) -> Effect {
        if probes::is_probe(tool) { Wires::of(hub).sonde.effect_of(&target.id, tool) } else { tools::effect_of(tool) }
    }

    fn least_timeout(&self, tool: &str) -> Duration {
        tools::least_patience(tool)
    }

    fn surfaces<'a>(&self, tool: &str, args: &'a Value) -> Vec<Surface<'a>> {
        if probes::is_probe(tool) {
            return probes::surfaces(args);
        }
        let surfaces = tools::guard_surfaces(tool, args).into_iter();
        surfaces.filter_map(|(group, text)| Some(Surface { group: AppliesTo::parse(group.name())?, text })).collect()
    }

    async fn send(&self, hub: &Hub, call: &Outgoing<'_>) -> Answer {
        let hub = &Wires::of(hub);
        if probes::is_probe(&call.call.tool) {
            return probes::send(hub, call).await;
        }
        // A link to a binary lives from when its call goes out.
        if call.call.tool == "agent_update"
            && let Ok(args) = serde_json::from_str::<Value>(call.args.get())
            && let Some(address) = args["url"].as_str()
        {
            downloads::activate(hub, address);
        }
        call.through_link(hub, call.timeout).await
    }
}
