//! kenny agents, as the gate sees them.

use std::time::Duration;

use async_trait::async_trait;
use convoke_core::call::code;
use convoke_core::effect::Effect;
use convoke_core::guard::{AppliesTo, Hit, Surface};
use convoke_kenny::tools;
use serde_json::Value;

use crate::kenny::{downloads, probes};
use convoke_gate::agents::Agent;
use convoke_gate::calls::{Adapter, Outgoing};
use convoke_gate::hub::Hub;

use crate::Wires;
use convoke_gate::link::{Answer, Failure};

/// The rule that a refusal names when a call offers an agent a program that is not this hub's.
const UPDATE_LINK: &str = "update_link";
/// Why it is refused.
const NOT_OURS: &str = "agents are updated only from links that this hub makes, with `convoke agents update`";

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

    fn contents(&self, _: &Hub, _: &Agent, tool: &str, args: &Value) -> Vec<String> {
        tools::contents(tool, args).into_iter().map(str::to_owned).collect()
    }

    /// An agent runs what `agent_update` names, as its own user: a caller must not choose the address.
    fn restriction(&self, hub: &Hub, _: &Agent, tool: &str, args: &Value) -> Option<Hit> {
        let is_foreign = || {
            let address = args.get("url").and_then(Value::as_str);
            address.and_then(|address| downloads::read(&Wires::of(hub), address)).is_none()
        };
        (tool == "agent_update" && is_foreign()).then(|| Hit {
            rule: UPDATE_LINK.into(),
            reason: NOT_OURS.into(),
            builtin: true,
        })
    }

    async fn send(&self, hub: &Hub, call: &Outgoing<'_>) -> Answer {
        let hub = &Wires::of(hub);
        if probes::is_probe(&call.call.tool) {
            return probes::send(hub, call).await;
        }
        // A link to a binary lives from when its call goes out.
        if call.call.tool == "agent_update" {
            let args: Value = serde_json::from_str(call.args.get()).unwrap_or_default();
            let activated = args["url"].as_str().and_then(|address| downloads::activate(hub, address));
            activated.ok_or_else(|| Failure::new(code::BLOCKED, NOT_OURS))?;
        }
        call.through_link(hub, call.timeout).await
    }
}
