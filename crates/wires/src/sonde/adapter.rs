//! Sonde agents, as the gate sees them.

use async_trait::async_trait;
use convoke_core::effect::Effect;
use convoke_core::guard::{Hit, Surface};
use serde_json::Value;

use super::ask;
use super::registry::SondeAgent;
use convoke_gate::agents::Agent;
use convoke_gate::calls::{Adapter, Outgoing};
use convoke_gate::hub::Hub;

use crate::Wires;
use convoke_gate::link::Answer;
use convoke_gate::settings::ChangedAgents;

/// The rule that a record names when a changed agent is not asked: the setting.
const CHANGED_AGENTS: &str = "sonde.changed_agents";

/// The parameters that name a file or folder, by their names or by how they look: a pack of the field's may have any.
fn paths(args: &Value) -> Vec<&str> {
    let params = args.as_object().into_iter().flatten();
    params.flat_map(|(name, value)| texts(value).into_iter().filter(|text| is_path(name, text))).collect()
}

/// The texts of a parameter.
fn texts(value: &Value) -> Vec<&str> {
    let (mut found, mut waiting) = (Vec::new(), vec![value]);
    while let Some(value) = waiting.pop() {
        match value {
            Value::String(text) => found.push(text.as_str()),
            Value::Array(list) => waiting.extend(list),
            Value::Object(map) => waiting.extend(map.values()),
            _ => {}
        }
    }
    found
}

fn is_path(name: &str, text: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let is_named = ["path", "file", "filename", "dir", "directory", "folder"].iter().any(|end| name.ends_with(end));
    let has_drive = text.as_bytes().get(1) == Some(&b':') && text.as_bytes()[0].is_ascii_alphabetic();
    let text = text.trim_start();
    is_named || has_drive || text.starts_with(['/', '\\', '~']) || text.contains("..") || text.starts_with("file:")
}

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

    fn check_possible(&self, hub: &Hub, target: &Agent, probe: &str, _: &Value) -> Result<(), String> {
        Wires::of(hub).sonde.check_known(&target.id, probe)
    }

    fn effect(&self, hub: &Hub, target: &Agent, probe: &str) -> Effect {
        let hub = &Wires::of(hub);
        hub.sonde.effect_of(&target.id, probe)
    }

    fn surfaces<'a>(&self, _: &str, args: &'a Value) -> Vec<Surface<'a>> {
        surfaces(args)
    }

    /// Agents of ours read logs only in folders that their owner allows. Others open what they are told.
    fn contents(&self, hub: &Hub, target: &Agent, _: &str, args: &Value) -> Vec<String> {
        let sonde = Wires::of(hub).sonde.registry.find(&target.id);
        contents(sonde.as_deref(), args)
    }

    fn restriction(&self, hub: &Hub, target: &Agent, _: &str, _: &Value) -> Option<Hit> {
        let hub = &Wires::of(hub);
        hub.sonde.registry.find(&target.id).and_then(|sonde| changed(hub, &sonde))
    }

    async fn send(&self, hub: &Hub, call: &Outgoing<'_>) -> Answer {
        let hub = &Wires::of(hub);
        ask::cached(hub, call, |left| call.through_link(hub, left)).await
    }
}

/// Why a changed agent is not asked, if it is not.
pub fn changed(hub: &Wires, sonde: &SondeAgent) -> Option<Hit> {
    let is_changed = sonde.state().facts.changed.is_some();
    (is_changed && hub.settings.sonde.changed_agents == ChangedAgents::Restrict).then(|| Hit {
        rule: CHANGED_AGENTS.into(),
        builtin: true,
        reason: "the agent's attestation changed; it gets no probes until an operator accepts the change".into(),
    })
}

/// The files that a probe shows: of an agent that checks them itself, none that the hub must look at.
pub fn contents(sonde: Option<&SondeAgent>, args: &Value) -> Vec<String> {
    match sonde.is_some_and(SondeAgent::checks_paths) {
        true => Vec::new(),
        false => paths(args).into_iter().map(str::to_owned).collect(),
    }
}

/// What the guard must see of a probe's parameters.
pub fn surfaces(args: &Value) -> Vec<Surface<'_>> {
    paths(args).into_iter().flat_map(convoke_kenny::tools::path_surfaces).collect()
}
