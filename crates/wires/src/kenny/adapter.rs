//! kenny agents, as the gate sees them.

use std::time::Duration;

use async_trait::async_trait;
use convoke_core::call::code;
use convoke_core::effect::Effect;
use convoke_core::guard::{Hit, Surface};
use convoke_kenny::policy::FEATURE_POSIX;
use convoke_kenny::tools;
use convoke_kenny::version::ProtocolVersion;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::kenny::{downloads, files, probes};
use crate::{joined, sonde};
use convoke_gate::agents::Agent;
use convoke_gate::calls::adapter::offline;
use convoke_gate::calls::{Adapter, Outgoing};
use convoke_gate::hub::Hub;

use crate::Wires;
use convoke_gate::link::{Answer, Failure};

/// The rule that a refusal names when a call offers an agent a program that is not this hub's.
const UPDATE_LINK: &str = "update_link";
/// Why it is refused.
const NOT_OURS: &str = "agents are updated only from links that this hub makes, with `convoke agents update`";

/// The same for files.
const FILE_LINK: &str = "file_link";

fn is_file_tool(tool: &str) -> bool {
    [tools::FILE_GET, tools::FILE_PUT].contains(&tool)
}

/// The names that are nearest to one that no tool has.
fn instead(tool: &str) -> String {
    let words = |name: &str| name.split(['_', '-', '.']).map(str::to_owned).collect::<Vec<_>>();
    let asked = words(&tool.to_ascii_lowercase());
    let alike = tools::TOOLS.iter().filter(|known| words(known.name).iter().any(|word| asked.contains(word)));
    let names: Vec<_> = alike.map(|known| format!("`{}`", known.name)).take(4).collect();
    match names.is_empty() {
        true => "commands run with `shell_exec`, on Windows with `powershell_exec`".to_owned(),
        false => format!("there is {}", names.join(", ")),
    }
}

/// The tools of the catalogue, probes, and files.
#[derive(Debug)]
pub struct KennyAdapter;

#[async_trait]
impl Adapter for KennyAdapter {
    fn check(&self, target: &Agent, tool: &str) -> Result<(), String> {
        probes::check(target, tool)?;
        if is_file_tool(tool) && !target.state().has_feature(tools::FEATURE_FILES) {
            return Err(format!("agent {} copies no files; its program is another one, or too old", target.id));
        }
        // Frames of other names would only come back as errors.
        let is_name = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-' || b == b'.';
        match tool.bytes().all(is_name) {
            true => Ok(()),
            false => Err("`tool` of a kenny agent takes letters, digits, `_` and `-`, as in fs_list".into()),
        }
    }

    fn check_possible(&self, hub: &Hub, target: &Agent, tool: &str, args: &Value) -> Result<(), String> {
        if probes::is_probe(tool) {
            return joined::check_known(&Wires::of(hub), target, tool);
        }
        if is_file_tool(tool) {
            return Ok(());
        }
        let Some(known) = tools::find(tool) else {
            return Err(format!("`{tool}` is not a tool of kenny agents; {}", instead(tool)));
        };
        tools::validate_args(tool, args)?;
        let (os, version, is_ours, has_shell) = {
            let state = target.state();
            let version = state.protocol_version.as_deref().and_then(|text| text.parse::<ProtocolVersion>().ok());
            let is_ours = state.has_feature(FEATURE_POSIX);
            (state.os, version, is_ours, is_ours || state.has_feature("shell_exec"))
        };
        known.check_machine(os, version, is_ours, has_shell).map_err(|why| format!("agent {}: {why}", target.id))
    }

    fn effect(&self, hub: &Hub, target: &Agent, tool: &str) -> Effect {
        if probes::is_probe(tool) { joined::effect_of(&Wires::of(hub), target, tool) } else { tools::effect_of(tool) }
    }

    fn least_timeout(&self, tool: &str) -> Duration {
        tools::least_patience(tool)
    }

    fn surfaces<'a>(&self, tool: &str, args: &'a Value) -> Vec<Surface<'a>> {
        if probes::is_probe(tool) {
            return probes::surfaces(args);
        }
        tools::guard_surfaces(tool, args)
    }

    fn contents(&self, hub: &Hub, target: &Agent, tool: &str, args: &Value) -> Vec<String> {
        // Its own tunnel checks what probes read; of its second tunnel only ours does.
        if probes::is_probe(tool) {
            let second = joined::second(&Wires::of(hub), target);
            return second.map(|second| sonde::adapter::contents(Some(&second), args)).unwrap_or_default();
        }
        tools::contents(tool, args).into_iter().map(str::to_owned).collect()
    }

    /// An agent runs what `agent_update` names, as its own user: a caller must not choose the address. Neither may they
    /// choose where files go to and come from.
    fn restriction(&self, hub: &Hub, target: &Agent, tool: &str, args: &Value) -> Option<Hit> {
        let hub = &Wires::of(hub);
        if probes::is_probe(tool) {
            return joined::restriction(hub, target);
        }
        let address = args.get("url").and_then(Value::as_str);
        let (rule, reason) = match tool {
            "agent_update" if address.and_then(|address| downloads::read(hub, address)).is_none() => {
                (UPDATE_LINK, NOT_OURS)
            }
            tool if is_file_tool(tool) && address.and_then(|address| files::id_of(hub, address)).is_none() => {
                (FILE_LINK, "files go only over links that this hub makes, with `convoke cp`")
            }
            _ => return None,
        };
        Some(Hit { rule: rule.into(), reason: reason.into(), builtin: true })
    }

    fn check_online(&self, hub: &Hub, target: &Agent, tool: &str) -> Result<(), Failure> {
        let is_routed = || probes::is_probe(tool) && joined::route(&Wires::of(hub), target, tool).is_some();
        if target.state().is_online() || is_routed() { Ok(()) } else { Err(offline(target)) }
    }

    /// What was copied.
    fn detail(&self, result: &RawValue) -> Option<Value> {
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Copied {
            size: u64,
            sha256: String,
        }
        // Of a large answer nobody looks for two fields.
        let result = Some(result.get()).filter(|text| text.len() <= 256)?;
        let Copied { size, sha256 } = serde_json::from_str(result).ok()?;
        Some(json!({ "size": size, "sha256": sha256 }))
    }

    async fn send(&self, hub: &Hub, call: &Outgoing<'_>) -> Answer {
        let hub = &Wires::of(hub);
        if probes::is_probe(&call.call.tool) {
            return probes::send(hub, call).await;
        }
        if is_file_tool(&call.call.tool) {
            return files::send(hub, call).await;
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
