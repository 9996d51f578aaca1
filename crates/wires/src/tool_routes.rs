//! `/api/agents/{id}/tools`: what can be asked of an agent, with schemas from which forms are made.

use axum::extract::State;
use convoke_api::tools::{ToolList, ToolView};
use convoke_core::effect::Effect;
use convoke_core::id::Protocol;
use convoke_kenny::tools::{TOOLS, Tool};
use convoke_sonde::manifest::{Manifest, ProbeSpec};
use convoke_sonde::params::{ParamSpec, ParamType};
use serde_json::{Map, Value, json};

use convoke_doors::ApiError;
use convoke_doors::agents::in_reach;
use convoke_doors::extract::{By, Json, PathOf};
use convoke_gate::agents::Agent;

use crate::Wires;
use crate::joined::prober;
use crate::kenny::tools::offered::about;
use crate::sonde::registry::SondeAgent;

#[utoipa::path(get, path = "/api/agents/{id}/tools", params(("id" = String, Path)), responses((status = 200, body = ToolList)), tag = "agents")]
/// List the tools and probes of an agent that whoever asks may call, with schemas of their arguments.
pub async fn tools(
    State(hub): State<Wires>,
    By(caller): By,
    PathOf(id): PathOf<String>,
) -> Result<Json<ToolList>, ApiError> {
    let agent = in_reach(&hub, &caller, &id).await?;
    let mut tools: Vec<_> = if agent.id.protocol() == Protocol::Kenny { of_kenny(&agent) } else { Vec::new() };
    if let Some(prober) = prober(&hub, &agent.id) {
        tools.extend(of_prober(&prober));
    }
    tools.retain(|tool| caller.token.grant.check_tool(tool.effect, &tool.name).is_ok());
    Ok(Json(ToolList { tools }))
}

/// The catalogue's tools that an agent may have, by its system and its protocol version.
fn of_kenny(agent: &Agent) -> Vec<ToolView> {
    let machine = about(&agent.state());
    TOOLS.iter().filter(|tool| tool.is_offered_by(machine)).map(tool_view).collect()
}

fn tool_view(tool: &Tool) -> ToolView {
    ToolView {
        name: tool.name.into(),
        description: tool.doc.into(),
        effect: tool.effect,
        probe: false,
        mutating: tool.mutating,
        destructive: tool.destructive,
        input_schema: tool.input_schema(),
    }
}

/// The probes of the packs that an agent has loaded, and those that it announced by name alone.
fn of_prober(agent: &SondeAgent) -> Vec<ToolView> {
    let state = agent.state();
    let facts = &state.facts;
    let builtin = convoke_sonde::builtin::packs().iter();
    let loaded = |manifest: &&Manifest| facts.packs.iter().any(|pack| pack.name == manifest.name);
    let is_own = |manifest: &&Manifest| facts.manifests.iter().any(|own| own.name == manifest.name);
    let known = facts.manifests.iter().chain(builtin.filter(loaded).filter(|manifest| !is_own(manifest)));
    let mut probes: Vec<_> =
        known.flat_map(|manifest| manifest.probes.iter().map(|probe| probe_view(manifest, probe))).collect();
    for name in &facts.capabilities {
        if !probes.iter().any(|probe| probe.name == *name) {
            probes.push(undescribed(name));
        }
    }
    probes.sort_by(|a, b| a.name.cmp(&b.name));
    probes
}

fn probe_view(manifest: &Manifest, probe: &ProbeSpec) -> ToolView {
    ToolView {
        name: format!("{}.{}", manifest.name, probe.name),
        description: probe.description.clone(),
        effect: probe.capability,
        probe: true,
        mutating: probe.capability > Effect::Observe,
        destructive: false,
        input_schema: schema_of(probe),
    }
}

/// A probe that nobody described may do anything.
fn undescribed(name: &str) -> ToolView {
    ToolView {
        name: name.into(),
        description: String::new(),
        effect: Effect::Manage,
        probe: true,
        mutating: true,
        destructive: true,
        input_schema: json!({ "type": "object" }),
    }
}

fn schema_of(probe: &ProbeSpec) -> Value {
    let properties: Map<_, _> =
        probe.params.iter().map(|(name, param)| (name.clone(), schema_of_param(param))).collect();
    let required: Vec<_> = probe.params.iter().filter(|(_, param)| param.required).map(|(name, _)| name).collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

fn schema_of_param(param: &ParamSpec) -> Value {
    let kind = match param.kind {
        ParamType::String => "string",
        ParamType::Number if param.integer => "integer",
        ParamType::Number => "number",
        ParamType::Boolean => "boolean",
    };
    let mut schema = json!({ "type": kind, "description": param.description });
    let bounds =
        [("minimum", json!(param.minimum)), ("maximum", json!(param.maximum)), ("default", json!(param.default))];
    for (name, value) in bounds.into_iter().filter(|(_, value)| !value.is_null()) {
        schema[name] = value;
    }
    if !param.one_of.is_empty() {
        schema["enum"] = json!(param.one_of);
    }
    schema
}
